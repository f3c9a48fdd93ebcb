"""Sums over pairs of functions of score differences, in O(n) time and memory for sorted scores.

The functions are polynomials in `x = exp(-|s_i - s_j| / t)`, or series of such powers: the Laplace
and logistic distribution functions and their logarithms. Pairs within short blocks are summed one
by one; other blocks enter by power sums, which decay from block to block. The rankings of
`rankings.expected_rank` use both. docs/mathematics.md, "Sums over pairs", derives the blocks and
the error of the series.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# The number of powers of x in a series; each divides the error by 3 + sqrt(8):
# docs/mathematics.md, "Sums over pairs".
_POWERS = {"float32": 12, "float64": 20}

# The number of items in a block, for polynomials of at most two powers of x and for others.
_FEW, _MANY = 2, 8

# At this many temperatures exp(-z) is 0 in float64.
_FAR = 1000.0

# Scores, and the numbers of their groups if there are groups.
Place = Sequence[Array]


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
  log_behind = _series(lambda x: np.log1p(-x / 2) / x, _POWERS[dtype])
  tail, variance = np.array([0.5]), np.array([0.5, -0.25])
  return Series(tail, variance, np.zeros(1), log_behind, -math.log(2))


@functools.cache
def logistic(dtype: str) -> Series:
  """The logistic distribution function, `F(-z) = x / (1 + x)`."""
  powers = _POWERS[dtype]
  log = _series(lambda x: -np.log1p(x) / x, powers)
  tail = _series(lambda x: 1 / (1 + x), powers)
  return Series(tail, _series(lambda x: (1 + x) ** -2, powers), log, log, 0.0)


def distance(upper: Array, lower: Array, temperature: Array, limit: float = _FAR) -> Array:
  """`(upper - lower) / temperature`, at most `limit`; the gradient at the limit is 0."""
  return jnp.minimum(upper - lower, limit * temperature) / temperature


def _near(upper: Place, lower: Place, temperature: Array) -> Array:
  """`exp(-z)` for scores at a distance of `z` temperatures; 0 if their groups differ."""
  (upper_score, *group), (lower_score, *other) = upper, lower
  if not group:
    return jnp.exp(-distance(upper_score, lower_score, temperature))
  same = group[0] == other[0]
  lower_score = jnp.where(same, lower_score, upper_score)
  return jnp.where(same, jnp.exp(-distance(upper_score, lower_score, temperature)), 0)


def _polynomial(coefficients: Sequence[Array] | Array, x: Array) -> Array:
  """`sum_p c_p x ** p`, p = 1, 2, ..."""
  value = jnp.zeros_like(x)
  for c in coefficients[::-1]:
    value = (value + c) * x
  return value


def polynomial_sums(
  score: Array, temperature: Array, w: Array, pair: np.ndarray, group: Array | None = None
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

  Returns:
    `[n]`.
  """
  n = score.shape[0]
  width = _MANY if pair.shape[1] > 2 else _FEW
  blocks = -(-n // width)

  def columns(x: Array, mode: str) -> Array:
    return jnp.pad(x, (0, blocks * width - n), mode=mode).reshape(blocks, width).T

  place, w = [columns(score, "edge")], columns(w, "constant")
  if group is not None:
    place.append(columns(group, "edge"))
  near = jax.checkpoint(functools.partial(_within_blocks, pair))
  far = jax.checkpoint(_across_blocks)
  ahead, behind = jnp.asarray(pair, w.dtype)
  ahead = far(ahead, place, temperature, w)
  # The items behind are those ahead in the reversed list.
  mirrored = [-x[::-1, ::-1] for x in place]
  behind = far(behind, mirrored, temperature, w[::-1, ::-1])
  out = near(place, temperature, w) + ahead + behind[::-1, ::-1]
  sums: Array = out.T.reshape(-1)[:n]
  return sums


def _within_blocks(pair: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The sums over the pairs within each block; a block is a column of `[width, blocks]`."""
  score, *group = place
  index = np.arange(len(score))[:, None]
  total = jnp.zeros_like(w)
  # Not all pairs in one array: jax 0.10 crashes on CPU when it sums an axis of length seven.
  for j in range(len(score)):
    rise = score[j : j + 1] - score
    ahead = [jnp.where(j < index, rise, -rise), *(x[j : j + 1] for x in group)]
    x = _near(ahead, [jnp.zeros_like(rise), *group], temperature)
    signed = [jnp.asarray(np.where(j < index, *c) * (j != index), w.dtype) for c in pair.T]
    total += w[j : j + 1] * _polynomial(signed, x)
  return total


def _across_blocks(coefficients: Array, place: Place, temperature: Array, w: Array) -> Array:
  """The sums over all blocks ahead of the block of each item.

  docs/mathematics.md, "Sums over pairs", defines the moments and their recurrence.
  """
  # The sums do not depend on the end of a block, so its gradient would be rounding noise around 0.
  last = [lax.stop_gradient(x[-1:]) for x in place]
  first = [lax.stop_gradient(x[:1, :1]) for x in place]
  before = [jnp.concatenate([x, y[:, :-1]], axis=1) for x, y in zip(first, last, strict=True)]
  x, decay = _near(place, last, temperature), _near(before, last, temperature)
  moments, decays = [], [jnp.ones_like(decay)]
  for _ in coefficients:
    w = w * x
    moments.append(jnp.sum(w, axis=0))
    decays.append(decays[-1] * decay)
  entering = decayed_sums(jnp.concatenate(decays[1:]), jnp.stack(moments))
  entering = jnp.pad(entering[:, :-1], ((0, 0), (1, 0)))
  terms = coefficients[:, None, None] * entering[:, None]
  return _polynomial(terms, _near(before, place, temperature))


def decayed_sums(decay: Array, new: Array) -> Array:
  """`out_i = out_{i - 1} decay_i + new_i` along the last axis, `[powers, n]`.

  The recurrence runs in all of about sqrt(n) blocks at once, then over the blocks: about 2 sqrt(n)
  steps. docs/mathematics.md, "Sums over pairs".
  """
  powers, n = new.shape
  width = max(1, math.isqrt(n))
  blocks = -(-n // width)

  def columns(x: Array) -> Array:
    x = jnp.pad(x, ((0, 0), (0, blocks * width - n))).reshape(powers, blocks, width)
    return x.transpose(2, 0, 1)

  def step(
    state: tuple[Array, Array], column: tuple[Array, Array]
  ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    inside, shrunk = state
    decay, new = column
    inside, shrunk = inside * decay + new, shrunk * decay
    return (inside, shrunk), (inside, shrunk)

  def carry(entering: Array, block: tuple[Array, Array]) -> tuple[Array, Array]:
    inside, shrunk = block
    return inside + shrunk * entering, entering

  start = (jnp.zeros_like(new[:, :blocks]), jnp.ones_like(new[:, :blocks]))
  ends, (inside, shrunk) = lax.scan(step, start, (columns(decay), columns(new)))
  _, entering = lax.scan(carry, jnp.zeros_like(new[:, 0]), jax.tree.map(jnp.transpose, ends))
  out = inside + shrunk * entering.T[None]
  return out.transpose(1, 2, 0).reshape(powers, blocks * width)[:, :n]
