"""Thresholds that a given number of items exceeds, softly: `sum_i F((s_i - b) / t) = target`.

The expected ranks say between which two scores the threshold `b` lies, because the sum at `b = s_j`
is `r_j - 1/2`. The items above `b` contribute 1 each, minus a polynomial in `exp(-u)`, with `u` the
distance of `b` from the lowest of them in temperatures; the items below contribute a polynomial in
`exp(-v)`, with `v` the distance from the highest of them. Newton's method solves the equation of
the logarithms, which no gap makes underflow. docs/mathematics.md, "Soft thresholds", derives it.
"""

import functools
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core.decays import distance
from jaxrank._core.pair_sums import polynomial_sums
from jaxrank._core.sorting import take

if TYPE_CHECKING:
  from jaxrank.rankings.expected_rank import ExpectedRankQuery

# The widest distance in temperatures, also that of an item that does not exist.
_WIDEST = 1e30
# The square of the exponential of this is finite in float32.
_MOST_LOG = 40.0

# Steps of Newton's method, and further steps that are differentiated: the first of them makes first
# derivatives exact, and the second one second derivatives. In all of the tried lists, five steps
# together leave an error of rounding in float64.
_STEPS = 3
_EXACT_STEPS = 2


class Thresholds(NamedTuple):
  """Thresholds by their distances from the items that are near them.

  Attributes:
    item: The slot of the item, in the order of the scores.
    above: Whether the item is above the threshold.
    distance: The distance from its score in temperatures, at least 0.
  """

  item: Array
  above: Array
  distance: Array


def for_one(query: "ExpectedRankQuery", target: Array, members: Array) -> Thresholds:
  """The threshold that `target` items of a mask exceed, between 0 and their number, `[1]`."""
  slot = sorting.slots(query.score)
  # Only a comparison needs the ranks, so that they have no slope.
  ahead = members & (query.rank_among(members, fixed=True) - 0.5 < target)
  behind = members & ~ahead
  upper = jnp.maximum(jnp.max(jnp.where(ahead, slot, -1)), 0)
  lower = jnp.minimum(jnp.min(jnp.where(behind, slot, query.n)), query.n - 1)

  def moments(side: Array, upper: Array, lower: Array) -> Array:
    z = jnp.where(side, distance(upper, lower, query.temperature, _WIDEST), 0)
    x = jnp.exp(-_powers(query)[:, None] * z[None])
    return jnp.sum(jnp.where(side[None], x, 0), axis=1, keepdims=True)

  # Also the next items themselves, so that no logarithm is that of 0.
  sides = (
    moments(ahead | (slot == upper), query.score, take(query.score, upper[None])),
    moments(behind | (slot == lower), take(query.score, lower[None]), query.score),
  )
  above, count = (jnp.sum(x, dtype=jnp.int32) for x in (ahead, members))
  return _solved(query, target[None], above[None], count, (upper[None], lower[None]), *sides)


def for_each_rank(query: "ExpectedRankQuery") -> Thresholds:
  """The thresholds for the targets 1/2, 3/2, ..., `[n]`; past the last item, its threshold."""
  # The items above the threshold of rank r are those whose expected rank is below r.
  rank = jnp.floor(query.rank_among(query.retrieved, fixed=True)).astype(jnp.int32)
  passed = jnp.zeros_like(rank).at[rank].add(query.retrieved.astype(jnp.int32), mode="drop")
  count = jnp.sum(query.retrieved, dtype=jnp.int32)
  slot = jnp.minimum(sorting.slots(rank), jnp.maximum(count - 1, 0))
  above = take(jnp.cumsum(passed, dtype=jnp.int32), slot)
  weight = query.retrieved.astype(query.dtype)

  def moments(pair: np.ndarray) -> Array:
    def of_power(power: Array) -> Array:
      return 1 + polynomial_sums(query.score, query.temperature / power, weight, pair)

    sums: Array = jax.vmap(of_power)(_powers(query))
    return sums

  near = jnp.maximum(above - 1, 0), jnp.minimum(above, query.n - 1)
  sides = [take(moments(side), x[None]) for side, x in zip(np.eye(2)[..., None], near, strict=True)]
  return _solved(query, slot.astype(query.dtype) + 0.5, above, count, near, *sides)


