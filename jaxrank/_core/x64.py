"""64-bit arithmetic for a few lines: the one place that switches it on."""

import contextlib

import jax


def enable_x64() -> contextlib.AbstractContextManager[None]:
  """A context in which JAX has 64-bit integers and floats, whatever the configuration says.

  Sort keys of 64 bits, counts of pairs and exact labels need them; what leaves the context is cast
  to the dtype of the result.
  """
  context: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
  return context
