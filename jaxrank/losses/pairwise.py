"""Pairwise losses in O(n^2) time and O(n) memory: the loss of a query is a mean over pairs.

`bends` and `logistic_bends` also serve `jaxrank/losses/curvature.py`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._core.all_pairs import Items, rows_of, total
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import NUMBER
from jaxrank.losses._loss import (
  exact_query,
  headroom_below,
  logits,
  loss,
  saturated,
  softplus,
)
from jaxrank.rankings.exact import ExactQuery

# A function of the difference of two logits and of the scale of the logits; the result has it too.
Link = Callable[[Array, Array], Array]


def bends(x: Array, z: Array, other_z: Array, scale: Array) -> Array:
  """A term for each pair whose gradient by either logit is the logistic loss's second derivative.

  The gradient of a sum over pairs by the logits is then the diagonal of the Hessian of the loss,
  which costs as much as the gradient of the loss.
  """
  decay = jnp.exp(-jnp.abs(x) * (1 / scale))
  return lax.stop_gradient(decay / jnp.square(1 + decay)) * (z + other_z)


def _mean_of_pairs(
  query: ExactQuery,
  link: Link | None,
  *,
  bounded: bool = False,
  margin: ArrayLike = 0.0,
  temperature: ArrayLike = 1.0,
  weights: ArrayLike | None = None,
) -> Array:
  z = logits(query, temperature)
  top = jnp.max(jnp.abs(lax.stop_gradient(z)))
  # Sums of a bounded link are finite, whatever the logits are.
  scale = jnp.ones_like(top) if bounded else headroom_below(top, query.n**2)
  margin = scale * jnp.asarray(margin).astype(query.dtype)
  w = jnp.ones_like(query.labels) if weights is None else jnp.where(query.where, weights, 0)
  # NaN is above no label and below none.
  y = jnp.where(query.retrieved, gains.linear(query.labels), jnp.nan)
  items = scale * z, y, w.astype(query.dtype)

  def pair(upper: Items, lower: Items) -> tuple[Array, Array]:
    (z, y, w), (other_z, other_y, _) = upper, lower
    better, x = y > other_y, margin - (z - other_z)
    term = bends(x, z, other_z, scale) if link is None else link(x, scale)
    return jnp.where(better, w * term, 0), better.astype(z.dtype)

  return saturated(safe_divide(*total(pair, items, rows_of(query))) / scale)


def _hinge(x: Array, scale: Array) -> Array:
  del scale
  return jax.nn.relu(x)


def _soft_step(x: Array, scale: Array) -> Array:
  del scale
  return jax.nn.sigmoid(x)


@loss()
def pairwise_logistic(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """RankNet, also known as BPR: the logistic loss of pairs with different labels.

  The mean of `w_i log(1 + exp(-(s_i - s_j) / temperature))` over the pairs with `y_i > y_j`.

  >>> print(f"{pairwise_logistic(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  1.25115

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, at least 0; 0 if all labels are equal.

  References:
    Burges et al., `Learning to rank using gradient descent
    <https://doi.org/10.1145/1102351.1102363>`_, 2005.
  """
  query = exact_query(scores, labels, where)
  return _mean_of_pairs(query, softplus, temperature=temperature, weights=weights)


@loss()
def logistic_bends(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """`[...]`, whose gradient by the logits is the diagonal of the Hessian of `pairwise_logistic`."""
  query = exact_query(scores, labels, where)
  return _mean_of_pairs(query, None, temperature=temperature, weights=weights)


@loss(margin=NUMBER)
def pairwise_hinge(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  margin: ArrayLike = 1.0,
  weights: ArrayLike | None = None,
) -> Array:
  """RankSVM: the hinge loss of pairs with different labels.

  The mean of `w_i max(0, margin - (s_i - s_j))` over the pairs with `y_i > y_j`.

  >>> print(f"{pairwise_hinge(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  1.66667

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    margin: Smallest difference of scores without a loss, a number; may be traced.

  Returns:
    Loss of each query, `[...]`, at least 0; 0 if all labels are equal.

  References:
    Joachims, `Optimizing search engines using clickthrough data
    <https://doi.org/10.1145/775047.775067>`_, 2002.
  """
  query = exact_query(scores, labels, where)
  return _mean_of_pairs(query, _hinge, margin=margin, weights=weights)


@loss()
def pairwise_soft_zero_one(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """The smoothed fraction of the pairs with different labels that are in the wrong order.

  The mean of `w_i sigmoid(-(s_i - s_j) / temperature)` over the pairs with `y_i > y_j`. As the
  temperature goes to 0, the loss without weights goes to one minus the ordered pair accuracy of the
  retrieved items.

  >>> print(f"{pairwise_soft_zero_one(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  0.62693

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, in [0, 1] without weights; 0 if all labels are equal.

  References:
    Yan et al., `Optimizing classifier performance via an approximation to the Wilcoxon-Mann-Whitney
    statistic <https://www.aaai.org/Papers/ICML/2003/ICML03-110.pdf>`_, 2003.
  """
  query = exact_query(scores, labels, where)
  return _mean_of_pairs(query, _soft_step, bounded=True, temperature=temperature, weights=weights)
