"""Ties, and what is averaged over their orders: counts, means, discounts, users who stop.

Items are in rank order, `[n]`, so that a tie is a run of equal keys. On a CPU, sums over ties are
added up at their starts. Accelerators take running extremes, and steps whose number only the length
of the list determines; a TPU, where gathers are slow, also takes running extremes to carry numbers
from the ends of a tie to its members.

A discount that is a function of the rank alone has known prefix sums. Two int32 words hold each of
them, about 50 bits, so that a difference of two sums is as exact as float32 can say, however long
the list is. The words never decrease with the rank, so that they are carried to the members of a
tie without a gather, as on a TPU. Other devices look the sums up in double precision instead.

A user who stops at items makes what an item is worth depend on all items ahead of it, and in a tie
on the order that is drawn. Such cascades are for one user, or for one of each subtopic.
docs/mathematics.md, "Averages over tied orders", derives the formulas and the recursion over a tie.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import Cutoff, Discount
from jaxrank._core import sorting
from jaxrank._core._jax import enable_x64
from jaxrank._core.arithmetic import KEPT, discount_sums, safe_divide, varying_zeros
from jaxrank._core.batching import batched, of_each_query
from jaxrank._core.platforms import primitive
from jaxrank._core.ranked import Ranked, at_ranks
from jaxrank._core.sorting import slots, take

# On a GPU, means over the ties of a list up to this length are sums over all pairs of items.
_SHORT = 64


class Runs(NamedTuple):
  """The ties of a list in rank order, `[n]` each.

  Attributes:
    tied: Whether an item ties with the one above it.
    start: The first slot of the tie of each item.
    end: The last slot of the tie of each item.
  """

  tied: Array
  start: Array
  end: Array


def runs(key: Array, least: np.int32 = sorting.LOST) -> Runs:
  """The ties of sorted keys; keys up to `least` do not tie.

  docs/mathematics.md, "Averages over tied orders".
  """
  tied = (key > least) & (key == above(key, least))
  return Runs(tied, *_layout(tied))


def layout(key: Array, least: np.int32 = sorting.LOST) -> tuple[Array, Array]:
  """The first and the last slot of the tie of each item; keys up to `least` do not tie."""
  return runs(key, least)[1:]


@primitive
def ends(tied: Array) -> tuple[Array, Array]:
  """The first and the last slot of the tie of each item, `[..., n]`."""
  slot = sorting.slots(tied)
  return _first_of(tied, slot), _last_of(tied, slot)


_layout = batched(ends, several=True)


@ends.on("cpu", gain="average precision [1000, 1000]: 1.6")
def _ends_by_lengths(tied: Array) -> tuple[Array, Array]:
  def double(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    length, ahead, _ = state
    ahead = jnp.where(ahead == length, ahead + _from(ahead, -length), ahead)
    return 2 * length, ahead, jnp.any(ahead[0] == 2 * length)

  # How many members of its tie are ahead of each item, also in the reverse order: both are in one
  # array, so that one loop is compiled.
  ahead = jnp.stack([tied, jnp.flip(below(tied), -1)]).astype(jnp.int32)
  state = (jnp.int32(1), ahead, jnp.any(tied))
  _, ahead, _ = lax.while_loop(lambda state: state[2], double, state)
  slot = sorting.slots(tied)
  return slot - ahead[0], slot + jnp.flip(ahead[1], -1)


@primitive
def at_start(x: Array, runs: Runs) -> Array:
  """`x` at the first slot of the tie of each item; `x`, int32, does not decrease with the rank."""
  return take(x, runs.start)


@at_start.on("tpu", gain="nDCG [1000, 1000]: 27")
def _at_start_by_scan(x: Array, runs: Runs) -> Array:
  return _first_of(runs.tied, x)


@primitive
def at_end(x: Array, runs: Runs) -> Array:
  """`x` at the last slot of the tie of each item; `x`, int32, does not decrease with the rank."""
  return take(x, runs.end)


@at_end.on("tpu", gain="nDCG [1000, 1000]: 27")
def _at_end_by_scan(x: Array, runs: Runs) -> Array:
  return _last_of(runs.tied, x)


def _first_of(tied: Array, x: Array) -> Array:
  return lax.cummax(jnp.where(tied, -sorting.LARGEST, x), axis=tied.ndim - 1)


def _last_of(tied: Array, x: Array) -> Array:
  return lax.cummin(jnp.where(below(tied), sorting.LARGEST, x), axis=tied.ndim - 1, reverse=True)


class Counts(NamedTuple):
  """Numbers of chosen items, `[n]` each.

  Attributes:
    start: The first slot of the tie of each item.
    above: The number of chosen items above the tie.
    through: The number of chosen items above the tie and in it.
    share: The share of chosen items in the tie.
  """

  start: Array
  above: Array
  through: Array
  share: Array


def counts(b: Array, runs: Runs, dtype: Any) -> Counts:
  """Counts the items of a mask in rank order; whole numbers, so that differences are exact."""
  through = jnp.cumsum(b, dtype=jnp.int32)
  above, through = at_start(through - b.astype(jnp.int32), runs), at_end(through, runs)
  share = (through - above).astype(dtype) / (runs.end - runs.start + 1).astype(dtype)
  return Counts(runs.start, above, through, share)


def twice_midrank(key: Array) -> Array:
  """Twice the mean slot of the tie of each item; slots count from 0, masked items do not tie."""
  start, end = layout(key, sorting.MASKED)
  return start + end


@jax.custom_jvp
def mean(w: Array, start: Array, end: Array) -> Array:
  """The mean of `w` over the tie of each item.

  docs/mathematics.md, "Averages over tied orders".
  """
  return _mean(w, start, end)


@mean.defjvp
def _mean_jvp(
  primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
  w, start, end = primals
  # Reverse mode can transpose a scatter, but not a `while_loop`.
  sum_ = take(jnp.zeros_like(w).at[start].add(tangents[0]), start)
  return mean(*primals), sum_ / (end - start + 1).astype(w.dtype)


@functools.partial(batched, differentiable=of_each_query(mean))
def _mean(w: Array, start: Array, end: Array) -> Array:
  return sums(w, start, end) / (end - start + 1).astype(w.dtype)


@primitive
def sums(w: Array, start: Array, end: Array) -> Array:
  """The sum of `w` over the tie of each item, `[..., n]`, from all pairs of items."""
  del end
  return jnp.sum(jnp.where(start[..., None] == start[..., None, :], w[..., None, :], 0), axis=-1)


@sums.on("tpu", gain="means over ties [1000, 1000]: 7.2")
@sums.on(
  "gpu", gain="arithmetic for 10,000 items: 700", when=lambda w, start, end: w.shape[-1] > _SHORT
)
def _sums_by_doubling(w: Array, start: Array, end: Array) -> Array:
  """The sum from the start of the tie to each item, plus the sum of those behind in the tie.

  A difference of two prefix sums was rejected: their rounding errors are those of the whole list.
  """
  slot = sorting.slots(w)
  down = w + jnp.where(start < slot, above(w), 0)
  up = w + jnp.where(slot < end, below(w), 0)
  for power in range(1, (w.shape[-1] - 1).bit_length()):
    length = 1 << power
    down += jnp.where(slot - length >= start, _from(down, -length), 0)
    up += jnp.where(slot + length <= end, _from(up, length), 0)
  return down + jnp.where(slot < end, below(up), 0)


@sums.on("cpu", gain="means over ties [1000, 1000]: 250")
def _sums_at_starts(w: Array, start: Array, end: Array) -> Array:
  """The sum over the tie of each item, added up at its start.

  It is in double precision, because small numbers lose digits when they are added to a large sum.
  """
  del end

  def total(w: Array, start: Array) -> Array:
    return take(jnp.zeros_like(w).at[start].add(w, mode="promise_in_bounds"), start)

  with enable_x64():
    totals: Array = jnp.vectorize(total, signature="(n),(n)->(n)")(w.astype(jnp.float64), start)
    return totals.astype(w.dtype)


def above(x: Array, first: Any = 0) -> Array:
  """The value one rank above each rank; `first` for the first rank."""
  return jnp.concatenate([jnp.full_like(x[..., :1], first), x[..., :-1]], axis=-1)


def below(x: Array) -> Array:
  """The value one rank below each rank; 0 for the last rank."""
  return jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], axis=-1)


def _from(x: Array, away: Any) -> Array:
  """The value `away` ranks below each rank, or above if negative; the ends are joined."""
  if isinstance(away, int):
    return jnp.roll(x, -away, axis=-1)
  n = x.shape[-1]
  start = jnp.where(away < 0, n + away, away)
  return lax.dynamic_slice_in_dim(jnp.concatenate([x, x], axis=-1), start, n, axis=-1)


# The sum of all discounts, in units of the upper word.
_TOTAL = 2.0**30


class DiscountWords(NamedTuple):
  """Prefix sums of a discount down to the ranks 0, 1, ..., n, `[n + 1]`, and as two int32 words.

  The sum down to rank `r` is `unit * (upper[r] + fraction[r] / 2 ** bits)`; the lower word holds
  the rank above the `bits` of the fraction.
  """

  sums: np.ndarray
  upper: np.ndarray
  lower: np.ndarray
  bits: int
  unit: float


@functools.lru_cache(maxsize=KEPT)
def discount_words(function: Callable[[np.ndarray], np.ndarray], n: int) -> DiscountWords:
  """The prefix sums of a discount that is not negative."""
  total = discount_sums(function, n)
  unit = total[-1] / _TOTAL
  upper = np.floor(total / unit)
  bits = 31 - (n + 1).bit_length()
  fraction = np.floor((total / unit - upper) * 2.0**bits)
  lower = np.arange(n + 1) * 2.0**bits + fraction
  return DiscountWords(total, upper.astype(np.int32), lower.astype(np.int32), bits, float(unit))


# The upper and the lower word of the sums above the tie of each item, and through it.
Ends = tuple[tuple[Array, Array], tuple[Array, Array]]


def mean_discount(table: DiscountWords, runs: Runs) -> Array:
  """The mean of the discount over the tie of each item."""
  return batched(lambda *ends: mean_of_sums(Runs(*ends), table=table))(*runs)


def mean_discount_down_to(k: Cutoff, table: DiscountWords, runs: Runs, mean: Array) -> Array:
  """The same for a discount that is 0 at ranks beyond `k`; `mean` is that of the whole one."""

  @batched
  def means(k: Array, mean: Array, *ends: Array) -> Array:
    return _mean_down_to(k[..., None], mean, Runs(*ends), table)

  return means(jnp.asarray(k, jnp.int32), mean, *runs)


def _words_at_ends(table: DiscountWords, runs: Runs) -> Ends:
  """The prefix sums above the tie of each item, and through it."""
  upper, lower = (
    (at_start(_rows(x[:-1], runs.start), runs), at_end(_rows(x[1:], runs.start), runs))
    for x in (table.upper, table.lower)
  )
  return (upper[0], lower[0]), (upper[1], lower[1])


@primitive
def mean_of_sums(runs: Runs, *, table: DiscountWords) -> Array:
  """`mean_discount` of a whole batch, `[..., n]`."""
  _, start, end = runs
  return _difference(table, start, end + 1) / (end - start + 1).astype(jnp.float32)


@mean_of_sums.on("tpu", gain="nDCG [1000, 1000]: 54")
def _mean_of_carried_words(runs: Runs, *, table: DiscountWords) -> Array:
  return mean_of_words(table, _words_at_ends(table, runs))


def _mean_down_to(k: Array, mean: Array, runs: Runs, table: DiscountWords) -> Array:
  """`mean_discount_down_to` of a whole batch; some ranks of one tie at most are beyond `k`."""
  _, start, end = runs
  n = start.shape[-1]
  slot = jnp.clip(k, 0, n - 1)
  first, last = take(start, slot), take(end, slot)
  inside = _difference(table, first, 0 * first + jnp.clip(k, 0, n))
  share = inside / (last - first + 1).astype(jnp.float32)
  return jnp.where(end < k, mean, jnp.where(start < k, share, 0))


def _difference(table: DiscountWords, above: Array, through: Array) -> Array:
  """The sum of the discount at the ranks below `above` down to `through`."""
  with enable_x64():
    row = _rows(table.sums, above)
    return (take(row, through) - take(row, above)).astype(jnp.float32)


def _rows(x: np.ndarray, like: Array) -> Array:
  """Numbers `[m]` as `[..., m]`, with the axes and the layout over devices of a batch."""
  return (0 * like[..., :1]).astype(x.dtype) + x.reshape((1,) * (like.ndim - 1) + x.shape)


def mean_of_words(table: DiscountWords, ends: Ends) -> Array:
  """The mean of the discount between the ends of each tie."""
  above, through = ends
  size = (through[1] >> table.bits) - (above[1] >> table.bits)
  low = (1 << table.bits) - 1
  fraction = ((through[1] & low) - (above[1] & low)).astype(jnp.float32)
  whole = (through[0] - above[0]).astype(jnp.float32)
  total = (whole + fraction * np.float32(2.0**-table.bits)) * np.float32(table.unit)
  return total / size.astype(jnp.float32)


# Ranks are summed in blocks of this many.
_BLOCK = 2**14

# The chosen items, their number, the probability of reaching the next rank by subtopic, the items
# that are left, and their gains.
_State = tuple[Array, Array, Array, Array, Array]


class Cascades(NamedTuple):
  """Users who go down the list, one for each subtopic.

  Attributes:
    worth: `[n, s]`, what an item is worth to a user who reaches it, in [0, 1], or a mask.
    stop: A scalar in [0, 1]. The user stops at the item with probability `stop * worth`.
    weights: `[s]`, those of the subtopics.
  """

  worth: Array
  stop: Array
  weights: Array


def even(ranked: Ranked, b: Array) -> Array:
  """Equal weights, of sum 1, for the subtopics that some item covers."""
  covered = (ranked.count(b) > 0).astype(ranked.dtype)
  return safe_divide(covered, jnp.sum(covered))


def expected(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades under the ranking, summed over subtopics."""

  def of_user(worth: Array, k: Cutoff) -> Array:
    worth = worth.astype(ranked.dtype)
    return ranked.cascade(cascades.stop * worth, discount, k=k, worth=worth)

  return jnp.sum(cascades.weights * ranked.each_user(of_user, cascades.worth, k=k))


