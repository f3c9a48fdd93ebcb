"""Cascades: the ranks at which users stop, over ties, and for one user of each subtopic.

`rankings.exact` asks for those of one user, `diversity` and `intent_aware` for those of subtopics.
docs/mathematics.md, "Averages over tied orders", derives the recursion over a tie.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import Cutoff, Discount
from jaxrank._core import sorting
from jaxrank._core.arithmetic import safe_divide, varying_zeros
from jaxrank._core.batching import batched, of_each_query
from jaxrank._core.platforms import primitive
from jaxrank._core.ranked import Ranked, at_ranks
from jaxrank._core.sorting import slots, take
from jaxrank._core.ties import above

# Ranks are summed in blocks of this many.
_BLOCK = 2**14

# The chosen items, their number, the probability of reaching the next rank by subtopic, the items
# that are left, and their gains.
_State = tuple[Array, Array, Array, Array, Array]


class Cascades(NamedTuple):
  """Users who go down the list, one for each subtopic.

  Attributes:
    worth: `[n, s]`, what an item is worth to a user who reaches it, in [0, 1], or a mask.
    stop: A scalar in [0, 1]. The user stops at the item with probability `stop * worth`.
    weights: `[s]`, those of the subtopics.
  """

  worth: Array
  stop: Array
  weights: Array


def even(ranked: Ranked, b: Array) -> Array:
  """Equal weights, of sum 1, for the subtopics that some item covers."""
  covered = (ranked.count(b) > 0).astype(ranked.dtype)
  return safe_divide(covered, jnp.sum(covered))


def expected(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades under the ranking, summed over subtopics."""

  def of_user(worth: Array, k: Cutoff) -> Array:
    worth = worth.astype(ranked.dtype)
    return ranked.cascade(cascades.stop * worth, discount, k=k, worth=worth)

  return jnp.sum(cascades.weights * ranked.each_user(of_user, cascades.worth, k=k))


