"""Descriptions of metrics: kinds of their parameters, range, direction, names in other libraries.

A metric is described once, in the decorator above it. `evaluate`, the grammar of names,
`Evaluator`, `chance`, `lambda_rank` and the tables of the documentation read descriptions; none
lists metrics. A kind of parameter is a check of values, and how a name may spell them. Names in
other libraries are data, which `measures.grammar` reads.
"""

import copy
import dataclasses
import decimal
import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Aggregation
from jaxrank._core import checks
from jaxrank._core.arithmetic import UNITS, kept_within
from jaxrank._core.ranked import Ranked, depth_of_pairs


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

  choices: tuple[str | None, ...]

  def __call__(self, name: str, value: Any) -> Any:
    checks.choice(name, value, self.choices)
    return value


def _cutoff(name: str, value: Any) -> Any:
  return checks.cutoff(value, name)


def _count(name: str, value: Any) -> int:
  return checks.count(name, value)


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


def one_of(*choices: str | None) -> Kind:
  """The kind of a parameter that is one of some words, which may also be None."""
  words = {word: word for word in choices if word is not None}
  return Kind(" or ".join(map(repr, choices)), _OneOf(choices), spelled=words)


ANYTHING = Kind("a number, a string or a truth value", _anything, literals=(int, float, str, bool))
CUTOFF = Kind("a whole number from 1", _cutoff)
COUNT = Kind("a whole number from 1, known at trace time", _count)
DISCOUNT = Kind("a discount", _discount, spelled=False)
DISTANCE = Kind("a distance of two distributions", _distance, spelled=False)
GAIN = Kind(
  "a gain",
  _gain,
  spelled={"linear": gains.linear, "exponential": gains.exponential, "binary": gains.binary},
)
RELATIVE_GAIN = dataclasses.replace(GAIN, relative=True)
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
ITEM_VALUES = Kind("an array [..., n]", _array, spelled=False, axis="items")
GROUPS = Kind("ids [..., n] or memberships [..., n, groups]", _array, spelled=False, axis="groups")
VECTOR = Kind("an array [groups] or [..., groups]", _array, spelled=False, axis="queries")
SUBTOPIC_WEIGHTS = Kind("an array [..., s]", _array, spelled=False, axis="subtopics")
CHANCES = Kind("an array of probabilities", _array, spelled=False)

# Names with one meaning in every kernel, also in those of users: the cut-off and item weights.
CONTRACT: Mapping[str, Kind] = {"k": CUTOFF, "weights": ITEM_VALUES}

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


# A number, as C reads it, and one that may be broken, for better messages.
DECIMALS = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_LIKE = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"

# The pieces of the form of a name, with the regular expressions that they match.
PIECES = {
  "NAME": r"(?P<name>[A-Za-z0-9][\w-]*?)",
  "[(...)]": r"(?:\((?P<arguments>[^()]*)\))?",
  "@10": r"@(?P<k>.+?)",
  "[@10]": r"(?:@(?P<k>.+?))?",
  "_10": r"[._](?P<k>[0-9]+)",
  "@0.1": r"@(?P<x>[0-9]+(?:\.[0-9]+)?)",
  "_0.10": rf"[._](?P<x>{DECIMALS})",
  "[_0.5]": rf"(?:[._](?P<number>{DECIMALS}))?",
  "[_1=3,2=9]": rf"(?:[._](?P<pairs>\w+={_LIKE}(?:,\w+={_LIKE})*))?",
  "[_1,-1,0,0]": rf"(?:[._](?P<numbers>{_LIKE}(?:,{_LIKE})*))?",
  "[_.25,.5]": rf"(?:[._](?P<levels>{_LIKE}(?:,{_LIKE})*))?",
  "[-l2]": r"(?:-l(?P<rel>[0-9]{1,2}))?",
  ".95": r"[.@](?P<p>[0-9]+)",
}


class Argument(NamedTuple):
  """An argument that a dialect writes in parentheses.

  Attributes:
    parameter: The parameter of the metric that it sets.
    kind: The kind of its value; None for the kind of that parameter.
  """

  parameter: str
  kind: Kind | None = None


class Name(NamedTuple):
  """A name of a metric in a dialect.

  Attributes:
    dialect: The dialect.
    spellings: The spellings of the name; the first is the canonical one.
    form: Keys of `PIECES`, separated by spaces.
    arguments: The arguments that may be given in parentheses, by their names in the dialect.
    fixed: Values of parameters that the dialect implies, unless a name sets them.
  """

  dialect: str
  spellings: tuple[str, ...]
  form: str
  arguments: Mapping[str, Argument]
  fixed: Mapping[str, Any]


