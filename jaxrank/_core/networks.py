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
  n = x.shape[0]
  row = np.arange(n)
  phases = (n - 1).bit_length()
  for phase in range(phases):
    runs = 2 ** (phases - 1 - phase)
    # Odd runs are kept as complements, so that every comparison puts the smaller number first. The
    # second half of each run was an odd run of the phase before.
    turned = row % runs % 2
    if phase:
      turned ^= row // (n // 2)
    x = _arranged(x, row.reshape(runs, -1).T.reshape(-1), turned)
    # The single bit comes last, because XLA compiles less if it fuses that pass with a gather.
    for bits in [_BITS] * ((phase + 1) // _BITS) + [1] * ((phase + 1) % _BITS):
      x = _pass(x, bits)
  return x


def _arranged(x: Array, row: np.ndarray, turned: np.ndarray) -> Array:
  """The given rows, as complements where they are turned.

  They are data, so that all phases have the same kernel: a transpose would be another for each. The
  barrier hides them from XLA, which would find that some phases turn the same rows, and compile
  kernels for these apart.
  """
  table = lax.optimization_barrier(jnp.asarray(np.where(turned, ~row, row), jnp.int32))
  sign = table >> 31
  sign_of_rows = sign.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1))
  moved = x.at[table ^ sign].get(mode="promise_in_bounds", unique_indices=True)
  found: Array = moved ^ sign_of_rows
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
