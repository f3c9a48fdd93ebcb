"""The one wrapper of every metric: check, rank, ask, and leave NaN where NaN came in."""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._core import arithmetic, batching, checks
from jaxrank._core.types import Ranking
from jaxrank.rankings.exact import Exact

# The parameters with the leading axes of the scores.
_OF_QUERIES = ("weights", "intents")

# What raises if a parameter of this name is wrong.
_CHECKS: Mapping[str, Callable[[str, Any], None]] = {
  "adaptive_k": checks.flag,
  "alpha": checks.share,
  "beta": checks.number,
  "level": checks.number,
  "max_label": checks.grade,
  "persistence": checks.number,
  "rel": checks.threshold,
}

# A core's caches hold a few arrays of so many items; half as many make it wait for the others.
_ITEMS_PER_CORE = 1 << 17


class Question(NamedTuple):
  """A kernel of one ranked query with its parameters.

  Attributes:
    kernel: `kernel(ranked, **parameters)`, for one query.
    parameters: What the caller gave.
    depth: The largest rank asked for; None for all, 0 if no order is needed.
  """

  kernel: Callable[..., Any]
  parameters: Mapping[str, Any]
  depth: int | None


def metric(
  kernel: Callable[..., Any] | None = None, *, sorts: str = "k", subtopics: bool = False
) -> Any:
  """Makes a function of arrays `[..., n]` from a kernel of one ranked query.

  Args:
    kernel: `kernel(ranked, **parameters)`.
    sorts: How deep the kernel looks: `"k"`, `"all"`, or `"none"` if it only counts.
    subtopics: Whether labels are `[..., n, s]`. Then it is `kernel(ranked, labels, **parameters)`
      with labels `[n, s]` in the order of the input, -1 under the mask; the items of the ranking
      are labelled by their sums.
  """
  if kernel is None:
    return functools.partial(metric, sorts=sorts, subtopics=subtopics)
  own = list(inspect.signature(kernel).parameters.values())[2 if subtopics else 1 :]
  signature = _public_signature(own)

  @functools.wraps(kernel)
  def public(*args, **kwargs):
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    scores, labels, where, ranking = map(
      given.arguments.pop, ("scores", "labels", "where", "ranking")
    )
    return ask([question(given.arguments)], scores, labels, where, ranking, subtopics)[0]

  def question(parameters: Mapping[str, Any]) -> Question:
    parameters = dict(parameters)
    for name in ("k", "max_k"):
      if name in parameters:
        parameters[name] = checks.cutoff(parameters[name], name)
    for name, value in parameters.items():
      if name in _CHECKS:
        _CHECKS[name](name, value)
    k = parameters.get("k")
    depth = {"k": k if isinstance(k, int) else None, "all": None, "none": 0}[sorts]
    return Question(kernel, parameters, depth)

  vars(public).update(__signature__=signature, question=question)
  return public


def _public_signature(own: list[inspect.Parameter]) -> inspect.Signature:
  def keyword(name, default, annotation):
    return inspect.Parameter(
      name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )

  positional = [
    inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ArrayLike)
    for name in ("scores", "labels")
  ]
  where = keyword("where", None, ArrayLike | None)
  ranking = keyword("ranking", Exact(), Ranking)
  return inspect.Signature([*positional, where, *own, ranking], return_annotation=Any)


def ask(
  questions: list[Question],
  scores: Any,
  labels: Any,
  where: Any,
  ranking: Ranking,
  subtopics: bool = False,
) -> list[Any]:
  """Ranks every query once and answers all questions, as arrays `[...]`."""
  checks.function("ranking", ranking, "one such as Exact() or Logistic(1.0)")
  with _width(scores) as narrow:
    scores, labels, where = checks.lists(scores, labels, where, subtopics)
    arrays, plain, tree = _split([question.parameters for question in questions])
    own = [_own(question.parameters, scores, labels) for question in questions]
    scores, labels, where, own = _never_empty(scores.ndim - 1, (scores, labels, where, own))
    if subtopics:
      labels = _never_empty(scores.ndim, labels)
    kernels = tuple(question.kernel for question in questions)
    depths = [question.depth for question in questions]
    depth = max((d for d in depths if d is not None), default=0) if None not in depths else None
    if depth != 0:
      checks.whole(scores)
    spec = (kernels, plain, tree, depth)
    return narrow(_answer(spec, arrays, own, ranking, scores, labels, where))


def _own(parameters: Mapping[str, Any], scores: Array, labels: Array) -> dict[str, Array]:
  """What a question says of each item or subtopic of each query."""
  own = {}
  if parameters.get("weights") is not None:
    own["weights"] = checks.array("weights", parameters["weights"])
    checks.same_shape("weights", own["weights"], "scores", scores)
  if parameters.get("intents") is not None:
    own["intents"] = _intents(parameters["intents"], labels)
  return own


