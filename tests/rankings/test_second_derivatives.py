"""Second derivatives under every smooth ranking, against float64 differences of slopes."""

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
  "ndcg": (jr.ndcg, {}),
  "average_precision": (jr.average_precision, {}),
  "err": (jr.err, {"max_label": 4}),
  "err@2": (jr.err, {"max_label": 4, "k": 2}),
  "rbp": (jr.rbp, {}),
}
OF_USERS = [jr.Measure(jr.alpha_dcg), jr.Measure(jr.average_precision_ia)]
RANKINGS = {kind.__name__: kind for kind in (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)}
CHEAP = ("Laplace", ("rbp",))
# The metrics of a ranking share a program. Those of Gumbel reach both integrands, stops and marks.
CASES = [
  ("Laplace", ("ndcg", "average_precision", "err")),
  ("Gumbel", ("average_precision", "err@2")),
]
# Logistic shares all but the series with Laplace, and Gaussian all but the chances with Gumbel.
TWINS = [("Logistic", ("err",)), ("Gaussian", ("ndcg",))]


def values(names, ranking):
  """The values of some metrics, as a function of scores that the temperature follows."""
  measures = [jr.Measure(METRICS[x][0], name=x, **METRICS[x][1]) for x in names]

  def of(x):
    found = jr.evaluate(measures, x[:-1], LABELS, ranking=RANKINGS[ranking](x[-1]))
    return jnp.stack([*found.values()])

  return of


def differences(of, x):
  """Central differences of a function along the axes of `x`, in the last axis."""
  steps = 1e-4 * jnp.eye(x.size, dtype=x.dtype)
  near = jax.vmap(of, out_axes=-1)(x[None] + jnp.concatenate([steps, -steps]))
  return (near[..., : x.size] - near[..., x.size :]) / 2e-4


@quick(("ranking", "names"), [CHEAP, *CASES], [CHEAP])
def test_second_derivatives_are_differences_of_slopes(names, ranking):
  """In float32 forward over reverse, and in float64 reverse over reverse.

  JAX forgets the rules of `jax.custom_jvp` in the second derivatives of loops, so that those of a
  loop over queries are taken as well, forward over reverse in float64.
  """
  value = values(names, ranking)
  slopes, along = jax.jacrev(value), np.sin(1 + np.arange(len(SCORES) + 1))
  x = np.append(SCORES, TEMPERATURE)
  singles = np.asarray(jax.jit(jax.jacfwd(slopes))(x.astype(np.float32)))

  @jax.jit
  def program(x):
    reverse = jax.jacrev(lambda x: slopes(x) @ along)(x)
    in_loop = jax.jacrev(lambda x: jnp.mean(lax.map(value, jnp.stack([x, x])), 0))
    return differences(slopes, x), reverse, jax.jvp(in_loop, (x,), (along,))[1]

  with jax.enable_x64(True):
    wide = map(np.asarray, program(x))
  for name, single, expected, *both in zip(names, singles, *wide, strict=True):
    scale = np.abs(expected).max()
    for found in both:
      np.testing.assert_allclose(found, expected @ along, atol=1e-6 * scale, err_msg=name)
    # Slopes by the temperature are sums over all items, which nearly cancel.
    error = np.full_like(expected, 1e-4 * scale)
    error[-1], error[:, -1] = 1e-3 * scale, 1e-3 * scale
    assert np.all(np.abs(single - expected) <= error), name
    assert np.all(np.abs(single - single.T) <= error), name


@thorough
@pytest.mark.parametrize(("ranking", "names"), TWINS)
def test_second_derivatives_of_twins(names, ranking):
  """Forward over reverse, in float64."""
  slopes = jax.jacrev(values(names, ranking))
  with jax.enable_x64(True):
    program = jax.jit(lambda x: (jax.jacfwd(slopes)(x), differences(slopes, x)))
    found, expected = map(np.asarray, program(np.append(SCORES, TEMPERATURE)))
  np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.any_platform
def test_what_a_loop_cannot_differentiate_twice_is_refused():
  """Mean ranks under noise: a rule that was forgotten would give a wrong number."""

  def first_ranks(x):
    return jnp.sum(lax.map(lambda s: jr.soft.rank(s, ranking=jr.Gaussian(1.0))[0], x))

  x = SCORES + 0.1 * np.arange(2)[:, None]
  with pytest.raises(NotImplementedError, match="take one derivative less"):
    jax.eval_shape(lambda x: jax.jvp(jax.grad(first_ranks), (x,), (x,))[1], x)


@pytest.mark.any_platform
@thorough
def test_second_derivatives_of_many_users():
  """A TPU takes one user after the other, in a loop."""
  labels = np.stack([LABELS > 0, LABELS > 1], axis=1).astype(np.float32)

  def value(scores):
    found = jr.evaluate(OF_USERS, scores, labels, ranking=jr.Gumbel(1.0))
    return jnp.stack([*found.values()])

  slopes = jax.jacrev(value)
  with jax.enable_x64(True):
    program = jax.jit(lambda x: (jax.jacfwd(slopes)(x), differences(slopes, x)))
    every = map(np.asarray, program(SCORES))
  for measure, found, expected in zip(OF_USERS, *every, strict=True):
    np.testing.assert_allclose(
      found, expected, atol=1e-6 * np.abs(expected).max(), err_msg=measure.description.name
    )


@thorough
@pytest.mark.parametrize("ranking", ["Gumbel", "Gaussian"])
def test_third_derivatives_of_noise_are_refused(ranking):
  with pytest.raises(NotImplementedError, match="third derivatives"):
    jax.eval_shape(
      jax.jacfwd(jax.jacfwd(jax.jacrev(values(["ndcg"], ranking)))), np.append(SCORES, 1.0)
    )
