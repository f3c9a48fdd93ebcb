"""Internals of `jaxrank.corpus`: checks and conversion of the inputs of a search."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, sorting
from jaxrank._core._jax import is_traced

Progress = Callable[[int, int], object]

# The id that stands for no item.
NONE = -1


class Inputs(NamedTuple):
  """What is the same for all chunks of items; arrays have one row for each query.

  Attributes:
    queries: `[q, ...]`, or a pytree of such arrays.
    removed: `[q, e]`, ids that are not counted, without repeats, padded with -1.
    similarity: Function of queries and items that returns scores.
    target_items: `[q, ...]`, the item of each target, or `[q, p, ...]`; None without targets.
    bounded: Whether all scores are known to be finite, a scalar.
  """

  queries: Any
  removed: Array
  similarity: Partial
  target_items: Any = None
  bounded: ArrayLike = np.False_


def size(x: Any) -> int:
  """The length of the first axis of the leaves."""
  length: int = jax.tree.leaves(x)[0].shape[0]
  return length


def as_arrays(name: str, x: Any) -> Any:
  """Converts the leaves to arrays of one length; numpy arrays stay as they are."""
  leaves, structure = jax.tree.flatten(x, is_leaf=lambda x: isinstance(x, list | Iterator))
  for leaf in leaves:
    checks.check(name, leaf)
  leaves = [leaf if isinstance(leaf, np.ndarray) else checks.array(name, leaf) for leaf in leaves]
  shapes = [leaf.shape for leaf in leaves]
  if not shapes or any(not shape or shape[0] != shapes[0][0] for shape in shapes):
    got = ", ".join(map(str, shapes)) or "nothing"
    raise ValueError(f"{name} must be arrays of one length, [{name}, ...], got {got}.")
  return jax.tree.unflatten(structure, leaves)


def check_vectors(queries: Any, items: Any) -> None:
  """Raises an error unless both are matrices of real numbers with rows of one length."""
  for name, x in (("queries", queries), ("items", items)):
    if getattr(x, "ndim", None) != 2:
      raise ValueError(
        f"{name} must have shape [{name}, d] for a similarity by name, got "
        f"{getattr(x, 'shape', type(x).__name__)}; pass a function as similarity."
      )
    checks.real(name, x.dtype)
    checks.fits(name, x)
  if queries.shape[1] != items.shape[1]:
    raise ValueError(
      "queries and items must have vectors of one length, [queries, d] and [items, d], got "
      f"{queries.shape} and {items.shape}."
    )


def as_ids(name: str, x: ArrayLike, queries: int, items: int | None, *, ndim: int) -> Array:
  """Ids as int32 with one row for each query; ids that are not traced must be valid, or -1."""
  known = checks.is_known(x)
  if hasattr(x, "tocsr"):
    raise TypeError(
      f"{name} must be ids of items [queries, ...], got a sparse {type(x).__name__}; pass the "
      "columns of its entries row by row, padded with -1."
    )
  try:
    ids: Any = checks.on_host(name, x) if known else x
  except ValueError:
    raise ValueError(f"{name} must have rows of one length; pad them with -1.") from None
  if known and not ids.size:
    ids = ids.astype(np.int32)
  if not jnp.issubdtype(ids.dtype, jnp.integer):
    mask = ids.dtype == jnp.bool_ and queries == (ids.shape or (0,))[0] and ids.ndim == 2
    write = "; of a mask [queries, items] pass the ids where it is True, padded with -1" * mask
    raise TypeError(f"{name} must be integer ids of items, got {ids.dtype}{write}.")
  if ids.ndim != ndim or ids.shape[0] != queries:
    expected = ", ".join([str(queries), name[0]][:ndim])
    raise ValueError(
      f"{name} must have one row for each query, shape [{expected}], got {list(ids.shape)}."
    )
  if known and items is not None:
    wrong = np.argwhere((ids < NONE) | (ids >= items))
    if len(wrong):
      at = tuple(wrong[0].tolist())
      raise ValueError(
        f"{name} must be ids from 0 to {items - 1}, or -1 for none, got {ids[at]} for query "
        f"{at[0]}."
      )
  return x.astype(jnp.int32) if isinstance(x, Array) else jnp.asarray(ids.astype(np.int32))


def check_apart(name: str, ids: Any, exclude: Any) -> None:
  """Raises `ValueError` for a query of which an id is also excluded, unless one is traced."""
  if exclude is None or not (checks.is_known(ids) and checks.is_known(exclude)):
    return
  listed, removed = (np.asarray(x, np.int64).reshape(len(ids), -1) for x in (ids, exclude))
  stride = max(listed.max(initial=0), removed.max(initial=0)) + 1
  query = np.arange(len(listed))[:, None] * stride
  both = (listed != NONE) & np.isin(query + listed, (query + removed)[removed != NONE])
  if both.any():
    at = tuple(np.argwhere(both)[0])
    raise ValueError(
      f"{name} and excluded ids must differ, got item {listed[at]} in both for query {at[0]} "
      f"({both.any(axis=1).sum()} such queries): an item that is no candidate has no rank and "
      f"no loss. Take it out of exclude, with -1 in its place, or out of {name}."
    )


def are_wrong(listed: Array, removed: Array, items: int) -> Array:
  """Whether listed ids `[..., p]` are no items, or among the removed ones `[..., e]`."""
  out = jnp.any(listed[..., :, None] == removed[..., None, :], axis=-1)
  return (listed != NONE) & ((listed < 0) | (listed >= items) | out)


def come_from_host(progress: Progress | None, *inputs: Any) -> bool:
  """Whether the items, the first of `inputs`, are sent from the host chunk by chunk."""
  if progress is not None:
    checks.function("progress", progress, "a function of (done, total), or None")
  traced = any(is_traced(x) for x in jax.tree.leaves(inputs))
  if traced and progress is not None:
    raise ValueError("progress works outside of jit only; drop it, or the jit.")
  on_host = any(isinstance(x, np.ndarray) for x in jax.tree.leaves(inputs[0]))
  return not traced and (progress is not None or on_host)


def without_repeats(removed: Array) -> Array:
  """The ids of each query in any order, `[q, e]`, with -1 in place of repeats."""

  def unique(x: Array) -> Array:
    key, _ = sorting.order(x)
    again = jnp.concatenate([jnp.zeros_like(x[:1], bool), key[1:] == key[:-1]])
    return jnp.where(again, NONE, key)

  return batching.over_queries(unique, 1)(removed) if removed.shape[1] > 1 else removed
