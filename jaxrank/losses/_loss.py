"""Internals of the classical losses: `apply_loss` maps a kernel over queries; logits and targets.

The modules of `jaxrank.losses` import it.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks, description
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.arithmetic import at_least_tiny, plain_sum
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking
from jaxrank._core.types import Gain
from jaxrank.rankings.exact import Exact, ExactQuery

Lists = tuple[ArrayLike, ArrayLike, ArrayLike | None]


def apply_loss(
  kernel: Callable[..., Array],
  lists: Lists,
  *,
  name: str | None = None,
  ties: Literal["average", "stable", "optimistic", "pessimistic"] | None = None,
  key: Array | None = None,
  in_blocks: bool = False,
  poisons: bool = False,
  **parameters: Any,
) -> Array:
  """Computes `kernel(query, **parameters)` for each query of `lists`: scores, labels and mask.

  The queries are sorted only if `ties` is given, the rule for tied scores. `key` gives each query
  its `query.noise`. `in_blocks` says that a kernel sorts in its own way, or holds a matrix for each
  query, so that blocks of queries save time. `poisons` says that the kernel itself returns NaN,
  with gradient 0, if a valid score or label is NaN. Error messages start with `name`, by default
  the name of the kernel's function.
  """
  about = description.of_kernel(kernel)
  with checks.named(name or about.name):
    if "temperature" in parameters:
      checks.positive("temperature", parameters["temperature"])
    ranking = Exact(ties or "average") if key is None else Exact("random", key)
    depth = None if ties else 0
    blocks = in_blocks or ties is not None
    call = Call(about, about.checked(parameters), depth, blocks, poisons)
    (found,) = apply_calls([call], *lists, ranking)
  value: Array = found.value
  return value


def one_minus(
  metric: Callable[..., Array], loss: str, lists: Lists, ranking: Ranking, **parameters: Any
) -> Array:
  """One minus a metric under a ranking; error messages start with the name of the loss."""
  about = _named(metric, loss)
  with checks.named(loss):
    call = Call(about, about.checked(parameters))
    (found,) = apply_calls([call], *lists, ranking)
  value: Array = 1 - found.value
  return value


@functools.cache
def _named(metric: Callable[..., Array], loss: str) -> Description:
  """The description of a metric with the name of a loss, the same for each call."""
  about = description.of_metric(metric)
  assert about is not None
  return dataclasses.replace(about, name=loss)


def largest(x: Array) -> float:
  """The largest float of the dtype of an array."""
  return float(jnp.finfo(x.dtype).max)


def logits(query: ExactQuery, temperature: ArrayLike) -> Array:
  """Scores of the retrieved items over the temperature, finite; 0 elsewhere."""
  score = jnp.where(query.retrieved, query.scores, jnp.zeros_like(query.scores))
  score = score.astype(query.dtype)
  bound = largest(score)
  score = jnp.clip(score, -bound, bound)
  z = score / at_least_tiny(temperature, query.dtype)
  # A clip would multiply the infinite slope of a quotient that is infinite by 0.
  z = jnp.where(z > bound, bound, jnp.where(z < -bound, -bound, z))
  # This changes nothing, but a loop over pairs that ends with a clip takes 1.3 times as long.
  return jnp.where(query.retrieved, z, 0)


def headroom(z: Array, terms: int) -> Array:
  """A power of two to multiply logits by, so that a sum of `terms` differences of them is finite.

  It is 1, which changes nothing, unless a logit is huge.
  """
  return headroom_below(jnp.max(jnp.abs(lax.stop_gradient(z))), terms)


def headroom_below(top: Array, terms: int) -> Array:
  """`headroom` of logits whose largest magnitude is `top`."""
  power = 2.0 ** -(terms.bit_length() + 8)
  # A zero that depends on the logits: jax 0.10.0 cannot choose between constants over a mesh.
  return jnp.where(top > largest(top) * power, jnp.asarray(power, top.dtype), 1 + 0 * top)


def saturated(x: Array) -> Array:
  """`x`, or the largest float if it is larger."""
  return jnp.clip(x, -largest(x), largest(x))


@jax.custom_jvp
def softplus(x: Array, scale: Array) -> Array:
  """`scale * log(1 + exp(x / scale))`, finite for every finite `x`; the scale has no gradient.

  Value and slope share an exponential, which halves the time of a sum over pairs.
  """
  return _softplus(x, scale, _decay(x, scale))


@softplus.defjvp
def _softplus_jvp(
  primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
  x, scale = primals
  decay = _decay(x, scale)
  slope = jnp.where(x > 0, 1, decay) / (1 + decay)
  return _softplus(x, scale, decay), slope * tangents[0]


def _decay(x: Array, scale: Array) -> Array:
  return jnp.exp(-jnp.abs(x) * (1 / scale))


def _softplus(x: Array, scale: Array, decay: Array) -> Array:
  return jnp.maximum(x, 0) + scale * jnp.log1p(decay)


def target(query: ExactQuery, gain: Gain, weights: Array | None) -> Array:
  """Gains times weights of the retrieved items, NaN for a NaN label; 0 elsewhere."""
  known = jnp.where(query.retrieved, query.gain(gain, weights), 0)
  return jnp.where(jnp.isnan(query.labels), jnp.nan, known)


class _Chances(NamedTuple):
  """The softmax of one query; a NaN score makes all sums NaN.

  Attributes:
    quarter: A quarter of the logits, `[n]`; finite, so that differences are.
    gap: `-log p / 4`, `[n]`, finite.
    share: The probabilities times `total`, `[n]`.
    total: The sum of the shares.
  """

  quarter: Array
  gap: Array
  share: Array
  total: Array

  @property
  def miss(self) -> Array:
    """`1 - p`, `[n]`."""
    return (self.total - self.share) / self.total


def _chances(scores: Array, temperature: Array) -> _Chances:
  z, bound = scores / temperature, largest(scores)
  top = lax.stop_gradient(jnp.max(z))
  # The difference of two infinities would be NaN; that of two finite numbers has a derivative.
  share = jnp.exp(jnp.where((z == top) & jnp.isinf(top), 0, z - top))
  total = jnp.sum(share)
  quarter = jnp.clip(z, -bound, bound) / 4
  gap = (jnp.log(total) + jnp.clip(top, -bound, bound)) / 4 - quarter
  return _Chances(quarter, gap, share, total)


@jax.custom_jvp
def cross_entropy(worth: Array, missed: Array, scores: Array, temperature: Array) -> Array:
  """`sum_i worth_i (-log p_i) + missed_i (1 - p_i)`, with `p = softmax(scores / temperature)`.

  This costs little more than the formula that knows no padding, lost items, infinities or NaN: a
  score of -inf stands for a mask, quarters of the logits keep differences finite, and the sums that
  the formula needs anyway find every NaN.

  Args:
    worth: `[n]`, 0 where the score is -inf.
    missed: `[n]`, 0 where the score is -inf; a scalar 0 for none.
    scores: `[n]`, -inf for items that are not retrieved and for padding.
    temperature: A positive number.

  Returns:
    The value, or the largest float if it is larger; NaN, with gradient 0, for a NaN.
  """
  return _value(worth, missed, _chances(scores, temperature))


def _value(worth: Array, missed: Array, chances: _Chances) -> Array:
  term = worth * chances.gap
  if missed.ndim:
    term += missed / 4 * chances.miss
  return saturated(4 * plain_sum(term))


@cross_entropy.defjvp
def _cross_entropy_jvp(
  primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
  (worth, missed, scores, temperature), (d_worth, d_missed, d_scores, d_temperature) = (
    primals,
    tangents,
  )
  chances = _chances(scores, temperature)
  quarter, gap, share, total = chances
  if missed.ndim:
    push = worth + missed * share / total
    pull = plain_sum(push)
  else:
    push, pull = worth, jnp.sum(worth)
  finite = jnp.isfinite(total + pull)
  slope = jnp.where(finite, share * (pull / total) - push, 0)
  by_temperature = -4 * jnp.sum(slope * jnp.where(finite, quarter, 0)) / temperature
  # 0 where it is too large for a float, as the gradient of a loss that is.
  by_temperature = jnp.where(jnp.isfinite(by_temperature), by_temperature, 0)
  rise = jnp.sum(slope * d_scores) / temperature + by_temperature * (d_temperature / temperature)
  rise += 4 * jnp.sum(d_worth * jnp.where(finite, gap, 0))
  if missed.ndim:
    rise += jnp.sum(d_missed * jnp.where(finite, chances.miss, 0))
  return _value(worth, missed, chances), rise
