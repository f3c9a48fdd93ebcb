"""`read` and `concatenate`: the rows of files."""

import math
import os
import re
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from jaxrank import _files
from jaxrank._core import checks
from jaxrank._errors import counted

_BOM = b"\xef\xbb\xbf"

# Dense features that take more bytes, with fewer values in the file than one of so many cells, are
# those of a wrong index.
_LARGE, _SPARSE = 1 << 30, 100

# The name of a document in a comment of LETOR.
_DOCID = re.compile(rb"\bdocid\s*=\s*(\S*)")

# What to do where query ids do not tell the queries of several files apart.
_OTHER_IDS = "others, data._replace(query_ids=...), before letor.concatenate(...)"

_Path = str | os.PathLike[str]
_Parsed = TypeVar("_Parsed")


class Dataset(NamedTuple):
  """The rows of one file or of several, in their order.

  Attributes:
    features: `[rows, n_features]`, float32, dense.
    labels: `[rows]`, float32.
    query_ids: `[rows]`, int64.
    docids: `[rows]`, strings, the names of documents; None unless they were asked for.
  """

  features: np.ndarray
  labels: np.ndarray
  query_ids: np.ndarray
  docids: np.ndarray | None = None


def read(
  path: _Path | Sequence[_Path],
  *,
  group: _Path | Sequence[_Path] | None = None,
  n_features: int | None = None,
  zero_based: bool = False,
  docids: bool = False,
) -> Dataset:
  r"""Reads learning-to-rank files, plain or packed by gzip, bz2, xz, zstd or lz4.

  A line has the form `label qid:7 1:0.5 3:2.0 # comment`. Features that a line does not list are 0;
  blank lines and comments are skipped. A file without `qid` needs a group file, `<path>.query`,
  with the number of rows of each query, one per line; its queries are numbered from 0. The rows of
  several files follow each other: no two files may have a `qid` in common, and files with group
  files go on numbering where the file before ended.

  >>> import tempfile
  >>> with tempfile.TemporaryDirectory() as folder:
  ...   path = Path(folder, "train.txt")
  ...   _ = path.write_text("2 qid:7 1:0.5 3:2.0 # best\n0 qid:7 2:1 # d2\n1 qid:9 1:0.25 # d3\n")
  ...   data = read(path, docids=True)
  >>> data.labels.tolist(), data.query_ids.tolist(), data.docids.tolist()
  ([2.0, 0.0, 1.0], [7, 7, 9], ['best', 'd2', 'd3'])
  >>> data.features.tolist()
  [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0], [0.25, 0.0, 0.0]]

  Args:
    path: Path of the file, or "-" for the standard input; or several paths.
    group: Path of the group file, or as many as there are files; None looks for `<path>.query`.
    n_features: Number of columns, at least 1, so that the features of several reads have one width;
      None takes the largest index of the files.
    zero_based: Whether the index of the first feature is 0, rather than 1.
    docids: Whether to keep the names of documents: what follows `docid =` in the comment of a row,
      as in `#docid = GX030-30-5619768 inc = 1 prob = 0.08` of LETOR, or else its first word.

  Returns:
    A `Dataset`: features `[rows, n_features]`, labels `[rows]`, query ids `[rows]` and, if asked
    for, names of documents `[rows]`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line does not have the format (the message names file and line), a file has
      neither query ids nor a group file or has both, the sizes of the queries do not add up to the
      number of rows, an index is so large that nearly all features would be 0, a row has no comment
      with the name of its document, two files have a query id in common, or some files have query
      ids and others group files.
    TypeError: if an argument has a wrong type.
    ModuleNotFoundError: if the file is packed by zstd or lz4, and pyarrow is not installed.

  References:
    Qin and Liu, `Introducing LETOR 4.0 datasets <https://arxiv.org/abs/1306.2597>`_, 2013.
  """
  with checks.named("letor.read"):
    paths = _several("path", path)
    groups = [None] * len(paths) if group is None else _several("group", group)
    if len(groups) != len(paths):
      raise ValueError(
        f"group must have a path for each of {counted(len(paths), 'file')}, got {len(groups)}."
      )
    n_features = None if n_features is None else checks.count("n_features", n_features)
    checks.true_or_false("zero_based", zero_based)
    checks.true_or_false("docids", docids)
    parts: list[Dataset] = []
    first, seen = 0, dict[bool, _Path]()
    for file, sizes in zip(paths, groups, strict=True):
      data, queries = _read(file, sizes, n_features, zero_based, docids)
      if data.labels.size:
        seen.setdefault(queries is None, file)
      parts.append(data._replace(query_ids=data.query_ids + first))
      first += queries or 0
    if len(seen) == 2:
      raise ValueError(
        f"{seen[True]} has query ids (qid), and {seen[False]} has a group file: read them apart, "
        f"and give the queries of one of them {_OTHER_IDS}."
      )
    return _concatenated([str(file) for file in paths], parts)


