"""Internals of `jaxrank.corpus`: smooth ranks and cut-offs as programs of sums over all items.

The listed items are compared with each other by the query, and with all others chunk by chunk. A
cut-off takes passes that find its threshold, and one that says how the threshold moves.
docs/mathematics.md, "Smooth metrics over a corpus", derives it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core.arithmetic import at_least_tiny, clipped
from jaxrank.corpus._streamed import Chunk, EachChunk, Program, Stage, relative
from jaxrank.corpus._sweep import Axis
from jaxrank.corpus.similarity import scores, scores_of_own
from jaxrank.rankings.counted import AtCutoff

# The widest distance in temperatures.
_WIDEST = 1e38

# Passes that look for a threshold: at most, if scores of all sizes are mixed; most find it in six.
_PASSES = 400
# Passes after which a step of Newton's method must be at most half of the last one. Over gaps of
# many temperatures it would go from item to item.
_FREE = 10
# How close to a threshold, in temperatures, two further steps of Newton make it exact.
_CLOSE = 1e-2


class Block(NamedTuple):
  """The scores of some items.

  Attributes:
    score: `[q, c]`, finite, with 0 in place of NaN.
    live: `[q, c]`, whether an item is a candidate that is retrieved.
    retrieved: `[q]`, the number of these items; NaN if one has a NaN score.
  """

  score: Array
  live: Array
  retrieved: Array


class Asking(NamedTuple):
  """What scores are made of.

  Attributes:
    queries: `[q, ...]`, or a pytree of such arrays.
    similarity: Function of queries and items that returns scores.
    temperature: `[q]`, that of the ranking.
  """

  queries: Any
  similarity: Any
  temperature: Array

  def of_chunk(self, chunk: Chunk) -> Block:
    """The scores of a chunk."""
    score = scores(self.similarity, self.queries, chunk.items)
    live = chunk.candidates(score) & (score != -jnp.inf)
    count = jnp.sum(live, axis=1, dtype=score.dtype)
    unknown = jnp.any(live & jnp.isnan(score), axis=1)
    return Block(_finite(score), live, jnp.where(unknown, jnp.nan, count))

  def of_listed(self, own: Any) -> Array:
    """The scores of listed items, `[q, p]`."""
    return scores_of_own(self.similarity, self.queries, own)

  def apart(self, score: Array, at: Array) -> Array:
    """The distance of scores `[q, any]` from other ones `[q, 1]` or `[q, p, 1]`."""
    shape = (-1, *(1 for _ in at.shape[1:]))
    t = at_least_tiny(self.temperature, score.dtype).reshape(shape)
    score = score[:, None] if at.ndim > 2 else score
    return clipped((score - at) / t, _WIDEST)


class Params(NamedTuple):
  """The parameters of a program.

  Attributes:
    asking: What scores are made of.
    listed: `[q, p]`, whether there is a listed item.
    cutoffs: The cut-offs that metrics ask for, `[q]` each.
    rest: What `finish` reads besides.
  """

  asking: Asking
  listed: Array
  cutoffs: tuple[Array, ...]
  rest: Any


class Known(NamedTuple):
  """What the totals say of the listed items.

  Attributes:
    score: `[q, p]`, the scores of the listed items.
    retrieved: `[q]`, the number of other retrieved items; NaN if one has a NaN score.
    at: What is known at each cut-off, and of the whole list at last, `[q, p]`.
  """

  score: Array
  retrieved: Array
  at: tuple[AtCutoff, ...]


class Distribution(NamedTuple):
  """A distribution function, and a constant with `F(x) <= constant * exp(x)`."""

  function: Callable[[Array], Array]
  constant: float


def _laplace(x: Array) -> Array:
  # Not the absolute value, whose slope at 0 is 0. The density has a kink there, and its derivative
  # is that of the side above: docs/mathematics.md, "Smooth metrics over a corpus".
  tail = 0.5 * jnp.exp(jnp.where(x < 0, x, -x))
  return jnp.where(x < 0, tail, 1 - tail)


LAPLACE = Distribution(_laplace, 0.5)
LOGISTIC = Distribution(jax.nn.sigmoid, 1.0)


def program(
  distribution: Distribution,
  cutoffs: int,
  whole: bool,
  finish: Callable[[Params, Known], Any],
) -> Program:
  """The program of metrics that ask for some cut-offs, and for the whole list, or not."""
  stages = []
  for i in range(cutoffs):
    stages.append(_threshold(distribution, i))
    stages.append(_kept(distribution, i))
  if whole or not cutoffs:
    stages.append(_whole(distribution))

  def last(params: Params, own: Any, totals: tuple[Any, ...]) -> Any:
    score = params.asking.of_listed(own)
    at = []
    for i in range(cutoffs):
      cut = _cut(distribution, params, own, totals, i)
      at.append((totals[2 * i + 1], cut.kept(distribution, params.asking, _finite(score))))
    if whole or not cutoffs:
      ahead, retrieved = totals[-1]
      at.append((ahead, jnp.ones_like(ahead)))
    else:
      retrieved = totals[0].retrieved
    return finish(params, Known(score, lax.stop_gradient(retrieved), tuple(at)))

  return Program(tuple(stages), last)


def _finite(score: Array) -> Array:
  # The value of a query with a NaN is NaN in the end, but its slopes of 0 must stay 0 until then.
  score = jnp.where(jnp.isnan(score), 0, score)
  return clipped(score, float(jnp.finfo(score.dtype).max) / 4)


def _listed(params: Params, own: Any) -> tuple[Array, Array]:
  """The scores of the listed items, and whether they are retrieved, `[q, p]`."""
  score = params.asking.of_listed(own)
  live = params.listed & (score != -jnp.inf)
  return jnp.where(live, _finite(score), 0), live


def _summed(
  added: Callable[[Any, Any, Chunk], Any], start: Callable[[Array], Any]
) -> Callable[[Any, EachChunk, Axis], Any]:
  """The totals of a stage that are sums, which start at `start(score)`, zeros."""

  def total(shared: Any, each_chunk: EachChunk, axis: Axis) -> Any:
    def add(state: Any, chunk: Chunk) -> Any:
      return jax.tree.map(jnp.add, state, added(shared, None, chunk))

    totals = each_chunk(add, start(shared[1]))
    return totals if axis is None else lax.psum(totals, axis)

  return total


def _whole(distribution: Distribution) -> Stage:
  """How many other items are ahead of each listed one, and how many are retrieved."""

  def prepare(params: Params, own: Any, totals: Any) -> Any:
    del totals
    return params.asking, _listed(params, own)[0]

  def added(shared: Any, total: Any, chunk: Chunk) -> tuple[Array, Array]:
    del total
    asking, score = shared
    block = asking.of_chunk(chunk)
    ahead = distribution.function(asking.apart(block.score, score[..., None]))
    return jnp.sum(jnp.where(block.live[:, None], ahead, 0), axis=2), block.retrieved

  def start(score: Array) -> tuple[Array, Array]:
    return jnp.zeros_like(score), jnp.zeros_like(score[:, 0])

  return Stage(prepare, _summed(added, start), added)


class Threshold(NamedTuple):
  """A threshold `anchor + temperature * offset`, near the one sought, and sums there, `[q]` each.

  Attributes:
    anchor: A score near the threshold.
    offset: The distance from it in temperatures.
    density: The sum of the densities of all items.
    above: How many other items are above the threshold.
    excess: The sum of `F` of the other items, less `above`.
    number: How many other items there are.
    retrieved: The same, or NaN if one of them has a NaN score.
  """

  anchor: Array
  offset: Array
  density: Array
  above: Array
  excess: Array
  number: Array
  retrieved: Array


class Cut(NamedTuple):
  """A cut-off by its threshold; `every` is the weight of all items where it is not `inside`."""

  anchor: Array
  offset: Array
  inside: Array
  every: Array

  def kept(self, distribution: Distribution, asking: Asking, score: Array) -> Array:
    """The weights with which items of some scores, `[q, any]`, are kept."""
    x = asking.apart(score, self.anchor[:, None]) - self.offset[:, None]
    weight = distribution.function(x)
    return jnp.where(self.inside[:, None], weight, self.every[:, None].astype(weight.dtype))


def _target(k: Array, count: Array) -> tuple[Array, Array]:
  """The number of items above the threshold, and whether it is `k`: some are kept, and not all."""
  inside = (k > 0) & (k < count)
  return jnp.where(inside, k.astype(count.dtype), count / 2), inside


def _excess(distribution: Distribution, x: Array) -> tuple[Array, Array]:
  """Whether items at some distances are above a threshold, and `F` less 1 for those that are.

  The sum of both is `F`. Between two items that are far apart, only the second one is exact.
  """
  above = x >= 0
  tail = distribution.function(jnp.where(above, -x, x))
  return above, jnp.where(above, -tail, tail)


def _sum(x: Array, live: Array) -> Array:
  return jnp.sum(jnp.where(live, x, jnp.zeros_like(x)), axis=1)


def _cut(
  distribution: Distribution, params: Params, own: Any, totals: tuple[Any, ...], i: int
) -> Cut:
  """The cut-off `i`, after one differentiable step from where the threshold was found."""
  at: Threshold = totals[2 * i]
  score, live = _listed(params, own)
  k, count = params.cutoffs[i], at.number + jnp.sum(live, axis=1, dtype=at.number.dtype)
  target, inside = _target(k, count)
  x = params.asking.apart(score, at.anchor[:, None]) - at.offset[:, None]
  above, excess = _excess(distribution, x)
  missing = (at.above + _sum(above.astype(x.dtype), live)) - target
  missing += at.excess + _sum(excess, live)
  some = at.density > 0
  offset = at.offset + jnp.where(some, missing / jnp.where(some, at.density, 1), 0)
  return Cut(at.anchor, offset, inside, k > 0)


def _kept(distribution: Distribution, i: int) -> Stage:
  """How many kept other items are ahead of each listed one."""

  def prepare(params: Params, own: Any, totals: tuple[Any, ...]) -> Any:
    cut = _cut(distribution, params, own, totals, i)
    return params.asking, _listed(params, own)[0], cut

  def added(shared: Any, total: Any, chunk: Chunk) -> Array:
    del total
    asking, score, cut = shared
    block = asking.of_chunk(chunk)
    weight = jnp.where(block.live, cut.kept(distribution, asking, block.score), 0)
    ahead = distribution.function(asking.apart(block.score, score[..., None]))
    return jnp.sum(jnp.where(block.live[:, None], weight[:, None] * ahead, 0), axis=2)

  return Stage(prepare, _summed(added, jnp.zeros_like), added)


def _threshold(distribution: Distribution, i: int) -> Stage:
  """The threshold of a cut-off."""

  def prepare(params: Params, own: Any, totals: tuple[Any, ...]) -> Any:
    del totals
    return params.asking, *_listed(params, own), params.cutoffs[i]

  def total(shared: Any, each_chunk: EachChunk, axis: Axis) -> Threshold:
    return _found(distribution, shared, each_chunk, axis)

  def added(shared: Any, total: Threshold, chunk: Chunk) -> Threshold:
    asking, *_ = shared
    block = asking.of_chunk(chunk)
    x = asking.apart(block.score, total.anchor[:, None]) - total.offset[:, None]
    excess = _sum(_excess(distribution, x)[1], block.live)
    nothing = jnp.zeros_like(excess)
    return Threshold(nothing, nothing, nothing, nothing, excess, nothing, nothing)

  return Stage(prepare, total, added)


def _found(distribution: Distribution, shared: Any, each_chunk: EachChunk, axis: Axis) -> Threshold:
  """The threshold by Newton's method for logarithms, between bounds from sums of exponentials."""
  asking, score, listed, k = shared
  function, log_constant = distribution.function, jnp.log(distribution.constant)
  temperature = at_least_tiny(asking.temperature, score.dtype)

  # Listed items with a NaN are told apart by their scores.
  own_items = Block(score, listed, jnp.sum(listed, axis=1, dtype=score.dtype))
  no_item = Block(score[:, :1], jnp.zeros_like(listed[:, :1]), jnp.zeros_like(score[:, 0]))

  def over_all(part: Callable[[Block], Any], join: Callable[[Any, Any], Any]) -> Any:
    """A sum over the chunks, over the devices, and of the listed items."""
    start = part(no_item)
    state = each_chunk(lambda state, chunk: join(state, part(asking.of_chunk(chunk))), start)
    return state, part(own_items)

  def log_sums(block: Block) -> tuple[Array, ...]:
    live = block.live
    z = clipped(block.score / temperature[:, None], _WIDEST)
    tops = [jnp.max(jnp.where(live, x, -jnp.inf), axis=1) for x in (z, -z)]
    sums = [
      jnp.sum(jnp.where(live, relative(x, top[:, None]), 0), axis=1)
      for x, top in zip((z, -z), tops, strict=True)
    ]
    return *tops, *sums, jnp.sum(live, axis=1, dtype=z.dtype), block.retrieved

  def joined(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    tops = [jnp.maximum(x, y) for x, y in zip(a[:2], b[:2], strict=True)]
    sums = [
      x * relative(old, top) + y * relative(new, top)
      for x, y, old, new, top in zip(a[2:4], b[2:4], a[:2], b[:2], tops, strict=True)
    ]
    return *tops, *sums, a[4] + b[4], a[5] + b[5]

  others, own = over_all(log_sums, joined)
  if axis is not None:
    tops = lax.pmax(others[:2], axis)
    sums = [
      x * relative(old, top) for x, old, top in zip(others[2:4], others[:2], tops, strict=True)
    ]
    others = *tops, *lax.psum((*sums, *others[4:]), axis)
  number, retrieved = others[4:]
  high, low, above, below, count, _ = joined(others, own)
  target, _ = _target(k, count)
  top = high + jnp.log(above) + log_constant - jnp.log(target)
  bottom = jnp.log(count - target) - log_constant - (low + jnp.log(below))

  def sums_at(anchor: Array, offset: Array) -> tuple["_Sums", "_Sums"]:
    """The sums over all items, and over the others."""

    def part(block: Block) -> _Sums:
      live = block.live
      x = asking.apart(block.score, anchor[:, None]) - offset[:, None]
      above = x >= 0
      far = jnp.where(above, -x, x)
      tail, density = jax.jvp(function, (far,), (jnp.ones_like(far),))
      return _Sums(
        _sum(above.astype(x.dtype), live),
        *(_sum(y, live & side) for y in (tail, density) for side in (above, ~above)),
      )

    others, own = over_all(part, lambda a, b: jax.tree.map(jnp.add, a, b))
    others = others if axis is None else lax.psum(others, axis)
    return jax.tree.map(jnp.add, others, own), others

  def is_sought(state: _Search) -> Array:
    *_, at, step = state
    return step > jnp.maximum(_CLOSE, rounding * jnp.abs(at))

  def search(state: _Search) -> _Search:
    passes, bottom, top, at, last = state
    sums, _ = sums_at(temperature * at, jnp.zeros_like(at))
    is_low = sums.excess(target) > 0
    bottom, top = jnp.where(is_low, at, bottom), jnp.where(is_low, top, at)
    step = sums.step(target)
    moved = at + step
    good = (moved >= bottom) & (moved <= top) & ((passes < _FREE) | (jnp.abs(step) <= last / 2))
    moved = jnp.where(good, moved, (bottom + top) / 2)
    # A threshold that is found stays where it is, however long those of other queries take.
    sought = is_sought(state)
    last = jnp.where(sought, jnp.abs(moved - at), last)
    return passes + 1, bottom, top, jnp.where(sought, moved, at), last

  def unfinished(state: _Search) -> Array:
    return (state[0] < _PASSES) & jnp.any(is_sought(state))

  rounding = 8 * float(jnp.finfo(top.dtype).eps)
  start = jnp.int32(0), bottom, top, top, jnp.full_like(top, jnp.inf)
  *_, at, _ = lax.while_loop(unfinished, search, start)
  # From here on the distances are those from a score, which are more exact.
  anchor, offset = temperature * jnp.where(jnp.isfinite(at), at, 0), jnp.zeros_like(at)
  step = sums_at(anchor, offset)[0].step(target)
  offset = jnp.where(jnp.isfinite(step), step, 0)
  every, others = sums_at(anchor, offset)
  excess = others.below_tail - others.above_tail
  return Threshold(anchor, offset, every.density, others.above, excess, number, retrieved)


# The number of passes, bounds of each threshold, where it may be, and the last step.
_Search = tuple[Array, Array, Array, Array, Array]


class _Sums(NamedTuple):
  """Sums over the items above a threshold and below it, `[q]` each: tails and their densities."""

  above: Array
  above_tail: Array
  below_tail: Array
  above_density: Array
  below_density: Array

  @property
  def density(self) -> Array:
    """The sum of the densities."""
    return self.above_density + self.below_density

  def excess(self, target: Array) -> Array:
    """By how much the items that exceed the threshold are more than they should be."""
    return (self.above - target) + (self.below_tail - self.above_tail)

  def step(self, target: Array) -> Array:
    """The step of Newton's method for the logarithms of what both sides should have in common."""
    missing = target - self.above
    above = self.above_tail + jnp.maximum(missing, 0)
    below = self.below_tail + jnp.maximum(-missing, 0)
    slope = self.below_density / below + self.above_density / above
    return jnp.where(self.excess(target) == 0, 0, jnp.log(below / above) / slope)
