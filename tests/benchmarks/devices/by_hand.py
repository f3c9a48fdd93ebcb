"""The formulas as anyone would write them: without ties, masks or cut-offs."""

import jax
import jax.numpy as jnp
from jax import Array, lax


def sorted_ndcg(scores: Array, labels: Array) -> Array:
  """The nDCG of distinct scores, by two sorts; the gain is exponential."""
  gain = jnp.exp2(labels) - 1
  _, ranked = lax.sort((-scores, gain), num_keys=1, is_stable=False)
  discount = 1 / jnp.log2(jnp.arange(2.0, labels.shape[-1] + 2))
  ideal = -jnp.sort(-gain, axis=-1)
  return jnp.sum(ranked * discount, axis=-1) / jnp.sum(ideal * discount, axis=-1)


def pairwise_ndcg(scores: Array, labels: Array) -> Array:
  """`1 - ApproxNDCG`, with the ranks of all items from all pairs; the gain is exponential."""
  gain = jnp.exp2(labels) - 1
  ahead = jax.nn.sigmoid(scores[..., None, :] - scores[..., :, None])
  rank = jnp.sum(ahead, axis=-1) + 0.5
  discount = 1 / jnp.log2(jnp.arange(2.0, labels.shape[-1] + 2))
  ideal = jnp.sum(-jnp.sort(-gain, axis=-1) * discount, axis=-1)
  return 1 - jnp.sum(gain / jnp.log2(1 + rank), axis=-1) / ideal
