"""Sums over pairs of functions of score differences, in O(n) time and memory for sorted scores.

The functions are polynomials in `x = exp(-|s_i - s_j| / t)`, or series of such powers: the Laplace
and logistic distribution functions and their logarithms. A sum of powers over the items above, or
below, each item decays with the distance of their scores. There are three ways to add up weights
that decay: all pairs of short lists; doubling, for accelerators; blocks of one scan, for a CPU.
Batches have their axes before the last one, which is that of the items.

`decayed_sums` is a primitive of JAX, because its derivatives and its transpose are sums of the same
kind: a gradient computes the sums twice, in whatever order it is batched, and a program has the
algorithm of its platform only. docs/mathematics.md, "Sums over pairs", derives the slopes and the
error of the series.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank import config
from jaxrank._core import sorting
from jaxrank._core._jax import is_zero
from jaxrank._core.batching import in_blocks, rows_on_cpu, whole_batch
from jaxrank._core.platforms import Operation, primitive
from jaxrank._core.sorting import slots, take

# At this many temperatures exp(-z) is 0 in float64.
_FAR = 1000.0

# Scores, and the numbers of their groups if there are groups.
Place = Sequence[Array]


def distance(upper: Array, lower: Array, temperature: Array, limit: float = _FAR) -> Array:
  """`(upper - lower) / temperature`, at most `limit`; the gradient at the limit is 0."""
  return jnp.minimum(upper - lower, limit * temperature) / temperature


def near(upper: Place, lower: Place, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` for scores at a distance of `z` temperatures; 0 if their groups differ."""
  (upper_score, *group), (lower_score, *other) = upper, lower
  if not group:
    return jnp.exp(-power * distance(upper_score, lower_score, temperature))
  same = group[0] == other[0]
  lower_score = jnp.where(same, lower_score, upper_score)
  return jnp.where(same, jnp.exp(-power * distance(upper_score, lower_score, temperature)), 0)


def polynomial(coefficients: Sequence[Array] | Array, x: Array) -> Array:
  """`sum_p c_p x ** p`, p = 1, 2, ..."""
  value = jnp.zeros_like(x)
  for c in coefficients[::-1]:
    value = (value + c) * x
  return value


def one_side(coefficients: np.ndarray, side: int) -> tuple[np.ndarray, bool]:
  """The coefficients of one side, `[inputs or outputs, powers]`, up to the last power in use.

  Also whether they belong to inputs, so that the sums are of the weighed inputs.
  """
  first = coefficients.shape[1] > 1
  c = coefficients[0, :, side] if first else coefficients[:, 0, side]
  used = np.flatnonzero(np.any(c != 0, axis=0))
  return c[:, : used[-1] + 1 if used.size else 0], first


def leading(c: np.ndarray, like: Array) -> np.ndarray:
  """Numbers along leading axes, of length 1 along those of an array."""
  return c.astype(like.dtype).reshape(c.shape + (1,) * like.ndim)


def shift(x: Array, by: int, fill: float = 0.0) -> Array:
  """Moves items `by` places down the list, or up if `by` is negative."""
  none = ((0, 0, 0),) * (x.ndim - 1)
  return lax.pad(x, np.array(fill, x.dtype), (*none, (by, -by, 0)))


def neighbours(place: Place, by: int) -> list[Array]:
  """The places `by` items above, or below if `by` is negative.

  Past the ends of the list they are far away, but finite, so that no difference is undefined.
  """
  score, *group = place
  beyond = math.copysign(float(jnp.finfo(score.dtype).max) / 2, by)
  return [shift(score, by, beyond), *(shift(x, by, -1) for x in group)]


def decay(place: Place, other: Place, by: int, temperature: Array, power: Any = 1) -> Array:
  """`exp(-power z)` to a place above, or below if `by` is negative."""
  upper, lower = (other, place) if by > 0 else (place, other)
  return near(upper, lower, temperature, power)


