"""`randomization_test` and `tukey_hsd`: tests that exchange values of systems within queries."""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, sorting
from jaxrank._core.arithmetic import floating
from jaxrank.stats import _values
from jaxrank.stats.paired import Comparison

# Up to so many queries all flips are enumerated: 2^19 products, because a flip of all queries has
# the same absolute sum.
_ENUMERATED = 20

# Flips in a block, whose signs stay in the caches of a CPU, and the largest number of sums in it.
_FLIPS, _HELD = 1 << 12, 1 << 20

_BITS = 32


def randomization_test(
  x: ArrayLike, y: ArrayLike, *, key: Array, flips: int = 100_000
) -> Comparison:
  """Fisher's randomization test of paired values, two-sided, by flips of signs.

  If the systems are alike, the sign of each difference `x - y` is random. The p-value is the
  probability that the mean of the differences, with random signs, is in absolute value at least the
  one observed. It is `(c + 1) / (flips + 1)` if `c` of the flips reach it. For up to 20 queries all
  `2^n` flips are enumerated, and it is `c / 2^n`, without randomness. Sums that differ by no more
  than their rounding errors count as equal.

  >>> x, y = jnp.array([0.5, 0.7, 0.9, 0.4]), jnp.array([0.4, 0.5, 0.8, 0.3])
  >>> difference, p_value = randomization_test(x, y, key=jax.random.key(0))
  >>> print(f"{difference:.4f} {p_value:.4f}")
  0.1250 0.1250

  Args:
    x: `[..., n]`, the values of one system.
    y: `[..., n]`, those of the other, for the same queries.
    key: PRNG key of the flips.
    flips: Number of flips, at least 1.

  Returns:
    The mean difference and the p-value, `[...]`.

  Raises:
    ValueError: if shapes differ, there are no queries, or `flips` is less than 1.
    TypeError: if an argument has a wrong type.

  References:
    Smucker, Allan and Carterette, `A comparison of statistical significance tests for information
    retrieval evaluation <https://doi.org/10.1145/1321440.1321528>`_, 2007.
  """
  with checks.named("stats.randomization_test"):
    x, y = _values.pair(x, y, least=1)
    flips = checks.count("flips", flips)
    key = checks.prng_key(key)
  return Comparison(*_randomized(flips, x, y, key))


