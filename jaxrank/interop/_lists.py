"""Internals of the adapters: arrays of any library, and lists of any length, for the metrics.

Everything here runs on the host, except for one compiled program for each metric and shape.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank._core import checks
from jaxrank._core._jax import enable_x64
from jaxrank.rankings.exact import Exact

# The smallest length to which axes are padded. All lengths are powers of two and `k` is traced, so
# that few programs are compiled.
_LEAST = 8


def numpy(x: Any) -> np.ndarray:
  """Converts anything array-like to a numpy array, torch tensors too."""
  if hasattr(x, "detach"):
    x = x.detach().cpu()
    # numpy has no bfloat16.
    x = x.float() if str(x.dtype) == "torch.bfloat16" else x.numpy()
  return np.asarray(x)


def numbers(name: str, x: Any) -> np.ndarray:
  """Converts real numbers of any library, in any shape, to a numpy array.

  Raises:
    TypeError: if they are not real numbers, or rows differ in length.
  """
  try:
    array = numpy(x)
  except (TypeError, ValueError) as error:
    raise TypeError(f"{name} must be numbers, got {type(x).__name__}: {error}") from None
  if array.dtype != bool and not any(
    jnp.issubdtype(array.dtype, kind) for kind in (jnp.integer, jnp.floating)
  ):
    raise TypeError(f"{name} must be numbers, got {x!r}.")
  return array


def roof(n: int, least: int = _LEAST) -> int:
  """The smallest power of two that is at least `n` and `least`."""
  return max(least, 1 << max(n - 1, 0).bit_length())


def padded(x: np.ndarray) -> np.ndarray:
  """Pads every axis with zeros to a power of two."""
  return np.pad(x, [(0, roof(n) - n) for n in x.shape])


def values(
  metric: Callable[..., Any],
  labels: np.ndarray,
  where: np.ndarray,
  scores: np.ndarray | None = None,
  k: int | None = None,
) -> np.ndarray:
  """The values of a metric, `[queries]` in float64, for arrays `[queries, n]`.

  Without scores, the items are in rank order.
  """
  if scores is None:
    scores = np.broadcast_to(-np.arange(labels.shape[1], dtype=np.float64), labels.shape)
  arrays = (padded(x) for x in (scores, labels, where))
  cutoff = checks.cutoff(k)
  with enable_x64():
    parameters = {} if cutoff is None else {"k": np.asarray(cutoff)}
    return np.asarray(_evaluate(metric, *arrays, parameters))[: len(where)]


@functools.partial(jax.jit, static_argnums=0)
def _evaluate(metric, scores, labels, where, parameters):
  return metric(scores, labels, where=where, ranking=Exact("stable"), **parameters)


def stack(rows: Sequence[Sequence[bool]]) -> np.ndarray:
  """Pads rows with False to one length, `[rows, longest]`."""
  stacked = np.zeros((len(rows), max(map(len, rows), default=0)), bool)
  for place, row in zip(stacked, rows, strict=True):
    place[: len(row)] = row
  return stacked


def items(name: str, x: Any) -> list[Any] | np.ndarray:
  """The items of a list, or along the first axis of an array or tensor."""
  if hasattr(x, "__array__"):
    x = numpy(x)
    if x.ndim:
      return x
  if isinstance(x, str | bytes | np.ndarray) or not isinstance(x, Iterable):
    raise TypeError(f"{name} must be a list or an array, got {type(x).__name__} {x!r}.")
  return list(x)
