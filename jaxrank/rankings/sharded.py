"""`Sharded`, the ranking of candidates that are spread over devices.

It works inside `shard_map`. Each device has the scores, labels and mask of its own candidates. At
most the best `k` scores of each device are exchanged, and all devices get the same results.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import Cutoff, Discount, Gain, pytree
from jaxrank._core import checks, platforms, sorting
from jaxrank._core.ranked import Ranked, Ranking, memoised
from jaxrank.rankings.exact import ExactQuery

Axis = str | tuple[str, ...]


class ShardedQuery(ExactQuery):
  """A query whose items are spread over devices; sums and counts are over all of them.

  The items at the first ranks are selected from the best of each device.
  """

  name = "Sharded"

  def __init__(self, axis: Axis, *query: Any):
    self.axis = axis
    super().__init__("average", None, *query)
    # Without a static depth, some question has no static `k`, and is refused when it is asked.
    self.ranks = self.depth or 1

  def _refuse_whole_lists(self, k: Cutoff) -> None:
    """Raises `UnansweredError` unless `k` is static."""
    if not isinstance(k, int):
      self._cannot_answer("a question without a static k, such as the k of nDCG@10")

  def _sorts(self) -> bool:
    return False

  @property
  def n(self) -> int:
    """The number of items on all devices, padding included."""
    return self.labels.shape[-1] * lax.axis_size(self.axis)

  def total(self, x: Array, dtype: Any = None) -> Array:
    """The sum over all items."""
    return self._summed(lax.psum(super().total(x, dtype), self.axis))

  def largest(self, x: Array) -> Array:
    """The maximum over all items."""
    largest: Array = lax.pmax(super().largest(x), self.axis)
    return largest

  @property
  @memoised
  def _pick(self) -> Callable[[Array], Array]:
    """A function that picks the items at the first ranks from arrays of items."""
    return self._top_of(sorting.top_values(self.scores, self.keys))

  def _ranked(self, w: Array) -> Array:
    return self._pick(w)

  def best(self, gain: Gain, weights: ArrayLike | None = None, *, k: Cutoff = None) -> Array:
    """The gains of an ideal ranking, for a static `k`."""
    self._refuse_whole_lists(k)
    return super().best(gain, weights, k=k)

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`E sum_i w_i discount(r_i)` over the items with `r_i <= k`, for a static `k`."""
    self._refuse_whole_lists(k)
    if among is not None:
      self._cannot_answer("expect among some items, the ranks among these")
    return super().expect(w, discount, k=k)

  def precision(self, b: Array, *, k: Cutoff = None, **weighing: Any) -> Array:
    """The expected sum of the precisions at the ranks `r_i <= k`, for a static `k`."""
    self._refuse_whole_lists(k)
    return super().precision(b, k=k, **weighing)

  _cascade = Ranked._cascade
  before = Ranked.before
  cumulative = Ranked.cumulative
  pairs = Ranked.pairs

  def _largest_first(self, x: Array) -> Array:
    return self._top_of(lax.stop_gradient(x))(x)

  def _top_of(self, values: Array) -> Callable[[Array], Array]:
    """A function that picks the items with the largest values."""
    pick = sorting.top_over(self.axis, values, self.ranks)
    return lambda x: self._summed(pick(x))

  def _summed(self, x: Array) -> Array:
    return platforms.summed(self.name, x, self.axis)


@pytree()
@dataclasses.dataclass(frozen=True)
class Sharded(Ranking):
  """The ranking of candidates that are spread over devices, inside `shard_map`.

  For a metric at a static `k`, devices exchange sums and their best `k` scores and items; for
  reciprocal rank and hit rate, counts only. Values are those of `Exact()`, with ties averaged.
  Where equal labels stand on both sides of a cut-off in the ideal ranking, the gradient in them is
  another one-sided derivative than that of `Exact()`.
  Gradients, in labels, weights and parameters, need `check_vma=True`, the default of
  `jax.shard_map`: where JAX does not track the axis, as in `jax.pmap`, they raise `ValueError`, and
  values are the same.

  >>> import jax
  >>> from jaxrank import Sharded, evaluate
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

  def __post_init__(self) -> None:
    with checks.named("Sharded"):
      checks.axis_name("axis_name", self.axis_name)

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> ShardedQuery:
    """Ranks one query; `k` is the largest rank that will be asked for."""
    checks.axis(self.axis_name)
    check_dtype(scores)
    return ShardedQuery(self.axis_name, scores, labels, where, k)

  def anywhere(self, which: Array) -> Array:
    """Whether an item of one query is chosen, on any device."""
    count: Array = lax.psum(jnp.any(which).astype(jnp.int32), self.axis_name)
    return count > 0


def check_dtype(scores: Array) -> None:
  """Raises `TypeError` for scores whose order does not fit keys of 32 bits on all devices."""
  if scores.dtype.itemsize > 4 or scores.dtype in (jnp.int32, jnp.uint32):
    raise TypeError(
      f"scores of {scores.dtype} on many devices have no common key of 32 bits; convert them to "
      "float32, or gather them and rank with Exact()."
    )
