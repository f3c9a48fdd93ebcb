"""Intent-aware metrics: means over the subtopics that users may be interested in.

Labels are `[..., n, s]`, one for each subtopic of the query.
"""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import DIVIDES_BY_K, GREEDY_IDEAL, ir_measures, ndeval
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank._core.ties import Cascades, even, expected, normalised, perfect
from jaxrank.rankings.exact import Exact


@metric(
  depth="all",
  subtopics=True,
  names=(
    ir_measures("ERR_IA", "@10", max_label=1, normalizer="perfect"),
    ndeval("ERR-IA", max_label=1, normalizer="perfect"),
  ),
)
def err_ia(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  subtopic_weights: ArrayLike | None = None,
  normalizer: Literal["none", "perfect"] = "none",
  ranking: Ranking = Exact(),
) -> Array:
  r"""Intent-aware expected reciprocal rank: the mean of `err` over the subtopics.

  `ERR-IA@k = sum_s P(s) sum_{r_i <= k} p_is / r_i prod_{j ahead of i} (1 - p_js)`, with the
  probability `P(s)` of subtopic `s`, and `p = (2^y - 1) / 2^max_label` of stopping at an item.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{err_ia(jnp.array([3.0, 2.0, 1.0]), labels, max_label=1):.5f}")
  0.39583

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    subtopic_weights: `[s]` or `[..., s]`, the probability `P` of each subtopic; None gives equal
      ones to the subtopics that some item covers.
    normalizer: The divisor: `"none"`, 1; `"perfect"`, the value of `k` items that all have the best
      grade for every subtopic that some item covers, as in ndeval for `k` of at least 2.

  Returns:
    `[...]`, in [0, 1] if the weights of the subtopics add up to at most 1.

  References:
    Chapelle et al., `Intent-based diversification of web search results
    <https://doi.org/10.1007/s10791-011-9167-7>`_, 2011.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  cascades = _intended(ranked, max_label, subtopic_weights)
  value = expected(ranked, cascades, discounts.reciprocal, k)
  if normalizer == "none":
    return value
  best = jnp.asarray(max_label).astype(ranked.dtype)
  stop = gains.stop_probability(best, best)
  covered = ranked.count(ranked.relevant()) > 0
  weights = jnp.where(covered, cascades.weights, 0) * stop
  return safe_divide(value, perfect(ranked, weights, stop, discounts.reciprocal, k))


@metric(
  depth="all",
  departs=GREEDY_IDEAL,
  subtopics=True,
  names=(ir_measures("nERR_IA", "@10", max_label=1), ndeval("nERR-IA", max_label=1)),
)
def nerr_ia(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Normalised ERR-IA: `err_ia` divided by that of a greedy order, as in `alpha_ndcg`.

  `nERR-IA@k = ERR-IA@k / greedy ERR-IA@k`; 0 if that is 0.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{nerr_ia(jnp.array([3.0, 2.0, 1.0]), labels, max_label=1):.5f}")
  0.95000

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    subtopic_weights: `[s]` or `[..., s]`, the probability of each subtopic; None gives equal ones
      to the subtopics that some item covers.

  Returns:
    `[...]`, at least 0, and rarely more than 1.

  References:
    Clarke et al., `A comparative analysis of cascade measures for novelty and diversity
    <https://doi.org/10.1145/1935826.1935847>`_, 2011.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  cascades = _intended(ranked, max_label, subtopic_weights)
  return normalised(ranked, cascades, discounts.reciprocal, k)


@metric(
  depth="counts",
  departs=DIVIDES_BY_K,
  subtopics=True,
  names=(ir_measures("P_IA", "@10", "rel", rel=1), ndeval("P-IA", rel=1)),
)
def precision_ia(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Intent-aware precision: the mean of precision over the subtopics.

  `P-IA@k = sum_s P(s) sum_{r_i <= k} b_is / k`, with the probability `P(s)` of subtopic `s`, and
  `b_is` 1 if item `i` is relevant to it and 0 otherwise.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{precision_ia(jnp.array([3.0, 2.0, 1.0]), labels, k=2):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1] if the weights of the subtopics add up to at most 1.

  References:
    Agrawal et al., `Diversifying search results <https://doi.org/10.1145/1498759.1498766>`_, 2009.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  worth = jnp.sum(ranked.weighted(b) * _weights(ranked, subtopic_weights, rel)[None], axis=1)
  return safe_divide(ranked.expect(worth, discounts.constant, k=k), ranked.cutoff(k))


@metric(
  subtopics=True,
  names=(ir_measures("AP_IA MAP_IA", "", "rel", rel=1), ndeval("MAP-IA", "", rel=1)),
)
def average_precision_ia(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Intent-aware average precision: the mean of `average_precision` over the subtopics.

  `AP-IA@k = sum_s P(s) AP_s@k`, with the probability `P(s)` of subtopic `s`, and the average
  precision `AP_s@k` of the items that are relevant to it.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{average_precision_ia(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.66667

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1] if the weights of the subtopics add up to at most 1.

  References:
    Agrawal et al., `Diversifying search results <https://doi.org/10.1145/1498759.1498766>`_, 2009.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  precisions = ranked.each_user(ranked.precision, b, k=k)
  weights = _weights(ranked, subtopic_weights, rel)
  return jnp.sum(weights * safe_divide(precisions, ranked.count(b)))


@metric(
  depth="all",
  subtopics=True,
  names=(ir_measures("StRecall", "@10", "rel", rel=1), ndeval("strec", rel=1)),
)
def subtopic_recall(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Subtopic recall: the fraction of the subtopics that the first `k` items cover.

  `S-recall@k = sum_s P(s) max_{r_i <= k} b_is`, with the probability `P(s)` of subtopic `s`, and
  `b_is` 1 if item `i` is relevant to it and 0 otherwise.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{subtopic_recall(jnp.array([3.0, 2.0, 1.0]), labels, k=2):.5f}")
  0.50000

  As a loss it needs a cut-off, because without one every order has the same value. With `k=10` its
  gradient under `Laplace` or `Logistic` does not vanish on long lists.

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1] if the weights of the subtopics add up to at most 1.

  References:
    Zhai, Cohen and Lafferty, `Beyond independent relevance: methods and evaluation metrics for
    subtopic retrieval <https://doi.org/10.1145/860435.860440>`_, 2003.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  # A user who stops at the first item of a subtopic; `first` would break ties for each alone.
  covered = ranked.cascade(ranked.weighted(b), discounts.constant, k=k)
  return jnp.sum(_weights(ranked, subtopic_weights, rel) * covered)


def _intended(ranked: Ranked, max_label: ArrayLike, subtopic_weights: ArrayLike | None) -> Cascades:
  """An item is worth its stop probability to the users who seek the subtopic."""
  stops = ranked.stop_probability(max_label)
  return Cascades(stops, jnp.ones((), ranked.dtype), _weights(ranked, subtopic_weights))


def _weights(
  ranked: Ranked, subtopic_weights: ArrayLike | None, rel: ArrayLike | None = None
) -> Array:
  """The weights given, or equal ones for the subtopics that some item covers."""
  if subtopic_weights is None:
    return even(ranked, ranked.relevant(rel))
  return jnp.asarray(subtopic_weights).astype(ranked.dtype)
