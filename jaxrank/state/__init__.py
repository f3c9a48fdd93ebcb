"""Measures over many batches, devices and processes: an `Evaluator` and its `State`."""

from jaxrank.state.evaluator import Evaluator as Evaluator
from jaxrank.state.summary import State as State