@functools.partial(jax.jit, static_argnums=0)
def _randomized(flips: int, x: Array, y: Array, key: Array) -> tuple[Array, Array]:
  difference = x - y
  n = difference.shape[-1]
  total = jnp.sum(difference, axis=-1)
  least = (jnp.abs(total) - _values.tolerance(x, y, difference))[..., None]
  exact = n <= _ENUMERATED
  if exact:
    flips = 1 << (n - 1)
  block = max(1, min(_FLIPS, flips, _HELD // max(1, total.size)))
  words = -(-n // _BITS)
  padded = jnp.pad(difference, [(0, 0)] * total.ndim + [(0, words * _BITS - n)])

  def count(i: Array, reached: Array) -> Array:
    index = jnp.asarray(i, jnp.uint32) * block + jnp.arange(block, dtype=jnp.uint32)
    bits = index[None]
    if not exact:
      bits = jax.random.bits(jax.random.fold_in(key, i), (words, block), jnp.uint32)
    sums = jnp.tensordot(padded, _signs(bits, padded.dtype), 1, precision="highest")
    hits = (jnp.abs(sums) >= least) & (index < flips).reshape(*(1,) * total.ndim, -1)
    return reached + jnp.sum(hits, axis=-1, dtype=jnp.int32)

  start = jnp.zeros_like(total, jnp.int32)
  reached = lax.fori_loop(0, -(-flips // block), count, start).astype(total.dtype)
  p_value = reached / flips if exact else (reached + 1) / (flips + 1)
  return total / n, jnp.where(jnp.isfinite(total), p_value, jnp.nan)


def _signs(bits: Array, dtype: jnp.dtype) -> Array:
  """1 or -1 for each bit of words `[words, flips]`, `[32 words, flips]`."""
  shift = jnp.arange(_BITS - 1, -1, -1, dtype=jnp.uint32)[:, None, None]
  one = jnp.uint32(0x3F800000)
  signs = lax.shift_left(*jnp.broadcast_arrays(bits[None], shift)) & jnp.uint32(1 << 31) | one
  return lax.bitcast_convert_type(signs.reshape(-1, bits.shape[-1]), jnp.float32).astype(dtype)


def tukey_hsd(values: ArrayLike, *, key: Array, permutations: int = 10_000) -> Array:
  """p-values of all pairs of systems, by the randomized version of Tukey's HSD test.

  The values of all systems are permuted within each query. The p-value of a pair is the probability
  that the largest minus the smallest mean of permuted values is at least the absolute difference of
  the two means: `(c + 1) / (permutations + 1)`. This bounds the probability of any false rejection
  among all pairs, so that the p-values must not be corrected again.

  >>> good, bad = [0.9, 0.8, 0.9, 0.7, 0.8, 0.9], [0.5, 0.4, 0.3, 0.4, 0.2, 0.3]
  >>> values = jnp.array([good, bad, bad[::-1]])
  >>> p = tukey_hsd(values, key=jax.random.key(0), permutations=2000)
  >>> print(bool(p[0, 1] < 0.05), bool(p[1, 2] > 0.9))
  True True

  Args:
    values: `[..., systems, n]`, the values of each system, for the same `n` queries.
    key: PRNG key of the permutations.
    permutations: Number of permutations, at least 1.

  Returns:
    `[..., systems, systems]`, symmetric, with 1 on the diagonal.

  Raises:
    ValueError: if `values` has no such axes or no queries, or `permutations` is less than 1.
    TypeError: if an argument has a wrong type.

  References:
    Carterette, `Multiple testing in statistical analysis of systems-based information retrieval
    experiments <https://doi.org/10.1145/2094072.2094076>`_, 2012.
  """
  with checks.named("stats.tukey_hsd"):
    (values,) = batching.replicated(floating(checks.array("values", values)))
    if values.ndim < 2 or 0 in values.shape[-2:]:
      raise ValueError(
        f"values must have shape [..., systems, queries], at least 1 of each, got {values.shape}."
      )
    permutations = checks.count("permutations", permutations)
    key = checks.prng_key(key)
  p_values: Array = _tukey(permutations, values, key)
  return p_values


@functools.partial(jax.jit, static_argnums=0)
def _tukey(permutations: int, values: Array, key: Array) -> Array:
  systems, n = values.shape[-2:]
  by_query = jnp.swapaxes(values, -1, -2)

  def spread(key: Array) -> Array:
    bits = jax.random.bits(key, (n, systems), jnp.uint32)
    _, item = sorting.order(lax.bitcast_convert_type(bits, jnp.int32))
    totals = jnp.sum(sorting.take(by_query, jnp.broadcast_to(item, by_query.shape)), axis=-2)
    return jnp.max(totals, axis=-1) - jnp.min(totals, axis=-1)

  keys = jax.random.split(key, permutations)
  spreads = batching.in_blocks(jax.vmap(spread), max(1, _HELD // values.size))(keys)
  total = jnp.sum(values, axis=-1)
  rounding = jnp.max(_values.tolerance(values), axis=-1)[..., None, None]
  apart = jnp.abs(total[..., :, None] - total[..., None, :]) - rounding
  reached = jnp.sum(spreads[..., None, None] >= apart[None], axis=0, dtype=jnp.int32)
  p_values = (reached.astype(values.dtype) + 1) / (permutations + 1)
  finite = jnp.all(jnp.isfinite(total), axis=-1)[..., None, None]
  return jnp.where(finite, p_values, jnp.nan)
