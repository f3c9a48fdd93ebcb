"""Internals of `jaxrank.ranks`: `Tasks`, the tasks of one list, and `Statistic`, the formulas."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrank._core.arithmetic import safe_divide

Moment = Literal["expected", "variance"]


class Tasks(NamedTuple):
  """The ranking tasks of one list.

  A target that ties with others has any of the whole ranks from the best to the worst, with equal
  chance. One that does not has one rank, which need not be whole.

  Attributes:
    best: `[n]`, the best rank of each target, as floats; 1 where a task is left out.
    worst: `[n]`, the worst rank.
    candidates: `[n]`, the numbers of candidates, as floats; 1 where one is left out or unknown.
    weights: `[n]`, 0 where a task is left out.
    k: The cut-off of the statistic, if it has one.
  """

  best: Array
  worst: Array
  candidates: Array
  weights: Array
  k: Any

  @property
  def ranks(self) -> Array:
    """The mean rank of each target, `[n]`."""
    return 0.5 * (self.best + self.worst)

  @property
  def width(self) -> Array:
    """How many ranks each target may have, `[n]`."""
    return self.worst - self.best + 1

  @property
  def share(self) -> Array:
    """The weights divided by their sum, `[n]`."""
    return safe_divide(self.weights, jnp.sum(self.weights))

  def mean(self, x: Array) -> Array:
    """The weighted mean of `x`, `[n]`; with equal weights, integers are summed exactly."""
    return safe_divide(jnp.sum(self.weights * x), jnp.sum(self.weights))

  def mean_variance(self, v: Array) -> Array:
    """The variance of the weighted mean of independent numbers with the variances `v`, `[n]`."""
    return jnp.sum(self.share**2 * v)


Formula = Callable[[Tasks], Array]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Statistic:
  """The formulas of a statistic of ranks, and its properties.

  Under chance each rank is uniform on 1 to its number of candidates, independently of the others.

  Attributes:
    name: The name in snake case; it ends in `k` if the statistic has a cut-off.
    doc: The docstring of its `RankMetric`.
    increasing: Whether larger is better.
    bounds: The least and the largest value.
    value: Computes the statistic.
    surplus: Computes `value - 1`, exactly 0 where all ranks are 1 and the value is 1. `adjusted`
      is meant for statistics whose best value is 1.
    expected: Computes the expectation under chance; None without a closed form.
    expected_surplus: Computes `expected - 1`, exactly where every task has one candidate; None
      without a closed form.
    variance: Computes the variance under chance; None without a closed form.
    synonyms: Other names that `resolve` accepts.
    weighted: Whether the closed forms also hold for weighted tasks.
    needs_candidates: Whether the value depends on the numbers of candidates.
    derived: The function that makes this statistic's metric of another metric, such as `adjusted`,
      and the statistic of that metric. None for a statistic that is an attribute of
      `jaxrank.ranks` under its name.
  """

  name: str
  doc: str | None
  increasing: bool
  bounds: tuple[float, float]
  value: Formula
  surplus: Formula
  expected: Formula | None = None
  expected_surplus: Formula | None = None
  variance: Formula | None = None
  synonyms: tuple[str, ...] = ()
  weighted: bool = True
  needs_candidates: bool = False
  derived: tuple[Callable[..., Any], "Statistic"] | None = None

  def moment(self, moment: Moment) -> Formula | None:
    """The formula of a moment under chance; None without a closed form."""
    return self.expected if moment == "expected" else self.variance
