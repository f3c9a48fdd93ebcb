"""Moments of metrics under chance: `expected`, `std` and `variance`, and `sampled` estimates."""

import statistics
from typing import Any, NamedTuple, overload

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_sqrt
from jaxrank.chance.null import draws, moments_of, null_of, statistic
from jaxrank.measures.measure import Many, Measures, One


class Sampled(NamedTuple):
  """Sampled moments, `[...]`, each with half the width of its confidence interval.

  Attributes:
    expected: The mean of the samples.
    expected_margin: Half the width of the confidence interval of the mean.
    variance: The unbiased variance of the samples.
    variance_margin: Half the width of the confidence interval of the variance.
  """

  expected: Array
  expected_margin: Array
  variance: Array
  variance_margin: Array


@overload
def expected(
  measures: One,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  key: Array | None = ...,
  samples: int = ...,
  **parameters: Any,
) -> Array: ...


@overload
def expected(
  measures: Many,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  key: Array | None = ...,
  samples: int = ...,
) -> dict[str, Array]: ...


def expected(
  measures: Measures,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  retrieved: ArrayLike | None = None,
  key: Array | None = None,
  samples: int = 1000,
  **parameters: Any,
) -> Any:
  """The mean of a metric over all orders of the retrieved items.

  >>> import jaxrank as jr
  >>> labels = jnp.array([1, 0, 0, 0])
  >>> print(f"{expected(jr.reciprocal_rank, labels):.5f}")  # (1 + 1/2 + 1/3 + 1/4) / 4
  0.52083
  >>> print({name: f"{value:.5f}" for name, value in expected("P@2 AP", labels).items()})
  {'P@2': '0.25000', 'AP': '0.52083'}

  See `jaxrank.chance` for the arguments and the errors that its functions share.

  Returns:
    The mean of each query, `[...]`, or a dict of such arrays.

  Raises:
    NoClosedFormError: if there is no closed form of the mean and no `key`.
  """
  of = statistic("expected", measures, parameters)
  null = null_of(of, labels, where, retrieved, key, samples)
  return of.named(moments_of(of, null, count=1)[0])


@overload
def std(
  measures: One,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  key: Array | None = ...,
  samples: int = ...,
  **parameters: Any,
) -> Array: ...


@overload
def std(
  measures: Many,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  key: Array | None = ...,
  samples: int = ...,
) -> dict[str, Array]: ...


def std(
  measures: Measures,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  retrieved: ArrayLike | None = None,
  key: Array | None = None,
  samples: int = 1000,
  **parameters: Any,
) -> Any:
  """The standard deviation of a metric over all orders of the retrieved items.

  The time is at most O(n log n) except for ERR and nERR, which take O(k^2) memory, and O(k^2) time
  for each item with a positive probability to stop. `k` counts as `n` there unless it is a Python
  int.

  >>> import jaxrank as jr
  >>> print(f"{std(jr.precision, jnp.array([1, 0, 0, 0]), k=2):.5f}")
  0.25000

  See `jaxrank.chance` for the arguments and the errors that its functions share.

  Returns:
    The standard deviation of each query, `[...]`, or a dict of such arrays; exactly 0 if all orders
    have the same value.

  Raises:
    NoClosedFormError: if there is no closed form of the standard deviation and no `key`.
  """
  of = statistic("std", measures, parameters)
  null = null_of(of, labels, where, retrieved, key, samples)
  return of.named(moments_of(of, null)[1])


@overload
def variance(
  measures: One,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  key: Array | None = ...,
  samples: int = ...,
  **parameters: Any,
) -> Array: ...


@overload
def variance(
  measures: Many,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  key: Array | None = ...,
  samples: int = ...,
) -> dict[str, Array]: ...


def variance(
  measures: Measures,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  retrieved: ArrayLike | None = None,
  key: Array | None = None,
  samples: int = 1000,
  **parameters: Any,
) -> Any:
  """The variance of a metric over all orders of the retrieved items: the square of `std`.

  >>> import jaxrank as jr
  >>> print(f"{variance(jr.precision, jnp.array([1, 0, 0, 0]), k=2):.5f}")
  0.06250

  See `jaxrank.chance` for the arguments and the errors that its functions share.

  Returns:
    The variance of each query, `[...]`, or a dict of such arrays; exactly 0 if all orders have the
    same value.

  Raises:
    NoClosedFormError: if there is no closed form of the variance and no `key`.
  """
  of = statistic("variance", measures, parameters)
  null = null_of(of, labels, where, retrieved, key, samples)
  return of.named(map(jnp.square, moments_of(of, null)[1]))


@overload
def sampled(
  measures: One,
  labels: ArrayLike,
  *,
  key: Array,
  samples: int = ...,
  confidence: float = ...,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
  **parameters: Any,
) -> Sampled: ...


@overload
def sampled(
  measures: Many,
  labels: ArrayLike,
  *,
  key: Array,
  samples: int = ...,
  confidence: float = ...,
  where: ArrayLike | None = ...,
  retrieved: ArrayLike | None = ...,
) -> dict[str, Sampled]: ...


def sampled(
  measures: Measures,
  labels: ArrayLike,
  *,
  key: Array,
  samples: int = 1000,
  confidence: float = 0.95,
  where: ArrayLike | None = None,
  retrieved: ArrayLike | None = None,
  **parameters: Any,
) -> Any:
  """The mean and the variance of a metric over sampled orders, with confidence intervals.

  >>> import jax
  >>> import jaxrank as jr
  >>> moments = sampled(jr.spearman, jnp.arange(11), key=jax.random.key(0))
  >>> print(abs(moments.expected) < 2 * moments.expected_margin)
  True
  >>> print(abs(moments.variance - 1 / 10) < 2 * moments.variance_margin)
  True

  See `jaxrank.chance` for the arguments and the errors that its functions share.

  Args:
    key: PRNG key; each query draws random orders of its own.
    confidence: Confidence level of the intervals, between 0 and 1: the probability that an interval
      contains the exact moment, by the normal approximation.

  Returns:
    `Sampled` moments and margins, `[...]` each, or a dict of these.

  Raises:
    ValueError: if `samples` is less than 2, or `confidence` is not between 0 and 1.
  """
  with checks.named("chance.sampled"):
    checks.number("confidence", confidence)
    if not 0 < confidence < 1:
      raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
  errors = statistics.NormalDist().inv_cdf((1 + confidence) / 2)

  def summarise(values: Array) -> Sampled:
    mean, deviation = jnp.mean(values, axis=0), jnp.std(values, axis=0, ddof=1)
    variance = jnp.square(deviation)
    fourth = jnp.mean((values - mean[None]) ** 4, axis=0)
    unsure = fourth - (samples - 3) / (samples - 1) * jnp.square(variance)
    margins = (errors / samples**0.5 * x for x in (deviation, safe_sqrt(unsure)))
    return Sampled(mean, next(margins), variance, next(margins))

  of = statistic("sampled", measures, parameters)
  null = null_of(of, labels, where, retrieved, key, samples)
  return of.named(map(summarise, draws(of, null)))
