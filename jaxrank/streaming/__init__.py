"""Measures over many batches, devices and processes: an `Evaluator` and its `State`."""

from jaxrank.streaming.evaluator import Evaluator as Evaluator
from jaxrank.streaming.summary import State as State
