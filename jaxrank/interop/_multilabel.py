"""Metrics of the scores of all classes of an item, some of which it has."""

from typing import Any, NamedTuple

import numpy as np

from jaxrank.interop import _lists


class _Sorted(NamedTuple):
  """Classes of each item by score, `[items, classes]`.

  Attributes:
    has: Whether the item has the class.
    rank: How many classes have this score or more.
    found: How many of these the item has.
  """

  has: np.ndarray
  rank: np.ndarray
  found: np.ndarray


def scoring_map(labels: Any, scores: Any) -> float:
  """Label ranking average precision; an item with no class, or with all, has 1.

  >>> print(f"{scoring_map([[1, 0, 1]], [[0.9, 0.8, 0.7]]):.5f}")
  0.83333
  """
  has, rank, found = _sorted(labels, scores)
  total = np.sum(has * found / rank, axis=1)
  return float(np.mean(np.where(_trivial(has), 1.0, total / np.maximum(has.sum(axis=1), 1))))


def scoring_neg_coverage(labels: Any, scores: Any) -> float:
  """1 if the classes of every item come first, less how far down the last one is; 0 at the end.

  >>> print(f"{scoring_neg_coverage([[1, 0, 0]], [[0.8, 0.9, 0.7]]):.5f}")
  0.50000
  """
  has, rank, _ = _sorted(labels, scores)
  if has.shape[1] < 2:
    raise ValueError(f"coverage needs two classes at least, got {has.shape[1]}.")
  depth = np.max(has * rank, axis=1, initial=0)
  return float(1 - (np.mean(depth) - 1) / (has.shape[1] - 1))


def scoring_neg_ranking_loss(labels: Any, scores: Any) -> float:
  """Minus the share of pairs of a class that an item has and one that it has not, out of order.

  Ties are out of order; an item with no class, or with all, has 0.

  >>> print(f"{scoring_neg_ranking_loss([[1, 0, 0]], [[0.8, 0.9, 0.7]]):.5f}")
  -0.50000
  """
  has, rank, found = _sorted(labels, scores)
  count = has.sum(axis=1)
  pairs = np.maximum(count * (has.shape[1] - count), 1)
  loss = np.where(_trivial(has), 0.0, np.sum(has * (rank - found), axis=1) / pairs)
  return 0.0 - float(np.mean(loss))


def scoring_hit_rate(labels: Any, scores: Any) -> float:
  """The share of items that have the class with the best score, the first of those that tie.

  >>> print(scoring_hit_rate([[1, 0], [1, 0]], [[0.9, 0.1], [0.2, 0.3]]))
  0.5
  """
  return float(np.mean(_sorted(labels, scores).has[:, 0]))


def _trivial(has: np.ndarray) -> np.ndarray:
  return np.all(has == has[:, :1], axis=1)


def _sorted(labels: Any, scores: Any) -> _Sorted:
  labels, scores = _lists.items("labels", labels), _lists.items("scores", scores)
  if len(labels) != len(scores):
    raise ValueError(f"scores must have one row for each label, got {len(scores)}, {len(labels)}.")
  kept = [(y, s) for y, s in zip(labels, scores, strict=True) if y is not None]
  y, s = (np.asarray(x) for x in zip(*kept, strict=True)) if kept else (np.zeros((0, 0)),) * 2
  if y.ndim != 2 or y.shape != s.shape or not y.size:
    raise ValueError(
      f"labels and scores must be [items, classes], got {list(y.shape)} and {list(s.shape)} "
      "without those out of scope."
    )
  for name, x in (("labels", y), ("scores", s)):
    if not np.all(np.isfinite(_lists.numbers(name, x))):
      raise ValueError(f"{name} must be finite numbers.")
  order = np.argsort(-s.astype(np.float64), axis=1, kind="stable")
  s, has = (np.take_along_axis(x, order, axis=1) for x in (s, y > 0))
  slot = np.arange(s.shape[1])
  last = np.where(
    np.pad(s[:, 1:] != s[:, :-1], ((0, 0), (0, 1)), constant_values=True), slot, s.size
  )
  last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
  return _Sorted(has, last + 1, np.take_along_axis(np.cumsum(has, axis=1), last, axis=1))