def normalised(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades under the ranking, divided by that in the greedy order."""
  ideal = greedy(ranked, cascades, discount, k)
  # One after the other, so that the arrays of both are not in memory at once.
  ideal, worth = lax.optimization_barrier((ideal, cascades.worth))
  return safe_divide(expected(ranked, cascades._replace(worth=worth), discount, k), ideal)


def perfect(
  ranked: Ranked, subtopic_weights: Array, stop: ArrayLike, discount: Discount, k: Cutoff
) -> Array:
  """The value of `k` items that are worth 1 to all users and stop them with probability `stop`.

  The list may be shorter than `k`. Weights should be 0 for subtopics that no item covers.
  """
  going = 1 - jnp.asarray(stop).astype(ranked.dtype)
  value = over_ranks(ranked, lambda rank: going ** (rank - 1) * discount(rank), k)
  return value * jnp.sum(subtopic_weights)


def over_ranks(ranked: Ranked, value: Callable[[Array], Array], k: Cutoff) -> Array:
  """The sum of a function of the rank over the ranks to `k`, past the end of the list too."""
  last = ranked.cutoff(k)
  most: Any = ranked.longest if k is None else k
  size = min(most, _BLOCK) if isinstance(most, int) else _BLOCK

  def add(block: Any, total: Array) -> Array:
    rank = (block * size + jnp.arange(1, size + 1, dtype=jnp.int32)).astype(ranked.dtype)
    return total + jnp.sum(jnp.where(rank <= last, value(rank), 0))

  nothing = varying_zeros(ranked.where, (), ranked.dtype)
  total: Array = lax.fori_loop(0, -(-most // size), add, nothing)
  return total


def greedy(ranked: Ranked, cascades: Cascades, discount: Discount, k: Cutoff) -> Array:
  """The value of the cascades in the greedy order, summed over subtopics."""
  worth = ranked.in_input_order(cascades.worth).astype(ranked.dtype)
  depth = min(k, len(worth)) if isinstance(k, int) else len(worth)
  # The order is constant near almost every point, so that gradients are those of its value.
  item, count = greedy_order(lax.stop_gradient(cascades._replace(worth=worth)), depth)

  def of_user(worth: Array) -> Array:
    worth = take(worth, item)
    gained = worth * survival(cascades.stop * worth)
    return at_ranks(jnp.where(slots(item) < count, gained, 0), discount, k)

  return jnp.sum(cascades.weights * ranked.each_user(of_user, worth))


def greedy_order(cascades: Cascades, depth: int) -> tuple[Array, Array]:
  """The items at the first `depth` ranks, and the number of ranks at which there is a gain.

  At each rank the greedy order has the item that gains most there, the first of equal ones.
  """
  worth, stop = cascades.worth.T, cascades.stop
  # Equal weights become 1, so that they do not round gains that are equal.
  weights = safe_divide(cascades.weights, jnp.max(cascades.weights))
  column = slots(worth[0])

  def gain(reached: Array, left: Array) -> Array:
    return jnp.where(left, jnp.sum(worth * (weights[:, None] * reached), axis=0), 0)

  def unfinished(state: _State) -> Array:
    _, count, _, _, gain = state
    return (count < depth) & jnp.any(gain > 0)

  def choose(state: _State) -> _State:
    item, count, reached, left, gains = state
    best = jnp.argmax(gains).astype(jnp.int32)
    item = jnp.where(column[:depth] == count, best, item)
    chosen = column == best
    reached = reached * (1 - stop * jnp.sum(worth, axis=1, where=chosen, keepdims=True))
    left = left & ~chosen
    return item, count + 1, reached, left, gain(reached, left)

  nothing = jnp.zeros_like(worth[0], jnp.int32)
  reached, left = jnp.ones_like(worth[:, :1]), nothing == 0
  state = (nothing[:depth], nothing[0], reached, left, gain(reached, left))
  item, count, *_ = lax.while_loop(unfinished, choose, state)
  return item, count


# `gained` and `alive` at each rank, as `_add_item` defines them.
_Tie = tuple[Array, Array]


@jax.custom_jvp
def met(worth: Array, stop: Array, start: Array, end: Array) -> Array:
  """The expected worth at each rank for a user who stops at an item with probability `stop`.

  Users who stopped at an earlier rank contribute 0. If the worth of an item is its `stop`, the
  result is the probability of stopping at each rank. It is computed for as many of the first ranks
  as `start` and `end` have. docs/mathematics.md, "Averages over tied orders".
  """
  return _met(worth, stop, start, end)


@met.defjvp
def _met_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
  worth, stop, start, end = primals
  items = jnp.arange(2, stop.shape[-1] + 1, dtype=jnp.int32)

  def scanned(worth: Array, stop: Array) -> Array:
    def add(state: _Tie, item: Array) -> tuple[_Tie, None]:
      return _add_item(item, state, worth, stop, start, end), None

    (gained, _), _ = lax.scan(add, _one_item(worth, stop, start), items)
    return gained * take(survival(stop), start)

  # A `while_loop` has no reverse mode, so that gradients, needed for labels only, take a scan of
  # fixed length.
  return jax.jvp(scanned, (worth, stop), tangents[:2])


@functools.partial(batched, differentiable=of_each_query(met))
def _met(worth: Array, stop: Array, start: Array, end: Array) -> Array:
  longest = jnp.max(end - start + 1, initial=0)

  def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    item, *tie = state
    return item + 1, *_add_item(item, tie, worth, stop, start, end)

  state = (jnp.int32(2), *_one_item(worth, stop, start))
  _, gained, _ = lax.while_loop(lambda state: state[0] <= longest, add, state)
  return gained * take(survival(stop), start)


def survival(stop: Array) -> Array:
  """The probability of passing all items ahead, for items in rank order."""
  return above(jnp.cumprod(1 - stop, axis=-1), 1)


def _one_item(worth: Array, stop: Array, start: Array) -> _Tie:
  """The state of `_add_item` with the first item of each tie only."""
  worth, stop = (x[..., : start.shape[-1]] for x in (worth, stop))
  ahead = sorting.slots(start) - start
  alive = jnp.where(ahead == 1, 1 - above(stop), 0)
  return jnp.where(ahead == 0, worth, 0), jnp.where(ahead == 0, 1, alive)


def _add_item(
  item: Array, state: Sequence[Array], worth: Array, stop: Array, start: Array, end: Array
) -> _Tie:
  """Inserts item number `item` of each tie, if it has one, at a random place among those before.

  At a rank with `l` items of the tie ahead, `alive` is the mean probability of passing `l` of the
  items so far, and `gained` the mean of that probability times the worth of the item there:
  docs/mathematics.md, "Averages over tied orders".
  """
  gained, alive = state
  place = start + item - 1
  has = place <= end
  inside = jnp.minimum(place, stop.shape[-1] - 1)
  here = 1 / item.astype(stop.dtype)
  ahead = (sorting.slots(start) - start).astype(stop.dtype) * here
  passed = ahead * (1 - take(stop, inside))
  gained_then = here * take(worth, inside) * alive
  gained_then += (1 - here - ahead) * gained + passed * above(gained)
  alive_then = (1 - ahead) * alive + passed * above(alive)
  return jnp.where(has, gained_then, gained), jnp.where(has, alive_then, alive)


@primitive
def first(ahead: Array, t: Array, m: Array, *, value: Callable[[Array], Array], n: int) -> Array:
  """`E value(rank)` of the first of `m` relevant items in a tie of `t <= n`, `ahead` above it.

  docs/mathematics.md, "Averages over tied orders".
  """
  place = jnp.arange(n, dtype=t.dtype)
  worth = value(1 + ahead + place)
  missed = _missed(place, t, m, worth.dtype)
  terms = above(jnp.cumprod(missed), 1) * (1 - missed) * worth
  return jnp.sum(jnp.where(place < t, terms, 0))


@first.on("cpu", gain="reciprocal rank [1000, 1000]: 3.2")
def _first_one_by_one(
  ahead: Array, t: Array, m: Array, *, value: Callable[[Array], Array], n: int
) -> Array:
  del n
  nothing = jnp.zeros_like(value(ahead + 1))

  def unfinished(state: tuple[Array, Array, Array]) -> Array:
    place, alive, _ = state
    return (alive > 0) & (place < t)

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    place, alive, expected = state
    missed = _missed(place, t, m, nothing.dtype)
    expected = expected + alive * (1 - missed) * value(1 + ahead + place)
    return place + 1, alive * missed, expected

  state = (jnp.zeros_like(t), nothing + 1, nothing)
  _, _, expected = lax.while_loop(unfinished, step, state)
  return expected


def _missed(place: Array, t: Array, m: Array, dtype: Any) -> Array:
  """The probability that the item at a place is not relevant if those ahead are not."""
  left, others = (jnp.maximum(x, 0).astype(dtype) for x in (t - place, t - m - place))
  return others / jnp.maximum(left, 1)
