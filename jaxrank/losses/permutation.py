"""Soft permutation matrices, in O(n^2) time and memory: rows are ranks and columns are items."""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import sorting
from jaxrank._core.apply import as_long_as_the_lists
from jaxrank._core.sorting import take
from jaxrank.losses._loss import exact_query, logits, loss

# Items more than this many temperatures below the best item tie. NeuralSort multiplies distances by
# up to n, and this bounds the rounding errors of the products.
_LARGEST_DISTANCE = 1e6


# Both axes of a matrix are those of items.
_square = functools.partial(as_long_as_the_lists, axes=2)


@loss(in_blocks=True, finish=_square)
def neural_sort(
  scores: ArrayLike, *, where: ArrayLike | None = None, temperature: ArrayLike = 1.0
) -> Array:
  """NeuralSort: row `r` is a softmax whose largest entry is the item at rank `r`.

  `P[r, i] = softmax_i((n + 1 - 2 r) z_i - sum_j |z_i - z_j|)`, with `z = s / temperature` and `n`
  retrieved items. `P @ gains` are the soft gains by rank. One item may have the largest entry of
  several rows. Items more than a million temperatures below the best item tie.

  >>> print(f"{neural_sort(jnp.array([1.0, 3.0, 2.0]), temperature=0.1)[0, 1]:.4f}")
  1.0000

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Matrices `[..., n, n]` whose rows sum to 1; columns of items that are not retrieved, and rows
    below the last rank, are 0.

  References:
    Grover et al., `Stochastic optimization of sorting networks via continuous relaxations
    <https://arxiv.org/abs/1903.08850>`_, 2019.
  """
  query = exact_query(scores, where=where)
  z, live = logits(query, temperature), query.retrieved
  top = lax.stop_gradient(jnp.max(jnp.where(live, z, -jnp.inf)))
  z = jnp.where(live, jnp.maximum(z - jnp.where(jnp.any(live), top, 0), -_LARGEST_DISTANCE), 0)
  spread = jnp.sum(jnp.where(live[None], jnp.abs(z[:, None] - z[None]), 0), axis=1)
  slope = query.count(live) - 1 - 2 * sorting.slots(z).astype(z.dtype)
  return _row_softmax(slope[:, None] * z[None] - spread[None], live)


@loss(in_blocks=True, finish=_square)
def soft_sort(
  scores: ArrayLike, *, where: ArrayLike | None = None, temperature: ArrayLike = 1.0
) -> Array:
  """SoftSort: row `r` is a softmax of the distances to the score at rank `r`.

  `P[r, i] = softmax_i(-|z_(r) - z_i|)`, with `z = s / temperature` and the value `z_(r)` at
  rank `r`.

  >>> print(f"{soft_sort(jnp.array([1.0, 3.0, 2.0]), temperature=0.1)[0, 1]:.4f}")
  1.0000

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Matrices `[..., n, n]` whose rows sum to 1; columns of items that are not retrieved, and rows
    below the last rank, are 0.

  References:
    Prillo and Eisenschlos, `SoftSort <https://arxiv.org/abs/2006.16038>`_, 2020.
  """
  query = exact_query(scores, where=where)
  z, live = logits(query, temperature), query.retrieved
  _, item = sorting.order(sorting.keys(lax.stop_gradient(query.scores), live))
  return _row_softmax(-jnp.abs(take(z, item)[:, None] - z[None]), live)


def _row_softmax(z: Array, live: Array) -> Array:
  nothing = float(jnp.finfo(z.dtype).min) / 2
  chance = jax.nn.softmax(jnp.where(live[None], z, nothing), axis=-1)
  ranked = sorting.slots(live) < jnp.sum(live, dtype=jnp.int32)
  return jnp.where(ranked[:, None] & live[None], chance, 0)
