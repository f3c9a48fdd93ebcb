"""The table of primitives: each has one plain reference, and variants for some platforms.

A metric, a ranking or a loss calls a primitive, and names no platform. This is the only module that
chooses between algorithms, when a program is compiled. It also makes primitives of JAX, and
switches 64-bit arithmetic on; no other module calls `jax.enable_x64`.

JAX has no stable names for the rules of a primitive, nor for a program without dead code. For them,
this module, its neighbours `decayed_sums` and `recorder`, and `interop._boosting` import
`jax.interpreters`, so that pyproject.toml bounds the versions of JAX.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import jax
from jax import Array, lax
from jax.extend import core as jax_core
from jax.interpreters import ad, batching, mlir

_P = ParamSpec("_P")
_R = TypeVar("_R")

# The platform whose algorithms are traced; None if the program may run on any.
_chosen = jax.make_user_context(None)

# All others, whatever their names, take the variants for a GPU.
_OWN = ("cpu", "tpu")
_OTHERS = "gpu"
# No platform: `forced("reference")` takes no variant at all.
_REFERENCE = "reference"

_Batcher = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


class Variant(NamedTuple, Generic[_P, _R]):
  """Another algorithm for a primitive.

  Attributes:
    platforms: Where it runs.
    function: It takes the arguments of the reference, and has its values.
    gain: What takes how many times as long without the variant; docs/internals.md prints it.
    when: Whether it serves these arguments, whose values are not read.
  """

  platforms: tuple[str, ...]
  function: Callable[_P, _R]
  gain: str
  when: Callable[..., bool]


class Primitive(Generic[_P, _R]):
  """A function that a platform may compute in a way of its own.

  Positional arguments are arrays, or trees of them; all that is static is given by keyword.

  Attributes:
    reference: The plain function, which any platform may run.
    variants: The faster ways, of which the last that serves the arguments is taken.
  """

  def __init__(self, reference: Callable[_P, _R]):
    functools.update_wrapper(self, reference)
    self.reference = reference
    self.variants: list[Variant[_P, _R]] = []

  def on(
    self, *platforms: str, gain: str, when: Callable[..., bool] = lambda *args, **static: True
  ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Registers a function as a variant; see `Variant`."""

    def register(function: Callable[_P, _R]) -> Callable[_P, _R]:
      self.variants.append(Variant(platforms, function, gain, when))
      return function

    return register

  def __call__(self, *args: _P.args, **static: _P.kwargs) -> _R:
    ways = {
      platform: variant.function
      for variant in self.variants
      if variant.when(*args, **static)
      for platform in variant.platforms
    }
    chosen = [ways.get(platform, self.reference) for platform in (*_OWN, _OTHERS)]
    if _chosen.value is not None or len({*chosen}) == 1:
      return ways.get(_chosen.value or _OTHERS, self.reference)(*args, **static)
    cpu, tpu, others = (functools.partial(way, **static) for way in chosen)
    answer: _R = lax.platform_dependent(*args, cpu=cpu, tpu=tpu, default=others)
    return answer


# All primitives, by module and name.
TABLE: dict[str, Primitive[..., Any]] = {}


def primitive(reference: Callable[_P, _R]) -> Primitive[_P, _R]:
  """Makes a function, which is the reference, an entry of the table of primitives."""
  made = Primitive(reference)
  TABLE[f"{reference.__module__.rpartition('.')[2]}.{reference.__name__}"] = made
  return made


def forced(platform: str) -> contextlib.AbstractContextManager[None]:
  """Takes the algorithms of one platform, such as "cpu", "tpu" or "gpu", on any device.

  The name "reference" takes the references of all primitives. JAX keeps the programs apart from
  others. For tests, which run the algorithms of accelerators on a CPU, and for functions that are
  traced for one platform only.
  """
  chosen = platform if platform in (*_OWN, _REFERENCE) else _OTHERS
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
  """Implements a primitive of JAX by a function that calls primitives of the table.

  It is traced when the program is compiled, for one platform.
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
  mlir.register_lowering(primitive, rule(_OTHERS))
  primitive.def_impl(evaluate)


# In the rule of a derivative, the tangent of what does not change.
Zero = ad.Zero


def operation(name: str, batch: _Batcher, jvp: Callable[..., Any] | None = None) -> Any:
  """A primitive of JAX that calls its parameter `function`, which returns a list of arrays.

  The function, of `jax.jit`, is traced for one platform only, once if this is a CPU. Its derivative
  is that of the rule `jvp`. JAX forgets the rules of `jax.custom_jvp` in the second derivative of
  the body of a loop, and keeps those of primitives.
  """

  def call(*args: Any, function: Callable[..., Any], **_: Any) -> Any:
    return function(*args)

  def evaluate(*args: Any, function: Callable[..., Any], **_: Any) -> Any:
    with jax.disable_jit(False):
      return function(*args)

  def types(*args: Any, function: Callable[..., Any], **_: Any) -> Any:
    return traced("cpu", function, *args).out_avals

  primitive = jax_core.Primitive(name)
  primitive.multiple_results = True
  primitive.def_abstract_eval(types)
  batching.primitive_batchers[primitive] = batch
  if jvp:
    ad.primitive_jvps[primitive] = jvp
  lower(primitive, call)
  # The function is compiled once, unlike a call of the primitive.
  primitive.def_impl(evaluate)
  return primitive


_forward_only = jax_core.Primitive("forward_only")


def forward_only(x: Array, message: str) -> Array:
  """`x`; a derivative in reverse mode raises `ValueError`, one in forward mode passes."""
  passed: Array = _forward_only.bind(x, message=message)
  return passed


def _same(x: Any, *, message: str) -> Any:
  del message
  return x


def _refuse(slope: Any, x: Any, *, message: str) -> Any:
  del slope, x
  raise ValueError(message)


_forward_only.def_impl(_same)
_forward_only.def_abstract_eval(_same)
ad.deflinear2(_forward_only, _refuse)
batching.defvectorized(_forward_only)
mlir.register_lowering(_forward_only, mlir.lower_fun(_same, multiple_results=False))


def enable_x64() -> contextlib.AbstractContextManager[None]:
  """A context in which JAX has 64-bit integers and floats, whatever the configuration says.

  Words for sorting, counts of pairs, classes of 64 bits, and adapters of libraries that compute in
  double precision need them. Scores and values of the library have the dtypes of JAX.
  """
  context: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
  return context
