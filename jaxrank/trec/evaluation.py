"""`evaluate`: values of measures for a run, query by query."""

import collections
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, get_args

import jax
import numpy as np

from jaxrank._base import Aggregation
from jaxrank._core import checks
from jaxrank._core._jax import enable_x64
from jaxrank._core.arithmetic import rounded_up
from jaxrank.measures import Measure, scales
from jaxrank.measures.evaluation import compiled
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measures
from jaxrank.trec import _padding
from jaxrank.trec._matching import Queries, Ties, select, shortened
from jaxrank.trec.reading import read_qrels, read_run
from jaxrank.trec.tables import Qrels, Run, place

# A program more costs as much time as about so many cells of padding.
_PROGRAM = 1 << 22


def _mean(values: np.ndarray) -> Any:
  """The mean, added up query by query as trec_eval does, so that it is rounded as its is."""
  return np.cumsum(values)[-1] / values.size


_AGGREGATIONS: dict[Aggregation, Callable[[np.ndarray], Any]] = {
  "mean": _mean,
  "sum": np.sum,
  "exp_mean": lambda values: np.exp(_mean(values)),
}

# Queries with so many cells in all take shapes of `_SHAPE` cells, and lengths of `_SHORT` times a
# power of four, so that many small collections share a few programs.
_SMALL, _SHAPE, _SHORT = 1 << 17, 1 << 15, 64

# Labels are whole numbers of at most so much, as a rule.
_GRADES = 10

# The number of batches that are on their way to the device while the next one is prepared.
_AHEAD = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
  """The values of a run, as `evaluate` returns them.

  Attributes:
    run: The name of the run.
    queries: `[q]`, the names of the queries that were evaluated, in ascending order.
    values: `[q]`, float64, by the names of the measures.
    only_in_qrels: The names of queries of the qrels that the run does not have: left out, or of
      value 0 under `queries="judged"`.
    only_in_run: The names of queries of the run that the qrels do not have; they are left out.
    aggregations: How the values of the queries become one, by the names of the measures.
  """

  run: str
  queries: tuple[str, ...]
  values: dict[str, np.ndarray]
  only_in_qrels: tuple[str, ...]
  only_in_run: tuple[str, ...]
  aggregations: dict[str, Aggregation]

  def mean(self) -> dict[str, float]:
    """The mean over the queries, by the names of the measures.

    It is the sum for measures that count, such as `num_rel_ret`, and the geometric mean for those
    whose values are logarithms, such as `gm_map`, as trec_eval has them.
    """
    return {
      name: float(_AGGREGATIONS[self.aggregations[name]](values))
      for name, values in self.values.items()
    }


