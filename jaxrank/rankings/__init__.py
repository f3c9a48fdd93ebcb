"""Rankings: `Exact`, the smooth rankings, and `Sharded` for candidates spread over devices."""

from jaxrank.rankings.exact import Exact
from jaxrank.rankings.expected_rank import Laplace, Logistic
from jaxrank.rankings.perturbed import Gaussian, Gumbel
from jaxrank.rankings.sharded import Sharded

__all__ = [
  "Exact",
  "Gaussian",
  "Gumbel",
  "Laplace",
  "Logistic",
  "Sharded",
]
