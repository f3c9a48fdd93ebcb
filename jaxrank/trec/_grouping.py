"""Rows of one source, grouped by query, and the check that no document comes twice."""

import os
from typing import Any, NamedTuple

import numpy as np

from jaxrank.trec._layouts import Rows
from jaxrank.trec._strings import integers, keys, numbers, repeated


class Grouped(NamedTuple):
  """The first four fields of a table, without its name, and what it holds of each document.

  Attributes:
    queries: The names of the queries.
    starts: `[queries + 1]`, the first row of each query, and the number of rows.
    documents: `[rows]`, an Arrow array of strings.
    pair_keys: `[rows]`, hashes of queries and documents.
    values: `[rows]`, float64, labels or scores; `[rows, s]`, labels by subtopic.
  """

  queries: tuple[str, ...]
  starts: np.ndarray
  documents: Any
  pair_keys: np.ndarray
  values: np.ndarray


def group(rows: Rows, path: str | os.PathLike[str] | None = None) -> Grouped:
  """Groups rows by query; documents keep their order within a query.

  Raises:
    ValueError: if a query has a document twice; the message names the lines of the file at `path`.
  """
  codes, documents, values = rows.codes, rows.documents, rows.values
  order = np.arange(codes.size)
  if (codes[1:] < codes[:-1]).any():
    order = np.argsort(codes, kind="stable")
    codes, values = codes[order], values[order]
    documents = documents.take(integers(order))
  pair_keys = keys(documents, codes)
  twice = repeated(pair_keys, codes, documents)
  if twice:
    what = f"query {rows.queries[codes[twice[0]]]!r} has document {documents[twice[0]].as_py()!r}"
    first, second = (rows.line(int(order[row])) for row in twice)
    where = "" if path is None else f"{path}: " if second is None else f"{path}, line {second}: "
    by = "" if first is None else f", first in line {first}"
    raise ValueError(f"{where}{what} twice{by}; drop one of the rows.")
  starts = np.append(0, np.cumsum(np.bincount(codes, minlength=len(rows.queries))))
  return Grouped(tuple(rows.queries), starts, documents, pair_keys, values)


def by_subtopic(rows: Rows, path: str | os.PathLike[str] | None = None) -> Grouped:
  """Groups rows by query, with labels `[rows, s]`, a column for each subtopic of a query.

  Raises:
    ValueError: if a subtopic judges a document twice.
  """
  codes = rows.codes.astype(np.int64)
  documents = numbers(rows.documents.dictionary_encode().indices)
  topics = numbers(rows.subtopics.dictionary_encode().indices)
  _, first, row = np.unique(
    np.stack([codes, documents]), axis=1, return_index=True, return_inverse=True
  )
  in_query, topic = np.unique(np.stack([codes, topics]), axis=1, return_inverse=True)
  column = topic - np.searchsorted(in_query[0], codes)
  place = row * (column.max(initial=0) + 1) + column
  where, count = np.unique(place, return_counts=True)
  if (count > 1).any():
    again = int(np.flatnonzero(place == where[np.argmax(count > 1)])[1])
    line = rows.line(again)
    at = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
    raise ValueError(
      f"{at}query {rows.queries[codes[again]]!r}, subtopic {rows.subtopics[again].as_py()!r} has "
      f"document {rows.documents[again].as_py()!r} twice; drop one of the rows."
    )
  labels = np.zeros((first.size, column.max(initial=0) + 1))
  labels[row, column] = rows.values
  # In the order of the source.
  order = np.argsort(first)
  kept = first[order]
  taken = rows.documents.take(integers(kept))
  grouped = group(Rows(rows.queries, rows.codes[kept], taken, kept.astype(np.float64)))
  return grouped._replace(values=labels[order][np.searchsorted(kept, grouped.values)])
