"""Columns of strings, as Arrow arrays: the parser's package, hashes, and matches of documents."""

import importlib
from typing import Any

import numpy as np

# Odd constants of 64 bits: the golden ratio, and a multiplier of the hash of PCG.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD1342543DE82EF95)

# The number of strings that are hashed at a time, so that temporaries stay small.
_CHUNK = 1 << 18


def arrow(module: str = "pyarrow") -> Any:
  """The package of the parser.

  Raises:
    ModuleNotFoundError: if it is not installed; the message says how to install it.
  """
  try:
    return importlib.import_module(module)
  except ModuleNotFoundError as error:
    if error.name != "pyarrow":
      raise
    raise ModuleNotFoundError(
      "jaxrank.trec needs pyarrow: python -m pip install 'jaxrank[trec]' brings it.", name="pyarrow"
    ) from None


def strings(values: Any) -> Any:
  """A sequence of ids, strings or integers, as an Arrow array of strings.

  Raises:
    TypeError: if a value is neither.
  """
  pa = arrow()
  try:
    ids = pa.array(values, pa.large_string())
  except (pa.ArrowTypeError, pa.ArrowInvalid):
    ids = None
  if ids is None or ids.null_count:
    texts = [x if isinstance(x, str) or not _is_whole(x) else str(x) for x in values]
    wrong = next((x for x in texts if not isinstance(x, str)), None)
    if ids is not None or not all(isinstance(x, str) for x in texts):
      raise TypeError(f"ids must be strings or integers, got {wrong!r}.")
    ids = pa.array(texts, pa.large_string())
  return ids


def _is_whole(x: Any) -> bool:
  return isinstance(x, int | np.integer) and not isinstance(x, bool)


def joined(arrays: list[Any]) -> Any:
  """One array of several."""
  pa = arrow()
  return pa.concat_arrays(arrays) if arrays else pa.array([], pa.large_string())


def numbers(column: Any) -> np.ndarray:
  """An Arrow array of numbers without nulls; `to_numpy` would import pandas."""
  whole = column.combine_chunks() if hasattr(column, "chunks") else column
  dtype = np.dtype(str(whole.type).replace("double", "float64"))
  return np.frombuffer(whole.buffers()[1] or b"", dtype)[whole.offset :][: len(whole)]


def integers(values: np.ndarray) -> Any:
  """Integers as an Arrow array; `pyarrow.array` would import pandas."""
  pa, whole = arrow(), np.ascontiguousarray(values)
  kind = getattr(pa, str(whole.dtype))()
  return pa.Array.from_buffers(kind, whole.size, [None, pa.py_buffer(whole)])


def lengths(documents: Any) -> np.ndarray:
  """The number of bytes of each string."""
  return np.diff(_offsets(documents))


def keys(documents: Any, codes: np.ndarray) -> np.ndarray:
  """Hashes of 64 bits of pairs of a query, by its number, and a document."""
  offsets, data = _offsets(documents), documents.buffers()[2]
  text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
  hashes = np.empty(len(documents), np.uint64)
  for start in range(0, len(documents), _CHUNK):
    part = offsets[start : start + _CHUNK + 1]
    # A word may be read past the end of the last string.
    padded = np.append(text[part[0] : part[-1]], np.zeros(8, np.uint8))
    pairs = _hashes(padded, part - part[0])
    pairs += codes[start : start + _CHUNK].astype(np.uint64) * _STEP
    hashes[start : start + _CHUNK] = (pairs ^ (pairs >> np.uint64(29))) * _MIX
  return hashes


def _offsets(documents: Any) -> np.ndarray:
  """Where each string begins in the bytes of the array, and the end of the last."""
  buffer = documents.buffers()[1]
  if buffer is None or not buffer.size:
    return np.zeros(1, np.int64)
  first = documents.offset
  return np.frombuffer(buffer, np.int64)[first : first + len(documents) + 1]


def _hashes(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
  """Hashes of strings in words of eight bytes: one step for each word, over all strings at once.

  A step can be undone, so that strings of one length that differ in one word only never collide.
  """
  words = np.lib.stride_tricks.as_strided(
    np.frombuffer(text.data, "<u8", 1), (text.size - 7,), (1,), writeable=False
  )
  place, left = offsets[:-1], np.diff(offsets)
  hashes = left.astype(np.uint64) * _STEP
  rows = np.flatnonzero(left)
  while rows.size:
    word = words[place[rows]]
    empty = 8 * np.maximum(8 - left[rows], 0)
    word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> empty.astype(np.uint64)
    mixed = (hashes[rows] ^ word) * _MIX
    hashes[rows] = mixed ^ (mixed >> np.uint64(32))
    place, left = place + 8, left - 8
    rows = rows[left[rows] > 0]
  return hashes


def matches(
  keys: np.ndarray, documents: Any, among: np.ndarray, others: Any
) -> tuple[np.ndarray, np.ndarray]:
  """The pairs `(i, j)` with equal keys `keys[i] == among[j]` and equal documents.

  The keys `among` are those of distinct pairs of a query and a document, as a rule fewer.
  """
  order = np.argsort(among)
  ordered = among[order]
  # Most keys have no partner; one bit for the top of each key leaves few to search for.
  shift = np.uint64(64 - max(4, (8 * ordered.size).bit_length()))
  present = np.zeros(1 << (64 - int(shift)), bool)
  present[ordered >> shift] = True
  i = np.flatnonzero(present[keys >> shift])
  at = np.searchsorted(ordered, keys[i])
  at = np.minimum(at, max(ordered.size - 1, 0))
  same = ordered[at] == keys[i] if ordered.size else np.zeros(i.size, bool)
  i, j = i[same], order[at[same]]
  # The hash of two documents may be the same.
  ours, theirs = documents.take(integers(i)), others.take(integers(j))
  equal = arrow("pyarrow.compute").equal(ours, theirs)
  kept = integers(np.arange(i.size)).filter(equal)
  return i[numbers(kept)], j[numbers(kept)]


def repeated(keys: np.ndarray, codes: np.ndarray, documents: Any) -> tuple[int, int] | None:
  """Two rows with one query and one document, or None."""
  ordered = np.sort(keys)
  same = ordered[1:] == ordered[:-1]
  if not same.any():
    return None
  rows = np.flatnonzero(np.isin(keys, ordered[1:][same]))
  seen: dict[tuple[int, str], int] = {}
  for row, document in zip(rows.tolist(), documents.take(integers(rows)).to_pylist(), strict=True):
    first = seen.setdefault((int(codes[row]), document), row)
    if first != row:
      return first, row
  return None
