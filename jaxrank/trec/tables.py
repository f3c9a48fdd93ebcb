"""`Qrels` and `Run`: judgements and rankings as columns, grouped by query."""

import dataclasses
import os
from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank.trec import _sources, _text, _writing
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
    rows = int(self.starts[-1])
    return f"<{type(self).__name__} {self.name!r}: {len(self)} queries, {rows} documents>"

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
    queries = _writing.taken(strings(self.queries), self.codes)
    return _writing.to_frame(library, {"query_id": queries, "doc_id": self.documents, **values})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Qrels(_Table):
  """Judgements of documents, as `read_qrels` returns them; `len` is the number of queries.

  Attributes:
    name: The stem of the file, or "qrels".
    queries: The names of the queries, in the order of the source.
    starts: `[queries + 1]`, the first row of each query, and the number of rows.
    documents: `[rows]`, a pyarrow array of strings.
    pair_keys: `[rows]`, uint64, hashes of the query and the document of each row.
    labels: `[rows]`, int32; a document with a negative label is not judged.
  """

  labels: np.ndarray

  def to_dict(self) -> dict[str, dict[str, int]]:
    """`{query: {document: label}}`, as pytrec_eval and ranx take it."""
    return self._to_dict(self.labels)

  def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
    """A frame with the columns `query_id`, `doc_id` and `relevance`, as ir_measures takes it."""
    return self._to_frame(library, relevance=self.labels)

  def write(self, path: str | os.PathLike[str]) -> None:
    """Writes a file of TREC's four columns, gzipped if the path ends with `.gz`.

    Raises:
      ValueError: if an id has blanks.
    """
    with checks.named("Qrels.write"):
      _writing.check_table(self.queries, self.documents)
      queries, codes = strings(self.queries), self.codes

      def columns(rows: np.ndarray) -> list[Any]:
        query, document = _writing.taken(queries, codes[rows]), _writing.taken(self.documents, rows)
        return [query, _writing.constant("0"), document, _writing.texts(self.labels[rows])]

      _writing.write(path, int(self.starts[-1]), columns)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Run(_Table):
  """The rankings of a system, as `read_run` returns them; `len` is the number of queries.

  Attributes:
    name: The tag of the first line, the stem of the file, or "run".
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
      TypeError: if an id is not a string, or `where` is not boolean.
    """
    with checks.named("Run.from_arrays"):
      names, texts = np.asarray(queries, object), np.asarray(documents, object)
      values = np.asarray(scores).astype(np.float64)
      mask = np.ones(values.shape, bool) if where is None else np.asarray(where)
      if mask.dtype != np.bool_:
        raise TypeError(f"where must be boolean, False on padding, got {mask.dtype}.")
      shapes = values.shape[:1], values.shape, values.shape
      if values.ndim != 2 or (names.shape, mask.shape, values.shape) != shapes:
        raise ValueError(
          "queries must be [q], scores and where [q, n], got shapes "
          f"{names.shape}, {values.shape} and {mask.shape}."
        )
      if texts.shape not in (values.shape, values.shape[1:]):
        raise ValueError(f"documents must be [q, n] or [n], got {texts.shape} for {values.shape}.")
      kept = mask & (values != -np.inf)
      codes = np.repeat(np.arange(len(names), dtype=np.int32), kept.sum(axis=1))
      retrieved = strings(np.broadcast_to(texts, values.shape)[kept].tolist())
      queries = strings(names.tolist()).to_pylist()
      if len({*queries}) < len(queries):
        twice = next(query for query in queries if queries.count(query) > 1)
        raise ValueError(f"query {twice!r} comes twice; give each query one row.")
      rows = _text.Rows(queries, codes, retrieved, values[kept])
      _sources.check(rows, _text.RUN)
      return run(group(rows, _text.RUN), name)

  def to_dict(self) -> dict[str, dict[str, float]]:
    """`{query: {document: score}}`, as pytrec_eval and ranx take it."""
    return self._to_dict(self.scores)

  def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
    """A frame with the columns `query_id`, `doc_id` and `score`, as ir_measures takes it."""
    return self._to_frame(library, score=self.scores)

  def write(self, path: str | os.PathLike[str]) -> None:
    """Writes a file of TREC's six columns, best scores first, gzipped if the path ends with `.gz`.

    Raises:
      ValueError: if an id, or the name of the run, which is its tag, has blanks.
    """
    with checks.named("Run.write"):
      _writing.check_table(self.queries, self.documents)
      _writing.check_ids("the name of the run", strings([self.name]))
      queries, codes = strings(self.queries), self.codes
      order = np.lexsort((-self.scores, codes))

      def columns(places: np.ndarray) -> list[Any]:
        rows, rank = order[places], places - self.starts[codes[places]] + 1
        return [
          _writing.taken(queries, codes[rows]),
          _writing.constant("Q0"),
          _writing.taken(self.documents, rows),
          _writing.texts(rank),
          _writing.texts(self.scores[rows]),
          _writing.constant(self.name),
        ]

      _writing.write(path, int(self.starts[-1]), columns)


def qrels(rows: Grouped, name: str) -> Qrels:
  """`Qrels` of grouped rows."""
  queries, starts, documents, pair_keys, labels = rows
  return Qrels(name, queries, starts, documents, pair_keys, labels.astype(np.int32))


def run(rows: Grouped, name: str) -> Run:
  """A `Run` of grouped rows."""
  return Run(name, *rows)
