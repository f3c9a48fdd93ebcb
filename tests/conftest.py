"""Every test runs under the strictest settings a user may choose, on four CPU devices."""

import os

os.environ["JAX_NUM_CPU_DEVICES"] = "4"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The suite compiles hundreds of programs and runs each on little data.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_legacy_prng_key", "error")


def pytest_collection_modifyitems(items):
  """Keeps the laws of one metric on one worker, which has it compiled."""
  for item in items:
    name = getattr(item, "callspec", None) and item.callspec.params.get("name")
    if isinstance(name, str):
      item.add_marker(pytest.mark.xdist_group(name))