def normalised(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades under the ranking, divided by that in the greedy order."""
  ideal = greedy(ranked, cascades, discount, k)
  # One after the other, so that the arrays of both are not in memory at once.
  ideal, worth = lax.optimization_barrier((ideal, cascades.worth))
  return safe_divide(expected(ranked, cascades._replace(worth=worth), discount, k), ideal)


def perfect(
  ranked: Ranked, subtopic_weights: Array, stop: ArrayLike, discount: Discount, k: Cutoff
) -> Array:
  """The value of `k` items that are worth 1 to all users and stop them with probability `stop`.

  The list may be shorter than `k`. Weights should be 0 for subtopics that no item covers.
  """
  going = 1 - jnp.asarray(stop).astype(ranked.dtype)
  value = over_ranks(ranked, lambda rank: going ** (rank - 1) * discount(rank), k)
  return value * jnp.sum(subtopic_weights)


def over_ranks(ranked: Ranked, value: Callable[[Array], Array], k: Cutoff) -> Array:
  """The sum of a function of the rank over the ranks to `k`, past the end of the list too."""
  last = ranked.cutoff(k)
  most: Any = ranked.longest if k is None else k
  size = min(most, _BLOCK) if isinstance(most, int) else _BLOCK

  def add(block: Any, total: Array) -> Array:
    rank = (block * size + jnp.arange(1, size + 1, dtype=jnp.int32)).astype(ranked.dtype)
    return total + jnp.sum(jnp.where(rank <= last, value(rank), 0))

  nothing = varying_zeros(ranked.where, (), ranked.dtype)
  total: Array = lax.fori_loop(0, -(-most // size), add, nothing)
  return total


def greedy(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades in the greedy order, summed over subtopics."""
  worth = ranked.in_input_order(cascades.worth).astype(ranked.dtype)
  depth = min(k, len(worth)) if isinstance(k, int) else len(worth)
  # The order is constant near almost every point, so that gradients are those of its value.
  item, count = greedy_order(lax.stop_gradient(cascades._replace(worth=worth)), depth)

  def of_user(worth: Array) -> Array:
    worth = take(worth, item)
    gained = worth * survival(cascades.stop * worth)
    return at_ranks(jnp.where(slots(item) < count, gained, 0), discount, k)

  return jnp.sum(cascades.weights * ranked.each_user(of_user, worth))


def greedy_order(cascades: Cascades, depth: int) -> tuple[Array, Array]:
  """The items at the first `depth` ranks, and the number of ranks at which there is a gain.

  At each rank the greedy order has the item that gains most there, the first of equal ones.
  """
  worth, stop = cascades.worth.T, cascades.stop
  # Equal weights become 1, so that they do not round gains that are equal.
  weights = safe_divide(cascades.weights, jnp.max(cascades.weights))
  column = slots(worth[0])

  def gain(reached: Array, left: Array) -> Array:
    return jnp.where(left, jnp.sum(worth * (weights[:, None] * reached), axis=0), 0)

  def unfinished(state: _State) -> Array:
    _, count, _, _, gain = state
    return (count < depth) & jnp.any(gain > 0)

  def choose(state: _State) -> _State:
    item, count, reached, left, gains = state
    best = jnp.argmax(gains).astype(jnp.int32)
    item = jnp.where(column[:depth] == count, best, item)
    chosen = column == best
    reached = reached * (1 - stop * jnp.sum(worth, axis=1, where=chosen, keepdims=True))
    left = left & ~chosen
    return item, count + 1, reached, left, gain(reached, left)

  nothing = jnp.zeros_like(worth[0], jnp.int32)
  reached, left = jnp.ones_like(worth[:, :1]), nothing == 0
  state = (nothing[:depth], nothing[0], reached, left, gain(reached, left))
  item, count, *_ = lax.while_loop(unfinished, choose, state)
  return item, count


# `gained` and `alive` at each rank, as `_add_item` defines them.
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

    (gained, _), _ = lax.scan(add, _one_item(worth, stop, start), items)
    return gained * take(survival(stop), start)

  # A `while_loop` has no reverse mode, so that gradients, needed for labels only, take a scan of
  # fixed length.
  return jax.jvp(scanned, (worth, stop), tangents[:2])


@functools.partial(batched, differentiable=of_each_query(met))
def _met(worth: Array, stop: Array, start: Array, end: Array) -> Array:
  longest = jnp.max(end - start + 1, initial=0)

  def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    item, *tie = state
    return item + 1, *_add_item(item, tie, worth, stop, start, end)

  state = (jnp.int32(2), *_one_item(worth, stop, start))
  _, gained, _ = lax.while_loop(lambda state: state[0] <= longest, add, state)
  return gained * take(survival(stop), start)


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
  items so far, and `gained` the mean of that probability times the worth of the item there:
  docs/mathematics.md, "Averages over tied orders".
  """
  gained, alive = state
  place = start + item - 1
  has = place <= end
  inside = jnp.minimum(place, stop.shape[-1] - 1)
  here = 1 / item.astype(stop.dtype)
  ahead = (sorting.slots(start) - start).astype(stop.dtype) * here
  passed = ahead * (1 - take(stop, inside))
  gained_then = here * take(worth, inside) * alive
  gained_then += (1 - here - ahead) * gained + passed * above(gained)
  alive_then = (1 - ahead) * alive + passed * above(alive)
  return jnp.where(has, gained_then, gained), jnp.where(has, alive_then, alive)


@primitive
def first(ahead: Array, t: Array, m: Array, *, value: Callable[[Array], Array], n: int) -> Array:
  """`E value(rank)` of the first of `m` relevant items in a tie of `t <= n`, `ahead` above it.

  docs/mathematics.md, "Averages over tied orders".
  """
  place = jnp.arange(n, dtype=t.dtype)
  worth = value(1 + ahead + place)
  missed = _missed(place, t, m, worth.dtype)
  terms = above(jnp.cumprod(missed), 1) * (1 - missed) * worth
  return jnp.sum(jnp.where(place < t, terms, 0))


@first.on("cpu", gain="reciprocal rank [1000, 1000]: 3.2")
def _first_one_by_one(
  ahead: Array, t: Array, m: Array, *, value: Callable[[Array], Array], n: int
) -> Array:
  del n
  nothing = jnp.zeros_like(value(ahead + 1))

  def unfinished(state: tuple[Array, Array, Array]) -> Array:
    place, alive, _ = state
    return (alive > 0) & (place < t)

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    place, alive, expected = state
    missed = _missed(place, t, m, nothing.dtype)
    expected = expected + alive * (1 - missed) * value(1 + ahead + place)
    return place + 1, alive * missed, expected

  state = (jnp.zeros_like(t), nothing + 1, nothing)
  _, _, expected = lax.while_loop(unfinished, step, state)
  return expected


def _missed(place: Array, t: Array, m: Array, dtype: Any) -> Array:
  """The probability that the item at a place is not relevant if those ahead are not."""
  left, others = (jnp.maximum(x, 0).astype(dtype) for x in (t - place, t - m - place))
  return others / jnp.maximum(left, 1)
