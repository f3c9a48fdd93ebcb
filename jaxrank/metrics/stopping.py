"""Nearly ERR: the gain per item of a user whom each item stops with a probability of its gain."""

import functools
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import steady_divide
from jaxrank._core.description import (
  DIVIDES_BY_K,
  MEANS_FIRST,
  POSITIVE,
  SHARE,
  Argument,
  Kind,
  ir_measures,
)
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank._core.ties import over_ranks
from jaxrank.metrics.user_models import CWL_DEPTH, scaled_gains
from jaxrank.rankings.exact import Exact

# Equal numbers in names give the same object, so that the measures are equal.
_geometric = functools.lru_cache(maxsize=1024)(discounts.geometric)
_inverse_square = functools.lru_cache(maxsize=1024)(discounts.inverse_square)


def _of_persistence(name: str, value: Any) -> Discount:
  return _geometric(SHARE.check(name, value))


def _of_target(name: str, value: Any) -> Discount:
  return _inverse_square(POSITIVE.check(name, value))


_GRADES = {"min_rel": Argument("min_label"), "max_rel": Argument("max_label")}
_PERSISTENCE = {"p": Argument("discount", Kind(SHARE.meaning, _of_persistence)), **_GRADES}
_TARGET = {"T": Argument("discount", Kind(POSITIVE.meaning, _of_target)), **_GRADES}


def _past_the_end(ranked: Ranked, discount: Discount, k: Cutoff) -> Array:
  """The sum of a discount over the ranks to `k` that no retrieved item has."""
  count = ranked.count(ranked.retrieved)
  return over_ranks(ranked, lambda rank: jnp.where(rank > count, discount(rank), 0), k)


@metric(
  depth="all",
  departs=DIVIDES_BY_K | MEANS_FIRST,
  names=(
    ir_measures("NERR8", "@10", reads=_GRADES),
    ir_measures("NERR9", "@10", reads=_GRADES, discount=discounts.reciprocal),
    ir_measures("NERR10", "", reads=_PERSISTENCE, k=CWL_DEPTH, discount=_geometric(0.9)),
    ir_measures("NERR11", "", reads=_TARGET, k=CWL_DEPTH, discount=_inverse_square(1.0)),
  ),
)
def nearly_err(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  min_label: ArrayLike = 0,
  discount: Discount = discounts.constant,
  ranking: Ranking = Exact(),
) -> Array:
  """Nearly expected reciprocal rank: the gain per item of a user whom gains stop, as in ERR.

  `NERR@k = sum_{r <= k} W(r) g(r) / sum_{r <= k} W(r)`, with the gain `g(r)` at rank `r`,
  `W(r) = d(r) prod_{q < r} (1 - g(q))` and the discount `d`. Ranks beyond the list gain nothing.

  The discount `d(r + 1) / d(r)` is the probability that a user whom an item did not stop goes on.
  In the paper it is `discounts.constant` in equation 8, `discounts.reciprocal` in 9,
  `discounts.geometric` in 10, and `discounts.inverse_square` in 11.

  Numerator and denominator are averaged over the orders of tied items, and over the noise of the
  ranking, before they are divided.

  >>> value = nearly_err(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2]), max_label=2)
  >>> print(f"{value:.5f}")
  0.50000

  As a loss under `Laplace` or `Logistic` it needs a cut-off, such as `k=10`, if a query has more
  than about 20 relevant items: the probability of passing all of them is a product, which vanishes
  where their scores are close, and its gradient with it. `Gumbel` needs no cut-off.

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    k: The last rank that the user sees, also beyond the list; None is the number of valid items.

  Returns:
    `[...]`, in [0, 1].

  References:
    Azzopardi, Mackenzie and Moffat, `ERR is not C/W/L: exploring the relationship between expected
    reciprocal rank and other metrics <https://doi.org/10.1145/3471158.3472239>`_, 2021.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  gains = scaled_gains(ranked, max_label, min_label)
  value = ranked.cascade(gains, discount, k=k)
  seen = ranked.cascade(gains, discount, k=k, worth=ranked.retrieved)
  unmet = jnp.prod(jnp.where(ranked.retrieved, 1 - gains, 1))
  whole = seen + unmet * _past_the_end(ranked, discount, k)
  return steady_divide(value, whole)
