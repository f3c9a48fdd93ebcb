"""Functions of arrays `[..., n]` from kernels of one ranked query: checks, ranking, batching.

A metric or a loss is written once: a typed, documented function of scores and labels. `lifted`
keeps its signature and documentation, and runs its body for each query of a batch. Within the body,
`ranked_query(scores, labels, where, ranking)` is the query, ranked, and the other parameters have
been checked:

    @metric(depth="counts", seeks="any items", higher_is_better=False)
    def hole(scores, labels, *, where=None, k=None, ranking=Exact()):
      ranked = ranked_query(scores, labels, where, ranking)
      unjudged = ranked.retrieved & ~ranked.judged
      return safe_divide(ranked.expect(unjudged, discounts.constant, k=k), seen(ranked, k))

`apply_calls` serves them, and measures. A query with a NaN among the scores or labels of its valid
items, or among the numbers of the call, such as the temperature, gets the value NaN, with gradient
0, whatever the kernel returns. No rounding takes a value out of the range of its metric.
"""

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import config
from jaxrank._core import batching, checks
from jaxrank._core.arithmetic import floating
from jaxrank._core.batching import key_of_each_query, never_empty, over_queries
from jaxrank._core.description import (
  ANYTHING,
  RESERVED,
  SHARED,
  TRUTH,
  Depth,
  Description,
  Kind,
  name_of,
  of_metric,
  one_of,
  register,
)
from jaxrank._core.ranked import Ranked, Ranking, UnansweredError, deepest, depth_of


class Call(NamedTuple):
  """A kernel with its parameters.

  Attributes:
    description: The description of the kernel.
    parameters: The parameters by name, checked.
    depth: The largest rank that the kernel asks for, None for the whole list; "asked" if its
      description or its questions determine it.
    in_blocks: Whether blocks of queries save time: not if a kernel takes only a few passes.
    poisons: Whether the kernel itself answers a NaN among the scores or labels of valid items,
      which it then sees; the gradient is 0. Cross entropies take few passes: with one more for
      NaN, value and gradient of softmax [128, 200] take 1.4 times as long on a CPU.
  """

  description: Description
  parameters: Mapping[str, Any]
  depth: int | None | Literal["asked"] = "asked"
  in_blocks: bool = True
  poisons: bool = False


class Evaluated(NamedTuple):
  """The result of one call.

  Attributes:
    value: `[...]`, one value per query. A call that is not evaluated with others may have any
      pytree of such arrays.
    found: `[...]`, whether the query holds what the metric seeks; None unless `with_found`.
  """

  value: Any
  found: Array | None


class OfQuery:
  """What the lists and the ranking of a call are in the body of its function: one ranked query.

  Nothing can be computed with it but by `ranked_query`, and by the metrics that it is passed on to.

  Attributes:
    query: The ranked query.
    parameters: The parameters of the call by name, checked; arrays of items in the order of the
      query.
  """

  def __init__(self, query: Ranked, parameters: Mapping[str, Any]):
    self.query, self.parameters = query, parameters

  @property
  def lists(self) -> "Lists":
    """The lists of the query as arrays."""
    return self.query.scores, self.query.given_labels, self.query.where

  def value(self, call: Call) -> Any:
    """The value of the kernel of a call for the query; it need not be rounded to be affine."""
    about, query = call.description, self.query
    if about.subtopics != (query.labels.ndim > 1):
      takes = "[..., n, subtopics]" if about.subtopics else "[..., n]"
      raise ValueError(f"{about.name} takes labels {takes}, and those of the query are others.")
    extra = _of_each_query(call, query.where, query.labels)
    return about.kernel(query, **{**call.parameters, **extra})

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(name)
    raise TypeError(f"{name!r} is an attribute of no OfQuery.")

  def __eq__(self, other: object) -> bool:
    raise TypeError("OfQuery cannot be compared.")

  __hash__ = object.__hash__

  def __bool__(self) -> bool:
    raise TypeError("OfQuery is neither true nor false.")

  def __array__(self, *_: Any, **__: Any) -> Any:
    raise TypeError("OfQuery is no array.")

  def __repr__(self) -> str:
    return "the lists of a query"


def of_one_query(*lists: Any) -> OfQuery | None:
  """What stands for the lists of one query; None if they are arrays and a ranking.

  Raises:
    TypeError: if some stand for a query, and others do not.
  """
  one = next((x for x in lists if isinstance(x, OfQuery)), None)
  if one is not None and any(getattr(x, "query", None) is not one.query for x in lists):
    raise TypeError(
      "within the body of a metric, pass on scores, labels, where=where and ranking=ranking as "
      "they are; compute with what jaxrank.ranked_query returns."
    )
  return one


