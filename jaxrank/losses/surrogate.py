"""Losses that are a metric, made smooth: `1 - metric` under a smooth ranking.

The softrank family takes the expectation of the metric under Gaussian noise on the scores, the
approx family puts expected ranks into its formula. Any other metric is a loss in the same way:
`1 - jaxrank.rbp(scores, labels, ranking=...)`. A query with nothing relevant has loss 1 and
gradient 0.
"""

import functools
import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, batching, checks
from jaxrank._core.ranked import by_column
from jaxrank._core.types import Ranking
from jaxrank.metrics import average_precision, err, ndcg, reciprocal_rank
from jaxrank.metrics._apply import keys_of_queries
from jaxrank.rankings.expected_rank import Logistic
from jaxrank.rankings.perturbed import Gaussian, Gumbel

Loss = Callable[..., Array]


def _one_minus(metric: Loss, ranking: Ranking) -> Callable[[Callable[[], None]], Loss]:
  """Makes `1 - metric` of what only names and describes it, with `ranking` as the default."""
  signature = inspect.signature(metric)
  own = [
    p.replace(default=ranking) if p.name == "ranking" else p for p in signature.parameters.values()
  ]
  arguments = (inspect.getdoc(metric) or "").partition("\nArgs:")[2].partition("\nReturns:")[0]

  def decorate(named: Callable[[], None]) -> Loss:
    @functools.wraps(named)
    def loss(*args, **kwargs):
      return 1 - metric(*args, **{"ranking": ranking, **kwargs})

    result = "\nReturns:\n  `[...]`, in [0, 1]; 1, with gradient 0, if nothing is relevant.\n"
    text = f"{inspect.getdoc(named)}\n\nArgs:{arguments}{result}"
    vars(loss).update(__signature__=signature.replace(parameters=own, return_annotation=Array))
    loss.__doc__ = text
    return loss

  return decorate


@_one_minus(ndcg, Gaussian(1.0))
def softrank_ndcg() -> None:
  """SoftRank: 1 less the expectation of `ndcg` when the scores have Gaussian noise.

  Exact, where the paper takes the items ahead of another to be independent.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{softrank_ndcg(scores, labels):.5f}")
  0.18847

  Taylor et al., `SoftRank: optimizing non-smooth rank metrics
  <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """


@_one_minus(err, Gaussian(1.0))
def softrank_err() -> None:
  """1 less the expectation of `err` when the scores have Gaussian noise.

  Pass `max_label`, the best grade of the data, or queries without it count too much.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{softrank_err(scores, labels, max_label=4):.5f}")
  0.84404

  Taylor et al., `SoftRank: optimizing non-smooth rank metrics
  <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """


@_one_minus(average_precision, Gaussian(1.0))
def softrank_ap() -> None:
  """1 less the expectation of `average_precision` when the scores have Gaussian noise.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{softrank_ap(scores, labels):.5f}")
  0.42530

  Taylor et al., `SoftRank: optimizing non-smooth rank metrics
  <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """


@_one_minus(reciprocal_rank, Gaussian(1.0))
def softrank_rr() -> None:
  """1 less the expectation of `reciprocal_rank` when the scores have Gaussian noise.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{softrank_rr(scores, labels):.5f}")
  0.42530

  Taylor et al., `SoftRank: optimizing non-smooth rank metrics
  <https://doi.org/10.1145/1341531.1341544>`_, 2008.
  """


@_one_minus(ndcg, Logistic(1.0))
def approx_ndcg() -> None:
  """ApproxNDCG: 1 less the `ndcg` of expected ranks.

  `r_i = 1 + sum_j sigmoid((s_j - s_i) / t)` at the default `ranking=Logistic(t)`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{approx_ndcg(scores, labels):.5f}")
  0.25941

  Qin et al., `A general approximation framework for direct optimization of information retrieval
  measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """


