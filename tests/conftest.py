"""Every test runs under the strictest settings a user may choose, on four CPU devices."""

import importlib.metadata
import itertools
import os

os.environ["JAX_NUM_CPU_DEVICES"] = "4"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The suite compiles hundreds of programs and runs each on little data: these flags halve its time.
# Newer versions of XLA do not know the last two, and XLA ends the process at an unknown flag.
os.environ.setdefault(
  "XLA_FLAGS",
  "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
  + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
  * importlib.metadata.version("jaxlib").startswith("0.10."),
)

import jax
import pytest

# Only the type checkers read these calls, many of which are wrong.
collect_ignore = ["house/typing_calls.py"]

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_legacy_prng_key", "error")

# Linux lets a process map some 65,000 pieces of memory; each compiled program takes dozens, and XLA
# crashes where there are no more.
_TESTS_OF_PROGRAMS = 400
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
