"""Internals of `pad_buckets`: the lengths to which queries are padded."""

from collections.abc import Sequence

import numpy as np

from jaxrank._core import checks

# The largest number of different query sizes from which lengths are chosen. If there are more, they
# are rounded up to a geometric grid of this many sizes.
_SIZES = 1024


def choices(
  lengths: Sequence[int] | np.ndarray | None, buckets: int | None, sizes: np.ndarray
) -> np.ndarray:
  """The lengths to which queries may be padded, ascending.

  Raises:
    ValueError: if both `lengths` and `buckets` are given, or one of them is not valid.
    TypeError: if `buckets` is not an int.
  """
  if buckets is None:
    longest = int(sizes.max(initial=0))
    return 2 ** np.arange(longest.bit_length() + 1) if lengths is None else _given(lengths)
  if lengths is not None:
    raise ValueError(
      "buckets and lengths exclude each other, got "
      f"buckets={buckets} and lengths={lengths}; pass one of them."
    )
  return _least_padding(sizes, checks.count("buckets", buckets))


def _least_padding(sizes: np.ndarray, buckets: int) -> np.ndarray:
  """At most `buckets` lengths that hold queries of these sizes in the fewest cells.

  Dynamic programming over the sizes that occur: the fewest cells for the `j` smallest sizes are the
  minimum over `i` of the fewest cells for the `i` smallest with one length less, plus the cells of
  one more length that holds the sizes from `i` to `j`.
  """
  size, count = np.unique(sizes, return_counts=True)
  if size.size > _SIZES:
    grid = np.unique(np.ceil(np.geomspace(size[0], size[-1], _SIZES)).astype(size.dtype))
    size, count = grid, np.histogram(sizes, np.append(0, grid) + 0.5)[0]
  below = np.append(0, np.cumsum(count))
  cells = np.where(
    np.arange(size.size)[:, None] <= np.arange(size.size),
    (below[1:] - below[:-1, None]) * size,
    np.inf,
  )
  fewest, cuts = np.append(0, np.full(size.size, np.inf)), []
  for _ in range(min(buckets, size.size)):
    total = fewest[:-1, None] + cells
    cuts.append(np.argmin(total, axis=0))
    fewest = np.append(0, np.min(total, axis=0, initial=np.inf))
  chosen, end = [], size.size
  for cut in reversed(cuts):
    if end:
      chosen.append(int(size[end - 1]))
      end = int(cut[end - 1])
  return np.array(chosen[::-1], int)


def _given(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
  choices = np.unique(np.asarray(lengths))
  if choices.size and (choices.dtype.kind not in "iu" or choices[0] < 1):
    raise ValueError(f"lengths must be positive integers, got {checks.told(lengths)}.")
  if choices.size:
    checks.count("the largest of lengths", choices[-1])
  return choices
