"""Aliases, protocols and the dataclasses that are pytrees, shared by every floor."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import jax
from jax import Array
from jax.typing import ArrayLike

Gain = Callable[[Array], Array]
Discount = Callable[[Array], Array]
Cutoff = int | Array | None

_Class = TypeVar("_Class", bound=type)


def pytree(*leaves: str) -> Callable[[_Class], _Class]:
  """Registers a frozen dataclass as a pytree with some of its fields as leaves.

  Its structure tells its class. Those of `jax.tree_util.register_dataclass` do not, up to jax 0.12
  at least: two classes with equal other fields have equal structures, so that `jit` may run for
  one of them what it compiled for the other.
  """

  def register(cls: _Class) -> _Class:
    names = (field.name for field in dataclasses.fields(cls))
    static = [name for name in names if name not in leaves]

    def flatten(x: Any) -> Any:
      children = [(jax.tree_util.GetAttrKey(name), getattr(x, name)) for name in leaves]
      return children, (cls, *(getattr(x, name) for name in static))

    def unflatten(known: Any, children: Any) -> Any:
      # Not through __init__: what stands in for a leaf need not pass its checks.
      x: Any = object.__new__(cls)
      values = zip((*leaves, *static), (*children, *known[1:]), strict=True)
      for name, value in values:
        object.__setattr__(x, name, value)
      return x

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls

  return register


class Ranked(Protocol):
  """One query after ranking: all that a metric may ask of it.

  Weights `w`, relevances `b` and chances are `[n]`, in an order of the query's own that all its
  arrays share; answers are scalars unless said otherwise.

  Attributes:
    grades: `[n]`, labels as floats, 0 under the mask.
    labels: `[n]`.
    where: `[n]`, False on padding.
    retrieved: `[n]`, False on padding and at -inf.
  """

  grades: Array
  labels: Array
  where: Array
  retrieved: Array
  dtype: Any

  @property
  def n(self) -> int:
    """The padded number of items."""
    ...

  def relevant(self, rel: ArrayLike | None) -> Array:
    """Which valid items are relevant, `[n]`."""
    ...

  def count(self, chosen: Array) -> Array:
    """How many items are chosen, as a float."""
    ...

  def cutoff(self, k: Cutoff) -> Array:
    """`k` as a float; the number of valid items for None."""
    ...

  def gain(self, gain: Gain, weights: Array | None) -> Array:
    """Gains times weights of the valid items, `[n]`."""
    ...

  def own(self, x: Array) -> Array:
    """What the caller gave for each item, `[n]`, in the order of the query."""
    ...

  def stop(self, max_label: ArrayLike | None) -> Array:
    """The chance of each item to satisfy, `[n]`; None is the best grade of the query."""
    ...

  def max_label(self, given: ArrayLike | None) -> Array:
    """The grade given, or the best of the query."""
    ...

  def best(self, gain: Gain, weights: Array | None) -> Array:
    """The same, best first."""
    ...

  def best_grades(self) -> Array:
    """Labels, best first."""
    ...

  def expect(self, w: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E sum w_i discount(r_i)` over the items with `r_i <= k`."""
    ...

  def cascade(
    self, stop: Array, discount: Discount, *, k: Cutoff = None, worth: Array | None = None
  ) -> Array:
    """`E discount(r)` of the item where a user stops, who stops at each with chance `stop`.

    Given a `worth` of each item: `E sum worth_i discount(r_i)` over all items that the user gets
    to, that of the last included.
    """
    ...

  def precision(self, b: Array, *, k: Cutoff = None) -> Array:
    """The expected sum of the precisions at the ranks `r_i <= k` of the relevant items."""
    ...

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first relevant item."""
    ...

  def ahead(self, b: Array, others: Array) -> Array:
    """The expected number of pairs of a `b` item with one of the `others` ahead of it."""
    ...

  def position(self) -> Array:
    """The expected place of each item, counted from 0, `[n]`."""
    ...

  def exact(self, what: str) -> Any:
    """The query as `Exact` ranks it, or an error that names `what` needs it."""
    ...


class Ranking(Protocol):
  """Orders one query, or smooths its order."""

  def __call__(self, scores: Array, labels: Array, where: Array, *, k: int | None = None) -> Ranked:
    """Ranks scores `[n]`; `k` is the largest rank that will be asked for, 0 for none."""
    ...
