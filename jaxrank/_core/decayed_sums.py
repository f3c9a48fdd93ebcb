"""Sums over the items above, or below, each item, decayed with the distance of their scores.

`decayed_sums` is linear in the weights, and JAX transposes it as it is written; `pair_sums` gives
it a derivative by the scores. A CPU sums pairs within short blocks one by one, and runs a
recurrence over the power sums of the blocks. Accelerators, which start each step of a loop
separately, double the reach of each sum instead, as often as the list can be halved.
docs/mathematics.md, "Sums over pairs", derives both.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.platforms import by_platform

# At this many temperatures exp(-z) is 0 in float64.
_FAR = 1000.0

# The number of items in a block on a CPU, for polynomials of several powers of x.
_WIDTH = 8

# Scores, and the numbers of their groups if there are groups.
Place = Sequence[Array]


def distance(upper: Array, lower: Array, temperature: Array, limit: float = _FAR) -> Array:
  """`(upper - lower) / temperature`, at most `limit`; the gradient at the limit is 0."""
  return jnp.minimum(upper - lower, limit * temperature) / temperature


def decayed_sums(
  coefficients: np.ndarray, at_once: int, place: Place, temperature: Array, w: Array
) -> Array:
  """`out_ki = sum_m sum_j w_mj sum_p c_kmp x_ij ** p` with `x_ij = exp(-z_ij)`, `[outputs, n]`.

  `z_ij` is the distance of the scores of `i` and `j` in temperatures.

  Args:
    coefficients: `[outputs, inputs, 2, powers]`, for `j < i` and for `j > i`. One of the first two
      lengths is 1.
    at_once: The most powers that accelerators sum side by side: more of them start fewer steps, and
      take more memory.
    place: The scores `[n]`, descending, within each group if there are groups, and optionally group
      numbers `[n]`, equal ones side by side; pairs of different groups are left out.
    temperature: A positive scalar.
    w: `[inputs, n]`.
  """

  def below(sums: Any) -> Any:
    return lambda place, temperature, w: sums(coefficients, place, temperature, w)

  by_doubling = functools.partial(_by_doubling, at_once)
  out: Array = by_platform(
    tuple(place), temperature, w, cpu=below(_by_blocks), default=below(by_doubling)
  )
  return out


def _near(upper: Place, lower: Place, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` for scores at a distance of `z` temperatures; 0 if their groups differ."""
  (upper_score, *group), (lower_score, *other) = upper, lower
  if not group:
    return jnp.exp(-power * distance(upper_score, lower_score, temperature))
  same = group[0] == other[0]
  lower_score = jnp.where(same, lower_score, upper_score)
  return jnp.where(same, jnp.exp(-power * distance(upper_score, lower_score, temperature)), 0)


def _polynomial(coefficients: Sequence[Array] | Array, x: Array) -> Array:
  """`sum_p c_p x ** p`, p = 1, 2, ..."""
  value = jnp.zeros_like(x)
  for c in coefficients[::-1]:
    value = (value + c) * x
  return value


def _one_side(coefficients: np.ndarray, side: int) -> tuple[np.ndarray, bool]:
  """The coefficients of one side, `[inputs or outputs, powers]`, up to the last power in use.

  Also whether they belong to inputs, so that the sums are of the weighed inputs.
  """
  first = coefficients.shape[1] > 1
  c = coefficients[0, :, side] if first else coefficients[:, 0, side]
  used = np.flatnonzero(np.any(c != 0, axis=0))
  return c[:, : used[-1] + 1 if used.size else 0], first


def _weigh(c: np.ndarray, x: Array) -> Array:
  """`c_kp x`, `[k, powers, n]`, for `x` of shape `[k or 1, powers or 1, n]`."""
  return jnp.asarray(c, x.dtype)[..., None] * x


def _shift(x: Array, by: int, fill: float = 0.0) -> Array:
  """Moves items `by` places down the list, or up if `by` is negative."""
  none = ((0, 0, 0),) * (x.ndim - 1)
  return lax.pad(x, np.array(fill, x.dtype), (*none, (by, -by, 0)))


def _neighbours(place: Place, by: int) -> list[Array]:
  """The places `by` items above, or below if `by` is negative.

  Past the ends of the list they are far away, but finite, so that no difference is undefined.
  """
  score, *group = place
  beyond = math.copysign(float(jnp.finfo(score.dtype).max) / 2, by)
  return [_shift(score, by, beyond), *(_shift(x, by, -1) for x in group)]