@checks.written("trec.evaluate('map', qrels, run)")
def evaluate(
  measures: Measures,
  qrels: Any,
  run: Any,
  *,
  ties: Ties = "document",
  queries: Queries = "both",
  drop_self: bool = False,
  judged_only: bool = False,
  depth: int | None = None,
  cells: int = 1 << 20,
  progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
  """Evaluates a run, of any size, in batches of a few static shapes, in double precision.

  With the defaults, measures by the names of trec_eval have its values.

  >>> qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2, "d4": 1}}
  >>> run = {"q1": {"d2": 0.9, "d1": 0.8}, "q2": {"d4": 3.0, "d7": 2.0}, "q9": {"d1": 1.0}}
  >>> evaluation = evaluate("map recip_rank ndcg_cut_10", qrels, run)
  >>> evaluation.queries, evaluation.only_in_run
  (('q1', 'q2'), ('q9',))
  >>> print({name: f"{value:.4f}" for name, value in evaluation.mean().items()})
  {'map': '0.5000', 'recip_rank': '0.7500', 'ndcg_cut_10': '0.5055'}

  Args:
    measures: As `jaxrank.evaluate` takes them: names, metrics, instances of `Measure`, or several.
    qrels: `Qrels`, or what `read_qrels` takes; for measures of diversity, with `subtopics=True`.
    run: A `Run`, or what `read_run` takes.
    ties: "document" for the order of trec_eval (with labels by subtopic that of ndeval, ids
      ascending), or "average"; see `to_arrays`.
    queries: "both" evaluates the queries that are in the qrels and in the run, as trec_eval does;
      "judged" all of the qrels, with the value 0 for those of which the run retrieved nothing (if
      values are logarithms, with that of an average precision of 0; counts, as of relevant
      documents, are those of the qrels), as trec_eval does with `-c`; "error" raises an error if a
      query is in one of them only.
    drop_self: Whether to leave out retrieved documents that have the id of their query, as BEIR
      does where queries are documents themselves.
    judged_only: Whether to leave out documents that are not judged, as trec_eval does with `-J`.
    depth: How many documents of a query count, of the first in the order of trec_eval, as with its
      `-M`; None is all.
    cells: The largest number of documents of a batch, padding included, at least 1; a batch has at
      least one query.
    progress: Function called as `progress(done, queries)` after each batch, with the number of
      queries so far and in all; None for no call.

  Returns:
    An `Evaluation`, which also names the queries that were left out.

  Raises:
    ValueError: if a name of a measure is unknown, measures of diversity and others are
      mixed, or the qrels are not of their kind, a label is beyond the best grade of a measure or a
      fraction where its gains are a table, no query is in both, or as `queries` says; and as
      `read_qrels` and `read_run`.
    TypeError: if an argument has a wrong type.
  """
  with checks.named("trec.evaluate"):
    parsed = _read_measures(measures)
    by_subtopic = any(measure.description.subtopics for measure in parsed)
    checks.choice("ties", ties, get_args(Ties))
    cells = checks.count("cells", cells)
    checks.true_or_false("drop_self", drop_self)
    checks.true_or_false("judged_only", judged_only)
    depth = None if depth is None else checks.count("depth", depth)
    if progress is not None:
      checks.function("progress", progress, "a function of (done, queries), or None")
  qrels, run = read_qrels(qrels, subtopics=by_subtopic), read_run(run)
  _warn_of_order(qrels, run)
  with checks.named("trec.evaluate"):
    _check_measures(parsed, qrels)
    selection = select(qrels, run, queries)
    if qrels.labels.ndim == 1:
      evaluated = np.isin(qrels.codes, selection.in_qrels)
      scales.check(parsed, qrels.labels, evaluated, lambda row: place(qrels, row))
  run = shortened(run, drop_self=drop_self, depth=depth, ascending=by_subtopic)
  source = _padding.Queries(qrels, run, selection, ties)
  values = np.zeros((len(parsed), len(selection.names)))
  retrieved = np.zeros(len(selection.names), bool)
  program, waiting, done = compiled(parsed), collections.deque[Any](), 0

  def collect() -> None:
    nonlocal done
    chosen, batch = waiting.popleft()
    values[:, chosen] = np.stack(jax.device_get(batch))[:, : chosen.size]
    done += chosen.size
    if progress is not None:
      progress(done, len(selection.names))

  for chosen, rows, length in _batches(source.sizes, cells) if parsed else ():
    scores, labels, where = source.padded(chosen, length, rows)[:3]
    if judged_only:
      where &= (labels.max(axis=-1) if by_subtopic else labels) >= 0
    retrieved[chosen] = np.any(where & (scores > -np.inf), axis=-1)[: chosen.size]
    # A query without documents is a query, and no padding.
    empty = ~where.any(axis=-1)
    where[empty, 0], scores[empty, 0] = True, -np.inf
    # In double precision, as trec_eval computes: labels of 64 bits make values of 64 bits, and the
    # order of the scores needs no more than 32.
    with enable_x64():
      waiting.append((chosen, program(scores, labels.astype(np.float64), where)))
    if len(waiting) == _AHEAD:
      collect()
  while waiting:
    collect()
  how = {measure.name: measure.description.aggregation for measure in parsed}
  by_name = {name: x for name, x in zip(how, values, strict=True)}
  for measure in parsed:
    # Logarithms are those of 0 already, and counts are right: a query of which nothing is retrieved
    # is a query, with its relevant documents.
    if how[measure.name] == "mean":
      by_name[measure.name][~retrieved] = 0
  left_out = selection.only_in_qrels, selection.only_in_run
  return Evaluation(run.name, selection.names, by_name, *left_out, how)


def _read_measures(measures: Any) -> tuple[Measure, ...]:
  try:
    return read_measures(measures)
  except (TypeError, ValueError):
    if isinstance(measures, str | os.PathLike) and os.path.isfile(measures):
      raise TypeError(
        f"measures must be names such as 'map', got the file {os.fspath(measures)!r}; measures are "
        "the first argument, and then come the qrels and the run."
      ) from None
    raise


def _warn_of_order(qrels: Qrels, run: Run) -> None:
  """Warns if the labels are fractions, and the scores such as labels are."""
  if not np.any(np.mod(qrels.labels, 1) != 0):
    return
  grades = np.unique(run.scores)
  # Those of toys and ranks are different, and not 0.
  like = grades.size < run.scores.size or 0 in grades
  if like and np.isin(grades, np.arange(_GRADES + 1)).all():
    warnings.warn(
      "trec.evaluate: the labels are fractions, and the scores whole numbers such as labels are: "
      "are they swapped? The order is (measures, qrels, run).",
      stacklevel=4,
    )


def _check_measures(measures: tuple[Measure, ...], qrels: Qrels) -> None:
  """Refuses measures of diversity without labels by subtopic, and others with them."""
  for measure in measures:
    needs, has = measure.description.subtopics, qrels.labels.ndim > 1
    if needs and not has:
      raise ValueError(
        f"{measure} needs labels by subtopic, which the qrels {qrels.name!r} do not have; read "
        "them by read_qrels(..., subtopics=True)."
      )
    if has and not needs:
      raise ValueError(
        f"{measure} takes one label for each document, and the labels are by subtopic; evaluate "
        "measures of diversity by themselves."
      )


def _batches(sizes: np.ndarray, cells: int) -> Iterator[tuple[np.ndarray, int, int]]:
  """The queries of each batch by their places, its number of queries, and its length.

  Batches of one length have one shape. A length holds queries of more than half of it, unless all
  that are left make less work than one program more.
  """
  left = np.argsort(-sizes, kind="stable")
  while left.size:
    length = rounded_up(int(sizes[left[0]]))
    if length * left.size <= _SMALL:
      length = _SHORT
      while length < sizes[left[0]]:
        length *= 4
      count, rows = left.size, max(min(_SHAPE, cells) // length, 1)
    else:
      count = int(np.count_nonzero(2 * sizes[left] > length))
      count = left.size if length * left.size <= _PROGRAM else max(count, 1)
      batches = -(-count * length // cells)
      rows = -(-count // min(batches, count))
    for start in range(0, count, rows):
      yield left[start : min(start + rows, count)], rows, length
    left = left[count:]
