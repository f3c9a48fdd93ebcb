"""Pads the documents of some queries, retrieved or missed, to one length."""

from typing import NamedTuple

import numpy as np

from jaxrank._core import sorting
from jaxrank.trec._matching import Selection, judge, judged_labels
from jaxrank.trec._strings import arrow, integers, joined, numbers
from jaxrank.trec.tables import Qrels, Run


class Padded(NamedTuple):
  """Queries padded to one length: scores, labels and mask, `[q, n]` each.

  Attributes:
    scores: float32; -inf for documents that are judged and not retrieved, and on padding.
    labels: int32, or float64 if some are fractions; 0 on padding.
    where: Whether a cell holds a document.
    retrieved: The rows of the run in the cells of retrieved documents, in the order of the cells.
    missed: The rows of the qrels in the other cells of documents.
  """

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  retrieved: np.ndarray
  missed: np.ndarray


class Queries:
  """The selected queries of a run with their judgements, ready to be padded.

  A query has the retrieved documents in its first columns. Labels by subtopic have the documents
  in descending order of their ids: the greedy order takes the first of equal gains, and ndeval that
  of the largest id, whatever the run.

  Attributes:
    sizes: `[selected]`, the number of documents of each query, retrieved or judged.
  """

  def __init__(self, qrels: Qrels, run: Run, selection: Selection, ties: str):
    self._qrels, self._run = qrels, run
    # None stands for the ranks, which are the columns.
    self._scores = None if ties == "document" else run.scores
    self._judged = judge(qrels, run, selection, by_rank=ties == "document")
    # The last size, at -1, is that of queries that the run does not have.
    in_run = selection.in_run
    self._start, self._retrieved = run.starts[in_run], np.append(run.sizes, 0)[in_run]
    self._missed_start = self._judged.missed_starts[selection.in_qrels]
    self._missed = np.diff(self._judged.missed_starts)[selection.in_qrels]
    self.sizes = self._retrieved + self._missed

  def padded(self, chosen: np.ndarray, length: int, queries: int | None = None) -> Padded:
    """Pads the chosen queries, by their places, to a length, and their number to `queries`."""
    empty = (queries or chosen.size) - chosen.size
    size, retrieved = (
      np.append(x[chosen], np.zeros(empty, int)) for x in (self.sizes, self._retrieved)
    )
    column = np.arange(length)
    where, is_retrieved = column < size[:, None], column < retrieved[:, None]
    rows = _ranges(self._start[chosen], self._retrieved[chosen])
    missed = self._judged.missed[_ranges(self._missed_start[chosen], self._missed[chosen])]
    labels = np.zeros(where.shape + self._qrels.labels.shape[1:], self._judged.labels.dtype)
    labels[is_retrieved] = self._judged.labels[rows]
    labels[where & ~is_retrieved] = judged_labels(self._qrels.labels[missed])
    rows = self._judged.order[rows]
    if self._scores is None:
      scores = np.where(is_retrieved, -1 - column.astype(np.float32), np.float32(-np.inf))
    else:
      exact = np.full(where.shape, -np.inf)
      exact[is_retrieved] = self._scores[rows]
      scores = sorting.single(exact)
    padded = Padded(scores, labels, where, rows, missed)
    return self._by_id(padded, is_retrieved) if labels.ndim > where.ndim else padded

  def _by_id(self, padded: Padded, is_retrieved: np.ndarray) -> Padded:
    """The same with the columns in descending order of the ids."""
    where, size = padded.where, padded.retrieved.size
    run, qrels = self._run.documents, self._qrels.documents
    ids = joined([run.take(integers(padded.retrieved)), qrels.take(integers(padded.missed))])
    sort = arrow("pyarrow.compute").sort_indices
    descending = numbers(sort(ids, sort_keys=[("", "descending")])).astype(int)
    place = np.empty(len(ids), int)
    place[descending] = np.arange(len(ids))
    cells = np.full(where.shape, len(ids))
    cells[is_retrieved], cells[where & ~is_retrieved] = place[:size], place[size:]
    columns = np.argsort(cells, axis=1, kind="stable")
    scores = np.take_along_axis(padded.scores, columns, 1)
    labels = np.take_along_axis(padded.labels, columns[..., None], 1)
    rows = descending[np.sort(cells, axis=1)[where]]
    retrieved = padded.retrieved[rows[rows < size]]
    return Padded(scores, labels, where, retrieved, padded.missed[rows[rows >= size] - size])


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
  """`starts[i], starts[i] + 1, ...`, `sizes[i]` numbers for each `i`, one after the other."""
  before = np.cumsum(sizes) - sizes
  return np.repeat(starts - before, sizes) + np.arange(sizes.sum())
