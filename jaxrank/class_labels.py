"""Class-labelled retrieval: a candidate is relevant if it shares a class with the query.

Labels have one of two forms. Classes are numbers: `query_labels` `[queries]` with
`candidate_labels` `[n]`, shared by all queries, or `[queries, n]`. Rows have a column for each
class, positive if the item has the class: `[queries, classes]` with `[n, classes]` or
`[queries, n, classes]`. Query labels with two or more axes, and boolean ones, are rows.

A query without a label, which is one with a negative class or an empty row, has no relevant
candidates. The means leave such queries out, and also queries with every candidate masked, which
are padding.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import aggregation
from jaxrank._core import arithmetic, batching, checks, description, sorting, ties
from jaxrank._core._jax import enable_x64
from jaxrank.measures import Measure
from jaxrank.measures.grammar import one_measure
from jaxrank.measures.measure import One

__all__ = [
  "has_label",
  "macro_mean",
  "mean",
  "relevance",
]


def relevance(query_labels: ArrayLike, candidate_labels: ArrayLike) -> Array:
  """Which candidates share a class with the query, as labels for metrics.

  >>> print(relevance(jnp.array([2, 0]), jnp.array([0, 2, 2])))
  [[False  True  True]
   [ True False False]]
  >>> print(relevance(jnp.array([[1, 1, 0]]), jnp.array([[0, 1, 1], [0, 0, 1]])))
  [[ True False]]

  Args:
    query_labels: `[...]`, classes; or `[..., classes]`, rows.
    candidate_labels: `[n]` or `[..., n]`, classes; or `[n, classes]` or `[..., n, classes]`, rows.

  Returns:
    `[..., n]`, bool: whether classes are equal, or rows have a class in common.

  Raises:
    ValueError: if shapes do not go together.
    TypeError: if labels are not numeric.
  """
  with checks.named("class_labels.relevance"):
    return _relevance(query_labels, candidate_labels)


def _relevance(query_labels: ArrayLike, candidate_labels: ArrayLike) -> Array:
  # In 64 bits, for classes that are large numbers, such as hashes.
  with enable_x64():
    query, candidates = _pair(query_labels, candidate_labels)
    if not _are_rows(query):
      candidates = jnp.broadcast_to(candidates, (*query.shape, candidates.shape[-1]))
      with jax.numpy_dtype_promotion("standard"):
        return (candidates == query[..., None]) & (query >= 0)[..., None]
    shared = "" if candidates.ndim == 2 else "..."
    # Whether a sum of products of 0 and 1 is positive is exact at any precision.
    query, candidates = (_positive(x).astype(jnp.float32) for x in (query, candidates))
    return jnp.einsum(f"...c,{shared}nc->...n", query, candidates) > 0


def has_label(query_labels: ArrayLike) -> Array:
  """Whether each query has a label.

  >>> print(has_label(jnp.array([3, -1, 0])), has_label(jnp.array([[0, 1], [0, 0]])))
  [ True False  True] [ True False]

  Args:
    query_labels: `[...]`, classes; or `[..., classes]`, rows.

  Returns:
    `[...]`, bool.

  Raises:
    TypeError: if labels are not numeric.
  """
  with checks.named("class_labels.has_label"), enable_x64():
    query = checks.array("query_labels", query_labels)
    return jnp.any(_positive(query), axis=-1) if _are_rows(query) else query >= 0


def mean(
  metric: str | One,
  scores: ArrayLike | None,
  query_labels: ArrayLike,
  candidate_labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  **parameters: Any,
) -> Array:
  """The mean of a metric over the queries that have a label.

  >>> from jaxrank import metrics
  >>> queries, candidates = jnp.array([1, 3]), jnp.array([[2, 1, 1], [3, 1, 1]])
  >>> print(f"{mean(metrics.reciprocal_rank, None, queries, candidates):.5f}")
  0.75000

  Args:
    metric: A metric, a `jaxrank.Measure` or a name such as "AP"; or any other function
      of `(scores, labels, *, where)` that returns one value per query.
    scores: `[..., n]`; None if candidates are in ranked order, best first.
    query_labels: `[...]`, classes; or `[..., classes]`, rows.
    candidate_labels: `[n]` or `[..., n]`, classes; or `[n, classes]` or `[..., n, classes]`, rows.
    where: `[..., n]`, False on padding, and for the query itself if it is among the candidates.
    **parameters: Arguments of the metric, such as `k`.

  Returns:
    A scalar; 0.0 if no query has a label.

  Raises:
    ValueError: if shapes do not go together, or `metric` is an unknown name.
    TypeError: if `metric` is no metric and no function.
  """
  with checks.named("class_labels.mean"):
    values_of = _function(metric, parameters)
    shared = _relevance(query_labels, candidate_labels)
    countable = _has_candidates(shared, where)
    values = values_of(_scores(scores, shared), shared, where=where)
  return aggregation.aggregate(values, where=has_label(query_labels) & countable)


def macro_mean(
  metric: str | One,
  scores: ArrayLike | None,
  query_labels: ArrayLike,
  candidate_labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  joint_absence: bool = False,
  **parameters: Any,
) -> Array:
  """The mean over classes of the mean of a metric over the queries that have the class.

  All classes have the same weight, however many queries they have; classes without a query are left
  out. With rows, each class is a retrieval task of its own, whose relevant candidates are those of
  the class.

  >>> from jaxrank import metrics
  >>> queries, candidates = jnp.array([0, 0, 0, 1]), jnp.array([0, 1])
  >>> print(f"{macro_mean(metrics.reciprocal_rank, None, queries, candidates):.5f}")
  0.75000

  Args:
    metric: A metric, a `jaxrank.Measure` or a name such as "AP"; or any other function
      of `(scores, labels, *, where)` that returns one value per query.
    scores: `[..., n]`; None if candidates are in ranked order, best first.
    query_labels: `[...]`, classes; or `[..., classes]`, rows.
    candidate_labels: `[n]` or `[..., n]`, classes; or `[n, classes]` or `[..., n, classes]`, rows.
    where: `[..., n]`, False on padding, and for the query itself if it is among the candidates.
    joint_absence: Whether queries without a class count for it as well, with the candidates without
      it as the relevant ones, so that every query counts for every class; for rows only.
    **parameters: Arguments of the metric, such as `k`.

  Returns:
    A scalar; 0.0 if no query has a label.

  Raises:
    ValueError: if shapes do not go together, or `joint_absence` is True and labels are classes.
  """
  with checks.named("class_labels.macro_mean"):
    checks.true_or_false("joint_absence", joint_absence)
    values_of = _function(metric, parameters)
    with enable_x64():
      query, candidates = _pair(query_labels, candidate_labels)
      present, all_having = _positive(query), _positive(candidates)
    if joint_absence and not _are_rows(query):
      raise ValueError(
        "joint_absence needs rows of shape [queries, classes], got classes of shape "
        f"{list(query.shape)}; pass jax.nn.one_hot of them."
      )
    shared = _relevance(query_labels, candidate_labels)
    countable = _has_candidates(shared, where)
  scores = _scores(scores, shared)
  if not _are_rows(query):
    with checks.named("class_labels.macro_mean"):
      values = values_of(scores, shared, where=where)
    return _mean_of_classes(values, query_labels, has_label(query_labels) & countable)

  def of_class(present: Array, having: Array) -> Array:
    present, having = (jnp.broadcast_to(x, shared.shape) for x in (present[..., None], having))
    both = present == having if joint_absence else present & having
    return values_of(scores, both, where=where)

  with checks.named("class_labels.macro_mean"):
    values = jax.vmap(of_class, in_axes=-1, out_axes=-1)(present, all_having)
  counted = (present | joint_absence) & jnp.broadcast_to(countable[..., None], present.shape)
  queries = tuple(range(counted.ndim - 1))
  count = jnp.sum(counted, axis=queries, dtype=values.dtype)
  total = jnp.sum(jnp.where(counted, values, 0), axis=queries)
  return aggregation.aggregate(arithmetic.safe_divide(total, count), where=count > 0)


def _mean_of_classes(values: Array, query_labels: Any, counted: Array) -> Array:
  """The mean of values with the inverse number of values of their class as weights."""
  with enable_x64():
    classes = checks.array("query_labels", query_labels)
    arrays = batching.replicated(*map(jnp.atleast_1d, (values, classes, counted)))
    mean: Array = _weighed(*arrays)
    return mean


@jax.jit
def _weighed(values: Array, classes: Array, counted: Array) -> Array:
  key, query = sorting.order(sorting.keys(classes, counted))
  first, last = ties.layout(key, sorting.MASKED)
  weights = 1 / (last - first + 1).astype(values.dtype)
  values = sorting.take(values, query)
  return aggregation.aggregate(values, where=key > sorting.MASKED, query_weights=weights)


def _function(metric: str | One, parameters: dict[str, Any]) -> Callable[..., Array]:
  """The metric as a function of scores, labels and mask."""
  if isinstance(metric, str | Measure) or description.of_metric(metric) is not None:
    measure = one_measure(metric, parameters)
    how = measure.description.aggregation
    if how != "mean":
      raise ValueError(f"metric must have a mean over queries; that of {measure} is a {how}.")
    return measure
  checks.function("metric", metric, "a metric such as jaxrank.ndcg, or a name such as 'AP'")
  return functools.partial(metric, **parameters)


def _positive(x: Array) -> Array:
  return x > jnp.zeros((), x.dtype)


def _are_rows(query: Array) -> bool:
  """Whether query labels are rows of classes."""
  return query.ndim > 1 or (query.ndim == 1 and query.dtype == jnp.bool_)


def _pair(query_labels: Any, candidate_labels: Any) -> tuple[Array, Array]:
  """Both labels as arrays whose shapes go together."""
  query = checks.array("query_labels", query_labels)
  candidates = checks.array("candidate_labels", candidate_labels)
  rows = _are_rows(query)
  lead = query.shape[:-1] if rows else query.shape
  last = query.shape[-1:] if rows else ()
  of = candidates.shape[: candidates.ndim - len(last)]
  fits = candidates.shape[len(of) :] == last and of and of[:-1] in ((), lead)
  if not fits:
    axes = [*(str(size) for size in lead), "n"]
    shapes = [[*names, *map(str, last)] for names in (["n"], axes)]
    wanted = " or ".join(dict.fromkeys(f"[{', '.join(names)}]" for names in shapes))
    raise ValueError(
      f"for query_labels of shape {list(query.shape)}, which are "
      f"{'rows of classes' if rows else 'classes'}, candidate_labels must have shape {wanted}, got "
      f"{list(candidates.shape)}; a single row is [1, classes]."
    )
  return query, candidates


def _scores(scores: Any, like: Array) -> Any:
  """The scores; if None, those of candidates in ranked order."""
  if scores is not None:
    return scores
  return jnp.broadcast_to(-jnp.arange(like.shape[-1], dtype=jnp.float32), like.shape)


def _has_candidates(like: Array, where: Any) -> Array:
  """Whether each query has a valid candidate."""
  return jnp.any(checks.mask(where, like), axis=-1)
