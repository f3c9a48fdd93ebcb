"""Reads the golden files: one query each, with its values worked out line by line in comments."""

import pathlib
from typing import NamedTuple

_FOLDER = pathlib.Path(__file__).parent / "goldens"


class Value(NamedTuple):
  """What a measure must give; `trec` is "-" where trec_eval has no such value."""

  measure: str
  trec: str
  level: int
  number: float


class Golden(NamedTuple):
  """One query and its values."""

  name: str
  scores: list[float]
  labels: list[int]
  values: list[Value]


def read_all() -> list[Golden]:
  """Every golden file, by name."""
  return [_read(path) for path in sorted(_FOLDER.glob("*.tsv"))]


def _read(path: pathlib.Path) -> Golden:
  golden = Golden(path.stem, [], [], [])
  for line in path.read_text(encoding="utf-8").splitlines():
    if line.startswith("#"):
      continue
    kind, *cells = line.split("\t")
    if kind == "item":
      score, label = cells
      golden.scores.append(float(score))
      golden.labels.append(int(label))
    else:
      measure, trec, level, number = cells
      golden.values.append(Value(measure, trec, int(level), float(number)))
  return golden
