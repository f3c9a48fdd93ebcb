"""The forms in which the command prints its results."""

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterator

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jaxrank.command.comparing import Compared
from jaxrank.command.evaluating import Evaluated, Results
from jaxrank.measures.measure import Measure
from jaxrank.metrics import query_count

# The letters that name runs in the marks of significance; more runs have numbers.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

# Wide enough that no table is cut; a terminal breaks the lines of a wider one.
_WIDTH = 10_000

Compare = Compared | None


def _table(results: Results, compared: Compare, args: argparse.Namespace) -> str:
  """A table for people: runs side by side, the best of each measure in bold."""
  parts: list[Table | str] = [_of_queries(results)] if args.per_query else []
  table = new_table("Run", *_columns(results, compared))
  for i, run in enumerate(results.runs):
    name = run.name if compared is None else f"{_sign(i, len(results.runs))} {run.name}"
    cells: list[Text] = []
    for j in range(len(results.measures)):
      cells += [_cell(results, compared, i, j), *map(Text, _ranks(compared, i, j))]
    table.add_row(Text(name), *cells)
  parts.append(table)
  if compared is not None:
    sign = "letter" if len(results.runs) <= len(_LETTERS) else "number"
    parts.append(
      f"A {sign} says that the value is better than that of the run with this {sign}: "
      f"{compared.test}, level {args.level:g}."
    )
    if compared.ranks is not None:
      parts.append(
        "The ranks hold for all runs together, and no two runs of a tier differ: confidence "
        f"{compared.confidence:g}."
      )
  return for_people(*parts, _caption(results))


def for_people(*parts: Table | str) -> str:
  """Tables and sentences one below the other, in colours if they go to a terminal."""
  text = io.StringIO()
  console = Console(file=text, width=_WIDTH, force_terminal=sys.stdout.isatty())
  for part in parts:
    console.print(part, highlight=False)
  return "".join(f"{line.rstrip()}\n" for line in text.getvalue().strip("\n").split("\n"))


def _columns(results: Results, compared: Compare) -> list[str]:
  """The headings of the measures, and of the ranks by each of them if there are any."""
  ranked = compared is not None and compared.ranks is not None
  return [x for m in results.measures for x in (m.name, *("Rank", "Tier") * ranked)]


def _ranks(compared: Compare, i: int, j: int) -> list[str]:
  """The ranks that run `i` may have by measure `j`, and its tier, if they were asked for."""
  if compared is None or compared.ranks is None:
    return []
  lowest, highest, tier = compared.ranks[j, i]
  return [f"{lowest}" if lowest == highest else f"{lowest}-{highest}", f"{tier}"]


def new_table(*columns: str) -> Table:
  """A table for people with these headings, of which the first is on the left."""
  table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
  for i, column in enumerate(columns):
    table.add_column(Text(column), justify="right" if i else "left", no_wrap=True)
  return table


def _of_queries(results: Results) -> Table:
  table = new_table("Query", "Run", *(measure.name for measure in results.measures))
  table.columns[1].justify = "left"
  by_query = [dict(zip(run.queries, run.values.T, strict=True)) for run in results.runs]
  for query in dict.fromkeys(query for run in results.runs for query in run.queries):
    for run, values in zip(results.runs, by_query, strict=True):
      if query in values:
        cells = map(_number, results.measures, values[query])
        table.add_row(Text(query), Text(run.name), *cells)
  return table


def _cell(results: Results, compared: Compare, i: int, j: int) -> Text:
  """The total of run `i` by measure `j`, with the marks of significance."""
  number = _number(results.measures[j], results.runs[i].totals[j])
  cell = Text(number, "bold" if results.best[j, i] else "")
  if compared is not None:
    marks = _marks(compared, i, j)
    width = max(len(_marks(compared, other, j)) for other in range(len(results.runs)))
    cell.append(f" {marks:<{width}}" if width else "", "dim")
  return cell


def _marks(compared: Compared, i: int, j: int) -> str:
  """The signs of the runs than which run `i` is significantly better by measure `j`."""
  worse = compared.better[j, i]
  between = "" if worse.size <= len(_LETTERS) else ","
  return between.join(_sign(int(other), worse.size) for other in np.flatnonzero(worse))


def _sign(i: int, runs: int) -> str:
  """What stands for a run: a letter, or a number if there are more runs than letters."""
  return _LETTERS[i] if runs <= len(_LETTERS) else str(i + 1)


def _number(measure: Measure, value: float) -> str:
  # The option z makes 0 of -0; round of numpy would take other halves than C does.
  return f"{value:z.0f}" if measure.description.aggregation == "sum" else f"{value:z.4f}"


def _caption(results: Results) -> str:
  counts = sorted({len(run.queries) for run in results.runs})
  of = " or ".join(f"{count:,}" for count in counts)
  return f"{of} {'query' if counts == [1] else 'queries'} of {results.qrels}."


def _trec(results: Results, _: Compare, args: argparse.Namespace) -> str:
  """The lines of trec_eval: for each query if asked for, and for all."""
  (run,) = results.runs
  lines: list[tuple[str, str, str]] = []
  order = sorted(range(len(run.queries)), key=lambda i: run.queries[i].encode())
  for i in order if args.per_query else ():
    query = run.queries[i]
    if query in run.missing:
      continue
    told = [
      (measure.name, query, _number(measure, value)) if _is_of_a_query(measure) else None
      for measure, value in zip(results.measures, run.values[:, i], strict=True)
    ]
    if results.relstring:
      text = (results.relstring.name, query, f"'{run.relstrings[i]}'")
      told.insert(results.relstring.place, text)
    lines += filter(None, told)
  if args.totals:
    lines += [("runid", "all", run.tag)] * results.with_tag
    lines += [
      (measure.name, "all", _number(measure, total))
      for measure, total in zip(results.measures, run.totals, strict=True)
    ]
  return "".join(f"{name:<22}\t{query}\t{value}\n" for name, query, value in lines)


