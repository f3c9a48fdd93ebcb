"""Ranking metrics in JAX: exact inside `jit`, and smooth losses by changing one argument.

`metric(scores, labels, *, where=None, ...)` takes arrays of shape `[..., n]` and returns an array
of shape `[...]`: one value per query, never reduced. Most metrics have a cut-off `k`. All metrics
share these conventions:

* `where` is boolean, and False on padding. Values under the mask do not affect the result, and
  their gradient is exactly 0.
* An item is relevant if its label is positive, or at least `rel` if that is given. A negative label
  means unjudged: gain 0, not relevant.
* A score of -inf under `where=True` marks an item that is known but was not retrieved. It has no
  rank, but its label counts among the relevant items and in the ideal. It is not padding.
* A NaN score or label of a valid item makes the value of its query NaN.
* The value under tied scores is the mean over all orders of the tied items, unless
  `ranking=Exact(ties=...)` selects another rule.
* `k=None` means the whole list; where a metric divides by `k`, it is the number of valid items. `k`
  may exceed the length of the list.
* A query without the items that a metric looks for, mostly relevant ones, has the value 0; so has
  a query with every item masked.
* Numbers such as `k`, `rel`, a persistence or a temperature may be traced.

`docs/conventions.md` explains each with examples.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
  from jaxrank import (
    agreement,
    chance,
    class_labels,
    config,
    corpus,
    discounts,
    exposure,
    gains,
    letor,
    losses,
    metrics,
    plackett_luce,
    plot,
    ranks,
    sharded,
    soft,
    stats,
    trec,
  )
  from jaxrank._core.ranked import Ranked, Ranking, UnansweredError
  from jaxrank.aggregation import aggregate, has_both_classes, has_relevant
  from jaxrank.catalogue import Catalogue, CatalogueState, intra_list_distance, novelty
  from jaxrank.interop.plain_names import resolve_metrics
  from jaxrank.measures import Measure, evaluate, parse
  from jaxrank.metrics import (
    Curve,
    Metric,
    aggregate_curve,
    alpha_dcg,
    alpha_ndcg,
    auc,
    average_precision,
    average_precision_ia,
    binary_normalized_gain,
    bpm,
    bpref,
    compatibility,
    dcg,
    eleven_point_average,
    err,
    err_ia,
    f_measure,
    fall_out,
    gap,
    hit_rate,
    inferred_average_precision,
    insq,
    inst,
    interpolated_precision,
    item_count,
    judged,
    kendall_tau,
    log_average_precision,
    log_bpref,
    metric,
    ndcg,
    ndcg_at_levels,
    ndcg_at_relevant,
    nearly_err,
    nerr,
    nerr_ia,
    nnrbp,
    normalized_gain,
    nrbp,
    ordered_pair_accuracy,
    precision,
    precision_ia,
    precision_recall_curve,
    q_measure,
    query_count,
    r_precision,
    rbp,
    rbp_residual,
    recall,
    recall_at_fixed_precision,
    reciprocal_rank,
    retrieved_auc,
    sdcg,
    set_average_precision,
    spearman,
    subtopic_recall,
    utility,
  )
  from jaxrank.padding import Batch, batches, pad, pad_buckets, unpad
  from jaxrank.rankings.exact import Exact
  from jaxrank.rankings.expected_rank import Laplace, Logistic
  from jaxrank.rankings.perturbed import Gaussian, Gumbel
  from jaxrank.rankings.sharded import Sharded
  from jaxrank.streaming import Evaluator, State
  from jaxrank.validation import check_values

__all__ = [
  "Batch",
  "Catalogue",
  "CatalogueState",
  "Curve",
  "Evaluator",
  "Exact",
  "Gaussian",
  "Gumbel",
  "Laplace",
  "Logistic",
  "Measure",
  "Metric",
  "Ranked",
  "Ranking",
  "Sharded",
  "State",
  "UnansweredError",
  "aggregate",
  "aggregate_curve",
  "agreement",
  "alpha_dcg",
  "alpha_ndcg",
  "auc",
  "average_precision",
  "average_precision_ia",
  "batches",
  "binary_normalized_gain",
  "bpm",
  "bpref",
  "chance",
  "check_values",
  "class_labels",
  "config",
  "corpus",
  "compatibility",
  "dcg",
  "discounts",
  "eleven_point_average",
  "err",
  "err_ia",
  "evaluate",
  "exposure",
  "f_measure",
  "fall_out",
  "gains",
  "gap",
  "has_both_classes",
  "has_relevant",
  "hit_rate",
  "inferred_average_precision",
  "insq",
  "inst",
  "interpolated_precision",
  "intra_list_distance",
  "item_count",
  "judged",
  "kendall_tau",
  "letor",
  "log_average_precision",
  "log_bpref",
  "losses",
  "metric",
  "metrics",
  "ndcg",
  "ndcg_at_levels",
  "ndcg_at_relevant",
  "nearly_err",
  "nerr",
  "nerr_ia",
  "nnrbp",
  "normalized_gain",
  "novelty",
  "nrbp",
  "ordered_pair_accuracy",
  "pad",
  "pad_buckets",
  "parse",
  "plackett_luce",
  "plot",
  "precision",
  "precision_ia",
  "precision_recall_curve",
  "q_measure",
  "query_count",
  "r_precision",
  "ranks",
  "rbp",
  "rbp_residual",
  "recall",
  "recall_at_fixed_precision",
  "reciprocal_rank",
  "resolve_metrics",
  "retrieved_auc",
  "sdcg",
  "set_average_precision",
  "sharded",
  "soft",
  "spearman",
  "stats",
  "subtopic_recall",
  "trec",
  "unpad",
  "utility",
]

__version__ = "0.1.0"

# Everything is imported on first use, so `import jaxrank` alone does not import jax. The names that
# are not here are those of metrics.
_MODULES = (
  "agreement",
  "chance",
  "class_labels",
  "config",
  "corpus",
  "discounts",
  "exposure",
  "gains",
  "letor",
  "losses",
  "metrics",
  "plackett_luce",
  "plot",
  "ranks",
  "sharded",
  "soft",
  "stats",
  "trec",
)
_NAMES = {
  "_core.ranked": ("Ranked", "Ranking", "UnansweredError"),
  "aggregation": ("aggregate", "has_both_classes", "has_relevant"),
  "catalogue": ("Catalogue", "CatalogueState", "intra_list_distance", "novelty"),
  "interop.plain_names": ("resolve_metrics",),
  "measures": ("Measure", "evaluate", "parse"),
  "padding": ("Batch", "batches", "pad", "pad_buckets", "unpad"),
  "rankings.exact": ("Exact",),
  "rankings.expected_rank": ("Laplace", "Logistic"),
  "rankings.perturbed": ("Gaussian", "Gumbel"),
  "rankings.sharded": ("Sharded",),
  "streaming": ("Evaluator", "State"),
  "validation": ("check_values",),
}


# What other libraries call what has another name here, or is in a module; without `_at_k`.
_ELSEWHERE = {
  "accuracy": "hit_rate(..., k=1)",
  "auroc": "auc",
  "dcg_score": "dcg",
  "f1": "f_measure",
  "f1_score": "f_measure",
  "gauc": "auc",
  "gmap": "log_average_precision",
  "hit": "hit_rate",
  "hit_ratio": "hit_rate",
  "hits": "hit_rate",
  "hr": "hit_rate",
  "map": "average_precision",
  "mean_average_precision": "average_precision",
  "mean_reciprocal_rank": "reciprocal_rank",
  "mrr": "reciprocal_rank",
  "ndcg_score": "ndcg",
  "ap": "average_precision",
  "p": "precision",
  "rank_biased_precision": "rbp",
  "rbo": "agreement.rbo",
  "recip_rank": "reciprocal_rank",
  "roc_auc": "auc",
  "roc_auc_score": "auc",
  "rprec": "r_precision",
  "rr": "reciprocal_rank",
  "success": "hit_rate",
  "tau_ap": "agreement.tau_ap",
  "top_k_accuracy": "hit_rate",
  **{
    name: f"losses.{name}"
    for name in ("approx_ndcg", "approx_mrr", "lambda_rank", "list_mle", "softmax", "xe_ndcg")
  },
}


def _advice(name: str) -> str:
  """What to write instead of a name that is none of this module."""
  import difflib

  plain = name.lower()
  cut = plain.endswith(("_at_k", "_at_ks"))
  family = plain.removesuffix("s").removesuffix("_at_k") if cut else plain.removesuffix("_loss")
  found = _ELSEWHERE.get(family) or (family if family in __all__ else None)
  if found:
    return f"write jaxrank.{found}{', with k=10' * cut}."
  near = difflib.get_close_matches(plain, __all__, n=1)
  return f"did you mean jaxrank.{near[0]}?" if near else "jaxrank.__all__ has all names."


def __getattr__(name: str) -> typing.Any:
  if name not in __all__:
    advice = "" if name.startswith("_") else f" {_advice(name)}"
    raise AttributeError(f"module 'jaxrank' has no attribute {name!r}.{advice}")
  if name in _MODULES:
    return importlib.import_module(f"jaxrank.{name}")
  home = next((home for home, names in _NAMES.items() if name in names), "metrics")
  value = getattr(importlib.import_module(f"jaxrank.{home}"), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
