"""Statistics of ranks held against chance: normalised, reindexed, z-scored.

All are affine in the statistic they adjust, with coefficients that depend on the numbers of
candidates and the weights alone. Chance is what realistic ranks are compared with; ranks that are
optimistic about ties beat it by their optimism.
"""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxrank._core.arithmetic import safe_divide
from jaxrank.ranks import metrics
from jaxrank.ranks._metric import RankMetric, documented
from jaxrank.ranks._statistic import Formula, Statistic, Tasks

_INF = math.inf


def expectation_normalized(base: RankMetric, **known: Any) -> RankMetric:
  """`M / E[M]`: a random order gives 1.

  >>> normalized = expectation_normalized(metrics.hits_at_k.at(2))
  >>> print(f"{normalized(jnp.array([1, 4]), candidates=4):.2f}")
  1.00

  Args:
    base: A statistic with a closed form of its expected value.
    **known: `name`, `synonyms` and `bounds` of the result, and its docstring `doc`.

  Returns:
    A statistic that needs the numbers of candidates.

  Raises:
    ValueError: without the closed form.
  """
  expected, variance = _closed(base, "expected"), base.statistic.variance
  value = base.statistic.value
  return _adjusted(
    base,
    value=lambda tasks: safe_divide(value(tasks), expected(tasks)),
    expected=lambda tasks: jnp.ones((), tasks.weights.dtype),
    variance=variance and (lambda tasks: safe_divide(variance(tasks), expected(tasks) ** 2)),
    increasing=base.increasing,
    **{"name": f"normalized_{base.statistic.name}", "bounds": (0, _INF)} | known,
  )


def reindexed(base: RankMetric, **known: Any) -> RankMetric:
  """`(M - E[M]) / (1 - E[M])`: a random order gives 0, the best 1.

  0 where there is nothing to choose from. Of a statistic whose best value is 1.

  >>> print(f"{reindexed(metrics.arithmetic_mean_rank)(jnp.array([1, 4]), candidates=4):.2f}")
  0.00

  Args:
    base: A statistic with a closed form of its expected value.
    **known: `name`, `synonyms` and `bounds` of the result, and its docstring `doc`.

  Returns:
    A statistic that needs the numbers of candidates.

  Raises:
    ValueError: without the closed form.
  """
  expected, variance = _closed(base, "expected_surplus"), base.statistic.variance
  surplus = base.statistic.surplus

  def value(tasks: Tasks) -> Array:
    chance = expected(tasks)
    return jnp.where(chance == 0, 0, 1 - safe_divide(surplus(tasks), chance))

  return _adjusted(
    base,
    value=value,
    expected=lambda tasks: jnp.zeros((), tasks.weights.dtype),
    variance=variance and (lambda tasks: safe_divide(variance(tasks), expected(tasks) ** 2)),
    increasing=True,
    **{"name": f"adjusted_{base.statistic.name}", "bounds": (-_INF, 1)} | known,
  )


def z_scored(base: RankMetric, **known: Any) -> RankMetric:
  """`(M - E[M]) / sqrt(V[M])`, with the sign by which larger is better.

  0 where there is nothing to choose from.

  >>> print(f"{z_scored(metrics.hits_at_k.at(2))(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.577350

  Args:
    base: A statistic with closed forms of its expected value and variance.
    **known: `name`, `synonyms` and `bounds` of the result, and its docstring `doc`.

  Returns:
    A statistic that needs the numbers of candidates.

  Raises:
    ValueError: without the closed forms.
  """
  expected, variance = _closed(base, "expected_surplus"), _closed(base, "variance")
  surplus, sign = base.statistic.surplus, 1 if base.increasing else -1

  def value(tasks: Tasks) -> Array:
    return safe_divide(sign * (surplus(tasks) - expected(tasks)), jnp.sqrt(variance(tasks)))

  return _adjusted(
    base,
    value=value,
    expected=lambda tasks: jnp.zeros((), tasks.weights.dtype),
    variance=lambda tasks: (variance(tasks) > 0).astype(tasks.weights.dtype),
    increasing=True,
    **{"name": f"z_{base.statistic.name}", "bounds": (-_INF, _INF)} | known,
  )


