"""What tied items are worth, on average over all their orders.

Everything here works on sorted keys `[n]`, so that a tie is a run of equal keys; keys that are
not ranked tie with none. Float scores tie in pairs now and then, and pairs take one pass over the
data; anything longer in the batch takes a search for the ends of each tie.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank import sorting
from jaxrank.sorting import take


def layout(key: Array) -> tuple[Array, Array]:
  """Where the tie of each item starts, counted from 0, and its size, `[n]` each."""
  start = sorting.count_above(key, key, jnp.zeros_like(key))
  return start, sorting.count_above(key, key - 1, start) - start


@jax.custom_jvp
def mean(key: Array, w: Array) -> Array:
  """The mean of `w` over the tie of each item."""
  return _mean(key, w)


@mean.defjvp
def _mean_jvp(primals, tangents):
  key, w = primals
  start, size = layout(key)
  # Sums by scattering have a transpose; loops have none.
  sum_ = take(jnp.zeros_like(w).at[start].add(tangents[1]), start)
  return mean(key, w), sum_ / size.astype(w.dtype)


@sorting.batched
def _mean(key: Array, w: Array) -> Array:
  def pair(w, other):
    return (w + other) / 2

  def any_length():
    start, size = layout(sorting.after(key, running := _running(key, w)))
    size = jnp.where(key > sorting.LOST, size, 1)
    return take(running, jnp.maximum(start + size - 1, 0)) / size.astype(w.dtype)

  return _by_length(key, any_length, lambda with_tie: with_tie(pair, pair, w, w))


def _running(key: Array, w: Array) -> Array:
  """The sum of `w` over the tie of each item, down to it, `[..., n]`.

  The reach doubles until it spans the longest tie: never the difference of two long sums, whose
  rounding would show in the mean of a few items.
  """
  slot = sorting.slots(key)

  def reaches(length):
    above = take(key, jnp.maximum(slot - length, 0))
    return (slot >= length) & (key > sorting.LOST) & (key == above)

  def double(state):
    length, here, sum_ = state
    sum_ = sum_ + jnp.where(here, take(sum_, jnp.maximum(slot - length, 0)), 0)
    return 2 * length, reaches(2 * length), sum_

  state = (jnp.int32(1), reaches(1), w)
  return lax.while_loop(lambda state: jnp.any(state[1]), double, state)[2]


@sorting.batched
def progress(key: Array) -> Array:
  """How far down its tie an item stands, from 0 for the first to 1 for the last, float32."""

  def any_length():
    start, size = layout(key)
    above = (sorting.slots(key) - start).astype(jnp.float32)
    return above / jnp.maximum(size - 1, 1).astype(jnp.float32)

  def pairs(with_tie):
    zero = jnp.zeros_like(key, jnp.float32)
    return with_tie(lambda x, y: zero, lambda x, y: zero + 1, zero, zero)

  return _by_length(key, any_length, pairs)


@jax.custom_jvp
def stops(key: Array, stop: Array) -> Array:
  """The chance to stop at each rank of a user who stops at an item with probability `stop`."""
  return _stops(key, stop)


@stops.defjvp
def _stops_jvp(primals, tangents):
  key, stop = primals
  start, _ = layout(key)

  def scanned(stop):
    def add(state, item):
      return _add_item(item, state, stop, start, _has_item(item, key, start)), None

    items = jnp.arange(2, key.shape[-1] + 1, dtype=jnp.int32)
    (stopped, _), _ = lax.scan(add, _one_item(stop, start), items)
    return stopped * take(survival(stop), start)

  # A while loop has no reverse mode: gradients with respect to labels pay the fixed length.
  return jax.jvp(scanned, (stop,), tangents[1:])


@sorting.batched
def _stops(key: Array, stop: Array) -> Array:
  def any_length():
    start = sorting.count_above(key, key, jnp.zeros_like(key))

    def add(state):
      item, has, *state = state
      state = _add_item(item, state, stop, start, has)
      return item + 1, _has_item(item + 1, key, start), *state

    second = jnp.int32(2)
    state = (second, _has_item(second, key, start), *_one_item(stop, start))
    _, _, stopped, _ = lax.while_loop(lambda state: jnp.any(state[1]), add, state)
    return stopped * take(survival(sorting.after(stop, stopped)), start)

  def pairs(with_tie):
    alive = survival(stop)

    def first(here, other):
      return alive * (here + other) / 2

    def second(here, other):
      return _above(alive) * (here * (1 - other) + other * (1 - here)) / 2

    return with_tie(first, second, stop, alive * stop)

  return _by_length(key, any_length, pairs)


def survival(stop: Array) -> Array:
  """The chance to pass all items ahead, in rank order."""
  passed = jnp.cumprod(1 - stop, axis=-1)
  return jnp.concatenate([jnp.ones_like(stop[..., :1]), passed[..., :-1]], axis=-1)


def _by_length(key: Array, any_length: Callable[[], Any], pairs: Callable[[Any], Any]) -> Any:
  """`any_length()`, or if no tie of the batch is longer than two, `pairs(with_tie)`.

  `with_tie(first, second, x, alone)` is `first(x, next)` and `second(x, previous)` for the two
  items of a pair, and `alone` for items that tie with none.
  """

  def with_tie(first, second, x, alone):
    tied = _tied(key, 1)
    above, below = (jax.tree.map(shift, x) for shift in (_above, _below))
    return jnp.where(tied, second(x, above), jnp.where(_below(tied), first(x, below), alone))

  return lax.cond(jnp.any(_tied(key, 2)), any_length, lambda: pairs(with_tie))


def _tied(key: Array, by: int) -> Array:
  """Whether an item ties with the one `by` ranks above it."""
  above = jnp.concatenate([jnp.full_like(key[..., :by], sorting.MASKED), key], axis=-1)
  return (key > sorting.LOST) & (key == above[..., : key.shape[-1]])


def _above(x: Array) -> Array:
  return jnp.concatenate([jnp.zeros_like(x[..., :1]), x[..., :-1]], axis=-1)


def _below(x: Array) -> Array:
  return jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], axis=-1)


def _has_item(item: Array, key: Array, start: Array) -> Array:
  """Whether the tie of each rank has an item number `item`."""
  last = key.shape[-1] - 1
  there = take(key, jnp.minimum(start + item - 1, last)) == key
  return there & (start + item - 1 <= last) & (key > sorting.LOST)


def _one_item(stop: Array, start: Array) -> tuple[Array, Array]:
  """The state of `_add_item` when each tie holds its first item alone."""
  ahead = sorting.slots(stop) - start
  alive = jnp.where(ahead == 1, 1 - take(stop, start), 0)
  return jnp.where(ahead == 0, stop, 0), jnp.where(ahead == 0, 1, alive)


def _add_item(item: Array, state: Any, stop: Array, start: Array, has: Array) -> Any:
  """Adds to each tie that has it its item number `item`, at a random place among those before.

  At a rank with `l` items of the tie ahead, `alive` is the mean chance to pass `l` of the items
  so far, and `stopped` the mean chance to pass them and stop there.
  """
  stopped, alive = state
  new = take(stop, jnp.minimum(start + item - 1, stop.shape[-1] - 1))
  here = 1 / item.astype(stop.dtype)
  ahead = (sorting.slots(stop) - start).astype(stop.dtype) * here
  passed = ahead * (1 - new)
  stopped_then = here * new * alive + (1 - here - ahead) * stopped + passed * _above(stopped)
  alive_then = (1 - ahead) * alive + passed * _above(alive)
  return jnp.where(has, stopped_then, stopped), jnp.where(has, alive_then, alive)


def first(value: Callable[[Array], Array], above: Array, t: Array, m: Array) -> Array:
  """`E value(rank)` of the first of `m` relevant items among `t` tied ones below `above`."""

  def unfinished(state):
    place, alive, _ = state
    return (alive > 0) & (place < t)

  def step(state):
    place, alive, expected = state
    left, misses = (x.astype(expected.dtype) for x in (t - place, t - m - place))
    expected = expected + alive * (1 - misses / left) * value(1 + above + place)
    return place + 1, alive * misses / left, expected

  nothing = jnp.zeros_like(value(above + 1))
  return lax.while_loop(unfinished, step, (jnp.zeros_like(t), nothing + 1, nothing))[2]
