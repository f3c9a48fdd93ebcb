"""Numbers of the items of a query on a common scale: ranks, z-scores, and from least to largest.

The last axis of `x` has the items. Each formula is written once, for padded lists of JAX and for
rows of NumPy: it asks the queries for sums, extremes and order. Items that are not counted neither
have a value of their own nor change those of others: where the mask is False the result is 0, and
NaN, which stands for a missing number, stays NaN.
"""

from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxrank._core import sorting, ties
from jaxrank._core.arithmetic import floating
from jaxrank._core.batching import over_queries


class Padded:
  """Padded lists of JAX, `[..., n]`: a query is the last axis."""

  numpy: Any = jnp

  def total(self, x: Any) -> Any:
    """The sum of floats over the query."""
    return jnp.sum(x, axis=-1, keepdims=True)

  def least(self, x: Any) -> Any:
    """The least number in the query; the largest float for no items."""
    return jnp.min(x, axis=-1, keepdims=True, initial=jnp.finfo(x.dtype).max)

  def lead(self, x: Any, counted: Any) -> Any:
    """How many more counted items are smaller than an item than are larger, by one sort."""

    def of_query(x: Any, counted: Any) -> Any:
      key, item = sorting.order(sorting.keys(x, counted))
      last = jnp.sum(counted, dtype=jnp.int32) - 1
      return sorting.scatter(last - ties.twice_midrank(key), item)

    return over_queries(of_query, x.ndim - 1)(lax.stop_gradient(x), counted)

  def constant(self, x: Any) -> Any:
    """`x` without a derivative."""
    return lax.stop_gradient(x)


class Rows:
  """Rows of NumPy, `[..., rows]`, of which those of a query are side by side."""

  numpy: Any = np

  def __init__(self, sizes: np.ndarray):
    self._sizes, self._starts = sizes, np.cumsum(sizes) - sizes

  def _of_rows(self, x: np.ndarray) -> np.ndarray:
    """A number of each query, `[..., queries]`, for each of its rows."""
    return np.repeat(x, self._sizes, axis=-1)

  def total(self, x: np.ndarray) -> np.ndarray:
    """The sum over the query, in double precision, because rows are added one by one."""
    total = np.add.reduceat(x, self._starts, axis=-1, dtype=np.float64)
    return self._of_rows(total.astype(x.dtype))

  def least(self, x: np.ndarray) -> np.ndarray:
    """The least number in the query."""
    return self._of_rows(np.minimum.reduceat(x, self._starts, axis=-1))

  def lead(self, x: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """How many more counted rows are smaller than a row than are larger; a sort puts NaN last."""
    query = self._of_rows(np.arange(self._sizes.size))
    order = np.lexsort((x, np.broadcast_to(query, x.shape)), axis=-1)
    x = np.take_along_axis(x, order, axis=-1)
    new = np.ones((*x.shape[:-1], x.shape[-1] + 1), bool)
    new[..., 1:-1] = x[..., 1:] != x[..., :-1]
    new[..., self._starts] = True
    slot = np.arange(x.shape[-1], dtype=np.int32)
    first = np.maximum.accumulate(np.where(new[..., :-1], slot, 0), axis=-1)
    behind = np.where(new[..., 1:], slot, slot.size)[..., ::-1]
    last = np.minimum.accumulate(behind, axis=-1)[..., ::-1]
    count = np.add.reduceat(counted, self._starts, axis=-1, dtype=np.int32)
    lead = np.empty(x.shape, np.int32)
    ends = first + last - self._of_rows((2 * self._starts).astype(np.int32) + count - 1)
    np.put_along_axis(lead, order, ends, axis=-1)
    return lead

  def constant(self, x: np.ndarray) -> np.ndarray:
    """`x`."""
    return x


Queries: TypeAlias = Padded | Rows
PADDED = Padded()


def ranks(x: Any, where: Any, queries: Queries = PADDED) -> Any:
  """`(smaller - larger) / m`, by the numbers of the `m` items of the query that are not NaN.

  With the average rank `r` of ties, from 1 for the smallest number, it is `(2 r - 1) / m - 1`. The
  derivative is 0.
  """
  xp, numbers = queries.numpy, floating(x)
  counted = where & ~xp.isnan(x)
  m = queries.total(counted.astype(numbers.dtype))
  rank = queries.lead(x, counted).astype(numbers.dtype) / xp.maximum(m, 1)
  return _placed(rank, counted, numbers, where, queries)


def z_scores(x: Any, where: Any, queries: Queries = PADDED) -> Any:
  """`(x - mean) / std` of the finite numbers of the query; the others stay as they are.

  They are computed from `min_max`, whose scale and offset they do not have, so that nothing
  overflows or cancels.
  """
  xp, x = queries.numpy, floating(x)
  counted = where & xp.isfinite(x)
  m = xp.maximum(queries.total(counted.astype(x.dtype)), 1)
  unit = _unit(x, counted, queries, queries.constant)
  centred = xp.where(counted, unit - queries.total(unit) / m, 0)
  variance = queries.total(centred * centred) / m
  z = centred / xp.sqrt(xp.where(variance == 0, 1, variance))
  return _placed(z, counted, x, where, queries)


def min_max(x: Any, where: Any, queries: Queries = PADDED) -> Any:
  """`(x - min) / (max - min)` of the finite numbers of the query; +inf is 1, and -inf is 0."""
  xp, x = queries.numpy, floating(x)
  counted = where & xp.isfinite(x)
  unit = _unit(x, counted, queries, lambda end: end)
  return _placed(unit, counted, xp.clip(x, 0, 1), where, queries)


def _unit(x: Any, counted: Any, queries: Queries, end: Any) -> Any:
  """`min_max` of the counted items, 0 for the others; `end` is applied to both ends."""
  xp, largest = queries.numpy, float(jnp.finfo(x.dtype).max)
  low = end(queries.least(xp.where(counted, x, largest)))
  high = end(-queries.least(xp.where(counted, -x, largest)))
  # Scaled, because the difference of two large numbers may be no float, and neither may be its
  # inverse, with which XLA multiplies instead.
  width = high / 16 - low / 16
  above = xp.where(counted, x, low) / 16 - low / 16
  some = width > 0
  # The derivative of a quotient would divide by the square of a small width.
  fixed = xp.where(some, queries.constant(width), 1)
  return xp.where(some, above / fixed / xp.where(some, width / fixed, 1), 0)


def _placed(scaled: Any, counted: Any, x: Any, where: Any, queries: Queries) -> Any:
  """The numbers of the counted items, `x` of the others, and 0 under the mask."""
  xp = queries.numpy
  return xp.where(counted, scaled, xp.where(where, queries.constant(x), 0))
