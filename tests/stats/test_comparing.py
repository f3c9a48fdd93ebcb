"""The table of runs: each column is that of the function that it names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

from jaxrank import stats
from jaxrank.stats import comparing
from tests.helpers.suites import quick, thorough

KEY = jax.random.key(0)


def runs(queries=40, seed=0):
  rng = np.random.default_rng(seed)
  hard = rng.normal(size=queries) * 0.1
  means = {"bm25": 0.5, "dense": 0.53, "fused": 0.7, "copy": 0.7}
  made = {
    name: (m + hard + 0.1 * rng.normal(size=queries)).astype(np.float32)
    for name, m in means.items()
  }
  return made | {"copy": made["fused"]}


@pytest.fixture(scope="module")
def board():
  return stats.compare(runs(), key=KEY, baseline="dense", test="t", resamples=2000)


def test_columns_are_those_of_the_functions(board):
  values = np.stack([*runs().values()])
  found = board.columns()
  assert found["run"] == ["bm25", "dense", "fused", "copy"]
  np.testing.assert_allclose(found["mean"], values.mean(1), rtol=1e-5)
  margin = scipy_stats.sem(values, axis=1) * scipy_stats.t.ppf(0.975, 39)
  np.testing.assert_allclose(found["low"], values.mean(1) - margin, rtol=1e-4)
  difference = values - values[1]
  np.testing.assert_allclose(found["difference"], difference.mean(1), atol=1e-6)
  margin = scipy_stats.sem(difference, axis=1) * scipy_stats.t.ppf(0.975, 39)
  np.testing.assert_allclose(found["difference_high"], difference.mean(1) + margin, atol=1e-5)
  # Three tests, of which the baseline is a part.
  others = [0, 2, 3]
  expected = stats.holm(stats.paired_t(values[others], values[[1, 1, 1]]).p_value)
  np.testing.assert_allclose(found["p_value"][others], expected, rtol=1e-4)
  assert found["p_value"][1] == 1
  effect = stats.effect_size(values, np.broadcast_to(values[1], values.shape))
  np.testing.assert_allclose(found["effect_size"], effect, rtol=1e-4)
  ranks = stats.rank_intervals(values, key=jax.random.key(7), resamples=2000)
  np.testing.assert_array_equal(found["lowest_rank"], ranks.lowest)
  np.testing.assert_array_equal(found["highest_rank"], ranks.highest)
  np.testing.assert_array_equal(found["tier"], ranks.tiers)
  np.testing.assert_array_equal(np.isnan(board.p_values[0]), [False, False, True, True])


def test_the_table_is_printed(board):
  lines = str(board).splitlines()
  assert lines[0].split() == [
    "run",
    "mean",
    "interval",
    "less",
    "dense",
    "interval",
    "p",
    "effect",
    "rank",
    "tier",
  ]
  assert len({len(line) for line in lines}) == 1
  assert lines[2].split()[:5] == [
    "dense",
    f"{board.mean[1]:.4f}",
    f"{board.low[1]:.4f}",
    "to",
    f"{board.high[1]:.4f}",
  ]
  assert "<0.0001" in lines[3]
  assert lines[3].split()[-2:] == ["1-2", "1"]


@pytest.mark.parametrize("test", ["randomization", "tukey"])
def test_all_pairs_without_a_baseline(test):
  values = np.stack([*runs().values()])
  found = stats.compare(runs(), key=KEY, test=test, resamples=None)
  assert found.baseline == "bm25"
  assert found.tier is None
  assert "tier" not in str(found)
  assert "tier" not in found.columns()
  if test == "tukey":
    expected = stats.tukey_hsd(values, key=KEY)
  else:
    i, j = np.triu_indices(4, 1)
    p = stats.holm(stats.randomization_test(values[i], values[j], key=KEY).p_value)
    expected = np.ones((4, 4), np.float32)
    expected[i, j] = expected[j, i] = p
  np.testing.assert_allclose(found.p_values, expected, atol=1e-6)
  np.testing.assert_array_equal(found.p_value, found.p_values[0])


def test_queries_that_a_run_lacks_do_not_count():
  whole, lacking = runs(), {name: np.insert(x, 3, 9) for name, x in runs().items()}
  lacking["dense"][3] = np.nan
  options = dict(key=KEY, test="t", resamples=None)
  found, expected = (stats.compare(x, **options).columns() for x in (lacking, whole))
  for name in found:
    np.testing.assert_array_equal(found[name], expected[name])


@quick("baseline", [None, "fused"], [None])
def test_each_measure_has_its_own_queries(baseline):
  values = np.stack([np.stack([x, x**2, 1 - x]) for x in runs(42).values()])
  # As many for each measure, and as many as the other tests have, of which programs have the shape.
  values[1, 0, 3] = values[2, 0, 30] = values[2, 2, :2] = values[:, 1, -2:] = np.nan
  stacked = dict(zip(runs(), values, strict=True))
  options = dict(key=KEY, baseline=baseline, test="t", resamples=2000)
  found = stats.compare(stacked, **options)
  assert found.mean.shape == found.tier.shape == (3, 4)
  for i in range(3):
    one = stats.compare({name: x[i] for name, x in stacked.items()}, **options)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x: x[i], found), one)  # noqa: B023
  values[0, 1, 1:] = np.nan
  with pytest.raises(
    ValueError, match="two queries or more for which every run has a value, got 1"
  ):
    stats.compare(stacked, **options)


@thorough
def test_a_frame_is_told_how_to_become_a_dict():
  pandas = pytest.importorskip("pandas")
  with pytest.raises(TypeError, match=r"got .*; pass dict\(runs\) if its columns are runs"):
    stats.compare(pandas.DataFrame(runs()), key=KEY)


def test_many_pairs_in_blocks(monkeypatch):
  options = dict(key=KEY, test="t", resamples=None)
  expected = stats.compare(runs(), **options)
  monkeypatch.setattr(comparing, "_HELD", 80)
  jax.tree.map(np.testing.assert_array_equal, stats.compare(runs(), **options), expected)


@thorough
def test_leading_axes_jit_and_dtypes():
  named = runs()
  stacked = {name: np.stack([x, 1 - x]) for name, x in named.items()}
  options = dict(key=KEY, test="t", resamples=500)
  both, alone = stats.compare(stacked, **options), stats.compare(named, **options)
  first = jax.tree.map(lambda x: x[0], both)
  for name, column in alone.columns().items():
    if name != "run":
      np.testing.assert_allclose(first.columns()[name], column, atol=1e-5)
  with pytest.raises(ValueError, match=r"leading axes \(2,\)"):
    both.columns()
  assert "Leaderboard(" in str(both)
  jitted = jax.jit(lambda x: stats.compare(x, **options))(named)
  order = [jitted.runs.index(name) for name in named]
  np.testing.assert_allclose(jitted.mean[jnp.array(order)], alone.mean, rtol=1e-5)
  with jax.enable_x64(True):
    wide = stats.compare({"a": named["bm25"].astype(np.float64), "b": np.ones(40, int)}, **options)
    assert wide.low.dtype == jnp.float64


@pytest.mark.parametrize(
  ("error", "message", "made", "options"),
  [
    (TypeError, "runs must be a dict of values by name", [[1.0, 2.0]] * 2, {}),
    (ValueError, r"two runs or more, got \['a'\]", {"a": [1.0, 2.0]}, {}),
    (TypeError, "the names of runs must be strings, got", {1: [1.0, 2.0], 2: [1.0, 2.0]}, {}),
    (TypeError, "run 'b' must be an array of numbers", {"a": [1.0, 2.0], "b": "x"}, {}),
    (ValueError, r"got \(2,\) of 'a' and \(3,\) of 'b'", {"a": [1.0, 2], "b": [1.0, 2, 3]}, {}),
    (ValueError, "with at least 2 queries", {"a": [1.0], "b": [2.0]}, {}),
    (ValueError, "every run has a value, got 1", {"a": [1.0, 2.0], "b": [2.0, np.nan]}, {}),
    (ValueError, "baseline must be .* one of 'a', 'b', got 'c'", None, {"baseline": "c"}),
    (ValueError, "baseline must be the name of a run", None, {"baseline": 0}),
    (ValueError, "test must be one of", None, {"test": "wilcoxon"}),
    (ValueError, "correction must be one of", None, {"correction": "bonferroni"}),
    (ValueError, "'tukey' are for all pairs", None, {"test": "tukey", "correction": "bh"}),
    (ValueError, "resamples must be at least 1", None, {"resamples": 0}),
    (ValueError, r"confidence must be in \[0, 1\]", None, {"confidence": 2}),
  ],
)  # fmt: skip
def test_mistakes(error, message, made, options):
  made = made or {"a": [1.0, 2.0, 4.0], "b": [2.0, 2.0, 3.0]}
  with pytest.raises(error, match=f"stats.compare: .*{message}"):
    stats.compare(made, key=KEY, **options)


def test_a_key_is_needed():
  with pytest.raises(TypeError, match="key must be a PRNG key"):
    stats.compare(runs(), key=0)
