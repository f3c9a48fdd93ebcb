"""Kinds of parameters: the checks that descriptions of metrics refer to, and values in names."""

import dataclasses
import decimal
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from jaxrank import discounts, gains
from jaxrank._core import checks


@dataclasses.dataclass(frozen=True)
class Kind:
  """The values that a parameter takes.

  Attributes:
    meaning: The allowed values in words, for messages.
    check: `check(name, value)` returns the value, or raises `TypeError` or `ValueError`.
    spelled: How a name of a measure may give the value: True as a literal, a mapping from words to
      values, or False if it may not.
    literals: The Python types of the literals that a name may contain.
    axis: "items" for an array with a value for each item, `[..., n]`; "groups" for one that may
      have several, `[..., n]` or `[..., n, any]`; "subtopics" for one with a value for each
      subtopic, `[s]` or `[..., s]`; "queries" for a vector of each query, `[any]` or `[..., any]`;
      None for a value that all queries share.
    relative: Of a gain, whether only the ratios of the gains of a query matter, so that the metric
      is exact for labels of any size.
  """

  meaning: str
  check: Callable[[str, Any], Any]
  spelled: bool | Mapping[str, Any] = True
  literals: tuple[type, ...] = (int, float)
  axis: Literal["items", "groups", "subtopics", "queries"] | None = None
  relative: bool = dataclasses.field(default=False, compare=False)


def _checked(check: Callable[..., None]) -> Callable[[str, Any], Any]:
  return _Checked(check)


@dataclasses.dataclass(frozen=True)
class _Checked:
  """Applies a check that returns nothing, and returns the value."""

  check: Callable[..., None]

  def __call__(self, name: str, value: Any) -> Any:
    self.check(name, value)
    return value


@dataclasses.dataclass(frozen=True)
class _OneOf:
  """Checks that a value is one of some words, and returns it."""

  choices: tuple[str, ...]

  def __call__(self, name: str, value: Any) -> Any:
    checks.choice(name, value, self.choices)
    return value


def _cutoff(name: str, value: Any) -> Any:
  return checks.cutoff(value, name)


def _count(name: str, value: Any) -> int:
  return checks.count(name, value)


def _optional_count(name: str, value: Any) -> int | None:
  return None if value is None else checks.count(name, value)


@dataclasses.dataclass(frozen=True)
class _OrDecimal:
  """Applies a check to a number, which may be a `decimal.Decimal`, and returns it."""

  check: Callable[..., None]

  def __call__(self, name: str, value: Any) -> Any:
    self.check(name, float(value) if isinstance(value, decimal.Decimal) else value)
    return value


def _levels(name: str, value: Any) -> tuple[decimal.Decimal, ...]:
  given = isinstance(value, list | tuple) and len(value) > 0
  if not given or not all(isinstance(x, int | float | decimal.Decimal) for x in value):
    raise TypeError(
      f"{name} must be Python numbers, such as (0.25, 0.5), got {checks.told(value)}."
    )
  for level in value:
    checks.unit_interval(name, float(level))
  # Floats would be traced, and how many items make a level is a table of the program.
  return tuple(decimal.Decimal(str(level)) for level in value)


def _optional_array(name: str, value: Any) -> Any:
  return None if value is None else checks.array(name, value)


def _array(name: str, value: Any) -> Any:
  return checks.array(name, value)


def _anything(name: str, value: Any) -> Any:
  del name
  return value


_MAKERS: dict[Any, str] = {
  gains.table: "gains.table([0, 1, 3])",
  gains.by_label: "gains.by_label({0: 0, 1: 1, 2: 5})",
  discounts.table: "discounts.table([1, 0.5])",
  discounts.geometric: "discounts.geometric(0.8)",
  discounts.inverse_square: "discounts.inverse_square(1.0)",
  discounts.affine: "discounts.affine(1.0, -0.1)",
}


def _made(name: str, value: Any) -> None:
  """Raises `TypeError` for a function that makes gains or discounts, in place of what it makes."""
  made = _MAKERS.get(value) if inspect.isfunction(value) else None
  if made is not None:
    raise TypeError(f"{name} got the function {value.__name__} itself: write {name}={made}.")


def _gain(name: str, value: Any) -> Any:
  _made(name, value)
  checks.function(name, value, "a function of labels such as jaxrank.gains.linear")
  return value


