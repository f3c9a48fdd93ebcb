"""Checks of values of queries, and the bounds of the rounding errors of their sums."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxrank._core import checks
from jaxrank._core.arithmetic import floating
from jaxrank._core.batching import replicated


def pair(x: Any, y: Any, least: int) -> tuple[Array, Array]:
  """The values of two systems as floats of one shape and dtype, with `least` queries or more."""
  x, y = floating(checks.array("x", x)), floating(checks.array("y", y))
  checks.same_shape("x", x, "y", y)
  enough("x and y", x, least)
  x, y = alike(x, y)
  return x, y


def alike(*values: Array) -> tuple[Array, ...]:
  """Floats of one dtype, which every device has."""
  wider = max((x.dtype for x in values), key=lambda dtype: dtype.itemsize)
  return replicated(*(x.astype(wider) for x in values))


def enough(name: str, x: Array, least: int) -> None:
  """Raises `ValueError` unless an array has a last axis of `least` queries or more."""
  if x.ndim == 0 or x.shape[-1] < least:
    raise ValueError(
      f"{name} must have shape [..., queries], with at least {least} "
      f"{'query' if least == 1 else 'queries'}, got {x.shape}; pass the value of each query."
    )


def enough_shared(name: str, system: str, count: int) -> None:
  """Raises `ValueError` unless all systems have values for two queries or more."""
  if count < 2:
    raise ValueError(
      f"{name} must have two queries or more for which every {system} has a value, got {count}: "
      f"leave out {system}s that lack many, or pass jnp.nan_to_num(values), with which a query "
      f"that a {system} lacks counts as 0."
    )


def tolerance(*values: Array) -> Array:
  """By how much sums over queries that would be equal may differ by rounding, `[...]`."""
  size = sum(jnp.sum(jnp.abs(x), axis=-1) for x in values)
  return jnp.asarray(size) * (4 * jnp.finfo(values[0].dtype).eps)