def concatenate(*datasets: Dataset) -> Dataset:
  """Puts the rows of several datasets one after the other.

  The features have the width of the widest dataset, with zeros in the columns that others lack.

  >>> first = Dataset(np.ones((2, 1), np.float32), np.array([1.0, 0.0]), np.array([7, 7]))
  >>> second = Dataset(np.full((1, 2), 5, np.float32), np.array([2.0]), np.array([8]))
  >>> both = concatenate(first, second)
  >>> both.features.tolist(), both.query_ids.tolist()
  ([[1.0, 0.0], [1.0, 0.0], [5.0, 5.0]], [7, 7, 8])

  Args:
    *datasets: What `read` returns, one or more.

  Returns:
    A `Dataset` of all rows.

  Raises:
    ValueError: if two datasets have a query id in common, or some have names of documents and
      others have none.
    TypeError: if an argument is no `Dataset`.
  """
  with checks.named("letor.concatenate"):
    for each in datasets or (None,):
      if not isinstance(each, Dataset):
        got = "no dataset" if each is None else checks.told(each)
        raise TypeError(f"datasets must be one Dataset or more, as letor.read returns, got {got}.")
    return _concatenated([f"dataset {i}" for i in range(len(datasets))], datasets)


def of_one_width(parts: Sequence[Dataset]) -> list[Dataset]:
  """The parts with features of the width of the widest, and zeros in the columns that they lack."""
  width = max(part.features.shape[1] for part in parts)

  def widened(features: np.ndarray) -> np.ndarray:
    lacking = width - features.shape[1]
    return np.pad(features, ((0, 0), (0, lacking))) if lacking else features

  return [part._replace(features=widened(part.features)) for part in parts]


def _read(
  path: _Path, group: _Path | None, n_features: int | None, zero_based: bool, docids: bool
) -> tuple[Dataset, int | None]:
  """The rows of one file, and how many queries its group file has; None for query ids."""
  labels, query_ids, counts = array("d"), array("q"), array("q")
  columns, values, names = array("q"), array("f"), list[str]()
  first = 0 if zero_based else 1
  parse = partial(_parse_row, first=first, n_features=n_features, docids=docids)
  widest, widest_line = -1, 0
  for number, (label, query_id, indices, packed, name) in _parsed_lines(path, parse):
    if bool(query_ids) != (query_id is not None) and labels:
      raise ValueError(f"{path}, line {number}: either every row has a qid, or none has.")
    if query_id is not None:
      query_ids.append(query_id)
    labels.append(label)
    counts.append(len(indices))
    columns.extend(indices)
    values.frombytes(packed)
    names.append(name)
    last = max(indices, default=-1)
    if last > widest:
      widest, widest_line = last, number
  cells = len(labels) * (widest + 1)
  if n_features is None and 4 * cells > _LARGE and cells > _SPARSE * len(values):
    raise ValueError(
      f"{path}, line {widest_line}: feature index {widest + first} would make features "
      f"of {4 * cells / 2**30:.0f} GiB, nearly all of them 0; mend the line, or pass n_features="
      f"{widest + 1}."
    )
  ids, queries = _query_ids(path, group, np.asarray(query_ids, np.int64), len(labels))
  features = _dense(np.asarray(counts), np.asarray(columns), np.asarray(values), n_features)
  return Dataset(
    features, np.asarray(labels, np.float32), ids, np.array(names, str) if docids else None
  ), queries


