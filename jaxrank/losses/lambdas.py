"""Losses of pairs weighed by what swapping them does to a metric: LambdaRank and LambdaLoss."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts, gains, metrics
from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.sorting import slots
from jaxrank._core.types import Discount, Gain
from jaxrank.losses import swaps
from jaxrank.losses._loss import answer, logits
from jaxrank.losses.pairwise import Lists, rows_of, total
from jaxrank.losses.swaps import Swap
from jaxrank.rankings.exact import ExactQuery


def lambda_rank(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  metric: Callable[..., Any] = metrics.ndcg,
  temperature: ArrayLike = 1.0,
  **parameters: Any,
) -> Array:
  """LambdaRank for any metric: logistic loss of pairs, weighed by what swapping them changes.

  `sum |delta_ij| log(1 + exp(-(s_i - s_j) / temperature))` over the pairs whose swap would change
  the metric by `delta_ij`, `i` the one that it wants first. The weights are constants to the
  gradient. Tied items are ordered worst first, and by column if their labels are equal too.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])
  >>> print(f"{lambda_rank(scores, labels):.5f}")
  0.75969
  >>> print(f"{lambda_rank(scores, labels, metric=metrics.err, max_label=2):.5f}")
  0.87125

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    metric: A metric such as `jaxrank.ndcg`, higher is better: any of graded or binary relevance,
      and `auc`.
    temperature: A positive number; may be traced.
    **parameters: Those of the metric, such as `k=10`.

  Returns:
    `[...]`, at least 0.

  Raises:
    TypeError: if the metric does not take the parameters.
    ValueError: if the change of the metric is not known.

  References:
    Burges, `From RankNet to LambdaRank to LambdaMART: an overview
    <https://www.microsoft.com/en-us/research/publication/from-ranknet-to-lambdarank-to-lambdamart-an-overview/>`_,
    2010; Donmez et al., `On the local optimality of LambdaRank
    <https://doi.org/10.1145/1571941.1572021>`_, 2009.
  """
  if metric not in swaps.SWAPS:
    known = ", ".join(sorted(known.__name__ for known in swaps.SWAPS))
    raise ValueError(f"metric must be one of jaxrank's {known}; got {metric!r}.")
  given = _own(metric).bind(**parameters)
  given.apply_defaults()
  lists = scores, labels, where
  return _lambda(swaps.SWAPS[metric], lists, temperature=temperature, **given.arguments)


def _own(metric: Callable[..., Any]) -> inspect.Signature:
  shared = ("scores", "labels", "where", "ranking")
  signature = inspect.signature(metric)
  own = [p for name, p in signature.parameters.items() if name not in shared]
  return signature.replace(parameters=own)


def lambda_ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: int | Array | None = None,
  scheme: str = "lambdarank",
  mu: ArrayLike = 10.0,
  gain: Gain = gains.exponential,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """The losses of LambdaLoss for nDCG.

  `sum |delta_ij| log(1 + exp(-(s_i - s_j) / temperature))` over the pairs with `g_i > g_j`. With
  `G = (g_i - g_j) / max DCG@k`, discount `d`, and hard ranks `r` that are constants to the
  gradient, `delta_ij` is

  * `"lambdarank"`: `G |d(r_i) - d(r_j)|`, with `d = 0` below `k`;
  * `"ndcg2"`: `G (d(|r_i - r_j|) - d(|r_i - r_j| + 1))`, a bound of nDCG as LambdaRank's is not;
    times `1 / (1 - d(max(r_i, r_j)))` if one of the two is below `k`, which bounds nDCG@k;
  * `"ndcg2++"`: `mu` times the second, plus the first.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])
  >>> for scheme in ("lambdarank", "ndcg2", "ndcg2++"):
  ...   print(f"{lambda_ndcg(scores, labels, scheme=scheme):.5f}")
  0.75969
  0.58570
  6.61667

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    k: Cut-off of the nDCG.
    scheme: The weight of a pair, see above.
    mu: The weight of the one in the other in `"ndcg2++"`; may be traced.
    gain: Maps labels to gains.
    discount: Maps 1-based ranks to weights.
    weights: `[..., n]`, times the gain of each item.
    temperature: A positive number; may be traced.

  Returns:
    `[...]`, at least 0.

  Raises:
    ValueError: if the scheme is unknown.

  References:
    Wang et al., `The LambdaLoss framework for ranking metric optimization
    <https://doi.org/10.1145/3269206.3271784>`_, 2018; Jagerman et al., `On optimizing top-k metrics
    for neural ranking models <https://doi.org/10.1145/3477495.3531849>`_, 2022.
  """
  checks.choice("scheme", scheme, _SCHEMES)
  own = {"k": k, "gain": gain, "discount": discount, "weights": weights}
  own |= {"mu": mu} if scheme == "ndcg2++" else {}
  return _lambda(_SCHEMES[scheme], (scores, labels, where), temperature=temperature, **own)


def _ndcg2(query, *, k, gain, discount, weights=None):
  def change(upper, lower):
    (g, rank), (h, other) = upper, lower
    apart = jnp.maximum(other - rank, 1)
    delta = discount(apart) - discount(apart + 1)
    if k is not None:
      deep = jnp.maximum(rank, other)
      delta = jnp.where(deep > query.cutoff(k), safe_divide(delta, 1 - discount(deep)), delta)
    return (h - g) * delta

  g = query.mean(swaps.normalized(query, k, gain, discount, weights))
  return Swap(change, (g, jnp.arange(1, query.n + 1, dtype=query.dtype)))


def _ndcg2_plus(query, *, mu, **parameters):
  sharp, broad = swaps.ndcg(query, **parameters), _ndcg2(query, **parameters)
  mu, size = jnp.asarray(mu).astype(query.dtype), len(sharp.features)

  def change(upper, lower):
    there = mu * broad.change(upper[size:], lower[size:])
    return sharp.change(upper[:size], lower[:size]) + there

  return Swap(change, (*sharp.features, *broad.features))


_SCHEMES: dict[str, Callable[..., Swap]] = {
  "lambdarank": swaps.ndcg,
  "ndcg2": _ndcg2,
  "ndcg2++": _ndcg2_plus,
}


def _lambda(swap: Callable[..., Swap], lists: Lists, **parameters: Any) -> Array:
  if "k" in parameters:
    parameters["k"] = checks.cutoff(parameters["k"])
  rows = rows_of(lists[0])
  return answer(_sum_of_swaps, lists, ties="pessimistic", swap=swap, rows=rows, **parameters)


def _sum_of_swaps(
  query: ExactQuery, *, swap: Callable[..., Swap], temperature: ArrayLike, rows: int, **own: Any
) -> Array:
  change, features = swap(query, **own)
  items = (logits(query, temperature), slots(query.keys), query.retrieved)

  def pair(upper, lower):
    (z, rank, live, *own), (other_z, other_rank, other_live, *others) = upper, lower
    both = live & other_live & (rank < other_rank)
    delta = jnp.where(both, change(own, others), 0)
    wrong = jnp.where(delta > 0, z - other_z, other_z - z)
    return jnp.abs(delta) * jax.nn.softplus(wrong)

  return total(pair, (*items, *lax.stop_gradient(features)), rows)
