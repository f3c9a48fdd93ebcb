"""The one wrapper of every rank statistic: check, leave out, share the weights, ask."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.types import pytree
from jaxrank.ranks._statistic import Formula, Statistic, Tasks
from jaxrank.ranks.target import TargetRanks, floating

_MOMENTS = {"expected": "expected value", "variance": "variance"}

# So many ranks are drawn at a time.
_DRAWN = 1 << 20


@pytree("k")
@dataclasses.dataclass(frozen=True, repr=False)
class RankMetric:
  """A statistic of the ranks of targets, to be called, and what chance makes of it.

  Attributes:
    statistic: Its formulas.
    k: Its cut-off, if it has one.
  """

  statistic: Statistic
  k: ArrayLike | None = None

  def __repr__(self) -> str:
    return f"<rank metric {self.name}>"

  def at(self, k: ArrayLike) -> "RankMetric":
    """The same statistic with another cut-off, a positive integer that may be traced."""
    if self.k is None:
      raise ValueError(f"{self.name} has no cut-off.")
    if k is None:
      raise TypeError(f"the cut-off of {self.name} must be a positive integer, got None.")
    return dataclasses.replace(self, k=checks.cutoff(k))

  @property
  def name(self) -> str:
    """In snake case, with the cut-off if that is known."""
    name = self.statistic.name
    return f"{name[:-1]}{self.k}" if isinstance(self.k, int) else name

  @property
  def synonyms(self) -> tuple[str, ...]:
    """Other names that `resolve` knows."""
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
    weights: ArrayLike | None = None,
    *,
    candidates: ArrayLike | None = None,
  ) -> Array:
    """The value over the last axis.

    A weight of 0 leaves a task out, and so do 0 candidates; with nothing left the value is 0. A
    rank below 1 or NaN, or a negative weight, makes the value NaN.

    Args:
      ranks: `[..., n]`, or `TargetRanks`, of which the realistic ones and the candidates are taken.
      weights: `[..., n]`; None weighs all alike.
      candidates: `[..., n]`, or one number for all.

    Returns:
      `[...]`.

    Raises:
      ValueError: if shapes do not go together, or numbers of candidates are needed, or the chance
        of weighted tasks is, and not known.
    """
    if isinstance(ranks, TargetRanks):
      candidates = ranks.candidates if candidates is None else candidates
      ranks = ranks.realistic
    if candidates is None and self.needs_candidates:
      raise ValueError(
        f"{self.name} compares with chance: pass candidates=, the number of candidates of each "
        "rank, or TargetRanks."
      )
    if self.needs_candidates and weights is not None and not self.statistic.weighted:
      raise ValueError(f"{self.name} has no closed form of what chance gives to weighted tasks.")
    ranks = checks.array("ranks", ranks)
    return _value(self, **_together(ranks=ranks, candidates=candidates, weights=weights))

  def expected_value(
    self,
    candidates: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    key: Array | None = None,
    samples: int = 1000,
  ) -> Array:
    """What a random order gives on average.

    In closed form where one is known, else the mean of samples.

    Args:
      candidates: `[..., n]`, the number of candidates of each task.
      weights: `[..., n]`; None weighs all alike.
      key: A PRNG key, for a statistic without a closed form.
      samples: How often to draw all ranks, without a closed form.

    Returns:
      `[...]`.

    Raises:
      ValueError: without a closed form and a key.
    """
    return self._chance("expected", jnp.mean, candidates, weights, key, samples)

  def variance(
    self,
    candidates: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    key: Array | None = None,
    samples: int = 1000,
  ) -> Array:
    """The variance under a random order; arguments as in `expected_value`."""
    spread = functools.partial(jnp.var, ddof=1)
    return self._chance("variance", spread, candidates, weights, key, samples)

  def std(
    self,
    candidates: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    key: Array | None = None,
    samples: int = 1000,
  ) -> Array:
    """The standard deviation under a random order; arguments as in `expected_value`."""
    return jnp.sqrt(self.variance(candidates, weights, key=key, samples=samples))

  def sampled_values(
    self,
    candidates: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    key: Array,
    samples: int = 1000,
  ) -> Array:
    """Values of random orders.

    Args:
      candidates: `[..., n]`, the number of candidates of each task.
      weights: `[..., n]`; None weighs all alike.
      key: A PRNG key.
      samples: How often to draw all ranks.

    Returns:
      `[samples, ...]`.
    """
    candidates = checks.array("candidates", candidates)
    given = _together(candidates=candidates, weights=weights)
    key, samples = checks.prng_key(key), checks.count("samples", samples)
    return _sampled(self, key, given["candidates"], given["weights"], samples)

  def closed(self, what: str, weights: ArrayLike | None = None) -> bool:
    """Whether `what`, "expected" or "variance", has a closed form."""
    checks.choice("what", what, _MOMENTS)
    known = getattr(self.statistic, what) is not None
    return known and (weights is None or self.statistic.weighted)

  def _chance(
    self,
    what: str,
    estimate: Callable[..., Array],
    candidates: ArrayLike,
    weights: ArrayLike | None,
    key: Array | None,
    samples: int,
  ) -> Array:
    if not self.closed(what, weights):
      if key is None:
        weighted = " of weighted tasks" if self.closed(what) else ""
        raise ValueError(
          f"{self.name}{weighted} has no closed form of its {_MOMENTS[what]} by chance: pass key= "
          "and samples= to estimate it."
        )
      samples = checks.count("samples", samples, 1 if what == "expected" else 2)
      drawn = self.sampled_values(candidates, weights, key=key, samples=samples)
      return estimate(drawn, axis=0)
    candidates = checks.array("candidates", candidates)
    return _expected(self, what, **_together(candidates=candidates, weights=weights))


def _together(**arrays: Any) -> dict[str, Array]:
  """The arrays, once their shapes are known to go together; None is 1 everywhere."""
  given = {
    name: checks.array(name, np.float32(1) if x is None else x) for name, x in arrays.items()
  }
  told = ", ".join(f"{name} {list(x.shape)}" for name, x in given.items())
  try:
    shape = np.broadcast_shapes((1,), *(x.shape for x in given.values()))
  except ValueError:
    raise ValueError(f"shapes do not go together: {told}; pass [..., n] each.") from None
  if "ranks" in given and given["ranks"].shape != shape:
    raise ValueError(f"ranks must have the shape of all, [..., n] = {list(shape)}, got {told}.")
  return given


def _floats(*arrays: Array) -> list[Array]:
  """The arrays as floats of one dtype and one shape `[..., n]`."""
  floats = [floating(x) for x in arrays]
  wide = any(x.dtype == jnp.float64 for x in floats)
  shape = jnp.broadcast_shapes((1,), *(x.shape for x in floats))
  dtype = jnp.float64 if wide else jnp.float32
  if shape[-1] == 0:
    # One task of weight 0 stands for none.
    return [jnp.zeros((*shape[:-1], 1), dtype) for _ in floats]
  return [jnp.broadcast_to(x.astype(dtype), shape) for x in floats]


@jax.jit
def _value(metric: RankMetric, ranks: Array, candidates: Array, weights: Array) -> Array:
  return _ask(metric, "value", *_floats(ranks, candidates, weights))


@functools.partial(jax.jit, static_argnums=1)
def _expected(metric: RankMetric, what: str, candidates: Array, weights: Array) -> Array:
  # No formula of chance asks for ranks; those that are sound where the candidates are do no harm.
  candidates, weights = _floats(candidates, weights)
  return _ask(metric, what, candidates, candidates, weights)


@functools.partial(jax.jit, static_argnums=4)
def _sampled(
  metric: RankMetric, key: Array, candidates: Array, weights: Array, samples: int
) -> Array:
  candidates, weights = _floats(candidates, weights)

  def sample(key: Array) -> Array:
    ranks = draw(key, candidates).astype(candidates.dtype)
    return _ask(metric, "value", ranks, candidates, weights)

  rows = max(1, _DRAWN // max(1, candidates.size))
  return batching.in_blocks(jax.vmap(sample), rows)(jax.random.split(key, samples))


def draw(key: Array, candidates: Array) -> Array:
  """Ranks by chance, int32: each uniform on 1 to its number of candidates."""
  return jax.random.randint(key, candidates.shape, 1, candidates.astype(jnp.int32) + 1)


def _ask(metric: RankMetric, what: str, ranks: Array, candidates: Array, weights: Array) -> Array:
  def ask(ranks: Array, candidates: Array, weights: Array) -> Array:
    kept = (weights != 0) & (candidates != 0)
    sound = kept & (weights > 0) & (candidates >= 1) & (ranks >= 1)
    weights = jnp.where(sound, weights, 0)
    k = None if metric.k is None else jnp.asarray(metric.k).astype(ranks.dtype)
    tasks = Tasks(jnp.where(sound, ranks, 1), jnp.where(sound, candidates, 1), weights, k)
    value = jnp.where(jnp.any(sound), formula(tasks), 0)
    return jnp.where(jnp.any(kept & ~sound), jnp.nan, value)

  formula = getattr(metric.statistic, what)
  return batching.over_queries(ask, ranks.ndim - 1)(ranks, candidates, weights)


def rank_metric(
  *, k: int | None = None, expected: Formula | None = None, **known: Any
) -> Callable[[Formula], RankMetric]:
  """Makes a metric from the formula of its value, whose name and docstring it takes."""

  def make(value: Formula) -> RankMetric:
    plain = {"surplus": _less_one(value), "expected_surplus": expected and _less_one(expected)}
    statistic = Statistic(name=value.__name__, value=value, expected=expected, **(plain | known))
    return documented(RankMetric(statistic, k), value.__doc__)

  return make


def averaged(*, mean: Formula, spread: Formula, **known: Any) -> Callable[[Formula], RankMetric]:
  """Makes the weighted mean of what a formula gives for each rank, `[n]`.

  Args:
    mean: The expectation for each task, `[n]`.
    spread: The variance for each task, `[n]`.
    **known: Of the statistic.
  """

  def make(each: Formula) -> RankMetric:
    def value(tasks: Tasks) -> Array:
      return tasks.mean(each(tasks))

    return rank_metric(
      surplus=lambda tasks: tasks.mean(each(tasks) - 1),
      expected=lambda tasks: tasks.mean(mean(tasks)),
      expected_surplus=lambda tasks: tasks.mean(mean(tasks) - 1),
      variance=lambda tasks: tasks.mean_variance(spread(tasks)),
      **known,
    )(functools.wraps(each)(value))

  return make


def _less_one(formula: Formula) -> Formula:
  return lambda tasks: formula(tasks) - 1


def documented(metric: RankMetric, text: str | None) -> RankMetric:
  """The metric with a docstring of its own."""
  object.__setattr__(metric, "__doc__", text)
  return metric
