"""Hessians of losses by scores, weights and all numbers at once: symmetric, and differences.

The order of two derivatives does not matter, also where a weight is 0, or the probability of an
item is too small for a float.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxrank import gains, losses
from tests.derivatives import subjects
from tests.derivatives.differences import number
from tests.derivatives.test_witnesses import default
from tests.helpers.suites import quick

# Gaps between the scores of some items and others, in temperatures; exp(-1000) is 0 in float64.
GAPS = np.array([0.0, 100.0, 1000.0])
STEP = 1e-5
# The ideal of nDCG has a kink where a weight is 0, so that differences are others there.
WITH_KINKS = "approx_ndcg"


def _subject(name):
  """A function of a dictionary of arrays, and one case of it."""
  of, cases = subjects.subject(f"losses.{name}", default(f"losses.{name}"))
  return of, {p: next(iter(owners.values()))[0] for p, owners in cases.items()}


def _by_table(inputs):
  """`softmax` of labels whose gains are numbers, some of them 0."""
  scores, labels, where = inputs["scores"], subjects.LABELS, subjects.WHERE
  gain, temperature = gains.table(inputs["table"]), inputs["temperature"]
  return losses.softmax(scores, labels, where=where, gain=gain, temperature=temperature)


# The other losses under a ranking are metrics: tests/rankings/test_second_derivatives.py.
SUBJECTS = {
  name: _subject(name)
  for name in losses.__all__
  if name == WITH_KINKS or default(f"losses.{name}") is None
}
SUBJECTS["softmax of a table"] = (
  _by_table,
  {
    "scores": subjects.VALUES["scores"][0],
    "table": np.array([0.0, 2.0, 0.0, 1.5, 0.0]),
    "temperature": np.float64(1),
  },
)


def inputs_of(case):
  """The case at each gap, with zeros among the weights: arrays `[gaps, ...]`."""
  found = {p: np.stack([np.asarray(x)] * len(GAPS)) for p, x in case.items()}
  far = np.array([[0, 1, 0, 0, -1, 1, 0], [1, 0, -1, 0, 0, 0, 0], [0, 0, 0, 1, 1, -1, 0]])
  found["scores"] = subjects.distinct()[0] + GAPS[:, None, None] * far
  if "temperature" in found:
    found["temperature"] = np.ones_like(GAPS)
  if "weights" in found:
    found["weights"][..., [1, 4]] = 0
  return found


def test_an_item_without_weight_and_without_probability():
  """Its term is the weight times 100 / temperature, in float32."""
  at = jnp.array([1.0, 0.0]), jnp.float32(0.1)

  def hessian(loss):
    def of(weights, temperature):
      scores = jnp.array([100.0, 0.0])
      return loss(scores, jnp.ones(2), weights=weights, temperature=temperature)

    return jax.hessian(of, (0, 1))(*at)

  for found in jax.jit(lambda: list(map(hessian, (losses.softmax, losses.poly1))))():
    np.testing.assert_allclose(found[0][1], [0, -10000], rtol=1e-6)
    np.testing.assert_allclose(found[1][0], [0, -10000], rtol=1e-6)


@quick("name", SUBJECTS, ["softmax"])
def test_hessians_are_symmetric_and_differences_of_gradients(name):
  of, case = SUBJECTS[name]
  inputs = inputs_of(case)
  with jax.enable_x64(True):
    _, back = ravel_pytree(jax.tree.map(lambda x: jnp.asarray(x[0], jnp.float64), inputs))
    at = np.stack([ravel_pytree({p: x[i] for p, x in inputs.items()})[0] for i in range(len(GAPS))])
    slope = jax.grad(lambda x: number(of(back(x))))
    unit = np.eye(at.shape[1])
    points = at[:, None, None] + STEP * np.array([0.0, 1.0, -1.0])[:, None, None] * unit
    # One program: the gradient at a point, and its derivative along a direction.
    both = jax.vmap(lambda x, move: jax.jvp(slope, (x,), (move,)))
    moves = np.broadcast_to(unit, points.shape)
    flat = (x.reshape(-1, at.shape[1]) for x in (points, moves))
    slopes, bends = (np.asarray(x).reshape(points.shape) for x in jax.jit(both)(*flat))
  found = bends[:, 0]
  size = np.abs(found).max((1, 2), keepdims=True)
  assert np.all(np.isfinite(found))
  assert np.all(size > 1e-3)
  turned = np.swapaxes(found, 1, 2)
  wrong = np.abs(found - turned) > 1e-7 * np.abs(found) + 1e-10 * size
  assert not np.any(wrong), f"{np.argwhere(wrong)}: {found[wrong]}, {turned[wrong]}"
  if name == WITH_KINKS:
    return
  expected = (slopes[:, 1] - slopes[:, 2]) / (2 * STEP)
  np.testing.assert_allclose(found / size, expected / size, rtol=0, atol=1e-6)
