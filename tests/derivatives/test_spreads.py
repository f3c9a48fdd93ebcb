"""Values and gradients at scores of any spread: finite, those of float64, and 0 under the mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import soft
from tests.derivatives.subjects import LABELS, WHERE, scores

SPREADS = np.array([1.0, 30.0, 100.0, 1e4, 1e30], np.float32)
OF = {
  "rank": lambda s, t: soft.rank(s, where=WHERE, ranking=t),
  "top_k": lambda s, t: soft.top_k(s, 2, where=WHERE, ranking=t),
  "ndcg": lambda s, t: jr.ndcg(s, LABELS, where=WHERE, ranking=t),
}


@pytest.mark.parametrize("kind", [jr.Laplace, jr.Logistic])
def test_scores_of_any_spread(kind):
  drawn = np.asarray(scores(ties=True, gone=True)[0], np.float32)

  def all_of(points, temperatures):
    def one(points, temperature):
      def value(function, points):
        found = function(points, kind(temperature))
        return jnp.sum(found @ (1 + jnp.arange(found.shape[-1], dtype=found.dtype))), found

      return {
        name: jax.value_and_grad(lambda p, f=f: value(f, p), has_aux=True)(points)
        for name, f in OF.items()
      }

    return jax.vmap(one)(points, temperatures)

  wide = SPREADS[:, None, None] * drawn
  points = np.concatenate([wide, np.broadcast_to(drawn, wide.shape)])
  # Temperatures below 1e-19, the root of the smallest float32, act as that number.
  small = 1 / np.minimum(SPREADS, 1e15, dtype=np.float32)
  temperatures = np.concatenate([np.ones_like(SPREADS), small])
  single = jax.jit(all_of)(points, temperatures)
  with jax.enable_x64(True):
    double = jax.jit(all_of)(points.astype(float), temperatures.astype(float))
  single, double = jax.tree.map(np.asarray, (single, double))
  for name, ((_, values), slopes) in single.items():
    (_, right), right_slopes = double[name]
    assert np.all(np.isfinite(values)), name
    assert np.all(np.isfinite(slopes)), name
    assert np.all(slopes[:, ~WHERE] == 0), name
    np.testing.assert_allclose(values, right, rtol=1e-5, atol=1e-6, err_msg=name)
    size = np.abs(right_slopes).max((1, 2), keepdims=True)
    assert np.all(np.abs(slopes - right_slopes) <= 1e-4 * np.maximum(size, 1e-30)), name
