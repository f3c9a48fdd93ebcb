"""`target_ranks` and `top_items`, each in one pass over the items, by counts and by best scores."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, sorting
from jaxrank.corpus import _inputs, _sweep
from jaxrank.corpus._inputs import NONE, Inputs, Progress
from jaxrank.corpus._sweep import Place
from jaxrank.corpus.similarity import Similarity, scorer, scores
from jaxrank.ranks import TargetRanks

# The largest number of scores in memory at a time, which bounds the queries in a block.
_HELD = 1 << 23


class TargetCounts(NamedTuple):
  """The counts of one pass over the items, for each query.

  Attributes:
    score: `[q]`, the score of the target.
    above: `[q]`, how many other candidates have a higher score.
    reaching: `[q]`, how many have the same score or a higher one.
    present: `[q]`, how many have a score that is not NaN.
  """

  score: Array
  above: Array
  reaching: Array
  present: Array


class Best(NamedTuple):
  """The best items so far, best first.

  Attributes:
    scores: `[q, k]`, -inf where there is no item.
    ids: `[q, k]`, int32, -1 where there is no item.
    has_nan: `[q]`, whether the score of a candidate was NaN.
  """

  scores: Array
  ids: Array
  has_nan: Array

  def told(self) -> tuple[Array, Array]:
    """The scores and ids, which are NaN and -1 for a query with a NaN score."""
    has_nan = self.has_nan[:, None]
    return jnp.where(has_nan, jnp.nan, self.scores), jnp.where(has_nan, NONE, self.ids)


def target_ranks(
  queries: Any,
  items: Any,
  targets: ArrayLike,
  *,
  exclude: ArrayLike | None = None,
  similarity: Similarity = "dot",
  chunk: int = 8192,
  axis_name: str | None = None,
  progress: Progress | None = None,
) -> TargetRanks:
  """The rank of one target of each query among all items.

  The optimistic rank is `1 + sum_j [s_j > s_t]` and the pessimistic one `sum_j [s_j >= s_t]`, with
  the score `s_t` of the target and the scores `s_j` of the items that are not excluded. Ranks have
  no derivatives; with `axis_name`, they do not need `check_vma=True`.

  >>> items = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
  >>> queries = jnp.array([[2.0, 1.0], [0.0, 1.0]])
  >>> ranks = target_ranks(queries, items, jnp.array([2, 0]), exclude=jnp.array([[-1], [1]]))
  >>> print(ranks.optimistic, ranks.pessimistic, ranks.candidates)
  [1 3] [2 3] [4 3]

  See `jaxrank.corpus` for the arguments that all searches share.

  Args:
    targets: `[q]`, the id of each target; -1 for a query that is padding.
    exclude: `[q, e]`, ids that are no candidates. A target among them raises `ValueError`, and has
      no rank under `jit`; take it out of known positives with
      `jnp.where(known == targets[:, None], -1, known)`.

  Returns:
    `jaxrank.ranks.TargetRanks`, `[q]`, int32. The ranks are 0, which stands for no rank and makes
    metrics NaN, if a candidate has a NaN score, or the target is excluded or no item under `jit`.

  Raises:
    TypeError: if ids are not integers, or an argument has another wrong type.
    ValueError: if shapes do not match, there are no items, an id is not that of an item, or a
      target is excluded.
  """
  with checks.named("corpus.target_ranks"):
    inputs, items, known = prepare(queries, items, exclude, similarity, axis_name)
    targets = _inputs.as_ids("targets", targets, len(inputs.removed), known, ndim=1)
    _inputs.check_apart("targets", targets, exclude)
    chunk = checks.count("chunk", chunk)
    if axis_name is not None:
      checks.same_on_devices("targets", targets, axis_name)
    on_host = _inputs.come_from_host(progress, items, inputs, targets)
    if not on_host:
      ranks: TargetRanks = _rank(inputs, items, targets, chunk, axis_name)
    else:
      size = _inputs.size(items)
      rows = np.maximum(np.asarray(targets), 0)
      target_items = jax.tree.map(lambda x: jnp.asarray(x[rows]), items)
      counted, tally = _start(inputs, target_items, targets)
      tally = _sweep.from_host(_count, counted, tally, items, chunk, progress, first=-1)
      ranks = _ranks(tally, targets, targets, inputs.removed, counted.removed, size, None)
  return ranks


def top_items(
  queries: Any,
  items: Any,
  k: int,
  *,
  exclude: ArrayLike | None = None,
  similarity: Similarity = "dot",
  chunk: int = 8192,
  axis_name: str | None = None,
  progress: Progress | None = None,
) -> tuple[Array, Array]:
  """The best items of the corpus for each query, and their scores.

  The scores have derivatives of forward mode only. With `axis_name`, results and derivatives do not
  need `check_vma=True`, the default of `jax.shard_map`.

  >>> items = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
  >>> scores, ids = top_items(jnp.array([[2.0, 1.0]]), items, 2, exclude=jnp.array([[2]]))
  >>> print(scores, ids)
  [[2. 1.]] [[0 1]]

  See `jaxrank.corpus` for the arguments that all searches share.

  Args:
    k: The number of items to find, at least 1; it may exceed the number of items.

  Returns:
    Scores and ids, `[q, k]` each, best first and tied items by id; -inf and -1 where no candidate
    is left, and NaN and -1 for a query with a NaN among the scores of its candidates.

  Raises:
    TypeError: if ids are not integers, or an argument has another wrong type.
    ValueError: if shapes do not match, there are no items, or an id is not that of an item.
  """
  with checks.named("corpus.top_items"):
    inputs, items, _ = prepare(queries, items, exclude, similarity, axis_name)
    k, chunk = checks.count("k", k), checks.count("chunk", chunk)
    on_host = _inputs.come_from_host(progress, items, inputs)
    if not on_host:
      top: tuple[Array, Array] = _top(inputs, items, k, chunk, axis_name)
    else:
      best = _none_yet(inputs, items, k)
      top = _sweep.from_host(_keep, inputs, best, items, chunk, progress).told()
  return top


def prepare(
  queries: Any, items: Any, exclude: Any, similarity: Similarity, axis_name: str | None
) -> tuple[Inputs, Any, int | None]:
  """The checked inputs, the items, and the number of items if this device has all of them."""
  queries, items = _inputs.as_arrays("queries", queries), _inputs.as_arrays("items", items)
  q, n = _inputs.size(queries), _inputs.size(items)
  if isinstance(similarity, str):
    _inputs.check_vectors(queries, items)
  if n == 0:
    raise ValueError("items must hold at least one item, got an empty corpus.")
  if axis_name is not None:
    checks.axis(axis_name)
    checks.same_on_devices("queries and exclude", (queries, exclude), axis_name)
  known = n if axis_name is None else None
  if exclude is None:
    removed = jnp.full((q, 0), NONE, np.int32)
  else:
    removed = _inputs.as_ids("exclude", exclude, q, known, ndim=2)
  return Inputs(jax.tree.map(jnp.asarray, queries), removed, scorer(similarity)), items, known


@functools.partial(jax.jit, static_argnums=(3, 4))
def _rank(
  inputs: Inputs, items: Any, targets: Array, chunk: int, axis_name: str | None
) -> TargetRanks:
  def rank(inputs: Inputs, items: Any, axis: _sweep.Axis, targets: Array) -> TargetRanks:
    mine = _sweep.local(targets, items, axis)
    inputs = inputs._replace(removed=_sweep.local(inputs.removed, items, axis))
    target_items = _sweep.gather(items, mine, axis)
    counted, tally = _start(inputs, target_items, mine)
    tally = _sweep.on_device(_count, counted, tally, items, chunk, first=-1)
    size = _inputs.size(items)
    ranks: TargetRanks = _ranks(tally, targets, mine, inputs.removed, counted.removed, size, axis)
    return ranks

  return _sweep.over_devices(rank, inputs, items, axis_name, targets)


@jax.jit
def _start(inputs: Inputs, target_items: Any, targets: Array) -> tuple[Inputs, TargetCounts]:
  """The inputs with the targets among the removed ids, and a tally of zeros."""
  removed = _inputs.without_repeats(jnp.concatenate([inputs.removed, targets[:, None]], axis=1))
  inputs = inputs._replace(removed=removed, target_items=target_items)
  score = jax.eval_shape(scores, inputs.similarity, inputs.queries, target_items)
  nothing = jnp.zeros(targets.shape, jnp.int32)
  return inputs, TargetCounts(jnp.zeros(targets.shape, score.dtype), nothing, nothing, nothing)


def _count(inputs: Inputs, tally: TargetCounts, part: Any, place: Place) -> TargetCounts:
  """Adds the counts of a chunk; in the step with negative ids, scores the targets themselves.

  The program and the shape that compute the scores of the targets are those of the other scores: a
  product of another shape may be rounded differently, and not tie with copies of its item.
  """
  chunk = _inputs.size(part)

  def count(queries: Any, target_items: Any, removed: Array, tally: TargetCounts) -> TargetCounts:
    def rows(target_items: Array, x: Array) -> Array:
      first = jnp.where(place.start < 0, target_items, x[: target_items.shape[0]])
      return jnp.concatenate([first, x[target_items.shape[0] :]])

    block = scores(inputs.similarity, queries, jax.tree.map(rows, target_items, part))
    score = jnp.where(place.start < 0, jnp.diagonal(block), tally.score)
    added = _against(score, jnp.where(place.counts(block), block, jnp.nan))
    inside = (removed >= place.fresh) & (removed < place.start + chunk)
    taken = sorting.take(block, jnp.where(inside, removed - place.start, 0))
    dropped = _against(score, jnp.where(inside, taken, jnp.nan))
    counts = (x + y - z for x, y, z in zip(tally[1:], added, dropped, strict=True))
    return TargetCounts(score, *counts)

  rows_held = min(max(1, _HELD // chunk), chunk)
  given = inputs.queries, inputs.target_items, inputs.removed, tally
  counted: TargetCounts = batching.in_blocks(count, rows_held)(*given)
  return counted


def _against(score: Array, x: Array) -> tuple[Array, ...]:
  """How many of `x`, `[q, c]`, are above the score, not below it, and not NaN, in one pass."""
  holds = (x > score[:, None], x >= score[:, None], x == x)
  ones = tuple(each.astype(jnp.int32) for each in holds)
  zeros = (np.int32(0),) * len(ones)

  def add(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))

  return tuple(lax.reduce(ones, zeros, add, (1,)))


@functools.partial(jax.jit, static_argnums=(5, 6))
def _ranks(
  tally: TargetCounts,
  targets: Array,
  mine: Array,
  excluded: Array,
  removed: Array,
  items: int,
  axis: _sweep.Axis,
) -> TargetRanks:
  """The ranks from the tally.

  `mine` are the local ids of targets that this device holds, or -1, and `removed` the ids of
  excluded items and targets, without repeats.
  """
  left_out = jnp.any(excluded == mine[:, None], axis=1)
  found = ((mine >= 0) & ~left_out).astype(jnp.int32)
  others = items - jnp.sum(removed != NONE, axis=1, dtype=jnp.int32)
  lost = (found > 0) & (tally.score != tally.score)
  has_nan = others - tally.present + lost.astype(jnp.int32)
  counts = tally.above, tally.reaching, others, found, has_nan
  if axis is not None:
    counts = lax.psum(counts, axis)
  above, reaching, others, found, has_nan = counts
  ranked = (found > 0) & (has_nan == 0)
  above, reaching = (jnp.where(ranked, 1 + x, 0) for x in (above, reaching))
  return TargetRanks(above, reaching, jnp.where(targets == NONE, 0, others + found))


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _top(
  inputs: Inputs, items: Any, k: int, chunk: int, axis_name: str | None
) -> tuple[Array, Array]:
  def top(inputs: Inputs, items: Any, axis: _sweep.Axis) -> tuple[Array, Array]:
    inputs = inputs._replace(removed=_sweep.local(inputs.removed, items, axis))
    best = _none_yet(inputs, items, k)
    best = _sweep.on_device(_keep, inputs, best, items, chunk)
    if axis is None:
      return best.told()
    ids = jnp.where(best.ids < 0, NONE, best.ids + _sweep.offset(items, axis))
    scores, ids = (_sweep.side_by_side(x, axis) for x in (best.scores, ids))
    has_nan = lax.psum(best.has_nan.astype(jnp.int32), axis) > 0
    return _best(Best(scores, ids, has_nan), k).told()

  return _sweep.over_devices(top, inputs, items, axis_name)


def _none_yet(inputs: Inputs, items: Any, k: int) -> Best:
  score = jax.eval_shape(scores, inputs.similarity, inputs.queries, items)
  shape = (score.shape[0], k)
  empty = jnp.full(shape, -jnp.inf, score.dtype), jnp.full(shape, NONE, jnp.int32)
  return Best(*empty, jnp.zeros(shape[0], bool))


def _keep(inputs: Inputs, best: Best, part: Any, place: Place) -> Best:
  """The best items of those kept so far and those of a chunk."""
  chunk = _inputs.size(part)

  def keep(queries: Any, removed: Array, best: Best) -> Best:
    block = scores(inputs.similarity, queries, part)
    # Replaces -0.0 by 0.0, because top_k orders 0.0 before -0.0.
    block = jnp.where(block == 0, 0, block)
    block = jnp.where(place.candidates(block, removed), block, -jnp.inf)
    has_nan = best.has_nan | jnp.any(block != block, axis=1)
    block = jnp.where(block == block, block, -jnp.inf)
    at = sorting.top(block, k=min(best.ids.shape[1], chunk))
    value = sorting.take(block, at)
    item = jnp.where(value > -jnp.inf, place.start + at, NONE)
    pairs = zip(best[:2], (value, item), strict=True)
    values, ids = (jnp.concatenate(x, axis=1) for x in pairs)
    return _best(Best(values, ids, has_nan), best.ids.shape[1])

  rows_held = max(1, _HELD // chunk)
  return Best(*batching.in_blocks(keep, rows_held)(inputs.queries, inputs.removed, best))


def _best(of: Best, k: int) -> Best:
  """The `k` best items; of tied items, the first ones."""
  top = sorting.top(of.scores, k=k)
  return Best(sorting.take(of.scores, top), sorting.take(of.ids, top), of.has_nan)
