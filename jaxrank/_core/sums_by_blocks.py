"""Decayed sums on a CPU: pairs within short blocks one by one, and power sums from block to block.

docs/mathematics.md, "Sums over pairs", derives it. In most arrays a block is a column, so that the
last axis is that of the blocks, and the axes of a batch come before it.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.decays import (
  Place,
  decay,
  leading,
  near,
  neighbours,
  one_side,
  polynomial,
  shift,
)

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
  score, *group = place
  index = leading(np.arange(len(score)), score[0])
  total = [jnp.zeros_like(w[0]) for _ in coefficients]
  if len(score) == 1:
    return jnp.stack(total)
  rise = score[:, None] - score[None]
  ahead = jnp.where(index[:, None] < index[None], rise, -rise)
  groups = [x[:, None] for x in group], [x[None] for x in group]
  decays = near([ahead, *groups[0]], [jnp.zeros_like(ahead), *groups[1]], temperature[None])
  # Not a sum over an axis: jax 0.10 crashes on CPU when it sums an axis of length seven.
  for j, x in enumerate(decays):
    for k, m in np.ndindex(coefficients.shape[:2]):
      pair = coefficients[k, m].T
      signed = [jnp.asarray(np.where(j < index, *c) * (j != index), w.dtype) for c in pair]
      total[k] += w[m, j : j + 1] * polynomial(signed, x)
  return jnp.stack(total)


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
    found: Array = lax.scan(moment, w, weights, unroll=self.powers <= 2)[1]
    return found[..., :: self._by]

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
