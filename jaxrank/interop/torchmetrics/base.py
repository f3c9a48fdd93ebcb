"""`RetrievalMetric`, the base class of the metrics."""

import inspect
import types
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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

if TYPE_CHECKING:
  from jaxrank.interop.torchmetrics._host import Base
else:
  try:
    from jaxrank.interop.torchmetrics._torch import Base
  except ImportError:
    from jaxrank.interop.torchmetrics._host import Base

Result = TypeVar("Result")


class RetrievalMetric(Base, Generic[Result]):
  """The base class of metrics that group flat rows into queries and aggregate over the queries.

  A metric keeps its rows until `compute`, which evaluates all queries at once. The rows with one
  index are one query, even if several updates added them. The type parameter `Result` is the type
  that `compute` and `forward` return; it is a tensor, or a tuple of tensors, where torchmetrics is
  installed.

  Args:
    empty_target_action: The value of a query without a positive target, or without a negative one
      for `RetrievalFallOut`: `"neg"` counts it as 0 and `"pos"` as 1, `"skip"` leaves it out, and
      `"error"` makes `compute` raise `ValueError`.
    ignore_index: Rows with this target, an integer, are dropped; None keeps all rows.
    aggregation: `"mean"`, `"median"` (the lower one of two), `"min"`, `"max"`, or a function from
      the values `[queries]` to a number. It is called once for each cut-off of a curve.
    **kwargs: Options with which torchmetrics distributes the state or moves it between devices.
      They have no effect where torchmetrics is not installed.

  Raises:
    ValueError: if an option has a wrong value, or torchmetrics does not have a keyword.
  """

  kind: _table.Row
  higher_is_better = True
  is_differentiable = False
  full_state_update = False

  def __init_subclass__(cls, **kwargs: Any) -> None:
    super().__init_subclass__(**kwargs)
    init: Any = cls.__init__
    if "__init__" not in vars(cls) and inspect.isfunction(init):
      # A copy, because Python's message on arguments that do not fit has the name of the function.
      own = types.FunctionType(
        init.__code__, init.__globals__, init.__name__, init.__defaults__, init.__closure__
      )
      own.__qualname__, own.__annotations__ = f"{cls.__qualname__}.__init__", init.__annotations__
      own.__kwdefaults__ = init.__kwdefaults__
      cls.__init__ = own  # type: ignore[method-assign]

  def __init__(
    self,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(**kwargs)
    self.empty_target_action: EmptyTargetAction = checked(
      "empty_target_action", empty_target_action
    )
    self.ignore_index = checked("ignore_index", ignore_index)
    self.aggregation: Aggregation = checked("aggregation", aggregation)

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
    self._add(queries.ravel(), scores, labels)

  def compute(self) -> Result:
    """Computes the value of all rows so far.

    Raises:
      ValueError: if there are no rows, or a query is empty and `empty_target_action` is `"error"`.
    """
    rows = self._rows()
    if not rows:
      raise ValueError("No samples to concatenate")
    batches = _table.queries(*rows)
    values = _table.evaluate(self.kind, batches, self._options(batches))
    result: Result = self._out(self._result(values, _table.are_empty(self.kind, batches)))
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
    return aggregate(values, self.aggregation, self._values)

  if TYPE_CHECKING:

    def forward(self, preds: ArrayLike, target: ArrayLike, indexes: ArrayLike) -> Result:
      """Adds rows, and returns the value of these rows alone."""

    def __call__(self, preds: ArrayLike, target: ArrayLike, indexes: ArrayLike) -> Result:
      """The same as `forward`."""

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
    val = [*map(_lists.numpy, val)] if isinstance(val, list) else _lists.numpy(val)
    return plot.values(val, name=type(self).__name__, ax=ax)
