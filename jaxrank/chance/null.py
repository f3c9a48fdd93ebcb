"""Chance as a question: a metric asked of queries in which all retrieved items tie."""

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank import _checks, sorting
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


def asked(measures: Measures, parameters: dict[str, Any]) -> Callable[..., Any]:
  """`values(scores, labels, *, where, ranking)`."""
  if "ranking" in parameters:
    raise TypeError("ranking: chance has its own, the random order; leave it out.")
  if callable(measures) and not isinstance(measures, Measure):
    return functools.partial(measures, **parameters)
  if parameters:
    raise TypeError(
      f"{', '.join(parameters)}: parameters go with a metric such as jaxrank.ndcg; those of a "
      "name are part of it, as in nDCG@10."
    )
  if not isinstance(measures, Measure):
    return functools.partial(evaluate, parse(measures))
  return lambda *args, **kwargs: evaluate([measures], *args, **kwargs)[measures.name]


def null_of(
  labels: Any, where: Any, retrieved: Any, key: Any, samples: int, values: Any = None
) -> Null:
  """Checked, and as wide as `values`."""
  labels = _checks.array("labels", labels)
  dtype = jnp.result_type(*jax.tree.leaves(values) or [jnp.float32])
  scores = jnp.zeros_like(labels, dtype)
  if retrieved is not None:
    retrieved = _checks.boolean("retrieved", retrieved, labels, "False for items at no rank")
    scores = jnp.where(retrieved, scores, -jnp.inf)
  if samples < 2:
    raise ValueError(f"samples must be at least 2, got {samples}.")
  return Null(scores, labels, where, key, samples)


def retrieved_by(scores: Any) -> Any:
  """Which items have a rank, in the dtype of the caller: a float64 may be finite and no float32."""
  if isinstance(scores, Array):
    return ~jnp.isneginf(scores)
  return ~np.isneginf(np.asarray(scores))


def moments(ask: Callable[..., Any], null: Null, count: int = 2) -> tuple[Any, ...]:
  """Mean and standard deviation of what is asked, or the mean alone."""
  try:
    return _closed_form(ask, null, count)
  except NoClosedFormError:
    if null.key is None:
      raise
  if isinstance(ask, functools.partial) and ask.func is evaluate and len(ask.args[0]) > 1:
    each = [moments(functools.partial(evaluate, (x,)), null, count) for x in ask.args[0]]
    return tuple(functools.reduce(operator.or_, named) for named in zip(*each, strict=True))
  values = draws(ask, null)
  taken = (jnp.mean, functools.partial(jnp.std, ddof=1))[:count]
  return tuple(jax.tree.map(functools.partial(moment, axis=0), values) for moment in taken)


def _closed_form(ask: Callable[..., Any], null: Null, count: int) -> tuple[Any, ...]:
  def values(spread):
    return ask(null.scores, null.labels, where=null.where, ranking=Shuffled(spread))

  if count == 1:
    return (values(None),)
  mean, slope = jax.jvp(values, (jnp.float32(0),), (jnp.float32(1),))
  # A NaN has slope 0, and fewer is better where it is negative.
  deviation = jax.tree.map(lambda m, s: jnp.where(jnp.isnan(m), m, jnp.abs(s)), mean, slope)
  return mean, deviation


def draws(ask: Callable[..., Any], null: Null) -> Any:
  """The values of random orders, `[samples, ...]`."""
  column = jnp.zeros_like(null.scores) + sorting.slots(null.scores).astype(null.scores.dtype)

  def draw(key):
    order = jax.random.permutation(key, column, axis=-1, independent=True)
    return ask(order + null.scores, null.labels, where=null.where)

  if null.key is None:
    raise TypeError("key must be a PRNG key such as jax.random.key(0), got None.")
  return jax.vmap(draw)(jax.random.split(null.key, null.samples))
