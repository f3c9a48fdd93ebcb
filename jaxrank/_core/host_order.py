"""The order of scores in double precision, for exact metrics of arrays on the host."""

from typing import Any

import numpy as np


def single(scores: Any) -> np.ndarray:
  """float32 scores with the order and the ties of `scores`, `[..., n]`, along the last axis.

  Where float32 does not hold all scores, they are the dense ranks from 0 for the smallest; -inf and
  NaN stay.

  >>> print(single(1 + np.array([2.0, 0.0, 1.0, 0.0]) * 2.0**-50), single(np.array([0.5, 2.0])))
  [2. 0. 1. 0.] [0.5 2. ]

  Args:
    scores: A NumPy array of any real dtype, what stands on padding included.
  """
  scores = np.asarray(scores)
  with np.errstate(over="ignore"):
    narrow = scores.astype(np.float32)
  if np.all((narrow == scores) | (scores != scores)):
    return np.asarray(narrow)
  order = np.argsort(scores, axis=-1, kind="stable")
  ascending = np.take_along_axis(scores, order, axis=-1)
  step = np.zeros(scores.shape, np.int32)
  step[..., 1:] = ascending[..., 1:] > ascending[..., :-1]
  rank = np.empty(scores.shape, np.float32)
  np.put_along_axis(rank, order, np.cumsum(step, axis=-1, dtype=np.int32), axis=-1)
  return np.where(np.isneginf(scores) | (scores != scores), narrow, rank)
