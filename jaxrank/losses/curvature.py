"""Second derivatives of losses by each score, and diagonals that bound their Hessians.

Boosted trees divide sums of slopes by sums of curvatures. The Hessian `H` of a loss that does not
change when a constant is added to all scores is singular, so that its diagonal bounds nothing:
a step of Newton's method by the diagonal may overshoot. `bound` returns `D` with `D - H` positive
semidefinite, at the given scores:

* *Pairs.* `H` is a sum of `c (e_i - e_j)(e_i - e_j)'` with `c >= 0`, and
  `(v_i - v_j)^2 <= 2 v_i^2 + 2 v_j^2`: twice the diagonal is a bound.
* *Softmax.* `H` is a sum of `W (diag(p) - p p')` with `W >= 0`: the sum of `W p` is a bound. The
  gradient by the logits is that sum minus the weight that pulls at the item, so that the bound
  costs nothing.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank import gains
from jaxrank._core.arithmetic import safe_divide
from jaxrank.losses.lambdas import lambda_ndcg, lambda_rank, ndcg_bends, rank_bends
from jaxrank.losses.likelihood import list_mle, unique_softmax
from jaxrank.losses.listwise import sampled_softmax, softmax, xe_ndcg
from jaxrank.losses.pairwise import logistic_bends, pairwise_logistic

Loss = Callable[..., Array]

# Number of columns of a Hessian that are computed at a time.
_COLUMNS = 8


def diagonal(loss: Loss, scores: Array, labels: Array, where: Array) -> Array:
  """`[queries, n]`: the diagonal of the Hessian of the loss of each query.

  That of a loss of pairs takes the time of a gradient, that of any other loss of `n` gradients.
  """
  function, given = _unwrapped(loss)
  if function in _BENDS:
    return _diagonal_of_pairs(function, given, scores, labels, where)
  slope = jax.grad(lambda s: jnp.sum(loss(s, labels, where=where)))

  def column(i: Array) -> Array:
    one = (jnp.arange(scores.shape[-1]) == i).astype(scores.dtype)
    _, bent = jax.jvp(slope, (scores,), (jnp.broadcast_to(one, scores.shape),))
    return jnp.sum(bent * one[None], axis=-1)

  columns = lax.map(column, jnp.arange(scores.shape[-1]), batch_size=_COLUMNS)
  return jnp.moveaxis(columns, 0, -1)


def is_bounded(loss: Loss) -> bool:
  """Whether `bound` knows a bound."""
  function, given = _unwrapped(loss)
  return function in _BENDS or (function in _PULLS and given.get("key") is None)


def bound(loss: Loss, scores: Array, labels: Array, where: Array, slope: Array) -> Array:
  """`[queries, n]`: a diagonal that bounds the Hessian, for a loss that `is_bounded`.

  Args:
    loss: A loss of `jaxrank.losses`, or `functools.partial` of one with keywords.
    slope: The gradient of the loss, `[queries, n]`.
  """
  function, given = _unwrapped(loss)
  if function in _BENDS:
    return 2 * _diagonal_of_pairs(function, given, scores, labels, where)
  rest = {name: x for name, x in given.items() if name != "temperature"}
  live = where & (scores > -jnp.inf)
  pull = jnp.where(live, _PULLS[function](labels, live, **rest), 0).astype(scores.dtype)
  temperature = jnp.asarray(given.get("temperature", 1.0), scores.dtype)
  return jnp.maximum((slope * temperature + pull) / jnp.square(temperature), 0)


def _unwrapped(loss: Loss) -> tuple[Loss, Mapping[str, Any]]:
  """The function of `functools.partial` and its keywords; any other loss as it is."""
  function: Any = loss
  given: dict[str, Any] = {}
  while isinstance(function, functools.partial) and not function.args:
    function, given = function.func, {**function.keywords, **given}
  return function, given


def _diagonal_of_pairs(
  function: Loss, given: Mapping[str, Any], scores: Array, labels: Array, where: Array
) -> Array:
  bends = _BENDS[function]
  by_score: Array = jax.grad(lambda s: jnp.sum(bends(s, labels, where=where, **given)))(scores)
  return by_score / jnp.asarray(given.get("temperature", 1.0), scores.dtype)


def _gains(labels: Array, live: Array, *, gain: Any = gains.linear, weights: Any = None) -> Array:
  del live
  worth: Array = gain(labels)
  return worth if weights is None else worth * weights


def _softened(labels: Array, live: Array, *, gain: Any = gains.linear, **given: Any) -> Array:
  worth = _gains(labels, live, gain=lambda y: gain(y) + 0.5, weights=given.get("weights"))
  some = jnp.any(live & (labels > 0), axis=-1, keepdims=True)
  total = jnp.sum(jnp.where(live, worth, 0), axis=-1, keepdims=True)
  return jnp.where(some, safe_divide(worth, total), 0)


def _above(labels: Array, live: Array) -> Array:
  """Whether an item is above the lowest label; other items compete with none below them."""
  grade = gains.linear(labels)
  return grade > jnp.min(jnp.where(live, grade, jnp.inf), axis=-1, keepdims=True)


def _unique(labels: Array, live: Array, **given: Any) -> Array:
  return jnp.where(_above(labels, live), _gains(labels, live, **given), 0)


def _placed(labels: Array, live: Array, *, weights: Any = None) -> Array:
  return jnp.where(_above(labels, live), 1.0 if weights is None else weights, 0)


_BENDS: dict[Loss, Loss] = {
  pairwise_logistic: logistic_bends,
  lambda_rank: rank_bends,
  lambda_ndcg: ndcg_bends,
}
_PULLS: dict[Loss, Callable[..., Array]] = {
  softmax: _gains,
  sampled_softmax: _gains,
  unique_softmax: _unique,
  xe_ndcg: _softened,
  list_mle: _placed,
}
