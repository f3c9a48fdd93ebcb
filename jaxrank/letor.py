"""Reader of learning-to-rank files in the format of LETOR and svmlight."""

import math
import os
import struct
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from jaxrank import _files
from jaxrank._core import checks
from jaxrank._errors import counted

__all__ = [
  "Dataset",
  "read",
]

_BOM = b"\xef\xbb\xbf"

# Dense features that take more bytes, with fewer values in the file than one of so many cells, are
# those of a wrong index.
_LARGE, _SPARSE = 1 << 30, 100

_Parsed = TypeVar("_Parsed")


class Dataset(NamedTuple):
  """The rows of a file, in the order of the file.

  Attributes:
    features: `[rows, n_features]`, float32, dense.
    labels: `[rows]`, float32.
    query_ids: `[rows]`, int64.
  """

  features: np.ndarray
  labels: np.ndarray
  query_ids: np.ndarray


def read(
  path: str | os.PathLike[str],
  *,
  group: str | os.PathLike[str] | None = None,
  n_features: int | None = None,
  zero_based: bool = False,
) -> Dataset:
  r"""Reads a learning-to-rank file, plain or packed by gzip, bz2, xz, zstd or lz4.

  A line has the form `label qid:7 1:0.5 3:2.0 # comment`. Features that a line does not list are 0;
  blank lines and comments are skipped. A file without `qid` needs a group file, `<path>.query`,
  with the number of rows of each query, one per line; its queries are numbered from 0.

  >>> import tempfile
  >>> with tempfile.TemporaryDirectory() as folder:
  ...   path = Path(folder, "train.txt")
  ...   _ = path.write_text("2 qid:7 1:0.5 3:2.0 # best\n0 qid:7 2:1\n1 qid:9 1:0.25\n")
  ...   data = read(path)
  >>> data.labels.tolist(), data.query_ids.tolist()
  ([2.0, 0.0, 1.0], [7, 7, 9])
  >>> data.features.tolist()
  [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0], [0.25, 0.0, 0.0]]

  Args:
    path: Path of the file, or "-" for the standard input.
    group: Path of the group file; None looks for `<path>.query`.
    n_features: Number of columns, at least 1, so that the features of several files have one width;
      None takes the largest index of the file.
    zero_based: Whether the index of the first feature is 0, rather than 1.

  Returns:
    A `Dataset`: features `[rows, n_features]`, labels `[rows]`, query ids `[rows]`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line does not have the format (the message names file and line), the file has
      neither query ids nor a group file or has both, the sizes of the queries do not add up to the
      number of rows, or an index is so large that nearly all features would be 0.
    TypeError: if an argument has a wrong type.
    ModuleNotFoundError: if the file is packed by zstd or lz4, and pyarrow is not installed.

  References:
    Qin and Liu, `Introducing LETOR 4.0 datasets <https://arxiv.org/abs/1306.2597>`_, 2013.
  """
  with checks.named("letor.read"):
    for name, x in (("path", path), *((("group", group),) if group is not None else ())):
      if not isinstance(x, str | os.PathLike):
        raise TypeError(f"{name} must be the path of a file, got {checks.told(x)}.")
      if os.path.isdir(x):
        raise ValueError(f"{name} must be the path of a file, got the folder {os.fspath(x)!r}.")
    n_features = None if n_features is None else checks.count("n_features", n_features)
    checks.true_or_false("zero_based", zero_based)
  labels, query_ids, counts = array("d"), array("q"), array("q")
  columns, values = array("q"), array("f")
  first = 0 if zero_based else 1
  parse = partial(_parse_row, first=first, n_features=n_features)
  widest, widest_line = -1, 0
  for number, (label, query_id, indices, packed) in _parsed_lines(path, parse):
    if bool(query_ids) != (query_id is not None) and labels:
      raise ValueError(
        f"letor.read: {path}, line {number}: either every row has a qid, or none has."
      )
    if query_id is not None:
      query_ids.append(query_id)
    labels.append(label)
    counts.append(len(indices))
    columns.extend(indices)
    values.frombytes(packed)
    last = max(indices, default=-1)
    if last > widest:
      widest, widest_line = last, number
  cells = len(labels) * (widest + 1)
  if n_features is None and 4 * cells > _LARGE and cells > _SPARSE * len(values):
    raise ValueError(
      f"letor.read: {path}, line {widest_line}: feature index {widest + first} would make features "
      f"of {4 * cells / 2**30:.0f} GiB, nearly all of them 0; mend the line, or pass n_features="
      f"{widest + 1}."
    )
  return Dataset(
    _dense(np.asarray(counts), np.asarray(columns), np.asarray(values), n_features),
    np.asarray(labels, np.float32),
    _query_ids(path, group, np.asarray(query_ids, np.int64), len(labels)),
  )


def _parsed_lines(
  path: str | os.PathLike[str], parse: Callable[[list[bytes]], _Parsed]
) -> Iterator[tuple[int, _Parsed]]:
  """The number and the parsed tokens of each line that is not blank; errors name file and line."""
  number = 0
  try:
    # The file is read as bytes because comments have document names in any encoding.
    with _files.opened(path) as stream:
      for number, line in enumerate(_files.lines(stream), 1):
        tokens = line.removeprefix(_BOM if number == 1 else b"").partition(b"#")[0].split()
        # Python's numbers may have underscores.
        odd = next((x for x in tokens if b"_" in x), None) if b"_" in line else None
        if odd is not None:
          raise ValueError(f"expected numbers, got {_text(odd)}")
        if tokens:
          yield number, parse(tokens)
  except ValueError as error:
    raise ValueError(f"letor.read: {path}, line {max(number, 1)}: {error}.") from None


def _parse_row(
  tokens: list[bytes], first: int, n_features: int | None
) -> tuple[float, int | None, list[int], bytes]:
  """The label, the query id, the indices of features from 0, and their values as float32."""
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
  return label, query_id, [*row], _float32("features", [*row.values()])


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
  path: str | os.PathLike[str],
  group: str | os.PathLike[str] | None,
  query_ids: np.ndarray,
  rows: int,
) -> np.ndarray:
  """The ids in the file, or ids from 0 by the sizes in its group file."""
  if query_ids.size:
    if group is not None:
      raise ValueError(
        f"letor.read: {path} has query ids (qid) and takes no group file, got {group}."
      )
    return query_ids
  group = _group_file(path) if group is None else group
  if group is None:
    if rows:
      raise ValueError(
        f"letor.read: {path} has no query ids (qid) and there is no {path}.query: pass group=."
      )
    return query_ids
  sizes = np.array([size for _, size in _parsed_lines(group, _parse_size)], np.int64)
  if sizes.sum() != rows:
    raise ValueError(
      f"letor.read: the sizes in {group} add up to {sizes.sum()}, but {path} has "
      f"{counted(rows, 'row')}."
    )
  return np.repeat(np.arange(sizes.size), sizes)


def _group_file(path: str | os.PathLike[str]) -> Path | None:
  names = [f"{path}.query", f"{path}.query.gz"]
  plain = str(path).removesuffix(".gz")
  names += [f"{plain}.query", f"{plain}.query.gz"]
  return next((Path(name) for name in names if os.path.exists(name)), None)


def _parse_size(tokens: list[bytes]) -> int:
  size = _integer("a query size", tokens[0])
  if len(tokens) > 1 or size < 0:
    raise ValueError(f"expected one query size, got {_text(b' '.join(tokens))}")
  return size
