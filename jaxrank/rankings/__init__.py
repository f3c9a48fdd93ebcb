"""Rankings: `Exact`, the smooth rankings, and `Sharded` for queries that span devices."""

from jaxrank.rankings.exact import Exact as Exact
from jaxrank.rankings.expected_rank import Laplace as Laplace
from jaxrank.rankings.expected_rank import Logistic as Logistic
from jaxrank.rankings.perturbed import Gaussian as Gaussian
from jaxrank.rankings.perturbed import Gumbel as Gumbel
from jaxrank.rankings.sharded import Sharded as Sharded
