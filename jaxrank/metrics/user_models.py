"""Metrics of the C/W/L framework: the gain per item that a model of a user sees.

A user who has seen the item at rank `r` goes on with a probability `C(r)`, which may depend on the
gains so far. The weight of rank `r` is the probability of reaching it over the expected number of
items seen, and the metric is the weighted sum of the gains. The gain of an item with label `y` is
`(y - min_label) / (max_label - min_label)`, clipped to [0, 1].

Metrics whose probabilities depend on gains are read off the curve of the expected gains: tied items
are averaged in the curve.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import added, safe_divide
from jaxrank._core.description import CUTOFF, DIVIDES_BY_K, MEANS_FIRST, POSITIVE, ir_measures
from jaxrank._core.ranked import Ranked, Ranking, within
from jaxrank._core.ties import perfect
from jaxrank.rankings.exact import Exact

# The program cwl_eval looks at lists of 1000 items, the last ones of gain 0.
CWL_DEPTH = 1000


def scaled_gains(ranked: Ranked, max_label: ArrayLike, min_label: ArrayLike) -> Array:
  """Labels from one grade to another as gains from 0 to 1; 0 for others, and under the mask."""
  best, least = (jnp.asarray(x).astype(ranked.dtype) for x in (max_label, min_label))
  gains = safe_divide(jnp.clip(ranked.labels - least, 0, best - least), best - least)
  # A quotient that is rounded below 1 would let a smooth ranking go on where the best grade stops.
  best_grade = (ranked.labels >= best) & (best > least)
  return ranked.weighted(gains + lax.stop_gradient(jnp.where(best_grade, 1 - gains, 0)))


def _tail(first: Array, last: Cutoff, like: Array) -> Array:
  """`sum_r (first / r)^2` over `r = first, first + 1, ...` up to `last`, or for ever if None."""
  rest = jax.scipy.special.polygamma(1, first)
  if last is not None:
    last = jnp.maximum(jnp.asarray(last).astype(like.dtype), first - 1)
    rest = rest - jax.scipy.special.polygamma(1, last + 1)
  return jnp.square(first) * rest


_ARGUMENTS = "T=target min_rel=min_label max_rel=max_label"


@metric(
  departs=MEANS_FIRST,
  patience=CUTOFF,
  target=POSITIVE,
  names=(ir_measures("INST", "", _ARGUMENTS, patience=CWL_DEPTH),),
)
def inst(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  patience: Cutoff = None,
  target: ArrayLike = 1.0,
  max_label: ArrayLike,
  min_label: ArrayLike = 0,
  ranking: Ranking = Exact(),
) -> Array:
  """INST: the gain per item for a user who has a goal and adapts to what is found.

  `INST = sum_r W(r) g(r) / sum_r W(r)`, with the gain `g(r)` at rank `r`, `W(1) = 1`,
  `W(r + 1) = C(r) W(r)`, and `C(r) = ((r + 2 T - G(r) - 1) / (r + 2 T - G(r)))^2` for the target
  `T` and the gains `G(r)` down to rank `r`. Ranks beyond the list gain nothing.

  Tied scores are averaged in the curve of the gains.

  >>> value = inst(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), max_label=1)
  >>> print(f"{value:.5f}")
  0.72308

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    patience: The rank at which the user stops at the latest, also beyond the list; None is never.
    target: The gain that the user wants, positive.

  Returns:
    `[...]`, in [0, 1].

  References:
    Moffat, Bailey, Scholer and Thomas, `INST: an adaptive metric for information retrieval
    evaluation <https://doi.org/10.1145/2838931.2838938>`_, 2015.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  target = jnp.asarray(target).astype(ranked.dtype)
  total = ranked.cumulative(scaled_gains(ranked, max_label, min_label))
  rank = jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)
  wanted = rank + 2 * target - total
  going = jnp.square((wanted - 1) / wanted)
  reached = jnp.cumprod(jnp.append(jnp.ones_like(going[:1]), going))
  seen = jnp.where(within(rank, patience), reached[:-1], 0)
  # Items beyond the list gain nothing, so that their probabilities have a closed form.
  last = (
    None
    if patience is None
    else jnp.asarray(patience).astype(ranked.dtype) - rank[-1] + wanted[-1] - 1
  )
  length = jnp.sum(seen) + reached[-1] * _tail(wanted[-1], last, wanted)
  return jnp.sum(seen * added(total)) / length


