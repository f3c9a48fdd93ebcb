"""`log sum exp` from each item to the end of the list, against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank._core import platforms
from jaxrank._core.log_sums import log_sums


def expected(z, weights):
  """The logarithms, and the gradient of their weighed sum."""
  z = z.astype(np.float64)
  total = np.logaddexp.accumulate(z[::-1])[::-1]
  behind = np.tri(len(z), dtype=bool).T
  shares = np.where(behind, np.exp(np.where(behind, z - total[:, None], 0)), 0)
  return total, weights @ shares


@pytest.mark.parametrize("platform", ["cpu", "default"])
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


@pytest.mark.parametrize("platform", ["cpu", "default"])
def test_the_largest_floats(platform):
  most = float(np.finfo(np.float32).max)
  z = np.float32([0, -most, most, -most, -1e38, 0, -most, -most])
  with platforms.forced(platform):
    total, slope = jax.vjp(log_sums, jnp.asarray(z))
    np.testing.assert_allclose(total, expected(z, np.ones(8))[0], rtol=1e-6)
    np.testing.assert_allclose(slope(jnp.ones(8))[0], [0, 0, 3, 0, 0, 3, 0.5, 1.5], atol=1e-6)
