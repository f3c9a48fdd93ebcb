"""Counts of relevant items down to a cut-off: precision, recall, F measure and fall-out."""

import math
from typing import Any, Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff
from jaxrank._core import checks
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import Level, safe_divide, share_of
from jaxrank._core.description import (
  DECIMAL,
  DIVIDES_BY_K,
  MULTIPLE,
  NONNEGATIVE,
  Argument,
  Kind,
  ir_measures,
  ranx,
  trec_eval,
)
from jaxrank._core.ranked import Ranked, Ranking, seen
from jaxrank.rankings.exact import Exact


def _hits(ranked: Ranked, b: Array, k: Cutoff, weights: ArrayLike | None) -> Array:
  w = b if weights is None else ranked.weighted(b, weights)
  return ranked.expect(w, discounts.constant, k=k)


def _relative(name: str, value: Any) -> str:
  """The divisor of a precision that is relative to the best one, or not."""
  checks.true_or_false(name, value)
  return "attainable" if value else "retrieved"


_RELATIVE = Kind("True or False", _relative, literals=(bool,))


@metric(
  depth="counts",
  departs=DIVIDES_BY_K,
  names=(
    ir_measures("P Precision", "@10", "rel", rel=1),
    ir_measures(
      "SetP",
      "",
      "rel",
      reads={"relative": Argument("divisor", _RELATIVE)},
      rel=1,
      divisor="retrieved",
    ),
    trec_eval("P", "_10", rel=1),
    trec_eval("set_P", rel=1, divisor="retrieved"),
    trec_eval("relative_P", "_10", rel=1, divisor="relevant"),
    trec_eval("set_relative_P", rel=1, divisor="attainable"),
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
  divisor: Literal["k", "retrieved", "relevant", "attainable"] = "k",
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
    divisor: `"k"`; `"retrieved"`, `min(k, items retrieved)`; `"relevant"`, `min(k, R)` for `R`
      relevant items; or `"attainable"`, the least of the three.
    weights: `[..., n]`, the weights of relevant items; None is 1. `k` still divides.

  Returns:
    `[...]`, in [0, 1] without weights.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  cutoff = seen(ranked, k) if divisor in ("retrieved", "attainable") else ranked.cutoff(k)
  if divisor in ("relevant", "attainable"):
    cutoff = jnp.minimum(cutoff, ranked.count(b))
  return safe_divide(_hits(ranked, b, k, weights), cutoff)


@metric(
  depth="counts",
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

  References:
    van Rijsbergen, `Information Retrieval <http://www.dcs.gla.ac.uk/Keith/Preface.html>`_, 1979.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  hits = _hits(ranked, b, k, weights)
  every = ranked.count(b) if weights is None else ranked.total(ranked.weighted(b, weights))
  return safe_divide(hits, every)


def _root(name: str, value: Any) -> float:
  """The `beta` of a weight of recall that is not squared."""
  return math.sqrt(NONNEGATIVE.check(name, value))


_UNSQUARED = Kind(NONNEGATIVE.meaning, _root)


@metric(
  depth="counts",
  departs=DIVIDES_BY_K,
  beta=NONNEGATIVE,
  names=(
    ir_measures(
      "SetF",
      "",
      "rel",
      reads={"beta": Argument("beta", _UNSQUARED)},
      rel=1,
      divisor="retrieved",
    ),
    trec_eval(
      "set_F",
      "[_0.5]",
      reads={"number": Argument("beta", _UNSQUARED)},
      rel=1,
      divisor="retrieved",
    ),
    ranx("f1", "@10 [-l2]", "rel", rel=1),
    ranx("f1", "[-l2]", "rel", rel=1, divisor="retrieved"),
  ),
)
def f_measure(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  beta: ArrayLike = 1.0,
  divisor: Literal["k", "retrieved"] = "k",
  ranking: Ranking = Exact(),
) -> Array:
  """F measure: the weighted harmonic mean of precision and recall at `k`.

  `F@k = (1 + beta^2) hits@k / (k + beta^2 R)`, with `hits@k` of the `R` relevant items among the
  first `k`; recall has `beta` times the weight of precision.

  >>> print(f"{f_measure(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=1):.5f}")
  0.66667

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    beta: The weight of recall relative to precision, at least 0. (The `beta` of ir_measures and
      the parameter of trec_eval are its square.)
    divisor: That of precision, `"k"` or `"retrieved"` for `min(k, items retrieved)`.

  Returns:
    `[...]`, in [0, 1].

  References:
    van Rijsbergen, `Information Retrieval <http://www.dcs.gla.ac.uk/Keith/Preface.html>`_, 1979.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  cutoff = seen(ranked, k) if divisor == "retrieved" else ranked.cutoff(k)
  square = jnp.square(jnp.asarray(beta).astype(ranked.dtype))
  hits = _hits(ranked, b, k, None)
  return safe_divide((1 + square) * hits, cutoff + square * ranked.count(b))


@metric(
  multiple=MULTIPLE,
  names=(
    ir_measures("Rprec", "", "rel", rel=1),
    trec_eval("Rprec", rel=1),
    trec_eval("Rprec_mult", "_0.10", reads={"x": Argument("multiple", DECIMAL)}, rel=1),
    ranx("r-precision", "[-l2]", "rel", rel=1),
  ),
)
def r_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  multiple: Level = 1,
  ranking: Ranking = Exact(),
) -> Array:
  """R-precision: precision at the number `R` of relevant items, or at a multiple of it.

  `RP = hits@c / c`, with `hits@c` relevant items among the first `c`, and `c = ceil(m R)` for the
  multiple `m`, by default 1; 0 if `c` is 0.

  >>> print(f"{r_precision(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.50000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    multiple: The multiple of `R`, at least 0, which may be traced. For a `decimal.Decimal` the
      cut-off is that of trec_eval, `floor(m R + 0.9)`.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley and Voorhees, `Evaluating evaluation measure stability
    <https://doi.org/10.1145/345508.345543>`_, 2000.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  cutoff = share_of(multiple, ranked.count(b), ranked.n)
  return safe_divide(_hits(ranked, b, cutoff, None), cutoff)


@metric(depth="counts", seeks="other items", higher_is_better=False)
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
  ranked = ranked_query(scores, labels, where, ranking)
  others = ranked.where & ~ranked.relevant(rel)
  return safe_divide(_hits(ranked, others, k, None), ranked.count(others))
