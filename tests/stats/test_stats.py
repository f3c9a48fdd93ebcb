"""Tests of significance against scipy, and against enumeration in plain Python."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

import jaxrank as jr
from jaxrank import stats
from tests.helpers.suites import quick, thorough

KEY = jax.random.key(0)


def systems(*shape, seed=0, grades=20):
  """Values of two systems, rounded so that sums tie."""
  rng = np.random.default_rng(seed)
  x = rng.integers(0, grades, shape) / grades
  y = np.clip(x + rng.integers(-4, 4, shape) / grades, 0, 1)
  return x.astype(np.float32), y.astype(np.float32)


@pytest.mark.parametrize("n", [2, 40, 5000])
def test_paired_t_is_that_of_scipy(n):
  rng = np.random.default_rng(n)
  x = rng.random((2, 5, n))
  # Differences of half to five standard errors.
  y = x + rng.normal(size=x.shape) * 0.1 + np.linspace(0.05, 0.5, 5)[:, None] / n**0.5
  statistic, p_value = stats.paired_t(x, y)
  expected = scipy_stats.ttest_rel(x.astype(np.float32), y.astype(np.float32), axis=-1)
  np.testing.assert_allclose(statistic, expected.statistic, rtol=2e-4)
  np.testing.assert_allclose(p_value, expected.pvalue, rtol=2e-3)
  d = (x - y).mean(-1) / (x - y).std(-1, ddof=1)
  np.testing.assert_allclose(stats.effect_size(x, y), d, rtol=2e-4)


def test_tails_are_precise():
  t = np.array([0.0, 1e-3, 1.0, 12.0, 30.0])
  for freedom in (1, 4, 30, 10**4):
    with jax.enable_x64(True):
      found = stats.paired.student.two_sided(jnp.asarray(t), jnp.full((1,), float(freedom)))
    expected = 2 * scipy_stats.t.sf(t, freedom)
    known = expected > 1e-30
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-9)
    single = stats.paired.student.two_sided(
      jnp.asarray(t, jnp.float32), jnp.full((1,), freedom, jnp.float32)
    )
    np.testing.assert_allclose(single[known], expected[known], rtol=1e-4)


def test_differences_without_deviation():
  x = jnp.array([[0.1, 0.1, 0.1], [0.3, 0.3, 0.3], [0.1, 0.2, jnp.nan]])
  statistic, p_value = stats.paired_t(x, jnp.full_like(x, 0.1))
  np.testing.assert_array_equal(statistic, [0, np.inf, np.nan])
  np.testing.assert_allclose(p_value, [1, 0, np.nan], rtol=1e-6)
  _, p_value = stats.randomization_test(x, jnp.full_like(x, 0.1), key=KEY)
  np.testing.assert_array_equal(p_value, [1, 0.25, np.nan])


def enumerated(x, y):
  """The share of all flips of signs whose sum is at least the observed one, in hundredths."""
  d = [round(100 * (a - b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
  sums = [
    abs(sum(s * v for s, v in zip(signs, d, strict=True)))
    for signs in itertools.product((1, -1), repeat=len(d))
  ]
  return sum(total >= abs(sum(d)) for total in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_flips_of_few_queries_are_enumerated(n):
  x, y = systems(3, 4, n, seed=n)
  difference, p_value = stats.randomization_test(x, y, key=KEY, flips=1)
  np.testing.assert_allclose(difference, (x - y).mean(-1), atol=1e-6)
  expected = [
    [enumerated(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(x, y, strict=True)
  ]
  np.testing.assert_array_equal(p_value, np.float32(expected))
  if n == 10:
    exact = scipy_stats.permutation_test(
      (np.round(100 * (x - y)),), np.sum, permutation_type="samples", n_resamples=np.inf, axis=-1
    )
    np.testing.assert_allclose(p_value, exact.pvalue, rtol=1e-6)


def test_twenty_queries_are_the_most_that_are_enumerated():
  x, y = systems(20, seed=3)
  d = np.round(20 * (x - y)).astype(int)
  # The number of flips by sum, one query after another.
  counts = np.zeros(2 * 200 + 1, int)
  counts[200] = 1
  for v in d:
    counts = np.roll(counts, v) + np.roll(counts, -v)
  sums = np.abs(np.arange(-200, 201))
  expected = counts[sums >= abs(d.sum())].sum() / 2**20
  found = stats.randomization_test(x, y, key=KEY).p_value
  np.testing.assert_allclose(found, expected, rtol=1e-6)
  x, y = systems(21, seed=3)
  one, other = (stats.randomization_test(x, y, key=jax.random.key(i), flips=99) for i in range(2))
  assert one.p_value != other.p_value


def test_random_flips_agree_with_scipy():
  rng = np.random.default_rng(0)
  x = rng.random((4, 70))
  y = x + 0.1 * rng.normal(size=x.shape) + np.array([[0.0], [0.01], [0.02], [0.03]])
  flips = 20_000
  p_value = stats.randomization_test(x, y, key=KEY, flips=flips).p_value
  expected = scipy_stats.permutation_test(
    (x - y,),
    np.mean,
    permutation_type="samples",
    n_resamples=flips,
    axis=-1,
    vectorized=True,
    rng=1,
  ).pvalue
  error = np.sqrt(2 * expected * (1 - expected) / flips) + 1 / flips
  assert np.all(np.abs(p_value - expected) < 4.5 * error)
  counts = np.asarray(p_value) * (flips + 1)
  np.testing.assert_allclose(counts, np.round(counts), atol=0.02)
  # An impossible difference: only the observed order itself.
  sure = stats.randomization_test(jnp.ones(70), jnp.zeros(70), key=KEY, flips=999).p_value
  np.testing.assert_allclose(sure, 1 / 1000, rtol=1e-6)
  # Leading axes share the flips.
  alone = stats.randomization_test(x[2], y[2], key=KEY, flips=flips).p_value
  np.testing.assert_allclose(p_value[2], alone, atol=3 / flips)


@pytest.mark.parametrize(("method", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
def test_bootstrap_is_that_of_scipy_to_its_own_spread(method, theirs):
  rng = np.random.default_rng(1)
  # Skewed, so that the correction of bias and acceleration matters.
  data = rng.exponential(size=(2, 40)).astype(np.float32)
  expected = [
    scipy_stats.bootstrap((data,), np.mean, n_resamples=2000, method=theirs, axis=-1, rng=i)
    for i in range(12)
  ]
  ends = np.array([x.confidence_interval for x in expected])
  found = stats.bootstrap_interval(jnp.mean, data, key=KEY, resamples=20_000, method=method)
  for found_end, end in zip((found.low, found.high), np.moveaxis(ends, 1, 0), strict=True):
    spread = end.std(0, ddof=1) * np.sqrt(1 / 12 + 1 / 10)
    assert np.all(np.abs(found_end - end.mean(0)) < 4.5 * spread)


@thorough
def test_the_methods_of_the_bootstrap_differ_where_data_are_skewed():
  data = np.random.default_rng(1).exponential(size=40)
  of = [stats.bootstrap_interval(jnp.mean, data, key=KEY, method=m) for m in ("percentile", "bca")]
  assert of[1].high > of[0].high + 0.01
  assert of[1].low > of[0].low + 0.01


@quick("method", ["percentile", "bca"], ["percentile"])
def test_bootstrap_takes_any_statistic(method):
  x = jnp.full((3, 8), 0.1)
  low, middle, high = stats.bootstrap_interval(
    lambda a, b: jnp.mean(a - b), x, 2 * x, key=KEY, method=method
  )
  np.testing.assert_allclose([low, middle, high], np.full((3, 3), -0.1), rtol=2e-7)

  def moments(x):
    return jnp.stack([jnp.mean(x), jnp.std(x)])

  data = np.random.default_rng(0).random((2, 3, 9))
  both = stats.bootstrap_interval(moments, data, key=KEY, method=method)
  assert both.low.shape == (2, 3, 2)
  alone = stats.bootstrap_interval(jnp.std, data[1, 2], key=KEY, method=method)
  np.testing.assert_allclose(both.high[1, 2, 1], alone.high, rtol=1e-5)
  whole = stats.bootstrap_interval(jnp.mean, data[0, 0], key=KEY, method=method, confidence=1.0)
  resampled = stats.bootstrap_interval(jnp.mean, data[0, 0], key=KEY, confidence=1.0)
  assert whole.low == resampled.low
  assert whole.high == resampled.high


def hsd(values):
  """p-values of Tukey's randomized test by all permutations within queries, of whole numbers."""
  count, n = values.shape
  total = values.sum(1)
  orders = list(itertools.permutations(range(count)))
  spreads = []
  for chosen in itertools.product(orders, repeat=n):
    sums = [sum(values[chosen[q][s], q] for q in range(n)) for s in range(count)]
    spreads.append(max(sums) - min(sums))
  apart = np.abs(total[:, None] - total)
  return np.mean(np.array(spreads)[:, None, None] >= apart, axis=0)


