"""Labels beyond the scale of a measure: refused where they can be read, that is on the host."""

import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jaxrank import gains
from jaxrank._core import checks
from jaxrank._core._jax import is_traced

if TYPE_CHECKING:
  from jaxrank.measures.measure import Measure


class _Limit(NamedTuple):
  """The largest label that a measure tells from larger ones.

  Attributes:
    largest: That label.
    meaning: What it is, for messages.
    advice: What to write instead, by the largest label of all.
  """

  largest: float
  meaning: str
  advice: Callable[[float], str]


def check(
  measures: Iterable["Measure"],
  labels: np.ndarray,
  valid: np.ndarray,
  place: Callable[[int], str],
) -> None:
  """Raises `ValueError` for a label of which a measure would make another one.

  Args:
    measures: The measures.
    labels: Labels, one for each item.
    valid: Whether each of them counts, of the same shape.
    place: The query and the item of a label, for messages, by its place in the flat array.
  """
  labels, whole = np.where(valid, labels, 0).ravel(), None
  for measure in measures:
    limit = _limit(measure)
    if limit is not None and (labels > limit.largest).any():
      at = int(np.argmax(labels > limit.largest))
      raise ValueError(
        f"{measure} has {limit.meaning}, and {place(at)} the label {float(labels[at]):g}; "
        f"{limit.advice(float(np.nanmax(labels)))}."
      )
    if _has_table(measure):
      whole = (labels <= 0) | (np.mod(labels, 1) == 0) if whole is None else whole
      if not whole.all():
        at = int(np.argmin(whole))
        raise ValueError(
          f"{measure} has gains of whole labels by gains.table, and {place(at)} the label "
          f"{float(labels[at]):g}; use gains.by_label."
        )


def check_arrays(measures: Iterable["Measure"], labels: Any, where: Any) -> None:
  """`check` of labels `[..., n]` that are on the host; arrays of JAX are not read."""
  if isinstance(labels, jax.Array) or isinstance(where, jax.Array):
    return
  limited = [x for x in measures if _limit(x) is not None or _has_table(x)]
  if not limited:
    return
  given = checks.without_loss(labels)
  # A list may hold traced arrays.
  if isinstance(given, np.ndarray) and given.size:
    valid = np.ones(given.shape, bool) if where is None else np.asarray(where)
    check(limited, given, valid, lambda at: checks.cell(np.unravel_index(at, given.shape)))


def _limit(measure: "Measure") -> _Limit | None:
  parameters, about = measure.call().parameters, measure.description
  best, gain = parameters.get("max_label"), parameters.get("gain")
  # As in ndeval, grades of a subtopic count up to the best one.
  if about.subtopics or is_traced(best):
    return None
  if best is not None:
    best = float(best)
    return _Limit(best, f"a best grade of {best:g}", lambda x: _advice(measure, x))
  if gain is gains.exponential and not about.kind("gain").relative:
    largest = gains._MAX_LABEL
    advice = "map the labels to smaller grades, or take nDCG, which is exact for labels of any size"
    return _Limit(largest, f"exponential gains of labels up to {largest}", lambda _: advice)
  return None


def _has_table(measure: "Measure") -> bool:
  return any(isinstance(x, gains._Table) for x in measure.call().parameters.values())


def _advice(measure: "Measure", best: float) -> str:
  """What to write for labels up to a best grade: a name of the measure that has it."""
  if not math.isfinite(best):
    return "mend the label"
  name, given = re.subn(r"(max_rel|max_label)=[^,)]+", rf"\g<1>={best:g}", measure.name)
  if not given:
    k = measure.parameters.get("k")
    cutoff = "" if k is None else f"@{k}"
    name = f"{measure.description.name}(max_label={best:g}){cutoff}"
  return f"write {name}"
