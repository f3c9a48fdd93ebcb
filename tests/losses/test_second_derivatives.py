"""Second derivatives of the losses at ties."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import losses, plackett_luce
from jaxrank.interop import rax
from tests.helpers.suites import quick
from tests.helpers.together import apart

TIED = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 2.0])
LABELS = np.array([2.0, 0.0, 1.0, 3.0, 0.5, 1.0])
TEACHER = np.array([1.0, -2.0, 0.0, 0.25, 3.0, 9.0])
# Those whose second derivatives are not the changes of their gradients: at a kink, or because the
# gradient treats ranks as constants.
KINKED = {"pairwise_hinge", "smooth_ap"}
KINKED |= {"lambda_rank"}
KINKED |= {x for x in losses.__all__ if "derivatives" in getattr(getattr(losses, x), "departs", {})}
OTHERS = {"neural_sort", "soft_sort", "perturbed"}
# Losses under a ranking are metrics: tests/rankings/test_second_derivatives.py.
LOSSES = {
  name: getattr(losses, name)
  for name in losses.__all__
  if name not in OTHERS and not name.startswith(("softrank_", "approx_"))
}
# One of the lists of rax, of single items and of pairs; `test_spread.py` has the slopes of all.
RAX = ("softmax_loss", "pointwise_sigmoid_loss", "pairwise_mse_loss")
LOSSES |= {name: getattr(rax, name) for name in RAX}
LOSSES = {name: loss for name, loss in LOSSES.items() if name not in KINKED}
QUICK = ("softmax", "list_mle", "pairwise_logistic", "lambda_ndcg", "kl", "softmax_loss")
LOSSES["log_prob"] = lambda scores, labels: plackett_luce.log_prob(scores, jnp.argsort(-labels))


def curvature(loss, scores):
  """The Hessian of a loss at some scores, and differences of its gradients."""
  takes = inspect.signature(loss).parameters
  given = {"teacher": jnp.asarray(TEACHER)} if "teacher" in takes else {}
  lists = [jnp.asarray(LABELS)] if "labels" in takes else []
  slope = jax.grad(lambda scores: loss(scores, *lists, **given))
  steps = 1e-5 * jnp.eye(len(TIED))
  above, below = (jax.vmap(slope)(scores[None] + by) for by in (steps, -steps))
  return jax.jacfwd(slope)(scores), (above - below) / 2e-5


curvatures = apart(
  {name: functools.partial(curvature, loss) for name, loss in LOSSES.items()}, QUICK
)


@quick("name", LOSSES, QUICK)
def test_second_derivatives_are_differences_of_gradients(name):
  with jax.enable_x64(True):
    found, expected = curvatures(name, TIED)
  assert np.max(np.abs(expected)) > 1e-3
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.max(np.abs(expected)))


@pytest.mark.parametrize(
  ("loss", "change"),
  [
    (losses.pairwise_logistic, 1),
    (rax.pairwise_logistic_loss, 1),
    # nDCG drops by this much if the better of two tied items goes from rank 1 to rank 2.
    (losses.lambda_rank, 1 - 1 / np.log2(3)),
    (losses.lambda_ndcg, 1 - 1 / np.log2(3)),
  ],
)
def test_a_tied_pair_has_the_derivatives_of_the_logistic_loss(loss, change):
  # The better item stands first, or last.
  labels = np.eye(2, dtype=np.float32)
  both = jax.vmap(lambda y: (jax.grad(loss)(jnp.zeros(2), y), jax.hessian(loss)(jnp.zeros(2), y)))
  slopes, hessians = jax.jit(both)(labels)
  np.testing.assert_allclose(slopes, change * (0.5 - labels), rtol=1e-6)
  expected = 0.25 * change * np.array([[1, -1], [-1, 1]])
  np.testing.assert_allclose(hessians, [expected, expected], rtol=1e-6)
