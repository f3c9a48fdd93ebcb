"""Sums over all pairs of the items of a query, in O(n^2) time and O(n) memory.

On CPU the pairs are computed in blocks of rows. A GPU, which starts each step of a loop separately,
takes all pairs in one kernel for each sum. XLA stores no matrix for a sum along the rows of its own
matrix, and stores one that several sums or queries share: the gain of the variant for a GPU is the
memory that this takes. `losses` and the pairwise losses of `jaxrank.interop.rax` take sums of
functions with derivatives, and `rankings.pairs` takes counts.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from jaxrank._core import checks, sorting
from jaxrank._core.platforms import primitive

# Number of pairs held in memory at a time on CPU, over all queries of a batch.
_PAIRS = 2**19

# The longest list whose pairs the backward pass may find stored.
_STORED = 256

# On a CPU, XLA adds up so many terms in the loop that computes them, and stores those of longer
# sums. It computes a key anew for each of 15 terms, and stores the keys that more terms share.
ADDED_AT_ONCE, _SLICES = 32, 16

# The features of items: arrays `[n]`, or the numbers of one item.
Items = Sequence[Array]

# An elementwise function of the features of two items, which returns a tree.
_Pair = Callable[..., Any]


def rows_of(scores: Any) -> int:
  """How many rows of pairs of each query to hold in memory at a time, for all scores of a call.

  A ranked query has their shape.
  """
  return max(1, _PAIRS // max(1, checks.size(scores)))


def total(pair: _Pair, items: tuple[Array, ...], rows: int) -> Any:
  """`sum_i sum_j pair(item_i, item_j)` over all items `i` and `j` of a query.

  Args:
    pair: Function of the features of two items, the upper and the lower one.
    items: Features of the items, `[n]` each, not all of which may be NaN. Padding is 0 or False,
      and `pair` must be 0 on it.
    rows: Number of items in a block on CPU, each of which is paired with all `n` items.

  Returns:
    The sums, a tree of scalars.
  """
  if items[0].shape[0] <= min(rows, _STORED):
    # To compute the pairs again in the backward pass doubles the time of lists of 100.
    return _sums(pair, items, items)
  one = tuple(x[0] for x in items)
  pair, constants = jax.closure_convert(pair, one, one)
  return sum_of_pairs(items, tuple(constants), pair=pair, rows=rows)


def _sums(pair: _Pair, upper: Items, lower: Items, constants: Items = ()) -> Any:
  """`sum_i sum_j pair(upper_i, lower_j, *constants)`."""
  fixed = (None,) * len(constants)
  of_upper = jax.vmap(pair, (None, 0, *fixed))
  pairs = jax.vmap(of_upper, (0, None, *fixed))(tuple(upper), tuple(lower), *constants)
  return jax.tree.map(jnp.sum, pairs)


@primitive
def sum_of_pairs(
  items: tuple[Array, ...], constants: tuple[Array, ...], *, pair: _Pair, rows: int
) -> Any:
  """`sum_i sum_j pair(item_i, item_j, *constants)`."""
  del rows
  return _sums(pair, items, items, constants)


@sum_of_pairs.on("cpu", gain="gradient of pairwise_logistic [128, 200]: 3.5")
def _sum_in_blocks(
  items: tuple[Array, ...], constants: tuple[Array, ...], *, pair: _Pair, rows: int
) -> Any:
  """The backward pass computes each block again, so that no block is stored."""
  n = items[0].shape[0]
  block = jax.checkpoint(lambda upper: _sums(pair, upper, items, constants))
  if rows >= n:
    return block(items)
  padded = [jnp.pad(x, (0, -n % rows)).reshape(-1, rows) for x in items]
  return jax.tree.map(functools.partial(jnp.sum, axis=0), lax.map(block, padded))


@sum_of_pairs.on("gpu", gain="memory of the gradient of pairwise_logistic [32, 1000]: 250")
def _sum_at_once(
  items: tuple[Array, ...], constants: tuple[Array, ...], *, pair: _Pair, rows: int
) -> Any:
  del rows
  return _at_once(pair, _of_each_query(items), constants)


def _of_each_query(items: Items) -> tuple[Array, ...]:
  """The same items, of which the queries of a batch share no feature, whose matrix is stored."""
  numbers = [x for x in items if jnp.issubdtype(x.dtype, jnp.inexact)]
  # Every item has a number that is not NaN, but XLA does not know it.
  known = functools.reduce(jnp.logical_or, (x == x for x in numbers))
  return tuple(jnp.where(known, x, jnp.zeros_like(x)) for x in items)


def _one_sum(pair: _Pair, index: int, *given: Items) -> Array:
  """One leaf of `_sums`."""
  sums: list[Array] = jax.tree.leaves(_sums(pair, *given))
  return sums[index]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _at_once(pair: _Pair, items: tuple[Array, ...], constants: tuple[Array, ...]) -> Any:
  """Computes the pairs anew for each sum: what several have in common is stored."""
  one = tuple(x[0] for x in items)
  like, sums = jax.eval_shape(pair, one, one, *constants), []
  for index in range(len(jax.tree.leaves(like))):
    part = _one_sum(pair, index, items, items, constants)
    part, items = lax.optimization_barrier((part, items))
    sums.append(part)
  return jax.tree.unflatten(jax.tree.structure(like), sums)


@functools.partial(_at_once.defjvp, symbolic_zeros=True)
def _at_once_jvp(pair: _Pair, primals: Any, tangents: Any) -> tuple[Any, Any]:
  """Adds up the slopes of the pairs of each item, as their upper item and as their lower one.

  A transposed sum would add up one matrix along its rows and its columns, which XLA stores.
  """
  items, constants = primals
  known, moves = (*items, *constants), (*tangents[0], *tangents[1])
  places = [i for i, move in enumerate(moves) if not isinstance(move, SymbolicZero)]

  def turned(mine: Items, other: Items, *constants: Array) -> Any:
    return pair(other, mine, *constants)

  def slopes(role: _Pair, index: int, others: Items) -> list[Array]:
    def one_sum(moving: list[Array]) -> Array:
      given = dict(zip(places, moving, strict=True))
      every = [given.get(i, x) for i, x in enumerate(known)]
      # A constant counts once, in the pairs of upper items.
      fixed = every[len(items) :] if role is pair else constants
      return _one_sum(role, index, every[: len(items)], others, fixed)

    by_array: list[Array] = jax.grad(one_sum)([known[i] for i in places])
    return by_array

  value = _at_once(pair, items, constants)
  sums, others = lax.optimization_barrier((jax.tree.leaves(value), items))
  changes = []
  for index, one in enumerate(sums):
    change = jnp.zeros_like(one)
    for role in (pair, turned):
      by_array, others = lax.optimization_barrier((slopes(role, index, others), others))
      for i, slope in zip(places, by_array, strict=True):
        change += jnp.sum(slope * moves[i])
    changes.append(change)
  tree = jax.tree.structure(value)
  return jax.tree.unflatten(tree, sums), jax.tree.unflatten(tree, changes)


def counts(count: _Pair, upper: tuple[Array, ...], lower: tuple[Array, ...]) -> Array:
  """`sum_i count(upper_i, lower_j)` for each item `j`, int32; the sum of these for few items."""
  by_item = counts_by_item(upper, lower, count=count)
  return jnp.sum(by_item, dtype=jnp.int32) if len(lower[0]) <= ADDED_AT_ONCE else by_item


@primitive
def counts_by_item(upper: tuple[Array, ...], lower: tuple[Array, ...], *, count: _Pair) -> Array:
  """`sum_i count(upper_i, lower_j)` for each item `j`, int32."""
  pairs = count([x[:, None] for x in upper], [x[None] for x in lower])
  return jnp.sum(pairs, axis=0, dtype=jnp.int32)


@counts_by_item.on(
  "cpu",
  gain="Kendall's tau [100, 100]: 8",
  when=lambda upper, lower, count: len(lower[0]) > ADDED_AT_ONCE,
)
def _counts_in_slices(upper: tuple[Array, ...], lower: tuple[Array, ...], *, count: _Pair) -> Array:
  n = len(lower[0])
  slices = max(_SLICES, -(-n // ADDED_AT_ONCE))
  rows = -(-n // slices)
  padded = [jnp.pad(x, (0, slices * rows - n), constant_values=sorting.MASKED) for x in upper]
  parts = (
    count([x[start : start + rows, None] for x in padded], [x[None] for x in lower])
    for start in range(0, slices * rows, rows)
  )
  return jnp.sum(functools.reduce(operator.add, parts), axis=0, dtype=jnp.int32)
