"""`paired_t` and what belongs to it: the size of an effect, and the queries needed to see it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import floating
from jaxrank.stats import _values, student

# The largest number of queries that `queries_needed` considers; float32 counts exactly up to it.
_MOST = 1 << 24


class Comparison(NamedTuple):
  """The result of a test of two systems.

  Attributes:
    statistic: `[...]`, the statistic of the test, positive if the first system is better.
    p_value: `[...]`, the two-sided p-value.
  """

  statistic: Array
  p_value: Array


def paired_t(x: ArrayLike, y: ArrayLike) -> Comparison:
  """Student's paired t test, two-sided.

  The statistic is `mean(d) / (std(d) / sqrt(n))` of the differences `d = x - y`. If all differences
  are 0, the statistic is 0 and the p-value is 1; if all are equal otherwise, the statistic is
  infinite and the p-value is 0.

  >>> x, y = jnp.array([0.5, 0.7, 0.9, 0.4]), jnp.array([0.4, 0.5, 0.8, 0.4])
  >>> statistic, p_value = paired_t(x, y)
  >>> print(f"{statistic:.4f} {p_value:.4f}")
  2.4495 0.0917

  Args:
    x: `[..., n]`, the values of one system.
    y: `[..., n]`, those of the other, for the same queries.

  Returns:
    The t statistic and the p-value, `[...]`.

  Raises:
    ValueError: if shapes differ, or there are fewer than two queries.
    TypeError: if the values are not numbers.

  References:
    Student, `The probable error of a mean <https://doi.org/10.1093/biomet/6.1.1>`_, 1908.
  """
  with checks.named("stats.paired_t"):
    x, y = _values.pair(x, y, least=2)
  return Comparison(*_paired_t(x, y))


@jax.jit
def _paired_t(x: Array, y: Array) -> tuple[Array, Array]:
  n = x.shape[-1]
  t = _effect(x, y) * n**0.5
  return t, student.two_sided(t, jnp.full((1,) * t.ndim, n - 1, t.dtype))


def effect_size(x: ArrayLike, y: ArrayLike) -> Array:
  """Cohen's d of paired values: the mean difference in units of its standard deviation.

  `mean(d) / std(d)` for `d = x - y`, with the unbiased variance; 0 if all differences are 0.

  >>> print(f"{effect_size(jnp.array([0.5, 0.7, 0.9]), jnp.array([0.4, 0.4, 0.7])):.4f}")
  2.0000

  Args:
    x: `[..., n]`, the values of one system.
    y: `[..., n]`, those of the other, for the same queries.

  Returns:
    `[...]`, positive if `x` is larger.

  Raises:
    ValueError: if shapes differ, or there are fewer than two queries.
    TypeError: if the values are not numbers.

  References:
    Cohen, `Statistical power analysis for the behavioral sciences
    <https://doi.org/10.4324/9780203771587>`_, 1988.
  """
  with checks.named("stats.effect_size"):
    effect: Array = _effect(*_values.pair(x, y, least=2))
  return effect


@jax.jit
def _effect(x: Array, y: Array) -> Array:
  # Equal differences have deviation 0, although their mean may be rounded.
  difference = x - y
  first = difference[..., :1]
  mean = jnp.mean(difference, axis=-1)
  equal = jnp.all(difference == first, axis=-1)
  return _ratio(mean, jnp.where(equal, 0, jnp.std(difference, axis=-1, ddof=1)))


def _ratio(difference: Array, deviation: Array) -> Array:
  """`difference / deviation`, and 0 for `0 / 0`."""
  none = (difference == 0) & (deviation == 0)
  return jnp.where(none, 0, difference / jnp.where(none, 1, deviation))


def queries_needed(
  difference: ArrayLike, deviation: ArrayLike, *, power: ArrayLike = 0.8, level: ArrayLike = 0.05
) -> Array:
  """The number of queries with which a paired t test finds a difference.

  It is the smallest `n` of at least 2 for which the two-sided test at `level` rejects with a
  probability of at least `power`, by the noncentral t distribution.

  >>> print(queries_needed(0.02, 0.1))
  199.0

  Args:
    difference: `[...]`, the difference of the means.
    deviation: `[...]`, the standard deviation of the differences of queries.
    power: `[...]` or a number between 0 and 1, the probability of finding the difference.
    level: `[...]` or a number between 0 and 1, the level of the test.

  Returns:
    `[...]`, whole numbers as floats; infinity if they exceed 2^24, as for no difference.

  Raises:
    ValueError: if shapes differ, or `power` or `level` is out of range.
    TypeError: if an argument is not numeric.
  """
  with checks.named("stats.queries_needed"):
    checks.unit_interval("power", power)
    checks.unit_interval("level", level)
    arrays = [
      floating(checks.array(name, value))
      for name, value in zip(
        ("difference", "deviation", "power", "level"),
        (difference, deviation, power, level),
        strict=True,
      )
    ]
    shapes = {x.shape for x in arrays if x.ndim}
    if len(shapes) > 1:
      raise ValueError(f"arguments must have one shape or none, got {sorted(shapes)}.")
  dtype = jnp.result_type(*(x.dtype for x in arrays))
  shape = shapes.pop() if shapes else ()
  needed: Array = _queries_needed(*(jnp.broadcast_to(x.astype(dtype), shape) for x in arrays))
  return needed


@jax.jit
def _queries_needed(difference: Array, deviation: Array, power: Array, level: Array) -> Array:
  effect = _ratio(jnp.abs(difference), deviation)

  def enough(n: Array) -> Array:
    reached: Array = student.power(effect * jnp.sqrt(n), level, n - 1) >= power
    return reached

  def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    few, many = bounds
    middle = jnp.floor(0.5 * (few + many))
    suffices = enough(middle)
    return jnp.where(suffices, few, middle), jnp.where(suffices, middle, many)

  # `few` queries are too few: 1 is, because there is no deviation.
  one = jnp.ones_like(effect)
  _, many = lax.fori_loop(0, 24, halve, (one, one * _MOST))
  needed = jnp.where((many < _MOST) | enough(many), jnp.maximum(many, 2), jnp.inf)
  return jnp.where(jnp.isnan(effect), jnp.nan, needed)
