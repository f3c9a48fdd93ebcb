"""Statistics of the ranks of single targets: knowledge graphs, recommendation."""

from jaxrank.ranks._metric import RankMetric as RankMetric
from jaxrank.ranks.adjusted import adjusted_arithmetic_mean_rank as adjusted_arithmetic_mean_rank
from jaxrank.ranks.adjusted import (
  adjusted_arithmetic_mean_rank_index as adjusted_arithmetic_mean_rank_index,
)
from jaxrank.ranks.adjusted import (
  adjusted_geometric_mean_rank_index as adjusted_geometric_mean_rank_index,
)
from jaxrank.ranks.adjusted import adjusted_hits_at_k as adjusted_hits_at_k
from jaxrank.ranks.adjusted import (
  adjusted_inverse_harmonic_mean_rank as adjusted_inverse_harmonic_mean_rank,
)
from jaxrank.ranks.adjusted import expectation_normalized as expectation_normalized
from jaxrank.ranks.adjusted import reindexed as reindexed
from jaxrank.ranks.adjusted import z_arithmetic_mean_rank as z_arithmetic_mean_rank
from jaxrank.ranks.adjusted import z_geometric_mean_rank as z_geometric_mean_rank
from jaxrank.ranks.adjusted import z_hits_at_k as z_hits_at_k
from jaxrank.ranks.adjusted import z_inverse_harmonic_mean_rank as z_inverse_harmonic_mean_rank
from jaxrank.ranks.adjusted import z_scored as z_scored
from jaxrank.ranks.metrics import arithmetic_mean_rank as arithmetic_mean_rank
from jaxrank.ranks.metrics import count as count
from jaxrank.ranks.metrics import geometric_mean_rank as geometric_mean_rank
from jaxrank.ranks.metrics import harmonic_mean_rank as harmonic_mean_rank
from jaxrank.ranks.metrics import hits_at_k as hits_at_k
from jaxrank.ranks.metrics import inverse_arithmetic_mean_rank as inverse_arithmetic_mean_rank
from jaxrank.ranks.metrics import inverse_geometric_mean_rank as inverse_geometric_mean_rank
from jaxrank.ranks.metrics import inverse_harmonic_mean_rank as inverse_harmonic_mean_rank
from jaxrank.ranks.metrics import inverse_median_rank as inverse_median_rank
from jaxrank.ranks.metrics import median_absolute_deviation as median_absolute_deviation
from jaxrank.ranks.metrics import median_rank as median_rank
from jaxrank.ranks.metrics import standard_deviation as standard_deviation
from jaxrank.ranks.metrics import variance as variance
from jaxrank.ranks.names import METRICS as METRICS
from jaxrank.ranks.names import Name as Name
from jaxrank.ranks.names import evaluate as evaluate
from jaxrank.ranks.names import macro_weights as macro_weights
from jaxrank.ranks.names import parse as parse
from jaxrank.ranks.names import resolve as resolve
from jaxrank.ranks.sampling import Interval as Interval
from jaxrank.ranks.sampling import bootstrap as bootstrap
from jaxrank.ranks.target import TargetRanks as TargetRanks
from jaxrank.ranks.target import from_scores as from_scores
