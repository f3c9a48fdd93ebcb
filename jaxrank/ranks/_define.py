"""Decorators that make a `RankMetric` from a formula, with its name and its docstring.

`metrics` and `against_chance` use them.
"""

import dataclasses
from collections.abc import Callable

from jax import Array

from jaxrank.ranks._metric import RankMetric
from jaxrank.ranks._statistic import Formula, Statistic, Tasks


def rank_metric(
  *,
  increasing: bool,
  bounds: tuple[float, float],
  synonyms: tuple[str, ...] = (),
  k: int | None = None,
  surplus: Formula | None = None,
  expected: Formula | None = None,
  expected_surplus: Formula | None = None,
  variance: Formula | None = None,
  weighted: bool = True,
) -> Callable[[Formula], RankMetric]:
  """Makes a metric from the formula of its value; the arguments are those of `Statistic`."""

  def make(value: Formula) -> RankMetric:
    statistic = Statistic(
      name=value.__name__,
      doc=value.__doc__,
      increasing=increasing,
      bounds=bounds,
      value=value,
      surplus=surplus or _less_one(value),
      expected=expected,
      expected_surplus=expected_surplus or (expected and _less_one(expected)),
      variance=variance,
      synonyms=synonyms,
      weighted=weighted,
    )
    return RankMetric(statistic, k)

  return make


def averaged(
  *,
  increasing: bool,
  bounds: tuple[float, float],
  mean: Formula,
  spread: Formula,
  synonyms: tuple[str, ...] = (),
  k: int | None = None,
) -> Callable[[Formula], RankMetric]:
  """Makes the metric that is the weighted mean of a formula with one value for each rank, `[n]`.

  The formulas `mean` and `spread` give the expectation and the variance under chance of the value
  of each task, `[n]`. The other arguments are those of `Statistic`, and the cut-off `k`.
  """

  def make(each: Formula) -> RankMetric:
    statistic = Statistic(
      name=each.__name__,
      doc=each.__doc__,
      increasing=increasing,
      bounds=bounds,
      value=lambda tasks: tasks.mean(each(tasks)),
      surplus=lambda tasks: tasks.mean(each(tasks) - 1),
      expected=lambda tasks: tasks.mean(mean(tasks)),
      expected_surplus=lambda tasks: tasks.mean(mean(tasks) - 1),
      variance=lambda tasks: tasks.mean_variance(spread(tasks)),
      synonyms=synonyms,
    )
    return RankMetric(statistic, k)

  return make


def named(
  *, synonyms: tuple[str, ...], bounds: tuple[float, float] | None = None
) -> Callable[[Callable[[], RankMetric]], RankMetric]:
  """Gives the metric that a function returns the name and the docstring of the function.

  Args:
    synonyms: Other names that `resolve` accepts.
    bounds: The least and the largest value; None keeps those of the metric.

  Returns:
    A decorator.
  """

  def make(define: Callable[[], RankMetric]) -> RankMetric:
    metric = define()
    statistic = dataclasses.replace(
      metric.statistic,
      name=define.__name__,
      doc=define.__doc__,
      bounds=bounds or metric.bounds,
      synonyms=synonyms,
      derived=None,
    )
    return RankMetric(statistic, metric.k)

  return make


def _less_one(formula: Formula) -> Formula:
  def less_one(tasks: Tasks) -> Array:
    return formula(tasks) - 1

  return less_one
