"""Candidates of one query spread over devices: exact metrics, and no score is gathered.

All of it runs inside `shard_map`. Each device has the scores, labels and mask of its own part of
the candidates; results are the same on every device.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, batching, checks, sorting
from jaxrank._core.ranked import shared
from jaxrank._core.types import pytree
from jaxrank.rankings.exact import ExactQuery
from jaxrank.ranks import TargetRanks
from jaxrank.ranks.target import checked_scores, checked_tasks, counted

Axis = str | tuple[str, ...]


class ShardedQuery(ExactQuery):
  """A query of which each device has some items. Sums and counts are those of all devices.

  The items at the first ranks are the best of the best of each device.
  """

  def __init__(self, axis: Axis, *query: Any):
    self.axis, depth = axis, query[-1]
    if depth is None:
      raise ValueError(
        "Sharded ranks down to a static k: pass one, as in nDCG@10, or ask for reciprocal_rank "
        "or hit_rate, which count. ERR, R-precision, AUC, correlations and curves need whole lists."
      )
    self.ranks: int = depth
    super().__init__("average", None, *query)

  def _sorts(self) -> bool:
    return False

  @property
  def n(self) -> int:
    """The padded number of items on all devices."""
    return self.labels.shape[-1] * lax.axis_size(self.axis)

  def total(self, x: Array, dtype: Any = None) -> Array:
    """The sum over all items."""
    return lax.psum(super().total(x, dtype), self.axis)

  def most(self, x: Array) -> Array:
    """The maximum over all items."""
    return lax.pmax(super().most(x), self.axis)

  @property
  @shared
  def selected(self) -> Any:
    """Picks the items at the first ranks."""
    values = sorting.top_values(self.scores, self.keys)
    return sorting.top_over(self.axis, values, self.ranks)

  def _ranked(self, w: Array) -> Array:
    return self.selected(w)

  def _best(self, x: Array) -> Array:
    return sorting.top_over(self.axis, lax.stop_gradient(x), self.ranks)(x)


@pytree()
@dataclasses.dataclass(frozen=True)
class Sharded:
  """The ranking of candidates that are spread over devices, inside `shard_map`.

  Metrics at a static `k` exchange the best `k` scores of each device, and sums; reciprocal rank
  and hit rate only counts. Values are those of `Exact()`, ties averaged.

  >>> import jax
  >>> from jaxrank import evaluate
  >>> mesh = jax.make_mesh((1,), ("items",), axis_types=(jax.sharding.AxisType.Auto,))
  >>> @jax.shard_map(mesh=mesh, in_specs=jax.P(None, "items"), out_specs=jax.P())
  ... def values(scores, labels):
  ...   return evaluate("P@2 RR", scores, labels, ranking=Sharded("items"))
  >>> for name, value in values(jnp.array([[3.0, 2.0, 1.0]]), jnp.array([[0, 1, 1]])).items():
  ...   print(name, value)
  P@2 [0.5]
  RR [0.5]

  Attributes:
    axis_name: The mesh axes that candidates are spread over.
  """

  axis_name: Axis

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> ShardedQuery:
    """Ranks one query; `k` is the largest rank that will be asked for."""
    checks.axis(self.axis_name)
    _check_dtype(scores)
    return ShardedQuery(self.axis_name, scores, labels, where, k)

  def any(self, which: Array, axis: int | None = None) -> Array:
    """Whether there is one on any device."""
    return lax.psum(jnp.any(which, axis).astype(jnp.int32), self.axis_name) > 0


def top(
  scores: ArrayLike, k: int, axis_name: Axis, *, where: ArrayLike | None = None
) -> tuple[Array, Array]:
  """The best `k` candidates of each query, of all devices.

  Args:
    scores: `[..., n]` on each device.
    k: How many; at most as many as there are.
    axis_name: The mesh axes that candidates are spread over.
    where: `[..., n]`, False on padding.

  Returns:
    Scores and indices `[..., k]`, best first, ties by index. Devices have `n` indices each. Where
    too few are retrieved: -inf and -1.

  Raises:
    ValueError: if `k` is not from 1 to the number of candidates, padding included.
    TypeError: for scores of 64 bits or integers of 32, or a `k` that is none.
  """
  checks.axis(axis_name)
  scores = checked_scores("sharded.top", scores)
  where = checks.mask(where, scores)
  _check_dtype(scores)
  n = scores.shape[-1]
  if checks.count("k", k) > n * lax.axis_size(axis_name):
    raise ValueError(f"k must be from 1 to {n * lax.axis_size(axis_name)} candidates, got {k}.")

  def query(scores: Array, where: Array) -> tuple[Array, Array]:
    valid = where & (scores == scores)
    scores = arithmetic.floating(scores)
    pick = sorting.top_over(axis_name, sorting.top_values(scores, sorting.keys(scores, valid)), k)
    index = jnp.where(
      valid & (scores > -jnp.inf), lax.axis_index(axis_name) * n + sorting.slots(scores), -1
    )
    return pick(jnp.where(valid, scores, -jnp.inf)), pick(index)

  return batching.over_queries(query, scores.ndim - 1)(scores, where)


def target_ranks(
  scores: ArrayLike, targets: ArrayLike, axis_name: Axis, *, where: ArrayLike | None = None
) -> TargetRanks:
  """Ranks one target a query among its candidates on all devices, as `ranks.from_scores`.

  Only counts are exchanged, and the score of the target.

  Args:
    scores: `[..., n]` on each device; NaN leaves a candidate out.
    targets: `[...]`, the index of each target among the candidates of all devices, of which each
      has `n`; the same on every device.
    axis_name: The mesh axes that candidates are spread over.
    where: `[..., n]`, False on padding and on other known answers, True at the target.

  Returns:
    Ranks `[...]`, int32.

  Raises:
    ValueError: if shapes do not go together, or targets differ between devices.
    TypeError: if `where` is not boolean, or `targets` are not integers.
  """
  checks.axis(axis_name)
  scores, targets, where = checked_tasks("sharded.target_ranks", scores, targets, where)
  checks.same_on_devices("targets", targets, axis_name)
  targets -= lax.axis_index(axis_name) * scores.shape[-1]
  return counted(scores, targets, where, lambda x: lax.psum(x, axis_name))


def _check_dtype(scores: Array) -> None:
  if scores.dtype.itemsize > 4 or scores.dtype in (jnp.int32, jnp.uint32):
    raise TypeError(
      f"Scores of {scores.dtype} on many devices have no common key of 32 bits; convert them to "
      "float32, or gather them and rank with Exact()."
    )
