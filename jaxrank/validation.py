"""Checks of values on the host: under `jit`, a metric cannot raise an error for a bad value."""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._errors import counted

__all__ = [
  "check_values",
]


def check_values(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  max_label: float | None = None,
) -> None:
  """Raises an error if scores or labels have values that metrics cannot use.

  Metrics are NaN for a query with a NaN, because values cannot raise errors under `jit`. Call this
  function on concrete arrays, before a step or after one that went wrong. Values under the mask are
  ignored, a score may be infinite (-inf: known but not retrieved), and a label may be negative
  (unjudged).

  Queries whose labels prefer no order, because all are equal, as that of a query of one item is, or
  all are negative, are counted in a warning.

  >>> check_values([[0.3, -np.inf]], [[1, 0]])
  >>> check_values([[0.3, 0.2], [0.1, np.nan]], [[1, 0], [0, 1]])
  Traceback (most recent call last):
    ...
  ValueError: check_values: score of query 1, item 1 is nan (1 such cell): fix the model or mask it.

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, bool, False on padding; None is all True.
    max_label: The best grade of `err` and its kin, as which larger labels would count; None is any.

  Raises:
    ValueError: if shapes differ, integers do not fit the dtypes of JAX, or a valid item has a NaN
      score, or a label that is NaN, infinite or larger than `max_label`: the message names the
      first.
    TypeError: if `where` is not boolean, or scores or labels are traced, or not real numbers.

  Warns:
    UserWarning: if labels of some queries prefer no order of the items.
  """
  with checks.named("check_values"):
    scores, labels = checks.on_host("scores", scores), checks.on_host("labels", labels)
    for name, x in (("scores", scores), ("labels", labels)):
      checks.fits(name, x)
    valid = np.ones(scores.shape, bool) if where is None else checks.on_host("where", where)
    _check_arrays(scores, labels, valid)
    _check_cells("score", scores, valid & np.isnan(scores), "fix the model or mask it")
    _check_cells(
      "label",
      labels,
      valid & ~np.isfinite(labels),
      "set where=False on padding, and give an unjudged item a negative label",
    )
    if max_label is not None:
      checks.best_grade("max_label", max_label)
      advice = f"pass max_label={np.max(labels, where=valid, initial=0)}, or mend the label"
      _check_cells("label", labels, valid & (labels > max_label), advice)
  _warn_of_silence(labels.astype(np.float64), valid)


def _check_arrays(scores: np.ndarray, labels: np.ndarray, where: np.ndarray) -> None:
  if where.dtype != np.bool_:
    raise TypeError(f"where must be boolean, False on padding, got {where.dtype}: pass where > 0.")
  if not scores.ndim or not scores.shape == labels.shape == where.shape:
    raise ValueError(
      "scores, labels and where must have one shape [..., n], "
      f"got {scores.shape}, {labels.shape} and {where.shape}."
    )


def _warn_of_silence(labels: np.ndarray, valid: np.ndarray) -> None:
  """Warns of queries whose labels prefer no order of the items."""
  highest = np.max(labels, axis=-1, where=valid, initial=-np.inf)
  lowest = np.min(labels, axis=-1, where=valid, initial=np.inf)
  queries = int(np.sum(valid.any(axis=-1)))
  negative = int(np.sum((lowest <= highest) & (highest < 0)))
  equal = int(np.sum((lowest == highest) & (highest >= 0)))
  if negative or equal:
    warnings.warn(
      f"check_values: no order is better than another in {negative + equal} of "
      f"{counted(queries, 'query', 'queries')}, whose labels are all equal "
      f"({equal}) or all negative ({negative}): their values say nothing "
      "of a ranking, and losses of most kinds learn nothing from them.",
      stacklevel=3,
    )


def _check_cells(name: str, values: np.ndarray, bad: np.ndarray, advice: str) -> None:
  count = int(np.count_nonzero(bad))
  if not count:
    return
  index = tuple(np.argwhere(bad)[0])
  such = f"{count} such {'cell' if count == 1 else 'cells'}"
  raise ValueError(f"{name} of {checks.cell(index)} is {values[index]} ({such}): {advice}.")
