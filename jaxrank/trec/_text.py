"""Reads the columns of text files in blocks of whole lines; errors name the file and the line.

The parser of pyarrow reads a block at once. Only where it fails, or a value is not allowed, the
lines of that block are read one by one, to name the line.
"""

import gzip
import io
import math
import os
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrank.trec._strings import arrow, joined, lengths, numbers

_GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"

# The number of bytes of a block.
_BLOCK = 1 << 20

# The number of bytes in which a header ends, if the file has one.
_HEAD = 1 << 12

_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)

# Blanks other than the space; a line ends with "\n", before which "\r" is a blank.
_BLANKS = bytes.maketrans(b"\t\r\v\f", b"    ")


class Layout(NamedTuple):
  """The columns of a kind of file.

  Attributes:
    what: The kind of file, for messages.
    columns: The names of the columns.
    value: The name of the column of numbers.
    whole: Whether the numbers must be whole.
    separator: The only separator; None for any blanks.
  """

  what: str
  columns: tuple[str, ...]
  value: str
  whole: bool
  separator: str | None = None


QRELS = Layout("qrels", ("query", "iteration", "document", "label"), "label", True)
BEIR = Layout("qrels", ("query", "document", "label"), "label", True, "\t")
RUN = Layout("run", ("query", "Q0", "document", "rank", "score", "tag"), "score", False)


class Rows(NamedTuple):
  """The rows of a file or of another source, in its order.

  Attributes:
    queries: The names of the queries, in the order in which they appear.
    codes: `[rows]`, the number of the query of each row.
    documents: `[rows]`, an Arrow array of strings.
    values: `[rows]`, float64, labels or scores.
    tag: The tag of the first row, if rows have tags.
  """

  queries: list[str]
  codes: np.ndarray
  documents: Any
  values: np.ndarray
  tag: str | None = None


def blocks(path: str | os.PathLike[str], size: int = _BLOCK) -> Iterator[tuple[int, memoryview]]:
  """The number of lines before each block of whole lines of a file, and the block.

  The file may be gzipped. All blocks share one buffer, so that a block is lost with the next one.

  Raises:
    ValueError: if gzipped data are broken, or the file is not text.
  """
  number, held, buffer = 0, 0, bytearray(size)
  with open(path, "rb") as file:
    text = _unzipped(file)
    while True:
      try:
        count = text.readinto(memoryview(buffer)[held:])
      except _BROKEN as error:
        raise ValueError(
          f"{path}: broken gzip data after line {number}: {error}; copy or download it again."
        ) from error
      end = held + count
      if buffer.find(b"\0", held, end) >= 0:
        raise ValueError(f"{path} is a binary file: pass a text file, plain or compressed by gzip.")
      cut = buffer.rfind(b"\n", 0, end) + 1 if count else end
      if cut:
        has_mark = not number and buffer.startswith(BOM)
        yield number, memoryview(buffer)[len(BOM) if has_mark else 0 : cut]
        number += buffer.count(b"\n", 0, cut)
      if not count:
        return
      rest, held = buffer[cut:end], end - cut
      if held == len(buffer):
        buffer = bytearray(2 * held)
      buffer[:held] = rest


def head(path: str | os.PathLike[str]) -> bytes:
  """The first bytes of a file; none if it is broken."""
  with open(path, "rb") as file:
    try:
      return _unzipped(file).read(_HEAD)
    except _BROKEN:
      return b""


def _unzipped(file: io.BufferedReader) -> io.BufferedIOBase:
  return gzip.GzipFile(fileobj=file) if file.peek(2).startswith(_GZIP) else file


def read(path: str | os.PathLike[str], layout: Layout) -> Rows:
  """Reads the rows of a file.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if the file is broken, a line does not have the format, or a value is not allowed.
  """
  names: dict[str, int] = {}
  codes, documents, values = [], [], []
  tag = None
  for number, block in blocks(path):
    if not number and layout is QRELS:
      layout, block, number = _qrels_layout(block)
    text = block if layout.separator else _with_single_spaces(block)
    if not len(text) or not (np.frombuffer(text, np.uint8) > ord(" ")).any():
      continue
    try:
      found = _columns(text, layout)
    except ValueError as error:
      fault = _first_fault(path, number, bytes(block), layout, str(error))
      raise ValueError(fault) from None
    to_code = [names.setdefault(name, len(names)) for name in found.queries]
    codes.append(np.array(to_code, np.int32)[found.codes])
    documents += found.documents
    values.append(found.values)
    tag = tag or found.tag
  if not values:
    raise ValueError(f"{path} holds no rows: it should have lines of {', '.join(layout.columns)}.")
  whole = joined(documents)
  # The parser would keep what it no longer needs.
  del found
  documents.clear()
  arrow().default_memory_pool().release_unused()
  return Rows(list(names), np.concatenate(codes), whole, np.concatenate(values), tag)


