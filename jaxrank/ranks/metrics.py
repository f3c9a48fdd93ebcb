"""The statistics of ranks: means and their inverses, hits at k, measures of spread, and the count.

Each is a `RankMetric`, which the decorator makes from the formula below it. Users call it with
ranks `[..., n]`, `query_weights=` and `candidates=`. In the docstrings, the task `i` has the rank
`r_i`, `C_i` candidates and the weight `p_i`, where the weights of a list are divided by their sum.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array

from jaxrank.ranks import medians, over_ties
from jaxrank.ranks._define import averaged, rank_metric
from jaxrank.ranks._metric import RankMetric
from jaxrank.ranks._statistic import Tasks
from jaxrank.ranks.powers import Power, harmonic, harmonic_squares, power

_INF = math.inf

# The third quartile of the standard normal distribution, by which a median absolute deviation is
# divided to estimate a standard deviation.
_QUARTILE = 0.6744897501960817


@averaged(
  increasing=False,
  bounds=(1, _INF),
  synonyms=("mean_rank", "mr"),
  mean=lambda tasks: (tasks.candidates + 1) / 2,
  spread=lambda tasks: (tasks.candidates - 1) * (tasks.candidates + 1) / 12,
)
def arithmetic_mean_rank(tasks: Tasks) -> Array:
  """Mean rank, `MR = sum_i p_i r_i`.

  Under chance, `E = sum p (C + 1) / 2` and `V = sum p^2 (C^2 - 1) / 12`.

  >>> print(f"{arithmetic_mean_rank(jnp.array([1, 2, 4])):.6f}")
  2.333333
  """
  return tasks.ranks


@rank_metric(increasing=True, bounds=(0, 1), synonyms=("iamr",))
def inverse_arithmetic_mean_rank(tasks: Tasks) -> Array:
  """Inverse of the mean rank, `1 / MR`.

  >>> print(f"{inverse_arithmetic_mean_rank(jnp.array([1, 2, 4])):.6f}")
  0.428571
  """
  return 1 / tasks.mean(tasks.ranks)


@averaged(
  increasing=True,
  bounds=(0, 1),
  synonyms=("mean_reciprocal_rank", "mrr"),
  mean=lambda tasks: harmonic(tasks.candidates) / tasks.candidates,
  spread=lambda tasks: jnp.maximum(
    harmonic_squares(tasks.candidates) / tasks.candidates
    - (harmonic(tasks.candidates) / tasks.candidates) ** 2,
    0,
  ),
)
def inverse_harmonic_mean_rank(tasks: Tasks) -> Array:
  """Mean reciprocal rank, `MRR = sum_i p_i / r_i`.

  Under chance, `E = sum p H_1(C) / C` and `V = sum p^2 (H_2(C) / C - (H_1(C) / C)^2)`, with the
  harmonic numbers `H_m(C) = sum_{j <= C} j^-m`.

  >>> print(f"{inverse_harmonic_mean_rank(jnp.array([1, 2, 4])):.6f}")
  0.583333
  >>> print(f"{inverse_harmonic_mean_rank.expected(jnp.array([4, 4, 4])):.6f}")
  0.520833
  """
  return over_ties.reciprocal(tasks)


@rank_metric(increasing=False, bounds=(1, _INF), synonyms=("hmr",))
def harmonic_mean_rank(tasks: Tasks) -> Array:
  """Harmonic mean rank, `1 / MRR`.

  >>> print(f"{harmonic_mean_rank(jnp.array([1, 2, 4])):.6f}")
  1.714286
  """
  return 1 / tasks.mean(over_ties.reciprocal(tasks))


def _powers(tasks: Tasks) -> Power:
  return jax.vmap(power)(tasks.candidates, tasks.share)


def _log_expected_gmr(tasks: Tasks) -> Array:
  return jnp.sum(_powers(tasks).log_mean)


def _gmr_variance(tasks: Tasks) -> Array:
  moments = _powers(tasks)
  relative = jnp.expm1(jnp.sum(jnp.log1p(moments.variance)))
  return jnp.exp(2 * jnp.sum(moments.log_mean)) * relative


@rank_metric(
  increasing=False,
  bounds=(1, _INF),
  synonyms=("gmr",),
  surplus=lambda tasks: jnp.expm1(over_ties.log_geometric_mean(tasks)),
  expected=lambda tasks: jnp.exp(_log_expected_gmr(tasks)),
  expected_surplus=lambda tasks: jnp.expm1(_log_expected_gmr(tasks)),
  variance=_gmr_variance,
)
def geometric_mean_rank(tasks: Tasks) -> Array:
  """Geometric mean rank, `GMR = prod_i r_i^{p_i}`.

  Under chance, `E = prod E r^p` and `V = prod E r^{2 p} - E^2`, where
  `E r^p = sum_{j <= C} j^p / C`.

  >>> print(f"{geometric_mean_rank(jnp.array([1, 2, 4])):.6f}")
  2.000000
  """
  return jnp.exp(over_ties.log_geometric_mean(tasks))


@rank_metric(increasing=True, bounds=(0, 1), synonyms=("igmr",))
def inverse_geometric_mean_rank(tasks: Tasks) -> Array:
  """Inverse of the geometric mean rank, `1 / GMR`.

  >>> print(f"{inverse_geometric_mean_rank(jnp.array([1, 2, 4])):.6f}")
  0.500000
  """
  return jnp.exp(-over_ties.log_geometric_mean(tasks))


@rank_metric(
  increasing=False,
  bounds=(1, _INF),
  expected=lambda tasks: medians.expected(tasks.candidates, tasks.share),
  variance=lambda tasks: medians.variance(tasks.candidates, tasks.share),
  weighted=False,
)
def median_rank(tasks: Tasks) -> Array:
  """Median rank; with an even number of tasks, the mean of the middle two ranks.

  The moments under chance are exact, for tasks of equal weight only. For `n` tasks and at most `C`
  candidates they take `C n^2 / 2` steps.

  >>> print(f"{median_rank(jnp.array([1, 2, 4])):.1f} {median_rank(jnp.array([1, 2, 4, 5])):.1f}")
  2.0 3.0
  >>> print(f"{median_rank.expected(jnp.array([3, 4])):.2f}")
  2.25
  """
  return over_ties.median(tasks)


@rank_metric(increasing=True, bounds=(0, 1))
def inverse_median_rank(tasks: Tasks) -> Array:
  """Inverse of the median rank.

  >>> print(f"{inverse_median_rank(jnp.array([1, 2, 4])):.6f}")
  0.500000
  """
  return 1 / over_ties.median(tasks)


def _chance_of_hit(tasks: Tasks) -> Array:
  return jnp.minimum(tasks.k / tasks.candidates, 1)


@averaged(
  increasing=True,
  bounds=(0, 1),
  synonyms=("h@k", "hits@k", "h@", "hits@", "hits_at_", "h_at_"),
  mean=_chance_of_hit,
  spread=lambda tasks: _chance_of_hit(tasks) * (1 - _chance_of_hit(tasks)),
  k=10,
)
def hits_at_k(tasks: Tasks) -> Array:
  """Hits at k, `sum_i p_i [r_i <= k]`; `k` is 10 unless it is given.

  `hits_at_k(ranks, k=5)` has another cut-off, and `hits_at_k.at(5)` is the statistic with it.

  Under chance, `E = sum p q` and `V = sum p^2 q (1 - q)`, with `q = min(k / C, 1)`.

  >>> print(f"{hits_at_k.at(2)(jnp.array([1, 2, 4])):.6f}")
  0.666667
  """
  return jnp.clip(jnp.floor(tasks.k - tasks.best) + 1, 0, tasks.width) / tasks.width


def _variance_of_ranks(tasks: Tasks) -> Array:
  return _variance_of_uniform(tasks, tasks.ranks, tasks.width)


def _expected_variance(tasks: Tasks) -> Array:
  return _variance_of_uniform(tasks, (tasks.candidates + 1) / 2, tasks.candidates)


def _variance_of_uniform(tasks: Tasks, mean: Array, width: Array) -> Array:
  """The expected variance of ranks that are uniform on as many whole numbers around a mean."""
  own = (width - 1) * (width + 1) / 12
  return tasks.mean((1 - tasks.share) * own + (mean - tasks.mean(mean)) ** 2)


@rank_metric(
  increasing=False,
  bounds=(0, _INF),
  synonyms=("rank_var", "var"),
  expected=_expected_variance,
)
def variance(tasks: Tasks) -> Array:
  """The variance of the ranks, `sum_i p_i (r_i - MR)^2`.

  Under chance, `E = sum p ((1 - p) (C^2 - 1) / 12 + (c - sum p c)^2)`, with `c = (C + 1) / 2`.

  >>> print(f"{variance(jnp.array([1, 2, 4])):.6f}")
  1.555556
  """
  return _variance_of_ranks(tasks)


@rank_metric(increasing=False, bounds=(0, _INF), synonyms=("rank_std", "std"))
def standard_deviation(tasks: Tasks) -> Array:
  """The standard deviation of the ranks, the square root of their variance.

  >>> print(f"{standard_deviation(jnp.array([1, 2, 4])):.6f}")
  1.247219
  """
  # The gradient of the square root is infinite at 0.
  var = _variance_of_ranks(tasks)
  return jnp.where(var > 0, jnp.sqrt(jnp.where(var > 0, var, 1)), 0)


@rank_metric(increasing=False, bounds=(0, _INF), synonyms=("rank_mad", "mad"))
def median_absolute_deviation(tasks: Tasks) -> Array:
  """The median absolute deviation from the median rank, divided by 0.67449.

  The divisor makes it an estimate of the standard deviation, exact for a normal distribution.

  >>> print(f"{median_absolute_deviation(jnp.array([1, 2, 4])):.6f}")
  1.482602
  """
  return over_ties.median_distance(tasks) / _QUARTILE


def _number(tasks: Tasks) -> Array:
  return jnp.sum(tasks.weights > 0, dtype=tasks.weights.dtype)


@rank_metric(
  increasing=True,
  bounds=(0, _INF),
  synonyms=("rank_count",),
  expected=_number,
  variance=lambda tasks: jnp.zeros_like(_number(tasks)),
)
def count(tasks: Tasks) -> Array:
  """The number of ranks with a positive weight.

  >>> print(f"{count(jnp.array([1, 2, 4]), jnp.array([1, 1, 0])):.0f}")
  2
  """
  return _number(tasks)


# doctest collects functions and classes by itself, and other objects from `__test__`.
__test__ = {
  x.statistic.name: x.statistic.doc
  for x in list(globals().values())
  if isinstance(x, RankMetric) and x.statistic.doc
}
