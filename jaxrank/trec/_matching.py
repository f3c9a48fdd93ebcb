"""Which queries are evaluated, and the judgement of each retrieved document."""

import dataclasses
from typing import Literal, NamedTuple, get_args

import numpy as np

from jaxrank._core import checks
from jaxrank._errors import AdvisedError, counted
from jaxrank.trec._strings import arrow, integers, keys, matches, numbers, strings
from jaxrank.trec.tables import Qrels, Run

# Labels of documents without one: not in the qrels, and in the qrels with a negative label.
ABSENT, NEGATIVE = -1, -2

Ties = Literal["document", "average"]
Queries = Literal["both", "judged", "error"]


class Selection(NamedTuple):
  """The queries that are evaluated, in the order of their names, and those that are left out.

  Attributes:
    names: The names of the queries.
    in_qrels: The place of each among the queries of the qrels.
    in_run: The place of each among the queries of the run; -1 if the run does not have it.
    only_in_qrels: The names of queries of the qrels that the run does not have.
    only_in_run: The names of queries of the run that the qrels do not have.
  """

  names: tuple[str, ...]
  in_qrels: np.ndarray
  in_run: np.ndarray
  only_in_qrels: tuple[str, ...]
  only_in_run: tuple[str, ...]


def select(qrels: Qrels, run: Run, queries: Queries) -> Selection:
  """Chooses the queries; `queries` is "both", "judged" or "error".

  Raises:
    ValueError: if no query is in both, unless the run has none and `queries` is "judged", or, with
      "error", some query is in one of them only.
  """
  checks.choice("queries", queries, get_args(Queries))
  judged = {name: i for i, name in enumerate(qrels.queries)}
  ranked = {name: i for i, name in enumerate(run.queries)}
  only_in_qrels = tuple(sorted(judged.keys() - ranked.keys()))
  only_in_run = tuple(sorted(ranked.keys() - judged.keys()))
  if not len(run) and queries == "both":
    raise AdvisedError(
      f"run {run.name!r} has no queries;",
      "pass queries='judged' for 0 for each query of the qrels.",
      "empty run",
    )
  if len(run) and len(only_in_run) == len(run):
    raise ValueError(
      f"run {run.name!r} has no query of the qrels {qrels.name!r}: it has {_some(run.queries)}, "
      f"they have {_some(qrels.queries)}; check that both are of one collection."
    )
  if queries == "error" and only_in_qrels + only_in_run:
    raise AdvisedError(
      f"run {run.name!r} lacks {_count(only_in_qrels)} of the qrels {qrels.name!r}, which lack "
      f"{_count(only_in_run)} of the run;",
      "pass queries='both' to evaluate those in both, or 'judged' for 0 where the run has none.",
      "queries",
    )
  names = sorted(judged if queries == "judged" else judged.keys() & ranked.keys())
  return Selection(
    tuple(names),
    np.array([judged[name] for name in names], np.int64),
    np.array([ranked.get(name, -1) for name in names], np.int64),
    only_in_qrels,
    only_in_run,
  )


def _some(names: tuple[str, ...]) -> str:
  return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _count(names: tuple[str, ...]) -> str:
  what = counted(len(names), "query", "queries")
  return f"{what} ({_some(names)})" if names else what


class Judged(NamedTuple):
  """A run with the labels of its documents.

  Attributes:
    order: `[rows of the run]`, the rows of each query in the order in which they are padded.
    labels: `[rows of the run]`, of the type of the qrels, in that order; -1 for documents that are
      not in the qrels, -2 for those with a negative label there.
    missed: The rows of the qrels whose documents the run does not have, grouped by query.
    missed_starts: `[queries of the qrels + 1]`, where those of each query begin.
  """

  order: np.ndarray
  labels: np.ndarray
  missed: np.ndarray
  missed_starts: np.ndarray


