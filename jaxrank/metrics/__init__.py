"""Exact metrics, each a loss under a smooth ranking."""

from jaxrank.metrics.binary import average_precision as average_precision
from jaxrank.metrics.binary import f_measure as f_measure
from jaxrank.metrics.binary import fall_out as fall_out
from jaxrank.metrics.binary import hit_rate as hit_rate
from jaxrank.metrics.binary import precision as precision
from jaxrank.metrics.binary import r_precision as r_precision
from jaxrank.metrics.binary import rbp as rbp
from jaxrank.metrics.binary import recall as recall
from jaxrank.metrics.binary import reciprocal_rank as reciprocal_rank
from jaxrank.metrics.concordance import auc as auc
from jaxrank.metrics.concordance import kendall_tau as kendall_tau
from jaxrank.metrics.concordance import ordered_pair_accuracy as ordered_pair_accuracy
from jaxrank.metrics.concordance import spearman as spearman
from jaxrank.metrics.curves import Curve as Curve
from jaxrank.metrics.curves import aggregate_curve as aggregate_curve
from jaxrank.metrics.curves import eleven_point_average as eleven_point_average
from jaxrank.metrics.curves import interpolated_precision as interpolated_precision
from jaxrank.metrics.curves import precision_recall_curve as precision_recall_curve
from jaxrank.metrics.curves import recall_at_fixed_precision as recall_at_fixed_precision
from jaxrank.metrics.graded import dcg as dcg
from jaxrank.metrics.graded import err as err
from jaxrank.metrics.graded import ndcg as ndcg
from jaxrank.metrics.graded import nerr as nerr
