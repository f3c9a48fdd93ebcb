"""Agreement of two rankings of the same items: `rbo`, `rbo_residual` and `tau_ap`.

A ranking is a list of scores `[..., n]`, higher first. Both lists score the same items, so that
item `i` of one is item `i` of the other; a score of -inf means that the ranking does not contain
the item.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks, sorting, ties
from jaxrank._core.arithmetic import kept_within, safe_divide
from jaxrank._core.batching import never_empty, over_queries

__all__ = [
  "rbo",
  "rbo_residual",
  "tau_ap",
]


def rbo(x: ArrayLike, y: ArrayLike, *, p: ArrayLike, where: ArrayLike | None = None) -> Array:
  """Rank-biased overlap of two rankings, extrapolated.

  `RBO = (1 - p) sum_d p^(d - 1) A_d`, where the agreement `A_d = 2 |X_d & Y_d| / (|X_d| + |Y_d|)`
  compares the items `X_d` and `Y_d` at ranks up to `d`. Tied items all have the best of their
  ranks. Past the end of the shorter ranking, of length `s`, each of its unseen items is in the
  other one with probability `A_s`; past the end of the longer one, the agreement stays what it is.

  >>> x, y = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([3.0, 4.0, 1.0, 2.0])
  >>> print(f"{rbo(x, y, p=0.9):.4f}")
  0.8730

  Args:
    x: `[..., n]`, the scores of one ranking, higher first; -inf for items that it does not contain.
    y: `[..., n]`, those of the other ranking, of the same items.
    p: Probability in [0, 1] to go on from one depth to the next; may be traced.
    where: `[..., n]`, boolean, False on padding; None is all True.

  Returns:
    `[...]`, in [0, 1]; 0 if one of the rankings has no item, NaN if a valid score is NaN.

  Raises:
    ValueError: if shapes differ, or `p` is out of range.
    TypeError: if scores are not numbers, or `where` is not boolean.

  References:
    Webber, Moffat and Zobel, `A similarity measure for indefinite rankings
    <https://doi.org/10.1145/1852102.1852106>`_, 2010; Corsi and Urbano, `The treatment of ties in
    rank-biased overlap <https://doi.org/10.1145/3626772.3657700>`_, 2024, who call this treatment
    of ties RBO^w.
  """
  return _of_lists("agreement.rbo", _rbo, (0.0, 1.0), x, y, where, p)


def rbo_residual(
  x: ArrayLike, y: ArrayLike, *, p: ArrayLike, where: ArrayLike | None = None
) -> Array:
  """By how much the rank-biased overlap depends on what follows the ends of two rankings.

  It is the largest minus the smallest RBO that the rankings can have once they are continued,
  without ties, and tends to 0 as they grow.

  >>> x, y = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([3.0, 4.0, 1.0, 2.0])
  >>> print(f"{rbo_residual(x, y, p=0.9):.4f}")
  0.3936

  Args:
    x: `[..., n]`, the scores of one ranking, higher first; -inf for items that it does not contain.
    y: `[..., n]`, those of the other ranking, of the same items.
    p: Probability in [0, 1] to go on from one depth to the next; may be traced.
    where: `[..., n]`, boolean, False on padding; None is all True.

  Returns:
    `[...]`, in [0, 1]; 1 for empty rankings, NaN if a valid score is NaN.

  Raises:
    ValueError: if shapes differ, or `p` is out of range.
    TypeError: if scores are not numbers, or `where` is not boolean.

  References:
    Webber, Moffat and Zobel, `A similarity measure for indefinite rankings
    <https://doi.org/10.1145/1852102.1852106>`_, 2010.
  """
  return _of_lists("agreement.rbo_residual", _residual, (0.0, 1.0), x, y, where, p)


def tau_ap(x: ArrayLike, reference: ArrayLike, *, where: ArrayLike | None = None) -> Array:
  """AP correlation: whether the items above each item of a ranking belong there.

  `tau_AP = 2 / (N - 1) sum_{r = 2}^N C_r / (r - 1) - 1`, where `C_r` of the `r - 1` items above
  rank `r` of `x` are above the item at rank `r` in the reference too. Unlike Kendall's tau, it
  weighs the top of `x`, and is not symmetric.

  It is the expectation over the orders of items that tie in `x` or in the reference. The time is
  O(n log n) and the memory O(n). Items that one of the rankings does not contain are left out.

  >>> print(f"{tau_ap(jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([3.0, 4.0, 2.0, 1.0])):.4f}")
  0.3333

  Args:
    x: `[..., n]`, the scores of the ranking, higher first.
    reference: `[..., n]`, the scores of the reference, of the same items.
    where: `[..., n]`, boolean, False on padding; None is all True.

  Returns:
    `[...]`, in [-1, 1]; 0 for fewer than two items, NaN if a valid score is NaN.

  Raises:
    ValueError: if shapes differ.
    TypeError: if scores are not numbers, or `where` is not boolean.

  References:
    Yilmaz, Aslam and Robertson, `A new rank correlation coefficient for information retrieval
    <https://doi.org/10.1145/1390334.1390435>`_, 2008; Urbano and Marrero, `The treatment of ties in
    AP correlation <https://doi.org/10.1145/3121050.3121106>`_, 2017.
  """
  return _of_lists("agreement.tau_ap", _tau_ap, (-1.0, 1.0), x, reference, where)


def _of_lists(
  name: str,
  kernel: Callable[..., Array],
  ends: tuple[float, float],
  x: ArrayLike,
  y: ArrayLike,
  where: ArrayLike | None,
  p: ArrayLike | None = None,
) -> Array:
  """Calls a kernel of the int32 keys of two lists, `[n]` each, and of the dtype of its result.

  `ends` are those of its range.
  """
  with checks.named(name):
    other = "y" if p is not None else "reference"
    x, y = checks.array("x", x), checks.array(other, y)
    if x.ndim == 0:
      raise ValueError("x must have shape [..., candidates], got a scalar; pass a list.")
    checks.same_shape("x", x, other, y)
    mask = checks.mask(where, x)
    checks.not_split(x)
    checks.not_split(y)
    if p is not None:
      checks.unit_interval("p", p)
  wide = any(z.dtype == jnp.float64 for z in (x, y))
  dtype = jnp.dtype("float64" if wide else "float32")
  x, y, mask = never_empty(x.ndim - 1, (x, y, mask))
  given = None if p is None else jnp.asarray(p, dtype)
  value: Array = _mapped(kernel, ends, dtype, given, x, y, mask)
  return value


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _mapped(
  kernel: Callable[..., Array],
  ends: tuple[float, float],
  dtype: jnp.dtype,
  p: Array | None,
  x: Array,
  y: Array,
  mask: Array,
) -> Array:
  def of_list(x: Array, y: Array, where: Array) -> Array:
    given = () if p is None else (p,)
    value = kernel(sorting.keys(x, where), sorting.keys(y, where), dtype, *given)
    unknown = jnp.any(where & ((x != x) | (y != y)))
    return jnp.where(unknown, jnp.nan, kept_within(value, ends))

  value: Array = over_queries(of_list, x.ndim - 1)(x, y, mask)
  return value


def _depths(key: Array) -> tuple[Array, Array]:
  """The smallest depth at which a ranking shows each item, from 0, and the items shown by depth."""
  ordered, item = sorting.order(key)
  start, _ = ties.layout(ordered)
  depth = sorting.scatter(start, item)
  return depth, _by_depth(depth, key > sorting.LOST)


def _by_depth(depth: Array, shown: Array) -> Array:
  """The number of items that are shown down to each depth, `[n]`."""
  counts = jnp.zeros_like(depth).at[depth].add(shown.astype(depth.dtype))
  return jnp.cumsum(counts, dtype=depth.dtype)


def _overlaps(x: Array, y: Array, dtype: jnp.dtype) -> tuple[Array, ...]:
  """Depths `d` from 1, the items that both lists show, the items that they show, and the lengths.

  A list shows `d` items at depths past its end.
  """
  (depth, size), (other_depth, other_size) = _depths(x), _depths(y)
  both = (x > sorting.LOST) & (y > sorting.LOST)
  overlap = _by_depth(jnp.maximum(depth, other_depth), both)
  d = 1 + sorting.slots(x)
  sizes = [jnp.where(d > count[-1], d, count) for count in (size, other_size)]
  shorter, longer = jnp.minimum(size[-1], other_size[-1]), jnp.maximum(size[-1], other_size[-1])
  return tuple(z.astype(dtype) for z in (d, overlap, sizes[0] + sizes[1], shorter, longer))


def _rbo(x: Array, y: Array, dtype: jnp.dtype, p: Array) -> Array:
  d, overlap, size, shorter, longer = _overlaps(x, y, dtype)
  seen = 2 * overlap / size

  def at(agreement: Array, depth: Array) -> Array:
    return jnp.sum(jnp.where(d == depth, agreement, 0))

  agreement = 2 * (overlap + jnp.maximum(d - shorter, 0) * at(seen, shorter)) / size
  shown = jnp.where(d <= longer, (1 - p) * p ** (d - 1) * agreement, 0)
  value = jnp.sum(shown) + p**longer * at(agreement, longer)
  return jnp.where(shorter > 0, value, 0)


def _residual(x: Array, y: Array, dtype: jnp.dtype, p: Array) -> Array:
  d, overlap, size, shorter, longer = _overlaps(x, y, dtype)
  n = d.shape[-1]
  # Down to the end of the longer list, the unseen items of the other may all be in it or not.
  inside = jnp.where((d > shorter) & (d <= longer), 2 * (d - shorter) / size, 0)
  common = overlap[-1]
  # Past it, either list may show the unseen items of the other, until the lists agree.
  far = jnp.arange(1, 2 * n + 1, dtype=dtype)
  largest = jnp.minimum(far, common + 2 * far - shorter - longer)
  outside = jnp.where(far > longer, (largest - common) / far, 0)
  near = jnp.sum(p ** (d - 1) * inside) + jnp.sum(p ** (far - 1) * outside)
  # At depths from 2 n on they agree: the sum of (1 - p) p^(d - 1) (1 - common / d).
  beyond = (1 - p) * (-jnp.log1p(-p) - jnp.sum(p**far / far))
  beyond = jnp.clip(jnp.where(p < 1, beyond, 0), 0, p ** (2 * n + 1) / (2 * n + 1))
  return (1 - p) * near + p ** (2 * n) - common * safe_divide(beyond, p)


def _tau_ap(x: Array, y: Array, dtype: jnp.dtype) -> Array:
  ranked = (x > sorting.LOST) & (y > sorting.LOST)
  x, y = (jnp.where(ranked, key, sorting.MASKED) for key in (x, y))
  # Items that tie in `x` have the reversed order of the reference: none is above one that it beats.
  x, item = sorting.order(x, ~y)
  y = sorting.take(y, item)
  start, end = ties.layout(x)
  # The items above that the reference puts above too; of items that tie in the reference, the
  # higher one counts as better in one of two counts, unless both tie in `x`.
  strictly, weakly = (sorting.greater_before(_ascending(y, first)) for first in (None, start))
  above = sorting.slots(x).astype(dtype)
  right = (
    ties.mean((strictly + weakly).astype(dtype) / 2, start, end) + (above - start.astype(dtype)) / 2
  )
  count = jnp.sum(ranked).astype(dtype)
  total = jnp.sum(jnp.where(x > sorting.LOST, safe_divide(right, above), 0))
  return jnp.where(count > 1, 2 * safe_divide(total, count - 1) - 1, 0)


def _ascending(key: Array, first: Array | None) -> Array:
  """The ranks `[n]` of keys from the smallest on, from 0; ties as `sorting.order` has them."""
  _, item = sorting.order(~key, first)
  return sorting.scatter(lax.iota(jnp.int32, key.shape[-1]), item)
