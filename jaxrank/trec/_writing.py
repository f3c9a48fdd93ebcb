"""What `Qrels` and `Run` are converted to: dictionaries, frames and text."""

import gzip
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxrank._core import checks
from jaxrank.trec._strings import arrow, integers, strings

# The number of rows that are written at a time.
_ROWS = 1 << 18


def to_dict(
  queries: Sequence[str], starts: np.ndarray, documents: Any, values: np.ndarray
) -> dict[str, dict[str, Any]]:
  """`{query: {document: value}}`."""
  found = {}
  for query, start, end in zip(queries, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
    names = documents.slice(start, end - start).to_pylist()
    found[query] = dict(zip(names, values[start:end].tolist(), strict=True))
  return found


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


def write(
  path: str | os.PathLike[str], rows: int, columns: Callable[[np.ndarray], Sequence[Any]]
) -> None:
  """Writes columns with one space between them; `columns` gives those of some rows."""
  pa, compute = arrow(), arrow("pyarrow.compute")
  with open(path, "wb") as plain:
    # Without a name and a time, equal tables make equal files.
    zipped = str(path).endswith(".gz")
    file = gzip.GzipFile("", "wb", 6, plain, 0) if zipped else plain
    for start in range(0, rows, _ROWS):
      part = columns(np.arange(start, min(start + _ROWS, rows)))
      lines = compute.binary_join_element_wise(*part, pa.scalar(" ", pa.large_string()))
      ends = [pa.scalar(x, pa.large_string()) for x in ("\n", "")]
      file.write(compute.binary_join_element_wise(lines, *ends).buffers()[2])
    if zipped:
      file.close()


def constant(text: str) -> Any:
  """A column with one text."""
  return arrow().scalar(text, arrow().large_string())


def check_ids(what: str, ids: Any) -> None:
  """Raises `ValueError` if an id is empty or has blanks, which separate columns."""
  bad = arrow("pyarrow.compute").match_substring_regex(ids, r"^$|[\s\v\x00]")
  at = arrow("pyarrow.compute").index(bad, True).as_py()
  if at >= 0:
    raise ValueError(
      f"{what} must have no blanks in a TREC file, got {ids[at].as_py()!r}; rename it."
    )


def check_table(queries: Sequence[str], documents: Any) -> None:
  """Raises `ValueError` if the name of a query or a document is empty or has blanks."""
  check_ids("the id of a query", strings(queries))
  check_ids("the id of a document", documents)
