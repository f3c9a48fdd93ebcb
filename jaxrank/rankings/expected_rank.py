"""Smooth rankings by expected ranks: `Laplace` and `Logistic`.

Item `j` is ahead of item `i` with probability `F((s_j - s_i) / t)`. The answers are made of sums
over `j` of weights times a function of the distance of two scores: O(n log n) time for the sort,
O(n) for the sums of `pair_sums`, and O(n) memory. docs/mathematics.md, "The cascade under expected
ranks" and "The smooth cut-off", derives the answers.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks, pair_sums, sorting
from jaxrank._core.arithmetic import at_least_tiny, clipped
from jaxrank._core.decays import distance
from jaxrank._core.memoised import memoised
from jaxrank._core.pair_sums import Series, normal_tail, polynomial_sums
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank._core.sums_by_doubling import Schedule
from jaxrank._core.types import Cutoff, Discount, pytree

# Added to the variance of a rank, so that the cut-off is defined where that is 0:
# docs/mathematics.md, "The smooth cut-off".
_LEAST_VARIANCE = 1e-3


class SmoothQuery(Ranked):
  """A query whose answers are smooth in the scores; its items are in the order of the scores.

  Attributes:
    score: `[n]`, descending; items that are not retrieved have the lowest retrieved score.
    temperature: At least the square root of the smallest normal number.
  """

  def __init__(self, temperature: ArrayLike, *query: Any):
    super().__init__(*query)
    self.sort()
    bound = float(jnp.finfo(self.dtype).max) / 4
    score = clipped(self.scores.astype(self.dtype), bound)
    last = jnp.min(jnp.where(self.retrieved, lax.stop_gradient(score), bound))
    self.score = jnp.where(self.retrieved, score, last)
    self.temperature = at_least_tiny(temperature, self.dtype)

  def _weight(self, w: Array) -> Array:
    """`w` as floats, 0 for items that are not retrieved."""
    return jnp.where(self.retrieved, w.astype(self.dtype), 0)

  def _weight_ahead(self, w: Array) -> Array:
    """The expected weight ahead of each retrieved item, `[n]`, of weights 0 elsewhere."""
    raise NotImplementedError

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first relevant item: a cascade that stops at every relevant item."""
    return self.cascade(b, discount, k=k)

  def each_user(self, question: Callable[..., Array], *users: Array, **parameters: Any) -> Array:
    """One user after the other, because each takes the memory of its sums or nodes."""
    return self._one_by_one(functools.partial(question, **parameters), *users)

  def before(self, w: Array) -> Array:
    """The expected weight ahead of each item, `[n]`."""
    w = self._weight(w)
    lost = jnp.where(self.where, self.total(w), 0)
    return jnp.where(self.retrieved, self._weight_ahead(w), lost)


@dataclasses.dataclass(frozen=True)
class SmoothRanking(Ranking):
  """A ranking that is smooth in the scores, at a temperature.

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive acts as the limit at 0.
  """

  temperature: ArrayLike
  query: ClassVar[type[SmoothQuery]]

  def __post_init__(self) -> None:
    with checks.named(type(self).__name__):
      checks.positive("temperature", self.temperature)

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> SmoothQuery:
    """Ranks one query `[n]`; all items are sorted, whatever `k` is."""
    return self.query(self.temperature, scores, labels, where, k)


