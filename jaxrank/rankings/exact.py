"""`Exact`, the ranking by sorting, and the rules for tied items.

docs/mathematics.md, "Averages over tied orders", derives the answers of `ExactQuery`.
"""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Discount, Pairs, pytree
from jaxrank._core import checks, sorting, ties
from jaxrank._core.ranked import (
  Ranked,
  Ranking,
  at_ranks,
  by_column,
  counts_all_alike,
  memoised,
  weighed,
  within,
)
from jaxrank._core.sorting import take
from jaxrank.rankings import pairs

Ties = Literal["average", "stable", "optimistic", "pessimistic", "random"]

# A static cut-off up to this depth, in a list at least this many times longer, selects by a top k.
_SELECT_DEPTH = 64
_SELECT_RATIO = 4

# The first ranks of a cascade are computed in steps of this many.
_CASCADE_RANKS = 32


class Slots(NamedTuple):
  """The first ranks: sorted keys `[ranks]`, and whether a retrieved item has the rank."""

  key: Array
  live: Array


class ExactQuery(Ranked):
  """A query ranked by sorting, with one of the rules for ties.

  Its items are in rank order, unless only the first ranks, or none, are needed.
  """

  name = "Exact"

  def __init__(self, rule: Ties, noise: Array | None, *query: Any):
    super().__init__(*query)
    self.rule, self.noise = rule, noise
    self.average = rule == "average"
    if self._sorts():
      self.sort(self._tie_keys())

  def require_order(self, what: str) -> None:
    """Does nothing: the ranks are those of an order."""

  def _sorts(self) -> bool:
    """Whether all items are sorted, instead of the first few being selected, or none."""
    if self.depth is None:
      return True
    selects = self.depth <= _SELECT_DEPTH and self.depth * _SELECT_RATIO <= self.n
    selects = selects and self.rule in ("average", "stable") and not sorting.spread(self.scores)
    return self.depth != 0 and not selects

  def _tie_keys(self) -> Array | None:
    """Keys that order tied items, largest first; None for the order of the input."""
    if self.rule in ("optimistic", "pessimistic"):
      sign = 1 if self.rule == "optimistic" else -1
      return sorting.keys(sign * self._worth(), self.where)
    return self._bits() if self.rule == "random" else None

  def _worth(self) -> Array:
    """Labels `[n]`; of labels `[n, subtopics]` the sum of the positive ones."""
    return self.labels if self.labels.ndim == 1 else jnp.sum(gains.linear(self.labels), axis=1)

  def _bits(self) -> Array:
    """Keys that order tied items before their index does: noise, or 0 if they are sorted."""
    if self.noise is None or self.order is not None:
      return jnp.zeros_like(self.keys)
    bits = by_column(jax.random.bits, self.noise, self.keys)
    return lax.bitcast_convert_type(bits, jnp.int32)

  @property
  @memoised
  def selected(self) -> Array:
    """The indices of the items at the first `depth` ranks."""
    assert self.depth is not None
    return sorting.top(sorting.top_values(self.scores, self.keys), k=self.depth)

  def _ranked(self, w: Array) -> Array:
    """`w` in rank order, for the ranks of `slots`."""
    return w if self.order is not None else take(w, self.selected)

  @property
  @memoised
  def slots(self) -> Slots:
    """The ranks down to `depth` if items are selected, otherwise all ranks."""
    key = self._ranked(self.keys)
    return Slots(key, key > sorting.LOST)

  @property
  @memoised
  def tie(self) -> ties.Runs:
    """The ties of the ranks of `slots`."""
    return ties.runs(self.slots.key)

  @memoised
  def mean(self, w: Array) -> Array:
    """The expected weight at each rank: docs/mathematics.md, "Averages over tied orders"."""
    key, live = self.slots
    value = jnp.where(live, self._ranked(w.astype(self.dtype)), 0)
    if not self.average:
      return value
    value = self.counts(w).share if w.dtype == jnp.bool_ else ties.mean(value, *self.tie[1:])
    if self.order is not None:
      return value
    cut, size = self.cut_tie
    whole = self.total(jnp.where(cut, w.astype(self.dtype), 0)) / jnp.maximum(size, 1)
    return jnp.where(live & (key == key[-1]), whole, value)

  @memoised
  def counts(self, b: Array) -> ties.Counts:
    """How many items of a mask are above the tie of each rank, and through it."""
    return ties.counts(self.slots.live & self._ranked(b), self.tie, self.dtype)

  @property
  @memoised
  def progress(self) -> Array:
    """How far down its tie each rank is, from 0 to 1; `precision` needs it."""
    key, (_, start, end) = self.slots.key, self.tie
    size = (end - start + 1).astype(self.dtype)
    if self.order is None:
      size = jnp.where(key == key[-1], self.cut_tie[1], size)
    return (sorting.slots(key) - start).astype(self.dtype) / jnp.maximum(size - 1, 1)

  @property
  @memoised
  def cut_tie(self) -> tuple[Array, Array]:
    """The items that tie with the last selected rank, also those below it, and their number."""
    tied = self.retrieved & (self.keys == self.slots.key[-1])
    return tied, self.count(tied)

  @memoised
  def stops(self, stop: Array, ranks: int | None = None) -> Array:
    """The probability of stopping at each rank, or at the first few."""
    return self.met(stop, stop, ranks)

  def met(self, worth: Array, stop: Array, ranks: int | None = None) -> Array:
    """The expected worth at each rank for a user who stops with probability `stop`."""
    worth, stop = (
      jnp.where(self.slots.live, self._ranked(x.astype(self.dtype)), 0) for x in (worth, stop)
    )
    if not self.average:
      return worth * ties.survival(stop)
    return ties.met(worth, stop, *(x[:ranks] for x in self.tie[1:]))

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`E sum_i w_i discount(r_i)` over the retrieved items with `r_i <= k`."""
    if counts_all_alike(discount, k, among):
      if w.dtype == jnp.bool_:
        return self.count(self.retrieved & w)
      return self.total(jnp.where(self.retrieved, w.astype(self.dtype), 0))
    if among is not None:
      return self._expect_among(w, discount, k, among)
    table = self._table(discount)
    if w.dtype == jnp.bool_ or table is None:
      return at_ranks(self.mean(w), discount, k)
    means, inside = self._means(table), self.slots.live
    if k is not None:
      means = ties.mean_discount_down_to(k, table, self.tie, means)
      # An infinite gain beyond the cut-off adds nothing.
      inside = inside & (means > 0)
    return jnp.sum(jnp.where(inside, w.astype(self.dtype) * means, 0))

  def _table(self, discount: Discount) -> ties.DiscountWords | None:
    """The prefix sums of a discount, if ties are averaged with them."""
    reference = getattr(discount, "reference", None)
    known = self.average and self.order is not None and self.dtype == jnp.float32
    return ties.discount_words(reference, self.n) if known and reference else None

  @memoised
  def _means(self, table: ties.DiscountWords) -> Array:
    return ties.mean_discount(table, self.tie)

  def _expect_among(self, w: Array, discount: Discount, k: Cutoff, among: Array) -> Array:
    """`expect` with ranks among the items of a mask.

    `total` is the sum of the discounts at the ranks that the members of each tie take:
    docs/mathematics.md, "Averages over tied orders".
    """

    def worth(rank: Array) -> Array:
      return jnp.where(within(rank, k), discount(rank), 0)

    live = self.slots.live
    inside = jnp.where(live & among, 1, 0)
    count = jnp.cumsum(inside, dtype=jnp.int32)
    ahead = (count - inside).astype(self.dtype)
    if not self.average:
      return jnp.sum(jnp.where(live, w.astype(self.dtype) * worth(1 + ahead), 0))
    _, start, end = self.tie
    last = ties.at_end(count, self.tie).astype(self.dtype)
    members = last - ties.at_start(count - inside, self.tie).astype(self.dtype)
    at_member = jnp.where(inside > 0, worth(jnp.maximum(count, 1).astype(self.dtype)), 0)
    total = ties.mean(at_member, start, end) * (end - start + 1).astype(self.dtype)
    outside = (total + worth(last + 1)) / (members + 1)
    expected = jnp.where(inside > 0, total / jnp.maximum(members, 1), outside)
    return jnp.sum(jnp.where(live, w.astype(self.dtype) * expected, 0))

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`E discount(r)` of the item at which a user stops, or of the `worth` of those reached."""
    # In steps, so that cut-offs that are near each other share one recursion.
    ranks = -(-k // _CASCADE_RANKS) * _CASCADE_RANKS if isinstance(k, int) else None
    met = self.stops(stop, ranks) if worth is None else self.met(worth, stop, ranks)
    return at_ranks(met, discount, k)

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """`E sum_i b_i discount(r_i) sum_j w_j`, over the `j` with `r_j <= r_i`, and `r_i <= k`.

    The weight of an item and that of the tied items ahead of it depend on each other:
    docs/mathematics.md, "Averages over tied orders".
    """
    w = b if weights is None else weights
    chosen, weight, both = self.mean(b), self.mean(w), self.mean(weighed(b, weights))
    at_item = chosen * self.hits(w, own=0) + both
    if self.average:
      at_item = at_item - self.progress * (both - chosen * weight)
    # The means are 0 where no item is. Without the choice, average precision [1000, 1000] takes 1.9
    # times as long: a CPU leaves the products to the library that adds them up (jaxlib 0.10.2).
    return at_ranks(jnp.where(self.slots.live, at_item, 0), discount, k)

  @memoised
  def hits(self, w: Array, own: int = 1) -> Array:
    """The expected weight above each rank, with that at the rank itself if `own` is 1.

    For a mask it is the expected number of its items.
    """
    mean = self.mean(w)
    if not self.average or w.dtype != jnp.bool_ or self.order is None:
      through = jnp.cumsum(mean)
      return through if own else through - mean
    counts = self.counts(w)
    place = (sorting.slots(counts.start) - counts.start + own).astype(self.dtype)
    return counts.above.astype(self.dtype) + place * mean

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first relevant item, if `r <= k`; it takes counts, and no sort."""

    def value(rank: Array) -> Array:
      inside = rank <= jnp.asarray(self.n if k is None else k).astype(rank.dtype)
      r = rank.astype(self.dtype)
      # A zero that depends on the rank: jax 0.10.0 cannot choose between constants over a mesh.
      return jnp.where(inside, discount(r), 0 * r)

    above, tied, relevant, rank = self.first_tie(b)
    expected = (
      ties.first(above, tied, relevant, value=value, n=self.n) if self.average else value(rank)
    )
    return jnp.where(relevant > 0, expected, 0)

  @memoised
  def first_tie(self, b: Array) -> tuple[Array, Array, Array, Array]:
    """The tie of the first relevant item, in numbers.

    How many items are above it, how many in it, how many of these are relevant, and the rank of
    the first relevant one, for the rules that do not average.
    """
    b = b & self.retrieved
    best = self.largest(jnp.where(b, self.keys, sorting.MASKED))
    above = self.total(self.retrieved & (self.keys > best), jnp.int32)
    tie = self.retrieved & (self.keys == best)
    tied, relevant = self.total(tie, jnp.int32), self.total(tie & b, jnp.int32)
    ahead = {"optimistic": jnp.zeros_like(above), "pessimistic": tied - relevant}
    if self.rule in ("stable", "random"):
      noise = self._bits()
      highest = jnp.max(jnp.where(tie & b, noise, sorting.MASKED))
      column = sorting.slots(self.keys)
      found = jnp.argmax(tie & b & (noise == highest)).astype(jnp.int32)
      before = (noise > highest) | ((noise == highest) & (column < found))
      ahead[self.rule] = jnp.sum(tie & before, dtype=jnp.int32)
    return above, tied, relevant, 1 + above + ahead.get(self.rule, 0)

  def before(self, w: Array) -> Array:
    """The weight ahead of each item, `[n]`: that above its tie, and half of that of tied items.

    Tied items count half under every rule for ties. Items that are not retrieved form one tie below
    all retrieved ones. docs/mathematics.md, "Averages over tied orders".
    """
    runs = ties.runs(self.keys, sorting.MASKED)
    if w.dtype == jnp.bool_:
      inside = w & self.retrieved
      counts = ties.counts(inside, runs, self.dtype)
      above = (counts.above + counts.through - inside.astype(jnp.int32)).astype(self.dtype) / 2
    else:
      w = jnp.where(self.retrieved, w.astype(self.dtype), 0)
      _, start, end = runs
      size = (end - start + 1).astype(self.dtype)
      above = take(jnp.cumsum(w) - w, start) + (ties.mean(w, start, end) * size - w) / 2
    return jnp.where(self.where, above, 0)

  def cumulative(self, w: Array) -> Array:
    """The expected weight at the ranks 1 to `r`, `[n]`."""
    return self.hits(w)

  def pairs(self) -> Pairs:
    """Numbers of pairs of valid items by the order of scores and of labels (Knight, 1966)."""
    return pairs.counted(self)


@pytree("key")
@dataclasses.dataclass(frozen=True)
class Exact(Ranking):
  """The ranking by score, best first.

  Attributes:
    ties: The order of tied items: `"average"`, the mean of the metric over all orders (McSherry and
      Najork, `Computing information retrieval performance measures efficiently in the presence of
      tied scores <https://doi.org/10.1007/978-3-540-78646-7_38>`_, 2008); `"stable"`, the order of
      the input; `"optimistic"` and `"pessimistic"`, larger labels first or last; `"random"`, a
      random order for each query, drawn with `key`, which longer padding does not change.
    key: A PRNG key, for `"random"` only.
  """

  ties: Ties = "average"
  key: Array | None = None
  in_blocks: ClassVar[bool] = True

  def __post_init__(self) -> None:
    with checks.named("Exact"):
      checks.choice("ties", self.ties, get_args(Ties))
      if self.key is not None:
        checks.keys(self.key)
      if (self.ties == "random") != (self.key is not None):
        raise ValueError(
          'ties="random" needs a key, and the other rules take none; '
          f"got ties={self.ties!r} and key={checks.told(self.key)}."
        )

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> ExactQuery:
    """Ranks one query `[n]`; `k` is the largest rank that will be asked for."""
    return ExactQuery(self.ties, self.key, scores, labels, where, k)

  def with_key(self, key: Array) -> "Exact":
    """The same ranking with another key."""
    return dataclasses.replace(self, key=key)
