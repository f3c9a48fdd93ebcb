"""Reads rows from what is in memory, and from JSON: dictionaries, frames, and lists of rows."""

import collections
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxrank.trec import _text
from jaxrank.trec._strings import arrow, lengths, numbers, strings
from jaxrank.trec._text import Layout, Rows

# The names of columns of frames: those of ir_measures, ranx and PyTerrier.
_QUERY = ("query_id", "q_id", "qid")
_DOCUMENT = ("doc_id", "docno", "docid")
_VALUE = {"label": ("relevance", "label", "rel", "score"), "score": ("score",)}


def read(source: Any, layout: Layout) -> Rows:
  """The rows of any source.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if the source is broken, or a value is not allowed.
    TypeError: if the source is of no known type.
  """
  if isinstance(source, str | os.PathLike):
    is_json = _text.head(source).removeprefix(_text.BOM).lstrip().startswith(b"{")
    return _from_json(source, layout) if is_json else _text.read(source, layout)
  if isinstance(source, Mapping):
    rows = _from_mapping(source, layout)
  elif hasattr(source, "__arrow_c_stream__"):
    rows = _from_frame(source, layout)
  elif isinstance(source, Iterable) and not isinstance(source, bytes):
    rows = _from_rows(source, layout)
  else:
    raise TypeError(
      f"a {layout.what} is read from a path, a dictionary of dictionaries, a pandas or polars "
      f"frame, or rows (query, document, {layout.value}), got {type(source).__name__}."
    )
  check(rows, layout)
  return rows


def _from_json(path: str | os.PathLike[str], layout: Layout) -> Rows:
  try:
    text = b"".join(bytes(block) for _, block in _text.blocks(path)).decode()
    found = json.loads(text, object_pairs_hook=_without_repetition)
  except UnicodeDecodeError:
    raise ValueError(
      f"{path}: the text is not UTF-8; convert the file, for example with iconv."
    ) from None
  except json.JSONDecodeError as error:
    raise ValueError(
      f"{path}, line {error.lineno}: broken JSON: {error.msg}; mend the file."
    ) from None
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None
  try:
    rows = _from_mapping(found, layout)
    check(rows, layout)
  except (TypeError, ValueError) as error:
    raise ValueError(f"{path}: {error}") from None
  return rows


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  found = dict(pairs)
  if len(found) < len(pairs):
    name = collections.Counter(name for name, _ in pairs).most_common(1)[0][0]
    raise ValueError(f"{name!r} comes twice in one object of JSON; drop one.")
  return found


def _from_mapping(source: Mapping[Any, Any], layout: Layout) -> Rows:
  for query, documents in source.items():
    if not isinstance(query, str):
      raise TypeError(f"ids must be strings, got the query {query!r}.")
    if not isinstance(documents, Mapping):
      raise TypeError(
        f"a dictionary must be {{query: {{document: {layout.value}}}}}, got {documents!r} for "
        f"query {query!r}."
      )
  queries = [*source]
  codes = np.repeat(np.arange(len(queries), dtype=np.int32), [len(x) for x in source.values()])
  documents = strings([*itertools.chain.from_iterable(source.values())])
  values = [*itertools.chain.from_iterable(x.values() for x in source.values())]
  return Rows(queries, codes, documents, _numbers(values, layout))


def _from_rows(source: Iterable[Any], layout: Layout) -> Rows:
  rows = [*source]
  wrong = next((x for x in rows if not isinstance(x, tuple | list) or len(x) < 3), None)
  if wrong is not None:
    raise TypeError(f"a row must be (query, document, {layout.value}), got {wrong!r}.")
  columns = [*zip(*(row[:3] for row in rows), strict=True)] or [(), (), ()]
  queries, codes = _coded(strings(columns[0]))
  return Rows(queries, codes, strings(columns[1]), _numbers(columns[2], layout))


def _from_frame(frame: Any, layout: Layout) -> Rows:
  pa = arrow()
  # A polars frame, whose strings are views, and a pandas one whose ids are integers are cast.
  table = pa.table(frame)
  columns = []
  for what, names in (
    ("query", _QUERY),
    ("document", _DOCUMENT),
    (layout.value, _VALUE[layout.value]),
  ):
    name = next((name for name in names if name in table.column_names), None)
    if name is None:
      raise ValueError(
        f"a frame must have a column of the {what}, {' or '.join(map(repr, names))}, got "
        f"{', '.join(map(repr, table.column_names))}; rename one."
      )
    column = table[name]
    if column.null_count:
      raise ValueError(f"column {name!r} has {column.null_count} missing values; drop those rows.")
    kinds = pa.types
    if what != layout.value and kinds.is_floating(column.type):
      raise TypeError(f"column {name!r} must hold ids, strings or integers, got {column.type}.")
    try:
      columns.append(column.cast(pa.float64() if what == layout.value else pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
      raise TypeError(f"column {name!r} must hold the {what}s, got {column.type}.") from None
  query, document, value = (column.combine_chunks() for column in columns)
  queries, codes = _coded(query)
  return Rows(queries, codes, document, numbers(value))


def _coded(query: Any) -> tuple[list[str], np.ndarray]:
  """The names of queries in the order in which they appear, and the number of each row's query."""
  coded = query.dictionary_encode()
  return coded.dictionary.to_pylist(), numbers(coded.indices)


def _numbers(values: Iterable[Any], layout: Layout) -> np.ndarray:
  try:
    found = np.array([*values])
    if found.dtype.kind not in "biuf" and found.size:
      raise ValueError
    return found.astype(np.float64)
  except (TypeError, ValueError):
    wrong = next(x for x in values if not isinstance(x, int | float | np.number | np.bool_))
    raise TypeError(f"a {layout.value} must be a number, got {wrong!r}.") from None


def check(rows: Rows, layout: Layout) -> None:
  """Raises `ValueError` for rows that are not allowed, and names the query and the document."""
  if not rows.queries:
    raise ValueError(f"the {layout.what} holds no rows.")
  wrong = ~np.isfinite(rows.values)
  kind = "finite"
  if layout.whole and not wrong.any():
    wrong, kind = (rows.values % 1 != 0) | (abs(rows.values) >= 2**31), "a whole number of 32 bits"
  empty = lengths(rows.documents) == 0
  at = np.flatnonzero(wrong | empty)
  if not at.size and all(rows.queries):
    return
  if not at.size:
    raise ValueError("a query has an empty id; give it another one.")
  row = int(at[0])
  query, document = rows.queries[rows.codes[row]], rows.documents[row].as_py()
  if empty[row]:
    raise ValueError(f"query {query!r}: a document has an empty id; give it another one.")
  advice = "round the labels" if layout.whole else "leave out documents that are not retrieved"
  raise ValueError(
    f"query {query!r}, document {document!r}: the {layout.value} must be {kind}, got "
    f"{rows.values[row]:g}; {advice}."
  )
