"""Fuses the runs of `jaxrank fuse`, looks for weights, and says how many results to keep."""

import argparse
import inspect
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrank import _files, fusion, trec
from jaxrank._errors import AdvisedError, counted
from jaxrank.command.evaluating import advance, different, few, progress_bar, unknown
from jaxrank.command.fusing_arguments import NONE, OF_RANKS
from jaxrank.fusion.cutting import without_cutoff
from jaxrank.measures.grammar import only_measure
from jaxrank.measures.measure import Measure
from jaxrank.trec.pooling import Pool, pool

Normalise = Callable[..., Any]


class Fused(NamedTuple):
  """What `jaxrank fuse` made.

  Attributes:
    report: What is printed.
    run: The fused run; None if it is not to be written.
    fit: The fit of the weights; None without one.
  """

  report: str
  run: trec.Run | None
  fit: fusion.Fit | None


class _Way(NamedTuple):
  """How runs are fused.

  Attributes:
    method: A method of `jaxrank.fusion`.
    by_rank: Whether it reads nothing but ranks.
    normalisations: Those that are tried; None is none.
    parameters: The values of the parameters of the method that are tried.
  """

  method: Callable[..., Any]
  by_rank: bool
  normalisations: Sequence[Normalise | None]
  parameters: Mapping[str, Sequence[float | str]]

  def __call__(self, scores: np.ndarray, where: np.ndarray, weights: Any) -> Any:
    """The fused scores, with the first of what might be tried."""
    normalise, x = self.normalisations[0], scores
    if normalise is not None:
      x = normalise(scores, where=where)
    parameters = {name: values[0] for name, values in self.parameters.items()}
    return self.method(x, where=where, weights=weights, **parameters)


def fuse(args: argparse.Namespace) -> Fused:
  """Reads the files of the arguments, and fuses the runs."""
  way, name = _way(args), args.name or args.method
  measure = _measure(args)
  _check_files(args, name)
  with progress_bar() as progress:
    task = progress.add_task("reading", total=bool(args.qrels) + len(args.files))
    qrels = trec.read_qrels(args.qrels) if args.qrels else None
    progress.advance(task, int(bool(args.qrels)))
    runs = []
    for file in args.files:
      runs.append(trec.read_run(file))
      progress.advance(task)
    shown = different([run.name for run in runs], args.files)
    judged = _judged(qrels, runs, shown, args)
    pooled = pool(runs, qrels, by_rank=way.by_rank)
    rows = np.array([i for i, query in enumerate(pooled.queries) if query in judged])
    if args.tune:
      told = advance(progress, progress.add_task("weights", total=None))
      fit = _fit(way, pooled, rows, shown, told, args)
      run = None
      if args.out:
        fused = np.asarray(fit(pooled.scores, where=pooled.where))
        run = pooled.run(fused, args.depth, name)
      return Fused(_of_fit(fit, args.json), run, fit)
  weights = None if args.weights is None else np.array(args.weights, np.float32)
  fused = np.asarray(way(pooled.scores, pooled.where, weights))
  if measure is None:
    return Fused("", pooled.run(fused, args.depth, name), None)
  report, depth = _kept(measure, pooled, fused, rows, args)
  return Fused(report, pooled.run(fused, depth, name), None)


def write(run: trec.Run, out: str) -> None:
  """Writes a run to a file, or in TREC's format to the standard output for `-`."""
  if out != "-":
    run.write(out)
    return
  with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "fused.run")
    run.write(path)
    with path.open("rb") as file:
      shutil.copyfileobj(file, sys.stdout.buffer)


def _way(args: argparse.Namespace) -> _Way:
  """The method, its parameters and normalisations; those that are told are checked."""
  method, by_rank = getattr(fusion, args.method), args.method in OF_RANKS
  names = args.normalize or ([NONE] if by_rank else ["min_max"])
  if by_rank and args.normalize:
    print(
      f"jaxrank: {args.method} takes ranks, which no normalisation changes: --normalize counts for "
      "nothing",
      file=sys.stderr,
    )
    names = [NONE]
  takes = _parameters(method)
  parameters, settings = {}, {} if args.missing is None else {"missing": args.missing}
  for name, values in args.parameters:
    of_scale = any(x != NONE and name in _parameters(getattr(fusion, x)) for x in names)
    if name in parameters or name in settings:
      raise ValueError(f"--set {name} comes twice; write the values between commas.")
    if name in takes:
      parameters[name] = values
    elif of_scale and len(values) == 1:
      settings[name] = values[0]
    else:
      has = ", ".join(takes) or "no parameters"
      raise ValueError(f"--set {name}: {args.method} takes {has}; theoretical-min-max one lower.")
  return _Way(method, by_rank, [_normalisation(x, settings) for x in names], parameters)


