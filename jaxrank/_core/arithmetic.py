"""Quotients and roots that are safe to differentiate, and conversion to float32 or wider."""

import jax.numpy as jnp
from jax import Array


def safe_divide(x: Array, y: Array) -> Array:
  """`x / y`, and 0 with gradient 0 where `y` is 0.

  >>> print(safe_divide(jnp.array([1.0, 1.0]), jnp.array([2.0, 0.0])))
  [0.5 0. ]
  """
  zero = y == 0
  return jnp.where(zero, 0, x / jnp.where(zero, 1, y))


def safe_sqrt(x: Array) -> Array:
  """`sqrt(x)`, and 0 with gradient 0 where `x` is not positive."""
  positive = x > 0
  return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def floating(x: Array) -> Array:
  """`x` as floats of at least 32 bits."""
  wide = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize >= 4
  return x if wide else x.astype(jnp.float32)


def rounded_up(length: int) -> int:
  """A length rounded up to one of eight in each octave, so that few shapes are compiled for."""
  step = 1 << max((length - 1).bit_length() - 4, 0)
  return max(-(-length // step) * step, 1)


def added(total: Array) -> Array:
  """What each rank adds to a running total, `[n]`: the inverse of a cumulative sum."""
  return jnp.diff(total, prepend=jnp.zeros_like(total[:1]))
