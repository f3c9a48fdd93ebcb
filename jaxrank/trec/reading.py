"""`read_qrels` and `read_run`."""

import os
from typing import Any

from jaxrank._core import checks, files
from jaxrank.trec import _layouts, _sources, tables
from jaxrank.trec._grouping import Grouped, group
from jaxrank.trec._layouts import Layout
from jaxrank.trec.tables import Qrels, Run


def read_qrels(source: Any, *, name: str | None = None) -> Qrels:
  """Reads judgements of documents.

  >>> qrels = read_qrels({"q1": {"d1": 1, "d2": 0}, "q2": {"d9": 2}})
  >>> qrels
  <Qrels 'qrels': 2 queries, 3 documents>
  >>> qrels.labels.tolist()
  [1, 0, 2]

  Args:
    source: The path of a text file, plain or gzipped: TREC's four columns (query, iteration,
      document, label) between any blanks; BEIR's three columns (query, document, label) between
      tabs, under a header; or JSON. Or what is in memory: a dictionary `{query: {document: label}}`
      as JSON and pytrec_eval have it; a frame of pandas or polars with the columns `query_id` or
      `q_id` or `qid`, `doc_id` or `docno` or `docid`, and `relevance` or `label` or `rel` or
      `score`, as ir_measures, ranx and PyTerrier name them; rows `(query, document, label, ...)`.
      `Qrels` are returned as they are.
    name: A name; None takes the stem of the file, or "qrels".

  Returns:
    `Qrels`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line does not have the format, a label is not a whole number, a query has a
      document twice, the file is truncated or binary, or there are no rows. The message names the
      file, the line, and what to do.
    TypeError: if the source has another type, or an id is not a string.
    ModuleNotFoundError: if pyarrow is not installed.
  """
  if isinstance(source, Qrels):
    return source
  with checks.named("trec.read_qrels"):
    rows, stem, _ = _read(source, _layouts.QRELS)
  return tables.qrels(rows, name or stem or "qrels")


def read_run(source: Any, *, name: str | None = None) -> Run:
  """Reads the rankings of a system. The order of the rows and their ranks do not matter.

  >>> run = read_run({"q1": {"d1": 0.3, "d7": 2.5}}, name="bm25")
  >>> run
  <Run 'bm25': 1 queries, 2 documents>

  Args:
    source: The path of a text file, plain or gzipped: TREC's six columns (query, Q0, document,
      rank, score, tag) between any blanks; or JSON. Or what is in memory, as for `read_qrels`, with
      scores instead of labels; the column of a frame is `score`. A `Run` is returned as it is.
    name: A name; None takes the tag of the first line, the stem of the file, or "run".

  Returns:
    A `Run`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line does not have the format, a score is NaN or infinite, a query has a
      document twice, the file is truncated or binary, or there are no rows. The message names the
      file, the line, and what to do.
    TypeError: if the source has another type, or an id is not a string.
    ModuleNotFoundError: if pyarrow is not installed.
  """
  if isinstance(source, Run):
    return source
  with checks.named("trec.read_run"):
    rows, stem, tag = _read(source, _layouts.RUN)
  return tables.run(rows, name or tag or stem or "run")


def _read(source: Any, layout: Layout) -> tuple[Grouped, str | None, str | None]:
  """The rows of a source, the stem of the file, and the tag in it."""
  path = source if isinstance(source, str | os.PathLike) else None
  rows = _sources.read(source, layout)
  # A pipe has no name that says anything.
  stem = files.without_suffix(path).stem if path is not None and os.path.isfile(path) else None
  return group(rows, path), stem, rows.tag
