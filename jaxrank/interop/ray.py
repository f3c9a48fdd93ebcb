"""Evaluation of Ray datasets whose rows are lists; the extra `ray` installs what it needs.

`evaluate` makes a state of `jaxrank.Evaluator` in each task and merges the states as they come.
`PerQuery`, for `dataset.map_batches`, adds the values of each row as columns. `docs/pipelines.md`
shows both.
"""

import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from jaxrank._core import checks
from jaxrank.interop import _arrow_lists
from jaxrank.measures.evaluation import compiled
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measure, Measures
from jaxrank.streaming import Evaluator, State

__all__ = ["PerQuery", "evaluate"]

BUCKETS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)


def evaluate(
  dataset: Any,
  measures: Measures,
  *,
  scores: str = "scores",
  labels: str = "labels",
  query_weights: str | None = None,
  by: str | None = None,
  buckets: Sequence[int] = BUCKETS,
  batch_size: int = 16384,
  empty: Any = "zero",
  confidence: float = 0.95,
) -> pd.DataFrame:
  """The means of measures over the rows of a dataset, with standard errors and intervals.

  Each task pads its rows to the buckets, evaluates them and returns a state for each value of `by`;
  the driver merges the states, so that its memory does not depend on the number of rows. A task
  that dies is run again by Ray, and only the result of one attempt counts.

  Args:
    dataset: A `ray.data.Dataset` of rows with list columns, as of `ray.data.read_parquet`. If
      it is read with `include_paths=True`, errors name the file.
    measures: As `jaxrank.evaluate` takes them: names, metrics, instances of `Measure`, or several.
    scores: The column with the scores, a list of numbers in each row; null is no score.
    labels: The column with the labels, as long as the scores.
    query_weights: A column with the weight of each row, or None.
    by: A column, such as a country or a client: the rows of each of its values are evaluated by
      themselves. None evaluates all rows together.
    buckets: The lengths to which lists are padded; a program is compiled for each that occurs, once
      a worker.
    batch_size: The number of rows that a task holds as padded arrays, at least 1.
    empty: The policy for rows that hold nothing the measure seeks, as for `jaxrank.Evaluator`.
    confidence: The probability of the intervals, in (0, 1).

  Returns:
    A frame with a row for each value of `by`, in ascending order, and each measure: `by` (unless it
    is None), `measure`, `mean`, `standard_error`, `low`, `high`, `queries` (how many the mean
    includes).

  Raises:
    ValueError: if a column is missing or holds no lists, a row has different numbers of scores and
      labels, a null, a NaN score, a label beyond the scale of a measure or more items than the last
      bucket, or an argument is out of its range; the message names the row, and the file if the
      dataset has its path.
    TypeError: if an argument has a wrong type.
  """
  with checks.named("interop.ray.evaluate"):
    task = _States(
      read_measures(measures),
      _arrow_lists.Columns(scores, labels, query_weights, by),
      _sorted(buckets),
      empty,
    )
    evaluator = task.evaluator(None)
    batch_size = checks.count("batch_size", batch_size)
    _check_columns(dataset, task.columns)
  states: dict[Any, State] = {}
  made = dataset.map_batches(task, batch_size=batch_size, batch_format="pyarrow")
  for part in made.iter_batches(batch_size=None, batch_format="pyarrow"):
    for row in part.to_pylist():
      if row["error"] is not None:
        raise ValueError(f"interop.ray.evaluate: {row['error']}")
      state, value = pickle.loads(row["state"])
      states[value] = evaluator.merge(states[value], state) if value in states else state
  return _frame(evaluator, states, by, confidence)


class PerQuery:
  """Adds the values of measures to each row, for `dataset.map_batches`.

  `dataset.map_batches(PerQuery("nDCG@10 RR"), batch_format="pyarrow")` has the columns `nDCG@10`
  and `RR` besides those of the dataset.
  """

  def __init__(
    self,
    measures: Measures,
    *,
    scores: str = "scores",
    labels: str = "labels",
    buckets: Sequence[int] = BUCKETS,
  ):
    """Sets the measures and the columns, as for `evaluate`.

    Args:
      measures: As `jaxrank.evaluate` takes them.
      scores: The column with the scores.
      labels: The column with the labels.
      buckets: The lengths to which lists are padded.

    Raises:
      ValueError: if a measure or a bucket is none.
      TypeError: if an argument has a wrong type.
    """
    with checks.named("interop.ray.PerQuery"):
      self._measures = read_measures(measures)
      self._columns = _arrow_lists.Columns(scores, labels, None, None)
      self._buckets = _sorted(buckets)

  def __call__(self, table: pa.Table) -> pa.Table:
    """The table with the values.

    Raises:
      ValueError: if a row cannot be evaluated, as for `evaluate`.
      TypeError: if the batch is no table of Arrow.
    """
    with checks.named("interop.ray.PerQuery"):
      if not isinstance(table, pa.Table):
        raise TypeError(
          f"a batch must be a table of Arrow, got {type(table).__name__}; pass "
          'batch_format="pyarrow" to map_batches.'
        )
      lists = _arrow_lists.read(table, self._columns)
      _arrow_lists.check_labels(self._measures, lists, table)
      values = np.zeros((len(self._measures), table.num_rows), np.float32)
      for piece in _arrow_lists.pieces(lists, self._buckets):
        of_piece = compiled(self._measures)(piece.scores, piece.labels, piece.where)
        values[:, piece.rows] = np.stack(jax.device_get(of_piece))[:, : piece.rows.size]
    for measure, column in zip(self._measures, values, strict=True):
      table = table.append_column(measure.name, pa.array(column))
    return table


