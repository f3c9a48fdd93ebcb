"""Kinds of parameters: what a metric accepts, as its description states it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from jaxrank import gains
from jaxrank._core import checks


@dataclasses.dataclass(frozen=True)
class Kind:
  """What values a parameter takes.

  Attributes:
    meaning: What is allowed, for messages.
    check: Of the name and the value: returns the value, or raises `TypeError` or `ValueError`.
    spelled: What a name of a measure may say for it: True for the value itself, a mapping from
      words to values, or False.
    literals: The Python types of the values that a name may say.
    axis: "items" for an array with a value for each item, `[..., n]`; "subtopics" for one with a
      value for each subtopic, `[s]` or `[..., s]`; None for what all queries share.
  """

  meaning: str
  check: Callable[[str, Any], Any]
  spelled: bool | Mapping[str, Any] = True
  literals: tuple[type, ...] = (int, float)
  axis: Literal["items", "subtopics"] | None = None


def _checked(check: Callable[..., None]) -> Callable[[str, Any], Any]:
  return _Checked(check)


@dataclasses.dataclass(frozen=True)
class _Checked:
  """Returns what a check lets pass."""

  check: Callable[..., None]

  def __call__(self, name: str, value: Any) -> Any:
    self.check(name, value)
    return value


@dataclasses.dataclass(frozen=True)
class _OneOf:
  """Returns one of some words."""

  choices: tuple[str, ...]

  def __call__(self, name: str, value: Any) -> Any:
    checks.choice(name, value, self.choices)
    return value


def _cutoff(name: str, value: Any) -> Any:
  return checks.cutoff(value, name)


def _whole(name: str, value: Any) -> int:
  return checks.count(name, value)


def _optional_array(name: str, value: Any) -> Any:
  return None if value is None else checks.array(name, value)


def _anything(name: str, value: Any) -> Any:
  del name
  return value


def _gain(name: str, value: Any) -> Any:
  checks.function(name, value, "a function of labels such as jaxrank.gains.linear")
  return value


def _gain_by_label(name: str, value: Any) -> Any:
  del name
  return gains.by_label(value)


def _discount(name: str, value: Any) -> Any:
  checks.function(name, value, "a function of ranks such as jaxrank.discounts.logarithmic")
  return value


def one_of(*choices: str) -> Kind:
  """One of some words."""
  return Kind(
    " or ".join(map(repr, choices)), _OneOf(choices), spelled={word: word for word in choices}
  )


ANYTHING = Kind("a number, a string or a truth value", _anything, literals=(int, float, str, bool))
CUTOFF = Kind("a whole number from 1", _cutoff)
COUNT = Kind("a whole number from 1, known before anything runs", _whole)
DISCOUNT = Kind("a discount", _discount, spelled=False)
GAIN = Kind(
  "a gain",
  _gain,
  spelled={"linear": gains.linear, "exponential": gains.exponential, "binary": gains.binary},
)
GAIN_BY_LABEL = Kind(
  "labels with gains from 0, like {0: 0, 1: 1, 2: 5}", _gain_by_label, literals=(dict,)
)
GRADE = Kind("a number from 0", _checked(checks.best_grade))
NONNEGATIVE = Kind("a number from 0", _checked(checks.nonnegative))
SHARE = Kind("a number from 0 to 1", _checked(checks.unit_interval))
THRESHOLD = Kind("a number", _checked(checks.threshold))
ITEM_WEIGHTS = Kind("an array [..., n]", _optional_array, spelled=False, axis="items")
SUBTOPIC_WEIGHTS = Kind("an array [..., s]", _optional_array, spelled=False, axis="subtopics")
CHANCES = Kind("an array of probabilities", _optional_array, spelled=False)

# What two names mean in every kernel, a user's too: `k` is the cut-off, `weights` are of items.
CONTRACT: Mapping[str, Kind] = {"k": CUTOFF, "weights": ITEM_WEIGHTS}
