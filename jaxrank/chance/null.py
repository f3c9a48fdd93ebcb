"""Chance as a question: a metric asked of queries in which all retrieved items tie."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, sorting
from jaxrank.chance.shuffled import NoClosedFormError, Shuffled
from jaxrank.measures import Measure, evaluate, parse

Measures = Callable[..., Any] | str | Iterable[str | Measure]


class Null(NamedTuple):
  """Queries whose retrieved items all tie, and how to sample their orders."""

  scores: Array
  labels: Array
  where: ArrayLike | None
  key: Array | None
  samples: int


class Asked(NamedTuple):
  """What to ask: a metric with its parameters, or measures, in one call."""

  function: Callable[..., Any]
  measures: tuple[Measure, ...] | None

  def __call__(self, scores: Any, labels: Any, **how: Any) -> list[Array]:
    """The values `[...]` of each."""
    found = self.function(scores, labels, **how)
    values = [found] if self.measures is None else [found[x.name] for x in self.measures]
    if not all(isinstance(value, Array) for value in values):
      raise TypeError("chance takes metrics with one value per query, not curves.")
    return values

  def named(self, values: Iterable[Any]) -> Any:
    """By name, or the one value of a metric that has none."""
    if self.measures is None:
      return next(iter(values))
    return {measure.name: value for measure, value in zip(self.measures, values, strict=True)}


def asked(measures: Measures, parameters: dict[str, Any]) -> Asked:
  """Reads what the caller wants to know of."""
  if "ranking" in parameters:
    raise TypeError("ranking: chance has its own, the random order; leave it out.")
  if callable(measures) and not isinstance(measures, Measure):
    return Asked(functools.partial(measures, **parameters), None)
  if parameters:
    raise TypeError(
      f"{', '.join(parameters)}: parameters go with a metric such as jaxrank.ndcg; those of a "
      "name are part of it, as in nDCG@10."
    )
  if isinstance(measures, Measure):
    return Asked(lambda *lists, **how: evaluate([measures], *lists, **how)[measures.name], None)
  return _evaluated(parse(measures))


def _evaluated(measures: tuple[Measure, ...]) -> Asked:
  return Asked(functools.partial(evaluate, measures), measures)


def null_of(
  labels: Any, where: Any, retrieved: Any, key: Any, samples: int, values: Any = None
) -> Null:
  """Checked, and as wide as `values`."""
  labels = checks.array("labels", labels)
  dtype = jnp.result_type(*jax.tree.leaves(values) or [jnp.float32])
  scores = jnp.zeros_like(labels, dtype)
  if retrieved is not None:
    retrieved = checks.boolean("retrieved", retrieved, labels, "False for items at no rank")
    scores = jnp.where(retrieved, scores, -jnp.inf)
  return Null(scores, labels, where, key, checks.count("samples", samples, 2))


def retrieved_by(scores: Any) -> Any:
  """Which items have a rank, in the dtype of the caller: a float64 may be finite and no float32."""
  if isinstance(scores, Array):
    return ~jnp.isneginf(scores)
  return ~np.isneginf(np.asarray(scores))


def moments_of(ask: Asked, null: Null, count: int = 2) -> tuple[list[Array], ...]:
  """Mean and standard deviation of each value, or the mean alone."""
  try:
    return _closed_form(ask, null, count)
  except NoClosedFormError:
    if null.key is None:
      raise
  if ask.measures and len(ask.measures) > 1:
    each = [moments_of(_evaluated((measure,)), null, count) for measure in ask.measures]
    return tuple([value for (value,) in moment] for moment in zip(*each, strict=True))
  (values,) = draws(ask, null)
  return ([jnp.mean(values, axis=0)], [jnp.std(values, axis=0, ddof=1)])[:count]


def _closed_form(ask: Asked, null: Null, count: int) -> tuple[list[Array], ...]:
  def values(spread):
    return ask(null.scores, null.labels, where=null.where, ranking=Shuffled(spread))

  if count == 1:
    return (values(None),)
  mean, slope = jax.jvp(values, (jnp.float32(0),), (jnp.float32(1),))
  # A NaN has slope 0, and fewer is better where it is negative.
  pairs = zip(mean, slope, strict=True)
  return mean, [jnp.where(jnp.isnan(m), m, jnp.abs(s)) for m, s in pairs]


def draws(ask: Asked, null: Null) -> list[Array]:
  """The values of random orders, `[samples, ...]` each."""
  column = jnp.zeros_like(null.scores) + sorting.slots(null.scores).astype(null.scores.dtype)

  def draw(key):
    order = jax.random.permutation(key, column, axis=-1, independent=True)
    return ask(order + null.scores, null.labels, where=null.where)

  return jax.vmap(draw)(jax.random.split(checks.prng_key(null.key), null.samples))
