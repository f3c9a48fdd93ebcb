"""Statistics of the ranks of single targets, for knowledge graphs and recommendation.

`from_scores` ranks the target of each query, or task, among its candidates and returns
`TargetRanks`. Each metric, such as `inverse_harmonic_mean_rank` or `hits_at_k`, is a `RankMetric`:
call it with ranks `[..., n]` for the statistic over the `n` tasks of each list, and use its methods
for its moments under chance. `evaluate` computes many of them by name.

Where targets tie, a statistic of `TargetRanks` is its average over all orders of the tied items, as
in `jaxrank.evaluate` with `Exact()`. For example, a target that ties with all 99 other candidates
has the reciprocal rank .0519, and is among the first 10 with probability .1. Inverses such as
`harmonic_mean_rank`, and the standard deviation, are computed from these averages; a median is that
of the ranks of all orders taken together. PyKEEN computes a statistic of the mean rank instead,
which is .0198 and 0 in the example; the kind `realistic` of names, and `metric(ranks.realistic)`,
do so too.

Under chance the rank of each target is uniform on 1 to its number of candidates, and independent of
the other ranks.
"""

from jaxrank.ranks._metric import RankMetric
from jaxrank.ranks.against_chance import (
  adjusted,
  adjusted_arithmetic_mean_rank,
  adjusted_arithmetic_mean_rank_index,
  adjusted_geometric_mean_rank_index,
  adjusted_hits_at_k,
  adjusted_inverse_harmonic_mean_rank,
  expectation_normalized,
  z_arithmetic_mean_rank,
  z_geometric_mean_rank,
  z_hits_at_k,
  z_inverse_harmonic_mean_rank,
  z_score,
)
from jaxrank.ranks.metrics import (
  arithmetic_mean_rank,
  count,
  geometric_mean_rank,
  harmonic_mean_rank,
  hits_at_k,
  inverse_arithmetic_mean_rank,
  inverse_geometric_mean_rank,
  inverse_harmonic_mean_rank,
  inverse_median_rank,
  median_absolute_deviation,
  median_rank,
  standard_deviation,
  variance,
)
from jaxrank.ranks.names import METRICS, Name, evaluate, macro_weights, parse, resolve
from jaxrank.ranks.target import TargetRanks, from_scores

__all__ = [
  "METRICS",
  "Name",
  "RankMetric",
  "TargetRanks",
  "adjusted",
  "adjusted_arithmetic_mean_rank",
  "adjusted_arithmetic_mean_rank_index",
  "adjusted_geometric_mean_rank_index",
  "adjusted_hits_at_k",
  "adjusted_inverse_harmonic_mean_rank",
  "arithmetic_mean_rank",
  "count",
  "evaluate",
  "expectation_normalized",
  "from_scores",
  "geometric_mean_rank",
  "harmonic_mean_rank",
  "hits_at_k",
  "inverse_arithmetic_mean_rank",
  "inverse_geometric_mean_rank",
  "inverse_harmonic_mean_rank",
  "inverse_median_rank",
  "macro_weights",
  "median_absolute_deviation",
  "median_rank",
  "parse",
  "resolve",
  "standard_deviation",
  "variance",
  "z_arithmetic_mean_rank",
  "z_geometric_mean_rank",
  "z_hits_at_k",
  "z_inverse_harmonic_mean_rank",
  "z_score",
]
