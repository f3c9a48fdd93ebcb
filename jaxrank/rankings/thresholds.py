"""Thresholds that a given number of items exceeds, softly: `sum_i F((s_i - b) / t) = target`.

The expected ranks say between which two scores the threshold `b` lies, because the sum at `b = s_j`
is `r_j - 1/2`. The items above `b` contribute 1 each, minus a polynomial in `exp(-u)`, with `u` the
distance of `b` from the lowest of them in temperatures; the items below contribute a polynomial in
`exp(-v)`, with `v` the distance from the highest of them. Newton's method solves the equation of
the logarithms, which no gap makes underflow. docs/mathematics.md, "Soft thresholds", derives it.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core._jax import is_zero
from jaxrank._core.batching import whole_batch
from jaxrank._core.decays import distance, polynomial, polynomial_sums
from jaxrank._core.platforms import calling
from jaxrank._core.sorting import take

if TYPE_CHECKING:
  from jaxrank.rankings.expected_rank import ExpectedRankQuery

# The widest distance in temperatures, also that of an item that does not exist.
_WIDEST = 1e30
# The widest one by which the temperature moves an item: its quotient by a temperature is finite.
_WIDE = 1e18
# The square of the exponential of this is finite in float32.
_MOST_LOG = 40.0

# Steps of Newton's method, and further ones that may leave the gap between the neighbours. In all
# of the tried lists, five steps together leave an error of rounding in float64. Where steps are
# differentiated, the first of the last two makes first derivatives exact, and the second one second
# derivatives.
_STEPS = 3
_FREE_STEPS = 2


class Threshold(NamedTuple):
  """A threshold `b`.

  Attributes:
    score: `b`, in units of the scores.
    z: How far each item is above it in temperatures, `(s_i - b) / t`, `[n]`.
  """

  score: Array
  z: Array


def for_one(query: "ExpectedRankQuery", target: Array, members: Array) -> Threshold:
  """The threshold that `target` items of a mask exceed, between 0 and their number."""
  # Only a comparison needs the ranks, so that they have no slope.
  ahead = members & (query.rank_among(members, fixed=True) - 0.5 < target)
  tail = tuple(query.series.tail.tolist())
  static: dict[str, Any] = {"function": _solver(tail), "tail": tail}
  score, z, *_ = _single(query.score, query.temperature, target, ahead, members, **static)
  return Threshold(score, z)


def exceeded(query: "ExpectedRankQuery", at: Threshold) -> Array:
  """`F((s_i - b) / t)`, `[n]`."""
  # Not the absolute value, whose slope at 0 is 0.
  below = polynomial(query.series.tail.tolist(), jnp.exp(jnp.where(at.z > 0, -at.z, at.z)))
  return jnp.where(at.z > 0, 1 - below, below)


def for_each_rank(query: "ExpectedRankQuery") -> Array:
  """The thresholds for the targets 1/2, 3/2, ..., `[n]`; past the last item, its threshold."""
  # The items above the threshold of rank r are those whose expected rank is below r.
  rank = jnp.floor(query.rank_among(query.retrieved, fixed=True)).astype(jnp.int32)
  passed = jnp.zeros_like(rank).at[rank].add(query.retrieved.astype(jnp.int32), mode="drop")
  count = jnp.sum(query.retrieved, dtype=jnp.int32)
  slot = jnp.minimum(sorting.slots(rank), jnp.maximum(count - 1, 0))
  above = take(jnp.cumsum(passed, dtype=jnp.int32), slot)
  weight = query.retrieved.astype(query.dtype)
  tail = tuple(query.series.tail.tolist())

  def moments(pair: np.ndarray) -> Array:
    def of_power(power: Array) -> Array:
      return 1 + polynomial_sums(query.score, query.temperature / power, weight, pair)

    sums: Array = jax.vmap(of_power)(jnp.arange(1, 1 + len(tail), dtype=query.dtype))
    return sums

  near = jnp.maximum(above - 1, 0), jnp.minimum(above, query.n - 1)
  sides = [take(moments(side), x[None]) for side, x in zip(np.eye(2)[..., None], near, strict=True)]
  upper, lower = (take(query.score, x) for x in near)
  gap = distance(upper, lower, query.temperature, _WIDEST)
  missing = slot.astype(query.dtype) + 0.5 - above.astype(query.dtype)
  between = (above > 0) & (above < count)
  equation = _Equation.of(tail, missing, between, gap, *sides)
  fixed = jax.tree.map(lax.stop_gradient, equation)
  x = jnp.zeros_like(fixed.gap)
  for _ in range(_STEPS):
    x = jnp.clip(fixed.newton(x)[0], 0, fixed.gap)
  for _ in range(_FREE_STEPS):
    x = equation.newton(x)[0]
  moved = query.temperature * x
  return jnp.where(missing < 0, upper - moved, lower + moved)


class _Equation(NamedTuple):
  """What the items on both sides of thresholds contribute, for their distances from a near item.

  The items near a threshold make up for the difference between the number of items above it and the
  target; those on the other side may not exist.

  Attributes:
    near: `c_p sum_j exp(-p z_j)` over the items on the near side for each power `p`, `[powers,
      ...]`, with the distances `z_j` from the nearest of them.
    far: The same for the items on the far side.
    between: Whether there are items on both sides.
    gap: The distance between the two items beside the threshold; the widest unless `between`.
    size: What the near items have to contribute without those on the far side.
    log_size: Its logarithm.
  """

  near: Array
  far: Array
  between: Array
  gap: Array
  size: Array
  log_size: Array

  @staticmethod
  def of(
    tail: tuple[float, ...], missing: Array, between: Array, gap: Array, upper: Array, lower: Array
  ) -> "_Equation":
    """The equations of thresholds; the side above is the near one where `missing` is negative.

    Args:
      tail: The coefficients of `F(-z)`.
      missing: The targets less the numbers of items above.
      between: Whether there are items on both sides.
      gap: The distances of the items beside the thresholds from each other.
      upper: `sum_j exp(-p z_j)` over the items above, `[powers, ...]`.
      lower: The same over the items below.
    """
    series = jnp.asarray(tail, gap.dtype).reshape((-1,) + (1,) * gap.ndim)
    # Not the absolute value, whose slope at 0 is 0.
    size = jnp.where(missing < 0, -missing, missing)
    nothing = jnp.where(between, -jnp.inf, 0)
    return _Equation(
      series * jnp.where(missing[None] < 0, upper, lower),
      series * jnp.where(missing[None] < 0, lower, upper),
      between,
      jnp.where(between, gap, _WIDEST),
      size,
      jnp.where(size > 0, jnp.log(jnp.where(size > 0, size, 1)), nothing),
    )

  def excess(self, x: Array) -> tuple[Array, Array]:
    """The logarithm of what the near items contribute, minus that of what they should.

    Also the logarithm of the quotient of the densities beside the nearest item of each side for
    which both sides contribute the same.
    """
    own, other = _log_tail(self.near, x), _log_tail(self.far, self.gap - x)
    needed = jnp.logaddexp(self.log_size, jnp.where(self.between, other, -jnp.inf))
    # Around 0 the sum has a derivative by the size, which its logarithm does not have.
    small = other + jnp.log1p(self.size * jnp.exp(jnp.minimum(-other, _MOST_LOG)))
    # Without items nothing is needed, and any threshold will do.
    at_zero = jnp.where(self.between, small, _log_tail(self.near, jnp.zeros_like(x)))
    even = (own + x) - (other + (self.gap - x))
    return own - jnp.where(self.size > 0, needed, at_zero), even

  def newton(self, x: Array) -> tuple[Array, Array]:
    """A step of Newton's method, and the second result of `excess` before it."""
    value, slope, even = jax.jvp(self.excess, (x,), (jnp.ones_like(x),), has_aux=True)
    step: Array = value / slope
    return x - step, even


