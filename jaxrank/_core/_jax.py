"""All that the library uses of JAX beyond its documented API, and why.

No other module does, so that a new version of JAX is answered here. Each entry says what it is for,
and which documented name would replace it. This file stands below all others: it imports nothing of
the library.

JAX may refuse the rules of a primitive in some version to come. Then `refusals` has its errors, a
warning says so once, and the table of primitives computes everything by its plain references, from
documented names alone: slower, never wrong.
"""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax import Array
from jax.extend import core

# Where JAX stands: in which function, loop, branch or `vmap`; equal if it is the same. A query
# remembers its answers, which are tracers, only where they may be used again. A documented scope of
# tracers would replace it. Up to jax 0.9 the name is in `jax.core`; if it was nowhere, each call
# would make another object, so that no place is that of before, and nothing is remembered.
_NAME = "get_opaque_trace_state"
current_trace: Any = getattr(core, _NAME, None) or getattr(jax.core, _NAME, object)


def is_traced(x: Any) -> bool:
  """Whether the values of an array are not known, because a program is traced.

  Known values are checked. A documented test would replace it: `jax.Array` is the type of both.
  """
  return isinstance(x, jax.core.Tracer)


def context(default: Any) -> Any:
  """A context whose value JAX takes for an argument of every program: `jax.make_user_context`.

  The table of primitives keeps the programs of platforms apart. The same name will replace it, once
  documented.
  """
  return jax.make_user_context(default)


def enable_x64() -> contextlib.AbstractContextManager[None]:
  """A context in which JAX has 64-bit integers and floats, whatever the configuration says.

  Words for sorting, counts of pairs, classes of 64 bits, and adapters of libraries that compute in
  double precision need them. Scores and values of the library have the dtypes of JAX. The name is
  documented, and is used here alone.
  """
  context: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
  return context


def same_mesh() -> contextlib.AbstractContextManager[Any]:
  """The mesh that is in use anyhow, set once more.

  JAX looks for what it has traced under the mesh that was set, if one was, and would trace a
  function twice, for its types and for its program. Nothing would be needed if the mesh in use
  counted.
  """
  mesh: contextlib.AbstractContextManager[Any] = jax.sharding.use_abstract_mesh(
    jax.sharding.get_abstract_mesh()
  )
  return mesh


def varying(x: Any) -> frozenset[str]:
  """The mesh axes along which an array may differ between devices, by its type.

  Sums over devices depend on it. The attribute is new in jax 0.10, and replaces `vma`; once it is
  documented, it will replace this function.
  """
  kind: Any = jax.typeof(x)
  known = hasattr(kind, "manual_axis_type")
  axes: frozenset[str] = kind.manual_axis_type.varying if known else kind.vma
  return axes


def without_dead_code(program: Any) -> tuple[Any, list[bool]]:
  """The steps of a `Jaxpr` that its results need, and which of its inputs they need.

  Whether a derivative depends on something decides what a metric is good for. A method of a traced
  program, `jax.stages.Traced`, would replace it.
  """
  from jax.interpreters import partial_eval

  needed: tuple[Any, list[bool]] = partial_eval.dce_jaxpr(program, [True] * len(program.outvars))
  return needed


class Rules(NamedTuple):
  """What a primitive is made of: functions of arrays, and of static parameters by keyword.

  `jax.custom_jvp` would replace it if JAX kept its rules in second derivatives of the body of a
  loop, and `jax.custom_batching.custom_vmap` if it had a reverse mode.

  Attributes:
    evaluate: Computes it outside of programs; a list of arrays, like all results below.
    types: The types of the results, for those of the arguments.
    lowered: What is traced when a program is compiled, by platform; None for all others.
    batch: `batch(args, axes)`, the results for arguments with an axis more, and where theirs is.
    jvp: `jvp(primals, tangents)`, the results and their changes; None if there is no derivative.
    transpose: `transpose(changes, *args)`, what is added to each argument in reverse mode.
  """

  evaluate: Callable[..., list[Array]]
  types: Callable[..., Sequence[Any]]
  lowered: Sequence[tuple[str | None, Callable[..., list[Array]]]]
  batch: Callable[..., tuple[Sequence[Any], Sequence[Any]]]
  jvp: Callable[..., Any] | None
  transpose: Callable[..., Sequence[Any]] | None


# Why JAX did not take the rules of primitives; empty if it did.
refusals: list[Exception] = []


def primitive(name: str, rules: Rules) -> Callable[..., list[Array]]:
  """A primitive with rules, which serves as long as there are no `refusals`."""
  try:
    return _registered(name, rules)
  except Exception as error:
    if not refusals:
      warnings.warn(
        f"jaxrank: jax {jax.__version__} does not take the rules of a primitive ({error!r}), so "
        "that plain functions serve instead: values and derivatives are right, and take longer. "
        "Look for a newer jaxrank, or take an older jax.",
        RuntimeWarning,
        stacklevel=2,
      )
    refusals.append(error)
    return rules.evaluate


def _registered(name: str, rules: Rules) -> Callable[..., list[Array]]:
  from jax.interpreters import ad, batching, mlir

  def transpose(changes: Sequence[Any], *args: Any, **static: Any) -> Sequence[Any]:
    if all(map(is_zero, changes)):
      return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in args]
    assert rules.transpose
    return rules.transpose(changes, *args, **static)

  made = core.Primitive(name)
  made.multiple_results = True
  made.def_impl(rules.evaluate)
  made.def_abstract_eval(rules.types)
  batching.primitive_batchers[made] = rules.batch
  for platform, function in rules.lowered:
    rule = mlir.lower_fun(function, multiple_results=True)
    mlir.register_lowering(made, rule, platform=platform)
  if rules.jvp:
    ad.primitive_jvps[made] = rules.jvp
  if rules.transpose:
    ad.primitive_transposes[made] = transpose
  bind: Callable[..., list[Array]] = made.bind
  return bind


def is_zero(tangent: Any) -> bool:
  """Whether the tangent that a rule is given is that of what does not change."""
  if refusals:
    return False
  from jax.interpreters import ad

  return isinstance(tangent, ad.Zero)
