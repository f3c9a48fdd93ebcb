"""`python -m tests.benchmarks.trec`: from files to a table of ten measures, as whole processes.

The table replaces what stands between two comments of `docs/trec.md`. Each system is a process of
its own, which imports, reads judgements and a run, evaluates, and prints; jaxrank runs first with
an empty compilation cache, and then again. `--queries 1000` leaves out the larger files, and does
not write the page.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import numpy as np

from . import report
from .report import Row, at_most, ratio_row

_ROOT = pathlib.Path(__file__).parents[2]

DOCUMENTS, JUDGED, COLLECTION = 1000, 100, 8_800_000
QUERIES = (1000, 10_000)

# How often each system runs on the smaller files; it runs once on the larger ones.
_TURNS = {"jaxrank": 8, "pytrec_eval": 8, "ranx": 2}

# Each prints the peak of memory after the imports and at the end, in KiB, and the mean of map. The
# ten measures have other names in ranx.
_PROGRAMS = {
  "jaxrank": """
import jaxrank as jr, jaxrank.trec, pyarrow.compute, pyarrow.csv
imported = peak()
measures = "map ndcg ndcg_cut_10 P_5 P_10 recall_100 recall_1000 recip_rank Rprec bpref"
found = jr.trec.evaluate(measures, qrels, run).mean()
mean = found["map"]
""",
  "pytrec_eval": """
import pytrec_eval
imported = peak()
with open(qrels) as file:
  judged = pytrec_eval.parse_qrel(file)
with open(run) as file:
  ranked = pytrec_eval.parse_run(file)
measures = {"map", "ndcg", "ndcg_cut.10", "P.5,10", "recall.100,1000", "recip_rank", "Rprec"}
found = pytrec_eval.RelevanceEvaluator(judged, measures | {"bpref"}).evaluate(ranked)
means = {name: sum(x[name] for x in found.values()) / len(found) for name in found["1000"]}
mean = means["map"]
""",
  "ranx": """
import ranx
imported = peak()
judged = ranx.Qrels.from_file(qrels, kind="trec")
ranked = ranx.Run.from_file(run, kind="trec")
measures = ["map", "ndcg", "ndcg@10", "precision@5", "precision@10", "recall@100", "recall@1000"]
mean = ranx.evaluate(judged, ranked, [*measures, "mrr", "r-precision", "bpref"])["map"]
""",
}
_BEFORE = """
import pathlib, sys
qrels, run = sys.argv[1:]
def peak():
  status = pathlib.Path("/proc/self/status").read_text()
  return int(status.split("VmHWM:")[1].split()[0])
"""
_AFTER = "print(imported, peak(), mean)"


class Cost(NamedTuple):
  """What a process took: seconds, bytes of memory beyond its imports, and the mean of map."""

  seconds: float
  memory: float
  mean: float


def make(folder: pathlib.Path, queries: int) -> tuple[pathlib.Path, pathlib.Path]:
  """Writes judgements and a run, of which some scores tie, and returns their paths."""
  rng = np.random.default_rng(0)
  qrels, run = folder / f"qrels{queries}.txt", folder / f"run{queries}.txt"
  with open(qrels, "w") as judgements, open(run, "w") as ranking:
    for query in range(1000, 1000 + queries):
      found = np.unique(rng.integers(0, COLLECTION, DOCUMENTS + 50))
      found = rng.permutation(found)[:DOCUMENTS].tolist()
      scores = np.sort(rng.normal(10, 3, DOCUMENTS))[::-1].tolist()
      ranking.writelines(
        f"{query} Q0 msmarco_doc_{document} {rank} {score:.4f} bm25\n"
        for rank, (document, score) in enumerate(zip(found, scores, strict=True), 1)
      )
      # Most judged documents are retrieved, the others are not in the collection.
      judged = [*rng.choice(found, JUDGED * 6 // 10, replace=False).tolist()]
      judged += range(COLLECTION, COLLECTION + JUDGED - len(judged))
      labels = rng.choice([0, 0, 0, 1, 2, 3], JUDGED).tolist()
      judgements.writelines(
        f"{query} 0 msmarco_doc_{document} {label}\n"
        for document, label in zip(judged, labels, strict=True)
      )
  return qrels, run


def measure(system: str, files: tuple[pathlib.Path, pathlib.Path], cache: pathlib.Path) -> Cost:
  """Runs a system as a process of its own; programs are kept in `cache`."""
  settings = {
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": str(cache),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
  }
  command = [sys.executable, "-W", "ignore", "-c", _BEFORE + _PROGRAMS[system] + _AFTER]
  start = time.perf_counter()
  done = subprocess.run(
    [*command, *map(str, files)],
    env=os.environ | settings,
    capture_output=True,
    text=True,
    check=True,
  )
  seconds = time.perf_counter() - start
  imported, peak, mean = done.stdout.split()[-3:]
  return Cost(seconds, 1024.0 * (int(peak) - int(imported)), float(mean))


def costs(folder: pathlib.Path, queries: int) -> tuple[dict[str, Cost], int]:
  """The best cost of each system, in turns, that of the first run, and the size of the files."""
  files = make(folder, queries)
  cache = folder / f"cache{queries}"
  first = measure("jaxrank", files, cache)
  systems = {x: turns for x, turns in _TURNS.items() if importlib.util.find_spec(x) is not None}
  found: dict[str, list[Cost]] = {system: [] for system in systems}
  for turn in range(max(systems.values()) if queries <= 1000 else 1):
    for system, turns in systems.items():
      if turn < turns:
        found[system].append(measure(system, files, cache))
  for system, all_costs in found.items():
    if abs(all_costs[0].mean - first.mean) > 1e-4:
      raise AssertionError(f"map is {first.mean} here and {all_costs[0].mean} in {system}")
  best = {system: min(all_costs) for system, all_costs in found.items()}
  return best | {"first": first}, sum(path.stat().st_size for path in files)


def rows(folder: pathlib.Path, queries: int) -> list[Row]:
  """The rows of files with so many queries."""
  found, size = costs(folder, queries)
  ours, first = found["jaxrank"], found["first"]
  name = f"{queries:,} x {DOCUMENTS:,}"
  result = [Row(f"{name}, first run", _seconds(first), "", "")]
  most = {"pytrec_eval": 2.5 if queries < 10_000 else 1, "ranx": 1}
  for system, limit in most.items():
    if system in found:
      other = found[system]
      ratio, target = ours.seconds / other.seconds, at_most(limit)
      result.append(
        ratio_row(f"{name}, time", _seconds(ours), system, _seconds(other), ratio, target)
      )
  for system in most:
    if system in found:
      other = found[system]
      ratio = ours.memory / other.memory
      shown = report.megabytes(ours.memory), system, report.megabytes(other.memory)
      result.append(ratio_row(f"{name}, memory", *shown, ratio))
  shown = report.megabytes(ours.memory), "the files", report.megabytes(size)
  return [*result, ratio_row(f"{name}, memory", *shown, ours.memory / size, at_most(4))]


def _seconds(cost: Cost) -> str:
  return f"{cost.seconds:.2f} s"


def main() -> None:
  """Measures, prints the table and writes it into the page."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--queries", type=int, nargs="+", default=QUERIES)
  chosen = tuple(parser.parse_args().queries)
  with tempfile.TemporaryDirectory() as folder:
    found = [row for queries in chosen for row in rows(pathlib.Path(folder), queries)]
  print(report.table(found))
  if chosen == QUERIES:
    report.write_rows("trec", found, "trec.md")


if __name__ == "__main__":
  main()
