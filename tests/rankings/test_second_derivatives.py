"""Second derivatives under every smooth ranking, against float64 differences of slopes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxrank as jr
from tests.helpers.suites import quick, thorough

SCORES = np.array([0.3, -1.2, 0.45, 2.0, 0.9, -0.4])
LABELS = np.array([0.0, 2.0, 4.0, 0.0, 1.0, 0.0])
TEMPERATURE = 0.7
METRICS = {
  "ndcg": jr.ndcg,
  "ndcg@2": functools.partial(jr.ndcg, k=2),
  "average_precision": jr.average_precision,
  "err": functools.partial(jr.err, max_label=4),
  "rbp": jr.rbp,
}
OF_USERS = {
  "alpha_dcg": jr.alpha_dcg,
  "err_ia": functools.partial(jr.err_ia, max_label=2),
  "nrbp": jr.nrbp,
  "average_precision_ia": jr.average_precision_ia,
  "subtopic_recall": functools.partial(jr.subtopic_recall, k=3),
}
RANKINGS = {kind.__name__: kind for kind in (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)}
CASES = [
  *((name, ranking) for ranking in RANKINGS for name in ("ndcg", "average_precision", "err")),
  ("ndcg@2", "Gumbel"),
  ("rbp", "Laplace"),
]
# The distributions share all but their formulas, and so do some metrics.
DAILY = [("ndcg", "Laplace"), ("err", "Laplace"), ("rbp", "Laplace"), ("ndcg@2", "Gumbel")]
LATER = [case for case in CASES if case not in DAILY]


def slope(name, ranking):
  """The gradient by the scores, followed by the derivative with respect to the temperature."""

  def value(scores, temperature):
    return METRICS[name](scores, LABELS, ranking=RANKINGS[ranking](temperature))

  def joined(x):
    by_scores, by_temperature = jax.grad(value, (0, 1))(x[:-1], x[-1])
    return jnp.append(by_scores, by_temperature)

  return jax.jit(joined)


def differences(of, x):
  """The matrix of derivatives of the slopes, from central differences."""
  steps = 1e-4 * np.eye(len(x))
  return np.stack([(of(x + step) - of(x - step)) / 2e-4 for step in steps], axis=1)


@quick(("name", "ranking"), CASES, [("rbp", "Laplace")], weekly=LATER)
def test_hessians_are_differences_of_slopes(name, ranking):
  """Forward over reverse, in float64 and in float32."""
  x = np.append(SCORES, TEMPERATURE).astype(np.float32)
  of = slope(name, ranking)
  single = jax.jit(jax.jacfwd(of))(x)
  with jax.enable_x64(True):
    wide = x.astype(np.float64)
    expected = differences(of, wide)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(jax.jit(jax.jacfwd(of))(wide), expected, atol=1e-6 * scale)
  # Slopes by the temperature are sums over all items, which nearly cancel.
  error = np.full_like(expected, 1e-4 * scale)
  error[-1], error[:, -1] = 1e-3 * scale, 1e-3 * scale
  assert np.all(np.abs(single - expected) <= error)
  assert np.all(np.abs(single - single.T) <= error)


def second(function, x):
  """Forward over reverse, along a direction, of the sum of what a function of a batch returns."""
  along = np.sin(1 + np.arange(x.size)).reshape(x.shape)
  return jax.jit(lambda x: jax.jvp(jax.grad(lambda x: jnp.sum(function(x))), (x,), (along,))[1])(x)


@pytest.mark.any_platform
@quick(("name", "ranking"), CASES, [("ndcg", "Laplace")], weekly=LATER)
def test_second_derivatives_in_a_loop_are_those_of_a_batch(name, ranking):
  """JAX forgets the rules of `jax.custom_jvp` in loops."""

  def value(x):
    return METRICS[name](x[:-1], LABELS, ranking=RANKINGS[ranking](x[-1]))

  with jax.enable_x64(True):
    x = np.append(SCORES, TEMPERATURE) + 0.1 * np.arange(2)[:, None]
    found, expected = (second(f, x) for f in (lambda x: lax.map(value, x), jax.vmap(value)))
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.any_platform
def test_what_a_loop_cannot_differentiate_twice_is_refused():
  """Mean ranks under noise: a rule that was forgotten would give a wrong number."""
  x = SCORES + 0.1 * np.arange(2)[:, None]
  with pytest.raises(NotImplementedError, match="take one derivative less"):
    second(lambda x: lax.map(lambda s: jr.soft.rank(s, ranking=jr.Gaussian(1.0))[0], x), x)


@pytest.mark.any_platform
@quick("name", OF_USERS, (), weekly=[*OF_USERS][1:])
@quick("ranking", ["Gumbel", "Gaussian"], (), weekly=["Gaussian"])
def test_second_derivatives_of_many_users(name, ranking):
  """A TPU takes one user after the other, in a loop."""
  labels = np.stack([LABELS > 0, LABELS > 1], axis=1).astype(np.float32)

  def value(scores):
    return OF_USERS[name](scores, labels, ranking=RANKINGS[ranking](1.0))

  with jax.enable_x64(True):
    expected = differences(jax.jit(jax.grad(value)), SCORES)
    found = jax.jit(jax.jacfwd(jax.grad(value)))(SCORES)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@quick(
  ("name", "ranking"),
  list(zip(METRICS, RANKINGS, strict=False)),
  (),
  weekly=LATER + [("ndcg@2", "Logistic")],
)
def test_gradients_of_gradients_are_differences_of_slopes(name, ranking):
  """Reverse over reverse, of a batch."""
  along = np.sin(1 + np.arange(len(SCORES) + 1))
  of = slope(name, ranking)
  with jax.enable_x64(True):
    x = np.append(SCORES, TEMPERATURE) + 0.1 * np.arange(2)[:, None]
    found = jax.jit(jax.grad(lambda x: jnp.sum(jax.vmap(of)(x) @ along)))(x)
    expected = np.stack([along @ differences(of, row) for row in x])
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@thorough
@pytest.mark.parametrize("ranking", ["Gumbel", "Gaussian"])
def test_third_derivatives_of_noise_are_refused(ranking):
  with pytest.raises(NotImplementedError, match="third derivatives"):
    jax.eval_shape(jax.jacfwd(jax.jacfwd(slope("ndcg", ranking))), np.append(SCORES, 1.0))
