"""Ranked lists of the host, of any lengths, for the metrics."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrank.ranking import Exact

_LEAST = 8


def values(
  metric: Callable[..., Any],
  labels: np.ndarray,
  where: np.ndarray,
  retrieved: np.ndarray | None = None,
  **parameters: Any,
) -> np.ndarray:
  """A metric of lists in ranked order, `[queries]` in float64, from arrays `[queries, n]`.

  Both axes are padded to powers of two, so that lists of all sizes share a few compiled programs.
  """
  sizes = [max(_LEAST, 1 << max(size - 1, 0).bit_length()) for size in labels.shape]
  scores = np.broadcast_to(-np.arange(labels.shape[1], dtype=np.float64), labels.shape)
  if retrieved is not None:
    scores = np.where(retrieved, scores, -np.inf)
  pad = [(0, size - old) for size, old in zip(sizes, labels.shape, strict=True)]
  arrays = [np.pad(x, pad) for x in (scores, labels, where)]
  with jax.enable_x64(True):
    scores, labels, where = arrays
    answer = metric(scores, labels, where=where, ranking=Exact("stable"), **parameters)
  return np.asarray(answer)[: sizes[0] - pad[0][1]]


def mask(lists: Sequence[Any]) -> np.ndarray:
  """Where padded lists have items, `[lists, longest]`."""
  lengths = np.array([len(items) for items in lists], int)
  return np.arange(lengths.max(initial=0)) < lengths[:, None]


def items(name: str, x: Any) -> Sequence[Any]:
  """What stands in a list, or along the first axis of an array or tensor."""
  if isinstance(x, list | tuple):
    return x
  array = np.asarray(x)
  if array.ndim == 0:
    raise TypeError(f"{name} must be a list or an array, got {type(x).__name__}.")
  return array
