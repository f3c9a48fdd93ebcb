"""Separates the static parts of a pytree, which a compiled program depends on, from its arrays."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array


class Static(NamedTuple):
  """What is left of a pytree without its arrays; hashable if its leaves are."""

  leaves: tuple[Any, ...]
  tree: Any


class _Traced:
  """Marks the place of an array among the static leaves."""


def split(x: Any) -> tuple[list[Any], Static]:
  """The numbers and arrays of a pytree, which may be traced, and the rest."""
  leaves, tree = jax.tree.flatten(x)
  traced = [isinstance(leaf, float | Array | np.ndarray | np.number) for leaf in leaves]
  arrays = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
  pairs = zip(leaves, traced, strict=True)
  return arrays, Static(tuple(_Traced if is_traced else leaf for leaf, is_traced in pairs), tree)


def joined(arrays: list[Any], static: Static) -> Any:
  """The inverse of `split`."""
  rest = iter(arrays)
  leaves = [next(rest) if leaf is _Traced else leaf for leaf in static.leaves]
  return jax.tree.unflatten(static.tree, leaves)
