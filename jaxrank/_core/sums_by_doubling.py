"""Decayed sums on accelerators, which start each step of a loop separately.

Each step doubles the reach of every sum. docs/mathematics.md, "Sums over pairs", derives it.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.decays import Place, decay, leading, neighbours, one_side, shift


class Schedule(NamedTuple):
  """In which parts the powers of a sum are added up.

  Attributes:
    at_once: The most powers that are summed side by side: more of them start fewer steps, and take
      more memory. The default is enough for a series of float32.
    stored: Whether the sums and their slopes are stored, which starts more steps, and takes less
      memory.
  """

  at_once: int = 12
  stored: bool = False


def by_doubling(
  coefficients: np.ndarray, schedule: Schedule, place: Place, temperature: Array, w: Array
) -> Array:
  """Sums over the nearest item, the nearest two, the nearest four, and so on, for all powers."""
  total, at_once = None, schedule.at_once
  place, temperature = [x[None] for x in place], temperature[None, ..., None]
  for side, sign in enumerate((1, -1)):
    every, first = one_side(coefficients, side)
    for start in range(0, every.shape[1], at_once):
      c = every[:, start : start + at_once]
      if total is not None and every.shape[1] > 2:
        # One after the other, so that the sums of both are not in memory at once.
        total, w = lax.optimization_barrier((total, w))
      powers = leading(np.arange(start + 1, start + 1 + c.shape[1]), w[0])

      def moved(x: Array, by: int, powers: np.ndarray = powers) -> Array:
        return decay(place, neighbours(place, by), by, temperature, powers) * shift(x, by)

      weights = leading(c, w[0])
      sums = moved(jnp.sum(weights * w[:, None], axis=0) if first else w, sign)
      reach = 1
      while reach < w.shape[-1] - 1:
        sums += moved(sums, sign * reach)
        reach *= 2
      found = sums[None] if first else weights * sums[None]
      total = jnp.sum(found, axis=1) + (0 if total is None else total)
  if total is None:
    return jnp.zeros((coefficients.shape[0], *w.shape[1:]), w.dtype)
  # Otherwise XLA repeats the last steps in each program that uses the sums, and keeps their inputs.
  return jnp.stack(lax.optimization_barrier(list(total))) if schedule.stored else total
