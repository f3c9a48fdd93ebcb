"""Measures for incomplete judgements: judged items, inferred AP, and the residual of RBP."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import added, safe_divide
from jaxrank._core.description import MEANS_FIRST, ir_measures, trec_eval, trec_eval10
from jaxrank._core.ranked import Ranked, Ranking, seen
from jaxrank.rankings.exact import Exact

# What keeps the estimate of the precision ahead of an item defined if nothing there is judged.
_EPSILON = 1e-5


def _waiting(ranked: Ranked) -> Array:
  """Items of the pool that a sample of judgements left out."""
  return ranked.where & (ranked.labels < -1)


@metric(
  depth="counts",
  seeks="any items",
  names=(
    ir_measures("Judged", of="pooled"),
    trec_eval10("unj", "_10", of="unjudged", divisor="k"),
  ),
)
def judged(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  of: Literal["judged", "pooled", "unjudged"] = "judged",
  divisor: Literal["retrieved", "k"] = "retrieved",
  ranking: Ranking = Exact(),
) -> Array:
  """The fraction of the first `k` items that are judged: those with a label that is not negative.

  `judged@k = judged items at r <= k / min(k, items retrieved)`; 0 if nothing is retrieved.

  >>> print(f"{judged(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, -1, 0]), k=2):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    k: Cut-off; None is the whole list. If fewer items are retrieved, their number divides.
    of: `"judged"`; `"pooled"` to count labels below -1 too, which stand for items that are in the
      judgements without one; or `"unjudged"` to count the others of `"judged"`.
    divisor: `"retrieved"`; or `"k"`, however few items are retrieved.

  Returns:
    `[...]`, in [0, 1].
  """
  ranked = ranked_query(scores, labels, where, ranking)
  chosen = {
    "judged": ranked.judged,
    "pooled": ranked.judged | _waiting(ranked),
    "unjudged": ranked.retrieved & ~ranked.judged,
  }[of]
  cutoff = ranked.cutoff(k) if divisor == "k" else seen(ranked, k)
  return safe_divide(ranked.expect(chosen, discounts.constant, k=k), cutoff)


@metric(depth="counts", seeks="any items", higher_is_better=False)
def hole(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  ranking: Ranking = Exact(),
) -> Array:
  """The fraction of the first `k` items that are not judged: those with a negative label.

  `hole@k = unjudged items at r <= k / min(k, items retrieved)`; 0 if nothing is retrieved. It is
  one minus `judged` where something is.

  >>> print(f"{hole(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, -1, 0]), k=2):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    k: Cut-off; None is the whole list. If fewer items are retrieved, their number divides.

  Returns:
    `[...]`, in [0, 1].
  """
  ranked = ranked_query(scores, labels, where, ranking)
  unjudged = ranked.retrieved & ~ranked.judged
  return safe_divide(ranked.expect(unjudged, discounts.constant, k=k), seen(ranked, k))


@metric(
  departs=MEANS_FIRST,
  names=(ir_measures("infAP", "", "rel", rel=1), trec_eval("infAP", rel=1)),
)
def inferred_average_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Inferred average precision: average precision estimated from a random sample of judgements.

  `infAP = (1 / R) sum_i b_i (1 + p_i (h_i + e) / (h_i + m_i + 2 e)) / r_i`, with `b_i` 1 if item
  `i` is relevant and 0 otherwise, and, ahead of item `i`, `h_i` relevant items, `m_i` items judged
  not relevant, and `p_i` items of the pool; `e = 0.00001` and `R` relevant items.

  The pool consists of the judged items and of those that a sample left out: a label of -2, or
  any below -1, says that an item is in the judgements without one. A label of -1 says that it is
  not in the pool, and counts as not relevant.

  Numbers at a rank are averaged over the orders of tied items before they are multiplied.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, -2, 1])
  >>> print(f"{inferred_average_precision(scores, labels):.5f}")
  1.00000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Yilmaz and Aslam, `Estimating average precision with incomplete and imperfect judgments
    <https://doi.org/10.1145/1183614.1183633>`_, 2006.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  others = ranked.judged & ~b
  # Numbers down to each rank, and from them those ahead of it.
  hits, misses = ranked.cumulative(b), ranked.cumulative(others)
  waiting = ranked.cumulative(_waiting(ranked))
  here = added(hits)
  ahead = hits - here
  pooled = ahead + misses + waiting
  precision = (ahead + _EPSILON) / (ahead + misses + 2 * _EPSILON)
  rank = jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)
  return safe_divide(jnp.sum(here * (1 + pooled * precision) / rank), ranked.count(b))


@metric(
  departs={"empty": "it is 1: all of the value is unknown"},
  seeks="any items",
  higher_is_better=False,
  names=(trec_eval10("rbp_resid", persistence=0.9, tail="unjudged"),),
)
def rbp_residual(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  persistence: ArrayLike = 0.8,
  tail: Literal["always", "unjudged"] = "always",
  ranking: Ranking = Exact(),
) -> Array:
  """The residual of `rbp`: how much more it could be with judgements for all ranks.

  `residual@k = 1 - (1 - q) sum_{r_i <= k} j_i q^(r_i - 1)`, with persistence `q`, and `j_i` 1 if
  item `i` is judged and 0 otherwise.

  Ranks beyond `k` or the end of the list are unknown as those of unjudged items are, which have a
  negative label. The value of RBP is between `rbp` and `rbp + rbp_residual`.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, -1, 0])
  >>> print(f"{rbp_residual(scores, labels, persistence=0.5):.5f}")
  0.37500

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    persistence: As for `rbp`.
    tail: When ranks beyond the list are unknown: `"always"`; or only if an `"unjudged"` item is
      retrieved, and otherwise the residual is 0, as in trec_eval 10.

  Returns:
    `[...]`, in [0, 1]; 1 if nothing is retrieved.

  References:
    Moffat and Zobel, `Rank-biased precision for measurement of retrieval effectiveness
    <https://doi.org/10.1145/1416950.1416952>`_, 2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  q = jnp.asarray(persistence).astype(ranked.dtype)
  known = (1 - q) * ranked.expect(ranked.judged, discounts.geometric(q), k=k)
  if tail == "always":
    return 1 - known
  return jnp.where(ranked.count(ranked.retrieved & ~ranked.judged) > 0, 1 - known, 0)
