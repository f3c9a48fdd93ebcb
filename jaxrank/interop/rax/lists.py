"""Internals of `jaxrank.interop.rax`: the lists of a batch and their segments, in O(n log n).

An array of items `[..., n]` is summed over each list or, with segments, over the items of each
segment: one sort finds the first item of every segment, at which the sum is collected.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, batching, checks, sorting
from jaxrank._core.sorting import take

ReduceFn = Callable[..., Array]


def safe_reduce(
  a: ArrayLike, where: ArrayLike | None = None, reduce_fn: ReduceFn | None = None
) -> Array:
  """Reduces values; the mean of no values is 0, with gradient 0.

  >>> print(safe_reduce(jnp.array([1.0, 2.0]), jnp.array([False, False]), jnp.mean))
  0.0

  Args:
    a: Values of any shape.
    where: Boolean, in the shape of `a`, True for values to include; None includes all.
    reduce_fn: `jax.numpy.mean`, `jax.numpy.sum`, or any `reduce_fn(a, where=where)`. None keeps
      `a`, with 0 where it is not included.

  Returns:
    The result of `reduce_fn`, or an array of the shape of `a`.
  """
  a = jnp.asarray(a)
  if where is not None:
    where = valid(where, a)
    # Values that are left out have no effect, and gradient 0.
    a = jnp.where(where, a, jnp.zeros_like(a))
  if reduce_fn is None:
    return a
  if reduce_fn is not jnp.mean:
    checks.function("reduce_fn", reduce_fn, "a function such as jnp.mean, or None")
    return reduce_fn(a, where=where)
  count = a.size if where is None else jnp.sum(where)
  return arithmetic.safe_divide(jnp.sum(a), jnp.asarray(count).astype(a.dtype))


@dataclasses.dataclass(frozen=True)
class Groups:
  """The groups of items that are summed together: lists, or segments of lists.

  Attributes:
    where: `[..., n]`, the valid items; None if the user gave no mask.
    first: `[..., n]`, the index of the first item in the segment of each item; None for lists.
  """

  where: Array | None
  first: Array | None

  def total(self, x: Array) -> Array:
    """The sum of `x` over each list, `[..., 1]`, or for each item over its segment, `[..., n]`."""
    if self.first is None:
      return jnp.sum(x, axis=-1, keepdims=True)
    return _collect(lambda x, i: jnp.zeros_like(x).at[i].add(x), x, self.first)

  def count(self, chosen: Array) -> Array:
    """The number of chosen items in each group, int32, in the shape of `total`."""
    return self.total(chosen.astype(jnp.int32))

  def top(self, x: Array) -> Array:
    """The largest `x` of each group, in the shape of `total`, without a gradient."""
    x = lax.stop_gradient(x)
    if self.first is None:
      return jnp.max(x, axis=-1, keepdims=True)
    return _collect(lambda x, i: x.at[i].max(x), x, self.first)

  def largest(self, x: Array) -> Array:
    """The largest `x` of each group, in the shape of `total`; tied ones share the gradient."""
    best = x == self.top(x)
    return self.total(jnp.where(best, x, 0)) / self.count(best).astype(x.dtype)

  def log_total(self, z: Array, among: Array) -> Array:
    """`log sum exp z` over the chosen items of each group; 0 if there are none."""
    some = self.count(among) > 0
    top = jnp.where(some, self.top(jnp.where(among, z, jnp.finfo(z.dtype).min)), 0)
    total = self.total(jnp.where(among, jnp.exp(jnp.where(among, z - top, 0)), 0))
    return top + jnp.log(jnp.where(some, total, 1))

  def reduce(self, values: Array, reduce_fn: ReduceFn | None) -> Array:
    """Reduces the values of the lists, or of the segments, each at its first valid item."""
    if self.first is None:
      where = None if self.where is None else jnp.any(self.where, axis=-1)
      return safe_reduce(values[..., 0], where, reduce_fn)
    slot = jnp.broadcast_to(sorting.slots(values), values.shape)
    where = jnp.ones_like(slot, bool) if self.where is None else self.where
    leader = -self.top(jnp.where(where, -slot, -slot.shape[-1]))
    return safe_reduce(values, where & (slot == leader), reduce_fn)


def _collect(gather: Callable[[Array, Array], Array], x: Array, first: Array) -> Array:
  """Gathers values at the first item of each segment, and copies the result to all its items."""
  one = lambda x, first: gather(x, first)[first]  # noqa: E731
  return batching.over_queries(one, x.ndim - 1)(x, first)


@dataclasses.dataclass(frozen=True)
class Lists:
  """Checked items; scores and labels are 0 on padding and where one of them is NaN.

  Attributes:
    scores: `[..., n]`, in the dtype of the user.
    labels: `[..., n]`, in the dtype of the user.
    valid: `[..., n]`, False on padding.
    kept: `[..., n]`, False on padding and at a score of -inf, of an item that is not ranked.
    segments: `[..., n]`, or None.
    groups: The groups that are summed together.
    spoiled: `[..., n]`, True for valid items whose score or label is NaN.
  """

  scores: Array
  labels: Array
  valid: Array
  kept: Array
  segments: Array | None
  groups: Groups
  spoiled: Array

  @classmethod
  def of(
    cls,
    scores: ArrayLike,
    labels: ArrayLike,
    where: ArrayLike | None,
    segments: ArrayLike | None = None,
    *,
    may_be_empty: bool = False,
  ) -> "Lists":
    """Checks the arguments of a public function, and converts them."""
    scores, labels = checks.array("scores", scores), checks.array("labels", labels)
    if scores.ndim == 0 or (scores.shape[-1] == 0 and not may_be_empty):
      raise ValueError(
        f"scores must have shape [..., list_size] with an item at least, got {scores.shape}; "
        "pad empty lists and mask the padding by `where`."
      )
    checks.same_shape("scores", scores, "labels", labels)
    mask = None if where is None else valid(where, scores)
    segments = None if segments is None else like("segments", segments, scores)
    groups = Groups(mask, None if segments is None else first_items(segment_keys(segments)))
    mask = jnp.ones_like(scores, bool) if mask is None else mask
    spoiled = mask & (isnan(scores) | isnan(labels))
    scores, labels = (jnp.where(mask & ~spoiled, x, jnp.zeros_like(x)) for x in (scores, labels))
    kept = mask & (arithmetic.floating(scores) > -jnp.inf)
    return cls(scores, labels, mask, kept, segments, groups, spoiled)

  @property
  def dtype(self) -> Any:
    """The dtype of the result, at least 32 bits wide."""
    wide = jnp.float64 in (self.scores.dtype, self.labels.dtype)
    return jnp.dtype(jnp.float64 if wide else jnp.float32)

  @property
  def where(self) -> Array | None:
    """The mask of the user, or None, for functions of the user."""
    return self.groups.where

  @property
  def logits(self) -> Array:
    """Scores as finite floats; 0 for items that are not kept."""
    bound = float(jnp.finfo(self.dtype).max) * 2.0**-24
    score = jnp.where(self.kept, self.scores, jnp.zeros_like(self.scores))
    return jnp.clip(score.astype(self.dtype), -bound, bound)

  @property
  def segment(self) -> Array:
    """A number for the segment of each item, int32; 0 without segments."""
    first = self.groups.first
    return jnp.zeros_like(self.valid, jnp.int32) if first is None else first

  def weight(self, weights: ArrayLike | None) -> Array:
    """Weights of the valid items, 1 for None; 0 on padding."""
    if weights is None:
      return self.valid.astype(self.dtype)
    weights = like("weights", weights, self.scores).astype(self.dtype)
    return jnp.where(self.valid, weights, 0)

  def reduce(self, values: Array, reduce_fn: ReduceFn | None) -> Array:
    """Reduces values `[..., 1]` of lists, or `[..., n]` of segments; NaN for a NaN input."""
    spoiled = self.groups.count(self.spoiled) > 0
    return self.groups.reduce(jnp.where(spoiled, jnp.nan, values), reduce_fn)


def valid(where: ArrayLike, x: Array) -> Array:
  """The mask as booleans in the shape of `x`; numbers other than 0 are True."""
  return like("where", where, x).astype(bool)


def like(name: str, given: ArrayLike, x: Array) -> Array:
  """`given` as an array of the shape of `x`; axes of length 1 are repeated."""
  given = checks.array(name, given)
  try:
    return jnp.broadcast_to(given, x.shape)
  except ValueError:
    raise ValueError(
      f"{name} must have the shape of the scores, {x.shape}, got {given.shape}."
    ) from None


def isnan(x: Array) -> Array:
  """Whether numbers are NaN; False for integers."""
  return jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x, bool)


def segment_keys(segments: Array) -> Array:
  """int32 numbers, equal for equal segments and different for different ones."""
  if segments.dtype == jnp.int32:
    return segments
  return sorting.keys(segments, jnp.ones_like(segments, bool))


@jax.jit
def first_items(segment: Array) -> Array:
  """The index of the first item in the segment of each item, `[..., n]`."""

  def first(segment):
    order = in_segments(segment)
    return sorting.scatter(take(order.item, order.start), order.item)

  return batching.over_queries(first, segment.ndim - 1)(segment)


class InSegments(NamedTuple):
  """Items sorted by segment and, within a segment, by a key, largest first; arrays `[n]`.

  Attributes:
    item: The index of each item.
    start: The slot at which its segment starts.
    last: Whether it is the last item of its segment.
    end: The last slot of the items of its segment with the same key.
  """

  item: Array
  start: Array
  last: Array
  end: Array


def in_segments(segment: Array, key: Array | None = None) -> InSegments:
  """Sorts items `[n]`; items with the same segment and key keep the order of the input."""
  key = jnp.zeros_like(segment) if key is None else key
  segment, item = sorting.order(segment, key)
  key = take(key, item)
  slot, edge = sorting.slots(item), jnp.ones_like(item[:1], bool)
  changed = segment[1:] != segment[:-1]
  last = jnp.concatenate([changed, edge])
  ends = jnp.concatenate([changed | (key[1:] != key[:-1]), edge])
  start = lax.cummax(jnp.where(jnp.concatenate([edge, changed]), slot, 0))
  end = lax.cummin(jnp.where(ends, slot, slot.shape[0]), reverse=True)
  return InSegments(item, start, last, end)