def judge(qrels: Qrels, run: Run, selection: Selection, *, by_rank: bool) -> Judged:
  """Finds the label of each retrieved document, and the judged documents that are not retrieved.

  With `by_rank`, the documents of a query come in trec_eval's order, otherwise in that of the run.
  """
  # The queries of the qrels get the numbers that they have in the run.
  to_run = np.full(len(qrels), -1, np.int32)
  to_run[selection.in_qrels] = selection.in_run
  codes = to_run[qrels.codes]
  rows = np.flatnonzero(codes >= 0)
  documents = qrels.documents.take(integers(rows))
  retrieved, row = matches(run.pair_keys, run.documents, keys(documents, codes[rows]), documents)
  labels = np.full((run.starts[-1], *qrels.labels.shape[1:]), ABSENT, qrels.labels.dtype)
  labels[retrieved] = judged_labels(qrels.labels[rows[row]])
  found = np.zeros(qrels.starts[-1], bool)
  found[rows[row]] = True
  missed_before = np.append(0, np.cumsum(~found))
  order = np.arange(run.starts[-1])
  if by_rank:
    order = document_order(run, ascending=labels.ndim > 1)
    labels = labels[order]
  return Judged(order, labels, np.flatnonzero(~found), missed_before[qrels.starts])


def judged_labels(labels: np.ndarray) -> np.ndarray:
  """The labels of documents in the qrels: all negative ones become -2."""
  return np.where(labels < 0, labels.dtype.type(NEGATIVE), labels)


def shortened(
  run: Run, *, drop_self: bool = False, depth: int | None = None, ascending: bool = False
) -> Run:
  """A run without the documents that have the id of their query, or with the first `depth` only.

  The first ones are those of trec_eval's order, or of ndeval's if `ascending`.
  """
  kept = np.ones(run.starts[-1], bool)
  if drop_self:
    codes = run.codes
    same = arrow("pyarrow.compute").equal(run.documents, strings(run.queries).take(integers(codes)))
    kept = ~np.asarray(same.to_numpy(zero_copy_only=False), bool)
    run = _rows(run, kept)
  if depth is not None:
    kept = np.zeros(run.starts[-1], bool)
    rank = np.arange(kept.size) - run.starts[run.codes]
    kept[document_order(run, ascending=ascending)[rank < depth]] = True
    run = _rows(run, kept)
  return run


def _rows(run: Run, kept: np.ndarray) -> Run:
  """Some rows of a run, by a mask."""
  return dataclasses.replace(
    run,
    starts=np.append(0, np.cumsum(kept))[run.starts],
    documents=run.documents.take(integers(np.flatnonzero(kept))),
    pair_keys=run.pair_keys[kept],
    scores=run.scores[kept],
  )


def document_order(run: Run, *, ascending: bool = False) -> np.ndarray:
  """The rows of each query in trec_eval's order: scores and then ids, both descending.

  Ids are compared by their bytes; `ascending`, as in ndeval, if asked for.
  """
  order, tied = _score_order(run)
  if tied.any():
    places = np.flatnonzero(tied | np.append(tied[1:], False))
    documents = run.documents.take(integers(order[places]))
    tie = integers(np.cumsum(~tied[places]))
    table = arrow().Table.from_arrays([tie, documents], ["tie", "document"])
    way = "ascending" if ascending else "descending"
    by = [("tie", "ascending"), ("document", way)]
    first = numbers(arrow("pyarrow.compute").sort_indices(table, sort_keys=by))
    order[places] = order[places][first]
  return order


def _score_order(run: Run) -> tuple[np.ndarray, np.ndarray]:
  """The rows of each query by score, descending, and whether each has the score of the one before.

  Scores are compared as they are, in double precision.
  """
  scores, order, begins = run.scores, np.arange(run.starts[-1]), _begins(run)
  rising = (scores[1:] > scores[:-1]) & ~begins[1:]
  if rising.any():
    scores = scores.copy()
    for query in np.unique(run.codes[1:][rising]).tolist():
      rows = slice(*run.starts[query : query + 2])
      sort = np.argsort(-scores[rows], kind="stable")
      scores[rows], order[rows] = scores[rows][sort], order[rows][sort]
  return order, np.append(False, (scores[1:] == scores[:-1]) & ~begins[1:])[: order.size]


def _begins(run: Run) -> np.ndarray:
  """`[rows of the run]`, whether a row is the first of its query."""
  begins = np.zeros(run.starts[-1], bool)
  begins[run.starts[:-1][run.sizes > 0]] = True
  return begins
