"""What a metric is worth by chance: its moments over all orders of a query.

Chance is a uniformly random order, without ties, of the items that are retrieved; the others stay
at no rank. `docs/chance.md` works through it.
"""

from jaxrank.chance.against import adjusted, z_score
from jaxrank.chance.moments import Sampled, expected, sampled, std, variance
from jaxrank.chance.shuffled import NoClosedFormError

__all__ = [
  "NoClosedFormError",
  "Sampled",
  "adjusted",
  "expected",
  "sampled",
  "std",
  "variance",
  "z_score",
]
