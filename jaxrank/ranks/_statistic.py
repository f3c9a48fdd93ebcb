"""What a statistic of ranks may ask of its tasks, and the formulas that it is made of."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrank._core.arithmetic import safe_divide


class Tasks(NamedTuple):
  """The ranking tasks of one list.

  Attributes:
    ranks: `[n]`, as floats, 1 where a task is left out.
    candidates: `[n]`, how many candidates each has, as floats; 1 where it is left out or unknown.
    weights: `[n]`, 0 where a task is left out.
    k: The cut-off of the statistic, if it has one.
  """

  ranks: Array
  candidates: Array
  weights: Array
  k: Any

  @property
  def share(self) -> Array:
    """`[n]`, weights over their sum."""
    return safe_divide(self.weights, jnp.sum(self.weights))

  def mean(self, x: Array) -> Array:
    """The weighted mean; of whole numbers of equal weight, their exact sum is divided once."""
    return safe_divide(jnp.sum(self.weights * x), jnp.sum(self.weights))

  def mean_variance(self, v: Array) -> Array:
    """The variance of the weighted mean of independent numbers of variances `v`."""
    return jnp.sum(self.share**2 * v)


Formula = Callable[[Tasks], Array]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Statistic:
  """The formulas of a statistic of ranks, and what there is to know about it.

  By chance each rank is uniform on 1 to its number of candidates, independent of the others.

  Attributes:
    value: From the tasks.
    surplus: `value - 1`, exact where all ranks are 1; every statistic that is adjusted is best
      at 1.
    expected: By chance; None without a closed form.
    expected_surplus: `expected - 1`, exact where there is nothing to choose from.
    variance: By chance; None without a closed form.
    weighted: Whether chance has its closed form for weighted tasks too.
    needs_candidates: Whether the value depends on the numbers of candidates.
  """

  name: str
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
