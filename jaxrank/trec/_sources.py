"""Reads rows of any source: files, dictionaries, frames, and lists of rows."""

import collections
import decimal
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from jaxrank import _files
from jaxrank._errors import counted
from jaxrank._files import Stream
from jaxrank.trec import _layouts, _text
from jaxrank.trec._layouts import Layout, Rows
from jaxrank.trec._strings import arrow, lengths, numbers, strings


def read(source: Any, layout: Layout) -> Rows:
  """The rows of any source.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if the source is broken, or a value is not allowed.
    TypeError: if the source is of no known type.
  """
  if isinstance(source, str | os.PathLike):
    return _from_file(source, layout)
  if isinstance(source, Mapping):
    rows = _from_mapping(source, layout)
  else:
    if hasattr(source, "with_format") and hasattr(source, "__len__"):
      # A data set of Hugging Face, whose table has rows that a selection does not have. One without
      # a length is iterated.
      source = source.with_format("arrow")[:]
    elif hasattr(source, "collect"):
      # A lazy frame of polars.
      source = source.collect()
    if hasattr(source, "__arrow_c_stream__"):
      rows = _from_frame(source, layout)
    elif isinstance(source, np.ndarray):
      names, records = source.dtype.names, source.tolist()
      by_name = [dict(zip(names, row, strict=True)) for row in records] if names else records
      rows = _from_rows(by_name, layout)
    elif isinstance(source, Iterable) and not isinstance(source, bytes | io.IOBase):
      rows = _from_rows([*source], layout)
    else:
      nested = "" if "subtopic" in layout.names else "a dictionary of dictionaries, "
      got = "an open file: pass its path" if hasattr(source, "read") else type(source).__name__
      raise TypeError(
        f"a {layout.what} is read from a path, {nested}a pandas or polars frame, or rows "
        f"({', '.join(_columns(layout))}), got {got}."
      )
  check(rows, layout)
  return rows


def _from_file(path: str | os.PathLike[str], layout: Layout) -> Rows:
  try:
    with _files.opened(path) as stream:
      rows = _from_stream(stream, layout)
    check(rows, layout)
    return rows
  except json.JSONDecodeError as error:
    text = f"line {error.lineno}: broken JSON: {error.msg}; mend the file"
  except UnicodeDecodeError:
    text = "the text is not UTF-8; convert the file, for example with iconv"
  except (TypeError, ValueError) as error:
    text = str(error)
  raise ValueError(f"{path}{', ' if text.startswith('line ') else ': '}{text.rstrip('.')}.")


def _from_stream(stream: Stream, layout: Layout) -> Rows:
  # An id may begin like a format, but has no control characters.
  if re.match(rb"PAR1[\x00-\x08\x0e-\x1f]", stream.head):
    return _from_parquet(stream, layout)
  line = stream.first_line()
  if _is_json(line, layout):
    has_lines = _is_row(line, layout)
    return _from_json_lines(stream, layout) if has_lines else _from_json(stream, layout)
  rows = _text.read(stream, layout)
  if layout.value == "label" and not rows.queries:
    expected = f"it should have lines of {', '.join(layout.columns)}"
    raise ValueError(f"it holds no rows: {expected}; {_layouts.READ}")
  return rows


def _from_parquet(stream: Stream, layout: Layout) -> Rows:
  pa, parquet = arrow(), arrow("pyarrow.parquet")
  # Threads that are left when the process ends with an error may abort it.
  try:
    file = parquet.ParquetFile(pa.py_buffer(stream.readall()), pre_buffer=False)
    given = file.schema_arrow.names
    names = _layouts.named(given, layout) if given else {}
    table = file.read(columns=[*names.values()], use_threads=False)
  except (OSError, pa.ArrowException) as error:
    raise ValueError(f"broken parquet data: {error}; copy or download it again.") from None
  return _from_frame(table, layout)


def _is_json(line: bytes, layout: Layout) -> bool:
  """Whether the first line of a file begins JSON, rather than an id with a bracket in front."""
  if not re.match(rb"\{|\[\s*([\[{\]]|\Z)", line):
    return False
  try:
    text = line.decode()
    json.loads(text)
  except json.JSONDecodeError as error:
    # Up to the end of the line, JSON that goes on in the next one has no fault.
    return error.pos >= len(text.rstrip()) or not _text.is_row(line, layout)
  except ValueError:
    pass
  return True


