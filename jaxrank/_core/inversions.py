"""The number of inversions of a permutation: of pairs that two lists order differently."""

import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core.sorting import scatter, slots_like, take
from jaxrank._core.x64 import enable_x64


def discordant(rank: Array) -> Array:
  """The number of inversions of `rank`, a permutation `[n]` of 0 ... n - 1, as an int64.

  One stable partition per bit, highest first: O(n log n) time, O(n) memory. docs/mathematics.md,
  "Sorting keys and counts of pairs", shows that it counts each inversion once.
  """
  n = rank.shape[-1]
  slot = slots_like(rank)

  def partition(level: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    rank, count = state
    bit = bits - 1 - level
    one = (rank >> bit) & 1
    ones = jnp.cumsum(one, dtype=jnp.int32) - one
    block = (rank >> (bit + 1)) << (bit + 1)
    passed = ones - take(ones, block)
    with enable_x64():
      count = count + jnp.sum(jnp.where(one == 0, passed, 0).astype(jnp.int64))
    target = jnp.where(one == 1, block + (1 << bit) + passed, slot - passed)
    return scatter(rank, target), count

  bits = max(n - 1, 0).bit_length()
  with enable_x64():
    count = jnp.sum(jnp.zeros_like(rank).astype(jnp.int64))
  found: tuple[Array, Array] = lax.fori_loop(0, bits, partition, (rank, count))
  return found[1]
