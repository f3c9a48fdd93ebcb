"""`Qrels` and `Run`: judgements and rankings as columns, grouped by query."""

import dataclasses
import os
from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._errors import counted
from jaxrank.trec import _layouts, _sources, _writing
from jaxrank.trec._grouping import Grouped, group
from jaxrank.trec._strings import strings


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Table:
  """The rows of a source, grouped by query; see `Qrels` and `Run` for the fields."""

  name: str
  queries: tuple[str, ...]
  starts: np.ndarray
  documents: Any
  pair_keys: np.ndarray

  def __len__(self) -> int:
    """The number of queries."""
    return len(self.queries)

  def __repr__(self) -> str:
    queries = counted(len(self), "query", "queries")
    documents = counted(int(self.starts[-1]), "document")
    return f"<{type(self).__name__} {self.name!r}: {queries}, {documents}>"

  @property
  def sizes(self) -> np.ndarray:
    """`[queries]`, the number of documents of each query."""
    return np.diff(self.starts)

  @property
  def codes(self) -> np.ndarray:
    """`[rows]`, int32, the place of the query of each row among the queries."""
    return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

  def _to_dict(self, values: np.ndarray) -> dict[str, dict[str, Any]]:
    return _writing.to_dict(self.queries, self.starts, self.documents, values)

  def _to_frame(self, library: str, **values: np.ndarray) -> Any:
    with checks.named(f"{type(self).__name__}.to_frame"):
      _writing.check_filled(self.queries, self.sizes, "a frame")
    queries = _writing.taken(strings(self.queries), self.codes)
    return _writing.to_frame(library, {"query_id": queries, "doc_id": self.documents, **values})


