"""Shares of a number of items, rounded up: hits that make a recall, and ranks of R-precision."""

import decimal
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

Level: TypeAlias = ArrayLike | decimal.Decimal

# A tolerance for rounding, in units of the last place and in items: 0.3 times 10 may exceed 3.
_ROUNDINGS, _LEAST = 4, 0.05


def share_of(level: Level, count: Array, most: int, *, nearest: bool = False) -> Array:
  """`ceil(level * count)`, or with `nearest` `floor(level * count + 0.5)`, for up to `most` items.

  For a `decimal.Decimal` it is computed in the float64 of trec_eval, and is
  `floor(level * count + 0.9)` unless `nearest`, whose rounding makes it 17 for 0.3 of 57. These
  numbers are a table of the program.
  """
  if isinstance(level, decimal.Decimal):
    table = np.floor(float(level) * np.arange(most + 1.0) + (0.5 if nearest else 0.9))
    shares: Array = jnp.asarray(table, count.dtype)[count.astype(jnp.int32)]
    return shares
  share = jnp.asarray(level).astype(count.dtype) * count
  if nearest:
    return jnp.floor(share + 0.5)
  slack = jnp.minimum(_ROUNDINGS * jnp.finfo(count.dtype).eps * share, _LEAST)
  return jnp.ceil(share - slack)
