"""Metrics of diversity: an item is worth less for each subtopic that items ahead have covered.

Labels are `[..., n, s]`, one for each subtopic of the query. A metric is a sum over subtopics of a
cascade on the one ranking: a user interested in a subtopic goes down the list and may stop at an
item that covers it.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import at_ranks, relevant
from jaxrank._core.sorting import slots, take
from jaxrank._core.ties import survival
from jaxrank._core.types import Cutoff, Discount, Ranked
from jaxrank.metrics._apply import metric

# Worth of items and chances to stop at them, `[n, s]`, in the order of the input.
_Cascades = tuple[Array, Array]


@metric(sorts="all", subtopics=True)
def alpha_dcg(
  ranked: Ranked,
  labels: Array,
  *,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  alpha: ArrayLike = 0.5,
  discount: Discount = discounts.logarithmic,
  intents: Array | None = None,
) -> Array:
  r"""DCG where each subtopic that an item covers gains less the more often it was covered.

  `aDCG@k = sum_s w_s sum_{r_i <= k} b_is (1 - alpha)^c_is d(r_i)`, with `b_is` 1 if item `i` is
  relevant to subtopic `s`, `c_is` the number of such items ahead of `i`, discount `d`, and weights
  of subtopics `w`.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{alpha_dcg(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  1.81546

  Args:
    scores: `[..., n]`.
    labels: `[..., n, s]`, of each item for each subtopic.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    rel: Labels from here on are relevant; None is any positive label.
    alpha: How much of the worth of a subtopic an item takes away, in [0, 1]; 0 is the sum of the
      DCG of the subtopics.
    discount: Maps 1-based ranks to weights.
    intents: `[s]` or `[..., s]`, weights of the subtopics; None is 1 each.
    ranking: Exact or smooth.

  Returns:
    `[...]`, at least 0.

  References:
    Clarke et al., `Novelty and diversity in information retrieval evaluation
    <https://doi.org/10.1145/1390334.1390446>`_, 2008.
  """
  return _expected(ranked, _novelty(ranked, labels, rel, alpha, intents), discount, k)


@metric(sorts="all", subtopics=True)
def alpha_ndcg(
  ranked: Ranked,
  labels: Array,
  *,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  alpha: ArrayLike = 0.5,
  discount: Discount = discounts.logarithmic,
  intents: Array | None = None,
) -> Array:
  r"""`alpha_dcg` over that of an order built greedily; 0 if that is 0.

  The best order is NP-hard to find. At each rank the greedy one takes the item that gains most
  there, the first of equals in the order of the input. It is seldom beaten, and then the value may
  exceed 1.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{alpha_ndcg(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.96520

  Args:
    scores: `[..., n]`.
    labels: `[..., n, s]`, of each item for each subtopic.
    where: `[..., n]`, False on padding.
    k: Cut-off. The greedy order takes `n s` time a rank, down to a static `k` or the last relevant
      item.
    rel: Labels from here on are relevant; None is any positive label.
    alpha: How much of the worth of a subtopic an item takes away, in [0, 1].
    discount: Maps 1-based ranks to weights.
    intents: `[s]` or `[..., s]`, weights of the subtopics; None is 1 each.
    ranking: Exact or smooth.

  Returns:
    `[...]`, at least 0, and seldom more than 1.

  References:
    Clarke et al., `Novelty and diversity in information retrieval evaluation
    <https://doi.org/10.1145/1390334.1390446>`_, 2008.
  """
  cascades = _novelty(ranked, labels, rel, alpha, intents)
  return safe_divide(_expected(ranked, cascades, discount, k), _greedy(cascades, discount, k))


@metric(sorts="all", subtopics=True)
def err_ia(
  ranked: Ranked,
  labels: Array,
  *,
  k: Cutoff = None,
  max_label: ArrayLike | None = None,
  intents: Array | None = None,
) -> Array:
  r"""Intent-aware expected reciprocal rank: the mean of `err` over the subtopics.

  `ERR-IA@k = sum_s P(s) sum_{r_i <= k} p_is / r_i prod_{j ahead of i} (1 - p_js)`, with the stop
  probability `p = (2^y - 1) / 2^max_label`.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{err_ia(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.39583

  Args:
    scores: `[..., n]`.
    labels: `[..., n, s]`, grades of each item for each subtopic.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    max_label: The best grade there is; None takes the best of each query, over all subtopics.
    intents: `[s]` or `[..., s]`, the chance `P` of each subtopic; None is the same for each that
      some item covers.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1).

  References:
    Chapelle et al., `Intent-based diversification of web search results
    <https://doi.org/10.1007/s10791-011-9167-7>`_, 2011.
  """
  return _expected(ranked, _intended(ranked, labels, max_label, intents), discounts.reciprocal, k)


@metric(sorts="all", subtopics=True)
def nerr_ia(
  ranked: Ranked,
  labels: Array,
  *,
  k: Cutoff = None,
  max_label: ArrayLike | None = None,
  intents: Array | None = None,
) -> Array:
  r"""`err_ia` over that of an order built greedily, as for `alpha_ndcg`; 0 if that is 0.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{nerr_ia(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.95000

  Args:
    scores: `[..., n]`.
    labels: `[..., n, s]`, grades of each item for each subtopic.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    max_label: The best grade there is; None takes the best of each query, over all subtopics.
    intents: `[s]` or `[..., s]`, the chance of each subtopic; None is the same for each that some
      item covers.
    ranking: Exact or smooth.

  Returns:
    `[...]`, at least 0, and seldom more than 1.

  References:
    Clarke et al., `A comparative analysis of cascade measures for novelty and diversity
    <https://doi.org/10.1145/1935826.1935847>`_, 2011.
  """
  cascades = _intended(ranked, labels, max_label, intents)
  actual = _expected(ranked, cascades, discounts.reciprocal, k)
  return safe_divide(actual, _greedy(cascades, discounts.reciprocal, k))


def _novelty(
  ranked: Ranked,
  labels: Array,
  rel: ArrayLike | None,
  alpha: ArrayLike,
  intents: Array | None,
) -> _Cascades:
  """Every relevant item is worth 1 to those who get there, and stops a share `alpha` of them."""
  b = relevant(labels, labels >= 0, rel).astype(ranked.dtype)
  worth = b if intents is None else b * intents.astype(ranked.dtype)[None]
  return worth, b * jnp.asarray(alpha).astype(ranked.dtype)


def _intended(
  ranked: Ranked, labels: Array, max_label: ArrayLike | None, intents: Array | None
) -> _Cascades:
  """An item is worth its chance to satisfy those with the intent."""
  grades = gains.linear(labels).astype(ranked.dtype)
  best = jnp.max(grades) if max_label is None else jnp.asarray(max_label).astype(ranked.dtype)
  stop = gains.stop_probability(grades, best)
  if intents is None:
    covered = jnp.any(grades > 0, axis=0).astype(ranked.dtype)
    intents = safe_divide(covered, jnp.sum(covered))
  return stop * intents.astype(ranked.dtype)[None], stop


def _expected(ranked: Ranked, cascades: _Cascades, discount: Discount, k: Cutoff) -> Array:
  """What the users find, in expectation over the ranking."""

  def found(worth, stop):
    return ranked.cascade(ranked.own(stop), discount, k=k, worth=ranked.own(worth))

  return jnp.sum(jax.vmap(found, in_axes=1)(*cascades))


def _greedy(cascades: _Cascades, discount: Discount, k: Cutoff) -> Array:
  """What they find in the greedy order."""
  worth, stop = (x.T for x in cascades)
  depth = min(k, worth.shape[1]) if isinstance(k, int) else worth.shape[1]
  # The order is that of one point; gradients are those of its value.
  item, count = greedy_order(lax.stop_gradient(worth), lax.stop_gradient(stop), depth)
  gained = jnp.sum(take(worth, item) * survival(take(stop, item)), axis=0)
  return at_ranks(jnp.where(slots(item) < count, gained, 0), discount, k)


def greedy_order(worth: Array, stop: Array, depth: int) -> tuple[Array, Array]:
  """The items at the first `depth` ranks, and at how many of them there is something to gain."""
  column = slots(worth[0])

  def gain(reached, left):
    return jnp.where(left, jnp.sum(worth * reached, axis=0), 0)

  def unfinished(state):
    _, count, _, _, gain = state
    return (count < depth) & jnp.any(gain > 0)

  def choose(state):
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
