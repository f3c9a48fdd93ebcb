"""Sums over the items above, or below, each item, decayed with the distance of their scores.

`decayed_sums` is an operation with rules, because its derivatives and its transpose are sums of the
same kind: a gradient computes the sums twice, in whatever order it is batched, and a program has
the algorithm of its platform only. docs/mathematics.md, "Sums over pairs", derives the slopes.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank import config
from jaxrank._core import sorting
from jaxrank._core._jax import is_zero
from jaxrank._core.batching import in_blocks, rows_on_cpu, whole_batch
from jaxrank._core.decays import Place, Schedule, by_blocks, by_doubling, by_pairs, distance
from jaxrank._core.platforms import Operation, primitive

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