def _parameters(function: Callable[..., Any]) -> list[str]:
  """The names of the parameters of a function of `jaxrank.fusion` that are numbers or words."""
  shared = ("scores", "where", "weights", "ranking", "missing")
  return [name for name in inspect.signature(function).parameters if name not in shared]


def _normalisation(name: str, settings: Mapping[str, Any]) -> Normalise | None:
  """A normalisation with what it takes of the settings, which its name then tells."""
  if name == NONE:
    if "missing" in settings:
      raise ValueError("--missing is a normalised score, and has no place with --normalize none.")
    return None
  function: Normalise = getattr(fusion, name)
  if "missing" in settings and "missing" not in inspect.signature(function).parameters:
    raise ValueError(
      f"--missing: {name} gives documents that a run lacks a score of its own; leave it out."
    )
  of_it = {x: settings[x] for x in settings if x in inspect.signature(function).parameters}
  if not of_it:
    return function

  def normalise(scores: Any, *, where: Any = None) -> Any:
    return function(scores, where=where, **of_it)

  told = (f"{x}={value if isinstance(value, str) else f'{value:g}'}" for x, value in of_it.items())
  normalise.__name__ = f"{name}({', '.join(told)})"
  return normalise


def _measure(args: argparse.Namespace) -> Measure | None:
  """The measure of `--tune` or `--keep`, if there is one."""
  if not args.qrels:
    return None
  option, name = ("--tune", args.tune) if args.tune else ("--keep", args.keep[0])
  try:
    chosen = only_measure(name) if args.tune else without_cutoff(name)
  except AdvisedError as error:
    raise (unknown(error, f"{option}: {name!r} is") if error.about == "name" else error) from None
  except ValueError as error:
    raise ValueError(f"{option}: {error}") from None
  if chosen.description.subtopics:
    raise ValueError(f"{option}: {name} is a measure of diversity, which has no place here.")
  return chosen


def _check_files(args: argparse.Namespace, name: str) -> None:
  """Refuses files that are read twice or overwritten, and an output that cannot be written."""
  files = [file for file in (args.qrels, args.groups, *args.files) if file]
  if files.count("-") > 1:
    raise ValueError("only one of the files can be the standard input, -.")
  if not args.out or args.out == "-":
    return
  out = Path(args.out)
  if any(file != "-" and out.exists() and out.samefile(file) for file in files):
    raise ValueError(f"-o {args.out} is a file that is read; write to another one.")
  # What is wrong with the name is known before hours of work.
  with tempfile.TemporaryDirectory() as folder:
    tried = Path(folder, out.name)
    try:
      trec.read_run({}, name=name).write(tried)
    except ValueError as error:
      raise ValueError(str(error).replace(str(tried), args.out)) from None
  if not out.parent.is_dir():
    raise FileNotFoundError(f"there is no folder {str(out.parent)!r} for -o {args.out}.")


def _judged(
  qrels: trec.Qrels | None,
  runs: Sequence[trec.Run],
  names: Sequence[str],
  args: argparse.Namespace,
) -> frozenset[str]:
  """The queries that count for judgements; which ones runs lack is said on standard error."""
  of_runs = frozenset().union(*(run.queries for run in runs))
  of_qrels = frozenset(of_runs if qrels is None else qrels.queries)
  if not of_runs:
    raise ValueError("no run has a query, so that there is nothing to fuse.")
  if not of_qrels & of_runs:
    raise ValueError("no run has a query of the qrels; check that they are of one collection.")
  for run, name in zip(runs, names, strict=True):
    lacks = sorted(of_runs.difference(run.queries))
    if args.queries == "error" and lacks:
      raise ValueError(
        f"{name} lacks {few(lacks)}; --queries judged or both fuse without it there."
      )
    _tell(f"{name}: ", lacks, "of the other runs", "not in this one, fused without it")
  alone, others = sorted(of_qrels - of_runs), sorted(of_runs - of_qrels)
  if args.queries == "error" and alone + others:
    raise ValueError(
      f"the qrels and the runs have different queries, such as {few(alone + others)}; --queries "
      "both takes those in both, and judged counts 0 where no run has one."
    )
  counts = "with the value 0" if args.queries == "judged" else "left out"
  _tell("", alone, "of the qrels", f"in no run, {counts}")
  _tell("", others, "of the runs", "not in the qrels, left out of the measure")
  return of_qrels if args.queries == "judged" else of_qrels & of_runs


def _tell(name: str, queries: Sequence[str], of: str, are: str) -> None:
  if queries:
    what = ("query", "is") if len(queries) == 1 else ("queries", "are")
    print(f"jaxrank: {name}{what[0]} {of} that {what[1]} {are}: {few(queries)}", file=sys.stderr)


