"""`read_qrels` and `read_run`."""

import os
from typing import Any

from jaxrank import _files
from jaxrank._core import checks
from jaxrank.trec import _layouts, _sources, tables
from jaxrank.trec._grouping import Grouped, by_subtopic, group
from jaxrank.trec._layouts import Layout
from jaxrank.trec.tables import Qrels, Run


def read_qrels(source: Any, *, name: str | None = None, subtopics: bool = False) -> Qrels:
  """Reads judgements of documents.

  >>> qrels = read_qrels({"q1": {"d1": 1, "d2": 0}, "q2": {"d9": 2}})
  >>> qrels
  <Qrels 'qrels': 2 queries, 3 documents>
  >>> qrels.labels.tolist()
  [1, 0, 2]

  Args:
    source: The path of a file, or "-" for the standard input, opened once, so that it may be a
      pipe. Its format is that of its content: TREC's four columns (query, iteration, document,
      label) or three without the iteration, between any blanks; CSV or TSV under a header, as BEIR
      has it; JSON; JSON lines; or parquet; plain or packed by gzip, bz2, xz, zstd or lz4. Or what
      is in memory: a dictionary `{query: {document: label}}` as JSON and pytrec_eval have it; a
      frame of pandas, polars, lazy ones too, or Arrow, or a data set of Hugging Face; rows
      `(query, document, label, ...)`. The columns of a header or a frame are `query_id`, `q_id`,
      `qid` or `query-id`; `doc_id`, `docno`, `docid` or `corpus-id`; and `relevance`, `label`,
      `rel` or `score`, as ir_measures, ranx, PyTerrier and BEIR name them. `Qrels` are returned as
      they are.
    name: A name; None takes the stem of the file, or "qrels".
    subtopics: Whether labels are by subtopic, for measures of diversity. A source then has ndeval's
      four columns (query, subtopic, document, label), in a file of any of the formats, a frame or
      rows, but no dictionary of dictionaries; under a header the subtopics are in `subtopic_id`,
      `subtopic` or `iteration`. `labels` are `[rows, s]`, 0 where a subtopic does not judge the
      document.

  Returns:
    `Qrels`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line does not have the format, a label is not finite, or not whole in TREC's
      four columns, a query has a document twice, the file is truncated or binary, or there are no
      rows. The message names the file, the line, what the file seems to be, and what to do.
    TypeError: if the source has another type, or an id is neither a string nor an integer.
    ModuleNotFoundError: if pyarrow is not installed.
  """
  if isinstance(source, Qrels):
    return source
  with checks.named("trec.read_qrels"):
    _check_name(name)
    checks.true_or_false("subtopics", subtopics)
    rows, stem, _ = _read(source, _layouts.SUBTOPICS if subtopics else _layouts.QRELS)
  return tables.qrels(rows, name or stem or "qrels")


def read_run(source: Any, *, name: str | None = None) -> Run:
  """Reads the rankings of a system. The order of the rows and their ranks do not matter.

  >>> run = read_run({"q1": {"d1": 0.3, "d7": 2.5}}, name="bm25")
  >>> run
  <Run 'bm25': 1 query, 2 documents>

  Args:
    source: What `read_qrels` takes, with scores in the column `score` instead of labels. TREC's
      files have six columns (query, Q0, document, rank, score, tag), and what follows is ignored.
      The rank must be a whole number, because it is none where an id has a blank. The files
      of MS MARCO have three (query, document, rank), whose scores are minus the ranks, or
      four (query, document, rank, score), and begin with rank 1. A source without rows is a run
      that retrieved nothing. A `Run` is returned as it is.
    name: A name; None takes the tag of the last line, as trec_eval does, the stem of the file,
      or "run".

  Returns:
    A `Run`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line does not have the format, a score is NaN or infinite, a query has a
      document twice, or the file is truncated or binary. The message names the file, the line, what
      the file seems to be, and what to do.
    TypeError: if the source has another type, or an id is neither a string nor an integer.
    ModuleNotFoundError: if pyarrow is not installed.
  """
  if isinstance(source, Run):
    return source
  with checks.named("trec.read_run"):
    _check_name(name)
    rows, stem, tag = _read(source, _layouts.RUN)
  return tables.run(rows, name or tag or stem or "run")


def _check_name(name: Any) -> None:
  if name is not None and not isinstance(name, str):
    raise TypeError(f"name must be a string, got {checks.told(name)}.")


def _read(source: Any, layout: Layout) -> tuple[Grouped, str | None, str | None]:
  """The rows of a source, the stem of the file, and the tag in it."""
  path = source if isinstance(source, str | os.PathLike) else None
  rows = _sources.read(source, layout)
  # A pipe has no name that says anything.
  stem = _files.without_suffix(path).stem if path is not None and os.path.isfile(path) else None
  return (group if rows.subtopics is None else by_subtopic)(rows, path), stem, rows.tag
