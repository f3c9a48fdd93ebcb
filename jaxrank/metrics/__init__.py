"""Exact metrics, each a loss under a smooth ranking.

`metric(scores, labels, *, where=None, ..., ranking=Exact())` takes arrays `[..., n]` and returns
`[...]`, one value per query. The arguments that metrics share mean the same in all of them, and a
metric documents only its own:

* `scores`: `[..., n]`, higher first; -inf for items that are known and not retrieved.
* `labels`: `[..., n]`, bools, integers or floats. They are grades where there is a `gain` or a
  `max_label`, and plain numbers in correlations; negative labels are unjudged elsewhere. Metrics of
  diversity take `[..., n, s]`, a label for each item and each of `s` subtopics.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `k`: the cut-off, a positive integer, which may be traced; None is the whole list. Where `k`
  divides, the whole list is the number of valid items.
* `rel`: labels from here on are relevant; None is any positive label. It may be traced.
* `gain`: a function from labels to gains, by default `jaxrank.gains.linear`, the label itself;
  `jaxrank.gains.exponential` is that of Burges et al. (2005).
* `discount`: a function from ranks to weights, one of `jaxrank.discounts` or another. Ranks count
  from 1, as floats, and are fractional under `jaxrank.Laplace` and `jaxrank.Logistic`.
* `max_label`: the best grade that labels can have, at least 0, which may be traced; larger labels
  count as this one. It is required, because values for different best grades are not comparable.
* `weights`: `[..., n]`, by which what an item adds is multiplied, such as an inverse propensity;
  None is 1. The ideal value of a normalised metric is weighted too.
* `subtopic_weights`: `[s]` or `[..., s]`, by which what a subtopic adds is multiplied; None is 1.
* `ranking`: `jaxrank.Exact()`, or a smooth ranking, which makes the metric differentiable. Curves
  and what is read off them, `kendall_tau` and `ordered_pair_accuracy` need `Exact`.

Every metric raises `ValueError` if shapes differ, a parameter is out of its range, or the ranking
cannot answer what the metric asks, and `TypeError` for a dtype that cannot be ranked or a
parameter of another type. The message starts with the name of the function.
"""

from jaxrank._core.description import Description as Description
from jaxrank._core.description import described as described
from jaxrank.metrics.binary import average_precision as average_precision
from jaxrank.metrics.binary import bpref as bpref
from jaxrank.metrics.binary import hit_rate as hit_rate
from jaxrank.metrics.binary import rbp as rbp
from jaxrank.metrics.binary import reciprocal_rank as reciprocal_rank
from jaxrank.metrics.concordance import auc as auc
from jaxrank.metrics.concordance import kendall_tau as kendall_tau
from jaxrank.metrics.concordance import ordered_pair_accuracy as ordered_pair_accuracy
from jaxrank.metrics.concordance import spearman as spearman
from jaxrank.metrics.counts import f_measure as f_measure
from jaxrank.metrics.counts import fall_out as fall_out
from jaxrank.metrics.counts import judged as judged
from jaxrank.metrics.counts import precision as precision
from jaxrank.metrics.counts import r_precision as r_precision
from jaxrank.metrics.counts import recall as recall
from jaxrank.metrics.curves import Curve as Curve
from jaxrank.metrics.curves import aggregate_curve as aggregate_curve
from jaxrank.metrics.curves import eleven_point_average as eleven_point_average
from jaxrank.metrics.curves import interpolated_precision as interpolated_precision
from jaxrank.metrics.curves import precision_recall_curve as precision_recall_curve
from jaxrank.metrics.curves import recall_at_fixed_precision as recall_at_fixed_precision
from jaxrank.metrics.custom import Metric as Metric
from jaxrank.metrics.custom import metric as metric
from jaxrank.metrics.diversity import alpha_dcg as alpha_dcg
from jaxrank.metrics.diversity import alpha_ndcg as alpha_ndcg
from jaxrank.metrics.diversity import nrbp as nrbp
from jaxrank.metrics.graded import dcg as dcg
from jaxrank.metrics.graded import err as err
from jaxrank.metrics.graded import gap as gap
from jaxrank.metrics.graded import ndcg as ndcg
from jaxrank.metrics.graded import nerr as nerr
from jaxrank.metrics.intents import err_ia as err_ia
from jaxrank.metrics.intents import nerr_ia as nerr_ia
