"""Candidates spread over devices: the best `k` of all devices, and ranks of targets.

The functions work inside `shard_map`. Each device has the scores and the mask of its own
candidates, and all devices get the same results. `jaxrank.Sharded` ranks such candidates for
metrics. Results do not depend on whether JAX tracks what varies along the axis, with
`check_vma=True`; gradients need that.
"""

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, batching, checks, platforms, sorting
from jaxrank.rankings.sharded import Axis, check_dtype
from jaxrank.ranks import TargetRanks
from jaxrank.ranks.target import checked_scores, checked_tasks, counted

__all__ = [
  "target_ranks",
  "top",
]


def top(
  scores: ArrayLike, k: int, axis_name: Axis, *, where: ArrayLike | None = None
) -> tuple[Array, Array]:
  """The best `k` candidates of each query among those of all devices.

  Args:
    scores: `[..., n]` on each device.
    k: How many; at most as many as there are.
    axis_name: The mesh axes that candidates are spread over.
    where: `[..., n]`, False on padding.

  Returns:
    Scores and indices `[..., k]`, best first, ties by index. Indices count the candidates of all
    devices, `n` for each device. Past the last retrieved candidate they are -inf and -1. For a
    query with a NaN score they are NaN and -1.

  Raises:
    ValueError: if `k` is not from 1 to the number of candidates, padding included, there is no such
      mesh axis, or a gradient is taken where JAX does not track the axis, in `jax.pmap` or with
      `check_vma=False`.
    TypeError: if scores have 64 bits or are integers of 32, or `k` is not a Python int.
  """
  with checks.named("sharded.top"):
    checks.axis(axis_name)
    scores = checked_scores(scores)
    n = scores.shape[-1]
    where = checks.mask(where, scores)
    check_dtype(scores)
    if checks.count("k", k) > n * lax.axis_size(axis_name):
      raise ValueError(f"k must be from 1 to {n * lax.axis_size(axis_name)} candidates, got {k}.")

  def query(scores: Array, where: Array) -> tuple[Array, Array]:
    isnan = where & (scores != scores)
    poisoned = lax.psum(jnp.sum(isnan, dtype=jnp.int32), axis_name) > 0
    valid = where & ~isnan
    scores = arithmetic.floating(scores)
    pick = sorting.top_over(axis_name, sorting.top_values(scores, sorting.keys(scores, valid)), k)
    index = jnp.where(
      valid & (scores > -jnp.inf), lax.axis_index(axis_name) * n + sorting.slots(scores), -1
    )
    best, at = pick(jnp.where(valid, scores, -jnp.inf)), pick(index)
    return jnp.where(poisoned, jnp.nan, best), jnp.where(poisoned, -1, at)

  best: tuple[Array, Array] = batching.over_queries(query, scores.ndim - 1)(scores, where)
  return platforms.summed("sharded.top", best, axis_name)


def target_ranks(
  scores: ArrayLike, targets: ArrayLike, axis_name: Axis, *, where: ArrayLike | None = None
) -> TargetRanks:
  """Ranks one target per query among its candidates on all devices, as `ranks.from_scores` does.

  Devices exchange counts and the score of the target only. Ranks are integers, without derivatives,
  and do not need `check_vma=True`.

  Args:
    scores: `[..., n]` on each device.
    targets: `[...]`, the index of each target among the candidates of all devices, of which each
      has `n`; the same on every device.
    axis_name: The mesh axes that candidates are spread over.
    where: `[..., n]`, False on padding and on other known answers, True at the target.

  Returns:
    Ranks `[...]`, int32.

  Raises:
    ValueError: if shapes do not go together, targets may differ between devices, or there is no
      such mesh axis.
    TypeError: if `where` is not boolean, or `targets` are not integers.
  """
  with checks.named("sharded.target_ranks"):
    checks.axis(axis_name)
    scores, targets, where = checked_tasks(scores, targets, where)
    checks.same_on_devices("targets", targets, axis_name)
  targets -= lax.axis_index(axis_name) * scores.shape[-1]
  return counted(scores, targets, where, lambda x: lax.psum(x, axis_name))
