"""`Catalogue`, how often each item of a catalogue is recommended, over any number of lists."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import pytree
from jaxrank._core import checks
from jaxrank._core._jax import is_traced
from jaxrank._core.batching import replicated


@pytree("count", "invalid")
@dataclasses.dataclass(frozen=True)
class CatalogueState:
  """The state of a `Catalogue`.

  Attributes:
    count: `[items]`, uint32, how often each item was recommended.
    invalid: `[]`, uint32, how many ids were of no item.
  """

  count: Array
  invalid: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Catalogue:
  """How recommendations spread over a catalogue, over any number of batches and devices.

  `init`, `update`, `merge` and `all_reduce` are pure functions for `jit` and `lax.scan`; `compute`
  takes a state outside `jit`.

  >>> catalogue = Catalogue(4, popularity=jnp.array([0.4, 0.3, 0.2, 0.1]))
  >>> state = catalogue.update(catalogue.init(), jnp.array([[0, 1], [0, 2]]))
  >>> print({name: f"{value:.4f}" for name, value in catalogue.compute(state).items()})
  {'coverage': '0.7500', 'gini': '0.3750', 'entropy': '1.0397', 'mean_popularity': '0.3250'}

  Args:
    items: The number of items, at least 1; their ids count from 0.
    popularity: `[items]`, the popularity of each item, in any unit; None is unknown.

  Raises:
    ValueError: if `items` is less than 1, or `popularity` has another length.
    TypeError: if an argument has a wrong type.
  """

  items: int
  popularity: ArrayLike | None = None

  def __post_init__(self) -> None:
    with checks.named("Catalogue"):
      object.__setattr__(self, "items", checks.count("items", self.items))
      if self.popularity is not None:
        popularity = checks.array("popularity", self.popularity)
        if popularity.shape != (self.items,):
          raise ValueError(f"popularity must be [{self.items}], got {list(popularity.shape)}.")

  def init(self, *, axis_name: str | tuple[str, ...] | None = None) -> CatalogueState:
    """The state before the first list.

    Args:
      axis_name: Inside `shard_map`, the mesh axes over which lists are split. Each device then has
        a state of its own until `all_reduce`, also with `check_vma=False` and in `jax.pmap`.

    Returns:
      The state.

    Raises:
      ValueError: if there is no such axis.
    """
    state = CatalogueState(jnp.zeros(self.items, jnp.uint32), jnp.zeros((), jnp.uint32))
    if axis_name is None:
      return state
    with checks.named("Catalogue.init"):
      checks.axis(axis_name)
    apart: CatalogueState = lax.pcast(state, axis_name, to="varying")
    return apart

  def update(self, state: CatalogueState, ids: ArrayLike) -> CatalogueState:
    """The state after more lists.

    Args:
      state: State of `init`, `update` or `merge`.
      ids: `[..., k]`, integers, the items that each list recommends; -1 is no item. Any other id
        that is out of range makes `compute` raise an error.

    Returns:
      The state.

    Raises:
      TypeError: if the ids are not integers.
    """
    with checks.named("Catalogue.update"):
      self._check_own(state)
      ids = checks.array("ids", ids)
      if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise TypeError(f"ids must be integers, -1 for no item, got {ids.dtype}.")
    updated: CatalogueState = _updated(state, ids)
    return updated

  def merge(self, a: CatalogueState, b: CatalogueState) -> CatalogueState:
    """The state of the lists of two states."""
    with checks.named("Catalogue.merge"):
      self._check_own(a)
      self._check_own(b)
    return CatalogueState(a.count + b.count, a.invalid + b.invalid)

  def all_reduce(self, state: CatalogueState, axis_name: str | tuple[str, ...]) -> CatalogueState:
    """The state of the lists of all devices, inside `shard_map`.

    With `check_vma=False`, and in `jax.pmap`, the counts are the same, and a second reduction is
    not seen.

    Args:
      state: State of the lists of each device.
      axis_name: The mesh axes over which lists are split.

    Returns:
      The state of all lists, the same on every device.

    Raises:
      ValueError: if there is no such axis, or the state is the same on all devices already.
    """
    with checks.named("Catalogue.all_reduce"):
      self._check_own(state)
      checks.axis(axis_name)
      if checks.reduced(state.count, axis_name):
        raise ValueError(
          f"the state is the same on all devices along {axis_name!r}: another sum would count the "
          "lists again; start with init(axis_name=...)."
        )
    reduced: CatalogueState = lax.psum(state, axis_name)
    return reduced

  def compute(self, state: CatalogueState) -> dict[str, float]:
    """How the recommendations spread over the items.

    With the counts `c` in ascending order, their sum `m` and the number of items `n`:

    * `coverage`: the share of the items that were recommended at all;
    * `gini`: `sum_i (2 i - n - 1) c_i / (n m)`, over all items: 0 if all were recommended alike;
    * `entropy`: `-sum_i (c_i / m) log(c_i / m)`, with the natural logarithm;
    * `mean_popularity`: the mean popularity of the recommendations, if popularity is known.

    Returns:
      Floats by name; all are 0.0 without recommendations.

    Raises:
      ValueError: if there were ids of no item.
      TypeError: if it is called inside `jit`.
    """
    with checks.named("Catalogue.compute"):
      self._check_own(state)
      if is_traced(state.count):
        raise TypeError("the result is Python floats; call it outside jit.")
      if state.invalid:
        raise ValueError(
          f"{int(state.invalid)} ids were of no item: they must be from 0 to {self.items - 1}, or "
          "-1 for no item."
        )
    counts = np.sort(np.asarray(state.count, np.float64))
    share = counts / max(counts.sum(), 1)
    rank = np.arange(1, self.items + 1)
    values = {
      "coverage": np.mean(counts > 0),
      "gini": np.sum((2 * rank - self.items - 1) * share) / self.items,
      "entropy": -np.sum(share * np.log(np.where(share > 0, share, 1))),
    }
    if self.popularity is not None:
      counts = np.asarray(state.count, np.float64)
      popularity = np.asarray(self.popularity, np.float64)
      # An item that is never recommended does not matter, nor does a NaN as its popularity.
      values["mean_popularity"] = np.sum(counts * np.where(counts > 0, popularity, 0)) / max(
        counts.sum(), 1
      )
    return {name: float(value) + 0.0 for name, value in values.items()}

  def _check_own(self, state: CatalogueState) -> None:
    known = isinstance(state, CatalogueState)
    if not known or jnp.shape(state.count) != (self.items,):
      got = f"one of counts {list(jnp.shape(state.count))}" if known else checks.told(state)
      raise ValueError(
        f"the state must be that of a catalogue of {self.items} items, got {got}; use the "
        "catalogue that made it."
      )


@jax.jit
def _updated(state: CatalogueState, ids: Array) -> CatalogueState:
  flat = replicated(ids)[0].reshape(-1)
  items = state.count.shape[0]
  valid = (flat >= 0) & (flat < items)
  none = flat == -1 if jnp.issubdtype(ids.dtype, jnp.signedinteger) else jnp.zeros_like(valid)
  slot = jnp.where(valid, flat.astype(jnp.int32), 0)
  return CatalogueState(
    state.count.at[slot].add(valid.astype(jnp.uint32)),
    state.invalid + jnp.sum(~valid & ~none, dtype=jnp.uint32),
  )
