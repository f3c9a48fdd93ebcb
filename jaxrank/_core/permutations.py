"""Lists put in rank order, with arrays that travel along, and derivatives that travel back.

Words of a key and an index are sorted, and the other arrays gathered. A TPU, where a gather takes
longer than a sort, sorts the arrays as operands.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core._jax import is_zero
from jaxrank._core.batching import of_each_query, whole_batch
from jaxrank._core.platforms import calling, primitive

# Up to so many columns of labels are sorted as operands; the rows of more are gathered.
_COLUMNS = 8


def by_columns(move: Callable[[Array, Array], Array], x: Array, item: Array) -> Array:
  """`move(x, item)`, for an array `[..., n]`, or each column of one `[..., n, columns, ...]`."""
  if x.ndim == item.ndim:
    return move(x, item)
  moved: Array = jax.vmap(functools.partial(by_columns, move), (-1, None), -1)(x, item)
  return moved


def arranged(
  key: Array, scores: Array, labels: Array, first: Array | None = None
) -> tuple[Array, ...]:
  """Sorts `[n]` keys, largest first, with their scores and with labels `[n]` or `[n, columns]`.

  Returns the keys, the items in their order, the scores and the labels. Ties keep the order of the
  input or, given other keys `first`, have the order of these, largest first. docs/mathematics.md,
  "Sorting keys and counts of pairs".
  """
  arrays, of_ties = (scores, labels), () if first is None else (first,)
  key, item, *moved = _arranged(key, *map(lax.stop_gradient, arrays), *of_ties)
  return key, item, *(_follow(x, y, item) for x, y in zip(arrays, moved, strict=True))


def _follow(x: Array, moved: Array, item: Array) -> Array:
  """`moved`, which is `x[item]`, with the derivative of `x`."""
  return _followed(x, moved, item)[0] if jnp.issubdtype(x.dtype, jnp.floating) else moved


def _followed_jvp(primals: Sequence[Array], tangents: Sequence[Any], **_: Any) -> Any:
  # Not `moved` itself, which has no derivative: there are second ones.
  change = tangents[0]
  if not is_zero(change):
    change = by_columns(of_each_query(_moved), change, primals[2])
  return _followed(*primals), [change]


def _followed_batch(
  args: Sequence[Array], axes: Sequence[int | None], **_: Any
) -> tuple[Sequence[Array], Sequence[int]]:
  of_x, of_moved, of_item = axes
  if of_item is not None or of_x is None or of_moved is None:
    return _followed(*whole_batch(args, axes)), [0]
  # Lists that share their order are columns.
  x, moved, item = args
  x, moved = jnp.moveaxis(x, of_x, -1), jnp.moveaxis(moved, of_moved, -1)
  return _followed(x, moved, item), [x.ndim - 1]


_followed = functools.partial(
  calling("followed", _followed_batch, _followed_jvp),
  function=jax.jit(lambda x, moved, item: moved, inline=True),
)


def _arranged_batch(
  args: Sequence[Array], axes: Sequence[int | None], **_: Any
) -> tuple[Sequence[Array], Sequence[int | None]]:
  *of_scores, axis = axes
  if axis is None or of_scores != [None, None]:
    moved = _arranged(*whole_batch(args, axes))
    return moved, [0] * len(moved)
  # Lists that share their scores, and have no order of ties, are sorted once, as columns.
  key, scores, labels = args
  labels = jnp.moveaxis(labels, axis, -1)
  columns = labels.reshape(*key.shape, math.prod(labels.shape[key.ndim :]))
  *shared, columns = _arranged(key, scores, columns)
  return [*shared, columns.reshape(labels.shape)], [None, None, None, labels.ndim - 1]


@primitive
def arranged_batch(key: Array, scores: Array, labels: Array, *first: Array) -> tuple[Array, ...]:
  """`arranged` of a whole batch, `[..., n]`: an order, which the other arrays follow."""
  key, item = sorting.order(key, *first) if first else sorting.order_of_batch(key)
  moved = _from_keys(scores, key) if _decoded(scores) else sorting.take(scores, item)
  return key, item, moved, by_columns(sorting.take, labels, item)


@arranged_batch.on("tpu", gain="average precision [1000, 1000]: 16")
def _sorted_together(key: Array, scores: Array, labels: Array, *first: Array) -> tuple[Array, ...]:
  """One sort with all arrays as operands."""
  lists = labels if labels.ndim > key.ndim else labels[..., None]
  number = lists.shape[-1]
  columns = [lists[..., i] for i in range(number)] if number <= _COLUMNS else []
  operands = columns if _decoded(scores) else [scores, *columns]
  keys = [~x for x in (key, *first)]
  item = sorting.slots_like(key)
  key, *moved = sorting.by_operands(*keys, item, *operands, keys=len(keys))
  item, *moved = moved[len(first) :]
  if _decoded(scores):
    moved = [_from_keys(scores, ~key), *moved]
  scores, *columns = moved
  if columns:
    labels = jnp.stack(columns, axis=-1).reshape(labels.shape)
  else:
    labels = by_columns(sorting.take, labels, item)
  return ~key, item, scores, labels


_arranged = functools.partial(
  calling("arranged", _arranged_batch), function=jax.jit(arranged_batch, inline=True)
)


def _from_keys(scores: Array, key: Array) -> Array:
  return sorting.top_values(scores, key).astype(scores.dtype)


def _decoded(scores: Array) -> bool:
  """Whether the keys of scores hold them."""
  return jnp.issubdtype(scores.dtype, jnp.floating) and scores.dtype.itemsize <= 4


def _moved(x: Array, item: Array) -> Array:
  """`x[item]`, for a permutation; no two numbers of its transpose are added up.

  It solves the equation `scatter(y, item) = x`, because JAX transposes and batches a solution as it
  is told to.
  """
  moved: Array = lax.custom_linear_solve(
    lambda y: sorting.scatter(y, item),
    x,
    lambda _, x: sorting.take(x, item),
    lambda _, x: sorting.scatter(x, item),
  )
  return moved


def put_back(x: Array, item: Array) -> Array:
  """`out` with `out[item] = x`, for a permutation; the inverse of `x[item]`, as fast."""
  if not jnp.issubdtype(x.dtype, jnp.floating):
    return sorting.scatter(x, item)
  moved: Array = lax.custom_linear_solve(
    lambda y: sorting.take(y, item),
    x,
    lambda _, x: sorting.scatter(x, item),
    lambda _, x: sorting.take(x, item),
  )
  return moved
