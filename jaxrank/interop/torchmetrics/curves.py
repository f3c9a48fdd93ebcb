"""The classes of metrics with precision and recall at each cut-off.

`jaxrank.interop.torchmetrics` and `RetrievalMetric` explain their arguments.
"""

from typing import Any

import numpy as np

from jaxrank import metrics, plot
from jaxrank.interop import _lists
from jaxrank.interop.torchmetrics import _table
from jaxrank.interop.torchmetrics._options import Aggregation, EmptyTargetAction, checked
from jaxrank.interop.torchmetrics.base import Result, RetrievalMetric
from jaxrank.padding import Batch


class _AtEachCutoff(RetrievalMetric[Result]):
  """The base class of metrics that aggregate the curves of the queries into one curve."""

  kind = _table.CURVE

  def __init__(
    self,
    max_k: int | None = None,
    adaptive_k: bool = False,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(empty_target_action, ignore_index, aggregation, **kwargs)
    self.max_k = checked("max_k", max_k)
    self.adaptive_k = checked("adaptive_k", adaptive_k)

  def _options(self, batches: list[Batch]) -> dict[str, Any]:
    return super()._options(batches) | {"max_k": self.max_k or _table.longest(batches)}

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    precision, recall = super()._result(values, empty)
    return precision, recall, np.arange(1, len(recall) + 1)


class RetrievalPrecisionRecallCurve(_AtEachCutoff[_table.Curve]):
  """Precision and recall at each cut-off: aggregates curves over the queries.

  The curve of a query is that of `retrieval_precision_recall_curve`. `compute` and `forward` return
  the precisions, the recalls and the cut-offs, `[max_k]` each.

  >>> metric = RetrievalPrecisionRecallCurve(max_k=2)
  >>> rows = [0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], [0, 0, 0, 1, 1]
  >>> for curve in metric(*rows):
  ...   print(curve.tolist())
  [0.5, 0.25]
  [0.5, 0.5]
  [1, 2]

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  def plot(self, curve: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Plots a precision-recall curve, with recall on the horizontal axis.

    Args:
      curve: A result of `compute` or `forward`; None plots the curve of all rows so far.
      ax: The axes of matplotlib to draw on; None makes a new figure.

    Returns:
      The figure and the axes.

    Raises:
      ModuleNotFoundError: if matplotlib is not installed.
    """
    curve = tuple(map(_lists.numpy, self.compute() if curve is None else curve))
    figure, ax = plot.precision_recall(curve, ax=ax)
    ax.set_title(type(self).__name__)
    return figure, ax


class RetrievalRecallAtFixedPrecision(_AtEachCutoff[tuple[np.float32, np.integer[Any]]]):
  """Recall at fixed precision: the best recall of the aggregated curve.

  Only cut-offs count at which the aggregated precision is at least `min_precision`. `compute` and
  `forward` return the recall and the largest cut-off that has it. The recall is 0, at the last
  cut-off, if no relevant item is found at that precision.

  >>> metric = RetrievalRecallAtFixedPrecision(min_precision=0.4)
  >>> recall, k = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{recall:.2f} at {k}")
  0.50 at 1

  See `jaxrank.interop.torchmetrics` for the other arguments.

  Args:
    min_precision: The least precision, a float in [0, 1].
  """

  def __init__(
    self,
    min_precision: float = 0.0,
    max_k: int | None = None,
    adaptive_k: bool = False,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(max_k, adaptive_k, empty_target_action, ignore_index, aggregation, **kwargs)
    self.min_precision = checked("min_precision", min_precision)

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    curve = super()._result(values, empty)
    recall, k = metrics.recall_at_fixed_precision(curve, self.min_precision)
    return np.asarray(recall)[()], np.asarray(k)[()]

  def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Plots a recall as a point, or a list of recalls as a line over steps.

    Args:
      val: A recall, a result of `compute` or `forward`, or a list of either; None plots the recall
        of all rows so far.
      ax: Axes of matplotlib; None for those of a new figure.

    Returns:
      The figure and the axes.

    Raises:
      ModuleNotFoundError: if matplotlib is not installed.
    """
    val = self.compute() if val is None else val
    val = [_recall(x) for x in val] if isinstance(val, list) else _recall(val)
    return super().plot(val, ax)


def _recall(result: Any) -> Any:
  return result[0] if isinstance(result, tuple) else result
