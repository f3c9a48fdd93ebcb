"""`CountedQuery`, a query of which a few items are listed and all others are only counted.

Metrics ask for the ranks of relevant items. If all others have label 0, these ranks follow from how
many items are above each relevant one, and tie with it: docs/mathematics.md, "Queries given by
ranks".
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount, Gain
from jaxrank._core.ranked import Ranked, UnansweredError, memoised
from jaxrank._core.sorting import take
from jaxrank.rankings import long_ties
from jaxrank.rankings.exact import ExactQuery
from jaxrank.rankings.expected_rank import Distribution, ExpectedRankQuery


class Standing(NamedTuple):
  """Where the listed items of a query stand among all its candidates, in int32.

  Attributes:
    above: `[p]`, how many candidates have a higher score, listed ones among them.
    reaching: `[p]`, how many have the same score or a higher one, the item itself among them.
    retrieved: Scalar, how many have a score above -inf.
    present: Scalar, how many there are.
  """

  above: Array
  reaching: Array
  retrieved: Array
  present: Array


class Listed(Ranked):
  """A query of which some items are listed, and all others, of label 0, are only counted.

  Its arrays have `p + 2` items: the listed ones, and two that stand for all others, retrieved or
  not. `total` and `count` weigh these by their number. An answer that needs the ranks of single
  other items is refused, or adds a condition to `unknown`, if that depends on values.

  Attributes:
    ranked: A query of the same items, under which the other ones are not retrieved.
    items: The number of items of the corpus.
    unknown: Conditions under which the answers of each `asking` are not known, innermost last.
    number: `[p + 2]`, of how many items each is one.
    unlisted: `[p + 2]`, whether an item stands for others.
    others: The one that stands for the retrieved ones.
  """

  name = "jaxrank.corpus.evaluate"

  def __init__(self, ranked: Ranked, rest: Array, items: int):
    super().__init__(ranked.scores, ranked.labels, ranked.where, ranked.depth)
    self._sorted_keys, self.order = ranked.keys, ranked.order
    self.items = items
    self.unknown: list[list[Array]] = []
    p = self.n - 2
    self.number = self.in_order(jnp.concatenate([jnp.ones_like(rest, shape=p), rest]))
    kind = self.in_order(jnp.asarray([0] * p + [1, 2], jnp.int32))
    self.unlisted = self.where & (kind > 0)
    self.others = self.where & (kind == 1)
    self.retrieved = self.retrieved | self.others

  @property
  def given_labels(self) -> Array:
    """Refused, because labels of single items are not known."""
    self._cannot_answer("the labels of all items")

  def _cannot_answer(self, what: str) -> NoReturn:
    raise UnansweredError(
      f"{self.name} does not answer {what}, because it counts the items that are not listed; score "
      "all items and call jaxrank.evaluate instead."
    )

  @property
  def longest(self) -> int:
    """The number of items of the corpus."""
    return self.items

  @contextlib.contextmanager
  def asking(self) -> Iterator[Callable[[], Array]]:
    """A function that says whether an answer that is given in the context is not known."""
    unknown: list[Array] = []
    self.unknown.append(unknown)
    try:
      yield lambda: jnp.any(jnp.stack([jnp.zeros((), bool), *unknown]))
    finally:
      self.unknown.pop()

  def _listed_only(self, w: Array) -> None:
    """Takes an answer for unknown if it needs the ranks of single items that are not listed."""
    self.unknown[-1].append(jnp.any(self.unlisted & w.astype(bool)))

  def each_user(self, question: Callable[..., Array], *users: Array, **parameters: Any) -> Array:
    """The answers to one question for many users, unknown if that of one user is."""

    def of_user(*columns: Array) -> tuple[Array, Array]:
      # A condition of one user is a value within `vmap`, which no later answer may hold.
      with self.asking() as is_unknown:
        return question(*columns, **parameters), is_unknown()

    answers, unknown = jax.vmap(of_user, in_axes=-1)(*users)
    self.unknown[-1].append(jnp.any(unknown))
    return answers

  def total(self, x: Array, dtype: Any = None) -> Array:
    """The sum over all items."""
    dtype = dtype or x.dtype
    number = self.number.astype(dtype)
    return super().total(x.astype(dtype) * (number if x.ndim == 1 else number[:, None]))

  def best(self, gain: Gain, weights: ArrayLike | None = None, *, k: Cutoff = None) -> Array:
    """The gains of an ideal ranking; unknown if label 0 has a gain."""
    self._listed_only(self.gain(gain, weights))
    return super().best(gain, weights, k=k)

  def exposure(self, discount: Discount, *, k: Cutoff = None) -> Array:
    """Refused, because other items have no exposure of their own."""
    self._cannot_answer("exposure, the expected discount of each item")


def with_others(
  scores: Array, labels: Array, where: Array, rest: Array
) -> tuple[Array, Array, Array]:
  """The listed items, and two that stand for the others; `rest` counts these, `[2]`."""
  nothing = 0 * rest
  scores = jnp.concatenate([scores, jnp.full_like(nothing, -jnp.inf, scores.dtype)])
  labels = jnp.concatenate([labels, nothing.astype(labels.dtype)])
  return scores, labels, jnp.concatenate([where, rest > 0])


class CountedQuery(Listed):
  """A query given by the standing of its listed items, with ties averaged."""

  def __init__(self, standing: Standing, items: int, scores: Array, labels: Array, where: Array):
    listed = where & (scores > -jnp.inf)
    lost = jnp.sum(where & ~listed, dtype=jnp.int32)
    retrieved = standing.retrieved - jnp.sum(listed, dtype=jnp.int32)
    rest = jnp.stack([retrieved, standing.present - standing.retrieved - lost])
    self.ranked = ExactQuery("average", None, *with_others(scores, labels, where, rest), None)
    super().__init__(self.ranked, rest, items)
    self.above, self.reaching = (
      self.in_order(jnp.concatenate([x, 0 * rest])) for x in (standing.above, standing.reaching)
    )
    self.live = self.ranked.slots.live
    self.size = jnp.where(self.live, self.reaching - self.above, 0)

  def require_order(self, what: str) -> None:
    """Does nothing: the ranks are those of an order."""

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`E sum_i w_i discount(r_i)` over the retrieved items with `r_i <= k`."""
    if among is not None:
      return self._expect_among(w, discount, k, among)
    here = self._discounts(discount, k)
    listed = jnp.sum(jnp.where(self.live, self.ranked.mean(w) * here, 0))
    other = jnp.sum(jnp.where(self.others, w.astype(self.dtype), 0))
    # The other items have the ranks that the listed ones leave.
    ranks = jnp.where(other != 0, self._retrieved(), 0)
    every = long_ties.mean(discount, 0 * ranks, ranks, k, self.items, self.dtype)
    left = every * ranks.astype(self.dtype) - jnp.sum(jnp.where(self.live, here, 0))
    return listed + jnp.where(other != 0, other * left, 0)

  def _retrieved(self) -> Array:
    return self.total(self.retrieved, jnp.int32)

  @memoised
  def _discounts(self, discount: Discount, k: Cutoff) -> Array:
    """The mean discount over the tie of each listed item, `[p + 2]`."""
    return long_ties.mean(discount, self.above, self.size, k, self.items, self.dtype)

  def _expect_among(self, w: Array, discount: Discount, k: Cutoff, among: Array) -> Array:
    """`expect` with ranks among the items of a mask."""
    self._listed_only(w)
    counted = jnp.any(self.others & among).astype(jnp.int32)
    chosen = self.ranked.counts(among)
    above, tied = self._other_items
    ahead = chosen.above + counted * above
    members = chosen.through - chosen.above + counted * tied
    size = members + (~among).astype(jnp.int32)
    size = jnp.where(self.live, size, 0)
    here = long_ties.mean(discount, ahead, size, k, self.items, self.dtype)
    return jnp.sum(jnp.where(self.live, w.astype(self.dtype) * here, 0))

  @property
  @memoised
  def _other_items(self) -> tuple[Array, Array]:
    """How many other items are above each listed one, and how many tie with it."""
    every = self.ranked.counts(self.live)
    return self.above - every.above, self.size - (every.through - every.above)

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """`E sum_i b_i discount(r_i) sum_j w_j`, over the `j` with `r_j <= r_i`, and `r_i <= k`."""
    live, w = self.live, b if weights is None else weights
    self._listed_only(b)
    self._listed_only(w)
    b, w = (jnp.where(live, x.astype(self.dtype), 0) for x in (b, w))
    down_to = jnp.cumsum(w)
    above = take(down_to - w, self.ranked.tie.start)
    others = take(down_to, self.ranked.tie.end) - above - w
    count = long_ties.inside(self.above, self.size, k)
    total, further = long_ties.sums(discount, self.above, count, self.dtype)
    share = others / jnp.maximum(self.size - 1, 1).astype(self.dtype)
    value = (w + above) * total + share * further
    return jnp.sum(b * value / jnp.maximum(self.size, 1).astype(self.dtype))

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first relevant item, if `r <= k`."""
    self._listed_only(b)
    b = b & self.live
    at = jnp.argmax(b)
    above, size = self.above[at], self.size[at]
    chosen = self.ranked.counts(b)
    relevant = (chosen.through - chosen.above)[at]
    value = long_ties.first(discount, above, size, relevant, k, self.items, self.n, self.dtype)
    return jnp.where(jnp.any(b), value, 0)

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`E discount(r)` of the item at which a user stops, or of the `worth` of those reached."""
    self._listed_only(stop)
    if worth is not None:
      self._listed_only(worth)
    met = self.ranked.stops(stop) if worth is None else self.ranked.met(worth, stop)
    return jnp.sum(jnp.where(self.live, met * self._in_turn(discount, k), 0))

  @memoised
  def _in_turn(self, discount: Discount, k: Cutoff) -> Array:
    """The expected discount at the rank of each listed item in rank order."""
    _, start, end = self.ranked.tie
    listed = end - start + 1
    return long_ties.in_turn(discount, self.above, self.size, start, listed, k, self.dtype)

  def before(self, w: Array) -> Array:
    """The mean weight ahead of each item; tied items count half.

    For the two that stand for the others it is the mean over the items that they stand for.
    """
    listed = self.ranked.before(jnp.where(self.unlisted, 0, w.astype(self.dtype)))
    other = jnp.sum(jnp.where(self.others, w.astype(self.dtype), 0))
    above, tied = (x.astype(self.dtype) for x in self._other_items)
    here = listed + other * (above + tied / 2)
    # Each listed item is ahead of the others that are not above it; tied ones count half.
    number = jnp.sum(jnp.where(self.others, self.number, 0)).astype(self.dtype)
    ahead = jnp.where(self.live, w.astype(self.dtype) * (number - above - tied / 2), 0)
    of_others = jnp.sum(ahead) / jnp.maximum(number, 1) + other * (number - 1) / 2
    every = self.total(jnp.where(self.retrieved, w.astype(self.dtype), 0))
    below = jnp.where(self.where, every, 0)
    return jnp.where(self.live, here, jnp.where(self.others, of_others, below))


