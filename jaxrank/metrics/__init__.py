"""Ranking metrics: exact values, and losses under a smooth ranking.

`metric(scores, labels, *, where=None, ..., ranking=Exact())` takes arrays `[..., n]` and returns
`[...]`, one value per query. The arguments that metrics share have the same meaning in all of them,
and each metric documents only its own:

* `scores`: `[..., n]`, higher first; -inf for items that are known but not retrieved.
* `labels`: `[..., n]`, bools, integers or floats; a negative label means unjudged. They are grades
  for metrics with a `gain` or a `max_label`.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `k`: the cut-off, a positive integer, which may be traced; None is the whole list. Where `k`
  divides, the whole list is the number of valid items.
* `rel`: labels of at least `rel` are relevant; None is any positive label. It may be traced.
* `gain`: a function from labels to gains, by default `jaxrank.gains.linear`, the label itself;
  `jaxrank.gains.exponential` is the gain of Burges et al. (2005).
* `discount`: a function from ranks to weights, of `jaxrank.discounts` or any other. Ranks start
  from 1, as floats, and are fractional under `jaxrank.Laplace` and `jaxrank.Logistic`.
* `max_label`: the best grade that labels can have, at least 0, which may be traced except in `gap`;
  larger labels count as this one, and `jaxrank.check_values` refuses them on the host. It is
  required, because values for different best grades are not comparable.
* `weights`: `[..., n]`, factors of the contributions of items, such as inverse propensities; None
  is 1. The ideal value of a normalised metric is weighted too.
* `min_label`: the label that has no gain in metrics with a gain from 0 to 1 at `max_label`.
* `subtopic_weights`: `[s]` or `[..., s]`, factors of the contributions of subtopics; None is 1. For
  the means over subtopics of `intent_aware` they are the probabilities of the subtopics; None gives
  equal ones to those that some item covers.
* `ranking`: `jaxrank.Exact()`, or a smooth ranking, which makes the metric differentiable in the
  scores. Metrics without a smooth form, which `docs/conventions.md` lists, need `Exact`.

`kendall_tau`, `spearman` and `ordered_pair_accuracy` compare labels as numbers, negative ones too.
Metrics of diversity take labels `[..., n, s]`, one for each item and each of `s` subtopics.

Every metric raises `ValueError` if shapes differ, a parameter is out of its range, or the ranking
cannot answer what the metric asks, and `TypeError` for a dtype that cannot be ranked or a
parameter of the wrong type. The message starts with the name of the function.
"""

from jaxrank._core.apply import ranked_query
from jaxrank._core.description import Description, described
from jaxrank.metrics.binary import average_precision, bpref, hit_rate, rbp, reciprocal_rank
from jaxrank.metrics.concordance import (
  auc,
  kendall_tau,
  ordered_pair_accuracy,
  retrieved_auc,
  spearman,
)
from jaxrank.metrics.counts import f_measure, fall_out, precision, r_precision, recall
from jaxrank.metrics.curves import (
  Curve,
  aggregate_curve,
  eleven_point_average,
  interpolated_precision,
  precision_recall_curve,
  recall_at_fixed_precision,
)
from jaxrank.metrics.custom import Metric, metric
from jaxrank.metrics.diversity import alpha_dcg, alpha_ndcg, nnrbp, nrbp
from jaxrank.metrics.estimates import hole, inferred_average_precision, judged, rbp_residual
from jaxrank.metrics.gain_curves import (
  binary_normalized_gain,
  ndcg_at_levels,
  ndcg_at_relevant,
  normalized_gain,
)
from jaxrank.metrics.graded import dcg, err, gap, ndcg, nerr, q_measure
from jaxrank.metrics.intent_aware import (
  average_precision_ia,
  err_ia,
  nerr_ia,
  precision_ia,
  subtopic_recall,
)
from jaxrank.metrics.logarithms import log_average_precision, log_bpref
from jaxrank.metrics.overlap import compatibility
from jaxrank.metrics.sets import item_count, query_count, set_average_precision, utility
from jaxrank.metrics.stopping import nearly_err
from jaxrank.metrics.user_models import bpm, insq, inst, sdcg

__all__ = [
  "Curve",
  "Description",
  "Metric",
  "aggregate_curve",
  "alpha_dcg",
  "alpha_ndcg",
  "auc",
  "average_precision",
  "average_precision_ia",
  "binary_normalized_gain",
  "bpm",
  "bpref",
  "compatibility",
  "dcg",
  "described",
  "eleven_point_average",
  "err",
  "err_ia",
  "f_measure",
  "fall_out",
  "gap",
  "hit_rate",
  "hole",
  "inferred_average_precision",
  "insq",
  "inst",
  "interpolated_precision",
  "item_count",
  "judged",
  "kendall_tau",
  "log_average_precision",
  "log_bpref",
  "metric",
  "ndcg",
  "ndcg_at_levels",
  "ndcg_at_relevant",
  "nearly_err",
  "nerr",
  "nerr_ia",
  "nnrbp",
  "normalized_gain",
  "nrbp",
  "ordered_pair_accuracy",
  "precision",
  "precision_ia",
  "precision_recall_curve",
  "q_measure",
  "query_count",
  "r_precision",
  "ranked_query",
  "rbp",
  "rbp_residual",
  "recall",
  "recall_at_fixed_precision",
  "reciprocal_rank",
  "retrieved_auc",
  "sdcg",
  "set_average_precision",
  "spearman",
  "subtopic_recall",
  "utility",
]
