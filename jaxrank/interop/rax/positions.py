"""Ranks and cut-offs, exact and approximate, for `rank_fn` and `cutoff_fn`."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import pytree
from jaxrank._core import arithmetic, batching, checks, decays, sorting
from jaxrank._core.arithmetic import at_least_tiny
from jaxrank._core.sorting import take
from jaxrank.interop.rax import lists
from jaxrank.interop.rax.lists import Lists, in_segments, like, segment_keys

StepFn = Callable[[Array], Array]


@pytree("temperature")
@dataclasses.dataclass(frozen=True)
class Sigmoid:
  """The step `sigmoid(x / temperature)`, whose sums over pairs take O(n log n) time."""

  temperature: ArrayLike = 1.0

  def __call__(self, x: Array) -> Array:
    """Computes `sigmoid(x / temperature)`."""
    return jax.nn.sigmoid(x / jnp.asarray(self.temperature).astype(x.dtype))


def ranks(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  axis: int = -1,
  key: Array | None = None,
) -> Array:
  """The 1-based rank of each item, int32, without a gradient.

  >>> print(ranks(jnp.array([1.0, 3.0, 2.0])))
  [3 1 2]
  >>> print(ranks(jnp.array([1.0, 3.0, 2.0]), segments=jnp.array([0, 0, 1])))
  [2 1 1]

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    axis: The axis to rank along, an int; only the last one with `segments`.

  Returns:
    An array of the shape of `scores`; padding ranks last, and segments are ranked separately.

  Raises:
    ValueError: if there are segments and `axis` is not the last one.
  """
  scores = checks.array("scores", scores)
  if segments is not None and axis != -1:
    raise ValueError(f"only axis=-1 is supported when segments are set, but given axis={axis}.")
  if where is not None:
    where = lists.valid(where, scores)
  if segments is not None:
    segments = segment_keys(like("segments", segments, scores))
  noise = None if key is None else jax.random.uniform(checks.prng_key(key), scores.shape)
  given = jax.tree.map(lambda x: jnp.moveaxis(x, axis, -1), (scores, where, segments, noise))
  return jnp.moveaxis(_ranks(*given), -1, axis)


@jax.jit
def _ranks(
  scores: Array, where: Array | None, segments: Array | None, noise: Array | None
) -> Array:
  def rank(scores, where, segment, noise):
    everywhere = jnp.ones_like(scores, bool)
    key = sorting.keys(scores, everywhere if where is None else where)
    if noise is not None:
      _, item = sorting.order(key, sorting.keys(-noise, everywhere))
      key = -sorting.scatter(sorting.slots(item), item)
    if segment is None:
      _, item = sorting.order(key)
      return sorting.scatter(sorting.slots(item) + 1, item)
    item, start, *_ = in_segments(segment, key)
    return sorting.scatter(sorting.slots(item) - start + 1, item)

  scores = lax.stop_gradient(scores)
  if jnp.issubdtype(scores.dtype, jnp.floating):
    # NaN scores rank last, so that a diverged model does not get a good value.
    scores = jnp.where(jnp.isnan(scores), -jnp.inf, scores)
  return batching.over_queries(rank, scores.ndim - 1)(scores, where, segments, noise)


def approx_ranks(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  key: Array | None = None,
  step_fn: StepFn = jax.nn.sigmoid,
) -> Array:
  """Differentiable ranks: `1 + sum_j step(s_j - s_i)` over the other items.

  >>> print(" ".join(f"{r:.4f}" for r in approx_ranks(jnp.array([1.0, 3.0, 2.0]))))
  2.6119 1.3881 2.0000

  It takes O(n log n) time for `jax.nn.sigmoid` and for the sigmoid of `approx_t12n`, and all pairs
  for any other step. `key` has no effect. See `jaxrank.interop.rax` for the other arguments.

  Returns:
    `[..., n]`, 1 on padding. Items at -inf rank behind all others, tied with each other.
  """
  del key
  given = Lists.of(scores, scores, where, segments)
  if step_fn is jax.nn.sigmoid:
    step_fn = Sigmoid()
  if isinstance(step_fn, Sigmoid):
    rank = _sigmoid_ranks(step_fn.temperature, given)
  else:
    rank = _ranks_by_pairs(given, step_fn)
  spoiled = given.groups.count(given.spoiled) > 0
  return jnp.where(given.valid, jnp.where(spoiled, jnp.nan, rank), 1)


def _sigmoid_ranks(temperature: ArrayLike, given: Lists) -> Array:
  ahead = _sigmoids(temperature, given.logits, given.kept, given.segment)
  ranked = given.groups.count(given.kept)
  unranked = given.groups.count(given.valid & ~given.kept)
  behind = ranked.astype(ahead.dtype) + (unranked - 1).astype(ahead.dtype) / 2
  return 1 + jnp.where(given.kept, ahead, behind)


@jax.jit
def _sigmoids(temperature: ArrayLike, z: Array, live: Array, segment: Array) -> Array:
  """`sum_j sigmoid((z_j - z_i) / temperature)` over the other live items of the segment."""
  tail = decays.logistic(z.dtype.name).tail

  def one(z, live, segment):
    # Items that are not live come after all others, in a segment of their own.
    order = in_segments(jnp.where(live, segment, sorting.MASKED), sorting.keys(z, live))
    z, live = (take(x, order.item) for x in (z, live))
    ahead = sorting.slots(order.start) - order.start
    pair, t = np.stack([-tail, tail]), at_least_tiny(temperature, z.dtype)
    within = decays.polynomial_sums(z, t, live.astype(z.dtype), pair, order.start)
    return sorting.scatter(ahead.astype(z.dtype) + within, order.item)

  return batching.over_queries(one, z.ndim - 1)(z, live, segment)


def _ranks_by_pairs(given: Lists, step_fn: StepFn) -> Array:
  z, slot = given.logits, sorting.slots(given.scores)
  z = jnp.where(given.kept, z, float(-jnp.finfo(z.dtype).max) * 2.0**-24)
  counts = given.valid[..., :, None] & given.valid[..., None, :]
  counts &= given.segment[..., :, None] == given.segment[..., None, :]
  counts &= slot[..., :, None] != slot[..., None, :]
  ahead = step_fn(z[..., None, :] - z[..., :, None])
  return 1 + jnp.sum(jnp.where(counts, ahead, 0), axis=-1)


def cutoff(
  a: ArrayLike,
  n: int | Array | None = None,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
) -> Array:
  """The cut-off after the `n` largest values: 1 for these, else 0.

  >>> print(cutoff(jnp.array([1.0, 3.0, 2.0]), 2))
  [0. 1. 1.]

  Args:
    a: `[..., items]`, the values.
    n: The number of values to select, a positive integer, which may be traced; None for all.
    where: `[..., items]`, False for values that cannot be selected; None is all True.
    segments: `[..., items]`, ids of groups, from each of which `n` values are selected.

  Returns:
    An array of the shape of `a`.
  """
  a = checks.array("a", a)
  n = checks.cutoff(n, "n")
  if n is None:
    return jnp.ones_like(a)
  inside = ranks(a, where=where, segments=segments) <= n
  if where is not None:
    inside &= lists.valid(where, a)
  return inside.astype(jnp.float32)


def approx_cutoff(
  a: ArrayLike,
  n: int | Array | None = None,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  step_fn: StepFn = jax.nn.sigmoid,
) -> Array:
  """Differentiable cut-off: the step of each value minus the threshold for the `n` largest.

  The threshold is the mean of the `n`-th largest value and the next one.

  >>> print(" ".join(f"{x:.4f}" for x in approx_cutoff(jnp.array([1.0, 3.0, 2.0]), 2)))
  0.3775 0.8176 0.6225

  The arguments are those of `cutoff`.

  Args:
    step_fn: Function that approximates the step `x >= 0`.

  Returns:
    An array of the shape of `a`; 1 where at most `n` values can be selected, and 0 on padding.
  """
  a = arithmetic.floating(checks.array("a", a))
  if n is None:
    return jnp.ones_like(a)
  given = Lists.of(a, a, where, segments)
  position = ranks(given.scores, where=where, segments=segments)
  last = given.valid & ((position == n) | (position == n + 1))
  edge = lax.stop_gradient(given.groups.total(jnp.where(last, given.scores, 0)) / 2)
  inside = jnp.where(given.groups.count(given.valid) > n, step_fn(given.scores - edge), 1)
  return jnp.where(given.valid & (jnp.asarray(n) > 0), inside, 0)
