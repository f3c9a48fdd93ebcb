"""Internals: the base class of the metrics where torchmetrics is installed; rows are tensors."""

import warnings
from typing import Any

import numpy as np
import torch

from jaxrank.interop.torchmetrics import _host

with warnings.catch_warnings():
  # Its dependencies warn of each other when they are imported.
  warnings.simplefilter("ignore")
  import torchmetrics


class Base(torchmetrics.Metric):
  """What a metric does with its rows, which are states of torchmetrics: lists of tensors."""

  def __init__(self, **kwargs: Any):
    super().__init__(**kwargs)
    for name in _host.STATES:
      self.add_state(name, default=[], dist_reduce_fx=None)

  def _add(self, *rows: np.ndarray) -> None:
    """Adds the queries, the scores and the labels of checked rows."""
    queries, *others = rows
    for name, x in zip(_host.STATES, (queries.astype(np.int64), *others), strict=True):
      getattr(self, name).append(torch.tensor(x, device=self.device))

  _rows = _host.Base._rows

  def _out(self, result: Any) -> Any:
    """A result as tensors."""
    if isinstance(result, tuple):
      return tuple(map(self._out, result))
    return torch.as_tensor(np.array(result), device=self.device)

  def _values(self, x: np.ndarray) -> Any:
    """Values as an aggregation of the user gets them."""
    return torch.tensor(x)
