"""By how much a metric changes when two items of a ranking swap places, in O(1) a pair.

Every metric of the core has one of three forms, each with sums over the ranks above or below an
item that are the same for all its pairs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxrank import discounts, gains, metrics
from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import at_ranks
from jaxrank._core.ties import survival
from jaxrank._core.types import Cutoff, Discount
from jaxrank.rankings.exact import ExactQuery

# The logarithm of the chance to pass an item at which everyone stops: 0 when alone, and a sum of
# thousands of them is still exact enough for the difference of two.
_WALL = -100.0

Features = tuple[Array, ...]


class Swap(NamedTuple):
  """The change of a metric for any two ranks.

  Attributes:
    change: Of the features of two ranks, the upper first.
    features: `[n]` each, in rank order.
  """

  change: Callable[[Features, Features], Array]
  features: Features


def discounted(query: ExactQuery, w: Array, discount: Discount, k: Cutoff) -> Swap:
  """Of `sum w_i discount(r_i)`: `(w_b - w_a) (d_a - d_b)`."""

  def change(upper, lower):
    (w, d), (v, e) = upper, lower
    return (v - w) * (d - e)

  return Swap(change, (query.mean(w), _at_ranks(query, discount, k)))


def cascade(
  query: ExactQuery, stop: Array, discount: Discount, k: Cutoff, scale: Array | int = 1
) -> Swap:
  """Of `sum p_i discount(r_i) prod (1 - p_j)` over the items `j` ahead of `i`, times `scale`.

  With `S` the chance to get to rank `a`, `M` to get from below `a` to `b`, and `V_r` what is
  expected below `r` of those who pass it, `(p_b - p_a) S (d_a - V_a - M (d_b - V_{b - 1}))`.
  """

  def change(upper, lower):
    (p, d, reached, _, passed, below, _), (q, e, _, log, _, _, from_here) = upper, lower
    return (q - p) * reached * (d - below - jnp.exp(log - passed) * (e - from_here))

  p, d = query.mean(stop), _at_ranks(query, discount, k) * scale
  step = jnp.maximum(jnp.log1p(-p), _WALL)
  passed = jnp.cumsum(step)

  def up(below, rank):
    p, d = rank
    from_here = p * d + (1 - p) * below
    return from_here, (below, from_here)

  _, (below, from_here) = lax.scan(up, jnp.zeros_like(p[0]), (p, d), reverse=True)
  return Swap(change, (p, d, survival(p), passed - step, passed, below, from_here))


def precision(query: ExactQuery, b: Array, k: Cutoff, scale: Array) -> Swap:
  """Of the sum of the precisions at the ranks `r_i <= k` of the relevant items, times `scale`.

  With `H` the hits and `C` the sum of `b / r` down to a rank, `b_b - b_a` times
  `(H_a + b_b) / a - (H_b + b_b) / b + C_b - C_a`.
  """

  def change(upper, lower):
    (b, d, hits, sum_), (c, e, hits_there, sum_there) = upper, lower
    return (c - b) * ((hits + c) * d - (hits_there + c) * e + sum_there - sum_)

  b, d = query.mean(b), _at_ranks(query, discounts.reciprocal, k) * scale
  return Swap(change, (b, d, jnp.cumsum(b), jnp.cumsum(b * d)))


def _at_ranks(query: ExactQuery, discount: Discount, k: Cutoff) -> Array:
  rank = jnp.arange(1, query.n + 1, dtype=query.dtype)
  return jnp.where(rank <= (query.n if k is None else query.cutoff(k)), discount(rank), 0)


def _dcg(query, *, k, gain, discount, weights=None):
  return discounted(query, query.gain(gain, weights), discount, k)


def ndcg(query, *, k, gain, discount, weights=None):
  """Of nDCG."""
  return discounted(query, normalized(query, k, gain, discount, weights), discount, k)


def normalized(query, k, gain, discount, weights):
  """Gains over the ideal DCG."""
  ideal = at_ranks(query.best(gain, weights), discount, k)
  return safe_divide(query.gain(gain, weights), ideal)


def _err(query, *, k, max_label):
  return cascade(query, query.stop(max_label), discounts.reciprocal, k)


def _nerr(query, *, k, max_label):
  best = gains.stop_probability(query.best_grades(), query.max_label(max_label))
  ideal = at_ranks(best * survival(best), discounts.reciprocal, k)
  scale = safe_divide(jnp.ones_like(ideal), ideal)
  return cascade(query, query.stop(max_label), discounts.reciprocal, k, scale)


def _reciprocal_rank(query, *, k, rel):
  return cascade(query, query.relevant(rel), discounts.reciprocal, k)


def _hit_rate(query, *, k, rel):
  return cascade(query, query.relevant(rel), discounts.constant, k)


def _average_precision(query, *, k, rel, normalizer):
  checks.choice("normalizer", normalizer, ("relevant", "cutoff"))
  b = query.relevant(rel)
  count = query.count(b)
  if normalizer == "cutoff":
    count = jnp.minimum(count, query.cutoff(k))
  return precision(query, b, k, safe_divide(jnp.ones_like(count), count))


def _hits(query, rel, divisor, k):
  b = query.relevant(rel).astype(query.dtype)
  return discounted(query, safe_divide(b, divisor), discounts.constant, k)


def _precision(query, *, k, rel, divisor):
  checks.choice("divisor", divisor, ("k", "retrieved"))
  cutoff = query.cutoff(k)
  if divisor == "retrieved":
    cutoff = jnp.minimum(cutoff, query.count(query.retrieved))
  return _hits(query, rel, cutoff, k)


def _recall(query, *, k, rel):
  return _hits(query, rel, query.count(query.relevant(rel)), k)


def _r_precision(query, *, rel):
  count = query.count(query.relevant(rel))
  return _hits(query, rel, count, count)


def _f_measure(query, *, k, rel, beta):
  square = jnp.square(jnp.asarray(beta).astype(query.dtype))
  total = query.cutoff(k) + square * query.count(query.relevant(rel))
  return _hits(query, rel, total / (1 + square), k)


def _rbp(query, *, k, rel, persistence):
  q = jnp.asarray(persistence).astype(query.dtype)
  return discounted(query, (1 - q) * query.relevant(rel).astype(q.dtype), discounts.geometric(q), k)


def _auc(query, *, rel):
  b = query.relevant(rel)
  pairs = query.count(b) * query.count(query.where & ~b)
  return discounted(query, safe_divide(b.astype(query.dtype), pairs), jnp.negative, None)


# The kernel of each metric, given its parameters.
SWAPS: dict[Callable[..., Any], Callable[..., Swap]] = {
  metrics.auc: _auc,
  metrics.average_precision: _average_precision,
  metrics.dcg: _dcg,
  metrics.err: _err,
  metrics.f_measure: _f_measure,
  metrics.hit_rate: _hit_rate,
  metrics.ndcg: ndcg,
  metrics.nerr: _nerr,
  metrics.precision: _precision,
  metrics.r_precision: _r_precision,
  metrics.rbp: _rbp,
  metrics.recall: _recall,
  metrics.reciprocal_rank: _reciprocal_rank,
}
