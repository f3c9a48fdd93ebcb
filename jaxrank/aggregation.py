"""Means over queries and over models: `aggregate`, what selects queries for it, and `ensemble`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import _scaling
from jaxrank._core import checks, description
from jaxrank._core.arithmetic import floating, over_first, safe_divide
from jaxrank._core.batching import replicated
from jaxrank._core.ranked import relevant

__all__ = [
  "Reduction",
  "aggregate",
  "ensemble",
  "has_both_classes",
  "has_relevant",
]

Reduction = Literal["mean", "sum", "exp_mean", "median", "min", "max"]


def has_relevant(
  labels: ArrayLike, *, where: ArrayLike | None = None, rel: ArrayLike | None = None
) -> Array:
  """Whether each query has a relevant item.

  >>> print(has_relevant(jnp.array([[0, 1], [0, -1]])))
  [ True False]

  Args:
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    rel: Labels of at least `rel` are relevant; None is any positive label.

  Returns:
    `[...]`, bool.

  Raises:
    TypeError: if `where` is not boolean.
    ValueError: if shapes differ.
  """
  with checks.named("has_relevant"):
    labels, mask = _labels(labels, where)
    checks.threshold("rel", rel)
  return jnp.any(relevant(labels, mask, rel), axis=-1)


def has_both_classes(
  labels: ArrayLike, *, where: ArrayLike | None = None, rel: ArrayLike | None = None
) -> Array:
  """Whether each query has a relevant item and another one, without which AUC says nothing.

  >>> print(has_both_classes(jnp.array([[0, 1], [1, 1], [0, -1]])))
  [ True False False]

  Args:
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    rel: Labels of at least `rel` are relevant; None is any positive label.

  Returns:
    `[...]`, bool: the queries that `Evaluator(jaxrank.auc, empty="skip")` keeps.

  Raises:
    TypeError: if `where` is not boolean.
    ValueError: if shapes differ.
  """
  with checks.named("has_both_classes"):
    labels, mask = _labels(labels, where)
    checks.threshold("rel", rel)
  b = relevant(labels, mask, rel)
  return jnp.any(b, axis=-1) & jnp.any(mask & ~b, axis=-1)


def _labels(labels: ArrayLike, where: ArrayLike | None) -> tuple[Array, Array]:
  given = checks.array("labels", labels)
  if given.ndim == 0:
    raise ValueError("labels must have shape [..., candidates], got a scalar; pass a list.")
  return floating(given), checks.mask(where, given)


def aggregate(
  values: ArrayLike,
  *,
  where: ArrayLike | None = None,
  query_weights: ArrayLike | None = None,
  how: Reduction | Callable[..., Array] = "mean",
) -> Array:
  """Reduces the values of many queries to one number, by default their mean.

  Metrics never reduce over queries. Queries can be left out or weighted here; a query of weight 0
  is left out. A NaN that is not left out makes the result NaN. The values of some measures are no
  terms of a mean, such as the counts of `num_rel` and the logarithms of `gm_map`: pass the measure
  as `how`, or use `jaxrank.Evaluator`, which follows the description of each measure.

  >>> values = jnp.array([1.0, 0.5, 0.0])
  >>> judged = jnp.array([True, True, False])
  >>> print(f"{aggregate(values):.2f} {aggregate(values, where=judged):.2f}")
  0.50 0.75

  Args:
    values: `[...]`, one per query.
    where: `[...]`, False for queries to leave out.
    query_weights: `[...]`, for the mean, the sum and the exponential of the mean only.
    how: "mean"; "sum"; "exp_mean", the exponential of the mean, which makes a geometric mean of
      values that are logarithms; "median" (halfway between the middle two of an even number);
      "min"; "max"; a metric or a `jaxrank.Measure`, whose description says how; or a function of
      all values, such as `jnp.std`, called with `where=` if there is a mask.

  Returns:
    A scalar, at least float32; 0.0 if nothing is left.

  Raises:
    TypeError: if `where` is not boolean, or `values` is the dictionary of `evaluate`.
    ValueError: if shapes differ, `how` is unknown, or `query_weights` are given and `how` does not
      take them.
  """
  return _reduced("aggregate", values, where, query_weights, how)


def _reduced(
  name: str,
  values: ArrayLike,
  where: ArrayLike | None,
  query_weights: ArrayLike | None,
  how: Reduction | Callable[..., Array],
) -> Array:
  """`aggregate`, for a function whose name starts the messages."""
  about = description.of_metric(how)
  if about is not None:
    how = about.aggregation
  with checks.named(name):
    if isinstance(values, Mapping):
      raise TypeError(
        f"values must be those of one measure, [queries], got a dict with {', '.join(values)}: "
        "measures differ in how their values become one. Pass values[name] with the measure as "
        "how=, or use jaxrank.Evaluator."
      )
    if not callable(how):
      checks.choice("how", how, _REDUCTIONS)
    values = floating(checks.array("values", values))
    kept = checks.mask(where, values)
    if query_weights is not None:
      if callable(how) or how not in _WEIGHTED:
        names = ", ".join(_WEIGHTED)
        raise ValueError(f"query_weights go with how={names} only, got how={how!r}; drop them.")
      weights = floating(checks.array("query_weights", query_weights)).astype(values.dtype)
      checks.same_shape("query_weights", weights, "values", values)
      return _WEIGHTED[how](values, kept & (weights != 0), weights)
  if not callable(how):
    return _REDUCTIONS[how](values, kept)
  if where is None and values.size:
    return how(values)
  some = jnp.any(kept)
  reduced = how(jnp.where(kept, values, 0), where=kept | ~some)
  return jnp.where(some, reduced, jnp.zeros_like(reduced))


def _mean(values: Array, kept: Array, weights: Array | None = None) -> Array:
  weights = jnp.ones_like(values) if weights is None else weights
  return safe_divide(_sum(values, kept, weights), jnp.sum(jnp.where(kept, weights, 0)))


def _sum(values: Array, kept: Array, weights: Array | None = None) -> Array:
  weights = jnp.ones_like(values) if weights is None else weights
  return jnp.sum(jnp.where(kept, weights * jnp.where(kept, values, 0), 0))


def _exp_mean(values: Array, kept: Array, weights: Array | None = None) -> Array:
  return jnp.where(jnp.any(kept), jnp.exp(_mean(values, kept, weights)), 0)


def _median(values: Array, kept: Array) -> Array:
  if not values.size:
    return jnp.sum(values)
  values, kept = replicated(values, kept)
  # If no query is kept, the values are 0: the gradient of a median of NaN would be NaN, not 0.
  shown = jnp.where(kept, values, jnp.where(jnp.any(kept), jnp.nan, 0))
  median = jnp.nanquantile(shown, 0.5, method="midpoint")
  return jnp.where(jnp.any(kept & jnp.isnan(values)), jnp.nan, median)


def _min(values: Array, kept: Array) -> Array:
  return 0 - _max(-values, kept)


def _max(values: Array, kept: Array) -> Array:
  largest = jnp.where(jnp.any(kept), jnp.max(values, where=kept, initial=-jnp.inf), 0)
  # The maximum of XLA for a CPU loses a NaN from 4,096 numbers on (jaxlib 0.10.2).
  return jnp.where(jnp.any(kept & jnp.isnan(values)), jnp.nan, largest)


def ensemble(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  by: Literal["z_scores", "ranks"] = "z_scores",
) -> Array:
  """The mean of the scores of several models, each on the scale of its query.

  `s_i` is the mean over the models `m` of `z_mi = (x_mi - mean_m) / std_m`, with the mean and the
  standard deviation of the scores of the model in the query, so that no model counts more because
  its scores have another scale. With `by="ranks"`, `z_mi` is the share of the items with smaller
  scores minus the share of those with larger ones, on which outliers have no effect.

  A model whose scores are all equal adds 0. An item to which some model gives -inf is not
  retrieved: it does not count in the mean and the deviation of that model, and its score is -inf.
  Otherwise an item to which some model gives +inf has +inf. A NaN score of a valid item makes the
  scores of its query NaN.

  >>> scores = jnp.array([[1.0, 2.0, 3.0], [-40.0, 90.0, 10.0]])  # of two models for three items
  >>> print(*(f"{score:.3f}" for score in ensemble(scores)))
  -1.173 0.654 0.519
  >>> print(*(f"{score:.3f}" for score in ensemble(scores, by="ranks")))
  -0.667 0.333 0.333

  Args:
    scores: `[models, ..., n]`.
    where: `[..., n]`, False on padding.
    by: "z_scores"; or "ranks", whose gradient is 0.

  Returns:
    Scores `[..., n]`, at least float32, 0 on padding.

  Raises:
    TypeError: if `where` is not boolean.
    ValueError: if shapes differ, there is no axis of models, or `by` is unknown.

  References:
    Montague and Aslam, `Relevance score normalization for metasearch
    <https://doi.org/10.1145/502585.502657>`_, 2001.
  """
  with checks.named("ensemble"):
    checks.choice("by", by, _SCALES)
    given = checks.array("scores", scores)
    if given.ndim < 2 or not given.shape[0]:
      raise ValueError(
        "scores must have shape [models, ..., candidates], with one model or more, got "
        f"{given.shape}; stack the scores of the models along a first axis."
      )
    mask = checks.mask(where, given[0])
  together: Array = _ensemble(given, mask, by)
  return together


@partial(jax.jit, static_argnums=2)
def _ensemble(scores: Array, mask: Array, by: str) -> Array:
  x = lax.stop_gradient(floating(scores))
  retrieved = mask & ~over_first(jnp.logical_or, x == -jnp.inf)
  scaled = _SCALES[by](scores, mask[None] & (x != -jnp.inf))
  scaled = jnp.where(retrieved[None], jnp.where(x == jnp.inf, jnp.inf, scaled), 0)
  placed = jnp.where(mask & ~retrieved, -jnp.inf, over_first(jnp.add, scaled) / len(scaled))
  unknown = mask & over_first(jnp.logical_or, jnp.isnan(x))
  return jnp.where(mask & jnp.any(unknown, axis=-1, keepdims=True), jnp.nan, placed)


_SCALES = {"z_scores": _scaling.z_scores, "ranks": _scaling.ranks}
_WEIGHTED = {"mean": _mean, "sum": _sum, "exp_mean": _exp_mean}
_REDUCTIONS = {**_WEIGHTED, "median": _median, "min": _min, "max": _max}