def test_tukey_hsd_is_that_of_all_permutations():
  values = np.array(
    [[[9, 8, 7, 9], [3, 4, 2, 6], [4, 4, 1, 5]], [[1, 2, 3, 4], [1, 2, 3, 4], [0, 3, 2, 5]]]
  )
  permutations = 20_000
  found = stats.tukey_hsd(values / 10, key=KEY, permutations=permutations)
  expected = np.array([hsd(x) for x in values])
  error = np.sqrt(expected * (1 - expected) / permutations) + 1 / permutations
  assert np.all(np.abs(found - expected) < 4.5 * error)
  np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
  np.testing.assert_array_equal(np.diagonal(found, axis1=-2, axis2=-1), 1)
  spoiled = stats.tukey_hsd(jnp.array([[1.0, jnp.nan], [0.0, 1.0]]), key=KEY, permutations=9)
  assert np.all(np.isnan(spoiled))


@thorough
def test_two_systems_have_one_p_value():
  """Tukey's test of two systems is the randomization test."""
  x, y = systems(30, seed=5)
  found = stats.tukey_hsd(np.stack([x, y]), key=KEY, permutations=20_000)[0, 1]
  flipped = stats.randomization_test(x, y, key=KEY, flips=200_000).p_value
  assert abs(found - flipped) < 4.5 * np.sqrt(flipped * (1 - flipped) / 18_000)


