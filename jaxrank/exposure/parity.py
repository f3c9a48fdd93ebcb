"""Ratios of two groups (Singh and Joachims, 2018): exposure, and exposure per utility."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Discount, Gain
from jaxrank._core import checks
from jaxrank._core.apply import Lists, metric, ranked_query
from jaxrank._core.arithmetic import floating, safe_divide
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank.exposure._inputs import check_ids, memberships, of_groups
from jaxrank.rankings.exact import Exact

# The largest ratio of groups that can be compared, for every dtype; the least one is its inverse.
# The moments of an `Evaluator` are float32, in which a million squares of it have a finite sum.
_MOST = 1e15


def _both_groups(ranked: Ranked, *, groups: Array, **_: Any) -> Array:
  """Whether both groups have an item."""
  return jnp.all(ranked.total(memberships(ranked, groups, 2)) > 0)


def _both_useful(ranked: Ranked, *, groups: Array, gain: Gain, **_: Any) -> Array:
  """Whether both groups have an item with a positive utility."""
  utility = ranked.gain(gain)[:, None]
  return jnp.all(ranked.total(memberships(ranked, groups, 2) * utility) > 0)


def _ratio(
  ranked: Ranked, groups: ArrayLike, w: Array | int, u: Array | int, discount: Discount, k: Cutoff
) -> Array:
  """`sum w_i E_i / sum u_i` over the items of group 0, divided by that of group 1."""
  member = memberships(ranked, groups, 2)
  due = [ranked.total(x * u) for x in member.T]
  got = [ranked.expect(x * w, discount, k=k) for x in member.T]
  zero, one = (safe_divide(x, y) for x, y in zip(got, due, strict=True))
  return jnp.where((due[0] == 0) | (due[1] == 0), 0, _quotient(zero, one))


def _quotient(x: Array, y: Array) -> Array:
  """`x / y` within the bounds of ratios: at an end where one of the two is 0, the lower for both.

  The slopes are those of `log(x) - log(y)`, beyond the bounds too. The derivative of `x / y` would
  divide by the square of a tiny number, which may be 0. Numbers so small that their inverse times
  the ratio comes near to overflow have a part of their slopes, and 0 has none.
  """
  x0, y0 = lax.stop_gradient((x, y))
  ratio = _bounded(jnp.where(y0 <= 0, jnp.where(x0 > 0, _MOST, 0), safe_divide(x0, y0)))
  least = 1e3 * float(jnp.finfo(ratio.dtype).tiny) * jnp.maximum(ratio, 1)
  return ratio * _of_itself(x, least) / _of_itself(y, least)


def _of_itself(x: Array, least: Array) -> Array:
  """1, with the slopes of `x` over its value or `least`, which are 0 where `x` is not positive."""
  now = lax.stop_gradient(x)
  return jnp.where(now > 0, 1 + (x - now) / jnp.maximum(now, least), 1)


def _bounded(ratio: Array) -> Array:
  """The ratio, or the least or the largest one; NaN stays."""
  return jnp.where(ratio < 1 / _MOST, 1 / _MOST, jnp.where(ratio > _MOST, _MOST, ratio))


def _of_two_groups(scores: Any, where: Any, groups: Any) -> Lists:
  return of_groups(scores, where, groups, 2)


def _of_two_labelled_groups(scores: Any, labels: Any, where: Any, groups: Any) -> Lists:
  check_ids(groups, 2, where)
  return scores, labels, where


@metric(lists=_of_two_groups, seeks=_both_groups, range=(0.0, float("inf")), best=1.0, listed=False)
def demographic_parity(
  scores: ArrayLike,
  groups: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """Demographic parity ratio: the mean exposure of group 0, divided by that of group 1.

  `(sum_{i in 0} E_i / n_0) / (sum_{i in 1} E_i / n_1)`, with exposures `E_i` and sizes `n_g` of the
  two groups.

  >>> scores, groups = jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0])
  >>> print(f"{demographic_parity(scores, groups):.5f}")
  1.18872

  See `jaxrank.exposure` for the arguments that its functions share.

  Args:
    groups: Ids 0 and 1, or memberships `[..., n, 2]`.

  Returns:
    `[...]`, at least 0; best at 1. 0 if a group has no item; the largest ratio, 1e15, if group 1
    gets no exposure, and its inverse if group 0 or neither does: see `jaxrank.exposure`.

  References:
    Singh and Joachims, `Fairness of exposure in rankings
    <https://doi.org/10.1145/3219819.3220088>`_, 2018.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  return _ratio(ranked, groups, 1, 1, discount, k)


