"""`Exact`, the ranking by sort.

A metric is written for one query in a few questions to its ranking. `jaxrank.smoothing` answers
the same questions smoothly, so that every metric is also a loss.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts
from jaxrank._core import checks, sorting, ties
from jaxrank._core.ranked import Pairs, Query, at_ranks, by_column, shared
from jaxrank._core.sorting import take
from jaxrank._core.types import Cutoff, Discount, pytree

TIES = ("average", "stable", "optimistic", "pessimistic", "random")

# A static cut-off up to this depth, in a list so many times longer, selects instead of sorting.
_SELECT_DEPTH = 64
_SELECT_RATIO = 4


class Slots(NamedTuple):
  """The ranks down to the deepest one asked for: sorted keys, and whether a rank is taken."""

  key: Array
  live: Array


class ExactQuery(Query):
  """A query ranked by sorting, with one of the rules for ties.

  Unless only the first ranks count, its items stand in rank order.
  """

  def __init__(self, rule: str, noise: Array | None, *query: Any):
    super().__init__(*query)
    self.rule, self.noise = rule, noise
    self.average = rule == "average"
    if self._sorts():
      self._sort(self._first())

  def exact(self, what: str) -> "ExactQuery":
    """This query."""
    return self

  def _sorts(self) -> bool:
    """Whether every item is put in its place, not the first few or none."""
    if self.depth is None:
      return True
    selects = self.depth <= _SELECT_DEPTH and self.depth * _SELECT_RATIO <= self.n
    selects = selects and self.rule in ("average", "stable") and not sorting.spread(self.keys)
    return self.depth != 0 and not selects

  def _first(self) -> Array | None:
    """Keys that order tied items; None for the order of the input."""
    if self.rule == "optimistic":
      return sorting.keys(self.grades, self.where)
    if self.rule == "pessimistic":
      return sorting.keys(-self.grades, self.where)
    return self._bits() if self.rule == "random" else None

  def _bits(self) -> Array:
    """What orders tied items before their index does: noise by column, unless they are sorted."""
    if self.noise is None or self.item is not None:
      return jnp.zeros_like(self.keys)
    bits = by_column(jax.random.bits, self.noise, self.keys)
    return lax.bitcast_convert_type(bits, jnp.int32)

  @property
  @shared
  def selected(self) -> Array:
    """The items at the first `depth` ranks."""
    assert self.depth is not None
    return sorting.top(sorting.top_values(self.scores, self.keys), self.depth)

  def _ranked(self, w: Array) -> Array:
    """`w` of the items in rank order, as deep as the slots."""
    return w if self.item is not None else take(w, self.selected)

  @property
  @shared
  def slots(self) -> Slots:
    """The ranks down to `depth`, or more."""
    key = self._ranked(self.keys)
    return Slots(key, key > sorting.LOST)

  @property
  @shared
  def tie(self) -> tuple[Array, Array]:
    """The first and the last slot of the tie of each rank."""
    return ties.layout(self.slots.key)

  @shared
  def mean(self, w: Array) -> Array:
    """The expected weight at each rank."""
    key, live = self.slots
    value = jnp.where(live, self._ranked(w.astype(self.dtype)), 0)
    if not self.average:
      return value
    value = ties.mean(value, *self.tie)
    if self.item is not None:
      return value
    cut, size = self.cut_tie
    whole = self.total(jnp.where(cut, w.astype(self.dtype), 0)) / jnp.maximum(size, 1)
    return jnp.where(live & (key == key[-1]), whole, value)

  @property
  @shared
  def progress(self) -> Array:
    """How far down its tie each rank is, from 0 to 1."""
    key, (start, end) = self.slots.key, self.tie
    size = (end - start + 1).astype(self.dtype)
    if self.item is None:
      size = jnp.where(key == key[-1], self.cut_tie[1], size)
    return (sorting.slots(key) - start).astype(self.dtype) / jnp.maximum(size - 1, 1)

  @property
  @shared
  def cut_tie(self) -> tuple[Array, Array]:
    """The items that tie with the last rank selected, some perhaps below it, and their number."""
    tied = self.retrieved & (self.keys == self.slots.key[-1])
    return tied, self.count(tied)

  @shared
  def stops(self, stop: Array) -> Array:
    """The chance to stop at each rank."""
    return self._met(stop, stop)

  def _met(self, worth: Array, stop: Array) -> Array:
    """The expected worth at each rank, to a user who may not get there."""
    worth, stop = (
      jnp.where(self.slots.live, self._ranked(x.astype(self.dtype)), 0) for x in (worth, stop)
    )
    return ties.met(worth, stop, *self.tie) if self.average else worth * ties.survival(stop)

  def expect(self, w: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E sum w_i discount(r_i)` over the items with `r_i <= k`."""
    return at_ranks(self.mean(w), discount, k)

  def cascade(
    self, stop: Array, discount: Discount, *, k: Cutoff = None, worth: Array | None = None
  ) -> Array:
    """`E discount(r)` of the item at which a user stops, with chance `stop` each, if `r <= k`.

    Given a `worth`: `E sum worth_i discount(r_i)` over the items that the user gets to.
    """
    return at_ranks(self.stops(stop) if worth is None else self._met(worth, stop), discount, k)

  def precision(self, b: Array, *, k: Cutoff = None) -> Array:
    """The expected sum of the precisions at the ranks `r_i <= k` of the relevant items.

    In a tie of `t` items, `m` of them relevant, an item at place `p` is relevant with chance
    `m / t`, and then expects `(p - 1) (m - 1) / (t - 1)` hits ahead in its tie: that is
    `(p - 1) m / t`, as any item there, less `(1 - m / t) (p - 1) / (t - 1)`.
    """
    chance = self.mean(b)
    ahead = self.hits(b) - chance
    if self.average:
      ahead = ahead - (1 - chance) * self.progress
    return at_ranks(chance * (1 + ahead), discounts.reciprocal, k)

  @shared
  def hits(self, b: Array) -> Array:
    """The expected number of relevant items down to each rank."""
    return jnp.cumsum(self.mean(b))

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first relevant item, if `r <= k`. Counts, and does not sort."""

    def value(rank):
      inside = rank <= jnp.asarray(self.n if k is None else k).astype(rank.dtype)
      return jnp.where(inside, discount(rank.astype(self.dtype)), 0)

    above, tied, relevant, rank = self.first_tie(b)
    expected = ties.first(value, above, tied, relevant) if self.average else value(rank)
    return jnp.where(relevant > 0, expected, 0)

  @shared
  def first_tie(self, b: Array) -> tuple[Array, Array, Array, Array]:
    """The tie of the first relevant item.

    How many items are above it, how many in it, how many of these are relevant, and the rank of
    the first of them, unless ties are averaged.
    """
    b = b & self.retrieved
    best = self.most(jnp.where(b, self.keys, sorting.MASKED))
    above = self.total(self.retrieved & (self.keys > best), jnp.int32)
    tie = self.retrieved & (self.keys == best)
    tied, relevant = self.total(tie, jnp.int32), self.total(tie & b, jnp.int32)
    ahead = {"optimistic": jnp.zeros_like(above), "pessimistic": tied - relevant}
    if self.rule in ("stable", "random"):
      noise = self._bits()
      most = jnp.max(jnp.where(tie & b, noise, sorting.MASKED))
      column = sorting.slots(self.keys)
      found = jnp.argmax(tie & b & (noise == most)).astype(jnp.int32)
      before = (noise > most) | ((noise == most) & (column < found))
      ahead[self.rule] = jnp.sum(tie & before, dtype=jnp.int32)
    return above, tied, relevant, 1 + above + ahead.get(self.rule, 0)

  def ahead(self, b: Array, others: Array) -> Array:
    """The number of pairs of a `b` item with one of the `others` ahead of it; ties count half."""
    start, end = ties.layout(self.keys, sorting.MASKED)
    other = others.astype(jnp.int32)
    count = jnp.concatenate([jnp.zeros_like(other[:1]), jnp.cumsum(other, dtype=jnp.int32)])
    twice = take(count, start) + take(count, end + 1) - other
    return jnp.sum(jnp.where(b, twice, 0).astype(self.dtype)) / 2

  def position(self) -> Array:
    """The midrank of each item, counted from 0."""
    return ties.twice_midrank(self.keys).astype(self.dtype) / 2

  def pairs(self) -> Pairs:
    """Pairs of valid items by the order of their scores and of their labels (Knight, 1966)."""
    start, _ = ties.layout(self.keys, sorting.MASKED)
    labels, by_label = sorting.order(sorting.keys(self.labels, self.where))
    # Back in the order of the scores, tied ones in that of their labels: not discordant.
    start, back = sorting.order(~take(start, by_label))
    discordant = sorting.discordant(back)
    joint = take(labels, back)
    changed = (start[1:] != start[:-1]) | (joint[1:] != joint[:-1])
    joint = jnp.concatenate([jnp.zeros_like(start[:1]), -jnp.cumsum(changed, dtype=jnp.int32)])
    joint = jnp.where(self.where, joint, sorting.MASKED)
    tied_scores, tied_labels, tied_both = map(_tied_pairs, (self.keys, labels, joint))
    with jax.enable_x64(True):
      n = jnp.sum(self.where.astype(jnp.int64))
      differ = (n * (n - 1) - tied_scores - tied_labels + tied_both) // 2
      counts = Pairs(
        concordant=differ - discordant,
        discordant=discordant,
        tied_scores=(tied_scores - tied_both) // 2,
        tied_labels=(tied_labels - tied_both) // 2,
      )
      return Pairs(*(count.astype(self.dtype) for count in counts))


def _tied_pairs(key: Array) -> Array:
  """The number of ordered pairs of valid items that tie by sorted keys, int64."""
  start, end = ties.layout(key, sorting.MASKED)
  with jax.enable_x64(True):
    return jnp.sum((end - start).astype(jnp.int64))


@pytree("key")
@dataclasses.dataclass(frozen=True)
class Exact:
  """The ranking by score, best first.

  Attributes:
    ties: What a metric of tied items is: `"average"`, its expectation over all their orders
      (McSherry and Najork, `Computing information retrieval performance measures efficiently in
      the presence of tied scores <https://doi.org/10.1007/978-3-540-78646-7_38>`_, 2008);
      `"stable"`, the order of the input; `"optimistic"` and `"pessimistic"`, larger labels first
      or last; `"random"`, one order drawn with `key`, a noise per column of each query.
    key: A PRNG key, for `"random"` only.
  """

  ties: str = "average"
  key: Array | None = None

  def __post_init__(self):
    checks.choice("ties", self.ties, TIES)
    if (self.ties == "random") != (self.key is not None):
      raise ValueError(f'ties="random" needs a key, and only it; got {self.ties!r}, {self.key!r}.')

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> ExactQuery:
    """Ranks one query `[n]`; `k` is the largest rank that will be asked for."""
    return ExactQuery(self.ties, self.key, scores, labels, where, k)

  def with_key(self, key: Array) -> "Exact":
    """The same ranking with another key."""
    return dataclasses.replace(self, key=key)
