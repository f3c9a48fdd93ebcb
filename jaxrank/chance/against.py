"""Values of metrics compared with their moments under chance: `adjusted` and `z_score`."""

from typing import Any, overload

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core.ranked import Ranking
from jaxrank.chance.null import moments_of, null_of, retrieved_by, statistic
from jaxrank.measures.measure import Many, Measures, One
from jaxrank.rankings.exact import Exact

# An expectation that differs from 1 by at most so many units of rounding counts as 1.
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
  """The value of a metric corrected for chance: 0 for a random order, 1 where the metric is 1.

  `(m - E) / (1 - E)`, with the value `m` and its expectation `E` over all orders of the items with
  scores above -inf. It is meant for metrics whose best value is 1.

  >>> import jaxrank as jr
  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([0, 1, 0, 0])
  >>> print(f"{adjusted(jr.reciprocal_rank, scores, labels):.5f}")  # 0.5 is below the expectation
  -0.04348

  See `jaxrank.chance` for the arguments and the errors that its functions share.

  Returns:
    The adjusted value of each query, `[...]`, or a dict of such arrays: at most 1 if the metric is
    at most 1, and 0 where `E` is 1.

  Raises:
    NoClosedFormError: if there is no closed form of the mean and no `key`.
  """

  def adjust(value: Array, mean: Array) -> Array:
    room = 1 - mean
    none = jnp.abs(room) <= _ROUNDINGS * float(jnp.finfo(mean.dtype).eps)
    # Multiplied by 0 rather than replaced by 0, so that NaN stays.
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
  """The value of a metric in standard deviations from its expectation under chance.

  `(m - E) / std`, with the value `m`, and its expectation `E` and standard deviation `std` over all
  orders of the items with scores above -inf.

  >>> import jaxrank as jr
  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 1, 0, 0])
  >>> print(f"{z_score(jr.precision, scores, labels, k=2):.5f}")
  1.73205

  See `jaxrank.chance` for the arguments and the errors that its functions share.

  Returns:
    The z-score of each query, `[...]`, or a dict of such arrays; 0 where all orders have the same
    value.

  Raises:
    NoClosedFormError: if there is no closed form of the mean or of the standard deviation, and no
      `key`.
  """

  def standardise(value: Array, mean: Array, deviation: Array) -> Array:
    never = deviation == 0
    return (value - mean) * jnp.where(never, 0, 1 / jnp.where(never, 1, deviation))

  of = statistic("z_score", measures, parameters)
  values = of.values(scores, labels, where, ranking)
  null = null_of(of, labels, where, retrieved_by(scores), key, samples, values)
  return of.named(map(standardise, values, *moments_of(of, null)))