def apply_calls(
  calls: Sequence[Call],
  scores: Any,
  labels: Any,
  where: Any,
  ranking: Any,
  *,
  with_found: bool = False,
) -> list[Evaluated]:
  """Ranks every query once and evaluates all calls on it.

  Args:
    calls: Kernels with their parameters, all for labels of the same number of axes.
    scores: `[..., n]`.
    labels: `[..., n]`, or `[..., n, subtopics]`.
    where: `[..., n]`, False on padding, or None.
    ranking: How items are ordered.
    with_found: Whether to find out which queries hold what each metric seeks.

  Returns:
    One result per call.

  Raises:
    ValueError: if shapes differ, calls take labels of different numbers of axes, or the ranking
      cannot answer a question of a kernel.
    TypeError: if `ranking` is no ranking, or a dtype cannot be ranked.
  """
  one = of_one_query(scores, labels, where, ranking)
  if one is not None:
    return [Evaluated(one.value(call), None) for call in calls]
  check_ranking(ranking)
  # An array passes through `vmap` in a ranking, and has to be a number only here.
  with checks.named(type(ranking).__name__):
    checks.number("temperature", getattr(ranking, "temperature", 1.0))
  subtopics = _subtopics(calls)
  unmasked = where is None
  scores, labels, where = checks.lists(scores, labels, where, subtopics)
  unmasked = unmasked and scores.shape[-1] > 0
  extras = [_of_each_query(call, scores, labels) for call in calls]
  scores, labels, where, extras = never_empty(scores.ndim - 1, (scores, labels, where, extras))
  if subtopics:
    labels = never_empty(scores.ndim, labels)
  arrays, parameters = batching.split(_shared(calls))
  known = tuple((call.description, call.depth) for call in calls)
  items_per_block = config.items_per_block() if any(call.in_blocks for call in calls) else None
  poisons = all(call.poisons for call in calls)
  program = _Program(known, parameters, with_found, items_per_block, poisons)
  given = None if unmasked else where
  answer = _passing(program) if _is_passing(program) else functools.partial(_answer, program)
  evaluated: list[Evaluated] = answer(arrays, extras, ranking, scores, labels, given)
  return evaluated


def check_ranking(ranking: Any) -> None:
  """Raises `TypeError` unless `ranking` is one; the message says what to write for a class."""
  if isinstance(ranking, type) and issubclass(ranking, Ranking):
    name = ranking.__name__
    written = f"{name}({'' if name == 'Exact' else '1.0'})"
    raise TypeError(f"ranking must be a ranking, got the class {name}: write ranking={written}.")
  if not isinstance(ranking, Ranking):
    raise TypeError(
      f"ranking must be a jaxrank.Ranking such as Exact() or Laplace(1.0), got {ranking!r}."
    )


def _subtopics(calls: Sequence[Call]) -> bool:
  """Whether labels have an axis of subtopics."""
  names = {call.description.subtopics: call.description.name for call in reversed(calls)}
  if len(names) > 1:
    raise ValueError(
      f"{names[True]} takes labels [..., n, subtopics] and {names[False]} takes labels [..., n]: "
      "evaluate them in separate calls."
    )
  return True in names


def _of_each_query(call: Call, scores: Array, labels: Array) -> dict[str, Array]:
  """The parameters that have values for each item or subtopic, or for each query."""
  extra = {}
  for name, value in call.parameters.items():
    axis = call.description.kind(name).axis
    if axis is None or value is None:
      continue
    if axis == "subtopics":
      extra[name] = _for_each_query(name, value, scores, labels.shape[-1], "subtopic")
    elif axis == "queries":
      size = value.shape[-1] if value.ndim else 1
      extra[name] = _for_each_query(name, value, scores, size, "group")
    else:
      several = axis == "groups" and value.ndim == scores.ndim + 1
      checks.same_shape(name, value[..., 0] if several else value, "scores", scores)
      extra[name] = value
  return extra


def _for_each_query(name: str, x: Array, scores: Array, size: int, what: str) -> Array:
  """Numbers `[size]` or `[..., size]`, as `[..., size]` for scores `[..., n]`."""
  x = floating(x)
  shape = (*scores.shape[:-1], size)
  if x.shape == shape:
    return x
  if x.shape != shape[-1:]:
    raise ValueError(
      f"{name} must have one number per {what}, shape {shape[-1:]} or {shape}, got {x.shape}."
    )
  # Zeros that are laid out over devices as the queries are.
  nothing = jnp.sum(jnp.zeros_like(scores, x.dtype), axis=-1, keepdims=True)
  return nothing + x.reshape((1,) * (nothing.ndim - 1) + shape[-1:])


