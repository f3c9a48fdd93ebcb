"""Confidence intervals by resampling."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks

# The largest number of resampled values that is held at a time.
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
  """The confidence interval of a statistic, from resamples of its data with replacement.

  Resampled ranks give the uncertainty of a metric that comes from its queries. Resampled
  `sampled_values` of a metric give the uncertainty of an estimate of its moments under chance.

  >>> low, _, high = bootstrap(jnp.mean, jnp.arange(100.0), key=jax.random.key(0))
  >>> print(bool(low < 49.5 < high))
  True

  Args:
    statistic: A function of the resampled data that returns a scalar. JAX compiles anew for each
      function object.
    *data: Arrays `[n]`, or pytrees of them such as `TargetRanks`, which are resampled together.
    key: A PRNG key.
    resamples: The number of resamples.
    confidence: The share of the resampled values that the interval holds, in [0, 1].

  Returns:
    The ends and the middle of the interval, scalars.

  Raises:
    ValueError: if the data differ in length or are empty, or `confidence` is not in [0, 1].
    TypeError: if `statistic` is not a function.
  """
  checks.function("ranks.bootstrap: statistic", statistic, "a function such as jnp.mean")
  checks.unit_interval("ranks.bootstrap: confidence", confidence)
  resamples = checks.count("ranks.bootstrap: resamples", resamples)
  key = checks.prng_key(key)
  array = functools.partial(checks.array, "ranks.bootstrap: data")
  data = tuple(jax.tree.map(array, data, is_leaf=lambda x: isinstance(x, list)))
  shapes = {x.shape for x in jax.tree.leaves(data)}
  if len(shapes) != 1 or len(*shapes) != 1 or (0,) in shapes:
    got = sorted(map(list, shapes))
    raise ValueError(
      f"ranks.bootstrap: data must be arrays [n] of one length, at least 1, got shapes {got}; pass "
      "one value or rank per query."
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
