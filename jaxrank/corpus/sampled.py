"""Corrections of metrics that were measured on a sample of the items.

Ranks among a sample may order models differently than ranks among all items. If there are too many
items for `target_ranks`, these functions estimate the metric of the whole corpus from sampled
ranks, with more variance.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from jaxrank._core import checks

# The number of ranks of the whole corpus that are summed at a time.
_BLOCK = 4096


def unsampled_rank(ranks: ArrayLike, sampled: int, items: int) -> np.ndarray:
  """The unbiased estimate of the rank among all items from the rank among a sample.

  `1 + (n - 1) (r - 1) / m`, with the rank `r` of the target among itself and `m` other items, which
  are drawn uniformly with replacement from the other `n - 1` items.

  >>> print(unsampled_rank([1, 3], sampled=100, items=10_001))
  [  1. 201.]

  Args:
    ranks: `[...]`, ranks among the sample, from 1 to `sampled + 1`; NaN, of a query without a rank,
      stays NaN.
    sampled: The number `m` of items that were drawn, at least 1.
    items: The number `n` of all items, the target included.

  Returns:
    `[...]`, float64. A metric of these ranks is biased unless it is linear in the rank.

  Raises:
    ValueError: if a rank is out of range, or a number is not positive.

  References:
    Krichene and Rendle, `On sampled metrics for item recommendation
    <https://doi.org/10.1145/3394486.3403226>`_, 2020.
  """
  with checks.named("corpus.unsampled_rank"):
    _check(sampled, items)
    ranks = checks.on_host("ranks", ranks).astype(np.float64)
    known = ranks[~np.isnan(ranks)]
    if known.size and not (known.min() >= 1 and known.max() <= sampled + 1):
      raise ValueError(
        f"ranks must be from 1 to sampled + 1 = {sampled + 1}, got {known.min():g} to "
        f"{known.max():g}."
      )
  return 1 + (items - 1) * (ranks - 1) / sampled


def unsampled_metric(
  metric: Callable[[np.ndarray], ArrayLike], sampled: int, items: int, *, tradeoff: float = 0.1
) -> np.ndarray:
  """A table of values for sampled ranks, whose mean estimates a metric of ranks among all items.

  The table `f` minimises `sum_r (E[f(R) | r] - metric(r))^2 + g Var[f(R) | r]` over all ranks `r`
  among the whole corpus, where `R` is the sampled rank: `R - 1` is binomial, with `m` draws of
  probability `(r - 1) / (n - 1)`. A trade-off `g` near 0 gives less bias, and near 1 less variance.

  >>> table = unsampled_metric(lambda r: 1 / r, sampled=4, items=100)
  >>> sampled_ranks = np.array([1, 1, 3])
  >>> print(*(f"{value:.3f}" for value in table[sampled_ranks - 1]))
  0.295 0.295 0.016

  Args:
    metric: Function from ranks `[n]`, a numpy array, to values `[n]`, such as `lambda r: 1 / r` or
      `lambda r: r <= 10`.
    sampled: The number `m` of other items that were drawn, uniformly with replacement; at least 1.
    items: The number `n` of items of the corpus, with the target; at least 1.
    tradeoff: Number `g` from 0 to 1. Near 0 the values become very large.

  Returns:
    `[sampled + 1]`, float64, the value for each sampled rank from 1 on.

  Raises:
    ValueError: if a number is out of range, or the metric returns another shape or values that are
      not finite.
    TypeError: if `sampled` or `items` is not an int, or `metric` is not a function.

  References:
    Krichene and Rendle, `On sampled metrics for item recommendation
    <https://doi.org/10.1145/3394486.3403226>`_, 2020.
  """
  name = "corpus.unsampled_metric"
  with checks.named(name):
    _check(sampled, items)
    checks.unit_interval("tradeoff", tradeoff)
    checks.function("metric", metric, "a function of ranks")
    ranks = np.arange(1, items + 1)
    values = checks.on_host("the values of metric", metric(ranks)).astype(np.float64)
  if values.shape != ranks.shape:
    raise ValueError(
      f"{name}: metric must return one value for each rank, {ranks.shape}, got {values.shape}."
    )
  if not np.isfinite(values).all():
    at = int(ranks[~np.isfinite(values)][0])
    raise ValueError(f"{name}: metric must be finite, got {values[at - 1]} at rank {at}.")
  size = sampled + 1
  products, expected, target = np.zeros((size, size)), np.zeros(size), np.zeros(size)
  for start in range(0, items, _BLOCK):
    chance = _binomial(sampled, (ranks[start : start + _BLOCK] - 1) / max(items - 1, 1))
    products += chance.T @ chance
    expected += chance.sum(axis=0)
    target += chance.T @ values[start : start + _BLOCK]
  penalty = tradeoff * np.diag(expected)
  table: np.ndarray = np.linalg.lstsq((1 - tradeoff) * products + penalty, target)[0]
  return table


def _binomial(draws: int, chance: np.ndarray) -> np.ndarray:
  """`[ranks, draws + 1]`, the probability of each number of hits for each chance of a hit."""
  hits = np.arange(draws + 1)
  logs = np.append(0, np.cumsum(np.log(np.arange(1, draws + 1))))
  ways = logs[-1] - logs - logs[::-1]
  with np.errstate(divide="ignore", invalid="ignore"):
    hit, miss = np.log(chance)[:, None], np.log1p(-chance)[:, None]
    # The probability of 0 hits at chance 0 is 1, where the product 0 * log(0) would be NaN.
    powers = np.where(hits > 0, hits * hit, 0) + np.where(hits < draws, (draws - hits) * miss, 0)
  probabilities: np.ndarray = np.exp(ways + powers)
  return probabilities


def _check(sampled: int, items: int) -> None:
  for name, value in (("sampled", sampled), ("items", items)):
    checks.count(name, value)