def _shared(calls: Sequence[Call]) -> list[dict[str, Any]]:
  """The parameters that all queries share."""
  return [
    {k: v for k, v in call.parameters.items() if v is None or not call.description.kind(k).axis}
    for call in calls
  ]


class _Program(NamedTuple):
  """The static arguments of a compiled program; it also depends on shapes and dtypes."""

  calls: tuple[tuple[Description, int | None | Literal["asked"]], ...]
  parameters: batching.Static
  with_found: bool
  items_per_block: int | None
  poisons: bool


def _answers(
  program: _Program,
  arrays: list[Any],
  extras: list[dict[str, Array]],
  ranking: Ranking,
  scores: Array,
  labels: Array,
  where: Array | None,
) -> list[Evaluated]:
  # A loop whose length follows from a number must not see a NaN.
  no_number, (arrays, ranking) = batching.without_nan((arrays, ranking))
  shared: list[dict[str, Any]] = batching.joined(arrays, program.parameters)

  def query(
    scores: Array,
    labels: Array,
    where: Array | None,
    extras: list[dict[str, Array]],
    key: Array | None,
  ) -> tuple[list[Any], list[Array]]:
    # Blocks of a mask of ones would be arrays like any other.
    where = checks.mask(where, scores)
    has_nan = where & (_isnan(scores) | _of_item(_isnan(labels)))
    known = where if program.poisons else where & ~has_nan
    scores, labels = (jnp.where(_column(known, x), x, jnp.zeros_like(x)) for x in (scores, labels))
    rank = ranking if key is None else ranking.with_key(key)
    ranked = rank(scores, labels, where, k=depth)
    ranked.shape = shape
    values, found = [], []
    for (about, _), parameters, extra in zip(program.calls, shared, extras, strict=True):
      parameters = parameters | _in_order(about, extra, ranked)
      with naming(about.name):
        values.append(about.value(ranked, parameters))
      if program.with_found:
        found.append(about.finds(ranked, parameters))
    answers = _scalars(program, values) if len(values) > 1 else values
    unknown = no_number if program.poisons else no_number | ranking.anywhere(has_nan)
    if unknown is not False:
      answers = jax.tree.map(functools.partial(nan_where, unknown), answers)
    return answers, found

  depth, shape = _depth(program, shared, extras, scores, labels, where), scores.shape
  if depth != 0:
    checks.not_split(scores)
  keys = key_of_each_query(ranking.key, scores)
  rows = batching.rows_on_cpu(scores.shape, program.items_per_block)
  if ranking.in_blocks and rows and not any(jax.typeof(scores).sharding.spec):
    # Under `jit` it is traced once, although two branches call it.
    queries = over_queries(jax.jit(query, inline=True), scores.ndim - 1)
    queries = functools.partial(batching.of_all_rows, function=queries, rows=rows)
  else:
    queries = over_queries(query, scores.ndim - 1)
  values, found = queries(scores, labels, where, extras, keys)
  return list(map(Evaluated, values, found or [None] * len(values)))


_answer = jax.jit(_answers, static_argnums=0)


# The last programs with functions that are made where they are used, such as a lambda in a call,
# which is another function at each call. JAX would keep thousands of programs, of some MB each.
@functools.lru_cache(maxsize=64)
def _passing(program: _Program) -> Callable[..., list[Evaluated]]:
  """`_answer` of a program, in a function of its own, with which the compiled program goes."""

  def answer(*args: Any) -> list[Evaluated]:
    return _answers(program, *args)

  return jax.jit(answer)


def _is_passing(program: _Program) -> bool:
  """Whether a function of the program was defined inside another one, and not by jaxrank."""
  functions = (*(about.kernel for about, _ in program.calls), *program.parameters.leaves)
  return any(
    "<" in getattr(getattr(x, "func", x), "__qualname__", "")
    and not getattr(x, "__module__", "").startswith("jaxrank.")
    for x in functions
  )


def _depth(
  program: _Program,
  shared: list[dict[str, Any]],
  extras: list[dict[str, Array]],
  scores: Array,
  labels: Array,
  where: Array | None,
) -> int | None:
  """The largest rank at which the kernels look; None for the whole list, 0 for no order."""
  depths: list[int | None] = []
  asked = []
  for (about, depth), parameters, extra in zip(program.calls, shared, extras, strict=True):
    if depth != "asked":
      depths.append(depth)
    elif about.depth is not None:
      depths.append(about.depth_for(parameters, scores.shape[-1]))
    else:
      asked.append((functools.partial(about.kernel, **parameters), extra))

  def of_query(
    scores: Array, labels: Array, where: Array | None, extras: list[dict[str, Array]]
  ) -> Array:
    where = checks.mask(where, scores)
    for (kernel, _), extra in zip(asked, extras, strict=True):
      depths.append(depth_of(functools.partial(kernel, **extra), scores, labels, where))
    return where

  if asked:
    each = over_queries(of_query, scores.ndim - 1)
    jax.eval_shape(each, scores, labels, where, [extra for _, extra in asked])
  return deepest(depths)


