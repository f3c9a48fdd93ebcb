"""Agreement of the order of scores with the order of labels, pair by pair.

Items at -inf are ordinary lowest values here: they tie with each other.
"""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import sorting, ties
from jaxrank._core.arithmetic import safe_divide, safe_sqrt
from jaxrank._core.types import Ranked
from jaxrank.metrics._apply import metric


@metric(sorts="all")
def auc(ranked: Ranked, *, rel: ArrayLike | None = None) -> Array:
  """Area under the ROC curve: the chance that a relevant item beats a non-relevant one.

  `AUC = sum over relevant i, others j of [s_i > s_j] + [s_i = s_j] / 2`, over their number.

  >>> print(f"{auc(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    rel: Labels from here on are relevant; None is any positive label.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1]; 0 if all or none of the items are relevant.

  References:
    Hanley and McNeil, `The meaning and use of the area under a ROC curve
    <https://doi.org/10.1148/radiology.143.1.7063747>`_, 1982.
  """
  b = ranked.relevant(rel)
  others = ranked.where & ~b
  pairs = ranked.count(b) * ranked.count(others)
  return safe_divide(pairs - ranked.ahead(b, others), pairs)


@metric(sorts="all")
def ordered_pair_accuracy(ranked: Ranked) -> Array:
  """The share of pairs with different labels that the scores order alike; ties count half.

  >>> value = ordered_pair_accuracy(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1]))
  >>> print(f"{value:.5f}")
  0.66667

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    ranking: `Exact`.

  Returns:
    `[...]`, in [0, 1]; 0 if all labels are equal. O(n log n) time, O(n) memory.
  """
  pairs = ranked.exact("ordered_pair_accuracy").pairs()
  differ = pairs.concordant + pairs.discordant + pairs.tied_scores
  return safe_divide(pairs.concordant + pairs.tied_scores / 2, differ)


@metric(sorts="all")
def kendall_tau(ranked: Ranked) -> Array:
  """Kendall's tau-b: concordant less discordant pairs, corrected for ties on either side.

  `tau = (C - D) / sqrt((C + D + T_s) (C + D + T_y))`, with `T` the pairs tied on one side only.

  >>> print(f"{kendall_tau(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1])):.5f}")
  0.33333

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, plain numbers.
    where: `[..., n]`, False on padding.
    ranking: `Exact`.

  Returns:
    `[...]`, in [-1, 1]; 0 if either side is constant. O(n log n) time, O(n) memory.

  References:
    Kendall, `The treatment of ties in ranking problems
    <https://doi.org/10.1093/biomet/33.3.239>`_, 1945; Knight, `A computer method for calculating
    Kendall's tau with ungrouped data <https://doi.org/10.1080/01621459.1966.10480879>`_, 1966.
  """
  pairs = ranked.exact("kendall_tau").pairs()
  untied = pairs.concordant + pairs.discordant
  spread = jnp.sqrt(untied + pairs.tied_scores) * jnp.sqrt(untied + pairs.tied_labels)
  return safe_divide(pairs.concordant - pairs.discordant, spread)


@metric(sorts="all")
def spearman(ranked: Ranked) -> Array:
  """Spearman's rho: the correlation of the midranks of scores and labels.

  On a smooth ranking, under noise too, it is the correlation of expected ranks with those of the
  labels, so that at temperature 0 tied scores have their midrank.

  >>> print(f"{spearman(jnp.array([3.0, 2.0, 1.0]), jnp.array([2, 0, 1])):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, plain numbers.
    where: `[..., n]`, False on padding.
    ranking: Exact or smooth, for the scores.

  Returns:
    `[...]`, in [-1, 1]; 0 if either side is constant.

  References:
    Spearman, `The proof and measurement of association between two things
    <https://doi.org/10.2307/1412159>`_, 1904.
  """
  position = ranked.position()
  key, item = sorting.order(sorting.keys(ranked.labels, ranked.where))
  labels = sorting.scatter(ties.twice_midrank(key).astype(ranked.dtype) / 2, item)
  x, y = _centred(position, ranked), _centred(labels, ranked)
  return safe_divide(jnp.sum(x * y), safe_sqrt(jnp.sum(x * x)) * safe_sqrt(jnp.sum(y * y)))


def _centred(position: Array, ranked: Ranked) -> Array:
  mean = safe_divide(jnp.sum(jnp.where(ranked.where, position, 0)), ranked.count(ranked.where))
  return jnp.where(ranked.where, position - mean, 0)
