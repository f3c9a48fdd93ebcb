"""Ranked lists of the host, of any lengths, for the metrics."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrank import _checks
from jaxrank.ranking import Exact

# Two axes of powers of two from here on, and one program for every `k`: few to compile.
_LEAST = 8


def values(
  metric: Callable[..., Any],
  labels: np.ndarray,
  where: np.ndarray,
  scores: np.ndarray | None = None,
  k: int | None = None,
) -> np.ndarray:
  """A metric of arrays `[queries, n]`, `[queries]` in float64; no scores mean ranked order."""
  if scores is None:
    scores = np.broadcast_to(-np.arange(labels.shape[1], dtype=np.float64), labels.shape)
  pad = [(0, max(_LEAST, 1 << (n - 1).bit_length()) - n) if n else (0, _LEAST) for n in where.shape]
  arrays = (np.pad(x, pad) for x in (scores, labels, where))
  cutoff = _checks.cutoff(k)
  with jax.enable_x64(True):
    parameters = {} if cutoff is None else {"k": np.asarray(cutoff)}
    return np.asarray(_answer(metric, *arrays, parameters))[: len(where)]


@functools.partial(jax.jit, static_argnums=0)
def _answer(metric, scores, labels, where, parameters):
  return metric(scores, labels, where=where, ranking=Exact("stable"), **parameters)


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
