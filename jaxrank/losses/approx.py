"""Approx losses: `1 - metric`, with expected ranks in the formula of the metric.

Expected ranks are smooth in the scores. `jaxrank.Logistic` computes them in O(n log n) time and
O(n) memory. `approx_mrr` is an expectation under Gumbel noise instead. Every metric that accepts a
smooth ranking gives a loss in the same way, for example
`1 - jaxrank.rbp(scores, labels, ranking=jaxrank.Logistic(1.0))`. A query without relevant items
has loss 1 and gradient 0.
"""

from typing import Literal

import jax.numpy as jnp  # noqa: F401, the doctests use it
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Discount, Gain
from jaxrank._core.apply import value_of
from jaxrank._core.ranked import Ranking
from jaxrank.losses._loss import loss
from jaxrank.metrics import average_precision, err, ndcg, reciprocal_rank
from jaxrank.rankings.expected_rank import Logistic
from jaxrank.rankings.perturbed import Gumbel


@loss()
def approx_ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  ranking: Ranking = Logistic(1.0),
) -> Array:
  """ApproxNDCG: one minus the nDCG of expected ranks.

  `1 - sum_i g(y_i) d(r_i) / max DCG`, with gain `g`, discount `d` and the expected rank
  `r_i = 1 + sum_{j != i} sigmoid((s_j - s_i) / t)` of `Logistic(t)`. The paper uses the
  exponential gain `2^y - 1`, which `gain=jaxrank.gains.exponential` selects.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{approx_ndcg(scores, labels):.5f}")
  0.21773

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    discount: Function from 1-based ranks, which are real numbers here, to weights.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Qin et al., `A general approximation framework for direct optimization of information retrieval
    measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """
  return 1 - value_of(ndcg, scores)


@loss(departs={"alive": "a product of the chances of many relevant items is 0"})
def approx_err(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  ranking: Ranking = Logistic(1.0),
) -> Array:
  """One minus the expected reciprocal rank (ERR) of expected ranks.

  `1 - sum_i p_i / r_i prod_{j != i} (1 - p_j)^f_ij`, with the stop probability
  `p = (2^y - 1) / 2^max_label`, the probability `f_ij = sigmoid((s_j - s_i) / t)` of
  `Logistic(t)` that item `j` ranks ahead of item `i`, and the expected rank
  `r_i = 1 + sum_{j != i} f_ij`. The paper applies the method to nDCG and AP.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{approx_err(scores, labels, max_label=4):.5f}")
  0.86799

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, in (0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Qin et al., `A general approximation framework for direct optimization of information retrieval
    measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010; Chapelle et al., `Expected
    reciprocal rank for graded relevance <https://doi.org/10.1145/1645953.1646033>`_, 2009.
  """
  return 1 - value_of(err, scores)


@loss()
def approx_ap(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  normalizer: Literal["relevant", "cutoff"] = "relevant",
  ranking: Ranking = Logistic(1.0),
) -> Array:
  """ApproxAP: one minus the average precision (AP) of expected ranks.

  `1 - (1 / R) sum_i b_i (1 + sum_{j != i} b_j f_ij) / (1 + sum_{j != i} f_ij)`, where `b_i` is 1
  for the `R` relevant items and 0 for the others, and `f_ij = sigmoid((s_j - s_i) / t)` is the
  probability of `Logistic(t)` that item `j` ranks ahead of item `i`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{approx_ap(scores, labels):.5f}")
  0.50000

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Qin et al., `A general approximation framework for direct optimization of information retrieval
    measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """
  return 1 - value_of(average_precision, scores)


@loss()
def smooth_ap(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  normalizer: Literal["relevant", "cutoff"] = "relevant",
  ranking: Ranking = Logistic(0.01),
) -> Array:
  """Smooth-AP: `approx_ap` at temperature 0.01, for scores that are cosine similarities.

  `1 - (1 / R) sum_i b_i (1 + sum_{j != i} b_j f_ij) / (1 + sum_{j != i} f_ij)`, where `b_i` is 1
  for the `R` relevant items and 0 for the others, and `f_ij = sigmoid((s_j - s_i) / t)` is the
  probability of `Logistic(t)` that item `j` ranks ahead of item `i`.

  >>> scores, labels = jnp.array([0.52, 0.51, 0.53]), jnp.array([1, 0, 0])
  >>> print(f"{smooth_ap(scores, labels):.5f}")
  0.50000

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    scores: Scores of the items, `[..., n]`, such as cosine similarities.
    ranking: Smooth ranking. The paper's temperature is that of `Logistic`.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Brown et al., `Smooth-AP: smoothing the path towards large-scale image retrieval
    <https://arxiv.org/abs/2007.12163>`_, 2020.
  """
  return 1 - value_of(average_precision, scores)


@loss()
def approx_mrr(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Gumbel(1.0),
) -> Array:
  """One minus the expected reciprocal rank of the first relevant item under Gumbel noise.

  `1 - E RR@k(s + t e)`, where the components of `e` are independent standard Gumbel variables and
  `t` is the temperature of the ranking: the orders follow the Plackett-Luce model. The expected
  ranks of the items do not determine the expected rank of the first relevant item; the default
  ranking is therefore `Gumbel`, which computes the expectation exactly, and not `Logistic`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{approx_mrr(scores, labels):.5f}")
  0.41842

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    k: Cut-off rank; an order whose first relevant item has a rank greater than `k` has reciprocal
      rank 0. None for the whole list.
    ranking: Smooth ranking. The temperature of `Gumbel` is the scale of the noise.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Qin et al., `A general approximation framework for direct optimization of information retrieval
    measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """
  return 1 - value_of(reciprocal_rank, scores)
