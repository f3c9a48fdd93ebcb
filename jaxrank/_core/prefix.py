"""Means of a known discount over ties, from sums of whole numbers, which no rounding touches.

A discount that is a function of the rank alone has known prefix sums. Two int32 words hold each of
them, about 50 bits, so that a difference of two sums is as exact as float32 can say, however long
the list is. The words never decrease with the rank: `ties` carries them to the members of a tie
without a gather. A CPU looks the sums up in double precision instead. docs/mathematics.md,
"Averages over tied orders".
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._core import ties
from jaxrank._core.batching import batched
from jaxrank._core.platforms import by_platform
from jaxrank._core.sorting import take
from jaxrank._core.types import Cutoff
from jaxrank._core.x64 import enable_x64

# The sum of all discounts, in units of the upper word.
_TOTAL = 2.0**30


class Words(NamedTuple):
  """Prefix sums of a discount down to the ranks 0, 1, ..., n, `[n + 1]`, and as two int32 words.

  The sum down to rank `r` is `unit * (upper[r] + fraction[r] / 2 ** bits)`; the lower word holds
  the rank above the `bits` of the fraction.
  """

  sums: np.ndarray
  upper: np.ndarray
  lower: np.ndarray
  bits: int
  unit: float


# Lengths of which the sums are kept; those of a list take 16 bytes an item, and little time.
_KEPT = 16


@functools.lru_cache(maxsize=_KEPT)
def sums(function: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
  """The prefix sums of a discount down to the ranks 0, 1, ..., n."""
  return np.concatenate([[0], np.cumsum(function(np.arange(1.0, n + 1)))])


@functools.lru_cache(maxsize=_KEPT)
def words(function: Callable[[np.ndarray], np.ndarray], n: int) -> Words:
  """The prefix sums of a discount that is not negative."""
  total = sums(function, n)
  unit = total[-1] / _TOTAL
  upper = np.floor(total / unit)
  bits = 31 - (n + 1).bit_length()
  fraction = np.floor((total / unit - upper) * 2.0**bits)
  lower = np.arange(n + 1) * 2.0**bits + fraction
  return Words(total, upper.astype(np.int32), lower.astype(np.int32), bits, float(unit))


# The upper and the lower word of the sums above the tie of each item, and through it.
Ends = tuple[tuple[Array, Array], tuple[Array, Array]]


def mean(table: Words, runs: ties.Runs) -> Array:
  """The mean of the discount over the tie of each item."""

  @batched
  def means(*ends: Array) -> Array:
    runs = ties.Runs(*ends)
    found: Array = by_platform(
      tpu=lambda: mean_of_words(table, _at_ends(table, runs)),
      default=lambda: _mean_by_sums(table, runs.start, runs.end),
    )
    return found

  return means(*runs)


def mean_down_to(k: Cutoff, table: Words, runs: ties.Runs, mean: Array) -> Array:
  """The same for a discount that is 0 at ranks beyond `k`; `mean` is that of the whole one."""

  @batched
  def means(k: Array, mean: Array, *ends: Array) -> Array:
    runs = ties.Runs(*ends)
    k = k[..., None]
    found: Array = by_platform(
      tpu=lambda: mean_of_words(table, _at_ends(table, runs), k),
      default=lambda: _cut(table, runs, mean, k),
    )
    return found

  return means(jnp.asarray(k, jnp.int32), mean, *runs)


def _at_ends(table: Words, runs: ties.Runs) -> Ends:
  """The prefix sums above the tie of each item, and through it."""
  upper, lower = (
    (ties.at_start(_rows(x[:-1], runs.start), runs), ties.at_end(_rows(x[1:], runs.start), runs))
    for x in (table.upper, table.lower)
  )
  return (upper[0], lower[0]), (upper[1], lower[1])


def _mean_by_sums(table: Words, start: Array, end: Array) -> Array:
  return _difference(table, start, end + 1) / (end - start + 1).astype(jnp.float32)


def _cut(table: Words, runs: ties.Runs, mean: Array, k: Array) -> Array:
  """Cuts the discount at `k`: of one tie at most, some ranks are inside and some are not."""
  _, start, end = runs
  n = start.shape[-1]
  slot = jnp.clip(k, 0, n - 1)
  first, last = take(start, slot), take(end, slot)
  inside = _difference(table, first, 0 * first + jnp.clip(k, 0, n))
  share = inside / (last - first + 1).astype(jnp.float32)
  return jnp.where(end < k, mean, jnp.where(start < k, share, 0))


def _difference(table: Words, above: Array, through: Array) -> Array:
  """The sum of the discount at the ranks below `above` down to `through`."""
  with enable_x64():
    row = _rows(table.sums, above)
    return (take(row, through) - take(row, above)).astype(jnp.float32)


def _rows(x: np.ndarray, like: Array) -> Array:
  """Numbers `[m]` as `[..., m]`, with the axes and the layout over devices of a batch."""
  return (0 * like[..., :1]).astype(x.dtype) + x.reshape((1,) * (like.ndim - 1) + x.shape)


def mean_of_words(table: Words, ends: Ends, k: Cutoff = None) -> Array:
  """The mean of the discount, at ranks down to `k`, between the ends of each tie."""
  above, through = ends
  size = (through[1] >> table.bits) - (above[1] >> table.bits)
  if k is not None:
    depth = jnp.clip(jnp.asarray(k, jnp.int32), 0, table.upper.size - 1)
    upper, lower = (jnp.asarray(x)[depth] for x in (table.upper, table.lower))
    above, through = ((jnp.minimum(x, upper), jnp.minimum(y, lower)) for x, y in ends)
  low = (1 << table.bits) - 1
  fraction = ((through[1] & low) - (above[1] & low)).astype(jnp.float32)
  whole = (through[0] - above[0]).astype(jnp.float32)
  total = (whole + fraction * np.float32(2.0**-table.bits)) * np.float32(table.unit)
  return total / size.astype(jnp.float32)
