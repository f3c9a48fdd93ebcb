"""Every test runs under the strictest settings a user may choose, on four CPU devices."""

import contextlib
import gc
import os
import time
from pathlib import Path

from tests.helpers import programs, xla_flags
from tests.programs import Events

os.environ["JAX_NUM_CPU_DEVICES"] = "4"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("XLA_FLAGS", xla_flags.flags())
# Workers, runs, copies of the repository and the processes that tests start share compiled
# programs. The name of each is the hash of its text, its options and the version of jaxlib.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(programs.FOLDER))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Programs need not say where in Python each operation stands.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

import jax
import pytest

from jaxrank._core import platforms

# What holds no tests need not be imported before a test needs it.
collect_ignore = [
  path for path in Path(__file__).parent.rglob("*.py") if not path.name.startswith(("test_", "__"))
]

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_legacy_prng_key", "error")

# Each collection visits the many objects that traced programs hold.
gc.set_threshold(100_000, 50, 100)

# Compiled programs hold memory, in many pieces. Linux lets a process map some 65,000 pieces, and
# XLA crashes where there are no more.
_MOST_PROGRAMS = 1_000
_compiled = Events()
jax.monitoring.register_event_duration_secs_listener(_compiled)


@pytest.fixture(autouse=True)
def _programs_of_one_platform(request):
  """Traces the algorithms of a CPU alone, which run here: all of them take a sixth longer.

  Tests with the mark `any_platform`, and doctests, trace those of every platform, as users do.
  """
  platform = contextlib.nullcontext()
  if not request.node.get_closest_marker("any_platform"):
    platform = platforms.forced("cpu")
  with platform:
    yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
  """Frees programs where a module ends, because its tests share them."""
  if _compiled.programs > _MOST_PROGRAMS and (nextitem is None or nextitem.path != item.path):
    _compiled.programs = 0
    jax.clear_caches()


def pytest_sessionstart(session):
  """Forgets compiled programs of which no run has read or written the file for a week."""
  if not hasattr(session.config, "workerinput"):
    # Those of other versions of JAX as well, but none in a folder that somebody chose.
    for path in programs.FOLDERS.glob("*/*-cache"):
      if path.stat().st_atime < time.time() - 7 * 86_400:
        path.unlink(missing_ok=True)


def pytest_collection_modifyitems(items):
  """Keeps a module on one worker, because its tests share programs."""
  for item in items:
    item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))


def pytest_make_parametrize_id(val):
  """The name of a function or metric, never an address, which differs from worker to worker."""
  name = getattr(val, "__name__", None) or getattr(val, "name", None)
  return name if callable(val) and isinstance(name, str) else None
