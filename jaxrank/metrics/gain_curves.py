"""Graded metrics of trec_eval that compare gains with ideal ones at several ranks.

Except for `binary_normalized_gain`, they are read off the curve of the expected gains at the ranks:
tied items are averaged in the curve.
"""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Discount, Gain
from jaxrank._core import ties
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import added, safe_divide
from jaxrank._core.description import GAIN_BY_LABEL, MEANS_FIRST, RELATIVE_GAIN, Argument, trec_eval
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank.rankings.exact import Exact

_GAINS = {"gains": Argument("gain", GAIN_BY_LABEL)}


def _ranks(ranked: Ranked) -> Array:
  return jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)


@metric(departs=MEANS_FIRST, names=(trec_eval("G", "[_1=3,2=9]", reads=_GAINS),))
def normalized_gain(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  gain: Gain = gains.linear,
  ranking: Ranking = Exact(),
) -> Array:
  """Normalised gain, `G` in trec_eval: gains discounted by how far they are behind the ideal.

  `G = sum_i g(y_i) / log2(2 + I(r_i) - C(r_i)) / sum_i g(y_i)`, with the gains `C(r)` of the items
  down to rank `r`, and `I(r)` those of an ideal ranking, which beyond its last gain grows by 1 at
  each rank.

  Tied scores are averaged in the curve `C`.

  >>> print(f"{normalized_gain(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  0.63093

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1]. Only retrieved items count above, and all below.

  References:
    Buckley, `trec_eval <https://trec.nist.gov/trec_eval/>`_, measure G, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  best = ranked.best(gain)
  cumulative = ranked.cumulative(ranked.gain(gain))
  # Ranks past the last ideal gain cost 1 each, as in trec_eval.
  behind = jnp.cumsum(jnp.where(best > 0, best, 1)) - cumulative
  value = jnp.sum(added(cumulative) / jnp.log2(2 + jnp.maximum(behind, 0)))
  return safe_divide(value, jnp.sum(best))


@metric(names=(trec_eval("binG", rel=1),))
def binary_normalized_gain(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Binary normalised gain, `binG` in trec_eval: discounted by the other items ahead only.

  `binG = (1 / R) sum_i b_i / log2(2 + n_i)`, with `b_i` 1 if item `i` is relevant and 0 otherwise,
  `n_i` items ahead of item `i` that are not relevant, and `R` relevant items.

  >>> print(f"{binary_normalized_gain(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.81546

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley, `trec_eval <https://trec.nist.gov/trec_eval/>`_, measure binG, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  others = ranked.where & ~b
  return safe_divide(ranked.expect(b, discounts.logarithmic, among=others), ranked.count(b))


def _ndcg_curve(ranked: Ranked, gain: Gain, discount: Discount) -> tuple[Array, Array]:
  """NDCG at each rank, `[n]`, and the ideal gains."""
  gain = ranked.relative_gain(gain)
  best, gained = ranked.best(gain), added(ranked.cumulative(ranked.gain(gain)))
  shares = discount(_ranks(ranked))
  return safe_divide(jnp.cumsum(gained * shares), jnp.cumsum(best * shares)), best


@metric(
  departs=MEANS_FIRST,
  gain=RELATIVE_GAIN,
  names=(trec_eval("ndcg_rel", "[_1=3,2=9]", reads=_GAINS),),
)
def ndcg_at_relevant(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """The mean of nDCG at the ranks of the relevant items, `ndcg_rel` in trec_eval.

  `nDCG_rel = (1 / R) sum_{i: g(y_i) > 0} nDCG@r_i`, over the `R` items with a gain; for one that is
  not retrieved it is the nDCG of the whole list.

  Tied scores are averaged in the curve of the gains.

  >>> print(f"{ndcg_at_relevant(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  0.63009

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley, `trec_eval <https://trec.nist.gov/trec_eval/>`_, measure ndcg_rel, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  ndcg, best = _ndcg_curve(ranked, gain, discount)
  b = ranked.gain(gain) > 0
  hits = ranked.cumulative(b)
  missed = ranked.count(b) - hits[-1]
  return safe_divide(jnp.sum(added(hits) * ndcg) + missed * ndcg[-1], ranked.count(b))


@metric(gain=RELATIVE_GAIN, names=(trec_eval("Rndcg", "[_1=3,2=9]", reads=_GAINS, rel=1),))
def ndcg_at_levels(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """The mean of nDCG at as many ranks as items have each gain or more, `Rndcg` in trec_eval.

  `Rndcg = mean_g nDCG@R_g`, over the different positive gains `g` of the query, with `R_g` items of
  gain `g` or more; the nDCG of the whole list is a further term if more than `R_g + 1` items are
  retrieved for the least of these gains. It is 0 if no label is relevant, and all gains count
  otherwise.

  Tied scores are averaged in the curve of the gains.

  >>> print(f"{ndcg_at_levels(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  0.44005

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley, `trec_eval <https://trec.nist.gov/trec_eval/>`_, measure Rndcg, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  ndcg, best = _ndcg_curve(ranked, gain, discount)
  last = (best > 0) & (best > ties.below(best))
  longer = ranked.count(ranked.retrieved) > 1 + ranked.count(ranked.gain(gain) > 0)
  total = jnp.sum(jnp.where(last, ndcg, 0)) + jnp.where(longer, ndcg[-1], 0)
  mean = safe_divide(total, jnp.sum(last, dtype=ranked.dtype) + longer.astype(ranked.dtype))
  return jnp.where(ranked.count(ranked.relevant(rel)) > 0, mean, 0)
