"""Values of metrics compared with their moments under chance."""

from typing import Any, overload

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core.ranked import Ranking
from jaxrank.chance.null import moments_of, null_of, retrieved_by, statistic
from jaxrank.measures.measure import Many, Measures, One
from jaxrank.rankings.exact import Exact

# An expectation so many roundings from 1 leaves no room above chance.
_ROUNDINGS = 128


@overload
def adjusted(
  measures: One,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  ranking: Ranking = ...,
  key: Array | None = ...,
  samples: int = ...,
  **parameters: Any,
) -> Array: ...


@overload
def adjusted(
  measures: Many,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  ranking: Ranking = ...,
  key: Array | None = ...,
  samples: int = ...,
) -> dict[str, Array]: ...


def adjusted(
  measures: Measures,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
  key: Array | None = None,
  samples: int = 1000,
  **parameters: Any,
) -> Any:
  """The value of a metric corrected for chance: 0 for a random order, 1 for a value of 1.

  `(m - E) / (1 - E)` with value `m` and expectation `E` over the orders of the items with a
  score above -inf. It means something for a metric whose best value is 1.

  >>> import jaxrank as jr
  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([0, 1, 0, 0])
  >>> print(f"{adjusted(jr.reciprocal_rank, scores, labels):.5f}")  # .5 is less than chance gives
  -0.04348

  Args:
    measures: A metric, a measure, or names, metrics and measures as `evaluate` takes them.
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    ranking: Exact or smooth, for the value; chance is always exact.
    key: Samples what has no closed form, and nothing else.
    samples: How many orders are sampled, at once.
    **parameters: Those of the metric, such as `k`.

  Returns:
    `[...]`, at most 1 if the metric is; 0 where `E` is 1. By name for names.

  Raises:
    NoClosedFormError: if only samples could tell, and there is no key.
    TypeError: for parameters next to names, which have their own.
  """

  def adjust(value: Array, mean: Array) -> Array:
    room = 1 - mean
    none = jnp.abs(room) <= _ROUNDINGS * float(jnp.finfo(mean.dtype).eps)
    # Times 0, so that NaN stays.
    return jnp.where(none, (value - mean) * 0, (value - mean) / jnp.where(none, 1, room))

  of = statistic("adjusted", measures, parameters)
  values = of.values(scores, labels, where, ranking)
  null = null_of(of, labels, where, retrieved_by(scores), key, samples, values)
  return of.named(map(adjust, values, *moments_of(of, null, count=1)))


@overload
def z_score(
  measures: One,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  ranking: Ranking = ...,
  key: Array | None = ...,
  samples: int = ...,
  **parameters: Any,
) -> Array: ...


@overload
def z_score(
  measures: Many,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  ranking: Ranking = ...,
  key: Array | None = ...,
  samples: int = ...,
) -> dict[str, Array]: ...


def z_score(
  measures: Measures,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
  key: Array | None = None,
  samples: int = 1000,
  **parameters: Any,
) -> Any:
  """How many standard deviations a metric is from its expectation by chance.

  `(m - E) / std`, over the orders of the items with a score above -inf.

  >>> import jaxrank as jr
  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 1, 0, 0])
  >>> print(f"{z_score(jr.precision, scores, labels, k=2):.5f}")
  1.73205

  Args:
    measures: A metric, a measure, or names, metrics and measures as `evaluate` takes them.
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    ranking: Exact or smooth, for the value; chance is always exact.
    key: Samples what has no closed form, and nothing else.
    samples: How many orders are sampled, at once.
    **parameters: Those of the metric, such as `k`.

  Returns:
    `[...]`, 0 where no order differs; by name for names.

  Raises:
    NoClosedFormError: if only samples could tell, and there is no key.
    TypeError: for parameters next to names, which have their own.
  """

  def standardise(value: Array, mean: Array, deviation: Array) -> Array:
    never = deviation == 0
    return (value - mean) * jnp.where(never, 0, 1 / jnp.where(never, 1, deviation))

  of = statistic("z_score", measures, parameters)
  values = of.values(scores, labels, where, ranking)
  null = null_of(of, labels, where, retrieved_by(scores), key, samples, values)
  return of.named(map(standardise, values, *moments_of(of, null)))