def _arguments(words: str, given: Mapping[str, Argument]) -> dict[str, Argument]:
  """Reads "rel p=persistence": `rel` has the name of its parameter, `p` sets `persistence`."""
  pairs = (word.partition("=") for word in words.split())
  return {name: Argument(parameter or name) for name, _, parameter in pairs} | dict(given)


def ir_measures(
  spellings: str,
  form: str = "[@10]",
  arguments: str = "",
  reads: Mapping[str, Argument] | None = None,
  **fixed: Any,
) -> Name:
  """A name in ir_measures, such as `nDCG(dcg='exp-log2')@10`."""
  taken = _arguments(arguments, reads or {})
  names = tuple(spellings.split())
  return Name("ir_measures", names, f"NAME [(...)] {form}".rstrip(), taken, fixed)


def trec_eval(
  spellings: str, form: str = "", reads: Mapping[str, Argument] | None = None, **fixed: Any
) -> Name:
  """A name in trec_eval, such as `ndcg_cut_10`."""
  taken = dict(reads or {})
  return Name("trec_eval", tuple(spellings.split()), f"NAME {form}".rstrip(), taken, fixed)


def trec_eval10(
  spellings: str, form: str = "", reads: Mapping[str, Argument] | None = None, **fixed: Any
) -> Name:
  """A name that version 10 of trec_eval added, or gave another meaning, such as `unj_10`."""
  return trec_eval(spellings, form, reads, **fixed)._replace(dialect="trec_eval10")


def ndeval(spellings: str, form: str = "@10", **fixed: Any) -> Name:
  """A name in ndeval, the program of TREC for diversity, such as `ERR-IA@20`."""
  return Name("ndeval", tuple(spellings.split()), f"NAME {form}".rstrip(), {}, fixed)


def recommenders(spellings: str, form: str = "[@10]", **fixed: Any) -> Name:
  """A name that libraries and papers on recommenders and link prediction use, such as `HR@10`."""
  return Name("recommenders", tuple(spellings.split()), f"NAME {form}".rstrip(), {}, fixed)


def ranx(
  spellings: str,
  form: str = "[@10] [-l2]",
  arguments: str = "",
  reads: Mapping[str, Argument] | None = None,
  **fixed: Any,
) -> Name:
  """A name in ranx, such as `map@100-l2`."""
  taken = _arguments(arguments, reads or {})
  return Name("ranx", tuple(spellings.split()), f"NAME {form}".rstrip(), taken, fixed)


Kernel = Callable[..., Any]
Seeks = Callable[..., Array]

# Names that parameters of a kernel may not have: the arguments of every metric and measure.
RESERVED = ("scores", "labels", "where", "ranking", "name")

UNBOUNDED = (-math.inf, math.inf)
# Gains that are not negative, and how many units of rounding a value with others may lose.
_GAINS = frozenset(map(id, (None, gains.linear, gains.exponential, gains.binary)))
_UNITS_OF_WEIGHTS = 2**3


def relevant_items(ranked: Ranked, *, rel: ArrayLike | None = None, **_: Any) -> Array:
  """Whether the query has a relevant item."""
  return jnp.any(ranked.count(ranked.relevant(rel)) > 0)


def other_items(ranked: Ranked, *, rel: ArrayLike | None = None, **_: Any) -> Array:
  """Whether the query has an item that is not relevant."""
  return ranked.count(ranked.where & ~ranked.relevant(rel)) > 0


def relevant_and_other_items(ranked: Ranked, *, rel: ArrayLike | None = None, **_: Any) -> Array:
  """Whether the query has both relevant items and others."""
  return relevant_items(ranked, rel=rel) & other_items(ranked, rel=rel)


def different_labels(ranked: Ranked, **_: Any) -> Array:
  """Whether the query has two different labels."""
  labels, where = ranked.labels, ranked.where
  highest = ranked.largest(jnp.where(where, labels, -jnp.inf))
  return highest > -ranked.largest(jnp.where(where, -labels, -jnp.inf))


def any_items(ranked: Ranked, **_: Any) -> Array:
  """Whether the query has a valid item."""
  return ranked.count(ranked.where) > 0


SEEKS: Mapping[str, Seeks] = {
  "relevant items": relevant_items,
  "other items": other_items,
  "relevant and other items": relevant_and_other_items,
  "different labels": different_labels,
  "any items": any_items,
}
Sought = Literal[
  "relevant items", "other items", "relevant and other items", "different labels", "any items"
]


