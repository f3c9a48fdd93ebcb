"""The classes of PyKEEN's rank-based metrics, and their resolver."""

import math
from typing import Any, ClassVar, NamedTuple

from jaxrank import ranks
from jaxrank.interop.pykeen._metric import (
  ClassResolver,
  NoClosedFormError,
  RankBasedMetric,
  ValueRange,
)

EPSILON = 1e-12


class ArithmeticMeanRank(RankBasedMetric):
  """The mean rank."""

  native = ranks.arithmetic_mean_rank
  name = "Mean Rank (MR)"
  value_range = ValueRange(1, True, math.inf)


class InverseArithmeticMeanRank(RankBasedMetric):
  """The inverse of the mean rank."""

  native = ranks.inverse_arithmetic_mean_rank
  name = "Inverse Arithmetic Mean Rank (IAMR)"
  value_range = ValueRange(0, False, 1, True)


class GeometricMeanRank(RankBasedMetric):
  """The geometric mean rank."""

  native = ranks.geometric_mean_rank
  name = "Geometric Mean Rank (GMR)"
  value_range = ValueRange(1, True, math.inf)


class InverseGeometricMeanRank(RankBasedMetric):
  """The inverse of the geometric mean rank."""

  native = ranks.inverse_geometric_mean_rank
  name = "Inverse Geometric Mean Rank (IGMR)"
  value_range = ValueRange(0, False, 1, True)


class HarmonicMeanRank(RankBasedMetric):
  """The harmonic mean rank."""

  native = ranks.harmonic_mean_rank
  name = "Harmonic Mean Rank (HMR)"
  value_range = ValueRange(1, True, math.inf)


class InverseHarmonicMeanRank(RankBasedMetric):
  """The mean reciprocal rank."""

  native = ranks.inverse_harmonic_mean_rank
  name = "Mean Reciprocal Rank (MRR)"
  value_range = ValueRange(0, False, 1, True)


class MedianRank(RankBasedMetric):
  """The median rank."""

  native = ranks.median_rank
  name = "Median Rank"
  value_range = ValueRange(1, True, math.inf)


class InverseMedianRank(RankBasedMetric):
  """The inverse of the median rank."""

  native = ranks.inverse_median_rank
  name = "Inverse Median Rank"
  value_range = ValueRange(0, False, 1, True)


class HitsAtK(RankBasedMetric):
  """The fraction of the ranks that are at most `k`."""

  native = ranks.hits_at_k
  name = "Hits @ K"
  value_range = ValueRange(0, True, 1, True)

  def __init__(self, k: int = 10):
    self.k = k
    self.native = ranks.hits_at_k.at(k)


class StandardDeviation(RankBasedMetric):
  """The standard deviation of the ranks."""

  native = ranks.standard_deviation
  name = "Standard Deviation (std)"
  value_range = ValueRange(0, True, math.inf)


class Variance(RankBasedMetric):
  """The variance of the ranks."""

  native = ranks.variance
  name = "Variance"
  value_range = ValueRange(0, True, math.inf)


class MedianAbsoluteDeviation(RankBasedMetric):
  """The median absolute deviation from the median rank, scaled to a standard deviation."""

  native = ranks.median_absolute_deviation
  name = "Median Absolute Deviation (MAD)"
  value_range = ValueRange(0, True, math.inf)


class Count(RankBasedMetric):
  """The number of ranks."""

  native = ranks.count
  name = "Count"
  value_range = ValueRange(0, True, math.inf)
  supports_weights = False


class AffineTransformationParameters(NamedTuple):
  """The coefficients of `scale * M + offset`, a metric that is derived from its base `M`."""

  scale: float = 1.0
  offset: float = 0.0


class DerivedRankBasedMetric(RankBasedMetric):
  """An affine function of another metric, its base, with coefficients from moments under chance."""

  base_cls: ClassVar[type[RankBasedMetric]]
  adjusting: Any
  supported_rank_types = ("realistic",)
  needs_candidates = True
  base: RankBasedMetric

  def __init__(self, base_cls: Any = None, **kwargs: Any):
    own = getattr(self, "base_cls", None)
    self.base = rank_based_metric_resolver.make(own if base_cls is None else base_cls, kwargs)
    if type(self.base) is not own:
      try:
        self.native = type(self).adjusting(self.base.native)
      except ValueError as error:
        raise NoClosedFormError(str(error)) from None
    elif self.base.native.k is not None:
      self.native = self.native.at(self.base.native.k)

  def get_coefficients(
    self, num_candidates: Any, weights: Any = None
  ) -> AffineTransformationParameters:
    """The coefficients for these tasks."""
    raise NotImplementedError

  def adjust(self, base_metric_result: float, num_candidates: Any, weights: Any = None) -> float:
    """The value of the derived metric for a value of the base, such as a published one."""
    scale, offset = self.get_coefficients(num_candidates, weights)
    return scale * base_metric_result + offset


