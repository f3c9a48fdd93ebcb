"""`python -m tests.programs [ARGUMENTS OF PYTEST]`: the programs that each test compiles.

Compiled programs are nearly the whole price of the tests. The command runs tests with an empty
cache, and prints by folder, and for the costliest tests, how many programs they compile, how long
JAX traces, lowers and compiles them by the clock, and the processor seconds of the tests with the
processes that they start. Programs of such processes are not counted. `-n 2` works as it does with
pytest, and `--costliest 10` lists ten tests.
"""

import bisect
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

# What JAX reports of each program, in the order of the columns.
_EVENTS = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration")
_COLUMNS = ("tests", "programs", "traced", "lowered", "compiled", "processor s")


class Cost(NamedTuple):
  """What one test costs, or several.

  Attributes:
    tests: The number of tests.
    programs: The number of compiled programs.
    traced: Seconds of tracing functions.
    lowered: Seconds of making the text of programs.
    compiled: Seconds of compiling it.
    seconds: Processor seconds of all that.
  """

  tests: float = 0
  programs: float = 0
  traced: float = 0
  lowered: float = 0
  compiled: float = 0
  seconds: float = 0


class Events:
  """The programs so far, and the seconds of the events that lead to them."""

  def __init__(self) -> None:
    self.programs, self.seconds = 0, dict.fromkeys(_EVENTS, 0.0)

  def __call__(self, event: str, duration_secs: float, **_: Any) -> None:
    name = event.rpartition("/")[2]
    if name in self.seconds:
      self.programs += name == _EVENTS[-1]
      self.seconds[name] += duration_secs

  def cost(self) -> Cost:
    """The cost so far of this process and of the ended ones that it has started."""
    traced, lowered, compiled = self.seconds.values()
    return Cost(0, self.programs, traced, lowered, compiled, sum(os.times()[:4]))


_events = Events()
_key = pytest.StashKey[Cost]()


def pytest_addoption(parser: pytest.Parser) -> None:
  """Adds an option to those of pytest."""
  parser.addoption("--costliest", type=int, default=40, help="how many tests are listed")


def pytest_collection_finish() -> None:
  """Listens to JAX, which the configuration of the tests has set up and imported."""
  import jax.monitoring

  jax.monitoring.register_event_duration_secs_listener(_events)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
  """Notes what everything had cost before the test."""
  item.stash[_key] = _events.cost()
  return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
  """Adds the cost to the last report of a test, which workers send to the process that prints."""
  report = yield
  if call.when == "teardown":
    before, after = item.stash[_key], _events.cost()
    spent = [y - x for x, y in zip(before, after, strict=True)]
    report.user_properties.append(("cost", [1, *spent[1:]]))
  return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
  """Prints the tables."""
  costs: dict[str, Cost] = {}
  for report in itertools.chain(*terminalreporter.stats.values()):
    for name, cost in getattr(report, "user_properties", ()):
      if name == "cost":
        costs[report.nodeid] = Cost(*cost)
  for line in tables(costs, config.getoption("costliest")):
    terminalreporter.write_line(line)


def tables(costs: dict[str, Cost], costliest: int) -> Iterator[str]:
  """The lines of the tables, from the cost of each test by its name."""
  total = _sum(costs.values())
  ordered = sorted(costs, key=lambda name: costs[name].seconds, reverse=True)
  yield _row("folder", _COLUMNS)
  folders = {
    folder: _sum(costs[name] for name in names)
    for folder, names in itertools.groupby(sorted(costs, key=_folder), _folder)
  }
  for folder in sorted(folders, key=lambda folder: folders[folder].seconds, reverse=True):
    yield _row(folder, _cells(folders[folder]))
  yield _row("all", _cells(total))
  yield ""
  spent = list(itertools.accumulate(costs[name].seconds for name in ordered))
  for share in (0.5, 0.8):
    few = bisect.bisect_left(spent, share * total.seconds) + 1
    yield f"{few} tests cost {share:.0%} of the processor seconds."
  yield ""
  yield _row("test", _COLUMNS)
  for name in ordered[:costliest]:
    yield _row(name, _cells(costs[name]))


def _sum(costs: Iterable[Cost]) -> Cost:
  return Cost(*map(sum, zip(*costs, strict=True)))


def _folder(name: str) -> str:
  return "/".join(name.split("::")[0].split("/")[:2])


def _cells(cost: Cost) -> Iterator[str]:
  return (f"{x:,.{digits}f}" for x, digits in zip(cost, (0, 0, 1, 1, 1, 1), strict=True))


def _row(name: str, cells: Iterable[str]) -> str:
  return "| " + " | ".join([name, *cells]) + " |"


def main() -> int:
  """Runs the command, and returns the status of pytest."""
  command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.programs", *sys.argv[1:]]
  with tempfile.TemporaryDirectory() as folder:
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": folder}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
  sys.exit(main())
