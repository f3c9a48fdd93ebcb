"""Sums over pairs of functions of score differences, in O(n) time and memory for sorted scores.

The functions are polynomials in `x = exp(-|s_i - s_j| / t)`, or series of such powers: the Laplace
and logistic distribution functions and their logarithms. `decayed_sums` adds them up; this module
has the series, and the derivative of the sums. The rankings of `rankings.expected_rank` use both.
docs/mathematics.md, "Sums over pairs", derives the slopes and the error of the series.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from jaxrank._core import sorting
from jaxrank._core.decayed_sums import decayed_sums, distance

# The numbers of powers of x in the series of a logarithm, the tail and the variance: errors are
# below 2e-8 and 3e-14, and each power divides them by 3 + sqrt(8): docs/mathematics.md, "Sums over
# pairs". With one power fewer, the slopes of a logarithm on the two sides of a tie differ by 1e-6.
_POWERS = {"float32": (10, 12, 12), "float64": (20, 20, 20)}

# Items at more temperatures from each other are as good as infinitely far apart.
_WIDE = 40.0

# Coefficients for the items ahead and for those behind.
_Pair = tuple[tuple[float, ...], tuple[float, ...]]


class Series(NamedTuple):
  """A symmetric distribution function `F` as polynomials in `x = exp(-z)`, `z >= 0`.

  Coefficients are those of `x, x ** 2, ...`; there is no constant term. docs/mathematics.md, "The
  cascade under expected ranks" and "The smooth cut-off", explains what each is used for.

  Attributes:
    tail: `F(-z)`.
    variance: `F(z) F(-z)`.
    log_ahead: `log F(-z) + z - log_scale`.
    log_behind: `log F(z)`.
    log_scale: The limit of `log F(-z) + z` for large `z`.
  """

  tail: np.ndarray
  variance: np.ndarray
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


def _series(function: Callable[..., Any], powers: int) -> np.ndarray:
  """Coefficients of `x p(x)`, where `p` interpolates `function` at Chebyshev nodes of [0, 1].

  docs/mathematics.md, "Sums over pairs", bounds the error.
  """
  chebyshev = np.polynomial.Chebyshev.interpolate(function, powers - 1, domain=[0, 1])
  return chebyshev.convert(kind=np.polynomial.Polynomial).coef


@functools.cache
def laplace(dtype: str) -> Series:
  """The Laplace distribution function, `F(-z) = x / 2`."""
  log_behind = _series(lambda x: np.log1p(-x / 2) / x, _POWERS[dtype][0])
  tail, variance = np.array([0.5]), np.array([0.5, -0.25])
  return Series(tail, variance, np.zeros(1), log_behind, -math.log(2))


@functools.cache
def logistic(dtype: str) -> Series:
  """The logistic distribution function, `F(-z) = x / (1 + x)`."""
  for_log, for_tail, for_variance = _POWERS[dtype]
  log = _series(lambda x: -np.log1p(x) / x, for_log)
  tail = _series(lambda x: 1 / (1 + x), for_tail)
  return Series(tail, _series(lambda x: (1 + x) ** -2, for_variance), log, log, 0.0)


def polynomial_sums(
  score: Array,
  temperature: Array,
  w: Array,
  pair: np.ndarray,
  group: Array | None = None,
  *,
  at_once: int = 12,
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
    at_once: The most powers that accelerators sum side by side.

  Returns:
    `[n]`.
  """
  ahead, behind = (tuple(map(float, c)) for c in pair)
  groups = () if group is None else (group,)
  sums: Array = _pair_sums((ahead, behind), at_once, score, temperature, w, *groups)
  return sums


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _pair_sums(
  pair: _Pair, at_once: int, score: Array, temperature: Array, w: Array, *group: Array
) -> Array:
  place = (score, *group)
  return decayed_sums(np.array(pair)[None, None], at_once, place, temperature, w[None])[0]


def _pair_sums_jvp(
  pair: _Pair, at_once: int, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
  """The derivative is two more sums over pairs: docs/mathematics.md, "Sums over pairs"."""
  score, temperature, w, *group = primals
  by_score, by_temperature, by_w, *_ = tangents
  place = (score, *group)
  plain = np.array(pair)
  steep = plain * np.arange(1, plain.shape[1] + 1) * [[1], [-1]]
  both = np.stack([plain, steep])[:, None]
  value, slope = decayed_sums(both, at_once, place, temperature, w[None])
  change, weights, coefficients = jnp.zeros_like(value), [], []
  if not isinstance(by_w, SymbolicZero):
    weights.append(by_w)
    coefficients.append(plain)
  for moved in _moves(score, temperature, by_score, by_temperature):
    change += slope * moved
    weights.append(w * moved)
    coefficients.append(-steep)
  if weights:
    # Decays are computed anew for the gradient, because there are many of them.
    sums = jax.checkpoint(functools.partial(decayed_sums, np.stack(coefficients)[None], at_once))
    change += sums(place, temperature, jnp.stack(weights))[0]
  return value, change


_pair_sums.defjvp(_pair_sums_jvp, symbolic_zeros=True)


def _moves(score: Array, temperature: Array, by_score: Any, by_temperature: Any) -> Iterator[Array]:
  """Changes of `score / temperature`, by the scores and by the temperature.

  Each is up to a constant for all items that are near each other. The temperature moves an item by
  its distance from the first such item, because larger numbers would cancel with rounding errors.
  """
  if not isinstance(by_score, SymbolicZero):
    yield by_score / temperature
  if not isinstance(by_temperature, SymbolicZero):
    gap = distance(score[:-1], score[1:], temperature)
    starts = jnp.concatenate([jnp.ones_like(score[:1], bool), (gap < 0) | (gap > _WIDE)])
    slot = sorting.slots(score)
    head = sorting.take(score, lax.cummax(jnp.where(starts, slot, 0)))
    yield (head - score) / temperature * (by_temperature / temperature)