def _in_order(about: Description, extra: Mapping[str, Array], ranked: Ranked) -> dict[str, Array]:
  """Puts arrays of items in the order of the ranked query; the others stay as they are."""
  moving = {name for name in extra if about.kind(name).axis in ("items", "groups")}
  return {name: ranked.in_order(x) if name in moving else x for name, x in extra.items()}


def _scalars(program: _Program, values: list[Any]) -> list[Array]:
  """Raises `ValueError` unless each value is a scalar."""
  for (about, _), value in zip(program.calls, values, strict=True):
    if not isinstance(value, Array) or value.ndim:
      raise ValueError(
        f"{about.name} must have one value per query to be evaluated with others, got "
        f"{jax.tree.map(jnp.shape, value)}; call it alone."
      )
  return values


@contextlib.contextmanager
def naming(metric: str) -> Iterator[None]:
  """Puts the name of the metric in front of the message of an `UnansweredError`."""
  try:
    yield
  except UnansweredError as error:
    raise type(error)(f"{metric}: {error}") from None


def _of_item(mask: Array) -> Array:
  """`[n]`, whether a mask `[n]`, or one of `[n, subtopics]` for any subtopic, is True."""
  return jnp.any(mask, axis=-1) if mask.ndim > 1 else mask


def _column(mask: Array, like: Array) -> Array:
  return mask[:, None] if like.ndim > mask.ndim else mask


def nan_where(has_nan: Array | bool, x: Array) -> Array:
  """`x`, NaN for a query with a NaN; integers stay as they are."""
  return jnp.where(has_nan, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _isnan(x: Array) -> Array:
  return jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x, bool)


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
  one = of_one_query(*(x for x in (scores, labels, where, ranking) if x is not None))
  if one is not None:
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
  value: Array = about.value(given.query, about.completed(own))
  return value


class Body:
  """The kernel of a lifted function: its body, in which a query stands for the lists.

  It is equal to itself alone, because programs are compiled for the identity of kernels.
  """

  def __init__(self, function: Callable[..., Any], lists: Iterable[str], public: Any):
    functools.update_wrapper(self, function)
    self._function, self._lists, self._public = function, tuple(lists), public

  def __call__(self, query: Ranked, /, **parameters: Any) -> Any:
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
        ranked = "ranking" in takes.names
        query = of_one_query(*(arguments[x] for x in made if ranked or x in RESERVED))
        if query is not None and ranked:
          return query.value(one)
        if query is not None:  # Losses order items by rules of their own, in a body too.
          arguments |= zip(RESERVED, query.lists, strict=False)
        scores, labels, where = _applied(lists or _lists(takes), arguments)
        ranking = arguments["ranking"] if order is None else _applied(order, arguments)
        (evaluated,) = apply_calls([one], scores, labels, where, ranking)
      return evaluated.value if finish is None else finish(arguments, evaluated.value)

    public = cast(_Public, call)
    kernel = Body(function, made, public)
    description = Description(name_of(function), kernel, told | stated, public=public, **about)
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
    self.types = {p.name: _resolved(p.annotation, function) for p in takes}

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


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
  """An annotation, or what one in quotes stands for; None for what type checkers alone know."""
  if not isinstance(annotation, str):
    return annotation
  try:
    return eval(annotation, getattr(function, "__globals__", {}))
  except Exception:
    return None


def _example(kind: Kind, name: str) -> str:
  return "4" if kind.spelled is True else name


def _kind(takes: _Arguments, name: str) -> Kind | None:
  """The kind of a parameter by the words that its type allows, or by its name."""
  kind = takes.types.get(name)
  words = _words(kind)
  if any(words) and all(isinstance(word, str | None) for word in words):
    return one_of(*words)
  return TRUTH if kind is bool else SHARED.get(name)


def _words(kind: Any) -> tuple[Any, ...]:
  """What `Literal`, or a union of it and None, allows; empty for any other type."""
  if get_origin(kind) not in (Literal, Union, UnionType):
    return (None,) if kind is NoneType else ()
  parts = get_args(kind)
  if get_origin(kind) is Literal:
    return parts
  words = [*map(_words, parts)]
  return tuple(itertools.chain(*words)) if all(words) else ()


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
