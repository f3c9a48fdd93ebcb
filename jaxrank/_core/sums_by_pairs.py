"""Decayed sums of short lists: over all pairs of items."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._core.decays import Place, near, polynomial
from jaxrank._core.sorting import slots


def by_pairs(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The polynomial of each pair `[..., i, j]`, weighed and summed over `j`."""
  score, *group = place
  rise = jnp.abs(score[..., None] - score[..., None, :])
  groups = [x[..., None] for x in group], [x[..., None, :] for x in group]
  x = near([rise, *groups[0]], [jnp.zeros_like(rise), *groups[1]], temperature[..., None, None])
  j = slots(rise)
  i = jnp.swapaxes(j, -1, -2)

  def weighed(sides: np.ndarray, w: Array) -> Array:
    c = [jnp.where(j < i, above, below).astype(w.dtype) for above, below in sides.T]
    return jnp.where(i != j, polynomial(c, x), 0) * w[..., None, :]

  return jnp.stack(
    [
      sum(jnp.sum(weighed(c, w), axis=-1) for c, w in zip(output, w, strict=True))
      for output in coefficients
    ]
  )