# What a smooth ranking knows of the listed items at a cut-off: the expected number of kept other
# items ahead of each, and the weight with which each is kept, `[p]`.
AtCutoff = tuple[Array, Array]


class _AmongKept(ExpectedRankQuery):
  """Listed items that are ranked among all kept items, by what is known at a cut-off."""

  def __init__(
    self, distribution: Distribution, at_cutoff: Callable[[Cutoff], AtCutoff], *query: Any
  ):
    self.distribution, self.at_cutoff = distribution, at_cutoff
    super().__init__(*query)

  @memoised
  def _at(self, k: Cutoff) -> AtCutoff:
    ahead, kept = self.at_cutoff(k)
    return self._with_zeros(ahead), self._with_zeros(kept)

  def _with_zeros(self, x: Array) -> Array:
    return self.in_order(jnp.pad(x.astype(self.dtype), (0, 2)))

  def rank(self, k: Cutoff, among: Array | None) -> Array:
    """The expected rank of each listed item among the kept items."""
    del among
    ahead, kept = self._at(k)
    return 1 + ahead + self._weight_ahead(self._weight(self.retrieved) * kept)

  def kept(self, k: Cutoff, among: Array | None) -> Array:
    """The weights with which a cut-off keeps the listed items."""
    del among
    return self._at(k)[1]