def _is_row(line: bytes, layout: Layout) -> bool:
  """Whether a line is one of JSON lines: an object with the columns of a row."""
  try:
    parsed = json.loads(line)
  except ValueError:
    return False
  return isinstance(parsed, dict) and _layouts.is_named(parsed, layout)


def _from_json_lines(stream: Stream, layout: Layout) -> Rows:
  def parts() -> Iterator[Rows]:
    for number, block in _text.blocks(stream, layout):
      rows: dict[int, Any] = {}
      names: Iterable[str] = ()
      for at, line in enumerate(block.split(b"\n"), number + 1):
        if line.strip():
          try:
            rows[at] = _DECODER.decode(line.decode())
            if rows[at].keys() != names:
              names = rows[at].keys()
              _layouts.named(names, layout)
          except json.JSONDecodeError as error:
            raise ValueError(f"line {at}: broken JSON: {error.msg}; mend the line") from None
          except AttributeError:
            raise ValueError(f"line {at}: a line must be an object, got {line!r}") from None
          except ValueError as error:
            raise ValueError(f"line {at}: {error}") from None
      yield _from_rows([*rows.values()], layout)._replace(lines=[[*rows]])

  return _text.merged(parts())


def _from_json(stream: Stream, layout: Layout) -> Rows:
  parsed = _DECODER.decode(stream.readall().removeprefix(_text.BOM).decode())
  return (_from_mapping if isinstance(parsed, dict) else _from_rows)(parsed, layout)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  mapping = dict(pairs)
  if len(mapping) < len(pairs):
    name = collections.Counter(name for name, _ in pairs).most_common(1)[0][0]
    raise ValueError(f"{name!r} comes twice in one object of JSON; drop one.")
  return mapping


_NUMBERS = (Real, decimal.Decimal, np.number, np.bool_)

# Double precision has all integers up to this one.
_WHOLE = 2**53

# Made once, because `json.loads` would make one for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_without_repetition)


def _columns(layout: Layout) -> tuple[str, ...]:
  """The columns of a row in memory: those of a line that are needed."""
  return tuple(name for name in layout.columns if name in layout.names)


def _from_mapping(source: Mapping[Any, Any], layout: Layout) -> Rows:
  if "subtopic" in layout.names:
    raise TypeError(
      "judgements by subtopic are no dictionary of dictionaries; pass rows "
      f"({', '.join(_columns(layout))}), or a frame or a file with these columns."
    )
  for query, documents in source.items():
    if not isinstance(documents, Mapping):
      raise TypeError(
        f"a dictionary must be {{query: {{document: {layout.value}}}}}, got {documents!r} for "
        f"query {query!r}."
      )
  queries = strings([*source]).to_pylist()
  if len({*queries}) < len(queries):
    twice = collections.Counter(queries).most_common(1)[0][0]
    raise ValueError(f"query {twice!r} comes twice, as a string and as an integer; drop one.")
  codes = np.repeat(np.arange(len(queries), dtype=np.int32), [len(x) for x in source.values()])
  documents = strings([*itertools.chain.from_iterable(source.values())])
  values = [*itertools.chain.from_iterable(x.values() for x in source.values())]
  place = _layouts.places(queries, codes, documents)
  return Rows(queries, codes, documents, doubles(values, layout.value, place))


def _from_rows(rows: list[Any], layout: Layout) -> Rows:
  if rows and _layouts.is_named(getattr(rows[0], "_fields", ()), layout):
    # Named tuples, whose fields may have any order, as in ir_measures and ir_datasets.
    rows = [row._asdict() for row in rows]
  if rows and all(isinstance(row, Mapping) for row in rows):
    names = _layouts.named(rows[0], layout)
    return _rows({what: [row.get(x) for row in rows] for what, x in names.items()}, layout)
  columns = _columns(layout)
  size = len(columns)
  wrong = next((x for x in rows if not isinstance(x, tuple | list) or len(x) < size), None)
  if wrong is not None:
    raise TypeError(f"a row must be ({', '.join(columns)}), got {wrong!r}.")
  if rows and layout is _layouts.QRELS and _has_subtopic(rows[0]):
    raise TypeError(
      f"a row must be ({', '.join(columns)}), got {rows[0]!r}: rows (query, subtopic, document, "
      "label) are judgements by subtopic, which measures of diversity and "
      "read_qrels(..., subtopics=True) take; otherwise leave out the second column."
    )
  parts = [*zip(*(row[:size] for row in rows), strict=True)] or [()] * size
  return _rows(dict(zip(columns, parts, strict=True)), layout)


