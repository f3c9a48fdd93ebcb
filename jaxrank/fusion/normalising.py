"""Normalisations: the scores of each system on a scale that systems have in common.

All take scores `[systems, ..., n]`, -inf where a system does not retrieve an item, and a mask, and
return scores of this shape. Each list is normalised by the items that its system retrieves. A list
of equal scores has the lowest value of the scale, or the middle of it where the scale is symmetric.
A score of +inf does not count in these: it becomes the largest value of the scale, or stays +inf.
`missing` is what an item gets that a system lacks and another one has: None leaves it at -inf, with
which methods count it as not retrieved and sums add 0; "min" is the smallest normalised score of
the list, as Ma et al. (2021) use; or a number. A NaN score of a valid item makes its list NaN.
Padding is 0.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import _scaling
from jaxrank._core import checks
from jaxrank._core.ranked import Ranking
from jaxrank.exposure.shares import expected
from jaxrank.fusion._define import Missing, by_any, normalisation
from jaxrank.rankings.exact import Exact


@normalisation()
def min_max(scores: ArrayLike, *, where: ArrayLike | None = None, missing: Missing = None) -> Array:
  """Scores between the smallest and the largest of their list.

  `(s - min) / (max - min)`, and 0 for a list of equal scores.

  >>> print(min_max(jnp.array([[1.0, 3.0, 2.0], [20.0, -jnp.inf, 10.0]]), missing=0.0))
  [[0.  1.  0.5]
   [1.  0.  0. ]]

  See `jaxrank.fusion.normalising` for the arguments and what they share.

  Returns:
    `[systems, ..., n]`.

  References:
    Lee, `Analyses of multiple evidence combination <https://doi.org/10.1145/258525.258587>`_, 1997.
  """
  scaled: Array = _scaling.min_max(scores, where)
  return scaled


@normalisation(lower=checks.number)
def theoretical_min_max(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  lower: ArrayLike = 0.0,
  missing: Missing = None,
) -> Array:
  """Scores between a known lower bound and the largest of their list.

  `(s - lower) / (max - lower)`, and 0 for a list without a score above the bound. With a bound that
  does not depend on what was retrieved, such as 0 of BM25 or -1 of a cosine, an item does not
  become 0 because it is the last one of its list. Systems with different bounds are shifted first.

  >>> print(theoretical_min_max(jnp.array([[1.0, 4.0, 2.0]])))
  [[0.25 1.   0.5 ]]

  See `jaxrank.fusion.normalising` for the other arguments.

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    lower: A bound of the scores of all systems from below.
    missing: What an item gets that a system lacks.

  Returns:
    `[systems, ..., n]`.

  References:
    Bruch et al., `An analysis of fusion functions for hybrid retrieval
    <https://doi.org/10.1145/3596512>`_, 2023.
  """
  above = jnp.asarray(scores) - lower
  return _quotient(above, jnp.maximum(_largest(above, where), 0))


@normalisation()
def max_norm(
  scores: ArrayLike, *, where: ArrayLike | None = None, missing: Missing = None
) -> Array:
  """Scores divided by the absolute value of the largest of their list.

  `s / abs(max)`, and the scores themselves where the largest is 0.

  >>> print(max_norm(jnp.array([[1.0, 4.0, 2.0]])))
  [[0.25 1.   0.5 ]]

  See `jaxrank.fusion.normalising` for the arguments and what they share.

  Returns:
    `[systems, ..., n]`.

  References:
    Lee, `Combining multiple evidence from different properties of weighting schemes
    <https://doi.org/10.1145/215206.215358>`_, 1995.
  """
  s = jnp.asarray(scores)
  largest = jnp.abs(_largest(s, where))
  return _quotient(s, jnp.where(largest == 0, 1, largest))


@normalisation()
def sum_norm(
  scores: ArrayLike, *, where: ArrayLike | None = None, missing: Missing = None
) -> Array:
  """Scores above the smallest of their list, with sum 1.

  `(s - min) / sum(s - min)`, and 0 for a list of equal scores.

  >>> print(sum_norm(jnp.array([[1.0, 4.0, 2.0]])))
  [[0.   0.75 0.25]]

  See `jaxrank.fusion.normalising` for the arguments and what they share.

  Returns:
    `[systems, ..., n]`.

  References:
    Montague and Aslam, `Relevance score normalization for metasearch
    <https://doi.org/10.1145/502585.502657>`_, 2001.
  """
  unit = _scaling.min_max(jnp.asarray(scores), where)
  return _quotient(unit, jnp.sum(unit, axis=-1, keepdims=True))


@normalisation()
def z_score(scores: ArrayLike, *, where: ArrayLike | None = None, missing: Missing = None) -> Array:
  """Scores less the mean of their list, divided by its standard deviation.

  `(s - mean) / std`, with the population's standard deviation, and 0 for a list of equal scores.
  Half of the z-scores are negative, so that an item that a system lacks should not get 0: pass
  `missing="min"`.

  >>> print(z_score(jnp.array([[1.0, 3.0, -jnp.inf]]), missing="min"))
  [[ -1.   1. -inf]]

  See `jaxrank.fusion.normalising` for the arguments and what they share.

  Returns:
    `[systems, ..., n]`.

  References:
    Montague and Aslam, `Relevance score normalization for metasearch
    <https://doi.org/10.1145/502585.502657>`_, 2001.
  """
  scaled: Array = _scaling.z_scores(scores, where)
  return scaled


@normalisation()
def distribution(
  scores: ArrayLike, *, where: ArrayLike | None = None, missing: Missing = None
) -> Array:
  """Scores within three standard deviations of the mean of their list, from 0 to 1.

  `clip(1 / 2 + (s - mean) / (6 std), 0, 1)`, with the population's standard deviation, and 1/2 for
  a list of equal scores. Vector databases call it distribution-based score fusion.

  >>> print(distribution(jnp.array([[0.0, 0.0, 0.0, 0.0, 9.0]])).round(2))
  [[0.42 0.42 0.42 0.42 0.83]]

  See `jaxrank.fusion.normalising` for the arguments and what they share.

  Returns:
    `[systems, ..., n]`.

  References:
    Mazzeschi, `Distribution-based score fusion
    <https://medium.com/plain-simple-software/distribution-based-score-fusion-dbsf-a-new-approach-to-vector-search-ranking-f87c37488b18>`_,
    2023.
  """
  return jnp.clip(0.5 + _scaling.z_scores(jnp.asarray(scores), where) / 6, 0, 1)


@normalisation()
def rank_norm(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  missing: Missing = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Ranks from 1 for the first item down to 1/m for the last one.

  `1 - (r - 1) / m`, with the rank `r` among the `m` items of the list, the average rank for ties.

  >>> print(rank_norm(jnp.array([[1.0, 4.0, 2.0, 2.0]])))
  [[0.25  1.    0.625 0.625]]

  See `jaxrank.fusion.normalising` for the other arguments.

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    missing: What an item gets that a system lacks.
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[systems, ..., n]`.

  References:
    Renda and Straccia, `Web metasearch: rank vs. score based rank aggregation methods
    <https://doi.org/10.1145/952532.952698>`_, 2003.
  """
  s = jnp.asarray(scores)
  first = mean_rank(s, where, ranking) - 1
  return 1 - first / jnp.maximum(count(where, s.dtype), 1)


