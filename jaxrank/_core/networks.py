"""Batcher's bitonic sorting network along the leading axis, for many lists at once.

Every pass compares the rows of the first half with those of the second, and interleaves the halves,
so that the next pass does the same with another bit of the row numbers. All passes are therefore
the same kernel, or the same two, which XLA compiles once. docs/mathematics.md, "Sorting keys and
counts of pairs".
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# Bits of the row numbers that one pass compares: with three, XLA computes most minima repeatedly.
_BITS = 2

# A pass of many words, in rows of many, compares three bits in two kernels, which read each word
# once. Short rows and small arrays take longer that way.
_MORE_BITS, _WORDS, _ROW = 3, 2**17, 128


def ascending(x: Array) -> Array:
  """Sorts integers `[2^m, ...]` along the leading axis."""
  row = np.arange(x.shape[0])
  phases = (x.shape[0] - 1).bit_length()
  many = x.size > max(_WORDS, _ROW * x.shape[0])
  most = _MORE_BITS if many else _BITS
  for phase in range(phases):
    # A pass of fewer bits would be another kernel. The bits above those of the runs may be compared
    # too, before them: elementwise minima and maxima of two bitonic runs are bitonic.
    bits = min(phases, most * -(-(phase + 1) // most))
    # The second of two sorted runs is reversed, so that both together are bitonic. The first phase
    # has runs of one row, in any order.
    if phase:
      flipped = np.where(row >> phase & 1, row ^ (2**phase - 1), row)
      rows = np.int32(flipped.reshape(-1, 2**bits).T.reshape(-1))
      x = _arranged(x, rows)
    for start in range(0, bits, most):
      x = _pass(x, min(most, bits - start))
  return x


@jax.jit
def _arranged(x: Array, rows: Array | np.ndarray) -> Array:
  """The given rows, which are data: a transpose would be another kernel for each phase."""
  moved: Array = x.at[rows].get(mode="promise_in_bounds", unique_indices=True)
  return moved


@functools.partial(jax.jit, static_argnums=1)
def _pass(x: Array, bits: int) -> Array:
  """Compares rows that differ in the highest bits, and moves these bits to the lowest places."""
  if bits > _BITS:
    # The last bit is an axis of two, reduced to minima and maxima: XLA computes the results of a
    # reduction in one loop, and the minima before it once for all of them.
    parts = lax.optimization_barrier(
      _reduced(_compared(x.reshape(2 ** (bits - 1), 2, -1, *x.shape[1:])))
    )
  else:
    parts = _compared(x.reshape(2**bits, -1, *x.shape[1:]))
  stacked = lax.concatenate([lax.expand_dims(part, (1,)) for part in parts], 1)
  flat: Array = lax.reshape(stacked, x.shape)
  return flat


def _compared(x: Array) -> list[Array]:
  """The parts along the leading axis, in order elementwise if they are bitonic."""
  parts = [lax.index_in_dim(x, i, keepdims=False) for i in range(len(x))]
  for bit in reversed(range((len(x) - 1).bit_length())):
    for i in (i for i in range(len(x)) if not i >> bit & 1):
      low, high = parts[i], parts[i + 2**bit]
      parts[i], parts[i + 2**bit] = lax.min(low, high), lax.max(low, high)
  return parts


def _reduced(parts: list[Array]) -> list[Array]:
  """The minima and the maxima along the leading axis of each part."""
  ends, extremes = jnp.iinfo(parts[0].dtype), [lax.min, lax.max] * len(parts)
  first = [np.array(end, parts[0].dtype) for end in (ends.max, ends.min)] * len(parts)

  def both(so_far: Sequence[Array], given: Sequence[Array]) -> list[Array]:
    return [extreme(*pair) for extreme, *pair in zip(extremes, so_far, given, strict=True)]

  return list(lax.reduce([part for part in parts for _ in (0, 1)], first, both, (0,)))
