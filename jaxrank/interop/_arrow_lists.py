"""Lists in tables of Arrow as padded arrays of static shapes; `jaxrank.interop.ray` uses it."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jaxrank.measures import scales
from jaxrank.measures.measure import Measure

# The cells of a call of a compiled program, padding included.
_CELLS = 1 << 16


class Columns(NamedTuple):
  """The names of the columns; None for those that are not there."""

  scores: str
  labels: str
  weights: str | None
  by: str | None


class Lists(NamedTuple):
  """The rows of a table: flat scores and labels, and for each row its size and its weight."""

  scores: np.ndarray
  labels: np.ndarray
  sizes: np.ndarray
  weights: np.ndarray


class Piece(NamedTuple):
  """Rows of a table as padded arrays of a static shape, with empty queries at the end."""

  rows: np.ndarray
  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray


def read(table: pa.Table, columns: Columns) -> Lists:
  """The lists of a table.

  Raises:
    ValueError: if a row cannot be evaluated; the message names it.
  """
  scores, sizes = _flat(table, columns.scores)
  labels, others = _flat(table, columns.labels)
  different = np.flatnonzero(sizes != others)
  if different.size:
    at = int(different[0])
    raise ValueError(
      f"{row(table, at)}: {columns.scores} has {sizes[at]} items and {columns.labels} "
      f"{others[at]}; both need one for each candidate."
    )
  if scores.dtype.kind == "f" and np.isnan(scores).any():
    at = int(np.searchsorted(np.cumsum(sizes), np.flatnonzero(np.isnan(scores))[0], "right"))
    raise ValueError(
      f"{row(table, at)}: {columns.scores} has a NaN; mend the model that gave it, or leave the "
      "candidate out."
    )
  weights = np.ones(table.num_rows, np.float32)
  if columns.weights is not None:
    column = table[columns.weights].combine_chunks()
    if column.null_count:
      at = int(pc.index(pc.is_null(column), True).as_py())
      raise ValueError(f"{row(table, at)}: {columns.weights} is null; give every row a weight.")
    weights = column.to_numpy(zero_copy_only=False).astype(np.float32)
  return Lists(scores, labels, sizes, weights)


def _flat(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
  """The items of a column of lists, and the number of items of each row."""
  column = table[name].combine_chunks()
  kind = column.type
  is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
  if not is_list and not pa.types.is_fixed_size_list(kind):
    raise ValueError(f"column {name!r} must have a list in each row, got {kind}.")
  if column.null_count:
    at = int(pc.index(pc.is_null(column), True).as_py())
    raise ValueError(f"{row(table, at)}: {name} is null; give it an empty list, or drop the row.")
  sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False)
  items = column.flatten()
  if items.null_count:
    index = int(pc.index(pc.is_null(items), True).as_py())
    at = int(np.searchsorted(np.cumsum(sizes), index, "right"))
    raise ValueError(f"{row(table, at)}: {name} has a null; leave the candidate out.")
  values = items.to_numpy(zero_copy_only=False)
  if values.dtype.kind not in "biuf":
    raise ValueError(f"column {name!r} must have lists of numbers, got {kind}.")
  return values, sizes


def row(table: pa.Table, at: int) -> str:
  """A row, with the file if the dataset was read with `include_paths=True`."""
  what = f"row {at} of a batch of {table.num_rows}"
  return f"{what} of {table['path'][at].as_py()}" if "path" in table.column_names else what


def check_labels(measures: Iterable[Measure], lists: Lists, table: pa.Table) -> None:
  """Raises `ValueError` for a label beyond the scale of a measure; the message names the row."""
  ends = np.cumsum(lists.sizes)

  def place(item: int) -> str:
    at = int(np.searchsorted(ends, item, "right"))
    return f"{row(table, at)}, item {item - int(ends[at] - lists.sizes[at])},"

  scales.check(measures, lists.labels, np.ones(lists.labels.shape, bool), place)


def pieces(lists: Lists, buckets: tuple[int, ...]) -> Iterator[Piece]:
  """The rows as padded arrays, of one static shape for each bucket."""
  longest = int(lists.sizes.max(initial=0))
  if longest > buckets[-1]:
    raise ValueError(
      f"a list has {longest} items, and the last of the buckets is {buckets[-1]}; add a longer one."
    )
  bucket = np.searchsorted(buckets, lists.sizes)
  for index in np.unique(bucket):
    length, chosen = buckets[index], bucket == index
    rows, items = np.flatnonzero(chosen), np.repeat(chosen, lists.sizes)
    flat = lists.scores[items], lists.labels[items]
    ends = np.append(0, np.cumsum(lists.sizes[rows]))
    # One number of queries for each length, so that one program serves all calls.
    count = max(_CELLS // length, 1)
    for first in range(0, rows.size, count):
      part = rows[first : first + count]
      where = np.zeros((count, length), bool)
      where[: part.size] = np.arange(length) < lists.sizes[part, None]
      padded = []
      for values in flat:
        filled = np.zeros((count, length), values.dtype)
        filled[where] = values[ends[first] : ends[first + part.size]]
        padded.append(filled)
      yield Piece(part, padded[0], padded[1], where)
