"""Methods that combine scores: they want scores on one scale, which normalisations give."""

import functools

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, sorting
from jaxrank._core.batching import over_queries
from jaxrank.fusion._define import Runs, method, over_systems, points_of, summed, times


@method("scores", "sum", "wsum")
def comb_sum(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """CombSUM: the weighted sum of the scores of an item.

  `sum_s w_s x_s` over the systems `s` that retrieve the item. With weights it is the linear
  combination, or weighted sum.

  >>> scores = jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])
  >>> print(comb_sum(scores))
  [1.2 0.5 1. ]
  >>> print(comb_sum(scores, weights=jnp.array([0.25, 0.75])))
  [0.4   0.125 0.75 ]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Fox and Shaw, `Combination of multiple searches
    <https://trec.nist.gov/pubs/trec2/papers/txt/23.txt>`_, 1993.
  """
  return points_of(scores, Runs.total)


@method("scores", "max")
def comb_max(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """CombMAX: the largest weighted score of an item.

  `max_s w_s x_s` over the systems `s` that retrieve the item.

  >>> print(comb_max(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])))
  [1.  0.5 1. ]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Fox and Shaw, `Combination of multiple searches
    <https://trec.nist.gov/pubs/trec2/papers/txt/23.txt>`_, 1993.
  """
  return points_of(scores, lambda runs: over_systems(jnp.maximum, _or(runs, -jnp.inf)))


@method("scores", "min")
def comb_min(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """CombMIN: the smallest weighted score of an item.

  `min_s w_s x_s` over the systems `s` that retrieve the item.

  >>> print(comb_min(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])))
  [0.2 0.5 0. ]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Fox and Shaw, `Combination of multiple searches
    <https://trec.nist.gov/pubs/trec2/papers/txt/23.txt>`_, 1993.
  """
  return points_of(scores, lambda runs: over_systems(jnp.minimum, _or(runs, jnp.inf)))


@method("scores", "med")
def comb_med(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """CombMED: the median of the weighted scores of an item.

  `median_s w_s x_s` over the systems `s` that retrieve the item: halfway between the middle two of
  an even number.

  >>> print(comb_med(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0], [0.3, 0.7, 0.9]])))
  [0.3 0.6 0.9]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Fox and Shaw, `Combination of multiple searches
    <https://trec.nist.gov/pubs/trec2/papers/txt/23.txt>`_, 1993.
  """
  return points_of(scores, _median)


@method("scores", "anz")
def comb_anz(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """CombANZ: the weighted mean of the scores of an item.

  `sum_s w_s x_s / sum_s w_s` over the systems `s` that retrieve the item; 0 if their weights are 0.

  >>> print(comb_anz(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])))
  [0.6 0.5 0.5]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Fox and Shaw, `Combination of multiple searches
    <https://trec.nist.gov/pubs/trec2/papers/txt/23.txt>`_, 1993.
  """
  return points_of(scores, _mean)


@method("scores", "mnz")
def comb_mnz(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """CombMNZ: the weighted sum of the scores of an item, times the number of systems that found it.

  `m sum_s w_s x_s` over the `m` systems `s` that retrieve the item.

  >>> print(comb_mnz(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])))
  [2.4 0.5 2. ]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Fox and Shaw, `Combination of multiple searches
    <https://trec.nist.gov/pubs/trec2/papers/txt/23.txt>`_, 1993.
  """
  return points_of(scores, times_count)


@method("scores", "gmnz", gamma=checks.number)
def comb_gmnz(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  gamma: ArrayLike = 2.0,
) -> Array:
  """CombGMNZ: the weighted sum of scores times a power of the number of systems that found an item.

  `m^gamma sum_s w_s x_s` over the `m` systems `s` that retrieve the item: CombSUM for 0, CombMNZ
  for 1, and CombANZ of equal weights for -1.

  >>> print(comb_gmnz(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]]), gamma=2.0))
  [4.8 0.5 4. ]

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    weights: `[systems]` or `[..., systems]`; None is 1 for each.
    gamma: The power.

  Returns:
    `[..., n]`.

  References:
    Lee, `Analyses of multiple evidence combination <https://doi.org/10.1145/258525.258587>`_, 1997.
  """
  return points_of(scores, lambda runs: times(runs.total(), jnp.maximum(runs.count, 1) ** gamma))


@method("scores", "wmnz")
def weighted_mnz(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """Weighted CombMNZ: the sum of the scores of an item times the weights of who found it.

  `(sum_s w_s) (sum_s x_s)` over the systems `s` that retrieve the item.

  >>> scores = jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])
  >>> print(weighted_mnz(scores, weights=jnp.array([0.25, 0.75])))
  [1.2   0.125 1.   ]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Wu and Crestani, `Data fusion with estimated weights <https://doi.org/10.1145/584792.584908>`_,
    2002.
  """

  def rule(runs: Runs) -> Array:
    return times(summed(runs.points), _found_by(runs))

  return points_of(scores, rule)


@method("scores", "mixed")
def mixed(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """Mixed: the weighted sum of scores times the square root of the number of systems.

  `sqrt(m) sum_s w_s x_s` over the `m` systems `s` that retrieve the item: `comb_gmnz` with a
  `gamma` of 1/2.

  >>> print(mixed(jnp.array([[1.0, 0.5, 0.0], [0.2, -jnp.inf, 1.0]])).round(3))
  [1.697 0.5   1.414]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Wu and Crestani, `Data fusion with estimated weights <https://doi.org/10.1145/584792.584908>`_,
    2002.
  """
  return points_of(scores, lambda runs: runs.total() * jnp.sqrt(jnp.maximum(runs.count, 1)))


def times_count(runs: Runs) -> Array:
  """`m sum_s w_s x_s`."""
  return runs.total() * runs.count


def _found_by(runs: Runs) -> Array:
  """`[1, ..., n]`, the sum of the weights of the systems that retrieve each item."""
  return summed(jnp.where(runs.has, runs.weights, 0))


def _mean(runs: Runs) -> Array:
  by, total = _found_by(runs), runs.total()
  infinite = jnp.isinf(total)
  mean = jnp.where(infinite, 0, total) / jnp.where(by == 0, 1, by)
  return jnp.where(infinite, total, jnp.where(by == 0, 0, mean))


def _or(runs: Runs, other: float) -> Array:
  """Weighted points, and another number for items that a system lacks."""
  return jnp.where(runs.has, runs.weighted, other)


def _median(runs: Runs) -> Array:
  """The mean of the two middle ones of the points of an item, which are one for an odd number."""
  largest = functools.partial(sorting.descending, k=len(runs.points))
  of_items = jnp.moveaxis(_or(runs, -jnp.inf), 0, -1)
  descending = jnp.moveaxis(over_queries(largest, of_items.ndim - 1)(of_items), -1, 0)
  count = summed(runs.has.astype(jnp.int32))
  upper, lower = (
    jnp.take_along_axis(descending, jnp.maximum(place, 0), axis=0)
    for place in ((count - 1) // 2, count // 2)
  )
  return 0.5 * upper + 0.5 * lower
