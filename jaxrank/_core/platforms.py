"""Chooses between the algorithms of two platforms when a program is compiled."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir

_forced: str | None = None


def by_platform(*args: Any, cpu: Callable[..., Any], default: Callable[..., Any]) -> Any:
  """`cpu(*args)` in programs for a CPU, and `default(*args)` in those for other devices."""
  if _forced is not None:
    return {"cpu": cpu, "default": default}[_forced](*args)
  return lax.platform_dependent(*args, cpu=cpu, default=default)


def lower(primitive: Any, *, cpu: Callable[..., Any], default: Callable[..., Any]) -> None:
  """Implements a primitive by `cpu` in programs for a CPU, and by `default` in other programs.

  Only the function of the platform is traced, when the program is compiled.
  """

  def rule(platform: str) -> Callable[..., Any]:
    functions = {"cpu": cpu, "default": default}

    def chosen(*args: Any, **static: Any) -> Any:
      return functions[_forced or platform](*args, **static)

    return mlir.lower_fun(chosen, multiple_results=False)

  def evaluate(*args: Any, **static: Any) -> Any:
    # Outside `jit`, or where `jit` is disabled.
    with jax.disable_jit(False):
      return jax.jit(functools.partial(primitive.bind, **static))(*args)

  mlir.register_lowering(primitive, rule("cpu"), platform="cpu")
  mlir.register_lowering(primitive, rule("default"))
  primitive.def_impl(evaluate)


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
