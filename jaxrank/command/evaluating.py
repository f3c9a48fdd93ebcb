"""Reads the files of the command and evaluates the runs."""

import argparse
import difflib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import platformdirs
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID

from jaxrank import trec
from jaxrank._errors import AdvisedError
from jaxrank.measures.families import trec_families, trec_lines
from jaxrank.measures.families import words as split
from jaxrank.measures.grammar import OF_YOUR_OWN, Dialect, read_measures
from jaxrank.measures.measure import Measure

# What stands in `relstring` for labels of documents that are not judged.
_MARKS = {-1: "-", -2: "."}

# In a name that says from which label on documents are relevant.
_LEVEL = re.compile(r"\brel\s*=|-l[0-9]+$")

DEFAULTS = "nDCG@10 AP RR P@10 R@100"


class Relstring(NamedTuple):
  """The line `relstring` of trec_eval: the labels of the first documents, a character each.

  Attributes:
    name: The name that is printed.
    length: The number of documents.
    place: How many measures are printed before it.
  """

  name: str
  length: int
  place: int


class Evaluated(NamedTuple):
  """A run and its values.

  Attributes:
    name: The name of the run, which no other run has.
    tag: The name in its file.
    queries: The queries that were evaluated.
    missing: Those of them that the run does not have, and that count as 0.
    relstrings: `[queries]`, what the line `relstring` says; empty without it.
    values: `[measures, queries]`.
    totals: `[measures]`, over all queries: means, or what else the measures call for.
    evaluation: What these are from.
  """

  name: str
  tag: str
  queries: tuple[str, ...]
  missing: frozenset[str]
  relstrings: tuple[str, ...]
  values: np.ndarray
  totals: np.ndarray
  evaluation: trec.Evaluation


class Judged(NamedTuple):
  """The values by the judgements of a model.

  Attributes:
    qrels: The name of the qrels.
    runs: The runs, as those of `Results`.
  """

  qrels: str
  runs: tuple[Evaluated, ...]


class Results(NamedTuple):
  """What the command found.

  Attributes:
    qrels: The name of the qrels.
    measures: The measures.
    runs: The runs, in the order of the arguments.
    with_tag: Whether the lines of trec_eval begin with the tag of the run.
    relstring: That line, if it is one of the lines of trec_eval.
    judged: The runs by the judgements of a model, or None.
  """

  qrels: str
  measures: tuple[Measure, ...]
  with_tag: bool
  relstring: Relstring | None
  runs: tuple[Evaluated, ...]
  judged: Judged | None

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
  folder = platformdirs.user_cache_path("jaxrank")
  try:
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
      raise PermissionError("it cannot be written")
  except OSError as error:
    print(
      f"jaxrank: warning: compiled programs are not kept in {folder}: "
      f"{error.strerror or error}; --no-cache keeps none.",
      file=sys.stderr,
    )
    return
  jax.config.update("jax_compilation_cache_dir", str(folder))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def evaluate(args: argparse.Namespace) -> Results:
  """Evaluates the runs of the arguments."""
  files, names = _files_and_measures(args)
  measures, with_tag, relstring = _measures(names, args)
  with progress_bar() as progress:
    task = progress.add_task("reading", total=1 + bool(args.judge) + len(files))
    by_subtopic = any(measure.description.subtopics for measure in measures)
    qrels = []
    for file in filter(None, (args.qrels, args.judge)):
      qrels.append(trec.read_qrels(file, subtopics=by_subtopic))
      progress.advance(task)
    runs = []
    for file in files:
      runs.append(trec.read_run(file))
      progress.advance(task)
    shown = different([run.name for run in runs], files)
    length = None if relstring is None else relstring.length
    evaluated = [
      tuple(
        _of_run(measures, judgements, run, name, length, progress, args)
        for run, name in zip(runs, shown, strict=True)
      )
      for judgements in qrels
    ]
  # Those of the model have all queries, and the others need not be told.
  qrels_name = "qrels" if args.judge is None else qrels[-1].name
  for run in evaluated[-1]:
    _tell(run.name, run.evaluation, args.queries, qrels_name)
  judged = Judged(qrels[1].name, evaluated[1]) if args.judge else None
  return Results(qrels[0].name, measures, with_tag, relstring, evaluated[0], judged)


