"""Quotients, roots, logarithms and roundings at the ends of their ranges; sums; wider floats."""

import decimal
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax  # noqa: F401, the doctests use it
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike


def safe_divide(x: Array, y: Array) -> Array:
  """`x / y`, and 0 with gradient 0 where `y` is 0.

  >>> print(safe_divide(jnp.array([1.0, 1.0]), jnp.array([2.0, 0.0])))
  [0.5 0. ]
  """
  zero = y == 0
  return jnp.where(zero, 0, x / jnp.where(zero, 1, y))


def steady_divide(x: Array, y: Array) -> Array:
  """`safe_divide(x, y)`, whose derivative does not divide by the square of `y`, which may be 0.

  >>> print(jax.grad(steady_divide, 1)(jnp.float32(1e-30), jnp.float32(1e-30)))
  -1e+30
  """
  scale = lax.stop_gradient(y)
  return safe_divide(safe_divide(x, scale), safe_divide(y, scale))


def safe_sqrt(x: Array) -> Array:
  """`sqrt(x)`, and 0 with gradient 0 where `x` is not positive."""
  positive = x > 0
  return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def clipped(x: Array, bound: float) -> Array:
  """`x` between `-bound` and `bound`; the derivative of `jnp.clip` would have two quotients."""
  return jnp.where(x > bound, bound, jnp.where(x < -bound, -bound, x))


# What exceeds the end of a range by more units of rounding than this was not rounded.
UNITS = 2**7


def kept_within(x: Array, ends: tuple[float, float], units: int = UNITS) -> Array:
  """`x`, or the end of its range that it exceeds by rounding; the derivative is that of `x`.

  A number that is farther outside stays as it is, and so does NaN.

  Args:
    x: Numbers of any shape.
    ends: The least and the largest number, which may be infinite.
    units: By how many units of rounding, those of the end or of 1 for an end of 0, a number may
      exceed an end.
  """
  if not jnp.issubdtype(x.dtype, jnp.floating):
    return x
  given = lax.stop_gradient(x)
  unit = units * float(jnp.finfo(x.dtype).eps)
  low, high = ends
  gap = jnp.clip(given, *ends) - given
  # Not a slack that is chosen between two constants, which jax 0.9 cannot do over a mesh.
  rounded = (gap <= unit * (abs(low) or 1.0)) & (gap >= -unit * (abs(high) or 1.0))
  # The gap of two numbers that are near each other is exact, so that the sum is the end itself.
  return x + jnp.where(rounded, gap, 0)


def floating(x: Array) -> Array:
  """`x` as floats of at least 32 bits."""
  wide = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize >= 4
  return x if wide else x.astype(jnp.float32)


def over_first(combine: Callable[[Array, Array], Array], x: Array) -> Array:
  """A short first axis combined by `jnp.add` or the like, entry by entry.

  On a CPU, XLA takes 20 times longer for a reduction of the first axis of a large array.
  """
  return functools.reduce(combine, jnp.unstack(x))


def at_least_tiny(temperature: ArrayLike, dtype: Any) -> Array:
  """A temperature to divide by; a traced one that is not positive acts as the limit at 0."""
  t, least = jnp.asarray(temperature).astype(dtype), float(jnp.finfo(dtype).tiny) ** 0.5
  # `jnp.maximum` would multiply an infinite slope by 0.
  return jnp.where(t < least, least, t)


# Lengths of which the sums are kept; those of a list take 16 bytes an item, and little time.
KEPT = 16


@functools.lru_cache(maxsize=KEPT)
def discount_sums(function: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
  """The prefix sums of a discount down to the ranks 0, 1, ..., n."""
  return np.concatenate([[0], np.cumsum(function(np.arange(1.0, n + 1)))])


def rounded_up(length: int) -> int:
  """A length rounded up to one of eight in each octave, so that few shapes are compiled for."""
  step = 1 << max((length - 1).bit_length() - 4, 0)
  return max(-(-length // step) * step, 1)


def varying_zeros(where: Array, shape: tuple[int, ...], dtype: Any) -> Array:
  """Zeros that vary over devices as the mask of the query does.

  Under `shard_map`, the state of a loop cannot begin with a value that is the same on all devices,
  and a gradient with respect to one is summed over them.
  """
  return jnp.zeros(shape, dtype) + 0 * jnp.sum(where, dtype=dtype)


def added(total: Array) -> Array:
  """What each rank adds to a running total, `[n]`: the inverse of a cumulative sum."""
  return jnp.diff(total, prepend=jnp.zeros_like(total[:1]))


def log_of_rest(ended: Array, factor: Array) -> Array:
  """`log(1 - ended)`, where `1 - ended` is `factor`, with full relative precision at both ends."""

  def log(ended: Array, far: Array) -> Array:
    near = ended < 0.5
    return jnp.where(near, jnp.log1p(-jnp.where(near, ended, 0)), far)

  if not jnp.iscomplexobj(ended):
    return log(ended, jnp.log(factor))
  x, y = jnp.real(factor), jnp.imag(factor)
  less = 2 * jnp.real(ended) - jnp.square(jnp.real(ended)) - jnp.square(y)
  larger, smaller = jnp.maximum(jnp.abs(x), jnp.abs(y)), jnp.minimum(jnp.abs(x), jnp.abs(y))
  far = 2 * jnp.log(larger) + jnp.log1p(jnp.square(smaller / larger))
  return lax.complex(log(less, far) / 2, jnp.arctan2(y, x))


def plain_sum(x: Array, axis: int | tuple[int, ...] | None = None) -> Array:
  """`jnp.sum` of floats, which is computed faster on CPU if `x` is the result of arithmetic.

  There XLA hands a sum, together with the arithmetic before it, to a library that takes longer for
  the arithmetic than a loop of XLA: the gradient of nDCG, Gumbel [32, 1000] 1.4 times as long, and
  softmax [1024, 1024] 1.35 times (jaxlib 0.10.2). The library has no select, so the select here,
  which changes no value, leaves the arithmetic to XLA. The reverse mode stores the mask of the
  select: call this function where the derivative is written by hand.
  """
  return jnp.sum(jnp.where(jnp.isnan(x), jnp.nan, x), axis=axis)


Level: TypeAlias = ArrayLike | decimal.Decimal

# A tolerance for rounding, in units of the last place and in items: 0.3 times 10 may exceed 3.
_ROUNDINGS, _LEAST = 4, 0.05


def share_of(level: Level, count: Array, most: int, *, nearest: bool = False) -> Array:
  """`ceil(level * count)`, or with `nearest` `floor(level * count + 0.5)`, for up to `most` items.

  For a `decimal.Decimal` it is computed in the float64 of trec_eval, and is
  `floor(level * count + 0.9)` unless `nearest`, whose rounding makes it 17 for 0.3 of 57. These
  numbers are a table of the program.
  """
  if isinstance(level, decimal.Decimal):
    table = np.floor(float(level) * np.arange(most + 1.0) + (0.5 if nearest else 0.9))
    shares: Array = jnp.asarray(table, count.dtype)[count.astype(jnp.int32)]
    return shares
  share = jnp.asarray(level).astype(count.dtype) * count
  if nearest:
    return jnp.floor(share + 0.5)
  slack = jnp.minimum(_ROUNDINGS * jnp.finfo(count.dtype).eps * share, _LEAST)
  return jnp.ceil(share - slack)
