"""The listwise and pointwise losses of rax, in O(n log n) time.

`jaxrank.interop.rax` explains the arguments that they share.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, batching, checks, sorting
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.sorting import take
from jaxrank.interop.rax.families import family
from jaxrank.interop.rax.lists import (
  Groups,
  InSegments,
  Lists,
  ReduceFn,
  first_items,
  in_segments,
  like,
  safe_reduce,
  segment_keys,
  valid,
)
from jaxrank.interop.rax.metrics import default_gain_fn
from jaxrank.interop.rax.positions import ranks


def normalize_probabilities(
  unscaled_probabilities: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  axis: int = -1,
) -> Array:
  """Divides values by their sum over the valid items of a list; equal shares where that is 0.

  >>> print(normalize_probabilities(jnp.array([1.0, 3.0, 4.0])))
  [0.125 0.375 0.5  ]

  Args:
    unscaled_probabilities: `[..., n]`, at least 0.
    where: `[..., n]`, False on padding; in a list without valid items all items have equal shares.
    segments: `[..., n]`, ids of groups; the values of each group have the sum 1.
    axis: The axis to sum along, an int; the last one by default.

  Returns:
    An array of the same shape.
  """
  x = arithmetic.floating(checks.array("unscaled_probabilities", unscaled_probabilities))
  where = jnp.ones_like(x, bool) if where is None else valid(where, x)
  segments = None if segments is None else like("segments", segments, x)
  given = jax.tree.map(lambda x: jnp.moveaxis(x, axis, -1), (x, where, segments))
  return jnp.moveaxis(_shares(*given), -1, axis)


def _shares(x: Array, where: Array, segments: Array | None) -> Array:
  groups = Groups(where, None if segments is None else first_items(segment_keys(segments)))
  total, count = groups.total(jnp.where(where, x, 0)), groups.count(where)
  count = jnp.where(count == 0, groups.count(jnp.ones_like(where)), count).astype(x.dtype)
  return jnp.where(total == 0, 1 / count, safe_divide(x, total))


def softmax_loss(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  label_fn: Callable[..., Array] = lambda a, where: a,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """ListNet: `-sum_i y_i log(exp(s_i) / sum_j exp(s_j))`.

  `y` are the weighted labels after `label_fn`.

  >>> print(f"{softmax_loss(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])):.5f}")
  1.40761

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    label_fn: Function that is called as `label_fn(labels, where=where)` with the weighted labels,
      and returns an array of their shape; the default returns them.
  """
  lists = Lists.of(scores, labels, where, segments)
  return lists.reduce(_cross_entropy(lists, label_fn, weights), reduce_fn)


def _cross_entropy(
  lists: Lists, label_fn: Callable[..., Array], weights: ArrayLike | None
) -> Array:
  z, target = lists.logits, _target(lists, weights)
  share = label_fn(target, where=lists.where).astype(z.dtype)
  missed = lists.groups.log_total(z, lists.kept) - z
  return lists.groups.total(jnp.where(lists.kept, share * missed, 0))


def _target(lists: Lists, weights: ArrayLike | None) -> Array:
  return lists.labels.astype(lists.dtype) * lists.weight(weights)


def poly1_softmax_loss(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  epsilon: float = 1.0,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """Poly-1: `softmax_loss`, plus `epsilon` times the probability mass off the targets.

  `softmax_loss + epsilon (1 - sum_i p_i exp(s_i) / sum_j exp(s_j))`, with `p` the normalised
  weighted labels.

  >>> print(f"{poly1_softmax_loss(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])):.5f}")
  2.16288

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    epsilon: Weight of the second term, a number.
  """
  lists = Lists.of(scores, labels, where, segments)
  z, groups = lists.logits, lists.groups
  share = normalize_probabilities(
    _target(lists, weights), where=lists.where, segments=lists.segments
  )
  chance = jnp.exp(jnp.where(lists.kept, z - groups.log_total(z, lists.kept), -jnp.inf))
  elsewhere = 1 - groups.total(jnp.where(lists.valid, share * chance, 0))
  some = groups.count(lists.valid) > 0
  loss = _cross_entropy(lists, lambda a, where: a, weights)
  loss = loss + jnp.where(some, checks.array("epsilon", epsilon).astype(z.dtype) * elsewhere, 0)
  return lists.reduce(loss, reduce_fn)


def unique_softmax_loss(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  gain_fn: Callable[[Array], Array] | None = default_gain_fn,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """Unique softmax: the softmax loss of each item against the items with smaller labels only.

  `-sum_i gain(y_i) log(exp(s_i) / (exp(s_i) + sum_{y_j < y_i} exp(s_j)))`.

  >>> print(f"{unique_softmax_loss(jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])):.5f}")
  1.40761

  See `jaxrank.interop.rax` for the arguments.
  """
  lists = Lists.of(scores, labels, where, segments)
  worth = lists.weight(weights)
  if gain_fn is not None:
    worth = worth * gain_fn(lists.labels).astype(worth.dtype)
  key = sorting.keys(lax.stop_gradient(lists.labels), lists.kept)
  missed = _missed_unique(lists.logits, lists.kept, lists.segment, key)
  return lists.reduce(lists.groups.total(jnp.where(lists.kept, worth * missed, 0)), reduce_fn)


def listmle_loss(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  key: Array | None = None,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """ListMLE: the negative log likelihood of the order of the labels.

  `-sum_i log(exp(s_i) / sum_{r_j >= r_i} exp(s_j))`, with the ranks `r` of the labels. Tied labels
  keep the order of the input, or are in random order if there is a `key`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{listmle_loss(scores, labels):.5f}")
  3.53453

  See `jaxrank.interop.rax` for the arguments.
  """
  lists = Lists.of(scores, labels, where, segments)
  rank = ranks(lists.labels, where=lists.kept, segments=lists.segments, key=key)
  missed = _missed_in_order(lists.logits, lists.kept, lists.segment, -rank)
  return lists.reduce(lists.groups.total(jnp.where(lists.kept, missed, 0)), reduce_fn)


@jax.jit
def _missed_unique(z: Array, live: Array, segment: Array, key: Array) -> Array:
  """`log(1 + sum_j exp(z_j - z_i))` over the items `j` of the segment with smaller keys."""

  def one(z, live, segment, key):
    order = in_segments(segment, key)
    z, total = _totals(z, live, order)
    nothing = jnp.full_like(z[:1], _log_zero(z))
    below = jnp.where(order.last, nothing, jnp.concatenate([total[1:], nothing]))
    return sorting.scatter(jax.nn.softplus(take(below, order.end) - z), order.item)

  return batching.over_queries(one, z.ndim - 1)(z, live, segment, key)


@jax.jit
def _missed_in_order(z: Array, live: Array, segment: Array, key: Array) -> Array:
  """`log sum_j exp(z_j - z_i)` over the items `j` of the segment whose keys are not larger."""

  def one(z, live, segment, key):
    order = in_segments(segment, key)
    z, total = _totals(z, live, order)
    return sorting.scatter(total - z, order.item)

  return batching.over_queries(one, z.ndim - 1)(z, live, segment, key)


def _totals(z: Array, live: Array, order: InSegments) -> tuple[Array, Array]:
  """The logits in order, and their `log sum exp` from each slot to the end of its segment."""

  def join(after, here):
    (ended, total), (last, z) = after, here
    return ended | last, jnp.where(last, z, jnp.logaddexp(total, z))

  z = jnp.where(take(live, order.item), take(z, order.item), _log_zero(z))
  return z, lax.associative_scan(join, (order.last, z), reverse=True)[1]


def _log_zero(z: Array) -> float:
  """A finite number that stands for log(0)."""
  return float(jnp.finfo(z.dtype).min) / 4


@family
def _of_points(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Callable[[Callable[[Array, Array], Array]], Array]:
  """Losses of single items, each a function of their logits and labels."""
  lists = Lists.of(scores, labels, where)

  def reduced(own: Callable[[Array, Array], Array]) -> Array:
    z = lists.logits
    loss = own(z, lists.labels.astype(z.dtype)) * lists.weight(weights)
    loss = jnp.where(lists.spoiled, jnp.nan, jnp.where(lists.kept, loss, 0))
    return safe_reduce(loss, lists.where, reduce_fn)

  return reduced


@_of_points
def pointwise_sigmoid_loss(z: Array, y: Array) -> Array:
  """Sigmoid cross entropy of each item: of its label, clipped to [0, 1], and `sigmoid(s_i)`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pointwise_sigmoid_loss(scores, labels):.5f}")
  1.49626

  See `jaxrank.interop.rax` for the arguments.
  """
  return jax.nn.softplus(z) - z * jnp.clip(y, 0, 1)


@_of_points
def pointwise_mse_loss(z: Array, y: Array) -> Array:
  """Squared error of each item, `(y_i - s_i)^2`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pointwise_mse_loss(scores, labels):.5f}")
  3.66667

  See `jaxrank.interop.rax` for the arguments.
  """
  return jnp.square(z - y)
