"""`pool`: the documents of several runs together, as padded arrays, and back to a run."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrank._core import sorting
from jaxrank.trec._matching import ABSENT, judged_labels
from jaxrank.trec._strings import arrow, integers, joined, numbers, strings
from jaxrank.trec.reading import read_run
from jaxrank.trec.tables import Qrels, Run, place


class Pool(NamedTuple):
  """The documents of each query that some run retrieves, or that are judged.

  The columns of a query are in the descending order of ids, so that a stable sort by scores gives
  trec_eval's order.

  Attributes:
    scores: `[runs, q, n]`, float32; -inf for documents that a run does not retrieve.
    labels: `[q, n]`, as those of `Arrays`.
    where: `[q, n]`, False on padding.
    queries: The names of the queries of all runs and of the qrels, in ascending order.
    documents: The distinct documents, an Arrow array of strings.
    places: `[q, n]`, the place of each document among these; -1 on padding.
  """

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  queries: tuple[str, ...]
  documents: Any
  places: np.ndarray

  def first(self, scores: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows, columns and ranks from 0 of the first documents of each query, in this order."""
    given = np.where(self.where, scores, -np.inf)
    columns = np.argsort(-given, axis=1, kind="stable")[:, :depth]
    row, rank = np.nonzero(np.take_along_axis(given, columns, 1) != -np.inf)
    return row, columns[row, rank], rank

  def run(self, scores: np.ndarray, depth: int, name: str) -> Run:
    """The first documents of each query as a run; queries without documents are left out."""
    row, column, _ = self.first(scores, depth)
    pa, cast = arrow(), arrow("pyarrow.compute").cast
    # The shortest text of a number in single precision is that of a double, without noise.
    shortest = cast(pa.array(scores[row, column].astype(np.float32)), pa.large_string())
    return read_run(
      pa.table(
        {
          "query_id": strings(self.queries).take(integers(row)),
          "doc_id": self.documents.take(integers(self.places[row, column])),
          "score": cast(shortest, pa.float64()),
        }
      ),
      name=name,
    )


def pool(runs: Sequence[Run], qrels: Qrels | None = None, *, by_rank: bool = False) -> Pool:
  """Pads runs, and judgements if there are any, to arrays that have their documents in common.

  Args:
    runs: Runs.
    qrels: Judgements, not by subtopic.
    by_rank: Whether scores stand for ranks alone: those of a query that float32 does not tell
      apart, or does not hold, then become ranks.

  Returns:
    A `Pool`.

  Raises:
    ValueError: if a score is too large for float32, and not `by_rank`.
  """
  tables = [*runs] if qrels is None else [*runs, qrels]
  queries = sorted({*itertools.chain.from_iterable(table.queries for table in tables)})
  order = {query: i for i, query in enumerate(queries)}
  coded = joined([table.documents for table in tables]).dictionary_encode()
  sort = arrow("pyarrow.compute").sort_indices
  descending = numbers(sort(coded.dictionary, sort_keys=[("", "descending")])).astype(np.int64)
  code = np.empty_like(descending)
  code[descending] = np.arange(code.size)
  row = np.concatenate(
    [np.array([order[x] for x in table.queries], np.int64)[table.codes] for table in tables]
  )
  # The cells of the pool, by query and then by document.
  distinct, cell = np.unique(row * code.size + code[numbers(coded.indices)], return_inverse=True)
  row, document = np.divmod(distinct, max(code.size, 1))
  column = np.arange(row.size) - np.searchsorted(row, np.arange(len(queries)))[row]
  shape = len(queries), int(column.max(initial=0)) + 1
  where, places = np.zeros(shape, bool), np.full(shape, -1, np.int32)
  where[row, column], places[row, column] = True, document

  ends = np.cumsum([len(table.documents) for table in tables])
  cells = np.split((row * shape[1] + column)[cell], ends[:-1])
  scores = np.empty((len(runs), *shape), np.float32)
  for run, of_run, at in zip(runs, scores, cells, strict=False):
    exact = np.full(shape, -np.inf)
    exact.flat[at] = run.scores
    of_run[:] = sorting.single(exact) if by_rank else _single(exact, run)
  labels = np.where(where, ABSENT, 0).astype(np.int32)
  if qrels is not None:
    if qrels.labels.dtype != np.int32:
      labels = labels.astype(np.float32)
    labels.flat[cells[-1]] = judged_labels(qrels.labels)
  documents = coded.dictionary.take(integers(descending))
  return Pool(scores, labels, where, tuple(queries), documents, places)


def _single(scores: np.ndarray, run: Run) -> np.ndarray:
  """Scores in single precision, which must hold them."""
  large = np.flatnonzero(np.abs(run.scores) > np.finfo(np.float32).max)
  if large.size:
    row = int(large[0])
    raise ValueError(
      f"run {run.name!r}, {place(run, row)}: the score {run.scores[row]:g} is too large for single "
      "precision; divide the scores, or take a method of ranks, such as rrf."
    )
  return scores.astype(np.float32)
