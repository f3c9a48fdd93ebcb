"""The logarithm of the sum of exponentials from each item to the end of the list.

Both the sums and their derivative are decayed sums: every factor is at most 1, so that no term
overflows. `lax.cumlogsumexp` has a slower derivative, in several times as many operations.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.decayed_sums import decayed_sums

# The items behind each one, each with the coefficient 1.
_BEHIND = np.array([0.0, 1.0]).reshape(1, 1, 2, 1)


@jax.custom_jvp
def log_sums(z: Array) -> Array:
  """`log sum_{j >= i} exp(z_j)` of finite numbers, `[n]`."""
  most = lax.cummax(z, axis=0, reverse=True)
  terms = jnp.exp(z - most)
  return most + jnp.log(_decayed(most, terms))


@log_sums.defjvp
def _log_sums_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  (z,), (dz,) = primals, tangents
  total = log_sums(z)
  return total, _decayed(total, jnp.exp(z - total) * dz)


def _decayed(descending: Array, w: Array) -> Array:
  """`sum_{j >= i} w_j exp(descending_j - descending_i)`."""
  # In quarters, which are exact, so that the largest floats are less than half of the largest.
  quarter = jnp.full_like(w, 0.25, shape=())
  return w + decayed_sums(_BEHIND, 1, (quarter * descending,), quarter, w[None])[0]