def _intents(intents: Any, labels: Array) -> Array:
  """One number a subtopic of labels `[..., n, s]`, as `[..., s]`."""
  intents = arithmetic.floating(checks.array("intents", intents))
  shape = (*labels.shape[:-2], labels.shape[-1])
  if intents.shape == shape:
    return intents
  if intents.shape != shape[-1:]:
    raise ValueError(
      f"intents must have one number a subtopic, shape {shape[-1:]} or {shape}, got "
      f"{intents.shape}."
    )
  # Laid out over devices as the queries are.
  nothing = jnp.sum(jnp.zeros_like(labels[..., :1, :], intents.dtype), axis=-2)
  return nothing + intents.reshape((1,) * (nothing.ndim - 1) + shape[-1:])


def _never_empty(axis: int, arrays: Any) -> Any:
  """The same arrays with one element along an axis of none."""

  def padded(x):
    return jnp.pad(x, [(0, i == axis) for i in range(x.ndim)]) if x.shape[axis] == 0 else x

  return jax.tree.map(padded, arrays)


def _split(parameters: list[Mapping[str, Any]]) -> tuple[list[Any], tuple[Any, ...], Any]:
  """Separates numbers and arrays, which may be traced, from what must be known now."""
  parameters = [{k: v for k, v in p.items() if k not in _OF_QUERIES} for p in parameters]
  leaves, tree = jax.tree.flatten(parameters)
  traced = [isinstance(x, float | Array | np.ndarray | np.number) for x in leaves]
  arrays = [x for x, t in zip(leaves, traced, strict=True) if t]
  plain = tuple(_Traced if t else x for x, t in zip(leaves, traced, strict=True))
  return arrays, plain, tree


class _Traced:
  """Stands for an array among the static parameters."""


@functools.partial(jax.jit, static_argnums=0)
def _answer(spec, arrays, own, ranking, scores, labels, where):
  kernels, plain, tree, depth = spec
  arrays = iter(arrays)
  parameters = jax.tree.unflatten(tree, [next(arrays) if x is _Traced else x for x in plain])

  def query(scores, labels, where, own, key):
    judged = arithmetic.floating(labels) if labels.ndim > 1 else None
    if judged is not None:
      labels = jnp.sum(gains.linear(judged), axis=-1)
    spoiled = where & (_isnan(scores) | _isnan(labels))
    kept = where & ~spoiled
    scores, labels = (jnp.where(kept, x, jnp.zeros_like(x)) for x in (scores, labels))
    rank = ranking if key is None else ranking.with_key(key)
    ranked = rank(scores, labels, where, k=depth)
    judgements = () if judged is None else (jnp.where(kept[:, None], judged, -1),)
    values = [
      kernel(ranked, *judgements, **given, **extra)
      for kernel, given, extra in zip(kernels, parameters, own, strict=True)
    ]
    answers = jnp.stack(values) if together else values
    return jax.tree.map(functools.partial(_spoil, anywhere(spoiled)), answers)

  # Only the values of a lone question may be more than a scalar.
  together = len(kernels) > 1
  anywhere = getattr(ranking, "any", jnp.any)
  keys = keys_of_queries(getattr(ranking, "key", None), where)
  queries = batching.over_queries(query, scores.ndim - 1)
  if scores.ndim > 1 and isinstance(ranking, Exact):
    queries = batching.in_blocks(queries, _rows(scores))
  values = queries(scores, labels, where, own, keys)
  return [values[..., i] for i in range(len(kernels))] if together else values


def _rows(scores: Array) -> int:
  """So much of the batch at a time that all work on it stays in the caches of a CPU.

  Elsewhere, and where devices may share the batch, all of it.
  """
  shared = jax.device_count() > 1 or any(jax.typeof(scores).sharding.spec)
  if shared or jax.default_backend() != "cpu":
    return scores.shape[0]
  return max(1, (os.cpu_count() or 1) * _ITEMS_PER_CORE * scores.shape[0] // max(1, scores.size))


def _spoil(spoiled: Array, x: Array) -> Array:
  return jnp.where(spoiled, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _isnan(x: Array) -> Array:
  return jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x, bool)


def keys_of_queries(key: Array | None, where: Array) -> Array | None:
  """One key a query, by its place in the batch."""
  if key is None or where.ndim == 1:
    return key
  query = jnp.zeros_like(where[..., 0], jnp.uint32)
  stride = 1
  for axis in reversed(range(query.ndim)):
    sharding = jax.typeof(query).sharding
    query += stride * jax.lax.broadcasted_iota(jnp.uint32, query.shape, axis, out_sharding=sharding)
    stride *= query.shape[axis]
  return batching.over_queries(functools.partial(jax.random.fold_in, key), query.ndim)(query)


@contextlib.contextmanager
def _width(scores: Any):
  """Keeps numpy scores of 64 bits exact where JAX would make them 32; values stay float32."""
  wide = isinstance(scores, np.ndarray) and scores.dtype in (np.float64, np.int64, np.uint64)
  if not wide or jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
    yield lambda values: values
    return
  with jax.enable_x64(True):
    yield lambda values: jax.tree.map(_single, values)


def _single(x: Array) -> Array:
  return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
