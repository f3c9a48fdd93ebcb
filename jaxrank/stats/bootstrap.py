"""`bootstrap_interval`, confidence intervals of any statistic by resampling."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.arithmetic import floating, safe_divide

# The largest number of resampled values in memory at a time.
_HELD = 1 << 20

Method = Literal["percentile", "bca"]


class Interval(NamedTuple):
  """Percentiles of a resampled value.

  Attributes:
    low: The lower end of the interval.
    middle: The median; with the method `"bca"`, corrected as the ends are.
    high: The upper end of the interval.
  """

  low: Array
  middle: Array
  high: Array


def bootstrap_interval(
  statistic: Callable[..., Array],
  *data: Any,
  key: Array,
  resamples: int = 1000,
  confidence: ArrayLike = 0.95,
  method: Method = "percentile",
) -> Interval:
  """The bootstrap confidence interval of a statistic, by resampling its data with replacement.

  With the values of queries as data, it is the uncertainty of a statistic, such as their mean or
  the difference of two means, due to the choice of queries. With the `sampled_values` of a rank
  metric, it is the uncertainty of an estimate of its moments under chance.

  `"percentile"` takes the quantiles of the resampled values. `"bca"` corrects their levels for bias
  and acceleration, which are estimated from the share of resampled values below the statistic of
  the data, ties counting half, and from the statistic without each query in turn. If all these
  values are equal, as the means of constant differences are, both ends are that value.

  >>> x, y = jnp.arange(50.0) + 3, jnp.arange(50.0) % 7
  >>> difference = lambda x, y: jnp.mean(x - y)
  >>> low, _, high = bootstrap_interval(difference, x, y, key=jax.random.key(0), method="bca")
  >>> print(bool(low < jnp.mean(x - y) < high))
  True

  Args:
    statistic: Function of the resampled data of one list, arrays `[n]`, that returns a float or an
      array of floats. It is compiled once for each function object.
    *data: Arrays `[..., n]` of one shape, or pytrees of such arrays, as `TargetRanks`; they are
      resampled together.
    key: PRNG key of the resamples.
    resamples: Number of resamples, at least 1.
    confidence: Fraction of the resampled values that the interval contains, in [0, 1]; may be
      traced.
    method: "percentile" or "bca"; the latter also evaluates the statistic `n` times.

  Returns:
    The lower end, the median and the upper end of the interval, `[...]` and the shape of the value.

  Raises:
    ValueError: if the data differ in shape or are empty, a number is out of its range, the method
      is unknown, or there is a single query for `"bca"`.
    TypeError: if `statistic` is not a function, or another argument has a wrong type.

  References:
    Efron, `Better bootstrap confidence intervals
    <https://doi.org/10.1080/01621459.1987.10478410>`_, 1987.
  """
  with checks.named("stats.bootstrap_interval"):
    checks.function("statistic", statistic, "a function such as jnp.mean")
    checks.unit_interval("confidence", confidence)
    checks.choice("method", method, get_args(Method))
    resamples = checks.count("resamples", resamples)
    key = checks.prng_key(key)
    leaves, tree = jax.tree.flatten(data, is_leaf=lambda x: isinstance(x, list))
    arrays = [checks.array("data", leaf) for leaf in leaves]
    data = jax.tree.unflatten(tree, batching.replicated(*arrays) if arrays else arrays)
    shapes = {x.shape for x in jax.tree.leaves(data)}
    least = 2 if method == "bca" else 1
    if len(shapes) != 1 or not len(*shapes) or (*shapes,)[0][-1] < least:
      got = sorted(map(list, shapes))
      raise ValueError(
        f"data must be arrays [..., n] of one shape, n at least {least}, got shapes {got}; pass "
        "one value or rank per query."
      )
  share = jnp.asarray(confidence, float)
  with checks.named("stats.bootstrap_interval"):
    interval: Interval = _bootstrap(statistic, resamples, method, key, data, share)
  return interval


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _bootstrap(
  statistic: Callable[..., Array],
  resamples: int,
  method: Method,
  key: Array,
  data: Any,
  confidence: Array,
) -> Interval:
  shape = jax.tree.leaves(data)[0].shape
  n = shape[-1]
  of_lists = batching.over_queries(statistic, len(shape) - 1)
  block = max(1, _HELD // max(1, jax.tree.leaves(data)[0].size))

  def at(rows: Array) -> Array:
    value = of_lists(*jax.tree.map(lambda x: x[..., rows], data))
    return floating(checks.array("the value of statistic", value))

  def resample(key: Array) -> Array:
    return at(jax.random.randint(key, (n,), 0, n))

  def without(i: Array) -> Array:
    rows = jnp.arange(n - 1, dtype=jnp.int32)
    return at(rows + (rows >= i).astype(rows.dtype))

  values = batching.in_blocks(jax.vmap(resample), block)(jax.random.split(key, resamples))
  half = 0.5 * confidence.astype(values.dtype)
  levels = jnp.stack([0.5 - half, 0.5 + 0 * half, 0.5 + half])
  levels = jnp.broadcast_to(levels.reshape(3, *(1,) * (values.ndim - 1)), (3, *values.shape[1:]))
  if method == "bca":
    whole = at(jnp.arange(n, dtype=jnp.int32))
    left_out = batching.in_blocks(jax.vmap(without), block)(jnp.arange(n, dtype=jnp.int32))
    levels = _corrected(levels, values, whole, left_out)
  quantiles = jnp.quantile
  for _ in values.shape[1:]:
    quantiles = jax.vmap(quantiles, in_axes=-1, out_axes=-1)
  return Interval(*quantiles(values, levels))


def _corrected(levels: Array, values: Array, whole: Array, left_out: Array) -> Array:
  """The levels of the quantiles of BCa; `left_out` are the statistics without each query."""
  n = values.shape[0]
  below = jnp.mean(0.5 * jnp.sign(whole[None] - values) + 0.5, axis=0)
  # A share of 0 or 1 would make the bias infinite.
  bias = norm.ppf(jnp.clip(below, 0.5 / n, 1 - 0.5 / n))[None]
  change = jnp.mean(left_out, axis=0, keepdims=True) - left_out
  size = jnp.max(jnp.abs(change), axis=0, keepdims=True)
  change = safe_divide(change, jnp.broadcast_to(size, change.shape))
  spread = jnp.sum(change**2, axis=0) ** 1.5
  acceleration = (safe_divide(jnp.sum(change**3, axis=0), spread) / 6)[None]
  z = bias + norm.ppf(levels)
  # At a denominator of 0 or less the formula no longer holds, and the level is that of the far end.
  scale = 1 - acceleration * z
  moved = jnp.where(scale > 0, z / jnp.where(scale > 0, scale, 1), jnp.sign(z) * jnp.inf)
  return jnp.where((levels > 0) & (levels < 1), norm.cdf(bias + moved), levels)
