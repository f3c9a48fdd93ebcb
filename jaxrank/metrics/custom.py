"""User-defined metrics: `metric` makes a metric from a kernel of one ranked query."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Protocol, TypedDict, TypeVar, Unpack, overload

from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Aggregation, told
from jaxrank._core import checks
from jaxrank._core._jax import is_traced
from jaxrank._core.apply import Call, apply_calls, lifted
from jaxrank._core.checks import named
from jaxrank._core.description import (
  CONTRACT,
  RESERVED,
  UNBOUNDED,
  Depth,
  Description,
  Kernel,
  Kind,
  Seeks,
  Sought,
  attach,
  name_of,
  of_metric,
)
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank.rankings.exact import Exact

_Public = TypeVar("_Public", bound=Callable[..., Any])


class Metric:
  """A metric that `metric` made: a function of arrays with a description.

  Attributes:
    description: The description of the metric.
  """

  def __init__(self, description: Description):
    kernel: Any = description.kernel
    self.description = description
    self.__name__ = description.name
    self.__doc__ = kernel.__doc__
    self.__module__ = getattr(kernel, "__module__", __name__)

  def __call__(
    self,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    ranking: Ranking = Exact(),
    **parameters: Any,
  ) -> Array:
    """The values of all queries.

    Args:
      scores: `[..., n]`.
      labels: `[..., n]`, or `[..., n, subtopics]` if the description says so.
      where: `[..., n]`, False on padding.
      ranking: Exact or smooth.
      **parameters: The parameters of the kernel.

    Returns:
      `[...]`, one value per query.

    Raises:
      TypeError: if a parameter is unknown or missing, or a dtype cannot be ranked.
      ValueError: if shapes differ, or the ranking cannot answer what the kernel asks.
    """
    # The names of parameters are checked first: those messages name the metric themselves.
    given = self.description.completed(parameters)
    with checks.named(self.description.name):
      call = Call(self.description, self.description.checked(given))
      (evaluated,) = apply_calls([call], scores, labels, where, ranking)
    value: Array = evaluated.value
    return value

  def __repr__(self) -> str:
    return f"<metric {self.description.name}>"

  def __reduce__(self) -> Any:
    # As a decorator, `metric` takes the name of the kernel, which then pickles as this object.
    name = getattr(self.description.kernel, "__qualname__", "")
    if getattr(sys.modules.get(self.__module__), name, None) is self:
      return name
    return Metric, (self.description,)


class Settings(TypedDict, total=False):
  """The keywords of `metric`, for type checkers."""

  seeks: Sought | Seeks
  higher_is_better: bool
  range: tuple[float, float]
  subtopics: bool
  depth: Depth | None
  best: float | None
  checks: Mapping[str, Callable[[Any], None]] | None
  aggregation: Aggregation
  departs: Mapping[str, str] | None


class Decorator(Protocol):
  """What `metric` returns without a kernel, for type checkers."""

  @overload
  def __call__(self, kernel: Callable[Concatenate[Ranked, ...], Any], /) -> Metric: ...
  @overload
  def __call__(self, kernel: _Public, /) -> _Public: ...


@overload
def metric(
  kernel: Callable[Concatenate[Ranked, ...], Any], **about: Unpack[Settings]
) -> Metric: ...
@overload
def metric(kernel: _Public, **about: Unpack[Settings]) -> _Public: ...
@overload
def metric(**about: Unpack[Settings]) -> Decorator: ...
def metric(
  kernel: Kernel | None = None,
  *,
  seeks: Sought | Seeks = "relevant items",
  higher_is_better: bool = True,
  range: tuple[float, float] = UNBOUNDED,
  subtopics: bool = False,
  depth: Depth | None = None,
  best: float | None = None,
  checks: Mapping[str, Callable[[Any], None]] | None = None,
  aggregation: Aggregation = "mean",
  departs: Mapping[str, str] | None = None,
) -> Any:
  """Makes a metric from a kernel of one ranked query; also a decorator, with or without arguments.

  The metric is a function of `(scores, labels, *, where=None, ranking=Exact(), **parameters)`. It
  can be used wherever the metrics of the library can: in `evaluate`, `Evaluator`, `chance` and
  `class_labels`, in `losses.lambda_rank` if the kernel is affine, and under smooth rankings that
  answer its questions.

  >>> import jax.numpy as jnp
  >>> import jaxrank as jr
  >>> @jr.metric
  ... def inverse_rank(ranked, *, k=None, rel=None):
  ...   '''The sum of 1 / r over the relevant items.'''
  ...   return ranked.expect(ranked.relevant(rel), jr.discounts.reciprocal, k=k)
  >>> print(f"{inverse_rank(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  1.33333

  A function that is written with all arguments of the metric, as those of the library are, keeps
  its signature, its types and its documentation. Its body is the kernel, which starts with
  `jaxrank.ranked_query`. Metrics that it calls with the same lists have their values for the query.

  >>> @jr.metric
  ... def rank_sum(scores, labels, *, where=None, k=None, ranking=jr.Exact()):
  ...   '''The sum of the ranks of the relevant items.'''
  ...   ranked = jr.ranked_query(scores, labels, where, ranking)
  ...   return ranked.expect(ranked.relevant(), lambda rank: rank, k=k)
  >>> print(f"{rank_sum(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.1f}")
  4.0

  Args:
    kernel: `kernel(ranked, **parameters)` of a `jaxrank.Ranked`, to a scalar; or a function
      `(scores, labels, *, where=None, ranking=Exact(), **parameters)`. The parameter `k` is the
      cut-off; `weights` has one number for each item, in the order of the ranked query. Programs
      are compiled for the identity of the kernel.
    seeks: What a query must hold to count as not empty, for the policies of `Evaluator`: one of
      these words, or a function of the ranked query and the parameters that returns a boolean.
    higher_is_better: Whether larger values are better.
    range: The least and the largest value. A value that exceeds an end by at most 128 units of
      rounding, 1.5e-5 of the end in float32, or of 1 for an end of 0, becomes the end, with the
      derivative that it has: 8 units with `weights` or a `gain` of one's own. `check_metric` tests
      that no value exceeds an end by more.
    subtopics: Whether labels are `[..., n, subtopics]`.
    depth: How deep the kernel looks. By default the library runs the kernel once to see for which
      ranks it asks. A kernel that reads `ranked.keys` or `ranked.scores` itself says `"all"`, for
      the whole list, or `"none"`, if it needs no order; `"cutoff"` is down to `k`, and the whole
      list without one.
    best: The best value, if values on both sides of it are worse, as for a ratio that should be 1.
    checks: Functions by the name of a parameter, which raise `TypeError` or `ValueError` for a
      value that is not allowed. They are called with concrete values only, never with traced ones.
    aggregation: How `Evaluator` makes one number of the values of many queries: "mean"; "sum", as
      of counts; "exp_mean", the exponential of the mean, which for values that are logarithms is a
      geometric mean.
    departs: The laws that the metric does not obey on purpose, and `jaxrank.testing.check_metric`
      leaves out: the reason by the name of the law.

  Returns:
    The metric, which pickles if the kernel does: a `Metric`, or a function with the signature of
      the one that was given.

  Raises:
    TypeError: if the kernel is no function, takes `*args` or `**kwargs`, has no parameter of a name
      in `checks`, or has one with a reserved name: `scores`, `labels`, `where`, `ranking`, `name`;
      or if a function of scores lacks one of the other arguments of a metric.
    ValueError: if `seeks`, `depth` or `aggregation` is not one of the words, or the ends of `range`
      are in the other order.
  """
  if kernel is None:
    return functools.partial(
      metric,
      seeks=seeks,
      higher_is_better=higher_is_better,
      range=range,
      subtopics=subtopics,
      depth=depth,
      best=best,
      checks=checks,
      aggregation=aggregation,
      departs=departs,
    )
  _check_kernel(kernel)
  _check_settings(higher_is_better, range, subtopics, best, departs)
  if checks is not None and not isinstance(checks, Mapping):
    raise TypeError(
      f"metric: checks must be functions by the name of a parameter, got {told(checks)}."
    )
  kinds = {name: _kind(name, check) for name, check in (checks or {}).items()}
  name, takes = name_of(kernel), inspect.signature(kernel).parameters
  whole = [*takes][:1] == ["scores"] or {"scores", "labels"} <= takes.keys()
  _check_parameters(name, kernel, takes, whole)
  facts: dict[str, Any] = {
    "seeks": seeks,
    "higher_is_better": higher_is_better,
    "range": range,
    "subtopics": subtopics,
    "depth": depth,
    "best": best,
    "aggregation": aggregation,
    "departs": departs or {},
  }
  with named("metric"):
    if whole:
      return lifted(attach=attach, kinds=kinds, **facts)(kernel)
    return Metric(Description(name, kernel, kinds, **facts))


def _check_parameters(
  name: str, kernel: Kernel, takes: Mapping[str, inspect.Parameter], whole: bool
) -> None:
  """Raises `TypeError` for parameters that a kernel, or the whole function of a metric, lacks."""
  if of_metric(kernel) is not None:
    raise TypeError(f"metric: {name} is a metric already; write a function that calls it.")
  for parameter in takes.values():
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
      raise TypeError(
        f"metric: the kernel {name} takes {parameter}; name its parameters one by one, because "
        "measures are told apart and checked by them."
      )
    if parameter.kind is parameter.POSITIONAL_ONLY and (whole or parameter.name in RESERVED):
      raise TypeError(
        f"metric: the kernel {name} takes {parameter.name} by position alone; leave out the slash."
      )
    if parameter.name in (("name",) if whole else RESERVED):
      raise TypeError(
        f"metric: the kernel {name} has a parameter {parameter.name!r}, which is an argument of "
        "every metric or measure; give it another name."
      )
  if whole:
    _check_function(name, kernel, takes)


def _check_function(name: str, kernel: Kernel, takes: Mapping[str, inspect.Parameter]) -> None:
  """Raises `TypeError` unless a function of scores takes all arguments of a metric."""
  write = (
    f"write def {name}(scores, labels, *, where=None, ranking=jaxrank.Exact()), and its parameters "
    "after the star."
  )
  if not inspect.isfunction(kernel):
    raise TypeError(f"metric: {name} takes scores and is no plain function: {write}")
  missing = [x for x in ("labels", "where", "ranking") if x not in takes]
  if missing:
    raise TypeError(
      f"metric: the function {name} of scores has no parameter {missing[0]!r}: {write}"
    )
  if [*takes][:2] != ["scores", "labels"]:
    raise TypeError(f"metric: the function {name} begins with {[*takes][0]!r}: {write}")
  for argument, default in (("where", None), ("ranking", Exact())):
    if takes[argument].default != default:
      raise TypeError(f"metric: {name} has another default of {argument} than metrics: {write}")


def _check_kernel(kernel: Any) -> None:
  checks.function("metric: kernel", kernel, "a function of one ranked query")


def _check_settings(
  higher_is_better: Any, range: Any, subtopics: Any, best: Any, departs: Any
) -> None:
  with named("metric"):
    checks.true_or_false("higher_is_better", higher_is_better)
    checks.true_or_false("subtopics", subtopics)
    if not isinstance(range, tuple | list) or len(range) != 2:
      raise TypeError(f"range must be (least, largest), got {told(range)}.")
    for end in range:
      checks.number("the ends of range", end)
    if not range[0] <= range[1]:
      raise ValueError(f"range must be (least, largest), got {told(range)}.")
    if best is not None:
      checks.number("best", best)
    if departs is not None and not isinstance(departs, Mapping):
      raise TypeError(f"departs must have reasons by the name of a law, got {told(departs)}.")


class _Check:
  """Applies a check of the user to a concrete value, and returns the value."""

  def __init__(self, check: Callable[[Any], None]):
    self.check = check

  def __call__(self, name: str, value: Any) -> Any:
    del name
    # A traced number has no value to check.
    if not is_traced(value):
      self.check(value)
    return value


def _kind(name: str, check: Callable[[Any], None]) -> Kind:
  kind = CONTRACT.get(name)
  return Kind("a value that its check allows", _Check(check), axis=kind.axis if kind else None)
