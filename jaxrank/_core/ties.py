"""Averages over the orders of tied items: runs of equal keys, means and cascades.

Items are in rank order, `[n]`, so that a tie is a run of equal keys. Ties of two take one pass
over the data; the loops for longer ones end with the longest tie of the batch. `rankings.exact`
uses this module. docs/mathematics.md, "Averages over tied orders", derives the formulas.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core.sorting import take

# `found` and `alive` at each rank, as `_add_item` defines them.
_Tie = tuple[Array, Array]


def layout(key: Array, least: np.int32 = sorting.LOST) -> tuple[Array, Array]:
  """The first and the last slot of the tie of each item; keys up to `least` do not tie.

  docs/mathematics.md, "Averages over tied orders".
  """
  tied = (key > least) & (key == _above(key, least))
  return _layout(tied)


@sorting.batched
def _layout(tied: Array) -> tuple[Array, Array]:
  def double(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    length, above, below, _ = state
    above = jnp.where(above == length, above + _from(above, -length), above)
    below = jnp.where(below == length, below + _from(below, length), below)
    return 2 * length, above, below, jnp.any(above == 2 * length)

  above = tied.astype(jnp.int32)
  state = (jnp.int32(1), above, _below(above), jnp.any(tied & _above(tied)))
  _, above, below, _ = lax.while_loop(lambda state: state[3], double, state)
  slot = sorting.slots(tied)
  return slot - above, slot + below


def twice_midrank(key: Array) -> Array:
  """Twice the mean slot of the tie of each item; slots count from 0, masked items do not tie."""
  start, end = layout(key, sorting.MASKED)
  return start + end


@jax.custom_jvp
def mean(w: Array, start: Array, end: Array) -> Array:
  """The mean of `w` over the tie of each item.

  docs/mathematics.md, "Averages over tied orders".
  """
  return _mean(w, start, end)


@mean.defjvp
def _mean_jvp(
  primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
  w, start, end = primals
  # Reverse mode can transpose a scatter, but not a `while_loop`.
  sum_ = take(jnp.zeros_like(w).at[start].add(tangents[0]), start)
  return mean(*primals), sum_ / (end - start + 1).astype(w.dtype)


@sorting.batched
def _mean(w: Array, start: Array, end: Array) -> Array:
  # Sums from the start of a tie to each item, and from there to its end. A difference of two prefix
  # sums was rejected: their rounding errors are those of the whole list.
  slot, size = sorting.slots(w), end - start + 1
  longest = jnp.max(size, initial=0)

  def double(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    length, down, up = state
    down = down + jnp.where(slot - length >= start, _from(down, -length), 0)
    up = up + jnp.where(slot + length <= end, _from(up, length), 0)
    return 2 * length, down, up

  down = w + jnp.where(start < slot, _above(w), 0)
  up = w + jnp.where(slot < end, _below(w), 0)
  state = (jnp.int32(2), down, up)
  _, down, up = lax.while_loop(lambda state: state[0] < longest, double, state)
  return (down + (up - w)) / size.astype(w.dtype)


@jax.custom_jvp
def met(worth: Array, stop: Array, start: Array, end: Array) -> Array:
  """The expected worth at each rank for a user who stops at an item with probability `stop`.

  Users who stopped at an earlier rank contribute 0. If the worth of an item is its `stop`, the
  result is the probability of stopping at each rank. docs/mathematics.md, "Averages over tied
  orders".
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


@sorting.batched
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
  return _above(jnp.cumprod(1 - stop, axis=-1), 1)


def _above(x: Array, first: Any = 0) -> Array:
  """The value one rank above each rank; `first` for the first rank."""
  return jnp.concatenate([jnp.full_like(x[..., :1], first), x[..., :-1]], axis=-1)


def _below(x: Array) -> Array:
  """The value one rank below each rank; 0 for the last rank."""
  return jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], axis=-1)


def _from(x: Array, away: Array) -> Array:
  """The value `away` ranks below each rank, or above if negative; the ends are joined."""
  n = x.shape[-1]
  start = jnp.where(away < 0, n + away, away)
  return lax.dynamic_slice_in_dim(jnp.concatenate([x, x], axis=-1), start, n, axis=-1)


def _one_item(worth: Array, stop: Array, start: Array) -> _Tie:
  """The state of `_add_item` with the first item of each tie only."""
  ahead = sorting.slots(stop) - start
  alive = jnp.where(ahead == 1, 1 - _above(stop), 0)
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
  place = jnp.minimum(place, stop.shape[-1] - 1)
  here = 1 / item.astype(stop.dtype)
  ahead = (sorting.slots(stop) - start).astype(stop.dtype) * here
  passed = ahead * (1 - take(stop, place))
  found_then = here * take(worth, place) * alive
  found_then += (1 - here - ahead) * found + passed * _above(found)
  alive_then = (1 - ahead) * alive + passed * _above(alive)
  return jnp.where(has, found_then, found), jnp.where(has, alive_then, alive)


def first(value: Callable[[Array], Array], above: Array, t: Array, m: Array) -> Array:
  """`E value(rank)` of the first of `m` relevant items among `t` tied ones, with `above` ahead.

  docs/mathematics.md, "Averages over tied orders".
  """

  def unfinished(state: tuple[Array, Array, Array]) -> Array:
    place, alive, _ = state
    return (alive > 0) & (place < t)

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    place, alive, expected = state
    left, misses = (x.astype(expected.dtype) for x in (t - place, t - m - place))
    expected = expected + alive * (1 - misses / left) * value(1 + above + place)
    return place + 1, alive * misses / left, expected

  nothing = jnp.zeros_like(value(above + 1))
  state = (jnp.zeros_like(t), nothing + 1, nothing)
  _, _, expected = lax.while_loop(unfinished, step, state)
  return expected
