"""Compiles and counts programs for a described device, in processes side by side."""

import concurrent.futures
import functools
import multiprocessing
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

import jaxrank as jr

from . import budgets, compilers, counting, programs, turns

# Compiled programs stay in memory, so that a process does not live forever.
_PROGRAMS_OF_A_PROCESS = 60


class Row(NamedTuple):
  """What a program costs.

  Attributes:
    name: The program.
    cost: The counts.
    memory: Bytes of temporary memory.
    seconds: How long tracing and compiling took.
    turns: Those of its loops whose length only the data knows, with names, if they were counted.
    refused: Why there is nothing to compile: the ranking does not answer what the metric asks.
    failure: The error, if it does not compile.
  """

  name: str
  cost: counting.Cost = counting.Cost()
  memory: int = 0
  seconds: float = 0.0
  turns: Mapping[str, int] = {}
  refused: str = ""
  failure: str = ""

  @property
  def counted(self) -> bool:
    """Whether there is a program."""
    return not (self.refused or self.failure)


def measure(
  platform: str, names: Sequence[str], only_headline: bool, processes: int
) -> Iterator[Row]:
  """The rows of programs, as they are done."""
  context = multiprocessing.get_context("spawn")
  # A pool of its own for each part, because one with `max_tasks_per_child` waits for ever when it
  # should replace a process (python/cpython#115634).
  size = processes * _PROGRAMS_OF_A_PROCESS
  for part in (names[i : i + size] for i in range(0, len(names), size)):
    with concurrent.futures.ProcessPoolExecutor(processes, context, _prepare, (platform,)) as pool:
      futures = {pool.submit(_row, platform, name, only_headline): name for name in part}
      for future in concurrent.futures.as_completed(futures):
        try:
          yield future.result()
        except Exception as error:
          yield Row(futures[future], failure=f"{type(error).__name__}: {error}")


def _prepare(platform: str) -> None:
  _device(platform)
  # A program that asks which machine traces it gets the answer of the device.
  jax.default_backend = lambda: "tpu" if platform == "tpu" else "gpu"
  turns.label_loops()


@functools.cache
def _device(platform: str) -> Any:
  return compilers.device(platform)


def _row(platform: str, name: str, only_headline: bool) -> Row:
  program = programs.table(only_headline)[name]
  jax.clear_caches()
  start = time.perf_counter()
  try:
    traced = compilers.traced(program.function, program.arguments, _device(platform))
    compiled = traced.lower().compile()
  except jr.UnansweredError as error:
    return Row(name, refused=str(error))
  except Exception as error:
    first = (str(error).splitlines() or [""])[0]
    return Row(name, failure=f"{type(error).__name__}: {first}")
  seconds = time.perf_counter() - start
  text = compiled.as_text()
  cost, measured = counting.cost(text), {}
  if cost.loops and program.ranking:
    every = turns.count(traced.jaxpr, platform, program.data())
    # The compiler drops loops whose results nothing uses.
    measured = {name: count for name, count in every.items() if re.search(rf"{name}\b", text)}
    cost = counting.cost(text, measured)
  memory = compiled.memory_analysis().temp_size_in_bytes
  return Row(name, cost, memory, seconds, measured)


def above(
  program: programs.Program, row: Row, rows: Mapping[str, Row], platform: str
) -> dict[str, str]:
  """The budgets that a row exceeds, by their names, as texts."""
  if row.failure:
    return {"compiles": row.failure}
  if row.refused:
    return {}
  budget, found = budgets.of(program), figures(program, row, rows, platform)
  held = {name: getattr(budget, name) for name in found}
  return {
    name: f"{name} {found[name]:,.3g} > {most:,.3g}"
    for name, most in held.items()
    if most is not None and not found[name] <= most
  }


def figures(
  program: programs.Program, row: Row, rows: Mapping[str, Row], platform: str
) -> dict[str, float]:
  """The figures of a row that a budget may hold on a platform, by the names of budgets."""
  found: dict[str, float] = {
    "loops": row.cost.loops,
    "conditionals": row.cost.conditionals,
    "memory": row.memory / (4 * program.shape[0] * program.shape[1]),
  }
  if platform == "cuda":
    found["launches"] = row.cost.launches
  formula = budgets.of(program).formula
  if platform == "tpu" and formula:
    hand = rows.get(program._replace(title=formula).name)
    found["cycles"] = row.cost.cycles / hand.cost.cycles if hand and hand.counted else float("nan")
  return found
