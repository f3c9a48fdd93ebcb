"""The soft operators: rank, top k, sort and quantile."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, sorting, ties
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.batching import as_empty_as
from jaxrank._core.description import Description, Kind
from jaxrank._core.ranked import Ranked, Ranking, UnansweredError
from jaxrank.rankings import thresholds
from jaxrank.rankings.exact import ExactQuery
from jaxrank.rankings.expected_rank import ExpectedRankQuery, Laplace, Logistic
from jaxrank.rankings.perturbed import Gaussian, Gumbel, NoiseQuery
from jaxrank.rankings.sharded import ShardedQuery


def rank(
  scores: ArrayLike, *, where: ArrayLike | None = None, ranking: Ranking = Laplace(1.0)
) -> Array:
  """The expected rank of each item, from 1.

  `r_i = 1 + sum_{j != i} F((s_j - s_i) / t)`. Under `Gumbel` and `Gaussian` it is the expectation
  over the noise; that of `Gumbel(t)` is the rank of `Logistic(t)`. The ranks of a list sum to
  `n (n + 1) / 2`. Ties have equal ranks, under `Exact()` too.

  >>> print(*(f"{r:.3f}" for r in rank(jnp.array([1.0, 3.0, 2.0]), ranking=Laplace(0.5))))
  2.923 1.077 2.000

  See `jaxrank.soft` for the arguments.

  Returns:
    Ranks `[..., n]`, 0 for items without a rank.

  Raises:
    ValueError: if shapes differ, or the ranking has no expected ranks.

  References:
    Qin, Liu and Li, `A general approximation framework for direct optimization of information
    retrieval measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """
  if isinstance(ranking, Gumbel):
    ranking = Logistic(ranking.temperature)
  return _of_items(_RANK, scores, where, ranking)


def top_k(
  scores: ArrayLike,
  k: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Laplace(1.0),
) -> Array:
  """The items with the `k` largest scores, as a mask in [0, 1] that sums to `k`.

  `m_i = F((s_i - b) / t)`, with the threshold `b` for which `sum_i m_i = k`. `k` may be any
  positive number; from the number of items on, the mask is 1 with gradient 0. Under
  `Gumbel` and `Gaussian`, `m_i` is the probability that the rank of the item is at most `k`, which
  is then a whole number; their time is O(n k log k) for each node of the integral.

  >>> print(*(f"{m:.3f}" for m in top_k(jnp.array([1.0, 3.0, 2.0]), 2, ranking=Laplace(0.5))))
  0.196 0.977 0.827

  See `jaxrank.soft` for the arguments that operators share.

  Args:
    k: How many items the mask selects, a positive number; may be traced. A traced one that is not
      positive selects nothing.

  Returns:
    A mask `[..., n]` of floats.

  Raises:
    ValueError: if shapes differ, `k` is not positive, or the ranking has no such mask.
    TypeError: if `k` is no scalar, or is not whole under noise.

  References:
    Struski et al., `LapSum <https://arxiv.org/abs/2503.06242>`_, 2025, for `Laplace`.
  """
  with checks.named(_TOP_K.name):
    noisy = isinstance(ranking, Gumbel | Gaussian)
    k = _whole(k) if noisy else _scalar("k", k)
    checks.positive("k", k)
    return _of_items(_TOP_K, scores, where, ranking, k=k if noisy else jnp.asarray(k))


def sort(
  scores: ArrayLike, *, where: ArrayLike | None = None, ranking: Ranking = Laplace(1.0)
) -> Array:
  """The scores in descending order, softly.

  `b_r` at rank `r` is the threshold for which `sum_i F((s_i - b_r) / t) = r - 1/2`.

  >>> print(*(f"{b:.3f}" for b in sort(jnp.array([1.0, 3.0, 2.0]), ranking=Laplace(0.5))))
  3.071 2.000 0.929

  See `jaxrank.soft` for the arguments.

  Returns:
    Values `[..., n]` that never increase; 0 behind the last item.

  Raises:
    ValueError: if shapes differ, or the ranking has no thresholds, as noise has not.
  """
  return _of_items(_SORT, scores, where, ranking)


def quantile(
  scores: ArrayLike,
  q: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Laplace(1.0),
) -> Array:
  """A quantile of the scores, softly.

  It is the threshold `b` for which `sum_i F((b - s_i) / t) = 1/2 + q (n - 1)`, with `n` items. At
  temperature 0 it is the score at the nearest rank, or the mean of two that are equally near: 0 is
  the smallest score, 1/2 the median, and 1 the largest score.

  >>> print(f"{quantile(jnp.array([1.0, 3.0, 2.0, 7.0]), 0.5, ranking=Laplace(0.5)):.3f}")
  2.532

  See `jaxrank.soft` for the arguments that operators share.

  Args:
    q: A number in [0, 1]; may be traced.

  Returns:
    The quantile of each list, `[...]`; 0 for an empty one.

  Raises:
    ValueError: if shapes differ, `q` is not in [0, 1], or the ranking has no thresholds, as noise
      has not.
    TypeError: if `q` is no scalar.
  """
  with checks.named(_QUANTILE.name):
    q = _scalar("q", q)
    checks.unit_interval("q", q)
    return _apply(_QUANTILE, scores, where, ranking, q=jnp.asarray(q))


def _rank(ranked: Ranked) -> Array:
  ranks = jnp.where(ranked.retrieved, 1 + ranked.before(ranked.retrieved), 0)
  return ranked.in_input_order(ranks)


def _top_k(ranked: Ranked, *, k: int | Array) -> Array:
  k_float = jnp.asarray(k).astype(ranked.dtype)
  if isinstance(ranked, ExpectedRankQuery):
    mask = ranked.largest_items(k_float, ranked.retrieved)
  elif isinstance(ranked, NoiseQuery):
    depth = min(k, ranked.n) if isinstance(k, int) else ranked.n
    among = jnp.arange(1, depth + 1, dtype=ranked.dtype) <= k_float
    mask = jnp.sum(jnp.where(among[None], ranked.chances(depth), 0), axis=1)
    mask = jnp.where(k_float < ranked.count(ranked.retrieved), mask, 1)
  else:
    start, end = ties.layout(_exact(ranked).keys)
    size = (end - start + 1).astype(ranked.dtype)
    mask = jnp.clip((k_float - start.astype(ranked.dtype)) / size, 0, 1)
  return ranked.in_input_order(jnp.where(ranked.retrieved, mask, 0))


def _sort(ranked: Ranked) -> Array:
  if isinstance(ranked, ExpectedRankQuery):
    values = thresholds.for_each_rank(ranked)
  else:
    values = _exact(ranked).scores.astype(ranked.dtype)
  return jnp.where(ranked.retrieved, values, 0)


def _quantile(ranked: Ranked, *, q: Array) -> Array:
  count = ranked.count(ranked.retrieved)
  target = count - 0.5 - q.astype(ranked.dtype) * jnp.maximum(count - 1, 0)
  if isinstance(ranked, ExpectedRankQuery):
    target = jnp.where(count > 0, target, 0)
    value = thresholds.for_one(ranked, target, ranked.retrieved).score
  else:
    # A target between two whole numbers is the upper one's item; a whole one is between two items.
    both = jnp.stack([jnp.ceil(target) - 1, jnp.floor(target)]).astype(jnp.int32)
    neighbours = sorting.take(_exact(ranked).scores, jnp.clip(both, 0, ranked.n - 1))
    value = jnp.sum(neighbours.astype(ranked.dtype) / 2)
  return jnp.where(count > 0, value, 0)


def _exact(ranked: Ranked) -> Ranked:
  """The ranked query if its items are in the order of the scores; otherwise raises."""
  if isinstance(ranked, ExactQuery) and not isinstance(ranked, ShardedQuery):
    return ranked
  why = "noise, and no threshold" if isinstance(ranked, NoiseQuery) else "no threshold"
  raise UnansweredError(
    f"ranking={ranked.name} has {why}; rank with jaxrank.Logistic(t) or jaxrank.Laplace(t) instead."
  )


def _scalar(name: str, x: Any) -> Any:
  """A real scalar, checked; other shapes and dtypes raise `TypeError`."""
  if isinstance(x, bool | np.bool_) or checks.array(name, x).ndim:
    raise TypeError(f"{name} must be a real scalar, got {x!r}; use vmap for several.")
  return float(x) if isinstance(x, int | float) else x


def _whole(k: Any) -> int | Array:
  """A cut-off for rankings under noise."""
  cutoff = checks.cutoff(k)
  if cutoff is None:
    raise TypeError("k must be a positive integer, got None.")
  return cutoff


_ANY = Kind("a real scalar", lambda name, value: value)
_RANK = Description("soft.rank", _rank)
_TOP_K = Description("soft.top_k", _top_k, {"k": _ANY}, range=(0.0, 1.0))
_SORT = Description("soft.sort", _sort)
_QUANTILE = Description("soft.quantile", _quantile, {"q": _ANY})


def _of_items(about: Description, scores: ArrayLike, *args: Any, **parameters: Any) -> Array:
  """The result of an operator that has an axis of items."""
  return as_empty_as(scores, _apply(about, scores, *args, **parameters))


def _apply(
  about: Description,
  scores: ArrayLike,
  where: ArrayLike | None,
  ranking: Ranking,
  **parameters: Any,
) -> Array:
  with checks.named(about.name):
    labels = checks.no_labels(scores)
    (evaluated,) = apply_calls([Call(about, parameters, None)], scores, labels, where, ranking)
  value: Array = evaluated.value
  return value
