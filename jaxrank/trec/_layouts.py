"""What the columns of a file are, by its first line, and what a file seems to be if it has none."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# Labels and ranks are smaller in size.
LARGEST = 2**31

READ = (
  "jaxrank reads TREC's columns, those of MS MARCO, CSV and TSV under a header, JSON, JSON lines "
  "and parquet, plain or packed by gzip, bz2, xz, zstd or lz4"
)

# Files that hold no table that is read, by their first bytes.
_OTHER = (
  (rb"PK\x03\x04", "a zip archive: unpack it"),
  (rb"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"),
  (rb"(?s).{257}ustar", "a tar archive: unpack it"),
  (rb"\x1f\x9d", "packed by compress: unpack it with gzip -d"),
  (rb"%PDF", "a PDF"),
  (rb"ARROW1|\xff\xff\xff\xff", "a file of Arrow: write it as parquet"),
  (rb"\x80[\x02-\x05]", "a pickle of Python: load it, and pass what is in it"),
  (rb"\x93NUMPY", "an array of NumPy: load it, and pass rows"),
  (rb"\x89HDF", "HDF5: load it, and pass a frame"),
  (rb"SQLite format 3", "a database of SQLite: pass rows"),
  (rb"\xff\xfe|\xfe\xff", "text in UTF-16: convert it to UTF-8, for example with iconv"),
  (rb"\s*<[!?a-zA-Z]", "HTML or XML, as a download that failed leaves it"),
  (rb"version https://git-lfs", "a pointer of Git LFS: fetch the file with git lfs pull"),
)


class Layout(NamedTuple):
  """The columns of a kind of file.

  Attributes:
    what: The kind of file, for messages.
    columns: The names of the columns.
    value: The name of the column of numbers.
    names: What the columns that are needed are called under a header or in a frame.
    whole: The columns of numbers that must be whole.
    separator: The only separator; None for any blanks.
    quoted: Whether a column may be quoted.
  """

  what: str
  columns: tuple[str, ...]
  value: str
  names: Mapping[str, tuple[str, ...]]
  whole: tuple[str, ...] = ()
  separator: str | None = None
  quoted: bool = False


class Rows(NamedTuple):
  """The rows of a file or of another source, in its order.

  Attributes:
    queries: The names of the queries, in the order in which they appear.
    codes: `[rows]`, the number of the query of each row.
    documents: `[rows]`, an Arrow array of strings.
    values: `[rows]`, float64, labels or scores.
    tag: The tag of the last row, if rows have tags.
    lines: The numbers of the lines of the rows, in parts; none if the source has no lines.
    subtopics: `[rows]`, an Arrow array of strings; None if labels are not by subtopic.
  """

  queries: list[str]
  codes: np.ndarray
  documents: Any
  values: np.ndarray
  tag: str | None = None
  lines: Sequence[Sequence[int]] = ()
  subtopics: Any = None

  def line(self, row: int) -> int | None:
    """The number of the line of a row; None if the source has no lines."""
    for part in self.lines:
      if row < len(part):
        return part[row]
      row -= len(part)
    return None


# The names are those of ir_measures, ranx, PyTerrier and BEIR.
_IDS = {
  "query": ("query_id", "q_id", "qid", "query-id"),
  "document": ("doc_id", "docno", "docid", "corpus-id"),
}
_JUDGED = _IDS | {"label": ("relevance", "label", "rel", "score")}
_SCORED = _IDS | {"score": ("score",)}
# Those of ir_datasets and ir_measures, and those of the pages of ndeval.
_BY_SUBTOPIC = {
  "query": (*_JUDGED["query"], "topic", "query"),
  "subtopic": ("subtopic_id", "subtopic", "iteration"),
  "document": (*_JUDGED["document"], "document"),
  "label": (*_JUDGED["label"], "judgement", "judgment"),
}

QRELS = Layout("qrels", ("query", "iteration", "document", "label"), "label", _JUDGED, ("label",))
# The rank is not needed; where it is no whole number, the id of the document has a blank.
RUN = Layout(
  "run", ("query", "Q0", "document", "rank", "score", "tag"), "score", _SCORED, ("rank",)
)
# Of ndeval, whose second column is the subtopic.
SUBTOPICS = QRELS._replace(columns=("query", "subtopic", "document", "label"), names=_BY_SUBTOPIC)
# Without an iteration, as BEIR and many sets of data have them.
_THREE = QRELS._replace(columns=("query", "document", "label"), whole=())
_BEIR = _THREE._replace(separator="\t")
# Those of MS MARCO.
_RANKS = Layout("run", ("query", "document", "rank"), "rank", _IDS | {"rank": ()}, ("rank",))
# Under a header that has other names.
_SCORES = RUN._replace(columns=("query", "document", "score"), whole=(), separator="\t")
_RANKED = RUN._replace(columns=("query", "document", "rank", "score"))


def place(query: str, document: str) -> str:
  """A row, for messages."""
  return f"query {query!r}, document {document!r}"


def places(queries: Sequence[str], codes: np.ndarray, documents: Any) -> Callable[[int], str]:
  """The `place` of each row of a table, by its number."""
  return lambda row: place(queries[int(codes[row])], documents[row].as_py())


def named(names: Iterable[str], layout: Layout) -> dict[str, str]:
  """The names of the columns that are needed among those of a table, by ours.

  Raises:
    ValueError: if there is no name for one of them.
  """
  given, columns = [*names], {}
  for what, known in layout.names.items():
    name = next((name for name in known if name in given), None)
    if name is None:
      got = f"got {', '.join(map(repr, given))}; rename one" if given else "and there are none"
      raise ValueError(
        f"there must be a column of the {what}, {' or '.join(map(repr, known))}, {got}."
      )
    columns[what] = name
  return columns


def is_named(names: Iterable[str], layout: Layout) -> bool:
  """Whether the columns have names that are known."""
  try:
    named(names, layout)
  except ValueError:
    return False
  return True


def of_first_line(line: bytes, layout: Layout) -> tuple[Layout, bool]:
  """The layout of a file of text, and whether its first line is a header.

  Raises:
    ValueError: if the first line is that of no layout; the message says what it seems to be.
  """
  for separator, quoted in ((",", True), ("\t", False)):
    wide = layout._replace(separator=separator, quoted=quoted)
    fields = [field.decode(errors="replace") for field in split(line, wide)]
    if is_named(fields, layout):
      return wide._replace(columns=_placed(fields, layout), whole=()), True
  tokens = line.split()
  if layout is SUBTOPICS:
    return layout, False
  if layout.value == "label":
    fields_of_tabs = line.strip().split(b"\t")
    if len(fields_of_tabs) == 3 and not is_number(fields_of_tabs[2]):
      return _BEIR, True
    if len(tokens) == 3 and is_number(tokens[2]):
      return _THREE, False
    # Ids with blanks.
    return (_BEIR if len(fields_of_tabs) == 3 and len(tokens) > 4 else QRELS), False
  fields_of_tabs = line.strip().split(b"\t")
  if len(fields_of_tabs) == 3 and len(tokens) < 6 and not is_number(fields_of_tabs[2]):
    return _SCORES, True
  if len(tokens) in (3, 4) and tokens[2] in (b"0", b"1"):
    return (_RANKS if len(tokens) == 3 else _RANKED), False
  return RUN, False


def _placed(fields: list[str], layout: Layout) -> tuple[str, ...]:
  """The columns of a header, in which those that are needed have our names."""
  ours = {name: what for what, name in named(fields, layout).items()}
  # A second column of a name, or one that happens to have a name of ours, is not needed.
  return tuple(
    ours[field] if field in ours and fields.index(field) == i else f"{field} ({i + 1})"
    for i, field in enumerate(fields)
  )


# What is quoted in a column of CSV, and what is not.
_CSV = re.compile(rb'(?:^|,)(?:"((?:[^"]|"")*)")?([^,]*)')


def split(line: bytes, layout: Layout) -> list[bytes]:
  """The columns of a line; none if it is blank or a comment."""
  if not line.strip() or (layout.separator is None and line.lstrip().startswith(b"#")):
    return []
  if layout.separator is None:
    return line.split()
  line = line.rstrip(b"\r\n")
  if not layout.quoted:
    return line.split(layout.separator.encode())
  return [quoted.replace(b'""', b'"') + rest for quoted, rest in _CSV.findall(line)]


def seems(head: bytes, layout: Layout) -> str:
  """What a file seems to be, by its first line or bytes, and what is read."""
  for magic, what in _OTHER:
    if re.match(magic, head):
      return f"the file seems to be {what}; {READ}"
  tokens = [] if b"\0" in head else head.split()
  if layout.value == "score" and len(tokens) == 4 and is_number(tokens[3]):
    return f"the file seems to be qrels; {READ}"
  if layout.value == "score" and len(tokens) == 3 and is_number(tokens[2]):
    return (
      "the file seems to be qrels of three columns, or a run without a header: a run of query, "
      "document and rank begins with rank 1, and one of scores needs a first line query_id, "
      f"doc_id, score, between tabs or commas; {READ}"
    )
  if layout.value == "label" and len(tokens) >= 6 and is_number(tokens[4]):
    return f"the file seems to be a run; {READ}"
  if len(b" ".join(tokens).split(b",")) > 2:
    names = ", ".join(known[0] for known in layout.names.values())
    return f"the file seems to be CSV, whose first line must name the columns ({names}); {READ}"
  mark = next((x for x in (";", "|") if head.partition(b"\n")[0].count(x.encode()) > 1), None)
  if mark:
    return f"the file seems to be CSV with {mark!r} between its columns: write commas; {READ}"
  return READ


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|nan|inf(inity)?)", re.I)


def is_number(token: bytes) -> bool:
  """Whether a column is a number."""
  return _NUMBER.fullmatch(token) is not None
