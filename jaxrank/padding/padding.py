"""`pad`, `pad_buckets` and `unpad` convert flat rows to padded arrays, and back."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core._jax import is_traced
from jaxrank.padding import _lengths

_OF_LISTS = (
  "pad(np.repeat(np.arange(len(scores)), list(map(len, scores))), np.concatenate(scores), "
  "np.concatenate(labels))"
)
_WRITTEN = f"pad(query_ids, scores, labels), one entry per row, or for lists of queries {_OF_LISTS}"


class Batch(NamedTuple):
  """Queries padded to one length, as `pad` and `pad_buckets` return them.

  A batch is a pytree. JAX has no strings: if the ids are strings, pass the other fields to a jitted
  function rather than the batch.

  Attributes:
    scores: `[queries, length]`, 0 on padding.
    labels: `[queries, length]`, 0 on padding.
    where: `[queries, length]`, boolean, False on padding.
    query_ids: `[queries]`, ascending.
    rows: `[queries, length]`, the index of each cell in the flat input, -1 on padding.
  """

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  query_ids: np.ndarray
  rows: np.ndarray

  def gather(self, values: ArrayLike) -> np.ndarray:
    """Pads values of the rows, such as features, as the scores and labels are padded.

    >>> batch = pad(["b", "a", "b"], scores=[0.3, 0.2, 0.9], labels=[0, 1, 2])
    >>> batch.gather([[1, 2], [3, 4], [5, 6]]).tolist()
    [[[3, 4], [0, 0]], [[1, 2], [5, 6]]]

    Args:
      values: `[rows, ...]`, in the order of the flat input.

    Returns:
      `[queries, length, ...]`, 0 on padding, of the dtype of the values.

    Raises:
      ValueError: if there are fewer rows of values than the batch refers to.
      TypeError: if the values are not numbers, or traced.
    """
    with checks.named("Batch.gather"):
      given = checks.on_host("values", values)
      least = int(self.rows.max(initial=-1)) + 1
      if given.ndim == 0 or len(given) < least:
        raise ValueError(
          f"values must have a row for each row of the input, at least {least}, got shape "
          f"{given.shape}."
        )
    shape = *self.rows.shape, *given.shape[1:]
    gathered = np.zeros(shape, given.dtype)
    gathered[self.where] = given[self.rows[self.where]]
    return gathered


@checks.written(_WRITTEN)
def pad(
  query_ids: ArrayLike, scores: ArrayLike, labels: ArrayLike, *, length: int | None = None
) -> Batch:
  """Pads queries to one length: each becomes a row of arrays `[queries, length]`.

  Queries come in ascending order of their ids, whatever the order of the rows, so that the values
  of two systems on the same queries correspond. Items keep their order within a query. All queries
  are padded to the longest one; for lengths that differ much, use `pad_buckets`.

  >>> batch = pad(["b", "a", "b"], scores=[0.3, 0.2, 0.9], labels=[0, 1, 2])
  >>> batch.query_ids.tolist(), batch.scores.tolist(), batch.labels.tolist()
  (['a', 'b'], [[0.2, 0.0], [0.3, 0.9]], [[1, 0], [0, 2]])
  >>> batch.where.tolist(), batch.rows.tolist()
  ([[True, False], [True, True]], [[1, -1], [0, 2]])

  See `jaxrank.padding` for `query_ids`, `scores` and `labels`.

  Args:
    length: The padded length, at least 0; None takes the number of items of the longest query.

  Returns:
    A `Batch` of arrays `[queries, length]`.

  Raises:
    ValueError: if the inputs are not one-dimensional and of one length, an id is NaN, or a query
      has more items than `length`.
    TypeError: if ids cannot be sorted, scores or labels are not numbers, or `pad` is called inside
      `jit`.
  """
  with checks.named("pad"):
    flat_ids, flat_scores, flat_labels = _rows(query_ids, scores, labels)
    ids, sizes, order = grouped(flat_ids)
    if length is None:
      length = int(sizes.max(initial=0))
    length = checks.count("length", length, least=0)
    _check_fits("length", length, ids, sizes)
  return _fill(ids, sizes, order, flat_scores, flat_labels, length)


@checks.written(_WRITTEN.replace("pad(", "pad_buckets("))
def pad_buckets(
  query_ids: ArrayLike,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  lengths: Sequence[int] | np.ndarray | None = None,
  buckets: int | None = None,
) -> list[Batch]:
  """Pads each query to the shortest of a few lengths that holds it.

  With the default lengths, the powers of two, more than half of all cells hold an item, and a
  jitted function compiles for at most `1 + ceil(log2(n))` lengths if the longest query has `n`
  items.
  `buckets` bounds the number of lengths, and chooses those with the least padding. The order of the
  values per query is that of `np.concatenate([batch.query_ids for batch in batches])`.

  >>> batches = pad_buckets([7, 8, 8, 8, 9], [0.1, 0.2, 0.3, 0.4, 0.5], [1, 0, 0, 1, 1])
  >>> [(batch.query_ids.tolist(), batch.scores.shape) for batch in batches]
  [([7, 9], (2, 1)), ([8], (1, 4))]

  See `jaxrank.padding` for `query_ids`, `scores` and `labels`.

  Args:
    lengths: Positive integers in any order, the lengths to which queries may be padded; None takes
      the powers of two.
    buckets: The largest number of lengths, at least 1, instead of `lengths`.

  Returns:
    A `Batch` for each length that a query needs, the shortest first; an empty list without rows.

  Raises:
    ValueError: if the inputs are not one-dimensional and of one length, an id is NaN, a length is
      not a positive integer, `buckets` is less than 1 or given with `lengths`, or a query has more
      items than the largest of `lengths`.
    TypeError: if ids cannot be sorted, scores or labels are not numbers, or `pad_buckets` is called
      inside `jit`.
  """
  with checks.named("pad_buckets"):
    flat_ids, flat_scores, flat_labels = _rows(query_ids, scores, labels)
    ids, sizes, order = grouped(flat_ids)
    choices = _lengths.choices(lengths, buckets, sizes)
    _check_fits("the largest of lengths", int(choices.max(initial=0)), ids, sizes)
  bucket = np.searchsorted(choices, sizes)
  batches = []
  for index in np.unique(bucket):
    chosen = bucket == index
    rows = order[np.repeat(chosen, sizes)]
    length = int(choices[index])
    batches.append(_fill(ids[chosen], sizes[chosen], rows, flat_scores, flat_labels, length))
  return batches


def unpad(batch: Batch | Sequence[Batch], values: ArrayLike | Sequence[ArrayLike]) -> np.ndarray:
  """Converts values of padded cells back to values of rows, in the order of the flat input.

  >>> batch = pad(["b", "a", "b"], scores=[0.3, 0.2, 0.9], labels=[0, 1, 2])
  >>> unpad(batch, batch.scores * 10).tolist()
  [3.0, 2.0, 9.0]

  Args:
    batch: A `Batch` of `pad`, or the list of `pad_buckets`.
    values: An array `[queries, length, ...]`, or a list with one such array for each batch.

  Returns:
    `[rows, ...]`, in the dtype of the values.

  Raises:
    ValueError: if the values have another shape than the batch, their number is not that of the
      batches, or the batches do not hold each row of the flat input once.
    TypeError: if `batch` is neither a `Batch` nor a list of them.
  """
  with checks.named("unpad"):
    batches = as_list(batch)
    one = isinstance(batch, Batch) or not isinstance(values, Iterable)
    arrays = list(cast(Sequence[ArrayLike], [values] if one else values))
    if len(arrays) != len(batches):
      raise ValueError(
        f"values must be one array for each batch, got {len(arrays)} for {len(batches)} batches."
      )
    if not batches:
      return np.zeros(0)
    pairs = [_cells(b, v) for b, v in zip(batches, arrays, strict=True)]
    rows, flat = (np.concatenate(column) for column in zip(*pairs, strict=True))
    _check_complete(rows)
  result = np.empty_like(flat)
  result[rows] = flat
  return result


def as_list(batch: Batch | Iterable[Batch]) -> list[Batch]:
  """A `Batch`, or the batches of `pad_buckets`, as a list."""
  single = isinstance(batch, Batch) or not isinstance(batch, Iterable)
  batches = cast(list[Batch], [batch] if single else list(batch))
  for each in batches:
    if not isinstance(each, Batch):
      raise TypeError(f"Expected what pad or pad_buckets returned, got {type(each).__name__}.")
  return batches


def _cells(batch: Batch, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
  """The row and the value of each cell that is not padding."""
  checks.untraced("values", values)
  checks.check("values", values)
  values, rows = np.asarray(values), np.asarray(batch.rows)
  if values.shape[: rows.ndim] != rows.shape:
    raise ValueError(
      f"values must have the shape of the batch, {rows.shape}, first, got {values.shape}."
    )
  valid = rows >= 0
  return rows[valid], values[valid]


def _rows(*columns: ArrayLike) -> list[np.ndarray]:
  """The query ids, scores and labels as arrays, one entry per row."""
  if any(is_traced(column) for column in columns):
    raise TypeError("the shapes of padded queries depend on the data; call it outside of jit.")
  names = "query_ids", "scores", "labels"
  for name, column in zip(names, columns, strict=True):
    checks.check(name, column)
  if any(_is_nested(column) for column in columns):
    raise ValueError(
      "query_ids, scores and labels must be flat, one entry per row, got lists of lists. For lists "
      f"of each query, write {_OF_LISTS}."
    )
  arrays = [np.asarray(columns[0])]
  for name, column in zip(names[1:], columns[1:], strict=True):
    empty = isinstance(column, list | tuple | np.ndarray) and not np.size(column)
    arrays.append(np.asarray(column) if empty else checks.on_host(name, column))
  if arrays[0].ndim != 1 or len({array.shape for array in arrays}) != 1:
    ids, scores, labels = (array.shape for array in arrays)
    raise ValueError(
      "query_ids, scores and labels must be one-dimensional and of one length, one entry per row, "
      f"got shapes {ids}, {scores} and {labels}."
    )
  return arrays


def _is_nested(column: Any) -> bool:
  """Whether a column, of a frame too, has lists or arrays."""
  first = column[:1] if isinstance(column, Sequence) or getattr(column, "ndim", 0) == 1 else ()
  return any(isinstance(x, list | tuple) or np.ndim(x) > 0 for x in first)


def grouped(query_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """The ids in ascending order, the number of rows of each, and the rows in that order."""
  try:
    order = np.argsort(query_ids, kind="stable")
  except TypeError:
    kinds = sorted({type(x).__name__ for x in query_ids.tolist()})
    raise TypeError(
      f"query_ids must be of one type that sorts, got {', '.join(kinds)}; pass strings or integers."
    ) from None
  ordered = query_ids[order]
  if ordered.size and ordered[-1] != ordered[-1]:
    raise ValueError(f"query_ids must not be NaN, got {ordered[-1]} in row {order[-1]}.")
  new = np.ones(ordered.shape, bool)
  new[1:] = ordered[1:] != ordered[:-1]
  starts = np.flatnonzero(new)
  return ordered[starts], np.diff(starts, append=ordered.size), order


def _fill(
  query_ids: np.ndarray,
  sizes: np.ndarray,
  order: np.ndarray,
  scores: np.ndarray,
  labels: np.ndarray,
  length: int,
) -> Batch:
  """One batch of queries with `sizes` items; `order` has their rows, query after query."""
  where = np.arange(length) < sizes[:, None]

  def place(values: np.ndarray, padding: int) -> np.ndarray:
    cells = np.full(where.shape, padding, values.dtype)
    cells[where] = values
    return cells

  return Batch(place(scores[order], 0), place(labels[order], 0), where, query_ids, place(order, -1))


def _check_fits(name: str, length: int, query_ids: np.ndarray, sizes: np.ndarray) -> None:
  longest = int(sizes.max(initial=0))
  if length < longest:
    at = int(sizes.argmax())
    query = query_ids[at : at + 1].tolist()[0]
    raise ValueError(
      f"{name} is {length}, which must hold the longest query, got {longest} items for query "
      f"{query!r}; pass a larger one, or None to fit the data."
    )


def _check_complete(rows: np.ndarray) -> None:
  seen = np.zeros(rows.size, bool)
  seen[rows[rows < rows.size]] = True
  if not seen.all():
    raise ValueError(
      "the batches must hold each row of the flat input once, got "
      f"{rows.size} cells and rows up to {rows.max()}; pass all batches that pad or pad_buckets "
      "returned, uncut."
    )
