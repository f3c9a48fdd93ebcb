"""What is said of a metric once, beside its kernel, and read by all that treats metrics alike."""

import copy
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.dialects import Name
from jaxrank._core.parameters import ANYTHING, CONTRACT, Kind
from jaxrank._core.ranked import Ranked

Kernel = Callable[..., Any]
Seeks = Callable[..., Array]

# What a kernel may not call its own parameters: the arguments of every metric and measure.
RESERVED = ("scores", "labels", "where", "ranking", "name")

_Public = TypeVar("_Public", bound=Callable[..., Any])


def relevant_items(ranked: Ranked, *, rel: ArrayLike | None = None, **_: Any) -> Array:
  """Whether the query has a relevant item."""
  return jnp.any(ranked.count(ranked.relevant(rel)) > 0)


def other_items(ranked: Ranked, *, rel: ArrayLike | None = None, **_: Any) -> Array:
  """Whether the query has an item that is not relevant."""
  return ranked.count(ranked.where & ~ranked.relevant(rel)) > 0


def relevant_and_other_items(ranked: Ranked, *, rel: ArrayLike | None = None, **_: Any) -> Array:
  """Whether the query has items of both kinds."""
  return relevant_items(ranked, rel=rel) & other_items(ranked, rel=rel)


def different_labels(ranked: Ranked, **_: Any) -> Array:
  """Whether the query has two labels that differ."""
  labels, where = ranked.labels, ranked.where
  highest = ranked.largest(jnp.where(where, labels, -jnp.inf))
  return highest > -ranked.largest(jnp.where(where, -labels, -jnp.inf))


def any_items(ranked: Ranked, **_: Any) -> Array:
  """Whether the query has an item at all."""
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