@_one_minus(err, Logistic(1.0))
def approx_err() -> None:
  """1 less the `err` of expected ranks, where `j` is passed before `i` only in part.

  `r_i = 1 + sum_j sigmoid((s_j - s_i) / t)` at the default `ranking=Logistic(t)`, and the chance
  to get to item `i` is the product of `(1 - p_j) ** sigmoid((s_j - s_i) / t)`. Pass `max_label`,
  the best grade of the data, or queries without it count too much.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> print(f"{approx_err(scores, labels, max_label=4):.5f}")
  0.86799

  Qin et al., `A general approximation framework for direct optimization of information retrieval
  measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """


@_one_minus(average_precision, Logistic(1.0))
def approx_ap() -> None:
  """1 less the `average_precision` of expected ranks and expected numbers of hits.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{approx_ap(scores, labels):.5f}")
  0.50000

  Qin et al., `A general approximation framework for direct optimization of information retrieval
  measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """


@_one_minus(average_precision, Logistic(0.01))
def smooth_ap() -> None:
  """Smooth-AP: `approx_ap` as sharp as cosine similarities need it.

  `(1 / R) sum_i (1 + sum_j b_j sigmoid(z_ij)) / (1 + sum_j sigmoid(z_ij))` is the AP, with
  `z_ij = (s_j - s_i) / t` and the sums over `j != i`; `t` is 0.01.

  >>> scores, labels = jnp.array([0.52, 0.51, 0.53]), jnp.array([1, 0, 0])
  >>> print(f"{smooth_ap(scores, labels):.5f}")
  0.50000

  Brown et al., `Smooth-AP: smoothing the path towards large-scale image retrieval
  <https://arxiv.org/abs/2007.12163>`_, 2020.
  """


@_one_minus(reciprocal_rank, Gumbel(1.0))
def approx_mrr() -> None:
  """1 less the expectation of `reciprocal_rank` when the scores have Gumbel noise.

  The expected rank of the first relevant item is no formula of expected ranks; this is exact
  under the Plackett-Luce model.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1, 0, 0])
  >>> print(f"{approx_mrr(scores, labels):.5f}")
  0.41842

  Qin et al., `A general approximation framework for direct optimization of information retrieval
  measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010.
  """


def perturbed(loss: Loss, key: Array, samples: int = 8, scale: ArrayLike = 1.0) -> Loss:
  """The mean of a loss over scores with Gumbel noise.

  `(1 / S) sum_s loss(scores + scale * G_s)`. Not needed for a metric, whose expectation under
  this noise is `ranking=Gumbel(scale)`, but for any other function of scores and labels.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> noisy = perturbed(approx_ndcg, jax.random.key(0))
  >>> print(f"{noisy(scores, labels):.2f}")
  0.27

  Args:
    loss: `loss(scores, labels, *, where=None, ...)`, `[..., n]` to `[...]`.
    key: A PRNG key. The noise of an item depends on its query's place in the batch and its column
      alone, so that longer padding does not change it.
    samples: How many times to draw.
    scale: The scale of the noise, in units of the scores; may be traced.

  Returns:
    A function of the arguments of `loss`.

  Raises:
    ValueError: if `samples` is not positive.

  References:
    Bruch et al., `A stochastic treatment of learning to rank scoring functions
    <https://doi.org/10.1145/3336191.3371844>`_, 2020.
  """
  checks.positive("samples", samples)
  checks.positive("scale", scale)

  @functools.wraps(loss)
  def noisy(scores, labels, **parameters):
    scores = arithmetic.floating(checks.array("scores", scores))
    size = jnp.asarray(scale).astype(scores.dtype)

    def sample(key):
      return loss(scores + size * _gumbel(key, scores), labels, **parameters)

    return jnp.mean(jax.vmap(sample)(jax.random.split(key, samples)), axis=0)

  return noisy


def _gumbel(key: Array, like: Array) -> Array:
  draw = functools.partial(jax.random.gumbel, dtype=like.dtype)
  noise = batching.over_queries(lambda x, key: by_column(draw, key, x), like.ndim - 1)
  return noise(like, keys_of_queries(key, like))
