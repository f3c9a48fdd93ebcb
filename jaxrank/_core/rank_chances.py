"""The probabilities of all ranks of all items, as an integrand of `quadrature`.

Given the noisy score of an item, the number of items above it is a sum of independent choices, and
its probabilities are the coefficients of a product of polynomials `1 - p_j + p_j y` over the other
items. docs/mathematics.md, "Probabilities of ranks".
"""

import functools

import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core.quadrature import Integrand, Noise


@functools.lru_cache(maxsize=256)
def rank_chances(noise: Noise, depth: int) -> Integrand:
  """`density_i P(r - 1 others are above)` for each item and rank, `[..., n, depth]`.

  The argument is `z`.
  """

  def value(u: Array, z: Array) -> Array:
    above, below, density = noise.probabilities(u[..., :, None] - z[..., None, :])
    one = jnp.stack([below, above], axis=-1)[..., :depth]
    others = _products_of_others(one, depth)
    others = jnp.pad(others, (*((0, 0),) * (others.ndim - 1), (0, depth - others.shape[-1])))
    return jnp.sum(density[..., None] * others, axis=-3)

  return Integrand(value, nodes=4)


def _products_of_others(one: Array, most: int) -> Array:
  """The product of all polynomials but each one, `[..., n, any]`, up to `most` coefficients.

  A tree of products of halves, quarters and so on goes up to the root. On the way down, each node
  gets the product of everything outside of it: that of its parent, times its sibling.
  """
  n = one.shape[-2]
  size = 1 << (n - 1).bit_length()
  empty = jnp.zeros_like(one[..., :1, :]).at[..., 0].set(1)
  empty = jnp.repeat(empty, size - n, axis=-2)
  levels = [jnp.concatenate([one, empty], axis=-2)]
  while levels[-1].shape[-2] > 2:
    levels.append(_times(levels[-1][..., ::2, :], levels[-1][..., 1::2, :], most))
  outside = jnp.ones_like(one[..., :1, :1])
  for level in reversed(levels if size > 1 else []):
    pairs = level.reshape(*level.shape[:-2], -1, 2, level.shape[-1])
    siblings = pairs[..., ::-1, :].reshape(level.shape)
    outside = _times(jnp.repeat(outside, 2, axis=-2), siblings, most)
  return outside[..., :n, :]


def _times(x: Array, y: Array, most: int) -> Array:
  """Products of polynomials along the last axis, up to `most` coefficients."""
  length = min(x.shape[-1] + y.shape[-1] - 1, most)
  if x.shape[-1] < y.shape[-1]:
    x, y = y, x
  terms, x = y.shape[-1], x[..., :length]
  room = (terms - 1, length - x.shape[-1])
  x = jnp.pad(x, (*((0, 0),) * (x.ndim - 1), room))

  def step(total: Array, term: tuple[Array, Array]) -> tuple[Array, None]:
    c, first = term
    return total + c[..., None] * lax.dynamic_slice_in_dim(x, first, length, axis=-1), None

  # A loop, because that of the gradient would compile slowly if it was unrolled.
  each = jnp.moveaxis(y, -1, 0), jnp.arange(terms - 1, -1, -1)
  total, _ = lax.scan(step, jnp.zeros_like(x[..., :length]), each)
  return total
