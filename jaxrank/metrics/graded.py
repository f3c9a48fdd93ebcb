"""Metrics of graded relevance: DCG, nDCG, ERR, nERR, graded average precision and Q-measure."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Discount, Gain, between
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import (
  CHANCES,
  GAIN,
  GAIN_BY_LABEL,
  GRADE_COUNT,
  NONNEGATIVE,
  RELATIVE_GAIN,
  Argument,
  Kind,
  ir_measures,
  ranx,
  trec_eval,
)
from jaxrank._core.ranked import Ranking, at_ranks
from jaxrank._core.ties import survival
from jaxrank.rankings.exact import Exact

# Two arguments of ir_measures set the gain: `dcg`, by the name of a formula, and `gains`, by label.
_DCG = Kind(
  "'log2' or 'exp-log2'",
  GAIN.check,
  spelled={"log2": gains.linear, "exp-log2": gains.exponential},
)
_READS = {"dcg": Argument("gain", _DCG), "gains": Argument("gain", GAIN_BY_LABEL)}
_LEVELS = {"gains": Argument("gain", GAIN_BY_LABEL)}


@metric(
  range=(0.0, float("inf")),
  names=(
    ir_measures("DCG", "[@10]", reads=_READS),
    ranx("dcg", reads=_LEVELS),
    ranx("dcg_burges", "[@10]", gain=gains.exponential),
  ),
)
def dcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Discounted cumulative gain.

  `DCG@k = sum_{r_i <= k} g(y_i) d(r_i)`, with gain `g`, discount `d` and rank `r_i`.

  >>> print(f"{dcg(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1])):.5f}")
  2.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    gain: A function from labels to gains: `gains.linear`, `y`, as in the paper and in trec_eval;
      `gains.exponential`, `2^y - 1`, as in Burges et al. (2005), which takes labels above 100 as
      100; or any other, see `jaxrank.gains`.

  Returns:
    `[...]`, at least 0.

  References:
    Jarvelin and Kekalainen, `Cumulated gain-based evaluation of IR techniques
    <https://doi.org/10.1145/582415.582418>`_, 2002.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  return ranked.expect(ranked.gain(gain, weights), discount, k=k)


@metric(
  gain=RELATIVE_GAIN,
  names=(
    ir_measures("nDCG NDCG", "[@10]", reads=_READS),
    trec_eval("ndcg", "[_1=3,2=9]", reads=_LEVELS),
    trec_eval("ndcg_cut", "_10"),
    ranx("ndcg", reads=_LEVELS),
    ranx("ndcg_burges", "[@10]", gain=gains.exponential),
  ),
)
def ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Normalised discounted cumulative gain.

  `nDCG@k = DCG@k / max DCG@k`, with the maximum over all orders of the valid items; 0 if that is 0.

  >>> print(f"{ndcg(jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])):.5f}")
  0.85972

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Jarvelin and Kekalainen, `Cumulated gain-based evaluation of IR techniques
    <https://doi.org/10.1145/582415.582418>`_, 2002.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  gain = ranked.relative_gain(gain)
  dcg = ranked.expect(ranked.gain(gain, weights), discount, k=k)
  return safe_divide(dcg, at_ranks(ranked.best(gain, weights, k=k), discount))


@metric(depth="all", names=(ir_measures("ERR", "[@10]", max_label=4),))
def err(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Expected reciprocal rank: `1 / r` of the item at which a user stops.

  `ERR@k = sum_{r_i <= k} p_i / r_i prod_{j ahead of i} (1 - p_j)`, with the probability
  `p = (2^y - 1) / 2^max_label` of stopping at an item with label `y`. A label above `max_label`
  counts as `max_label`, since no value can raise an error under `jit`; `jaxrank.check_values` with
  `max_label` refuses it on the host.

  >>> print(f"{err(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0]), max_label=3):.5f}")
  0.06250

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1).

  References:
    Chapelle et al., `Expected reciprocal rank for graded relevance
    <https://doi.org/10.1145/1645953.1646033>`_, 2009.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  return ranked.cascade(ranked.stop_probability(max_label), discounts.reciprocal, k=k)


@metric(depth="all")
def nerr(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Normalised expected reciprocal rank: `err` divided by that of the best order.

  `nERR@k = ERR@k / max ERR@k`, with the maximum over all orders of the valid items; 0 if that is 0.

  >>> print(f"{nerr(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0]), max_label=3):.5f}")
  0.50000

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Chapelle et al., `Expected reciprocal rank for graded relevance
    <https://doi.org/10.1145/1645953.1646033>`_, 2009.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  err = ranked.cascade(ranked.stop_probability(max_label), discounts.reciprocal, k=k)
  best = gains.stop_probability(ranked.best(gains.linear, k=k), jnp.asarray(max_label, err.dtype))
  return safe_divide(err, at_ranks(best * survival(best), discounts.reciprocal, k))


@metric(max_label=GRADE_COUNT, chances=CHANCES)
def gap(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: int,
  chances: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Graded average precision: average precision over users with different relevance thresholds.

  `GAP@k = sum_c g_c sum_{r_i <= k} b_ic P_c@r_i / sum_c g_c R_c`, where `g_c` is the probability
  that labels of at least `c` are relevant to a user. For this user, `b_ic` is 1 if item `i` is
  relevant and 0 otherwise, `R_c` the number of relevant items, and `P_c@r` the precision at rank
  `r`.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])
  >>> print(f"{gap(scores, labels, max_label=2):.5f}")
  0.66667

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    max_label: The best grade that labels can have, a Python int; larger labels count as this one.
    chances: `[max_label]`, the probability of each threshold 1, 2, ..., `max_label`, in [0, 1];
      only their ratios matter. None makes all equal.

  Returns:
    `[...]`, in [0, 1].

  Raises:
    ValueError: if `chances` does not have the shape `[max_label]`.

  References:
    Robertson, Kanoulas and Yilmaz, `Extending average precision to graded relevance judgments
    <https://doi.org/10.1145/1835449.1835550>`_, 2010.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  chances = jnp.full(max_label, 1 / max_label) if chances is None else jnp.asarray(chances)
  if chances.shape != (max_label,):
    raise ValueError(
      f"chances must have one number for each grade, shape ({max_label},), got {chances.shape}."
    )
  chances = chances.astype(ranked.dtype)
  b = jnp.stack([ranked.relevant(grade) for grade in range(1, max_label + 1)], axis=-1)
  precisions = ranked.each_user(ranked.precision, b, k=k)
  return safe_divide(jnp.sum(chances * precisions), jnp.sum(chances * ranked.count(b)))


@metric(beta=NONNEGATIVE)
def q_measure(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  beta: ArrayLike = 1.0,
  gain: Gain = gains.linear,
  normalizer: Literal["relevant", "cutoff"] = "relevant",
  ranking: Ranking = Exact(),
) -> Array:
  """Q-measure: average precision of graded labels, which blends precision with cumulative gain.

  `Q@k = sum_{r_i <= k} b_i (C(r_i) + beta G(r_i)) / (r_i + beta I(r_i)) / R`, with `b_i` 1 if item
  `i` is relevant and 0 otherwise, the number `C(r)` and the gains `G(r)` of the relevant items and
  of all items down to rank `r`, the gains `I(r)` of an ideal ranking, and `R` relevant items.

  >>> print(f"{q_measure(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  0.75000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    beta: How much gains count beside relevance, at least 0; 0 gives `average_precision`.
    normalizer: The divisor: `"relevant"`, `R`; or `"cutoff"`, `min(k, R)`.

  Returns:
    `[...]`, in [0, 1].

  References:
    Sakai, New performance metrics based on multigrade relevance: their application to question
    answering, NTCIR-4, 2004; see also `Graded relevance assessments and graded relevance measures
    of NTCIR <https://arxiv.org/abs/1903.11272>`_, 2019.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b, beta = ranked.relevant(rel), jnp.asarray(beta).astype(ranked.dtype)
  ideal = jnp.cumsum(ranked.best(gain, k=k))

  def share(rank: Array) -> Array:
    return 1 / (rank + beta * between(ideal, rank - 1))

  count = jnp.minimum(ranked.count(b), ranked.cutoff(k if normalizer == "cutoff" else None))
  weights = ranked.weighted(b) + beta * ranked.gain(gain)
  return safe_divide(ranked.precision(b, k=k, weights=weights, discount=share), count)
