"""Descriptions of metrics: their parameters, range, direction, and names in other libraries.

A metric is described once, beside its kernel. `evaluate`, the grammar of names, `Evaluator`,
`chance`, `lambda_rank` and the tables of the documentation read descriptions; none lists metrics.
"""

import copy
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._base import Aggregation
from jaxrank._core import checks
from jaxrank._core.arithmetic import UNITS, kept_within
from jaxrank._core.dialects import Name
from jaxrank._core.parameters import ANYTHING, CONTRACT, Kind
from jaxrank._core.ranked import Ranked
from jaxrank._core.recorder import depth_of_pairs

Kernel = Callable[..., Any]
Seeks = Callable[..., Array]

# Names that parameters of a kernel may not have: the arguments of every metric and measure.
RESERVED = ("scores", "labels", "where", "ranking", "name")

UNBOUNDED = (-math.inf, math.inf)
# Gains that are not negative, and how many units of rounding a value with others may lose.
_GAINS = frozenset(map(id, (None, gains.linear, gains.exponential, gains.binary)))
_UNITS_OF_WEIGHTS = 2**3

_Value = TypeVar("_Value")


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
      A value that rounding takes out of it becomes the end of the range: see `rounded`.
    names: Its names in other libraries.
    subtopics: Whether labels are `[..., n, subtopics]`.
    depth: How deep the kernel looks; None to find it out from its questions.
    public: The function whose body the kernel is; None if the signature is the kernel's.
    aggregation: How the values of many queries become one: "mean"; "sum", as of counts; "exp_mean",
      the exponential of the mean, for values that are logarithms.
    departs: The laws of `jaxrank.testing` that the metric does not obey on purpose: the reason by
      the name of the law.
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

  def rounded(self, value: _Value, parameters: Mapping[str, Any]) -> _Value:
    """The value of a kernel, without the rounding that takes it out of the range.

    It is applied behind the kernel, whose questions and slopes it leaves as they are. With weights
    or gains of one's own, values may exceed the range in earnest, so that less counts as rounding:
    not the error of an integral under a smooth ranking.
    """
    if self.range == UNBOUNDED:
      return value
    gain = parameters.get("gain")
    own = parameters.get("weights") is not None or id(gain) not in _GAINS
    units = _UNITS_OF_WEIGHTS if own else UNITS
    kept: _Value = jax.tree.map(functools.partial(kept_within, ends=self.range, units=units), value)
    return kept

  def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Checks all values; raises `TypeError` or `ValueError` with the name of the parameter."""
    return {name: self.kind(name).check(name, value) for name, value in parameters.items()}


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
