"""What a metric is worth by chance: its moments over all orders of a query.

Chance is a uniformly random order, without ties, of the items that are retrieved; the others stay
at no rank. `docs/chance.md` works through it.
"""

from jaxrank.chance.against import adjusted as adjusted
from jaxrank.chance.against import z_score as z_score
from jaxrank.chance.moments import Sampled as Sampled
from jaxrank.chance.moments import expected as expected
from jaxrank.chance.moments import sampled as sampled
from jaxrank.chance.moments import std as std
from jaxrank.chance.moments import variance as variance
from jaxrank.chance.shuffled import NoClosedFormError as NoClosedFormError
