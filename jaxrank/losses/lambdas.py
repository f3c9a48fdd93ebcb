"""LambdaRank and LambdaLoss: logistic losses of pairs, weighted by changes of a metric.

The change is that of the metric if the two items swap ranks; `jaxrank.losses.swaps` computes it.
`rank_bends` and `ndcg_bends` serve `jaxrank/losses/curvature.py`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts, gains, metrics
from jaxrank._base import Cutoff, Discount, Gain
from jaxrank._core import checks
from jaxrank._core.all_pairs import Items, rows_of, total
from jaxrank._core.apply import Call, Lists, apply_calls, of_one_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import NUMBER, Description, with_kernel
from jaxrank._core.ranked import at_ranks
from jaxrank._core.sorting import slots
from jaxrank.losses import swaps
from jaxrank.losses._loss import exact_query, headroom, logits, loss, saturated
from jaxrank.losses.pairwise import bends
from jaxrank.losses.swaps import Features, Swap
from jaxrank.measures import scales
from jaxrank.measures.grammar import one_measure
from jaxrank.measures.measure import One
from jaxrank.rankings.exact import Exact, ExactQuery

# A function of the change of the metric by the swap of two items, their logits, and the scale of
# the logits.
Term = Callable[[Array, Array, Array, Array], Array]

_FIRST_COLUMN = "of items with equal scores and labels, the first column goes ahead"


def lambda_rank(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  metric: str | One = metrics.ndcg,
  temperature: ArrayLike = 1.0,
  **parameters: Any,
) -> Array:
  """LambdaRank: the logistic loss of pairs, weighted by the change of a metric under a swap.

  `sum |delta_ij| log(1 + exp(-(s_i - s_j) / temperature))` over all pairs of retrieved items, where
  `delta_ij` is the change of the metric if the two items swap ranks, and `i` is the item that comes
  first in the better one of the two orders. The gradient treats the weights as constants. Tied
  items are ordered by label, smallest first, and by column if their labels are equal too.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])
  >>> print(f"{lambda_rank(scores, labels):.5f}")
  0.57887
  >>> print(f"{lambda_rank(scores, labels, metric=metrics.err, max_label=2):.5f}")
  0.87125

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    labels: Labels, `[..., n]`, or `[..., n, subtopics]` for a metric of diversity.
    metric: Metric of this library or made by `jaxrank.metric`, a `jaxrank.Measure`, or a name such
      as `"nDCG@10"`. A swap of two items must change it by a known amount, as it does `ndcg`, `err`
      and `average_precision`. A metric of one's own must be a sum of answers of the ranking.
    **parameters: Parameters of the metric, such as `k=10`; a measure or a name has its own.

  Returns:
    Loss of each query, `[...]`, at least 0.

  Raises:
    TypeError: if `metric` is not a metric, or does not take one of the parameters.
    ValueError: if a parameter is out of its range, a label of NumPy or in a list is beyond the
      scale of the metric, or the metric is not affine. The latter is a
      `jaxrank.UnansweredError` that starts with the name of the metric; `kendall_tau` and
      `ordered_pair_accuracy` raise it too.

  References:
    Burges, `From RankNet to LambdaRank to LambdaMART: an overview
    <https://www.microsoft.com/en-us/research/publication/from-ranknet-to-lambdarank-to-lambdamart-an-overview/>`_,
    2010; Donmez et al., `On the local optimality of LambdaRank
    <https://doi.org/10.1145/1571941.1572021>`_, 2009.
  """
  return _lambda_rank((scores, labels, where), metric, temperature, parameters, _logistic_term)


lambda_rank.departs = {"permutation": _FIRST_COLUMN}  # type: ignore[attr-defined]


def rank_bends(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  metric: str | One = metrics.ndcg,
  temperature: ArrayLike = 1.0,
  **parameters: Any,
) -> Array:
  """`[...]`, whose gradient by the logits is the diagonal of the Hessian of `lambda_rank`."""
  return _lambda_rank((scores, labels, where), metric, temperature, parameters, _bent_term)


def _lambda_rank(
  lists: Lists, metric: str | One, temperature: ArrayLike, parameters: dict[str, Any], term: Term
) -> Array:
  with checks.named("lambda_rank"):
    checks.positive_number("temperature", temperature)
    measure = one_measure(metric, parameters)
    about, given, *_ = measure.call()
    one = of_one_query(*lists)
    lists = lists if one is None else one.lists
    swapped = with_kernel(about, _LambdaRank(about, term))
    call = Call(swapped, {**given, "temperature": temperature}, None)
    (evaluated,) = apply_calls([call], *lists, Exact("pessimistic"))
    scales.check_arrays([measure], *lists[1:])
  value: Array = evaluated.value
  return value


@dataclasses.dataclass(frozen=True)
class _LambdaRank:
  """The kernel of `lambda_rank` for a metric."""

  metric: Description
  term: Term

  def __call__(self, query: ExactQuery, *, temperature: ArrayLike, **parameters: Any) -> Array:
    swaps_ = swaps.of_metric(query, self.metric, **parameters)
    return _sum_of_swaps(query, swaps_, temperature, self.term)


@loss(
  ties="pessimistic",
  departs={
    "permutation": _FIRST_COLUMN,
    "derivatives": "the weights of pairs, which mu and weights change, count as constants",
  },
  mu=NUMBER,
)
def lambda_ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  scheme: Literal["lambdarank", "ndcg2", "ndcg2++"] = "lambdarank",
  mu: ArrayLike = 10.0,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """LambdaLoss: the losses of the LambdaLoss framework for nDCG.

  `sum |delta_ij| log(1 + exp(-(s_i - s_j) / temperature))` over the pairs of retrieved items with
  gains `g_i > g_j`. With `G = (g_i - g_j) / max DCG@k`, discount `d`, and exact ranks `r` that the
  gradient treats as constants, `delta_ij` is

  * `"lambdarank"`: `G |d(r_i) - d(r_j)|`, where `d(r)` is 0 for `r > k`;
  * `"ndcg2"`: `G (d(|r_i - r_j|) - d(|r_i - r_j| + 1))`, divided by `1 - d(max(r_i, r_j))` if one
    of the two ranks is greater than `k`. The loss is a bound of nDCG@k, which that of LambdaRank is
    not;
  * `"ndcg2++"`: `mu` times `"ndcg2"`, plus `"lambdarank"`.

  As in `lambda_rank`, tied items are ordered by label, not by gain, smallest first, and by column
  if their labels are equal too. An unjudged item is ahead of those that it ties with.

  >>> scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])
  >>> for scheme in ("lambdarank", "ndcg2", "ndcg2++"):
  ...   print(f"{lambda_ndcg(scores, labels, scheme=scheme):.5f}")
  0.57887
  0.51824
  5.76132

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    scheme: Weight of a pair: `"lambdarank"`, `"ndcg2"` or `"ndcg2++"`.
    mu: Factor of `"ndcg2"` in `"ndcg2++"`, a number; may be traced.
    gain: Function from labels to gains; the paper uses `jaxrank.gains.exponential`.

  Returns:
    Loss of each query, `[...]`, at least 0.

  Raises:
    ValueError: if the scheme is unknown.

  References:
    Wang et al., `The LambdaLoss framework for ranking metric optimization
    <https://doi.org/10.1145/3269206.3271784>`_, 2018; Jagerman et al., `On optimizing top-k metrics
    for neural ranking models <https://doi.org/10.1145/3477495.3531849>`_, 2022.
  """
  query = exact_query(scores, labels, where)
  changes = _changes(query, scheme, k, mu, gain, discount, weights)
  return _sum_of_swaps(query, changes, temperature, _logistic_term)


@loss(ties="pessimistic", mu=NUMBER)
def ndcg_bends(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  scheme: Literal["lambdarank", "ndcg2", "ndcg2++"] = "lambdarank",
  mu: ArrayLike = 10.0,
  gain: Gain = gains.linear,
  discount: Discount = discounts.logarithmic,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """`[...]`, whose gradient by the logits is the diagonal of the Hessian of `lambda_ndcg`."""
  query = exact_query(scores, labels, where)
  changes = _changes(query, scheme, k, mu, gain, discount, weights)
  return _sum_of_swaps(query, changes, temperature, _bent_term)


def _changes(
  query: ExactQuery,
  scheme: str,
  k: Cutoff,
  mu: ArrayLike,
  gain: Gain,
  discount: Discount,
  weights: ArrayLike | None,
) -> list[Swap]:
  """The changes of a scheme by the swaps of two items."""
  gain = query.relative_gain(gain)
  ideal = at_ranks(query.best(gain, weights, k=k), discount)
  share = safe_divide(query.gain(gain, weights), ideal)
  if scheme == "lambdarank":
    return _ndcg(query, share, discount, k)
  ndcg2 = _ndcg2(query, share, discount, k)
  if scheme == "ndcg2":
    return [ndcg2]
  factor = jnp.asarray(mu).astype(query.dtype)
  weighted = Swap(lambda *ranks: factor * ndcg2.change(*ranks), ndcg2.features)
  return [*_ndcg(query, share, discount, k), weighted]


def _ndcg(query: ExactQuery, share: Array, discount: Discount, k: Cutoff) -> list[Swap]:
  return [swaps.discounted(query, share, discount, k)]


def _ndcg2(query: ExactQuery, share: Array, discount: Discount, k: Cutoff) -> Swap:
  def change(upper: Features, lower: Features) -> Array:
    (g, rank), (h, other) = upper, lower
    apart = jnp.maximum(other - rank, 1)
    delta = discount(apart) - discount(apart + 1)
    if k is not None:
      deep = jnp.maximum(rank, other)
      delta = jnp.where(deep > query.cutoff(k), safe_divide(delta, 1 - discount(deep)), delta)
    return (h - g) * delta

  rank = jnp.arange(1, query.n + 1, dtype=query.dtype)
  return Swap(change, (query.mean(share), rank))


def _sum_of_swaps(
  query: ExactQuery, changes: list[Swap], temperature: ArrayLike, term: Term
) -> Array:
  sizes = [len(swap.features) for swap in changes]
  z = logits(query, temperature)
  scale = headroom(z, query.n**2)
  # The number of items from each retrieved one on. NaN is above and below none, and the 0 of
  # padding is above none.
  left = jnp.where(query.retrieved, (query.n - slots(query.keys)).astype(z.dtype), jnp.nan)
  items = scale * z, left

  def pair(upper: Items, lower: Items) -> Array:
    (z, left, *own), (other_z, other_left, *others) = upper, lower
    delta = jnp.zeros_like(z * other_z)
    for swap, size in zip(changes, sizes, strict=True):
      delta += swap.change(tuple(own[:size]), tuple(others[:size]))
      del own[:size], others[:size]
    return term(jnp.where(left > other_left, delta, 0), z, other_z, scale)

  features = [x for swap in changes for x in swap.features]
  whole = *items, *lax.stop_gradient(features)
  return saturated(total(pair, whole, rows_of(query)) / scale)


def _logistic_term(delta: Array, z: Array, other_z: Array, scale: Array) -> Array:
  """`|delta| scale log(1 + exp(sign(delta) x / scale))` of the difference `x`.

  The exponential of `-|x|` does not depend on `delta`, which would be computed anew for one that
  does: the gradient of lambda_ndcg [32, 1000] takes twice as long (jaxlib 0.10.2).
  """
  x = z - other_z
  # Not an absolute value, whose slope at 0 is 0, as the second derivative there would be.
  positive = x > 0
  rest = scale * jnp.log1p(jnp.exp(jnp.where(positive, -x, x) * (1 / scale)))
  wrong = jnp.where(positive, jnp.maximum(delta, 0), jnp.minimum(delta, 0))
  return wrong * x + jnp.abs(delta) * rest


def _bent_term(delta: Array, z: Array, other_z: Array, scale: Array) -> Array:
  return jnp.abs(delta) * bends(z - other_z, z, other_z, scale)
