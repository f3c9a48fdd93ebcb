"""Metrics of graded relevance: DCG, nDCG, ERR, nERR."""

import jax.numpy as jnp  # noqa: F401, of the examples
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import at_ranks
from jaxrank._core.ties import survival
from jaxrank._core.types import Cutoff, Discount, Gain, Ranked
from jaxrank.metrics._apply import metric


@metric
def dcg(
  ranked: Ranked,
  *,
  k: Cutoff = None,
  gain: Gain = gains.exponential,
  discount: Discount = discounts.logarithmic,
  weights: Array | None = None,
) -> Array:
  r"""Discounted cumulative gain.

  `DCG@k = sum_{r_i <= k} g(y_i) d(r_i)`, with gain `g`, discount `d` and rank `r_i`.

  >>> print(f"{dcg(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1])):.5f}")
  3.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, grades.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    gain: Maps labels to gains.
    discount: Maps 1-based ranks to weights.
    weights: `[..., n]`, times the gain of each item, such as inverse propensities.
    ranking: Exact or smooth.

  Returns:
    `[...]`, at least 0.

  References:
    Jarvelin and Kekalainen, `Cumulated gain-based evaluation of IR techniques
    <https://doi.org/10.1145/582415.582418>`_, 2002.
  """
  return ranked.expect(ranked.gain(gain, weights), discount, k=k)


@metric
def ndcg(
  ranked: Ranked,
  *,
  k: Cutoff = None,
  gain: Gain = gains.exponential,
  discount: Discount = discounts.logarithmic,
  weights: Array | None = None,
) -> Array:
  r"""Normalised discounted cumulative gain.

  `nDCG@k = DCG@k / max DCG@k`, the maximum over all orders of the valid items; 0 if that is 0.

  >>> print(f"{ndcg(jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])):.5f}")
  0.79671

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, grades.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    gain: Maps labels to gains.
    discount: Maps 1-based ranks to weights.
    weights: `[..., n]`, times the gain of each item, such as inverse propensities.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].

  References:
    Jarvelin and Kekalainen, `Cumulated gain-based evaluation of IR techniques
    <https://doi.org/10.1145/582415.582418>`_, 2002.
  """
  actual = ranked.expect(ranked.gain(gain, weights), discount, k=k)
  return safe_divide(actual, at_ranks(ranked.best(gain, weights), discount, k))


@metric(sorts="all")
def err(ranked: Ranked, *, k: Cutoff = None, max_label: ArrayLike | None = None) -> Array:
  r"""Expected reciprocal rank: `1 / r` of the item at which a user stops.

  `ERR@k = sum_{r_i <= k} p_i / r_i prod_{j ahead of i} (1 - p_j)`, with the stop probability
  `p = (2^y - 1) / 2^max_label`.

  >>> print(f"{err(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0]), max_label=3):.5f}")
  0.06250

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, grades.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    max_label: The best grade there is. None takes the best of each query, whose values are then
      not comparable; larger labels count as this one.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1).

  References:
    Chapelle et al., `Expected reciprocal rank for graded relevance
    <https://doi.org/10.1145/1645953.1646033>`_, 2009.
  """
  return ranked.cascade(ranked.stop(max_label), discounts.reciprocal, k=k)


@metric(sorts="all")
def nerr(ranked: Ranked, *, k: Cutoff = None, max_label: ArrayLike | None = None) -> Array:
  r"""Expected reciprocal rank over that of the best order.

  `nERR@k = ERR@k / max ERR@k`; 0 if that is 0.

  >>> print(f"{nerr(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0]), max_label=3):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, grades.
    where: `[..., n]`, False on padding.
    k: Cut-off.
    max_label: The best grade there is; None takes the best of each query.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].

  References:
    Chapelle et al., `Expected reciprocal rank for graded relevance
    <https://doi.org/10.1145/1645953.1646033>`_, 2009.
  """
  actual = ranked.cascade(ranked.stop(max_label), discounts.reciprocal, k=k)
  best = gains.stop_probability(ranked.best_grades(), ranked.max_label(max_label))
  return safe_divide(actual, at_ranks(best * survival(best), discounts.reciprocal, k))
