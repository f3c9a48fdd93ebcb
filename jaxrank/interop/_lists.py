"""Ranked lists of the host, of any lengths, for the metrics."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrank.ranking import Exact

_LEAST = 8


def values(
  metric: Callable[..., Any],
  labels: np.ndarray,
  where: np.ndarray,
  scores: np.ndarray | None = None,
  **parameters: Any,
) -> np.ndarray:
  """A metric of arrays `[queries, n]`, `[queries]` in float64; no scores mean ranked order.

  Both axes are padded to powers of two, so that lists of all sizes share a few compiled programs.
  """
  if scores is None:
    scores = np.broadcast_to(-np.arange(labels.shape[1], dtype=np.float64), labels.shape)
  pad = [(0, max(_LEAST, 1 << (n - 1).bit_length()) - n) if n else (0, _LEAST) for n in where.shape]
  scores, labels, padded = (np.pad(x, pad) for x in (scores, labels, where))
  with jax.enable_x64(True):
    answer = metric(scores, labels, where=padded, ranking=Exact("stable"), **parameters)
  return np.asarray(answer)[: len(where)]


def stack(rows: Sequence[Sequence[bool]]) -> np.ndarray:
  """Rows padded with False, `[rows, longest]`."""
  stacked = np.zeros((len(rows), max(map(len, rows), default=0)), bool)
  for place, row in zip(stacked, rows, strict=True):
    place[: len(row)] = row
  return stacked


def items(name: str, x: Any) -> list[Any] | np.ndarray:
  """What stands in a list, or along the first axis of an array or tensor."""
  if hasattr(x, "__array__"):
    x = np.asarray(x)
    if x.ndim:
      return x
  if isinstance(x, str | bytes | np.ndarray) or not isinstance(x, Iterable):
    raise TypeError(f"{name} must be a list or an array, got {type(x).__name__} {x!r}.")
  return list(x)
