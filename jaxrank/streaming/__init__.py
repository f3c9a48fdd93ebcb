"""Measures over many batches, devices and processes: `Evaluator` and its `State`."""

from jaxrank.streaming.evaluator import Evaluator
from jaxrank.streaming.summary import State

__all__ = [
  "Evaluator",
  "State",
]