def _fit(
  way: _Way,
  pooled: Pool,
  rows: np.ndarray,
  names: Sequence[str],
  progress: Callable[[int, int], None],
  args: argparse.Namespace,
) -> fusion.Fit:
  scores, labels, where = _of(pooled, rows)
  groups = None if args.groups is None else _groups(args.groups, [pooled.queries[i] for i in rows])
  given = {x: getattr(args, x) for x in ("folds", "repeats") if getattr(args, x) is not None}
  return fusion.fit(
    way.method,
    scores,
    labels,
    args.tune,
    key=jax.random.key(args.seed or 0),
    where=where,
    normalize=list(way.normalisations),
    parameters={name: list(values) for name, values in way.parameters.items()},
    groups=groups,
    steps=args.steps,
    names=names,
    progress=progress,
    **given,
  )


def _of(pooled: Pool, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Scores, labels and mask of some queries, which need not be copied if they are all."""
  every = rows.size == len(pooled.queries)
  scores, where = pooled.scores, pooled.where
  return (scores, pooled.labels, where) if every else (
    scores[:, rows], pooled.labels[rows], where[rows]
  )  # fmt: skip


def _groups(path: str, queries: Sequence[str]) -> np.ndarray:
  """The group of each query, by lines of a query and a group."""
  found: dict[str, str] = {}
  with _files.opened(path) as stream:
    for number, line in enumerate(_files.lines(stream), 1):
      text = line.decode().strip()
      words = text.split("\t") if "\t" in text else text.split()
      if words and (len(words) != 2 or found.setdefault(*words) != words[1]):
        raise ValueError(
          f"{path}, line {number}: a line must be a query and its only group, got {text!r}."
        )
  lacking = [query for query in queries if query not in found]
  if lacking:
    raise ValueError(f"{path}: there is no group of {few(lacking)}; give each query one.")
  return np.array([found[query] for query in queries])


def _of_fit(fit: fusion.Fit, as_json: bool) -> str:
  if not as_json:
    return f"{fit}\n"
  columns = zip(fit.systems, fit.system_values, fit.weights, fit.recommended_weights, strict=True)
  values = {
    "equal": fit.equal_value,
    "single": fit.system_values[fit.systems.index(fit.best_system)],
    "tuned": fit.value,
  }
  report = {
    "measure": fit.measure,
    "queries": len(fit.values["equal"]),
    "method": _name(fit.method),
    "normalize": None if fit.tuned.normalize is None else _name(fit.tuned.normalize),
    "parameters": dict(fit.tuned.parameters),
    "runs": {
      name: {"value": float(value), "tuned_weight": float(w), "recommended_weight": float(r)}
      for name, value, w, r in columns
    },
    "values": {
      name: {"value": float(values[name]), "held_out": float(fit.values[name].mean())}
      for name in ("equal", "single", "tuned")
    },
    "gains": [
      {"of": first, "over": second, **gain._asdict()} for (first, second), gain in fit.gains.items()
    ],
    "best_run": fit.best_system,
    "recommendation": fit.recommendation,
    "advice": fit.advice,
  }
  return json.dumps(report, indent=2) + "\n"


def _name(function: Any) -> str:
  return str(getattr(function, "__name__", function))


def _kept(
  measure: Measure, pooled: Pool, fused: np.ndarray, rows: np.ndarray, args: argparse.Namespace
) -> tuple[str, int]:
  """How many results to keep, in words, and the number."""
  name, level = measure.name, args.keep[1]
  # In the order in which they are written, of which tied results are a part.
  row, column, rank = pooled.first(fused, args.depth)
  ranked = np.full(fused.shape, -np.inf, np.float32)
  ranked[row, column] = -1 - rank
  scores, (_, labels, where) = ranked[rows], _of(pooled, rows)
  found = fusion.threshold(scores, labels, measure, level=level, where=where)
  if np.isnan(found.threshold):
    n, every = len(rows), float(np.mean(measure(scores, labels, where=where)))
    most = every * n / (n + 1)
    raise ValueError(
      f"--keep {name}>={level:g}: no number of results is enough. The mean of {n} queries is "
      f"{every:.4f} with the first {args.depth}, so that {most:.4f} is the most that can be "
      "promised; take a smaller value, a larger --depth, or more queries."
    )
  count, mean = min(int(found.threshold), args.depth), 1 - float(found.risk)
  if args.json:
    report = {
      "measure": name, "level": level, "queries": len(rows), "keep": count, "mean": mean,
    }  # fmt: skip
    return json.dumps(report, indent=2) + "\n", count
  return (
    f"Keep {counted(count, 'result')}: on a new query that is drawn as these {len(rows)} were, "
    f"{name} is at least {level:g} in expectation. Its mean over these is {mean:.4f}.\n"
  ), count
