"""`to_arrays`: judgements and a run as padded arrays."""

import dataclasses
import functools
from typing import Any, get_args

import numpy as np

from jaxrank._core import checks
from jaxrank._errors import counted
from jaxrank.trec import _padding
from jaxrank.trec._matching import Queries, Ties, select
from jaxrank.trec._strings import integers
from jaxrank.trec.reading import read_qrels, read_run


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Arrays:
  """A run and its judgements as padded arrays, as `to_arrays` returns them.

  Attributes:
    scores: `[q, n]`, float32; -inf for documents that are judged and not retrieved, and on padding.
    labels: `[q, n]`, int32, or float32 if some are fractions; -1 for documents that are not in the
      qrels, -2 for those with a negative label there, 0 on padding. `[q, n, s]` if they are by
      subtopic.
    where: `[q, n]`, False on padding.
    queries: The names of the queries, in ascending order.
    only_in_qrels: The names of queries of the qrels that the run does not have.
    only_in_run: The names of queries of the run that the qrels do not have; they are left out.
    rows: The row of the run of each retrieved document, and the row of the qrels of each other
      document, in the order of the cells.
    tables: The documents of the run and of the qrels, pyarrow arrays of strings.
  """

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  queries: tuple[str, ...]
  only_in_qrels: tuple[str, ...]
  only_in_run: tuple[str, ...]
  rows: tuple[np.ndarray, np.ndarray]
  tables: tuple[Any, Any]

  def __repr__(self) -> str:
    queries = counted(len(self.queries), "query", "queries")
    return f"<Arrays: {queries} of up to {counted(self.where.shape[1], 'document')}>"

  @functools.cached_property
  def documents(self) -> np.ndarray:
    """`[q, n]`, the names of the documents, "" on padding; they are made when first asked for."""
    retrieved = self.where & (self.scores > -np.inf)
    names = np.full(self.where.shape, "", object)
    for cells, rows, table in zip(
      (retrieved, self.where & ~retrieved), self.rows, self.tables, strict=True
    ):
      names[cells] = table.take(integers(rows)).to_pylist()
    return names


def to_arrays(
  qrels: Any,
  run: Any,
  *,
  ties: Ties = "document",
  queries: Queries = "both",
  length: int | None = None,
) -> Arrays:
  """Pads judgements and a run to arrays `[q, n]`, for metrics, losses and models.

  A query has the documents that the run retrieved and those that are judged. Judged documents that
  the run did not retrieve have the score -inf with `where=True`, so that recall and ideal rankings
  are right. The retrieved documents are the first columns; but with labels by subtopic, all
  documents come by their ids, descending, which is ndeval's order of equal gains in an ideal
  ranking.

  >>> arrays = to_arrays({"q1": {"d1": 1, "d2": 0}}, {"q1": {"d2": 0.5, "d7": 0.5, "d9": 0.1}})
  >>> arrays.documents.tolist()
  [['d7', 'd2', 'd9', 'd1']]
  >>> arrays.scores.tolist(), arrays.labels.tolist()
  ([[-1.0, -2.0, -3.0, -inf]], [[-1, 0, -1, 1]])

  Args:
    qrels: `Qrels`, or what `read_qrels` takes.
    run: A `Run`, or what `read_run` takes.
    ties: "document" is trec_eval's order: ties are broken by the bytes of the ids, descending (with
      labels by subtopic ndeval's, ascending). The scores of the arrays are then minus the ranks, so
      that all metrics, with their defaults, have the values of trec_eval. "average" keeps the
      scores as float32, so that metrics average over the orders of tied documents; a query with
      scores that float32 does not tell apart has minus their dense ranks, so that only documents of
      equal scores are tied.
    queries: "both" takes the queries that are in the qrels and in the run, as trec_eval does;
      "judged" all of the qrels, where those that the run does not have retrieve nothing, as
      trec_eval does with `-c`; "error" takes those in both, and raises an error if there are
      others.
    length: The padded length; None takes that of the query with the most documents.

  Returns:
    `Arrays`.

  Raises:
    ValueError: if no query is in both, a query has more than `length` documents, or as `queries`
      says; and as `read_qrels` and `read_run`.
    TypeError: as `read_qrels` and `read_run`.
  """
  qrels, run = read_qrels(qrels), read_run(run)
  with checks.named("trec.to_arrays"):
    checks.choice("ties", ties, get_args(Ties))
    selection = select(qrels, run, queries)
    source = _padding.Queries(qrels, run, selection, ties)
    longest = int(source.sizes.max(initial=0))
    length = longest if length is None else checks.count("length", length)
    if length < longest:
      raise ValueError(
        f"length is {length}, but a query has {longest} documents; pass a larger one."
      )
  padded = source.padded(np.arange(len(selection.names)), length)
  labels = padded.labels
  return Arrays(
    padded.scores,
    labels if labels.dtype == np.int32 else labels.astype(np.float32),
    padded.where,
    selection.names,
    selection.only_in_qrels,
    selection.only_in_run,
    (padded.retrieved, padded.missed),
    (run.documents, qrels.documents),
  )
