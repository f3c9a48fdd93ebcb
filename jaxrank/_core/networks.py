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
    x = lax.reshape(x, (runs, n // runs, *x.shape[1:])).swapaxes(0, 1).reshape(x.shape)
    # Odd runs are kept as complements, so that every comparison puts the smaller number first. The
    # second half of each run was an odd run of the phase before.
    turned = row % runs % 2
    if phase:
      turned ^= row // (n // 2)
    x = x ^ jnp.asarray(-turned, x.dtype).reshape(-1, *(1,) * (x.ndim - 1))
    for bits in [1] * ((phase + 1) % _BITS) + [_BITS] * ((phase + 1) // _BITS):
      x = _pass(x, bits)
  return x


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
  return lax.reshape(stacked, x.shape)
