"""The weighted median of ranks, and its exact moments under chance; `metrics` uses them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._base import LARGEST
from jaxrank._core import sorting

# The number of ranks whose counts are computed at a time.
_BLOCK = 128

# Smaller terms do not change a float32 sum.
_NEGLIGIBLE = 1e-12


def weighted_median(x: Array, share: Array) -> Array:
  """The value with half of the weight on either side; the mean of two such values if there are two.

  Args:
    x: `[n]`, the values.
    share: `[n]`, the weights, at least 0 and with sum 1.

  Returns:
    A scalar.
  """
  _, order = sorting.order(sorting.keys(x, share > 0))
  x, share = sorting.take(x, order), sorting.take(share, order)
  # Sums of weights are rounded, so a sum that is close to 0.5 counts as half.
  half = 0.5 - 8 * jnp.finfo(x.dtype).eps
  present = share > 0
  upper = jnp.where(jnp.cumsum(share) >= half, x, -jnp.inf)
  lower = jnp.where(jnp.cumsum(share[::-1])[::-1] >= half, x, jnp.inf)
  high = jnp.max(jnp.where(present, upper, -jnp.inf))
  low = jnp.min(jnp.where(present, lower, jnp.inf))
  return 0.5 * (low + high)


def expected(candidates: Array, share: Array) -> Array:
  """The expected median of independent ranks, each uniform on 1 to its number of candidates.

  The median of an even number of ranks is the mean of the middle two. The result is exact. For `n`
  tasks and at most `C` candidates it takes `C n^2 / 2` steps.

  Args:
    candidates: `[n]`, the numbers of candidates, as floats.
    share: `[n]`, 0 for a task that is left out; the others have equal weight.

  Returns:
    A scalar.
  """
  middle = _middle(candidates, share)

  def term(x: Array) -> Array:
    counts = _at_most(middle, x)
    return jnp.mean(jnp.where(x >= middle.anchor, counts.fewer, -counts.enough))

  return middle.anchor + _sum(middle, term)


def variance(candidates: Array, share: Array) -> Array:
  """The variance of the median under chance; the arguments are those of `expected`.

  With the middle ranks `X <= Y`, `((X + Y) / 2)^2 = (2 X^2 + 2 Y^2 - (Y - X)^2) / 4`, where the
  first two terms need only the distribution of one of the ranks. Moments are taken about a number
  close to the median, so that no large numbers cancel.
  """
  middle = _middle(candidates, share)

  def term(x: Array) -> Array:
    counts = _at_most(middle, x)
    d = x - middle.anchor
    mean = jnp.where(d >= 0, counts.fewer, -counts.enough)
    square = jnp.abs(2 * d + 1) * jnp.abs(mean)
    gap = counts.half * (1 + 2 * _sum_of_halves(middle, x, counts.half))
    return jnp.stack([jnp.mean(mean), jnp.mean(square) - gap / 4])

  mean, square = _sum(middle, term)
  return jnp.maximum(square - mean**2, 0)


class _Middle(NamedTuple):
  """The tasks that are not left out, and the places of their middle ranks.

  Attributes:
    candidates: `[n]`, the numbers of candidates.
    kept: `[n]`, False for a task that is left out.
    places: `[2]`, the places of the two middle ranks, equal for an odd number of tasks.
    even: Whether the number of tasks is even.
    largest: The largest number of candidates.
    anchor: A whole number close to the median.
  """

  candidates: Array
  kept: Array
  places: Array
  even: Array
  largest: Array
  anchor: Array


class _Counts(NamedTuple):
  """The distribution of the number of ranks that are at most `x`, under chance.

  Attributes:
    fewer: `[2]`, the probability that the number is less than each middle place.
    enough: `[2]`, the probability that it is not less.
    half: The probability that it is half of the number of tasks; 0 if that is odd.
  """

  fewer: Array
  enough: Array
  half: Array


def _middle(candidates: Array, share: Array) -> _Middle:
  kept = share > 0
  n = jnp.sum(kept, dtype=jnp.int32)
  largest = jnp.max(jnp.where(kept, candidates, 0))
  # Larger counts than those of ranks have no median: steps of floats would never reach them.
  largest = jnp.where(largest > LARGEST, jnp.nan, largest)

  def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = ends
    mid = jnp.floor((low + high) / 2)
    enough = 2 * jnp.sum(_chances(candidates, kept, mid)) >= n.astype(candidates.dtype)
    return jnp.where(enough, low, mid), jnp.where(enough, mid, high)

  _, anchor = lax.fori_loop(0, 32, halve, (jnp.zeros_like(largest), largest))
  places = jnp.stack([(n + 1) // 2, n // 2 + 1])
  return _Middle(candidates, kept, places, n % 2 == 0, largest, anchor)


def _chances(candidates: Array, kept: Array, x: Array) -> Array:
  """`[n]`, the probability that each rank is at most `x`."""
  return jnp.where(kept, jnp.minimum(x / candidates, 1), 0)


def _at_most(middle: _Middle, x: Array) -> _Counts:
  """The counts, by the recursion of the Poisson-binomial distribution.

  The last entry of the recursion has the probability of its count and of all larger ones, so that
  neither tail is computed as 1 minus the other.
  """
  size = middle.kept.size // 2 + 2

  def add(chance: Array, p: Array) -> tuple[Array, None]:
    stay = (chance * (1 - p)).at[-1].set(chance[-1])
    return stay.at[1:].add(p * chance[:-1]), None

  # Inside `shard_map` the state varies over devices, as the probabilities do.
  start = (jnp.zeros(size, x.dtype) + 0 * x).at[0].set(1)
  chance, _ = lax.scan(add, start, _chances(middle.candidates, middle.kept, x))
  count = jnp.arange(size, dtype=jnp.int32)

  def total(which: Array) -> Array:
    return jnp.sum(jnp.where(which, chance, 0))

  fewer = jnp.stack([total(count < place) for place in middle.places])
  enough = jnp.stack([total(count >= place) for place in middle.places])
  return _Counts(fewer, enough, total((count == middle.places[0]) & middle.even))


def _sum_of_halves(middle: _Middle, y: Array, chance: Array) -> Array:
  """The sum over `x < y` of the probability that half of the ranks are at most `x`.

  It is conditional on the same half being at most `y`, which has the probability `chance`. It does
  not depend on which tasks are in that half: those with at most `y` candidates are, and the ranks
  of the others are uniform on 1 to `y`. The terms decrease with `x`, and the sum ends where they
  are negligible.
  """
  small = middle.kept & (middle.candidates <= y)
  others = jnp.maximum(middle.places[0] - jnp.sum(small, dtype=jnp.int32), 0).astype(y.dtype)

  def at(x: Array) -> Array:
    each = jnp.where(small, jnp.log(jnp.minimum(x / middle.candidates, 1)), 0)
    return jnp.exp(others * jnp.log(x / y) + jnp.sum(each))

  def continues(state: tuple[Array, Array, Array]) -> Array:
    x, term, _ = state
    return (x >= 1) & (chance * term > _NEGLIGIBLE)

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    x, _, total = state
    term = at(x)
    return x - 1, term, total + term

  return lax.while_loop(continues, step, (y - 1, jnp.ones_like(y), jnp.zeros_like(y)))[2]


def _sum(middle: _Middle, term: Callable[[Array], Array]) -> Array:
  """Sums `term(x)` over `0 <= x < middle.largest`, a block at a time."""

  def masked(x: Array) -> Array:
    return jnp.where(x < middle.largest, term(x), 0)

  def add(state: tuple[Array, Array]) -> tuple[Array, Array]:
    start, total = state
    x = start + jnp.arange(_BLOCK, dtype=start.dtype)
    return start + _BLOCK, total + jnp.sum(jax.vmap(masked)(x), axis=0)

  like = jax.eval_shape(term, middle.largest)
  start = (jnp.zeros_like(middle.largest), jnp.zeros(like.shape, like.dtype) + 0 * middle.largest)
  return lax.while_loop(lambda state: state[0] < middle.largest, add, start)[1]
