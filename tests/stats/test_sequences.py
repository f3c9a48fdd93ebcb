"""Intervals that hold at all times: their definition, their states, and what they refuse."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import stats
from jaxrank.stats import sequences
from tests.benchmarks import claims
from tests.helpers.suites import quick, thorough


def wealth(x, m, bet):
  """The logarithm of the wealth of a gambler who stakes `bet` on values being more than `m`."""
  return np.sum(np.log1p(bet * (x / m - 1)))


def claimed(x, m, bet):
  """What the sums alone say of the wealth."""
  n, mean, variance = len(x), x.mean(), x.var()
  return n * (
    bet * (mean / m - 1) + (math.log1p(-bet) + bet) * (variance / m**2 + (mean / m - 1) ** 2)
  )


def lower(x, confidence):
  """The largest `m` at which a bet has won enough, by a search."""
  found = 0.0
  for bet, share in zip(sequences._BETS, sequences._SHARES, strict=True):
    needed = math.log(2 / (share * (1 - confidence)))
    m = x.mean() / (1 + np.geomspace(1e-7, 1e4, 200_001))
    n, mean, variance = len(x), x.mean(), x.var()
    g = mean / m - 1
    won = n * (bet * g + (math.log1p(-bet) + bet) * (variance / m**2 + g**2)) >= needed
    found = max(found, m[won].max(initial=0))
  return found


def test_sums_never_claim_more_than_the_wealth():
  rng = np.random.default_rng(0)
  for _ in range(200):
    x = rng.beta(*rng.uniform(0.1, 3, 2), size=rng.integers(1, 9))
    m, bet = rng.uniform(0.01, 1), rng.uniform(0, 1)
    assert claimed(x, m, bet) <= wealth(x, m, bet) + 1e-9
  np.testing.assert_allclose(sequences._SHARES.sum(), 1)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 3.0)])
def test_the_ends_are_those_of_the_definition(bounds):
  low, high = bounds
  unit = np.random.default_rng(1).beta(0.6, 2, size=(2, 400))
  found = stats.confidence_sequence(low + (high - low) * unit, bounds=bounds, confidence=0.9)
  for row, n in ((0, 400), (1, 60), (1, 3)):
    x = unit[row, :n]
    expected = low + (high - low) * np.array([lower(x, 0.9), 1 - lower(1 - x, 0.9)])
    ends = [found.low[row, n - 1], found.high[row, n - 1]]
    np.testing.assert_allclose(ends, expected, atol=2e-5 * (high - low))


EVALUATOR = jr.Evaluator("nDCG@10 RR", groups=2)
VALUES = np.random.default_rng(2).random((2, 300), np.float32)


def added(rows, evaluator=EVALUATOR, **options):
  values = dict(zip(evaluator.names, VALUES[:, rows], strict=True))
  if evaluator.groups:
    options["groups"] = jnp.arange(values["RR"].size) % 2
  return evaluator.add(evaluator.init(), values, **options)


@thorough
def test_a_state_has_the_interval_of_its_values_in_any_order_of_merging():
  expected = stats.confidence_sequence(VALUES)
  parts = [slice(0, 40), slice(40, 41), slice(41, 300)]
  state = EVALUATOR.init()
  for part in reversed(parts):
    state = EVALUATOR.merge(added(part), state)
  for found in (stats.confidence_sequence(state), jax.jit(stats.confidence_sequence)(state)):
    np.testing.assert_allclose(found.low, expected.low[:, -1], atol=1e-5)
    np.testing.assert_allclose(found.high, expected.high[:, -1], atol=1e-5)
  intervals = EVALUATOR.interval(state, anytime=True)
  np.testing.assert_allclose([*intervals.values()], np.array(found).T, atol=1e-6)
  narrower = EVALUATOR.interval(state, anytime=True, confidence=0.5)
  assert all(narrower[name][0] > intervals[name][0] for name in intervals)
  wider = EVALUATOR.interval(state, anytime=True, bounds=(-1, 1))["RR"]
  expected = stats.confidence_sequence(VALUES[1], bounds=(-1, 1))
  np.testing.assert_allclose(wider, np.array(expected)[:, -1], atol=1e-5)
  of_group = EVALUATOR.group(state, 1)
  assert EVALUATOR.interval(of_group, anytime=True)["RR"][0] < intervals["RR"][0]


def test_a_state_has_a_constant_size():
  sizes = [
    [x.shape for x in jax.tree.leaves(state)] for state in (EVALUATOR.init(), added(slice(None)))
  ]
  assert sizes[0] == sizes[1]


@thorough
def test_states_of_devices_and_of_a_sweep():
  plain = jr.Evaluator("nDCG@10 RR")
  mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))

  def of_device(values):
    state = plain.init(axis_name="data")
    state = plain.add(state, dict(zip(plain.names, values, strict=True)))
    return plain.all_reduce(state, "data")

  spread = jax.shard_map(of_device, mesh=mesh, in_specs=jax.P(None, "data"), out_specs=jax.P())
  state = jax.jit(spread)(VALUES)
  expected = stats.confidence_sequence(VALUES)
  found = stats.confidence_sequence(state)
  np.testing.assert_allclose(found.high, expected.high[:, -1], atol=1e-5)
  np.testing.assert_allclose(state.least, VALUES.min(1))
  np.testing.assert_allclose(state.largest, VALUES.max(1))
  swept = jax.vmap(lambda x: plain.add(plain.init(), dict(zip(plain.names, x, strict=True))))(
    np.stack([VALUES, VALUES[::-1]])
  )
  intervals = plain.interval(swept, anytime=True)
  np.testing.assert_allclose(intervals["RR"][1], expected.high[:, -1][::-1], atol=1e-5)


@thorough
def test_sums_and_equal_weights():
  assert stats.confidence_sequence(jr.Evaluator("RR").init()) == (0.0, 1.0)
  state = added(slice(None), query_weights=jnp.full(300, 0.3))
  expected = stats.confidence_sequence(VALUES)
  np.testing.assert_allclose(stats.confidence_sequence(state).low, expected.low[:, -1], atol=1e-5)
  nearly = added(slice(None), query_weights=jnp.linspace(0.99, 1, 300))
  with pytest.raises(ValueError, match="have different weights"):
    stats.confidence_sequence(nearly)
  weighted = added(slice(None), query_weights=jnp.linspace(0.5, 1, 300))
  assert np.isnan(jax.jit(stats.confidence_sequence)(weighted).low).all()
  for call in (
    lambda: EVALUATOR.interval(weighted, anytime=True),
    lambda: stats.confidence_sequence(weighted),
  ):
    with pytest.raises(ValueError, match="have different weights.*leave query_weights out"):
      call()


def test_bounds_by_the_names_of_measures():
  evaluator = jr.Evaluator("RR gm_map")
  values = {"RR": jnp.linspace(0, 1, 50), "gm_map": jnp.linspace(-9, 0, 50)}
  state = evaluator.add(evaluator.init(), values)
  found = evaluator.interval(state, anytime=True, bounds={"gm_map": (-12, 5)})
  rr = jr.Evaluator("RR")
  alone = rr.interval(rr.add(rr.init(), {"RR": values["RR"]}), anytime=True)
  np.testing.assert_allclose(found["RR"], alone["RR"], rtol=1e-6)
  expected = stats.confidence_sequence(values["gm_map"], bounds=(-12, 5))
  logarithms = np.log(found["gm_map"])
  np.testing.assert_allclose(logarithms, [expected.low[-1], expected.high[-1]], rtol=1e-4)
  with pytest.raises(ValueError, match="bounds must be those of measures .* RR, gm_map, got 'AP'"):
    evaluator.interval(state, anytime=True, bounds={"AP": (0, 1)})


@pytest.mark.parametrize("value", [0.1, 0.4, 0.7])
def test_values_that_are_all_equal_have_an_interval(value):
  evaluator = jr.Evaluator("RR")
  state = evaluator.init()
  for part in np.array_split(np.full(200_000, value, np.float32), 7):
    state = evaluator.add(state, {"RR": part})
  low, high = evaluator.interval(state)["RR"]
  assert low == pytest.approx(value, rel=1e-6)
  assert high == pytest.approx(value, rel=1e-6)


@thorough
def test_ends_of_confidence_and_of_values():
  values = np.array([[0.0] * 60, [1.0] * 60])
  found = stats.confidence_sequence(values)
  assert found.low[0, -1] == 0
  assert found.high[1, -1] == 1
  assert 0 < found.high[0, -1] < 0.12
  np.testing.assert_allclose(found.low[1], 1 - found.high[0], atol=1e-6)
  whole = stats.confidence_sequence(values, confidence=1.0)
  np.testing.assert_array_equal(whole.low, 0)
  np.testing.assert_array_equal(whole.high, 1)
  # Values are rounded.
  assert stats.confidence_sequence([1.0000002, 0.5]).high[0] == 1
  assert stats.confidence_sequence(np.ones((0, 3))).low.shape == (0, 3)
  spoiled = stats.confidence_sequence([0.5, np.nan, 0.5])
  np.testing.assert_array_equal(np.isnan(spoiled.low), [False, True, True])


@quick("wide", [False, True], [False])
def test_dtypes_and_jit(wide):
  with jax.enable_x64(wide):
    x = VALUES.astype(np.float64 if wide else np.float32)
    found = stats.confidence_sequence(x)
    assert found.low.dtype == x.dtype
    jitted = jax.jit(jax.vmap(stats.confidence_sequence))(x)
    np.testing.assert_allclose(jitted.high, found.high, atol=1e-6)
    jitted = jax.jit(stats.confidence_sequence)(np.array([0.5, 1.5, 0.5]))
    np.testing.assert_array_equal(np.isnan(jitted.low), [False, True, True])


@thorough
def test_many_queries_of_nearly_one_value():
  x = np.float32(0.9) + np.float32(1e-4) * np.random.default_rng(0).random(1 << 20, np.float32)
  found = stats.confidence_sequence(x)
  x = x.astype(np.float64)
  ends = lower(x, 0.95), 1 - lower(1 - x, 0.95)
  np.testing.assert_allclose([found.low[-1], found.high[-1]], ends, atol=2e-6)


STATE = added(slice(None))
DIFFERENCES = EVALUATOR.add(
  EVALUATOR.init(), {"nDCG@10": VALUES[0] - 1, "RR": VALUES[1]}, groups=jnp.zeros(300, jnp.int32)
)


@pytest.mark.parametrize(
  ("error", "message", "call"),
  [
    (
      ValueError,
      r"^stats.confidence_sequence: values must be within the bounds, 0 and 1, got 2;.*\(-1, 1\)",
      lambda: stats.confidence_sequence([0.5, 2.0]),
    ),
    (
      ValueError,
      r"^Evaluator.interval: values must be within the bounds, 0 and 1, got -0\.99",
      lambda: EVALUATOR.interval(DIFFERENCES, anytime=True),
    ),
    (
      ValueError,
      "^Evaluator.interval: values of DCG have no bounds",
      lambda: jr.Evaluator("DCG").interval(jr.Evaluator("DCG").init(), anytime=True),
    ),
    (
      ValueError,
      "^Evaluator.interval: bounds are those of an interval for all times; pass anytime=True",
      lambda: EVALUATOR.interval(STATE, bounds=(0, 1)),
    ),
    (
      ValueError,
      "two finite numbers in ascending order, got 1 and 0",
      lambda: stats.confidence_sequence([0.5], bounds=(1, 0)),
    ),
    (
      ValueError,
      "two finite numbers in ascending order, got 0 and inf",
      lambda: EVALUATOR.interval(STATE, anytime=True, bounds=(0, math.inf)),
    ),
    (TypeError, "bounds must be the least", lambda: stats.confidence_sequence([0.5], bounds=1)),
    (TypeError, "anytime must be True or False", lambda: EVALUATOR.interval(STATE, anytime=1)),
    (ValueError, "with at least 1 query,", lambda: stats.confidence_sequence([])),
    (
      ValueError,
      r"confidence must be in \[0, 1\]",
      lambda: stats.confidence_sequence([0.5], confidence=2),
    ),
  ],
)
def test_mistakes(error, message, call):
  with pytest.raises(error, match=message):
    call()


@pytest.mark.parametrize("values", [[0.5, np.inf], [np.nan, 5.0], [0.5, -np.inf]])
def test_values_beyond_the_bounds_are_refused_beside_a_nan_and_if_infinite(values):
  with pytest.raises(ValueError, match="values must be within the bounds, 0 and 1"):
    stats.confidence_sequence(jnp.array(values))


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, np.nan), (0.5, 0.5), (1.0, 0.0)])
def test_bounds_in_arrays_are_checked(bounds):
  with pytest.raises(ValueError, match="bounds must be two finite numbers in ascending order"):
    stats.confidence_sequence(jnp.full(3, 0.5), bounds=tuple(map(jnp.asarray, bounds)))


@quick("name", [*claims.VALUES][:4] + [*claims.VALUES][-1:], ())
def test_no_look_is_false_too_often(name):
  """Of 5,000 looks in each of 2,000 runs; the page has the same table."""
  stops, fixed, width = claims.looks(name)
  assert stops <= 0.05
  assert fixed > 0.4
  # Where values vary over a small part of their range, each says less.
  assert width <= (4 if name.endswith("0.02") else 2.5)