@normalisation(fills=True)
def borda(
  scores: ArrayLike, *, where: ArrayLike | None = None, ranking: Ranking = Exact()
) -> Array:
  """Borda points as a share of the candidates: those that some system retrieves.

  `1 - (r - 1) / N`, with the rank `r` in the list, the average rank for ties, and the number `N` of
  items that some system retrieves. The items that a system lacks share the points that are left:
  `1/2 - (m - 1) / (2 N)`, where the system retrieves `m`.

  >>> print(borda(jnp.array([[2.0, 4.0, 3.0, 1.0], [20.0, -jnp.inf, -jnp.inf, 10.0]])))
  [[0.5   1.    0.75  0.25 ]
   [1.    0.375 0.375 0.75 ]]

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[systems, ..., n]`, -inf for items that no system retrieves.

  References:
    Renda and Straccia, `Web metasearch: rank vs. score based rank aggregation methods
    <https://doi.org/10.1145/952532.952698>`_, 2003.
  """
  s, has = jnp.asarray(scores), jnp.asarray(where)
  return borda_points(s, has, ranking) / candidates(has, s.dtype)


def borda_points(scores: Array, has: Array, ranking: Ranking) -> Array:
  """`N + 1 - r` for retrieved items, and the mean of what is left for the others."""
  n, m = candidates(has, scores.dtype), count(has, scores.dtype)
  return jnp.where(has, n + 1 - mean_rank(scores, has, ranking), (n - m + 1) / 2)


def candidates(has: Array, dtype: Any) -> Array:
  """`[1, ..., 1]`, how many items some system retrieves, at least 1."""
  return jnp.maximum(count(by_any(has), dtype), 1)


def mean_rank(scores: ArrayLike, has: ArrayLike | None, ranking: Ranking) -> Array:
  """`[..., n]`, the mean rank over the orders of ties, or over noise, and 0 for other items."""
  return expected(scores, where=has, discount=lambda rank: rank, ranking=ranking)


def count(has: ArrayLike | None, dtype: Any) -> Array:
  """`[..., 1]`, the number of items of lists."""
  return jnp.sum(jnp.asarray(has), axis=-1, keepdims=True, dtype=dtype)


def _largest(x: Array, has: ArrayLike | None) -> Array:
  finite = jnp.asarray(has) & jnp.isfinite(x)
  largest = jnp.max(jnp.where(finite, x, -jnp.inf), axis=-1, keepdims=True, initial=-jnp.inf)
  return jnp.where(jnp.isneginf(largest), 0, largest)


def _quotient(x: Array, by: Array) -> Array:
  """`x / by`, and 0 where `by` is 0; +inf is 1."""
  infinite = jnp.isposinf(x)
  ratio = jnp.where(infinite, 0, x) / jnp.where(by == 0, 1, by)
  return jnp.where(infinite, 1, jnp.where(by == 0, 0, ratio))
