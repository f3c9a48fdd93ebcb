"""Counts of the numbers above many thresholds, and of those that reach them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.platforms import primitive

# Two counts share a word on CPU: up to so many columns are added in one expression.
_BITS = 16
_ADDED = 16

# The widths of slices; a chunk of a corpus has a multiple of the last of them.
_WIDTHS = (512, 256, 128)

_Counts = tuple[Array, Array]


@primitive
def counts_above(threshold: Array, x: Array) -> _Counts:
  """How many of `x`, `[q, c]`, are above each threshold, `[q, t]`, and how many not below it."""
  limit, x = threshold[:, :, None], x[:, None]
  return jnp.sum(x > limit, axis=2, dtype=jnp.int32), jnp.sum(x >= limit, axis=2, dtype=jnp.int32)


@counts_above.on(
  "cpu",
  gain="counts above 10 thresholds [100, 10240]: 43",
  when=lambda threshold, x: x.shape[1] % _WIDTHS[-1] == 0,
)
def _in_words(threshold: Array, x: Array) -> _Counts:
  limit = threshold[:, :, None]

  def word(part: Array) -> Array:
    above = (part[:, None] > limit).astype(jnp.int32)
    return above + jnp.where(part[:, None] >= limit, np.int32(1 << _BITS), np.int32(0))

  def sums(x: Array) -> _Counts:
    total = _added(word, x)
    return total & ((1 << _BITS) - 1), total >> _BITS

  counts: _Counts = _in_pieces(sums, x, _ADDED * _width(x.shape[1]))
  return counts


def _added(term: Callable[[Array], Array], x: Array) -> Array:
  """The sum of `term` over the columns of `x`."""
  # XLA for CPU turns sums of slices, but not reductions, into vector instructions.
  width = _width(x.shape[1])
  cuts = range(0, x.shape[1], width)
  slices = (term(lax.slice_in_dim(x, cut, cut + width, axis=1)) for cut in cuts)
  total = lax.optimization_barrier(functools.reduce(jnp.add, slices))
  return jnp.sum(total, axis=-1, dtype=total.dtype)


def _in_pieces(sums: Callable[[Array], Any], x: Array, step: int) -> Any:
  """The total of `sums` of pieces of up to `step` columns of `x`."""
  whole, rest = divmod(x.shape[1], step)
  if whole + (rest > 0) == 1:
    return sums(x)

  def body(i: Array, state: Any) -> Any:
    return jax.tree.map(jnp.add, state, sums(lax.dynamic_slice_in_dim(x, i * step, step, axis=1)))

  state = sums(x[:, whole * step :]) if rest else jax.tree.map(jnp.zeros_like, sums(x[:, :step]))
  return lax.fori_loop(0, whole, body, state)


def _width(columns: int) -> int:
  """The widest slice of which the columns have a whole number."""
  return next(width for width in _WIDTHS if columns % width == 0)
