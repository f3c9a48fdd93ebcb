"""Reads the columns of text files in blocks of whole lines; errors name the file and the line.

The parser of pyarrow reads a block at once. Only where it fails, or a value is not allowed, the
lines of that block are read one by one, to name the line.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxrank import _files
from jaxrank._files import Stream
from jaxrank.trec import _layouts
from jaxrank.trec._layouts import LARGEST, RUN, Layout, Rows, is_number, split
from jaxrank.trec._strings import arrow, joined, lengths, numbers

BOM = b"\xef\xbb\xbf"

# The number of bytes of a block.
_BLOCK = 1 << 20

# Blanks other than the space; a line ends with "\n", before which "\r" is a blank.
_BLANKS = bytes.maketrans(b"\t\r\v\f", b"    ")


def blocks(stream: Stream, layout: Layout, size: int = _BLOCK) -> Iterator[tuple[int, bytes]]:
  """The number of lines before each block of whole lines of a file, and the block.

  Raises:
    ValueError: if packed data are broken, the file is not text, or a line has no end.
  """
  number, rest = 0, b""
  while text := stream.read(size):
    if b"\0" in text:
      hint = _layouts.seems(stream.head, layout)
      raise ValueError(f"it is a binary file: pass a text file; {hint}.")
    text = rest + text
    cut = text.rfind(b"\n") + 1
    block, rest = text[:cut], text[cut:]
    _files.check_length(rest)
    if block:
      yield number, block if number else block.removeprefix(BOM)
      number += _ends(block)
  if rest:
    yield number, rest if number else rest.removeprefix(BOM)


def read(stream: Stream, layout: Layout) -> Rows:
  """Reads the rows of a file.

  Raises:
    ValueError: if the file is broken, a line does not have the format, or a value is not allowed.
  """
  layout, parts = _known(blocks(stream, layout), layout)
  rows = merged(_columns(block, number, layout) for number, block in parts)
  # The parser would keep what it no longer needs.
  arrow().default_memory_pool().release_unused()
  return _scored(rows) if layout.value == "rank" else rows


def is_row(line: bytes, layout: Layout) -> bool:
  """Whether the first line of a file is a row between blanks."""
  actual, has_header = _layouts.of_first_line(line, layout)
  return not has_header and _fault(split(line, actual), actual) is None


def merged(parts: Iterable[Rows]) -> Rows:
  """The rows of several parts of a file."""
  names: dict[str, int] = {}
  codes, values = [np.zeros(0, np.int32)], [np.zeros(0)]
  documents: list[Any] = []
  subtopics: list[Any] = []
  lines: list[Sequence[int]] = []
  tag = None
  for part in parts:
    to_code = [names.setdefault(name, len(names)) for name in part.queries]
    codes.append(np.array(to_code, np.int32)[part.codes])
    documents.append(part.documents)
    values.append(part.values)
    lines += part.lines
    subtopics += [] if part.subtopics is None else [part.subtopics]
    tag = part.tag or tag
  return Rows(
    [*names],
    np.concatenate(codes),
    joined(documents),
    np.concatenate(values),
    tag,
    lines,
    joined(subtopics) if subtopics else None,
  )


def _known(
  parts: Iterator[tuple[int, bytes]], layout: Layout
) -> tuple[Layout, Iterator[tuple[int, bytes]]]:
  """The layout of the first line that has columns, and the blocks without a header."""
  for number, block in parts:
    lines = block.split(b"\n")
    at = next((at for at, line in enumerate(lines) if split(line, RUN)), None)
    _check_ends(b"\n".join(lines[: None if at is None else at + 1]), number)
    if at is None:
      continue
    actual, has_header = _layouts.of_first_line(lines[at], layout)
    if has_header:
      block, number = b"\n".join(lines[at + 1 :]), number + at + 1
    elif not _fits(split(lines[at], actual), actual):
      fault, hint = _fault(split(lines[at], actual), actual), _layouts.seems(lines[at], layout)
      raise ValueError(f"line {number + at + 1}: {fault}; {hint}.")
    return actual, itertools.chain([(number, block)], parts)
  return layout, iter(())


def _columns(block: bytes, number: int, layout: Layout) -> Rows:
  """The rows of a block with `number` lines before it."""
  _check_ends(block, number, quoted=layout.quoted)
  text = block if layout.separator else _without_comments(_with_single_spaces(block))
  if not text.strip():
    return merged(())
  try:
    rows = _parsed(text, layout)
  except ValueError as error:
    fault = _first_fault(number, block, layout)
    if fault or layout is not RUN:
      raise ValueError(f"{fault or f'line {number + 1} or later: {error}'}.") from None
    rows = _parsed(_without_rest(text), layout)
  size = rows.values.size
  lines: Sequence[int] = range(number + 1, number + 1 + size)
  if size != _ends(block) + (not block.endswith(b"\n")):
    numbered = enumerate(block.split(b"\n"), number + 1)
    lines = [at for at, line in numbered if split(line, layout)]
  return rows._replace(lines=[lines])


def _parsed(text: bytes, layout: Layout) -> Rows:
  """The rows of lines without blanks that separate nothing.

  Raises:
    ValueError: if a line does not have the format, or a value is not allowed.
  """
  pa, csv = arrow(), arrow("pyarrow.csv")
  named = pa.dictionary(pa.int32(), pa.string())
  types = {"query": named, "document": pa.large_string(), layout.value: pa.float64(), "tag": named}
  types |= {"subtopic": pa.large_string(), **dict.fromkeys(layout.whole, pa.float64())}
  wanted = [name for name in layout.columns if name in types]
  # The parser takes the mark of an id at the begin of a block for that of a file.
  marked = BOM + text if text.startswith(BOM) else text
  table = csv.read_csv(
    pa.py_buffer(marked),
    # Threads of the parser that are left when the process ends with an error may abort it.
    csv.ReadOptions(column_names=layout.columns, use_threads=False),
    csv.ParseOptions(delimiter=layout.separator or " ", quote_char='"' if layout.quoted else False),
    csv.ConvertOptions(include_columns=wanted, column_types=types, null_values=[]),
  )
  query = table["query"].unify_dictionaries().combine_chunks()
  queries, documents = query.dictionary.to_pylist(), table["document"].combine_chunks()
  values = numbers(table[layout.value])
  subtopics = table["subtopic"].combine_chunks() if "subtopic" in layout.columns else None
  ids = [documents] if subtopics is None else [documents, subtopics]
  empty = "" in queries or any((lengths(x) == 0).any() for x in ids)
  whole = [numbers(table[name]) for name in layout.whole]
  if empty or not all(np.isfinite(x).all() for x in (values, *whole)):
    raise ValueError("an id is empty, or a value is not finite")
  is_large = layout.value != "score" and (abs(values) >= LARGEST).any()
  if is_large or any((np.rint(x) != x).any() for x in whole):
    raise ValueError("a value is not whole, or too large")
  tag = table["tag"][-1].as_py() if "tag" in layout.columns else None
  return Rows(queries, numbers(query.indices), documents, values, tag, subtopics=subtopics)


def _scored(rows: Rows) -> Rows:
  """Rows whose scores are minus the ranks."""
  pairs = rows.codes.astype(np.int64) << 32 | rows.values.astype(np.int64)
  order = np.argsort(pairs, kind="stable")
  again = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
  if again.size:
    row = int(order[again[0] + 1])
    raise ValueError(
      f"line {rows.line(row)}: query {rows.queries[rows.codes[row]]!r} has rank "
      f"{rows.values[row]:g} twice; a run of three columns has query, document and rank, and this "
      "file seems to be qrels."
    )
  return rows._replace(values=0 - rows.values)


def _check_ends(block: bytes, number: int, *, quoted: bool = False) -> None:
  """Raises `ValueError` if a line of a block ends with CR alone."""
  at = _files.lone_return(block, quoted=quoted)
  if at is not None:
    raise ValueError(f"line {number + 1 + _ends(block[:at])}: {_files.LONE_RETURN}.")


def _ends(block: bytes) -> int:
  """The number of ends of lines; `bytes.count` is slower where there are many."""
  return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def _with_single_spaces(text: bytes) -> bytes:
  """The lines with one space between columns, and none before or after them."""
  characters = np.frombuffer(text, np.uint8)
  blanks = characters <= ord(" ")
  plain = np.count_nonzero(characters == ord(" ")) + np.count_nonzero(characters == ord("\n"))
  doubled = blanks[:1].any() or (blanks[1:] & blanks[:-1]).any()
  if plain == np.count_nonzero(blanks) and not doubled:
    return text
  text = text.translate(_BLANKS)
  while b"  " in text:
    text = text.replace(b"  ", b" ")
  for blank in (b" \n", b"\n "):
    if blank in text:
      text = text.replace(blank, b"\n")
  return text.strip(b" ")


def _without_comments(text: bytes) -> bytes:
  """The lines that do not begin with `#`, as trec_eval 10 reads them."""
  if b"#" not in text or not (text.startswith(b"#") or b"\n#" in text):
    return text
  return b"\n".join(line for line in text.split(b"\n") if not line.startswith(b"#"))


def _without_rest(text: bytes) -> bytes:
  """The lines of a run without what follows the tag."""
  return b"\n".join(b" ".join(line.split(b" ", 6)[:6]) for line in text.split(b"\n"))


def _first_fault(number: int, block: bytes, layout: Layout) -> str | None:
  """A message about the first line of a block that is not allowed."""
  for at, line in enumerate(block.split(b"\n"), number + 1):
    fault = _fault(split(line, layout), layout)
    if fault:
      return f"line {at}: {fault}"
  return None


def _fits(tokens: list[bytes], layout: Layout) -> bool:
  """Whether a line has the right number of columns; what follows the tag of a run is none."""
  count = len(layout.columns)
  return len(tokens) == count or (layout is RUN and len(tokens) > count)


def _fault(tokens: list[bytes], layout: Layout) -> str | None:
  """What is wrong with the columns of a line, and what to do."""
  if not tokens:
    return None
  try:
    shown = b" ".join(tokens).decode()
  except UnicodeDecodeError:
    return "the text is not UTF-8; convert the file, for example with iconv"
  if not _fits(tokens, layout):
    by = {None: "blanks", "\t": "tabs", ",": "commas"}[layout.separator]
    return (
      f"a line of a {layout.what} file has {len(layout.columns)} columns separated by {by} "
      f"({', '.join(layout.columns)}), got {len(tokens)}: {_short(shown)}; mend the line"
    )
  needed = {x: tokens[layout.columns.index(x)] for x in layout.names}
  if not all(needed.values()):
    return f"a column is empty: {_short(shown)}; mend the line"
  if layout.value == "score" and layout.whole and _has_blank(tokens, layout):
    return (
      "the document must be followed by its rank, a whole number, and its score, got "
      f"{_short(shown)}; mend the rank; an id with blanks needs CSV, TSV, JSON or parquet"
    )
  written = _short(needed[layout.value].decode())
  if not is_number(needed[layout.value]):
    return f"the {layout.value} must be a number, got {written}; mend the line"
  number = float(needed[layout.value])
  if not math.isfinite(number):
    advice = "leave out documents that are not retrieved, and mend the model that gave it"
    return f"the {layout.value} must be finite, got {written}; {advice}"
  if abs(number) >= LARGEST and layout.value != "score":
    return f"the {layout.value} must be less than 2**31 in size, got {written}; mend the line"
  if layout.value in layout.whole and number % 1:
    advice = "round it, or write TSV, CSV or JSON, which keep fractions"
    advice = advice if layout.value == "label" else "mend the line"
    return f"the {layout.value} must be a whole number, got {written}; {advice}"
  return None


def _has_blank(tokens: list[bytes], layout: Layout) -> bool:
  """Whether the id of a document has a blank, by what stands in the place of the rank.

  Its last word may be a whole number itself; the rank and the score then follow it.
  """
  rank, *after = tokens[layout.columns.index("rank") :]
  return not _is_whole(rank) or (
    len(tokens) > len(layout.columns)
    and _is_whole(after[0])
    and is_number(after[1])
    and not _is_whole(after[1])
  )


def _is_whole(token: bytes) -> bool:
  return is_number(token) and float(token) % 1 == 0


def _short(text: str) -> str:
  return repr(text if len(text) <= 80 else f"{text[:77]}...")
