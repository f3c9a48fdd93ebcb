"""Metrics of the ranks of relevant items: hit rate, reciprocal rank, AP, RBP and bpref."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Gain
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import (
  GAIN_BY_LABEL,
  Argument,
  ir_measures,
  ranx,
  recommenders,
  trec_eval,
  trec_eval10,
)
from jaxrank._core.ranked import Ranking
from jaxrank.rankings.exact import Exact


@metric(
  depth="none",
  names=(
    ir_measures("Success", "@10", "rel", rel=1),
    trec_eval("success", "_10", rel=1),
    recommenders("hits hit HR Hits Hit accuracy"),
    ranx("hit_rate", arguments="rel", rel=1),
  ),
)
def hit_rate(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Hit rate, also success: whether a relevant item is among the first `k`.

  `hit@k = max_{r_i <= k} b_i`, with `b_i` 1 if item `i` is relevant and 0 otherwise.

  >>> print(f"{hit_rate(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 1]), k=2):.5f}")
  1.00000

  As a loss it needs a cut-off, because without one every order has the same value. With `k=10` its
  gradient under `Laplace` or `Logistic` does not vanish on long lists.

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1]; under ties it is a probability.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  return ranked.first(ranked.relevant(rel), discounts.constant, k=k)


@metric(
  depth="none",
  names=(
    ir_measures("RR MRR", "[@10]", "rel", rel=1),
    trec_eval("recip_rank", rel=1),
    ranx("mrr", arguments="rel", rel=1),
  ),
)
def reciprocal_rank(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Reciprocal rank of the first relevant item; its mean over queries is MRR.

  `RR@k = max_{r_i <= k} b_i / r_i`, with `b_i` 1 if item `i` is relevant and 0 otherwise.

  >>> print(f"{reciprocal_rank(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 1])):.5f}")
  0.50000

  As a loss under `Laplace` or `Logistic` it needs a cut-off if a query has more than about 20
  relevant items: the probability that none of them is ahead of an item is a product over them,
  which vanishes where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    k: Cut-off; the value is 0 if the first relevant item has a rank above `k`.

  Returns:
    `[...]`, in [0, 1].

  References:
    Voorhees, `The TREC-8 question answering track report
    <https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf>`_, 1999.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  return ranked.first(ranked.relevant(rel), discounts.reciprocal, k=k)


@metric(
  names=(
    ir_measures("AP MAP", "[@10]", "rel", rel=1),
    trec_eval("map", rel=1),
    trec_eval("map_cut", "_10", rel=1),
    ranx("map", arguments="rel", rel=1),
  ),
)
def average_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  normalizer: Literal["relevant", "cutoff", "retrieved"] = "relevant",
  ranking: Ranking = Exact(),
) -> Array:
  """Average precision: the mean of the precisions at the ranks of the relevant items.

  `AP@k = sum_{r_i <= k} b_i P@r_i / R`, with `b_i` 1 if item `i` is relevant and 0 otherwise, the
  precision `P@r` at rank `r`, and `R` relevant items; its mean over queries is MAP.

  >>> print(f"{average_precision(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.83333

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    normalizer: The divisor: `"relevant"`, `R`; `"cutoff"`, `min(k, R)`; `"retrieved"`, the number
      of relevant items among the first `k` (under ties, the ratio of the expectations of both; it
      needs `Exact`).

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley and Voorhees, `Evaluating evaluation measure stability
    <https://doi.org/10.1145/345508.345543>`_, 2000.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  count = ranked.count(b)
  if normalizer == "cutoff":
    count = jnp.minimum(count, ranked.cutoff(k))
  elif normalizer == "retrieved":
    ranked.require_order("normalizer='retrieved', a ratio of two expectations")
    count = ranked.expect(b, discounts.constant, k=k)
  return safe_divide(ranked.precision(b, k=k), count)


@metric(
  names=(
    ir_measures("RBP", "[@10]", "p=persistence rel"),
    trec_eval10(
      "rbp",
      "[_1=3,2=9]",
      reads={"p": Argument("persistence"), "gains": Argument("gain", GAIN_BY_LABEL)},
      persistence=0.9,
      gain=gains.linear,
      normalizer="largest",
    ),
    ranx(
      "rbp",
      ".95 [-l2]",
      "p=persistence",
      reads={"gains": Argument("gain", GAIN_BY_LABEL)},
      gain=gains.linear,
    ),
  ),
)
def rbp(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  persistence: ArrayLike = 0.8,
  gain: Gain | None = None,
  normalizer: Literal["none", "largest"] = "none",
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Rank-biased precision: the rate of relevant items for a user who may stop at any rank.

  `RBP = (1 - q) sum_{r_i <= k} b_i q^(r_i - 1)`, with persistence `q`, and `b_i` 1 if item `i` is
  relevant and 0 otherwise.

  >>> value = rbp(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), persistence=0.5)
  >>> print(f"{value:.5f}")
  0.62500

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, on long lists: where
  many scores are close, all expected ranks are near the middle of the list, whose weight is
  negligible, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    persistence: The probability of going on to the next item, in [0, 1].
    gain: A function of labels that takes the place of `b_i`, whatever `rel`; None is `b_i`. Gains
      should be in [0, 1].
    normalizer: `"none"`; or `"largest"` to divide the gains by the largest one of the query, if it
      is more than 1.

  Returns:
    `[...]`, in [0, 1] without weights and with gains in [0, 1].

  References:
    Moffat and Zobel, `Rank-biased precision for measurement of retrieval effectiveness
    <https://doi.org/10.1145/1416950.1416952>`_, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  q = jnp.asarray(persistence).astype(ranked.dtype)
  g = ranked.relevant(rel) if gain is None else ranked.gain(gain)
  if gain is not None and normalizer == "largest":
    g = g / jnp.maximum(ranked.largest(g), 1)
  w = g if weights is None else ranked.weighted(g, weights)
  return (1 - q) * ranked.expect(w, discounts.geometric(q), k=k)


@metric(
  names=(
    ir_measures("Bpref BPref", "", "rel", rel=1),
    trec_eval("bpref", rel=1),
    ranx("bpref", "[-l2]", "rel", rel=1),
  ),
)
def bpref(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Binary preference: how few judged non-relevant items are ahead of the relevant ones.

  `bpref = (1 / R) sum_i b_i (1 - min(n_i, R) / min(R, N))`, with `b_i` 1 if item `i` is relevant
  and 0 otherwise, `n_i` of the `N` judged non-relevant items ahead of item `i`, and `R` relevant
  items. Unjudged items, those with a negative label, do not matter. Relevant items that are not
  retrieved add 0. These are the values of trec_eval if no scores tie.

  >>> print(f"{bpref(jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 0, -1, 1])):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley and Voorhees, `Retrieval evaluation with incomplete information
    <https://doi.org/10.1145/1008992.1009000>`_, 2004.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  others = ranked.judged & ~b
  relevant = ranked.count(b)
  limit = jnp.maximum(jnp.minimum(relevant, ranked.count(others)), 1)

  def credit(rank: Array) -> Array:
    # A difference of whole numbers, which rounding never makes negative.
    return (limit - jnp.minimum(rank - 1, relevant)) / limit

  return safe_divide(ranked.expect(b, credit, among=others), relevant)