def _several(name: str, x: _Path | Sequence[_Path]) -> list[_Path]:
  """One path or several, as a list."""
  paths = [x] if isinstance(x, str | os.PathLike) else x
  for path in paths if isinstance(paths, list | tuple) and paths else [x]:
    if not isinstance(path, str | os.PathLike):
      raise TypeError(f"{name} must be the path of a file, or several, got {checks.told(path)}.")
    if os.path.isdir(path):
      raise ValueError(f"{name} must be the path of a file, got the folder {os.fspath(path)!r}.")
  return list(paths)


def _concatenated(names: Sequence[str], parts: Sequence[Dataset]) -> Dataset:
  """The rows of parts one after the other; `names` are those of the parts in messages."""
  if len(parts) == 1:
    return parts[0]
  ids = [np.unique(part.query_ids) for part in parts]
  every, part_of = np.concatenate(ids), np.repeat(np.arange(len(ids)), [x.size for x in ids])
  order = np.argsort(every, kind="stable")
  shared = np.flatnonzero(every[order[1:]] == every[order[:-1]])
  if shared.size:
    first, second = (names[part_of[order[shared[0] + i]]] for i in (0, 1))
    raise ValueError(
      f"{first} and {second} have the query id {every[order[shared[0]]]} in common, and their rows "
      f"would become one query: read them apart, and give the queries of one of them {_OTHER_IDS}."
    )
  docids = [part.docids for part in parts if part.docids is not None]
  if 0 < len(docids) < len(parts):
    raise ValueError(
      f"either all datasets have docids, or none: got {len(docids)} of {len(parts)}; read all with "
      "docids=True."
    )
  return Dataset(
    np.concatenate([part.features for part in of_one_width(parts)]),
    np.concatenate([part.labels for part in parts]),
    np.concatenate([part.query_ids for part in parts]),
    np.concatenate(docids) if docids else None,
  )


def _parsed_lines(
  path: _Path, parse: Callable[[list[bytes], bytes], _Parsed]
) -> Iterator[tuple[int, _Parsed]]:
  """The number of each line that is not blank, and what is parsed from its tokens and its comment.

  Errors name file and line.
  """
  number = 0
  try:
    # The file is read as bytes because comments have document names in any encoding.
    with _files.opened(path) as stream:
      for number, line in enumerate(_files.lines(stream), 1):
        text, _, comment = line.removeprefix(_BOM if number == 1 else b"").partition(b"#")
        tokens = text.split()
        # Python's numbers may have underscores.
        odd = next((x for x in tokens if b"_" in x), None) if b"_" in line else None
        if odd is not None:
          raise ValueError(f"expected numbers, got {_text(odd)}")
        if tokens:
          yield number, parse(tokens, comment)
  except ValueError as error:
    raise ValueError(f"{path}, line {max(number, 1)}: {error}.") from None


