"""Derivatives of what devices sum up along a mesh axis, inside `shard_map`."""

from typing import TypeVar

import jax
import jax.numpy as jnp

from jaxrank._core import checks
from jaxrank._core.platforms import forward_only

_Tree = TypeVar("_Tree")


def summed(function: str, x: _Tree, axis: str | tuple[str, ...]) -> _Tree:
  """Arrays that are sums over devices, with gradients where JAX tracks what varies along the axis.

  Elsewhere the transpose of `psum` is `psum`: the same code would give the gradient outside of
  `shard_map`, and that times the number of devices inside, and nothing tells which it is. So there
  a derivative in reverse mode raises `ValueError`, which names the function. One in forward mode is
  right everywhere.
  """
  if checks.tracked(axis):
    return x
  message = (
    f"{function}: there is no gradient along {axis!r}, where JAX does not track what differs "
    "between devices, and may multiply a gradient by their number: use jax.shard_map with "
    "check_vma=True, its default, instead of check_vma=False or jax.pmap. Values and derivatives "
    "in forward mode are right."
  )
  summed: _Tree = jax.tree.map(
    lambda y: forward_only(y, message) if jnp.issubdtype(y.dtype, jnp.inexact) else y, x
  )
  return summed
