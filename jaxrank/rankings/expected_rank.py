"""Smooth rankings by expected ranks: `Laplace` and `Logistic`.

Item `j` is ahead of item `i` with probability `F((s_j - s_i) / t)`. The answers are made of sums
over `j` of weights times a function of the distance of two scores: O(n log n) time for the sort,
O(n) for the sums of `decays`, and O(n) memory. docs/mathematics.md, "The cascade under expected
ranks" and "The smooth cut-off", derives the answers.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount, pytree
from jaxrank._core import batching, checks, decays, sorting
from jaxrank._core.arithmetic import at_least_tiny, clipped
from jaxrank._core.decays import Schedule, Series, distance, polynomial_sums
from jaxrank._core.ranked import Ranked, Ranking, memoised, remembering
from jaxrank.rankings import thresholds


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
    # The slopes of the limit at 0 are infinite where scores tie.
    score = jnp.where(jnp.asarray(temperature) > 0, score, lax.stop_gradient(score))
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
    question = functools.partial(question, **parameters)
    answers: Array = batching.columns_in_turn(*users, function=question)
    return answers

  def before(self, w: Array) -> Array:
    """The expected weight ahead of each item, `[n]`."""
    w = self._weight(w)
    lost = jnp.where(self.where, self.total(w), 0)
    return jnp.where(self.retrieved, self._weight_ahead(w), lost)

  def spread_of_ranks(self, centred: Array) -> Array:
    """The sum of the squares of the ranks around their mean, in any order without tied scores."""
    n, m = self.count(self.where), self.count(self.retrieved)
    lost = n - m
    # `(n^3 - n) / 12` less that of the items that are not retrieved, which tie.
    return m * (n * n + n * lost + lost * lost - 1) / 12


@dataclasses.dataclass(frozen=True)
class SmoothRanking(Ranking):
  """A ranking that is smooth in the scores, at a temperature.

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive gives the limit at 0, and NaN gives NaN, with gradient 0.
  """

  temperature: ArrayLike
  query: ClassVar[type[SmoothQuery]]

  def __post_init__(self) -> None:
    # `vmap` may map over a ranking of several temperatures; one that it does not map is refused
    # where it is used.
    given = self.temperature
    with checks.named(type(self).__name__):
      if isinstance(given, np.ndarray | Array) and given.ndim:
        checks.real("temperature", given.dtype)
      else:
        checks.positive_number("temperature", given)

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> SmoothQuery:
    """Ranks one query `[n]`; all items are sorted, whatever `k` is."""
    return self.query(self.temperature, scores, labels, where, k)


class Distribution(NamedTuple):
  """The distribution function that orders pairs.

  Fewer powers at once take less memory and more steps. For many users, their probabilities of
  stopping are in memory as well.

  Attributes:
    series: The function as series, by the name of the dtype.
    for_one: In which parts the powers of a question are added up.
    for_users: The same for a question that many users ask.
  """

  series: Callable[[str], Series]
  for_one: Schedule
  for_users: Schedule


class ExpectedRankQuery(SmoothQuery):
  """A query in which pairs have the order that a distribution function gives them."""

  distribution: Distribution

  def __init__(self, temperature: ArrayLike, *query: Any):
    super().__init__(temperature, *query)
    self.series = self.distribution.series(self.dtype.name)
    self.schedule = self.distribution.for_one

  def _weight_ahead(self, w: Array) -> Array:
    return jnp.cumsum(w) - w + self._sums(w, -self.series.tail, self.series.tail)

  def _sums(self, w: Array, ahead: np.ndarray, behind: np.ndarray, fixed: bool = False) -> Array:
    """`sum_j w_j ahead(x_ij)` over the items ahead of `i`, plus `behind` over those behind.

    If `fixed`, the sums have no slope, and a program of a gradient does not compute it.
    """
    size = max(ahead.size, behind.size)
    pair = np.stack([np.pad(c, (0, size - c.size)) for c in (ahead, behind)])
    place = self.score, self.temperature
    place = lax.stop_gradient(place) if fixed else place
    return polynomial_sums(*place, w, pair, schedule=self.schedule)

  @memoised
  def rank_among(self, members: Array, fixed: bool = False) -> Array:
    """The expected rank of each item among the items of a mask."""
    w = self._weight(members)
    # Items that are not retrieved come last, so that their slots are the prefix sum of the others.
    all_of_them = members is self.retrieved
    ahead = sorting.slots(w).astype(self.dtype) if all_of_them else jnp.cumsum(w) - w
    return 1 + ahead + self._sums(w, -self.series.tail, self.series.tail, fixed)

  @memoised
  def rank(self, k: Cutoff, among: Array | None) -> Array:
    """The expected rank of each item, among the kept items of a mask or of all."""
    members = self.retrieved if among is None else among
    if self._keeps_all(k):
      return self.rank_among(members)
    return 1 + self._weight_ahead(self._weight(members) * self.kept(k, among))

  def _keeps_all(self, k: Cutoff) -> bool:
    return k is None or (isinstance(k, int) and k >= self.n)

  @memoised
  def kept(self, k: Cutoff, among: Array | None) -> Array | int:
    """A smooth `rank <= k`, whose sum over the items of the mask is `k`.

    docs/mathematics.md, "The smooth cut-off".
    """
    if self._keeps_all(k):
      return 1
    k = self.cutoff(k)
    if among is None:
      return self.largest_items(k, self.retrieved)
    # Another item has a rank of at most k if it is above the last of k items of the mask.
    among = among & self.retrieved
    last = self.largest_items(k - 0.5, among)
    return jnp.where(among, self.largest_items(k, among), last)

  def largest_items(self, k: Array, members: Array) -> Array:
    """How far each item is above the threshold that `k` items of a mask exceed, in [0, 1].

    1 for all items if `k` is at least the number of the members, 0 for all if it is not positive.
    """
    count = self.count(members)
    inside = (k > 0) & (k < count)
    target = jnp.where(inside, k, count / 2)
    mask = thresholds.exceeded(self, thresholds.for_one(self, target, members))
    return jnp.where(inside, mask, (k > 0).astype(self.dtype))

  @memoised
  def _survival(self, stop: Array, k: Cutoff) -> Array:
    """The probability of passing all kept items ahead, from the probabilities of stopping.

    An item that is ahead with probability `F` and kept with the weight `m` contributes the factor
    `(1 - stop) ** (m F)`, or `(1 - F) ** m` if `stop` is 1: docs/mathematics.md, "The cascade under
    expected ranks".
    """
    stop, kept = self._weight(stop), self.kept(k, None)
    wall = stop >= 1
    log = self._weight_ahead(kept * jnp.log1p(-jnp.where(wall, 0, stop)))
    wall = kept * wall.astype(self.dtype)
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
    """`sum_i w_i discount(r_i)` over the kept items, with their ranks among kept items."""
    return jnp.sum(self._weight(w) * discount(self.rank(k, among)) * self.kept(k, among))

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`sum_i worth_i discount(r_i) survival_i` over kept items; the worth is `stop` by default."""
    worth = self._weight(stop if worth is None else worth) * self.kept(k, None)
    return jnp.sum(worth * self._survival(stop, k) * discount(self.rank(k, None)))

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """`sum_i b_i discount(r_i) (w_i + before(w)_i)` over the kept items, among kept items."""
    b, w = self._weight(b), self._weight(b if weights is None else weights)
    kept = self.kept(k, None)
    down_to = w + self._weight_ahead(w * kept)
    return jnp.sum(b * kept * down_to * discount(self.rank(k, None)))

  def each_user(self, question: Callable[..., Array], *users: Array, **parameters: Any) -> Array:
    """One user after the other, whose sums are computed checkpointed for the gradient."""
    of_user = remembering(self)(functools.partial(question, **parameters))
    self.schedule = self.distribution.for_users
    try:
      with remembering(self):
        # All users need them.
        self.rank(parameters.get("k"), None)
        return super().each_user(jax.checkpoint(of_user), *users)
    finally:
      self.schedule = self.distribution.for_one


