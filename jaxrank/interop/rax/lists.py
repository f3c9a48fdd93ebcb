"""The lists of a batch, and the segments of each list, in O(n log n).

An array of items `[..., n]` is summed over its list, or, with segments, over the items of the
same segment: one sort finds the first item of every segment, which then collects for all.
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
  """Reduces values; the mean of nothing is 0, with gradient 0.

  >>> print(safe_reduce(jnp.array([1.0, 2.0]), jnp.array([False, False]), jnp.mean))
  0.0

  Args:
    a: Values of any shape.
    where: Like `a`, what to include.
    reduce_fn: `jax.numpy.mean`, `jax.numpy.sum`, or any `reduce_fn(a, where=where)`. None keeps
      `a`, with 0 where it is not included.

  Returns:
    What `reduce_fn` returns, or an array like `a`.
  """
  a = jnp.asarray(a)
  if where is not None:
    where = valid(where, a)
    # What is left out never matters, to the gradient neither.
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
  """What is summed together: lists, or segments of lists.

  Attributes:
    where: `[..., n]`, the valid items; None for all, which a reduction without a mask must know.
    first: `[..., n]`, the index of the first item of the segment of each item; None for lists.
  """

  where: Array | None
  first: Array | None

  def total(self, x: Array) -> Array:
    """The sum of `x` over each list, `[..., 1]`, or for each item over its segment, `[..., n]`."""
    if self.first is None:
      return jnp.sum(x, axis=-1, keepdims=True)
    return _collect(lambda x, i: jnp.zeros_like(x).at[i].add(x), x, self.first)

  def count(self, chosen: Array) -> Array:
    """How many items are chosen, int32."""
    return self.total(chosen.astype(jnp.int32))

  def top(self, x: Array) -> Array:
    """The largest `x`, as `total`; no gradient."""
    x = lax.stop_gradient(x)
    if self.first is None:
      return jnp.max(x, axis=-1, keepdims=True)
    return _collect(lambda x, i: x.at[i].max(x), x, self.first)

  def most(self, x: Array) -> Array:
    """The largest `x`; several of them share the gradient."""
    best = x == self.top(x)
    return self.total(jnp.where(best, x, 0)) / self.count(best).astype(x.dtype)

  def log_total(self, z: Array, among: Array) -> Array:
    """`log sum exp z` over the items chosen; 0 if there are none."""
    some = self.count(among) > 0
    top = jnp.where(some, self.top(jnp.where(among, z, jnp.finfo(z.dtype).min)), 0)
    total = self.total(jnp.where(among, jnp.exp(jnp.where(among, z - top, 0)), 0))
    return top + jnp.log(jnp.where(some, total, 1))

  def reduce(self, values: Array, reduce_fn: ReduceFn | None) -> Array:
    """Reduces one value of each list, or of each segment: that at its first valid item."""
    if self.first is None:
      where = None if self.where is None else jnp.any(self.where, axis=-1)
      return safe_reduce(values[..., 0], where, reduce_fn)
    slot = jnp.broadcast_to(sorting.slots(values), values.shape)
    where = jnp.ones_like(slot, bool) if self.where is None else self.where
    leader = -self.top(jnp.where(where, -slot, -slot.shape[-1]))
    return safe_reduce(values, where & (slot == leader), reduce_fn)


def _collect(gather: Callable[[Array, Array], Array], x: Array, first: Array) -> Array:
  """Gathers at the first item of each segment, and gives the result to all its items."""
  one = lambda x, first: gather(x, first)[first]  # noqa: E731
  return batching.over_queries(one, x.ndim - 1)(x, first)


@dataclasses.dataclass(frozen=True)
class Lists:
  """Items ready to be ranked: what stands under the mask is 0, and NaN is put aside.

  Attributes:
    scores: `[..., n]`, in their own dtype.
    labels: `[..., n]`, in their own dtype.
    valid: `[..., n]`, False on padding.
    kept: `[..., n]`, False on padding and at a score of -inf, which is an unranked item.
    segments: `[..., n]`, or None.
    groups: What is summed together.
    spoiled: `[..., n]`, valid items whose score or label is NaN.
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
    """Checks and prepares what the caller gave."""
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
    """The dtype of the result: 32 bits at least."""
    wide = jnp.float64 in (self.scores.dtype, self.labels.dtype)
    return jnp.dtype(jnp.float64 if wide else jnp.float32)

  @property
  def where(self) -> Array | None:
    """The mask that the caller gave, for functions of the caller."""
    return self.groups.where

  @property
  def logits(self) -> Array:
    """Scores as finite floats; 0 for items that are not kept."""
    bound = float(jnp.finfo(self.dtype).max) * 2.0**-24
    score = jnp.where(self.kept, self.scores, jnp.zeros_like(self.scores))
    return jnp.clip(score.astype(self.dtype), -bound, bound)

  @property
  def segment(self) -> Array:
    """A number of each segment, int32 from 0 on; lists are one."""
    first = self.groups.first
    return jnp.zeros_like(self.valid, jnp.int32) if first is None else first

  def weight(self, weights: ArrayLike | None) -> Array:
    """Weights of the valid items, 1 unless given."""
    if weights is None:
      return self.valid.astype(self.dtype)
    weights = like("weights", weights, self.scores).astype(self.dtype)
    return jnp.where(self.valid, weights, 0)

  def reduce(self, values: Array, reduce_fn: ReduceFn | None) -> Array:
    """Reduces values `[..., 1]` of lists, or `[..., n]` of segments; NaN where NaN came in."""
    spoiled = self.groups.count(self.spoiled) > 0
    return self.groups.reduce(jnp.where(spoiled, jnp.nan, values), reduce_fn)


def valid(where: ArrayLike, x: Array) -> Array:
  """The mask as booleans: what is not 0 is valid."""
  return like("where", where, x).astype(bool)


def like(name: str, given: ArrayLike, x: Array) -> Array:
  """`given` as an array of the shape of `x`, along axes of length 1 repeated."""
  given = checks.array(name, given)
  try:
    return jnp.broadcast_to(given, x.shape)
  except ValueError:
    raise ValueError(
      f"{name} must have the shape of the scores, {x.shape}, got {given.shape}."
    ) from None


def isnan(x: Array) -> Array:
  """Whether numbers are NaN; integers never are."""
  return jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x, bool)


def segment_keys(segments: Array) -> Array:
  """int32 numbers, different where the segments are."""
  if segments.dtype == jnp.int32:
    return segments
  return sorting.keys(segments, jnp.ones_like(segments, bool))


@jax.jit
def first_items(segment: Array) -> Array:
  """For each item `[..., n]` the index of the first of its segment."""

  def first(segment):
    order = in_segments(segment)
    return sorting.scatter(take(order.item, order.start), order.item)

  return batching.over_queries(first, segment.ndim - 1)(segment)


class InSegments(NamedTuple):
  """Items by segment and, within it, by a key, largest first: `[n]` each.

  Attributes:
    item: The index of each item.
    start: Where its segment starts.
    last: Whether it is the last of its segment.
    end: Where the items of its segment with its key end.
  """

  item: Array
  start: Array
  last: Array
  end: Array


def in_segments(segment: Array, key: Array | None = None) -> InSegments:
  """Sorts items `[n]`; those with the same key keep the order of the input."""
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
