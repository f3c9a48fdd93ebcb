"""How often loops turn whose length only the data knows, by running them on the CPU.

`label_loops` gives every `lax.while_loop` and `lax.fori_loop` that is traced later a label, which
the compilers keep in the name of the loop. `count` runs a traced function with a counter in each
labelled loop. It takes the branches of the device, not those of the CPU, of
`lax.platform_dependent`, so that what it counts is the loop that the device would run.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

from jaxrank._core import platforms

_LABEL = re.compile(r"labelled_loop_\d+")
# Primitives that only call a program, which is evaluated in their place.
_CALLS = {
  "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call",
  "remat2", "checkpoint",
}  # fmt: skip


def label(text: str) -> str:
  """The label in the attributes of a loop or in a stack of names, or an empty text."""
  found = _LABEL.findall(text)
  return found[-1] if found else ""


def label_loops() -> None:
  """Replaces the loops of `jax.lax` by loops with labels; for a process that only counts."""
  numbers = itertools.count()

  def labelled(loop: Any) -> Any:
    def call(*args: Any, **given: Any) -> Any:
      with jax.named_scope(f"labelled_loop_{next(numbers)}"):
        return loop(*args, **given)

    return call

  lax.while_loop, lax.fori_loop = labelled(lax.while_loop), labelled(lax.fori_loop)


def count(program: core.ClosedJaxpr, platform: str, data: Sequence[Any]) -> Mapping[str, int]:
  """The turns of each labelled loop outside of other loops, by label, on data.

  Args:
    program: A traced function.
    platform: The platform whose branches are taken, tpu or cuda.
    data: Its arguments.
  """

  def counted(*data: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    _evaluate(program.jaxpr, program.consts, data, platform, found)
    return found

  return {name: int(turns) for name, turns in jax.jit(counted)(*data).items()}


def _evaluate(
  jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], platform: str, found: dict[str, Any]
) -> list[Any]:
  """Evaluates a program and adds the turns of its loops to `found`."""
  values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

  def read(x: Any) -> Any:
    return x.val if isinstance(x, core.Literal) else values[x]

  for eqn in jaxpr.eqns:
    given, name, parameters = [read(x) for x in eqn.invars], eqn.primitive.name, eqn.params
    inner = parameters.get("jaxpr") or parameters.get("call_jaxpr") or parameters.get("call")
    key = label(str(eqn.source_info.name_stack))
    if name == "platform_index":
      results = _index(parameters["platforms"], platform)
    elif name == "cond" and parameters.get("branches_platforms"):
      index = _index(parameters["branches_platforms"], platform)
      branch = parameters["branches"][index]
      results = _evaluate(branch.jaxpr, branch.consts, given[1:], platform, found)
    elif "function" in parameters:
      # An operation of `platforms`: its lowering has the same trace, with the same labels.
      inner = platforms.traced(platform, parameters["function"], *given)
      results = _evaluate(inner.jaxpr, inner.consts, given, platform, found)
    elif name in _CALLS and inner is not None:
      bare, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
      results = _evaluate(bare, consts, given, platform, found)
    elif name == "custom_linear_solve":
      program, lengths = parameters["jaxprs"].solve, parameters["const_lengths"]
      first = lengths.matvec + lengths.vecmat
      inputs = [*given[first : first + lengths.solve], *given[sum(lengths) :]]
      results = _evaluate(program.jaxpr, program.consts, inputs, platform, found)
    elif name == "scan" and _has_loops(parameters["jaxpr"].jaxpr):
      results = _scan(parameters, given, platform, found)
    elif name == "while" and key:
      turns, results = _while(parameters, given)
      found[key] = jnp.maximum(found.get(key, 0), turns)
    else:
      bound = eqn.primitive.get_bind_params(parameters)
      # Before jax 0.9, functions that are arguments of the operation came apart.
      functions, bound = bound if isinstance(bound, tuple) else ((), bound)
      results = eqn.primitive.bind(*functions, *given, **bound)
    results = results if isinstance(results, (list, tuple)) else [results]
    values.update(zip(eqn.outvars, results, strict=True))
  return [read(x) for x in jaxpr.outvars]


def _has_loops(jaxpr: Any) -> bool:
  """Whether a program has loops whose length only the data knows, or operations that may."""
  return any(
    eqn.primitive.name == "while"
    or "function" in eqn.params
    or any(map(_has_loops, core.jaxprs_in_params(eqn.params)))
    for eqn in jaxpr.eqns
  )


def _scan(
  parameters: Mapping[str, Any], given: Sequence[Any], platform: str, found: dict[str, Any]
) -> list[Any]:
  """The results of a scan, which is evaluated turn by turn."""
  program, length = parameters["jaxpr"], parameters["length"]
  first = parameters["num_consts"]
  second = first + parameters["num_carry"]
  state, rows = list(given[first:second]), []
  turns = range(length)
  for turn in reversed(turns) if parameters["reverse"] else turns:
    inputs = (*given[:first], *state, *(x[turn] for x in given[second:]))
    out = _evaluate(program.jaxpr, program.consts, inputs, platform, found)
    state, row = out[: len(state)], out[len(state) :]
    rows.append(row)
  rows = rows[::-1] if parameters["reverse"] else rows
  return [*state, *map(jnp.stack, zip(*rows, strict=True))]


def _index(platforms: Sequence[Sequence[str] | None], platform: str) -> int:
  """The branch of a platform, or that of all others."""
  named = (i for i, names in enumerate(platforms) if names and platform in names)
  return next(named, len(platforms) - 1)


def _while(parameters: Mapping[str, Any], given: Sequence[Any]) -> tuple[Any, list[Any]]:
  """The turns and the results of a loop."""
  first = parameters["cond_nconsts"]
  second = first + parameters["body_nconsts"]
  test, body = (core.jaxpr_as_fun(parameters[x]) for x in ("cond_jaxpr", "body_jaxpr"))

  def continues(state: tuple[Any, list[Any]]) -> Any:
    return jnp.any(test(*given[:first], *state[1])[0])

  def turn(state: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
    return state[0] + 1, body(*given[first:second], *state[1])

  return lax.while_loop(continues, turn, (jnp.int32(0), list(given[second:])))