class LaplaceQuery(ExpectedRankQuery):
  """A query in which pairs are ordered by the Laplace distribution function."""

  name = "Laplace"
  distribution = Distribution(decays.laplace, Schedule(4), Schedule(3, stored=True))


class LogisticQuery(ExpectedRankQuery):
  """A query in which pairs are ordered by the logistic distribution function."""

  name = "Logistic"
  distribution = Distribution(decays.logistic, Schedule(), Schedule(stored=True))


@pytree("temperature")
@dataclasses.dataclass(frozen=True)
class Laplace(SmoothRanking):
  """A smooth ranking: `j` is ahead of `i` with probability `F((s_j - s_i) / temperature)`.

  `F` is the Laplace distribution function. Ranks are expected ranks, and gradients are exact, in
  O(n log n) time and O(n) memory. A cut-off keeps each item with the weight that
  `jaxrank.soft.top_k` gives it, and ranks count kept items. At temperature 0 a metric is the exact
  one if no scores tie; tied items take their mean rank, and share a cut-off among them.
  `metric(c * s, ranking=Laplace(c * t))` equals `metric(s, ranking=Laplace(t))`.
  (Struski et al., `LapSum <https://arxiv.org/abs/2503.06242>`_, 2025, use this function.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive gives the limit at 0, and NaN gives NaN, with gradient 0.
  """

  query = LaplaceQuery


@pytree("temperature")
@dataclasses.dataclass(frozen=True)
class Logistic(SmoothRanking):
  """A smooth ranking: `j` is ahead of `i` with probability `sigmoid((s_j - s_i) / temperature)`.

  Ranks are expected ranks, which are those of ApproxNDCG and of `Gumbel` noise. A cut-off keeps
  each item with the weight that `jaxrank.soft.top_k` gives it, and ranks count kept items. Time is
  O(n log n) and memory O(n): the sigmoid of each pair is a series, within 2e-8, or 3e-14 for
  float64 scores. At temperature 0 a metric is the exact one if no scores tie; tied items take their
  mean rank, and share a cut-off among them.
  `metric(c * s, ranking=Logistic(c * t))` equals `metric(s, ranking=Logistic(t))`.
  (Qin, Liu and Li, `A general approximation framework for direct optimization of information
  retrieval measures <https://doi.org/10.1007/s10791-009-9124-x>`_, 2010, use these ranks.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive gives the limit at 0, and NaN gives NaN, with gradient 0.
  """

  query = LogisticQuery