def _log_tail(moments: Array, x: Array) -> Array:
  # Not a sum over the powers, so that an accelerator takes all steps in one kernel.
  decay, total = jnp.exp(-x), moments[-1]
  for moment in moments[-2::-1]:
    total = total * decay + moment
  return jnp.log(total) - x


@functools.cache
def _solver(tail: tuple[float, ...]) -> Any:
  return jax.jit(functools.partial(_of_each_list, tail=tail), inline=True)


def _of_each_list(
  score: Array,
  temperature: Array,
  target: Array,
  ahead: Array,
  members: Array,
  *,
  tail: tuple[float, ...],
) -> list[Array]:
  """Thresholds of a whole batch, and what their derivatives are made of.

  Args:
    score: `[..., n]`, descending.
    temperature: `[...]`.
    target: `[...]`, how many members exceed each threshold.
    ahead: `[..., n]`, the members above the threshold.
    members: `[..., n]`, the items that count.
    tail: The coefficients of `F(-z)`.

  Returns:
    The thresholds `[...]`; `z`, as in `Threshold`, `[..., n]`; the densities of the members as
    shares of their sum, `[..., n]`; and one over their sum, `[...]`.
  """
  t, target = temperature[..., None], target[..., None]
  behind = members & ~ahead
  above = jnp.sum(ahead, axis=-1, keepdims=True, dtype=jnp.int32)
  # The scores beside the threshold; any score where there is no item.
  upper = jnp.min(jnp.where(ahead, score, score[..., :1]), axis=-1, keepdims=True)
  lower = jnp.max(jnp.where(behind, score, score[..., -1:]), axis=-1, keepdims=True)
  away = distance(jnp.where(ahead, score, lower), jnp.where(ahead, upper, score), t, _WIDEST)
  away = jnp.where(members, away, 0)
  power = jnp.arange(1, 1 + len(tail), dtype=away.dtype).reshape((-1,) + (1,) * away.ndim)
  x = jnp.where(jnp.stack([ahead, behind])[:, None], jnp.exp(-power * away[None]), 0)
  sides = jnp.sum(x, axis=-1, keepdims=True)
  # Not 0 without items, so that no logarithm is that of 0.
  some = sides[:, 0] > 0
  sides = jnp.where(some[:, None], sides, 1)
  missing = target - above.astype(away.dtype)
  gap = distance(upper, lower, t, _WIDEST)
  equation = _Equation.of(tail, missing, some[0] & some[1], gap, *sides)
  # Not a loop of JAX, so that an accelerator takes all steps in one kernel.
  x = even = jnp.zeros_like(equation.gap)
  for step in range(_STEPS + _FREE_STEPS):
    x, even = equation.newton(x)
    x = jnp.clip(x, 0, equation.gap) if step < _STEPS else x
  near_above = missing < 0
  near = jnp.where(near_above, upper, lower)
  moved = jnp.where(near_above, x, -x)
  bound = _WIDEST * t
  z = jnp.clip(score - near, -bound, bound) / t + moved
  # The logarithms of the densities, plus `x`. Where nothing is missing both sides contribute the
  # same, whatever is lost in their distances.
  lost = jnp.where(equation.size > 0, x - (equation.gap - x), even)
  steep, _ = _steepness(tail, z, ahead, members)
  log_density = jnp.where(ahead == near_above, 0, lost) - away + jnp.log(steep)
  # The largest density is 1, so that the share of an item without others is 1.
  largest = jnp.max(jnp.where(members, log_density, -_WIDEST), axis=-1, keepdims=True)
  density = jnp.where(members, jnp.exp(log_density - largest), 0)
  total = jnp.sum(density, axis=-1, keepdims=True)
  total = jnp.where(total > 0, total, 1)
  seldom = jnp.exp(jnp.minimum(x - largest, _MOST_LOG)) / total
  return [(near - t * moved)[..., 0], z, density / total, seldom[..., 0]]


