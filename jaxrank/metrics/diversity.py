"""Metrics of diversity: an item gains less for a subtopic that items ahead of it cover.

Labels are `[..., n, s]`, one for each subtopic of the query. A metric is a sum over subtopics of
cascades on one ranking: a user interested in a subtopic goes down the list and may stop at an item
that covers it.
"""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import GREEDY_IDEAL, SHARE, ir_measures, ndeval
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank._core.ties import Cascades, even, expected, normalised, perfect
from jaxrank.rankings.exact import Exact


@metric(
  depth="all",
  subtopics=True,
  range=(0.0, float("inf")),
  names=(
    ir_measures("alpha_DCG", "@10", "alpha rel", rel=1, normalizer="perfect"),
    ndeval("alpha-DCG", rel=1, normalizer="perfect"),
  ),
)
def alpha_dcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  alpha: ArrayLike = 0.5,
  discount: Discount = discounts.logarithmic,
  subtopic_weights: ArrayLike | None = None,
  normalizer: Literal["none", "perfect"] = "none",
  ranking: Ranking = Exact(),
) -> Array:
  r"""Alpha-DCG: DCG in which an item gains less for a subtopic the more items ahead cover it.

  `aDCG@k = sum_s w_s sum_{r_i <= k} b_is (1 - alpha)^c_is d(r_i)`, with `b_is` 1 if item `i` is
  relevant to subtopic `s` and 0 otherwise, `c_is` the number of such items ahead of `i`, discount
  `d`, and weights `w` of subtopics.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{alpha_dcg(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  1.81546

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    alpha: The fraction of the gain of a subtopic that an item takes from those behind it, in
      [0, 1]; 0 gives the sum over subtopics of binary DCG.
    normalizer: The divisor: `"none"`, 1; `"perfect"`, the value of `k` items that are all relevant
      to every subtopic that some item covers, as in ndeval for `k` of at least 2.

  Returns:
    `[...]`, at least 0.

  References:
    Clarke et al., `Novelty and diversity in information retrieval evaluation
    <https://doi.org/10.1145/1390334.1390446>`_, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  cascades = _novelty(ranked, rel, alpha, subtopic_weights)
  value = expected(ranked, cascades, discount, k)
  if normalizer == "none":
    return value
  weights = jnp.where(ranked.count(ranked.relevant(rel)) > 0, cascades.weights, 0)
  return safe_divide(value, perfect(ranked, weights, alpha, discount, k))


@metric(
  depth="all",
  departs=GREEDY_IDEAL,
  subtopics=True,
  names=(
    ir_measures("alpha_nDCG", "@10", "alpha rel", rel=1),
    ndeval("alpha-nDCG", rel=1),
  ),
)
def alpha_ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  alpha: ArrayLike = 0.5,
  discount: Discount = discounts.logarithmic,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Alpha-nDCG: `alpha_dcg` divided by that of a greedy order.

  `anDCG@k = aDCG@k / greedy aDCG@k`; 0 if that is 0.

  The best order is NP-hard to find. At each rank the greedy order has the item that gains most
  there, the first of equal ones in the order of the input. Another order is rarely better, and its
  value then exceeds 1.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{alpha_ndcg(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.96520

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    k: The cut-off, a positive integer, which may be traced; None is the whole list. The greedy
      order takes `n s` time per rank, down to a static `k` or the last relevant item.
    alpha: The fraction of the gain of a subtopic that an item takes from those behind it, in
      [0, 1].

  Returns:
    `[...]`, at least 0, and rarely more than 1.

  References:
    Clarke et al., `Novelty and diversity in information retrieval evaluation
    <https://doi.org/10.1145/1390334.1390446>`_, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  cascades = _novelty(ranked, rel, alpha, subtopic_weights)
  return normalised(ranked, cascades, discount, k)


@metric(
  depth="all",
  beta=SHARE,
  subtopics=True,
  names=(ir_measures("NRBP", "", "alpha beta rel", rel=1), ndeval("NRBP", "", rel=1)),
)
def nrbp(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  alpha: ArrayLike = 0.5,
  beta: ArrayLike = 0.5,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Novelty- and rank-biased precision: `rbp` for users who each seek one subtopic.

  `NRBP = (1 - (1 - alpha) beta) sum_s w_s sum_{r_i <= k} b_is (1 - alpha)^c_is beta^(r_i - 1)`,
  with `b_is` 1 if item `i` is relevant to subtopic `s` and 0 otherwise, `c_is` the number of such
  items ahead of `i`, and weights `w` of subtopics.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{nrbp(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.56250

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, on long lists: where
  many scores are close, all expected ranks are near the middle of the list, whose weight is
  negligible, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    alpha: The probability that a user stops at an item of the subtopic sought, in [0, 1].
    beta: The probability that a user who does not stop goes on to the next rank, in [0, 1].
    subtopic_weights: `[s]` or `[..., s]`, the probability of each subtopic; None gives equal ones
      to the subtopics that some item covers.

  Returns:
    `[...]`, in [0, 1] if the weights of the subtopics add up to at most 1.

  References:
    Clarke, Kolla and Vechtomova, `An effectiveness measure for ambiguous and underspecified queries
    <https://doi.org/10.1007/978-3-642-04417-5_17>`_, 2009.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  alpha, beta = (jnp.asarray(x).astype(ranked.dtype) for x in (alpha, beta))
  if subtopic_weights is None:
    subtopic_weights = even(ranked, ranked.relevant(rel))
  cascades = _novelty(ranked, rel, alpha, subtopic_weights)
  value = expected(ranked, cascades, discounts.geometric(beta), k)
  return (1 - (1 - alpha) * beta) * value


@metric(
  departs=GREEDY_IDEAL,
  beta=SHARE,
  subtopics=True,
  names=(ir_measures("nNRBP", "", "alpha beta rel", rel=1), ndeval("nNRBP", "", rel=1)),
)
def nnrbp(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  alpha: ArrayLike = 0.5,
  beta: ArrayLike = 0.5,
  subtopic_weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  r"""Normalised `nrbp`: NRBP divided by that of a greedy order, as in `alpha_ndcg`.

  `nNRBP = NRBP / greedy NRBP`; 0 if that is 0.

  >>> labels = jnp.array([[1, 0], [1, 0], [0, 1]])
  >>> print(f"{nnrbp(jnp.array([3.0, 2.0, 1.0]), labels):.5f}")
  0.92308

  As a loss under `Laplace` or `Logistic` it is for short lists: where many scores are close, all
  expected ranks are near the middle of the list, whose weight is negligible. Train on `nrbp` with
  `k=10`, or under `Gumbel`.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    alpha: As for `nrbp`.
    beta: As for `nrbp`.

  Returns:
    `[...]`, at least 0, and rarely more than 1.

  References:
    Clarke, Kolla and Vechtomova, `An effectiveness measure for ambiguous and underspecified queries
    <https://doi.org/10.1007/978-3-642-04417-5_17>`_, 2009.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  cascades = _novelty(ranked, rel, alpha, subtopic_weights)
  discount = discounts.geometric(jnp.asarray(beta).astype(ranked.dtype))
  return normalised(ranked, cascades, discount, None)


def _novelty(
  ranked: Ranked, rel: ArrayLike | None, alpha: ArrayLike, subtopic_weights: ArrayLike | None
) -> Cascades:
  """Relevant items are worth 1 to users who reach them, and stop these with probability `alpha`."""
  b = ranked.relevant(rel)
  weights = jnp.ones_like(ranked.count(b)) if subtopic_weights is None else subtopic_weights
  alpha = jnp.asarray(alpha).astype(ranked.dtype)
  return Cascades(b, alpha, jnp.asarray(weights).astype(ranked.dtype))
