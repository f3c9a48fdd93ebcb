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
  "ndcg": (jr.ndcg, {}),
  "ndcg@2": (jr.ndcg, {"k": 2}),
  "average_precision": (jr.average_precision, {}),
  "err": (jr.err, {"max_label": 4}),
  "rbp": (jr.rbp, {}),
}
OF_USERS = [
  jr.Measure(jr.alpha_dcg),
  jr.Measure(jr.err_ia, max_label=2),
  jr.Measure(jr.nrbp),
  jr.Measure(jr.average_precision_ia),
  jr.Measure(jr.subtopic_recall, k=3),
]
RANKINGS = {kind.__name__: kind for kind in (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)}
SOME = ("ndcg", "average_precision", "err")
CHEAP = ("Laplace", ("rbp",))
# The metrics of a ranking share a program. Logistic shares all but the series with Laplace, and
# Gaussian all but the chances with Gumbel.
CASES = [("Laplace", SOME), ("Gumbel", (*SOME, "ndcg@2"))]
TWINS = [("Logistic", SOME), ("Gaussian", SOME)]


def values(names, ranking):
  """The values of some metrics, as a function of scores that the temperature follows."""
  measures = [jr.Measure(METRICS[x][0], name=x, **METRICS[x][1]) for x in names]

  def of(x):
    found = jr.evaluate(measures, x[:-1], LABELS, ranking=RANKINGS[ranking](x[-1]))
    return jnp.stack([*found.values()])

  return of


def with_differences(of, x):
  """Derivatives of a function along the axes of `x`, in the last axis, and central differences."""
  steps = 1e-4 * jnp.eye(x.size, dtype=x.dtype)
  above, below = (jax.vmap(of, out_axes=-1)(x[None] + by) for by in (steps, -steps))
  return jax.jacfwd(of)(x), (above - below) / 2e-4


@quick(("ranking", "names"), [CHEAP, *CASES, *TWINS], [CHEAP])
def test_hessians_are_differences_of_slopes(names, ranking):
  """Forward over reverse, in float64 and in float32."""
  x = np.append(SCORES, TEMPERATURE).astype(np.float32)
  slopes = jax.jacrev(values(names, ranking))
  singles = jax.jit(jax.jacfwd(slopes))(x)
  with jax.enable_x64(True):
    program = jax.jit(functools.partial(with_differences, slopes))
    wide, differences = map(np.asarray, program(x.astype(np.float64)))
  for name, single, found, expected in zip(names, singles, wide, differences, strict=True):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-6 * scale, err_msg=name)
    # Slopes by the temperature are sums over all items, which nearly cancel.
    error = np.full_like(expected, 1e-4 * scale)
    error[-1], error[:, -1] = 1e-3 * scale, 1e-3 * scale
    assert np.all(np.abs(single - expected) <= error), name
    assert np.all(np.abs(single - single.T) <= error), name


def second(function, x):
  """Forward over reverse, along a direction, of the sums over a batch."""
  along = np.sin(1 + np.arange(x.size)).reshape(x.shape)
  return jax.jvp(jax.jacrev(lambda x: jnp.sum(function(x), 0)), (x,), (along,))[1]


@pytest.mark.any_platform
@quick(("ranking", "names"), [("Laplace", ("ndcg",)), *CASES], [("Laplace", ("ndcg",))])
def test_second_derivatives_in_a_loop_are_those_of_a_batch(names, ranking):
  """JAX forgets the rules of `jax.custom_jvp` in loops."""
  value = values(names, ranking)
  ways = (lambda x: lax.map(value, x)), jax.vmap(value)
  with jax.enable_x64(True):
    x = np.append(SCORES, TEMPERATURE) + 0.1 * np.arange(2)[:, None]
    for name, found, expected in zip(
      names, *jax.jit(lambda x: [second(way, x) for way in ways])(x), strict=True
    ):
      np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max(), err_msg=name)


@pytest.mark.any_platform
def test_what_a_loop_cannot_differentiate_twice_is_refused():
  """Mean ranks under noise: a rule that was forgotten would give a wrong number."""
  x = SCORES + 0.1 * np.arange(2)[:, None]
  with pytest.raises(NotImplementedError, match="take one derivative less"):
    jax.eval_shape(
      lambda x: second(
        lambda x: lax.map(lambda s: jr.soft.rank(s, ranking=jr.Gaussian(1.0))[:1], x), x
      ),
      x,
    )


@pytest.mark.any_platform
@thorough
def test_second_derivatives_of_many_users():
  """A TPU takes one user after the other, in a loop."""
  labels = np.stack([LABELS > 0, LABELS > 1], axis=1).astype(np.float32)

  def value(scores):
    found = jr.evaluate(OF_USERS, scores, labels, ranking=jr.Gumbel(1.0))
    return jnp.stack([*found.values()])

  with jax.enable_x64(True):
    found = jax.jit(functools.partial(with_differences, jax.jacrev(value)))(SCORES)
  for measure, one, expected in zip(OF_USERS, *found, strict=True):
    np.testing.assert_allclose(
      one, expected, atol=1e-6 * np.abs(expected).max(), err_msg=measure.description.name
    )


@thorough
@pytest.mark.parametrize(("ranking", "names"), CASES)
def test_gradients_of_gradients_are_differences_of_slopes(names, ranking):
  """Reverse over reverse, of a batch."""
  along = np.sin(1 + np.arange(len(SCORES) + 1))
  slopes = jax.jacrev(values(names, ranking))

  @jax.jit
  def program(x):
    reverse = jax.jacrev(lambda x: jnp.sum(jax.vmap(slopes)(x) @ along, 0))(x)
    steps = 1e-4 * jnp.eye(x.shape[1])
    above, below = (
      jax.vmap(jax.vmap(slopes))(x[:, None] + by[None]) @ along for by in (steps, -steps)
    )
    return reverse, jnp.moveaxis((above - below) / 2e-4, -1, 0)

  with jax.enable_x64(True):
    x = np.append(SCORES, TEMPERATURE) + 0.1 * np.arange(2)[:, None]
    for name, found, expected in zip(names, *program(x), strict=True):
      np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max(), err_msg=name)


@thorough
@pytest.mark.parametrize("ranking", ["Gumbel", "Gaussian"])
def test_third_derivatives_of_noise_are_refused(ranking):
  with pytest.raises(NotImplementedError, match="third derivatives"):
    jax.eval_shape(
      jax.jacfwd(jax.jacfwd(jax.jacrev(values(["ndcg"], ranking)))), np.append(SCORES, 1.0)
    )
