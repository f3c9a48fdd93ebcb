"""A random sample of fixed size of a stream of queries, for quantiles.

Every query draws a random priority, and the queries with the highest priorities stay. This is a
uniform sample without replacement, in whatever order streams are read and merged. `Evaluator` keeps
the sample in its state.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._base import told
from jaxrank._core import sorting
from jaxrank._core.batching import replicated
from jaxrank.streaming.batch import Queries


class Reservoir(NamedTuple):
  """A sample of queries.

  Attributes:
    seed: `[2]`, uint32, the key data of the next priorities; few file formats can store typed keys.
    priority: `[size]`, int32; `sorting.MASKED` in free places.
    values: `[size, measures]`, NaN where the mean does not include the query.
    weight: `[size]`, the weight of each query.
    group: `[size]`, int32, the group of each query.
  """

  seed: Array
  priority: Array
  values: Array
  weight: Array
  group: Array


def check(key: Array) -> None:
  """Raises `TypeError` unless `key` is a single typed key."""
  typed = isinstance(key, Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
  if not typed or key.shape:
    raise TypeError(f"key must be one PRNG key, such as jax.random.key(0), got {told(key)}.")


def new(size: int, measures: int, key: Array) -> Reservoir:
  """An empty sample."""
  return Reservoir(
    jax.random.bits(key, (2,), jnp.uint32),
    jnp.full((size,), sorting.MASKED, jnp.int32),
    jnp.full((size, measures), jnp.nan, jnp.float32),
    jnp.zeros((size,), jnp.float32),
    jnp.zeros((size,), jnp.int32),
  )


def add(sample: Reservoir, queries: Queries) -> Reservoir:
  """The sample after one more batch of queries."""
  leading = queries.group.ndim
  values, weight, group, kept, *_ = replicated(
    *(x.reshape(-1, *x.shape[leading:]) for x in queries)
  )
  key = jax.random.wrap_key_data(sample.seed, impl="threefry2x32")
  key, draw = jax.random.split(key)
  bits = lax.bitcast_convert_type(jax.random.bits(draw, group.shape, jnp.uint32), jnp.int32)
  priority = jnp.where(jnp.any(kept, -1), jnp.maximum(bits, sorting.MASKED + 1), sorting.MASKED)
  values = jnp.where(kept, values, jnp.nan).astype(jnp.float32)
  new = Reservoir(jax.random.key_data(key), priority, values, weight.astype(jnp.float32), group)
  return merge(new, sample)


def merge(a: Reservoir, b: Reservoir) -> Reservoir:
  """The sample of two streams together, of the size of `b`; the seed is that of `a`."""
  both = [jnp.concatenate(pair) for pair in zip(a[1:], b[1:], strict=True)]
  stay = sorting.top(both[0], k=b.priority.shape[0])
  return Reservoir(a.seed, *(x[stay] for x in both))


def over(axis: str | tuple[str, ...], sample: Reservoir) -> Reservoir:
  """The sample of the streams of all devices along a mesh axis together."""
  pick = sorting.top_over(axis, sample.priority, sample.priority.shape[0])
  return Reservoir(lax.pmax(sample.seed, axis), *map(pick, sample[1:]))


def quantile(x: np.ndarray, weight: np.ndarray, q: float) -> float:
  """The weighted quantile of `x`, `[size]`; 0 without values.

  It is halfway between two values if the weight of the smaller ones is exactly `q` of the total.
  """
  counts = ~np.isnan(x) & (weight > 0)
  if not counts.any():
    return 0.0
  order = np.argsort(x[counts])
  x, below = x[counts][order], np.cumsum(weight[counts][order], dtype=np.float64)
  first = np.searchsorted(below, q * below[-1], "left")
  last = min(np.searchsorted(below, q * below[-1], "right"), x.size - 1)
  return (float(x[first]) + float(x[last])) / 2
