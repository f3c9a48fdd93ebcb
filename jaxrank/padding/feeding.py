"""`batches`: padded queries in fixed shapes, sent to the device ahead of time."""

import collections
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from jaxrank._core import checks
from jaxrank.padding.padding import Batch, as_list, pad_buckets  # noqa: F401, of the example


def batches(
  padded: Batch | Sequence[Batch],
  *,
  cells: int = 1 << 20,
  sharding: jax.sharding.Sharding | None = None,
  ahead: int = 2,
  progress: Callable[[int, int], object] | None = None,
) -> Iterator[Batch]:
  """Cuts padded queries into batches of fixed shapes, and sends them to the device ahead of time.

  All batches of one length have one shape, so that a jitted function compiles once for each; the
  last of them is filled with empty queries, which the streaming state takes for padding.

  >>> padded = pad_buckets([7, 8, 8, 8, 9], [0.1, 0.2, 0.3, 0.4, 0.5], [1, 0, 0, 1, 1])
  >>> for batch in batches(padded, cells=8):
  ...   print(batch.scores.shape, batch.query_ids, batch.where.sum())
  (2, 1) [7 9] 2
  (1, 4) [8] 3

  Args:
    padded: what `pad` or `pad_buckets` returned.
    cells: how many cells a batch may hold; one query, or one for each device, if that is more.
    sharding: where to put the arrays `[queries, length]`; None takes the default device. The
      number of queries is made a multiple of its devices.
    ahead: how many batches are sent before the one at work is done.
    progress: called as `progress(done, queries)` after each batch.

  Returns:
    An iterator of `Batch`: scores, labels and mask on the device; ids and rows on the host, of
    which an empty query has the last id again, and -1.

  Raises:
    ValueError: `cells` or `ahead` is less than 1.
    TypeError: what is padded, a number, the sharding or `progress` is none.
  """
  cells, ahead = checks.count("cells", cells), checks.count("ahead", ahead)
  if progress is not None:
    checks.function("progress", progress, "a function of (done, queries), or None")
  if not isinstance(sharding, jax.sharding.Sharding | None):
    raise TypeError(
      f"sharding must be such as NamedSharding(mesh, P('data')), got {type(sharding).__name__}."
    )
  groups = as_list(padded)
  devices = len(sharding.device_set) if sharding is not None else 1
  total = sum(len(group.query_ids) for group in groups)

  def send() -> Iterator[tuple[Batch, int]]:
    for group in groups:
      for piece, queries in _pieces(group, cells, devices):
        scores, labels, where = jax.device_put(piece[:3], sharding)
        yield Batch(scores, labels, where, piece.query_ids, piece.rows), queries

  return _told(send(), total, ahead, progress)


def _told(
  sent: Iterator[tuple[Batch, int]],
  total: int,
  ahead: int,
  progress: Callable[[int, int], object] | None,
) -> Iterator[Batch]:
  """The batches, so many of them behind those that are sent."""
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
  """Batches of one shape, and how many queries of each are not empty."""
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
