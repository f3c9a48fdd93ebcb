"""Logistic against the sum over all pairs, and its kernel against the functions it stands for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import decays, platforms
from tests.helpers.suites import quick, thorough


def all_pairs(scores, labels, where, temperature):
  """ApproxNDCG by a table of all pairs."""
  scores = jnp.where(where, scores, 0)
  rise = (scores[None] - scores[:, None]) / temperature
  valid = where[None] & ~jnp.eye(scores.size, dtype=bool)
  rank = 1 + jnp.sum(jnp.where(valid, jax.nn.sigmoid(rise), 0), axis=1)
  gain = jnp.where(where, jnp.exp2(labels) - 1, 0)
  ideal = jnp.sort(gain)[::-1] / jnp.log2(2 + jnp.arange(scores.size, dtype=scores.dtype))
  return jnp.sum(gain / jnp.log2(1 + rank)) / jnp.sum(ideal)


direct = jax.vmap(all_pairs, in_axes=(0, 0, 0, None))


def drawn(n, dtype):
  rng = np.random.default_rng(n)
  scores = rng.standard_normal((3, n))
  scores[1] = np.round(scores[1])
  where = rng.random((3, n)) < 0.9
  scores = np.where(where, scores, np.nan)
  return scores.astype(dtype), rng.integers(0, 5, (3, n)).astype(dtype), where


@functools.partial(jax.jit, static_argnums=0)
def value_and_slopes(metric, scores, labels, where, temperature):
  total = lambda *args: jnp.sum(metric(*args))  # noqa: E731
  return jax.value_and_grad(total, argnums=(0, 3))(scores, labels, where, temperature)


def smooth(scores, labels, where, temperature):
  ranking = jr.Logistic(temperature)
  return jr.ndcg(scores, labels, where=where, gain=jr.gains.exponential, ranking=ranking)


@quick(
  ("n", "dtype", "rtol"),
  [(9, "float64", 1e-10), (1000, "float32", 1e-5)],
  [(9, "float64", 1e-10)],
)
def test_logistic_is_the_sum_over_all_pairs(n, dtype, rtol):
  lists = drawn(n, dtype)
  for temperature in (1e-3, 0.1, 1.0, 30.0):
    with jax.enable_x64(True):
      wide = *(x.astype(np.float64) if x.dtype != bool else x for x in lists), temperature
      exact = jax.tree.map(np.asarray, value_and_slopes(direct, *wide))
    expected, (slope, by_temperature) = exact
    with jax.enable_x64(dtype == "float64"):
      ours = value_and_slopes(smooth, *lists, np.asarray(temperature, dtype))
    value, slopes = jax.tree.map(np.asarray, ours)
    np.testing.assert_allclose(value, expected, rtol=rtol)
    scale = np.abs(np.nan_to_num(slope)).max() + 1e-30
    np.testing.assert_allclose(slopes[0] / scale, slope / scale, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(slopes[1], by_temperature, rtol=10 * rtol, atol=rtol)


METRICS = {
  "ndcg": jr.Measure(jr.ndcg, name="ndcg"),
  "err@20": jr.Measure(jr.err, name="err@20", max_label=3, k=20),
  "average_precision": jr.Measure(jr.average_precision, name="average_precision"),
}


@quick(
  ("kind", "names"),
  [(jr.Laplace, ["ndcg"]), (jr.Laplace, ["err@20", "average_precision"]), (jr.Logistic, ["ndcg"])],
  [(jr.Laplace, ["ndcg"])],
)
def test_platforms_agree(kind, names):
  """Values and gradients of the algorithms of CPUs and of accelerators, on ties and padding."""
  lists = drawn(300, "float32")
  lists[0][2, :40] = -np.inf

  measures = [METRICS[name] for name in names]

  def totals(scores, labels, where, temperature):
    values = jr.evaluate(measures, scores, labels, where=where, ranking=kind(temperature))
    return jax.tree.map(jnp.sum, values), values

  both = jax.jacrev(totals, argnums=(0, 3), has_aux=True)
  found = {}
  for platform in ("cpu", "gpu"):
    with platforms.forced(platform):
      slopes, values = jax.jit(both)(*lists, np.float32(0.3))
    found[platform] = {name: (values[name], *slopes[name]) for name in names}
  # The slope by the temperature is a sum over all items, which nearly cancels. Those of AP have the
  # rounding errors of sums of products, in the algorithms of all platforms. The terms of the
  # logistic series alternate in sign.
  slope = 2e-6 if kind is jr.Logistic else 1e-6
  for name in names:
    errors = (1e-6, 1e-5, 2e-4) if name == "average_precision" else (1e-6, slope, 5e-6)
    for one, other, error in zip(found["cpu"][name], found["gpu"][name], errors, strict=True):
      np.testing.assert_allclose(
        one, other, rtol=error, atol=error * np.abs(one).max(), err_msg=name
      )


def test_expected_positions_add_up_and_agree_with_gumbel():
  scores = -np.sort(np.float32(np.random.default_rng(0).standard_normal(50)))
  rank = jr.metric(lambda ranked: 1 + ranked.before(ranked.where))
  expected = 1 / (1 + np.exp((scores[:, None] - scores) / np.float32(0.7)))
  expected = np.sum(expected, axis=1) + 0.5
  for ranking in (jr.Logistic(0.7), jr.Gumbel(0.7)):
    found = rank(scores, np.ones_like(scores), ranking=ranking)
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    np.testing.assert_allclose(jnp.sum(found), 50 * 51 / 2, rtol=1e-6)


@pytest.mark.parametrize(
  ("dtype", "error", "of_slope"), [("float32", 3e-8, 3e-7), ("float64", 2e-14, 3e-13)]
)
def test_kernels_are_what_they_say(dtype, error, of_slope):
  x = np.exp(-np.linspace(0, 40, 4001))
  one = 1 + x
  logistic = {
    "tail": (x / one, x / one**2),
    "log_ahead": (-np.log1p(x), -x / one),
    "log_behind": (-np.log1p(x), -x / one),
  }
  laplace = {
    "tail": (x / 2, x / 2),
    "log_ahead": (0 * x, 0 * x),
    "log_behind": (np.log1p(-x / 2), -x / (2 - x)),
  }
  for kernel, functions in ((decays.logistic, logistic), (decays.laplace, laplace)):
    series = kernel(dtype)
    limit = np.log(functions["tail"][0][-1]) + 40
    np.testing.assert_allclose(series.log_scale, limit, rtol=0, atol=1e-14)
    for name, (value, slope) in functions.items():
      found = np.polynomial.Polynomial([0, *getattr(series, name)])
      np.testing.assert_allclose(found(x), value, rtol=0, atol=error)
      np.testing.assert_allclose(x * found.deriv()(x), slope, rtol=0, atol=of_slope)


@thorough
def test_second_derivatives_of_logistic():
  scores = np.array([0.3, -0.2, 0.3, 1.0, 0.9])
  labels = np.array([1.0, 0, 2, 0, 1])
  with jax.enable_x64(True):
    where = jnp.ones(5, bool)
    curve = lambda f: jax.jit(jax.hessian(f))(scores, labels, where, 0.4)  # noqa: E731
    np.testing.assert_allclose(curve(smooth), curve(all_pairs), rtol=1e-8, atol=1e-8)


@thorough
def test_gradients_under_three_vmaps_of_a_batch():
  """As a sweep over three numbers takes them: jax 0.10 crashed on arrays of seven axes."""
  rng = np.random.default_rng(0)
  scores = jnp.asarray(rng.standard_normal((2, 3, 2, 2, 20)).astype(np.float32))
  labels = jnp.asarray(rng.integers(0, 3, (2, 20)).astype(np.float32))
  slope = jax.grad(lambda scores: jr.ndcg(scores, labels, ranking=jr.Logistic(0.5)).sum())
  flat = jax.vmap(slope)(scores.reshape(-1, 2, 20)).reshape(scores.shape)
  nested = jax.jit(jax.vmap(jax.vmap(jax.vmap(slope))))(scores)
  np.testing.assert_allclose(nested, flat, rtol=1e-5, atol=1e-6)
