"""Cascades of users, one for each subtopic, on one ranking: for `diversity` and `intent_aware`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core.arithmetic import safe_divide, varying_zeros
from jaxrank._core.ranked import Ranked, at_ranks
from jaxrank._core.sorting import slots, take
from jaxrank._core.tie_cascades import survival
from jaxrank._core.types import Cutoff, Discount

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
  found = over_ranks(ranked, lambda rank: going ** (rank - 1) * discount(rank), k)
  return found * jnp.sum(subtopic_weights)


def over_ranks(ranked: Ranked, value: Callable[[Array], Array], k: Cutoff) -> Array:
  """The sum of a function of the rank over the ranks to `k`, past the end of the list too."""
  last = ranked.cutoff(k)
  most: Any = ranked.n if k is None else k
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
  worth, stop, weights = cascades.worth.T, cascades.stop, cascades.weights
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
