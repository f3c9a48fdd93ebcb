"""Multilabel metrics of AutoIntent: each item has some of the classes, and scores for all of them.

`jaxrank.interop.autointent` exports the functions. They take `labels` and `scores`, both
`[items, classes]`; a positive label is a class that the item has. Items whose labels are None are
dropped.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxrank.interop import _lists


class _Sorted(NamedTuple):
  """The classes of each item in descending order of scores; arrays `[items, classes]`.

  Attributes:
    has: Whether the item has the class.
    rank: The number of classes with the same score or a higher one.
    hits: The number of these classes that the item has.
  """

  has: np.ndarray
  rank: np.ndarray
  hits: np.ndarray


def scoring_map(labels: Any, scores: Any) -> float:
  """Label ranking average precision; an item with no class, or with all classes, has 1.

  >>> print(f"{scoring_map([[1, 0, 1]], [[0.9, 0.8, 0.7]]):.5f}")
  0.83333
  """
  has, rank, hits = _sorted(labels, scores)
  total = np.sum(has * hits / rank, axis=1)
  return float(np.mean(np.where(_trivial(has), 1.0, total / np.maximum(has.sum(axis=1), 1))))


def scoring_neg_coverage(labels: Any, scores: Any) -> float:
  """Negative coverage: the mean over items of `1 - (depth - 1) / (classes - 1)`.

  `depth` is the number of classes with a score of at least the lowest score among the classes that
  the item has, and 0 for an item with no class.

  >>> print(f"{scoring_neg_coverage([[1, 0, 0]], [[0.8, 0.9, 0.7]]):.5f}")
  0.50000
  """
  has, rank, _ = _sorted(labels, scores)
  if has.shape[1] < 2:
    raise ValueError(
      f"scoring_neg_coverage: scores must have two classes at least, got {has.shape[1]}."
    )
  depth = np.max(has * rank, axis=1, initial=0)
  return float(1 - (np.mean(depth) - 1) / (has.shape[1] - 1))


def scoring_neg_ranking_loss(labels: Any, scores: Any) -> float:
  """Negative label ranking loss: minus the fraction of pairs of classes in the wrong order.

  A pair is a class that the item has and one that it does not have; tied scores are in the wrong
  order. An item with no class, or with all classes, has 0.

  >>> print(f"{scoring_neg_ranking_loss([[1, 0, 0]], [[0.8, 0.9, 0.7]]):.5f}")
  -0.50000
  """
  has, rank, hits = _sorted(labels, scores)
  count = has.sum(axis=1)
  pairs = np.maximum(count * (has.shape[1] - count), 1)
  loss = np.where(_trivial(has), 0.0, np.sum(has * (rank - hits), axis=1) / pairs)
  return 0.0 - float(np.mean(loss))


def scoring_hit_rate(labels: Any, scores: Any) -> float:
  """The fraction of items that have the class with the highest score, the first one of tied ones.

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
