"""Weighted mean and variance of a stream, whose error does not grow with its length.

Numbers are sums of two floats. A running float32 sum stops growing at 2^24 times what is added;
a mean that is corrected by `(x - mean) / n` stops moving as soon. The second float keeps what the
first one drops.
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
  """Weights and values of a stream, each field a `Pair` of float32 of one shape.

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
  """The moments over all axes but the last of finite values; a weight of 0 leaves out."""
  axes = tuple(range(values.ndim - 1))
  kept = weights != 0

  def total(x: Array) -> Array:
    return jnp.sum(weights * jnp.where(kept, x, 0), axes, keepdims=True)

  weight, square = total(jnp.ones_like(values)), total(weights)
  mean = safe_divide(total(values), weight)
  rest = safe_divide(total(values - mean), weight)
  spread = total(jnp.square(values - mean)) - weight * jnp.square(rest)
  out = Moments(_pair(weight), _pair(square), _pair(mean, rest), _pair(spread))
  flat: Moments = jax.tree.map(lambda x: x.reshape(x.shape[-1]), out)
  return flat


def merge(a: Moments, b: Moments) -> Moments:
  """The moments of both streams (Chan, Golub and LeVeque, 1983)."""
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
  """The moments of the streams of all devices along a mesh axis."""

  def total(x: Pair) -> Pair:
    return Pair(*_two_sum(*lax.psum((x.high, x.low), axis)))

  weight = total(x.weight)
  mean = safe_divide(lax.psum(x.weight.high * x.mean.high, axis), weight.high)
  gap = (x.mean.high - mean) + x.mean.low
  rest = safe_divide(lax.psum(x.weight.high * gap, axis), weight.high)
  between = lax.psum(x.weight.high * jnp.square(gap), axis) - weight.high * jnp.square(rest)
  spread = _add(total(x.spread), Pair(between, jnp.zeros_like(between)))
  return Moments(weight, total(x.square), Pair(*_two_sum(mean, rest)), spread)


def zeros(shape: tuple[int, ...]) -> Moments:
  """The moments of nothing."""

  def nothing() -> Pair:
    return Pair(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))

  return Moments(nothing(), nothing(), nothing(), nothing())


def _pair(x: Array, rest: Array | None = None) -> Pair:
  """`x + rest` in float32, also where `x` is wider."""
  high = x.astype(jnp.float32)
  low = (x - high.astype(x.dtype)).astype(jnp.float32)
  return Pair(*_two_sum(high, low if rest is None else low + rest.astype(jnp.float32)))


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
  """`x + y` rounded, and what rounding dropped (Knuth)."""
  total = x + y
  back = total - x
  return total, (x - (total - back)) + (y - back)


def _add(x: Pair, y: Pair) -> Pair:
  high, low = _two_sum(x.high, y.high)
  return Pair(*_two_sum(high, low + (x.low + y.low)))
