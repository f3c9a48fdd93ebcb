"""Means by few judgements of people and many of a model, against their formula in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

from jaxrank import stats
from tests.benchmarks import claims
from tests.helpers.suites import thorough


def judged(correlation, bias, labelled=40, others=400, seed=0, shape=()):
  """Values by people and by a model, and those of other queries by the model."""
  rng = np.random.default_rng(seed)
  z, e = rng.normal(size=(2, *shape, labelled + others))
  y = 0.5 + 0.2 * z
  p = 0.5 + bias + 0.2 * (correlation * z + (1 - correlation**2) ** 0.5 * e)
  return y[..., :labelled], p[..., :labelled], p[..., labelled:]


def expected(y, p, u, confidence):
  """The interval, the mean, the weight and the gain of single means."""
  n, others = len(y), len(u)
  weight = np.cov(y, p)[0, 1] / ((1 + n / others) * np.var(np.r_[p, u], ddof=1))
  rest = y - weight * p
  variance = (
    weight**2 * np.var(u, ddof=1) / others + np.sum((rest - rest.mean()) ** 2) / (n - 2) / n
  )
  alone = scipy_stats.t.ppf(0.5 + confidence / 2, n - 1) * np.std(y, ddof=1) / n**0.5
  margin = scipy_stats.t.ppf(0.5 + confidence / 2, n - 2) * variance**0.5
  if margin >= alone:
    weight, margin = 0, alone
  mean = y.mean() + weight * (u.mean() - p.mean())
  return mean - margin, mean, mean + margin, weight, 1 - margin / alone


def test_the_formula():
  cases = [
    judged(*case, seed=i) for i, case in enumerate([(0.9, 0.2), (0.5, 0), (0, 0.1), (-0.8, 0)])
  ]
  y, p, u = (np.stack(x) for x in zip(*cases, strict=True))
  found = stats.prediction_powered(y, p, u, confidence=0.9)
  wanted = np.array([expected(*case, 0.9) for case in cases]).T
  np.testing.assert_allclose(np.stack(found), wanted, rtol=2e-4, atol=1e-5)
  assert found.weight[0] > 0.5
  # A judge that is useless does nothing, and one that is wrong all the time is as good as another.
  assert found.weight[2] == found.gain[2] == 0
  assert found.weight[3] < -0.5
  assert found.gain[3] > 0.2


def test_a_bias_or_scale_of_the_judge_changes_nothing():
  y, p, u = judged(0.8, 0)
  plain = stats.prediction_powered(y, p, u)
  moved = stats.prediction_powered(y, 0.25 * p + 3, 0.25 * u + 3)
  np.testing.assert_allclose(moved[:3], plain[:3], rtol=1e-4)
  np.testing.assert_allclose(moved.weight, 4 * plain.weight, rtol=1e-3)


def test_differences_of_two_systems():
  """Those of queries, of which the mean is the difference of the means under one weight."""
  y, p, u = judged(0.8, 0.1, shape=(2,))
  y[1] += 0.05
  found = stats.prediction_powered(y[1] - y[0], p[1] - p[0], u[1] - u[0])
  wanted = expected(y[1] - y[0], p[1] - p[0], u[1] - u[0], 0.95)
  np.testing.assert_allclose(np.stack(found), wanted, rtol=1e-3, atol=1e-5)


def test_labels_alone_where_the_judge_says_nothing():
  y, _, u = judged(0, 0)
  t = scipy_stats.t.ppf(0.975, len(y) - 1) * np.std(y, ddof=1) / len(y) ** 0.5
  for p, others in ((np.full_like(y, 0.7), np.full_like(u, 0.7)), (y[::-1] * 0, u * 0)):
    found = stats.prediction_powered(y, p, others)
    np.testing.assert_allclose(found[:3], y.mean() + t * np.array([-1, 0, 1]), rtol=1e-4)
    assert found.weight == found.gain == 0
  # Two labels leave no freedom for a weight.
  two = stats.prediction_powered(y[:2], y[:2], u)
  assert two.weight == 0
  # No doubt, no gain.
  sure = stats.prediction_powered(np.full(9, 0.5), y[:9], u)
  np.testing.assert_array_equal(sure, [0.5, 0.5, 0.5, 0, 0])


def test_ends_of_confidence_and_unknown_values():
  y, p, u = judged(0.9, 0)
  low, mean, high, *_ = stats.prediction_powered(y, p, u, confidence=0.0)
  np.testing.assert_allclose([low, high], mean, atol=1e-6)
  for confidence in (0.01, 0.5, 0.95):
    np.testing.assert_array_equal(stats.prediction_powered(y, p, u, confidence=confidence)[1], mean)
  whole = stats.prediction_powered(y, p, u, confidence=1.0)
  assert (whole.low, whole.high) == (-np.inf, np.inf)
  for i in range(3):
    lists = [x.copy() for x in (y, p, u)]
    lists[i][1] = np.nan
    assert np.isnan(stats.prediction_powered(*lists)[:3]).all()


@thorough
def test_dtypes_and_transformations():
  y, p, u = judged(0.7, 0.1, shape=(2, 3))
  found = stats.prediction_powered(y, p, u)
  jitted = jax.jit(jax.vmap(stats.prediction_powered))(y, p, u)
  np.testing.assert_allclose(jitted, found, rtol=1e-5)
  half = stats.prediction_powered(*(jnp.asarray(x, jnp.bfloat16) for x in (y, p, u)))
  np.testing.assert_allclose(half.mean, found.mean, rtol=1e-2)
  counts = stats.prediction_powered([1, 2, 3, 5], [1, 2, 3, 4], np.arange(9))
  assert counts.mean.dtype == jnp.float32
  with jax.enable_x64(True):
    wide = stats.prediction_powered(y, p, u)
    assert wide.low.dtype == jnp.float64
    wanted = expected(y[1, 2], p[1, 2], u[1, 2], 0.95)
    np.testing.assert_allclose([x[1, 2] for x in wide], wanted, rtol=1e-9)


@pytest.mark.parametrize(
  ("message", "shapes", "options"),
  [
    (r"labelled must have shape \[\.\.\., queries\], with at least 2", ((1,), (1,), (9,)), {}),
    ("unlabelled must have shape", ((3,), (3,), (1,)), {}),
    (r"the same queries, got \(5,\) and \(4,\); pass the value by", ((5,), (4,), (9,)), {}),
    ("unlabelled must have the leading axes", ((2, 5), (2, 5), (9,)), {}),
    (r"confidence must be in \[0, 1\], got 95", ((5,), (5,), (9,)), {"confidence": 95}),
  ],
)
def test_mistakes(message, shapes, options):
  with pytest.raises(ValueError, match=f"stats.prediction_powered: .*{message}"):
    stats.prediction_powered(*map(np.ones, shapes), **options)


@thorough
@pytest.mark.parametrize("bias", claims.BIASES)
@pytest.mark.parametrize("correlation", claims.CORRELATIONS)
def test_intervals_hold_whatever_the_judge(correlation, bias):
  """In 1,000 simulations; the page has the same table."""
  coverage, _, gain, least = claims.judges(correlation, bias)
  assert coverage >= 0.94
  assert least >= -0.05
  assert gain >= (0.2 if correlation >= 0.7 and not bias else 0)
