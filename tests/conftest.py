"""Every test runs under the strictest settings a user may choose, on four CPU devices."""

import gc
import itertools
import os

from tests.helpers import xla_flags

os.environ["JAX_NUM_CPU_DEVICES"] = "4"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", xla_flags.flags())

import jax
import pytest

# Only the type checkers read these calls, many of which are wrong.
collect_ignore = ["house/typing_calls.py"]

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_legacy_prng_key", "error")

# Each collection visits the many objects that traced programs hold.
gc.set_threshold(100_000, 50, 100)

# Compiled programs hold memory, in many pieces. Linux lets a process map some 65,000 pieces, and
# XLA crashes where there are no more.
_TESTS_OF_PROGRAMS = 800
_done = itertools.count(1)


@pytest.fixture(autouse=True)
def _not_too_many_programs():
  yield
  if next(_done) % _TESTS_OF_PROGRAMS == 0:
    jax.clear_caches()


def pytest_collection_modifyitems(items):
  """Keeps the laws of one metric on one worker, which has it compiled."""
  for item in items:
    name = getattr(item, "callspec", None) and item.callspec.params.get("name")
    if isinstance(name, str):
      item.add_marker(pytest.mark.xdist_group(name))


def pytest_make_parametrize_id(val):
  """The name of a function or metric, never an address, which differs from worker to worker."""
  name = getattr(val, "__name__", None) or getattr(val, "name", None)
  return name if callable(val) and isinstance(name, str) else None
