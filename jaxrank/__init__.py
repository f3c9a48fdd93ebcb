"""Ranking metrics, exact inside `jit`, and smooth losses by changing one argument.

`metric(scores, labels, *, where=None, k=None, ...)` takes arrays `[..., n]` and returns `[...]`:
one value per query, never reduced. What holds for every metric is said here once.

* `where` is boolean, False on padding. What stands under the mask never matters, and has
  gradient exactly 0.
* A label is relevant if positive, or from `rel` on. A negative label is unjudged: gain 0, not
  relevant.
* A score of -inf under `where=True` is known but not retrieved: it counts as relevant and in the
  ideal, and stands at no rank. It is not padding.
* A NaN score, or label, of a valid item makes the value of its query NaN.
* Tied scores are averaged over all their orders, unless `ranking=Exact(ties=...)` says otherwise.
* `k=None` is the whole list: the number of valid items wherever `k` divides. `k` may exceed it.
* A query with nothing relevant, or with every item masked, scores 0.
* Every number may be traced: `k`, `rel`, a persistence, a temperature.

`docs/conventions.md` works through them.
"""

from jaxrank import chance as chance
from jaxrank import class_labels as class_labels
from jaxrank import corpus as corpus
from jaxrank import discounts as discounts
from jaxrank import gains as gains
from jaxrank import letor as letor
from jaxrank import losses as losses
from jaxrank import metrics as metrics
from jaxrank import plot as plot
from jaxrank import ranks as ranks
from jaxrank import sharded as sharded
from jaxrank._core.ranked import Ranked as Ranked
from jaxrank._core.ranked import Ranking as Ranking
from jaxrank._core.ranked import UnansweredError as UnansweredError
from jaxrank.aggregation import aggregate as aggregate
from jaxrank.aggregation import has_relevant as has_relevant
from jaxrank.measures import Measure as Measure
from jaxrank.measures import evaluate as evaluate
from jaxrank.measures import parse as parse
from jaxrank.measures import resolve_metrics as resolve_metrics
from jaxrank.metrics import Curve as Curve
from jaxrank.metrics import Metric as Metric
from jaxrank.metrics import aggregate_curve as aggregate_curve
from jaxrank.metrics import alpha_dcg as alpha_dcg
from jaxrank.metrics import alpha_ndcg as alpha_ndcg
from jaxrank.metrics import auc as auc
from jaxrank.metrics import average_precision as average_precision
from jaxrank.metrics import bpref as bpref
from jaxrank.metrics import dcg as dcg
from jaxrank.metrics import eleven_point_average as eleven_point_average
from jaxrank.metrics import err as err
from jaxrank.metrics import err_ia as err_ia
from jaxrank.metrics import f_measure as f_measure
from jaxrank.metrics import fall_out as fall_out
from jaxrank.metrics import gap as gap
from jaxrank.metrics import hit_rate as hit_rate
from jaxrank.metrics import interpolated_precision as interpolated_precision
from jaxrank.metrics import judged as judged
from jaxrank.metrics import kendall_tau as kendall_tau
from jaxrank.metrics import metric as metric
from jaxrank.metrics import ndcg as ndcg
from jaxrank.metrics import nerr as nerr
from jaxrank.metrics import nerr_ia as nerr_ia
from jaxrank.metrics import nrbp as nrbp
from jaxrank.metrics import ordered_pair_accuracy as ordered_pair_accuracy
from jaxrank.metrics import precision as precision
from jaxrank.metrics import precision_recall_curve as precision_recall_curve
from jaxrank.metrics import r_precision as r_precision
from jaxrank.metrics import rbp as rbp
from jaxrank.metrics import recall as recall
from jaxrank.metrics import recall_at_fixed_precision as recall_at_fixed_precision
from jaxrank.metrics import reciprocal_rank as reciprocal_rank
from jaxrank.metrics import spearman as spearman
from jaxrank.padding import Batch as Batch
from jaxrank.padding import batches as batches
from jaxrank.padding import pad as pad
from jaxrank.padding import pad_buckets as pad_buckets
from jaxrank.padding import unpad as unpad
from jaxrank.rankings.exact import Exact as Exact
from jaxrank.rankings.expected_rank import Laplace as Laplace
from jaxrank.rankings.expected_rank import Logistic as Logistic
from jaxrank.rankings.perturbed import Gaussian as Gaussian
from jaxrank.rankings.perturbed import Gumbel as Gumbel
from jaxrank.rankings.sharded import Sharded as Sharded
from jaxrank.streaming import Evaluator as Evaluator
from jaxrank.streaming import State as State
from jaxrank.validation import check_values as check_values

__version__ = "0.1.0"
