"""Counts of relevant items down to a cut-off: precision, recall, fall-out, judged."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._core.apply import apply
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import describe
from jaxrank._core.dialects import ir_measures, ranx, trec_eval
from jaxrank._core.parameters import NONNEGATIVE, THRESHOLD, one_of
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank._core.types import Cutoff
from jaxrank.rankings.exact import Exact


def _hits(ranked: Ranked, b: Array, k: Cutoff, weights: Array | None) -> Array:
  w = b if weights is None else ranked.weighted(b, weights)
  return ranked.expect(w, discounts.constant, k=k)


def _precision(
  ranked: Ranked, *, k: Cutoff, rel: ArrayLike | None, divisor: str, weights: Array | None
) -> Array:
  cutoff = ranked.cutoff(k)
  if divisor == "retrieved":
    cutoff = jnp.minimum(cutoff, ranked.count(ranked.retrieved))
  return safe_divide(_hits(ranked, ranked.relevant(rel), k, weights), cutoff)


@describe(
  _precision,
  rel=THRESHOLD,
  divisor=one_of("k", "retrieved"),
  names=(
    ir_measures("P Precision", "@10", "rel", rel=1),
    ir_measures("SetP", "", "rel", rel=1, divisor="retrieved"),
    trec_eval("P", "_10", rel=1),
    trec_eval("set_P", rel=1, divisor="retrieved"),
    ranx("precision", "@10 [-l2]", "rel", rel=1),
    ranx("precision", "[-l2]", "rel", rel=1, divisor="retrieved"),
  ),
)
def precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  divisor: Literal["k", "retrieved"] = "k",
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Precision: the fraction of the first `k` items that are relevant.

  `P@k = hits@k / k`, with `hits@k` relevant items among the first `k`, also if `k` exceeds the
  length of the list.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])
  >>> print(f"{precision(scores, labels, k=2):.5f} {precision(scores, labels, k=5):.5f}")
  0.50000 0.40000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    divisor: `"k"`, or `"retrieved"` to divide by `min(k, items retrieved)`.
    weights: `[..., n]`, the weights of relevant items; None is 1. `k` still divides.

  Returns:
    `[...]`, in [0, 1] without weights.
  """
  return apply(
    _precision,
    scores,
    labels,
    where=where,
    ranking=ranking,
    k=k,
    rel=rel,
    divisor=divisor,
    weights=weights,
  )


def _recall(ranked: Ranked, *, k: Cutoff, rel: ArrayLike | None, weights: Array | None) -> Array:
  b = ranked.relevant(rel)
  return safe_divide(_hits(ranked, b, k, weights), ranked.total(ranked.weighted(b, weights)))


@describe(
  _recall,
  rel=THRESHOLD,
  names=(
    ir_measures("R Recall", "@10", "rel", rel=1),
    ir_measures("SetR", "", "rel", rel=1),
    trec_eval("recall", "_10", rel=1),
    trec_eval("set_recall", rel=1),
    ranx("recall", arguments="rel", rel=1),
  ),
)
def recall(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Recall: the fraction of the relevant items that are among the first `k`.

  `R@k = hits@k / R`, with `hits@k` of the `R` relevant items among the first `k`; 0 if `R` is 0.

  >>> print(f"{recall(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=1):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    weights: `[..., n]`, the weights of relevant items; None is 1. The sum of the weights of all
      relevant items divides.

  Returns:
    `[...]`, in [0, 1].
  """
  return apply(_recall, scores, labels, where=where, ranking=ranking, k=k, rel=rel, weights=weights)


def _f_measure(ranked: Ranked, *, k: Cutoff, rel: ArrayLike | None, beta: ArrayLike) -> Array:
  b = ranked.relevant(rel)
  square = jnp.square(jnp.asarray(beta).astype(ranked.dtype))
  hits = _hits(ranked, b, k, None)
  return safe_divide((1 + square) * hits, ranked.cutoff(k) + square * ranked.count(b))


@describe(
  _f_measure,
  rel=THRESHOLD,
  beta=NONNEGATIVE,
  names=(ranx("f1", "@10 [-l2]", "rel", rel=1),),
)
def f_measure(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  beta: ArrayLike = 1.0,
  ranking: Ranking = Exact(),
) -> Array:
  """F measure: the weighted harmonic mean of precision and recall at `k`.

  `F@k = (1 + beta^2) hits@k / (k + beta^2 R)`, with `hits@k` of the `R` relevant items among the
  first `k`; recall has `beta` times the weight of precision.

  >>> print(f"{f_measure(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=1):.5f}")
  0.66667

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    beta: The weight of recall relative to precision, at least 0.

  Returns:
    `[...]`, in [0, 1].

  References:
    van Rijsbergen, `Information Retrieval <http://www.dcs.gla.ac.uk/Keith/Preface.html>`_, 1979.
  """
  return apply(_f_measure, scores, labels, where=where, ranking=ranking, k=k, rel=rel, beta=beta)


def _r_precision(ranked: Ranked, *, rel: ArrayLike | None) -> Array:
  b = ranked.relevant(rel)
  count = ranked.count(b)
  return safe_divide(_hits(ranked, b, count, None), count)


@describe(
  _r_precision,
  rel=THRESHOLD,
  names=(
    ir_measures("Rprec", "", "rel", rel=1),
    trec_eval("Rprec", rel=1),
    ranx("r-precision", "[-l2]", "rel", rel=1),
  ),
)
def r_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """R-precision: precision at the number `R` of relevant items.

  `RP = hits@R / R`, with `hits@R` relevant items among the first `R`; 0 if `R` is 0.

  >>> print(f"{r_precision(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley and Voorhees, `Evaluating evaluation measure stability
    <https://doi.org/10.1145/345508.345543>`_, 2000.
  """
  return apply(_r_precision, scores, labels, where=where, ranking=ranking, rel=rel)


def _fall_out(ranked: Ranked, *, k: Cutoff, rel: ArrayLike | None) -> Array:
  others = ranked.where & ~ranked.relevant(rel)
  return safe_divide(_hits(ranked, others, k, None), ranked.count(others))


@describe(_fall_out, rel=THRESHOLD, seeks="other items", higher_is_better=False)
def fall_out(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Fall-out: the fraction of the non-relevant items that are among the first `k`; lower is better.

  `fallout@k = non-relevant items at r <= k / non-relevant items`; 0 if all are relevant.

  >>> print(f"{fall_out(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 0]), k=2):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].
  """
  return apply(_fall_out, scores, labels, where=where, ranking=ranking, k=k, rel=rel)


def _judged(ranked: Ranked, *, k: Cutoff) -> Array:
  found = jnp.minimum(ranked.cutoff(k), ranked.count(ranked.retrieved))
  return safe_divide(_hits(ranked, ranked.judged, k, None), found)


@describe(_judged, seeks="any items", names=(ir_measures("Judged", "@10"),))
def judged(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  ranking: Ranking = Exact(),
) -> Array:
  """The fraction of the first `k` items that are judged: those with a label that is not negative.

  `judged@k = judged items at r <= k / min(k, items retrieved)`; 0 if nothing is retrieved.

  >>> print(f"{judged(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, -1, 0]), k=2):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    k: Cut-off; None is the whole list. If fewer items are retrieved, their number divides.

  Returns:
    `[...]`, in [0, 1].
  """
  return apply(_judged, scores, labels, where=where, ranking=ranking, k=k)
