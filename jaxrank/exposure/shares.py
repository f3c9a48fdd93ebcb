"""The exposure of items and of groups, and the exposure that labels deserve."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Discount
from jaxrank._core import checks
from jaxrank._core.apply import Lists, as_long_as_the_lists, metric, ranked_query
from jaxrank._core.arithmetic import floating
from jaxrank._core.ranked import Ranking
from jaxrank.exposure._inputs import group_exposures, of_groups
from jaxrank.rankings.exact import Exact


@metric(seeks="any items", listed=False, finish=as_long_as_the_lists)
def expected(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """The exposure of each item: the expected attention that it gets.

  `E_i = E d(r_i)`, with discount `d` and rank `r_i`, and 0 for `r_i > k`; under `Laplace` and
  `Logistic`, `d(E r_i)`.

  >>> print(expected(jnp.array([3.0, 1.0, 1.0]), discount=discounts.affine(1.0, -0.25)))
  [1.    0.625 0.625]

  See `jaxrank.exposure` for the arguments that its functions share.

  Returns:
    `[..., n]`, 0 under the mask and for items that are not retrieved.

  References:
    Diaz et al., `Evaluating stochastic rankings with expected exposure
    <https://doi.org/10.1145/3340531.3411962>`_, 2020.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  return ranked.in_input_order(ranked.exposure(discount, k=k))


@metric(seeks="any items", listed=False, lists=of_groups)
def by_group(
  scores: ArrayLike,
  groups: ArrayLike,
  *,
  n_groups: int,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """The exposure of each group: the sum of the exposures of its items.

  `E_g = sum_i m_ig E_i`, with membership `m_ig` of item `i` in group `g`, and exposures `E_i`.

  >>> scores, groups = jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0])
  >>> print(by_group(scores, groups, n_groups=2, discount=discounts.affine(1.0, -0.25)))
  [1.5  0.75]

  See `jaxrank.exposure` for the arguments that its functions share.

  Returns:
    `[..., n_groups]`.

  References:
    Singh and Joachims, `Fairness of exposure in rankings
    <https://doi.org/10.1145/3219819.3220088>`_, 2018.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  return group_exposures(ranked, groups, n_groups, discount, k)


def _graded(labels: Any, where: Any) -> Lists:
  """The lists of an ideal ranking, whose scores are the grades."""
  labels = floating(checks.array("labels", labels))
  where = checks.mask(where, labels)
  grades = gains.linear(jnp.where(where, labels, 0))
  return grades, grades, where


def _by_grade() -> Ranking:
  return Exact()


@metric(
  seeks="any items", listed=False, lists=_graded, order=_by_grade, finish=as_long_as_the_lists
)
def target(
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
) -> Array:
  """The ideal exposure: items of a grade share equally what an ideal ranking gives to the grade.

  `t_i` is the mean of `d(r)`, 0 past rank `k`, over the ranks `r` of the items with the label of
  item `i` in an order by label, with discount `d`. Labels of 0 and unjudged items share what is
  left.

  >>> print(target(jnp.array([0, 1, 1]), discount=discounts.affine(1.0, -0.25)))
  [0.5   0.875 0.875]

  See `jaxrank.exposure` for the arguments that its functions share.

  Returns:
    `[..., n]`, 0 under the mask.

  References:
    Diaz et al., `Evaluating stochastic rankings with expected exposure
    <https://doi.org/10.1145/3340531.3411962>`_, 2020.
  """
  ranked = ranked_query(labels=labels, where=where)
  return ranked.in_input_order(ranked.exposure(discount, k=k))
