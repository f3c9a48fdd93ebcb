"""Ranks of targets and their statistics, against plain Python and exhaustive enumeration."""

import ast
import copy
import dataclasses
import inspect
import itertools
import math
import pickle
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.ranks import names, powers
from tests.helpers.rank_oracles import ADJUSTED, BASES, K, adjust, by_chance
from tests.helpers.together import Together


def slow_ranks(scores, target, where):
  """Optimistic and pessimistic rank and the number of candidates, counted one by one."""
  kept = [s for s, w in zip(scores, where, strict=True) if w]
  if not where[target] or any(map(math.isnan, kept)):
    return 0, 0, len(kept)
  true = scores[target]
  return sum(s > true for s in kept) + 1, sum(s >= true for s in kept), len(kept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, jnp.bfloat16])
def test_ranks_count_the_candidates_ahead(dtype):
  rng = np.random.default_rng(0)
  scores = rng.integers(-2, 3, (200, 7)).astype(np.float64)
  if dtype != np.int32:
    scores[rng.random(scores.shape) < 0.05] = np.nan
    scores[rng.random(scores.shape) < 0.1] = np.inf
    scores[rng.random(scores.shape) < 0.1] = -np.inf
  targets, where = rng.integers(0, 7, 200), rng.random(scores.shape) < 0.8
  ranks = jr.ranks.from_scores(scores.astype(dtype), targets.astype(np.int32), where=where)
  expected = [slow_ranks(*row) for row in zip(scores, targets, where, strict=True)]
  assert np.array_equal(
    np.stack([ranks.optimistic, ranks.pessimistic, ranks.candidates], -1), expected
  )
  best, worst = np.array(expected)[:, :2].T
  assert np.array_equal(
    ranks.realistic, np.where(best > 0, (best + worst) / 2, np.nan), equal_nan=True
  )


def test_close_scores_of_64_bits_are_told_apart_where_jax_has_them():
  scores = np.array([1.0, 1.0 + 1e-12])
  assert jr.ranks.from_scores(scores, 1).pessimistic == 2
  with jax.enable_x64(True):
    assert jr.ranks.from_scores(scores, 0).pessimistic == 2
    assert jr.ranks.from_scores(scores, 1).pessimistic == 1


@pytest.mark.parametrize("target", [-1, 3, 100])
def test_an_index_out_of_range_has_no_rank(target):
  ranks = jax.jit(jr.ranks.from_scores)(jnp.arange(3.0), jnp.array(target))
  assert ranks.optimistic == 0
  assert jnp.isnan(ranks.realistic)


def test_ranks_under_vmap_are_those_of_a_batch():
  scores = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 5)))
  targets = jnp.array([[0, 1, 2], [3, 4, 0]])
  batch = jr.ranks.from_scores(scores, targets)
  mapped = jax.vmap(jax.vmap(jr.ranks.from_scores))(scores, targets)
  assert all(map(np.array_equal, jax.tree.leaves(batch), jax.tree.leaves(mapped)))


def test_wrong_arguments_are_named():
  scores = jnp.zeros((2, 3))
  with pytest.raises(ValueError, match=r"one index per query, shape \(2,\), got \(\)"):
    jr.ranks.from_scores(scores, 0)
  with pytest.raises(TypeError, match="targets must be integer indices"):
    jr.ranks.from_scores(scores, jnp.zeros(2))
  with pytest.raises(TypeError, match="where must be boolean"):
    jr.ranks.from_scores(scores, jnp.zeros(2, int), where=jnp.ones((2, 3)))
  with pytest.raises(ValueError, match="got a scalar"):
    jr.ranks.from_scores(1.0, 0)


METRICS = {name: x.at(K) if x.k else x for name, x in jr.ranks.METRICS.items()}
of_all = Together(
  {
    name: lambda ranks, weights, candidates, metric=metric: metric(
      ranks, weights, candidates=candidates
    )
    for name, metric in METRICS.items()
  }
)
CLOSED = [name for name in BASES if METRICS[name].has_closed_form("expected")]

# Lists of tasks of one length; 0 candidates are padding.
CANDIDATES = [
  [3, 4, 0, 0, 0],
  [2, 2, 0, 0, 0],
  [3, 4, 5, 0, 0],
  [2, 3, 4, 5, 0],
  [7, 1, 1, 6, 0],
  [2, 5, 6, 3, 4],
  [4, 4, 4, 0, 0],
  [1, 1, 0, 0, 0],
  [1, 0, 0, 0, 0],
  [6, 0, 0, 0, 0],
]
WEIGHTS = [1.0, 3.0, 2.0, 0.5, 4.0]


