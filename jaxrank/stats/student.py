"""Tails of the central and noncentral t distribution, as expectations over the deviation.

`T = (Z + shift) / s`, where `Z` is standard normal and `freedom * s^2` is chi-squared. Given `s`,
a tail of `T` is one of `Z`, and the expectation over `s` is an integral over `log s` by the
trapezoidal rule. Its weights are normalised, which needs no gamma function: those of the incomplete
beta function lose all digits of float32 for thousands of queries.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

_NODES = 513

# Nodes stand where the density of `log s` is at least exp(-90) of its largest value, so that even
# the smallest p-values of float32 are precise.
_DEPTH = 90.0


@jax.jit
def two_sided(t: Array, freedom: Array) -> Array:
  """The probability that a t statistic is at least `|t|` in absolute value."""
  s, weight = _deviations(freedom)
  above = jnp.sum(weight * _below(-jnp.abs(t)[..., None] * s), axis=-1)
  return jnp.minimum(2 * above, 1)


def power(shift: Array, level: Array, freedom: Array) -> Array:
  """The probability that a two-sided test at a level rejects, for a noncentral t statistic."""
  s, weight = _deviations(freedom)
  needed = critical(level, freedom)[..., None] * s
  shift = shift[..., None]
  return jnp.sum(weight * (_below(shift - needed) + _below(-shift - needed)), axis=-1)


def critical(level: Array, freedom: Array) -> Array:
  """The value that `|t|` exceeds with probability `level`, by bisection of its logarithm."""

  def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = bounds
    middle = 0.5 * (low + high)
    beyond = two_sided(jnp.exp(middle), freedom) > level
    return jnp.where(beyond, middle, low), jnp.where(beyond, high, middle)

  zero = jnp.zeros_like(level + freedom)
  steps = 60 if zero.dtype.itemsize > 4 else 32
  low, high = lax.fori_loop(0, steps, halve, (zero - 16.0, zero + 64.0))
  return jnp.exp(0.5 * (low + high))


def margin(variance: Array, freedom: ArrayLike, confidence: Array) -> Array:
  """How far the ends of an interval are from an estimate of this variance."""
  level = (1 - confidence).reshape((1,) * variance.ndim)
  steps = critical(level, jnp.full(level.shape, freedom, variance.dtype))
  wide = jnp.where(level > 0, steps, jnp.inf)
  return jnp.where(variance == 0, 0, wide * jnp.sqrt(variance))


@jax.jit
def interval(x: Array, confidence: Array) -> tuple[Array, Array, Array]:
  """The means of values `[..., n]`, and the ends of their intervals."""
  n = x.shape[-1]
  mean = jnp.mean(x, axis=-1)
  wide = margin(jnp.var(x, axis=-1, ddof=1) / n, n - 1, confidence)
  return mean, mean - wide, mean + wide


def _deviations(freedom: Array) -> tuple[Array, Array]:
  """Values of `s` and their probabilities, `[..., nodes]`.

  The logarithm of the density of `u = log s` is `freedom (u - (e^(2u) - 1) / 2)` plus a constant.
  It is at most `-depth` outside of the ends: below, either `-u^2` or `u` bounds the bracket, above,
  `y - log(1 + y) >= y^2 / (2 (1 + y))` for `y = e^(2u) - 1`.
  """
  freedom = freedom[..., None]
  c = _DEPTH / freedom
  low, high = -c - jnp.sqrt(c), 0.5 * jnp.log1p(2 * c + 2 * jnp.sqrt(c * c + c))
  nodes = jnp.linspace(0, 1, _NODES, dtype=freedom.dtype)
  u = low + (high - low) * nodes.reshape(*(1,) * (freedom.ndim - 1), -1)
  weight = jnp.exp(freedom * (u - 0.5 * jnp.expm1(2 * u)))
  # A statistic may be infinite, and its product with a deviation of 0 is no number.
  s = jnp.maximum(jnp.exp(u), jnp.finfo(u.dtype).tiny)
  return s, weight / jnp.sum(weight, axis=-1, keepdims=True)


def _below(z: Array) -> Array:
  """The standard normal distribution function."""
  return 0.5 * lax.erfc(-z * 2**-0.5)