def _parse_row(
  tokens: list[bytes], comment: bytes, first: int, n_features: int | None, docids: bool
) -> tuple[float, int | None, list[int], bytes, str]:
  """The label, the query id, the indices of features from 0, their values as float32, the docid."""
  label, pairs = _label(tokens[0]), tokens[1:]
  query_id = _integer("the query id", pairs.pop(0)[4:]) if _starts_with_id(pairs) else None
  row = {}
  for pair in pairs:
    index, _, value = pair.partition(b":")
    try:
      row[int(index) - first] = float(value)
    except ValueError:
      raise ValueError(f"expected index:value with two numbers, got {_text(pair)}") from None
  if len(row) != len(pairs):
    raise ValueError("a feature index comes twice")
  last = (n_features or 2**31) + first - 1
  for column in (min(row, default=0), max(row, default=0)):
    if not first <= column + first <= last:
      raise ValueError(
        f"feature index {column + first} is not in {first}..{last}; see zero_based and n_features"
      )
  docid = _docid(comment) if docids else ""
  return label, query_id, [*row], _float32("features", [*row.values()]), docid


def _docid(comment: bytes) -> str:
  """The name of a document in the comment of its row."""
  named = _DOCID.search(comment)
  (docid,) = named.groups() if named else comment.split(maxsplit=1)[:1] or [b""]
  if not docid:
    raise ValueError(
      "expected the name of the document in a comment, as '# docid = GX000', got none"
    )
  return docid.decode(errors="replace")


def _float32(name: str, values: list[float]) -> bytes:
  try:
    return struct.pack(f"={len(values)}f", *values)
  except OverflowError:
    largest = float(np.finfo(np.float32).max)
    wrong = next(x for x in values if largest < abs(x) < math.inf)
    raise ValueError(f"{name} must fit 32 bits, got {wrong:g}; scale them") from None


def _starts_with_id(pairs: list[bytes]) -> bool:
  return bool(pairs) and pairs[0].startswith(b"qid:")


def _label(token: bytes) -> float:
  try:
    label = float(token)
  except ValueError:
    label = math.nan
  if not math.isfinite(label):
    raise ValueError(f"the label must be a finite number, got {_text(token)}")
  _float32("labels", [label])
  return label


def _integer(name: str, token: bytes) -> int:
  try:
    value = int(token)
  except ValueError:
    value = None
  if value is None or not -(2**63) <= value < 2**63:
    raise ValueError(f"{name} must be an integer of at most 64 bits, got {_text(token)}")
  return value


def _text(token: bytes) -> str:
  return repr(token.decode(errors="replace"))


def _dense(
  counts: np.ndarray, columns: np.ndarray, values: np.ndarray, n_features: int | None
) -> np.ndarray:
  width = int(columns.max(initial=-1)) + 1 if n_features is None else n_features
  features = np.zeros((counts.size, width), np.float32)
  features[np.repeat(np.arange(counts.size), counts), columns] = values
  return features


def _query_ids(
  path: _Path, group: _Path | None, query_ids: np.ndarray, rows: int
) -> tuple[np.ndarray, int | None]:
  """The ids in the file; or ids from 0 by the sizes in its group file, and the number of these."""
  if query_ids.size:
    if group is not None:
      raise ValueError(f"{path} has query ids (qid) and takes no group file, got {group}.")
    return query_ids, None
  group = _group_file(path) if group is None else group
  if group is None:
    if rows:
      raise ValueError(f"{path} has no query ids (qid) and there is no {path}.query: pass group=.")
    return query_ids, None
  sizes = np.array([size for _, size in _parsed_lines(group, _parse_size)], np.int64)
  if sizes.sum() != rows:
    raise ValueError(
      f"the sizes in {group} add up to {sizes.sum()}, but {path} has {counted(rows, 'row')}."
    )
  return np.repeat(np.arange(sizes.size), sizes), sizes.size


def _group_file(path: _Path) -> Path | None:
  names = [f"{path}.query", f"{path}.query.gz"]
  plain = str(path).removesuffix(".gz")
  names += [f"{plain}.query", f"{plain}.query.gz"]
  return next((Path(name) for name in names if os.path.exists(name)), None)


def _parse_size(tokens: list[bytes], comment: bytes) -> int:
  del comment
  size = _integer("a query size", tokens[0])
  if len(tokens) > 1 or size < 0:
    raise ValueError(f"expected one query size, got {_text(b' '.join(tokens))}")
  return size
