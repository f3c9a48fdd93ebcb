"""Statistics of ranks compared with chance: adjusted, z-scored, divided by their expectation.

Each is an affine function of the statistic that it is derived from, with coefficients that depend
only on the numbers of candidates and the weights. Chance is a random order without ties, which a
constant scorer equals on average. Optimistic ranks of tied items are better than chance for any
model, and are not compared with it.
"""

import functools
import math

import jax.numpy as jnp
from jax import Array

from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_divide
from jaxrank.ranks import metrics
from jaxrank.ranks._define import named
from jaxrank.ranks._metric import RankMetric
from jaxrank.ranks._statistic import Formula, Statistic, Tasks

_INF = math.inf


def expectation_normalized(base: RankMetric) -> RankMetric:
  """A metric divided by its expectation under chance, `M / E[M]`: a random order gives 1.

  >>> metric = expectation_normalized(metrics.hits_at_k.at(2))
  >>> print(f"{metric(jnp.array([1, 4]), candidates=4):.2f}")
  1.00

  Args:
    base: The metric `M`, whose expectation has a closed form.

  Returns:
    A metric that needs the numbers of candidates.

  Raises:
    ValueError: if the expectation has no closed form, or the metric compares with chance already.
    TypeError: if `base` is not a rank metric.
  """
  _check_base("expectation_normalized", base)
  return RankMetric(_expectation_normalized(base.statistic), base.k)


def adjusted(base: RankMetric) -> RankMetric:
  """A metric adjusted for chance, `(M - E[M]) / (1 - E[M])`: a random order gives 0, and 1 stays 1.

  The value is 0 where every task has one candidate. It is meant for metrics whose best value is 1.
  `jaxrank.chance.adjusted` is the same for metrics of scores and labels.

  >>> print(f"{adjusted(metrics.arithmetic_mean_rank)(jnp.array([1, 4]), candidates=4):.2f}")
  0.00

  Args:
    base: The metric `M`, with the best value 1 and a closed form of its expectation.

  Returns:
    A metric that needs the numbers of candidates.

  Raises:
    ValueError: if the expectation has no closed form, or the metric compares with chance already.
    TypeError: if `base` is not a rank metric.
  """
  _check_base("adjusted", base)
  return RankMetric(_adjusted(base.statistic), base.k)


def z_score(base: RankMetric) -> RankMetric:
  """The z-score of a metric, `(M - E[M]) / sqrt(V[M])`, negated if smaller values are better.

  The value is 0 where every task has one candidate.

  >>> print(f"{z_score(metrics.hits_at_k.at(2))(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.577350

  Args:
    base: The metric `M`, with closed forms of its expectation and its variance.

  Returns:
    A metric that needs the numbers of candidates.

  Raises:
    ValueError: if a moment has no closed form, or the metric compares with chance already.
    TypeError: if `base` is not a rank metric.
  """
  _check_base("z_score", base)
  return RankMetric(_z_score(base.statistic), base.k)


def _check_base(function: str, base: RankMetric) -> None:
  if not isinstance(base, RankMetric):
    raise TypeError(
      f"ranks.{function}: base must be a rank metric, got {checks.told(base)}; pass one such as "
      "jr.ranks.resolve('mrr')."
    )


def _closed_form(function: str, base: Statistic, formula: Formula | None) -> Formula:
  if formula is not None:
    return formula
  if base.needs_candidates:
    raise ValueError(
      f"ranks.{function}: base must be a metric of ranks alone, got {base.name}, which compares "
      "with chance already; pass the metric that it is derived from."
    )
  raise ValueError(
    f"ranks.{function}: base must have closed forms of its moments under chance, got {base.name}, "
    f"which has none; compare with the moments of {base.name}.sampled_values instead."
  )


# A statistic is derived only once, so that `jit` compiles for it once, and metrics that are made
# twice are equal.
@functools.cache
def _expectation_normalized(base: Statistic) -> Statistic:
  expected = _closed_form("expectation_normalized", base, base.expected)

  def value(tasks: Tasks) -> Array:
    return safe_divide(base.value(tasks), expected(tasks))

  return Statistic(
    name=f"expectation_normalized_{base.name}",
    doc="`M / E[M]` of a metric `M`: a random order gives 1.",
    increasing=base.increasing,
    bounds=(0, _INF),
    value=value,
    surplus=lambda tasks: value(tasks) - 1,
    expected=lambda tasks: jnp.ones((), tasks.weights.dtype),
    variance=_scaled_variance(base.variance, expected),
    weighted=base.weighted,
    needs_candidates=True,
    derived=(expectation_normalized, base),
  )


@functools.cache
def _adjusted(base: Statistic) -> Statistic:
  expected_surplus = _closed_form("adjusted", base, base.expected_surplus)

  def value(tasks: Tasks) -> Array:
    chance = expected_surplus(tasks)
    return jnp.where(chance == 0, 0, 1 - safe_divide(base.surplus(tasks), chance))

  return Statistic(
    name=f"adjusted_{base.name}",
    doc="`(M - E[M]) / (1 - E[M])` of a metric `M`: a random order gives 0, and 1 stays 1.",
    increasing=True,
    bounds=(-_INF, 1),
    value=value,
    surplus=lambda tasks: value(tasks) - 1,
    expected=lambda tasks: jnp.zeros((), tasks.weights.dtype),
    variance=_scaled_variance(base.variance, expected_surplus),
    weighted=base.weighted,
    needs_candidates=True,
    derived=(adjusted, base),
  )


