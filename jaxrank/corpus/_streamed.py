"""Internals of `jaxrank.corpus`: functions of sums over all items, with gradients, chunk by chunk.

A loss over a catalogue reads the listed items of its queries, and totals over all items. The
backward pass computes each chunk again, and writes the gradient of its items into one array. JAX's
own derivative of the loop would add up a whole array for each chunk.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import sorting
from jaxrank.corpus import _sweep
from jaxrank.corpus._sweep import Axis, Place


class Chunk(NamedTuple):
  """Some items, and which of them are candidates.

  Attributes:
    items: The items, a pytree of arrays `[c, ...]`.
    place: Their place among the items of this device.
    removed: `[q, e]`, the places of items that are no candidates.
  """

  items: Any
  place: Place
  removed: Array

  def candidates(self, block: Array) -> Array:
    """Whether each score `[q, c]` is that of a candidate."""
    return self.place.candidates(block, self.removed)


# `each_chunk(step, state)`: the state after `state = step(state, chunk)` for all chunks.
EachChunk = Callable[[Callable[[Any, Chunk], Any], Any], Any]


class Stage(NamedTuple):
  """A pass over all items, which gives totals.

  Attributes:
    prepare: `prepare(params, own, totals)`, what the pass reads: of the parameters, the listed
      items, and the totals of earlier stages.
    total: `total(shared, each_chunk, axis)`, the totals over all devices of the axis.
    added: `added(shared, total, chunk)`, arrays like the totals. Their sums over all chunks have
      the derivatives of the totals by `shared` and by the items, if `total` is held constant.
  """

  prepare: Callable[[Any, Any, tuple[Any, ...]], Any]
  total: Callable[[Any, EachChunk, Axis], Any]
  added: Callable[[Any, Any, Chunk], Any]


class Program(NamedTuple):
  """A function of the parameters, the listed items, and the totals of stages.

  Attributes:
    stages: The passes over the items, one after the other.
    finish: `finish(params, own, totals)`, the result.
  """

  stages: tuple[Stage, ...]
  finish: Callable[[Any, Any, tuple[Any, ...]], Any]


class _Size(NamedTuple):
  """The number of items of a device, that of a chunk, and the mesh axes that split the items."""

  items: int
  chunk: int
  axis: Axis


def run(
  program: Program,
  params: Any,
  items: Any,
  listed: Array,
  removed: Array,
  chunk: int,
  axis: Axis,
) -> Any:
  """The result of a program, differentiable in reverse mode by the parameters and the items.

  Args:
    program: A value that is equal for equal programs.
    params: A pytree of arrays, the same on all devices of the axis.
    items: A pytree of arrays `[n, ...]`, those of this device.
    listed: `[q, p]`, ids of items, -1 for none. `own`, which the program reads, are these items,
      `[q, p, ...]`; any item in place of none.
    removed: `[q, e]`, ids of items that are no candidates, padded with -1.
    chunk: The number of items in a chunk.
    axis: The mesh axes that split the items.
  """
  ids = tuple(_sweep.local(x, items, axis) for x in (listed, removed))
  items, n, chunk = _sweep.whole(items, chunk, 1, jnp)
  # Where the queries are split as well, the slopes of what they share are added up at the end.
  like = functools.reduce(jnp.add, map(_number, jax.tree.leaves(params)))
  spread = functools.partial(_sweep.spread_like, like=like)
  params, items = jax.tree.map(spread, (params, items))
  return _run(program, _Size(n, chunk, axis), params, items, ids)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _run(program: Program, size: _Size, params: Any, items: Any, ids: tuple[Array, Array]) -> Any:
  return _forward(program, size, params, items, ids)[0]


def _forward(
  program: Program, size: _Size, params: Any, items: Any, ids: tuple[Array, Array]
) -> tuple[Any, Any]:
  listed, removed = ids
  own = _listed(items, listed, size.axis)
  totals: tuple[Any, ...] = ()
  for stage in program.stages:
    shared = stage.prepare(params, own, totals)

    def each_chunk(step: Callable[[Any, Chunk], Any], state: Any) -> Any:
      def next_state(removed: Array, state: Any, part: Any, place: Place) -> Any:
        return step(state, Chunk(part, place, removed))

      return _sweep.each_chunk(next_state, removed, state, items, size.items, size.chunk)

    totals = (*totals, stage.total(shared, each_chunk, size.axis))
  return program.finish(params, own, totals), (params, items, ids, totals)


def _backward(program: Program, size: _Size, known: Any, slope: Any) -> tuple[Any, Any, None]:
  params, items, (listed, removed), totals = known
  own = _listed(items, listed, size.axis)
  of_params, of_own, of_totals = jax.vjp(program.finish, params, own, totals)[1](slope)
  of_items = jax.tree.map(lambda x: jnp.zeros(x.shape if _is_float(x) else (), x.dtype), items)
  for i in reversed(range(len(program.stages))):
    stage = program.stages[i]
    shared, back = jax.vjp(stage.prepare, params, own, totals[:i])
    pass_ = _Pass(stage, shared, totals[i], of_totals[i], removed)
    of_shared, of_items = _slopes(pass_, size, items, of_items)
    more = back(of_shared)
    of_params, of_own, of_earlier = jax.tree.map(_plus, (of_params, of_own, of_totals[:i]), more)
    of_totals = (*of_earlier, *of_totals[i:])
  of_items = jax.tree.map(functools.partial(_with_rows, listed), of_items, of_own)
  return of_params, jax.tree.map(_as_slope, of_items, items), None


_run.defvjp(_forward, _backward)


class _Pass(NamedTuple):
  """What the backward pass of a stage reads: the slope is that of the total."""

  stage: Stage
  shared: Any
  total: Any
  slope: Any
  removed: Array


def _slopes(of: _Pass, size: _Size, items: Any, of_items: Any) -> tuple[Any, Any]:
  """The slopes of what a stage reads, and those of the items, added to earlier ones."""

  def step(given: Any, state: Any, part: Any, place: Place) -> Any:
    shared, total, slope, removed = given
    of_shared, of_items = state

    def added(shared: Any, part: Any) -> Any:
      return of.stage.added(shared, total, Chunk(part, place, removed))

    _, back = jax.vjp(added, shared, part)
    of_this, of_part = back(slope)
    of_shared = jax.tree.map(_plus, of_shared, of_this)
    return of_shared, jax.tree.map(functools.partial(_plus_at, place.start), of_items, of_part)

  # Otherwise each chunk would end in a sum over the devices.
  one = jax.tree.leaves(items)[0]
  given = jax.tree.map(lambda x: _sweep.spread_like(x, one), (of.shared, of.total, of.slope))
  given, state = (*given, of.removed), (jax.tree.map(_nothing, of.shared), of_items)
  of_shared, of_items = _sweep.each_chunk(step, given, state, items, size.items, size.chunk)
  if size.axis is not None:
    of_shared = lax.psum(of_shared, size.axis)
  return jax.tree.map(_as_slope, of_shared, of.shared), of_items


def _number(x: Array) -> Array:
  """A number that varies over the mesh axes over which an array does."""
  return jnp.sum(x != x, dtype=jnp.int32)


def _listed(items: Any, listed: Array, axis: Axis) -> Any:
  """The items at local ids, `[q, p, ...]`, on all devices."""
  flat = _sweep.gather(items, listed.reshape(-1), axis)
  return jax.tree.map(lambda x: x.reshape(*listed.shape, *x.shape[1:]), flat)


def _is_float(x: Any) -> bool:
  return jnp.issubdtype(x.dtype, jnp.inexact)


def _nothing(x: Array) -> Array:
  """Zeros to add slopes to; in half precision, the small ones would be lost."""
  if not _is_float(x):
    return jnp.zeros(())
  return jnp.zeros(x.shape, jnp.float32 if x.dtype.itemsize < 4 else x.dtype)


def _plus(x: Any, slope: Any) -> Any:
  """The sum of slopes; arrays that are no floats have none."""
  return x if slope.dtype == jax.dtypes.float0 else x + slope.astype(x.dtype)


def _plus_at(start: ArrayLike, x: Array, slope: Any) -> Array:
  """The slopes of all items with those of a chunk added."""
  if slope.dtype == jax.dtypes.float0:
    return x
  earlier = lax.dynamic_slice_in_dim(x, start, slope.shape[0])
  return lax.dynamic_update_slice_in_dim(x, earlier + slope.astype(x.dtype), start, 0)


def _with_rows(listed: Array, x: Array, slope: Any) -> Array:
  """The slopes of all items with those of the listed ones added, which may be listed often."""
  if slope.dtype == jax.dtypes.float0:
    return x
  ids, order = sorting.order(listed.reshape(-1))
  group = jnp.cumsum(jnp.append(False, ids[1:] != ids[:-1]).astype(jnp.int32))
  rows = jnp.take(slope.reshape(order.size, *slope.shape[2:]), order, axis=0)
  rows = jnp.where(jnp.expand_dims(ids >= 0, tuple(range(1, rows.ndim))), rows, 0)
  sums = _nothing(rows).at[group].add(rows.astype(_nothing(rows).dtype))
  # Where there is no item, 0 is added to the first one.
  place = jnp.zeros_like(ids).at[group].set(jnp.maximum(ids, 0))
  return x.at[place].add(sums.astype(x.dtype))


def _as_slope(x: Any, like: Array) -> Any:
  """A slope in the dtype of what it belongs to."""
  return x.astype(like.dtype) if _is_float(like) else np.zeros(like.shape, jax.dtypes.float0)


def relative(z: Array, top: Array) -> Array:
  """`exp(z - top)`; 0 for -inf, also if nothing is above it."""
  return jnp.exp(z - jnp.where(top == -jnp.inf, 0, top))
