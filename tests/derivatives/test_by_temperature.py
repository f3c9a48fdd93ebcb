"""Derivatives of losses by the temperature at masks, infinite scores and infinite temperatures."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank import losses
from tests.helpers.suites import quick

SCORES = jnp.array([2.0, 0.0, 1.0, 5.0])
LABELS = jnp.array([1, 0, 0, 1])
TEACHER = jnp.array([1.0, -2.0, 0.0, 3.0])


def by_labels(loss):
  return lambda scores, temperature, where=None: loss(
    scores, LABELS, where=where, temperature=temperature
  )


def from_teacher(scores, temperature, where=None):
  return losses.kl(scores, teacher=TEACHER, where=where, temperature=temperature)


def of_teacher(scores, temperature, where=None):
  return losses.kl(SCORES, teacher=scores, where=where, temperature=temperature)


LOSSES = {
  "kl": from_teacher,
  "kl, teacher": of_teacher,
  **{
    name: by_labels(getattr(losses, name))
    for name in ("softmax", "poly1", "xe_ndcg", "sampled_softmax", "unique_softmax", "list_mle")
  },
}


@quick("name", LOSSES, ["softmax"])
def test_second_derivatives_agree_beside_lost_items(name):
  def two_ways(scores, where):
    def of(scores, temperature):
      return LOSSES[name](scores, temperature, where)

    slope = jax.grad(of, 1)
    by_score = jax.grad(slope)(scores, 0.5)
    by_score = jnp.where(where & jnp.isfinite(scores), by_score, jnp.inf)
    backwards = jnp.append(by_score, jax.grad(slope, 1)(scores, 0.5))
    forwards = jax.jacfwd(jax.grad(of), 1)(scores, 0.5)
    forwards = jnp.where(where & jnp.isfinite(scores), forwards, jnp.inf)
    return backwards, jnp.append(forwards, jax.jacfwd(slope, 1)(scores, 0.5))

  masks = jnp.array([[True, True, True, False], [True, True, True, True]])
  scores = jnp.stack([SCORES, SCORES.at[3].set(-jnp.inf)])
  backwards, forwards = jax.jit(jax.vmap(two_ways))(scores, masks)
  np.testing.assert_allclose(backwards, forwards, rtol=1e-4, atol=1e-5)
  assert np.all(np.isfinite(backwards[:, [0, 1, 2, 4]]))


@quick("name", LOSSES, [*LOSSES][:3])
def test_infinite_scores_have_finite_derivatives(name):
  infinite = [SCORES.at[i].set(x) for i in range(4) for x in (jnp.inf, -jnp.inf)]
  infinite.append(infinite[0].at[3].set(jnp.inf))
  slopes = jax.jit(jax.vmap(jax.grad(LOSSES[name], (0, 1)), (0, None)))
  for temperature in (0.5, 3.0):
    for slope in slopes(jnp.stack(infinite), temperature):
      assert np.all(np.isfinite(slope))


@quick("name", LOSSES, [*LOSSES][:3])
def test_infinite_temperatures_have_finite_values_and_derivatives(name):
  value, slope = jax.jit(jax.value_and_grad(LOSSES[name], (0, 1)))(SCORES, jnp.inf)
  assert np.isfinite(value)
  assert all(np.all(np.isfinite(x)) for x in slope)


def test_second_derivatives_by_reverse_are_finite_beside_an_infinite_score():
  for loss in (losses.softmax, losses.poly1, losses.xe_ndcg):
    of = by_labels(loss)
    for item in range(4):
      scores = SCORES.at[item].set(jnp.inf)
      assert np.isfinite(jax.grad(jax.grad(of, 1), 1)(scores, 0.5))


def test_kl_tends_to_half_the_variance_of_the_difference():
  value = losses.kl(SCORES, teacher=TEACHER, temperature=30.0)
  np.testing.assert_allclose(value, np.var(SCORES - TEACHER) / 2, rtol=0.01)