def _decay(place: Place, other: Place, by: int, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` to a place above, or below if `by` is negative."""
  upper, lower = (other, place) if by > 0 else (place, other)
  return _near(upper, lower, temperature, power)


def _by_doubling(
  at_once: int, coefficients: np.ndarray, place: Place, temperature: Array, w: Array
) -> Array:
  """Sums over the nearest item, the nearest two, the nearest four, and so on, for all powers."""
  total = None
  place = [x[None] for x in place]
  for side, sign in enumerate((1, -1)):
    every, first = _one_side(coefficients, side)
    for start in range(0, every.shape[1], at_once):
      c = every[:, start : start + at_once]
      if total is not None and every.shape[1] > 2:
        # One after the other, so that the sums of both are not in memory at once.
        total, w = lax.optimization_barrier((total, w))
      powers = np.arange(start + 1, start + 1 + c.shape[1], dtype=w.dtype)[:, None]

      def moved(x: Array, by: int, powers: np.ndarray = powers) -> Array:
        return _decay(place, _neighbours(place, by), by, temperature, powers) * _shift(x, by)

      sums = moved(jnp.sum(_weigh(c, w[:, None]), axis=0) if first else w, sign)
      reach = 1
      while reach < w.shape[-1] - 1:
        sums += moved(sums, sign * reach)
        reach *= 2
      found = jnp.sum(sums[None] if first else _weigh(c, sums[None]), axis=1)
      total = found if total is None else total + found
  return jnp.zeros_like(w, shape=(coefficients.shape[0], w.shape[-1])) if total is None else total


def _by_blocks(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """Pairs within blocks one by one, and power sums from block to block."""
  n = w.shape[-1]
  width = _WIDTH if coefficients.shape[-1] > 2 else 1
  blocks = -(-n // width)

  def columns(x: Array, mode: str) -> Array:
    x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, blocks * width - n),), mode=mode)
    return jnp.swapaxes(x.reshape(*x.shape[:-1], blocks, width), -1, -2)

  place, w = [columns(x, "edge") for x in place], columns(w, "constant")
  out = _within_blocks(coefficients, place, temperature, w)
  sides = [_Side(coefficients, side, place, temperature) for side in range(2)]
  sides = [side for side in sides if side.powers]
  if sides:
    # One recurrence for both sides, each in its own direction.
    decays = jnp.concatenate([side.decay for side in sides])
    sums = _recurrence(decays, jnp.concatenate([side.moments(w) for side in sides]))
    ends = np.cumsum([side.powers for side in sides])[:-1]
    out += sum(side.beyond(x) for side, x in zip(sides, jnp.split(sums, ends), strict=True))
  return jnp.swapaxes(out, -1, -2).reshape(-1, blocks * width)[:, :n]


def _within_blocks(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The sums over the pairs within each block; a block is a column of `[width, blocks]`."""
  score, *group = place
  index = np.arange(len(score))[:, None]
  total = [jnp.zeros_like(w[0]) for _ in coefficients]
  # Not all pairs in one array: jax 0.10 crashes on CPU when it sums an axis of length seven.
  for j in range(len(score) if len(score) > 1 else 0):
    rise = score[j : j + 1] - score
    ahead = [jnp.where(j < index, rise, -rise), *(x[j : j + 1] for x in group)]
    x = _near(ahead, [jnp.zeros_like(rise), *group], temperature)
    for k, m in np.ndindex(coefficients.shape[:2]):
      pair = coefficients[k, m].T
      signed = [jnp.asarray(np.where(j < index, *c) * (j != index), w.dtype) for c in pair]
      total[k] += w[m, j : j + 1] * _polynomial(signed, x)
  return jnp.stack(total)


class _Side:
  """The sums over all blocks ahead of the block of each item, or behind it.

  docs/mathematics.md, "Sums over pairs", defines the moments and their recurrence.

  Attributes:
    powers: The number of powers of `x` in the sums.
    decay: The powers of the decay from each block to the next, `[powers, blocks]`.
  """

  def __init__(self, coefficients: np.ndarray, side: int, place: Place, temperature: Array) -> None:
    self._c, self._first = _one_side(coefficients, side)
    self.powers = self._c.shape[1]
    self._by = by = -1 if side else 1
    # The end of a block that is nearer to the items that its power sums go to.
    edge = [x[:1] if side else x[-1:] for x in place]
    beyond = _neighbours(edge, by)
    self._inside = _decay(edge, place, by, temperature)
    self._outside = _decay(place, beyond, by, temperature)
    powers = np.arange(1, 1 + self.powers, dtype=self._inside.dtype)[:, None]
    self.decay = _decay(edge, beyond, by, temperature, powers)[:, ::by]

  def moments(self, w: Array) -> Array:
    """The power sums of each block, `[powers, blocks]`, in the direction of the side."""

    def moment(w: Array, weights: Array) -> tuple[Array, Array]:
      w = w * self._inside[None]
      return w, jnp.sum(jnp.tensordot(weights, w, 1) if self._first else w[0], axis=0)

    weights = jnp.asarray(self._c.T, w.dtype)
    found: Array = lax.scan(moment, w, weights, unroll=self.powers <= 2)[1]
    return found[:, :: self._by]

  def beyond(self, sums: Array) -> Array:
    """The sums for each item, from the recurrence over the moments, `[outputs, width, blocks]`."""
    entering = _shift(sums[:, :: self._by], self._by)[:, None]
    if self._first:
      return _polynomial(entering, self._outside)[None]
    weighed = (_weigh(weights, entering[:, 0])[:, None] for weights in self._c)
    return jnp.stack([_polynomial(x, self._outside) for x in weighed])


def _recurrence(decay: Array, new: Array) -> Array:
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
  # Short loops are written out.
  unroll = n <= 16
  ends, (inside, shrunk) = lax.scan(step, start, (columns(decay), columns(new)), unroll=unroll)
  _, entering = lax.scan(
    carry, jnp.zeros_like(new[:, 0]), jax.tree.map(jnp.transpose, ends), unroll=unroll
  )
  out = inside + shrunk * entering.T[None]
  return out.transpose(1, 2, 0).reshape(powers, blocks * width)[:, :n]
