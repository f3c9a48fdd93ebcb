"""Compatibility: the rank-biased overlap of a ranking with an ideal one."""

from typing import Any, Literal

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._core import checks, sorting, ties
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import MEANS_FIRST, Argument, Kind, ir_measures
from jaxrank._core.ranked import Ranked, Ranking
from jaxrank._core.sorting import take
from jaxrank.rankings.exact import Exact


def _normalized(name: str, value: Any) -> str:
  """The normaliser that stands for an argument of ir_measures."""
  checks.true_or_false(name, value)
  return "ideal" if value else "weights"


_NORMALIZE = Argument("normalizer", Kind("True or False", _normalized, literals=(bool,)))


def _overlap(ranked: Ranked, left: Array) -> Array:
  """`sum_d weight[d - 1] |I_d & X_d|` of the ideal order `I` and the ranking `X`.

  `left` is the sum of the weights from each rank on, `[n + 1]`. docs/mathematics.md, "Overlap with
  an ideal ranking".
  """
  # Equal mean ranks are those of tied items; only their order matters, which has no slope.
  rank = lax.stop_gradient(ranked.exposure(discounts.affine(1.0, 1.0)))
  ahead = sorting.keys(jnp.where(ranked.retrieved, -rank, -jnp.inf), ranked.where)
  key, item = sorting.order(ahead)
  start, end = ties.layout(key)
  start, end = (sorting.scatter(x, item) for x in (start, end))
  wanted = ranked.relevant()
  level, item = sorting.order(sorting.keys(ranked.labels, wanted), ahead)
  start, end, hits = (take(x, item) for x in (start, end, wanted & ranked.retrieved))
  # Runs of one label and one tie, which are next to each other in the ideal order.
  new = (level != ties.above(level)) | (start != ties.above(start))
  first, last = ties.layout(-jnp.cumsum(new, dtype=jnp.int32))

  ramp = _from_each_rank(left[:-1])
  q, s, h, t = (x.astype(left.dtype) for x in (first, start, last - first + 1, end - start + 1))
  same = jnp.where(first >= start, q + h, q)
  meet = jnp.where(h < t, jnp.floor((q * t - s * h) / jnp.maximum(t - h, 1)), same)
  meet = jnp.clip(meet, q, q + h).astype(jnp.int32)
  turn = jnp.clip(meet, start, end + 1)
  # The first `meet` depths see the items that are ideal, the others those of the tie.
  before, after = (x.astype(left.dtype) for x in (meet - first, turn - start))
  steep = take(ramp, first) - take(ramp, meet) - before * take(left, meet)
  flat = take(ramp, turn) - take(ramp, end + 1)
  flat += after * take(left, jnp.maximum(meet, turn))
  tied = (steep + h / t * flat) / h
  alone = take(left, jnp.maximum(first, start))
  return jnp.sum(jnp.where(hits, jnp.where(start < end, tied, alone), 0))


def _from_each_rank(x: Array) -> Array:
  """`[n + 1]`, the sum from each rank to the last one, and 0 past the end."""
  return jnp.concatenate([jnp.cumsum(x[::-1])[::-1], jnp.zeros_like(x[:1])])


@metric(
  departs=MEANS_FIRST,
  names=(ir_measures("Compat", "", "p=persistence", reads={"normalize": _NORMALIZE}),),
)
def compatibility(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  persistence: ArrayLike = 0.95,
  normalizer: Literal["ideal", "weights"] = "ideal",
  ranking: Ranking = Exact(),
) -> Array:
  """Compatibility: the rank-biased overlap with the most similar ideal ranking.

  `compat = sum_d p^(d - 1) |I_d & X_d| / d / sum_d p^(d - 1) min(d, R) / d`, with the first `d`
  items `X_d` of the ranking and `I_d` of the ideal one, which has the `R` items with a positive
  label, larger labels first and items of equal labels in the order of the ranking. The depth `d`
  goes down to the end of the longer of the two.

  Tied scores are averaged in the numbers of items of each label down to each rank.

  >>> value = compatibility(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2]), persistence=0.5)
  >>> print(f"{value:.5f}")
  0.25000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    persistence: The probability `p` of going on to the next depth, in [0, 1].
    normalizer: `"ideal"`, the sum for the ideal ranking; or `"weights"`, `sum_d p^(d - 1)`.

  Returns:
    `[...]`, in [0, 1].

  References:
    Clarke, Vtyurina and Smucker, `Assessing top-k preferences
    <https://doi.org/10.1145/3451161>`_, 2021.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  ranked.require_order("compatibility, the overlap with an ideal ranking")
  count = ranked.count(ranked.relevant())
  depth = jnp.maximum(ranked.count(ranked.retrieved), count)
  d = jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)
  weight = jnp.where(d <= depth, discounts.geometric(persistence)(d), 0)
  left = _from_each_rank(weight / d)
  # The terms of the overlap of an ideal ranking, so that the quotient is 1 without rounding.
  largest = weight if normalizer == "weights" else jnp.where(d <= count, left[:-1], 0)
  return safe_divide(_overlap(ranked, left), jnp.sum(largest))
