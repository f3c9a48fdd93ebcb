"""Internals of `jaxrank.corpus`: where the listed items of each query stand among all items.

One pass over the items counts how many are above each listed item and how many reach its score.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core import batching, sorting
from jaxrank.corpus import _inputs, _sweep
from jaxrank.corpus._counting import counts_above
from jaxrank.corpus._inputs import Inputs, Progress, size
from jaxrank.corpus._sweep import Place
from jaxrank.corpus.similarity import bounded, scores

# Rows of a block on CPU, which stays in the caches.
_ROWS = 256


# Scores `[q, p]`, and how many candidates are above each and -inf, and reach them, `[q, p + 1]`;
# and whether a candidate has a NaN score, `[q]`.
Counted = tuple[Array, Array, Array, Array]
_Counts = tuple[Array, Array]


class Standing(NamedTuple):
  """The counts of one pass over the items, for each query.

  Attributes:
    score: `[q, p]`, the scores of the listed items.
    dropped: `[q, e]`, the scores of the items that are no candidates; NaN where there is none.
    above: `[q, p + 1]`, how many items have a higher score than each listed item, and than -inf.
    reaching: `[q, p + 1]`, how many have the same score or a higher one.
  """

  score: Array
  dropped: Array
  above: Array
  reaching: Array


def on_device(inputs: Inputs, items: Any, axis: _sweep.Axis, listed: Array, chunk: int) -> Counted:
  """The scores of listed items, `[q, p]`, and how many candidates are above and reach them."""
  removed = _inputs.without_repeats(_sweep.local(inputs.removed, items, axis))
  listed = _sweep.local(listed, items, axis)
  width = listed.shape[1]
  known = bounded(inputs.similarity, inputs.queries, items)

  def rows(queries: Any, removed: Array, listed: Array) -> Standing:
    flat = _sweep.gather(items, listed.reshape(-1), axis)
    own = jax.tree.map(lambda x: x.reshape(*listed.shape, *x.shape[1:]), flat)
    block = Inputs(queries, removed, inputs.similarity, own, known)
    start = _start(block)
    tally: Standing = _sweep.on_device(_count, block, start, items, chunk, first=-1, least=width)
    return tally

  blocks = batching.in_blocks(rows, _rows(chunk, width))
  counted: Counted = _finished(blocks(inputs.queries, removed, listed), removed, size(items), axis)
  return counted


def from_host(
  inputs: Inputs, items: Any, listed: Array, chunk: int, progress: Progress | None
) -> Counted:
  """The same for items that are sent from the host chunk by chunk."""
  at = np.maximum(np.asarray(listed), 0)
  own = jax.tree.map(lambda x: jnp.asarray(x[at]), items)
  inputs = inputs._replace(removed=_inputs.without_repeats(inputs.removed), target_items=own)
  start, width = _start(inputs), listed.shape[1]
  tally = _sweep.from_host(_count, inputs, start, items, chunk, progress, first=-1, least=width)
  counted: Counted = _finished(tally, inputs.removed, size(items), None)
  return counted


def _rows(chunk: int, listed: int) -> int:
  """The number of queries in a block, whose listed items must fit in a chunk."""
  return max(1, min(_ROWS, chunk // max(listed, 1)))


@jax.jit
def _start(inputs: Inputs) -> Standing:
  own: Any = inputs.target_items
  q, p = jax.tree.leaves(own)[0].shape[:2]
  flat = jax.tree.map(lambda x: x.reshape(q * p, *x.shape[2:]), own)
  dtype = jax.eval_shape(scores, inputs.similarity, inputs.queries, flat).dtype
  # Zeros that are laid out over devices as the queries are.
  none = jnp.zeros_like(jax.tree.leaves(inputs.queries)[0], jnp.int32)
  none = jnp.sum(none, axis=tuple(range(1, none.ndim)), dtype=jnp.int32)[:, None]
  counts = none + jnp.zeros((q, p + 1), jnp.int32)
  dropped = none.astype(dtype) + jnp.full(inputs.removed.shape, jnp.nan, dtype)
  return Standing(none.astype(dtype) + jnp.zeros((q, p), dtype), dropped, counts, counts)


def _count(inputs: Inputs, tally: Standing, part: Any, place: Place) -> Standing:
  """Adds the counts of a chunk; in the step with negative ids, scores the listed items themselves.

  The program and the shape that compute the scores of the listed items are those of the other
  scores: a product of another shape may be rounded differently, and not tie with copies of an item.
  """
  chunk, listed = _inputs.size(part), tally.score.shape[1]
  known = jnp.asarray(inputs.bounded)
  here = jnp.clip(jnp.minimum(place.stop, place.start + chunk) - place.fresh, 0, chunk)

  def rows(queries: Any, own: Any, removed: Array, tally: Standing) -> Standing:
    size = tally.score.shape[0] * listed

    def columns(own: Array, x: Array) -> Array:
      return jnp.concatenate([own.reshape(size, *own.shape[2:]), x[size:]])

    same = jax.tree.map(_sweep.spread_like, part, own)
    scored = lax.cond(place.start < 0, lambda: jax.tree.map(columns, own, same), lambda: same)
    block = scores(inputs.similarity, queries, scored)
    at = jnp.arange(size, dtype=jnp.int32).reshape(-1, listed)
    score = jnp.where(place.start < 0, sorting.take(block, at), tally.score)
    inside = (removed >= place.fresh) & (removed < place.start + chunk)
    taken = sorting.take(block, jnp.where(inside, removed - place.start, 0))
    dropped = jnp.where(inside, taken, tally.dropped)
    whole = (place.start >= place.fresh) & (place.start + chunk <= place.stop)

    def count(x: Array) -> _Counts:
      (above, reaching), (retrieved, present) = counts_above(score, x), _numbers(x, here, known)
      return _beside(above, retrieved), _beside(reaching, present)

    # A branch returns counts only, since one that returns the scores would copy them.
    masked = functools.partial(jnp.where, place.counts(block))
    above, reaching = lax.cond(
      whole, lambda: count(block), lambda: count(lax.optimization_barrier(masked(block, jnp.nan)))
    )
    return Standing(score, dropped, tally.above + above, tally.reaching + reaching)

  blocks = batching.in_blocks(rows, _rows(chunk, listed))
  counted: Standing = blocks(inputs.queries, inputs.target_items, inputs.removed, tally)
  return counted


def _beside(x: Array, last: Array) -> Array:
  return jnp.concatenate([x, last[:, None]], axis=1)


def _thresholds(score: Array) -> Array:
  """The scores of the listed items and -inf, `[q, p + 1]`."""
  return _beside(score, jnp.full_like(score[:, 0], -jnp.inf))


def _numbers(x: Array, here: Array, known: Array) -> _Counts:
  """How many of `x`, `[q, c]`, are above -inf, and how many are not NaN; `here` if `known`."""

  def counted() -> _Counts:
    above, reaching = counts_above(jnp.full_like(x[:, :1], -jnp.inf), x)
    return above[:, 0], reaching[:, 0]

  def all_here() -> _Counts:
    # With the axes and the layout over devices of the scores.
    number = here + 0 * (x[:, 0] > 0).astype(jnp.int32)
    return number, number

  counts: _Counts = lax.cond(known, all_here, counted)
  return counts


@functools.partial(jax.jit, static_argnums=(2, 3))
def _finished(tally: Standing, removed: Array, items: int, axis: _sweep.Axis) -> Counted:
  """The scores, and the counts of all devices without the items that are no candidates."""
  threshold = _thresholds(tally.score)
  dropped = counts_above.reference(threshold, tally.dropped)
  above, reaching = tally.above - dropped[0], tally.reaching - dropped[1]
  candidates = items - jnp.sum(removed != _inputs.NONE, axis=1, dtype=jnp.int32)
  # The candidates with a NaN score are those that do not reach -inf.
  counts = above, reaching, candidates - reaching[:, -1]
  if axis is None:
    return tally.score, above, reaching, counts[2] > 0
  # All devices have the same scores, which `shard_map` does not know.
  first = lax.axis_index(axis) == 0
  score = lax.psum(jnp.where(first, tally.score, jnp.zeros_like(tally.score)), axis)
  above, reaching, lost = lax.psum(counts, axis)
  return score, above, reaching, lost > 0