def _steepness(
  tail: tuple[float, ...], z: Array, ahead: Array, members: Array
) -> tuple[Array, Array]:
  """The densities of the members over `exp(-|z|)`, and that; those of `z = 0` elsewhere."""
  # Not by the sign of `z`, which rounding changes for items on the threshold.
  x = jnp.exp(jnp.where(members, jnp.where(ahead, -z, z), 0))
  first, *others = np.multiply(tail, range(1, 1 + len(tail))).tolist()
  return polynomial(others, x) + first, x


def _single_batch(
  args: Sequence[Array], axes: Sequence[int | None], **static: Any
) -> tuple[Sequence[Array], Sequence[int]]:
  values = _single(*whole_batch(args, axes), **static)
  return values, [0] * len(values)


def _single_jvp(
  primals: Sequence[Array], tangents: Sequence[Any], *, tail: tuple[float, ...], **static: Any
) -> tuple[Sequence[Array], Sequence[Array]]:
  """The derivative of an implicit function: docs/mathematics.md, "Soft thresholds"."""
  values = _single(*primals, tail=tail, **static)
  _, z, share, seldom = values
  _, temperature, _, ahead, members = primals
  by_score, by_temperature, by_target, *_ = tangents
  t = temperature[..., None]

  def mean(x: Array) -> Array:
    return jnp.sum(share * x, axis=-1, keepdims=True)

  # The quotients come first, so that a gradient, which takes the steps in reverse, divides what is
  # exactly 0 for an item that is alone on its threshold.
  moved, centre = jnp.zeros_like(z), 0
  if not is_zero(by_score):
    moved += by_score / t
  if not is_zero(by_temperature):
    # From the mean of the members, so that large numbers do not cancel with rounding errors.
    place = jnp.clip(z, -_WIDE, _WIDE)
    middle, warmer = lax.stop_gradient(mean(place)), by_temperature[..., None] / t
    moved -= (place - middle) * warmer
    centre -= middle * warmer
  by_bound = mean(moved)
  if not is_zero(by_target):
    by_bound -= (seldom * by_target)[..., None]
  by_z = moved - by_bound
  # The logarithm of the density has the slope 1 below the threshold, and less near it.
  steep, x = _steepness(tail, z, ahead, members)
  power = np.arange(1, len(tail))
  more = polynomial((np.multiply(tail[1:], power + 1) * power).tolist(), x)
  by_log = (1 + more / steep) * jnp.where(ahead, -by_z, by_z)
  by_total = mean(by_log)
  return values, [
    temperature * (by_bound + centre)[..., 0],
    by_z,
    share * (by_log - by_total),
    -seldom * by_total[..., 0],
  ]


_single = calling("threshold", _single_batch, _single_jvp)
