"""Queries in a random order, and the moments of measures over all orders."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, description, recorder, sorting
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking
from jaxrank.chance.shuffled import NoClosedFormError, Shuffled, ShuffledQuery
from jaxrank.measures.evaluation import evaluate_calls
from jaxrank.measures.grammar import one_measure, read_measures
from jaxrank.measures.measure import Measure, Measures
from jaxrank.rankings.exact import Exact


class Null(NamedTuple):
  """Queries whose retrieved items all tie, and how to sample their orders."""

  scores: Array
  labels: Array
  where: ArrayLike | None
  key: Array | None
  samples: int


class Statistic(NamedTuple):
  """Measures, and whether the caller wants their values by name."""

  measures: tuple[Measure, ...]
  by_name: bool

  def values(self, scores: Any, labels: Any, where: Any, ranking: Ranking = Exact()) -> list[Array]:
    """The values `[...]` of each measure."""
    found = evaluate_calls(self.measures, scores, labels, where, ranking)
    return [x.value for x in found]

  def named(self, values: Iterable[Any]) -> Any:
    """Values by name, or the one value of a lone metric or measure."""
    if not self.by_name:
      return next(iter(values))
    return {measure.name: value for measure, value in zip(self.measures, values, strict=True)}


def statistic(function: str, measures: Measures, parameters: Mapping[str, Any]) -> Statistic:
  """Reads what the caller wants to know of: a metric with parameters, a measure, or several."""
  with checks.named(f"chance.{function}"):
    if "ranking" in parameters:
      raise TypeError("ranking: chance has its own, the random order; leave it out.")
    if description.of_metric(measures) is not None:
      return Statistic((one_measure(measures, parameters),), by_name=False)
    if parameters:
      raise TypeError(
        f"{', '.join(parameters)}: parameters go with a metric such as jaxrank.ndcg; those of a "
        "name are part of it, as in nDCG@10."
      )
    return Statistic(read_measures(measures), by_name=not isinstance(measures, Measure))


def null_of(
  of: Statistic,
  labels: Any,
  where: Any,
  retrieved: Any,
  key: Any,
  samples: int,
  values: Any = None,
) -> Null:
  """Checked, and as wide as `values`."""
  labels = checks.array("labels", labels)
  dtype = jnp.result_type(*jax.tree.leaves(values) or [jnp.float32])
  subtopics = any(measure.description.subtopics for measure in of.measures)
  scores = jnp.zeros_like(labels[..., 0] if subtopics else labels, dtype)
  if retrieved is not None:
    retrieved = checks.boolean("retrieved", retrieved, scores, "False for items at no rank")
    scores = jnp.where(retrieved, scores, -jnp.inf)
  return Null(scores, labels, where, key, checks.count("samples", samples, 2))


def retrieved_by(scores: Any) -> Any:
  """Which items have a rank, in the dtype of the caller: a float64 may be finite and no float32."""
  if isinstance(scores, Array):
    return ~jnp.isneginf(scores)
  return ~np.isneginf(np.asarray(scores))


def moments_of(of: Statistic, null: Null, count: int = 2) -> tuple[list[Array], ...]:
  """Mean and standard deviation of each value, or the mean alone."""
  moments = [_moments(measure, null, count) for measure in of.measures]
  return tuple(list(values) for values in zip(*moments, strict=True))


def _moments(measure: Measure, null: Null, count: int) -> tuple[Array, ...]:
  try:
    return _closed_form(measure, null, count)
  except NoClosedFormError:
    if null.key is None:
      raise
  (values,) = draws(Statistic((measure,), by_name=False), null)
  return (jnp.mean(values, axis=0), jnp.std(values, axis=0, ddof=1))[:count]


def _closed_form(measure: Measure, null: Null, count: int) -> tuple[Array, ...]:
  about, parameters, _ = measure.call()
  of_moments = description.with_kernel(about, _Moments(about, count))
  call = Call(of_moments, parameters, None)
  (found,) = apply_calls([call], null.scores, null.labels, null.where, Shuffled())
  moments: tuple[Array, ...] = found.value
  return moments


@dataclasses.dataclass(frozen=True)
class _Moments:
  """The kernel of the moments of a metric over all orders."""

  metric: Description
  count: int

  def __call__(self, query: ShuffledQuery, **parameters: Any) -> tuple[Array, ...]:
    kernel = functools.partial(self.metric.kernel, **parameters)
    mean = kernel(query)
    slopes = recorder.slopes(kernel, query)
    if slopes is None:
      raise NoClosedFormError(
        "the metric is not affine in the answers of the ranking, so that its mean by chance has no "
        "closed form; pass key=jax.random.key(0) to sample it."
      )
    if self.count == 1:
      return (mean,)
    if len(slopes) > 1:
      raise NoClosedFormError(
        f"the metric asks the ranking {len(slopes)} questions, whose covariances by chance have no "
        "closed form; pass key=jax.random.key(0) to sample its variance."
      )
    deviation = query.deviation(slopes[0]) if slopes else jnp.zeros_like(mean)
    return mean, deviation


def draws(of: Statistic, null: Null) -> list[Array]:
  """The values of random orders, `[samples, ...]` each."""
  column = jnp.zeros_like(null.scores) + sorting.slots(null.scores).astype(null.scores.dtype)

  def draw(key: Array) -> list[Array]:
    order = jax.random.permutation(key, column, axis=-1, independent=True)
    return of.values(order + null.scores, null.labels, null.where)

  keys = jax.random.split(checks.prng_key(null.key), null.samples)
  return jax.vmap(draw)(keys)
