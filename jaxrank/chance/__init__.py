"""Moments of metrics over random orders, and values corrected for them.

A random order is uniform over all orders of the retrieved items of a query, without ties; the other
items have no rank. `docs/chance.md` has examples.
"""

from jaxrank.chance.moments import Sampled as Sampled
from jaxrank.chance.moments import adjusted as adjusted
from jaxrank.chance.moments import expected as expected
from jaxrank.chance.moments import sampled as sampled
from jaxrank.chance.moments import std as std
from jaxrank.chance.moments import variance as variance
from jaxrank.chance.moments import z_score as z_score
from jaxrank.chance.shuffled import NoClosedFormError as NoClosedFormError