def place(table: _Table, row: int) -> str:
  """The query and the document of a row, for messages."""
  return _layouts.places(table.queries, table.codes, table.documents)(row)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Qrels(_Table):
  """Judgements of documents, as `read_qrels` returns them; `len` is the number of queries.

  Attributes:
    name: The stem of the file, or "qrels".
    queries: The names of the queries, in the order of the source.
    starts: `[queries + 1]`, the first row of each query, and the number of rows.
    documents: `[rows]`, a pyarrow array of strings.
    pair_keys: `[rows]`, uint64, hashes of the query and the document of each row.
    labels: `[rows]`, int32, or float64 if some are fractions; a document with a negative label is
      not judged. `[rows, s]` if they are by subtopic; such qrels are not written.
  """

  labels: np.ndarray

  def to_dict(self) -> dict[str, dict[str, float]]:
    """`{query: {document: label}}`, as pytrec_eval and ranx take it."""
    with checks.named("Qrels.to_dict"):
      self._check_single()
    return self._to_dict(self.labels)

  def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
    """A frame with the columns `query_id`, `doc_id` and `relevance`, as ir_measures takes it.

    Raises:
      ValueError: if a query has no judgements, by which it would be lost.
    """
    with checks.named("Qrels.to_frame"):
      self._check_single()
    return self._to_frame(library, relevance=self.labels)

  def write(self, path: str | os.PathLike[str]) -> None:
    """Writes a file of the format that the suffix of its name says.

    It is TREC's four columns without a suffix and for `.txt`, `.qrels`, `.qrel` and the like;
    BEIR's three under a header for `.tsv`; and that of `.csv`, `.json`, `.jsonl` and `.parquet`.
    What follows, `.gz`, `.bz2`, `.xz`, `.zst` or `.lz4`, packs it.

    Raises:
      ValueError: if the suffix is another one, or the format cannot hold an id, a label that is not
        whole, or a query without judgements.
    """

    def lines(query: Any, document: Any, labels: np.ndarray, places: np.ndarray) -> list[Any]:
      del places
      return [query, _writing.constant("0"), document, _writing.texts(labels)]

    with checks.named("Qrels.write"):
      self._check_single()
      if _writing.form(path) == "trec":
        self._check_whole()
      order = np.arange(self.starts[-1])
      _writing.write(path, self, self.labels, "relevance", order, lines)

  def _check_single(self) -> None:
    if self.labels.ndim > 1:
      raise ValueError(
        "labels by subtopic are not written, and are no dictionary or frame; take `labels`."
      )

  def _check_whole(self) -> None:
    wrong = np.flatnonzero(np.mod(self.labels, 1))
    if wrong.size:
      row = int(wrong[0])
      raise ValueError(
        f"{place(self, row)}: TREC's labels are whole numbers, got "
        f"{self.labels[row]:g}; write TSV, CSV, JSON or parquet, which keep fractions."
      )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Run(_Table):
  """The rankings of a system, as `read_run` returns them; `len` is the number of queries.

  Attributes:
    name: The tag of the last line, the stem of the file, or "run".
    queries: The names of the queries, in the order of the source.
    starts: `[queries + 1]`, the first row of each query, and the number of rows.
    documents: `[rows]`, a pyarrow array of strings.
    pair_keys: `[rows]`, uint64, hashes of the query and the document of each row.
    scores: `[rows]`, float64, finite, in any order within a query.
  """

  scores: np.ndarray

  @classmethod
  def from_arrays(
    cls,
    queries: Any,
    documents: Any,
    scores: ArrayLike,
    *,
    where: ArrayLike | None = None,
    name: str = "jaxrank",
  ) -> "Run":
    """Makes a run of padded arrays, such as the scores of a model for what `to_arrays` returned.

    >>> run = Run.from_arrays(["q1"], [["d1", "d2", "d3"]], np.array([[0.5, 2.0, -np.inf]]))
    >>> run.to_dict()
    {'q1': {'d1': 0.5, 'd2': 2.0}}

    Args:
      queries: `[q]`, names.
      documents: `[q, n]`, names, or `[n]` if all queries have the same candidates.
      scores: `[q, n]`. A document with the score -inf is not retrieved, and left out.
      where: `[q, n]`, False on padding; None is all True.
      name: The name of the run, which is its tag in a file.

    Returns:
      A `Run`.

    Raises:
      ValueError: if shapes differ, a score is NaN or +inf, an id is empty, a query comes twice,
        or has a document twice.
      TypeError: if an id is neither a string nor an integer, or `where` is not boolean.
    """
    with checks.named("Run.from_arrays"):
      names, texts = np.asarray(queries, object), np.asarray(documents, object)
      given = checks.on_host("scores", scores)
      values = given.astype(np.float64)
      mask = np.ones(values.shape, bool) if where is None else checks.on_host("where", where)
      if mask.dtype != np.bool_:
        raise TypeError(f"where must be boolean, False on padding, got {mask.dtype}.")
      shapes = values.shape[:1], values.shape, values.shape
      if values.ndim != 2 or (names.shape, mask.shape, values.shape) != shapes:
        raise ValueError(
          "queries must be [q], scores and where [q, n], got shapes "
          f"{names.shape}, {values.shape} and {mask.shape}."
        )
      if texts.shape not in (values.shape, values.shape[1:]):
        lists = any(isinstance(x, list | tuple | np.ndarray) for x in texts[:1])
        write = "; pass documents.tolist()" if lists else ""
        raise ValueError(
          f"documents must be [q, n] or [n], got {texts.shape} for {values.shape}{write}."
        )
      kept = mask & (values != -np.inf)
      codes = np.repeat(np.arange(len(names), dtype=np.int32), kept.sum(axis=1))
      retrieved = strings(np.broadcast_to(texts, values.shape)[kept].tolist())
      queries = strings(names.tolist()).to_pylist()
      if len({*queries}) < len(queries):
        twice = next(query for query in queries if queries.count(query) > 1)
        raise ValueError(f"query {twice!r} comes twice; give each query one row.")
      place = _layouts.places(queries, codes, retrieved)
      kept_scores = _sources.doubles(given[kept], "score", place)
      rows = _layouts.Rows(queries, codes, retrieved, kept_scores)
      _sources.check(rows, _layouts.RUN)
      return run(group(rows), name)

  def to_dict(self) -> dict[str, dict[str, float]]:
    """`{query: {document: score}}`, as pytrec_eval and ranx take it."""
    return self._to_dict(self.scores)

  def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
    """A frame with the columns `query_id`, `doc_id` and `score`, as ir_measures takes it.

    Raises:
      ValueError: if a query retrieved nothing, by which it would be lost.
    """
    return self._to_frame(library, score=self.scores)

  def write(self, path: str | os.PathLike[str]) -> None:
    """Writes a file of the format that the suffix of its name says, best scores first.

    It is TREC's six columns without a suffix and for `.txt`, `.run`, `.trec` and the like; the
    others are those of `Qrels.write`.

    Raises:
      ValueError: if the suffix is another one, or the format cannot hold an id, the name of the
        run, which is TREC's tag, or a query that retrieved nothing.
    """
    codes = self.codes

    def lines(query: Any, document: Any, scores: np.ndarray, places: np.ndarray) -> list[Any]:
      rank = places - self.starts[codes[places]] + 1
      q0, tag = _writing.constant("Q0"), _writing.constant(self.name)
      return [query, q0, document, _writing.texts(rank), _writing.texts(scores), tag]

    with checks.named("Run.write"):
      if _writing.form(path) == "trec":
        _writing.check_ids("the name of the run", strings([self.name]), "trec")
      order = np.lexsort((-self.scores, codes))
      _writing.write(path, self, self.scores, "score", order, lines)


def qrels(rows: Grouped, name: str) -> Qrels:
  """`Qrels` of grouped rows."""
  queries, starts, documents, pair_keys, labels = rows
  whole = not np.mod(labels, 1).any()
  return Qrels(
    name, queries, starts, documents, pair_keys, labels.astype(np.int32 if whole else float)
  )


def run(rows: Grouped, name: str) -> Run:
  """A `Run` of grouped rows."""
  return Run(name, *rows)
