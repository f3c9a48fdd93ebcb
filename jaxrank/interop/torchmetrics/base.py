"""`RetrievalMetric`: what the classes share."""

import copy
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from jaxrank import plot
from jaxrank.interop import _lists
from jaxrank.interop.torchmetrics import _table
from jaxrank.interop.torchmetrics._options import (
  Aggregation,
  EmptyTargetAction,
  aggregate,
  checked,
)
from jaxrank.padding import Batch

Result = TypeVar("Result")

# Every metric of torchmetrics takes these options. They have no effect here, because all state is
# on the host.
_OF_TORCH = {
  "compute_on_cpu",
  "compute_with_cache",
  "dist_sync_fn",
  "dist_sync_on_step",
  "distributed_available_fn",
  "process_group",
  "sync_on_compute",
}


class RetrievalMetric(Generic[Result]):
  """The base class of metrics that group flat rows into queries and aggregate over the queries.

  A metric keeps its rows on the host until `compute`, which evaluates all queries at once. The rows
  of one index are one query, whichever updates brought them. The type parameter `Result` is the
  type that `compute` and `forward` return.

  Args:
    empty_target_action: What a query without a positive target counts as. `RetrievalFallOut` asks
      for a negative target instead. `"neg"` counts such a query as 0 and `"pos"` as 1, `"skip"`
      leaves it out, and `"error"` makes `compute` raise `ValueError`.
    ignore_index: The metric drops the rows that have this target. None keeps all rows.
    aggregation: `"mean"`, `"median"` (the lower of two), `"min"`, `"max"`, or a function that takes
      the values `[queries]` and returns a number. A curve calls the function once for each cut-off.
    **kwargs: The options by which torchmetrics distributes the state or moves it between devices.
      They have no effect.

  Raises:
    ValueError: An option has a wrong value, or torchmetrics does not know the keyword.
  """

  kind: _table.Kind
  higher_is_better = True
  is_differentiable = False
  full_state_update = False

  def __init__(
    self,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    unknown = sorted(f"`{name}`" for name in kwargs if name not in _OF_TORCH)
    if unknown:
      raise ValueError(f"Unexpected keyword arguments: {', '.join(unknown)}")
    self.empty_target_action: EmptyTargetAction = checked(
      "empty_target_action", empty_target_action
    )
    self.ignore_index = checked("ignore_index", ignore_index)
    self.aggregation: Aggregation = checked("aggregation", aggregation)
    self.reset()

  def reset(self) -> None:
    """Forgets all rows."""
    self.indexes: list[np.ndarray] = []
    self.preds: list[np.ndarray] = []
    self.target: list[np.ndarray] = []

  def update(self, preds: ArrayLike, target: ArrayLike, indexes: ArrayLike) -> None:
    """Adds rows.

    Args:
      preds: The scores of the rows, floats of any sign and any shape.
      target: The labels of the rows, in the shape of `preds`. They are 0 or 1, and grades for
        `RetrievalNormalizedDCG`.
      indexes: The query of each row, integers in the shape of `preds`.

    Raises:
      ValueError: The arrays have other shapes or dtypes, or there is no row.
    """
    if indexes is None:
      raise ValueError("Argument `indexes` cannot be None")
    scores, labels, queries = map(_lists.numpy, (preds, target, indexes))
    if not queries.shape == scores.shape == labels.shape:
      raise ValueError("`indexes`, `preds` and `target` must be of the same shape")
    if queries.dtype.kind not in "iu":
      raise ValueError("`indexes` must be a tensor of long integers")
    if self.ignore_index is not None:
      kept = labels != self.ignore_index
      scores, labels, queries = scores[kept], labels[kept], queries[kept]
    if not queries.size or not queries.ndim:
      raise ValueError("`indexes`, `preds` and `target` must be non-empty and non-scalar tensors")
    scores, labels = _table.rows(scores, labels, self.kind.binary)
    self.indexes.append(queries.ravel())
    self.preds.append(scores)
    self.target.append(labels)

  def compute(self) -> Result:
    """Computes the value of all rows so far.

    Raises:
      ValueError: There are no rows, or a query is empty and `empty_target_action` is `"error"`.
    """
    if not self.preds:
      raise ValueError("No samples to concatenate")
    rows = (np.concatenate(x) for x in (self.indexes, self.preds, self.target))
    batches = _table.queries(*rows)
    values = _table.evaluate(self.kind, batches, self._own(batches))
    result: Result = self._result(values, _table.are_empty(self.kind, batches))
    return result

  def _own(self, batches: list[Batch]) -> dict[str, Any]:
    """Returns the options that the definition of the metric takes."""
    return {name: getattr(self, name) for name in self.kind.own}

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    """Aggregates the values `[queries, ...]`, and counts empty queries by `empty_target_action`."""
    action = self.empty_target_action
    if action == "error" and empty.any():
      raise ValueError(
        f"`compute` method was provided with a query with no {self.kind.lacks} target."
      )
    if action == "skip":
      values = values[~empty]
    else:
      # A NaN stays, because a model that diverged must not look good.
      filled = empty.reshape(-1, *[1] * (values.ndim - 1)) & ~np.isnan(values)
      values = np.where(filled, np.float32(action == "pos"), values)
    if not len(values):
      return np.zeros(values.shape[1:], np.float32)[()]
    return aggregate(values, self.aggregation)

  def forward(self, preds: ArrayLike, target: ArrayLike, indexes: ArrayLike) -> Result:
    """Adds rows, and returns the value of these rows alone."""
    batch = self.clone()
    batch.reset()
    batch.update(preds, target, indexes)
    self.indexes += batch.indexes
    self.preds += batch.preds
    self.target += batch.target
    return batch.compute()

  __call__ = forward

  def clone(self) -> Self:
    """Returns a copy that has its own list of rows."""
    clone = copy.copy(self)
    clone.indexes, clone.preds, clone.target = [*self.indexes], [*self.preds], [*self.target]
    return clone

  def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Draws a value as a point, or a list of values as a line over steps.

    Args:
      val: What `compute` or `forward` returned, or a list of such values. None draws the value of
        all rows so far.
      ax: The axes of matplotlib to draw on. None makes a new figure.

    Returns:
      The figure and the axes.

    Raises:
      ModuleNotFoundError: matplotlib is not installed.
    """
    val = self.compute() if val is None else val
    return plot.values(val, name=type(self).__name__, ax=ax)
