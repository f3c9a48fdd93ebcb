"""The data of `lightgbm` and `xgboost`: labels and scores of rows, grouped by query."""

import warnings
from typing import Any, NamedTuple

import numpy as np


class Rows(NamedTuple):
  """A data set as the booster has it.

  Attributes:
    labels: `[rows]`.
    sizes: `[queries]`, the numbers of rows of the queries, which follow each other.
  """

  labels: np.ndarray
  sizes: np.ndarray

  @classmethod
  def of(cls, labels: Any, sizes: Any, how: str) -> "Rows":
    """Checks labels and sizes; `how` says how to give sizes to the booster."""
    if sizes is None or not np.size(sizes):
      raise ValueError(f"the data have no groups, which say which rows belong to a query: {how}.")
    labels, sizes = np.asarray(labels, np.float32), np.asarray(sizes)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or np.any(sizes < 0):
      raise ValueError(f"groups must be numbers of rows, [queries], got {sizes!r}.")
    if labels.ndim != 1 or int(sizes.sum()) != labels.size:
      raise ValueError(
        f"the groups sum to {int(sizes.sum())}, but there are labels of shape {labels.shape}: "
        "a group is the number of the rows of a query."
      )
    rows = cls(labels, sizes.astype(np.int64))
    rows.check("label", labels, np.isfinite(labels))
    return rows

  def check(self, name: str, values: np.ndarray, good: np.ndarray, advice: str = "") -> None:
    """Raises `ValueError` for the first row that is not good."""
    if values.shape != self.labels.shape:
      raise ValueError(f"{name}s must have shape {self.labels.shape}, got {values.shape}.")
    if not good.all():
      row = int(np.argmin(good))
      bad = int(np.sum(~good))
      raise ValueError(
        f"the {name} of {self.place(row)} is {values[row]} ({bad} such "
        f"{'row' if bad == 1 else 'rows'}){advice}."
      )

  def place(self, row: int) -> str:
    """A row, for messages."""
    query = int(np.searchsorted(np.cumsum(self.sizes), row, side="right"))
    return f"row {row}, in query {query},"

  def scores(self, scores: Any) -> np.ndarray:
    """Checks the predictions of the booster, and keeps their dtype."""
    scores = np.asarray(scores)
    advice = ": check the initial scores, and whether training diverges"
    self.check("score", scores, ~np.isnan(scores), advice)
    return scores

  def warn_of_silence(self, slope: np.ndarray) -> None:
    """Warns of queries whose labels leave them without a gradient: all equal, or all negative."""
    sizes = self.sizes[self.sizes > 0]
    starts = np.cumsum(sizes) - sizes
    lowest, highest = (f.reduceat(self.labels, starts) for f in (np.minimum, np.maximum))
    still = np.maximum.reduceat(np.abs(slope), starts) == 0
    negative = still & (highest < 0)
    equal = still & (lowest == highest) & ~negative
    if np.any(negative | equal):
      warnings.warn(
        f"{np.sum(negative | equal)} of {sizes.size} queries have no gradient, because their "
        f"labels are all equal ({np.sum(equal)}, {np.sum(equal & (sizes == 1))} of one row) or "
        f"all negative ({np.sum(negative)}): check labels and groups, or leave these queries out.",
        stacklevel=4,
      )

  def weights(self, weights: Any, length: int) -> np.ndarray | None:
    """Checks weights of rows or of queries; None if there are none."""
    if weights is None or not np.size(weights):
      return None
    weights = np.asarray(weights, np.float32)
    if weights.shape != (length,):
      raise ValueError(f"weights must have shape {(length,)}, got {weights.shape}.")
    return weights


def query_means(rows: Rows, weights: np.ndarray | None) -> np.ndarray | None:
  """The mean weight of the rows of each query, 0 for a query without rows."""
  if weights is None:
    return None
  ids = np.repeat(np.arange(rows.sizes.size), rows.sizes)
  sums = np.bincount(ids, weights, minlength=rows.sizes.size)
  return sums / np.maximum(rows.sizes, 1)
