"""The ranking in a random order, which answers with means and standard deviations.

Kernels are affine in what they ask of a ranking. So one that answers each question with its mean,
plus a number times its standard deviation, makes every metric its mean plus that number times its
standard deviation, up to a sign.

Variances are sums of squares, never a difference of moments: they are exactly 0 where no order
can differ, and keep their digits in float32.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts
from jaxrank._core import sorting, ties
from jaxrank._core.arithmetic import safe_divide, safe_sqrt
from jaxrank._core.ranked import Pairs, Query
from jaxrank._core.types import Cutoff, Discount, pytree
from jaxrank.rankings.exact import Exact


class NoClosedFormError(ValueError):
  """A moment that is known by sampling only, which needs a key."""


class ShuffledQuery(Query):
  """A query in random order, whose answers are means plus `spread` times standard deviations.

  Nothing is sorted: what is at -inf stands at no rank, and other scores do not matter.
  """

  def __init__(self, spread: Array | None, *query: Any):
    super().__init__(*query)
    self.spread = spread
    self.size = self.count(self.retrieved)
    self.ranks = jnp.arange(1, self.n + 1, dtype=self.dtype)
    self.taken = self.ranks <= self.size

  def _around(self, mean: Array, deviation: Callable[[], Array]) -> Array:
    if self.spread is None:
      return mean
    return mean + self.spread.astype(self.dtype) * deviation()

  def _worth(self, discount: Discount, k: Cutoff) -> Array:
    """The discount at each rank, 0 past `k`."""
    k = jnp.asarray(self.n if k is None else k).astype(self.dtype)
    return jnp.where(self.taken & (self.ranks <= k), discount(self.ranks), 0)

  def expect(self, w: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`sum w_i d(r_i)`."""
    w, worth = jnp.where(self.retrieved, w.astype(self.dtype), 0), self._worth(discount, k)

    def deviation():
      free = safe_sqrt(safe_divide(jnp.ones_like(self.size), self.size - 1))
      return free * _spread(w, self.retrieved) * _spread(worth, self.taken)

    return self._around(safe_divide(jnp.sum(w), self.size) * jnp.sum(worth), deviation)

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`d(r)` of the first relevant item."""
    worth = self._worth(discount, k)
    relevant = self.count(b & self.retrieved)
    left = jnp.maximum(self.size - self.ranks + 1, 1)
    passed = jnp.cumprod(jnp.where(self.taken, jnp.maximum(1 - relevant / left, 0), 1))
    before = jnp.concatenate([jnp.ones_like(passed[:1]), passed[:-1]])
    chance = jnp.where(self.taken, before * jnp.minimum(relevant / left, 1), 0)

    def deviation():
      # From the value at rank 1, so that a value that never differs has no variance at all.
      change, never = worth - worth[0], -worth[0]
      mean = jnp.sum(chance * change) + passed[-1] * never
      square = jnp.sum(chance * jnp.square(change - mean))
      return safe_sqrt(square + passed[-1] * jnp.square(never - mean))

    return self._around(jnp.sum(chance * worth), deviation)

  def precision(self, b: Array, *, k: Cutoff = None) -> Array:
    """The precisions at the ranks of the relevant items: a quadratic form."""
    relevant, w = self.count(b & self.retrieved), self._worth(discounts.reciprocal, k)
    others = safe_divide(relevant - 1, self.size - 1)
    mean = safe_divide(relevant, self.size) * jnp.sum(w * (1 + (self.ranks - 1) * others))
    return self._around(mean, functools.partial(self._precision, relevant, w))

  def _precision(self, relevant: Array, w: Array) -> Array:
    """The deviation of `sum_r w_r b_r + sum_{s < r} w_r b_s b_r`, with `w_r = 1 / r`, by its parts.

    Its pairs are `w_r = mean + a_s + a_r + q_sr` with `q` orthogonal to all that is additive
    (Hoeffding): what is linear, `w + (R - 1) a`, and `q` do not correlate.
    """
    n, above = self.size, self.ranks - 1
    row = jnp.where(self.taken, above * w + jnp.sum(w) - jnp.cumsum(w), 0)
    centred = jnp.where(self.taken, row - safe_divide(jnp.sum(row), n), 0)
    a = safe_divide(centred, n - 2)
    chance = safe_divide(relevant * (n - relevant), n * (n - 1))
    linear = chance * jnp.square(_spread(w + (relevant - 1) * a, self.taken))

    # Squares of q over the pairs below each rank: those of the mean of a above it, and about it.
    mean = safe_divide(jnp.cumsum(a) - a, above)
    squares = safe_divide(above, self.ranks) * jnp.square(a - mean)
    pair = w - safe_divide(jnp.sum(row), n * (n - 1)) - a - mean
    q = above * jnp.square(pair) + jnp.cumsum(squares) - squares
    free = safe_divide((relevant - 1) * (n - relevant - 1), (n - 2) * (n - 3))
    return safe_sqrt(linear + chance * free * jnp.sum(jnp.where(self.taken, q, 0)))

  def cascade(self, stop: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`d(r)` of the item at which a user stops, over whose chances it is the mean.

    That is `sum_r (d(r) - d(r + 1)) T_r`, with the chance `T_r` to stop at one of `r` items. Their
    means and covariances grow by one item at a time, put at a random place. Items that never stop
    anyone leave them at 0, and come first.
    """
    depth = min(k, self.n) if isinstance(k, int) else self.n
    worth = self._worth(discount, k)[:depth]
    stop = jnp.where(self.retrieved, stop.astype(self.dtype), 0)
    largest = sorting.descending(stop, self.n)
    some = jnp.sum(stop > 0, dtype=jnp.int32)
    length = jnp.arange(depth + 1, dtype=self.dtype)

    def add(state):
      item, mean, joint = state
      p = largest[item]
      size = self.size - (some - item - 1).astype(self.dtype)
      ahead = jnp.minimum(length / size, 1)
      # What the item adds if it is among the first. Nothing is ahead of rank 0, where the roll
      # puts the last.
      more = p + (1 - p) * jnp.roll(mean, 1) - mean
      if joint is not None:
        joint = _add_item(joint, p, ahead, more)
      return item + 1, mean + ahead * more, joint

    zero = jnp.zeros_like(length)
    joint: Any = None if self.spread is None else zero[:, None] * zero[None, :]
    start = (jnp.int32(0), zero, joint)
    _, mean, joint = lax.while_loop(lambda state: state[0] < some, add, start)
    step = jnp.concatenate([jnp.zeros_like(worth[:1]), worth - jnp.append(worth[1:], 0)])

    def deviation():
      products = step[:, None] * step[None, :] * joint
      least = jnp.min(jnp.where(self.retrieved, stop, jnp.inf))
      variance = 2 * jnp.sum(products) - jnp.trace(products)
      return jnp.where(least < largest[0], safe_sqrt(variance), 0)

    return self._around(jnp.sum(step * mean), deviation)

  def ahead(self, b: Array, others: Array) -> Array:
    """Pairs of a `b` item with one of the others ahead of it (Mann and Whitney, 1947)."""
    lost = self.where & ~self.retrieved
    found, misses = self.count(b & self.retrieved), self.count(others & self.retrieved)
    behind = self.count(b & lost) * (misses + self.count(others & lost) / 2)

    def deviation():
      return safe_sqrt(found) * safe_sqrt(misses) * safe_sqrt((self.size + 1) / 12)

    return self._around(behind + found * misses / 2, deviation)

  def pairs(self) -> Pairs:
    """Pairs by order of scores and labels; no two of the retrieved tie (Kendall, 1945)."""
    scores = jnp.where(self.retrieved, jnp.zeros_like(self.scores), self.scores)
    tied = Exact()(scores, self.labels, self.where).pairs()
    key, _ = sorting.order(sorting.keys(self.labels, self.retrieved))
    start, end = ties.layout(key, sorting.MASKED)
    n, equal = self.size, (end - start + 1).astype(self.dtype)
    others = jnp.where(key > sorting.MASKED, n - equal, 0)
    differ = jnp.sum(others) / 2
    balance = self._around(
      jnp.zeros_like(n), lambda: safe_sqrt(jnp.sum(others * (2 * (n + equal) + 3)) / 18)
    )
    return Pairs(
      concordant=tied.concordant + (differ + balance) / 2,
      discordant=tied.discordant + (differ - balance) / 2,
      tied_scores=tied.tied_scores - differ,
      tied_labels=tied.tied_labels + n * (n - 1) / 2 - differ,
    )

  def position(self) -> Array:
    """None: the metric that asks for it is not affine."""
    raise NoClosedFormError(_REMEDY.format("spearman"))

  def exact(self, what: str) -> "ShuffledQuery":
    """This query, for counts of pairs."""
    if what in ("kendall_tau", "ordered_pair_accuracy"):
      return self
    raise NoClosedFormError(_REMEDY.format(what))


