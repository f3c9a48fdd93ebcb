"""Intervals of confidence by resampling."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks

# So many resampled numbers are held at a time.
_HELD = 1 << 20


class Interval(NamedTuple):
  """Percentiles of a resampled value.

  Attributes:
    low: Below it lies half of what is left out.
    middle: The median.
    high: Above it lies the other half.
  """

  low: Array
  middle: Array
  high: Array


def bootstrap(
  statistic: Callable[..., Array],
  *data: Any,
  key: Array,
  resamples: int = 1000,
  confidence: ArrayLike = 0.95,
) -> Interval:
  """The interval of a statistic of data drawn again and again, with replacement.

  The data may be ranks, and what comes out is the uncertainty of a metric about its queries; or
  the `sampled_values` of a metric, and it is that of the estimate of what chance gives.

  >>> low, _, high = bootstrap(jnp.mean, jnp.arange(100.0), key=jax.random.key(0))
  >>> print(bool(low < 49.5 < high))
  True

  Args:
    statistic: Of the resampled data, a scalar. Programs are compiled by its identity.
    *data: Arrays `[n]`, or pytrees of such as `TargetRanks`, resampled together.
    key: A PRNG key.
    resamples: How often.
    confidence: How much the interval holds, in (0, 1).

  Returns:
    Scalars.

  Raises:
    ValueError: if the data are not of one length.
  """
  checks.function("statistic", statistic, "a function such as jnp.mean")
  checks.share("confidence", confidence)
  key, resamples = checks.prng_key(key), checks.count("resamples", resamples)
  array = functools.partial(checks.array, "data")
  data = tuple(jax.tree.map(array, data, is_leaf=lambda x: isinstance(x, list)))
  shapes = {x.shape for x in jax.tree.leaves(data)}
  if len(shapes) != 1 or len(*shapes) != 1 or (0,) in shapes:
    got = sorted(map(list, shapes))
    raise ValueError(f"data must be arrays [n] of one length, 1 at least, got {got}.")
  return _bootstrap(statistic, resamples, key, data, jnp.asarray(confidence, float))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _bootstrap(
  statistic: Callable[..., Array], resamples: int, key: Array, data: Any, confidence: Array
) -> Interval:
  (n,) = jax.tree.leaves(data)[0].shape

  def resample(key: Array) -> Array:
    rows = jax.random.randint(key, (n,), 0, n)
    return statistic(*jax.tree.map(lambda x: x[rows], data))

  keys = jax.random.split(key, resamples)
  values = batching.in_blocks(jax.vmap(resample), max(1, _HELD // max(1, n)))(keys)
  half = 0.5 * confidence.astype(values.dtype)
  return Interval(*jnp.quantile(values, jnp.stack([0.5 - half, 0.5 + 0 * half, 0.5 + half])))
