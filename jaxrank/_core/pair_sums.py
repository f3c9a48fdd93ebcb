"""Sums over pairs of functions of score differences, in O(n) time and memory for sorted scores.

The functions are polynomials in `x = exp(-|s_i - s_j| / t)`, or series of such powers: the Laplace
and logistic distribution functions and their logarithms. This module has the series, and
`decayed_sums` adds them up. docs/mathematics.md, "Sums over pairs", derives the error of the
series.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.decayed_sums import decayed_sums
from jaxrank._core.decays import Schedule
from jaxrank._core.sorting import take

# The numbers of powers of x in the series of a logarithm and of the tail: errors of values and
# slopes are below 3e-8 and 3e-7, or 2e-14 and 3e-13, and each power divides them by 3 + sqrt(8):
# docs/mathematics.md, "Sums over pairs".
_POWERS = {"float32": (9, 10), "float64": (20, 20)}

_TOGETHER = Schedule()


class Series(NamedTuple):
  """A symmetric distribution function `F` as polynomials in `x = exp(-z)`, `z >= 0`.

  Coefficients are those of `x, x ** 2, ...`; there is no constant term. docs/mathematics.md, "The
  cascade under expected ranks", explains what each is used for.

  Attributes:
    tail: `F(-z)`.
    log_ahead: `log F(-z) + z - log_scale`.
    log_behind: `log F(z)`.
    log_scale: The limit of `log F(-z) + z` for large `z`.
  """

  tail: np.ndarray
  log_ahead: np.ndarray
  log_behind: np.ndarray
  log_scale: float


@jax.custom_jvp
def normal_tail(v: Array) -> Array:
  """The probability that a standard normal number exceeds `v`.

  It has a derivative of its own, because that of `erfc` fails under `shard_map` in jax 0.12.
  """
  return lax.erfc(v * math.sqrt(0.5)) / 2


@normal_tail.defjvp
def _normal_tail_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  (v,), (dv,) = primals, tangents
  return normal_tail(v), -jnp.exp(-jnp.square(v) / 2) / math.sqrt(2 * math.pi) * dv


def _series(derivative: Callable[..., Any], powers: int) -> np.ndarray:
  """Coefficients of a polynomial without a constant term, from its derivative.

  The derivative is interpolated at Chebyshev nodes of [0, 1]. docs/mathematics.md, "Sums over
  pairs", bounds the error.
  """
  slope = np.polynomial.Chebyshev.interpolate(derivative, powers - 1, domain=[0, 1])
  return slope.integ(lbnd=0).convert(kind=np.polynomial.Polynomial).coef[1:]


@functools.cache
def laplace(dtype: str) -> Series:
  """The Laplace distribution function, `F(-z) = x / 2`."""
  log_behind = _series(lambda x: 1 / (x - 2), _POWERS[dtype][0])
  return Series(np.array([0.5]), np.zeros(1), log_behind, -math.log(2))


@functools.cache
def logistic(dtype: str) -> Series:
  """The logistic distribution function, `F(-z) = x / (1 + x)`."""
  for_log, for_tail = _POWERS[dtype]
  log = _series(lambda x: -1 / (1 + x), for_log)
  tail = _series(lambda x: (1 + x) ** -2, for_tail)
  return Series(tail, log, log, 0.0)


def polynomial_sums(
  score: Array,
  temperature: Array,
  w: Array,
  pair: np.ndarray,
  group: Array | None = None,
  schedule: Schedule = _TOGETHER,
) -> Array:
  """`sum_j w_j sum_p c_p exp(-p |score_i - score_j| / temperature)` for every `i`.

  docs/mathematics.md, "Sums over pairs".

  Args:
    score: `[n]`, descending, within each group if there are groups.
    temperature: A positive scalar.
    w: `[n]`, weights.
    pair: `[2, powers]`, the coefficients `c` for `j < i` and for `j > i`.
    group: `[n]`, group numbers, equal ones side by side; pairs of different groups are left out.
      None is one group.
    schedule: In which parts powers are added up, if that makes a difference.

  Returns:
    `[n]`.
  """
  place = (score,) if group is None else (score, group)
  return decayed_sums(pair[None, None], place, temperature, w[None], schedule)[0]


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
  factor = jnp.where(down == 0, 1, jnp.where(down == 1, jnp.asarray(math.exp(-size), z.dtype), 0))
  total = jnp.sum(jnp.where(lower, factor * rest[:, None], 0), axis=0)
  some = total > 0
  return LogSums(jnp.where(some, size * top, none), jnp.log(jnp.where(some, total, 1)))


def log_sums(z: Array) -> LogSums:
  """`log sum_{j >= i} exp(z_j)` of finite numbers, `[n]`.

  docs/mathematics.md, "Sums over pairs". `lax.cumlogsumexp` is the same, but its derivative takes
  several times as many operations.
  """
  # The maxima cancel, and have no derivative.
  largest = lax.stop_gradient(lax.cummax(z, axis=0, reverse=True))
  w = jnp.exp(z - largest)
  # Quarters are exact, and keep the maxima below half of the largest float.
  quarter = jnp.full_like(largest, 0.25, shape=())
  behind = decayed_sums(_BEHIND, (quarter * largest,), quarter, w[None], Schedule(1))[0]
  return LogSums(largest, jnp.log(w + behind))
