"""`folds`: the files of a data set that is split for training, validation and test."""

import os
import re
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, cast

from jaxrank import _files
from jaxrank._core import checks
from jaxrank.letor.reading import Dataset, of_one_width, read

# The folders of folds, and what the files of their parts are called.
_FOLD = re.compile(r"[Ff]old[ _-]?(\d+)")
_PARTS = ("train",), ("vali", "valid", "val"), ("test",)

_Part = TypeVar("_Part")


class Fold(NamedTuple, Generic[_Part]):
  """The parts of a split: paths, as `folds` finds them, or the rows in them.

  Attributes:
    train: What a model is trained on.
    valid: What its settings are chosen on.
    test: What it is measured on.
  """

  train: _Part
  valid: _Part
  test: _Part

  def read(
    self, *, n_features: int | None = None, zero_based: bool = False, docids: bool = False
  ) -> "Fold[Dataset]":
    """Reads the files of a fold; the features of its three parts have one width.

    Args:
      n_features: Number of columns; None takes the largest index of the three files.
      zero_based: Whether the index of the first feature is 0, rather than 1.
      docids: Whether to keep the names of documents, from comments.

    Returns:
      A `Fold` of a `Dataset` for each part.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: as `read` does.
      TypeError: if an argument has a wrong type, or the fold is one of datasets.
    """
    parts = [
      read(part, n_features=n_features, zero_based=zero_based, docids=docids)
      for part in cast("Fold[Path]", self)
    ]
    return Fold(*of_one_width(parts))


def folds(folder: str | os.PathLike[str]) -> list[Fold[Path]]:
  r"""The folds of a data set of LETOR: the files for training, validation and test of each.

  `Fold1` and so on, in the order of their numbers, each hold `train.txt`, `vali.txt` (or
  `valid.txt`, or `val.txt`) and `test.txt`, plain or packed as `read` takes them. A folder that
  holds these files itself, as that of Istella, is one fold.

  >>> import tempfile
  >>> with tempfile.TemporaryDirectory() as folder:
  ...   for name in ("train", "vali", "test"):
  ...     path = Path(folder, "Fold1", f"{name}.txt")
  ...     path.parent.mkdir(exist_ok=True)
  ...     _ = path.write_text("1 qid:1 1:0.5\n")
  ...   (fold,) = folds(folder)
  ...   data = fold.read(n_features=2)
  >>> fold.valid.name, data.valid.features.tolist()
  ('vali.txt', [[0.5, 0.0]])

  Args:
    folder: Path of the folder.

  Returns:
    A `Fold` of paths for each fold; its method `read` gives one of datasets.

  Raises:
    FileNotFoundError: if there is no such folder, it has no folds, or a fold lacks a part.
    TypeError: if the folder is no path.
  """
  with checks.named("letor.folds"):
    if not isinstance(folder, str | os.PathLike):
      raise TypeError(f"folder must be the path of a folder, got {checks.told(folder)}.")
  home = Path(folder)
  if not home.is_dir():
    raise FileNotFoundError(f"letor.folds: there is no folder {str(home)!r}.")
  numbers = {path: _FOLD.fullmatch(path.name) for path in home.iterdir() if path.is_dir()}
  found = sorted((int(match[1]), path) for path, match in numbers.items() if match)
  parts = [_part(home, names) for names in _PARTS]
  if not found and not any(parts):
    raise FileNotFoundError(
      f"letor.folds: {home} has neither folders Fold1, Fold2 and so on nor the files of one fold, "
      f"{', '.join(f'{names[0]}.txt' for names in _PARTS)}."
    )
  return [_fold(path) for _, path in found] if found else [_fold(home)]


def _fold(home: Path) -> Fold[Path]:
  parts = []
  for names in _PARTS:
    part = _part(home, names)
    if part is None:
      looked = " or ".join(f"{name}.txt" for name in names)
      raise FileNotFoundError(f"letor.folds: {home} has no {looked}, plain or packed.")
    parts.append(part)
  return Fold(*parts)


def _part(home: Path, names: tuple[str, ...]) -> Path | None:
  """The first file of one of the names, plain or packed."""
  files = (home / f"{name}.txt{suffix}" for name in names for suffix in ("", *_files.SUFFIXES))
  return next((file for file in files if file.is_file()), None)
