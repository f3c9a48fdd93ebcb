"""A user who goes down a list and stops, averaged over the orders of tied items.

docs/mathematics.md, "Averages over tied orders", derives the recursion.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core.batching import batched
from jaxrank._core.platforms import by_platform
from jaxrank._core.sorting import take
from jaxrank._core.ties import above

# `found` and `alive` at each rank, as `_add_item` defines them.
_Tie = tuple[Array, Array]


@jax.custom_jvp
def met(worth: Array, stop: Array, start: Array, end: Array) -> Array:
  """The expected worth at each rank for a user who stops at an item with probability `stop`.

  Users who stopped at an earlier rank contribute 0. If the worth of an item is its `stop`, the
  result is the probability of stopping at each rank. It is computed for as many of the first ranks
  as `start` and `end` have. docs/mathematics.md, "Averages over tied orders".
  """
  return _met(worth, stop, start, end)


@met.defjvp
def _met_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
  worth, stop, start, end = primals
  items = jnp.arange(2, stop.shape[-1] + 1, dtype=jnp.int32)

  def scanned(worth: Array, stop: Array) -> Array:
    def add(state: _Tie, item: Array) -> tuple[_Tie, None]:
      return _add_item(item, state, worth, stop, start, end), None

    (found, _), _ = lax.scan(add, _one_item(worth, stop, start), items)
    return found * take(survival(stop), start)

  # A `while_loop` has no reverse mode, so that gradients, needed for labels only, take a scan of
  # fixed length.
  return jax.jvp(scanned, (worth, stop), tangents[:2])


@batched
def _met(worth: Array, stop: Array, start: Array, end: Array) -> Array:
  longest = jnp.max(end - start + 1, initial=0)

  def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    item, *tie = state
    return item + 1, *_add_item(item, tie, worth, stop, start, end)

  state = (jnp.int32(2), *_one_item(worth, stop, start))
  _, found, _ = lax.while_loop(lambda state: state[0] <= longest, add, state)
  return found * take(survival(stop), start)


def survival(stop: Array) -> Array:
  """The probability of passing all items ahead, for items in rank order."""
  return above(jnp.cumprod(1 - stop, axis=-1), 1)


def _one_item(worth: Array, stop: Array, start: Array) -> _Tie:
  """The state of `_add_item` with the first item of each tie only."""
  worth, stop = (x[..., : start.shape[-1]] for x in (worth, stop))
  ahead = sorting.slots(start) - start
  alive = jnp.where(ahead == 1, 1 - above(stop), 0)
  return jnp.where(ahead == 0, worth, 0), jnp.where(ahead == 0, 1, alive)


def _add_item(
  item: Array, state: Sequence[Array], worth: Array, stop: Array, start: Array, end: Array
) -> _Tie:
  """Inserts item number `item` of each tie, if it has one, at a random place among those before.

  At a rank with `l` items of the tie ahead, `alive` is the mean probability of passing `l` of the
  items so far, and `found` the mean of that probability times the worth of the item there:
  docs/mathematics.md, "Averages over tied orders".
  """
  found, alive = state
  place = start + item - 1
  has = place <= end
  inside = jnp.minimum(place, stop.shape[-1] - 1)
  here = 1 / item.astype(stop.dtype)
  ahead = (sorting.slots(start) - start).astype(stop.dtype) * here
  passed = ahead * (1 - take(stop, inside))
  found_then = here * _at(worth, place, inside) * alive
  found_then += (1 - here - ahead) * found + passed * above(found)
  alive_then = (1 - ahead) * alive + passed * above(alive)
  return jnp.where(has, found_then, found), jnp.where(has, alive_then, alive)


def _at(x: Array, place: Array, inside: Array) -> Array:
  """`x` at a place, which is `inside` but for the ends.

  A GPU takes another form of the index of the other gather: XLA would store one that both share,
  with the indices of the batch.
  """

  def of_a_gpu(x: Array) -> Array:
    return jnp.take_along_axis(x, place, axis=-1, mode="clip")

  shared = functools.partial(take, index=inside)
  found: Array = by_platform(x, cpu=shared, tpu=shared, default=of_a_gpu)
  return found


def first(value: Callable[[Array], Array], ahead: Array, t: Array, m: Array, n: int) -> Array:
  """`E value(rank)` of the first of `m` relevant items in a tie of `t <= n`, `ahead` above it.

  docs/mathematics.md, "Averages over tied orders".
  """

  def misses(place: Array) -> Array:
    """The probability that the item at a place is not relevant if those ahead are not."""
    left, others = (jnp.maximum(x, 0).astype(dtype) for x in (t - place, t - m - place))
    return others / jnp.maximum(left, 1)

  def one_by_one() -> Array:
    def unfinished(state: tuple[Array, Array, Array]) -> Array:
      place, alive, _ = state
      return (alive > 0) & (place < t)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      place, alive, expected = state
      missed = misses(place)
      expected = expected + alive * (1 - missed) * value(1 + ahead + place)
      return place + 1, alive * missed, expected

    state = (jnp.zeros_like(t), nothing + 1, nothing)
    _, _, expected = lax.while_loop(unfinished, step, state)
    return expected

  def side_by_side() -> Array:
    place = jnp.arange(n, dtype=t.dtype)
    missed = misses(place)
    found = above(jnp.cumprod(missed), 1) * (1 - missed) * value(1 + ahead + place)
    return jnp.sum(jnp.where(place < t, found, 0))

  nothing = jnp.zeros_like(value(ahead + 1))
  dtype = nothing.dtype
  expected: Array = by_platform(cpu=one_by_one, default=side_by_side)
  return expected
