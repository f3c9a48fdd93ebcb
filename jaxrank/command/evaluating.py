"""Reads the files of the command and evaluates the runs."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import platformdirs
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID

from jaxrank import trec
from jaxrank.measures.families import trec_families
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measure

DEFAULTS = "nDCG@10 AP RR P@10 R@100"


class Evaluated(NamedTuple):
  """A run and its values.

  Attributes:
    name: The name of the run, which no other run has.
    queries: The queries that were evaluated.
    missing: Those of them that the run does not have, and that count as 0.
    values: `[measures, queries]`.
    totals: `[measures]`, over all queries: means, or what else the measures call for.
  """

  name: str
  queries: tuple[str, ...]
  missing: frozenset[str]
  values: np.ndarray
  totals: np.ndarray


class Results(NamedTuple):
  """What the command found.

  Attributes:
    qrels: The name of the qrels.
    measures: The measures.
    runs: The runs, in the order of the arguments.
  """

  qrels: str
  measures: tuple[Measure, ...]
  runs: tuple[Evaluated, ...]

  @property
  def goodness(self) -> np.ndarray:
    """`[measures, runs]`: numbers of which the largest is that of the best run."""
    totals = np.stack([run.totals for run in self.runs], axis=-1)
    good = []
    for measure, total in zip(self.measures, totals, strict=True):
      description = measure.description
      if description.best is not None:
        good.append(-np.abs(total - description.best))
      else:
        good.append(total if description.higher_is_better else -total)
    return np.stack(good)

  @property
  def best(self) -> np.ndarray:
    """`[measures, runs]`: whether a run is the best by a measure, unless all are equally good."""
    good = self.goodness
    least, largest = (end(good, axis=1, keepdims=True) for end in (np.min, np.max))
    best: np.ndarray = (good == largest) & (least < largest)
    return best


def keep_programs() -> None:
  """Keeps compiled programs in the cache folder of the user, for the next process."""
  folder = platformdirs.user_cache_path("jaxrank", ensure_exists=True)
  jax.config.update("jax_compilation_cache_dir", str(folder))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def evaluate(args: argparse.Namespace) -> Results:
  """Evaluates the runs of the arguments."""
  files, names = _files_and_measures(args)
  measures = read_measures(" ".join(_measures(names, args.form)))
  with _progress() as progress:
    task = progress.add_task("reading", total=1 + len(files))
    qrels = trec.read_qrels(args.qrels)
    progress.advance(task)
    runs = []
    for file in files:
      runs.append(trec.read_run(file))
      progress.advance(task)
    evaluated = []
    for run, name in zip(runs, _different([run.name for run in runs], files), strict=True):
      advanced = _advance(progress, progress.add_task(name, total=None))
      found = trec.evaluate(
        measures, qrels, run, ties=args.ties, queries=args.queries, progress=advanced
      )
      values = np.stack([found.values[measure.name] for measure in measures])
      means = found.mean()
      totals = np.array([means[measure.name] for measure in measures])
      missing = frozenset(found.only_in_qrels).intersection(found.queries)
      evaluated.append(Evaluated(name, found.queries, missing, values, totals))
      _tell(name, found, args.queries)
  return Results(qrels.name, measures, tuple(evaluated))


def _files_and_measures(args: argparse.Namespace) -> tuple[list[str], list[str]]:
  """The arguments that name files, and those that name measures."""
  files = [word for word in args.inputs if Path(word).is_file()]
  names = [word for word in args.inputs if word not in files] + args.measure
  missing = [word for word in names if "/" in word or Path(word).suffix in (".gz", ".txt", ".run")]
  if missing:
    raise FileNotFoundError(f"there is no file {missing[0]!r}.")
  if not files:
    raise ValueError(f"no argument after the qrels names a file of a run: {' '.join(names)}.")
  if args.form == "trec" and len(files) > 1:
    raise ValueError(
      f"--trec prints the lines of one run, got {len(files)} runs; call the command for each, or "
      "use --tsv."
    )
  return files, names


def _measures(names: list[str], form: str) -> tuple[str, ...]:
  """The names of single measures; the lines of trec_eval are in its order, and the others last."""
  if form != "trec":
    return trec_families(names or DEFAULTS)
  order = {name: i for i, name in enumerate(trec_families("all_trec"))}
  asked = trec_families(names or "official")
  return tuple(sorted(asked, key=lambda name: order.get(name, len(order))))


def _different(names: list[str], files: list[str]) -> list[str]:
  """The names of the runs, or their files where runs have the same name."""
  count = Counter(names)
  return [name if count[name] == 1 else file for name, file in zip(names, files, strict=True)]


@contextmanager
def _progress() -> Iterator[Progress]:
  """Progress on the standard error of a terminal, and nothing elsewhere."""
  console = Console(stderr=True)
  columns = (*Progress.get_default_columns(), MofNCompleteColumn())
  with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
    yield bar


def _advance(progress: Progress, task: TaskID) -> Callable[[int, int], None]:
  return lambda done, total: progress.update(task, completed=done, total=total)


def _tell(name: str, found: trec.Evaluation, queries: str) -> None:
  """Says on standard error which queries were left out, or count as 0."""
  what = "count as 0" if queries == "judged" else "are left out"
  for missing, text in (
    (found.only_in_qrels, f"queries of the qrels that are not in the run {what}"),
    (found.only_in_run, "queries of the run that are not in the qrels are left out"),
  ):
    if missing:
      few = ", ".join(missing[:3]) + (f", ... ({len(missing)} in all)" if missing[3:] else "")
      print(f"jaxrank: {name}: {text}: {few}", file=sys.stderr)
