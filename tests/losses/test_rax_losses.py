"""Agreement of the losses with rax, where it is installed and means the same.

rax averages pairs over the batch, scales lambda weights by the padded length, has NaN gradients at
-inf, and breaks ties by chance, so that it is asked for one query at a time and distinct scores.
"""

import functools
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import losses
from tests.helpers import peer_queries
from tests.helpers.suites import thorough

if importlib.util.find_spec("rax") is None:
  pytest.skip("rax is not installed (extra: peers)", allow_module_level=True)

pytestmark = thorough


QUERIES = peer_queries.draw(21, queries=60, longest=15)


def lambdas(weight, **own):
  """The mean of a pairwise loss of rax with lambda weights."""
  import rax

  weight = functools.partial(getattr(rax, f"{weight}_lambdaweight"), normalize=True, **own)
  return functools.partial(rax.pairwise_logistic_loss, lambdaweight_fn=weight)


def sum_of_pairs(loss, **own):
  """Ours, a sum over pairs, as rax scales it: by the padded length, over the number of pairs."""

  def scaled(scores, labels, *, where):
    n = scores.shape[-1]
    better = where[..., None] & where[..., None, :] & (labels[..., None] > labels[..., None, :])
    pairs = jnp.maximum(better.sum((-1, -2)), 1).astype(scores.dtype)
    return loss(scores, labels, where=where, **own) * n / pairs

  return scaled


def approx_ndcg(*lists, **own):
  """By the ranks of `rax.approx_t12n`, which itself fails on newer versions of JAX."""
  import rax

  return 1 - rax.ndcg_metric(*lists, rank_fn=rax.utils.approx_ranks, **own)


def theirs(name):
  import rax

  return {
    "softmax": rax.softmax_loss,
    "poly1": functools.partial(rax.poly1_softmax_loss, epsilon=0.5),
    "unique_softmax": functools.partial(
      rax.unique_softmax_loss, gain_fn=lambda label: jnp.exp2(label) - 1
    ),
    "pairwise_logistic": rax.pairwise_logistic_loss,
    "pairwise_hinge": rax.pairwise_hinge_loss,
    "lambdarank@5": lambdas("dcg", topn=5),
    "ndcg2": lambdas("dcg2"),
    "ndcg2@5": lambdas("dcg2", topn=5),
    "approx_ndcg": approx_ndcg,
  }[name]


burges = functools.partial(losses.lambda_ndcg, gain=jr.gains.exponential)
OURS = {
  "softmax": losses.softmax,
  "poly1": functools.partial(losses.poly1, epsilon=0.5),
  "unique_softmax": functools.partial(losses.unique_softmax, gain=jr.gains.exponential),
  "pairwise_logistic": losses.pairwise_logistic,
  "pairwise_hinge": losses.pairwise_hinge,
  "lambdarank@5": sum_of_pairs(burges, k=5),
  "ndcg2": sum_of_pairs(burges, scheme="ndcg2"),
  "ndcg2@5": sum_of_pairs(burges, scheme="ndcg2", k=5),
  "approx_ndcg": functools.partial(
    losses.approx_ndcg, gain=jr.gains.exponential, ranking=jr.Logistic(1.0)
  ),
}


@pytest.mark.parametrize("name", OURS)
def test_values_and_gradients_agree_with_rax(name):
  scores, labels = (
    np.where(QUERIES.where, QUERIES.scores, 0),
    np.where(QUERIES.where, QUERIES.labels, 0),
  )
  relevant = (labels > 0).any(-1)
  lists = scores[relevant], labels[relevant], QUERIES.where[relevant]

  def slopes(loss):
    total = lambda scores, labels, where: jnp.sum(loss(scores, labels, where))  # noqa: E731
    return jax.jit(jax.value_and_grad(total))

  ours = slopes(lambda *x: OURS[name](*x[:2], where=x[2]))(*lists)
  # It relies on promotions that our tests forbid.
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    one = lambda s, y, w: theirs(name)(s, y, where=w, reduce_fn=jnp.mean)  # noqa: E731
    other = slopes(jax.vmap(one))(*lists)
  np.testing.assert_allclose(ours[0], other[0], rtol=1e-5)
  np.testing.assert_allclose(ours[1], other[1], rtol=1e-4, atol=1e-5)
