"""The metrics of rax, with the ranks of `rank_fn` and the cut-offs of `cutoff_fn`.

`jaxrank.interop.rax` explains the arguments that they share.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._core import arithmetic, batching, checks, sorting
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import Ranked
from jaxrank._core.sorting import take
from jaxrank.interop.rax.families import family
from jaxrank.interop.rax.lists import (
  Lists,
  ReduceFn,
  in_segments,
  safe_reduce,
  valid,
)
from jaxrank.interop.rax.positions import cutoff, ranks
from jaxrank.metrics import metric

Cutoff = int | Array | None
Fn = Callable[..., Array]


def default_gain_fn(label: ArrayLike) -> Array:
  """The exponential gain `2 ** y - 1`; 0 for negative labels, and labels above 100 count as 100.

  >>> print(default_gain_fn(jnp.array([0, 1, 3])))
  [0. 1. 7.]
  """
  return gains.exponential(arithmetic.floating(jnp.asarray(label)))


def default_discount_fn(rank: ArrayLike) -> Array:
  """The logarithmic discount `1 / log2(r + 1)`.

  >>> print(default_discount_fn(jnp.array([1, 3])))
  [1.  0.5]
  """
  return 1 / jnp.log2(arithmetic.floating(jnp.asarray(rank)) + 1)


class RankedLists(NamedTuple):
  """Ranked lists.

  Attributes:
    lists: The items.
    ranks: `[..., n]`, the ranks of the valid items; undefined on padding.
    retrieved: `[..., n]`, from 0 to 1, how much each item is within the cut-off; 0 where
      `lists.kept` is False.
  """

  lists: Lists
  ranks: Array
  retrieved: Array

  @property
  def relevant(self) -> Array:
    """1 for valid items with a label of at least 1."""
    return (self.lists.valid & (self.lists.labels >= 1)).astype(self.lists.dtype)

  @property
  def total(self) -> Callable[[Array], Array]:
    """A function that sums over each list, or segment."""
    return self.lists.groups.total

  def discounted(self, worth: Array, discount_fn: Fn) -> Array:
    """The sum of `worth` times the discount of the rank, over the retrieved items."""
    discount = discount_fn(jnp.where(self.lists.valid, self.ranks, jnp.ones_like(self.ranks)))
    return self.total(self.retrieved * worth * discount.astype(worth.dtype))


def rank_lists(
  lists: Lists,
  topn: Cutoff,
  key: Array | None = None,
  rank_fn: Fn = ranks,
  cutoff_fn: Fn = cutoff,
) -> RankedLists:
  """Ranks items and applies the cut-off."""
  topn = checks.cutoff(topn, "topn")
  where, segments = lists.where, lists.segments
  rank = rank_fn(lists.scores, where=where, segments=segments, key=key)
  if topn is not None and rank_fn is ranks and cutoff_fn is cutoff:
    inside = rank <= topn
  else:
    # Approximate ranks of padding are 1, so that without the mask padding would be inside.
    mask = {"where": where} if accepts(cutoff_fn, where=where) else {}
    inside = cutoff_fn(-rank, segments=segments, n=topn, **mask)
  return RankedLists(lists, rank, jnp.where(lists.kept, inside.astype(lists.dtype), 0))


def accepts(function: Callable[..., Any], **named: Any) -> bool:
  """Whether a function takes these arguments by name."""
  try:
    inspect.signature(function).bind_partial(**named)
  except TypeError:
    return False
  return True


@family
def _of_ranks(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  topn: Cutoff = None,
  key: Array | None = None,
  rank_fn: Fn = ranks,
  cutoff_fn: Fn = cutoff,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Callable[[Callable[[RankedLists], Array]], Array]:
  """Metrics of binary relevance, each a function from ranked lists to their values."""
  ranked = rank_lists(Lists.of(scores, labels, where, segments), topn, key, rank_fn, cutoff_fn)
  return lambda own: ranked.lists.reduce(own(ranked), reduce_fn)


@_of_ranks
def mrr_metric(ranked: RankedLists) -> Array:
  """Mean reciprocal rank: `max_i b_i / r_i`, where `b_i` is 1 for labels of at least 1, else 0.

  >>> print(mrr_metric(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])))
  0.5

  See `jaxrank.interop.rax` for the arguments.
  """
  value = ranked.relevant * ranked.retrieved * _reciprocal(ranked)
  return ranked.lists.groups.largest(value)


@_of_ranks
def recall_metric(ranked: RankedLists) -> Array:
  """Recall: the fraction of the relevant items that are retrieved.

  >>> print(recall_metric(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 1.0, 0.0]), topn=2))
  0.5

  See `jaxrank.interop.rax` for the arguments.
  """
  hits = ranked.total(ranked.relevant * ranked.retrieved)
  return safe_divide(hits, ranked.total(ranked.relevant))


@_of_ranks
def precision_metric(ranked: RankedLists) -> Array:
  """Precision: the fraction of the retrieved items that are relevant.

  >>> print(precision_metric(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 1.0, 0.0]), topn=2))
  0.5

  See `jaxrank.interop.rax` for the arguments.
  """
  hits = ranked.total(ranked.relevant * ranked.retrieved)
  return safe_divide(hits, ranked.total(ranked.retrieved))


@_of_ranks
def ap_metric(ranked: RankedLists) -> Array:
  """Average precision: `sum b_i P@r_i / sum b_i`, with the first sum over the retrieved items.

  >>> print(f"{ap_metric(jnp.array([3.0, 2.0, 1.0]), jnp.array([1.0, 0.0, 1.0])):.4f}")
  0.8333

  See `jaxrank.interop.rax` for the arguments.
  """
  precision = _hits(ranked) * _reciprocal(ranked)
  value = ranked.total(ranked.relevant * ranked.retrieved * precision)
  return safe_divide(value, ranked.total(ranked.relevant))


def opa_metric(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """Ordered pair accuracy: the fraction of the pairs with `y_i > y_j` that have `s_i > s_j`.

  >>> print(opa_metric(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])))
  0.5

  See `jaxrank.interop.rax` for the arguments.
  """
  scores, labels = jnp.asarray(scores), jnp.asarray(labels)
  mask = None if where is None else valid(where, scores)
  values = _ordered_pairs(arithmetic.floating(scores), labels, where=mask)
  return safe_reduce(values, None if mask is None else jnp.any(mask, axis=-1), reduce_fn)


@metric
def _ordered_pairs(ranked: Ranked) -> Array:
  """Concordant pairs divided by pairs with different labels; tied scores count as wrong."""
  pairs = ranked.pairs()
  return safe_divide(pairs.concordant, pairs.different_labels)


@family
def _of_gains(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  topn: Cutoff = None,
  weights: ArrayLike | None = None,
  key: Array | None = None,
  gain_fn: Fn = default_gain_fn,
  discount_fn: Fn = default_discount_fn,
  rank_fn: Fn = ranks,
  cutoff_fn: Fn = cutoff,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Callable[[Callable[[Array, Callable[[], Array]], Array]], Array]:
  """Metrics of gains, each a function of the DCG and of a function that returns the ideal DCG."""
  lists = Lists.of(scores, labels, where, segments)
  ranked = rank_lists(lists, topn, key, rank_fn, cutoff_fn)
  gain = worth(lists, gain_fn, weights)
  dcg = ranked.discounted(gain, discount_fn)
  ideal = functools.partial(ideal_dcg, lists, gain, topn, discount_fn)
  return lambda own: lists.reduce(own(dcg, ideal), reduce_fn)


@_of_gains
def dcg_metric(dcg: Array, ideal: Callable[[], Array]) -> Array:
  """Discounted cumulative gain: `sum w_i gain(y_i) discount(r_i)` over the retrieved items.

  >>> print(dcg_metric(jnp.array([3.0, 2.0, 1.0]), jnp.array([2.0, 0.0, 1.0])))
  3.5

  See `jaxrank.interop.rax` for the arguments.
  """
  return dcg


@_of_gains
def ndcg_metric(dcg: Array, ideal: Callable[[], Array]) -> Array:
  """Normalised DCG: the DCG divided by the DCG of the items in the order of their weighted gains.

  >>> print(f"{ndcg_metric(jnp.array([2.0, 1.0, 3.0]), jnp.array([2.0, 0.0, 1.0])):.5f}")
  0.79671

  See `jaxrank.interop.rax` for the arguments.
  """
  return safe_divide(dcg, ideal())


def worth(lists: Lists, gain_fn: Fn, weights: ArrayLike | None) -> Array:
  """Weighted gains of the valid items; 0 on padding."""
  return gain_fn(lists.labels).astype(lists.dtype) * lists.weight(weights)


def ideal_dcg(lists: Lists, gain: Array, topn: Cutoff, discount_fn: Fn) -> Array:
  """The DCG of the items in the order of their gains, `[..., 1]`, or `[..., n]` with segments."""
  best = dataclasses.replace(lists, scores=gain, kept=lists.valid)
  return rank_lists(best, topn).discounted(gain, discount_fn)


def _reciprocal(ranked: RankedLists) -> Array:
  one = jnp.ones_like(ranked.ranks)
  positive = ranked.lists.valid & (ranked.ranks != 0)
  return 1 / jnp.where(positive, ranked.ranks, one).astype(ranked.lists.dtype)


def _hits(ranked: RankedLists) -> Array:
  """The number of relevant items whose rank is at most that of each item, itself included."""
  rank, chosen = lax.stop_gradient(ranked.ranks), ranked.relevant.astype(jnp.int32)
  key = -rank if rank.dtype == jnp.int32 else sorting.keys(-rank, ranked.lists.valid)
  return _counted(key, chosen, ranked.lists.segment).astype(ranked.lists.dtype)


@jax.jit
def _counted(key: Array, chosen: Array, segment: Array) -> Array:
  """The sum of `chosen` over the items of the same segment whose key is at least as large."""

  def one(key, chosen, segment):
    order = in_segments(segment, key)
    chosen = take(chosen, order.item)
    count = jnp.cumsum(chosen, dtype=jnp.int32)
    return sorting.scatter(take(count, order.end) - take(count - chosen, order.start), order.item)

  return batching.over_queries(one, key.ndim - 1)(key, chosen, segment)
