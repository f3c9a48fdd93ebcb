"""Decays with the distance of scores, and three ways to sum weights that decay.

All pairs of short lists; doubling, for accelerators; blocks of one scan, for a CPU.
`decayed_sums` chooses. Batches have their axes before the last one, which is that of the items.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.sorting import slots

# At this many temperatures exp(-z) is 0 in float64.
_FAR = 1000.0

# Scores, and the numbers of their groups if there are groups.
Place = Sequence[Array]


def distance(upper: Array, lower: Array, temperature: Array, limit: float = _FAR) -> Array:
  """`(upper - lower) / temperature`, at most `limit`; the gradient at the limit is 0."""
  return jnp.minimum(upper - lower, limit * temperature) / temperature


def near(upper: Place, lower: Place, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` for scores at a distance of `z` temperatures; 0 if their groups differ."""
  (upper_score, *group), (lower_score, *other) = upper, lower
  if not group:
    return jnp.exp(-power * distance(upper_score, lower_score, temperature))
  same = group[0] == other[0]
  lower_score = jnp.where(same, lower_score, upper_score)
  return jnp.where(same, jnp.exp(-power * distance(upper_score, lower_score, temperature)), 0)


def polynomial(coefficients: Sequence[Array] | Array, x: Array) -> Array:
  """`sum_p c_p x ** p`, p = 1, 2, ..."""
  value = jnp.zeros_like(x)
  for c in coefficients[::-1]:
    value = (value + c) * x
  return value


def one_side(coefficients: np.ndarray, side: int) -> tuple[np.ndarray, bool]:
  """The coefficients of one side, `[inputs or outputs, powers]`, up to the last power in use.

  Also whether they belong to inputs, so that the sums are of the weighed inputs.
  """
  first = coefficients.shape[1] > 1
  c = coefficients[0, :, side] if first else coefficients[:, 0, side]
  used = np.flatnonzero(np.any(c != 0, axis=0))
  return c[:, : used[-1] + 1 if used.size else 0], first


def leading(c: np.ndarray, like: Array) -> np.ndarray:
  """Numbers along leading axes, of length 1 along those of an array."""
  return c.astype(like.dtype).reshape(c.shape + (1,) * like.ndim)


def shift(x: Array, by: int, fill: float = 0.0) -> Array:
  """Moves items `by` places down the list, or up if `by` is negative."""
  none = ((0, 0, 0),) * (x.ndim - 1)
  return lax.pad(x, np.array(fill, x.dtype), (*none, (by, -by, 0)))


def neighbours(place: Place, by: int) -> list[Array]:
  """The places `by` items above, or below if `by` is negative.

  Past the ends of the list they are far away, but finite, so that no difference is undefined.
  """
  score, *group = place
  beyond = math.copysign(float(jnp.finfo(score.dtype).max) / 2, by)
  return [shift(score, by, beyond), *(shift(x, by, -1) for x in group)]


