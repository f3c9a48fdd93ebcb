"""Internals of the losses: `loss` maps the body of a loss over queries; logits and targets.

The modules of `jaxrank.losses` import it.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import Gain
from jaxrank._core.apply import lifted, ranked_query
from jaxrank._core.arithmetic import at_least_tiny, clipped, plain_sum
from jaxrank._core.ranked import Ranking
from jaxrank.rankings.exact import Exact, ExactQuery
from jaxrank.rankings.sharded import Sharded

_Public = TypeVar("_Public", bound=Callable[..., Any])


def loss(
  *,
  ties: Literal["stable", "pessimistic"] | None = None,
  in_blocks: bool = False,
  poisons: bool = False,
  departs: Mapping[str, str] | None = None,
  **about: Any,
) -> Callable[[_Public], _Public]:
  """A decorator: a typed function whose body is a kernel of one query becomes a loss.

  A loss with a parameter `ranking` is ranked by it. Any other has an `exact_query`, which is sorted
  only if `ties` is given; a parameter `key` gives each query its `noise`.

  Args:
    ties: The rule for tied scores.
    in_blocks: Whether the loss sorts in its own way, or holds a matrix for each query, so that
      blocks of queries save time.
    poisons: That of `apply.Call`.
    departs: The laws of losses that the loss does not obey on purpose: the reason by the name of
      the law. They become an attribute, which `jaxrank.testing.check_loss` reads.
    **about: Other arguments of `jaxrank._core.apply.lifted`.

  Returns:
    The decorator.
  """

  def attach(function: _Public) -> _Public:
    takes, given = inspect.signature(function).parameters, dict(about)
    if "ranking" in takes:
      given["order"] = _smooth
    else:
      given["order"] = _noisy if "key" in takes else lambda: Exact(ties or "average")
      given["stands_for"] = (*given.get("stands_for", ()), *takes.keys() & {"key"})
      blocks = in_blocks or ties is not None
      given["settings"] = {"depth": None if ties else 0, "in_blocks": blocks, "poisons": poisons}
    public: Any = lifted(**given)(function)
    if departs is not None:
      public.departs = departs
    return cast(_Public, public)

  return attach


def _smooth(ranking: Any) -> Any:
  if isinstance(ranking, Exact | Sharded):
    raise ValueError(
      f"the gradient is 0 under ranking={ranking!r}; pass a smooth ranking, such as "
      "jaxrank.Laplace(1.0), or take one minus the metric itself."
    )
  return ranking


def _noisy(key: Array | None) -> Ranking:
  return Exact() if key is None else Exact("random", key)


def exact_query(
  scores: ArrayLike | None = None,
  labels: ArrayLike | None = None,
  where: ArrayLike | None = None,
) -> ExactQuery:
  """The query of the lists of a loss, which its body computes with."""
  return cast(ExactQuery, ranked_query(scores, labels, where))


def largest(x: Array) -> float:
  """The largest float of the dtype of an array."""
  return float(jnp.finfo(x.dtype).max)


def logits(query: ExactQuery, temperature: ArrayLike) -> Array:
  """Scores of the retrieved items over the temperature, finite; 0 elsewhere."""
  score = jnp.where(query.retrieved, query.scores, jnp.zeros_like(query.scores))
  score = saturated(score.astype(query.dtype))
  z = saturated(score / at_least_tiny(temperature, query.dtype))
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
  """`x`, or the largest float of its sign if it is infinite.

  `jnp.clip` would multiply the infinite slope of a quotient that is infinite by 0.
  """
  return clipped(x, largest(x))


def softplus(x: Array, scale: Array) -> Array:
  """`scale * log(1 + exp(x / scale))`, finite for every finite `x`."""
  # Not an absolute value, whose slope at 0 is 0, as the second derivative there would be.
  positive = x > 0
  below = jnp.where(positive, -x, x)
  return jnp.where(positive, x, 0) + scale * jnp.log1p(jnp.exp(below * (1 / scale)))


def target(query: ExactQuery, gain: Gain, weights: ArrayLike | None) -> Array:
  """Gains times weights of the retrieved items, NaN for a NaN label; 0 elsewhere."""
  return worth_of(query.gain(gain, weights), query.labels, query.retrieved)


def worth_of(gain: Array, label: Array, live: Array) -> Array:
  """Gains of the live items, NaN for a NaN label; 0 elsewhere."""
  known = jnp.where(live, gain, 0)
  return jnp.where(jnp.isnan(label), jnp.nan, known)


class _Chances(NamedTuple):
  """The softmax of one query; a NaN score makes all sums NaN.

  Attributes:
    quarter: A quarter of the logits, `[n]`; finite, so that differences are.
    drop: A quarter of how far the logits are below the largest one, `[n]`, finite.
    mass: The probabilities times `total`, `[n]`.
    total: The sum of the masses.
  """

  quarter: Array
  drop: Array
  mass: Array
  total: Array

  @property
  def gap(self) -> Array:
    """`-log p / 4`, `[n]`, finite."""
    return jnp.log(self.total) / 4 + self.drop

  @property
  def miss(self) -> Array:
    """`(1 - p) / 4`, `[n]`."""
    return (self.total - self.mass) / (4 * self.total)


def _chances(scores: Array, temperature: Array) -> _Chances:
  finite = jnp.isfinite(scores)
  # A quotient of an infinity would have the derivative NaN by the temperature.
  z = jnp.where(finite, jnp.where(finite, scores, 0) / temperature, scores)
  top = lax.stop_gradient(jnp.max(z))
  # The difference of two infinities would be NaN; that of two finite numbers has a derivative.
  mass = jnp.exp(jnp.where((z == top) & jnp.isinf(top), 0, z - jnp.where(top == -jnp.inf, 0, top)))
  total = jnp.sum(mass)
  quarter = saturated(z) / 4
  return _Chances(quarter, saturated(top) / 4 - quarter, mass, total)


@jax.custom_jvp
def cross_entropy(
  gain: Array, label: Array, missed: Array, scores: Array, temperature: Array
) -> tuple[Array, Array]:
  """`sum_i g_i (-log p_i) + missed_i (1 - p_i)` and `sum_i g_i`, with `p = softmax(s / T)`.

  This costs little more than the formula that knows no padding, lost items, infinities or NaN: a
  score of -inf stands for a mask, quarters of the logits keep differences finite, and the sums that
  the formula needs anyway find every NaN.

  Args:
    gain: Gains `g`, `[n]`; those of items whose score is -inf do not count.
    label: `[n]`; a label that is NaN makes both sums NaN.
    missed: `[n]`, 0 where the score is -inf; a scalar 0 for none.
    scores: Scores `s`, `[n]`, -inf for items that are not retrieved and for padding.
    temperature: `T`, a positive number.

  Returns:
    The value, or the largest float if it is larger; NaN, with gradient 0, for a NaN. The sum of the
    gains.
  """
  return _sums(gain, label, missed, scores, _chances(scores, temperature))


def _sums(
  gain: Array, label: Array, missed: Array, scores: Array, chances: _Chances
) -> tuple[Array, Array]:
  bound = largest(scores)

  worth = worth_of(gain, label, scores > -jnp.inf)
  # An infinite gain times 0 would be NaN.
  term = jnp.minimum(worth, bound) * chances.drop
  if missed.ndim:
    term += missed * chances.miss
  value, total = plain_sum(term), jnp.sum(worth)
  rest = jnp.log(chances.total) / 4
  value += jnp.where(rest > 0, total, jnp.minimum(total, bound)) * rest
  return saturated(4 * value), total


@cross_entropy.defjvp
def _cross_entropy_jvp(
  primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
  gain, label, missed, scores, temperature = primals
  d_gain, _, d_missed, d_scores, d_temperature = tangents
  chances = _chances(scores, temperature)
  _, drop, mass, total = chances
  _, pull = sums = _sums(gain, label, missed, scores, chances)
  live = scores > -jnp.inf
  push = worth_of(gain, label, live)
  if missed.ndim:
    push += missed * mass / total
    pull = plain_sum(push)
  finite = jnp.isfinite(total + pull)
  slope = jnp.where(finite, mass * (pull / total) - push, 0)
  # 0 where the derivative, or what a loss divides it by, is too large for a float, as the gradient
  # of a loss that is.
  bound = 2.0**-24 * largest(scores) * jnp.minimum(temperature, 1)
  # The slopes add up to 0, so that the drops stand for the logits, and cancel less. The drop of an
  # item without a slope is the slope of its slope by its gain, unless it would overflow.
  moves = finite & ((drop < bound) | (push != 0))
  fall = jnp.sum(slope * jnp.where(moves, drop, 0))
  small = jnp.abs(fall) < bound
  by_temperature = 4 * jnp.where(small, fall, 0) / temperature
  rise = jnp.sum(slope * d_scores) / temperature + by_temperature * d_temperature
  known = jnp.where(finite & live, d_gain, 0)
  rise += 4 * jnp.sum(known * jnp.where(finite, chances.gap, 0))
  if missed.ndim:
    rise += 4 * jnp.sum(d_missed * jnp.where(finite, chances.miss, 0))
  return sums, (rise, jnp.sum(known))
