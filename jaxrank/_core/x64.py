"""Switches 64-bit arithmetic on in a context; no other module calls `jax.enable_x64`."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_Values = TypeVar("_Values")


def enable_x64() -> contextlib.AbstractContextManager[None]:
  """A context in which JAX has 64-bit integers and floats, whatever the configuration says.

  Words for sorting, counts of pairs, and numpy scores and classes of 64 bits need them.
  """
  context: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
  return context


@contextlib.contextmanager
def exact_width(scores: Any) -> Iterator[Callable[[_Values], _Values]]:
  """Keeps 64-bit numpy scores exact where JAX would convert them to 32; values stay float32."""
  wide = isinstance(scores, np.ndarray) and scores.dtype in (np.float64, np.int64, np.uint64)
  if not wide or jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
    yield lambda values: values
    return
  with enable_x64():
    yield lambda values: jax.tree.map(_single, values)


def _single(x: Array) -> Array:
  return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
