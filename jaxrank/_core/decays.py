"""Decays with the distance of scores, and polynomials in them: what the sums of both platforms use.

Batches have their axes before the last one, which is that of the items.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# At this many temperatures exp(-z) is 0 in float64.
_FAR = 1000.0

# Scores, and the numbers of their groups if there are groups.
Place = Sequence[Array]


def distance(upper: Array, lower: Array, temperature: Array, limit: float = _FAR) -> Array:
  """`(upper - lower) / temperature`, at most `limit`; the gradient at the limit is 0."""
  return jnp.minimum(upper - lower, limit * temperature) / temperature


def near(upper: Place, lower: Place, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` for scores at a distance of `z` temperatures; 0 if their groups differ."""
  (upper_score, *group), (lower_score, *other) = upper, lower
  if not group:
    return jnp.exp(-power * distance(upper_score, lower_score, temperature))
  same = group[0] == other[0]
  lower_score = jnp.where(same, lower_score, upper_score)
  return jnp.where(same, jnp.exp(-power * distance(upper_score, lower_score, temperature)), 0)


def polynomial(coefficients: Sequence[Array] | Array, x: Array) -> Array:
  """`sum_p c_p x ** p`, p = 1, 2, ..."""
  value = jnp.zeros_like(x)
  for c in coefficients[::-1]:
    value = (value + c) * x
  return value


def one_side(coefficients: np.ndarray, side: int) -> tuple[np.ndarray, bool]:
  """The coefficients of one side, `[inputs or outputs, powers]`, up to the last power in use.

  Also whether they belong to inputs, so that the sums are of the weighed inputs.
  """
  first = coefficients.shape[1] > 1
  c = coefficients[0, :, side] if first else coefficients[:, 0, side]
  used = np.flatnonzero(np.any(c != 0, axis=0))
  return c[:, : used[-1] + 1 if used.size else 0], first


def leading(c: np.ndarray, like: Array) -> np.ndarray:
  """Numbers along leading axes, of length 1 along those of an array."""
  return c.astype(like.dtype).reshape(c.shape + (1,) * like.ndim)


def shift(x: Array, by: int, fill: float = 0.0) -> Array:
  """Moves items `by` places down the list, or up if `by` is negative."""
  none = ((0, 0, 0),) * (x.ndim - 1)
  return lax.pad(x, np.array(fill, x.dtype), (*none, (by, -by, 0)))


def neighbours(place: Place, by: int) -> list[Array]:
  """The places `by` items above, or below if `by` is negative.

  Past the ends of the list they are far away, but finite, so that no difference is undefined.
  """
  score, *group = place
  beyond = math.copysign(float(jnp.finfo(score.dtype).max) / 2, by)
  return [shift(score, by, beyond), *(shift(x, by, -1) for x in group)]


def decay(place: Place, other: Place, by: int, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` to a place above, or below if `by` is negative."""
  upper, lower = (other, place) if by > 0 else (place, other)
  return near(upper, lower, temperature, power)
