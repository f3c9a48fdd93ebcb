"""The logarithm of the sum of exponentials from each item to the end of the list."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.decayed_sums import decayed_sums

# The items behind each one, with the coefficient 1.
_BEHIND = np.array([0.0, 1.0]).reshape(1, 1, 2, 1)


def log_sums(z: Array) -> Array:
  """`log sum_{j >= i} exp(z_j)` of finite numbers, `[n]`.

  docs/mathematics.md, "Sums over pairs". `lax.cumlogsumexp` is the same, but its derivative takes
  several times as many operations.
  """
  # The maxima cancel, and have no derivative.
  most = lax.stop_gradient(lax.cummax(z, axis=0, reverse=True))
  w = jnp.exp(z - most)
  # Quarters are exact, and keep the maxima below half of the largest float.
  quarter = jnp.full_like(most, 0.25, shape=())
  behind = decayed_sums(_BEHIND, 1, (quarter * most,), quarter, w[None])[0]
  return most + jnp.log(w + behind)
