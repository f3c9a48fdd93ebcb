"""Maps functions of one query over a batch: leading axes, blocks, keys, empty axes, replicas.

`apply` uses it for metrics, and other modules for their own functions of one query. It also
separates the static parts of a pytree, which a compiled program depends on, from its arrays.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core._jax import is_zero
from jaxrank._core.platforms import calling, primitive

_Function = TypeVar("_Function", bound=Callable[..., Any])


def of_each_query(function: Callable[..., Any]) -> Callable[..., Any]:
  """Maps a function of one query, whose first argument is `[n]`, over a batch."""
  return lambda *args: over_queries(function, args[0].ndim - 1)(*args)


def over_queries(kernel: Callable[..., Any], leading: int) -> Callable[..., Any]:
  """Maps a kernel of one query over `leading` axes of every argument."""
  for _ in range(leading):
    kernel = jax.vmap(kernel)
  return kernel


@primitive
def of_each_column(*arrays: Array, function: Callable[..., Any]) -> Any:
  """`function` of each column of arrays `[n, s]`, stacked along the first axis."""
  return jax.vmap(function, in_axes=-1)(*arrays)


@of_each_column.on("tpu", gain="err_ia [32, 1000]: 1.7")
def columns_in_turn(*arrays: Array, function: Callable[..., Any]) -> Any:
  """`of_each_column`, one column after the other."""
  return lax.map(lambda columns: function(*columns), [jnp.moveaxis(x, -1, 0) for x in arrays])


def batched(
  function: _Function,
  differentiable: Callable[..., Any] | None = None,
  *,
  several: bool = False,
) -> _Function:
  """Makes a function of the last axis of arrays its own batching rule.

  Under `vmap` it receives the whole batch at once, so that a loop has one predicate for all
  queries, and the layout can be chosen for the batch.

  Args:
    function: Of arrays to one array or, if there are `several`, to a tuple of arrays.
    differentiable: The same function of a whole batch, whose derivative is taken; None if there is
      no derivative.
    several: Whether there are several arrays.
  """
  traced = jax.jit(function, inline=True)

  @functools.wraps(function)
  def call(*args: Array) -> Any:
    values = _batched(*args, function=traced, differentiable=differentiable)
    return tuple(values) if several else values[0]

  return cast(_Function, call)


def whole_batch(args: Sequence[Array], axes: Sequence[int | None]) -> list[Array]:
  """The arguments of a batch, each with a leading axis for it."""
  size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
  return [
    jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    for x, axis in zip(args, axes, strict=True)
  ]


def _batch(
  args: Sequence[Array], axes: Sequence[int | None], **static: Any
) -> tuple[list[Array], list[int]]:
  whole = whole_batch(args, axes)
  size = whole[0].shape[0]
  # A function need not know how to divide by a batch of no queries.
  values = _batched(*never_empty(0, whole), **static)
  return (values if size else [x[:0] for x in values]), [0] * len(values)


def _jvp(
  primals: Sequence[Array],
  tangents: Sequence[Any],
  *,
  function: Callable[..., Any],
  differentiable: Callable[..., Any] | None,
) -> Any:
  if differentiable is None:
    raise NotImplementedError(f"jaxrank: {function} has no derivative")
  moving = [i for i, tangent in enumerate(tangents) if not is_zero(tangent)]

  def of_moving(*moved: Array) -> list[Array]:
    given = dict(zip(moving, moved, strict=True))
    return jax.tree.leaves(differentiable(*(given.get(i, x) for i, x in enumerate(primals))))

  return jax.jvp(of_moving, [primals[i] for i in moving], [tangents[i] for i in moving])


_batched = calling("batched", _batch, _jvp)


def in_blocks(function: Callable[..., Any], rows: int) -> Callable[..., Any]:
  """Applies a function of arrays `[q, ...]` to blocks of about `rows` rows, one after another."""

  def blocked(*args: Any) -> Any:
    size = jax.tree.leaves(args)[0].shape[0]
    least = -(-size // max(rows, 1))
    if least <= 1:
      return function(*args)
    # If the number of blocks divides `size`, the arguments need not be padded, which copies them.
    blocks = next((b for b in range(least, 2 * least) if size % b == 0), least)
    length = -(-size // blocks)

    def cut(x: Array) -> Array:
      if blocks * length > size:
        x = x[jnp.minimum(jnp.arange(blocks * length), size - 1)]
      return x.reshape(blocks, length, *x.shape[1:])

    values = lax.map(lambda block: function(*block), jax.tree.map(cut, args))
    return jax.tree.map(lambda x: x.reshape(blocks * length, *x.shape[2:])[:size], values)

  return blocked


def rows_on_cpu(shape: tuple[int, ...], items: int | None) -> int:
  """The number of rows of arrays `[q, ...]` in a block of about `items` items; 0 for no blocks."""
  if items is None or len(shape) == 1:
    return 0
  rows = max(1, items * shape[0] // max(1, math.prod(shape)))
  return rows if rows < shape[0] else 0


@primitive
def of_all_rows(*args: Any, function: Callable[..., Any], rows: int) -> Any:
  """A function of arrays `[q, ...]`, of which about `rows` rows fit in the caches of a CPU."""
  del rows
  return function(*args)


@of_all_rows.on("cpu", gain="average precision [1000, 1000]: 2.6")
def _of_blocks_of_rows(*args: Any, function: Callable[..., Any], rows: int) -> Any:
  return in_blocks(function, rows)(*args)


def never_empty(axis: int, arrays: Any) -> Any:
  """Pads an axis of length 0 to length 1, with zeros; a mask is False there."""

  def padded(x: Array) -> Array:
    return jnp.pad(x, [(0, i == axis) for i in range(x.ndim)]) if x.shape[axis] == 0 else x

  return jax.tree.map(padded, arrays)


def as_empty_as(lists: ArrayLike, x: Array, axes: int = 1) -> Array:
  """`x` without the item that `never_empty` gave to empty lists, along its last `axes`."""
  return x if np.shape(lists)[-1] else x[(..., *[slice(0)] * axes)]


def replicated(*arrays: Array) -> tuple[Array, ...]:
  """Replicates arrays over their mesh, to be sorted along an axis that may be sharded."""
  mesh = jax.typeof(arrays[0]).sharding.mesh
  if mesh.empty:
    return arrays
  whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  return tuple(jax.sharding.reshard(x, whole) for x in arrays)


def key_of_each_query(key: Array | None, where: Array) -> Array | None:
  """One PRNG key per query, derived from its index in the batch; `where` is `[..., n]`."""
  if key is None or where.ndim == 1:
    return key
  query = jnp.zeros_like(where[..., 0], jnp.uint32)
  stride = 1
  for axis in reversed(range(query.ndim)):
    sharding = jax.typeof(query).sharding
    query += stride * lax.broadcasted_iota(jnp.uint32, query.shape, axis, out_sharding=sharding)
    stride *= query.shape[axis]
  keys: Array = over_queries(functools.partial(jax.random.fold_in, key), query.ndim)(query)
  return keys


def without_nan(numbers: Any) -> tuple[Array | bool, Any]:
  """Whether a scalar of a pytree is NaN, and the pytree with other numbers for such scalars.

  What is computed from them is then finite, as a gradient that is multiplied by 0 has to be. False,
  rather than an array, without a scalar that can be NaN.
  """
  leaves, tree = jax.tree.flatten(numbers)
  unknown: Array | bool = False
  for i, x in enumerate(leaves):
    if jnp.ndim(x) == 0 and jnp.issubdtype(jnp.result_type(x), jnp.floating):
      is_nan = jnp.isnan(x)
      unknown |= is_nan
      # Within the range of all parameters: a temperature, a probability, a grade.
      leaves[i] = jnp.where(is_nan, 0.5, x)
  return unknown, jax.tree.unflatten(tree, leaves)


class Static(NamedTuple):
  """What is left of a pytree without its arrays; hashable if its leaves are."""

  leaves: tuple[Any, ...]
  tree: Any


class _Traced:
  """Marks the place of an array among the static leaves."""


def split(x: Any) -> tuple[list[Any], Static]:
  """The numbers and arrays of a pytree, which may be traced, and the rest."""
  leaves, tree = jax.tree.flatten(x)
  traced = [isinstance(leaf, float | Array | np.ndarray | np.number) for leaf in leaves]
  arrays = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
  pairs = zip(leaves, traced, strict=True)
  return arrays, Static(tuple(_Traced if is_traced else leaf for leaf, is_traced in pairs), tree)


def joined(arrays: list[Any], static: Static) -> Any:
  """The inverse of `split`."""
  rest = iter(arrays)
  leaves = [next(rest) if leaf is _Traced else leaf for leaf in static.leaves]
  return jax.tree.unflatten(static.tree, leaves)