def _is_of_a_query(measure: Measure) -> bool:
  """Whether trec_eval prints the measure for single queries."""
  return measure.description.aggregation != "exp_mean" and measure.metric is not query_count


def _tsv(results: Results, compared: Compare, args: argparse.Namespace) -> str:
  """One line a value, under a header; the query "all" is the total."""
  lines = ["run\tquery\tmeasure\tvalue"]
  lines += [
    f"{run.name}\t{query}\t{measure.name}\t{value:.6g}"
    for run in results.runs
    for query, values in _rows(run, args.per_query)
    for measure, value in zip(results.measures, values, strict=True)
  ]
  if compared is not None:
    lines += ["", "run\tother\tmeasure\tp"]
    lines += [
      f"{pair['run']}\t{pair['other']}\t{pair['measure']}\t{pair['p']:.6g}"
      for pair in _pairs(results, compared)
    ]
    if compared.ranks is not None:
      lines += ["", "run\tmeasure\tlowest\thighest\ttier"]
      lines += [
        "\t".join([run.name, measure.name, *map(str, compared.ranks[j, i])])
        for i, run in enumerate(results.runs)
        for j, measure in enumerate(results.measures)
      ]
  return "\n".join(lines) + "\n"


def _json(results: Results, compared: Compare, args: argparse.Namespace) -> str:
  """One object: the totals by run and measure, and if asked for values by query, and tests."""
  names = [measure.name for measure in results.measures]

  def by_name(values: np.ndarray) -> dict[str, float]:
    return dict(zip(names, map(float, values), strict=True))

  report: dict[str, object] = {
    "qrels": results.qrels,
    "queries": {run.name: len(run.queries) for run in results.runs},
    "runs": {run.name: by_name(run.totals) for run in results.runs},
  }
  if args.per_query:
    report["per_query"] = {
      run.name: {query: by_name(values) for query, values in _rows(run, True)[:-1]}
      for run in results.runs
    }
  if compared is not None:
    report["test"], report["level"] = compared.test, args.level
    report["comparisons"] = [*_pairs(results, compared)]
    if compared.ranks is not None:
      kinds = ("lowest", "highest", "tier")
      report["ranks"] = {
        run.name: {
          name: dict(zip(kinds, map(int, compared.ranks[j, i]), strict=True))
          for j, name in enumerate(names)
        }
        for i, run in enumerate(results.runs)
      }
  return json.dumps(report, indent=2) + "\n"


def _latex(results: Results, compared: Compare, args: argparse.Namespace) -> str:
  """A table with the rules of booktabs; the best of each measure is bold."""
  names = _columns(results, compared)
  lines = [rf"\begin{{tabular}}{{l{'r' * len(names)}}}", r"\toprule"]
  lines += [" & ".join(map(_escaped, ["Run", *names])) + r" \\", r"\midrule"]
  for i, run in enumerate(results.runs):
    cells = []
    for j in range(len(results.measures)):
      cell = _cell(results, None, i, j)
      text = rf"\textbf{{{cell.plain}}}" if cell.style else cell.plain
      marks = "" if compared is None else _marks(compared, i, j)
      cells.append(f"{text}$^{{{marks}}}$" if marks else text)
      cells += _ranks(compared, i, j)
    sign = "" if compared is None else f"$^{{{_sign(i, len(results.runs))}}}$ "
    lines.append(" & ".join([sign + _escaped(run.name), *cells]) + r" \\")
  lines += [r"\bottomrule", r"\end{tabular}"]
  if compared is not None:
    lines.append(f"% A superscript: better than that run; {compared.test}, level {args.level:g}.")
  return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
  """Text in which the special characters of LaTeX stand for themselves."""
  special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
  special |= {x: rf"\{x}" for x in "&%$#_{}"}
  return "".join(special.get(x, x) for x in text)


def _rows(run: Evaluated, per_query: bool) -> list[tuple[str, np.ndarray]]:
  """The values of each query if they are asked for, and the totals of "all"."""
  rows = [*zip(run.queries, run.values.T, strict=True)] if per_query else []
  return [*rows, ("all", run.totals)]


def _pairs(results: Results, compared: Compared) -> Iterator[dict[str, object]]:
  """The test of each pair of runs by each measure."""
  names = [run.name for run in results.runs]
  for j, measure in enumerate(results.measures):
    for i, first in enumerate(names):
      for other in range(i + 1, len(names)):
        yield {
          "measure": measure.name,
          "run": first,
          "other": names[other],
          "difference": float(results.runs[i].totals[j] - results.runs[other].totals[j]),
          "p": float(compared.p_values[j, i, other]),
          "significant": bool(compared.better[j, i, other] | compared.better[j, other, i]),
        }


FORMS: dict[str, Callable[[Results, Compare, argparse.Namespace], str]] = {
  "table": _table,
  "trec": _trec,
  "tsv": _tsv,
  "json": _json,
  "latex": _latex,
}
