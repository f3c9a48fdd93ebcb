"""Agreement of the order of scores with that of labels: AUC, pair accuracy and correlations.

Items with a score of -inf tie with each other for the lowest rank.
"""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Cutoff
from jaxrank._core import sorting, ties
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import added, safe_divide, safe_sqrt
from jaxrank._core.description import MEANS_FIRST, TIED_PAIRS, ir_measures
from jaxrank._core.ranked import Ranked, Ranking, within
from jaxrank.rankings.exact import Exact


@metric(departs=TIED_PAIRS, seeks="relevant and other items")
def auc(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Area under the ROC curve: the probability that a relevant item outranks a non-relevant one.

  `AUC = sum_{i, j} ([s_i > s_j] + [s_i = s_j] / 2) / (R N)`, over the `R` relevant items `i` and
  the `N` other valid items `j`.

  >>> print(f"{auc(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1]; 0 if all or none of the items are relevant.

  References:
    Hanley and McNeil, `The meaning and use of the area under a ROC curve
    <https://doi.org/10.1148/radiology.143.1.7063747>`_, 1982.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  others = ranked.where & ~b
  pairs = ranked.count(b) * ranked.count(others)
  lost, lost_others = (ranked.count(x & ~ranked.retrieved) for x in (b, others))
  # `before` counts retrieved items only; those that are not retrieved tie with each other.
  wrong = ranked.total(jnp.where(b, ranked.before(others), 0)) + lost * lost_others / 2
  return safe_divide(pairs - wrong, pairs)


@metric(
  depth="all",
  departs=MEANS_FIRST,
  seeks="relevant and other items",
  names=(ir_measures("Accuracy", "[@10]", "rel", rel=1),),
)
def retrieved_auc(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Area under the ROC curve of the first `k` retrieved items; `Accuracy` in ir_measures.

  `AUC@k = |{(i, j): r_i < r_j <= k}| / (h m)`, over the `h` relevant items `i` and the `m` other
  items `j` at the ranks down to `k`.

  Unlike for `auc`, items that are not retrieved do not count. Tied scores are averaged in the ROC
  curve: without a cut-off, ties count half.

  >>> print(f"{retrieved_auc(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=2):.5f}")
  1.00000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1]; 0 if all or none of the first items are relevant.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  inside = within(jnp.arange(1, ranked.n + 1, dtype=ranked.dtype), ranked.cutoff(k))
  hits, others = (
    jnp.where(inside, added(ranked.cumulative(x)), 0) for x in (b, ranked.retrieved & ~b)
  )
  # Others at the rank of a hit, of the same tie, are ahead of it half of the time.
  wrong = jnp.sum(hits * (jnp.cumsum(others) - others / 2))
  pairs = jnp.sum(hits) * jnp.sum(others)
  return safe_divide(pairs - wrong, pairs)


@metric(depth="pairs", departs=TIED_PAIRS, seeks="different labels")
def ordered_pair_accuracy(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """The fraction of pairs with different labels that the scores order alike; ties count half.

  `OPA = sum_{y_i > y_j} ([s_i > s_j] + [s_i = s_j] / 2) / |{y_i > y_j}|`, with scores `s` and
  labels `y`, in O(n log n) time and O(n) memory.

  >>> value = ordered_pair_accuracy(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1]))
  >>> print(f"{value:.5f}")
  0.66667

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    labels: `[..., n]`, numbers to compare with the scores, negative ones too.

  Returns:
    `[...]`, in [0, 1]; 0 if all labels are equal.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  pairs = ranked.pairs()
  balance = safe_divide(pairs.concordant - pairs.discordant, pairs.different_labels)
  return jnp.where(pairs.different_labels > 0, (1 + balance) / 2, 0)


@metric(depth="pairs", departs=TIED_PAIRS, seeks="different labels", range=(-1.0, 1.0))
def kendall_tau(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Kendall's tau-b: concordant less discordant pairs, corrected for ties on either side.

  `tau = (C - D) / sqrt(P_s P_y)`, with `C` concordant and `D` discordant pairs, `P_s` pairs with
  different scores and `P_y` pairs with different labels, in O(n log n) time and O(n) memory.

  >>> print(f"{kendall_tau(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1])):.5f}")
  0.33333

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    labels: `[..., n]`, numbers to compare with the scores, negative ones too.

  Returns:
    `[...]`, in [-1, 1]; 0 if all scores or all labels are equal.

  References:
    Kendall, `The treatment of ties in ranking problems
    <https://doi.org/10.1093/biomet/33.3.239>`_, 1945; Knight, `A computer method for calculating
    Kendall's tau with ungrouped data <https://doi.org/10.1080/01621459.1966.10480879>`_, 1966.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  pairs = ranked.pairs()
  # Not a product of roots, which differs by rounding where both numbers are equal.
  ratio = safe_divide(pairs.different_scores, pairs.different_labels)
  spread = jnp.sqrt(ratio) * pairs.different_labels
  return safe_divide(pairs.concordant - pairs.discordant, spread)


def _middle(chosen: Array, ranked: Ranked) -> Array:
  """The mean position among some items, counted from 0; equal to their midrank if they all tie."""
  return (ranked.total(chosen, jnp.int32) - 1).astype(ranked.dtype) / 2


def _centred(position: Array, ranked: Ranked) -> Array:
  """Positions minus their mean over the valid items, which no order changes; 0 under the mask."""
  return jnp.where(ranked.where, position - _middle(ranked.where, ranked), 0)


@metric(departs=MEANS_FIRST, seeks="different labels", range=(-1.0, 1.0))
def spearman(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Spearman's rho: the correlation of the midranks of scores and labels.

  `rho = sum_i x_i z_i / sqrt(sum_i x_i^2 sum_i z_i^2)`, with the centred midranks `x` of the scores
  and `z` of the labels.

  Under a smooth ranking `x` are the expected ranks, and the first sum of squares is that of an
  order without tied scores. Under noise this is the expectation of `rho`. Tied scores have their
  midrank at temperature 0, and the value 0 at any temperature if all scores are equal.

  >>> print(f"{spearman(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1])):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    labels: `[..., n]`, numbers to compare with the scores, negative ones too.

  Returns:
    `[...]`, in [-1, 1]; 0 if all scores or all labels are equal.

  References:
    Spearman, `The proof and measurement of association between two things
    <https://doi.org/10.2307/1412159>`_, 1904.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  lost = ranked.where & ~ranked.retrieved
  # Items that are not retrieved tie with each other, below all others.
  position = ranked.before(ranked.retrieved) + jnp.where(lost, _middle(lost, ranked), 0)
  key, item = sorting.order(sorting.keys(ranked.given_labels, ranked.where))
  labels = sorting.scatter(ties.twice_midrank(key).astype(ranked.dtype) / 2, item)
  x, y = _centred(position, ranked), _centred(labels, ranked)
  of_labels = jnp.sum(y * y)
  # Not a product of roots, which differs by rounding where both spreads are equal.
  spread = safe_sqrt(safe_divide(ranked.spread_of_ranks(x), of_labels)) * of_labels
  return safe_divide(jnp.sum(x * y), spread)
