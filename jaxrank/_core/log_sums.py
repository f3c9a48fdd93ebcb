"""The logarithms of sums of exponentials over the items behind each item."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.decayed_sums import decayed_sums
from jaxrank._core.sorting import take
from jaxrank._core.sums_by_doubling import Schedule

# The items behind each one, with the coefficient 1.
_BEHIND = np.array([0.0, 1.0]).reshape(1, 1, 2, 1)

# Exponents are cut into steps of this size, a power of two, so that no rest of them is rounded.
_STEP = {"float32": 32.0, "float64": 256.0}


class LogSums(NamedTuple):
  """Logarithms of sums of exponentials in two parts, whose sum would round the second one away.

  Attributes:
    top: An exponent near the largest of each sum, without a derivative.
    rest: The logarithm of the sum of exponentials relative to it.
  """

  top: Array
  rest: Array

  def at(self, slot: Array) -> "LogSums":
    """The sums at some slots."""
    return LogSums(take(self.top, slot), take(self.rest, slot))

  def minus(self, z: Array) -> Array:
    """The logarithms minus `z`."""
    return (self.top - z) + self.rest


def log_sums_of_lower(level: Array, z: Array, live: Array, none: float) -> LogSums:
  """`log sum exp(z_j)` over the live items with `level_j < level_i`, `[n]`; `none` if none is.

  It compares all pairs of finite numbers `z`, but takes one exponential for each item only:
  docs/mathematics.md, "Sums over pairs".
  """
  size = _STEP[z.dtype.name]
  step = jnp.floor(lax.stop_gradient(z) / size)
  rest = jnp.exp(z - size * step)
  lower = (level[:, None] < level[None]) & live[:, None]
  top = jnp.max(jnp.where(lower, step[:, None], float(jnp.finfo(z.dtype).min) / size), axis=0)
  # The highest step and the next one; all others are below the rounding errors.
  down = top[None] - step[:, None]
  share = jnp.where(down == 0, 1, jnp.where(down == 1, jnp.asarray(math.exp(-size), z.dtype), 0))
  total = jnp.sum(jnp.where(lower, share * rest[:, None], 0), axis=0)
  some = total > 0
  return LogSums(jnp.where(some, size * top, none), jnp.log(jnp.where(some, total, 1)))


def log_sums(z: Array) -> LogSums:
  """`log sum_{j >= i} exp(z_j)` of finite numbers, `[n]`.

  docs/mathematics.md, "Sums over pairs". `lax.cumlogsumexp` is the same, but its derivative takes
  several times as many operations.
  """
  # The maxima cancel, and have no derivative.
  most = lax.stop_gradient(lax.cummax(z, axis=0, reverse=True))
  w = jnp.exp(z - most)
  # Quarters are exact, and keep the maxima below half of the largest float.
  quarter = jnp.full_like(most, 0.25, shape=())
  behind = decayed_sums(_BEHIND, (quarter * most,), quarter, w[None], Schedule(1))[0]
  return LogSums(most, jnp.log(w + behind))
