"""Public functions of arrays `[..., n]` whose bodies are kernels of one ranked query.

A metric or a loss is written once: a typed, documented function of scores and labels. `lift` keeps
its signature and documentation, and runs its body for each query of a batch. Within the body,
`ranked_query(scores, labels, where, ranking)` is the query, ranked, and the other parameters have
been checked:

    @metric(depth="counts", seeks="any items", higher_is_better=False)
    def hole(scores, labels, *, where=None, k=None, ranking=Exact()):
      ranked = ranked_query(scores, labels, where, ranking)
      unjudged = ranked.retrieved & ~ranked.judged
      return safe_divide(ranked.expect(unjudged, discounts.constant, k=k), seen(ranked, k))
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import jax
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.apply import Call, OfQuery, apply_calls, check_ranking, of_one_query
from jaxrank._core.description import RESERVED, Depth, Description, of_metric, register
from jaxrank._core.parameters import ANYTHING, SHARED, TRUTH, Kind, one_of
from jaxrank._core.ranked import Ranked, Ranking

_Public = TypeVar("_Public", bound=Callable[..., Any])

# Scores, labels and mask.
Lists = tuple[Any, Any, Any]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def ranked_query(
  scores: ArrayLike | None = None,
  labels: ArrayLike | None = None,
  where: ArrayLike | None = None,
  ranking: Ranking | None = None,
) -> Ranked:
  """The ranked query with which the body of a metric computes, by the arguments of the metric.

  Elsewhere it ranks the lists of one query, so that the body of a metric may be tried by itself.

  >>> import jax.numpy as jnp
  >>> import jaxrank as jr
  >>> ranked = ranked_query(jnp.array([1.0, 3.0, 2.0]), jnp.array([1, 0, 2]), None, jr.Exact())
  >>> print(f"{ranked.expect(ranked.labels, jr.discounts.reciprocal):.5f}")
  1.33333

  Args:
    scores: `[n]`.
    labels: `[n]`, or `[n, subtopics]`; None if the metric takes none.
    where: `[n]`, False on padding, or None.
    ranking: How items are ordered; None if the metric takes none.

  Returns:
    The ranked query.

  Raises:
    TypeError: if the arguments are not those of one call, a dtype cannot be ranked, or `ranking` is
      no ranking.
    ValueError: if shapes differ, or are those of several queries.
  """
  if one := of_one_query(*(x for x in (scores, labels, where, ranking) if x is not None)):
    return one.query
  with checks.named("ranked_query"):
    check_ranking(ranking)
    rank: Any = ranking
    scores = checks.array("scores", scores)
    if scores.ndim > 1:
      raise ValueError(f"scores must be those of one query, [n], got shape {scores.shape}.")
    labels = checks.no_labels(scores) if labels is None else checks.array("labels", labels)
    scores, labels, where = checks.lists(scores, labels, where, labels.ndim > 1)
  ranked: Ranked = rank(scores, labels, where)
  return ranked


def value_of(metric: Callable[..., Array], scores: ArrayLike) -> Array:
  """The value of a metric of the library for the query for which `scores` stand.

  Parameters that both metrics have are those of the call; the others have their defaults.
  """
  about = of_metric(metric)
  given: Any = scores
  assert about is not None
  takes = about.signature.parameters
  own = {name: value for name, value in given.parameters.items() if name in takes}
  value: Array = metric(scores, scores, where=scores, ranking=scores, **own)
  return value


class Body:
  """The kernel of a lifted function: its body, in which a query stands for the lists.

  It is equal to itself alone, because programs are compiled for the identity of kernels.
  """

  def __init__(self, function: Callable[..., Any], lists: Iterable[str], public: Any):
    functools.update_wrapper(self, function)
    self._function, self._lists, self._public = function, tuple(lists), public

  def __call__(self, query: Ranked, **parameters: Any) -> Any:
    given = OfQuery(query, parameters)
    try:
      return self._function(**dict.fromkeys(self._lists, given), **parameters)
    except TypeError as error:
      if OfQuery.__name__ not in str(error):
        raise
      raise TypeError(
        f"the body of {self._function.__name__} computes with its arguments: let it begin with "
        "ranked = jaxrank.ranked_query(scores, labels, where, ranking), and compute with "
        "ranked.scores, ranked.labels and ranked.where."
      ) from error

  def __reduce__(self) -> Any:
    return _body_of, (self._public,)


def _body_of(public: Any) -> Any:
  return public.description.kernel


def lifted(
  *,
  lists: Callable[..., Lists] | None = None,
  order: Callable[..., Ranking] | None = None,
  stands_for: Iterable[str] = (),
  finish: Callable[[Mapping[str, Any], Any], Any] | None = None,
  settings: Mapping[str, Any] | None = None,
  kinds: Mapping[str, Kind] | None = None,
  attach: Callable[[Any, Description], None] | None = None,
  **about: Any,
) -> Callable[[_Public], _Public]:
  """A decorator: a typed function whose body is a kernel becomes one of arrays `[..., n]`.

  Args:
    lists: `lists(...)`, of the arguments that it takes, to scores, labels and mask. By default
      these are the arguments of those names; the labels of a function without any are 0.
    order: `order(...)`, of the arguments that it takes, to a ranking; by default the argument
      `ranking`.
    stands_for: The other parameters of which lists and ranking are made, and which the kernel does
      not see.
    finish: `finish(arguments, value)`, to the result.
    settings: Those of `apply.Call`.
    kinds: The kinds of parameters, beside those that names and types tell.
    attach: Keeps the description of the function.
    **about: Attributes of `Description`, and other kinds of parameters by their names.

  Returns:
    The decorator. The wrapped function of what it returns is the given one.
  """
  stated = dict(kinds or {})
  stated |= {name: about.pop(name) for name in [*about] if isinstance(about[name], Kind)}

  def lift(function: _Public) -> _Public:
    takes = _Arguments(function)
    made = (*(name for name in takes.names if name in RESERVED), *stands_for)
    own = [name for name in takes.names if name not in made]
    told = {name: kind for name in own if (kind := _kind(takes, name)) is not None}

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
      arguments = takes.bound(args, given, description)
      parameters = {name: arguments[name] for name in own}
      with checks.named(description.name):
        one = Call(description, description.checked(parameters), **(settings or {}))
        query = of_one_query(*(arguments[name] for name in made))
        if query is not None:
          return query.value(one)
        scores, labels, where = _applied(lists or _lists(takes), arguments)
        ranking = arguments["ranking"] if order is None else _applied(order, arguments)
        (evaluated,) = apply_calls([one], scores, labels, where, ranking)
      return evaluated.value if finish is None else finish(arguments, evaluated.value)

    public = cast(_Public, call)
    kernel = Body(function, made, public)
    description = Description(function.__name__, kernel, told | stated, public=public, **about)
    if attach is not None:
      attach(public, description)
    return public

  return lift


def _lists(takes: "_Arguments") -> Callable[..., Lists]:
  """The lists of a function that takes them as they are."""
  return _labelled if "labels" in takes.names else _unlabelled


def _labelled(scores: Any, labels: Any, where: Any) -> Lists:
  return scores, labels, where


def _unlabelled(scores: Any, where: Any) -> Lists:
  return scores, checks.no_labels(scores), where


def _applied(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
  """The result of a function for those of the arguments that it takes."""
  return function(**{name: arguments[name] for name in _names(function)})


@functools.cache
def _names(function: Callable[..., Any]) -> tuple[str, ...]:
  return tuple(inspect.signature(function).parameters)


def as_long_as_the_lists(arguments: Mapping[str, Any], value: Any, axes: int = 1) -> Any:
  """A `finish` for arrays whose last axes have an entry for each item: empty ones for empty lists.

  It is the inverse of `batching.never_empty`.
  """
  lists = arguments.get("scores", arguments.get("labels"))
  return jax.tree.map(lambda x: batching.as_empty_as(lists, x, axes), value)


class _Arguments:
  """The arguments that a function takes, by position or by name, with its defaults."""

  def __init__(self, function: Callable[..., Any]):
    self.signature = inspect.signature(function)
    takes = self.signature.parameters.values()
    self.names = tuple(p.name for p in takes)
    self.all = set(self.names)
    self.arrays = tuple(p.name for p in takes if p.kind is not _KEYWORD)
    self.defaults = {p.name: p.default for p in takes if p.default is not p.empty}
    try:
      self.types = inspect.get_annotations(function, eval_str=True)
    except (NameError, TypeError):
      # Annotations in quotes may name what is imported for type checkers alone.
      self.types = {}

  def bound(
    self, args: tuple[Any, ...], given: dict[str, Any], about: Description
  ) -> dict[str, Any]:
    """All arguments by name."""
    first = dict(zip(self.arrays, args, strict=False))
    arguments = {**self.defaults, **first, **given}
    if len(first) < len(args) or first.keys() & given.keys() or arguments.keys() != self.all:
      raise TypeError(self._fault(args, given, about))
    return arguments

  def _fault(self, args: tuple[Any, ...], given: dict[str, Any], about: Description) -> str:
    own = [name for name in self.names if name not in self.arrays and name not in RESERVED]
    required = [name for name in own if name not in self.defaults]
    # The lists may be made of a parameter, which the description then does not have.
    kinds = {name: about.parameters.get(name) or SHARED.get(name, ANYTHING) for name in required}
    write = ", ".join([*self.arrays, *(f"{x}={_example(kinds[x], x)}" for x in required)])
    for name in given:
      if name not in self.names:
        return f"{about.name} does not take {name!r}; it takes {', '.join(own) or 'no parameters'}."
    for name in required:
      if name not in given and len(args) == len(self.arrays):
        meaning = kinds[name].meaning
        return f"{about.name} needs {name}, {meaning}: write {about.name}({write})."
    try:
      self.signature.bind(*args, **given)
    except TypeError as error:
      return f"{about.name}: {error}; write {about.name}({write})."
    raise AssertionError


def _example(kind: Kind, name: str) -> str:
  return "4" if kind.spelled is True else name


def _kind(takes: _Arguments, name: str) -> Kind | None:
  """The kind of a parameter by the words that its type allows, or by its name."""
  kind = takes.types.get(name)
  words = get_args(kind)
  if get_origin(kind) is Literal and all(isinstance(word, str) for word in words):
    return one_of(*words)
  return TRUTH if kind is bool else SHARED.get(name)


def metric(
  *, range: tuple[float, float] = (0.0, 1.0), depth: Depth | None = "cutoff", **about: Any
) -> Callable[[_Public], _Public]:
  """A decorator: a typed function whose body is a kernel becomes a metric of the library.

  Args:
    range: That of `Description`.
    depth: That of `Description`.
    **about: The other arguments of `lifted`.

  Returns:
    The decorator.
  """
  return lifted(attach=register, range=range, depth=depth, **about)
