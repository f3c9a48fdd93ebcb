"""Internals of `jaxrank.chance`: moments of measures over all orders, and sampled orders.

`moments` and `against` import it. `shuffled` has the ranking whose answers are means over orders.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, description
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking, slopes_of
from jaxrank.chance.shuffled import NoClosedFormError, Shuffled, ShuffledQuery
from jaxrank.measures import scales
from jaxrank.measures.evaluation import evaluate_calls
from jaxrank.measures.grammar import one_measure, read_measures
from jaxrank.measures.measure import Measure, Measures
from jaxrank.rankings.exact import Exact


class Null(NamedTuple):
  """Queries under the null hypothesis of a random order.

  Attributes:
    scores: `[..., n]`, 0 for retrieved items and -inf for the others.
    labels: `[..., n]`, or `[..., n, subtopics]`.
    where: `[..., n]`, False on padding, or None.
    key: PRNG key of sampled orders, or None.
    samples: The number of sampled orders.
  """

  scores: Array
  labels: Array
  where: ArrayLike | None
  key: Array | None
  samples: int


class Statistic(NamedTuple):
  """The measures that a public function was called with.

  Attributes:
    function: The name of the function, with which error messages start.
    measures: The measures.
    by_name: Whether the function returns a dict, rather than the value of a single measure.
  """

  function: str
  measures: tuple[Measure, ...]
  by_name: bool

  def values(self, scores: Any, labels: Any, where: Any, ranking: Ranking = Exact()) -> list[Array]:
    """The values `[...]` of each measure."""
    with checks.named(self.function):
      evaluated = evaluate_calls(self.measures, scores, labels, where, ranking)
    return [x.value for x in evaluated]

  def named(self, values: Iterable[Any]) -> Any:
    """A dict of values by name, or the value of a single metric or measure."""
    if not self.by_name:
      return next(iter(values))
    return {measure.name: value for measure, value in zip(self.measures, values, strict=True)}


def statistic(function: str, measures: Measures, parameters: Mapping[str, Any]) -> Statistic:
  """Reads the measures of a public function: a metric with parameters, a measure, or several."""
  function = f"chance.{function}"
  with checks.named(function):
    if "ranking" in parameters:
      raise TypeError("ranking is not a parameter here: orders are random; leave it out.")
    if description.of_metric(measures) is not None:
      return Statistic(function, (one_measure(measures, parameters),), by_name=False)
    if parameters:
      raise TypeError(
        f"{', '.join(parameters)}: parameters go with a metric such as jaxrank.ndcg; those of a "
        "name are part of it, as in nDCG@10."
      )
    return Statistic(function, read_measures(measures), by_name=not isinstance(measures, Measure))


def null_of(
  of: Statistic,
  labels: Any,
  where: Any,
  retrieved: Any,
  key: Any,
  samples: int,
  values: Any = None,
) -> Null:
  """Checks the arguments; scores have the dtype of `values`, or float32 without any."""
  with checks.named(of.function):
    if key is not None:
      checks.prng_key(key)
    given, labels = labels, checks.array("labels", labels)
    scales.check_arrays(of.measures, given, where)
    dtype = jnp.result_type(*jax.tree.leaves(values) or [jnp.float32])
    subtopics = any(measure.description.subtopics for measure in of.measures)
    scores = jnp.zeros_like(labels[..., 0] if subtopics else labels, dtype)
    if retrieved is not None:
      retrieved = checks.boolean("retrieved", retrieved, scores, "False for items without a rank")
      scores = jnp.where(retrieved, scores, -jnp.inf)
    return Null(scores, labels, where, key, checks.count("samples", samples, 2))


def retrieved_by(scores: Any) -> Any:
  """Which items have a rank."""
  return ~jnp.isneginf(checks.array("scores", scores))


def moments_of(of: Statistic, null: Null, count: int = 2) -> tuple[list[Array], ...]:
  """The means and the standard deviations of all measures, or only the means for `count=1`."""
  moments = [_moments(of.function, measure, null, count) for measure in of.measures]
  return tuple(list(values) for values in zip(*moments, strict=True))


def _moments(function: str, measure: Measure, null: Null, count: int) -> tuple[Array, ...]:
  try:
    with checks.named(function):
      return _closed_form(measure, null, count)
  except NoClosedFormError:
    if null.key is None:
      raise
  (values,) = draws(Statistic(function, (measure,), by_name=False), null)
  return (jnp.mean(values, axis=0), jnp.std(values, axis=0, ddof=1))[:count]


def _closed_form(measure: Measure, null: Null, count: int) -> tuple[Array, ...]:
  about, parameters, *_ = measure.call()
  of_moments = description.with_kernel(about, _Moments(about, count))
  call = Call(of_moments, parameters, None)
  (evaluated,) = apply_calls([call], null.scores, null.labels, null.where, Shuffled())
  moments: tuple[Array, ...] = evaluated.value
  return moments


@dataclasses.dataclass(frozen=True)
class _Moments:
  """A kernel that computes the moments of a metric over all orders."""

  metric: Description
  count: int

  def __call__(self, query: ShuffledQuery, **parameters: Any) -> tuple[Array, ...]:
    kernel = functools.partial(self.metric.kernel, **parameters)
    mean = self.metric.value(query, parameters)
    slopes = slopes_of(kernel, query)
    if isinstance(slopes, str):
      raise NoClosedFormError(
        f"the metric {slopes}, so its mean under chance has no closed form; pass "
        "key=jax.random.key(0) to sample it, with the scores 0, 1, 2, ... in random orders."
      )
    if self.count == 1:
      return (mean,)
    if len(slopes) > 1:
      raise NoClosedFormError(
        f"the metric asks the ranking {len(slopes)} questions, whose covariances under chance have "
        "no closed form; pass key=jax.random.key(0) to sample its variance."
      )
    deviation = query.deviation(slopes[0]) if slopes else jnp.zeros_like(mean)
    return mean, deviation


def draws(of: Statistic, null: Null) -> list[Array]:
  """The values of each measure for random orders, `[samples, ...]`."""
  # Not laid out over devices as the scores are, which JAX cannot permute on an Explicit mesh.
  n, dtype = null.scores.shape[-1], null.scores.dtype
  column = jnp.broadcast_to(jnp.arange(n, dtype=dtype), null.scores.shape)

  def draw(key: Array) -> list[Array]:
    order = jax.random.permutation(key, column, axis=-1, independent=True)
    return of.values(order + null.scores, null.labels, null.where)

  with checks.named(of.function):
    keys = jax.random.split(checks.prng_key(null.key), null.samples)
  return jax.vmap(draw)(keys)