def _of_run(
  measures: tuple[Measure, ...],
  qrels: trec.Qrels,
  run: trec.Run,
  name: str,
  length: int | None,
  progress: Progress,
  args: argparse.Namespace,
) -> Evaluated:
  """The values of a run by some judgements."""
  evaluation = trec.evaluate(
    measures,
    qrels,
    run,
    ties=args.ties,
    queries=args.queries,
    drop_self=args.drop_self,
    judged_only=args.judged_only,
    depth=args.depth,
    progress=advance(progress, progress.add_task(name, total=None)),
  )
  values = np.array([evaluation.values[measure.name] for measure in measures])
  values = values.reshape(len(measures), len(evaluation.queries))
  means = evaluation.mean()
  totals = np.array([means[measure.name] for measure in measures])
  missing = frozenset(evaluation.only_in_qrels).intersection(evaluation.queries)
  texts = () if length is None else _relstrings(qrels, run, length, args)
  return Evaluated(name, run.name, evaluation.queries, missing, texts, values, totals, evaluation)


def _relstrings(
  qrels: trec.Qrels, run: trec.Run, length: int, args: argparse.Namespace
) -> tuple[str, ...]:
  """The labels of the first documents of each query, a character each, as in trec_eval."""
  arrays = trec.to_arrays(qrels, run, queries=args.queries)
  kept = arrays.where & (arrays.scores > -np.inf)
  if args.drop_self:
    kept &= arrays.documents != np.array(arrays.queries, object)[:, None]
  if args.depth is not None:
    kept &= np.cumsum(kept, axis=1) <= args.depth
  if args.judged_only:
    kept &= arrays.labels >= 0
  first = kept & (np.cumsum(kept, axis=1) <= length)
  return tuple(
    "".join(_MARKS.get(int(x), str(int(x)) if x < 10 else ">") for x in labels[chosen])
    for labels, chosen in zip(arrays.labels, first, strict=True)
  )


def _files_and_measures(args: argparse.Namespace) -> tuple[list[str], list[str]]:
  """The arguments that name files, and those that name measures."""
  files = [word for word in args.inputs if word == "-" or _is_file(word)]
  if [args.qrels, args.judge, *files].count("-") > 1:
    raise ValueError("only one of the files can be the standard input, -.")
  names = [word for word in args.inputs if word not in files] + args.measure
  missing = [word for word in names if "/" in word or Path(word).suffix in (".gz", ".txt", ".run")]
  if missing:
    raise FileNotFoundError(f"there is no file {missing[0]!r}{instead(missing[0])}.")
  if not files:
    near = next(filter(None, map(instead, names)), "")
    raise ValueError(f"no argument after the qrels names a file of a run: {' '.join(names)}{near}.")
  if args.form == "trec" and len(files) > 1:
    raise ValueError(
      f"--trec prints the lines of one run, got {len(files)} runs; call the command for each, or "
      "use --tsv."
    )
  return files, names


def _is_file(word: str) -> bool:
  """Whether a word names a file, or a pipe as `<(...)` of a shell does."""
  path = Path(word)
  return path.exists() and not path.is_dir()


def instead(word: str) -> str:
  """What a file that does not exist may have been meant to be."""
  path = Path(word)
  if path.is_dir():
    return " (it is a folder: name the files in it)"
  there = [x.name for x in path.parent.iterdir()] if path.parent.is_dir() else []
  near = difflib.get_close_matches(path.name, there, 1, 0.75)
  return f" (is it {path.parent / near[0]}?)" if near else ""


