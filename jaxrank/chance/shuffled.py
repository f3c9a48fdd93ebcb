"""`Shuffled`, the ranking in a random order: its answers are means, with standard deviations.

`jaxrank.chance.null` uses it. The expectation of a kernel that is affine in the answers to its
questions is its value at the means of the answers. If it asks a single question, its standard
deviation is that of the answer times the absolute slope.

Variances are sums of squares rather than differences of moments, so that they are exactly 0 where
all orders have the same value, and precise in float32. docs/mathematics.md, "Moments by chance",
derives all moments.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount, Pairs, pytree
from jaxrank._core import sorting, ties
from jaxrank._core.arithmetic import safe_divide, safe_sqrt, varying_zeros
from jaxrank._core.ranked import (
  Ranked,
  Ranking,
  Slope,
  UnansweredError,
  depth_of_pairs,
  weighed,
  within,
)
from jaxrank.rankings.exact import Exact


class NoClosedFormError(UnansweredError):
  """A moment under chance has no closed form, and there is no key to sample it."""


class ShuffledQuery(Ranked):
  """A query in random order, whose answers are means over all orders.

  Items with score -inf have no rank; the other scores have no effect, and nothing is sorted. `size`
  is the number of retrieved items, `ranks` is `[1 ... n]`, and `occupied` tells which ranks have an
  item.
  """

  name = "the random order of chance"

  def __init__(self, *query: Any):
    super().__init__(*query)
    self.size = self.count(self.retrieved)
    self.ranks = jnp.arange(1, self.n + 1, dtype=self.dtype)
    self.occupied = self.ranks <= self.size

  def deviation(self, asked: Slope) -> Array:
    """The standard deviation of the answer to a question, times its slope."""
    (kind, given), slope = asked.question, asked.slope
    if kind == "pairs":
      # The sum of concordant and discordant pairs is the same for all orders.
      return jnp.abs(slope[0] - slope[1]) * self._deviation_of_balance() / 2
    if kind == "before":
      return self._deviation_of_before(given["w"], slope)
    if slope.ndim or kind not in self._DEVIATIONS:
      raise NoClosedFormError(f"the variance of {kind} under chance {_REMEDY}")
    deviation: Array = self._DEVIATIONS[kind](self, **given)
    return jnp.abs(slope) * deviation

  def require_order(self, what: str) -> None:
    """Does nothing: kernels that need an order get a random one."""

  def _rank_discounts(self, discount: Discount, k: Cutoff) -> Array:
    """The discount at each occupied rank, `[n]`; 0 for other ranks and those greater than `k`."""
    k = jnp.asarray(self.n if k is None else k).astype(self.dtype)
    return jnp.where(self.occupied & (self.ranks <= k), discount(self.ranks), 0)

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """The mean of `sum_i w_i d(r_i)`; the rank of an item is uniform on those that it can have."""
    w = self.weighted(w)
    if among is None:
      worth = self._rank_discounts(discount, k)
      return safe_divide(self._sum(w), self.size) * jnp.sum(worth)
    inside, outside, ranks = self._among(among)
    worth = self._discounts(discount, k)
    means = (self._mean_over(worth, ranks), self._mean_over(worth, ranks + 1))
    return self._sum(w * inside) * means[0] + self._sum(w * outside) * means[1]

  def _sum(self, w: Array) -> Array:
    return jnp.sum(jnp.where(self.retrieved, w, 0))

  def _among(self, among: Array) -> tuple[Array, Array, Array]:
    """The retrieved items in a mask, those not in it, as floats, and the number of the former."""
    inside = self.retrieved & among
    return (
      inside.astype(self.dtype),
      (self.retrieved & ~among).astype(self.dtype),
      jnp.sum(inside, dtype=self.dtype),
    )

  def _discounts(self, discount: Discount, k: Cutoff) -> Array:
    """The discount at the ranks 1 to n + 1, 0 for ranks greater than `k`."""
    ranks = jnp.arange(1, self.n + 2, dtype=self.dtype)
    return jnp.where(within(ranks, k), discount(ranks), 0)

  def _mean_over(self, worth: Array, size: Array) -> Array:
    ranks = jnp.arange(1, worth.size + 1, dtype=self.dtype)
    return safe_divide(jnp.sum(jnp.where(ranks <= size, worth, 0)), size)

  def _deviation_of_expect(
    self, *, w: Array, discount: Discount, k: Cutoff, among: Array | None
  ) -> Array:
    """The standard deviation of `expect`, the root of `sum_ij w_i w_j Cov(d(r_i), d(r_j))`.

    docs/mathematics.md, "Moments by chance", derives the covariances.
    """
    w = jnp.where(self.retrieved, self.weighted(w), 0)
    if among is None:
      free = safe_sqrt(safe_divide(jnp.ones_like(self.size), self.size - 1))
      worth = self._rank_discounts(discount, k)
      return free * _spread(w, self.retrieved) * _spread(worth, self.occupied)
    inside, outside, size = self._among(among)
    worth = self._discounts(discount, k)
    ranks = jnp.arange(1, worth.size + 1, dtype=self.dtype)
    free = safe_sqrt(safe_divide(jnp.ones_like(size), size - 1))
    own = free * _spread(w, inside > 0) * _spread(worth, ranks <= size)
    other = jnp.square(_spread(worth, ranks <= size + 1)) / (size + 1)
    v = w * outside
    squares = (size + 1) * jnp.sum(jnp.square(v)) + jnp.square(jnp.sum(v))
    return safe_sqrt(jnp.square(own) + other * squares / (size + 2))

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """The mean of `d(r)` at the rank `r` of the first relevant item."""
    chance, _ = self._chances_of_first(b)
    return jnp.sum(chance * self._rank_discounts(discount, k))

  def _chances_of_first(self, b: Array) -> tuple[Array, Array]:
    """The probability that each rank has the first relevant item, and that no rank has one."""
    relevant = self.count(b & self.retrieved)
    left = jnp.maximum(self.size - self.ranks + 1, 1)
    passed = jnp.cumprod(jnp.where(self.occupied, jnp.maximum(1 - relevant / left, 0), 1))
    before = jnp.concatenate([jnp.ones_like(passed[:1]), passed[:-1]])
    return jnp.where(self.occupied, before * jnp.minimum(relevant / left, 1), 0), passed[-1]

  def _deviation_of_first(self, *, b: Array, discount: Discount, k: Cutoff) -> Array:
    worth = self._rank_discounts(discount, k)
    chance, never = self._chances_of_first(b)
    # Relative to the value at rank 1, so that a constant value has a variance of exactly 0.
    change, missed = worth - worth[0], -worth[0]
    mean = jnp.sum(chance * change) + never * missed
    square = jnp.sum(chance * jnp.square(change - mean))
    return safe_sqrt(square + never * jnp.square(missed - mean))

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """The mean of the weights down to the items `b`, a quadratic form in the order of the items."""
    total = self._sum(self.weighted(b if weights is None else weights))
    own = self._sum(self.weighted(weighed(b, weights)))
    ahead = safe_divide(self._sum(self.weighted(b)) * total - own, self.size - 1)
    at_ranks = self._rank_discounts(discount, k) * (own + (self.ranks - 1) * ahead)
    return safe_divide(jnp.sum(at_ranks), self.size)

  def _deviation_of_precision(
    self, *, b: Array, k: Cutoff, weights: Array | None, discount: Discount
  ) -> Array:
    """The standard deviation of `sum_r w_r b_r + sum_{s < r} w_r b_s b_r`, with `w_r = 1 / r`.

    Hoeffding's decomposition of the pairs, `w_r = mean + a_s + a_r + q_sr`, gives a linear part
    with the coefficients `w + (R - 1) a` and an uncorrelated part `q`: docs/mathematics.md,
    "Moments by chance".
    """
    if weights is not None:
      raise NoClosedFormError(f"the variance of precision with weights under chance {_REMEDY}")
    relevant, w = self.count(b & self.retrieved), self._rank_discounts(discount, k)
    n, above = self.size, self.ranks - 1
    row = jnp.where(self.occupied, above * w + jnp.sum(w) - jnp.cumsum(w), 0)
    centred = jnp.where(self.occupied, row - safe_divide(jnp.sum(row), n), 0)
    a = safe_divide(centred, n - 2)
    chance = safe_divide(relevant * (n - relevant), n * (n - 1))
    linear = chance * jnp.square(_spread(w + (relevant - 1) * a, self.occupied))

    # The sum of q_sr ** 2 over s < r: from the mean of a_s, and from the deviations about it.
    mean = safe_divide(jnp.cumsum(a) - a, above)
    squares = safe_divide(above, self.ranks) * jnp.square(a - mean)
    pair = w - safe_divide(jnp.sum(row), n * (n - 1)) - a - mean
    q = above * jnp.square(pair) + jnp.cumsum(squares) - squares
    free = safe_divide((relevant - 1) * (n - relevant - 1), (n - 2) * (n - 3))
    return safe_sqrt(linear + chance * free * jnp.sum(jnp.where(self.occupied, q, 0)))

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """The mean of `d(r)` at the rank `r` at which the user stops.

    That is `sum_r (d(r) - d(r + 1)) E T_r`, with the probability `T_r` to stop at one of the first
    `r` items.
    """
    if worth is not None:
      return self._reached(stop, discount, k, worth)
    mean, _, step = self._stopped(stop, discount, k, joint=False)
    return jnp.sum(step * mean)

  def _reached(self, stop: Array, discount: Discount, k: Cutoff, worth: Array) -> Array:
    """The mean of the discounted worth of the items that the user reaches.

    Each of the first `r` items is the last of them with probability `1 / r`. The expected worth at
    rank `r` is therefore `1 / r` times the derivative of `E T_r` by the `p`, in the direction of
    the worths: docs/mathematics.md, "Moments by chance".
    """
    depth = min(k, self.n) if isinstance(k, int) else self.n
    # Items that are not retrieved come last, after those with stop probability 0.
    stop = jnp.where(self.retrieved, stop.astype(self.dtype), -1)
    count = self.size.astype(jnp.int32)

    def stopped(stop: Array) -> Array:
      mean: Array = self._grown(sorting.descending(stop, self.n), count, depth, joint=False)[0]
      return mean

    worth = jnp.where(self.retrieved, worth.astype(self.dtype), 0)
    _, slope = jax.jvp(stopped, (stop,), (worth,))
    return jnp.sum(self._rank_discounts(discount, k)[:depth] / self.ranks[:depth] * slope[1:])

  def _deviation_of_cascade(
    self, *, stop: Array, discount: Discount, k: Cutoff, worth: Array | None
  ) -> Array:
    del worth
    _, joint, step = self._stopped(stop, discount, k, joint=True)
    products = step[:, None] * step[None, :] * joint
    stop = jnp.where(self.retrieved, stop.astype(self.dtype), 0)
    least = jnp.min(jnp.where(self.retrieved, stop, jnp.inf))
    variance = 2 * jnp.sum(products) - jnp.trace(products)
    return jnp.where(least < jnp.max(stop), safe_sqrt(variance), 0)

  def _stopped(self, stop: Array, discount: Discount, k: Cutoff, joint: bool) -> Any:
    """The mean of each `T_r`, their covariances if `joint`, and the factor of each `T_r`.

    The recursion inserts one item at a time at a random place: docs/mathematics.md, "Moments by
    chance". Items with stop probability 0 leave all `T_r` at 0, and count as inserted first.
    """
    depth = min(k, self.n) if isinstance(k, int) else self.n
    worth = self._rank_discounts(discount, k)[:depth]
    stop = jnp.where(self.retrieved, stop.astype(self.dtype), 0)
    some = jnp.sum(stop > 0, dtype=jnp.int32)
    mean, both = self._grown(sorting.descending(stop, self.n), some, depth, joint)
    step = jnp.concatenate([jnp.zeros_like(worth[:1]), worth - ties.below(worth)])
    return mean, both, step

  def _grown(self, largest: Array, some: Array, depth: int, joint: bool) -> tuple[Array, Any]:
    """The mean of each `T_r`, `[depth + 1]`, and their covariances if `joint`.

    Args:
      largest: `[n]`, the probabilities to stop, of which only the first `some` are read.
      some: The number of items to insert.
      depth: The largest `r`.
      joint: Whether to compute covariances.
    """
    length = jnp.arange(depth + 1, dtype=self.dtype)

    def add(state: Any) -> Any:
      item, mean, both = state
      p = largest[item]
      size = self.size - (some - item - 1).astype(self.dtype)
      ahead = jnp.minimum(length / size, 1)
      # The change of T_r if the item is among the first r. The roll puts the last entry at r = 0,
      # where the factor `ahead` is 0.
      more = p + (1 - p) * jnp.roll(mean, 1) - mean
      if both is not None:
        both = _add_item(both, p, ahead, more)
      return item + 1, mean + ahead * more, both

    zero = varying_zeros(self.where, length.shape, self.dtype)
    start = (0 * some, zero, zero[:, None] * zero[None, :] if joint else None)
    _, mean, both = lax.while_loop(lambda state: state[0] < some, add, start)
    return mean, both

  def before(self, w: Array) -> Array:
    """The mean weight ahead of each item, half of the weight of the other items."""
    w = jnp.where(self.retrieved, self.weighted(w), 0)
    total = jnp.sum(w)
    return jnp.where(self.retrieved, (total - w) / 2, jnp.where(self.where, total, 0))

  def _deviation_of_before(self, w: Array, c: Array) -> Array:
    """The standard deviation of `sum_i c_i before(w)_i = sum_ij c_i w_j [j ahead of i]`.

    With `a_ij = c_i w_j - c_j w_i` the variance is `(sum_{i < j} a_ij ** 2 + sum_i (sum_j a_ij) **
    2) / 12`: docs/mathematics.md, "Moments by chance".
    """
    w, c = (jnp.where(self.retrieved, x.astype(self.dtype), 0) for x in (w, c))
    squares = jnp.sum(c * c) * jnp.sum(w * w) - jnp.square(jnp.sum(c * w))
    rows = c * jnp.sum(w) - w * jnp.sum(c)
    return safe_sqrt((jnp.maximum(squares, 0) + jnp.sum(jnp.square(rows))) / 12)

  def cumulative(self, w: Array) -> Array:
    """The mean weight of the first items, for each number of items."""
    mean = safe_divide(self._sum(self.weighted(w)), self.size)
    return mean * jnp.minimum(self.ranks, self.size)

  def pairs(self) -> Pairs:
    """The mean numbers of pairs, where no two retrieved items have tied scores (Kendall, 1945)."""
    scores = jnp.where(self.retrieved, jnp.zeros_like(self.scores), self.scores)
    depth = depth_of_pairs(self.n)
    tied = Exact()(scores, self.given_labels, self.where, k=depth).pairs()
    differ = jnp.sum(self._others()[0]) / 2
    return Pairs(
      concordant=tied.concordant + differ / 2,
      discordant=tied.discordant + differ / 2,
      different_scores=tied.different_scores + self.size * (self.size - 1) / 2,
      different_labels=tied.different_labels,
    )

  def _others(self) -> tuple[Array, Array]:
    """For each retrieved item, how many have another label, and how many the same."""
    key, _ = sorting.order(sorting.keys(self.given_labels, self.retrieved))
    start, end = ties.layout(key, sorting.MASKED)
    equal = (end - start + 1).astype(self.dtype)
    return jnp.where(key > sorting.MASKED, self.size - equal, 0), equal

  def _deviation_of_balance(self) -> Array:
    """The standard deviation of concordant minus discordant pairs (Kendall, 1945)."""
    others, equal = self._others()
    return safe_sqrt(jnp.sum(others * (2 * (self.size + equal) + 3)) / 18)

  _DEVIATIONS: ClassVar[dict[str, Callable[..., Array]]] = {
    "cascade": _deviation_of_cascade,
    "expect": _deviation_of_expect,
    "first": _deviation_of_first,
    "precision": _deviation_of_precision,
  }


_REMEDY = "has no closed form; pass key=jax.random.key(0) to sample it."


def _add_item(joint: Array, p: Array, ahead: Array, more: Array) -> Array:
  """The covariances of all `T_r`, in the upper triangle, after one more item.

  The item is among the first of both lengths, of the longer one alone, or of neither; the last term
  is the covariance of the conditional means.
  """
  x, y = ahead[:, None], ahead[None, :]
  both = x * jnp.square(1 - p) * jnp.roll(joint, (1, 1), (0, 1))
  longer = (y - x) * (1 - p) * jnp.roll(joint, 1, 1)
  return jnp.triu(both + longer + (1 - y) * joint + x * (1 - y) * more[:, None] * more[None, :])


def _spread(x: Array, where: Array) -> Array:
  """The root of the sum of squares about the mean; scaled, so that the squares do not overflow."""
  x = jnp.where(where, x - jnp.max(x, where=where, initial=-jnp.inf), 0)
  scale = -jnp.min(x)
  x = safe_divide(x, scale)
  mean = safe_divide(jnp.sum(x), jnp.sum(where, dtype=x.dtype))
  return scale * safe_sqrt(jnp.sum(jnp.where(where, jnp.square(x - mean), 0)))


@pytree()
@dataclasses.dataclass(frozen=True)
class Shuffled(Ranking):
  """The ranking in a random order, see `ShuffledQuery`."""

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> ShuffledQuery:
    """Shuffles one query."""
    return ShuffledQuery(scores, labels, where, k)