@metric(
  lists=_of_two_labelled_groups,
  seeks=_both_useful,
  range=(0.0, float("inf")),
  best=1.0,
  listed=False,
)
def disparate_treatment(
  scores: ArrayLike,
  labels: ArrayLike,
  groups: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """Disparate treatment ratio: exposure per utility of group 0, divided by that of group 1.

  `(sum_{i in 0} E_i / sum_{i in 0} u_i) / (sum_{i in 1} E_i / sum_{i in 1} u_i)`, with exposures
  `E_i` and utilities `u_i`, the gains of the labels. Sums and means have the same ratio.

  >>> scores, groups = jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0])
  >>> print(f"{disparate_treatment(scores, jnp.array([2, 1, 1]), groups):.5f}")
  0.79248

  See `jaxrank.exposure` for the arguments that its functions share.

  Args:
    groups: Ids 0 and 1, or memberships `[..., n, 2]`.

  Returns:
    `[...]`, at least 0; best at 1. 0 if a group has no utility; the largest ratio, 1e15, if group 1
    gets no exposure, and its inverse if group 0 or neither does: see `jaxrank.exposure`.

  References:
    Singh and Joachims, `Fairness of exposure in rankings
    <https://doi.org/10.1145/3219819.3220088>`_, 2018.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  return _ratio(ranked, groups, 1, ranked.gain(gain), discount, k)


@metric(
  lists=_of_two_labelled_groups,
  seeks=_both_useful,
  range=(0.0, float("inf")),
  best=1.0,
  listed=False,
)
def disparate_impact(
  scores: ArrayLike,
  labels: ArrayLike,
  groups: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """Disparate impact ratio: clicks per utility of group 0, divided by those of group 1.

  `(sum_{i in 0} E_i u_i / sum_{i in 0} u_i) / (sum_{i in 1} E_i u_i / sum_{i in 1} u_i)`, with
  exposures `E_i` and utilities `u_i`, the gains of the labels. The rate of clicks on an item is
  taken to be its exposure times its utility.

  >>> scores, groups = jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0])
  >>> print(f"{disparate_impact(scores, jnp.array([2, 1, 1]), groups):.5f}")
  1.32080

  See `jaxrank.exposure` for the arguments that its functions share.

  Args:
    groups: Ids 0 and 1, or memberships `[..., n, 2]`.

  Returns:
    `[...]`, at least 0; best at 1. 0 if a group has no utility; the largest ratio, 1e15, if group 1
    gets no clicks, and its inverse if group 0 or neither does: see `jaxrank.exposure`.

  References:
    Singh and Joachims, `Fairness of exposure in rankings
    <https://doi.org/10.1145/3219819.3220088>`_, 2018.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  u = ranked.gain(gain)
  return _ratio(ranked, groups, u, u, discount, k)


def squared_log(ratio: ArrayLike) -> Array:
  """`log(ratio)^2`, the loss of a ratio that is best at 1; 0, with gradient 0, for a ratio of 0.

  A ratio of 0 stands for a query in which the two groups cannot be compared. Other ratios count as
  at least the one of a group 0 without exposure and as at most its inverse: the loss is at most
  1,192.9, the square of `15 log(10)`, with gradient 0 for numbers beyond. The ratios of the metrics
  end at these two, and keep the slope of their logarithm there.

  >>> print(squared_log(jnp.array([1.0, 4.0, 0.25, 0.0])))
  [0.       1.921812 1.921812 0.      ]

  Args:
    ratio: Values of `demographic_parity`, `disparate_treatment` or `disparate_impact`.

  Returns:
    An array of the shape of `ratio`, at least 0.
  """
  with checks.named("squared_log"):
    ratio = floating(checks.array("ratio", ratio))
  bounded = jnp.where(ratio > 0, _bounded(ratio), jnp.where(ratio == 0, 1, ratio))
  return jnp.log(bounded) ** 2