def slow_holm(p):
  order = sorted(range(len(p)), key=lambda i: p[i])
  adjusted, last = [0.0] * len(p), 0.0
  for i, item in enumerate(order):
    last = max(last, min(1.0, (len(p) - i) * p[item]))
    adjusted[item] = last
  return adjusted


@pytest.mark.parametrize("m", [0, 1, 300])
def test_corrections_are_those_of_their_definitions(m):
  rng = np.random.default_rng(m)
  p = (rng.random((2, 2, m)) ** 3).round(2).astype(np.float32)
  holm, fdr = stats.holm(p), stats.benjamini_hochberg(p)
  assert holm.shape == fdr.shape == p.shape
  for row in np.ndindex(2, 2) if m else ():
    np.testing.assert_allclose(holm[row], slow_holm(p[row].tolist()), rtol=1e-5)
    np.testing.assert_allclose(fdr[row], scipy_stats.false_discovery_control(p[row]), rtol=1e-5)


def test_unknown_p_values_count_as_tests():
  p = jnp.array([0.01, jnp.nan, 0.02])
  np.testing.assert_allclose(stats.holm(p), [0.03, np.nan, 0.04], rtol=1e-6)
  np.testing.assert_allclose(stats.benjamini_hochberg(p), [0.03, np.nan, 0.03], rtol=1e-6)


def power(n, effect, level):
  """The power of the two-sided paired t test."""
  critical, shift = scipy_stats.t.isf(level / 2, n - 1), effect * n**0.5
  t = scipy_stats.nct(n - 1, shift)
  return t.sf(critical) + t.cdf(-critical)


@pytest.mark.parametrize(("least", "level"), [(0.95, 0.001)])
def test_queries_needed_are_the_fewest_of_that_power(least, level):
  effects = np.array([2.0, 1.0, 0.5, 0.2, 0.05])
  found = stats.queries_needed(0.3 * effects, 0.3, power=least, level=level)
  for n, effect in zip(np.asarray(found, int).tolist(), effects, strict=True):
    assert power(n, effect, level) >= least - 1e-6
    assert power(n - 1, effect, level) < least + 1e-6
  edges = stats.queries_needed(
    jnp.array([0.0, 1.0, 0.0, 1e-9, jnp.nan]), jnp.array([1.0, 0, 0, 1, 1])
  )
  np.testing.assert_array_equal(edges, [np.inf, 2, np.inf, np.inf, np.nan])