def _measures(
  names: list[str], args: argparse.Namespace
) -> tuple[tuple[Measure, ...], bool, Relstring | None]:
  """The measures, and the lines of trec_eval that are texts: whether the tag, and `relstring`."""
  words = [x for name in names for x in split(name)]
  if args.form != "trec":
    read = [x for name in trec_families(words or DEFAULTS.split()) for x in _read(name)]
    return tuple(dict.fromkeys(_changed(measure, args) for measure in read)), False, None
  lines = trec_lines(words or ["official"], args.dialect)
  read, relstring = [], None
  for line in lines:
    if line.text == "relstring":
      length = int(line.name.partition(".")[2] or 10)
      relstring = Relstring(line.printed, length, len(read))
    elif line.text is None:
      for x in _read(line.name, args.dialect):
        # The name that is printed; a line that is printed as it was written may have several.
        name = line.printed if line.printed != line.name else x.name
        read.append(Measure(x.metric, name=name, **x.parameters))
  measures = tuple(_changed(measure, args) for measure in read)
  return measures, lines[0].text == "runid", relstring


def _read(name: str, dialect: Dialect | None = None) -> tuple[Measure, ...]:
  """The measures of an argument, by the names of the dialect first and of all libraries then."""
  try:
    return read_measures(name, dialect)
  except AdvisedError as error:
    if error.about != "name":
      raise
    if dialect is not None:
      return _read(name)
    raise unknown(error, f"{name!r} is no file{instead(name)} and") from None


def unknown(error: AdvisedError, name: str) -> ValueError:
  """The error of a name that is that of no measure, with advice that is of use in a shell."""
  return ValueError(f"{name} no name of a measure: {error.advice.removesuffix(OF_YOUR_OWN)}")


def _changed(measure: Measure, args: argparse.Namespace) -> Measure:
  """A measure with the level and the size of the collection of the arguments, if it names none."""
  parameters = dict(measure.parameters)
  takes = measure.description.signature.parameters
  if args.rel is not None and "rel" in takes and not _LEVEL.search(measure.name):
    parameters["rel"] = args.rel
  if args.collection is not None and "collection" in takes and "collection" not in parameters:
    parameters["collection"] = args.collection
  return Measure(measure.metric, name=measure.name, **parameters)


def different(names: list[str], files: list[str]) -> list[str]:
  """The names of the runs, or their files where runs have the same name, which may be numbered."""
  count = Counter(names)
  shown = [name if count[name] == 1 else file for name, file in zip(names, files, strict=True)]
  seen: Counter[str] = Counter()
  for i, name in enumerate(shown):
    seen[name] += 1
    if seen[name] > 1:
      shown[i] = f"{name} ({seen[name]})"
  return shown


@contextmanager
def progress_bar() -> Iterator[Progress]:
  """Progress on the standard error of a terminal, and nothing elsewhere."""
  console = Console(stderr=True)
  columns = (*Progress.get_default_columns(), MofNCompleteColumn())
  # Not by the console, which takes a pipe for a terminal if FORCE_COLOR is set.
  hidden = not sys.stderr.isatty()
  with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
    yield bar


def advance(progress: Progress, task: TaskID) -> Callable[[int, int], None]:
  """A function that shows how much of a task is done."""
  return lambda done, total: progress.update(task, completed=done, total=total)


def _tell(name: str, evaluation: trec.Evaluation, queries: str, qrels: str) -> None:
  """Says on standard error which queries were left out, or count as 0."""
  for missing, ours, other, counts in (
    (evaluation.only_in_qrels, qrels, "run", queries == "judged"),
    (evaluation.only_in_run, "run", qrels, False),
  ):
    if missing:
      one = len(missing) == 1
      what, are = ("query", "is") if one else ("queries", "are")
      then = f"count{'s' * one} as 0" if counts else f"{are} left out"
      text = f"{what} of the {ours} that {are} not in the {other} {then}: {few(missing)}"
      print(f"jaxrank: {name}: {text}", file=sys.stderr)


def few(names: Sequence[str]) -> str:
  """The first names, and how many there are."""
  return ", ".join(names[:3]) + (f", ... ({len(names)} in all)" if names[3:] else "")
