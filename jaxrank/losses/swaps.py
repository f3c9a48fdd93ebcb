"""Changes of a metric when two items of a ranking swap ranks, each pair in O(1) time.

`jaxrank.losses.lambdas` uses this module. The value of a kernel that is jointly affine in the
answers to its questions changes by the sum over its questions of slope times change of the answer.
`jaxrank._core.ranked` computes the slopes, and this module computes the changes of the answers.
It needs only sums over the ranks above or below an item, which are the same for all pairs of the
item. docs/mathematics.md, "Swaps", derives the changes.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core import ties
from jaxrank._core.description import Description
from jaxrank._core.ranked import Slope, UnansweredError, slopes_of, within
from jaxrank.rankings.exact import ExactQuery

# The probability to pass an item at which every user stops: negligible, and a number to divide by.
_LEAST = 2.0**-58

Features = tuple[Array, ...]


class Swap(NamedTuple):
  """The change of a value when the items at two ranks change places.

  Attributes:
    change: Function of the features of two ranks, the smaller rank first.
    features: Arrays `[n]` in rank order.
  """

  change: Callable[[Features, Features], Array]
  features: Features


def of_metric(query: ExactQuery, about: Description, /, **parameters: Any) -> list[Swap]:
  """The swaps of the questions of a metric; their changes add up to the change of the metric.

  A positive change is an improvement: the sign is changed if smaller values of the metric are
  better.

  Raises:
    UnansweredError: if the metric is not affine in the answers, or asks a question whose change is
      not known in O(1) time.
  """
  if about.best is not None:
    raise UnansweredError(
      f"the metric is best at {about.best:g}, and LambdaRank needs one that is best at an end of "
      "its range, such as jaxrank.ndcg."
    )
  slopes = slopes_of(functools.partial(about.kernel, **parameters), query)
  if isinstance(slopes, str):
    raise UnansweredError(
      f"the metric {slopes}, and LambdaRank requires one that is affine in the answers; pass one "
      "such as jaxrank.ndcg (the table in docs/metrics.md marks them)."
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
  """The swap of `sum w_i discount(r_i)`: the change is `(w_b - w_a) (d_a - d_b)`."""
  if among is not None:
    return _discounted_among(query, w, discount, k, among, slope)
  return _exchanged(query.mean(w), _at_ranks(query, discount, k) * slope)


def _exchanged(w: Array, d: Array) -> Swap:
  """The swap of `sum_r w_r d_r`, where two of the `w` change places."""

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
  """The swap of `sum w_i discount(r_i)`, with ranks among the items of a mask.

  The items between move by one rank if one of the two is in the mask: docs/mathematics.md, "Swaps".
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
  """The swap of `sum w_i discount(r_i) prod (1 - p_j)`, the product over items `j` ahead of `i`.

  `w` is the worth and `p` the probability to stop, and `s = 1 - p`. With the `D` and `G` of
  docs/mathematics.md, "Swaps", the change is
  `(w_b - w_a) D_a + ((s_b - s_a) (G_a - G_b) - (w_b - w_a) s_b D_b) / s_a`.
  """

  def change(upper: Features, lower: Features) -> Array:
    (s, w, d, below), (r, v, e, further_below) = upper, lower
    return (v - w) * d + ((r - s) * (below - further_below) - (v - w) * r * e) / s

  going = jnp.maximum(1 - query.mean(stop), _LEAST)
  w = query.mean(stop if worth is None else worth)
  d = _at_ranks(query, discount, k) * slope * ties.above(jnp.cumprod(going), 1)
  return Swap(change, (going, w, d, ties.below(lax.cumsum(w * d, reverse=True))))


def _first(query: ExactQuery, b: Array, discount: Discount, k: Cutoff, slope: Array | int) -> Swap:
  """The swap of the discount of the first relevant item, at which every user stops."""
  return cascade(query, b, discount, k, slope=slope)


def precision(
  query: ExactQuery,
  b: Array,
  k: Cutoff,
  slope: Array | int,
  weights: Array | None = None,
  discount: Discount = discounts.reciprocal,
) -> Swap:
  """The swap of `sum_i b_i d_i W_i`, with the sum `W_r` of the weights `w` at the ranks up to `r`.

  With the sum `C_r` of `b d` at the ranks up to `r`, the change is
  `(w_b - w_a) (C_b - C_a + b_b (d_a - d_b)) + (b_b - b_a) (d_a W_a - d_b W_b)`.
  """
  # Not a factor of `d`, so that the questions of several grades share that array.
  factor = lax.stop_gradient(slope)

  def change(upper: Features, lower: Features) -> Array:
    (b, w, d, sum_, q), (c, v, e, further, r) = upper, lower
    return ((v - w) * (further - sum_ + c * (d - e)) + (c - b) * (q - r)) * factor

  d = _at_ranks(query, discount, k)
  b, w = query.mean(b), query.mean(b if weights is None else weights)
  return Swap(change, (b, w, d, jnp.cumsum(b * d), jnp.cumsum(w) * d))


def _before(query: ExactQuery, w: Array, slope: Array) -> Swap:
  """The swap of `sum_i c_i before(w)_i`, with the slopes `c`.

  With the sums `W` and `C` of `w` and `c` over the ranks between `a` and `b`, the change is
  `(c_a - c_b) W + (w_b - w_a) C + c_a w_b - c_b w_a`.
  """

  def change(upper: Features, lower: Features) -> Array:
    (w, c, weights, slopes, _, _), (v, e, _, _, weights_above, slopes_above) = upper, lower
    between = (c - e) * (weights_above - weights) + (v - w) * (slopes_above - slopes)
    return between + c * v - e * w

  w, c = query.mean(w), query.mean(slope)
  sums = jnp.cumsum(w), jnp.cumsum(c)
  return Swap(change, (w, c, *sums, sums[0] - w, sums[1] - c))


def _cumulative(query: ExactQuery, w: Array, slope: Array) -> Swap:
  """The swap of `sum_r c_r cumulative(w)_r`: the weight of a rank counts there and further down."""
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
