"""Internals: the base class of the metrics where torchmetrics is not installed; rows are numpy."""

import copy
from typing import Any, Self

import numpy as np

from jaxrank.interop import _lists

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
STATES = ("indexes", "preds", "target")


class Base:
  """What a metric does with its rows, which are lists of numpy arrays."""

  indexes: list[Any]
  preds: list[Any]
  target: list[Any]

  def __init__(self, **kwargs: Any):
    unknown = sorted(f"`{name}`" for name in kwargs if name not in _IGNORED_OPTIONS)
    if unknown:
      raise ValueError(f"Unexpected keyword arguments: {', '.join(unknown)}")
    self.reset()

  def reset(self) -> None:
    """Removes all rows."""
    self.indexes, self.preds, self.target = [], [], []

  def _add(self, *rows: np.ndarray) -> None:
    """Adds the queries, the scores and the labels of checked rows."""
    for name, x in zip(STATES, rows, strict=True):
      getattr(self, name).append(x)

  def _rows(self) -> list[np.ndarray]:
    """The queries, the scores and the labels of all rows."""
    states = (getattr(self, name) for name in STATES)
    parts = ([*map(_lists.numpy, x)] if isinstance(x, list) else [_lists.numpy(x)] for x in states)
    return [np.concatenate(x) for x in parts if len(x)]

  def _out(self, result: Any) -> Any:
    """A result as the metric returns it."""
    return result

  def _values(self, x: np.ndarray) -> Any:
    """Values as an aggregation of the user gets them."""
    return x

  def forward(self, preds: Any, target: Any, indexes: Any) -> Any:
    """Adds rows, and returns the value of these rows alone."""
    batch: Any = self.clone()
    batch.reset()
    batch.update(preds, target, indexes)
    for name in STATES:
      getattr(self, name).extend(getattr(batch, name))
    return batch.compute()

  def __call__(self, preds: Any, target: Any, indexes: Any) -> Any:
    """The same as `forward`."""
    return self.forward(preds, target, indexes)

  def clone(self) -> Self:
    """Returns a copy that has its own list of rows."""
    clone = copy.copy(self)
    for name in STATES:
      setattr(clone, name, [*getattr(self, name)])
    return clone
