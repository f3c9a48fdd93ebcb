"""The functions, each of which computes a metric of one query.

Tied scores are averaged over their orders, and a NaN score makes the value NaN.
`jaxrank.interop.torchmetrics` explains the arguments that the functions share. They raise
`ValueError` if an argument is not as described.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxrank.interop import _lists
from jaxrank.interop.torchmetrics import _table
from jaxrank.interop.torchmetrics._options import checked
from jaxrank.padding import Batch


def retrieval_average_precision(
  preds: ArrayLike, target: ArrayLike, top_k: int | None = None
) -> np.float32:
  """The average precision of one query.

  The sum of the precisions at the relevant items is divided by the number of relevant items among
  the first `top_k`.

  >>> value = retrieval_average_precision([0.2, 0.3, 0.5], [1, 0, 1])
  >>> print(f"{value:.4f}")
  0.8333

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The average precision, which is 0 if no item that counts is relevant.
  """
  return _value(_table.MAP, preds, target, top_k=top_k)


def retrieval_reciprocal_rank(
  preds: ArrayLike, target: ArrayLike, top_k: int | None = None
) -> np.float32:
  """The reciprocal rank of the first relevant item of one query.

  >>> value = retrieval_reciprocal_rank([0.2, 0.3, 0.5], [0, 1, 0])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The reciprocal rank, which is 0 if no item that counts is relevant.
  """
  return _value(_table.MRR, preds, target, top_k=top_k)


def retrieval_precision(
  preds: ArrayLike, target: ArrayLike, top_k: int | None = None, adaptive_k: bool = False
) -> np.float32:
  """Precision: the fraction of relevant items among the first `top_k` of one query.

  >>> value = retrieval_precision([0.2, 0.3, 0.5], [1, 0, 1], top_k=2)
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The precision, which is 0 if no item that counts is relevant.
  """
  return _value(_table.PRECISION, preds, target, top_k=top_k, adaptive_k=adaptive_k)


def retrieval_recall(preds: ArrayLike, target: ArrayLike, top_k: int | None = None) -> np.float32:
  """Recall: the fraction of the relevant items of one query that are among the first `top_k`.

  >>> value = retrieval_recall([0.2, 0.3, 0.5], [1, 0, 1], top_k=2)
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The recall, which is 0 if no item is relevant.
  """
  return _value(_table.RECALL, preds, target, top_k=top_k)


def retrieval_hit_rate(preds: ArrayLike, target: ArrayLike, top_k: int | None = None) -> np.float32:
  """Hit rate: whether a relevant item is among the first `top_k` of one query.

  >>> value = retrieval_hit_rate([0.2, 0.3, 0.5], [1, 0, 1], top_k=2)
  >>> print(f"{value:.4f}")
  1.0000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    1 or 0, or the probability of a hit where scores are tied.
  """
  return _value(_table.HIT_RATE, preds, target, top_k=top_k)


def retrieval_fall_out(preds: ArrayLike, target: ArrayLike, top_k: int | None = None) -> np.float32:
  """Fall-out: the fraction of the items that are not relevant which are among the first `top_k`.

  Lower values are better.

  >>> value = retrieval_fall_out([0.2, 0.3, 0.5], [1, 0, 1], top_k=2)
  >>> print(f"{value:.4f}")
  1.0000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The fall-out, which is 0 if all items are relevant.
  """
  return _value(_table.FALL_OUT, preds, target, top_k=top_k)


def retrieval_normalized_dcg(
  preds: ArrayLike, target: ArrayLike, top_k: int | None = None
) -> np.float32:
  """The normalised discounted cumulative gain (nDCG) of one query.

  The gain of an item is its grade.

  >>> value = retrieval_normalized_dcg([0.1, 0.2, 0.3, 4.0, 70.0], [10, 0, 0, 1, 5])
  >>> print(f"{value:.4f}")
  0.6957

  See `jaxrank.interop.torchmetrics` for the other arguments.

  Args:
    target: The grades of the items, in the shape of `preds`. The gain of a negative grade is 0.

  Returns:
    The value, which is 0 if no grade is positive.
  """
  return _value(_table.NDCG, preds, target, top_k=top_k)


def retrieval_r_precision(preds: ArrayLike, target: ArrayLike) -> np.float32:
  """R-precision: the precision of one query at the number of its relevant items.

  >>> value = retrieval_r_precision([0.2, 0.3, 0.5], [1, 0, 1])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The precision, which is 0 if no item is relevant.
  """
  return _value(_table.R_PRECISION, preds, target)


def retrieval_auroc(
  preds: ArrayLike, target: ArrayLike, top_k: int | None = None, max_fpr: float | None = None
) -> np.float32:
  """The area under the ROC curve of one query.

  >>> value = retrieval_auroc([0.2, 0.3, 0.5], [1, 0, 1])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The area, which is 0 if all or none of the items that count are relevant.
  """
  return _value(_table.AUROC, preds, target, top_k=top_k, max_fpr=max_fpr)


def retrieval_precision_recall_curve(
  preds: ArrayLike, target: ArrayLike, max_k: int | None = None, adaptive_k: bool = False
) -> _table.Curve:
  """The precision and the recall of one query at each cut-off.

  >>> precision, recall, top_k = retrieval_precision_recall_curve([0.2, 0.3, 0.5], [1, 0, 1])
  >>> print(precision.round(4), recall.round(4), top_k)
  [1.     0.5    0.6667] [0.5 0.5 1. ] [1 2 3]

  See `jaxrank.interop.torchmetrics` for the arguments.

  Returns:
    The precisions, the recalls and the cut-offs, `[max_k]` each.
  """
  query = _query(_table.CURVE, preds, target, max_k=max_k, adaptive_k=adaptive_k)
  size = _table.longest(query)
  last = max_k or size
  options = {"max_k": last, "adaptive_k": adaptive_k}
  ((precision, recall),) = _table.evaluate(_table.CURVE, query, options)
  return precision, recall, np.minimum(np.arange(1, last + 1), size if adaptive_k else last)


def _value(kind: _table.Row, preds: ArrayLike, target: ArrayLike, **options: Any) -> np.float32:
  value: np.float32 = _table.evaluate(kind, _query(kind, preds, target, **options), options)[0]
  return value


def _query(kind: _table.Row, preds: ArrayLike, target: ArrayLike, **options: Any) -> list[Batch]:
  """Checks the arguments of a function, and pads the rows."""
  scores, labels = _lists.numpy(preds), _lists.numpy(target)
  if scores.shape != labels.shape:
    raise ValueError("`preds` and `target` must be of the same shape")
  if not scores.size or not scores.ndim:
    raise ValueError("`preds` and `target` must be non-empty and non-scalar tensors")
  scores, labels = _table.rows(scores, labels, kind.binary)
  for name, value in options.items():
    checked(name, value)
  return _table.queries(np.zeros(scores.size, np.int64), scores, labels)