@functools.cache
def _z_score(base: Statistic) -> Statistic:
  expected_surplus = _closed_form("z_score", base, base.expected_surplus)
  variance = _closed_form("z_score", base, base.variance)
  sign = 1 if base.increasing else -1

  def value(tasks: Tasks) -> Array:
    distance = sign * (base.surplus(tasks) - expected_surplus(tasks))
    return safe_divide(distance, jnp.sqrt(variance(tasks)))

  return Statistic(
    name=f"z_{base.name}",
    doc="`(M - E[M]) / sqrt(V[M])` of a metric `M`, with the sign for which larger is better.",
    increasing=True,
    bounds=(-_INF, _INF),
    value=value,
    surplus=lambda tasks: value(tasks) - 1,
    expected=lambda tasks: jnp.zeros((), tasks.weights.dtype),
    variance=lambda tasks: (variance(tasks) > 0).astype(tasks.weights.dtype),
    weighted=base.weighted,
    needs_candidates=True,
    derived=(z_score, base),
  )


def _scaled_variance(variance: Formula | None, scale: Formula) -> Formula | None:
  """The variance of a statistic that is divided by `scale`."""
  return variance and (lambda tasks: safe_divide(variance(tasks), scale(tasks) ** 2))


@named(synonyms=("adjusted_mean_rank", "amr", "aamr"), bounds=(0, 2))
def adjusted_arithmetic_mean_rank() -> RankMetric:
  """Adjusted mean rank, `AMR = MR / E[MR]`: below 1 is better than chance.

  >>> print(f"{adjusted_arithmetic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.933333
  """
  return expectation_normalized(metrics.arithmetic_mean_rank)


@named(synonyms=("adjusted_mean_rank_index", "amri", "aamri"), bounds=(-1, 1))
def adjusted_arithmetic_mean_rank_index() -> RankMetric:
  """Adjusted mean rank index, `AMRI = 1 - (MR - 1) / (E[MR] - 1)`.

  >>> print(f"{adjusted_arithmetic_mean_rank_index(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.111111
  """
  return adjusted(metrics.arithmetic_mean_rank)


@named(synonyms=("gmri", "agmri"))
def adjusted_geometric_mean_rank_index() -> RankMetric:
  """The geometric mean rank adjusted for chance: a random order gives 0, the best ranks 1.

  >>> print(f"{adjusted_geometric_mean_rank_index(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.238095
  """
  return adjusted(metrics.geometric_mean_rank)


@named(synonyms=("amrr", "aihmr", "adjusted_mrr", "adjusted_mean_reciprocal_rank"))
def adjusted_inverse_harmonic_mean_rank() -> RankMetric:
  """The mean reciprocal rank adjusted for chance: a random order gives 0, the best ranks 1.

  >>> print(f"{adjusted_inverse_harmonic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.130435
  """
  return adjusted(metrics.inverse_harmonic_mean_rank)


@named(
  synonyms=(
    "ahk",
    "ah@k",
    "ahits@k",
    "ah@",
    "ahits@",
    "ahits_at_",
    "ah_at_",
    "adjusted_hits_at_",
  )
)
def adjusted_hits_at_k() -> RankMetric:
  """Hits at k adjusted for chance: a random order gives 0, the best ranks 1.

  >>> print(f"{adjusted_hits_at_k.at(2)(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.333333
  """
  return adjusted(metrics.hits_at_k)


@named(synonyms=("zamr", "zmr"))
def z_arithmetic_mean_rank() -> RankMetric:
  """The mean rank in standard deviations better than chance.

  >>> print(f"{z_arithmetic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.258199
  """
  return z_score(metrics.arithmetic_mean_rank)


@named(synonyms=("zgmr",))
def z_geometric_mean_rank() -> RankMetric:
  """The geometric mean rank in standard deviations better than chance.

  >>> print(f"{z_geometric_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.463990
  """
  return z_score(metrics.geometric_mean_rank)


@named(synonyms=("zmrr", "zihmr"))
def z_inverse_harmonic_mean_rank() -> RankMetric:
  """The mean reciprocal rank in standard deviations better than chance.

  >>> print(f"{z_inverse_harmonic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.372104
  """
  return z_score(metrics.inverse_harmonic_mean_rank)


@named(synonyms=("z_hits_at_", "zahk"))
def z_hits_at_k() -> RankMetric:
  """Hits at k in standard deviations better than chance.

  >>> print(f"{z_hits_at_k.at(2)(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.577350
  """
  return z_score(metrics.hits_at_k)


# doctest collects functions and classes by itself, and other objects from `__test__`.
__test__ = {
  x.statistic.name: x.statistic.doc
  for x in list(globals().values())
  if isinstance(x, RankMetric) and x.statistic.doc
}
