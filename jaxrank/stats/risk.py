"""`risk_control`: the strictest threshold whose expected loss on a new query is bounded."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import floating
from jaxrank.stats import _values

# By how much losses may be beyond their bounds, or increase, because they are rounded, in units of
# the largest loss possible.
_ROUNDING = 2.0**-20


class Threshold(NamedTuple):
  """A threshold for new queries, `[...]`.

  Attributes:
    threshold: The threshold as a float; NaN if there is none.
    position: Its index among the thresholds; -1 if there is none.
    risk: The mean loss of the queries there; NaN if there is none.
  """

  threshold: Array
  position: Array
  risk: Array


def risk_control(
  losses: ArrayLike, thresholds: ArrayLike, *, level: ArrayLike, bound: ArrayLike = 1.0
) -> Threshold:
  """The strictest threshold at which the expected loss of a new query is at most `level`.

  With the mean losses `R_j` of `n` queries at thresholds in the order from the strictest, it is the
  first one for which `(n R_j + bound) / (n + 1) <= level`. The new query counts in this mean with
  the largest loss that is possible.

  Let the new query be exchangeable with the `n` queries, as it is if all of them are drawn from one
  log, and nothing was trained or chosen on them. Then its expected loss at the threshold is at most
  `level`, for any `n` and any distribution. The expectation is over the `n` queries and the new
  one: some queries lose more, and at the threshold of one sample of `n` queries the mean loss of
  all queries may be larger. A sample for which there is no threshold counts with a loss of 0.

  There is no threshold if the losses at the most permissive one are too large, or if there are
  fewer than `bound / level - 1` queries.

  Losses that increase at some thresholds are refused. For them, pass
  `jax.lax.cummax(losses, axis=losses.ndim - 1, reverse=True)`, the largest loss at a threshold or
  at any that is more permissive. The loss itself is never larger, so that `level` holds for it too.

  >>> rank = jnp.array([1, 2, 1, 1, 3, 1, 5, 1, 2])  # of the one relevant item of each query
  >>> shown = jnp.arange(1, 6)
  >>> found = risk_control(rank[:, None] > shown[None], shown, level=0.3)
  >>> print(f"show {found.threshold:.0f} items, which miss it in {found.risk:.3f} of the queries")
  show 2 items, which miss it in 0.222 of the queries

  Args:
    losses: `[..., n, m]`, the loss of each of `n` queries at each of `m` thresholds, between 0 and
      `bound`. It does not increase along the last axis. With NaN among them there is no threshold.
    thresholds: `[m]`, such as numbers of items to show or scores that items must reach, from the
      strictest, which shows the fewest items, to the most permissive.
    level: The expected loss that is allowed, more than 0 and at most `bound`; may be traced.
    bound: The largest loss that a query can have; may be traced.

  Returns:
    The threshold, its position, and the mean loss of the `n` queries there, `[...]`. They are NaN,
    -1 and NaN if there is no such threshold, and under `jit` where losses are an error outside.

  Raises:
    ValueError: if losses increase along thresholds, or are not between 0 and `bound`; if shapes
      differ, or there is no query or threshold; or if `level` or `bound` is out of range.
    TypeError: if an argument has a wrong type.

  References:
    Angelopoulos, Bates, Fisch, Lei and Schuster, `Conformal risk control
    <https://arxiv.org/abs/2208.02814>`_, 2022.
  """
  with checks.named("stats.risk_control"):
    x, t = (
      floating(checks.array(name, value))
      for name, value in (("losses", losses), ("thresholds", thresholds))
    )
    if x.ndim < 2 or 0 in x.shape[-2:]:
      raise ValueError(
        "losses must have shape [..., queries, thresholds], with at least one of each, got "
        f"{x.shape}; pass the loss of each query at each threshold."
      )
    if t.shape != x.shape[-1:]:
      raise ValueError(
        f"thresholds must have shape {x.shape[-1:]}, as many as losses {x.shape} has of each "
        f"query, got {t.shape}; pass the threshold of each column of losses."
      )
    _check_numbers(level, bound)
    x, t = _values.alike(x, t)
    allowed, largest = (jnp.asarray(value, x.dtype) for value in (level, bound))
    *found, faulty = _controlled(x, t, allowed, largest)
    _check_losses(x, faulty, largest)
  return Threshold(*found)


def _check_numbers(level: Any, bound: Any) -> None:
  """Raises unless the level and the bound are numbers in their ranges, or traced."""
  checks.number("level", level)
  checks.number("bound", bound)
  is_known = checks.is_known(bound)
  if is_known and not (bound > 0 and math.isfinite(bound)):
    raise ValueError(
      f"bound must be positive and finite, got {bound}; pass the largest loss that a query can "
      "have."
    )
  if checks.is_known(level) and not 0 < level <= (bound if is_known else math.inf):
    most = f"at most bound, {bound}" if is_known else "at most bound"
    raise ValueError(
      f"level must be more than 0 and {most}, got {level}; pass the expected loss that is allowed, "
      "such as 0.1."
    )


def _check_losses(losses: Array, faulty: Array, bound: Array) -> None:
  """Raises `ValueError` if a loss is known to be out of bounds, or to increase."""
  if not checks.is_known(faulty) or not faulty:
    return
  outside, rising = map(np.argwhere, _faults(np.asarray(losses), np.asarray(bound)))
  if outside.size:
    *_, query, i = place = tuple(outside[0].tolist())
    raise ValueError(
      f"losses must be between 0 and bound, {bound:g}, got {losses[place]:g} for query {query} at "
      f"threshold {i}; pass the largest loss that a query can have as bound=."
    )
  *_, query, i = place = tuple(rising[0].tolist())
  after = losses[(*place[:-1], i + 1)]
  raise ValueError(
    "losses must not increase along thresholds, from the strictest to the most permissive, got "
    f"{losses[place]:g} and then {after:g} for query {query} at thresholds {i} and {i + 1}; "
    "reverse both arguments if they are in the other order, or pass the losses "
    "jax.lax.cummax(losses, axis=losses.ndim - 1, reverse=True)."
  )


def _faults(x: Any, bound: Any) -> tuple[Any, Any]:
  """Which losses are out of bounds, and which are less than the next one; NaN is neither."""
  slack = _ROUNDING * bound
  return (x < -slack) | (x > bound + slack), x[..., 1:] - x[..., :-1] > slack


@jax.jit
def _controlled(x: Array, t: Array, level: Array, bound: Array) -> tuple[Array, ...]:
  n = x.shape[-2]
  total = jnp.sum(x, axis=-2)
  # Numbers that are equal may differ by the rounding of the sum and of the level.
  most = level * (n + 1) * (1 + 4 * jnp.finfo(x.dtype).eps)
  faults = [jnp.any(fault, axis=(-2, -1)) for fault in _faults(x, bound)]
  faulty = faults[0] | faults[1]
  unknown = faulty | jnp.any(jnp.isnan(total), axis=-1)
  enough = (total + bound <= most) & ~unknown[..., None]
  some, first = jnp.any(enough, axis=-1), jnp.argmax(enough, axis=-1)
  risk = jnp.take_along_axis(total, first[..., None], axis=-1)[..., 0] / n
  found = jnp.where(some, t[first], jnp.nan), jnp.where(some, first, -1)
  return *found, jnp.where(some, risk, jnp.nan), jnp.any(faulty)
