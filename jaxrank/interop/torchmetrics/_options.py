"""Internals: the types of the options of the metrics, their checks, and the aggregations."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

EmptyTargetAction: TypeAlias = Literal["error", "skip", "neg", "pos"]
Aggregation: TypeAlias = Literal["mean", "median", "min", "max"] | Callable[[np.ndarray], Any]

_T = TypeVar("_T")

_AGGREGATIONS: dict[str, Callable[[np.ndarray], Any]] = {
  "mean": lambda values: np.mean(values, axis=0, dtype=np.float64),
  "median": lambda values: np.quantile(values, 0.5, axis=0, method="lower"),
  "min": lambda values: np.min(values, axis=0),
  "max": lambda values: np.max(values, axis=0),
}


def aggregate(
  values: np.ndarray, how: Aggregation, given: Callable[[np.ndarray], Any] = lambda x: x
) -> Any:
  """Aggregates values `[queries, ...]` over the queries into a float32 scalar or array.

  A function gets `given(values)` of each column of values.
  """
  if callable(how):
    function = how
    return np.float32(np.apply_along_axis(lambda x: float(function(given(x))), 0, values))
  return np.float32(_AGGREGATIONS[how](values))


def _is_cutoff(x: Any) -> bool:
  return x is None or (isinstance(x, int | np.integer) and x is not True and bool(x > 0))


# Each option has a test of its value, and the message for a value that fails it.
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
  "empty_target_action": (
    lambda x: x in ("error", "skip", "neg", "pos"),
    "Argument `empty_target_action` received a wrong value `{}`.",
  ),
  "ignore_index": (
    lambda x: x is None or isinstance(x, int | np.integer),
    "Argument `ignore_index` must be an integer or None.",
  ),
  "aggregation": (
    lambda x: callable(x) or x in tuple(_AGGREGATIONS),
    "Argument `aggregation` must be one of `mean`, `median`, `min`, `max` or a custom callable "
    "function which takes tensor of values, but got {}.",
  ),
  "top_k": (_is_cutoff, "`top_k` has to be a positive integer or None"),
  "max_k": (_is_cutoff, "`max_k` has to be a positive integer or None"),
  "adaptive_k": (lambda x: isinstance(x, bool), "`adaptive_k` has to be a boolean"),
  "max_fpr": (
    lambda x: x is None or (isinstance(x, float) and 0 < x <= 1),
    "Arguments `max_fpr` should be a float in range (0, 1], but got: {}",
  ),
  "min_precision": (
    lambda x: isinstance(x, float) and 0 <= x <= 1,
    "`min_precision` has to be a positive float between 0 and 1",
  ),
}


def checked(name: str, value: _T) -> _T:
  """Returns the value of an option after its check.

  Raises:
    ValueError: if torchmetrics documents that the option does not take this value.
  """
  valid, message = _CHECKS[name]
  if not valid(value):
    raise ValueError(message.format(value))
  return value