def _optional_gain(name: str, value: Any) -> Any:
  return None if value is None else _gain(name, value)


def _gain_by_label(name: str, value: Any) -> Any:
  del name
  return gains.by_label(value)


def _discount(name: str, value: Any) -> Any:
  _made(name, value)
  checks.function(name, value, "a function of ranks such as jaxrank.discounts.logarithmic")
  return value


def _distance(name: str, value: Any) -> Any:
  checks.function(name, value, "a function of two distributions such as exposure.jensen_shannon")
  return value


def one_of(*choices: str) -> Kind:
  """The kind of a parameter that is one of some words."""
  return Kind(
    " or ".join(map(repr, choices)), _OneOf(choices), spelled={word: word for word in choices}
  )


ANYTHING = Kind("a number, a string or a truth value", _anything, literals=(int, float, str, bool))
CUTOFF = Kind("a whole number from 1", _cutoff)
COUNT = Kind("a whole number from 1, known at trace time", _count)
OPTIONAL_COUNT = Kind("a whole number from 1, known at trace time, or None", _optional_count)
DISCOUNT = Kind("a discount", _discount, spelled=False)
DISTANCE = Kind("a distance of two distributions", _distance, spelled=False)
GAIN = Kind(
  "a gain",
  _gain,
  spelled={"linear": gains.linear, "exponential": gains.exponential, "binary": gains.binary},
)
RELATIVE_GAIN = dataclasses.replace(GAIN, relative=True)
OPTIONAL_GAIN = dataclasses.replace(GAIN, check=_optional_gain)
GAIN_BY_LABEL = Kind(
  "labels with gains from 0, like {0: 0, 1: 1, 2: 5}", _gain_by_label, literals=(dict,)
)
GRADE = Kind("the best grade that labels can have, a number from 0", _checked(checks.best_grade))
GRADE_COUNT = Kind(
  "the best grade that labels can have, a whole number from 1, known at trace time", _count
)
LEVEL = Kind("a number from 0 to 1", _OrDecimal(checks.unit_interval))
LEVELS = Kind("numbers from 0 to 1", _levels, spelled=False, literals=(tuple,))
MULTIPLE = Kind("a number from 0", _OrDecimal(checks.nonnegative))
# Written without an exponent, as in iprec_at_recall_0.10.
DECIMAL = Kind("a number", _anything, literals=(decimal.Decimal,))
NUMBER = Kind("a number", _checked(checks.number))
POSITIVE = Kind("a positive number", _checked(checks.positive_number))
NONNEGATIVE = Kind("a number from 0", _checked(checks.nonnegative))
SHARE = Kind("a number from 0 to 1", _checked(checks.unit_interval))
TRUTH = Kind("True or False", _checked(checks.true_or_false), literals=(bool,))
THRESHOLD = Kind("a number", _checked(checks.threshold))
ITEM_WEIGHTS = Kind("an array [..., n]", _optional_array, spelled=False, axis="items")
ITEM_VALUES = Kind("an array [..., n]", _array, spelled=False, axis="items")
GROUPS = Kind("ids [..., n] or memberships [..., n, groups]", _array, spelled=False, axis="groups")
VECTOR = Kind("an array [groups] or [..., groups]", _array, spelled=False, axis="queries")
SUBTOPIC_WEIGHTS = Kind("an array [..., s]", _optional_array, spelled=False, axis="subtopics")
CHANCES = Kind("an array of probabilities", _optional_array, spelled=False)

# Names with one meaning in every kernel, also in those of users: the cut-off and item weights.
CONTRACT: Mapping[str, Kind] = {"k": CUTOFF, "weights": ITEM_WEIGHTS}

# Names that mean the same in every function whose body is a kernel.
SHARED: Mapping[str, Kind] = {
  **CONTRACT,
  "alpha": SHARE,
  "discount": DISCOUNT,
  "gain": GAIN,
  "groups": GROUPS,
  "max_label": GRADE,
  "min_label": NONNEGATIVE,
  "n_groups": COUNT,
  "persistence": SHARE,
  "rel": THRESHOLD,
  "subtopic_weights": SUBTOPIC_WEIGHTS,
  "teacher": ITEM_VALUES,
  "temperature": POSITIVE,
}
