"""`epoch`: the queries of each step of an epoch, drawn inside of a compiled program."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from jaxrank._core import checks


def epoch(key: Array, sizes: Sequence[int], *, steps: int) -> tuple[Array, ...]:
  """Draws an epoch of steps, each of which has queries of every bucket in proportion.

  The buckets are arrays `[queries, length, ...]` of a few lengths, as `pad_buckets` makes them,
  that stay on the device. A step takes the queries `x[i]` of the arrays `x` of each bucket, so that
  an epoch is one `lax.scan` and epochs of many seeds one `vmap`, without a loop on the host.

  Every query comes in an epoch at least once. If the size of a bucket is no multiple of `steps`,
  some queries, which the key draws, come twice, so that all steps have one shape. A bucket with
  fewer queries than steps repeats them as often as necessary.

  >>> import jax
  >>> short, long = epoch(jax.random.key(0), [5, 2], steps=2)
  >>> short.shape, long.shape
  ((2, 3), (2, 1))
  >>> sorted(set(short.ravel().tolist())), sorted(set(long.ravel().tolist()))
  ([0, 1, 2, 3, 4], [0, 1])

  A `scan` over the result trains for an epoch:

  >>> buckets = [jax.numpy.ones((5, 4)), jax.numpy.ones((2, 16))]
  >>> def step(total, rows):
  ...   return total + sum(x[i].sum() for x, i in zip(buckets, rows)), None
  >>> total, _ = jax.lax.scan(step, 0.0, epoch(jax.random.key(0), [5, 2], steps=2))
  >>> print(total)
  56.0

  Args:
    key: PRNG key.
    sizes: The number of queries of each bucket, at least 0.
    steps: The number of steps, at least 1.

  Returns:
    Indices `[steps, ceil(size / steps)]` for each bucket, int32.

  Raises:
    ValueError: if `steps` is less than 1, or a size is less than 0.
    TypeError: if an argument has a wrong type.
  """
  with checks.named("epoch"):
    key = checks.prng_key(key)
    steps = checks.count("steps", steps)
    if isinstance(sizes, int) or not hasattr(sizes, "__iter__"):
      raise TypeError(
        f"sizes must be the number of queries of each bucket, such as [300, 20], got "
        f"{checks.told(sizes)}."
      )
    counts = [checks.count("each of sizes", size, least=0) for size in sizes]
  keys = jax.random.split(key, len(counts))
  return tuple(
    jnp.resize(jax.random.permutation(own, count), (steps, -(-count // steps))).astype(jnp.int32)
    for own, count in zip(keys, counts, strict=True)
  )