def _inverse(x: float) -> float:
  """`1 / x`, where `x` is moved to the distance `EPSILON` from 0 if it is closer."""
  return 1 / math.copysign(max(abs(x), EPSILON), x)


class ExpectationNormalizedMetric(DerivedRankBasedMetric):
  """A metric divided by its expectation under chance, `M / E[M]`."""

  adjusting = staticmethod(ranks.expectation_normalized)

  def get_coefficients(
    self, num_candidates: Any, weights: Any = None
  ) -> AffineTransformationParameters:
    """The coefficients for these tasks."""
    mean = self.base.expected_value(num_candidates, weights=weights)
    return AffineTransformationParameters(_inverse(mean))


class ReindexedMetric(DerivedRankBasedMetric):
  """A metric adjusted for chance, `(M - E[M]) / (1 - E[M])`."""

  adjusting = staticmethod(ranks.adjusted)
  value_range = ValueRange(None, False, 1, True)

  def get_coefficients(
    self, num_candidates: Any, weights: Any = None
  ) -> AffineTransformationParameters:
    """The coefficients for these tasks."""
    mean = self.base.expected_value(num_candidates, weights=weights)
    scale = _inverse(1 - mean)
    return AffineTransformationParameters(scale, -scale * mean)


class ZMetric(DerivedRankBasedMetric):
  """The z-score of a metric, `(M - E[M]) / sqrt(V[M])`, signed so that larger is better."""

  adjusting = staticmethod(ranks.z_score)
  value_range = ValueRange()

  def get_coefficients(
    self, num_candidates: Any, weights: Any = None
  ) -> AffineTransformationParameters:
    """The coefficients for these tasks."""
    mean = self.base.expected_value(num_candidates, weights=weights)
    scale = _inverse(self.base.std(num_candidates, weights=weights))
    scale = scale if self.base.increasing else -scale
    return AffineTransformationParameters(scale, -scale * mean)

  def variance(
    self, num_candidates: Any, num_samples: int | None = None, weights: Any = None, **kwargs: Any
  ) -> float:
    """The variance under chance, which is 1 by definition."""
    return 1.0


class AdjustedArithmeticMeanRank(ExpectationNormalizedMetric):
  """The mean rank divided by its expectation under chance."""

  native = ranks.adjusted_arithmetic_mean_rank
  name = "Adjusted Arithmetic Mean Rank (AAMR)"
  base_cls = ArithmeticMeanRank
  value_range = ValueRange(0, True, 2, False)


class AdjustedArithmeticMeanRankIndex(ReindexedMetric):
  """The mean rank, adjusted for chance."""

  native = ranks.adjusted_arithmetic_mean_rank_index
  name = "Adjusted Arithmetic Mean Rank Index (AAMRI)"
  base_cls = ArithmeticMeanRank
  value_range = ValueRange(-1, True, 1, True)


class AdjustedGeometricMeanRankIndex(ReindexedMetric):
  """The geometric mean rank, adjusted for chance."""

  native = ranks.adjusted_geometric_mean_rank_index
  name = "Adjusted Geometric Mean Rank Index (AGMRI)"
  base_cls = GeometricMeanRank


class AdjustedInverseHarmonicMeanRank(ReindexedMetric):
  """The mean reciprocal rank, adjusted for chance."""

  native = ranks.adjusted_inverse_harmonic_mean_rank
  name = "Adjusted Inverse Harmonic Mean Rank"
  base_cls = InverseHarmonicMeanRank


class AdjustedHitsAtK(ReindexedMetric):
  """Hits at k, adjusted for chance."""

  native = ranks.adjusted_hits_at_k
  name = "Adjusted Hits at K"
  base_cls = HitsAtK


class ZArithmeticMeanRank(ZMetric):
  """The z-scored mean rank."""

  native = ranks.z_arithmetic_mean_rank
  name = "z-Mean Rank (zMR)"
  base_cls = ArithmeticMeanRank


class ZGeometricMeanRank(ZMetric):
  """The z-scored geometric mean rank."""

  native = ranks.z_geometric_mean_rank
  name = "z-Geometric Mean Rank (zGMR)"
  base_cls = GeometricMeanRank


class ZInverseHarmonicMeanRank(ZMetric):
  """The z-scored mean reciprocal rank."""

  native = ranks.z_inverse_harmonic_mean_rank
  name = "z-Mean Reciprocal Rank (zMRR)"
  base_cls = InverseHarmonicMeanRank


class ZHitsAtK(ZMetric):
  """The z-scored hits at k."""

  native = ranks.z_hits_at_k
  name = "z-Hits at K"
  base_cls = HitsAtK


HITS_METRICS: tuple[type[RankBasedMetric], ...] = (HitsAtK, ZHitsAtK, AdjustedHitsAtK)


# Every class with a metric of `jaxrank.ranks`, in the order of this file.
rank_based_metric_resolver = ClassResolver(
  [x for x in list(globals().values()) if isinstance(x, type) and "native" in vars(x)],
  default=InverseHarmonicMeanRank,
)
