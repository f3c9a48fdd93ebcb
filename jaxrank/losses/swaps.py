"""By how much a metric changes when two items of a ranking swap places, in O(1) a pair.

A kernel that is jointly affine in the answers to its questions changes by the sum over its
questions of slope times change of the answer. The recorder gives the slopes; this module gives the
change of each answer, from sums over the ranks above or below an item that are the same for all
its pairs. docs/mathematics.md, "Swaps", derives the changes.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts
from jaxrank._core import recorder
from jaxrank._core.description import Description
from jaxrank._core.ranked import UnansweredError, within
from jaxrank._core.recorder import Slope
from jaxrank._core.ties import survival
from jaxrank._core.types import Cutoff, Discount
from jaxrank.rankings.exact import ExactQuery

# The logarithm of the probability to pass an item at which everyone stops: 0 when alone, and a sum
# of thousands of them is still exact enough for the difference of two.
_WALL = -100.0

Features = tuple[Array, ...]


class Swap(NamedTuple):
  """The change of a metric for any two ranks.

  Attributes:
    change: Of the features of two ranks, the upper first.
    features: `[n]` each, in rank order.
  """

  change: Callable[[Features, Features], Array]
  features: Features


def of_metric(query: ExactQuery, about: Description, **parameters: Any) -> list[Swap]:
  """The swaps of the questions of a metric, whose changes add up to that of the metric.

  Raises:
    ValueError: if the metric is not affine in the answers, or a question has no swap in O(1).
  """
  slopes = recorder.slopes(functools.partial(about.kernel, **parameters), query)
  if slopes is None:
    raise UnansweredError(
      "the metric is not affine in the answers of the ranking, so that the change by a swap is no "
      "sum over its questions; LambdaRank takes metrics that are."
    )
  sign = 1 if about.higher_is_better else -1
  return [swap for slope in slopes for swap in _of_question(query, slope, sign)]


def _of_question(query: ExactQuery, asked: Slope, sign: int) -> list[Swap]:
  (kind, given), slope = asked.question, sign * asked.slope
  if kind == "cascade" and given["stop"].ndim > 1:
    worth = given["stop"] if given["worth"] is None else given["worth"]
    return [
      cascade(query, slope=slope[s], **given | {"stop": given["stop"][:, s], "worth": worth[:, s]})
      for s in range(slope.shape[0])
    ]
  if kind not in _SWAPS:
    raise UnansweredError(f"the change of {kind} by a swap is not known in O(1) a pair.")
  return [_SWAPS[kind](query, slope=slope, **given)]


def discounted(
  query: ExactQuery,
  w: Array,
  discount: Discount,
  k: Cutoff,
  among: Array | None = None,
  slope: Array | int = 1,
) -> Swap:
  """Of `sum w_i discount(r_i)`: `(w_b - w_a) (d_a - d_b)`."""
  if among is not None:
    return _discounted_among(query, w, discount, k, among, slope)
  return _exchanged(query.mean(w), _at_ranks(query, discount, k) * slope)


def _exchanged(w: Array, d: Array) -> Swap:
  """Of `sum_r w_r d_r` when two of the `w` change places."""

  def change(upper: Features, lower: Features) -> Array:
    (w, d), (v, e) = upper, lower
    return (v - w) * (d - e)

  return Swap(change, (w, d))


def _discounted_among(
  query: ExactQuery,
  w: Array,
  discount: Discount,
  k: Cutoff,
  among: Array,
  slope: Array | int,
) -> Swap:
  """Of `sum w_i discount(r_i)`, with ranks among the items of a mask.

  The items between move by one rank if one of the two is of the mask: docs/mathematics.md, "Swaps".
  """

  def worth(rank: Array) -> Array:
    inside = (rank >= 1) & within(rank, k)
    return jnp.where(inside, discount(jnp.maximum(rank, 1)), 0) * slope

  def change(upper: Features, lower: Features) -> Array:
    a, w, _, here, _, fewer, more, _, _ = upper
    b, v, up, there, down, _, _, fewer_above, more_above = lower
    moved = jnp.where(b < a, up, jnp.where(b > a, down, there))
    between = jnp.where(b < a, fewer_above - fewer, jnp.where(b > a, more_above - more, 0))
    return w * (moved - here) + v * (here - there) + between

  member = query.mean(among)
  ahead = jnp.cumsum(member) - member
  w = query.mean(w)
  up, here, down = (worth(ahead + step) for step in (0, 1, 2))
  fewer, more = jnp.cumsum(w * (up - here)), jnp.cumsum(w * (down - here))
  above = (fewer - w * (up - here), more - w * (down - here))
  return Swap(change, (member, w, up, here, down, fewer, more, *above))


def cascade(
  query: ExactQuery,
  stop: Array,
  discount: Discount,
  k: Cutoff,
  worth: Array | None = None,
  slope: Array | int = 1,
) -> Swap:
  """Of `sum w_i discount(r_i) prod (1 - p_j)` over the items `j` ahead of `i`, `w` the worth.

  With the `S`, `M`, `V` and `F` of docs/mathematics.md, "Swaps", the change is
  `S ((w_b - w_a) d_a + (p_a - p_b) (V_a - M F_b) + M d_b ((1 - p_b) w_a - (1 - p_a) w_b))`.
  """

  def change(upper: Features, lower: Features) -> Array:
    p, w, d, reached, _, passed, below, _ = upper
    q, v, e, _, log, _, _, from_here = lower
    between = jnp.exp(log - passed)
    kept = (v - w) * d + (p - q) * (below - between * from_here)
    return reached * (kept + between * e * ((1 - q) * w - (1 - p) * v))

  p, d = query.mean(stop), _at_ranks(query, discount, k) * slope
  w = p if worth is None else query.mean(worth)
  step = jnp.maximum(jnp.log1p(-p), _WALL)
  passed = jnp.cumsum(step)

  def up(below: Array, rank: Any) -> tuple[Array, tuple[Array, Array]]:
    p, worth = rank
    from_here = worth + (1 - p) * below
    return from_here, (below, from_here)

  _, (below, from_here) = lax.scan(up, jnp.zeros_like(p[0]), (p, w * d), reverse=True)
  return Swap(change, (p, w, d, survival(p), passed - step, passed, below, from_here))


def _first(query: ExactQuery, b: Array, discount: Discount, k: Cutoff, slope: Array | int) -> Swap:
  """Of the discount of the first relevant item, where everyone stops."""
  return cascade(query, b, discount, k, slope=slope)


def precision(query: ExactQuery, b: Array, k: Cutoff, slope: Array | int) -> Swap:
  """Of the sum of the precisions at the ranks `r_i <= k` of the relevant items.

  With `H` the hits and `C` the sum of `b / r` down to a rank, `b_b - b_a` times
  `(H_a + b_b) / a - (H_b + b_b) / b + C_b - C_a`.
  """

  def change(upper: Features, lower: Features) -> Array:
    (b, d, hits, sum_), (c, e, hits_there, sum_there) = upper, lower
    return (c - b) * ((hits + c) * d - (hits_there + c) * e + sum_there - sum_)

  b, d = query.mean(b), _at_ranks(query, discounts.reciprocal, k) * slope
  return Swap(change, (b, d, jnp.cumsum(b), jnp.cumsum(b * d)))


def _before(query: ExactQuery, w: Array, slope: Array) -> Swap:
  """Of `sum_i c_i before(w)_i`, with the slopes `c`.

  With `W` and `C` the sums over the ranks between, `(c_a - c_b) W + (w_b - w_a) C + c_a w_b - c_b
  w_a`.
  """

  def change(upper: Features, lower: Features) -> Array:
    (w, c, weights, slopes, _, _), (v, e, _, _, weights_above, slopes_above) = upper, lower
    between = (c - e) * (weights_above - weights) + (v - w) * (slopes_above - slopes)
    return between + c * v - e * w

  w, c = query.mean(w), query.mean(slope)
  sums = jnp.cumsum(w), jnp.cumsum(c)
  return Swap(change, (w, c, *sums, sums[0] - w, sums[1] - c))


def _cumulative(query: ExactQuery, w: Array, slope: Array) -> Swap:
  """Of `sum_r c_r cumulative(w)_r`: every rank counts for itself and all below."""
  return _exchanged(query.mean(w), jnp.cumsum(slope[::-1])[::-1])


def _at_ranks(query: ExactQuery, discount: Discount, k: Cutoff) -> Array:
  rank = jnp.arange(1, query.n + 1, dtype=query.dtype)
  return jnp.where(within(rank, k), discount(rank), 0)


_SWAPS: dict[str, Callable[..., Swap]] = {
  "before": _before,
  "cascade": cascade,
  "cumulative": _cumulative,
  "expect": discounted,
  "first": _first,
  "precision": precision,
}
