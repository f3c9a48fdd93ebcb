"""Ranks with their uncertainty against enumeration of all resamples, and their coverage."""

import functools
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import stats
from tests.benchmarks import claims
from tests.helpers.suites import quick, thorough

KEY = jax.random.key(0)


def resamples_of(tasks):
  """The weights of queries in all resamples of tasks and of queries within each, equally likely."""
  groups = [np.flatnonzero(tasks == task) for task in np.unique(tasks)]
  every = itertools.product(range(len(groups)), repeat=len(groups))
  for chosen in every:
    within = [itertools.product(groups[k], repeat=len(groups[k])) for k in chosen]
    for queries in itertools.product(*within):
      weight = np.zeros(len(tasks))
      for own in queries:
        np.add.at(weight, list(own), 1 / len(own) / len(queries))
      yield weight


def enumerated(values, tasks):
  """The p-values of all pairs of systems by their definition, with every resample once."""
  pairs = [*itertools.combinations(range(len(values)), 2)]
  weights = np.array([*resamples_of(tasks)])
  moved = np.array([weights @ (values[i] - values[j]) for i, j in pairs])
  groups = [tasks == task for task in np.unique(tasks)]
  share = sum(g / g.sum() for g in groups) / len(groups)
  gap = np.array([share @ (values[i] - values[j]) for i, j in pairs])
  count = len(tasks) if len(groups) == 1 else len(groups)
  statistics = abs(moved - gap[:, None]) / moved.std(1, keepdims=True)
  errors = []
  for i, j in pairs:
    difference = values[i] - values[j]
    means = np.array([difference[g].mean() for g in groups])
    own = np.mean([difference[g].var(ddof=1) / g.sum() for g in groups])
    errors.append(np.sqrt(((means.var(ddof=1) if len(groups) > 1 else 0) + own) / len(groups)))
  t = abs(gap) / errors
  z = t * np.sqrt(count / (count - 1 + t**2))
  table, last = np.ones((len(values), len(values))), 0
  order = np.argsort(-z)
  for rank, k in enumerate(order):
    last = max(last, np.mean(statistics[order[rank:]].max(0) >= z[k] - 1e-9))
    table[pairs[k]] = table[pairs[k][::-1]] = last
  return table


@pytest.mark.parametrize(
  ("tasks", "seed"), [([0] * 5, 1), ([1, 0, 0, 1, 2, 2], 0)], ids=["one level", "two levels"]
)
def test_p_values_are_those_of_all_resamples(tasks, seed):
  rng = np.random.default_rng(seed)
  values = rng.random((4, len(tasks))) * 1.2 + np.array([0.9, 0.5, 0.4, 0])[:, None]
  expected = enumerated(values, np.array(tasks))
  resamples, level = 40_000, 0.6
  names = None if len(set(tasks)) == 1 else [f"task {task}" for task in tasks]
  found = stats.rank_intervals(
    values, key=KEY, resamples=resamples, confidence=1 - level, tasks=names
  )
  error = np.sqrt(expected * (1 - expected) / resamples) + 1 / resamples
  assert np.all(abs(found.p_values - expected) < 4.5 * error)
  assert len(np.unique(expected)) > 3
  differs = expected <= level
  gap = (
    values.mean(1)
    if names is None
    else np.mean([values[:, np.array(tasks) == t].mean(1) for t in range(3)], 0)
  )
  gap = gap[:, None] - gap
  np.testing.assert_array_equal(found.lowest, 1 + (differs & (gap < 0)).sum(1))
  np.testing.assert_array_equal(found.highest, 4 - (differs & (gap > 0)).sum(1))
  assert 0 < differs.sum() < 12


def systems(seed=0, queries=30, means=(0.2, 0.9, 0.5, 0.52, 0.1)):
  rng = np.random.default_rng(seed)
  return np.array(means)[:, None] + 0.1 * rng.normal(size=(len(means), queries))


def test_tiers_and_intervals_of_clear_systems():
  found = stats.rank_intervals(systems(), key=KEY, resamples=2000)
  np.testing.assert_array_equal(found.lowest, [4, 1, 2, 2, 5])
  np.testing.assert_array_equal(found.highest, [4, 1, 3, 3, 5])
  np.testing.assert_array_equal(found.tiers, [3, 1, 2, 2, 4])
  # A group ends where its first member differs, although neighbours do not.
  chain = systems(means=(0.3, 0.26, 0.22, 0.18, 0.14))
  found = stats.rank_intervals(chain, key=KEY, resamples=2000)
  differs = np.asarray(found.p_values) <= 0.05
  assert not differs[0, 1]
  for tier in range(1, int(found.tiers.max()) + 1):
    inside = np.flatnonzero(found.tiers == tier)
    assert not differs[np.ix_(inside, inside)].any()
    after = np.flatnonzero(found.tiers == tier + 1)
    assert not after.size or differs[after[0], inside].any()
  assert found.tiers.max() > 1


