"""Exact metrics, each a loss under a smooth ranking.

`metric(scores, labels, *, where=None, ..., ranking=Exact())` takes arrays `[..., n]` and returns
`[...]`, one value a query. What the arguments mean that many metrics share:

* `scores`: `[..., n]`, higher first; -inf for items that are known and not retrieved.
* `labels`: `[..., n]`; `[..., n, subtopics]` for metrics of diversity. Negative is unjudged.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `k`: the cut-off, a positive integer, which may be traced; None is the whole list.
* `rel`: labels from here on are relevant; None is any positive label. It may be traced.
* `weights`: `[..., n]`, what an item counts, such as an inverse propensity; None is 1.
* `ranking`: `jaxrank.Exact()`, or a smooth ranking, which makes the metric differentiable.

Every metric raises `ValueError` if shapes differ, a parameter is out of its range, or the ranking
cannot answer what the metric asks, and `TypeError` for a dtype that cannot be ranked or a
parameter of another type. The message starts with the name of the function.
"""

from jaxrank._core.description import Description, described
from jaxrank.metrics.binary import average_precision, bpref, hit_rate, rbp, reciprocal_rank
from jaxrank.metrics.concordance import auc, kendall_tau, ordered_pair_accuracy, spearman
from jaxrank.metrics.counts import f_measure, fall_out, judged, precision, r_precision, recall
from jaxrank.metrics.curves import (
  Curve,
  aggregate_curve,
  eleven_point_average,
  interpolated_precision,
  precision_recall_curve,
  recall_at_fixed_precision,
)
from jaxrank.metrics.custom import Metric, metric
from jaxrank.metrics.diversity import alpha_dcg, alpha_ndcg, nrbp
from jaxrank.metrics.graded import dcg, err, gap, ndcg, nerr
from jaxrank.metrics.intents import err_ia, nerr_ia

__all__ = [
  "Curve",
  "Description",
  "Metric",
  "aggregate_curve",
  "alpha_dcg",
  "alpha_ndcg",
  "auc",
  "average_precision",
  "bpref",
  "dcg",
  "described",
  "eleven_point_average",
  "err",
  "err_ia",
  "f_measure",
  "fall_out",
  "gap",
  "hit_rate",
  "interpolated_precision",
  "judged",
  "kendall_tau",
  "metric",
  "ndcg",
  "nerr",
  "nerr_ia",
  "nrbp",
  "ordered_pair_accuracy",
  "precision",
  "precision_recall_curve",
  "r_precision",
  "rbp",
  "recall",
  "recall_at_fixed_precision",
  "reciprocal_rank",
  "spearman",
]
