"""What `Qrels` and `Run` are converted to: dictionaries, frames and files."""

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxrank import _files
from jaxrank._core import checks
from jaxrank.trec._strings import arrow, integers, lengths, strings

# The number of rows that are written at a time.
_ROWS = 1 << 18

# The formats of files, by the suffix that remains without that of what packs the file.
_FORMATS = {
  "trec": ("", ".txt", ".run", ".trec", ".qrels", ".qrel", ".res", ".results"),
  "tsv": (".tsv",),
  "csv": (".csv",),
  "json": (".json",),
  "jsonl": (".jsonl", ".ndjson"),
  "parquet": (".parquet",),
}

# Characters that no id may have in a format; blanks separate columns, and `#` begins a comment.
_FORBIDDEN = {
  "trec": ("blanks", r"^$|[\s\v\x00]"),
  "tsv": ("tabs or ends of lines", r"^$|[\t\r\n\x00]"),
  "csv": ("ends of lines", r"^$|[\r\n\x00]"),
}


def to_dict(
  queries: Sequence[str], starts: np.ndarray, documents: Any, values: np.ndarray
) -> dict[str, dict[str, Any]]:
  """`{query: {document: value}}`."""
  return dict(_items(queries, starts, documents, values))


def _items(
  queries: Sequence[str], starts: np.ndarray, documents: Any, values: np.ndarray
) -> Iterator[tuple[str, dict[str, Any]]]:
  for query, start, end in zip(queries, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
    names = documents.slice(start, end - start).to_pylist()
    yield query, dict(zip(names, values[start:end].tolist(), strict=True))


def to_frame(library: str, columns: dict[str, Any]) -> Any:
  """A frame of pandas or polars."""
  checks.choice("library", library, ("pandas", "polars"))
  table = arrow().table(columns)
  # `to_pandas` imports pandas; where it is not installed the message of the import says so.
  return table.to_pandas() if library == "pandas" else arrow("polars").from_arrow(table)


def texts(numbers: np.ndarray) -> Any:
  """The shortest text of each number that reads as the same number."""
  return arrow("pyarrow.compute").cast(arrow().array(numbers), arrow().large_string())


def taken(column: Any, rows: np.ndarray) -> Any:
  """The rows of an Arrow array."""
  return column.take(integers(rows))


def constant(text: str) -> Any:
  """A column with one text."""
  return arrow().scalar(text, arrow().large_string())


def form(path: str | os.PathLike[str]) -> str:
  """The format that the suffix of a path asks for.

  Raises:
    ValueError: if the suffix is not known.
  """
  suffix = _files.without_suffix(path).suffix.lower()
  for name, suffixes in _FORMATS.items():
    if suffix in suffixes:
      return name
  known = [suffix for suffixes in _FORMATS.values() for suffix in suffixes if suffix]
  raise ValueError(
    f"the suffix {suffix!r} of {str(path)!r} is not known: it must be one of {' '.join(known)}, or "
    f"none for TREC's columns, and {' '.join(_files.SUFFIXES)} may follow; rename the file."
  )


def check_filled(queries: Sequence[str], sizes: np.ndarray, holder: str) -> None:
  """Raises `ValueError` if a query has no documents, by which a holder of rows would lose it."""
  empty = np.flatnonzero(sizes == 0)
  if empty.size:
    raise ValueError(
      f"query {queries[empty[0]]!r} has no documents, and {holder} of rows would lose it: take "
      "to_dict(), write JSON, or leave the query out."
    )


def check_ids(what: str, ids: Any, name: str) -> None:
  """Raises `ValueError` if an id is empty or has what separates the columns of a format."""
  if name not in _FORBIDDEN:
    return
  kind, pattern = _FORBIDDEN[name]
  if name == "trec" and what == "the id of a query":
    kind, pattern = f"{kind}, nor begin with '#' or U+FEFF,", f"^[#\ufeff]|{pattern}"
  bad = arrow("pyarrow.compute").match_substring_regex(ids, pattern)
  at = arrow("pyarrow.compute").index(bad, True).as_py()
  if at >= 0:
    raise ValueError(
      f"{what} must have no {kind} in a file of {name.upper()}, got {ids[at].as_py()!r}; rename "
      "it, or write JSON or parquet."
    )


def write(
  path: str | os.PathLike[str],
  table: Any,
  values: np.ndarray,
  name: str,
  order: np.ndarray,
  trec: Callable[[Any, Any, np.ndarray, np.ndarray], list[Any]],
) -> None:
  """Writes `Qrels` or a `Run` in the format that the suffix of the path says.

  Args:
    path: The path of the file.
    table: The `Qrels` or the `Run`.
    values: `[rows]`, labels or scores.
    name: The name of their column.
    order: `[rows]`, the rows in the order in which they are written.
    trec: A function that gives TREC's columns of some queries, documents and values, and of their
      places in the order.

  Raises:
    ValueError: if the format cannot hold an id, or a query without documents.
  """
  format_, queries = form(path), strings(table.queries)
  if format_ != "json":
    check_filled(table.queries, table.sizes, "a file")
  check_ids("the id of a query", queries, format_)
  check_ids("the id of a document", table.documents, format_)

  def parts() -> Iterator[bytes]:
    rows, codes = int(table.starts[-1]), table.codes
    step = max(rows, 1) if format_ == "parquet" else _ROWS
    for start in range(0, max(rows, 1), step):
      places = np.arange(start, min(start + step, rows))
      chosen = order[places]
      query, document = taken(queries, codes[chosen]), taken(table.documents, chosen)
      value = values[chosen]
      if format_ == "trec":
        yield _lines(trec(query, document, value, places), " ")
      elif format_ == "tsv":
        header = b"" if start else b"query-id\tcorpus-id\tscore\n"
        yield header + _lines([query, document, texts(value)], "\t")
      else:
        columns = {"query_id": query, "doc_id": document, name: value}
        yield _encoded(arrow().table(columns), format_, not start)

  json_parts = _json(_items(table.queries, table.starts, table.documents, values))
  with _files.created(path) as file:
    for text in json_parts if format_ == "json" else parts():
      file.write(text)


def _lines(columns: list[Any], separator: str) -> bytes:
  """Lines of columns with a separator between them."""
  pa, compute = arrow(), arrow("pyarrow.compute")
  between, end, nothing = (pa.scalar(x, pa.large_string()) for x in (separator, "\n", ""))
  lines = compute.binary_join_element_wise(*columns, between)
  lines = compute.binary_join_element_wise(lines, end, nothing)
  return bytes(lines.buffers()[2])[: lengths(lines).sum()]


def _encoded(table: Any, format_: str, has_header: bool) -> bytes:
  """A table as CSV, JSON lines or parquet."""
  if format_ == "jsonl":
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    dicts = (dict(zip(table.column_names, row, strict=True)) for row in rows)
    return "".join(f"{json.dumps(row)}\n" for row in dicts).encode()
  file = io.BytesIO()
  if format_ == "parquet":
    arrow("pyarrow.parquet").write_table(table, file)
  else:
    csv = arrow("pyarrow.csv")
    csv.write_csv(table, file, csv.WriteOptions(include_header=has_header, quoting_style="needed"))
  return file.getvalue()


def _json(items: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[bytes]:
  """`{query: {document: value}}`, a query in a line."""
  before = "{"
  for query, values in items:
    yield f"{before}\n{json.dumps(query)}: {json.dumps(values)}".encode()
    before = ","
  yield b"{}\n" if before == "{" else b"\n}\n"