def in_scores(query: "ExpectedRankQuery", at: Thresholds) -> Array:
  """The thresholds in units of the scores."""
  moved = query.temperature * at.distance
  return take(query.score, at.item) + jnp.where(at.above, -moved, moved)


def exceeded(query: "ExpectedRankQuery", at: Thresholds) -> Array:
  """`F((s_i - b) / t)` for one threshold, `[n]`."""
  bound = _WIDEST * query.temperature
  z = jnp.clip(query.score - take(query.score, at.item), -bound, bound) / query.temperature
  z += jnp.where(at.above, at.distance, -at.distance)
  # Not the absolute value, whose slope at 0 is 0.
  x = jnp.exp(jnp.where(z > 0, -z, z))
  tail = jnp.zeros_like(x)
  for c in query.series.tail[::-1]:
    tail = (tail + float(c)) * x
  return jnp.where(z > 0, 1 - tail, tail)


def _powers(query: "ExpectedRankQuery") -> Array:
  return jnp.arange(1, query.series.tail.size + 1, dtype=query.dtype)


def _solved(
  query: "ExpectedRankQuery",
  target: Array,
  above: Array,
  count: Array,
  neighbours: tuple[Array, Array],
  upper: Array,
  lower: Array,
) -> Thresholds:
  """Solves the equations of thresholds `[r]` between two neighbours.

  Args:
    query: The query.
    target: `[r]`.
    above: The number of items above each threshold, `[r]`.
    count: The number of items.
    neighbours: The slots of the lowest item above each threshold and of the highest one below it,
      `[r]`; any slot for one that does not exist.
    upper: `sum_j exp(-p z_j)` over the items above, for each power `p`, `[powers, r]`, with the
      distances `z_j` from the lowest of them.
    lower: The same for the items below, with the distances from the highest of them.
  """
  first, second = neighbours
  between = (above > 0) & (above < count)
  # The items near the threshold make up for the difference; those on the other side may not exist.
  missing = target - above.astype(query.dtype)
  near_above = missing < 0
  near, far = (jnp.where(near_above[None], *x) for x in ((upper, lower), (lower, upper)))
  gap = distance(take(query.score, first), take(query.score, second), query.temperature, _WIDEST)
  gap = jnp.where(between, gap, _WIDEST)
  series = jnp.asarray(query.series.tail, query.dtype)[:, None]
  near, far = series * near, series * far
  # Not the absolute value, whose slope at 0 is 0.
  size = jnp.where(near_above, -missing, missing)
  nothing = jnp.where(between, -jnp.inf, 0)
  log_missing = jnp.where(size > 0, jnp.log(jnp.where(size > 0, size, 1)), nothing)

  def excess(
    near: Array, far: Array, gap: Array, size: Array, log_missing: Array, x: Array
  ) -> Array:
    """The logarithm of what the near items contribute, minus that of what they should."""

    def log_tail(moments: Array, x: Array) -> Array:
      # Not a sum over the powers, so that an accelerator takes all steps in one kernel.
      decay, total = jnp.exp(-x), moments[-1]
      for moment in moments[-2::-1]:
        total = total * decay + moment
      return jnp.log(total) - x

    other = log_tail(far, gap - x)
    needed = jnp.logaddexp(log_missing, jnp.where(between, other, -jnp.inf))
    # Around 0 the sum has a derivative by the size, which its logarithm does not have.
    small = other + jnp.log1p(size * jnp.exp(jnp.minimum(-other, _MOST_LOG)))
    # Without items nothing is needed, and any threshold will do.
    at_zero = jnp.where(between, small, log_tail(near, jnp.zeros_like(x)))
    return log_tail(near, x) - jnp.where(size > 0, needed, at_zero)

  def newton(known: tuple[Array, ...], x: Array) -> Array:
    value, slope = jax.jvp(functools.partial(excess, *known), (x,), (jnp.ones_like(x),))
    step: Array = value / slope
    return x - step

  known = near, far, gap, size, log_missing
  fixed = tuple(map(lax.stop_gradient, known))
  x = jnp.zeros_like(fixed[2])
  for _ in range(_STEPS):
    x = jnp.clip(newton(fixed, x), 0, fixed[2])
  for _ in range(_EXACT_STEPS):
    x = newton(known, x)
  return Thresholds(jnp.where(near_above, first, second), near_above, x)
