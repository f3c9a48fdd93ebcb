"""`prediction_powered`: a few queries with judgements of people, and many with those of a model."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import floating, safe_divide
from jaxrank.stats import _values, student


class Powered(NamedTuple):
  """A mean by the judgements of people and of a model, `[...]`.

  Attributes:
    low: The lower end of the interval.
    mean: The mean.
    high: The upper end of the interval.
    weight: The weight of the model's judgements; 0 if they do not help.
    gain: The share by which the interval is narrower than that of the judgements of people alone.
  """

  low: Array
  mean: Array
  high: Array
  weight: Array
  gain: Array


def prediction_powered(
  labelled: ArrayLike,
  predicted: ArrayLike,
  unlabelled: ArrayLike,
  *,
  confidence: ArrayLike = 0.95,
) -> Powered:
  """The mean of a metric by judgements of people, with the help of those of a model.

  With the values `y` of labelled queries by the judgements of people, `p` of the same queries by
  those of a model, and `u` of other queries by those of the model, the mean is
  `mean(y) + w (mean(u) - mean(p))`. Its expectation is that of `mean(y)`, whatever the bias of the
  model, if labelled queries are a random part of all. The weight with the least variance is
  `w = cov(y, p) / ((1 + n / N) var(p, u))` for `n` labelled and `N` other queries. The interval is
  that of a t distribution with `n - 2` degrees of freedom and the variance
  `w^2 var(u) / N + var(y - w p) / n`, where the latter has the divisor `n - 2` because the weight
  is estimated too. If the interval of Student's t for the labelled queries alone is not wider, that
  is the result, and the weight is 0; below a confidence of 0.5 the intervals of 0.5 decide.

  For the difference of two systems, pass the differences of their values in all three arguments.
  Each has its own weight, so that the mean of differences is not the difference of the two means.

  An interval of t is approximate: for values that are rare or very skewed, such as successes of one
  query in twenty, it covers less than it says unless there are hundreds of labelled queries.

  >>> y, p = jnp.array([0.2, 0.9, 0.5, 0.7, 0.1, 0.6]), jnp.array([0.4, 1.0, 0.7, 0.8, 0.2, 0.8])
  >>> value = prediction_powered(y, p, jnp.linspace(0.2, 1.0, 60))
  >>> print(f"{value.low:.3f} {value.mean:.3f} {value.high:.3f}, {value.gain:.0%} narrower")
  0.236 0.431 0.626, 39% narrower

  Args:
    labelled: `[..., n]`, the values of labelled queries by the judgements of people.
    predicted: `[..., n]`, the values of the same queries by the judgements of the model.
    unlabelled: `[..., N]`, the values of other queries by the judgements of the model.
    confidence: Probability that the interval contains the mean over all queries, in [0, 1]; may be
      traced.

  Returns:
    The interval, the mean, the weight of the model, and how much narrower the interval is, `[...]`.

  Raises:
    ValueError: if there are fewer than two queries of a kind, labelled queries without the values
      of the model, leading axes differ, or `confidence` is out of range.
    TypeError: if an argument has a wrong type.

  References:
    Angelopoulos, Duchi and Zrnic, `PPI++: efficient prediction-powered inference
    <https://arxiv.org/abs/2311.01453>`_, 2023.
  """
  with checks.named("stats.prediction_powered"):
    y, p, u = (
      floating(checks.array(name, x))
      for name, x in (
        ("labelled", labelled),
        ("predicted", predicted),
        ("unlabelled", unlabelled),
      )
    )
    _values.enough("labelled", y, 2)
    _values.enough("unlabelled", u, 2)
    if p.shape != y.shape:
      raise ValueError(
        f"labelled and predicted must be the values of the same queries, got {y.shape} and "
        f"{p.shape}; pass the value by the model's judgements for each labelled query."
      )
    if u.shape[:-1] != y.shape[:-1]:
      raise ValueError(
        f"unlabelled must have the leading axes of labelled, got {u.shape} and {y.shape}; pass the "
        "values of the same systems and measures."
      )
    checks.unit_interval("confidence", confidence)
  y, p, u = _values.alike(y, p, u)
  return Powered(*_powered(y, p, u, jnp.asarray(confidence, y.dtype)))


@jax.jit
def _powered(y: Array, p: Array, u: Array, confidence: Array) -> tuple[Array, ...]:
  n, others = y.shape[-1], u.shape[-1]
  mean = jnp.mean(y, axis=-1)
  model = jnp.mean(p, axis=-1, keepdims=True)
  covariance = jnp.sum((y - mean[..., None]) * (p - model), axis=-1) / (n - 1)
  spread = jnp.var(jnp.concatenate([p, u], axis=-1), axis=-1, ddof=1)
  # A judge of one value says nothing, although its values may be rounded.
  says = spread > jnp.square(_values.tolerance(p) / n)
  weight = jnp.where(says, safe_divide(covariance, (1 + n / others) * spread), 0)

  rest = jnp.var(y - weight[..., None] * p, axis=-1, ddof=min(2, n - 1))
  variance = jnp.square(weight) * jnp.var(u, axis=-1, ddof=1) / others + rest / n

  def margins(confidence: Array) -> tuple[Array, Array]:
    alone = student.margin(jnp.var(y, axis=-1, ddof=1) / n, n - 1, confidence)
    if n <= 2:
      return alone, jnp.full_like(alone, jnp.inf)
    return alone, student.margin(variance, n - 2, confidence)

  # An interval that is narrower at a confidence of 0.5 is so at all lower ones, because a t
  # distribution of fewer degrees of freedom has heavier tails. At 0 neither has a width.
  alone, margin = margins(jnp.maximum(confidence, 0.5))
  helps = ~(margin >= alone)
  alone, margin = margins(confidence)
  weight = jnp.where(helps, weight, 0)
  margin = jnp.where(helps, margin, alone)
  mean = mean + weight * (jnp.mean(u, axis=-1) - model[..., 0])
  gain = jnp.where(helps & (alone > 0), 1 - safe_divide(margin, alone), 0)
  # Without the model's judgements there is no result, also if they would not help.
  mean = mean + 0 * (jnp.sum(p, axis=-1) + jnp.sum(u, axis=-1))
  return mean - margin, mean, mean + margin, weight, gain