# How deep a kernel looks: at the whole list; at no order; down to `k`, or at the whole list without
# one; down to `k`, or at no order without one, as for numbers of items; at no order for the pairs
# of a short list, and at the whole of a long one.
Depth = Literal["all", "none", "cutoff", "counts", "pairs"]


# Laws of `jaxrank.testing` that metrics differ from on purpose, with the reasons.
DIVIDES_BY_K = {"long_cutoff": "it divides by k, however long the list is"}
TIED_PAIRS = {"ties": "a tied pair has a value of its own, and no rule breaks it"}
MEANS_FIRST = {"ties": "its formula is applied to means over the orders of tied items"}
GREEDY_IDEAL = {
  "permutation": "its ideal is that of a greedy order, which depends on the columns",
  "range": "its ideal is that of a greedy order, and another order may be better",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Description:
  """The description of a metric.

  Attributes:
    name: Its name in jaxrank.
    kernel: `kernel(ranked, **parameters)` of one query.
    parameters: The kinds of its parameters by name; `k` and `weights` have fixed kinds.
    seeks: What a query must hold to count as not empty: a key of `SEEKS`, or a function of the
      ranked query and the parameters that returns a boolean.
    higher_is_better: Whether larger values are better.
    best: The value than which none is better, if values on both sides of it are worse;
      `higher_is_better` does not matter then.
    listed: Whether `described` yields it: its public function takes scores and labels, and no other
      array without a default.
    range: The least and the largest value for unweighted items; infinite where there is no bound.
      A value that rounding takes out of it becomes the end of the range: see `value`.
    names: Its names in other libraries.
    subtopics: Whether labels are `[..., n, subtopics]`.
    depth: How deep the kernel looks; None to find it out from its questions.
    public: The function whose body the kernel is; None if the signature is the kernel's.
    aggregation: How the values of many queries become one: "mean"; "sum", as of counts; "exp_mean",
      the exponential of the mean, for values that are logarithms.
    departs: The laws of `jaxrank.testing` that the metric does not obey on purpose: the reason by
      the name of the law.
    integers: Whether the value may have integers, which cannot be NaN; those of any other kernel
      become floats.
  """

  name: str
  kernel: Kernel
  parameters: Mapping[str, Kind] = dataclasses.field(default_factory=dict)
  seeks: Sought | Seeks = "relevant items"
  higher_is_better: bool = True
  range: tuple[float, float] = UNBOUNDED
  names: tuple[Name, ...] = ()
  subtopics: bool = False
  depth: Depth | None = None
  public: Callable[..., Any] | None = None
  best: float | None = None
  listed: bool = True
  aggregation: Aggregation = "mean"
  departs: Mapping[str, str] = dataclasses.field(default_factory=dict)
  integers: bool = False

  def __post_init__(self) -> None:
    if not callable(self.seeks):
      checks.choice("seeks", self.seeks, SEEKS)
    if self.depth is not None:
      checks.choice("depth", self.depth, get_args(Depth))
    checks.choice("aggregation", self.aggregation, get_args(Aggregation))
    unknown = [name for name in self.parameters if name not in self.signature.parameters]
    if unknown:
      raise TypeError(
        f"the description of {self.name} names {unknown[0]!r}, which its kernel does not take; it "
        f"takes {', '.join(self.signature.parameters) or 'no parameters'}."
      )

  @functools.cached_property
  def signature(self) -> inspect.Signature:
    """The parameters of the kernel, keyword-only, with their defaults."""
    if self.public is None:
      taken = list(inspect.signature(self.kernel).parameters.values())[1:]
    else:
      given = inspect.signature(self.public).parameters
      taken = [p for name, p in given.items() if name not in RESERVED]
    return inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken])

  def __getstate__(self) -> dict[str, Any]:
    # The signature can be computed again, and may hold annotations that do not pickle.
    return {name: value for name, value in vars(self).items() if name != "signature"}

  def bind(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the defaults of the parameters that are not given, and checks all values.

    Raises:
      TypeError: if a parameter is unknown, missing or of the wrong type; the message names it.
      ValueError: for a value that is not allowed.
    """
    return self.checked(self.completed(parameters))

  def completed(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the defaults of the parameters that are not given; values are not checked.

    Raises:
      TypeError: if a parameter is unknown or missing; the message names it.
    """
    takes = self.signature.parameters
    allowed = f"it takes {', '.join(takes) or 'no parameters of its own'}"
    for name in parameters:
      if name not in takes:
        raise TypeError(f"{self.name} does not take {name!r}; {allowed}.")
    missing = [n for n, p in takes.items() if p.default is p.empty and n not in parameters]
    if missing:
      raise TypeError(
        f"{self.name} needs {missing[0]}, {self.kind(missing[0]).meaning}, as in "
        f"Measure({self.name}, {missing[0]}=4); {allowed}."
      )
    given = self.signature.bind(**parameters)
    given.apply_defaults()
    return given.arguments

  def kind(self, parameter: str) -> Kind:
    """The kind of a parameter."""
    return self.parameters.get(parameter) or CONTRACT.get(parameter, ANYTHING)

  def depth_for(self, parameters: Mapping[str, Any], n: int) -> int | None:
    """The largest rank at which the kernel looks in a list of `n` items; None for the whole list.

    It is 0 if the kernel needs no order. The description must say how deep the kernel looks.
    """
    if self.depth == "none":
      return 0
    if self.depth == "pairs":
      return depth_of_pairs(n)
    k = parameters.get("k")
    if self.depth == "counts" and k is None:
      return 0
    return k if self.depth != "all" and isinstance(k, int) else None

  def finds(self, ranked: Ranked, parameters: Mapping[str, Any]) -> Array:
    """Whether the query holds what the metric seeks."""
    seeks = self.seeks if callable(self.seeks) else SEEKS[self.seeks]
    return seeks(ranked, **parameters)

  def value(self, ranked: Ranked, parameters: Mapping[str, Any]) -> Any:
    """The value of the kernel, without the rounding that takes it out of the range.

    The rounding is taken off behind the kernel, whose questions and slopes stay as they are. With
    weights or gains of one's own, values may exceed the range in earnest, so that less counts as
    rounding: not the error of an integral under a smooth ranking.

    Raises:
      TypeError: if the kernel returns anything but numbers.
    """
    number = functools.partial(self._number, ranked)
    value = self.kernel(ranked, **parameters)
    value = jax.tree.map(number, value, is_leaf=functools.partial(operator.is_, None))
    if self.range == UNBOUNDED:
      return value
    gain = parameters.get("gain")
    own = parameters.get("weights") is not None or id(gain) not in _GAINS
    units = _UNITS_OF_WEIGHTS if own else UNITS
    return jax.tree.map(functools.partial(kept_within, ends=self.range, units=units), value)

  def _number(self, ranked: Ranked, x: Any) -> Array:
    """What a kernel returns as an array of floats, which may be NaN."""
    if not isinstance(x, bool | int | float | np.ndarray | np.generic | Array):
      raise TypeError(
        f"{self.name} must return the value of a query, a number, got {checks.told(x)}."
      )
    if isinstance(x, Array) and (self.integers or jnp.issubdtype(x.dtype, jnp.floating)):
      return x
    return jnp.asarray(x, ranked.dtype)

  def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Checks all values; raises `TypeError` or `ValueError` with the name of the parameter.

    None is allowed where it is the default.
    """
    takes = self.signature.parameters
    return {
      name: None
      if value is None and takes[name].default is None
      else self.kind(name).check(name, value)
      for name, value in parameters.items()
    }


@functools.lru_cache(maxsize=1024)
def with_kernel(about: Description, kernel: Kernel) -> Description:
  """A copy of a description with another kernel of any range, which takes the same parameters.

  Programs are compiled for the identity of a description, so equal kernels get the same copy.
  """
  other = copy.copy(about)
  vars(other).update(kernel=kernel, signature=about.signature, range=UNBOUNDED)
  return other


# The metrics of the library.
_METRICS: dict[Callable[..., Any], Description] = {}


def register(metric: Callable[..., Any], about: Description) -> None:
  """Makes a description that of a metric of the library."""
  attach(metric, about)
  _METRICS[metric] = about


def attach(metric: Any, about: Description) -> None:
  """Makes a description that of a metric."""
  metric.description = about


def described() -> Iterator[tuple[Callable[..., Any], Description]]:
  """Yields every metric of `jaxrank.metrics` with one value per query, and its description."""
  yield from ((metric, about) for metric, about in _METRICS.items() if about.listed)


def name_of(kernel: Kernel) -> str:
  """The name of the metric of a kernel: that of the kernel without leading underscores."""
  if isinstance(kernel, functools.partial):
    return name_of(kernel.func)
  return getattr(kernel, "__name__", type(kernel).__name__).lstrip("_")


def of_metric(metric: Any) -> Description | None:
  """The description of a metric, of the library or of a user; None for any other object."""
  about = getattr(metric, "description", None)
  if not isinstance(about, Description):
    return None
  # `functools.wraps` copies the attribute to a function that is not the metric.
  return about if about.public is metric or not hasattr(metric, "__wrapped__") else None