def test_queries_that_a_system_lacks_do_not_count():
  values = systems()
  lacking = np.insert(values, [4, 20], 99, axis=1)
  lacking[1, 4] = lacking[3, 21] = np.nan
  found = stats.rank_intervals(lacking, key=KEY, resamples=2000)
  alone = stats.rank_intervals(values, key=jax.random.key(1), resamples=2000)
  np.testing.assert_allclose(found.p_values, alone.p_values, atol=0.06)
  np.testing.assert_array_equal(found.lowest, alone.lowest)
  tasks = np.insert(np.arange(30) % 3, [4, 20], 7)
  with pytest.raises(ValueError, match=r"got 0 of task 7; leave the task out"):
    stats.rank_intervals(lacking, key=KEY, tasks=tasks)


@thorough
def test_queries_of_tasks_that_a_system_lacks_do_not_count():
  values = systems()
  lacking = np.insert(values, [4, 20], 99, axis=1)
  lacking[1, 4] = lacking[3, 21] = np.nan
  tasks = np.insert(np.arange(30) % 3, [4, 20], 2)
  found = stats.rank_intervals(lacking, key=KEY, resamples=4000, tasks=tasks)
  whole = stats.rank_intervals(values, key=KEY, resamples=4000, tasks=np.arange(30) % 3)
  np.testing.assert_allclose(found.p_values, whole.p_values, atol=0.04)
  # Inside jit, where values are not known, too few shared queries allow all ranks.
  lacking[0, 1:] = np.nan
  found = jax.jit(lambda x: stats.rank_intervals(x, key=KEY, resamples=99))(lacking)
  np.testing.assert_array_equal(found.lowest, 1)
  np.testing.assert_array_equal(found.highest, 5)


def test_systems_that_are_equal_or_equally_far():
  rng = np.random.default_rng(0)
  first = rng.random(30).astype(np.float32)
  other = rng.random(30).astype(np.float32)
  values = np.stack([first, first, first + np.float32(0.1), other, other])
  found = stats.rank_intervals(values, key=KEY, resamples=2000)
  assert found.p_values[0, 1] == 1
  # A difference without deviation: no resample reaches it, and it hides no other. Its sign is the
  # same by chance in 2 of 2^30 cases, for 10 pairs.
  np.testing.assert_allclose(found.p_values[[0, 1], [2, 2]], 1 / 2001)
  assert found.lowest.tolist()[:3] == [2, 2, 1]
  equal = stats.rank_intervals(np.full((5, 30), 0.3), key=KEY, resamples=2000)
  np.testing.assert_array_equal(equal.p_values, 1)
  np.testing.assert_array_equal(equal.lowest, 1)
  np.testing.assert_array_equal(equal.highest, 5)
  np.testing.assert_array_equal(equal.tiers, 1)


@quick(("queries", "least"), [(2, 1.0), (5, 3 / 16), (8, 3 / 128)], [(5, 3 / 16)])
def test_equal_differences_of_few_queries_claim_what_their_signs_do(queries, least):
  values = np.array([[1.0], [0.0], [0.2]]) * np.ones(queries)
  for x in (values, np.concatenate([values, [np.linspace(0, 1, queries)]])):
    pairs = len(x) * (len(x) - 1) / 2
    found = stats.rank_intervals(x, key=KEY, resamples=2000)
    np.testing.assert_allclose(found.p_values[0, 1:3], min(1, least * pairs / 3), rtol=1e-6)
  board = stats.compare(dict(zip("abc", values, strict=True)), key=KEY, test="t", resamples=99)
  assert board.highest_rank.tolist() == ([3, 3, 3] if queries < 8 else [1, 3, 2])
  np.testing.assert_array_equal(board.p_value, [1, 0, 0])


def test_a_p_value_is_at_least_that_of_its_signs():
  values = np.array([[1.0, 1, 1, 1, 1, 0], [0.0, 0, 0, 0, 0, 0]])
  found = stats.rank_intervals(values, key=KEY, resamples=2000)
  assert found.p_values[0, 1] == 1 / 16
  assert found.tiers.tolist() == [1, 1]


def test_values_that_are_not_finite_claim_nothing():
  values = systems()
  values[1, 3] = np.inf
  found = stats.rank_intervals(values, key=KEY, resamples=2000)
  assert found.lowest[1] == 1
  assert found.highest[1] == 5
  np.testing.assert_array_equal(found.p_values[1], 1)
  # The others are compared as if it were not there.
  np.testing.assert_array_equal(found.lowest, [3, 1, 1, 1, 4])


@quick("confidence", [0.0, 0.5, 0.9999, 1.0], [0.5, 1.0])
def test_the_ends_of_confidence(confidence):
  values = systems(means=(0.2, 0.9, 0.5, 0.7, 0.1))
  found = stats.rank_intervals(values, key=KEY, resamples=2000, confidence=confidence)
  exact = confidence < 0.99
  np.testing.assert_array_equal(found.lowest, [4, 1, 3, 2, 5] if exact else 1)
  np.testing.assert_array_equal(found.highest, [4, 1, 3, 2, 5] if exact else 5)


