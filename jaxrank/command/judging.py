"""Means of the runs of the command by judgements of people, with the help of those of a model."""

import argparse
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.text import Text

from jaxrank import stats
from jaxrank.command.evaluating import Evaluated, Results
from jaxrank.command.rendering import for_people, new_table


class JudgedMeans(NamedTuple):
  """Intervals of the means of runs, and of their differences to the first one.

  Attributes:
    names: The names of the runs, and of the differences.
    measures: The names of the measures.
    intervals: Intervals `[rows, measures]`.
    labelled: The number of queries with judgements of people, and the name of these.
    others: The number of queries with judgements of the model alone, and the name of these.
  """

  names: tuple[str, ...]
  measures: tuple[str, ...]
  intervals: stats.Powered
  labelled: tuple[int, str]
  others: tuple[int, str]


def judge(results: Results, args: argparse.Namespace) -> JudgedMeans:
  """The means by the judgements of people with the help of the model's."""
  judged = results.judged
  if judged is None:
    raise ValueError("--judge needs the judgements of a model.")
  for measure in results.measures:
    if measure.description.aggregation != "mean":
      raise ValueError(f"--judge needs measures with means, which {measure.name} has not.")
  for runs in (results.runs, judged.runs):
    for run in runs[1:]:
      if run.queries != runs[0].queries:
        raise ValueError(
          f"--judge needs the same queries for all runs, and {run.name} has others than "
          f"{runs[0].name}; with --queries judged, a query that a run lacks counts as 0."
        )
  labelled = results.runs[0].queries
  place = {query: i for i, query in enumerate(judged.runs[0].queries)}
  missing = [query for query in labelled if query not in place]
  if missing:
    few = ", ".join(missing[:3]) + (", ..." if missing[3:] else "")
    raise ValueError(
      f"--judge needs the judgements of the model for all queries of {results.qrels}, and "
      f"{judged.qrels} lacks {few} ({len(missing)} in all): let the model judge them too."
    )
  same = np.array([place[query] for query in labelled])
  others = np.setdiff1d(np.arange(len(place)), same)
  for queries, name in ((same, results.qrels), (others, f"{judged.qrels} alone")):
    if len(queries) < 2:
      raise ValueError(
        f"--judge needs two queries or more of {name}, got {len(queries)}: an interval follows "
        "from how values vary over queries."
      )
  alone = place.keys() - set(labelled)
  for run in judged.runs:
    lacking = len(alone.intersection(run.evaluation.only_in_qrels))
    if 2 * lacking > len(alone):
      raise ValueError(
        f"--judge needs the results of all runs for the queries that the model alone judged, and "
        f"{run.name} lacks {lacking} of {len(alone)} of {judged.qrels}: let it answer them too, or "
        "leave them out of that file."
      )

  def differences(runs: tuple[Evaluated, ...]) -> np.ndarray:
    values = np.stack([run.values for run in runs])
    return np.concatenate([values, values[1:] - values[:1]])

  model = differences(judged.runs)
  intervals = stats.prediction_powered(
    differences(results.runs), model[..., same], model[..., others], confidence=1 - args.level
  )
  first, *rest = (run.name for run in results.runs)
  names = (first, *rest, *(f"{name} - {first}" for name in rest))
  return JudgedMeans(
    names,
    tuple(measure.name for measure in results.measures),
    intervals,
    (len(same), results.qrels),
    (len(others), judged.qrels),
  )


def _table(powered: JudgedMeans, args: argparse.Namespace) -> str:
  interval = f"{100 * (1 - args.level):g}% interval"
  columns = [x for name in powered.measures for x in (name, interval, "Narrower")]
  table = new_table("Run", *columns)
  for i, name in enumerate(powered.names):
    cells = []
    for j in range(len(powered.measures)):
      low, mean, high, _, gain = (x[i, j] for x in powered.intervals)
      cells += [f"{mean:z.4f}", f"{low:z.4f} to {high:z.4f}", f"{100 * gain:.0f}%"]
    table.add_row(Text(name), *map(Text, cells))
  return for_people(
    table,
    f"{powered.labelled[0]:,} queries of {powered.labelled[1]} and {powered.others[0]:,} more of "
    f"{powered.others[1]}, which make the intervals so much narrower. Each row gives the model its "
    "own weight.",
  )


def _tsv(powered: JudgedMeans, _: argparse.Namespace) -> str:
  lines = ["run\tmeasure\tmean\tlow\thigh\tweight\tgain"]
  for i, name in enumerate(powered.names):
    for j, measure in enumerate(powered.measures):
      low, mean, high, weight, gain = (float(x[i, j]) for x in powered.intervals)
      numbers = (f"{x:.6g}" for x in (mean, low, high, weight, gain))
      lines.append("\t".join([name, measure, *numbers]))
  return "\n".join(lines) + "\n"


def _json(powered: JudgedMeans, args: argparse.Namespace) -> str:
  fields = stats.Powered._fields
  rows = {
    name: {
      measure: {field: float(x[i, j]) for field, x in zip(fields, powered.intervals, strict=True)}
      for j, measure in enumerate(powered.measures)
    }
    for i, name in enumerate(powered.names)
  }
  report = {
    "qrels": powered.labelled[1],
    "judge": powered.others[1],
    "queries": {"labelled": powered.labelled[0], "others": powered.others[0]},
    "confidence": 1 - args.level,
    "runs": rows,
  }
  return json.dumps(report, indent=2) + "\n"


FORMS: dict[str, Callable[[JudgedMeans, argparse.Namespace], str]] = {
  "table": _table,
  "tsv": _tsv,
  "json": _json,
}
