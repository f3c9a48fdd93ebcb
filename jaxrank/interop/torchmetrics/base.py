"""`RetrievalMetric`, the base class of the metrics."""

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

# Options that every metric of torchmetrics takes. They have no effect here, because all state is on
# the host.
_IGNORED_OPTIONS = {
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
  with one index are one query, even if several updates added them. The type parameter `Result` is
  the type that `compute` and `forward` return.

  Args:
    empty_target_action: The value of a query without a positive target, or without a negative one
      for `RetrievalFallOut`: `"neg"` counts it as 0 and `"pos"` as 1, `"skip"` leaves it out, and
      `"error"` makes `compute` raise `ValueError`.
    ignore_index: Rows with this target, an integer, are dropped; None keeps all rows.
    aggregation: `"mean"`, `"median"` (the lower one of two), `"min"`, `"max"`, or a function from
      the values `[queries]` to a number. It is called once for each cut-off of a curve.
    **kwargs: Options with which torchmetrics distributes the state or moves it between devices.
      They have no effect.

  Raises:
    ValueError: if an option has a wrong value, or torchmetrics does not have a keyword.
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
    unknown = sorted(f"`{name}`" for name in kwargs if name not in _IGNORED_OPTIONS)
    if unknown:
      raise ValueError(f"Unexpected keyword arguments: {', '.join(unknown)}")
    self.empty_target_action: EmptyTargetAction = checked(
      "empty_target_action", empty_target_action
    )
    self.ignore_index = checked("ignore_index", ignore_index)
    self.aggregation: Aggregation = checked("aggregation", aggregation)
    self.reset()

  def reset(self) -> None:
    """Removes all rows."""
    self.indexes: list[np.ndarray] = []
    self.preds: list[np.ndarray] = []
    self.target: list[np.ndarray] = []

  def update(self, preds: ArrayLike, target: ArrayLike, indexes: ArrayLike) -> None:
    """Adds rows.

    Args:
      preds: The scores of the rows, floats of any sign and any shape.
      target: The labels of the rows, in the shape of `preds`: 0 or 1, or grades for
        `RetrievalNormalizedDCG`.
      indexes: The query of each row, integers in the shape of `preds`.

    Raises:
      ValueError: if the arrays have other shapes or dtypes, or there is no row.
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
      ValueError: if there are no rows, or a query is empty and `empty_target_action` is `"error"`.
    """
    if not self.preds:
      raise ValueError("No samples to concatenate")
    rows = (np.concatenate(x) for x in (self.indexes, self.preds, self.target))
    batches = _table.queries(*rows)
    values = _table.evaluate(self.kind, batches, self._options(batches))
    result: Result = self._result(values, _table.are_empty(self.kind, batches))
    return result

  def _options(self, batches: list[Batch]) -> dict[str, Any]:
    """Returns the options that the definition of the metric takes."""
    return {name: getattr(self, name) for name in self.kind.options}

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    """Aggregates the values `[queries, ...]`, with empty queries as `empty_target_action` says."""
    action = self.empty_target_action
    if action == "error" and empty.any():
      raise ValueError(
        f"`compute` method was provided with a query with no {self.kind.lacks} target."
      )
    if action == "skip":
      values = values[~empty]
    else:
      # A NaN stays, so that a diverged model does not get a good value.
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
    """Plots a value as a point, or a list of values as a line over steps.

    Args:
      val: A result of `compute` or `forward`, or a list of results; None plots the value of all
        rows so far.
      ax: The axes of matplotlib to draw on; None makes a new figure.

    Returns:
      The figure and the axes.

    Raises:
      ModuleNotFoundError: if matplotlib is not installed.
    """
    val = self.compute() if val is None else val
    return plot.values(val, name=type(self).__name__, ax=ax)