def _closed(base: RankMetric, what: str) -> Callable[[Tasks], Array]:
  if not isinstance(base, RankMetric):
    raise TypeError(f"a base must be a rank metric such as jr.ranks.resolve('mrr'), got {base!r}.")
  formula = getattr(base.statistic, what)
  if formula is None:
    raise ValueError(f"{base.name} has no closed form of what chance gives: it cannot be adjusted.")
  return formula


def _adjusted(base: RankMetric, *, value: Formula, doc: str | None = None, **known: Any):
  statistic = Statistic(
    value=value,
    surplus=lambda tasks: value(tasks) - 1,
    weighted=base.statistic.weighted,
    needs_candidates=True,
    **known,
  )
  return documented(RankMetric(statistic, base.k), doc)


adjusted_arithmetic_mean_rank = expectation_normalized(
  metrics.arithmetic_mean_rank,
  name="adjusted_arithmetic_mean_rank",
  synonyms=("adjusted_mean_rank", "amr", "aamr"),
  bounds=(0, 2),
  doc="""Adjusted mean rank, `AMR = MR / E[MR]`: below 1 is better than chance.

  >>> print(f"{adjusted_arithmetic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.933333
  """,
)

adjusted_arithmetic_mean_rank_index = reindexed(
  metrics.arithmetic_mean_rank,
  name="adjusted_arithmetic_mean_rank_index",
  synonyms=("adjusted_mean_rank_index", "amri", "aamri"),
  bounds=(-1, 1),
  doc="""Adjusted mean rank index, `AMRI = 1 - (MR - 1) / (E[MR] - 1)`.

  >>> print(f"{adjusted_arithmetic_mean_rank_index(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.111111
  """,
)

adjusted_geometric_mean_rank_index = reindexed(
  metrics.geometric_mean_rank,
  name="adjusted_geometric_mean_rank_index",
  synonyms=("gmri", "agmri"),
  doc="""The geometric mean rank, reindexed: a random order gives 0, the best 1.

  >>> print(f"{adjusted_geometric_mean_rank_index(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.238095
  """,
)

adjusted_inverse_harmonic_mean_rank = reindexed(
  metrics.inverse_harmonic_mean_rank,
  name="adjusted_inverse_harmonic_mean_rank",
  synonyms=("amrr", "aihmr", "adjusted_mrr", "adjusted_mean_reciprocal_rank"),
  doc="""The mean reciprocal rank, reindexed: a random order gives 0, the best 1.

  >>> print(f"{adjusted_inverse_harmonic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.130435
  """,
)

adjusted_hits_at_k = reindexed(
  metrics.hits_at_k,
  name="adjusted_hits_at_k",
  synonyms=(
    "ahk",
    "ah@k",
    "ahits@k",
    "ah@",
    "ahits@",
    "ahits_at_",
    "ah_at_",
    "adjusted_hits_at_",
  ),
  doc="""Hits at k, reindexed: a random order gives 0, the best 1.

  >>> print(f"{adjusted_hits_at_k.at(2)(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.333333
  """,
)

z_arithmetic_mean_rank = z_scored(
  metrics.arithmetic_mean_rank,
  synonyms=("zamr", "zmr"),
  doc="""The mean rank in standard deviations better than chance.

  >>> print(f"{z_arithmetic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.258199
  """,
)

z_geometric_mean_rank = z_scored(
  metrics.geometric_mean_rank,
  synonyms=("zgmr",),
  doc="""The geometric mean rank in standard deviations better than chance.

  >>> print(f"{z_geometric_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.463990
  """,
)

z_inverse_harmonic_mean_rank = z_scored(
  metrics.inverse_harmonic_mean_rank,
  synonyms=("zmrr", "zihmr"),
  doc="""The mean reciprocal rank in standard deviations better than chance.

  >>> print(f"{z_inverse_harmonic_mean_rank(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.372104
  """,
)

z_hits_at_k = z_scored(
  metrics.hits_at_k,
  synonyms=("z_hits_at_", "zahk"),
  doc="""Hits at k in standard deviations better than chance.

  >>> print(f"{z_hits_at_k.at(2)(jnp.array([1, 2, 4]), candidates=4):.6f}")
  0.577350
  """,
)

# The collector of doctests looks for functions and classes only.
__test__ = {x.name: x.__doc__ for x in list(globals().values()) if isinstance(x, RankMetric)}
