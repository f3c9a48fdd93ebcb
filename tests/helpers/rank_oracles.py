"""Rank statistics in plain Python: slow and obvious."""

import itertools
import math


def mean(x, w):
  return sum(a * b for a, b in zip(x, w, strict=True)) / sum(w)


def median(x, w):
  """The middle of the interval in which half of the weight lies on either side."""
  pairs = sorted((a, b) for a, b in zip(x, w, strict=True) if b > 0)
  half, seen = sum(w) / 2, 0.0
  for i, (a, b) in enumerate(pairs):
    seen += b
    if math.isclose(seen, half, rel_tol=1e-9):
      return (a + pairs[i + 1][0]) / 2
    if seen > half:
      return a
  raise AssertionError


def variance(x, w):
  return mean([(a - mean(x, w)) ** 2 for a in x], w)


def deviation(x, w):
  return median([abs(a - median(x, w)) for a in x], w) / 0.6744897501960817


def geometric(x, w):
  return math.exp(mean([math.log(a) for a in x], w))


K = 2
BASES = {
  "arithmetic_mean_rank": mean,
  "inverse_arithmetic_mean_rank": lambda x, w: 1 / mean(x, w),
  "geometric_mean_rank": geometric,
  "inverse_geometric_mean_rank": lambda x, w: 1 / geometric(x, w),
  "harmonic_mean_rank": lambda x, w: 1 / mean([1 / a for a in x], w),
  "inverse_harmonic_mean_rank": lambda x, w: mean([1 / a for a in x], w),
  "median_rank": median,
  "inverse_median_rank": lambda x, w: 1 / median(x, w),
  "hits_at_k": lambda x, w: mean([a <= K for a in x], w),
  "standard_deviation": lambda x, w: math.sqrt(variance(x, w)),
  "variance": variance,
  "median_absolute_deviation": deviation,
  "count": lambda x, w: sum(b > 0 for b in w),
}
ADJUSTED = {
  "adjusted_arithmetic_mean_rank": ("arithmetic_mean_rank", "normalized"),
  "adjusted_arithmetic_mean_rank_index": ("arithmetic_mean_rank", "adjusted"),
  "adjusted_geometric_mean_rank_index": ("geometric_mean_rank", "adjusted"),
  "adjusted_inverse_harmonic_mean_rank": ("inverse_harmonic_mean_rank", "adjusted"),
  "adjusted_hits_at_k": ("hits_at_k", "adjusted"),
  "z_arithmetic_mean_rank": ("arithmetic_mean_rank", "lower"),
  "z_geometric_mean_rank": ("geometric_mean_rank", "lower"),
  "z_inverse_harmonic_mean_rank": ("inverse_harmonic_mean_rank", "higher"),
  "z_hits_at_k": ("hits_at_k", "higher"),
}


def adjust(value, how, expected, spread):
  """A value held against its expectation and variance by chance."""
  if how == "normalized":
    return value / expected
  if how == "adjusted":
    return (value - expected) / (1 - expected) if expected != 1 else 0.0
  sign = 1 if how == "higher" else -1
  return sign * (value - expected) / math.sqrt(spread) if spread > 1e-12 else 0.0


def by_chance(name, candidates, w):
  """Expectation and variance over all combinations of ranks, each as likely as any other."""
  every = itertools.product(*(range(1, c + 1) for c in candidates))
  values = [BASES[name](ranks, w) for ranks in every]
  centre = sum(values) / len(values)
  return centre, sum((x - centre) ** 2 for x in values) / len(values)
