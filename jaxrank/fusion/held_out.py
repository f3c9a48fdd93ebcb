"""What a choice is worth on queries that did not choose: repeated cross-validation."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank.stats import student

Choice = Literal["equal", "single", "tuned"]
Pair: TypeAlias = tuple[Choice, Choice]
PAIRS: tuple[Pair, ...] = ("tuned", "equal"), ("tuned", "single"), ("single", "equal")

# With fewer queries nothing can be learnt.
FEWEST = 20


class Gain(NamedTuple):
  """How much better one of two fusions is on queries that did not choose it.

  Attributes:
    mean: The mean difference of the values of queries, positive if the first one is better.
    low: The lower end of its interval.
    high: The upper end of its interval.
    p_value: The p-value, corrected for the three comparisons.
  """

  mean: float
  low: float
  high: float
  p_value: float

  def __str__(self) -> str:
    p = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.4f}"
    return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f}, {p})"


def divided(key: Array, folds: int, repeats: int, group: np.ndarray) -> np.ndarray:
  """The fold of each query, `[repeats, queries]`, by the number of its group."""
  count = int(group.max()) + 1
  permuted = jax.vmap(lambda k: jax.random.permutation(k, count))(jax.random.split(key, repeats))
  return np.asarray(permuted)[:, group] % folds


def best(values: np.ndarray) -> int:
  """The first of the largest values, which may differ by rounding."""
  largest = values.max()
  return int(np.argmax(values >= largest - 1e-6 * max(1.0, abs(largest))))


def held_out(values: np.ndarray, folds: np.ndarray) -> np.ndarray:
  """The mean value of each query with the candidate that is best on the other folds.

  Args:
    values: `[candidates, queries]`.
    folds: `[repeats, queries]`.

  Returns:
    `[queries]`.
  """
  held = np.zeros(folds.shape)
  for row, fold in zip(held, folds, strict=True):
    for part in np.unique(fold):
      own = fold == part
      row[own] = values[best(values[:, ~own].mean(axis=1))][own]
  mean: np.ndarray = held.mean(axis=0)
  return mean


def gains(
  held: Mapping[Choice, np.ndarray], group: np.ndarray, folds: int, confidence: float
) -> dict[Pair, Gain]:
  """The three differences, with intervals that hold together."""
  differences = np.stack([held[first] - held[second] for first, second in PAIRS])
  mean = differences.mean(axis=1)
  # The queries of a group are one observation, their sum.
  count = int(group.max()) + 1
  sums = np.stack([np.bincount(group, x) for x in differences - mean[:, None]])
  variance = np.sum(sums**2, axis=1) / group.size**2 * count / (count - 1) * _inflation(folds)
  each = 1 - (1 - confidence) / len(PAIRS)
  margin, p_values = map(np.asarray, _intervals(mean, variance, float(count - 1), each))
  return {
    pair: Gain(float(m), float(m - wide), float(m + wide), float(p))
    for pair, m, wide, p in zip(PAIRS, mean, margin, p_values, strict=True)
  }


@jax.jit
def _intervals(
  mean: Array, variance: Array, freedom: Array, confidence: Array
) -> tuple[Array, Array]:
  """How far the ends of intervals are from the means, and p-values corrected as the intervals."""
  known = variance > 0
  t = jnp.where(known, mean / jnp.sqrt(jnp.where(known, variance, 1)), 0)
  margin = student.margin(variance, freedom, confidence)
  p_values = student.two_sided(t, jnp.full_like(t, freedom))
  return margin, jnp.minimum(len(PAIRS) * p_values, 1)


def _inflation(folds: int) -> float:
  """By how much the overlap of training folds widens the variance of a cross-validated mean.

  Nadeau and Bengio put `1 / J + n_test / n_train` in place of the `1 / J` of independent folds.
  """
  return 1 + folds / (folds - 1)


def recommended(found: Mapping[Pair, Gain], count: int, level: float) -> Choice:
  """The choice that the gains of so many queries or groups support."""

  def ahead(first: Choice, second: Choice) -> bool:
    gain = found[first, second]
    return gain.mean > 0 and gain.p_value < level

  if count < FEWEST:
    return "equal"
  single = ahead("single", "equal")
  if ahead("tuned", "equal") and (ahead("tuned", "single") or not single):
    return "tuned"
  return "single" if single else "equal"
