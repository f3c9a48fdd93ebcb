"""Moments of metrics over random orders, and metric values corrected for chance.

A random order is uniform over all orders of the retrieved items of a query, without ties; the other
items have no rank. Moments have a closed form for most metrics, and are otherwise estimated from
random orders if there is a `key`. `docs/chance.md` has examples.

The arguments that the functions share mean the same in all of them, and a function documents only
its own:

* `measures`: a metric or a `jaxrank.Measure`, which give one array `[...]`, or names and lists of
  names, metrics and measures as `jaxrank.evaluate` takes them, which give a dict of such arrays.
* `scores`: `[..., n]`, higher first. Items at -inf are not retrieved.
* `labels`: `[..., n]`, or `[..., n, subtopics]` for metrics of diversity.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `retrieved`: `[..., n]`, boolean, False for items without a rank, as for a score of -inf; None is
  all True.
* `ranking`: the ranking of the value of the metric, exact or smooth. It has no effect on chance.
* `key`: a PRNG key, with which moments without a closed form are estimated; each query draws random
  orders of its own. Closed forms do not use it.
* `samples`: the number of random orders of each query, at least 2, all of which are evaluated at
  once.
* `**parameters`: parameters of a metric, such as `k=10`. Measures and names have their own, and
  parameters beside them raise `TypeError`.

A moment that has no closed form raises `NoClosedFormError` without a `key`. Other wrong arguments
raise `ValueError` or `TypeError`, with a message that starts with the name of the function.
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
