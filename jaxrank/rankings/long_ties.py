"""Averages of discounts over ties of any length that are given by counts instead of by items.

A tie of `size` items below `above` others takes the ranks from `above + 1` to `above + size`. Only
counts are known, so nothing here is as long as the tie, unless a discount is unknown: its values
are then summed in steps. docs/mathematics.md, "Queries given by ranks", derives the formulas.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core import ties
from jaxrank._core.arithmetic import discount_sums, safe_divide

# The number of ranks in a step of a sum, and of those before the sum of reciprocals is a logarithm.
_STEP = 64
_DIRECT = 32

# Below this ratio `x - log1p(x)` is a power series, which does not cancel.
_SMALL = 0.125


def inside(above: Array, size: Array, k: Cutoff) -> Array:
  """The number of ranks of a tie that are at most `k`."""
  if k is None:
    return size
  # `k` may be a number of items as a float.
  last = jnp.minimum(jnp.asarray(k), np.iinfo(np.int32).max // 2).astype(jnp.int32)
  return jnp.clip(last - above, 0, size)


def mean(discount: Discount, above: Array, size: Array, k: Cutoff, n: int, dtype: Any) -> Array:
  """The mean of the discount over the ranks of ties; it is 0 at ranks beyond `k`.

  Args:
    discount: Function of ranks.
    above: `[m]`, int32, the numbers of items above the ties.
    size: `[m]`, int32, the numbers of items in the ties; the mean of none is 0.
    k: The last rank that counts.
    n: The largest rank that there may be.
    dtype: The dtype of the result.
  """
  count = inside(above, size, k)
  reference = getattr(discount, "reference", None)
  if discount is discounts.constant:
    total = count.astype(dtype)
  elif reference is not None:
    depth = min(n, k) if isinstance(k, int) else n
    alone = discount((above + 1).astype(dtype))
    total = jnp.where(count == 1, alone, _from_table(reference, depth, above, count, dtype))
  else:
    total = _in_steps(lambda rank, _: discount(rank), above, count, dtype)
  return safe_divide(total, size.astype(dtype))


def _from_table(
  reference: Callable[[np.ndarray], np.ndarray], n: int, above: Array, count: Array, dtype: Any
) -> Array:
  """The sum of a known discount over `count` ranks, from its prefix sums."""
  start = jnp.minimum(above, n)
  end = jnp.minimum(start + count, n)
  if dtype == jnp.float64:
    sums = jnp.asarray(discount_sums(reference, n))
    return sums[end] - sums[start]
  table = ties.discount_words(reference, n)
  upper, lower = jnp.asarray(table.upper), jnp.asarray(table.lower)
  ends = (upper[start], lower[start]), (upper[end], lower[end])
  total = ties.mean_of_words(table, ends) * (end - start).astype(dtype)
  return jnp.where(end > start, total, 0)


def _in_steps(
  value: Callable[[Array, Array], Array], above: Array, count: Array, dtype: Any
) -> Array:
  """The sum of `value(rank, place)` over `count` ranks, in as many steps as the longest needs."""

  def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
    start, total = state
    place = start[..., None] + _places(_STEP, start)
    at = value((above[..., None] + place + 1).astype(dtype), place)
    here = jnp.sum(jnp.where(place < count[..., None], at, 0), axis=-1)
    return start + _STEP, total + here.astype(dtype)

  state = (0 * count, (0 * count).astype(dtype))
  _, total = lax.while_loop(lambda state: jnp.any(state[0] < count), step, state)
  return total


def _places(size: int, like: Array) -> Array:
  """0, 1, 2, ... along one axis more than an array has."""
  return jnp.arange(size, dtype=jnp.int32).reshape((1,) * like.ndim + (size,))


def sums(discount: Discount, above: Array, count: Array, dtype: Any) -> tuple[Array, Array]:
  """`sum d(r)` and `sum (r - above - 1) d(r)` over the first `count` ranks of ties."""
  if discount is discounts.reciprocal:
    return _reciprocals(above, count, dtype)
  return (
    _in_steps(lambda rank, _: discount(rank), above, count, dtype),
    _in_steps(lambda rank, place: place.astype(dtype) * discount(rank), above, count, dtype),
  )


def _reciprocals(above: Array, count: Array, dtype: Any) -> tuple[Array, Array]:
  """`sums` of `1 / r`.

  The first ranks are added one by one, and the others by the midpoint rule:
  docs/mathematics.md, "Queries given by ranks".
  """
  place = _places(_DIRECT, count)
  here = place < count[..., None]
  rank = (above[..., None] + place + 1).astype(dtype)
  sum_ = jnp.sum(jnp.where(here, 1 / rank, 0), axis=-1)
  weighted = jnp.sum(jnp.where(here, place.astype(dtype) / rank, 0), axis=-1)
  left = jnp.maximum(count - _DIRECT, 0).astype(dtype)
  first = (above + _DIRECT).astype(dtype) + 0.5
  ratio = left / first
  # The corrections of the midpoint rule are differences of 1 / r^2, divided by 24.
  end = first + left
  drop = left * (first + end) / jnp.square(first * end) / 24
  rest = jnp.log1p(ratio) - drop
  lost = first * _beyond_log1p(ratio) - jnp.log1p(ratio) / 2 + (first + 0.5) * drop
  return sum_ + rest, weighted + _DIRECT * rest + lost


def _beyond_log1p(x: Array) -> Array:
  """`x - log(1 + x)` for `x` of at least 0."""
  series = jnp.zeros_like(x)
  near = jnp.minimum(x, _SMALL)
  for power in range(18, 1, -1):
    series = (1 if power % 2 == 0 else -1) / power + near * series
  return jnp.where(x < _SMALL, jnp.square(near) * series, x - jnp.log1p(x))


def first(
  discount: Discount,
  above: Array,
  size: Array,
  chosen: Array,
  k: Cutoff,
  n: int,
  most: int,
  dtype: Any,
) -> Array:
  """`E discount(rank)` of the first of the `chosen` items of a tie, if its rank is at most `k`.

  Args:
    discount: Function of ranks.
    above: Scalar int32, the number of items above the tie.
    size: Scalar int32, the number of items in the tie.
    chosen: Scalar int32, how many of them are chosen.
    k: The last rank that counts.
    n: The largest rank that there may be.
    most: The largest number of items that may be chosen.
    dtype: The dtype of the result.
  """
  count = inside(above, size, k)
  total, others = size.astype(dtype), (size - chosen).astype(dtype)
  if discount is discounts.constant:
    # The probability that none of the first ranks has a chosen item is a product over these.
    item = jnp.arange(most, dtype=dtype)
    missed = -count.astype(dtype) / jnp.maximum(total - item, 1)
    logs = jnp.where(item < chosen.astype(dtype), jnp.log1p(jnp.maximum(missed, -1)), 0)
    return -jnp.expm1(jnp.sum(logs))
  several = jnp.where(chosen > 1, jnp.minimum(count, size - chosen + 1), 0)

  def unfinished(state: tuple[Array, Array, Array]) -> Array:
    start, alive, _ = state
    return (start < several) & (alive > 0)

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    start, alive, expected = state
    place = start + jnp.arange(_STEP, dtype=jnp.int32)
    at = place.astype(dtype)
    missed = jnp.maximum(others - at, 0) / jnp.maximum(total - at, 1)
    passed = jnp.cumprod(missed)
    ahead = jnp.concatenate([jnp.ones_like(passed[:1]), passed[:-1]])
    value = discount((above + place + 1).astype(dtype))
    here = jnp.where(place < several, ahead * (1 - missed) * value, 0)
    return start + _STEP, alive * passed[-1], expected + alive * jnp.sum(here)

  nothing = 0 * total
  state = (0 * count, nothing + 1, nothing)
  _, _, expected = lax.while_loop(unfinished, step, state)
  alone = mean(discount, above, size, k, n, dtype)
  return jnp.where(chosen > 1, expected, alone)


def in_turn(
  discount: Discount, above: Array, size: Array, start: Array, listed: Array, k: Cutoff, dtype: Any
) -> Array:
  """`E discount(rank)` of each listed item of ties, in a random order of each tie.

  A step a rank: the probability that a rank is that of the listed item number `j` follows from how
  many listed items there are above it. docs/mathematics.md, "Queries given by ranks".

  Args:
    discount: Function of ranks.
    above: `[m]`, int32, the number of items above the tie of each listed item.
    size: `[m]`, int32, the number of items in it.
    start: `[m]`, int32, the slot of the first listed item of the tie.
    listed: `[m]`, int32, the number of listed items in the tie.
    k: The last rank that counts.
    dtype: The dtype of the result.
  """
  count = inside(above, size, k)
  ahead = jnp.arange(above.size, dtype=jnp.int32) - start

  def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    place, chance, expected = state
    left = jnp.maximum(size - place, 1).astype(dtype)
    taken = chance * (listed - ahead).astype(dtype) / left
    value = discount((above + place + 1).astype(dtype))
    expected = expected + jnp.where(place < count, taken * value, 0)
    from_above = jnp.concatenate([jnp.zeros_like(taken[:1]), taken[:-1]])
    chance = chance - taken + jnp.where(ahead > 0, from_above, 0)
    return place + 1, jnp.where(place < size, chance, 0), expected

  nothing = (0 * count).astype(dtype)
  state = (0 * jnp.max(count), jnp.where(ahead == 0, nothing + 1, nothing), nothing)
  _, _, expected = lax.while_loop(lambda state: jnp.any(state[0] < count), step, state)
  return expected
