"""Chooses between the algorithms of several platforms when a program is compiled.

It also switches 64-bit arithmetic on; no other module calls `jax.enable_x64`.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.interpreters import batching, mlir

# The platform whose algorithms are traced; None if the program may run on any.
_chosen = jax.make_user_context(None)

# The class of `jax.extend.core`, which takes 30 ms to load.
Primitive = type(lax.sort_p)

# The platforms with algorithms of their own; all others take the default ones.
_OWN = ("cpu", "tpu")

_Batcher = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


def by_platform(
  *args: Any,
  default: Callable[..., Any],
  cpu: Callable[..., Any] | None = None,
  tpu: Callable[..., Any] | None = None,
) -> Any:
  """`cpu(*args)` or `tpu(*args)` in programs for these, and `default(*args)` in all others."""
  ways = {name: way for name, way in (("cpu", cpu), ("tpu", tpu)) if way is not None}
  if _chosen.value is None:
    return lax.platform_dependent(*args, **ways, default=default)
  return ways.get(_chosen.value, default)(*args)


def forced(platform: str) -> contextlib.AbstractContextManager[None]:
  """Takes the algorithms of one platform, such as "cpu", "tpu" or "default", on any device.

  JAX keeps its programs apart from others. For tests, which run the algorithms of accelerators on a
  CPU, and for functions that are traced for one platform only.
  """
  chosen = platform if platform in _OWN else "default"
  context: contextlib.AbstractContextManager[None] = _chosen(chosen)
  return context


def traced(platform: str, function: Callable[..., Any], *args: Any) -> Any:
  """The program of a function of `jax.jit` for one platform, unless another one is forced.

  It is traced once for arguments of the same types: JAX looks for a trace under the same mesh.
  """
  mesh = jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh())
  with mesh, forced(_chosen.value or platform):
    return jax.make_jaxpr(function)(*args)


def lower(primitive: Any, function: Callable[..., Any]) -> None:
  """Implements a primitive by a function, of which each platform has its own algorithm.

  It is traced when the program is compiled, and `by_platform` then traces one algorithm.
  """

  def rule(platform: str) -> Callable[..., Any]:
    def chosen(*args: Any, **static: Any) -> Any:
      with forced(_chosen.value or platform):
        return function(*args, **static)

    return mlir.lower_fun(chosen, multiple_results=primitive.multiple_results)

  def evaluate(*args: Any, **static: Any) -> Any:
    # Outside `jit`, or where `jit` is disabled.
    with jax.disable_jit(False):
      return jax.jit(functools.partial(primitive.bind, **static))(*args)

  for platform in _OWN:
    mlir.register_lowering(primitive, rule(platform), platform=platform)
  mlir.register_lowering(primitive, rule("default"))
  primitive.def_impl(evaluate)


def operation(name: str, batch: _Batcher) -> Any:
  """A primitive that calls its parameter `function`, of `jax.jit`, which returns a list of arrays.

  The function is traced for one platform only, once if this is a CPU. It has no derivative.
  """

  def call(*args: Any, function: Callable[..., Any]) -> Any:
    return function(*args)

  def evaluate(*args: Any, function: Callable[..., Any]) -> Any:
    with jax.disable_jit(False):
      return function(*args)

  def types(*args: Any, function: Callable[..., Any]) -> Any:
    return traced("cpu", function, *args).out_avals

  primitive = Primitive(name)
  primitive.multiple_results = True
  primitive.def_abstract_eval(types)
  batching.primitive_batchers[primitive] = batch
  lower(primitive, call)
  # The function is compiled once, unlike a call of the primitive.
  primitive.def_impl(evaluate)
  return primitive


def enable_x64() -> contextlib.AbstractContextManager[None]:
  """A context in which JAX has 64-bit integers and floats, whatever the configuration says.

  Words for sorting, counts of pairs, classes of 64 bits, and adapters of libraries that compute in
  double precision need them. Scores and values of the library have the dtypes of JAX.
  """
  context: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
  return context
