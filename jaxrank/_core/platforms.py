"""Chooses between the algorithms of two platforms when a program is compiled."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import lax

_forced: str | None = None


def by_platform(*args: Any, cpu: Callable[..., Any], default: Callable[..., Any]) -> Any:
  """`cpu(*args)` in programs for a CPU, and `default(*args)` in those for other devices."""
  if _forced is not None:
    return {"cpu": cpu, "default": default}[_forced](*args)
  return lax.platform_dependent(*args, cpu=cpu, default=default)


@contextlib.contextmanager
def forced(platform: str) -> Iterator[None]:
  """Takes the algorithms of one platform, "cpu" or "default", on any device.

  For tests, which run the algorithms of accelerators on a CPU. Compiled programs are forgotten on
  entry and on exit.
  """
  global _forced
  before, _forced = _forced, platform
  jax.clear_caches()
  try:
    yield
  finally:
    _forced = before
    jax.clear_caches()