@thorough
def test_bf16_values_and_transformations():
  x, y = systems(3, 30, seed=7)
  half = stats.paired_t(jnp.asarray(x, jnp.bfloat16), jnp.asarray(y, jnp.bfloat16))
  assert half.p_value.dtype == jnp.float32
  for test in (stats.paired_t, lambda a, b: stats.randomization_test(a, b, key=KEY, flips=999)):
    np.testing.assert_allclose(jax.jit(jax.vmap(test))(x, y).p_value, test(x, y).p_value, rtol=1e-4)
  with jax.enable_x64(True):
    a, b = x.astype(np.float64), y.astype(np.float64)
    wide = stats.randomization_test(a, b, key=KEY, flips=999)
    assert wide.p_value.dtype == wide.statistic.dtype == jnp.float64
    np.testing.assert_allclose(
      stats.paired_t(a, b).p_value, scipy_stats.ttest_rel(a, b, axis=-1).pvalue, rtol=1e-10
    )
    interval = stats.bootstrap_interval(jnp.mean, a, key=KEY, method="bca")
    assert interval.low.dtype == jnp.float64
    assert stats.tukey_hsd(a, key=KEY, permutations=9).dtype == jnp.float64
    assert stats.holm(a[0]).dtype == jnp.float64


def mistakes():
  x = jnp.ones((2, 3))
  return [
    (ValueError, r"stats.paired_t: x and y must have one shape", lambda: stats.paired_t(x, x[0])),
    (ValueError, "with at least 2 queries", lambda: stats.paired_t([1.0], [1.0])),
    (ValueError, "stats.effect_size: x and y must", lambda: stats.effect_size(1.0, 1.0)),
    (TypeError, "x must be an array of numbers", lambda: stats.paired_t("x", x)),
    (
      ValueError,
      "flips must be at least 1",
      lambda: stats.randomization_test(x, x, key=KEY, flips=0),
    ),
    (TypeError, "key must be a PRNG key", lambda: stats.randomization_test(x, x, key=0)),
    (ValueError, r"\[\.\.\., systems, queries\]", lambda: stats.tukey_hsd(x[0], key=KEY)),
    (
      ValueError,
      "method must be one of",
      lambda: stats.bootstrap_interval(jnp.mean, x, key=KEY, method="basic"),
    ),
    (
      ValueError,
      "n at least 2",
      lambda: stats.bootstrap_interval(jnp.mean, x[:, :1], key=KEY, method="bca"),
    ),
    (ValueError, "stats.holm: p_values must have shape", lambda: stats.holm(0.1)),
    (ValueError, r"power must be in \[0, 1\]", lambda: stats.queries_needed(0.1, 1.0, power=2)),
    (ValueError, "one shape or none", lambda: stats.queries_needed(x, x[0])),
  ]


def test_mistakes_say_what_was_expected_and_what_came():
  for error, message, call in mistakes():
    with pytest.raises(error, match=message):
      call()


@thorough
def test_a_metric_gives_the_values():
  scores = jax.random.normal(KEY, (2, 25, 8))
  labels = jax.random.bernoulli(KEY, 0.4, (25, 8))
  x, y = jr.ndcg(scores[0], labels), jr.ndcg(scores[1], labels)
  expected = scipy_stats.ttest_rel(x, y).pvalue
  np.testing.assert_allclose(stats.paired_t(x, y).p_value, expected, rtol=1e-3)


@thorough
@pytest.mark.parametrize("split", [jax.P("data"), jax.P(None, "data")], ids=["pairs", "queries"])
def test_values_may_be_spread_over_an_explicit_mesh(split):
  x, y = systems(4, 40, seed=8)
  tests = [
    lambda x, y: stats.paired_t(x, y).p_value,
    lambda x, y: stats.randomization_test(x, y, key=KEY, flips=99).p_value,
    lambda x, y: stats.bootstrap_interval(mean_difference, x, y, key=KEY, method="bca").low,
    lambda x, _: stats.tukey_hsd(x, key=KEY, permutations=99),
    lambda x, _: stats.holm(x),
  ]
  expected = [test(x, y) for test in tests]
  mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    x, y = jax.device_put(x, split), jax.device_put(y, split)
    for test, value in zip(tests, expected, strict=True):
      np.testing.assert_allclose(test(x, y), value, rtol=1e-5)


def mean_difference(x, y):
  return jnp.mean(x - y)
