"""Measures of the set of retrieved items, and counts that are summed over queries."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff
from jaxrank._core.apply import metric, ranked_query
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.description import (
  MEANS_FIRST,
  NONNEGATIVE,
  NUMBER,
  Argument,
  ir_measures,
  ranx,
  trec_eval,
)
from jaxrank._core.ranked import Ranking, seen
from jaxrank.rankings.exact import Exact


@metric(
  depth="counts",
  departs=MEANS_FIRST,
  names=(ir_measures("SetAP", "", "rel", rel=1), trec_eval("set_map", rel=1)),
)
def set_average_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Average precision of a set without an order: precision times recall.

  `SetAP@k = hits@k^2 / (min(k, n) R)`, with `hits@k` of the `R` relevant items among the first `k`
  of `n` retrieved items. If a cut-off divides tied items, `hits@k` is an expectation.

  >>> print(f"{set_average_precision(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  0.66667

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, in [0, 1].
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  hits = ranked.expect(b, discounts.constant, k=k)
  return safe_divide(hits * hits, seen(ranked, k) * ranked.count(b))


@metric(
  depth="counts",
  hit=NUMBER,
  other=NUMBER,
  miss=NUMBER,
  rest=NUMBER,
  collection=NONNEGATIVE,
  seeks="any items",
  range=(-float("inf"), float("inf")),
  names=(
    trec_eval(
      "utility",
      "[_1,-1,0,0]",
      reads={name: Argument(name) for name in ("hit", "other", "miss", "rest")},
      rel=1,
    ),
    # It counts hits, and takes their mean over the queries.
    ranx("hits", arguments="rel", rel=1, other=0.0),
  ),
)
def utility(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  hit: ArrayLike = 1.0,
  other: ArrayLike = -1.0,
  miss: ArrayLike = 0.0,
  rest: ArrayLike = 0.0,
  collection: ArrayLike = 0,
  ranking: Ranking = Exact(),
) -> Array:
  """Linear utility of the retrieved set: what its relevant items bring, and its others cost.

  `U@k = u_hit hits@k + u_other others@k + u_miss (R - hits@k) + u_rest (N - R - others@k)`, with
  `hits@k` relevant items and `others@k` other ones among the first `k` that are retrieved, of `R`
  relevant items in a collection of `N`.

  >>> print(f"{utility(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=2):.5f}")
  0.00000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    hit: The utility of each relevant item that is retrieved.
    other: The utility of each other item that is retrieved; unjudged ones are among them.
    miss: The utility of each relevant item that is not retrieved.
    rest: The utility of each other item of the collection that is not retrieved.
    collection: The number of items of the collection, which `rest` needs.

  Returns:
    `[...]`.

  References:
    Hull, `The TREC-7 filtering track: description and analysis
    <https://trec.nist.gov/pubs/trec7/papers/tr98filt.pdf.gz>`_, 1998.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  hit, other, miss, rest, collection = (
    jnp.asarray(x).astype(ranked.dtype) for x in (hit, other, miss, rest, collection)
  )
  gained = ranked.expect(jnp.where(b, hit - miss, other - rest), discounts.constant, k=k)
  left_out = jnp.where(ranked.count(ranked.where) > 0, rest * (collection - ranked.count(b)), 0)
  return gained + miss * ranked.count(b) + left_out


@metric(
  depth="counts",
  seeks="any items",
  range=(0.0, float("inf")),
  aggregation="sum",
  names=(
    ir_measures("NumRet", "", of="retrieved"),
    ir_measures("NumRelRet NumRet", "", "rel", rel=1, of="relevant_retrieved"),
    ir_measures("NumRel", "", "rel", rel=1, of="relevant"),
    trec_eval("num_ret", of="retrieved"),
    trec_eval("num_rel", rel=1, of="relevant"),
    trec_eval("num_rel_ret", rel=1, of="relevant_retrieved"),
    trec_eval("num_nonrel_judged_ret", rel=1, of="judged_others_retrieved"),
  ),
)
def item_count(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  of: Literal[
    "retrieved", "relevant", "relevant_retrieved", "judged_others_retrieved"
  ] = "relevant_retrieved",
  ranking: Ranking = Exact(),
) -> Array:
  """The number of items of a kind among the first `k`, which `Evaluator` sums over the queries.

  `count@k = |{i of the kind: r_i <= k}|`; relevant items also count if they are not retrieved, for
  the kind `"relevant"`.

  >>> print(f"{item_count(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]), k=2):.5f}")
  1.00000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    of: The kind: `"retrieved"` items; `"relevant"` ones, retrieved or not, whatever `k`;
      `"relevant_retrieved"`; or `"judged_others_retrieved"`, judged items that are not relevant.

  Returns:
    `[...]`, at least 0.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  if of == "relevant":
    return ranked.count(b)
  chosen = {
    "retrieved": ranked.retrieved,
    "relevant_retrieved": b,
    "judged_others_retrieved": ranked.judged & ~b,
  }
  return ranked.expect(chosen[of], discounts.constant, k=k)


@metric(
  depth="none",
  seeks="any items",
  aggregation="sum",
  names=(ir_measures("NumQ", ""), trec_eval("num_q")),
)
def query_count(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """One for each query with an item; `Evaluator` sums it over the queries.

  `count = [n > 0]`, with `n` items.

  >>> print(f"{query_count(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  1.00000

  See `jaxrank.metrics` for the arguments that metrics share.

  Returns:
    `[...]`, 0 or 1.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  return (ranked.count(ranked.where) > 0).astype(ranked.dtype)
