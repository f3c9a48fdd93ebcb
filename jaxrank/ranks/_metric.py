"""`RankMetric`, a statistic of ranks and its moments under chance."""

import dataclasses
import functools
import math
import pkgutil
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import pytree
from jaxrank._core import batching, checks
from jaxrank._core.arithmetic import kept_within
from jaxrank.ranks._apply import apply, as_floats, broadcastable, draw
from jaxrank.ranks._statistic import Moment, Statistic
from jaxrank.ranks.target import TargetRanks

_MOMENTS: dict[Moment, str] = {"expected": "expectation", "variance": "variance"}

# The largest number of random ranks in memory at a time.
_DRAWN = 1 << 20


class _InstanceDoc:
  """A descriptor for `__doc__`: the docstring of each metric, and that of the class."""

  def __init__(self, of_class: str | None):
    self.of_class = of_class

  def __get__(self, metric: "RankMetric | None", owner: type | None = None) -> str | None:
    return self.of_class if metric is None else metric.statistic.doc


@pytree("k")
@dataclasses.dataclass(frozen=True, repr=False)
class RankMetric:
  """A statistic of the ranks of targets: a function of ranks, with its moments under chance.

  The metrics of `jaxrank.ranks`, and the results of `adjusted`, `z_score` and
  `expectation_normalized`, are instances. A metric is a pytree with its cut-off as the only leaf,
  and can be pickled.

  Attributes:
    statistic: The formulas and properties of the statistic.
    k: The cut-off; None for a statistic without one.
  """

  statistic: Statistic
  k: int | Array | None = None

  __doc__ = cast(Any, _InstanceDoc(__doc__))

  def __repr__(self) -> str:
    return f"<rank metric {self.name}>"

  def __reduce__(self) -> tuple[Any, ...]:
    statistic = self.statistic
    if statistic.derived is not None:
      derive, base = statistic.derived
      return derive, (RankMetric(base, self.k),)
    qualified_name = f"jaxrank.ranks:{statistic.name}"
    metric = pkgutil.resolve_name(qualified_name)
    if metric is self or self.k is None:
      return pkgutil.resolve_name, (qualified_name,)
    return RankMetric.at, (metric, self.k)

  def at(self, k: int | Array) -> "RankMetric":
    """The same statistic with another cut-off.

    Args:
      k: The cut-off, a positive integer; may be traced.

    Returns:
      A metric.

    Raises:
      ValueError: if the statistic has no cut-off, or `k` is less than 1.
      TypeError: if `k` is not an integer.
    """
    name = self.statistic.name
    with checks.named(f"{name}.at"):
      if self.k is None:
        got = checks.told(k)
        raise ValueError(f"{name} has no cut-off, got k={got}; call {name} itself.")
      if k is None:
        raise TypeError("k must be a positive integer, got None; pass an int such as 10.")
      if isinstance(k, int | np.integer) and k < 1:
        raise ValueError(f"k must be at least 1, got {k}; pass an int such as 10.")
      return dataclasses.replace(self, k=checks.cutoff(k))

  @property
  def name(self) -> str:
    """The name in snake case, with the cut-off if it is not traced."""
    name = self.statistic.name
    return f"{name[:-1]}{self.k}" if isinstance(self.k, int) else name

  @property
  def synonyms(self) -> tuple[str, ...]:
    """Other names that `resolve` accepts."""
    return self.statistic.synonyms

  @property
  def increasing(self) -> bool:
    """Whether larger is better."""
    return self.statistic.increasing

  @property
  def bounds(self) -> tuple[float, float]:
    """The least and the largest value; infinite ones are not reached."""
    return self.statistic.bounds

  @property
  def needs_candidates(self) -> bool:
    """Whether the value depends on the numbers of candidates."""
    return self.statistic.needs_candidates

  def __call__(
    self,
    ranks: TargetRanks | ArrayLike,
    query_weights: ArrayLike | None = None,
    *,
    candidates: ArrayLike | None = None,
    k: int | Array | None = None,
  ) -> Array:
    """Computes the statistic over the last axis.

    Tasks of weight 0 and tasks with 0 candidates are left out. The value of a list without tasks is
    0. A rank that is less than 1 or NaN, or a negative weight, makes the value NaN.

    Args:
      ranks: `TargetRanks`, whose tied targets are averaged over all orders of the tied items; or
        `[..., n]`, the rank of each target, at least 1, such as `TargetRanks.realistic`.
      query_weights: `[..., n]`, the weight of each task, at least 0; None weights all tasks
        equally.
      candidates: `[..., n]`, the number of candidates of each task, or one number for all tasks.
      k: Another cut-off, as of `at`; None keeps that of the metric.

    Returns:
      The value of each list, `[...]`.

    Raises:
      ValueError: if shapes do not broadcast, a metric that compares with chance has no candidates,
        or has weights that its closed form does not cover, or `k` is no cut-off of the statistic.
      TypeError: if an argument is not of numbers, or `k` is not an integer.
    """
    if k is not None:
      return self.at(k)(ranks, query_weights, candidates=candidates)
    best, worst = ranks, None
    if isinstance(ranks, TargetRanks):
      candidates = ranks.candidates if candidates is None else candidates
      best, worst = ranks.optimistic, ranks.pessimistic
    if candidates is None and self.needs_candidates:
      raise ValueError(
        f"{self.name}: the metric compares ranks with chance and needs the numbers of candidates, "
        "got none; pass candidates=, or TargetRanks."
      )
    if self.needs_candidates and query_weights is not None and not self.statistic.weighted:
      raise ValueError(
        f"{self.name}: the metric has no closed form for weighted tasks, got query_weights; pass "
        "None to weight all tasks equally."
      )
    with checks.named(self.name):
      # `broadcastable` accepts None, which only the other arguments may be.
      best = checks.array("ranks", best)
      best, *given = broadcastable(ranks=best, candidates=candidates, query_weights=query_weights)
    value: Array = _value(self, best, best if worst is None else worst, *given)
    return value

  def expected(
    self,
    candidates: ArrayLike,
    query_weights: ArrayLike | None = None,
    *,
    key: Array | None = None,
    samples: int = 1000,
  ) -> Array:
    """The expectation under chance, in closed form if there is one, else the mean of samples.

    Args:
      candidates: `[..., n]`, the number of candidates of each task.
      query_weights: `[..., n]`, the weight of each task, at least 0; None for equal weights, for
        which more statistics have a closed form.
      key: PRNG key, required without a closed form and not used with one.
      samples: Number of samples of all ranks without a closed form, at least 1; 2 for variances.

    Returns:
      The expectation for each list, `[...]`.

    Raises:
      ValueError: if there is neither a closed form nor a key.
    """
    with checks.named(f"{self.name}.expected"):
      return self._moment("expected", jnp.mean, candidates, query_weights, key, samples)

  def variance(
    self,
    candidates: ArrayLike,
    query_weights: ArrayLike | None = None,
    *,
    key: Array | None = None,
    samples: int = 1000,
  ) -> Array:
    """The variance under chance; the arguments are those of `expected`."""
    with checks.named(f"{self.name}.variance"):
      return self._variance(candidates, query_weights, key, samples)

  def std(
    self,
    candidates: ArrayLike,
    query_weights: ArrayLike | None = None,
    *,
    key: Array | None = None,
    samples: int = 1000,
  ) -> Array:
    """The standard deviation under chance; the arguments are those of `expected`."""
    with checks.named(f"{self.name}.std"):
      return jnp.sqrt(self._variance(candidates, query_weights, key, samples))

  def sampled_values(
    self,
    candidates: ArrayLike,
    query_weights: ArrayLike | None = None,
    *,
    key: Array,
    samples: int = 1000,
  ) -> Array:
    """The values of random ranks; the arguments are those of `expected`, and `key` is required.

    Returns:
      The values for each list, `[samples, ...]`.
    """
    with checks.named(f"{self.name}.sampled_values"):
      return self._draw(candidates, query_weights, key, samples)

  def has_closed_form(self, moment: Moment, query_weights: ArrayLike | None = None) -> bool:
    """Whether a moment under chance has a closed form.

    Args:
      moment: `"expected"` or `"variance"`.
      query_weights: The weights of the tasks; None for equal weights.

    Returns:
      True if `expected`, or `variance`, needs no key.
    """
    with checks.named(f"{self.name}.has_closed_form"):
      checks.choice("moment", moment, _MOMENTS)
    known = self.statistic.moment(moment) is not None
    return known and (query_weights is None or self.statistic.weighted)

  def _variance(
    self, candidates: ArrayLike, query_weights: ArrayLike | None, key: Array | None, samples: int
  ) -> Array:
    sample_variance = functools.partial(jnp.var, ddof=1)
    return self._moment("variance", sample_variance, candidates, query_weights, key, samples)

  def _draw(
    self, candidates: ArrayLike, query_weights: ArrayLike | None, key: Any, samples: int
  ) -> Array:
    candidates = checks.array("candidates", candidates)
    given = broadcastable(candidates=candidates, query_weights=query_weights)
    samples = checks.count("samples", samples)
    values: Array = _sampled(self, checks.prng_key(key), *given, samples)
    return values

  def _moment(
    self,
    moment: Moment,
    estimate: Callable[..., Array],
    candidates: ArrayLike,
    query_weights: ArrayLike | None,
    key: Array | None,
    samples: int,
  ) -> Array:
    samples = checks.count("samples", samples, 1 if moment == "expected" else 2)
    if key is not None:
      checks.prng_key(key)
    if not self.has_closed_form(moment, query_weights):
      if key is None:
        tasks = " for weighted tasks" if self.has_closed_form(moment) else ""
        raise ValueError(
          f"{self.name} has no closed form of its {_MOMENTS[moment]}{tasks}, got "
          "key=None; pass key=jax.random.key(0) and samples= to estimate it."
        )
      return estimate(self._draw(candidates, query_weights, key, samples), axis=0)
    candidates = checks.array("candidates", candidates)
    given = broadcastable(candidates=candidates, query_weights=query_weights)
    value: Array = _closed_form(self, moment, *given)
    return value