class SmoothCountedQuery(Listed):
  """A query under a smooth ranking whose other items are only summed over.

  Args:
    distribution: That of the ranking.
    at_cutoff: What is known of the listed items at a cut-off, None for the whole list.
    rest: How many other items are retrieved and not retrieved, `[2]`.
    items: The number of items of the corpus.
    temperature: That of the ranking.
    scores: `[p]`, of the listed items.
    labels: `[p]`.
    where: `[p]`, False on padding.
  """

  def __init__(
    self,
    distribution: Distribution,
    at_cutoff: Callable[[Cutoff], AtCutoff],
    rest: Array,
    items: int,
    temperature: ArrayLike,
    scores: Array,
    labels: Array,
    where: Array,
  ):
    query = with_others(scores, labels, where, rest)
    self.ranked = _AmongKept(distribution, at_cutoff, temperature, *query, None)
    super().__init__(self.ranked, rest, items)

  @property
  @memoised
  def judged(self) -> Array:
    """Valid items with a label that is not negative."""
    return super().judged

  def _listed(self, w: Array) -> Array:
    """Weights of the listed items; the answer is unknown if others have any."""
    if any(w is every for every in (self.where, self.retrieved, self.judged)):
      self._cannot_answer("the ranks of all items under a smooth ranking")
    self._listed_only(w)
    return w

  def _cut(self, k: Cutoff) -> Cutoff:
    """The cut-off, None if it keeps all items of the corpus."""
    return None if isinstance(k, int) and k >= self.items else k

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`sum_i w_i discount(r_i)` over the kept items; of others, for a constant discount only."""
    if discount is not discounts.constant:
      w = self._listed(w)
    if among is not None:
      self._cannot_answer("ranks among some of the items")
    k = self._cut(k)
    listed = self.ranked.expect(w, discount, k=k)
    if discount is not discounts.constant:
      return listed
    kept = self.ranked.expect(self.ranked.retrieved, discount, k=k)
    every = self.count(self.retrieved)
    every = every if k is None else jnp.clip(self.cutoff(k), 0, every)
    return listed + jnp.sum(jnp.where(self.others, w.astype(self.dtype), 0)) * (every - kept)

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """`sum_i b_i discount(r_i) (w_i + before(w)_i)` over the kept listed items."""
    weights = None if weights is None else self._listed(weights)
    return self.ranked.precision(
      self._listed(b), k=self._cut(k), weights=weights, discount=discount
    )

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first relevant item."""
    return self.cascade(b, discount, k=k)

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`sum_i worth_i discount(r_i) survival_i` over the kept listed items."""
    worth = None if worth is None else self._listed(worth)
    return self.ranked.cascade(self._listed(stop), discount, k=self._cut(k), worth=worth)

  def spread_of_ranks(self, centred: Array) -> Array:
    """Refused, because other items have no ranks of their own."""
    self._cannot_answer("the spread of all ranks")
