"""`Exact`, the ranking by sort.

A metric is written for one query in a few questions to its ranking. `jaxrank.smoothing` answers
the same questions smoothly, so that every metric is also a loss.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank import _checks, discounts, sorting, ties
from jaxrank._typing import Cutoff, Discount
from jaxrank.query import Pairs, Query, at_ranks, shared
from jaxrank.sorting import take

TIES = ("average", "stable", "optimistic", "pessimistic", "random")

# A static cut-off up to this depth, in a list so many times longer, selects instead of sorting.
_SELECT_DEPTH = 64
_SELECT_RATIO = 4


class Slots(NamedTuple):
  """Items in rank order: sorted keys, their items, and whether the rank is taken."""

  key: Array
  item: Array
  live: Array


class ExactQuery(Query):
  """A query ranked by sorting, with one of the rules for ties."""

  def __init__(self, rule: str, key: Array | None, *query: Any):
    super().__init__(*query)
    self.rule, self.noise = rule, key
    self.average = rule == "average"
    self.keys = sorting.keys(lax.stop_gradient(self.scores), self.where)
    if self.depth != 0:
      self.wait(self.slots.item)

  def exact(self, what: str) -> "ExactQuery":
    """This query."""
    return self

  @property
  def is_full(self) -> bool:
    """Whether the slots hold every item."""
    return self.slots.key.shape[-1] == self.n

  @property
  @shared
  def full(self) -> Slots:
    """Every item in rank order."""
    return self._ranked(sorting.order(self.keys, self._first()))

  @property
  @shared
  def slots(self) -> Slots:
    """The items at ranks down to `depth`, or more."""
    if (
      self.depth is None
      or self.depth > _SELECT_DEPTH
      or self.depth * _SELECT_RATIO > self.n
      or self.rule not in ("average", "stable")
    ):
      return self.full
    values = sorting.top_values(self.scores, self.keys)
    return self._ranked(sorting.top(values, self.depth))

  def _ranked(self, item: Array) -> Slots:
    key = take(self.keys, item)
    return Slots(key, item, key > sorting.LOST)

  def _first(self) -> Array | None:
    """Keys that order tied items; None for the order of the input."""
    if self.rule == "optimistic":
      return sorting.keys(self.grades, self.where)
    if self.rule == "pessimistic":
      return sorting.keys(-self.grades, self.where)
    if self.rule == "random":
      column = sorting.slots(self.keys)
      assert self.noise is not None
      noise = functools.partial(jax.random.fold_in, self.noise)
      bits = jax.vmap(lambda i: jax.random.bits(noise(i)))(column)
      return lax.bitcast_convert_type(bits, jnp.int32)
    return None

  @shared
  def mean(self, w: Array) -> Array:
    """The expected weight at each rank."""
    slots, w = self.slots, w.astype(self.dtype)
    value = jnp.where(slots.live, take(w, slots.item), 0)
    if not self.average:
      return value
    value = ties.mean(slots.key, value)
    self.wait(value)
    if self.is_full:
      return value
    cut, size = self.cut_tie
    whole = jnp.sum(jnp.where(cut, w, 0)) / jnp.maximum(size, 1)
    return jnp.where(slots.live & (slots.key == slots.key[-1]), whole, value)

  @property
  @shared
  def progress(self) -> Array:
    """How far down its tie each rank is, from 0 to 1."""
    key = self.slots.key
    if self.is_full:
      return ties.progress(key).astype(self.dtype)
    start, size = ties.layout(key)
    size = jnp.where(key == key[-1], self.cut_tie[1], size.astype(self.dtype))
    above = (sorting.slots(key) - start).astype(self.dtype)
    return above / jnp.maximum(size - 1, 1)

  @property
  @shared
  def cut_tie(self) -> tuple[Array, Array]:
    """The items that tie with the last rank selected, some perhaps below it, and their number."""
    tied = self.retrieved & (self.keys == self.slots.key[-1])
    return tied, self.count(tied)

  @shared
  def stops(self, stop: Array) -> Array:
    """The chance to stop at each rank."""
    slots = self.full if self.average else self.slots
    stop = jnp.where(slots.live, take(stop.astype(self.dtype), slots.item), 0)
    if not self.average:
      return stop * ties.survival(stop)
    stopped = ties.stops(slots.key, stop)
    self.wait(stopped)
    return stopped

  def expect(self, w: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E sum w_i discount(r_i)` over the items with `r_i <= k`."""
    return at_ranks(self.mean(w), discount, k)

  def cascade(self, stop: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the item at which a user stops, with chance `stop` each, if `r <= k`."""
    return at_ranks(self.stops(stop), discount, k)

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

    if self.rule == "random":
      found = take(b, self.full.item) & self.full.live
      return jnp.where(jnp.any(found), value(1 + jnp.argmax(found).astype(jnp.int32)), 0)
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
    best = jnp.max(jnp.where(b, self.keys, sorting.MASKED))
    above = jnp.sum(self.retrieved & (self.keys > best), dtype=jnp.int32)
    tie = self.retrieved & (self.keys == best)
    tied, relevant = jnp.sum(tie, dtype=jnp.int32), jnp.sum(tie & b, dtype=jnp.int32)
    index = sorting.slots(self.keys)
    ahead = {
      "optimistic": jnp.zeros_like(above),
      "pessimistic": tied - relevant,
      "stable": jnp.sum(tie & (index < jnp.argmax(tie & b).astype(jnp.int32)), dtype=jnp.int32),
    }
    return above, tied, relevant, 1 + above + ahead.get(self.rule, 0)

  def ahead(self, b: Array, others: Array) -> Array:
    """The number of pairs of a `b` item with one of the `others` ahead of it; ties count half."""
    key, item, _ = self.full
    start, size = ties.layout(key)
    other = take(others, item).astype(jnp.int32)
    count = jnp.concatenate([jnp.zeros_like(other[:1]), jnp.cumsum(other, dtype=jnp.int32)])
    twice = take(count, start) + take(count, start + size) - other
    return jnp.sum(jnp.where(take(b, item), twice, 0).astype(self.dtype)) / 2

  def position(self) -> Array:
    """The midrank of each item, counted from 0, in the order of the input."""
    key, item, _ = self.full
    start, size = ties.layout(key)
    middle = start.astype(self.dtype) + (size - 1).astype(self.dtype) / 2
    return sorting.scatter(middle, sorting.after(item, middle))

  def pairs(self) -> Pairs:
    """Pairs of valid items by the order of their scores and of their labels (Knight, 1966)."""
    labels = sorting.keys(self.labels, self.where)
    item = sorting.order(self.keys, labels)
    by_label = sorting.order(take(labels, item))
    discordant = sorting.discordant(sorting.scatter(sorting.slots(by_label), by_label))
    item = sorting.after(item, discordant.astype(self.dtype))
    key, labels = take(self.keys, item), take(labels, item)
    tied_scores = self._tied(key, item)
    tied_labels = self._tied(
      take(labels, sorting.after(by_label, tied_scores.astype(self.dtype))), tied_scores
    )
    changed = (key[1:] != key[:-1]) | (labels[1:] != labels[:-1])
    joint = jnp.concatenate([jnp.zeros_like(key[:1]), -jnp.cumsum(changed, dtype=jnp.int32)])
    tied_both = self._tied(jnp.where(key > sorting.MASKED, joint, sorting.MASKED), tied_labels)
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

  def _tied(self, key: Array, done: Array) -> Array:
    """The number of ordered pairs of valid items that tie by these keys, int64."""
    _, size = ties.layout(sorting.after(key, done.astype(self.dtype)))
    with jax.enable_x64(True):
      return jnp.sum(jnp.where(key > sorting.MASKED, size - 1, 0).astype(jnp.int64))


@functools.partial(jax.tree_util.register_dataclass, data_fields=["key"], meta_fields=["ties"])
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
    _checks.choice("ties", self.ties, TIES)
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
