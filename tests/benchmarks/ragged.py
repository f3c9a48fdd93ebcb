"""`python -m tests.benchmarks.ragged`: `pad` against one stable sort of the ids; its table.

The table replaces what stands between two comments of `docs/scale.md`.
"""

import argparse
import functools

import numpy as np

import jaxrank as jr

from .report import Row, at_most, milliseconds, ratio_row, table, write_rows
from .timing import Contender, race

_COMMAND = "python -m tests.benchmarks.ragged"
ROWS, EACH, ROUNDS = 10_000_000, 100, 5


def orders(rows: int) -> dict[str, np.ndarray]:
  """Ids of queries of about a hundred rows each, in some orders and dtypes."""
  rng = np.random.default_rng(0)
  anyhow = rng.integers(0, rows // EACH, rows)
  return {
    "int64, in any order": anyhow,
    "int32, in any order": anyhow.astype(np.int32),
    "int64, query after query": np.repeat(rng.permutation(rows // EACH), EACH),
    "uint16, in any order": (anyhow % 65536).astype(np.uint16),
    "int64, sorted": np.sort(anyhow),
  }


def compare(name: str, ids: np.ndarray) -> Row:
  """The time of `pad` beside that of the sort that it cannot do without."""
  rng = np.random.default_rng(1)
  scores, labels = rng.random(ids.size, np.float32), rng.integers(0, 5, ids.size, np.int8)
  seconds = race({
    "pad": Contender(lambda: jr.pad(ids, scores, labels).where[0, 0], ROUNDS),
    "sort": Contender(functools.partial(_sort, ids), ROUNDS),
  })  # fmt: skip
  pad, sort = seconds["pad"].seconds, seconds["sort"].seconds
  target = at_most(3) if name.endswith("any order") and ids.itemsize > 2 else None
  what = f"pad, {ids.size:,} rows, {name}"
  return ratio_row(
    what, milliseconds(pad), "numpy.argsort, stable", milliseconds(sort), pad / sort, target
  )


def _sort(ids: np.ndarray) -> np.ndarray:
  return np.argsort(ids, kind="stable")[0]


def main() -> None:
  """Measures, prints the table and writes it into the page."""
  parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__.split("\n")[0])
  parser.add_argument("--rows", type=int, default=ROWS)
  args = parser.parse_args()
  rows = [compare(name, ids) for name, ids in orders(args.rows).items()]
  print(table(rows))
  write_rows("ragged", rows, "scale.md")


if __name__ == "__main__":
  main()
