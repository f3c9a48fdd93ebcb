"""Corrections of metrics that were measured on a sample of the items.

The rank among a sample favours other models than the rank among all. Where all items are too many
even for `target_ranks`, these bring the metric of the whole corpus back, at the price of variance.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from jaxrank._core import checks

# So many ranks of the whole corpus are summed at a time.
_BLOCK = 4096


def unsampled_rank(ranks: ArrayLike, sampled: int, items: int) -> np.ndarray:
  """The unbiased estimate of the rank among all items from the rank among a sample.

  `1 + (n - 1) (r - 1) / m`, with the rank `r` among the target and `m` others, drawn uniformly and
  with replacement from the other `n - 1`.

  >>> print(unsampled_rank([1, 3], sampled=100, items=10_001))
  [  1. 201.]

  Args:
    ranks: `[...]`, from 1 to `sampled + 1`.
    sampled: How many others were drawn.
    items: How many there are, the target included.

  Returns:
    `[...]`, float64. A metric of these ranks is biased still, unless it is linear in the rank.

  Raises:
    ValueError: if a rank is out of range, or a number is not positive.

  References:
    Krichene and Rendle, `On sampled metrics for item recommendation
    <https://doi.org/10.1145/3394486.3403226>`_, 2020.
  """
  _check(sampled, items)
  ranks = np.asarray(ranks, np.float64)
  if ranks.size and not (ranks.min() >= 1 and ranks.max() <= sampled + 1):
    raise ValueError(
      f"ranks must be from 1 to sampled + 1 = {sampled + 1}, got {ranks.min():g} to "
      f"{ranks.max():g}."
    )
  return 1 + (items - 1) * (ranks - 1) / sampled


def unsampled_metric(
  metric: Callable[[np.ndarray], ArrayLike], sampled: int, items: int, *, tradeoff: float = 0.1
) -> np.ndarray:
  """The values to give to sampled ranks, so that their mean estimates a metric of all items.

  The table `f` that minimises `sum_r (E[f(R) | r] - metric(r))^2 + g Var[f(R) | r]` over all ranks
  `r` of the whole corpus, with the sampled rank `R - 1` binomial, of `m` draws with the chance
  `(r - 1) / (n - 1)` each, and the trade-off `g`: less bias near 0, less variance near 1.

  >>> table = unsampled_metric(lambda r: 1 / r, sampled=4, items=100)
  >>> sampled_ranks = np.array([1, 1, 3])
  >>> print(*(f"{value:.3f}" for value in table[sampled_ranks - 1]))
  0.295 0.295 0.016

  Args:
    metric: Gives values for ranks, both `[n]`, such as `lambda r: 1 / r` or `lambda r: r <= 10`.
    sampled: How many others were drawn, uniformly and with replacement.
    items: How many there are, the target included.
    tradeoff: From 0 to 1. Near 0 the values grow without bound.

  Returns:
    `[sampled + 1]`, float64: the value for each sampled rank, from 1 on.

  Raises:
    ValueError: if a number is out of range, or the metric gives other shapes or no numbers.

  References:
    Krichene and Rendle, `On sampled metrics for item recommendation
    <https://doi.org/10.1145/3394486.3403226>`_, 2020.
  """
  _check(sampled, items)
  if not 0 <= tradeoff <= 1:
    raise ValueError(f"tradeoff must be from 0 to 1, got {tradeoff}.")
  checks.function("metric", metric, "a function of ranks")
  ranks = np.arange(1, items + 1)
  values = np.asarray(metric(ranks), np.float64)
  if values.shape != ranks.shape:
    raise ValueError(f"metric must give one value a rank, {ranks.shape}, got {values.shape}.")
  if not np.isfinite(values).all():
    at = int(ranks[~np.isfinite(values)][0])
    raise ValueError(f"metric must be finite, got {values[at - 1]} at rank {at}.")
  size = sampled + 1
  products, share, target = np.zeros((size, size)), np.zeros(size), np.zeros(size)
  for start in range(0, items, _BLOCK):
    chance = _binomial(sampled, (ranks[start : start + _BLOCK] - 1) / max(items - 1, 1))
    products += chance.T @ chance
    share += chance.sum(axis=0)
    target += chance.T @ values[start : start + _BLOCK]
  penalty = tradeoff * np.diag(share)
  table: np.ndarray = np.linalg.lstsq((1 - tradeoff) * products + penalty, target)[0]
  return table


def _binomial(draws: int, chance: np.ndarray) -> np.ndarray:
  """`[ranks, draws + 1]`, the probabilities of each number of hits."""
  hits = np.arange(draws + 1)
  logs = np.append(0, np.cumsum(np.log(np.arange(1, draws + 1))))
  ways = logs[-1] - logs - logs[::-1]
  with np.errstate(divide="ignore", invalid="ignore"):
    hit, miss = np.log(chance)[:, None], np.log1p(-chance)[:, None]
    # 0 hits of chance 0 are certain.
    powers = np.where(hits > 0, hits * hit, 0) + np.where(hits < draws, (draws - hits) * miss, 0)
  probabilities: np.ndarray = np.exp(ways + powers)
  return probabilities


def _check(sampled: int, items: int) -> None:
  for name, value in (("sampled", sampled), ("items", items)):
    checks.count(name, value)
