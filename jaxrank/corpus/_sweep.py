"""Internals of `jaxrank.corpus`: passes over all items in chunks, on one device or on many.

`on_device` loops inside a program, `from_host` sends the chunks from the host, and `over_devices`
maps a search over a mesh.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxrank._core import checks, sorting
from jaxrank._core._jax import varying
from jaxrank.corpus._inputs import NONE, Inputs, Progress, size
from jaxrank.corpus._marks import marked

_State = TypeVar("_State")
_Result = TypeVar("_Result")

# A function of the inputs, the state, a chunk of items and its place, which returns the next state.
Step = Callable[[Any, _State, Any, "Place"], _State]

# Chunks have a multiple of this many items. XLA may round products of other shapes differently, so
# that ranks would depend on the chunk.
_MULTIPLE = 128


class Place(NamedTuple):
  """The place of a chunk in the corpus. The items from `fresh` to before `stop` count.

  Attributes:
    start: The id of the first item; negative for the step that scores the targets' own items.
    fresh: The first id that no earlier chunk had.
    stop: The number of items of the corpus; rows from there on repeat the last item.
  """

  start: Array | np.int32
  fresh: Array | np.int32
  stop: Array | np.int32

  def counts(self, block: Array) -> Array:
    """Whether each column of scores `[q, c]` counts, `[1, c]`."""
    ids = self.start + sorting.slots(block)
    return (ids >= self.fresh) & (ids < self.stop)

  def candidates(self, block: Array, removed: Array) -> Array:
    """Whether each of the scores counts, and is not that of one of the ids `[q, e]`."""
    return self.counts(block) & ~marked(removed - self.start, block)


def on_device(
  step: Step[_State],
  inputs: Inputs,
  state: _State,
  items: Any,
  chunk: int,
  first: int = 0,
  least: int = 1,
) -> _State:
  """The state after all chunks, computed in a loop inside the program.

  The last chunk is as long as the others, and also has items of the chunk before it. `first = -1`
  adds a step with negative ids before the first chunk. A chunk has at least `least` rows.
  """
  items, n, chunk = whole(items, chunk, least, jnp)
  return each_chunk(step, inputs, state, items, n, chunk, first)


def each_chunk(
  step: Step[_State],
  inputs: Any,
  state: _State,
  items: Any,
  n: int,
  chunk: int,
  first: int = 0,
) -> _State:
  """The same for `n` items that `whole` has padded."""
  # In `shard_map` the state must vary over the same mesh axes as the inputs and the items.
  read = [jnp.any(x[:1] != x[:1]) for x in jax.tree.leaves((inputs, items)) if x.ndim]
  never = functools.reduce(jnp.logical_or, read) & False
  # A select of empty arrays does not.
  state = jax.tree.map(lambda x: spread_like(jnp.where(never, x, x), never), state)

  def body(i: Array, state: _State) -> _State:
    start = jnp.minimum(i * chunk, size(items) - chunk)
    part = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, start, chunk), items)
    return step(inputs, state, part, Place(start, jnp.maximum(i * chunk, 0), jnp.int32(n)))

  last: _State = lax.fori_loop(jnp.int32(first), jnp.int32(-(-n // chunk)), body, state)
  return last


def from_host(
  step: Step[_State],
  inputs: Inputs,
  state: _State,
  items: Any,
  chunk: int,
  progress: Progress | None,
  first: int = 0,
  least: int = 1,
) -> _State:
  """The same in a Python loop, which sends the next chunk while the device computes."""
  items, n, chunk = whole(items, chunk, least, np)
  chunks = -(-n // chunk)

  def send(i: int) -> tuple[Any, Place]:
    start = min(i * chunk, size(items) - chunk)
    cut = slice(max(start, 0), max(start, 0) + chunk)
    part = jax.tree.map(lambda x: jnp.asarray(x[cut]), items)
    return part, Place(*map(np.int32, (start, max(i * chunk, 0), n)))

  sent = send(first)
  for i in range(first, chunks):
    state = _compiled(step)(inputs, state, *sent)
    if i + 1 < chunks:
      sent = send(i + 1)
    jax.block_until_ready(state)
    if progress is not None and i >= 0:
      progress(min((i + 1) * chunk, n), n)
  return state


@functools.cache
def _compiled(step: Step[_State]) -> Step[_State]:
  return jax.jit(step)


def whole(items: Any, chunk: int, least: int, numpy: Any) -> tuple[Any, int, int]:
  """The items, padded to at least one chunk, their number, and the size of a chunk."""
  n = size(items)
  chunk, whole, least = (-(-x // _MULTIPLE) for x in (chunk, n, least))
  chunk = max(min(chunk, whole), least) * _MULTIPLE
  if n >= chunk:
    return items, n, chunk
  last = numpy.minimum(numpy.arange(chunk), n - 1)
  return jax.tree.map(lambda x: x[last], items), n, chunk


Axis = str | tuple[str, ...] | None


def over_devices(
  call: Callable[..., _Result], inputs: Inputs, items: Any, axis: Axis, *rest: Any
) -> _Result:
  """`call(inputs, items, axis, *rest)`, in `shard_map` if arrays are on an Explicit mesh.

  `rest` are arrays with one row for each query.
  """
  places = [jax.typeof(jax.tree.leaves(x)[0]).sharding for x in (inputs.queries, items)]
  mesh = next((p.mesh for p in places if AxisType.Explicit in p.mesh.axis_types), None)
  if mesh is None:
    return call(inputs, items, axis, *rest)
  by_query, by_item = (p.spec[0] if not p.mesh.empty else None for p in places)
  if by_query and by_item and checks.axes_of(by_query) & checks.axes_of(by_item):
    raise ValueError(
      f"corpus: queries, split over {by_query!r}, and items, over {by_item!r}, share a mesh axis: "
      "each device would rank its queries among its own items alone. Make one of them whole, with "
      "jax.sharding.reshard(queries, jax.P()), or split them over two axes."
    )
  queries, whole = PartitionSpec(by_query), PartitionSpec()
  specs = ((queries, queries, whole), PartitionSpec(by_item), *(queries for _ in rest))
  given = (inputs[:3], items, *rest)
  given = jax.tree.map(
    lambda spec, x: jax.tree.map(lambda y: jax.sharding.reshard(y, NamedSharding(mesh, spec)), x),
    specs,
    given,
    is_leaf=lambda x: isinstance(x, PartitionSpec),
  )

  def each(inputs: tuple[Any, ...], items: Any, *rest: Any) -> _Result:
    return call(Inputs(*inputs), items, by_item, *rest)

  return jax.shard_map(each, mesh=mesh, in_specs=specs, out_specs=queries)(*given)


def spread_like(x: Array, like: Array) -> Array:
  """`x`, which may differ between devices, for `shard_map`, where another array does."""
  axes = varying(like) - varying(x)
  return lax.pcast(x, tuple(axes), to="varying") if axes else x


def size_of_all(items: Any, axis: Axis) -> int:
  """The number of items on all devices."""
  return size(items) * (1 if axis is None else lax.axis_size(axis))


def offset(items: Any, axis: Axis) -> Array:
  """The id, in the whole corpus, of the first item of this device."""
  return jnp.int32(0) if axis is None else lax.axis_index(axis) * size(items)


def local(ids: Array, items: Any, axis: Axis) -> Array:
  """Converts ids to indices of the items of this device; -1 for items of other devices."""
  index = ids - offset(items, axis)
  return jnp.where((index >= 0) & (index < size(items)), index, NONE)


def gather(items: Any, ids: Array, axis: Axis) -> Any:
  """The items at local ids, from the device that holds them to all devices."""

  def rows(x: Array) -> Array:
    taken = jnp.take(x, jnp.maximum(ids, 0), axis=0, mode="clip")
    if axis is None:
      return taken
    held = jnp.expand_dims(ids >= 0, tuple(range(1, x.ndim)))
    everywhere: Array = lax.psum(jnp.where(held, taken, jnp.zeros_like(taken)), axis)
    return everywhere

  return jax.tree.map(rows, items)


def side_by_side(x: Array, axis: Any) -> Array:
  """The columns `[q, k]` of all devices, `[q, devices * k]`, in the order of their items.

  It is a sum, because JAX does not know that the result of `all_gather` is the same on all devices.
  """
  device = lax.broadcasted_iota(jnp.int32, (1, lax.axis_size(axis), 1), 1)
  placed = jnp.where(device == lax.axis_index(axis), x[:, None], jnp.zeros_like(x[:, None]))
  side: Array = lax.psum(placed, axis)
  return side.reshape(x.shape[0], -1)
