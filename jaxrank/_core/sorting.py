"""Sorting keys, orders, top k, inversions and permutations: the only module that sorts.

Scores become int32 keys of the same order, which compare alike on every backend: -0.0 equals 0.0,
denormals differ from 0, and masked items have the lowest key. A key and its index then form one
64-bit word, because XLA sorts a single integer operand several times faster than floats or two
operands. docs/mathematics.md, "Sorting keys and counts of pairs", explains keys, words, network and
inversions.

For many lists on a CPU, words pass through Batcher's bitonic sorting network along the leading
axis. Every pass compares the rows of the first half with those of the second, and interleaves the
halves, so that the next pass does the same with another bit of the row numbers. All passes are
therefore the same kernel, or the same two, which XLA compiles once.

Lists are put in rank order with arrays that travel along, and derivatives that travel back. The
other arrays are gathered; a TPU, where a gather takes longer than a sort, sorts them as operands.
Scores in double precision are ordered on the host.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core._jax import enable_x64, is_zero
from jaxrank._core.batching import batched, of_each_query, whole_batch
from jaxrank._core.platforms import calling, primitive

# Bits of the row numbers that one pass compares: with three, XLA computes most minima repeatedly.
_BITS = 2

# A pass of many words, in rows of many, compares three bits in two kernels, which read each word
# once. Short rows and small arrays take longer that way.
_MORE_BITS, _WORDS, _ROW = 3, 2**17, 128


def ascending(x: Array) -> Array:
  """Sorts integers `[2^m, ...]` along the leading axis."""
  row = np.arange(x.shape[0])
  phases = (x.shape[0] - 1).bit_length()
  many = x.size > max(_WORDS, _ROW * x.shape[0])
  most = _MORE_BITS if many else _BITS
  for phase in range(phases):
    # A pass of fewer bits would be another kernel. The bits above those of the runs may be compared
    # too, before them: elementwise minima and maxima of two bitonic runs are bitonic.
    bits = min(phases, most * -(-(phase + 1) // most))
    # The second of two sorted runs is reversed, so that both together are bitonic. The first phase
    # has runs of one row, in any order.
    if phase:
      flipped = np.where(row >> phase & 1, row ^ (2**phase - 1), row)
      rows = np.int32(flipped.reshape(-1, 2**bits).T.reshape(-1))
      x = _regrouped(x, rows)
    for start in range(0, bits, most):
      x = _pass(x, min(most, bits - start))
  return x


@jax.jit
def _regrouped(x: Array, rows: Array | np.ndarray) -> Array:
  """The given rows, which are data: a transpose would be another kernel for each phase."""
  moved: Array = x.at[rows].get(mode="promise_in_bounds", unique_indices=True)
  return moved


@functools.partial(jax.jit, static_argnums=1)
def _pass(x: Array, bits: int) -> Array:
  """Compares rows that differ in the highest bits, and moves these bits to the lowest places."""
  if bits > _BITS:
    # The last bit is an axis of two, reduced to minima and maxima: XLA computes the results of a
    # reduction in one loop, and the minima before it once for all of them.
    parts = lax.optimization_barrier(
      _reduced(_compared(x.reshape(2 ** (bits - 1), 2, -1, *x.shape[1:])))
    )
  else:
    parts = _compared(x.reshape(2**bits, -1, *x.shape[1:]))
  stacked = lax.concatenate([lax.expand_dims(part, (1,)) for part in parts], 1)
  flat: Array = lax.reshape(stacked, x.shape)
  return flat


def _compared(x: Array) -> list[Array]:
  """The parts along the leading axis, in order elementwise if they are bitonic."""
  parts = [lax.index_in_dim(x, i, keepdims=False) for i in range(len(x))]
  for bit in reversed(range((len(x) - 1).bit_length())):
    for i in (i for i in range(len(x)) if not i >> bit & 1):
      low, high = parts[i], parts[i + 2**bit]
      parts[i], parts[i + 2**bit] = lax.min(low, high), lax.max(low, high)
  return parts


def _reduced(parts: list[Array]) -> list[Array]:
  """The minima and the maxima along the leading axis of each part."""
  ends, extremes = jnp.iinfo(parts[0].dtype), [lax.min, lax.max] * len(parts)
  first = [np.array(end, parts[0].dtype) for end in (ends.max, ends.min)] * len(parts)

  def both(so_far: Sequence[Array], given: Sequence[Array]) -> list[Array]:
    return [extreme(*pair) for extreme, *pair in zip(extremes, so_far, given, strict=True)]

  return list(lax.reduce([part for part in parts for _ in (0, 1)], first, both, (0,)))


# The keys of masked items and of scores of -inf, which are not retrieved; the largest integer.
MASKED = np.int32(np.iinfo(np.int32).min)
LOST = MASKED - np.float32(-np.inf).view(np.int32)
LARGEST = np.int32(np.iinfo(np.int32).max)

# Batches of fewer items take programs on CPU that compile in half the time: others would save no
# more than some 0.02 ms.
_FEW = 4096

# Batches of fewer items sort labels on CPU: a search for the values would save some 0.3 ms of nDCG,
# but its compilation would be a quarter of the first call.
_MANY = 2**15

# On CPU the network is faster than XLA's sort for lists of several queries up to this length.
_NETWORK_LENGTH = 65536

# A GPU takes several times as long for the largest of a long list as for those of its blocks, of so
# many items, and of the blocks' own. Lists have at least so many blocks.
_BLOCK, _BLOCKS = 512, 4

# Labels have few distinct values: this many are searched for one by one before sorting.
_LEVELS = 16

# Floats count as far as this. On CPU their sums and extremes take less time than those of integers
# and masks, also to compile.
COUNTED = 2**24


def take(x: Array, index: Array) -> Array:
  """`x[index]` along the last axis, for indices that are known to be in bounds."""
  index = jnp.broadcast_to(index, (*x.shape[:-1], index.shape[-1]))
  return jnp.take_along_axis(x, index, axis=-1, mode="promise_in_bounds")


def keys(x: Array, where: Array) -> Array:
  """int32 keys `[n]` in the order of `x`: `MASKED` where `where` is False, `LOST` for -inf.

  Floats of up to 32 bits and integers of up to 16 are mapped by their bits. Wider numbers do not
  fit, and are replaced by their dense ranks. docs/mathematics.md, "Sorting keys and counts of
  pairs".
  """
  if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize <= 4:
    bits = lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32)
    key = _ordered(bits, bits < 0)
  elif x.dtype.itemsize < 4:
    key = x.astype(jnp.int32)
  else:
    # Integers have no gradient, which JAX would look for in a sort of floats.
    key = _dense(lax.stop_gradient(x), where)
    if jnp.issubdtype(x.dtype, jnp.floating):
      key = jnp.where(x == -jnp.inf, LOST, key)
  return jnp.where(where, key, MASKED)


def _ordered(bits: Array, negative: Array) -> Array:
  """Bits of floats as integers of the same order, and back, except from the bits of -0.0."""
  return jnp.where(negative, MASKED - bits, bits)


@batched
def _dense(x: Array, where: Array) -> Array:
  """Dense ranks of 32-bit integers and 64-bit numbers, `[..., n]`."""
  x = jnp.where(x == 0, jnp.zeros_like(x), x)
  index = slots_like(x)
  hidden, x, index = lax.sort(((~where).astype(jnp.int32), x, index), num_keys=2)
  changed = (x[..., 1:] != x[..., :-1]) & (hidden[..., 1:] == 0)
  rank = jnp.cumsum(changed, axis=-1, dtype=jnp.int32)
  rank = jnp.concatenate([jnp.zeros_like(index[..., :1]), rank], axis=-1)
  return by_operands(index, rank)[1]


def top_values(x: Array, key: Array) -> Array:
  """float32 values in the order of `key`, as `top` needs them."""
  if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize <= 4:
    # Not `key < 0`, as in `keys`: a GPU would store the zeros that the two comparisons share.
    values = lax.bitcast_convert_type(_ordered(key, key <= -1), jnp.float32)
  else:
    values = key.astype(jnp.float32)
  return jnp.where(key <= LOST, -jnp.inf, values)


@primitive
def top(values: Array, *, k: int) -> Array:
  """Indices `[k]` of the largest values, in descending order; ties by index."""
  index: Array = lax.top_k(values, k)[1]
  return index


@top.on(
  "gpu",
  gain="the top 10 of 10,000 on an H200: 4.7",
  when=lambda values, k: values.shape[-1] >= _BLOCKS * _BLOCK and k * _BLOCKS <= _BLOCK,
)
def _top_of_blocks(values: Array, *, k: int) -> Array:
  """`top` among the `k` largest of each block."""
  n = values.shape[-1]
  real = jnp.issubdtype(values.dtype, jnp.floating)
  lowest = -np.inf if real else np.iinfo(values.dtype).min
  # Missing values come last, and so they are not chosen: ties are ordered by index.
  padding = [(0, 0)] * (values.ndim - 1) + [(0, -n % _BLOCK)]
  values = jnp.pad(values, padding, constant_values=lowest)
  blocks = values.reshape(*values.shape[:-1], -1, _BLOCK)
  best, index = lax.top_k(blocks, k)
  index = index + _BLOCK * slots(values[..., ::_BLOCK])[..., None]
  flat = (*values.shape[:-1], -1)
  return take(index.reshape(flat), lax.top_k(best.reshape(flat), k)[1])


def spread(x: Array) -> bool:
  """Whether devices may share an array, which XLA gathers for a top k, but not for a sort."""
  mesh = jax.typeof(x).sharding.mesh
  manual = jax.sharding.AxisType.Manual
  axes = zip(mesh.axis_types, mesh.axis_sizes, strict=True)
  return any(kind != manual and size > 1 for kind, size in axes)


def top_over(axis: str | tuple[str, ...], values: Array, k: int) -> Callable[[Array], Array]:
  """Finds the items with the `k` largest values of all devices along a mesh axis.

  Devices exchange the best `k` of their values `[n]`; ties by device, then by index. The function
  that is returned maps arrays `[n, ...]` of items to `[k, ...]`, best first, the same on every
  device.
  """
  here = top(values, k=min(k, values.shape[-1]))
  best = lax.all_gather(values[here], axis, tiled=True)
  chosen = top(best, k=min(k, best.shape[-1]))
  mine = chosen // here.shape[-1] == lax.axis_index(axis)
  here = here[chosen % here.shape[-1]]

  def pick(x: Array) -> Array:
    rows = mine.reshape(-1, *(1,) * (x.ndim - 1))
    picked = jnp.where(rows, x[here], jnp.zeros_like(x, shape=()))
    everywhere: Array = lax.psum(picked, axis).astype(x.dtype)
    return everywhere

  return pick


def order(key: Array, first: Array | None = None) -> tuple[Array, Array]:
  """int32 keys `[n]` sorted, largest first, and the permutation that sorts them.

  Ties keep the order of the input or, given other keys `first`, have the order of these, largest
  first.
  """
  if first is None:
    return _order(key)
  _, before = _order(first)
  key, item = _order(take(key, before))
  return key, take(before, item)


@primitive
def order_of_batch(key: Array) -> tuple[Array, Array]:
  """`order` of a whole batch, `[..., n]`, whose ties keep the order of the input."""
  negative, item = by_operands(~key, slots_like(key))
  return ~negative, item


_order = batched(order_of_batch, several=True)


def _words(key: Array, axis: int) -> Array:
  """int64 words, ascending as keys descend, with the index in the low bits.

  docs/mathematics.md, "Sorting keys and counts of pairs".
  """
  sharding = jax.typeof(key).sharding
  index = lax.broadcasted_iota(jnp.int64, key.shape, axis, out_sharding=sharding)
  return lax.shift_left((~key).astype(jnp.int64), jnp.full_like(index, 32)) | index


def _unpacked(words: Array) -> tuple[Array, Array]:
  """The keys and the indices of words."""
  key = ~lax.shift_right_arithmetic(words, jnp.full_like(words, 32))
  return key.astype(jnp.int32), words.astype(jnp.int32)


@order_of_batch.on(
  "cpu",
  "tpu",
  "gpu",
  gain="gradient of nDCG, Laplace [32, 64] on a CPU: 2; a sort of [1000, 1000] on an H200: 1.4",
)
def _order_by_words(key: Array) -> tuple[Array, Array]:
  with enable_x64():
    return _unpacked(lax.sort(_words(key, key.ndim - 1), is_stable=False))


def by_operands(key: Array, *others: Array, keys: int = 1) -> tuple[Array, ...]:
  """Sorts int32 keys, smallest first, and moves other arrays with them; ties keep their order.

  The first of the other arrays may be more `keys`, which order the ties of those before.
  """
  operands: tuple[Array, ...] = lax.sort((key, *others), is_stable=True, num_keys=keys)
  return operands


def _are_many(key: Array) -> bool:
  alone = key.size == key.shape[-1]
  return not alone and key.size >= _FEW and key.shape[-1] <= _NETWORK_LENGTH


@order_of_batch.on("cpu", gain="nDCG [1000, 1000]: 1.7", when=_are_many)
def order_by_network(key: Array) -> tuple[Array, Array]:
  """A network along the leading axis, so that queries fill the vector registers."""
  n = key.shape[-1]
  key = jnp.moveaxis(key, -1, 0)
  with enable_x64():
    padding = ((0, (1 << (n - 1).bit_length()) - n), *((0, 0),) * (key.ndim - 1))
    words = jnp.pad(_words(key, 0), padding, constant_values=jnp.iinfo(jnp.int64).max)
    return _unpacked(jnp.moveaxis(ascending(words)[:n], 0, -1))


def slots(x: Array) -> Array:
  """0, 1, 2, ... along the last axis, int32, of length 1 along the others."""
  shape = (1,) * (x.ndim - 1) + x.shape[-1:]
  return lax.broadcasted_iota(jnp.int32, shape, x.ndim - 1)


def slots_like(x: Array) -> Array:
  """0, 1, 2, ... along the last axis, int32, laid out over devices as `x` is."""
  sharding = jax.typeof(x).sharding
  return lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1, out_sharding=sharding)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def descending(x: Array, k: int) -> Array:
  """The `k` largest values of floats `[n]`, largest first."""
  return batched(
    functools.partial(largest, k=k), of_each_query(functools.partial(descending, k=k))
  )(x)


@descending.defjvp
def _descending_jvp(k: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  (x,), (dx,) = primals, tangents
  _, index = order(keys(lax.stop_gradient(x), jnp.ones_like(x, bool)))
  return take(x, index[:k]), take(dx, index[:k])


# The number of distinct values found, and rows `[_LEVELS + 1, 2, ..., 1]`, that of no value and one
# for each: how many items are at least as large, and the value itself.
_Levels = tuple[Any, Array]


@primitive
def largest(x: Array, *, k: int) -> Array:
  """`descending` of a whole batch, `[..., n]`."""
  return -lax.sort(-x)[..., :k]


@largest.on(
  "cpu",
  "tpu",
  "gpu",
  gain="nDCG@10 [1000, 1000] on a TPU: 4.3; gradient of nDCG, Laplace [32, 64] on a CPU: 2.4",
  when=lambda x, k: x.dtype.itemsize <= 4,
)
def _largest_by_keys(x: Array, *, k: int) -> Array:
  key = lax.sort(~keys(x, jnp.ones_like(x, bool)), is_stable=False)[..., :k]
  return top_values(x, ~key).astype(x.dtype)


def _are_few_of_many(x: Array, k: int) -> bool:
  return 4 * k <= x.shape[-1] and x.dtype.itemsize <= 4 and not spread(x)


@largest.on("cpu", gain="nDCG@10 [32, 1000]: 1.5", when=_are_few_of_many)
def _largest_by_top_k(x: Array, *, k: int) -> Array:
  return lax.top_k(x.astype(jnp.float32), k)[0].astype(x.dtype)


@largest.on(
  "cpu",
  gain="nDCG@10 [1000, 1000]: 1.3",
  when=lambda x, k: x.size >= _MANY and x.shape[-1] < COUNTED,
)
def _largest_by_levels(x: Array, *, k: int) -> Array:
  """Finds few distinct values, as of labels, one by one; sorts if there are more than `_LEVELS`."""

  def last(state: _Levels) -> tuple[Array, Array]:
    level, levels = state
    count, value = lax.dynamic_index_in_dim(levels, level, keepdims=False)
    return count, value

  def unfinished(state: _Levels) -> Array:
    short: Array = (state[0] < _LEVELS) & (jnp.min(last(state)[0]) < k)
    return short

  def fill(state: _Levels) -> _Levels:
    level, levels = state
    value = jnp.max(jnp.where(x >= last(state)[1], -jnp.inf, x), axis=-1, keepdims=True)
    count = jnp.sum((x >= value).astype(x.dtype), axis=-1, keepdims=True)
    row = jnp.stack([count, value])
    return level + 1, lax.dynamic_update_index_in_dim(levels, row, level + 1, axis=0)

  nothing = jnp.zeros_like(x[..., :1])
  # No item is at least NaN, so that the first value is the largest. No slot is at infinity.
  none = jnp.stack([nothing, nothing + jnp.nan])
  nowhere = jnp.broadcast_to(nothing + jnp.inf, (_LEVELS, *none.shape))
  state = lax.while_loop(unfinished, fill, (0, jnp.concatenate([none[None], nowhere])))

  def placed() -> Array:
    # In one pass: a loop would carry an array, which is stored at each level.
    slot = slots_like(x)[..., :k].astype(x.dtype)
    out = jnp.zeros_like(slot)
    counts, values = (lax.index_in_dim(state[1], i, axis=1, keepdims=False) for i in (0, 1))
    for level in range(_LEVELS):
      first, value = (
        lax.broadcast_in_dim(lax.index_in_dim(x, row, keepdims=False), slot.shape, range(slot.ndim))
        for x, row in ((counts, level), (values, level + 1))
      )
      out = lax.select(lax.ge(slot, first), value, out)
    return out

  by_sort = _largest_by_keys if x.dtype.itemsize <= 4 else largest.reference
  chosen: Array = lax.cond(jnp.min(last(state)[0]) < k, lambda: by_sort(x, k=k), placed)
  return chosen


def scatter(x: Array, permutation: Array) -> Array:
  """`out` with `out[permutation] = x`, `[n]`: the inverse of `take(out, permutation)`."""
  # Any number is overwritten, but zeros would share an array with other zeros of the program, which
  # the scatter would have to copy. Indices that may be negative would be compared with zeros.
  empty = jnp.full_like(x, 2).at[permutation]
  return empty.set(x, unique_indices=True, mode="promise_in_bounds", wrap_negative_indices=False)


def discordant(rank: Array) -> Array:
  """The number of inversions of `rank`, a permutation `[n]` of 0 ... n - 1, as an int64.

  One stable partition per bit, highest first: O(n log n) time, O(n) memory. docs/mathematics.md,
  "Sorting keys and counts of pairs", shows that it counts each inversion once.
  """

  def level(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    rank, count = state
    passed, target = _partition(rank, bits - 1 - i)
    with enable_x64():
      count = count + jnp.sum(passed.astype(jnp.int64))
    return scatter(rank, target), count

  bits = _bits(rank)
  with enable_x64():
    count = jnp.sum(jnp.zeros_like(rank).astype(jnp.int64))
  counted: tuple[Array, Array] = lax.fori_loop(0, bits, level, (rank, count))
  return counted[1]


def greater_before(rank: Array) -> Array:
  """The number of greater entries before each entry of `rank`, a permutation of 0 ... n - 1, `[n]`.

  Their sum is the number of inversions; the counts move along with the entries.
  """

  def level(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    rank, count = state
    passed, target = _partition(rank, bits - 1 - i)
    return scatter(rank, target), scatter(count + passed, target)

  bits = _bits(rank)
  _, count = lax.fori_loop(0, bits, level, (rank, jnp.zeros_like(rank)))
  return take(count, rank)


def _bits(rank: Array) -> int:
  return max(rank.shape[-1] - 1, 0).bit_length()


def _partition(rank: Array, bit: Array) -> tuple[Array, Array]:
  """How many ones of its block each zero passes as a bit is sorted, and where each entry goes."""
  one = (rank >> bit) & 1
  ones = jnp.cumsum(one, dtype=jnp.int32) - one
  block = (rank >> (bit + 1)) << (bit + 1)
  passed = ones - take(ones, block)
  target = jnp.where(one == 1, block + (1 << bit) + passed, slots_like(rank) - passed)
  return jnp.where(one == 0, passed, 0), target


# Up to so many columns of labels are sorted as operands; the rows of more are gathered.
_COLUMNS = 8


def by_columns(move: Callable[[Array, Array], Array], x: Array, item: Array) -> Array:
  """`move(x, item)`, for an array `[..., n]`, or each column of one `[..., n, columns, ...]`."""
  if x.ndim == item.ndim:
    return move(x, item)
  moved: Array = jax.vmap(functools.partial(by_columns, move), (-1, None), -1)(x, item)
  return moved


def arranged(
  key: Array, scores: Array, labels: Array, first: Array | None = None
) -> tuple[Array, ...]:
  """Sorts `[n]` keys, largest first, with their scores and with labels `[n]` or `[n, columns]`.

  Returns the keys, the items in their order, the scores and the labels. Ties keep the order of the
  input or, given other keys `first`, have the order of these, largest first. docs/mathematics.md,
  "Sorting keys and counts of pairs".
  """
  arrays, of_ties = (scores, labels), () if first is None else (first,)
  key, item, *moved = _arranged(key, *map(lax.stop_gradient, arrays), *of_ties)
  return key, item, *(_follow(x, y, item) for x, y in zip(arrays, moved, strict=True))


def _follow(x: Array, moved: Array, item: Array) -> Array:
  """`moved`, which is `x[item]`, with the derivative of `x`."""
  return _followed(x, moved, item)[0] if jnp.issubdtype(x.dtype, jnp.floating) else moved


def _followed_jvp(primals: Sequence[Array], tangents: Sequence[Any], **_: Any) -> Any:
  # Not `moved` itself, which has no derivative: there are second ones.
  change = tangents[0]
  if not is_zero(change):
    change = by_columns(of_each_query(_moved), change, primals[2])
  return _followed(*primals), [change]


def _followed_batch(
  args: Sequence[Array], axes: Sequence[int | None], **_: Any
) -> tuple[Sequence[Array], Sequence[int]]:
  of_x, of_moved, of_item = axes
  if of_item is not None or of_x is None or of_moved is None:
    return _followed(*whole_batch(args, axes)), [0]
  # Lists that share their order are columns.
  x, moved, item = args
  x, moved = jnp.moveaxis(x, of_x, -1), jnp.moveaxis(moved, of_moved, -1)
  return _followed(x, moved, item), [x.ndim - 1]


_followed = functools.partial(
  calling("followed", _followed_batch, _followed_jvp),
  function=jax.jit(lambda x, moved, item: moved, inline=True),
)


def _arranged_batch(
  args: Sequence[Array], axes: Sequence[int | None], **_: Any
) -> tuple[Sequence[Array], Sequence[int | None]]:
  *of_scores, axis = axes
  if axis is None or of_scores != [None, None]:
    moved = _arranged(*whole_batch(args, axes))
    return moved, [0] * len(moved)
  # Lists that share their scores, and have no order of ties, are sorted once, as columns.
  key, scores, labels = args
  labels = jnp.moveaxis(labels, axis, -1)
  columns = labels.reshape(*key.shape, math.prod(labels.shape[key.ndim :]))
  *shared, columns = _arranged(key, scores, columns)
  return [*shared, columns.reshape(labels.shape)], [None, None, None, labels.ndim - 1]


@primitive
def arranged_batch(key: Array, scores: Array, labels: Array, *first: Array) -> tuple[Array, ...]:
  """`arranged` of a whole batch, `[..., n]`: an order, which the other arrays follow."""
  key, item = order(key, *first) if first else order_of_batch(key)
  moved = _from_keys(scores, key) if _decoded(scores) else take(scores, item)
  return key, item, moved, by_columns(take, labels, item)


@arranged_batch.on("tpu", gain="average precision [1000, 1000]: 16")
def _sorted_together(key: Array, scores: Array, labels: Array, *first: Array) -> tuple[Array, ...]:
  """One sort with all arrays as operands."""
  lists = labels if labels.ndim > key.ndim else labels[..., None]
  number = lists.shape[-1]
  columns = [lists[..., i] for i in range(number)] if number <= _COLUMNS else []
  operands = columns if _decoded(scores) else [scores, *columns]
  keys = [~x for x in (key, *first)]
  item = slots_like(key)
  key, *moved = by_operands(*keys, item, *operands, keys=len(keys))
  item, *moved = moved[len(first) :]
  if _decoded(scores):
    moved = [_from_keys(scores, ~key), *moved]
  scores, *columns = moved
  if columns:
    labels = jnp.stack(columns, axis=-1).reshape(labels.shape)
  else:
    labels = by_columns(take, labels, item)
  return ~key, item, scores, labels


_arranged = functools.partial(
  calling("arranged", _arranged_batch), function=jax.jit(arranged_batch, inline=True)
)


def _from_keys(scores: Array, key: Array) -> Array:
  return top_values(scores, key).astype(scores.dtype)


def _decoded(scores: Array) -> bool:
  """Whether the keys of scores hold them."""
  return jnp.issubdtype(scores.dtype, jnp.floating) and scores.dtype.itemsize <= 4


def _moved(x: Array, item: Array) -> Array:
  """`x[item]`, for a permutation; no two numbers of its transpose are added up.

  It solves the equation `scatter(y, item) = x`, because JAX transposes and batches a solution as it
  is told to.
  """
  moved: Array = lax.custom_linear_solve(
    lambda y: scatter(y, item),
    x,
    lambda _, x: take(x, item),
    lambda _, x: scatter(x, item),
  )
  return moved


def put_back(x: Array, item: Array) -> Array:
  """`out` with `out[item] = x`, for a permutation; the inverse of `x[item]`, as fast."""
  if not jnp.issubdtype(x.dtype, jnp.floating):
    return scatter(x, item)
  moved: Array = lax.custom_linear_solve(
    lambda y: take(y, item),
    x,
    lambda _, x: scatter(x, item),
    lambda _, x: take(x, item),
  )
  return moved


def single(scores: Any) -> np.ndarray:
  """float32 scores with the order and the ties of `scores`, `[..., n]`, along the last axis.

  They are the scores, rounded; in a list with scores that float32 does not tell apart, or does not
  hold, minus the dense ranks, -1 for the largest. -inf and NaN stay.

  >>> print(single(1 + np.array([2.0, 0.0, 1.0, 0.0]) * 2.0**-50), single(np.array([0.5, 2.0])))
  [-1. -3. -2. -3.] [0.5 2. ]

  Args:
    scores: A NumPy array of any real dtype, what stands on padding included.
  """
  scores = np.asarray(scores)
  with np.errstate(over="ignore"):
    narrow = scores.astype(np.float32)
  is_nan = scores != scores
  if np.all((narrow == scores) | is_nan):
    return np.asarray(narrow)
  order = np.argsort(scores, axis=-1, kind="stable")
  ascending, rounded = (np.take_along_axis(x, order, axis=-1) for x in (scores, narrow))
  rises = ascending[..., 1:] > ascending[..., :-1]
  merged = np.any(rises & (rounded[..., 1:] == rounded[..., :-1]), axis=-1, keepdims=True)
  lost = np.any(np.isinf(narrow) & ~np.isinf(scores), axis=-1, keepdims=True)
  if not (merged | lost).any():
    return np.asarray(narrow)
  # The dense ranks from the smallest, and then from the largest.
  step = np.zeros(scores.shape, np.int32)
  np.cumsum(rises, axis=-1, out=step[..., 1:])
  rank = np.empty(scores.shape, np.float32)
  np.put_along_axis(rank, order, step - step[..., -1:] - 1, axis=-1)
  return np.where((merged | lost) & ~(np.isneginf(scores) | is_nan), rank, narrow)