@jax.jit
def _value(
  metric: RankMetric, best: Array, worst: Array, candidates: Array, weights: Array
) -> Array:
  given = as_floats(best, worst, candidates, weights)
  return kept_within(apply(metric.statistic.value, metric.k, *given), metric.bounds)


@functools.partial(jax.jit, static_argnums=1)
def _closed_form(metric: RankMetric, moment: Moment, candidates: Array, weights: Array) -> Array:
  formula = metric.statistic.moment(moment)
  assert formula is not None
  # The formulas of moments do not read the ranks; the numbers of candidates are valid ranks.
  candidates, weights = as_floats(candidates, weights)
  value = apply(formula, metric.k, candidates, candidates, candidates, weights)
  return kept_within(value, metric.bounds if moment == "expected" else (0.0, math.inf))


@functools.partial(jax.jit, static_argnums=4)
def _sampled(
  metric: RankMetric, key: Array, candidates: Array, weights: Array, samples: int
) -> Array:
  candidates, weights = as_floats(candidates, weights)

  def sample(key: Array) -> Array:
    ranks = draw(key, candidates).astype(candidates.dtype)
    value = apply(metric.statistic.value, metric.k, ranks, ranks, candidates, weights)
    return kept_within(value, metric.bounds)

  rows = max(1, _DRAWN // max(1, candidates.size))
  values: Array = batching.in_blocks(jax.vmap(sample), rows)(jax.random.split(key, samples))
  return values
