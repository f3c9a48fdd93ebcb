"""Moments of metrics over random orders, and values corrected for them.

A random order is uniform over all orders of the retrieved items of a query, without ties; the other
items have no rank. `docs/chance.md` has examples.
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
