"""The weighted mean and variance of a stream, with an error that does not grow with its length.

Every number is the sum of two float32. A single float32 sum stops growing when it is 2^24 times as
large as a term, and a running mean with the correction `(x - mean) / n` stops changing as early.
The second float keeps what the first one loses by rounding. `Evaluator` keeps these moments in its
state.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core.arithmetic import safe_divide


class Pair(NamedTuple):
  """The unevaluated sum of two floats, `|low| <= ulp(high) / 2`."""

  high: Array
  low: Array


class Moments(NamedTuple):
  """Sums over the weights `w` and the values `x` of a stream; each field is a `Pair` of one shape.

  Attributes:
    weight: `sum w`.
    square: `sum w^2`.
    mean: `sum w x / sum w`.
    spread: `sum w (x - mean)^2`.
  """

  weight: Pair
  square: Pair
  mean: Pair
  spread: Pair


def of(values: Array, weights: Array) -> Moments:
  """The moments over all axes but the last; values of weight 0 are left out, the others finite."""
  axes = tuple(range(values.ndim - 1))
  kept = weights != 0

  def total(x: Array) -> Array:
    return jnp.sum(weights * jnp.where(kept, x, 0), axes, keepdims=True)

  weight, square = total(jnp.ones_like(values)), total(weights)
  mean = safe_divide(total(values), weight)
  rest = safe_divide(total(values - mean), weight)
  spread = total(jnp.square(values - mean)) - weight * jnp.square(rest)
  # The difference for equal values may be rounded to less than 0.
  spread = jnp.maximum(spread, 0)
  out = Moments(_pair(weight), _pair(square), _pair(mean, rest), _pair(spread))
  flat: Moments = jax.tree.map(lambda x: x.reshape(x.shape[-1]), out)
  return flat


def merge(a: Moments, b: Moments) -> Moments:
  """The moments of two streams together (Chan, Golub and LeVeque, 1983)."""
  weight = _add(a.weight, b.weight)
  share = safe_divide(b.weight.high, weight.high)
  gap, rest = _two_sum(b.mean.high, -a.mean.high)
  rest = rest + (b.mean.low - a.mean.low)
  between = jnp.square(gap + rest) * share * a.weight.high
  return Moments(
    weight,
    _add(a.square, b.square),
    _add(a.mean, Pair(gap * share, rest * share)),
    _add(_add(a.spread, b.spread), Pair(between, jnp.zeros_like(between))),
  )


def over(axis: str | tuple[str, ...], x: Moments) -> Moments:
  """The moments of the streams of all devices along a mesh axis together."""

  def total(x: Pair) -> Pair:
    return Pair(*_two_sum(*lax.psum((x.high, x.low), axis)))

  weight = total(x.weight)
  mean = safe_divide(lax.psum(x.weight.high * x.mean.high, axis), weight.high)
  gap = (x.mean.high - mean) + x.mean.low
  rest = safe_divide(lax.psum(x.weight.high * gap, axis), weight.high)
  between = lax.psum(x.weight.high * jnp.square(gap), axis) - weight.high * jnp.square(rest)
  between = jnp.maximum(between, 0)
  spread = _add(total(x.spread), Pair(between, jnp.zeros_like(between)))
  return Moments(weight, total(x.square), Pair(*_two_sum(mean, rest)), spread)


def zeros(shape: tuple[int, ...]) -> Moments:
  """The moments of an empty stream."""

  def nothing() -> Pair:
    return Pair(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))

  return Moments(nothing(), nothing(), nothing(), nothing())


def _pair(x: Array, rest: Array | None = None) -> Pair:
  """`x + rest` as a pair of float32, where `x` may be float64."""
  high = x.astype(jnp.float32)
  low = (x - high.astype(x.dtype)).astype(jnp.float32)
  return Pair(*_two_sum(high, low if rest is None else low + rest.astype(jnp.float32)))


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
  """`x + y` rounded, and the rounding error (Knuth's TwoSum)."""
  total = x + y
  back = total - x
  return total, (x - (total - back)) + (y - back)


def _add(x: Pair, y: Pair) -> Pair:
  high, low = _two_sum(x.high, y.high)
  return Pair(*_two_sum(high, low + (x.low + y.low)))
