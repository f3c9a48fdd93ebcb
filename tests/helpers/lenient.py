"""The settings of JAX that other libraries need, where tests have stricter ones."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def for_keras() -> Iterator[None]:
  """Keras promotes types and ranks, and has keys of the old kind."""
  with (
    jax.numpy_dtype_promotion("standard"),
    jax.numpy_rank_promotion("allow"),
    jax.legacy_prng_key("allow"),
  ):
    yield
