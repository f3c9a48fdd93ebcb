"""Smooth counts in float64 over all pairs of items, and thresholds by bisection."""

import numpy as np


def cdf(kind, z):
  """The distribution function of `Laplace` or `Logistic`."""
  z = np.clip(z, -700, 700)
  if kind == "Laplace":
    return np.where(z < 0, np.exp(-abs(z)) / 2, 1 - np.exp(-abs(z)) / 2)
  return 1 / (1 + np.exp(-z))


def threshold(kind, s, t, target):
  """The middle of the thresholds that `target` of the scores exceed, by bisection."""
  ends = []
  for slack in (-1e-13, 1e-13):
    low, high = s.min() - 80 * t, s.max() + 80 * t
    for _ in range(200):
      middle = (low + high) / 2
      more = np.sum(cdf(kind, (s - middle) / t)) > target + slack
      low, high = (middle, high) if more else (low, middle)
    ends.append(low)
  return sum(ends) / 2


def largest(kind, s, t, k, members=None):
  """How far each item is above the threshold that `k` items of a mask exceed."""
  known = s if members is None else s[members]
  if k >= len(known) or k <= 0:
    return np.full(s.shape, float(k > 0))
  return cdf(kind, (s - threshold(kind, known, t, k)) / t)


def ahead(kind, s, t):
  """How far item `j` is ahead of item `i`, `[i, j]`; 0 for an item and itself."""
  return cdf(kind, (s[None] - s[:, None]) / t) * (1 - np.eye(len(s)))
