"""PyKEEN's rank-based metrics and evaluators, computed by jaxrank, for arrays instead of models.

The classes take arrays, lists and torch tensors on the host, compute in float64 whatever JAX is
configured to, and return Python floats. As in PyKEEN, the statistic of tied targets is that of
their mean rank by default, "realistic"; `jaxrank.ranks`, which has the same metrics as functions
that run under `jit`, averages the statistic over the orders of tied items.
"""

from jaxrank.interop.pykeen._metric import NoClosedFormError as NoClosedFormError
from jaxrank.interop.pykeen._metric import NoWeightSupportError as NoWeightSupportError
from jaxrank.interop.pykeen._metric import RankBasedMetric as RankBasedMetric
from jaxrank.interop.pykeen._metric import ValueRange as ValueRange
from jaxrank.interop.pykeen._metric import (
  generalized_harmonic_numbers as generalized_harmonic_numbers,
)
from jaxrank.interop.pykeen._metric import (
  generate_num_candidates_and_ranks as generate_num_candidates_and_ranks,
)
from jaxrank.interop.pykeen._metric import generate_ranks as generate_ranks
from jaxrank.interop.pykeen._metric import harmonic_variances as harmonic_variances
from jaxrank.interop.pykeen.evaluation import MacroRankBasedEvaluator as MacroRankBasedEvaluator
from jaxrank.interop.pykeen.evaluation import RankBasedEvaluator as RankBasedEvaluator
from jaxrank.interop.pykeen.evaluation import SampledRankBasedEvaluator as SampledRankBasedEvaluator
from jaxrank.interop.pykeen.evaluation import summarize_values as summarize_values
from jaxrank.interop.pykeen.metrics import HITS_METRICS as HITS_METRICS
from jaxrank.interop.pykeen.metrics import AdjustedArithmeticMeanRank as AdjustedArithmeticMeanRank
from jaxrank.interop.pykeen.metrics import (
  AdjustedArithmeticMeanRankIndex as AdjustedArithmeticMeanRankIndex,
)
from jaxrank.interop.pykeen.metrics import (
  AdjustedGeometricMeanRankIndex as AdjustedGeometricMeanRankIndex,
)
from jaxrank.interop.pykeen.metrics import AdjustedHitsAtK as AdjustedHitsAtK
from jaxrank.interop.pykeen.metrics import (
  AdjustedInverseHarmonicMeanRank as AdjustedInverseHarmonicMeanRank,
)
from jaxrank.interop.pykeen.metrics import (
  AffineTransformationParameters as AffineTransformationParameters,
)
from jaxrank.interop.pykeen.metrics import ArithmeticMeanRank as ArithmeticMeanRank
from jaxrank.interop.pykeen.metrics import Count as Count
from jaxrank.interop.pykeen.metrics import DerivedRankBasedMetric as DerivedRankBasedMetric
from jaxrank.interop.pykeen.metrics import (
  ExpectationNormalizedMetric as ExpectationNormalizedMetric,
)
from jaxrank.interop.pykeen.metrics import GeometricMeanRank as GeometricMeanRank
from jaxrank.interop.pykeen.metrics import HarmonicMeanRank as HarmonicMeanRank
from jaxrank.interop.pykeen.metrics import HitsAtK as HitsAtK
from jaxrank.interop.pykeen.metrics import InverseArithmeticMeanRank as InverseArithmeticMeanRank
from jaxrank.interop.pykeen.metrics import InverseGeometricMeanRank as InverseGeometricMeanRank
from jaxrank.interop.pykeen.metrics import InverseHarmonicMeanRank as InverseHarmonicMeanRank
from jaxrank.interop.pykeen.metrics import InverseMedianRank as InverseMedianRank
from jaxrank.interop.pykeen.metrics import MedianAbsoluteDeviation as MedianAbsoluteDeviation
from jaxrank.interop.pykeen.metrics import MedianRank as MedianRank
from jaxrank.interop.pykeen.metrics import ReindexedMetric as ReindexedMetric
from jaxrank.interop.pykeen.metrics import StandardDeviation as StandardDeviation
from jaxrank.interop.pykeen.metrics import Variance as Variance
from jaxrank.interop.pykeen.metrics import ZArithmeticMeanRank as ZArithmeticMeanRank
from jaxrank.interop.pykeen.metrics import ZGeometricMeanRank as ZGeometricMeanRank
from jaxrank.interop.pykeen.metrics import ZHitsAtK as ZHitsAtK
from jaxrank.interop.pykeen.metrics import ZInverseHarmonicMeanRank as ZInverseHarmonicMeanRank
from jaxrank.interop.pykeen.metrics import ZMetric as ZMetric
from jaxrank.interop.pykeen.metrics import rank_based_metric_resolver as rank_based_metric_resolver
from jaxrank.interop.pykeen.results import RankBasedMetricKey as RankBasedMetricKey
from jaxrank.interop.pykeen.results import RankBasedMetricResults as RankBasedMetricResults
from jaxrank.interop.pykeen.scoring import RankBuilder as RankBuilder
from jaxrank.interop.pykeen.scoring import Ranks as Ranks
from jaxrank.interop.pykeen.scoring import (
  create_sparse_positive_filter_ as create_sparse_positive_filter_,
)
from jaxrank.interop.pykeen.scoring import filter_scores_ as filter_scores_
from jaxrank.interop.pykeen.scoring import get_candidate_set_size as get_candidate_set_size
from jaxrank.interop.pykeen.scoring import sample_negatives as sample_negatives
