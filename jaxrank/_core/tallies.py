"""Counts of items of a whole list, and the search for NaN, in one sum over the items."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxrank._core.memoised import current_trace

# Lists shorter than this have two counts in one float32, which holds integers up to its square.
_BASE = 4096


class Tally:
  """The first count that the kernel of one query asks for, and what the same sum tells besides.

  Attributes:
    nans: `[n]`, the valid items with a NaN among their scores and labels.
    has_nan: Whether there is one; None before the count.
  """

  has_nan: Array | None = None
  _counted: tuple[Array, Array] | None = None

  def __init__(self, nans: Array):
    self.nans, self._trace = nans, current_trace()

  def is_open(self) -> bool:
    """Whether the count may be taken: there was none, and the kernel is in no loop or branch."""
    return self.has_nan is None and self._trace == current_trace()

  def count(
    self, chosen: Array, retrieved: Array, total: Callable[[Array], Array], dtype: Any
  ) -> Array:
    """The number of chosen items that are retrieved; NaN if an item has a NaN."""
    base = _BASE if chosen.shape[-1] < _BASE else 0
    others, found = (jnp.asarray(x, dtype) for x in (base, base + 1))
    worth = jnp.where(chosen, jnp.where(retrieved, found, others), jnp.zeros_like(found))
    sum_ = total(jnp.where(self.nans, jnp.nan, worth))
    self.has_nan = jnp.isnan(sum_)
    if not base:
      return sum_
    every = jnp.floor(sum_ / base)
    self._counted = chosen, every
    return sum_ - base * every

  def known(self, chosen: Array) -> Array | None:
    """The number of chosen items, retrieved or not, if the count told it."""
    if self._counted is None or self._counted[0] is not chosen or self._trace != current_trace():
      return None
    return self._counted[1]
