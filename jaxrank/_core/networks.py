"""Batcher's bitonic sorting network along the leading axis, for many lists at once.

Every pass compares the rows of the first half with those of the second, and interleaves the halves,
so that the next pass does the same with another bit of the row numbers. All passes are therefore
the same kernel, which XLA compiles once. docs/mathematics.md, "Sorting keys and counts of pairs".
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# Bits of the row numbers that one pass compares: with three, XLA computes most minima repeatedly.
_BITS = 2


def ascending(x: Array) -> Array:
  """Sorts integers `[2^m, ...]` along the leading axis."""
  # XLA would fuse the first pass with what computes the integers, and compile a kernel for it.
  x = lax.optimization_barrier(x)
  row = np.arange(x.shape[0])
  phases = (x.shape[0] - 1).bit_length()
  for phase in range(phases):
    # A pass of fewer bits would be another kernel. The bit above those of the runs may be compared
    # too, before them: elementwise minima and maxima of two bitonic runs are bitonic.
    bits = min(phases, _BITS * -(-(phase + 1) // _BITS))
    # The second of two sorted runs is reversed, so that both together are bitonic. The first phase
    # has runs of one row, in any order.
    if phase:
      flipped = np.where(row >> phase & 1, row ^ (2**phase - 1), row)
      x = _arranged(x, flipped.reshape(-1, 2**bits).T.reshape(-1))
    for compared in [_BITS] * (bits // _BITS) + [1] * (bits % _BITS):
      x = _pass(x, compared)
  return x


def _arranged(x: Array, rows: np.ndarray) -> Array:
  """The given rows, which are data: a transpose would be another kernel for each phase.

  Without the barriers, XLA compiles apart the kernels of tables in which it finds a pattern, and
  those that read the shape of its gather.
  """
  rows = lax.optimization_barrier(jnp.asarray(rows, jnp.int32))
  moved = x.at[rows].get(mode="promise_in_bounds", unique_indices=True)
  found: Array = lax.optimization_barrier(moved)
  return found


@functools.partial(jax.jit, static_argnums=1)
def _pass(x: Array, bits: int) -> Array:
  """Compares rows that differ in the highest bits, and moves these bits to the lowest places."""
  rows = x.shape[0] >> bits
  parts = [lax.slice_in_dim(x, i * rows, (i + 1) * rows) for i in range(2**bits)]
  for bit in reversed(range(bits)):
    for i in (i for i in range(2**bits) if not i >> bit & 1):
      low, high = parts[i], parts[i + 2**bit]
      parts[i], parts[i + 2**bit] = lax.min(low, high), lax.max(low, high)
  stacked = lax.concatenate([lax.expand_dims(part, (1,)) for part in parts], 1)
  # Without a barrier, the next pass is compiled for the shape before it is flattened, another for
  # each number of bits.
  found: Array = lax.optimization_barrier(lax.reshape(stacked, x.shape))
  return found
