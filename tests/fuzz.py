"""Tests every public metric against every law with many random queries.

Run `python -m tests.fuzz` from a clone, with the extra `test` installed: a million cases, the table
of which goes to docs/testing.md. `--cases` and `--seed` draw others, `--only` tests some metrics
and writes nothing. A case is one query, drawn as in `tests/helpers/cases.py`, of one metric, law,
cut-off and ranking. The status is 1 if a metric breaks a law.
"""

import argparse
import collections
import concurrent.futures
import itertools
import multiprocessing
import os
import sys
import time
from typing import NamedTuple

import numpy as np

from tests.helpers import xla_flags

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", xla_flags.flags())

import jaxrank as jr
from jaxrank import testing
from tests.benchmarks import report
from tests.helpers import cases, traits

QUERIES, N = 512, 8
# All orders of this many items are tried.
FEW = 5
# Rankings with their cut-offs. A traced cut-off is another program, and programs take the time.
RANKINGS = ((jr.Exact(), (None, 1, 4)), (jr.Laplace(0.7), (None,)))


class Result(NamedTuple):
  """What was found about one metric: cases by law, and the first failure of each law."""

  metric: str
  counts: dict[str, int]
  failures: dict[str, str]


def drawn(seed: int, law: str) -> testing.Case:
  """Random queries for a law."""
  lists = cases.draw(seed, QUERIES, FEW if law == "ties" else N, most_orders=10**9)
  return testing.Case(*lists[:3])


def fuzz(name: str, count: int, seed: int) -> Result:
  """Tests one metric with at least `count` cases."""
  row = traits.rows()[name]
  laws = [law for law in testing.LAWS if name not in traits.EXCEPTIONS.get(law, ())]
  ways = [
    (ranking if row.takes("ranking") else None, k)
    for ranking, cutoffs in (RANKINGS if row.takes("ranking") else RANKINGS[:1])
    for k in (cutoffs if row.takes("k") else (None,))
  ]
  counts: collections.Counter[str] = collections.Counter()
  failures: dict[str, str] = {}
  seeds = np.random.SeedSequence([seed, *name.encode()]).generate_state(10**5).tolist()
  while True:
    for law, (ranking, k) in itertools.product(laws, ways):
      case = drawn(seeds.pop(), law)._replace(k=k, ranking=ranking)
      try:
        compared = testing.LAWS[law](row, case)
      except AssertionError as error:
        failures.setdefault(law, str(error))
        compared = QUERIES
      counts[law] += QUERIES if compared else 0
    if counts.total() >= count:
      return Result(name, dict(counts), failures)


def table(results: list[Result]) -> str:
  """Cases by metric and law, as Markdown."""
  rows = [["metric", *testing.LAWS]]
  for metric, counts, failures in results:
    cells = [
      "**broken**" if law in failures else f"{counts[law]:,}" if counts.get(law) else "-"
      for law in testing.LAWS
    ]
    rows.append([f"`{metric}`", *cells])
  totals = [sum(one.counts.get(law, 0) for one in results) for law in testing.LAWS]
  rows.append(["all", *(f"{total:,}" for total in totals)])
  lines = ["| " + " | ".join(row) + " |" for row in rows]
  return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def page(results: list[Result], seed: int, minutes: float) -> str:
  """The result as it stands in docs/testing.md."""
  total = sum(sum(one.counts.values()) for one in results)
  broken = sum(len(one.failures) for one in results)
  verdict = f"broken {broken} times" if broken else "no metric broke a law"
  return (
    f"{total:,} cases in {minutes:.0f} minutes with seed {seed}: {verdict}.\n\n"
    f"{report.machine()}\n\n{table(results)}"
  )


def main() -> int:
  """Runs the command; the result is its status."""
  rows = traits.rows()
  parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
  parser.add_argument("--cases", type=int, default=10**6, help="the number of cases, at least")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4))
  parser.add_argument("--only", nargs="+", choices=rows, help="metrics; the page is not written")
  given = parser.parse_args()
  names = given.only or list(rows)
  each = -(-given.cases // len(names))
  start, results = time.monotonic(), []
  # A process ends with its metric, and frees the programs.
  with concurrent.futures.ProcessPoolExecutor(
    given.processes, multiprocessing.get_context("spawn"), max_tasks_per_child=1
  ) as pool:
    for one in pool.map(fuzz, names, itertools.repeat(each), itertools.repeat(given.seed)):
      results.append(one)
      done = f"{len(results)}/{len(names)} {one.metric}: {sum(one.counts.values()):,} cases"
      print(f"{time.monotonic() - start:6.0f} s  {done}", file=sys.stderr)
      for failure in one.failures.values():
        print(failure, file=sys.stderr)
  text = page(results, given.seed, (time.monotonic() - start) / 60)
  print(text)
  if not given.only:
    report.write("fuzz", text, "testing.md")
  return int(any(one.failures for one in results))


if __name__ == "__main__":
  sys.exit(main())
