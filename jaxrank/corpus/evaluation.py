"""Metrics of many positives of each query among a whole corpus of items."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Cutoff
from jaxrank._core import batching, checks, platforms, sorting
from jaxrank._core.apply import Call, naming, nan_where
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking
from jaxrank.corpus import _inputs, _smooth, _standing, _streamed, _sweep, search
from jaxrank.corpus._inputs import NONE, Inputs, Progress
from jaxrank.corpus.similarity import Similarity, dtype_of, finite_vectors
from jaxrank.measures import scales
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measure, Measures
from jaxrank.rankings.counted import (
  AtCutoff,
  CountedQuery,
  SmoothCountedQuery,
  Standing,
)
from jaxrank.rankings.exact import Exact
from jaxrank.rankings.expected_rank import (
  Laplace,
  LaplaceQuery,
  Logistic,
  LogisticQuery,
  SmoothRanking,
)


@checks.written("corpus.evaluate('nDCG@10', queries, items, positives)")
def evaluate(
  measures: Measures,
  queries: Any,
  items: Any,
  positives: ArrayLike,
  *,
  labels: ArrayLike | None = None,
  exclude: ArrayLike | None = None,
  similarity: Similarity = "dot",
  chunk: int = 8192,
  axis_name: str | None = None,
  ranking: Ranking = Exact(),
  progress: Progress | None = None,
) -> dict[str, Array]:
  """Metrics of the positives of each query among all items.

  The values are those of `jaxrank.evaluate` on the scores of all items that are not excluded, with
  the labels of the positives and label 0 for every other item; tied items are averaged over. They
  follow from the numbers of items above each positive and of those that tie with it.

  Under `ranking=jaxrank.Laplace(t)` or `Logistic(t)` the values are smooth, and have derivatives of
  reverse mode, and second ones of forward mode over it, in the queries, the items, the temperature,
  and the parameters of the similarity and of the measures: `1 - value` is a loss. The expected
  ranks of the positives are sums over chunks, which the backward pass computes again, so that no
  more than the scores of a chunk are stored. A cut-off takes some ten more passes over the items.
  With `axis_name`, these gradients need `check_vma=True`, the default of `jax.shard_map`; values,
  and the gradients in the labels under `Exact()`, do not.

  >>> items = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
  >>> queries = jnp.array([[2.0, 1.0], [0.0, 1.0]])
  >>> values = evaluate("nDCG RR R@2", queries, items, jnp.array([[2, 0], [1, -1]]))
  >>> for name, value in values.items():
  ...   print(name, *(f"{x:.4f}" for x in value))
  nDCG 0.8066 0.7103
  RR 0.7500 0.6111
  R@2 0.5000 0.6667

  The values stream into an evaluator of the same measures:

  >>> from jaxrank import Evaluator
  >>> evaluator = Evaluator("nDCG RR R@2")
  >>> state = evaluator.add(evaluator.init(), values)
  >>> print(f"{evaluator.compute(state)['nDCG']:.3f}")
  0.758

  See `jaxrank.corpus` for the arguments that all searches share.

  Args:
    measures: Names, metrics and measures, as `jaxrank.evaluate` takes them. Those that need the
      ranks of other items than the positives, such as Kendall's tau, are refused; under a smooth
      ranking also those that weigh the ranks of all items, such as `jaxrank.rbp_residual`.
    positives: `[q, p]`, ids of items in any order, padded with -1. Repeats count once, with the
      first of their labels. A query without positives has the value 0.
    labels: `[q, p]`, the label of each positive; None is 1. A positive may have label 0, or a
      negative one.
    exclude: `[q, e]`, ids that are no candidates, and no positives: a positive among them raises
      `ValueError`, and makes the value of its query NaN under `jit`.
    ranking: `jaxrank.Exact()`, `Laplace` or `Logistic`. Under the smooth ones, items from the host
      are sent to the device at once, and there is no `progress`.

  Returns:
    Arrays `[q]` by the names of the measures, in float32, or float64 for float64 scores. A query
    with a NaN among the scores of its candidates, or with a positive that is no item under `jit`,
    has the value NaN. So has a query of a measure that gives the rank of an item of label 0 a
    weight, by a gain or a threshold, where other ranks than those of positives are needed.

  Raises:
    TypeError: if ids are not integers, or an argument has another wrong type.
    ValueError: if shapes do not match, there are no items, an id is not that of an item, a
      positive is excluded, a measure has parameters of items or is one of diversity, or needs
      other ranks, a label is beyond its scale, as for `jaxrank.evaluate`, the ranking is another
      one, or a gradient under a smooth ranking is taken with an `axis_name` that JAX does not
      track, in `jax.pmap` or with `check_vma=False`.
  """
  with checks.named("corpus.evaluate"):
    smooth = _smooth_or_none(ranking)
    parsed = read_measures(measures)
    calls = [_checked(measure) for measure in parsed]
    inputs, items, known = search.prepare(queries, items, exclude, similarity, axis_name)
    given = positives
    positives = _inputs.as_ids("positives", given, len(inputs.removed), known, ndim=2)
    _inputs.check_apart("positives", positives, exclude)
    given_labels, labels = labels, _as_labels(labels, positives)
    if given_labels is not None:
      some = positives if isinstance(given, Array) else np.asarray(given) >= 0
      scales.check_arrays(parsed, given_labels, some)
    chunk = checks.count("chunk", chunk)
    if axis_name is not None:
      checks.same_on_devices("positives and labels", (positives, labels), axis_name)
    if smooth and progress is not None:
      raise ValueError(
        f"progress works under jaxrank.Exact() only, got ranking={ranking!r}; drop it."
      )
    on_host = smooth is None and _inputs.come_from_host(progress, items, inputs, positives)
    if not calls or not len(inputs.removed):
      return {measure.name: jnp.zeros(len(inputs.removed)) for measure in parsed}
    arrays, static = batching.split([dict(call.parameters) for call in calls])
    program = _Program(tuple(call.description for call in calls), static)
    listed, labels = without_repeats(positives, labels)
    if smooth is not None:
      items = jax.tree.map(jnp.asarray, items)
      values = _evaluate_smoothly(
        program, smooth, arrays, inputs, items, listed, labels, chunk, axis_name
      )
      if axis_name is not None:
        values = platforms.summed("corpus.evaluate", values, axis_name)
    elif not on_host:
      values = _evaluate(program, arrays, inputs, items, listed, labels, chunk, axis_name)
    else:
      counted = _standing.from_host(inputs, items, listed, chunk, progress)
      size = _inputs.size(items)
      values = _values(program, arrays, size, inputs.removed, listed, labels, counted)
  return {measure.name: value for measure, value in zip(parsed, values, strict=True)}


def _smooth_or_none(ranking: Ranking) -> Laplace | Logistic | None:
  """The ranking if it is smooth, None for `Exact()`; others are refused."""
  if isinstance(ranking, Laplace | Logistic):
    checks.positive_number("temperature", ranking.temperature)
    return ranking
  if not isinstance(ranking, Exact) or ranking.ties != "average":
    written = ranking if isinstance(ranking, Ranking) else checks.told(ranking)
    raise ValueError(
      "ranking must be jaxrank.Exact(), jaxrank.Laplace(t) or jaxrank.Logistic(t), got "
      f"{written}; score all items and call jaxrank.evaluate for others."
    )
  return None


class _Program(NamedTuple):
  """The static part of calls."""

  descriptions: tuple[Description, ...]
  parameters: batching.Static


def _checked(measure: Measure) -> Call:
  """The call of a measure that has no parameters of items."""
  call = measure.call()
  about = call.description
  if about.subtopics:
    raise ValueError(f"{measure.name} takes labels [..., n, subtopics]; positives have one label.")
  for name, value in call.parameters.items():
    if value is not None and about.kind(name).axis:
      raise ValueError(f"{measure.name} has {name} of single items or queries; drop them.")
  return call


def _as_labels(labels: Any, positives: Array) -> Array:
  if labels is None:
    # Laid out over devices as the ids are.
    return jnp.where(positives == NONE, 0, 1).astype(positives.dtype)
  given = checks.array("labels", labels)
  checks.real("labels", given.dtype)
  checks.same_shape("labels", given, "positives", positives)
  return given


@jax.jit
def without_repeats(positives: Array, labels: Array) -> tuple[Array, Array]:
  """The ids of each query, with -1 in place of repeats, and their labels."""

  def unique(ids: Array, labels: Array) -> tuple[Array, Array]:
    key, order = sorting.order(ids)
    again = jnp.concatenate([jnp.zeros_like(key[:1], bool), key[1:] == key[:-1]])
    return jnp.where(again, NONE, key), sorting.take(labels, order)

  if positives.shape[1] == 0:
    positives, labels = (
      jnp.pad(x, ((0, 0), (0, 1)), constant_values=NONE) for x in (positives, labels)
    )
  kept: tuple[Array, Array] = batching.over_queries(unique, 1)(positives, labels)
  return kept


@functools.partial(jax.jit, static_argnums=(0, 6, 7))
def _evaluate(
  program: _Program,
  arrays: list[Any],
  inputs: Inputs,
  items: Any,
  listed: Array,
  labels: Array,
  chunk: int,
  axis_name: str | None,
) -> list[Array]:
  def evaluated(
    inputs: Inputs, items: Any, axis: _sweep.Axis, listed: Array, labels: Array
  ) -> list[Array]:
    counted = _standing.on_device(inputs, items, axis, listed, chunk)
    size = _sweep.size_of_all(items, axis)
    values: list[Array] = _values(program, arrays, size, inputs.removed, listed, labels, counted)
    return values

  return _sweep.over_devices(evaluated, inputs, items, axis_name, listed, labels)


@functools.partial(jax.jit, static_argnums=(0, 2))
def _values(
  program: _Program,
  arrays: list[Any],
  size: int,
  removed: Array,
  listed: Array,
  labels: Array,
  counted: _standing.Counted,
) -> list[Array]:
  """The values of all calls, each `[q]`."""
  no_number, arrays = batching.without_nan(arrays)
  parameters: Sequence[dict[str, Any]] = batching.joined(arrays, program.parameters)

  def query(
    removed: Array, listed: Array, labels: Array, counted: _standing.Counted
  ) -> list[Array]:
    score, above, reaching, has_nan = counted
    some = listed != NONE
    wrong = _wrong(removed, listed, labels, score, size)
    standing = Standing(above[:-1], reaching[:-1], above[-1], reaching[-1])
    score = jnp.where(some & ~wrong, score, 0)
    labels = jnp.where(some, labels, jnp.zeros_like(labels))
    ranked = CountedQuery(standing, size, score, labels, some)
    return _of_kernels(program, parameters, ranked, no_number | has_nan | jnp.any(wrong))

  values: list[Array] = batching.over_queries(query, 1)(removed, listed, labels, counted)
  return values


def _isnan(x: Array) -> Array:
  return jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x, bool)


def _wrong(removed: Array, listed: Array, labels: Array, score: Array, size: int) -> Array:
  """Whether each listed id makes the values of its query NaN, `[p]`."""
  unknown = (listed != NONE) & (jnp.isnan(score) | _isnan(labels))
  return unknown | _inputs.are_wrong(listed, removed, size)


def _of_kernels(
  program: _Program, parameters: Sequence[dict[str, Any]], ranked: Any, unknown: Array
) -> list[Array]:
  """The values of all calls for one query, NaN if it is unknown, or an answer is."""
  values = []
  for about, given in zip(program.descriptions, parameters, strict=True):
    with naming(about.name), ranked.asking() as is_unknown:
      value = about.value(ranked, given)
      values.append(jnp.where(unknown | is_unknown(), jnp.nan, value))
  return values


@functools.partial(jax.jit, static_argnums=(0, 7, 8))
def _evaluate_smoothly(
  program: _Program,
  ranking: Laplace | Logistic,
  arrays: list[Any],
  inputs: Inputs,
  items: Any,
  listed: Array,
  labels: Array,
  chunk: int,
  axis_name: str | None,
) -> list[Array]:
  no_number, (ranking, arrays) = batching.without_nan((ranking, arrays))
  queries, unknown = finite_vectors(inputs.similarity, inputs.queries)
  inputs = inputs._replace(queries=queries)
  of_each = jnp.broadcast_to(jnp.asarray(ranking.temperature), listed.shape[:1])
  kind = type(ranking)

  def of_devices(
    inputs: Inputs, items: Any, axis: _sweep.Axis, listed: Array, labels: Array, of_each: Array
  ) -> list[Array]:
    size = _sweep.size_of_all(items, axis)
    smooth = _Smooth(program, kind, size)
    cutoffs, numbers = smooth.asked(arrays, listed, labels)
    removed = inputs.removed
    dtype = dtype_of(inputs.similarity, inputs.queries, items)
    asking = _smooth.Asking(inputs.queries, inputs.similarity, of_each.astype(dtype))
    numbers = tuple(k.astype(dtype) for k in numbers)
    out = _inputs.without_repeats(jnp.concatenate([removed, listed], axis=1))
    others = size - jnp.sum((out >= 0) & (out < size), axis=1)
    rest = arrays, removed, listed, labels, others
    params = _smooth.Params(asking, listed != NONE, numbers, rest)
    stages = _smooth.program(
      _DISTRIBUTIONS[kind], len(numbers), None in cutoffs, functools.partial(smooth.values, cutoffs)
    )
    by_call: list[Array] = _streamed.run(stages, params, items, listed, out, chunk, axis)
    return by_call

  values: list[Array] = _sweep.over_devices(
    of_devices, inputs, items, axis_name, listed, labels, of_each
  )
  return [nan_where(no_number | unknown, value) for value in values]


_DISTRIBUTIONS = {Laplace: _smooth.LAPLACE, Logistic: _smooth.LOGISTIC}
_QUERIES = {Laplace: LaplaceQuery, Logistic: LogisticQuery}


class _Smooth(NamedTuple):
  """Calls under a smooth ranking, among so many items."""

  program: _Program
  kind: type[SmoothRanking]
  size: int

  def asked(
    self, arrays: list[Any], listed: Array, labels: Array
  ) -> tuple[list[Any], tuple[Array, ...]]:
    """The cut-offs that the calls ask for, in turn, None among them; and those that are numbers.

    They follow from labels and parameters, not from ranks.
    """
    parameters = batching.joined(arrays, self.program.parameters)
    cutoffs: list[Any] = []

    def query(listed: Array, labels: Array) -> list[Array]:
      at_cutoff = _Cutoffs(lambda i: (jnp.zeros(listed.shape), jnp.ones(listed.shape)))
      score = jnp.zeros(listed.shape)
      rest = jnp.ones(2) * self.size
      self._values(parameters, at_cutoff, rest, jnp.ones(()), listed, labels, score, False)
      cutoffs[:] = at_cutoff.known.values()
      return [jnp.asarray(k).astype(score.dtype) for k in cutoffs if k is not None]

    numbers = batching.over_queries(query, 1)(listed, labels)
    return cutoffs, tuple(numbers)

  def values(self, cutoffs: list[Any], params: _smooth.Params, known: _smooth.Known) -> list[Array]:
    """The values of all calls, each `[q]`."""
    arrays, removed, listed, labels, others = params.rest
    parameters = batching.joined(arrays, self.program.parameters)
    # That of the whole list is the last one.
    numbered = iter(range(len(known.at)))
    places = [-1 if k is None else next(numbered) for k in cutoffs]

    def query(
      removed: Array,
      listed: Array,
      labels: Array,
      temperature: Array,
      known: _smooth.Known,
      others: Array,
    ) -> list[Array]:
      wrong = _wrong(removed, listed, labels, known.score, self.size)
      retrieved = known.retrieved
      has_nan = jnp.isnan(retrieved) | jnp.any(wrong)
      rest = jnp.stack([retrieved, others.astype(retrieved.dtype) - retrieved])
      score = jnp.where(wrong, 0, known.score)
      at_cutoff = _Cutoffs(lambda i: known.at[places[i]])
      return self._values(parameters, at_cutoff, rest, temperature, listed, labels, score, has_nan)

    values: list[Array] = batching.over_queries(query, 1)(
      removed, listed, labels, params.asking.temperature, known, others
    )
    return values

  def _values(
    self,
    parameters: Sequence[dict[str, Any]],
    at_cutoff: "_Cutoffs",
    rest: Array,
    temperature: Array,
    listed: Array,
    labels: Array,
    score: Array,
    unknown: ArrayLike,
  ) -> list[Array]:
    some = listed != NONE
    labels = jnp.where(some, labels, jnp.zeros_like(labels))
    distribution = _QUERIES[self.kind].distribution
    ranked = SmoothCountedQuery(
      distribution, at_cutoff, rest, self.size, temperature, score, labels, some
    )
    return _of_kernels(self.program, parameters, ranked, jnp.asarray(unknown))


class _Cutoffs:
  """Numbers the cut-offs of a query in the order in which they are asked for first."""

  def __init__(self, answer: Callable[[int], AtCutoff]):
    self.known: dict[Any, Cutoff] = {}
    self._answer = answer

  def __call__(self, k: Cutoff) -> AtCutoff:
    key = k if k is None or isinstance(k, int) else id(k)
    self.known.setdefault(key, k)
    return self._answer([*self.known].index(key))