@dataclasses.dataclass(frozen=True, eq=False)
class Description:
  """What is said of a metric.

  Attributes:
    name: What it is called in our own spelling.
    kernel: `kernel(ranked, **parameters)` of one query.
    parameters: The kind of each parameter that is not one of the contract, `k` and `weights`.
    seeks: What a query must hold to count as not empty: a word, or a function of the ranked query
      and the parameters that returns a boolean.
    higher_is_better: Whether larger values are better.
    range: The least and the largest value, of unweighted items; infinite if there is none.
    names: What the dialects call it.
    subtopics: Whether labels are `[..., n, subtopics]`.
    depth: "all" or "none" where the kernel's questions do not tell how deep it looks.
    public: The function that hands the kernel to `apply`; None if the kernel has the defaults.
  """

  name: str
  kernel: Kernel
  parameters: Mapping[str, Kind] = dataclasses.field(default_factory=dict)
  seeks: Sought | Seeks = "relevant items"
  higher_is_better: bool = True
  range: tuple[float, float] = (0.0, 1.0)
  names: tuple[Name, ...] = ()
  subtopics: bool = False
  depth: Literal["all", "none"] | None = None
  public: Callable[..., Any] | None = None

  def __post_init__(self) -> None:
    if not callable(self.seeks):
      checks.choice("seeks", self.seeks, SEEKS)
    if self.depth is not None:
      checks.choice("depth", self.depth, ("all", "none"))
    unknown = [name for name in self.parameters if name not in self.signature.parameters]
    if unknown:
      raise TypeError(
        f"The description of {self.name} names {unknown[0]!r}, which its kernel does not take; it "
        f"takes {', '.join(self.signature.parameters) or 'no parameters'}."
      )

  @functools.cached_property
  def signature(self) -> inspect.Signature:
    """The parameters of the metric's own, with their defaults."""
    if self.public is None:
      own = list(inspect.signature(self.kernel).parameters.values())[1:]
    else:
      given = inspect.signature(self.public).parameters
      own = [p for name, p in given.items() if name not in RESERVED]
    return inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own])

  def __getstate__(self) -> dict[str, Any]:
    # The signature follows from the function, and may hold annotations that do not pickle.
    return {name: value for name, value in vars(self).items() if name != "signature"}

  def bind(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters after their checks, with defaults for those that are not given.

    Raises:
      TypeError: for a parameter that the metric does not take, or one that it needs, by name.
      ValueError: for a value that is not allowed.
    """
    return self.checked(self.completed(parameters))

  def completed(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with defaults for those that are not given, before the checks of values.

    Raises:
      TypeError: for a parameter that the metric does not take, or one that it needs, by name.
    """
    takes = self.signature.parameters
    allowed = f"it takes {', '.join(takes) or 'no parameters of its own'}"
    for name in parameters:
      if name not in takes:
        raise TypeError(f"{self.name} does not take {name!r}; {allowed}.")
    missing = [n for n, p in takes.items() if p.default is p.empty and n not in parameters]
    if missing:
      raise TypeError(
        f"{self.name} needs {missing[0]}, {self.kind(missing[0]).meaning}; {allowed}."
      )
    given = self.signature.bind(**parameters)
    given.apply_defaults()
    return given.arguments

  def kind(self, parameter: str) -> Kind:
    """The kind of a parameter."""
    return self.parameters.get(parameter) or CONTRACT.get(parameter, ANYTHING)

  def finds(self, ranked: Ranked, parameters: Mapping[str, Any]) -> Array:
    """Whether the query holds what the metric seeks."""
    seeks = self.seeks if callable(self.seeks) else SEEKS[self.seeks]
    return seeks(ranked, **parameters)

  def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters after their checks; raises `TypeError` or `ValueError` that names one."""
    return {name: self.kind(name).check(name, value) for name, value in parameters.items()}


@functools.lru_cache(maxsize=1024)
def with_kernel(about: Description, kernel: Kernel) -> Description:
  """The same description of another kernel, which is called with the same parameters.

  Programs are compiled for the identity of a description, so that equal kernels get the same one.
  """
  other = copy.copy(about)
  vars(other).update(kernel=kernel, signature=about.signature)
  return other


_BY_KERNEL: dict[Kernel, Description] = {}
_BY_METRIC: dict[Callable[..., Any], Description] = {}


def describe(
  kernel: Kernel,
  *,
  seeks: Sought | Seeks = "relevant items",
  higher_is_better: bool = True,
  range: tuple[float, float] = (0.0, 1.0),
  names: tuple[Name, ...] = (),
  subtopics: bool = False,
  depth: Literal["all", "none"] | None = None,
  **parameters: Kind,
) -> Callable[[_Public], _Public]:
  """Says what is true of a public metric of ours, which hands `kernel` to `apply`.

  The function itself stays as it is written. See `Description` for the arguments; `parameters`
  are the kinds of the metric's own.
  """

  def attach(metric: _Public) -> _Public:
    description = Description(
      metric.__name__,
      kernel,
      parameters,
      seeks,
      higher_is_better,
      range,
      names,
      subtopics,
      depth,
      metric,
    )
    _BY_KERNEL[kernel] = _BY_METRIC[metric] = description
    return metric

  return attach


def described() -> Iterator[tuple[Callable[..., Any], Description]]:
  """Every public metric of ours that has one value a query, with its description."""
  yield from _BY_METRIC.items()


def of_kernel(kernel: Kernel) -> Description:
  """The description of the metric that has this kernel, or a bare one with its name."""
  if kernel not in _BY_KERNEL:
    return _bare(kernel)
  return _BY_KERNEL[kernel]


@functools.lru_cache(maxsize=1024)
def _bare(kernel: Kernel) -> Description:
  return Description(name_of(kernel), kernel, range=(-math.inf, math.inf))


def name_of(kernel: Kernel) -> str:
  """The name of the function whose kernel this is: the same without an underscore in front."""
  if isinstance(kernel, functools.partial):
    return name_of(kernel.func)
  return getattr(kernel, "__name__", type(kernel).__name__).lstrip("_")


def of_metric(metric: Any) -> Description | None:
  """The description of a metric, ours or a user's; None for what is no metric."""
  own = getattr(metric, "description", None)
  if isinstance(own, Description):
    return own
  try:
    return _BY_METRIC.get(metric)
  except TypeError:
    return None