@thorough
def test_dtypes_and_transformations():
  values = (20 * systems(queries=25)).round().astype(np.int32)
  found = stats.rank_intervals(values, key=KEY, resamples=500)
  assert found.lowest.dtype == found.tiers.dtype == jnp.int32
  stacked = stats.rank_intervals(np.stack([[values, -values]]), key=KEY, resamples=500)
  np.testing.assert_allclose(stacked.p_values[0, 0], found.p_values, atol=1e-6)
  np.testing.assert_array_equal(stacked.lowest[0, 1], 6 - found.highest)
  jitted = jax.jit(lambda x: stats.rank_intervals(x, key=KEY, resamples=500))(values)
  np.testing.assert_allclose(jitted.p_values, found.p_values, atol=0.05)
  mapped = jax.vmap(lambda k: stats.rank_intervals(values, key=k, resamples=500).lowest)
  assert mapped(jax.random.split(KEY, 3)).shape == (3, 5)
  with jax.enable_x64(True):
    wide = stats.rank_intervals(values.astype(np.float64), key=KEY, resamples=500)
    assert wide.p_values.dtype == jnp.float64
    np.testing.assert_array_equal(wide.tiers, found.tiers)


@pytest.mark.parametrize(
  ("message", "values", "options"),
  [
    (r"\[\.\.\., systems, queries\], at least 2 of each, got \(1, 9\)", np.ones((1, 9)), {}),
    (r"at least 2 of each, got \(3, 1\)", np.ones((3, 1)), {}),
    (r"at least 2 of each, got \(9,\)", np.ones(9), {}),
    ("got 1: leave out systems that lack many", [[1.0, 2, np.nan], [np.nan, 2, 3]], {}),
    ("all systems share, got 1 of task 'b'", np.ones((2, 3)), {"tasks": ["a", "b", "a"]}),
    ("tasks must be as many as the queries, 3, got 2", np.ones((2, 3)), {"tasks": [0, 1]}),
    ("resamples must be at least 1", np.ones((2, 3)), {"resamples": 0}),
    (r"confidence must be in \[0, 1\], got 95", np.ones((2, 3)), {"confidence": 95}),
  ],
)  # fmt: skip
def test_mistakes(message, values, options):
  with pytest.raises(ValueError, match=f"stats.rank_intervals: .*{message}"):
    stats.rank_intervals(values, key=KEY, **options)


def test_what_cannot_be_compared_allows_all_ranks_at_any_confidence():
  values = jnp.array([[1.0, jnp.nan, 2.0], [0.0, 1.0, jnp.nan]])
  rank = jax.jit(functools.partial(stats.rank_intervals, key=KEY, resamples=20, confidence=0.0))
  found = rank(values)
  np.testing.assert_array_equal(found.lowest, 1)
  np.testing.assert_array_equal(found.highest, 2)


@thorough
def test_tasks_of_frames():
  pandas = pytest.importorskip("pandas")
  names = pandas.Series(["a", "b", "c"] * 10)
  expected = stats.rank_intervals(systems(), key=KEY, resamples=99, tasks=names.tolist())
  for given in (names, names.to_numpy(), pandas.Categorical(names), np.array(names, object)):
    found = stats.rank_intervals(systems(), key=KEY, resamples=99, tasks=given)
    np.testing.assert_array_equal(found.p_values, expected.p_values)


@pytest.mark.parametrize("tasks", [[0.5, 1, 1], [[0, 0, 0]], "abc", [None] * 3])
def test_tasks_are_numbers_or_names(tasks):
  with pytest.raises(TypeError, match="tasks must be a list with the number or the name"):
    stats.rank_intervals(np.ones((2, 3)), key=KEY, tasks=tasks)


@thorough
@pytest.mark.parametrize("queries", [50, 500])
@pytest.mark.parametrize("count", [5, 20, 100])
def test_true_ranks_are_inside(count, queries):
  """Of groups of systems that are alike, in 500 simulations; the page has the same table."""
  inside, width = claims.ranks(count, queries, alike=False)
  assert inside >= 0.94
  assert width < count


@thorough
def test_true_ranks_are_inside_where_all_systems_are_alike():
  inside, _ = claims.ranks(20, 50, alike=True)
  assert inside >= 0.94


@quick(("count", "queries"), [x for x in claims.SMALL if x[0] < 100], ())
def test_true_ranks_are_inside_for_few_queries_and_few_levels(count, queries):
  inside, _ = claims.ranks(count, queries, alike=True, binary=True)
  assert inside >= 0.94


@thorough
def test_time_and_memory_of_a_large_leaderboard():
  """20 s of two cores and 2 GB for 181 systems, 5,000 queries and 10,000 resamples."""
  start = time.process_time()
  claims.speed()
  assert time.process_time() - start <= 40

  def of(values):
    return stats.rank_intervals(values, key=KEY)

  planned = jax.jit(of).lower(jnp.zeros((181, 5000))).compile().memory_analysis()
  assert planned.temp_size_in_bytes + planned.output_size_in_bytes < 1e9
