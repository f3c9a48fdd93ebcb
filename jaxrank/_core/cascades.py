"""Cascades of users, one for each subtopic, on one ranking: for `diversity` and `intent_aware`."""

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import Ranked, at_ranks
from jaxrank._core.sorting import slots, take
from jaxrank._core.tie_cascades import survival
from jaxrank._core.types import Cutoff, Discount

# The worth of items and the probabilities of stopping at them, `[n, s]`.
Cascades = tuple[Array, Array]

# The chosen items, their number, the probability of reaching the next rank by subtopic, the items
# that are left, and their gains.
_State = tuple[Array, Array, Array, Array, Array]


def even(ranked: Ranked, b: Array) -> Array:
  """Equal weights, of sum 1, for the subtopics that some item covers."""
  covered = (ranked.count(b) > 0).astype(ranked.dtype)
  return safe_divide(covered, jnp.sum(covered))


def expected(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades under the ranking, summed over subtopics."""
  worth, stop = cascades
  return jnp.sum(ranked.cascade(stop, discount, k=k, worth=worth))


def perfect(
  ranked: Ranked, subtopic_weights: Array, stop: ArrayLike, discount: Discount, k: Cutoff
) -> Array:
  """The value of `k` items that are worth 1 to all users and stop them with probability `stop`.

  The list may be shorter than `k`. Weights should be 0 for subtopics that no item covers.
  """
  last, going = ranked.cutoff(k), 1 - jnp.asarray(stop).astype(ranked.dtype)
  one = jnp.ones_like(last)

  def unfinished(state: tuple[Array, Array, Array]) -> Array:
    rank, reached, _ = state
    return (rank <= last) & (reached > 0)

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    rank, reached, found = state
    return rank + 1, reached * going, found + reached * discount(rank)

  *_, found = lax.while_loop(unfinished, step, (one, one * jnp.ones_like(going), 0 * last))
  return found * jnp.sum(subtopic_weights)


def greedy(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades in the greedy order, summed over subtopics."""
  worth, stop = (x.T for x in map(ranked.in_input_order, cascades))
  depth = min(k, worth.shape[1]) if isinstance(k, int) else worth.shape[1]
  # The order is constant near almost every point, so that gradients are those of its value.
  item, count = greedy_order(lax.stop_gradient(worth), lax.stop_gradient(stop), depth)
  gained = jnp.sum(take(worth, item) * survival(take(stop, item)), axis=0)
  return at_ranks(jnp.where(slots(item) < count, gained, 0), discount, k)


def greedy_order(worth: Array, stop: Array, depth: int) -> tuple[Array, Array]:
  """The items at the first `depth` ranks, and the number of ranks at which there is a gain.

  At each rank the greedy order has the item that gains most there, the first of equal ones.
  """
  column = slots(worth[0])

  def gain(reached: Array, left: Array) -> Array:
    return jnp.where(left, jnp.sum(worth * reached, axis=0), 0)

  def unfinished(state: _State) -> Array:
    _, count, _, _, gain = state
    return (count < depth) & jnp.any(gain > 0)

  def choose(state: _State) -> _State:
    item, count, reached, left, gains = state
    best = jnp.argmax(gains).astype(jnp.int32)
    item = jnp.where(column[:depth] == count, best, item)
    chosen = column == best
    reached = reached * (1 - jnp.sum(stop, axis=1, where=chosen, keepdims=True))
    left = left & ~chosen
    return item, count + 1, reached, left, gain(reached, left)

  nothing = jnp.zeros_like(worth[0], jnp.int32)
  reached, left = jnp.ones_like(worth[:, :1]), nothing == 0
  state = (nothing[:depth], nothing[0], reached, left, gain(reached, left))
  item, count, *_ = lax.while_loop(unfinished, choose, state)
  return item, count
