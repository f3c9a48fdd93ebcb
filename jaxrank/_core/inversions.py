"""Inversions of a permutation, which are the pairs that two lists order differently."""

import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core.sorting import scatter, slots_like, take
from jaxrank._core.x64 import enable_x64


def discordant(rank: Array) -> Array:
  """The number of inversions of `rank`, a permutation `[n]` of 0 ... n - 1, as an int64.

  One stable partition per bit, highest first: O(n log n) time, O(n) memory. docs/mathematics.md,
  "Sorting keys and counts of pairs", shows that it counts each inversion once.
  """

  def level(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    rank, count = state
    passed, target = _partition(rank, bits - 1 - i)
    with enable_x64():
      count = count + jnp.sum(passed.astype(jnp.int64))
    return scatter(rank, target), count

  bits = _bits(rank)
  with enable_x64():
    count = jnp.sum(jnp.zeros_like(rank).astype(jnp.int64))
  found: tuple[Array, Array] = lax.fori_loop(0, bits, level, (rank, count))
  return found[1]


def greater_before(rank: Array) -> Array:
  """The number of greater entries before each entry of `rank`, a permutation of 0 ... n - 1, `[n]`.

  Their sum is the number of inversions; the counts move along with the entries.
  """

  def level(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    rank, count = state
    passed, target = _partition(rank, bits - 1 - i)
    return scatter(rank, target), scatter(count + passed, target)

  bits = _bits(rank)
  _, count = lax.fori_loop(0, bits, level, (rank, jnp.zeros_like(rank)))
  return take(count, rank)


def _bits(rank: Array) -> int:
  return max(rank.shape[-1] - 1, 0).bit_length()


def _partition(rank: Array, bit: Array) -> tuple[Array, Array]:
  """How many ones of its block each zero passes as a bit is sorted, and where each entry goes."""
  one = (rank >> bit) & 1
  ones = jnp.cumsum(one, dtype=jnp.int32) - one
  block = (rank >> (bit + 1)) << (bit + 1)
  passed = ones - take(ones, block)
  target = jnp.where(one == 1, block + (1 << bit) + passed, slots_like(rank) - passed)
  return jnp.where(one == 0, passed, 0), target
