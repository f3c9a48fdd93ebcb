"""Sums of powers of 1 to n, for the moments of rank statistics under chance.

They are exact for small `n` and a series for larger ones, so that no table of `n` numbers is
needed.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import looked_up

# Sums of up to this many terms are exact.
_HEAD = 16
_EULER = 0.5772156649015329

# A parabola describes the powers of ranks whose mean is so many times their number.
_NARROW = 20


def harmonic(n: Array) -> Array:
  """`sum 1 / j` over `j <= n`, for whole numbers `n >= 1`.

  >>> print(harmonic(jnp.array([1.0, 2.0, 1e8])))
  [ 1.        1.5      18.997896]
  """
  x = 1 / n
  series = jnp.log(n) + _EULER + x / 2 - x**2 / 12 + x**4 / 120
  return jnp.where(n > _HEAD, series, _exact_sum(n, 1))


def harmonic_squares(n: Array) -> Array:
  """`sum 1 / j^2` over `j <= n`, for whole numbers `n >= 1`.

  >>> print(harmonic_squares(jnp.array([1.0, 2.0, 1e8])))
  [1.       1.25     1.644934]
  """
  x = 1 / n
  series = np.pi**2 / 6 - x + x**2 / 2 - x**3 / 6 + x**5 / 30
  return jnp.where(n > _HEAD, series, _exact_sum(n, 2))


def _exact_sum(n: Array, order: int) -> Array:
  """`sum j^-order` over `j <= n`, for `n` up to `_HEAD`."""
  table = jnp.asarray(np.cumsum(np.arange(1.0, _HEAD + 1) ** -order), n.dtype)
  return looked_up(table, jnp.clip(n, 1, _HEAD).astype(jnp.int32) - 1)


class Power(NamedTuple):
  """Moments of `r^p` for a rank `r` that is uniform on 1 to n, each with a small relative error.

  Attributes:
    log_mean: `log E r^p`.
    variance: `V[r^p] / E[r^p]^2`.
  """

  log_mean: Array
  variance: Array


def power(n: Array, p: Array, first: ArrayLike = 1) -> Power:
  """The moments of `r^p` for one `0 <= p <= 1` and a rank `r` that is uniform on `first` to `n`.

  With many tasks `p` is small and all powers are close to 1, so that their variance would be lost
  in rounding. The sums are therefore those of `v = (j / n)^p - 1` and of its square; from `j = 17`
  on they are computed by the Euler-Maclaurin formula. Its terms cancel where ranks differ by little
  of their size, and the mean is then that of a parabola.

  >>> import jax
  >>> moments = jax.jit(power)(jnp.array(3.0), jnp.array(1.0))
  >>> print(f"{jnp.exp(moments.log_mean):.6f} {moments.variance:.6f}")  # of 1, 2, 3
  2.000000 0.166667
  """
  j = jnp.arange(1, _HEAD + 1, dtype=n.dtype)
  v = jnp.where((j >= first) & (j <= n), jnp.expm1(p * jnp.log(j / n)), 0)
  count, middle = n - first + 1, 0.5 * (first + n)
  # The value of v before the first term of the series, and the factors of the antiderivatives of v
  # and v ** 2.
  m = jnp.maximum(jnp.asarray(first, n.dtype) - 1, _HEAD)
  e = jnp.expm1(p * jnp.log(m / n))
  once, twice = 1 / (p + 1), 1 / ((p + 1) * (2 * p + 1))
  slope = p * (1 + e) / m
  tail = -once * (n * p + m * (e - p)) - e / 2 + (p / n - slope) / 12
  squares = 2 * n * p**2 - m * ((e - p) ** 2 + p**2 + p * e**2)
  tail_squares = twice * squares - e**2 / 2 - e * slope / 6

  def mean(head: Array, tail: Array) -> Array:
    return (jnp.sum(head) + jnp.where(n > m, tail, 0)) / count

  at_middle = jnp.expm1(p * jnp.log(middle / n))
  bend = p * (p - 1) * (count - 1) * (count + 1) / (24 * middle**2)
  narrow = count * _NARROW < middle
  average = jnp.where(narrow, at_middle + (1 + at_middle) * bend, mean(v, tail))
  square = mean(v**2, tail_squares)
  # It can be negative by rounding.
  spread = jnp.maximum(square - average**2, 0)
  return Power(p * jnp.log(n) + jnp.log1p(average), spread / (1 + average) ** 2)