def lists(rng, size):
  """Ranks, candidates and weights, some of which are 0."""
  candidates = rng.integers(1, 12, size)
  ranks = rng.integers(1, 2 * candidates + 1) / 2 + 0.5
  weights = np.where(rng.random(size) < 0.2, 0, rng.integers(1, 5, size) / 2)
  weights[..., 0] = 1
  return ranks, candidates.astype(float), weights


def kept(row):
  return [c for c in row if c]


@pytest.mark.parametrize("name", METRICS)
def test_values_are_those_of_plain_python(name):
  ranks, candidates, weights = lists(np.random.default_rng(2), (100, 5))
  with jax.enable_x64(True):
    values = of_all(name, ranks, weights, candidates)
    assert values.dtype == jnp.float64
    if name in ADJUSTED:
      base, how = ADJUSTED[name]
      chance = [METRICS[base].expected(candidates, weights)]
      chance += [METRICS[base].variance(candidates, weights)]
      rows = zip(ranks, weights, *map(np.asarray, chance), strict=True)
      expected = [adjust(BASES[base](x, w), how, e, v) for x, w, e, v in rows]
    else:
      expected = [BASES[name](x, w) for x, w in zip(ranks, weights, strict=True)]
  np.testing.assert_allclose(values, expected, atol=1e-12, rtol=1e-6)


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("weighted", [False, True])
def test_chance_is_that_of_all_orders(name, weighted):
  metric = METRICS[name]
  if not metric.has_closed_form("expected", WEIGHTS if weighted else None):
    with pytest.raises(ValueError, match="no closed form of its expectation for weighted"):
      metric.expected(CANDIDATES, WEIGHTS)
    return
  own = WEIGHTS if weighted else [1.0] * 5
  exact = [by_chance(name, kept(row), own[: len(kept(row))]) for row in CANDIDATES]
  weights = np.array(own, np.float32) if metric.has_closed_form("expected", own) else None
  means, variances = zip(*exact, strict=True)
  np.testing.assert_allclose(metric.expected(CANDIDATES, weights), means, rtol=1e-6)
  if metric.has_closed_form("variance"):
    spread = metric.variance(CANDIDATES, weights)
    np.testing.assert_allclose(spread, variances, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", ADJUSTED)
def test_adjusted_metrics_have_the_chance_they_promise(name):
  base, how = ADJUSTED[name]
  exact = [by_chance(base, kept(row), [1] * len(kept(row))) for row in CANDIDATES]
  centre, spread = np.array(exact).T
  gain = {"normalized": centre, "adjusted": 1 - centre}.get(how, np.sqrt(spread))
  alone = spread < 1e-9
  expected = np.full(len(exact), how == "normalized", float)
  np.testing.assert_allclose(METRICS[name].expected(CANDIDATES), expected)
  variances = np.where(alone, 0, spread / np.where(alone, 1, gain) ** 2)
  np.testing.assert_allclose(METRICS[name].variance(CANDIDATES), variances, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ADJUSTED)
def test_nothing_to_choose_from_is_neither_better_nor_worse_than_chance(name):
  weights = np.random.default_rng(6).random((20, 7)) * (np.arange(7) < np.arange(1, 21)[:, None])
  values = METRICS[name](np.ones((20, 7)), weights, candidates=1)
  assert np.all(values == (1 if name == "adjusted_arithmetic_mean_rank" else 0))


def test_the_median_of_many_tasks_is_that_of_samples():
  candidates = np.random.default_rng(3).integers(1, 200, 20)
  median = jr.ranks.median_rank
  drawn = median.sampled_values(candidates, key=jax.random.key(0), samples=4000)
  error = float(jnp.std(drawn)) / math.sqrt(4000)
  assert abs(median.expected(candidates) - drawn.mean()) < 4 * error
  assert abs(median.variance(candidates) / drawn.var() - 1) < 0.1


def test_harmonic_numbers_of_up_to_10_to_the_8():
  few = np.arange(1.0, 200_001)
  some = np.unique(np.concatenate([np.arange(1, 50), np.geomspace(50, 200_000, 50).astype(int)]))
  # Known values, where summing all terms would take seconds.
  many, first, second = [1e6, 1e7, 1e8], [], []
  first += [14.392726722865724, 16.695311365859852, 18.997896413853898]
  second += [1.6449330668487264, 1.6449339668482315, 1.6449340568482265]
  n = np.concatenate([some, many]).astype(np.float32)
  sums = np.concatenate([np.cumsum(1 / few)[some - 1], first])
  squares = np.concatenate([np.cumsum(few**-2)[some - 1], second])
  np.testing.assert_allclose(powers.harmonic(n), sums, rtol=1e-6)
  np.testing.assert_allclose(powers.harmonic_squares(n), squares, rtol=1e-6)


def test_powers_of_many_tasks_keep_their_digits():
  n = np.unique(np.geomspace(1, 3000, 30).astype(int))
  power = jax.jit(jax.vmap(powers.power))
  for p in (1.0, 0.3, 1e-3, 1e-6):
    moments = map(np.asarray, power(n.astype(np.float32), np.full(n.size, p, np.float32)))
    log_mean, variance = moments
    for i, size in enumerate(n):
      v = np.expm1(p * np.log(np.arange(1.0, size + 1) / size))
      spread = ((v - v.mean()) ** 2).mean() / (1 + v.mean()) ** 2
      expected = p * math.log(size) + np.log1p(v.mean())
      np.testing.assert_allclose(log_mean[i], expected, rtol=1e-6)
      np.testing.assert_allclose(variance[i], spread, rtol=3e-6)


def test_numbers_that_were_run():
  """Of ranks 1, 2, 4 among 4 each, hits at 2."""
  values = {
    "arithmetic_mean_rank": 2.333333,
    "inverse_arithmetic_mean_rank": 0.428571,
    "geometric_mean_rank": 2.0,
    "inverse_geometric_mean_rank": 0.5,
    "harmonic_mean_rank": 1.714286,
    "inverse_harmonic_mean_rank": 0.583333,
    "median_rank": 2.0,
    "inverse_median_rank": 0.5,
    "hits_at_k": 0.666667,
    "standard_deviation": 1.247219,
    "variance": 1.555556,
    "median_absolute_deviation": 1.482602,
    "count": 3,
    "adjusted_arithmetic_mean_rank": 0.933333,
    "adjusted_arithmetic_mean_rank_index": 0.111111,
    "adjusted_geometric_mean_rank_index": 0.238095,
    "adjusted_inverse_harmonic_mean_rank": 0.130435,
    "adjusted_hits_at_k": 0.333333,
    "z_arithmetic_mean_rank": 0.258199,
    "z_geometric_mean_rank": 0.463990,
    "z_inverse_harmonic_mean_rank": 0.372104,
    "z_hits_at_k": 0.577350,
  }
  assert values.keys() == METRICS.keys()
  # As a row of the shape that is compiled already.
  ranks, weights = np.ones((100, 5)), np.ones((100, 5))
  ranks[:, :3], weights[:, 3:] = [1, 2, 4], 0
  with jax.enable_x64(True):
    for name, value in values.items():
      found = of_all(name, ranks, weights, np.full((100, 5), 4.0))
      np.testing.assert_allclose(found, value, atol=1e-6)


@pytest.mark.parametrize(
  ("name", "alike", "weighted"),
  [
    ("arithmetic_mean_rank", (2.5, 0.416667), (2.583333, 0.553241)),
    ("geometric_mean_rank", (2.312499, 0.453607), (2.382936, 0.560602)),
    ("inverse_harmonic_mean_rank", (0.520833, 0.028212), (0.514491, 0.032741)),
    ("median_rank", (2.5, 0.875), None),
    ("hits_at_k", (0.5, 0.083333), (0.494444, 0.095339)),
  ],
)
def test_chances_that_were_run(name, alike, weighted):
  metric = METRICS[name]
  for row, weights, expected in (
    ([4, 4, 4, 0, 0], None if weighted is None else np.ones(5, np.float32), alike),
    ([3, 4, 5, 0, 0], np.array(WEIGHTS, np.float32), weighted),
  ):
    if expected:
      i = CANDIDATES.index(row)
      found = metric.expected(CANDIDATES, weights)[i], metric.std(CANDIDATES, weights)[i]
      assert found == pytest.approx((expected[0], math.sqrt(expected[1])), abs=2e-6)


@pytest.mark.parametrize("name", METRICS)
def test_what_is_left_out_never_matters(name):
  ranks, candidates, weights = lists(np.random.default_rng(4), (100, 5))
  out = weights == 0
  hostile = np.where(out, np.nan, ranks), np.where(out, -3, candidates)
  with jax.enable_x64(True):
    plain = of_all(name, ranks, weights, candidates)
    assert np.array_equal(of_all(name, hostile[0], weights, hostile[1]), plain)
    # No candidates leave out too, and a row with none at all is 0.
    gone = np.where(out, 0, candidates)
    gone[:3] = 0
    values = of_all(name, hostile[0], np.where(out, np.nan, weights), gone)
    assert np.array_equal(values[3:], plain[3:])
    assert np.all(values[:3] == 0)
    ranks[0, 0], ranks[1, 0], weights[2, 0], weights[3, 0], candidates[4, 0] = (
      np.nan,
      0,
      -1,
      np.nan,
      -2,
    )
    broken = of_all(name, ranks, weights, candidates)
    assert np.array_equal(np.isnan(broken), np.arange(100) < 5)


def test_no_tasks_at_all_give_0():
  assert jr.ranks.median_rank(np.ones(0)) == 0
  assert np.array_equal(jr.ranks.hits_at_k.expected(np.ones((2, 0))), [0, 0])


def tied_lists(rng, size):
  """Best and worst ranks, candidates and weights, some of which are 0."""
  _, candidates, weights = lists(rng, size)
  best = rng.integers(1, candidates + 1)
  worst = np.where(rng.random(size) < 0.3, best, rng.integers(best, candidates + 1))
  return best, worst, candidates, weights


def averaged(name, best, worst, weights):
  """The average over all orders: every combination of ranks is as likely as any other."""
  inverses = {
    "inverse_arithmetic_mean_rank": "arithmetic_mean_rank",
    "inverse_geometric_mean_rank": "geometric_mean_rank",
    "harmonic_mean_rank": "inverse_harmonic_mean_rank",
    "inverse_median_rank": "median_rank",
  }
  if name in inverses:
    return 1 / averaged(inverses[name], best, worst, weights)
  if name == "standard_deviation":
    return math.sqrt(averaged("variance", best, worst, weights))
  each = [range(a, b + 1) for a, b in zip(best, worst, strict=True)]
  if name in ("median_rank", "median_absolute_deviation"):
    pooled = [(r, w / len(x)) for x, w in zip(each, weights, strict=True) for r in x]
    return BASES[name](*zip(*pooled, strict=True))
  values = [BASES[name](ranks, weights) for ranks in itertools.product(*each)]
  return sum(values) / len(values)


of_ties = Together(
  {
    name: lambda best, worst, candidates, weights, metric=metric: metric(
      jr.ranks.TargetRanks(best, worst, candidates), weights
    )
    for name, metric in METRICS.items()
  }
)


@pytest.mark.parametrize("name", METRICS)
def test_ties_are_averaged_over_their_orders(name):
  best, worst, candidates, weights = tied_lists(np.random.default_rng(6), (60, 3))
  base, how = ADJUSTED.get(name, (name, None))
  with jax.enable_x64(True):
    found = of_ties(name, best, worst, candidates.astype(int), weights)
  for i, row in enumerate(weights):
    some = row > 0
    expected = averaged(base, best[i, some], worst[i, some], row[some])
    if how:
      chance = by_chance(base, candidates[i, some].astype(int), row[some])
      expected = adjust(expected, how, *chance)
    assert found[i] == pytest.approx(expected, abs=1e-5), (i, name)


def test_a_constant_scorer_is_as_good_as_chance():
  candidates = jnp.array([[100, 7, 1, 10_000], [2, 3, 4, 1_000_000]])
  ranks = jr.ranks.TargetRanks(jnp.ones_like(candidates), candidates, candidates)
  for name in ("arithmetic_mean_rank", "geometric_mean_rank", "inverse_harmonic_mean_rank"):
    expected = METRICS[name].expected(candidates)
    np.testing.assert_allclose(METRICS[name](ranks), expected, rtol=2e-6)
    np.testing.assert_allclose(jr.ranks.adjusted(METRICS[name])(ranks), 0, atol=1e-5)
  expected = METRICS["hits_at_k"].expected(candidates)
  np.testing.assert_allclose(METRICS["hits_at_k"](ranks), expected, rtol=1e-6)


def test_one_of_a_hundred_equal_scores():
  """The mean of `1 / r` over the ranks 1 to 100, and the reciprocal of their mean by name."""
  ranks = jr.ranks.from_scores(jnp.zeros((1, 100)), jnp.array([7]))
  names = "mrr hits@10 realistic.mrr realistic.hits@10 best.mrr worst.mrr average.mr"
  found = jr.ranks.evaluate(names, ranks)
  expected = [np.mean(1 / np.arange(1, 101)), 0.1, 1 / 50.5, 0, 1, 0.01, 50.5]
  assert [*found.values()] == pytest.approx(expected, rel=1e-6)
  labels = jnp.arange(100) == 7
  ours = jr.evaluate("RR Success@10", jnp.zeros(100), labels)
  assert found["mrr"] == pytest.approx(float(ours["RR"]))
  assert found["hits@10"] == pytest.approx(float(ours["Success@10"]))


def test_averages_over_long_and_distant_ties_are_accurate():
  best = np.array([1, 1, 2, 15, 16, 17, 18, 900, 10**6, 10**6, 10**6, 2 * 10**6])
  worst = np.array(
    [2, 10**6, 17, 18, 17, 18, 400, 950, 10**6 + 1, 10**6 + 60_000, 2 * 10**6, 2 * 10**6]
  )
  one = lambda f: [np.mean(f(np.arange(a, b + 1.0))) for a, b in zip(best, worst, strict=True)]  # noqa: E731
  ranks = jr.ranks.TargetRanks(*(x[:, None] for x in (best, worst, worst)))
  found = METRICS["inverse_harmonic_mean_rank"](ranks)
  np.testing.assert_allclose(found, one(lambda r: 1 / r), rtol=1e-6)
  for weight in (1.0, 0.3, 1e-3):
    pair = jax.tree.map(lambda x: jnp.concatenate([x, jnp.ones_like(x)], axis=1), ranks)
    found = METRICS["geometric_mean_rank"](pair, jnp.array([weight, 1 - weight]))
    np.testing.assert_allclose(found, one(lambda r, w=weight: r**w), rtol=2e-6)


def test_ranks_of_targets_know_their_candidates():
  ranks = jr.ranks.TargetRanks([1, 2, 0], [3, 2, 0], [5, 4, 0])
  assert jr.ranks.arithmetic_mean_rank(ranks) == 2
  expected = jr.ranks.adjusted_arithmetic_mean_rank(jnp.array([2.0, 2.0]), candidates=[5, 4])
  assert jr.ranks.adjusted_arithmetic_mean_rank(ranks) == pytest.approx(float(expected))
  assert jnp.isnan(jr.ranks.arithmetic_mean_rank(jr.ranks.TargetRanks([1, 0], [1, 0], [5, 5])))
  with pytest.raises(ValueError, match="pessimistic and optimistic must have one shape"):
    jr.ranks.TargetRanks([1, 2], [1], [5, 5])


def test_a_model_that_diverged_does_not_vanish():
  ranks = jr.ranks.from_scores(jnp.full((2, 4), jnp.nan), jnp.array([0, 1]))
  assert jnp.isnan(jr.ranks.inverse_harmonic_mean_rank(ranks))
  padding = jr.ranks.from_scores(
    jnp.array([[1.0, 0.0], [jnp.nan, jnp.nan]]),
    jnp.array([1, 0]),
    where=jnp.array([[True, True], [False, False]]),
  )
  assert jr.ranks.inverse_harmonic_mean_rank(padding) == 0.5


def test_cut_offs_may_be_traced_and_gradients_are_those_of_the_formula():
  ranks = jnp.array([1.0, 2.0, 4.0, 9.0])
  values = jax.jit(jax.vmap(lambda k: jr.ranks.hits_at_k.at(k)(ranks)))(jnp.array([1, 2, 10]))
  np.testing.assert_allclose(values, [0.25, 0.5, 1])
  weights = jnp.array([1.0, 1.0, 0.0, 2.0])
  slope = jax.grad(jr.ranks.inverse_harmonic_mean_rank)(ranks.at[2].set(jnp.nan), weights)
  np.testing.assert_allclose(slope, [-1 / 4, -1 / 16, 0, -1 / 162], rtol=1e-6)
  assert jnp.all(jax.grad(jr.ranks.standard_deviation)(jnp.ones(3)) == 0)
  with pytest.raises(ValueError, match="median_rank has no cut-off"):
    jr.ranks.median_rank.at(3)
  with pytest.raises(ValueError, match="at least 1"):
    jr.ranks.hits_at_k.at(0)


def test_samples_are_ranks_by_chance():
  candidates = jnp.array([[1, 3, 40], [5, 5, 5]])
  drawn = jr.ranks.arithmetic_mean_rank.sampled_values(
    candidates, jnp.array([0.0, 0.0, 1.0]), key=jax.random.key(1), samples=3000
  )
  assert drawn.shape == (3000, 2)
  assert set(np.unique(drawn[:, 0])) == set(range(1, 41))
  share = np.bincount(np.asarray(drawn[:, 1], int))[1:] / 3000
  np.testing.assert_allclose(share, 0.2, atol=0.04)


def test_what_has_no_closed_form_is_sampled():
  metric, candidates = jr.ranks.inverse_median_rank, [3, 4, 2]
  centre, spread = by_chance(metric.name, candidates, [1, 1, 1])
  key = jax.random.key(2)
  estimate = metric.expected(candidates, key=key, samples=4000)
  assert abs(estimate - centre) < 5 * math.sqrt(spread / 4000)
  assert metric.variance(candidates, key=key, samples=4000) == pytest.approx(spread, rel=0.1)
  with pytest.raises(ValueError, match="inverse_median_rank has no closed form"):
    metric.expected(candidates)
  drawn = metric.sampled_values(candidates, key=key, samples=4000)
  low, middle, high = jr.stats.bootstrap_interval(jnp.mean, drawn, key=key, resamples=500)
  assert low < middle < high
  assert high - low == pytest.approx(2 * 1.96 * math.sqrt(spread / 4000), rel=0.15)


def test_intervals_of_ranks_resample_all_of_a_task_together():
  ranks = jr.ranks.TargetRanks([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4])
  equal = jr.stats.bootstrap_interval(
    lambda r: jnp.mean(r.pessimistic - r.candidates), ranks, key=jax.random.key(0), resamples=50
  )
  assert equal == (0, 0, 0)
  with pytest.raises(ValueError, match="one shape"):
    jr.stats.bootstrap_interval(jnp.mean, jnp.ones(3), jnp.ones(4), key=jax.random.key(0))


@pytest.mark.parametrize(
  ("name", "full"),
  [
    ("mrr", "both.average.inverse_harmonic_mean_rank"),
    ("both.realistic.hits_at_10", "both.realistic.hits_at_10"),
    ("Hits@5", "both.average.hits_at_5"),
    ("h@1", "both.average.hits_at_1"),
    ("hits@k", "both.average.hits_at_10"),
    ("hits_at_k.3", "both.average.hits_at_3"),
    ("z_hits_at_3", "both.average.z_hits_at_3"),
    ("adjusted_hits_at_5", "both.average.adjusted_hits_at_5"),
    ("ah@5", "both.average.adjusted_hits_at_5"),
    ("worst.mr", "both.pessimistic.arithmetic_mean_rank"),
    ("tail.best.rank_std", "tail.optimistic.standard_deviation"),
    ("head.avg.AMRI", "head.average.adjusted_arithmetic_mean_rank_index"),
  ],
)
def test_names(name, full):
  assert str(jr.ranks.parse(name)) == full


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_synonym_is_a_name(metric):
  for name in (metric.statistic.name, *metric.synonyms):
    assert jr.ranks.resolve(name).statistic is metric.statistic
  assert metric.statistic.name in repr(dataclasses.replace(metric, k=None))
  low, high = metric.bounds
  assert low < high


@pytest.mark.parametrize("name", ["", "mrrr", "Head.mrr", "mrr.5", "optimistic.amri", "hits@0"])
def test_names_that_are_none(name):
  with pytest.raises(ValueError, match="unknown rank statistic|compares with chance|at least 1"):
    jr.ranks.parse(name)


def test_both_sides_are_all_of_their_tasks():
  rng = np.random.default_rng(5)

  def draw(n):
    best = rng.integers(1, 9, n)
    return jr.ranks.TargetRanks(best, best + rng.integers(0, 4, n), np.full(n, 12))

  head, tail = draw(4), draw(6)
  weights = {"head_query_weights": rng.random(4), "tail_query_weights": rng.random(6)}
  every = [f"{side}.{kind}.mr" for side in names.SIDES for kind in names.KINDS]
  every += ["tail.realistic.median_rank", "hits@2"]
  values = jr.ranks.evaluate(every, head, tail, **weights)
  assert list(values) == every
  both = jax.tree.map(lambda *x: jnp.concatenate(x), head, tail)
  sides = {"head": head, "tail": tail, "both": both}
  own = {name[:4]: w for name, w in weights.items()}
  own["both"] = np.concatenate(list(own.values()))
  for name, value in values.items():
    side, kind, metric = jr.ranks.parse(name)
    ranks = sides[side]
    if kind == "average":
      given = np.asarray(ranks.optimistic), np.asarray(ranks.pessimistic)
      alone = averaged(metric.statistic.name, *given, own[side])
    else:
      alone = BASES[metric.statistic.name](np.asarray(getattr(ranks, kind)), own[side])
    assert value == pytest.approx(alone, rel=1e-5)
  assert jr.ranks.evaluate("mr", head)["mr"] == pytest.approx(float(head.realistic.mean()))
  with pytest.raises(ValueError, match="pass tail="):
    jr.ranks.evaluate("tail.mr", head)


def test_macro_weights_count_every_query_once():
  """Ranks 3, 3, 6 of triples, two of which share a query on either side."""
  ranks = jr.ranks.TargetRanks([3, 3, 6], [3, 3, 6], [9, 9, 9])
  head, tail = jr.ranks.macro_weights([[4, 7, 4], [-2, 5, 5]])
  assert head.tolist() == [0.5, 1, 0.5]
  assert tail.tolist() == [1, 0.5, 0.5]
  tail = jnp.array([0.5, 0.5, 1])
  values = jr.ranks.evaluate(
    "head.mrr tail.mrr mrr", ranks, ranks, head_query_weights=head, tail_query_weights=tail
  )
  assert list(values.values()) == pytest.approx([0.291667, 0.25, 0.270833], abs=1e-6)
  where = jnp.array([True, True, False, True])
  masked = jr.ranks.macro_weights(jnp.array([1, 1, 1, 9], jnp.int8), where=where)
  assert masked.tolist() == [0.5, 0.5, 0, 1]
  with pytest.raises(TypeError, match="groups must be integers"):
    jr.ranks.macro_weights([0.5])


def test_shapes_that_do_not_go_together_are_named():
  with pytest.raises(ValueError, match=r"count: .* ranks \[3\], query_weights \[2\]"):
    jr.ranks.count(jnp.ones(3), jnp.ones(2))
  with pytest.raises(ValueError, match="ranks must have the shape that all"):
    jr.ranks.count(1.0)
  with pytest.raises(ValueError, match="pass candidates="):
    jr.ranks.z_arithmetic_mean_rank(jnp.ones(3))
  with pytest.raises(ValueError, match="ranks.adjusted: base must have closed forms"):
    jr.ranks.adjusted(jr.ranks.inverse_median_rank)
  with pytest.raises(ValueError, match="z_score: base must be a metric of ranks alone, got z_hits"):
    jr.ranks.z_score(jr.ranks.z_hits_at_k)
  with pytest.raises(ValueError, match="weighted tasks"):
    jr.ranks.z_score(jr.ranks.median_rank)(jnp.ones(3), jnp.ones(3), candidates=4)


def mistakes():
  ranks, key = jr.ranks.TargetRanks([1, 2], [1, 2], [5, 5]), jax.random.key(0)
  mrr, median = jr.ranks.inverse_harmonic_mean_rank, jr.ranks.inverse_median_rank
  drawn = median.sampled_values
  return [
    (TypeError, "a name must be a string such as 'mrr', got 3", lambda: jr.ranks.resolve(3)),
    (TypeError, "a name must be a string such as 'mrr', got None", lambda: jr.ranks.parse(None)),
    (ValueError, "unknown rank statistic 'hits@-1'", lambda: jr.ranks.resolve("hits@-1")),
    (ValueError, "at least one name", lambda: jr.ranks.evaluate([], ranks)),
    (TypeError, r"head must be TargetRanks.*got \[1, 2\]", lambda: jr.ranks.evaluate("mr", [1, 2])),
    (
      ValueError,
      r"head_query_weights.*\(2,\), got \(3,\)",
      lambda: jr.ranks.evaluate("mr", ranks, head_query_weights=[1, 2, 3]),
    ),
    (TypeError, "positive integer, got None", lambda: jr.ranks.hits_at_k.at(None)),
    (TypeError, "ranks must be an array of numbers, got None; pass", lambda: mrr(None)),
    (TypeError, "candidates must be .* got None;", lambda: mrr.expected(None)),
    (
      ValueError,
      "moment must be one of 'expected', 'variance'",
      lambda: mrr.has_closed_form("mean"),
    ),
    (TypeError, r"key must be .* jax.random.key\(0\), got 0", lambda: drawn([3], key=0)),
    (ValueError, "samples must be at least 1", lambda: drawn([3], key=key, samples=0)),
    (TypeError, "samples must be an int", lambda: drawn([3], key=key, samples=2.5)),
    (ValueError, "samples must be at least 2", lambda: median.variance([3], key=key, samples=1)),
    (TypeError, "z_score: base must be a rank metric, got 'mrr'", lambda: jr.ranks.z_score("mrr")),
    (
      ValueError,
      "of one shape, n at least 1",
      lambda: jr.stats.bootstrap_interval(jnp.mean, [], key=key),
    ),
    (
      TypeError,
      "statistic must be a function",
      lambda: jr.stats.bootstrap_interval("mean", [1], key=key),
    ),
    (
      ValueError,
      r"confidence must be in \[0, 1\], got 2",
      lambda: jr.stats.bootstrap_interval(jnp.mean, [1.0], key=key, confidence=2),
    ),
  ]


def test_mistakes_say_what_was_expected_and_what_came():
  for error, message, call in mistakes():
    with pytest.raises(error, match=message):
      call()


def test_a_list_of_numbers_can_be_resampled():
  low, _, high = jr.stats.bootstrap_interval(
    jnp.mean, [3.0] * 4, key=jax.random.key(0), resamples=50
  )
  assert (low, high) == (3, 3)


def test_all_names_the_public_objects():
  public = {
    name
    for name, value in vars(jr.ranks).items()
    if not name.startswith("_") and not inspect.ismodule(value)
  }
  assert public == set(jr.ranks.__all__)


@pytest.mark.parametrize("name", jr.ranks.__all__)
def test_what_is_public_pickles_by_its_name(name):
  value = getattr(jr.ranks, name)
  if name == "METRICS":
    assert all(pickle.loads(pickle.dumps(value))[key] is x for key, x in value.items())
  else:
    assert pickle.loads(pickle.dumps(value)) is copy.deepcopy(value) is value


DERIVED = [
  jr.ranks.hits_at_k.at(5),
  jr.ranks.z_hits_at_k.at(3),
  jr.ranks.adjusted(jr.ranks.median_rank),
  jr.ranks.adjusted(jr.ranks.hits_at_k.at(2)).at(3),
  jr.ranks.z_score(jr.ranks.median_rank),
  jr.ranks.z_score(jr.ranks.hits_at_k),
  jr.ranks.expectation_normalized(jr.ranks.hits_at_k.at(2)),
  jr.ranks.expectation_normalized(jr.ranks.adjusted_arithmetic_mean_rank),
]


@pytest.mark.parametrize("metric", DERIVED, ids=lambda metric: metric.name)
def test_what_is_made_of_a_metric_pickles(metric):
  found = pickle.loads(pickle.dumps(metric))
  assert found == metric
  assert (found.name, found.k, found.bounds) == (metric.name, metric.k, metric.bounds)
  ranks = jnp.array([1.0, 2, 4])
  assert found(ranks, candidates=4) == metric(ranks, candidates=4)
  ranks = jr.ranks.TargetRanks([1, 2], [1, 2], [5, 5])
  assert jax.tree.all(jax.tree.map(np.array_equal, pickle.loads(pickle.dumps(ranks)), ranks))


def parameters_of_source(function):
  """Names, kinds and defaults of the parameters, as the source has them."""
  (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
  args = node.args
  kinds = inspect.Parameter
  found = [(x.arg, kinds.POSITIONAL_OR_KEYWORD) for x in args.args]
  defaults = [None] * (len(found) - len(args.defaults)) + args.defaults
  if args.vararg:
    found, defaults = [*found, (args.vararg.arg, kinds.VAR_POSITIONAL)], [*defaults, None]
  found += [(x.arg, kinds.KEYWORD_ONLY) for x in args.kwonlyargs]
  defaults += args.kw_defaults
  assert not args.posonlyargs
  assert not args.kwarg
  assert not node.decorator_list
  assert node.returns is not None
  assert all(x.annotation is not None for x in (*args.args, *args.kwonlyargs) if x.arg != "self")
  return [
    (name, kind, kinds.empty if default is None else ast.literal_eval(default))
    for (name, kind), default in zip(found, defaults, strict=True)
  ]


@pytest.mark.parametrize(
  "name", [x for x in jr.ranks.__all__ if inspect.isfunction(vars(jr.ranks)[x])]
)
def test_signatures_of_functions_are_those_of_the_source(name):
  function = getattr(jr.ranks, name)
  found = inspect.signature(function).parameters.values()
  assert [(x.name, x.kind, x.default) for x in found] == parameters_of_source(function)


METHODS = ["__call__", "at", "expected", "variance", "std", "sampled_values", "has_closed_form"]


@pytest.mark.parametrize("name", METHODS)
def test_signatures_of_methods_are_those_of_the_source(name):
  method = getattr(jr.ranks.RankMetric, name)
  found = list(inspect.signature(method).parameters.values())
  assert [(x.name, x.kind, x.default) for x in found] == parameters_of_source(method)
  bound = jr.ranks.hits_at_k if name == "__call__" else getattr(jr.ranks.hits_at_k, name)
  assert list(inspect.signature(bound).parameters.values()) == found[1:]


@pytest.mark.parametrize("name", METRICS)
def test_metrics_have_docstrings_of_their_own(name):
  metric = jr.ranks.METRICS[name]
  text = inspect.getdoc(metric)
  assert f'>>> print(f"{{{name}' in text
  assert inspect.getdoc(jr.ranks.RankMetric).startswith("A statistic of the ranks")
  if metric.k is not None:
    assert inspect.getdoc(metric.at(3)) == text


def test_a_statistic_is_derived_once():
  assert jr.ranks.z_score(jr.ranks.median_rank) == jr.ranks.z_score(jr.ranks.median_rank)
  assert jr.ranks.adjusted(jr.ranks.hits_at_k.at(2)) == jr.ranks.adjusted(jr.ranks.hits_at_k).at(2)
