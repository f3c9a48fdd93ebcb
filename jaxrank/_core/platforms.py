"""The table of primitives: each has one plain reference, and variants for some platforms.

A metric, a ranking or a loss calls a primitive, and names no platform. This is the only module that
chooses between algorithms, when a program is compiled.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core import _jax, checks

_P = ParamSpec("_P")
_R = TypeVar("_R")

# The platform whose algorithms are traced; None if the program may run on any.
_chosen = _jax.context(None)

# All others, whatever their names, take the variants for a GPU.
_OWN = ("cpu", "tpu")
_OTHERS = "gpu"
# No platform: `forced("reference")` takes no variant at all.
_REFERENCE = "reference"


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
    if _jax.refusals:
      return self.reference(*args, **static)
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
  TABLE[f"{reference.__module__.rpartition('.')[2].lstrip('_')}.{reference.__name__}"] = made
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

  JAX finds this trace again when the program is compiled, for arguments of the same types.
  """
  with _jax.same_mesh(), forced(_chosen.value or platform):
    return jax.make_jaxpr(function)(*args)


class Operation:
  """A function of primitives that JAX batches and differentiates by rules, wherever it is called.

  Positional arguments are arrays; all that is static is hashable and given by keyword. The rules
  take the static arguments too. `_jax.Rules` says why they are not those of documented names.

  Attributes:
    function: Computes an array, or a tree of arrays, of which the operation returns the leaves. It
      is traced when a program is compiled, for one platform.
    jvp: The rule of the derivative.
  """

  def __init__(
    self,
    name: str,
    function: Callable[..., Any],
    *,
    types: Callable[..., Sequence[Any]],
    batch: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    jvp: Callable[..., Any] | None = None,
    transpose: Callable[..., Sequence[Any]] | None = None,
  ):
    """Registers the rules, of which `_jax.Rules` says what they take and return."""

    @functools.lru_cache
    def compiled(**static: Any) -> Callable[..., list[Array]]:
      return jax.jit(functools.partial(self._bind, **static))

    def evaluate(*args: Any, **static: Any) -> list[Array]:
      # Outside `jit`, or where `jit` is disabled.
      with jax.disable_jit(False):
        return compiled(**static)(*args)

    def lowered(platform: str) -> Callable[..., list[Array]]:
      def chosen(*args: Any, **static: Any) -> list[Array]:
        with forced(_chosen.value or platform):
          return jax.tree.leaves(function(*args, **static))

      return chosen

    self.function, self.jvp = function, jvp
    on = [*((platform, lowered(platform)) for platform in _OWN), (None, lowered(_OTHERS))]
    self._bind = _jax.primitive(name, _jax.Rules(evaluate, types, on, batch, jvp, transpose))

  def __call__(self, *args: Any, **static: Any) -> list[Array]:
    if not _jax.refusals:
      return self._bind(*args, **static)

    def plain(*args: Any) -> list[Array]:
      return jax.tree.leaves(self.function(*args, **static))

    # JAX maps the function over a batch itself, and may forget its rule in second derivatives.
    if self.jvp is None:
      return plain(*args)
    differentiable = jax.custom_jvp(plain)
    differentiable.defjvp(functools.partial(self.jvp, **static))
    return differentiable(*args)


def calling(
  name: str,
  batch: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
  jvp: Callable[..., Any] | None = None,
) -> Operation:
  """An operation that calls its parameter `function`.

  The function, of `jax.jit`, is traced for one platform only, once if this is a CPU.
  """

  def call(*args: Any, function: Callable[..., Any], **_: Any) -> Any:
    return function(*args)

  def types(*args: Any, function: Callable[..., Any], **_: Any) -> Sequence[Any]:
    found: Sequence[Any] = traced("cpu", function, *args).out_avals
    return found

  return Operation(name, call, types=types, batch=batch, jvp=jvp)


def forward_only(x: Array, message: str) -> Array:
  """`x`; a derivative in reverse mode raises `ValueError`, one in forward mode passes."""
  if _jax.refusals:
    return _without_gradient(x, message)
  (passed,) = _forward_only(x, message=message)
  return passed


def _itself(x: Any, *, message: str) -> list[Any]:
  del message
  return [x]


def _batch_forward_only(
  args: Sequence[Array], axes: Sequence[Any], **static: Any
) -> tuple[Sequence[Array], Sequence[Any]]:
  return _forward_only(*args, **static), axes


def _pass_forward(primals: Sequence[Array], tangents: Sequence[Any], **static: Any) -> Any:
  return _forward_only(*primals, **static), _forward_only(*tangents, **static)


def _refuse(changes: Any, x: Any, *, message: str) -> Any:
  del changes, x
  raise ValueError(message)


_forward_only = Operation(
  "forward_only",
  _itself,
  types=_itself,
  batch=_batch_forward_only,
  jvp=_pass_forward,
  transpose=_refuse,
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _without_gradient(x: Array, message: str) -> Array:
  """`forward_only` without a derivative in forward mode, of which JAX raises `TypeError`."""
  del message
  return x


_without_gradient.defvjp(
  lambda x, message: (x, None), lambda message, _, change: _refuse(change, None, message=message)
)


_Tree = TypeVar("_Tree")


def summed(function: str, x: _Tree, axis: str | tuple[str, ...]) -> _Tree:
  """Arrays that are sums over devices, with gradients where JAX tracks what varies along the axis.

  Elsewhere the transpose of `psum` is `psum`: the same code would give the gradient outside of
  `shard_map`, and that times the number of devices inside, and nothing tells which it is. So there
  a derivative in reverse mode raises `ValueError`, which names the function. One in forward mode is
  right everywhere.
  """
  if checks.tracked(axis):
    return x
  message = (
    f"{function}: there is no gradient along {axis!r}, where JAX does not track what differs "
    "between devices, and may multiply a gradient by their number: use jax.shard_map with "
    "check_vma=True, its default, instead of check_vma=False or jax.pmap. Values and derivatives "
    "in forward mode are right."
  )
  summed: _Tree = jax.tree.map(
    lambda y: forward_only(y, message) if jnp.issubdtype(y.dtype, jnp.inexact) else y, x
  )
  return summed
