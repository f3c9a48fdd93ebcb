"""`batches`: an iterator over padded queries in fixed shapes, prefetched to the device."""

import collections
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from jaxrank._core import checks
from jaxrank.padding.padding import Batch, as_list, pad_buckets  # noqa: F401, the doctest uses it


def batches(
  padded: Batch | Sequence[Batch],
  *,
  cells: int = 1 << 20,
  sharding: jax.sharding.Sharding | None = None,
  ahead: int = 2,
  progress: Callable[[int, int], object] | None = None,
) -> Iterator[Batch]:
  """Iterates over padded queries in batches of fixed shapes, prefetched to the device.

  All batches of one length have one shape, so that a jitted function compiles once for each length.
  The last batch of a length is filled with queries without items; `jaxrank.Evaluator` ignores them.

  >>> padded = pad_buckets([7, 8, 8, 8, 9], [0.1, 0.2, 0.3, 0.4, 0.5], [1, 0, 0, 1, 1])
  >>> for batch in batches(padded, cells=8):
  ...   print(batch.scores.shape, batch.query_ids, batch.where.sum())
  (2, 1) [7 9] 2
  (1, 4) [8] 3

  Args:
    padded: A `Batch` of `pad`, or the list of `pad_buckets`.
    cells: The largest number of cells of a batch, at least 1. A batch has one query, or one for
      each device, even if that is more.
    sharding: The sharding of the arrays `[queries, length]`; None takes the default device. The
      number of queries of a batch is a multiple of the number of devices.
    ahead: The number of batches, at least 1, that are sent to the device before the current one is
      done.
    progress: Function called as `progress(done, queries)` after each batch, with the number of
      queries so far and in all; None for no call.

  Returns:
    An iterator of `Batch`, with scores, labels and mask on the device, and ids and rows on the
    host. A query without items repeats the last id, and its rows are -1.

  Raises:
    ValueError: if `cells` or `ahead` is less than 1.
    TypeError: if an argument has a wrong type.
  """
  with checks.named("batches"):
    cells, ahead = checks.count("cells", cells), checks.count("ahead", ahead)
    if progress is not None:
      checks.function("progress", progress, "a function of (done, queries), or None")
    if not isinstance(sharding, jax.sharding.Sharding | None):
      raise TypeError(
        "sharding must be a Sharding such as NamedSharding(mesh, P('data')), or None, got "
        f"{type(sharding).__name__}."
      )
    groups = as_list(padded)
    checks.untraced("padded", [group[:3] for group in groups])
  devices = len(sharding.device_set) if sharding is not None else 1
  total = sum(len(group.query_ids) for group in groups)

  def send() -> Iterator[tuple[Batch, int]]:
    for group in groups:
      for piece, queries in _pieces(group, cells, devices):
        scores, labels, where = jax.device_put(piece[:3], sharding)
        yield Batch(scores, labels, where, piece.query_ids, piece.rows), queries

  return _prefetched(send(), total, ahead, progress)


def _prefetched(
  sent: Iterator[tuple[Batch, int]],
  total: int,
  ahead: int,
  progress: Callable[[int, int], object] | None,
) -> Iterator[Batch]:
  """Yields the batches, each after the next `ahead` batches have been sent."""
  waiting: collections.deque[tuple[Batch, int]] = collections.deque()
  done, more = 0, True
  while more or waiting:
    while more and len(waiting) <= ahead:
      piece = next(sent, None)
      more = piece is not None
      if piece is not None:
        waiting.append(piece)
    if waiting:
      batch, queries = waiting.popleft()
      yield batch
      done += queries
      if progress is not None:
        progress(done, total)


def _pieces(group: Batch, cells: int, devices: int) -> Iterator[tuple[Batch, int]]:
  """Batches of one shape, each with its number of queries that have items."""
  count, length = group.where.shape
  rows = min(cells // max(length, 1), count) // devices * devices
  rows = max(rows, devices)
  for start in range(0, count, rows):
    cut = Batch(*(x[start : start + rows] for x in group))
    queries = len(cut.query_ids)
    empty = ((0, rows - queries), (0, 0))
    yield (
      Batch(
        np.pad(cut.scores, empty),
        np.pad(cut.labels, empty),
        np.pad(cut.where, empty),
        np.pad(cut.query_ids, empty[0], mode="edge"),
        np.pad(cut.rows, empty, constant_values=-1),
      ),
      queries,
    )