def _columns(text: bytes | memoryview, layout: Layout) -> Rows:
  """The rows of a block; its documents are a list of arrays.

  Raises:
    ValueError: if a line does not have the format, or a value is not allowed.
  """
  table = _parsed(text, layout)
  query = table["query"].unify_dictionaries().combine_chunks()
  queries, documents = query.dictionary.to_pylist(), table["document"].chunks
  values = numbers(table[layout.value])
  empty = "" in queries or any((lengths(x) == 0).any() for x in documents)
  if empty or not np.isfinite(values).all():
    raise ValueError("an id is empty, or a value is not finite")
  if layout.whole and (np.mod(values, 1).any() or abs(values).max() >= 2**31):
    raise ValueError("a label is not whole")
  tag = table["tag"][0].as_py() if "tag" in layout.columns else None
  return Rows(queries, numbers(query.indices), documents, values, tag)


def _qrels_layout(block: memoryview) -> tuple[Layout, memoryview, int]:
  """TREC's four columns or BEIR's three, by the first line, which is a header in BEIR's."""
  first = bytes(block[:_HEAD]).partition(b"\n")[0]
  fields = first.strip().split(b"\t")
  if len(fields) == 3 and not _is_number(fields[2]):
    return BEIR, block[len(first) + 1 :], 1
  return QRELS, block, 0


def _with_single_spaces(block: memoryview) -> memoryview | bytes:
  """The lines with one space between columns, and none before or after them."""
  characters = np.frombuffer(block, np.uint8)
  blanks = characters <= ord(" ")
  plain = np.count_nonzero(characters == ord(" ")) + np.count_nonzero(characters == ord("\n"))
  if plain == np.count_nonzero(blanks) and not blanks[0] and not (blanks[1:] & blanks[:-1]).any():
    return block
  text = bytes(block).translate(_BLANKS)
  while b"  " in text:
    text = text.replace(b"  ", b" ")
  for blank in (b" \n", b"\n "):
    if blank in text:
      text = text.replace(blank, b"\n")
  return text.strip(b" ")


def _parsed(text: bytes | memoryview, layout: Layout) -> Any:
  pa, csv = arrow(), arrow("pyarrow.csv")
  named = pa.dictionary(pa.int32(), pa.string())
  types = {"query": named, "document": pa.large_string(), layout.value: pa.float64(), "tag": named}
  wanted = [name for name in layout.columns if name in types]
  return csv.read_csv(
    pa.py_buffer(text),
    csv.ReadOptions(column_names=layout.columns),
    csv.ParseOptions(delimiter=layout.separator or " ", quote_char=False),
    csv.ConvertOptions(include_columns=wanted, column_types=types, null_values=[]),
  )


def split(line: bytes, layout: Layout) -> list[bytes]:
  """The columns of a line; none if it is blank."""
  if not line.strip():
    return []
  return line.rstrip(b"\r").split(b"\t") if layout.separator else line.split()


def _first_fault(
  path: str | os.PathLike[str], number: int, block: bytes, layout: Layout, otherwise: str
) -> str:
  """A message about the first line of a block that is not allowed."""
  for at, line in enumerate(block.split(b"\n"), number + 1):
    fault = _fault(split(line, layout), layout)
    if fault:
      return f"{path}, line {at}: {fault}"
  return f"{path}, after line {number}: {otherwise}"


def _fault(tokens: list[bytes], layout: Layout) -> str | None:
  """What is wrong with the columns of a line, and what to do."""
  count = len(layout.columns)
  if not tokens:
    return None
  try:
    shown = b" ".join(tokens).decode()
  except UnicodeDecodeError:
    return "the text is not UTF-8; convert the file, for example with iconv."
  if len(tokens) != count:
    by = "tabs" if layout.separator else "blanks"
    return (
      f"a line of a {layout.what} file has {count} columns separated by {by} "
      f"({', '.join(layout.columns)}), got {len(tokens)}: {_short(shown)}; mend the line."
    )
  if not all(tokens):
    return f"a column is empty: {_short(shown)}; mend the line."
  value = tokens[layout.columns.index(layout.value)]
  written = _short(value.decode())
  if not _is_number(value):
    return f"the {layout.value} must be a number, got {written}; mend the line."
  number = float(value)
  if not math.isfinite(number):
    advice = "leave out documents that are not retrieved, and mend the model that gave it"
    return f"the {layout.value} must be finite, got {written}; {advice}."
  if layout.whole and (number % 1 or abs(number) >= 2**31):
    return f"the {layout.value} must be a whole number of 32 bits, got {written}; round the labels."
  return None


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|nan|inf(inity)?)", re.I)


def _is_number(token: bytes) -> bool:
  return _NUMBER.fullmatch(token) is not None


def _short(text: str) -> str:
  return repr(text if len(text) <= 80 else f"{text[:77]}...")


def lines_of(path: str | os.PathLike[str], query: str, document: str, layout: Layout) -> list[int]:
  """The numbers of the lines of a document of a query."""
  wanted, found = (query.encode(), document.encode()), []
  for number, block in blocks(path):
    if not number and layout is QRELS:
      layout, block, number = _qrels_layout(block)
    for at, line in enumerate(bytes(block).split(b"\n"), number + 1):
      tokens = split(line, layout)
      if tokens and (tokens[0], tokens[layout.columns.index("document")]) == wanted:
        found.append(at)
  return found
