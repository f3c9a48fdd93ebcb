"""The order of scores in double precision, for exact metrics of arrays on the host."""

from typing import Any

import numpy as np


def single(scores: Any) -> np.ndarray:
  """float32 scores with the order and the ties of `scores`, `[..., n]`, along the last axis.

  They are the scores, rounded; in a list with scores that float32 does not tell apart, or does not
  hold, minus the dense ranks, -1 for the largest. -inf and NaN stay.

  >>> print(single(1 + np.array([2.0, 0.0, 1.0, 0.0]) * 2.0**-50), single(np.array([0.5, 2.0])))
  [-1. -3. -2. -3.] [0.5 2. ]

  Args:
    scores: A NumPy array of any real dtype, what stands on padding included.
  """
  scores = np.asarray(scores)
  with np.errstate(over="ignore"):
    narrow = scores.astype(np.float32)
  is_nan = scores != scores
  if np.all((narrow == scores) | is_nan):
    return np.asarray(narrow)
  order = np.argsort(scores, axis=-1, kind="stable")
  ascending, rounded = (np.take_along_axis(x, order, axis=-1) for x in (scores, narrow))
  rises = ascending[..., 1:] > ascending[..., :-1]
  merged = np.any(rises & (rounded[..., 1:] == rounded[..., :-1]), axis=-1, keepdims=True)
  lost = np.any(np.isinf(narrow) & ~np.isinf(scores), axis=-1, keepdims=True)
  if not (merged | lost).any():
    return np.asarray(narrow)
  # The dense ranks from the smallest, and then from the largest.
  step = np.zeros(scores.shape, np.int32)
  np.cumsum(rises, axis=-1, out=step[..., 1:])
  rank = np.empty(scores.shape, np.float32)
  np.put_along_axis(rank, order, step - step[..., -1:] - 1, axis=-1)
  return np.where((merged | lost) & ~(np.isneginf(scores) | is_nan), rank, narrow)
