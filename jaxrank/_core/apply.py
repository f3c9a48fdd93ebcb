"""Applies kernels of one ranked query to arrays `[..., n]`: checks, ranking, batching.

Public functions are lifted (`jaxrank._core.lifting`), and measures call `apply_calls`.
A query with a NaN among the scores or labels of its valid items, or among the numbers of the call,
such as the temperature, gets the value NaN, with gradient 0, whatever the kernel returns. No
rounding takes a value out of the range of its metric.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrank import config
from jaxrank._core import batching, checks, recorder
from jaxrank._core.arithmetic import floating
from jaxrank._core.batching import key_of_each_query, never_empty, over_queries
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranked, Ranking, UnansweredError


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
  """What stands for the lists and the ranking of a call within the body of a lifted function.

  Attributes:
    query: The ranked query.
    parameters: The parameters of the call by name, checked; arrays of items in the order of the
      query.
  """

  def __init__(self, query: Ranked, parameters: Mapping[str, Any]):
    self.query, self.parameters = query, parameters

  @property
  def shape(self) -> tuple[int, ...]:
    """The shape `[..., n]` of the scores of the whole call."""
    return self.query.shape

  def value(self, call: Call) -> Any:
    """The value of a call for the query."""
    about, parameters = call.description, call.parameters
    return about.rounded(about.kernel(self.query, **parameters), parameters)

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
  if one := of_one_query(scores, labels, where, ranking):
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
        values.append(about.rounded(about.kernel(ranked, **parameters), parameters))
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
      depths.append(recorder.depth_of(functools.partial(kernel, **extra), scores, labels, where))
    return where

  if asked:
    each = over_queries(of_query, scores.ndim - 1)
    jax.eval_shape(each, scores, labels, where, [extra for _, extra in asked])
  return recorder.deepest(depths)


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