class ExpectedRankQuery(SmoothQuery):
  """A query in which pairs have the order that a distribution function gives them."""

  series_of: Callable[[str], Series]
  # Accelerators start a dozen steps for each sum over powers, whose memory is that of its powers.
  # Fewer are summed at once for many users, whose stop probabilities are in memory as well.
  schedule: Schedule
  for_users: ClassVar[Schedule]

  def __init__(self, temperature: ArrayLike, *query: Any):
    super().__init__(temperature, *query)
    self.series = self.series_of(self.dtype.name)

  def _sums(self, w: Array, ahead: np.ndarray, behind: np.ndarray) -> Array:
    """`sum_j w_j ahead(x_ij)` over the items ahead of `i`, plus `behind` over those behind."""
    size = max(ahead.size, behind.size)
    pair = np.stack([np.pad(c, (0, size - c.size)) for c in (ahead, behind)])
    return polynomial_sums(self.score, self.temperature, w, pair, schedule=self.schedule)

  def _weight_ahead(self, w: Array) -> Array:
    return jnp.cumsum(w) - w + self._smoothed(w)

  def _smoothed(self, w: Array) -> Array:
    """What is added to the weight ahead of each item in the order of the scores."""
    return self._sums(w, -self.series.tail, self.series.tail)

  @memoised
  def rank(self, among: Array | None) -> Array:
    """The expected rank of each item, among the items of a mask or all that are retrieved."""
    members = self._members(among)
    if among is not None:
      return 1 + self._weight_ahead(members)
    # Items that are not retrieved come last, so that no prefix sum is needed.
    place = 1 + sorting.slots(members).astype(self.dtype)
    return place + self._smoothed(members)

  def _members(self, among: Array | None) -> Array:
    return self._weight(self.retrieved if among is None else among)

  @memoised
  def kept(self, k: Cutoff, among: Array | None) -> Array | int:
    """A smooth `rank <= k`, from a normal distribution with the mean and variance of the rank.

    docs/mathematics.md, "The smooth cut-off".
    """
    if k is None:
      return 1
    variance = self._sums(self._members(among), *2 * (self.series.variance,))
    step = (self.rank(among) - self.cutoff(k) - 0.5) * lax.rsqrt(variance + _LEAST_VARIANCE)
    return normal_tail(step)

  @memoised
  def _survival(self, stop: Array) -> Array:
    """The probability of passing all items ahead, from the probabilities of stopping.

    An item that is ahead with probability `F` contributes the factor `(1 - stop) ** F`, or `1 - F`
    if `stop` is 1: docs/mathematics.md, "The cascade under expected ranks".
    """
    stop = self._weight(stop)
    wall = stop >= 1
    log = self._weight_ahead(jnp.log1p(-jnp.where(wall, 0, stop)))
    wall = wall.astype(self.dtype)
    count = jnp.cumsum(wall) - wall
    gap = distance(self.score[:-1], self.score[1:], self.temperature)
    passed = jnp.concatenate([jnp.zeros_like(count[:1]), count[1:] * gap])
    log = log - jnp.cumsum(passed) + count * self.series.log_scale
    # One sum after the other, so that the powers of both are not in memory at once.
    log, wall = lax.optimization_barrier((log, wall))
    return jnp.exp(log + self._sums(wall, self.series.log_ahead, self.series.log_behind))

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`sum_i w_i discount(r_i)` with smooth ranks and cut-off."""
    return jnp.sum(self._weight(w) * discount(self.rank(among)) * self.kept(k, among))

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`sum_i worth_i discount(r_i) survival_i`; without a worth, that of `stop`."""
    worth = self._weight(stop if worth is None else worth)
    value = worth * self._survival(stop) * discount(self.rank(None)) * self.kept(k, None)
    return jnp.sum(value)

  def precision(self, b: Array, *, k: Cutoff = None) -> Array:
    """`sum_i b_i (1 + before(b)_i) / r_i` times the smooth cut-off."""
    b = self._weight(b)
    hits = b + self._weight_ahead(b)
    return jnp.sum(b * hits / self.rank(None) * self.kept(k, None))

  def each_user(self, question: Callable[..., Array], *users: Array, **parameters: Any) -> Array:
    """One user after the other, whose sums are computed anew for the gradient."""
    anew = jax.checkpoint(functools.partial(question, **parameters))
    alone, self.schedule = self.schedule, self.for_users
    try:
      # All users need them.
      self.rank(None), self.kept(parameters.get("k"), None)
      return super().each_user(anew, *users)
    finally:
      self.schedule = alone


class LaplaceQuery(ExpectedRankQuery):
  """A query in which pairs are ordered by the Laplace distribution function."""

  name = "Laplace"
  series_of = staticmethod(pair_sums.laplace)
  schedule = Schedule(4)
  for_users = Schedule(3, stored=True)


class LogisticQuery(ExpectedRankQuery):
  """A query in which pairs are ordered by the logistic distribution function."""

  name = "Logistic"
  series_of = staticmethod(pair_sums.logistic)
  schedule = Schedule()
  for_users = Schedule(stored=True)


@pytree("temperature")
class Laplace(SmoothRanking):
  """A smooth ranking: `j` is ahead of `i` with probability `F((s_j - s_i) / temperature)`.

  `F` is the Laplace distribution function. Ranks are expected ranks, a cut-off at `k` is a smooth
  step with the standard deviation of the rank, and gradients are exact, in O(n log n) time and O(n)
  memory. At temperature 0 a metric is the exact one if no scores tie; tied items take their mean
  rank. `metric(c * s, ranking=Laplace(c * t))` equals `metric(s, ranking=Laplace(t))`.
  (Struski et al., `LapSum <https://arxiv.org/abs/2503.06242>`_, 2025, use this function.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive acts as the limit at 0.
  """

  query = LaplaceQuery


@pytree("temperature")
class Logistic(SmoothRanking):
  """A smooth ranking: `j` is ahead of `i` with probability `sigmoid((s_j - s_i) / temperature)`.

  Ranks are expected ranks, which are those of ApproxNDCG and of `Gumbel` noise, and a cut-off at
  `k` is a smooth step with the standard deviation of the rank. Time is O(n log n) and memory O(n):
  the sigmoid of each pair is a series, within 2e-8, or 3e-14 for float64 scores. At temperature 0 a
  metric is the exact one if no scores tie; tied items take their mean rank.
  `metric(c * s, ranking=Logistic(c * t))` equals `metric(s, ranking=Logistic(t))`.
  (Qin, Liu and Li, `A general approximation framework for direct optimization of information
  retrieval measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010, use these ranks.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive acts as the limit at 0.
  """

  query = LogisticQuery