def _has_subtopic(row: Sequence[Any]) -> bool:
  return len(row) > 3 and isinstance(row[2], str) and isinstance(row[3], _NUMBERS)


def _from_frame(frame: Any, layout: Layout) -> Rows:
  pa = arrow()
  table = pa.table(frame)
  if not table.num_columns and not table.num_rows:
    return _from_rows([], layout)
  columns = {}
  for what, name in _layouts.named(table.column_names, layout).items():
    is_id = what != layout.value
    column, to = table[name], pa.large_string() if is_id else pa.float64()
    if pa.types.is_integer(column.type) and not is_id:
      to = column.type
    # A polars frame, whose strings are views, and a pandas one whose ids are integers are cast.
    try:
      if pa.types.is_dictionary(column.type):
        parts = [x.dictionary.cast(to).take(x.indices) for x in column.chunks]
        column = pa.chunked_array(parts, to)
      if is_id and pa.types.is_floating(column.type) and len(column):
        raise pa.ArrowInvalid
      column = column.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
      holds = "ids, strings or integers" if is_id else f"{layout.value}s, which are numbers"
      raise TypeError(f"column {name!r} must hold {holds}, got {table[name].type}.") from None
    if column.null_count:
      missing = counted(column.null_count, "missing value")
      raise ValueError(f"column {name!r} has {missing}; drop those rows.")
    columns[what] = column.combine_chunks() if is_id else numbers(column)
  return _rows(columns, layout)


def _rows(columns: dict[str, Any], layout: Layout) -> Rows:
  """Rows of sequences or Arrow arrays of ids, and of values, by the names of the columns."""
  values = columns.pop(layout.value)
  ids = {name: x if hasattr(x, "dictionary_encode") else strings(x) for name, x in columns.items()}
  coded = ids["query"].dictionary_encode()
  queries, codes = coded.dictionary.to_pylist(), numbers(coded.indices)
  place = _layouts.places(queries, codes, ids["document"])
  values = doubles(values, layout.value, place)
  return Rows(queries, codes, ids["document"], values, subtopics=ids.get("subtopic"))


def doubles(values: Any, what: str, place: Callable[[int], str]) -> np.ndarray:
  """Numbers in double precision; `what` they are, and the `place` of each, are for messages.

  Raises:
    TypeError: if one is no number.
    ValueError: if double precision has no such integer, which would tie with others.
  """
  given = np.asarray(values)
  # The kind V is that of bfloat16.
  if given.dtype.kind not in "biufV" and given.size:
    wrong = [x for x in values if not isinstance(x, _NUMBERS)]
    if wrong:
      raise TypeError(f"a {what} must be a number, got {wrong[0]!r}.")
  try:
    converted = given.astype(np.float64)
  except OverflowError:
    largest = sys.float_info.max
    converted = np.array([min(max(x, -largest), largest) for x in values], np.float64)
  for i in np.flatnonzero(abs(converted) >= _WHOLE).tolist():
    x = values[i]
    if isinstance(x, int | np.integer) and int(converted[i]) != x:
      got = x if abs(converted[i]) < 1e30 else f"{converted[i]:g}"
      raise ValueError(
        f"{place(i)}: the {what} must be a number of double precision, which has 53 bits, got "
        f"{got}; pass ranks, or smaller numbers."
      )
  return converted


def check(rows: Rows, layout: Layout) -> None:
  """Raises `ValueError` for rows that are not allowed, and names the query and the document."""
  if layout.value == "label" and not rows.queries:
    raise ValueError("the qrels holds no rows: nothing is judged.")
  wrong, kind = ~np.isfinite(rows.values), "finite"
  if layout.value == "label" and not wrong.any():
    wrong, kind = abs(rows.values) >= _layouts.LARGEST, "less than 2**31 in size"
  empty = lengths(rows.documents) == 0
  if rows.subtopics is not None:
    empty |= lengths(rows.subtopics) == 0
  at = np.flatnonzero(wrong | empty)
  if not at.size and all(rows.queries):
    return
  if not at.size:
    raise ValueError("a query has an empty id; give it another one.")
  row = int(at[0])
  query, document = rows.queries[rows.codes[row]], rows.documents[row].as_py()
  if empty[row]:
    what = "subtopic" if document else "document"
    raise ValueError(f"query {query!r}: a {what} has an empty id; give it another one.")
  advice = "mend it" if layout.value == "label" else "leave out documents that are not retrieved"
  raise ValueError(
    f"{_layouts.place(query, document)}: the {layout.value} must be {kind}, got "
    f"{rows.values[row]:g}; {advice}."
  )
