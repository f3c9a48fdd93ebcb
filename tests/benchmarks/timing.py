"""Races: every contender's calls take turns, so that a drift of the machine hits all of them."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .report import Row, at_most, milliseconds, ratio_row

ROUNDS = 21

# How often each side is compiled, and for how many seconds each program is timed, in turns of at
# least how many, so that the first calls after those of the other side count little.
PROGRAMS, SECONDS, TURN = 3, 0.5, 2e-3

# How often sides whose calls take less than so many seconds are compiled. Where a program lies in
# memory, and what else the machine does in half a second, change their times by a quarter.
PROGRAMS_OF_SHORT, SHORT = 9, 2e-4

# Thread pools of the other libraries spin for a moment after their work and would take a core.
_SETTLE = 0.02


class Contender(NamedTuple):
  """One side of a race.

  `rounds` is how often it is timed; `warm_ups` how often it runs before, untimed. `call` returns
  its values, so that a race also shows that both sides computed the same thing.
  """

  call: Callable[[], Any]
  rounds: int = ROUNDS
  warm_ups: int = 1

  def entry(self, name: str) -> "Contender":
    """The same work, compared by one of the values that it computes."""
    return self._replace(call=lambda: self.call()[name])


class Result(NamedTuple):
  """The median and the best time in seconds and the mean of the values, or why there are none."""

  seconds: float
  mean: float
  failure: str = ""
  best: float = np.nan


def jitted(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
  """Returns a call of `function(*args)`, compiled now, that waits for its result."""
  compiled = jax.jit(function).lower(*args).compile()
  return lambda: jax.block_until_ready(compiled(*args))


def planned_bytes(function: Callable[..., Any], *args: Any) -> int:
  """The temporary memory that the compiled program asks for; `args` may be shapes only."""
  compiled = jax.jit(function).lower(*args).compile()
  return compiled.memory_analysis().temp_size_in_bytes


def race(contenders: Mapping[str, Contender]) -> dict[str, Result]:
  """Times the contenders in turns; slow ones sit out some of the rounds."""
  failures = {name: _warm_up(contender) for name, contender in contenders.items()}
  running = {name: c for name, c in contenders.items() if not failures[name]}
  times: dict[str, list[float]] = {name: [] for name in running}
  values: dict[str, Any] = {}
  rounds = max((c.rounds for c in running.values()), default=0)
  for turn in range(rounds):
    for name, contender in running.items():
      if _takes_part(turn, contender.rounds, rounds):
        time.sleep(_SETTLE)
        start = time.perf_counter()
        values[name] = contender.call()
        times[name].append(time.perf_counter() - start)
  results = {name: Result(np.nan, np.nan, failure) for name, failure in failures.items()}
  for name, value in values.items():
    mean = float(np.mean(np.asarray(value)))
    results[name] = Result(statistics.median(times[name]), mean, best=min(times[name]))
  return results


def best_of_programs(sides: Sequence[Callable[..., Any]], data: Sequence[Any]) -> list[float]:
  """The best seconds of functions of `jax.jit` that take turns, for calls of microseconds too."""
  best = [np.inf] * len(sides)
  for program in range(PROGRAMS_OF_SHORT):
    if program >= PROGRAMS and min(best) > SHORT:
      break
    jax.clear_caches()
    once = [[_seconds(side, data, 1) for side in sides] for _ in range(2)][1]
    calls = max(1, round(TURN / min(once)))
    for _ in range(max(3, min(2000, round(SECONDS / (calls * max(once)))))):
      best = [min(b, _seconds(side, data, calls)) for b, side in zip(best, sides, strict=True)]
  return best


def raced(
  measured: str,
  ours: Callable[..., Any],
  against: str,
  theirs: Callable[..., Any],
  data: Sequence[Any],
  most: float,
) -> Row:
  """The row of two functions of `jax.jit`, ours at most `most` times the other.

  A row above its target is timed once more, and the best of each side counts: noise only adds time.
  """
  sides = ours, theirs
  best = best_of_programs(sides, data)
  if best[0] > most * best[1]:
    best = list(map(min, best, best_of_programs(sides, data)))
  texts = measured, milliseconds(best[0]), against, milliseconds(best[1])
  return ratio_row(*texts, best[0] / best[1], at_most(most))


def _seconds(side: Callable[..., Any], data: Sequence[Any], calls: int) -> float:
  start = time.perf_counter()
  for _ in range(calls):
    found = side(*data)
  jax.block_until_ready(found)
  return (time.perf_counter() - start) / calls


def check_same(what: str, side: str, ours: float, theirs: float) -> None:
  """Raises if the two sides of a comparison did not measure the same thing."""
  if not abs(ours - theirs) <= 1e-4:
    raise AssertionError(f"{what}: the mean is {ours} here and {theirs} in {side}")


def _warm_up(contender: Contender) -> str:
  try:
    for _ in range(contender.warm_ups):
      contender.call()
  except Exception as error:  # A peer that fails here loses its row, not the whole table.
    return f"fails: {type(error).__name__}: {error}"
  return ""


def _takes_part(turn: int, rounds: int, of: int) -> bool:
  return (turn + 1) * rounds // of > turn * rounds // of