def decay(place: Place, other: Place, by: int, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` to a place above, or below if `by` is negative."""
  upper, lower = (other, place) if by > 0 else (place, other)
  return near(upper, lower, temperature, power)


def by_pairs(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The polynomial of each pair `[..., i, j]`, weighed and summed over `j`."""
  score, *group = place
  rise = _rise(score[..., None] - score[..., None, :])
  groups = [x[..., None] for x in group], [x[..., None, :] for x in group]
  x = near([rise, *groups[0]], [jnp.zeros_like(rise), *groups[1]], temperature[..., None, None])
  j = slots(rise)
  i = jnp.swapaxes(j, -1, -2)

  def weighed(sides: np.ndarray, w: Array) -> Array:
    c = [jnp.where(j < i, above, below).astype(w.dtype) for above, below in sides.T]
    return jnp.where(i != j, polynomial(c, x), 0) * w[..., None, :]

  return jnp.stack(
    [
      sum(jnp.sum(weighed(c, w), axis=-1) for c, w in zip(output, w, strict=True))
      for output in coefficients
    ]
  )


@jax.custom_jvp
def _rise(fall: Array) -> Array:
  """`|s_i - s_j|`, `[..., i, j]`, whose slope at 0 is that of two places in descending order."""
  return jnp.abs(fall)


@_rise.defjvp
def _rise_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  (fall,), (change,) = primals, tangents
  j = slots(fall)
  return _rise(fall), jnp.where(j < jnp.swapaxes(j, -1, -2), -change, change)


class Schedule(NamedTuple):
  """In which parts the powers of a sum are added up.

  Attributes:
    at_once: The most powers that are summed side by side: more of them start fewer steps, and take
      more memory. The default is enough for a series of float32.
    stored: Whether the sums and their slopes are stored, which starts more steps, and takes less
      memory.
  """

  at_once: int = 12
  stored: bool = False


def by_doubling(
  coefficients: np.ndarray, schedule: Schedule, place: Place, temperature: Array, w: Array
) -> Array:
  """Sums over the nearest item, the nearest two, the nearest four, and so on, for all powers."""
  total, at_once = None, schedule.at_once
  place, temperature = [x[None] for x in place], temperature[None, ..., None]
  for side, sign in enumerate((1, -1)):
    every, first = one_side(coefficients, side)
    for start in range(0, every.shape[1], at_once):
      c = every[:, start : start + at_once]
      if total is not None and every.shape[1] > 2:
        # One after the other, so that the sums of both are not in memory at once.
        total, w = lax.optimization_barrier((total, w))
      powers = leading(np.arange(start + 1, start + 1 + c.shape[1]), w[0])

      def moved(x: Array, by: int, powers: np.ndarray = powers) -> Array:
        return decay(place, neighbours(place, by), by, temperature, powers) * shift(x, by)

      weights = leading(c, w[0])
      sums = moved(jnp.sum(weights * w[:, None], axis=0) if first else w, sign)
      reach = 1
      while reach < w.shape[-1] - 1:
        sums += moved(sums, sign * reach)
        reach *= 2
      terms = sums[None] if first else weights * sums[None]
      total = jnp.sum(terms, axis=1) + (0 if total is None else total)
  if total is None:
    return jnp.zeros((coefficients.shape[0], *w.shape[1:]), w.dtype)
  # Otherwise what uses the sums repeats the last steps, and their inputs are kept: the gradient of
  # err_ia, Laplace [8, 10000] on an H100 takes 30.5 floats an item instead of 29.5 (jaxlib 0.10.2).
  return jnp.stack(lax.optimization_barrier(list(total))) if schedule.stored else total


# The number of items in a block, for polynomials of several powers of x.
_WIDTH = 8


def by_blocks(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """Pairs within blocks one by one, and power sums from block to block."""
  n = w.shape[-1]
  width = _WIDTH if coefficients.shape[-1] > 2 else 1
  blocks = -(-n // width)

  def columns(x: Array, last: Array) -> Array:
    # Not `jnp.pad` with edges, which slices the axes of a batch too: they may be sharded.
    beyond = jnp.broadcast_to(last, (*x.shape[:-1], blocks * width - n))
    x = jnp.concatenate([x, beyond], axis=-1)
    return jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, width), -1, 0)

  place, temperature = [columns(x, x[..., -1:]) for x in place], temperature[None, ..., None]
  w = jnp.swapaxes(columns(w, jnp.zeros_like(w[..., :1])), 0, 1)
  out = _within_blocks(coefficients, place, temperature, w)
  sides = [_Side(coefficients, side, place, temperature) for side in range(2)]
  sides = [side for side in sides if side.powers]
  if sides:
    # One recurrence for both sides, each in its own direction.
    decays = jnp.concatenate([side.decay for side in sides])
    sums = _recurrence(decays, jnp.concatenate([side.moments(w) for side in sides]))
    ends = np.cumsum([side.powers for side in sides])[:-1]
    out += sum(side.beyond(x) for side, x in zip(sides, jnp.split(sums, ends), strict=True))
  out = jnp.moveaxis(out, 1, -1)
  return out.reshape(*out.shape[:-2], blocks * width)[..., :n]


def _within_blocks(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The sums over the pairs within each block, `[outputs, width, ..., blocks]`."""
  width = len(place[0])
  # Spread over devices as the arguments are, which a new shape would not be.
  total = jnp.stack([jnp.zeros_like(w[0])] * len(coefficients))
  if width == 1:
    return total
  i = np.arange(width)
  # Those of each pair of slots of a block, `[width, powers, outputs, inputs, width]`.
  sides = (coefficients[:, :, side, None, None] for side in (0, 1))
  pairs = np.where((i[:, None] < i)[..., None], *sides) * (i[:, None] != i)[..., None]
  pairs = np.transpose(pairs, (2, 4, 0, 1, 3))

  # A loop, because every item of a block would have polynomials of its own in the program.
  def add(total: Array, item: tuple[Any, ...]) -> tuple[Array, None]:
    j, (score, *group), w, c = item
    rise = score[None] - place[0]
    ahead = jnp.where(leading(i, rise[0]) > j, rise, -rise)
    groups = [x[None] for x in group], place[1:]
    x = near([ahead, *groups[0]], [jnp.zeros_like(ahead), *groups[1]], temperature)
    c = c.reshape(c.shape + (1,) * (x.ndim - 1))
    weights = polynomial(c, x[None, None])
    for m in range(len(w)):
      total += w[m, None, None] * weights[:, m]
    return total, None

  items = i.astype(w.dtype), list(place), jnp.swapaxes(w, 0, 1), jnp.asarray(pairs, w.dtype)
  summed: Array = lax.scan(add, total, items)[0]
  return summed


class _Side:
  """The sums over all blocks ahead of the block of each item, or behind it.

  docs/mathematics.md, "Sums over pairs", defines the moments and their recurrence.

  Attributes:
    powers: The number of powers of `x` in the sums.
    decay: The powers of the decay from each block to the next, `[powers, ..., blocks]`.
  """

  def __init__(self, coefficients: np.ndarray, side: int, place: Place, temperature: Array) -> None:
    self._c, self._first = one_side(coefficients, side)
    self.powers = self._c.shape[1]
    self._by = by = -1 if side else 1
    # The end of a block that is nearer to the items that its power sums go to.
    edge = [x[:1] if side else x[-1:] for x in place]
    beyond = neighbours(edge, by)
    powers = leading(np.arange(1, 1 + self.powers), edge[0][0])
    between = decay(edge, beyond, by, temperature, powers)
    self.decay = between[..., ::by]
    if len(place[0]) == 1:
      # Blocks of one item, which is the edge: there is no decay within them.
      self._inside, self._outside = jnp.ones_like(edge[0]), between[:1]
    else:
      self._inside = decay(edge, place, by, temperature)
      self._outside = decay(place, beyond, by, temperature)

  def moments(self, w: Array) -> Array:
    """The power sums of each block, `[powers, ..., blocks]`, in the direction of the side."""

    def moment(w: Array, weights: Array) -> tuple[Array, Array]:
      w = w * self._inside[None]
      return w, jnp.sum(jnp.tensordot(weights, w, 1) if self._first else w[0], axis=0)

    weights = jnp.asarray(self._c.T, w.dtype)
    moments: Array = lax.scan(moment, w, weights, unroll=self.powers <= 2)[1]
    return moments[..., :: self._by]

  def beyond(self, sums: Array) -> Array:
    """The sums for each item, from the recurrence over the moments, `[outputs, ..., blocks]`."""
    entering = shift(sums[..., :: self._by], self._by)[:, None]
    if self._first:
      return polynomial(entering, self._outside)[None]
    weights = leading(self._c, entering[0])
    return jnp.stack([polynomial(c * entering, self._outside) for c in weights])


def _recurrence(decay: Array, new: Array) -> Array:
  """`out_i = out_{i - 1} decay_i + new_i` along the last axis.

  The recurrence runs in all of about sqrt(n) blocks at once, then over the blocks: about 2 sqrt(n)
  steps. docs/mathematics.md, "Sums over pairs".
  """
  n = new.shape[-1]
  blocks = max(1, math.isqrt(n))
  width = -(-n // blocks)

  def columns(x: Array) -> Array:
    x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, blocks * width - n),))
    return jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, width), -1, 0)

  def step(
    state: tuple[Array, Array], column: tuple[Array, Array]
  ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    inside, shrunk = state
    decay, new = column
    inside, shrunk = inside * decay + new, shrunk * decay
    return (inside, shrunk), (inside, shrunk)

  def carry(block: Array, ends: Array) -> Array:
    before, here, passed = (
      lax.dynamic_index_in_dim(x, i, -1, keepdims=False)
      for x, i in ((ends, block - 1), (ends, block), (shrunk_ends, block))
    )
    now: Array = lax.dynamic_update_index_in_dim(ends, here + passed * before, block, -1)
    return now

  start = (jnp.zeros_like(new[..., :blocks]), jnp.ones_like(new[..., :blocks]))
  # Short loops are written out.
  unroll = n <= 16
  last, (inside, shrunk) = lax.scan(step, start, (columns(decay), columns(new)), unroll=unroll)
  ends, shrunk_ends = last
  entering = shift(lax.fori_loop(1, blocks, carry, ends, unroll=unroll), 1)
  out = jnp.moveaxis(inside + shrunk * entering[None], 0, -1)
  return out.reshape(*out.shape[:-2], blocks * width)[..., :n]
