"""`confidence_sequence`: intervals of a mean that hold at all times at once."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.arithmetic import floating, safe_divide
from jaxrank.stats import _values

# Bets from 0.9 of the least value down to less than 1e-6 of it, which is the best one for means of
# some 1e12 queries, and the shares of the level that each of them has.
_BETS = 0.9 * 0.5 ** np.arange(21.0)
_SHARES = (2.0 + np.arange(21.0)) ** -1.4
_SHARES = _SHARES / _SHARES.sum()

# Values may be beyond the bounds by so much of their distance, because they are rounded.
_ROUNDING = 2.0**-20


class Bounds(NamedTuple):
  """The ends of intervals.

  Attributes:
    low: The lower end.
    high: The upper end.
  """

  low: Array
  high: Array


def confidence_sequence(
  values: Any,
  *,
  bounds: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
  confidence: ArrayLike = 0.95,
) -> Bounds:
  """Confidence intervals of the mean of bounded values that hold after every query at once.

  With probability `confidence` the mean of the population lies in all of the intervals, so that one
  may look whenever one likes, and stop when an interval leaves a value out. Values need only have
  this mean given those before, as those of queries in random order have.

  The lower end, for values moved to `[0, 1]`, is the largest `m` below the mean `x` of `n` values
  with variance `v` for which one of the bets `b` has
  `n (b (x / m - 1) + (log(1 - b) + b) (v / m^2 + (x / m - 1)^2)) >= log(2 / (s (1 - confidence)))`,
  where the shares `s` of the 21 bets have the sum 1; the upper end is that of `1 - values`. The
  left side is at most the logarithm of the wealth of a gambler who stakes the share `b` on each
  value being more than `m`. If the mean is not more, the wealth is a supermartingale, which reaches
  `c` times its start with probability at most `1 / c` at any time.

  The ends depend on the number, the mean and the variance of the values alone, and not on their
  order. A state of an `Evaluator` has these, and states of devices or of parts of the data may be
  merged, and looked at after each merger.

  >>> values = jax.random.uniform(jax.random.key(0), (2000,))
  >>> interval = confidence_sequence(values)
  >>> for n in (20, 200, 2000):
  ...   print(f"{n}: {interval.low[n - 1]:.2f} to {interval.high[n - 1]:.2f}")
  20: 0.10 to 1.00
  200: 0.42 to 0.59
  2000: 0.47 to 0.52

  Args:
    values: `[..., n]`, in the order in which they came; or a state of an `Evaluator`, with queries
      of one weight, of which all groups count together.
    bounds: The least and the largest value possible. Those of the difference of two values between
      0 and 1 are `(-1, 1)`.
    confidence: Probability that all intervals contain the mean, in [0, 1]; may be traced.

  Returns:
    The ends of the intervals after each value, `[..., n]`, or for a state `[..., measures]`. From a
    NaN among the values on they are NaN. Under `jit` they are NaN where they are an error outside.

  Raises:
    ValueError: if a value is not within the bounds, these are not finite numbers in ascending
      order, queries of a state have different weights, or `confidence` is out of range.
    TypeError: if an argument has a wrong type.

  References:
    Waudby-Smith and Ramdas, `Estimating means of bounded random variables by betting
    <https://doi.org/10.1093/jrsssb/qkad009>`_, 2024; the bound of the logarithm is that of Fan,
    Grama and Liu, `Exponential inequalities for martingales with applications
    <https://doi.org/10.1214/EJP.v20-3496>`_, 2015.
  """
  with checks.named("stats.confidence_sequence"):
    checks.unit_interval("confidence", confidence)
    ends = checked(bounds)
    if hasattr(values, "moments"):
      return of_state(values, *ends, confidence)
    (x,) = batching.replicated(floating(checks.array("values", values)))
    _values.enough("values", x, 1)
    low, high = (jnp.asarray(end, x.dtype) for end in ends)
    known = ~jnp.isnan(x)
    least = jnp.min(x, initial=jnp.inf, where=known)
    _check_within(least, jnp.max(x, initial=-jnp.inf, where=known), low, high)
  return Bounds(*_after_each(x, low, high, 1 - jnp.asarray(confidence, x.dtype)))


def of_state(state: Any, low: ArrayLike, high: ArrayLike, confidence: ArrayLike) -> Bounds:
  """`confidence_sequence` of a state; the bounds may be arrays `[measures]`."""
  sums = _of_state(state)
  dtype, shape = sums.mean.dtype, sums.mean.shape
  first, last = (jnp.broadcast_to(jnp.asarray(end, dtype), shape) for end in (low, high))
  _check_within(sums.least, sums.largest, first, last)
  if checks.is_known(sums.weighted) and bool(jnp.any(sums.weighted)):
    raise ValueError(
      "the queries of the state have different weights, and an interval for all times is that of a "
      "plain mean; leave query_weights out, or look at the fixed interval once, at the end."
    )
  return Bounds(*_of_sums(sums, first, last, 1 - jnp.asarray(confidence, dtype)))


class Sums(NamedTuple):
  """What a confidence sequence needs of values.

  Attributes:
    queries: Their number.
    mean: Their mean.
    variance: Their variance, without Bessel's correction.
    least: The smallest value.
    largest: The largest value.
    weighted: Whether they have different weights.
  """

  queries: Array
  mean: Array
  variance: Array
  least: Array
  largest: Array
  weighted: Array


def checked(bounds: Any) -> tuple[ArrayLike, ArrayLike]:
  """The least and the largest value, which are finite and in ascending order."""
  if not isinstance(bounds, tuple | list) or len(bounds) != 2:
    raise TypeError(
      f"bounds must be the least and the largest value, such as (0, 1), got {checks.told(bounds)}."
    )
  low, high = bounds
  checks.number("bounds", low)
  checks.number("bounds", high)
  known = all(map(checks.is_known, bounds))
  if known and not (math.isfinite(low) and math.isfinite(high) and low < high):
    raise ValueError(
      f"bounds must be two finite numbers in ascending order, got {low} and {high}; pass the least "
      "and the largest value that a query can have."
    )
  return low, high


def _check_within(least: Array, largest: Array, low: Array, high: Array) -> None:
  """Raises `ValueError` if the smallest or the largest value is known to be out of bounds."""
  given = least, largest, low, high
  if not all(map(checks.is_known, given)) or not least.size:
    return
  for smallest, greatest, first, last in np.nditer([*map(np.asarray, given)]):
    slack = _ROUNDING * (last - first)
    if smallest < first - slack or greatest > last + slack:
      wrong = smallest if smallest < first - slack else greatest
      raise ValueError(
        f"values must be within the bounds, {first:g} and {last:g}, got {wrong:g}; pass the least "
        "and the largest value possible as bounds=, which is (-1, 1) for differences of values in "
        "[0, 1]."
      )


def _of_state(state: Any) -> Sums:
  """The sums of a state of an `Evaluator`, all groups together, `[..., measures]`."""
  weight, square, mean, spread = (pair.high + pair.low for pair in state.moments)
  least, largest = state.least, state.largest
  if state.groups is not None:
    total = jnp.sum(weight, -2, keepdims=True)
    middle = safe_divide(jnp.sum(weight * mean, -2, keepdims=True), total)
    spread = jnp.sum(spread + weight * jnp.square(mean - middle), -2)
    weight, square, mean = total[..., 0, :], jnp.sum(square, -2), middle[..., 0, :]
    least, largest = jnp.min(least, -2), jnp.max(largest, -2)
  # Of equal weights, the sum of squares is the square of their sum over their number.
  count = safe_divide(jnp.square(weight), square)
  counted = jnp.sum(state.count, -2, dtype=jnp.uint32) if state.groups is not None else state.count
  counted = counted.astype(weight.dtype)
  weighted = jnp.abs(count - counted) > 1e-6 * counted
  variance = safe_divide(spread, weight)
  return Sums(jnp.round(count), mean, variance, least, largest, weighted)


@jax.jit
def _after_each(x: Array, low: Array, high: Array, level: Array) -> tuple[Array, Array]:
  slack = _ROUNDING * (high - low)
  x = jnp.where((x >= low - slack) & (x <= high + slack), x, jnp.nan)
  known = ~jnp.isnan(x)
  middle = jnp.mean(x, axis=-1, where=known, keepdims=True)
  count = jnp.arange(1, x.shape[-1] + 1, dtype=x.dtype)
  count = jnp.broadcast_to(count, x.shape)
  moved = jnp.cumsum(x - middle, axis=-1) / count
  variance = jnp.cumsum(jnp.square(x - middle), axis=-1) / count - jnp.square(moved)
  return _ends(count, middle + moved, jnp.maximum(variance, 0), low, high, level)


@jax.jit
def _of_sums(sums: Sums, low: Array, high: Array, level: Array) -> tuple[Array, Array]:
  slack = _ROUNDING * (high - low)
  outside = (sums.least < low - slack) | (sums.largest > high + slack) | sums.weighted
  ends = _ends(sums.queries, sums.mean, sums.variance, low, high, level)
  first, second = (jnp.where(outside, jnp.nan, end) for end in ends)
  return first, second


def _ends(
  count: Array, mean: Array, variance: Array, low: Array, high: Array, level: Array
) -> tuple[Array, Array]:
  """The ends of the interval of the mean of values between `low` and `high`."""
  # The values are moved to [0, 1], with some room for those that are rounded.
  width = (high - low) * (1 + 2 * _ROUNDING)
  first, last = (mean - low) / width + _ROUNDING, (high - mean) / width + _ROUNDING
  spread = variance / jnp.square(width)
  below, above = (_lower(count, x, spread, level) for x in (first, last))
  return (
    jnp.maximum(low, low + (below - _ROUNDING) * width),
    jnp.minimum(high, high - (above - _ROUNDING) * width),
  )


def _lower(count: Array, mean: Array, variance: Array, level: Array) -> Array:
  """The lower end of the interval of the mean of values in [0, 1], which is positive.

  With `g = x / m - 1`, the inequality of each bet is quadratic, and its smaller root is taken.
  """
  r = variance / jnp.square(mean)

  def root(bet: float, share: float) -> Array:
    loss = -math.log1p(-bet) - bet
    needed = (jnp.log(2 / level) - math.log(share)) / count
    a, b, c = loss * (r + 1), bet - 2 * loss * r, loss * r + needed
    inside = jnp.square(b) - 4 * a * c
    real = (inside >= 0) & (b > 0)
    return jnp.where(real, 2 * c / (b + jnp.sqrt(jnp.where(real, inside, 0))), jnp.inf)

  roots = (root(float(bet), float(share)) for bet, share in zip(_BETS, _SHARES, strict=True))
  lowest = mean / (1 + functools.reduce(jnp.minimum, roots))
  # Without values there is no lower end, and values that are unknown leave it unknown.
  return jnp.where(count > 0, jnp.where(jnp.isnan(mean + variance), jnp.nan, lowest), 0)
