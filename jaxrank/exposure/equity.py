"""Expected exposure (Diaz et al., 2020): disparity, relevance and loss."""

import jax.numpy as jnp  # noqa: F401, the doctests use it
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.description import ITEM_VALUES
from jaxrank._core.ranked import Ranking
from jaxrank.rankings.exact import Exact


@metric(seeks="any items", higher_is_better=False, range=(0.0, float("inf")), listed=False)
def ee_d(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """EE-D, the disparity of the expected exposure: how unequal the exposures of items are.

  `EE-D = sum_i E_i^2`, with exposures `E_i`. It is the square of the expectation: a ranking that
  draws orders at random is less disparate than each order.

  >>> print(f"{ee_d(jnp.array([3.0, 2.0, 1.0]), discount=discounts.reciprocal):.5f}")
  1.36111

  See `jaxrank.exposure` for the arguments that its functions share.

  Returns:
    `[...]`, at least 0; lower is better.

  References:
    Diaz et al., `Evaluating stochastic rankings with expected exposure
    <https://doi.org/10.1145/3340531.3411962>`_, 2020.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  return ranked.total(ranked.exposure(discount, k=k) ** 2)


@metric(target=ITEM_VALUES, seeks="any items", range=(0.0, float("inf")), listed=False)
def ee_r(
  scores: ArrayLike,
  target: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """EE-R, the relevance of the expected exposure: how much of it goes where it should.

  `EE-R = sum_i E_i t_i`, with exposures `E_i` and target exposures `t_i`.

  >>> scores, goal = jnp.array([3.0, 2.0, 1.0]), jnp.array([0.75, 0.75, 0.25])
  >>> print(f"{ee_r(scores, goal, discount=discounts.reciprocal):.5f}")
  1.20833

  See `jaxrank.exposure` for the arguments that its functions share.

  Args:
    target: `[..., n]`, target exposures, such as those of `jaxrank.exposure.target`.

  Returns:
    `[...]`; higher is better.

  References:
    Diaz et al., `Evaluating stochastic rankings with expected exposure
    <https://doi.org/10.1145/3340531.3411962>`_, 2020.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  return ranked.expect(ranked.weighted(target), discount, k=k)


@metric(
  target=ITEM_VALUES,
  seeks="any items",
  higher_is_better=False,
  range=(0.0, float("inf")),
  listed=False,
)
def ee_l(
  scores: ArrayLike,
  target: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """EE-L, the loss of the expected exposure: its squared distance from the target.

  `EE-L = sum_i (E_i - t_i)^2`, with exposures `E_i` and target exposures `t_i`; that is
  `EE-D - 2 EE-R + sum_i t_i^2`. Items that are not retrieved have exposure 0.

  >>> scores, goal = jnp.array([3.0, 2.0, 1.0]), jnp.array([0.75, 0.75, 0.25])
  >>> print(f"{ee_l(scores, goal, discount=discounts.reciprocal):.5f}")
  0.13194

  See `jaxrank.exposure` for the arguments that its functions share.

  Args:
    target: `[..., n]`, target exposures, such as those of `jaxrank.exposure.target`.

  Returns:
    `[...]`, at least 0; lower is better.

  References:
    Diaz et al., `Evaluating stochastic rankings with expected exposure
    <https://doi.org/10.1145/3340531.3411962>`_, 2020.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  # Squares of differences, because a difference of sums of squares would be rounding errors.
  return ranked.total((ranked.exposure(discount, k=k) - ranked.weighted(target)) ** 2)