class _States(NamedTuple):
  """The function of a task: states of the rows of a table, one for each value of `by`."""

  measures: tuple[Measure, ...]
  columns: _arrow_lists.Columns
  buckets: tuple[int, ...]
  empty: Any

  def evaluator(self, groups: int | None) -> Evaluator:
    return Evaluator(self.measures, empty=self.empty, groups=groups)

  def __call__(self, table: pa.Table) -> pa.Table:
    """A table of pickled pairs of state and value, or of one error."""
    try:
      pairs = [pickle.dumps(pair) for pair in self._pairs(table)]
    except ValueError as error:
      return pa.table({"state": [None], "error": [str(error)]}, schema=_SCHEMA)
    return pa.table({"state": pairs, "error": [None] * len(pairs)}, schema=_SCHEMA)

  def _pairs(self, table: pa.Table) -> Iterator[tuple[State, Any]]:
    lists = _arrow_lists.read(table, self.columns)
    _arrow_lists.check_labels(self.measures, lists, table)
    values, group = [None], np.zeros(table.num_rows, np.int32)
    if self.columns.by is not None:
      column = pc.dictionary_encode(table[self.columns.by].combine_chunks())
      column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
      values, group = column.dictionary.to_pylist(), column.indices.to_numpy(zero_copy_only=False)
      if column.indices.null_count:
        at = int(pc.index(pc.is_null(column.indices), True).as_py())
        raise ValueError(
          f"{_arrow_lists.row(table, at)}: {self.columns.by} is null; give every row a value."
        )
    # A power of two, so that tables with other numbers of values share programs.
    groups = 1 << (len(values) - 1).bit_length() if values else 1
    evaluator, update = _update(self.measures, self.empty, groups)
    state = evaluator.init()
    for piece in _arrow_lists.pieces(lists, self.buckets):
      empty = np.zeros(len(piece.where) - piece.rows.size, np.int32)
      weights = np.append(lists.weights[piece.rows], np.float32(empty))
      groups_of = np.append(group[piece.rows].astype(np.int32), empty)
      state = update(state, *piece[1:], weights, groups_of)
    for g, value in enumerate(values):
      yield jax.device_get(evaluator.group(state, g)), value


_SCHEMA = pa.schema([("state", pa.binary()), ("error", pa.string())])


@functools.lru_cache(maxsize=8)
def _update(
  measures: tuple[Measure, ...], empty: Any, groups: int
) -> tuple[Evaluator, Callable[..., State]]:
  """An evaluator and its compiled update, which all tables that a worker sees share."""
  evaluator = Evaluator(measures, empty=empty, groups=groups)

  def update(
    state: State, scores: Any, labels: Any, where: Any, weights: Any, groups: Any
  ) -> State:
    options = {"where": where, "query_weights": weights, "groups": groups}
    return evaluator.update(state, scores, labels, **options)

  return evaluator, jax.jit(update)


def _sorted(buckets: Sequence[int]) -> tuple[int, ...]:
  lengths = tuple(sorted({checks.count("a bucket", length) for length in buckets}))
  if not lengths:
    raise ValueError("buckets must be at least one length, got none.")
  return lengths


def _check_columns(dataset: Any, columns: _arrow_lists.Columns) -> None:
  schema = dataset.schema()
  if schema is None:
    raise ValueError("the dataset has no rows, and no columns.")
  types = dict(zip(schema.names, schema.types, strict=True))
  for name in columns:
    if name is not None and name not in types:
      raise ValueError(f"there is no column {name!r}; the dataset has {sorted(types)}.")


def _frame(
  evaluator: Evaluator, states: dict[Any, State], by: str | None, confidence: float
) -> pd.DataFrame:
  rows = []
  for value in sorted(states, key=lambda x: (str(type(x)), x)):
    state = states[value]
    mean, error = evaluator.compute(state), evaluator.standard_error(state)
    interval = evaluator.interval(state, confidence=confidence)
    for name, count in zip(evaluator.names, np.asarray(state.count), strict=True):
      row = {} if by is None else {"by": value}
      row |= {"measure": name, "mean": mean[name], "standard_error": error[name]}
      row |= {"low": interval[name][0], "high": interval[name][1], "queries": int(count)}
      rows.append(row)
  columns = ["measure", "mean", "standard_error", "low", "high", "queries"]
  return pd.DataFrame(rows, columns=columns if by is None else ["by", *columns])
