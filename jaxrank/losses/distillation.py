"""Losses of a student against the scores of a teacher: margins, softmax distributions and ranks."""

import functools
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.all_pairs import Items, rows_of, total
from jaxrank._core.apply import ranked_query
from jaxrank._core.arithmetic import at_least_tiny, clipped, floating, safe_divide
from jaxrank._core.ranked import Ranking
from jaxrank.losses._loss import cross_entropy, exact_query, largest, loss, saturated
from jaxrank.rankings.exact import Exact
from jaxrank.rankings.expected_rank import Logistic

# The exponential of this many temperatures below the largest score counts for nothing beside 1.
_NOTHING = 200.0


def _both(scores: Any, teacher: Any, where: Any) -> tuple[Array, Array, Array]:
  """The scores of the student and of the teacher, floats that are 0 under the mask, and the mask.

  An item that the teacher did not score counts as one that the student did not retrieve.
  """
  student, known = checks.array("scores", scores), checks.array("teacher", teacher)
  checks.same_shape("teacher", known, "scores", student)
  live = checks.mask(where, student)
  # Arithmetic with NaN under the mask would be a false alarm under `jax.debug_nans`.
  student, known = (jnp.where(live, floating(x), 0) for x in (student, known))
  # A NaN of the student stays.
  lost = (known == -jnp.inf) & (student == student)
  return jnp.where(lost, -jnp.inf, student), known, live


def _errors(scores: Any, labels: Any, teacher: Any, where: Any) -> tuple[Array, Any, Array]:
  """The errors of the student in place of its scores, since a pair has the difference of two."""
  student, known, live = _both(scores, teacher, where)
  bound = largest(student)
  error = clipped(student, bound) - clipped(known, bound)
  return jnp.where(student == -jnp.inf, student, clipped(error, bound)), labels, live


@loss(lists=_errors, stands_for=("teacher",))
def margin_mse(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  teacher: ArrayLike,
  where: ArrayLike | None = None,
) -> Array:
  """Margin-MSE: the squared errors of the margins between pairs with different labels.

  The mean of `((s_i - s_j) - (t_i - t_j))^2` over the pairs with `y_i > y_j`, with the scores `t`
  of the teacher.

  >>> scores, teacher = jnp.array([3.0, 2.0, 1.0]), jnp.array([1.0, -2.0, 0.0])
  >>> print(f"{margin_mse(scores, jnp.array([1, 0, 0]), teacher=teacher):.5f}")
  2.50000

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, at least 0; 0 if all labels are equal.

  References:
    Hofstatter et al., `Improving efficient neural ranking models with cross-architecture knowledge
    distillation <https://arxiv.org/abs/2010.02666>`_, 2020.
  """
  query = exact_query(scores, labels, where)
  error = jnp.where(query.retrieved, query.scores.astype(query.dtype), 0)
  # The sum of the squares of all differences of such errors is finite. Padding does not count.
  bound = largest(error) ** 0.5 / (2 * jnp.maximum(query.count(query.retrieved), 1))
  items = clipped(error, bound), jnp.maximum(query.labels, 0), query.retrieved

  def pair(upper: Items, lower: Items) -> tuple[Array, Array]:
    (e, y, live), (other, other_y, other_live) = upper, lower
    better = (y > other_y) & live & other_live
    return jnp.where(better, (e - other) ** 2, 0), better.astype(e.dtype)

  return safe_divide(*total(pair, items, rows_of(query)))


@loss(lists=_both, stands_for=("teacher",))
def kl(
  scores: ArrayLike,
  *,
  teacher: ArrayLike,
  where: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """Distillation of a softmax: the divergence of the student from the teacher.

  `T^2 sum_i p_i log(p_i / q_i)`, with `p = softmax(t / T)`, `q = softmax(s / T)`, temperature `T`
  and the scores `t` of the teacher. The factor keeps gradients at all temperatures of one size;
  the rounding of the divergence grows with it too, to some `1e-7 T^2` in float32.

  >>> scores, teacher = jnp.array([3.0, 2.0, 1.0]), jnp.array([1.0, -2.0, 0.0])
  >>> print(f"{kl(scores, teacher=teacher):.5f}")
  0.24785

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, at least 0, up to rounding.

  References:
    Hinton, Vinyals and Dean, `Distilling the knowledge in a neural network
    <https://arxiv.org/abs/1503.02531>`_, 2015.
  """
  query = exact_query(scores, where=where)
  bound = largest(query.scores.astype(query.dtype)) ** 0.25
  t = at_least_tiny(temperature, query.dtype)
  t = jnp.where(t > bound, bound, t)
  student, teacher = (
    jnp.where(query.retrieved, x.astype(query.dtype), -jnp.inf)
    for x in (query.scores, query.given_labels)
  )
  chance = _softmax(teacher, t)
  entropy = functools.partial(cross_entropy, chance, chance, jnp.zeros((), query.dtype))
  of_student, of_teacher = (entropy(x, t)[0] for x in (student, teacher))
  return saturated(saturated((of_student - of_teacher) * t) * t)


def _softmax(x: Array, temperature: Array) -> Array:
  """The softmax of numbers, -inf for padding, whose derivatives by the temperature are finite."""
  below = saturated(x) - lax.stop_gradient(saturated(jnp.max(x)))
  near = (x > -jnp.inf) & (below > -_NOTHING * temperature)
  mass = jnp.exp(jnp.where(near, below, 0) / temperature)
  # The divergence has slopes by the chances of 0 that are too large for a float: they end here.
  return jnp.where(near, safe_divide(mass, jnp.sum(jnp.where(near, mass, 0))), 0)


@loss(lists=_both, stands_for=("teacher",))
def rank_mse(
  scores: ArrayLike,
  *,
  teacher: ArrayLike,
  where: ArrayLike | None = None,
  ranking: Ranking = Logistic(1.0),
) -> Array:
  """ADR-MSE: the squared errors of expected ranks against the ranks of the teacher, discounted.

  The mean of `(r_i - E r_i)^2 / log2(1 + r_i)`, with the ranks `r_i` by the scores of the teacher,
  where tied items take their mean rank, and the expected ranks `E r_i` of the ranking.

  >>> scores, teacher = jnp.array([3.0, 2.0, 1.0]), jnp.array([1.0, -2.0, 0.0])
  >>> print(f"{rank_mse(scores, teacher=teacher):.5f}")
  0.29562

  See `jaxrank.losses` for the arguments that losses share.

  Returns:
    Loss of each query, `[...]`, at least 0.

  References:
    Schlatt et al., `Rank-DistiLLM <https://arxiv.org/abs/2405.07920>`_, 2024.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  live = ranked.retrieved
  # A query of its own, whose input order is the order of this one.
  wanted = Exact()(ranked.given_labels, ranked.labels, live)
  rank = 1 + wanted.in_input_order(wanted.before(wanted.retrieved))
  error = (rank - 1 - ranked.before(live)) ** 2 / jnp.log2(1 + rank)
  return safe_divide(ranked.total(jnp.where(live, error, 0)), ranked.count(live))