def by_pairs(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The polynomial of each pair `[..., i, j]`, weighed and summed over `j`."""
  score, *group = place
  rise = _rise(score[..., None] - score[..., None, :])
  groups = [x[..., None] for x in group], [x[..., None, :] for x in group]
  x = near([rise, *groups[0]], [jnp.zeros_like(rise), *groups[1]], temperature[..., None, None])
  j = slots(rise)
  i = jnp.swapaxes(j, -1, -2)

  def weighed(sides: np.ndarray, w: Array) -> Array:
    c = [jnp.where(j < i, above, below).astype(w.dtype) for above, below in sides.T]
    return jnp.where(i != j, polynomial(c, x), 0) * w[..., None, :]

  return jnp.stack(
    [
      sum(jnp.sum(weighed(c, w), axis=-1) for c, w in zip(output, w, strict=True))
      for output in coefficients
    ]
  )


@jax.custom_jvp
def _rise(fall: Array) -> Array:
  """`|s_i - s_j|`, `[..., i, j]`, whose slope at 0 is that of two places in descending order."""
  return jnp.abs(fall)


@_rise.defjvp
def _rise_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  (fall,), (change,) = primals, tangents
  j = slots(fall)
  return _rise(fall), jnp.where(j < jnp.swapaxes(j, -1, -2), -change, change)


class Schedule(NamedTuple):
  """In which parts the powers of a sum are added up.

  Attributes:
    at_once: The most powers that are summed side by side: more of them start fewer steps, and take
      more memory. The default is enough for a series of float32.
    stored: Whether the sums and their slopes are stored, which starts more steps, and takes less
      memory.
  """

  at_once: int = 12
  stored: bool = False


def by_doubling(
  coefficients: np.ndarray, schedule: Schedule, place: Place, temperature: Array, w: Array
) -> Array:
  """Sums over the nearest item, the nearest two, the nearest four, and so on, for all powers."""
  total, at_once = None, schedule.at_once
  place, temperature = [x[None] for x in place], temperature[None, ..., None]
  for side, sign in enumerate((1, -1)):
    every, first = one_side(coefficients, side)
    for start in range(0, every.shape[1], at_once):
      c = every[:, start : start + at_once]
      if total is not None and every.shape[1] > 2:
        # One after the other, so that the sums of both are not in memory at once.
        total, w = lax.optimization_barrier((total, w))
      powers = leading(np.arange(start + 1, start + 1 + c.shape[1]), w[0])

      def moved(x: Array, by: int, powers: np.ndarray = powers) -> Array:
        return decay(place, neighbours(place, by), by, temperature, powers) * shift(x, by)

      weights = leading(c, w[0])
      sums = moved(jnp.sum(weights * w[:, None], axis=0) if first else w, sign)
      reach = 1
      while reach < w.shape[-1] - 1:
        sums += moved(sums, sign * reach)
        reach *= 2
      terms = sums[None] if first else weights * sums[None]
      total = jnp.sum(terms, axis=1) + (0 if total is None else total)
  if total is None:
    return jnp.zeros((coefficients.shape[0], *w.shape[1:]), w.dtype)
  # Otherwise what uses the sums repeats the last steps, and their inputs are kept: the gradient of
  # err_ia, Laplace [8, 10000] on an H100 takes 30.5 floats an item instead of 29.5 (jaxlib 0.10.2).
  return jnp.stack(lax.optimization_barrier(list(total))) if schedule.stored else total


# The number of items in a block, for polynomials of several powers of x.
_WIDTH = 8


def by_blocks(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """Pairs within blocks one by one, and power sums from block to block."""
  n = w.shape[-1]
  width = _WIDTH if coefficients.shape[-1] > 2 else 1
  blocks = -(-n // width)

  def columns(x: Array, last: Array) -> Array:
    # Not `jnp.pad` with edges, which slices the axes of a batch too: they may be sharded.
    beyond = jnp.broadcast_to(last, (*x.shape[:-1], blocks * width - n))
    x = jnp.concatenate([x, beyond], axis=-1)
    return jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, width), -1, 0)

  place, temperature = [columns(x, x[..., -1:]) for x in place], temperature[None, ..., None]
  w = jnp.swapaxes(columns(w, jnp.zeros_like(w[..., :1])), 0, 1)
  out = _within_blocks(coefficients, place, temperature, w)
  sides = [_Side(coefficients, side, place, temperature) for side in range(2)]
  sides = [side for side in sides if side.powers]
  if sides:
    # One recurrence for both sides, each in its own direction.
    decays = jnp.concatenate([side.decay for side in sides])
    sums = _recurrence(decays, jnp.concatenate([side.moments(w) for side in sides]))
    ends = np.cumsum([side.powers for side in sides])[:-1]
    out += sum(side.beyond(x) for side, x in zip(sides, jnp.split(sums, ends), strict=True))
  out = jnp.moveaxis(out, 1, -1)
  return out.reshape(*out.shape[:-2], blocks * width)[..., :n]


def _within_blocks(coefficients: np.ndarray, place: Place, temperature: Array, w: Array) -> Array:
  """The sums over the pairs within each block, `[outputs, width, ..., blocks]`."""
  width = len(place[0])
  # Spread over devices as the arguments are, which a new shape would not be.
  total = jnp.stack([jnp.zeros_like(w[0])] * len(coefficients))
  if width == 1:
    return total
  i = np.arange(width)
  # Those of each pair of slots of a block, `[width, powers, outputs, inputs, width]`.
  sides = (coefficients[:, :, side, None, None] for side in (0, 1))
  pairs = np.where((i[:, None] < i)[..., None], *sides) * (i[:, None] != i)[..., None]
  pairs = np.transpose(pairs, (2, 4, 0, 1, 3))

  # A loop, because every item of a block would have polynomials of its own in the program.
  def add(total: Array, item: tuple[Any, ...]) -> tuple[Array, None]:
    j, (score, *group), w, c = item
    rise = score[None] - place[0]
    ahead = jnp.where(leading(i, rise[0]) > j, rise, -rise)
    groups = [x[None] for x in group], place[1:]
    x = near([ahead, *groups[0]], [jnp.zeros_like(ahead), *groups[1]], temperature)
    c = c.reshape(c.shape + (1,) * (x.ndim - 1))
    weights = polynomial(c, x[None, None])
    for m in range(len(w)):
      total += w[m, None, None] * weights[:, m]
    return total, None

  items = i.astype(w.dtype), list(place), jnp.swapaxes(w, 0, 1), jnp.asarray(pairs, w.dtype)
  summed: Array = lax.scan(add, total, items)[0]
  return summed


class _Side:
  """The sums over all blocks ahead of the block of each item, or behind it.

  docs/mathematics.md, "Sums over pairs", defines the moments and their recurrence.

  Attributes:
    powers: The number of powers of `x` in the sums.
    decay: The powers of the decay from each block to the next, `[powers, ..., blocks]`.
  """

  def __init__(self, coefficients: np.ndarray, side: int, place: Place, temperature: Array) -> None:
    self._c, self._first = one_side(coefficients, side)
    self.powers = self._c.shape[1]
    self._by = by = -1 if side else 1
    # The end of a block that is nearer to the items that its power sums go to.
    edge = [x[:1] if side else x[-1:] for x in place]
    beyond = neighbours(edge, by)
    powers = leading(np.arange(1, 1 + self.powers), edge[0][0])
    between = decay(edge, beyond, by, temperature, powers)
    self.decay = between[..., ::by]
    if len(place[0]) == 1:
      # Blocks of one item, which is the edge: there is no decay within them.
      self._inside, self._outside = jnp.ones_like(edge[0]), between[:1]
    else:
      self._inside = decay(edge, place, by, temperature)
      self._outside = decay(place, beyond, by, temperature)

  def moments(self, w: Array) -> Array:
    """The power sums of each block, `[powers, ..., blocks]`, in the direction of the side."""

    def moment(w: Array, weights: Array) -> tuple[Array, Array]:
      w = w * self._inside[None]
      of_items = jnp.tensordot(weights, w, 1) if self._first else w[0]
      # As `arithmetic.over_first`, without a further function in the trace of a first call.
      return w, functools.reduce(jnp.add, jnp.unstack(of_items))

    weights = jnp.asarray(self._c.T, w.dtype)
    moments: Array = lax.scan(moment, w, weights, unroll=self.powers <= 2)[1]
    return moments[..., :: self._by]

  def beyond(self, sums: Array) -> Array:
    """The sums for each item, from the recurrence over the moments, `[outputs, ..., blocks]`."""
    entering = shift(sums[..., :: self._by], self._by)[:, None]
    if self._first:
      return polynomial(entering, self._outside)[None]
    weights = leading(self._c, entering[0])
    return jnp.stack([polynomial(c * entering, self._outside) for c in weights])


def _recurrence(decay: Array, new: Array) -> Array:
  """`out_i = out_{i - 1} decay_i + new_i` along the last axis.

  The recurrence runs in all of about sqrt(n) blocks at once, then over the blocks: about 2 sqrt(n)
  steps. docs/mathematics.md, "Sums over pairs".
  """
  n = new.shape[-1]
  blocks = max(1, math.isqrt(n))
  width = -(-n // blocks)

  def columns(x: Array) -> Array:
    x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, blocks * width - n),))
    return jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, width), -1, 0)

  def step(
    state: tuple[Array, Array], column: tuple[Array, Array]
  ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    inside, shrunk = state
    decay, new = column
    inside, shrunk = inside * decay + new, shrunk * decay
    return (inside, shrunk), (inside, shrunk)

  def carry(block: Array, ends: Array) -> Array:
    before, here, passed = (
      lax.dynamic_index_in_dim(x, i, -1, keepdims=False)
      for x, i in ((ends, block - 1), (ends, block), (shrunk_ends, block))
    )
    now: Array = lax.dynamic_update_index_in_dim(ends, here + passed * before, block, -1)
    return now

  start = (jnp.zeros_like(new[..., :blocks]), jnp.ones_like(new[..., :blocks]))
  # Short loops are written out.
  unroll = n <= 16
  last, (inside, shrunk) = lax.scan(step, start, (columns(decay), columns(new)), unroll=unroll)
  ends, shrunk_ends = last
  entering = shift(lax.fori_loop(1, blocks, carry, ends, unroll=unroll), 1)
  out = jnp.moveaxis(inside + shrunk * entering[None], 0, -1)
  return out.reshape(*out.shape[:-2], blocks * width)[..., :n]


# Items at more temperatures from each other are as good as infinitely far apart.
_WIDE = 40.0
# The powers of both sides are counted. Laplace has at most so many in float32, and Logistic more.
_FEW = 10
# The longest lists that are summed over all pairs: for few powers, and for more.
# docs/mathematics.md, "Short lists", has both ways side by side.
_ITEMS = {"cpu": (0, 56), "tpu": (256, 256), "gpu": (256, 128)}
# The most pairs of a batch of such lists, because arrays of pairs may be stored.
_PAIRS = {"cpu": 2**19, "tpu": 2**21, "gpu": 2**22}


def decayed_sums(
  coefficients: np.ndarray,
  place: Place,
  temperature: Array,
  w: Array,
  schedule: Schedule,
) -> Array:
  """`out_ki = sum_m sum_j w_mj sum_p c_kmp x_ij ** p` with `x_ij = exp(-z_ij)`, `[outputs, n]`.

  `z_ij` is the distance of the scores of `i` and `j` in temperatures.

  Args:
    coefficients: `[outputs, inputs, 2, powers]`, for `j < i` and for `j > i`. One of the first two
      lengths is 1.
    place: The scores `[..., n]`, descending, within each group if there are groups, and optionally
      group numbers `[..., n]`, equal ones side by side; pairs of different groups are left out.
    temperature: Positive numbers, `[...]`.
    w: `[inputs, ..., n]`.
    schedule: In which parts powers are added up, if that makes a difference.
  """
  return _sums(coefficients, place, temperature, w, schedule=schedule, recompute=False)


def _sums(
  coefficients: np.ndarray, place: Place, temperature: Array, w: Array, **static: Any
) -> Array:
  (out,) = _operation(w, temperature, *place, coefficients=_hashable(coefficients), **static)
  return out


def _hashable(x: np.ndarray) -> Any:
  return tuple(map(_hashable, x)) if x.ndim else float(x)


def _types(w: Any, temperature: Any, *place: Any, coefficients: Any, **_: Any) -> Sequence[Any]:
  """The type of the sums, which depends on the arguments as that of a short formula does."""

  def like(w: Array, temperature: Array, *place: Array) -> Array:
    one = jnp.sum(w, axis=0) + temperature[..., None] + sum(x.astype(w.dtype) for x in place)
    return jnp.broadcast_to(one, (len(coefficients), *one.shape)).astype(w.dtype)

  found: Sequence[Any] = jax.make_jaxpr(like)(w, temperature, *place).out_avals
  return found


def _jvp(
  primals: Sequence[Array], tangents: Sequence[Any], *, coefficients: Any, **static: Any
) -> tuple[list[Array], list[Array]]:
  """The derivative is two more sums over pairs: docs/mathematics.md, "Sums over pairs"."""
  w, temperature, *place = primals
  by_w, by_temperature, by_score, *_ = tangents

  def sums(coefficients: np.ndarray, w: Array) -> Array:
    return _sums(coefficients, place, temperature, w, **static)

  plain = np.array(coefficients)
  steep = plain * np.arange(1, plain.shape[-1] + 1) * [[1], [-1]]
  moves = list(_moves(place[0], temperature, by_score, by_temperature))
  if not moves:
    return [sums(plain, w)], [sums(plain, by_w)]
  if plain.shape[1] == 1:
    value, slope = jnp.split(sums(np.concatenate([plain, steep]), w), 2)
  else:
    value, slope = sums(plain, w), sums(steep, w)
  terms = [(-steep, w * moved[None]) for moved in moves]
  if not is_zero(by_w):
    terms.append((plain, by_w))
  if plain.shape[0] == 1:
    parts, weights = zip(*terms, strict=True)
    terms = [(np.concatenate(parts, axis=1), jnp.concatenate(weights))]
  change = jnp.zeros_like(value)
  for moved in moves:
    change += slope * moved[None]
  for term in terms:
    change += sums(*term)
  return [value], [change]


def _moves(score: Array, temperature: Array, by_score: Any, by_temperature: Any) -> Iterator[Array]:
  """Changes of `score / temperature`, by the scores and by the temperature.

  Each is up to a constant for all items that are near each other. The temperature moves an item by
  its distance from the first such item, because larger numbers would cancel with rounding errors.
  """
  temperature = temperature[..., None]
  if not is_zero(by_score):
    yield by_score / temperature
  if not is_zero(by_temperature):
    gap = distance(score[..., :-1], score[..., 1:], temperature)
    first = jnp.ones_like(score[..., :1], bool)
    starts = jnp.concatenate([first, (gap < 0) | (gap > _WIDE)], axis=-1)
    start = lax.cummax(jnp.where(starts, sorting.slots(score), 0), axis=score.ndim - 1)
    head = sorting.take(score, start)
    yield (head - score) / temperature * (by_temperature[..., None] / temperature)


def _transpose(
  changes: Sequence[Array],
  w: Any,
  temperature: Array,
  *place: Array,
  coefficients: Any,
  recompute: bool,
  **static: Any,
) -> list[Any]:
  """The sums with inputs and outputs exchanged, and what is ahead with what is behind."""
  (out,) = changes
  swapped = np.array(coefficients).swapaxes(0, 1)[:, :, ::-1]
  by_w = _sums(swapped, place, temperature, out, recompute=True, **static)
  return [by_w, None, *(None for _ in place)]


def _batch(
  args: Sequence[Array], axes: Sequence[Any], **static: Any
) -> tuple[list[Array], list[int]]:
  """The axis of a batch is the first after that of the inputs and outputs."""
  w, *others = whole_batch(args, axes)
  return _operation(jnp.swapaxes(w, 0, 1), *others, **static), [1]


@primitive
def sums_of_powers(
  w: Array,
  temperature: Array,
  *place: Array,
  coefficients: Any,
  schedule: Schedule,
  recompute: bool,
) -> Array:
  """`decayed_sums` of a whole batch, over all pairs of items."""
  del schedule, recompute
  return by_pairs(np.array(coefficients), place, temperature, w)


def _are_long_on(platform: str) -> Callable[..., bool]:
  def are_long(w: Array, *_: Array, coefficients: Any, **static: Any) -> bool:
    powers = np.count_nonzero(np.any(np.array(coefficients) != 0, axis=(0, 1)))
    n, longest = w.shape[-1], _ITEMS[platform][bool(powers > _FEW)]
    return n > longest or n * w[0].size > _PAIRS[platform]

  return are_long


@sums_of_powers.on(
  "cpu", gain="gradient of nDCG@10, Laplace [32, 1000]: 150", when=_are_long_on("cpu")
)
def _sums_by_blocks(
  w: Array, temperature: Array, *place: Array, coefficients: Any, **_: Any
) -> Array:
  return _in_cache(functools.partial(by_blocks, np.array(coefficients)), place, temperature, w)


@sums_of_powers.on("tpu", gain="gradient of nDCG, Laplace [32, 1000]: 4", when=_are_long_on("tpu"))
@sums_of_powers.on(
  "gpu",
  gain="launches of the gradient of nDCG@10, Logistic [32, 1000]: 24",
  when=_are_long_on("gpu"),
)
def _sums_by_doubling(
  w: Array,
  temperature: Array,
  *place: Array,
  coefficients: Any,
  schedule: Schedule,
  recompute: bool,
) -> Array:
  if recompute:
    # Decays are recomputed for a gradient, because to keep those of its value takes memory.
    _, temperature, *place = lax.optimization_barrier((w, temperature, *place))
  return by_doubling(np.array(coefficients), schedule, place, temperature, w)


def _in_cache(sums: Callable[..., Array], place: Place, temperature: Array, w: Array) -> Array:
  """Takes a batch of batches, such as one of temperatures, in blocks whose arrays stay in cache."""
  batch = w.shape[1:]
  rows = rows_on_cpu(batch, config.items_per_block()) if len(batch) > 2 else 0
  if not rows or any(jax.typeof(w).sharding.spec):
    return sums(place, temperature, w)

  def block(w: Array, temperature: Array, *place: Array) -> Array:
    return jnp.swapaxes(sums(place, temperature, jnp.swapaxes(w, 0, 1)), 0, 1)

  swapped: Array = in_blocks(block, rows)(jnp.swapaxes(w, 0, 1), temperature, *place)
  return jnp.swapaxes(swapped, 0, 1)


_operation = Operation(
  "decayed_sums", sums_of_powers, types=_types, batch=_batch, jvp=_jvp, transpose=_transpose
)


# The numbers of powers of x in the series of a logarithm and of the tail: errors of values and
# slopes are below 3e-8 and 3e-7, or 2e-14 and 3e-13, and each power divides them by 3 + sqrt(8):
# docs/mathematics.md, "Sums over pairs".
_POWERS = {"float32": (9, 10), "float64": (20, 20)}

_TOGETHER = Schedule()


class Series(NamedTuple):
  """A symmetric distribution function `F` as polynomials in `x = exp(-z)`, `z >= 0`.

  Coefficients are those of `x, x ** 2, ...`; there is no constant term. docs/mathematics.md, "The
  cascade under expected ranks", explains what each is used for.

  Attributes:
    tail: `F(-z)`.
    log_ahead: `log F(-z) + z - log_scale`.
    log_behind: `log F(z)`.
    log_scale: The limit of `log F(-z) + z` for large `z`.
  """

  tail: np.ndarray
  log_ahead: np.ndarray
  log_behind: np.ndarray
  log_scale: float


@jax.custom_jvp
def normal_tail(v: Array) -> Array:
  """The probability that a standard normal number exceeds `v`.

  It has a derivative of its own, because that of `erfc` fails under `shard_map` in jax 0.12.
  """
  return lax.erfc(v * math.sqrt(0.5)) / 2


@normal_tail.defjvp
def _normal_tail_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
  (v,), (dv,) = primals, tangents
  return normal_tail(v), -jnp.exp(-jnp.square(v) / 2) / math.sqrt(2 * math.pi) * dv


def _series(derivative: Callable[..., Any], powers: int) -> np.ndarray:
  """Coefficients of a polynomial without a constant term, from its derivative.

  The derivative is interpolated at Chebyshev nodes of [0, 1]. docs/mathematics.md, "Sums over
  pairs", bounds the error.
  """
  slope = np.polynomial.Chebyshev.interpolate(derivative, powers - 1, domain=[0, 1])
  return slope.integ(lbnd=0).convert(kind=np.polynomial.Polynomial).coef[1:]


@functools.cache
def laplace(dtype: str) -> Series:
  """The Laplace distribution function, `F(-z) = x / 2`."""
  log_behind = _series(lambda x: 1 / (x - 2), _POWERS[dtype][0])
  return Series(np.array([0.5]), np.zeros(1), log_behind, -math.log(2))


@functools.cache
def logistic(dtype: str) -> Series:
  """The logistic distribution function, `F(-z) = x / (1 + x)`."""
  for_log, for_tail = _POWERS[dtype]
  log = _series(lambda x: -1 / (1 + x), for_log)
  tail = _series(lambda x: (1 + x) ** -2, for_tail)
  return Series(tail, log, log, 0.0)


def polynomial_sums(
  score: Array,
  temperature: Array,
  w: Array,
  pair: np.ndarray,
  group: Array | None = None,
  schedule: Schedule = _TOGETHER,
) -> Array:
  """`sum_j w_j sum_p c_p exp(-p |score_i - score_j| / temperature)` for every `i`.

  docs/mathematics.md, "Sums over pairs".

  Args:
    score: `[n]`, descending, within each group if there are groups.
    temperature: A positive scalar.
    w: `[n]`, weights.
    pair: `[2, powers]`, the coefficients `c` for `j < i` and for `j > i`.
    group: `[n]`, group numbers, equal ones side by side; pairs of different groups are left out.
      None is one group.
    schedule: In which parts powers are added up, if that makes a difference.

  Returns:
    `[n]`.
  """
  place = (score,) if group is None else (score, group)
  return decayed_sums(pair[None, None], place, temperature, w[None], schedule)[0]


# The items behind each one, with the coefficient 1.
_BEHIND = np.array([0.0, 1.0]).reshape(1, 1, 2, 1)

# Exponents are cut into steps of this size, a power of two, so that no rest of them is rounded.
_STEP = {"float32": 32.0, "float64": 256.0}


class LogSums(NamedTuple):
  """Logarithms of sums of exponentials in two parts, whose sum would round the second one away.

  Attributes:
    top: An exponent near the largest of each sum, without a derivative.
    rest: The logarithm of the sum of exponentials relative to it.
  """

  top: Array
  rest: Array

  def at(self, slot: Array) -> "LogSums":
    """The sums at some slots."""
    return LogSums(take(self.top, slot), take(self.rest, slot))

  def minus(self, z: Array) -> Array:
    """The logarithms minus `z`."""
    return (self.top - z) + self.rest


def log_sums_of_lower(level: Array, z: Array, live: Array, none: float) -> LogSums:
  """`log sum exp(z_j)` over the live items with `level_j < level_i`, `[n]`; `none` if none is.

  It compares all pairs of finite numbers `z`, but takes one exponential for each item only:
  docs/mathematics.md, "Sums over pairs".
  """
  size = _STEP[z.dtype.name]
  step = jnp.floor(lax.stop_gradient(z) / size)
  rest = jnp.exp(z - size * step)
  lower = (level[:, None] < level[None]) & live[:, None]
  top = jnp.max(jnp.where(lower, step[:, None], float(jnp.finfo(z.dtype).min) / size), axis=0)
  # The highest step and the next one; all others are below the rounding errors.
  down = top[None] - step[:, None]
  factor = jnp.where(down == 0, 1, jnp.where(down == 1, jnp.asarray(math.exp(-size), z.dtype), 0))
  total = jnp.sum(jnp.where(lower, factor * rest[:, None], 0), axis=0)
  some = total > 0
  return LogSums(jnp.where(some, size * top, none), jnp.log(jnp.where(some, total, 1)))


def log_sums(z: Array) -> LogSums:
  """`log sum_{j >= i} exp(z_j)` of finite numbers, `[n]`.

  docs/mathematics.md, "Sums over pairs". `lax.cumlogsumexp` is the same, but its derivative takes
  several times as many operations.
  """
  # The maxima cancel, and have no derivative.
  largest = lax.stop_gradient(lax.cummax(z, axis=0, reverse=True))
  w = jnp.exp(z - largest)
  # Quarters are exact, and keep the maxima below half of the largest float.
  quarter = jnp.full_like(largest, 0.25, shape=())
  behind = decayed_sums(_BEHIND, (quarter * largest,), quarter, w[None], Schedule(1))[0]
  return LogSums(largest, jnp.log(w + behind))
