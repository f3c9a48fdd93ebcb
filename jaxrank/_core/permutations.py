"""Lists put in rank order, with arrays that travel along, and derivatives that travel back.

Words of a key and an index are sorted, and the other arrays gathered. A TPU, where a gather takes
longer than a sort, sorts the arrays as operands.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core.batching import whole_batch
from jaxrank._core.platforms import operation, primitive

# Up to so many columns of labels are sorted as operands; the rows of more are gathered.
_COLUMNS = 8


def by_columns(move: Callable[[Array, Array], Array], x: Array, item: Array) -> Array:
  """`move(x, item)`, for an array `[..., n]`, or for each column of one `[..., n, columns]`."""
  return jax.vmap(move, (-1, None), -1)(x, item) if x.ndim > item.ndim else move(x, item)


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
  return _followed(x, moved, item) if jnp.issubdtype(x.dtype, jnp.floating) else moved


@jax.custom_jvp
def _followed(x: Array, moved: Array, item: Array) -> Array:
  return moved


@_followed.defjvp
def _followed_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
  # Not `moved` itself, which has no derivative: there are second ones.
  return _followed(*primals), by_columns(_moved, tangents[0], primals[2])


def _arranged(*arrays: Array) -> Sequence[Array]:
  moved: Sequence[Array] = _operation.bind(*arrays, function=_arrange)
  return moved


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
  *found, columns = _arranged(key, scores, columns)
  return [*found, columns.reshape(labels.shape)], [None, None, None, labels.ndim - 1]


_operation = operation("arranged", _arranged_batch)


@primitive
def arranged_batch(key: Array, scores: Array, labels: Array, *first: Array) -> tuple[Array, ...]:
  """`arranged` of a whole batch, `[..., n]`: an order, which the other arrays follow."""
  key, item = sorting.order(key, *first) if first else sorting.order_of_batch(key)
  moved = _from_keys(scores, key) if _decoded(scores) else sorting.take(scores, item)
  return key, item, moved, by_columns(sorting.take, labels, item)


@arranged_batch.on("tpu", gain="nDCG [32, 1000]: 7")
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


_arrange = jax.jit(arranged_batch, inline=True)


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
