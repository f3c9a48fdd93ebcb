"""`bootstrap`, confidence intervals of statistics of ranks by resampling."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks

# The largest number of resampled values in memory at a time.
_HELD = 1 << 20


class Interval(NamedTuple):
  """Percentiles of a resampled value.

  Attributes:
    low: The lower end of the interval.
    middle: The median.
    high: The upper end of the interval.
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
  """The bootstrap confidence interval of a statistic, by resampling its data with replacement.

  With ranks as data, it is the uncertainty of a metric due to the choice of queries. With the
  `sampled_values` of a metric, it is the uncertainty of an estimate of its moments under chance.

  >>> low, _, high = bootstrap(jnp.mean, jnp.arange(100.0), key=jax.random.key(0))
  >>> print(bool(low < 49.5 < high))
  True

  Args:
    statistic: Function of the resampled data that returns a scalar. It is compiled once for each
      function object.
    *data: Arrays `[n]`, or pytrees of such arrays, as `TargetRanks`; they are resampled together.
    key: PRNG key of the resamples.
    resamples: Number of resamples, at least 1.
    confidence: Fraction of the resampled values that the interval contains, in [0, 1]; may be
      traced.

  Returns:
    The lower end, the median and the upper end of the interval, scalars.

  Raises:
    ValueError: if the data differ in length or are empty, or a number is out of its range.
    TypeError: if `statistic` is not a function, or another argument has a wrong type.
  """
  with checks.named("ranks.bootstrap"):
    checks.function("statistic", statistic, "a function such as jnp.mean")
    checks.unit_interval("confidence", confidence)
    resamples = checks.count("resamples", resamples)
    key = checks.prng_key(key)
    array = functools.partial(checks.array, "data")
    data = tuple(jax.tree.map(array, data, is_leaf=lambda x: isinstance(x, list)))
    shapes = {x.shape for x in jax.tree.leaves(data)}
    if len(shapes) != 1 or len(*shapes) != 1 or (0,) in shapes:
      got = sorted(map(list, shapes))
      raise ValueError(
        f"data must be arrays [n] of one length, at least 1, got shapes {got}; pass one value or "
        "rank per query."
      )
  interval: Interval = _bootstrap(statistic, resamples, key, data, jnp.asarray(confidence, float))
  return interval


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
