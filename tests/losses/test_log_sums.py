"""`log sum exp` over the items behind each item, or below it, against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import losses
from jaxrank._core import decays as in_parts
from jaxrank._core import platforms
from tests.helpers.suites import quick


def log_sums(z):
  """Both parts as one number."""
  return in_parts.log_sums(z).minus(0)


def expected(z, weights):
  """The logarithms, and the gradient of their weighed sum."""
  z = z.astype(np.float64)
  total = np.logaddexp.accumulate(z[::-1])[::-1]
  behind = np.tri(len(z), dtype=bool).T
  shares = np.where(behind, np.exp(np.where(behind, z - total[:, None], 0)), 0)
  return total, weights @ shares


@quick("platform", ["cpu", "gpu"], ["cpu"])
@pytest.mark.parametrize("n", [1, 2, 37, 300])
def test_values_and_gradients(platform, n):
  rng = np.random.default_rng(n)
  weights = rng.standard_normal(n).astype(np.float32)
  with platforms.forced(platform):
    value = jax.jit(log_sums)
    slope = jax.jit(jax.grad(lambda z: jnp.sum(log_sums(z) * weights)))
    for scale in (1e-3, 1.0, 30.0, 1e3):
      z = (rng.standard_normal(n) * scale).astype(np.float32)
      total, gradient = expected(z, weights)
      np.testing.assert_allclose(value(z), total, rtol=1e-6, atol=1e-6)
      # A logit that is rounded moves a share by its rounding error.
      np.testing.assert_allclose(slope(z), gradient, atol=1e-6 * max(10, n, scale))


@quick("platform", ["cpu", "gpu"], ["cpu"])
def test_the_largest_floats(platform):
  most = float(np.finfo(np.float32).max)
  z = np.float32([0, -most, most, -most, -1e38, 0, -most, -most])
  with platforms.forced(platform):
    total, slope = jax.vjp(log_sums, jnp.asarray(z))
    np.testing.assert_allclose(total, expected(z, np.ones(8))[0], rtol=1e-6)
    np.testing.assert_allclose(slope(jnp.ones(8))[0], [0, 0, 3, 0, 0, 3, 0.5, 1.5], atol=1e-6)


def of_lower(level, z, live, weights):
  """The logarithms over the items with lower levels, and the gradient of their weighed sum."""
  z = z.astype(np.float64)
  inside = live & (level[:, None] > level)
  total = np.logaddexp.reduce(np.where(inside, z, -np.inf), axis=1)
  shares = np.where(inside, np.exp(np.where(inside, z - total[:, None], 0)), 0)
  return total, weights @ shares


@quick("dtype", [np.float32, np.float64], [np.float32])
def test_sums_over_lower_levels(dtype):
  with jax.enable_x64(dtype == np.float64):
    value = jax.jit(lambda *given: in_parts.log_sums_of_lower(*given, -7.0).minus(0))
    slope = jax.jit(jax.grad(lambda z, *rest: jnp.sum(value(rest[0], z, rest[1]) * rest[2])))
    rng = np.random.default_rng(5)
    for scale in (1e-3, 1.0, 30.0, 1e3, 1e8):
      z = (rng.standard_normal(60) * scale).astype(dtype)
      level, live = rng.integers(0, 20, 60).astype(dtype), rng.random(60) < 0.8
      weights = rng.standard_normal(60).astype(dtype)
      total, gradient = of_lower(level, z, live, weights)
      found, some = value(level, z, live), total > -np.inf
      exact = 1e-6 if dtype == np.float32 else 1e-14
      np.testing.assert_array_equal(found[~some], -7)
      np.testing.assert_allclose(found[some], total[some], rtol=exact, atol=exact)
      found = slope(z, level, live, np.where(some, weights, 0))
      np.testing.assert_allclose(found, gradient, atol=10 * exact)


@pytest.mark.parametrize("n", [100, 150], ids=["pairs", "sorted"])
def test_unique_softmax_by_both_algorithms(n):
  rng = np.random.default_rng(n)
  slope = jax.jit(jax.value_and_grad(lambda s, y, w: losses.unique_softmax(s, y, where=w)))
  for scale in (1.0, 50.0, 1e4):
    z = (rng.standard_normal(n) * scale).astype(np.float32)
    y, live = np.float32(rng.choice([-1, 0, 1, 2.5, 7], n)), rng.random(n) < 0.9
    worth = np.where(live, np.maximum(y, 0), 0).astype(np.float64)
    below, _ = of_lower(np.maximum(y, 0), z, live, worth)
    chance = 1 / (1 + np.exp(np.minimum(z - below, 700)))
    expected = np.sum(worth * np.logaddexp(0, below - z))
    _, gradient = of_lower(np.maximum(y, 0), z, live, worth * chance)
    found = slope(z, y, live)
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[1], gradient - worth * chance, atol=2e-4)
