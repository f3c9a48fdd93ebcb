"""Padded batches of ragged lists in pipelines of Grain, which the extra `grain` installs.

An example is a dictionary of arrays with the candidates of one query first: `scores` or `features`,
`labels`, weights, identifiers. `pad` makes a batch of several examples, for
`dataset.batch(n, batch_fn=pad)`; `BatchByLength` batches examples of similar length, for
`dataset.pipe`. `docs/pipelines.md` shows both in training.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import grain
import numpy as np

from jaxrank._core import checks
from jaxrank._core.arithmetic import rounded_up

__all__ = ["BatchByLength", "pad"]

# The columns that tell how many candidates an example has, the first that it has.
_COUNTED = ("labels", "scores", "features")


def pad(
  examples: Sequence[Mapping[str, Any]],
  *,
  length: int | None = None,
  queries: int | None = None,
  per_query: Sequence[str] = (),
) -> dict[str, np.ndarray]:
  """Pads examples to one batch, a dictionary of arrays by the names of the columns, and `where`.

  >>> batch = pad([{"scores": [0.3, 0.2], "labels": [1, 0]}, {"scores": [0.9], "labels": [2]}])
  >>> batch["scores"].tolist(), batch["labels"].tolist()
  ([[0.3, 0.2], [0.9, 0.0]], [[1, 0], [2, 0]])
  >>> batch["where"].tolist()
  [[True, True], [True, False]]

  Args:
    examples: Dictionaries of the same columns, at least one. A column is an array `[n, ...]` of `n`
      candidates, with an `n` of each example's own; a scalar, which is one value of the query; or,
      if `per_query` names it, an array of one shape for all queries.
    length: The padded length; None takes that of the longest example.
    queries: The number of queries of the batch, at least that of the examples: the others have no
      candidate, so that a last, short batch has the shape of the others. None takes that of the
      examples.
    per_query: The columns that are arrays of one shape for all queries, such as embeddings of the
      query.

  Returns:
    Arrays `[queries, length, ...]`, 0, False or "" on padding; `[queries, ...]` for values of the
    query; and `where`, `[queries, length]`, False on padding.

  Raises:
    ValueError: if a column is missing or has another number of candidates than the labels, a score
      is NaN, a value is None, an example has more than `length` candidates, there are no examples
      or more than `queries`, or a column has the name `where`.
    TypeError: if an example is no dictionary.
  """
  with checks.named("interop.grain.pad"):
    if not examples:
      raise ValueError("examples must be at least one dictionary, got none.")
    columns = {name: _column(name, examples) for name in _names(examples)}
    single = {
      name for name, rows in columns.items() if name in per_query or all(x.ndim == 0 for x in rows)
    }
    sizes = _sizes(columns, single)
    _check_scores(columns.get("scores", ()))
    count = _fitting("queries", queries, len(examples), "examples")
    width = _fitting("length", length, int(sizes.max()), "candidates in an example")
  where = np.arange(width) < sizes[:, None]
  filled = {
    name: _stacked(rows, count) if name in single else _filled(rows, where, count)
    for name, rows in columns.items()
  }
  return filled | {"where": _grown(where, count)}


def _names(examples: Sequence[Mapping[str, Any]]) -> list[str]:
  for i, example in enumerate(examples):
    if not isinstance(example, Mapping):
      raise TypeError(f"an example must be a dictionary of arrays, got {type(example).__name__}.")
    if set(example) != set(examples[0]):
      raise ValueError(
        f"all examples must have the same columns; example 0 has {sorted(examples[0])}, example "
        f"{i} has {sorted(example)}."
      )
  if "where" in examples[0]:
    raise ValueError("a column must not be named 'where', the name of the mask; rename it.")
  return list(examples[0])


def _column(name: str, examples: Sequence[Mapping[str, Any]]) -> list[np.ndarray]:
  rows = [np.asarray(example[name]) for example in examples]
  for i, row in enumerate(rows):
    if row.dtype == object and any(value is None for value in row.ravel()):
      raise ValueError(f"{name} of example {i} has a None; drop the candidate, or give a value.")
  return rows


def _sizes(columns: Mapping[str, list[np.ndarray]], single: set[str]) -> np.ndarray:
  """The number of candidates of each example."""
  counted = next((name for name in _COUNTED if name in columns), None)
  if counted is None or counted in single:
    raise ValueError(
      f"an example must have a column {' or '.join(_COUNTED)} with the candidates first, got the "
      f"columns {sorted(columns)}."
    )
  sizes = np.array([len(row) if row.ndim else -1 for row in columns[counted]])
  for name, rows in columns.items():
    if name not in single:
      for i, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        if row.ndim == 0 or len(row) != size:
          raise ValueError(
            f"{name} of example {i} has shape {row.shape}, and {counted} has {size} candidates; "
            "both need one row a candidate. Name columns of the query in per_query."
          )
  return sizes


def _check_scores(rows: Sequence[np.ndarray]) -> None:
  for i, row in enumerate(rows):
    if row.dtype.kind not in "biuf" and row.dtype.name != "bfloat16":
      raise ValueError(f"scores of example {i} must be numbers, got {row.dtype}.")
    if np.isnan(row).any():
      at = int(np.flatnonzero(np.isnan(row).ravel())[0])
      raise ValueError(f"scores of example {i} has NaN at place {at}; mend the model that gave it.")


def _fitting(name: str, given: int | None, needed: int, what: str) -> int:
  """What is needed, or what is given if that is enough."""
  given = needed if given is None else checks.count(name, given, least=0)
  if given < needed:
    raise ValueError(f"{name} is {given}, got {needed} {what}; pass a larger one, or None.")
  return given


def _filled(rows: list[np.ndarray], where: np.ndarray, count: int) -> np.ndarray:
  values = np.concatenate(rows)
  cells = np.zeros((count, where.shape[1], *values.shape[1:]), values.dtype)
  cells[: len(rows)][where] = values
  return cells


def _stacked(rows: list[np.ndarray], count: int) -> np.ndarray:
  return _grown(np.stack(rows), count)


def _grown(values: np.ndarray, count: int) -> np.ndarray:
  """Values of queries, with zeros for the queries without a candidate."""
  return np.pad(values, [(0, count - len(values)), *[(0, 0)] * (values.ndim - 1)])


class BatchByLength:
  """Batches examples of similar length, for `dataset.pipe`.

  The examples of a buffer are sorted by length and cut into batches, each padded to the shortest of
  a few lengths that holds it; the batches of a buffer come in random order. Most cells then hold a
  candidate, and a jitted function compiles once a length. The batches depend on the seed and the
  examples alone: an iterator that is restored from a saved state continues with the same batches.

  >>> sizes = [1, 7, 2, 8, 2, 7]
  >>> examples = [{"labels": np.arange(n), "id": i} for i, n in enumerate(sizes)]
  >>> dataset = grain.MapDataset.source(examples).pipe(BatchByLength(3))
  >>> for batch in dataset:
  ...   print(batch["labels"].shape, batch["id"])
  (3, 8) [1 5 3]
  (3, 2) [0 2 4]

  Attributes:
    batch_size: The number of queries of every batch; the last one of a dataset may hold queries
      without a candidate.
    lengths: The lengths to which batches are padded, ascending; None is eight lengths in each
      octave, `2^m (8 + j) / 8` for `j` from 1 to 8, as far as these are whole numbers.
    buffer: The number of examples that are sorted at once, a multiple of `batch_size`.
    seed: The seed of the order of the batches.
    per_query: The columns that are values of the query, as in `pad`.
  """

  def __init__(
    self,
    batch_size: int,
    *,
    lengths: Sequence[int] | None = None,
    buffer: int = 2048,
    seed: int = 0,
    per_query: Sequence[str] = (),
  ):
    """Sets the parameters; the buffer is rounded up to whole batches.

    Args:
      batch_size: The number of queries of every batch, at least 1.
      lengths: Positive integers, the lengths to which batches are padded; None takes eight lengths
        in each octave.
      buffer: The number of examples that are sorted at once, at least 1.
      seed: The seed of the order of the batches.
      per_query: The columns that are values of the query, as in `pad`.

    Raises:
      ValueError: if a number is not positive.
      TypeError: if a number is not an int.
    """
    with checks.named("interop.grain.BatchByLength"):
      self.batch_size = checks.count("batch_size", batch_size)
      self.lengths = (
        None if lengths is None else tuple(sorted({checks.count("a length", x) for x in lengths}))
      )
      if self.lengths == ():
        raise ValueError("lengths must be at least one positive integer, or None, got none.")
      self.buffer = -(-checks.count("buffer", buffer) // self.batch_size) * self.batch_size
      self.seed = checks.count("seed", seed, least=0)
    self.per_query = tuple(per_query)

  def __call__(self, dataset: Any) -> "grain.IterDataset":
    """The batches of a dataset.

    Raises:
      TypeError: if it is no dataset, as in the operations of a `DataLoader`.
    """
    if isinstance(dataset, grain.MapDataset):
      dataset = dataset.to_iter_dataset()
    if not isinstance(dataset, grain.IterDataset):
      raise TypeError(
        "interop.grain.BatchByLength: expected a dataset, as in dataset.pipe(BatchByLength(32)), "
        f"got {type(dataset).__name__}. A DataLoader cannot save the state of such an operation; "
        "use a dataset, or grain.transforms.Batch(32, batch_fn=jaxrank.interop.grain.pad)."
      )
    return _Batched(dataset, self)

  def settings(self) -> dict[str, Any]:
    """The parameters on which the batches depend, for saved states."""
    lengths = None if self.lengths is None else list(self.lengths)
    return {
      "batch_size": self.batch_size,
      "lengths": lengths,
      "buffer": self.buffer,
      "seed": self.seed,
    }

  def length(self, longest: int) -> int:
    """The length to which a batch is padded.

    Raises:
      ValueError: if the longest example does not fit into the largest length.
    """
    if self.lengths is None:
      return rounded_up(longest)
    fitting = [length for length in self.lengths if length >= longest]
    if not fitting:
      raise ValueError(
        f"interop.grain.BatchByLength: an example has {longest} candidates, and the largest of "
        f"lengths is {self.lengths[-1]}; add a longer one, or cut the example."
      )
    return fitting[0]


class _Batched(grain.IterDataset):
  """The dataset that `BatchByLength` makes."""

  def __init__(self, parent: "grain.IterDataset", batching: BatchByLength):
    super().__init__(parent)
    self._batching = batching

  def __iter__(self) -> "_Iterator":
    return _Iterator(self._parent.__iter__(), self._batching)


class _Iterator(grain.DatasetIterator):
  """Reads a buffer at a time; its state is that of the parent before the buffer, and a place."""

  def __init__(self, parent: Any, batching: BatchByLength):
    super().__init__(parent)
    self._batching = batching
    self._before = self._parent.get_state()
    self._buffers = 0
    self._place = 0
    self._batches: list[list[Any]] | None = None

  def __next__(self) -> dict[str, np.ndarray]:
    if self._batches is None or self._place == len(self._batches):
      self._buffers += self._batches is not None
      self._before, self._place = self._parent.get_state(), 0
      self._batches = self._read()
    if not self._batches:
      raise StopIteration
    batch = self._batches[self._place]
    self._place += 1
    batching = self._batching
    length = batching.length(max(map(_count, batch)))
    return pad(batch, length=length, queries=batching.batch_size, per_query=batching.per_query)

  def get_state(self) -> dict[str, Any]:
    return {
      "before": copy.deepcopy(self._before),
      "buffers": self._buffers,
      "place": self._place,
      "settings": self._batching.settings(),
    }

  def set_state(self, state: Any) -> None:
    settings = state.get("settings") if isinstance(state, Mapping) else None
    if settings != self._batching.settings():
      raise ValueError(
        "interop.grain.BatchByLength: the state is of another pipeline: expected one of "
        f"{self._batching.settings()}, got {settings}."
      )
    self._before, self._buffers = copy.deepcopy(state["before"]), state["buffers"]
    self._parent.set_state(self._before)
    self._batches = self._read()
    self._place = state["place"]

  def _read(self) -> list[list[Any]]:
    """The batches of the next buffer; none at the end of the parent."""
    size, buffer = self._batching.batch_size, []
    for _ in range(self._batching.buffer):
      try:
        buffer.append(next(self._parent))
      except StopIteration:
        break
    buffer.sort(key=_count)
    # A short batch has the shortest examples, because it is filled with padding.
    batches = [buffer[max(end - size, 0) : end] for end in range(len(buffer), 0, -size)]
    random = np.random.default_rng([self._batching.seed, self._buffers])
    return [batches[i] for i in random.permutation(len(batches))]


def _count(example: Any) -> int:
  """The number of candidates of an example; `pad` finds what is wrong with one that has none."""
  for name in _COUNTED if isinstance(example, Mapping) else ():
    if name in example:
      return len(example[name]) if hasattr(example[name], "__len__") else 0
  return 0
