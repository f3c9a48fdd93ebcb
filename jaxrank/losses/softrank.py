"""SoftRank losses: `1 - metric`, in expectation over Gaussian noise on the scores.

The expectation is exact and deterministic: `jaxrank.Gaussian` integrates over the noise and draws
no samples. Every metric that accepts a smooth ranking gives a loss in the same way, for example
`1 - jaxrank.rbp(scores, labels, ranking=jaxrank.Gaussian(1.0))`. A query without relevant items
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
from jaxrank.rankings.perturbed import Gaussian


@loss()
def softrank_ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  ranking: Ranking = Gaussian(1.0),
) -> Array:
  """SoftNDCG, the loss of SoftRank: one minus the expected nDCG under Gaussian noise.

  `1 - E nDCG@k(s + t e)`, where the components of `e` are independent standard normal variables
  and `t` is the temperature of the ranking. The paper uses the exponential gain `2^y - 1`, which
  `gain=jaxrank.gains.exponential` selects. It also approximates the distribution of a rank by
  treating the comparisons of an item with the other items as independent; this function computes
  the expectation exactly.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{softrank_ndcg(scores, labels):.5f}")
  0.14011

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    discount: Function from 1-based ranks to weights, of `jaxrank.discounts` or any other.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Taylor et al., `SoftRank: optimizing non-smooth rank metrics
    <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """
  return 1 - value_of(ndcg, scores)


@loss()
def softrank_err(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  ranking: Ranking = Gaussian(1.0),
) -> Array:
  """One minus the expected reciprocal rank (ERR), in expectation under Gaussian noise.

  `1 - E ERR@k(s + t e)`, where the components of `e` are independent standard normal variables
  and `t` is the temperature of the ranking. ERR stops at item `i` with probability
  `(2^y_i - 1) / 2^max_label`. The paper applies the method to nDCG.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{softrank_err(scores, labels, max_label=4):.5f}")
  0.84404

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, in (0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Taylor et al., `SoftRank: optimizing non-smooth rank metrics
    <https://doi.org/10.1145/1341531.1341544>`_, 2008; Chapelle et al., `Expected reciprocal rank
    for graded relevance <https://doi.org/10.1145/1645953.1646033>`_, 2009.
  """
  return 1 - value_of(err, scores)


@loss()
def softrank_ap(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  normalizer: Literal["relevant", "cutoff"] = "relevant",
  ranking: Ranking = Gaussian(1.0),
) -> Array:
  """One minus the expected average precision (AP) under Gaussian noise.

  `1 - E AP@k(s + t e)`, where the components of `e` are independent standard normal variables and
  `t` is the temperature of the ranking. The paper applies the method to nDCG.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{softrank_ap(scores, labels):.5f}")
  0.42530

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Taylor et al., `SoftRank: optimizing non-smooth rank metrics
    <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """
  return 1 - value_of(average_precision, scores)


@loss()
def softrank_rr(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Gaussian(1.0),
) -> Array:
  """One minus the expected reciprocal rank of the first relevant item under Gaussian noise.

  `1 - E RR@k(s + t e)`, where the components of `e` are independent standard normal variables and
  `t` is the temperature of the ranking. The paper applies the method to nDCG.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{softrank_rr(scores, labels):.5f}")
  0.42530

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    k: Cut-off rank; orders whose first relevant item has a rank greater than `k` contribute 0 to
      the expectation. None for the whole list.

  Returns:
    Loss of each query, `[...]`, in [0, 1]; 1, with gradient 0, if no item is relevant.

  References:
    Taylor et al., `SoftRank: optimizing non-smooth rank metrics
    <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """
  return 1 - value_of(reciprocal_rank, scores)