@metric(
  patience=CUTOFF,
  target=POSITIVE,
  names=(ir_measures("INSQ", "", _ARGUMENTS, patience=CWL_DEPTH),),
)
def insq(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  patience: Cutoff = None,
  target: ArrayLike = 1.0,
  max_label: ArrayLike,
  min_label: ArrayLike = 0,
  ranking: Ranking = Exact(),
) -> Array:
  """INSQ: the gain per item for a user with a goal, who goes on whatever is found.

  `INSQ = sum_i g_i (2 T / (2 T + r_i - 1))^2 / sum_{r = 1, 2, ...} (2 T / (2 T + r - 1))^2`, with
  the gains `g` and the target `T`.

  >>> value = insq(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), max_label=1)
  >>> print(f"{value:.5f}")
  0.48455

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    patience: The last rank of both sums, also beyond the list; None is infinity.
    target: The gain that the user wants, positive.

  Returns:
    `[...]`, in [0, 1].

  References:
    Moffat, Scholer and Thomas, `Models and metrics: IR evaluation as a user process
    <https://doi.org/10.1145/2407085.2407092>`_, 2012.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  start = 2 * jnp.asarray(target).astype(ranked.dtype)
  last = None if patience is None else jnp.asarray(patience).astype(ranked.dtype) + start - 1
  gained = ranked.expect(
    scaled_gains(ranked, max_label, min_label), discounts.inverse_square(target), k=patience
  )
  return gained / _tail(start, last, start)


# A tolerance for the rounding of sums of gains.
_SLACK = 1e-5


@metric(
  depth="all",
  departs=DIVIDES_BY_K | MEANS_FIRST,
  target=POSITIVE,
  names=(ir_measures("BPM", "@10", _ARGUMENTS),),
)
def bpm(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  target: ArrayLike = 1.0,
  max_label: ArrayLike,
  min_label: ArrayLike = 0,
  ranking: Ranking = Exact(),
) -> Array:
  """The static bejeweled player model: the gain per item until a goal or the patience is reached.

  `BPM@k = G(m) / m`, with the gains `G(r)` down to rank `r`, and the first rank `m` for which
  `G(m) >= T` or `m = k`.

  Tied scores are averaged in the curve of the gains.

  >>> value = bpm(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 1]), k=3, max_label=1)
  >>> print(f"{value:.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    target: The gain `T` at which the user stops, positive.

  Returns:
    `[...]`, in [0, 1].

  References:
    Zhang et al., `Evaluating web search with a bejeweled player model
    <https://doi.org/10.1145/3077136.3080841>`_, 2017.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  total = ranked.cumulative(scaled_gains(ranked, max_label, min_label))
  rank = jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)
  enough = total + _SLACK >= jnp.asarray(target).astype(ranked.dtype)
  last = ranked.cutoff(k)
  stop = jnp.minimum(last, jnp.min(jnp.where(enough, rank, jnp.inf)))
  gained = jnp.sum(jnp.where(rank <= stop, added(total), 0))
  return safe_divide(gained, stop)


@metric(
  departs=DIVIDES_BY_K,
  names=(ir_measures("SDCG", "@10", "min_rel=min_label max_rel=max_label"),),
)
def sdcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  max_label: ArrayLike,
  min_label: ArrayLike = 0,
  discount: Discount = discounts.logarithmic,
  ranking: Ranking = Exact(),
) -> Array:
  """Scaled DCG: DCG divided by that of `k` items of the best grade.

  `SDCG@k = sum_{r_i <= k} g_i d(r_i) / sum_{r = 1 ... k} d(r)`, with the gains `g` and the discount
  `d`.

  >>> value = sdcg(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), max_label=1)
  >>> print(f"{value:.5f}")
  0.70392

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Moffat, Bailey, Scholer and Thomas, `Incorporating user expectations and behavior into the
    measurement of search effectiveness <https://doi.org/10.1145/3052768>`_, 2017.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  one = jnp.ones((1,), ranked.dtype)
  best = perfect(ranked, one, 0.0, discount, k)
  return safe_divide(ranked.expect(scaled_gains(ranked, max_label, min_label), discount, k=k), best)