_REMEDY = "{} has no closed form under chance; pass key=jax.random.key(0) to sample it."


def _add_item(joint: Array, p: Array, ahead: Array, more: Array) -> Array:
  """Covariances of the chances to stop at one of the first, in the upper triangle.

  The item is ahead of both lengths, of the longer one, or of none.
  """
  x, y = ahead[:, None], ahead[None, :]
  both = x * jnp.square(1 - p) * jnp.roll(joint, (1, 1), (0, 1))
  longer = (y - x) * (1 - p) * jnp.roll(joint, 1, 1)
  return jnp.triu(both + longer + (1 - y) * joint + x * (1 - y) * more[:, None] * more[None, :])


def _spread(x: Array, where: Array) -> Array:
  """The root of the sum of squares about the mean, whose squares do not overflow."""
  x = jnp.where(where, x - jnp.max(x, where=where, initial=-jnp.inf), 0)
  scale = -jnp.min(x)
  x = safe_divide(x, scale)
  mean = safe_divide(jnp.sum(x), jnp.sum(where, dtype=x.dtype))
  return scale * safe_sqrt(jnp.sum(jnp.where(where, jnp.square(x - mean), 0)))


@pytree("spread")
@dataclasses.dataclass(frozen=True, eq=False)
class Shuffled:
  """The ranking of `ShuffledQuery`; without a spread, the means alone."""

  spread: Array | None = None

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> ShuffledQuery:
    """Shuffles one query `[n]`."""
    return ShuffledQuery(self.spread, scores, labels, where, k)
