"""Discounts: what a rank is worth.

A discount is a callable on 1-based ranks, which may be real numbers (a smooth ranking asks for
them). Cut-offs are the argument `k` of the metrics, never part of a discount.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._typing import Discount


def logarithmic(rank: Array) -> Array:
  """`1 / log2(1 + r)` (Jarvelin and Kekalainen, 2002).

  >>> print(logarithmic(jnp.array([1.0, 3.0, 7.0])))
  [1.         0.5        0.33333334]
  """
  return math.log(2.0) / jnp.log1p(rank)


def reciprocal(rank: Array) -> Array:
  """`1 / r`.

  >>> print(reciprocal(jnp.array([1.0, 2.0, 4.0])))
  [1.   0.5  0.25]
  """
  return 1 / rank


def constant(rank: Array) -> Array:
  """1 at every rank.

  >>> print(constant(jnp.array([1.0, 2.0])))
  [1. 1.]
  """
  return jnp.ones_like(rank)


def geometric(persistence: ArrayLike) -> Discount:
  """`persistence ** (r - 1)` (Moffat and Zobel, 2008).

  >>> print(geometric(0.5)(jnp.array([1.0, 2.0, 3.0])))
  [1.   0.5  0.25]

  Args:
    persistence: The chance to go on to the next rank, in [0, 1]; may be traced.

  Returns:
    A discount, itself a pytree whose leaf is `persistence`.
  """
  return jax.tree_util.Partial(_power, persistence)


def table(values: ArrayLike) -> Discount:
  """`values[r - 1]`, linear between whole ranks, 0 past the end.

  >>> print(table([1.0, 0.5])(jnp.array([1.0, 1.5, 2.0, 3.0])))
  [1.   0.75 0.5  0.  ]

  Args:
    values: `[depth]`, the discount of ranks 1, 2, ...

  Returns:
    A discount, itself a pytree whose leaf is `values`.

  Raises:
    ValueError: if `values` is not a vector.
  """
  values = jnp.asarray(values)
  if values.ndim != 1 or values.size == 0:
    raise ValueError(f"discounts.table expects a vector of discounts, got shape {values.shape}.")
  return jax.tree_util.Partial(_lookup, values)


def _power(persistence: ArrayLike, rank: Array) -> Array:
  return jnp.asarray(persistence, rank.dtype) ** (rank - 1)


def _lookup(values: Array, rank: Array) -> Array:
  values = jnp.concatenate([values.astype(rank.dtype), jnp.zeros(1, rank.dtype)])
  ranks = jnp.arange(1, values.shape[0] + 1, dtype=rank.dtype)
  return jnp.interp(rank, ranks, values)
