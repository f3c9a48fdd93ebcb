"""Statistics of ranks, averaged over the orders of tied items; `metrics` uses them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank.ranks import medians
from jaxrank.ranks._statistic import Tasks
from jaxrank.ranks.powers import power

# Up to this rank, functions of ranks are summed one by one, and then by the midpoint rule.
_HEAD = 16


def reciprocal(tasks: Tasks) -> Array:
  """The mean of `1 / r` over the ranks of each target, `[n]`."""
  tied = jax.vmap(_sum_of_reciprocals)(tasks.best, tasks.worst) / tasks.width
  return jnp.where(tasks.width > 1, tied, 1 / tasks.ranks)


def _sum_of_reciprocals(best: Array, worst: Array) -> Array:
  j = jnp.arange(1, _HEAD + 1, dtype=best.dtype)
  head = jnp.sum(jnp.where((j >= best) & (j <= worst), 1 / j, 0))
  first = jnp.maximum(best, _HEAD + 1) - 0.5
  length = jnp.maximum(worst + 0.5 - first, 0)
  last = first + length
  return head + jnp.log1p(length / first) + (1 / last**2 - 1 / first**2) / 24


def log_geometric_mean(tasks: Tasks) -> Array:
  """The logarithm of the mean of `prod_i r_i^{p_i}` over all orders."""
  tied = jax.vmap(power)(tasks.worst, tasks.share, tasks.best).log_mean
  return jnp.sum(jnp.where(tasks.width > 1, tied, tasks.share * jnp.log(tasks.ranks)))


def median(tasks: Tasks) -> Array:
  """The median of the ranks of all orders together."""
  of_all = _middle(tasks, lambda x: _shares(tasks, jnp.zeros_like(x), x))
  single = medians.weighted_median(tasks.ranks, tasks.share)
  return jnp.where(jnp.any(tasks.width > 1), of_all, single)


def median_distance(tasks: Tasks) -> Array:
  """The median of the distances from the median, of the ranks of all orders together."""
  center = median(tasks)
  of_all = _middle(tasks, lambda x: _shares(tasks, center - x, center + x))
  single = medians.weighted_median(jnp.abs(tasks.ranks - center), tasks.share)
  return jnp.where(jnp.any(tasks.width > 1), of_all, single)


def _shares(tasks: Tasks, low: Array, high: Array) -> Array:
  """The weight of the ranks from `low` to `high`."""
  last, first = jnp.minimum(tasks.worst, high), jnp.maximum(tasks.best, low)
  inside = jnp.clip(jnp.floor(last) - jnp.ceil(first) + 1, 0, tasks.width)
  return jnp.sum(tasks.share * inside / tasks.width)


def _middle(tasks: Tasks, below: Callable[[Array], Array]) -> Array:
  """The median of a multiple of 1/2 by its distribution function, to the right of 0."""
  # Sums of weights are rounded, so that a sum that is close to 0.5 counts as half.
  slack = 8 * jnp.finfo(tasks.best.dtype).eps
  largest = jnp.max(tasks.worst).astype(jnp.int32)

  def least(enough: Callable[[Array], Array]) -> Array:
    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
      low, high = ends
      mid = low + (high - low) // 2
      reached = enough(below(0.5 * mid.astype(tasks.best.dtype)))
      return jnp.where(reached, low, mid + 1), jnp.where(reached, mid, high)

    start = jnp.zeros_like(largest), 2 * largest
    twice: Array = lax.fori_loop(0, 32, halve, start)[1]
    return 0.5 * twice.astype(tasks.best.dtype)

  return 0.5 * (least(lambda x: x >= 0.5 - slack) + least(lambda x: x > 0.5 + slack))
