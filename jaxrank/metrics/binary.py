"""Metrics of binary relevance, `label > 0` or `label >= rel`."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.types import Cutoff, Ranked
from jaxrank.metrics._apply import metric


def _hits(ranked: Ranked, b: Array, k: Cutoff) -> Array:
  return ranked.expect(b, discounts.constant, k=k)


@metric
def precision(
  ranked: Ranked, *, k: Cutoff = None, rel: ArrayLike | None = None, divisor: str = "k"
) -> Array:
  """Precision: the share of relevant items among the first `k`.

  `P@k = hits@k / k`, also where `k` exceeds the list.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])
  >>> print(f"{precision(scores, labels, k=2):.5f} {precision(scores, labels, k=5):.5f}")
  0.50000 0.40000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the number of valid items.
    rel: Labels from here on are relevant; None is any positive label.
    divisor: `"k"`, or `"retrieved"` to divide by `min(k, items retrieved)`.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].
  """
  checks.choice("divisor", divisor, ("k", "retrieved"))
  cutoff = ranked.cutoff(k)
  if divisor == "retrieved":
    cutoff = jnp.minimum(cutoff, ranked.count(ranked.retrieved))
  return safe_divide(_hits(ranked, ranked.relevant(rel), k), cutoff)


@metric
def recall(ranked: Ranked, *, k: Cutoff = None, rel: ArrayLike | None = None) -> Array:
  """Recall: the share of the relevant items that is among the first `k`.

  `R@k = hits@k / R`; 0 if nothing is relevant.

  >>> print(f"{recall(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=1):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the whole list.
    rel: Labels from here on are relevant; None is any positive label.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].
  """
  b = ranked.relevant(rel)
  return safe_divide(_hits(ranked, b, k), ranked.count(b))


@metric
def f_measure(
  ranked: Ranked, *, k: Cutoff = None, rel: ArrayLike | None = None, beta: ArrayLike = 1.0
) -> Array:
  """F measure: the weighted harmonic mean of precision and recall at `k`.

  `F@k = (1 + beta^2) hits@k / (k + beta^2 R)`; recall weighs `beta` times as much.

  >>> print(f"{f_measure(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=1):.5f}")
  0.66667

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the number of valid items.
    rel: Labels from here on are relevant; None is any positive label.
    beta: The weight of recall, at least 0.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].

  References:
    van Rijsbergen, `Information Retrieval <http://www.dcs.gla.ac.uk/Keith/Preface.html>`_, 1979.
  """
  b = ranked.relevant(rel)
  square = jnp.square(jnp.asarray(beta).astype(ranked.dtype))
  return safe_divide(
    (1 + square) * _hits(ranked, b, k), ranked.cutoff(k) + square * ranked.count(b)
  )


@metric(sorts="none")
def hit_rate(ranked: Ranked, *, k: Cutoff = None, rel: ArrayLike | None = None) -> Array:
  """Hit rate, also success: whether a relevant item is among the first `k`.

  >>> print(f"{hit_rate(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 1]), k=2):.5f}")
  1.00000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the whole list.
    rel: Labels from here on are relevant; None is any positive label.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1]; between the two where ties make it a matter of chance.
  """
  return ranked.first(ranked.relevant(rel), discounts.constant, k=k)


@metric(sorts="none")
def reciprocal_rank(ranked: Ranked, *, k: Cutoff = None, rel: ArrayLike | None = None) -> Array:
  """Reciprocal rank: `1 / r` of the first relevant item; its mean over queries is MRR.

  >>> print(f"{reciprocal_rank(jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 1])):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off: 0 if the first relevant item is below.
    rel: Labels from here on are relevant; None is any positive label.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].

  References:
    Voorhees, `The TREC-8 question answering track report
    <https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf>`_, 1999.
  """
  return ranked.first(ranked.relevant(rel), discounts.reciprocal, k=k)


@metric
def average_precision(
  ranked: Ranked,
  *,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  normalizer: str = "relevant",
) -> Array:
  """Average precision: the mean of the precisions at the ranks of the relevant items.

  `AP@k = sum_{r_i <= k} b_i P@r_i / R`; its mean over queries is MAP.

  >>> print(f"{average_precision(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.83333

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the whole list.
    rel: Labels from here on are relevant; None is any positive label.
    normalizer: What divides: `"relevant"`, `R`; `"cutoff"`, `min(k, R)`; `"retrieved"`, the hits
      in the first `k` (a ratio of expectations under ties; for `Exact` only).
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley and Voorhees, `Evaluating evaluation measure stability
    <https://doi.org/10.1145/345508.345543>`_, 2000.
  """
  checks.choice("normalizer", normalizer, ("relevant", "cutoff", "retrieved"))
  b = ranked.relevant(rel)
  count = ranked.count(b)
  if normalizer == "cutoff":
    count = jnp.minimum(count, ranked.cutoff(k))
  elif normalizer == "retrieved":
    count = ranked.exact("normalizer='retrieved'").expect(b, discounts.constant, k=k)
  return safe_divide(ranked.precision(b, k=k), count)


@metric(sorts="all")
def r_precision(ranked: Ranked, *, rel: ArrayLike | None = None) -> Array:
  """R-precision: precision at the number `R` of relevant items.

  >>> print(f"{r_precision(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    rel: Labels from here on are relevant; None is any positive label.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].

  References:
    Buckley and Voorhees, `Evaluating evaluation measure stability
    <https://doi.org/10.1145/345508.345543>`_, 2000.
  """
  b = ranked.relevant(rel)
  count = ranked.count(b)
  return safe_divide(_hits(ranked, b, count), count)


@metric
def fall_out(ranked: Ranked, *, k: Cutoff = None, rel: ArrayLike | None = None) -> Array:
  """Fall-out: the share of the non-relevant items that is among the first `k`; lower is better.

  `fallout@k = non-relevant items at r <= k / non-relevant items`; 0 if there are none.

  >>> print(f"{fall_out(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 0]), k=2):.5f}")
  0.50000

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the whole list.
    rel: Labels from here on are relevant; None is any positive label.
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1].
  """
  others = ranked.where & ~ranked.relevant(rel)
  return safe_divide(_hits(ranked, others, k), ranked.count(others))


@metric
def rbp(
  ranked: Ranked,
  *,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  persistence: ArrayLike = 0.8,
) -> Array:
  """Rank-biased precision: the rate of relevant items met by a user who may stop at any rank.

  `RBP = (1 - q) sum_{r_i <= k} b_i q^(r_i - 1)`, with persistence `q`.

  >>> value = rbp(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), persistence=0.5)
  >>> print(f"{value:.5f}")
  0.62500

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off; None is the whole list.
    rel: Labels from here on are relevant; None is any positive label.
    persistence: The chance to go on to the next item, in [0, 1).
    ranking: Exact or smooth.

  Returns:
    `[...]`, in [0, 1).

  References:
    Moffat and Zobel, `Rank-biased precision for measurement of retrieval effectiveness
    <https://doi.org/10.1145/1416950.1416952>`_, 2008.
  """
  q = jnp.asarray(persistence).astype(ranked.dtype)
  return (1 - q) * ranked.expect(ranked.relevant(rel), discounts.geometric(q), k=k)
