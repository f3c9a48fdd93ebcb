"""Exposure: the attention that items and groups of items get, and how fair it is.

A user who reads a ranking from the top gives the item at rank `r` the attention `discount(r)`. The
exposure of an item is its expectation over the orders of the ranking: exact over ties under
`jaxrank.Exact`, exact over the noise under `jaxrank.Gumbel` (Plackett-Luce) and `jaxrank.Gaussian`,
and the attention at the mean rank under `jaxrank.Laplace` and `jaxrank.Logistic`.

The conventions of the metrics of `jaxrank` apply. The metrics have one value per query, and can be
used in `jaxrank.Measure`, `jaxrank.evaluate` and `jaxrank.Evaluator`. Under a smooth ranking they
are differentiable: the loss is one minus the metric, or the metric where lower is better, or
`squared_log` of a ratio that is best at 1.

The ratio of two groups is 0, and its loss and gradient are 0, if the groups cannot be compared: one
has no item, or no utility where that counts. A group that has some and gets no exposure, because
its items are behind the cut-off or not retrieved, is the worst case. Its exact gradient is 0 too.
The ratio of an unseen group 1 is 1e15 in every dtype, so that means and variances over queries are
finite. If group 0 is unseen, or both are, the ratio is the inverse. `squared_log` of both is its
largest value. No ratio is larger, so that the exact one is the limit of smooth ones at temperature
0, as far as their exposures are resolved: those of `jaxrank.Gumbel` in float32 end at about 1.9e11
for two groups of two items, and at 1e13 for two of a hundred. Beyond the bound, smooth ratios keep
the slope of their logarithm, and so does their `squared_log`; exposures below about 1e-20 in
float32 have a part of it that goes to 0.

The arguments that the functions share:

* `scores`: `[..., n]`, higher first; -inf for items that are known but not retrieved, which get no
  exposure.
* `labels`: `[..., n]`; a label below 0 means unjudged, and counts as 0.
* `groups`: the groups of the items, ids `[..., n]` from 0 to `n_groups - 1`, or memberships
  `[..., n, n_groups]`: 0 or 1, or fractions for items that belong to several. An id out of range
  raises `ValueError`, or makes the value of its query NaN if it is traced. Items of no group, or of
  an unknown one, have memberships of 0, as in `jax.nn.one_hot(groups, n_groups)` for an id of -1:
  they keep their ranks, and add to the exposure of no group.
* `n_groups`: the number of groups, an int.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `k`: the last rank that gets attention, which may be traced; None is the whole list.
* `gain`: a function from labels to utilities, by default `jaxrank.gains.linear`, the label itself.
* `discount`: a function from ranks to attention, of `jaxrank.discounts` or any other.
* `ranking`: `jaxrank.Exact()` or a smooth ranking.
"""

from jaxrank.exposure.equity import ee_d, ee_l, ee_r
from jaxrank.exposure.parity import (
  demographic_parity,
  disparate_impact,
  disparate_treatment,
  squared_log,
)
from jaxrank.exposure.representation import awrf, jensen_shannon
from jaxrank.exposure.shares import by_group, expected, target

__all__ = [
  "awrf",
  "by_group",
  "demographic_parity",
  "disparate_impact",
  "disparate_treatment",
  "ee_d",
  "ee_l",
  "ee_r",
  "expected",
  "jensen_shannon",
  "squared_log",
  "target",
]
