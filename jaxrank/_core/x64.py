"""Switches 64-bit arithmetic on in a context; no other module calls `jax.enable_x64`."""

import contextlib

import jax


def enable_x64() -> contextlib.AbstractContextManager[None]:
  """A context in which JAX has 64-bit integers and floats, whatever the configuration says.

  Words for sorting, counts of pairs, classes of 64 bits, and adapters of libraries that compute in
  double precision need them. Scores and values of the library have the dtypes of JAX.
  """
  context: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
  return context
