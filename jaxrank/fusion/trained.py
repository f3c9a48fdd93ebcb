"""Methods that combine ranks by what judged queries say about them: `train` learns the points."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.tree_util import Partial
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import between, looked_up
from jaxrank._core import batching, checks, sorting, ties
from jaxrank._core.arithmetic import floating, safe_divide
from jaxrank._core.ranked import Ranking, relevant
from jaxrank.exposure.shares import expected
from jaxrank.fusion._define import (
  METHODS,
  Runs,
  method,
  points_of,
  retrieved,
  summed,
  systems,
  times,
)
from jaxrank.fusion.by_rank import by_rank
from jaxrank.fusion.normalising import count
from jaxrank.rankings.exact import Exact

_BAYES_RANKS = (0, 5, 10, 15, 20, 30, 100, 200, 500, 1000)
_SEGMENTS = (0, *(10 * 2**k - 5 for k in range(10)))
_RARE = 0.001


def train(
  method: str | Callable[..., Array],
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  **parameters: Any,
) -> Array:
  """What a trained method learns from judged queries, to be passed to it as `trained`.

  >>> scores = jnp.array([[[9.0, 8.0, 7.0]], [[1.0, 2.0, 3.0]]])  # two systems, one query
  >>> print(train("pos_fuse", scores, jnp.array([[1, 0, 0]])))
  [[1. 0. 0.]
   [0. 0. 1.]]

  Args:
    method: A trained method, or its name: "bayes_fuse", "map_fuse", "pos_fuse", "prob_fuse",
      "seg_fuse", "slide_fuse".
    scores: `[systems, queries, n]`, -inf where a system does not retrieve an item.
    labels: `[queries, n]`.
    where: `[queries, n]`, False on padding; queries without items do not count.
    rel: Labels of at least `rel` are relevant; None is any positive label.
    **parameters: `n_segments` of `prob_fuse`, by default 10.

  Returns:
    `[systems]` for `map_fuse`, and `[systems, ranks]` or `[systems, segments]` for the others.

  Raises:
    ValueError: if the method is not trained, or shapes differ.
    TypeError: if an argument has a wrong type.
  """
  with checks.named("fusion.train"):
    known = {name: about for name, about in METHODS.items() if about.training is not None}
    name = getattr(method, "__name__", method)
    about = known.get(str(name))
    if about is None or about.training is None:
      raise ValueError(f"method must be one of {', '.join(known)}, got {checks.told(method)}.")
    takes = list(inspect.signature(about.training).parameters)[3:]
    if others := [f"`{given}`" for given in parameters if given not in takes]:
      raise TypeError(
        f"{about.name} is trained with {takes[0] if takes else 'no parameters'}, got "
        f"{', '.join(others)}; leave it out."
      )
    given, masks = systems(scores, where)
    mask = masks[0]
    truth = floating(checks.array("labels", labels))
    checks.same_shape("labels", truth, "the scores of a system", given[0])
    checks.threshold("rel", rel)
    if given.ndim < 3:
      given, mask, truth = given[:, None], mask[None], truth[None]
    lists = (len(given), math.prod(given.shape[1:-1]), given.shape[-1])
    given, mask, truth = given.reshape(lists), mask.reshape(lists[1:]), truth.reshape(lists[1:])
    learnt: Array = about.training(
      given, relevant(truth, mask, rel)[None], mask[None], **parameters
    )
    unknown = jnp.any(mask[None] & jnp.isnan(given), axis=(1, 2))
  return jnp.where(unknown.reshape(-1, *(1,) * (learnt.ndim - 1)), jnp.nan, learnt)


def _mean(x: Array, where: Array) -> Array:
  """The mean of `[systems, queries, ...]` over the queries that have items; others must be 0."""
  queries = jnp.sum(jnp.any(where, axis=-1), dtype=x.dtype)
  return jnp.sum(x, axis=1) / jnp.maximum(queries, 1)


def _hits(scores: Array, relevant: Array, where: Array) -> tuple[Array, Array]:
  """`[systems, queries, n]`: the share of relevant items at each rank over the orders of ties.

  The second array says which ranks there are.
  """
  has = retrieved(scores, where)

  def of_list(scores: Array, has: Array, relevant: Array) -> Array:
    key, item = sorting.order(sorting.keys(scores, has))
    tied = ties.runs(key)
    hit = sorting.take((relevant & has).astype(scores.dtype), item)
    return ties.mean(hit, tied.start, tied.end)

  hits = batching.over_queries(of_list, 2)(scores, has, jnp.broadcast_to(relevant, scores.shape))
  rank = jnp.arange(scores.shape[-1]).reshape(1, 1, -1)
  ranked = rank < jnp.sum(has, axis=-1, keepdims=True)
  return jnp.where(ranked, hits, 0), ranked


def _by_rank(scores: Array, relevant: Array, where: Array) -> Array:
  """`[systems, n]`, the share of relevant items at each rank of the lists that have it."""
  hits, ranked = _hits(scores, relevant, where)
  return safe_divide(jnp.sum(hits, axis=1), jnp.sum(ranked, axis=1, dtype=hits.dtype))


def _by_range(scores: Array, relevant: Array, where: Array, ends: tuple[int, ...]) -> Array:
  """`[systems, ranges]`, the hits between neighbouring ends over their distance, by query."""
  hits, _ = _hits(scores, relevant, where)
  sums = jnp.cumsum(jnp.pad(hits, ((0, 0), (0, 0), (1, 0))), axis=-1)
  ends_of = jnp.asarray(ends)
  at = sums[..., jnp.minimum(ends_of, hits.shape[-1])]
  width = (ends_of[1:] - ends_of[:-1]).astype(hits.dtype).reshape(1, 1, -1)
  precision = (at[..., 1:] - at[..., :-1]) / width
  return _mean(precision, where)


def _average_precision(scores: Array, relevant: Array, where: Array) -> Array:
  from jaxrank.metrics import average_precision

  def of_system(scores: Array) -> Array:
    return average_precision(scores, relevant[0], where=where[0])

  return _mean(jax.vmap(of_system)(scores), where)


def _by_segment(scores: Array, relevant: Array, where: Array, n_segments: int = 10) -> Array:
  """`[systems, segments]`, the share of relevant items in each part of a list, of equal parts."""
  segments = checks.count("n_segments", n_segments)
  hits, ranked = _hits(scores, relevant, where)
  size = -(-jnp.sum(ranked, axis=-1, keepdims=True) // segments)
  place = jnp.arange(hits.shape[-1]).reshape(1, 1, -1) // jnp.maximum(size, 1)
  inside = ranked[..., None] & (place[..., None] == jnp.arange(segments).reshape(1, 1, 1, -1))
  found = jnp.sum(jnp.where(inside, hits[..., None], 0), axis=-2)
  return _mean(safe_divide(found, jnp.sum(inside, axis=-2, dtype=hits.dtype)), where)


def _log_odds(scores: Array, relevant: Array, where: Array) -> Array:
  precision = _by_range(scores, relevant, where, _BAYES_RANKS)
  chance = jnp.where(precision == 0, _RARE, precision)
  other = jnp.where(chance == 1, _RARE, 1 - chance)
  return jnp.log(chance / other)


def _table(trained: ArrayLike, scores: Array, ndim: int, segments: int | None = None) -> Array:
  table = floating(checks.array("trained", trained)).astype(scores.dtype)
  fits = table.ndim == ndim and len(table) == len(scores)
  if not fits or segments not in (None, table.shape[-1]):
    axes = f", {segments or 'ranks or segments'}" if ndim > 1 else ""
    raise ValueError(
      f"trained must have shape [{len(scores)}{axes}], got {table.shape}; pass what "
      "jaxrank.fusion.train returns for this method and these systems."
    )
  return table


def _by_table(
  scores: ArrayLike,
  where: ArrayLike | None,
  trained: ArrayLike,
  points: Callable[..., Array],
  *parameters: Any,
  ranking: Ranking = Exact(),
  segments: int | None = None,
) -> Array:
  """`[systems, ..., n]`, the expected points of ranks.

  They are `points(*parameters, table, length, rank)`, of a system's table and the length of its
  list.
  """
  s = jnp.asarray(scores)
  has = retrieved(s, jnp.asarray(where))
  table = _table(trained, s, 2, segments)
  length = count(has, s.dtype)[..., 0]

  def of_list(scores: Array, has: Array, length: Array, table: Array) -> Array:
    # A pytree of what it knows, because programs of `expected` are kept with the rest of it.
    discount = Partial(points, *parameters, table, length)
    return expected(scores, where=has, discount=discount, ranking=ranking)

  of_system = of_list
  for _ in range(s.ndim - 2):
    of_system = jax.vmap(of_system, in_axes=(0, 0, 0, None))
  found = jax.vmap(of_system)(jnp.where(has, s, 0), has, length, table)
  return jnp.where(has, found, -jnp.inf)


def _in_segment(
  ends: tuple[int, ...], beyond: float, table: Array, length: Array, rank: Array
) -> Array:
  """The points of the range between neighbouring ends in which a rank is."""
  del length
  segment = jnp.searchsorted(jnp.asarray(ends[1:], rank.dtype), rank)
  value = looked_up(table, jnp.minimum(segment, len(ends) - 2))
  return jnp.where(segment < len(ends) - 1, value, beyond)


@method("trained", "mapfuse", training=_average_precision)
def map_fuse(
  scores: ArrayLike,
  *,
  trained: ArrayLike,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """MAPFuse: the sum of the mean average precision of systems, divided by the rank.

  `sum_s MAP_s / r_s`, with the rank `r_s` of the item in system `s`, over the systems that retrieve
  it.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(*(f"{x:.3f}" for x in map_fuse(scores, trained=jnp.array([0.4, 0.2]))))
  0.500 0.200 0.333

  Args:
    scores: `[systems, ..., n]`.
    trained: `[systems]`, the mean average precision of each, as `train` returns it.
    where: `[..., n]`, False on padding.
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[..., n]`.

  References:
    Lillis et al., `Estimating probabilities for effective data fusion
    <https://doi.org/10.1145/1835449.1835508>`_, 2010.
  """
  s = jnp.asarray(scores)
  precision = _table(trained, s, 1).reshape(-1, *(1,) * (s.ndim - 1))
  points = by_rank(s, where, lambda rank: 1 / rank, ranking, scale=precision)
  return points_of(points, Runs.total)


@method("trained", "posfuse", training=_by_rank)
def pos_fuse(
  scores: ArrayLike,
  *,
  trained: ArrayLike,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """PosFuse: the sum of the probabilities of relevance at the ranks of an item.

  `sum_s p_s(r_s)`, with the rank `r_s` of the item in system `s`, over the systems that retrieve
  it. `p_s(r)` is 0 behind the ranks that were trained, and between ranks, as smooth rankings have
  them, it is linear.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(pos_fuse(scores, trained=jnp.array([[0.5, 0.25], [1.0, 0.5]])))
  [1.   0.25 1.  ]

  Args:
    scores: `[systems, ..., n]`.
    trained: `[systems, ranks]`, the probabilities, as `train` returns them.
    where: `[..., n]`, False on padding.
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[..., n]`.

  References:
    Lillis et al., `Estimating probabilities for effective data fusion
    <https://doi.org/10.1145/1835449.1835508>`_, 2010.
  """
  return points_of(_by_table(scores, where, trained, _position, ranking=ranking), Runs.total)


def _position(table: Array, length: Array, rank: Array) -> Array:
  del length
  return discounts.table(table)(rank)


@method("trained", "slidefuse", training=_by_rank, w=checks.nonnegative)
def slide_fuse(
  scores: ArrayLike,
  *,
  trained: ArrayLike,
  where: ArrayLike | None = None,
  w: ArrayLike = 5,
  ranking: Ranking = Exact(),
) -> Array:
  """SlideFuse: the sum of the probabilities of relevance around the ranks of an item.

  `sum_s p_s`, where `p_s` is the mean probability of relevance of the ranks from `r_s - w` to
  `r_s + w` that the list of system `s` has, over the systems that retrieve the item.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> trained = jnp.array([[0.6, 0.3, 0.0], [1.0, 0.5, 0.0]])
  >>> print(*(f"{x:.2f}" for x in slide_fuse(scores, trained=trained, w=1)))
  1.20 0.30 0.90

  Args:
    scores: `[systems, ..., n]`.
    trained: `[systems, ranks]`, the probabilities of single ranks, as `train` returns them.
    where: `[..., n]`, False on padding.
    w: How many ranks count on each side.
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[..., n]`.

  References:
    Lillis et al., `Extending probabilistic data fusion using sliding windows
    <https://doi.org/10.1007/978-3-540-78646-7_33>`_, 2008.
  """
  return points_of(_by_table(scores, where, trained, _window, w, ranking=ranking), Runs.total)


def _window(w: ArrayLike, table: Array, length: Array, rank: Array) -> Array:
  sums = jnp.append(jnp.zeros(1, table.dtype), jnp.cumsum(table))
  first, last = jnp.maximum(rank - w - 1, 0), jnp.minimum(rank + w, length)
  inside = between(sums, last) - between(sums, first)
  return inside / jnp.maximum(last - first, 1)


@method("trained", "probfuse", training=_by_segment)
def prob_fuse(scores: ArrayLike, *, trained: ArrayLike, where: ArrayLike | None = None) -> Array:
  """ProbFuse: the sum of the probabilities of relevance in segments of equal size.

  `sum_s p_s(k) / k` over the systems that retrieve the item, where it is in the segment `k`, from
  1, of the list of system `s`. A list of `m` items has segments of `ceil(m / n_segments)`.

  >>> scores = jnp.array([[9.0, 8.0, 7.0, 6.0], [0.2, -jnp.inf, 0.9, 0.1]])
  >>> print(prob_fuse(scores, trained=jnp.array([[0.5, 0.25], [1.0, 0.5]])))
  [1.5   0.5   1.125 0.375]

  Args:
    scores: `[systems, ..., n]`.
    trained: `[systems, n_segments]`, the probabilities, as `train` returns them.
    where: `[..., n]`, False on padding.

  Returns:
    `[..., n]`.

  References:
    Lillis et al., `ProbFuse: a probabilistic approach to data fusion
    <https://doi.org/10.1145/1148170.1148197>`_, 2006.
  """
  return points_of(_by_table(scores, where, trained, _part), Runs.total)


def _part(table: Array, length: Array, rank: Array) -> Array:
  size = jnp.maximum(jnp.ceil(length / len(table)), 1)
  segment = jnp.minimum((rank - 1) // size, len(table) - 1)
  return looked_up(table, segment.astype(jnp.int32)) / (segment + 1)


@method(
  "trained",
  "segfuse",
  training=lambda scores, relevant, where: _by_range(scores, relevant, where, _SEGMENTS),
)
def seg_fuse(scores: ArrayLike, *, trained: ArrayLike, where: ArrayLike | None = None) -> Array:
  """SegFuse: the sum of scores times the probabilities of relevance in segments that double.

  `sum_s (x_s + 1) p_s(k)` over the systems that retrieve the item, with its normalised score `x_s`
  and its segment `k`. Segments end at the ranks 5, 15, 35 and so on up to 5,115; later ranks add 0.

  >>> scores = jnp.array([[1.0, 0.5, 0.0], [0.0, -jnp.inf, 1.0]])
  >>> print(seg_fuse(scores, trained=jnp.tile(0.5 ** jnp.arange(1.0, 11.0), (2, 1))))
  [1.5  0.75 1.5 ]

  Args:
    scores: `[systems, ..., n]`, normalised.
    trained: `[systems, 10]`, the probabilities, as `train` returns them.
    where: `[..., n]`, False on padding.

  Returns:
    `[..., n]`.

  References:
    Shokouhi, `Segmentation of search engine results for effective data-fusion
    <https://doi.org/10.1007/978-3-540-71496-5_19>`_, 2007.
  """
  s = jnp.asarray(scores)
  points = _by_table(s, where, trained, _in_segment, _SEGMENTS, 0.0, segments=10)
  has = points != -jnp.inf
  points = times(jnp.where(has, s, 0) + 1, jnp.where(has, points, 0))
  return points_of(jnp.where(has, points, -jnp.inf), Runs.total)


@method("trained", "bayesfuse", training=_log_odds)
def bayes_fuse(scores: ArrayLike, *, trained: ArrayLike, where: ArrayLike | None = None) -> Array:
  """BayesFuse: the sum of the log odds of relevance at the ranks of an item.

  `sum_s log(p_s / (1 - p_s))` over all systems, with the precision `p_s` of system `s` between the
  ranks 0, 5, 10, 15, 20, 30, 100, 200, 500 and 1,000 around that of the item. It is 1/1,000 for
  what was never relevant, for later ranks, and for items that a system lacks.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(bayes_fuse(scores, trained=jnp.zeros((2, 9))).round(2))
  [ 0.   -6.91  0.  ]

  Args:
    scores: `[systems, ..., n]`.
    trained: `[systems, 9]`, the log odds, as `train` returns them.
    where: `[..., n]`, False on padding.

  Returns:
    `[..., n]`.

  References:
    Aslam and Montague, `Models for metasearch <https://doi.org/10.1145/383952.384007>`_, 2001.
  """
  rare = math.log(_RARE / (1 - _RARE))
  points = _by_table(scores, where, trained, _in_segment, _BAYES_RANKS, rare, segments=9)
  return points_of(points, lambda runs: summed(jnp.where(runs.has, runs.points, rare)))
