"""Thresholds with a bound of the risk: their definition in fractions, and what they promise."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import stats

N, M = 9, 5
SHOWN = np.arange(1, M + 1)


def eighths(seed, bound=1, shape=(2, 100)):
  """Losses in multiples of an eighth of the bound, of which sums are exact."""
  rng = np.random.default_rng(seed)
  drawn = rng.integers(0, 9, (*shape, N, M)) * rng.random((*shape, 1, 1))
  return np.float32(bound / 8 * -np.sort(-np.floor(drawn), axis=-1))


def defined(losses, level, bound):
  """The index of the threshold, and the mean loss there, of a list of losses of each query."""
  for i, column in enumerate(zip(*losses, strict=True)):
    total = sum(map(Fraction, column))
    if (total + Fraction(bound)) / (len(losses) + 1) <= Fraction(level):
      return i, float(total / len(losses))
  return -1, np.nan


@pytest.mark.parametrize("bound", [1, 4])
@pytest.mark.parametrize("level", ["0.2", "0.3", "0.45", "0.7"])
def test_the_definition(level, bound):
  """Also where the mean is the level."""
  losses = eighths(0, bound)
  found = stats.risk_control(losses, SHOWN, level=float(level) * bound, bound=bound)
  rows = losses.reshape(-1, N, M).tolist()
  index, risk = zip(*(defined(row, Fraction(level) * bound, bound) for row in rows), strict=True)
  index = np.reshape(index, (2, 100))
  assert len(np.unique(index)) >= 3
  np.testing.assert_array_equal(found.position, index)
  np.testing.assert_array_equal(found.threshold, np.where(index < 0, np.nan, 1 + index))
  np.testing.assert_allclose(found.risk, np.reshape(risk, (2, 100)), rtol=1e-6)
  totals = Fraction(level) * (N + 1) * bound - bound
  assert (losses.astype(float).sum(-2) == float(totals)).any()


# A pool of queries, of which 40 choose a threshold for the others.
POOL, CHOOSING, CURVE = 100, 40, np.linspace(0, 1, 101, dtype=np.float32)
SPLITS = jax.random.split(jax.random.key(0), 1000)


@jax.jit
def held_out(pool, level):
  """The position and the mean loss of the queries that did not choose, for each split."""

  def of_split(key):
    order = jax.random.permutation(key, POOL)
    chosen = stats.risk_control(pool[order[:CHOOSING]], CURVE, level=level)
    return chosen.position, jnp.mean(pool[order[CHOOSING:], chosen.position])

  return jax.vmap(of_split)(SPLITS)


@pytest.mark.parametrize("level", [0.1, 0.25])
@pytest.mark.parametrize("kind", ["curves", "steps"])
def test_the_expected_loss_of_other_queries_is_at_most_the_level(kind, level):
  u = np.random.default_rng(1).random((POOL, 1), np.float32)
  pool = (1 - CURVE[None]) ** (0.3 + 6 * u) if kind == "curves" else np.float32(CURVE[None] < u)
  index, risk = held_out(pool, level)
  assert (index >= 0).all()
  error = np.std(risk) / len(SPLITS) ** 0.5
  assert np.mean(risk) <= level + 3 * error
  assert np.mean(risk) >= level - 2 / CHOOSING
  # The mean loss of the others is above the level for many splits: the promise is one of means.
  assert np.mean(np.asarray(risk) > level) > 0.1


def test_no_threshold_is_said_to_be_none():
  losses = np.zeros((3, N, M), np.float32)
  losses[0] = 0.5
  found = stats.risk_control(losses, SHOWN, level=0.2)
  np.testing.assert_array_equal(found.position, [-1, 0, 0])
  np.testing.assert_array_equal(found.threshold, [np.nan, 1, 1])
  np.testing.assert_array_equal(found.risk, [np.nan, 0, 0])
  # Nine queries without a loss promise 0.1, and no less.
  np.testing.assert_array_equal(stats.risk_control(losses, SHOWN, level=0.1).position, [-1, 0, 0])
  np.testing.assert_array_equal(stats.risk_control(losses, SHOWN, level=0.099).position, -1)
  # A loss that is unknown spoils its own sample alone, whatever the other thresholds are.
  losses[1, 2, -1] = np.nan
  spoiled = stats.risk_control(losses, SHOWN, level=1.0)
  np.testing.assert_array_equal(spoiled.position, [0, -1, 0])
  np.testing.assert_array_equal(spoiled.threshold, [1, np.nan, 1])
  np.testing.assert_array_equal(spoiled.risk, [0.5, np.nan, 0])


def test_transformations_and_traced_numbers():
  losses, levels = eighths(2, shape=(4,)), jnp.array([0.3, 0.5, 0.9])

  def control(losses, level, bound=1.0):
    return stats.risk_control(losses, SHOWN, level=level, bound=bound)

  expected = [control(losses, float(level)) for level in levels]
  assert len({*np.ravel([found.position for found in expected]).tolist()}) >= 3
  of_levels = jax.vmap(control, (None, 0))
  for found in (of_levels(losses, levels), jax.jit(of_levels)(losses, levels)):
    for x, y in zip(found, zip(*expected, strict=True), strict=True):
      np.testing.assert_array_equal(x, np.stack(y))
  of_each = jax.jit(jax.vmap(control, (0, None, 0)))(losses, 0.5, jnp.array([1.0, 1, 1, 9]))
  np.testing.assert_array_equal(of_each.position, [*expected[1].position[:3], -1])
  with jax.enable_x64(True):
    wide = control(losses.astype(float), 0.5)
    assert wide.threshold.dtype == wide.risk.dtype == jnp.float64
    np.testing.assert_array_equal(wide.position, expected[1].position)


def test_what_is_wrong_under_jit_is_no_threshold():
  losses = np.zeros((3, N, M), np.float32)
  losses[0, 4, 3], losses[1, 4, :2] = 0.25, 1.25
  found = jax.jit(stats.risk_control)(losses, SHOWN, level=0.5)
  np.testing.assert_array_equal(found.position, [-1, -1, 0])
  np.testing.assert_array_equal(np.isnan(found.risk), [True, True, False])


def test_losses_that_increase_as_they_are_refused_and_as_they_are_taken():
  losses = np.random.default_rng(3).random((3, N, M), np.float32)
  with pytest.raises(ValueError, match=r"pass the losses jax\.lax\.cummax\(losses, axis="):
    stats.risk_control(losses, SHOWN, level=0.9)
  largest = jax.lax.cummax(losses, axis=losses.ndim - 1, reverse=True)
  found = stats.risk_control(largest, SHOWN, level=0.7)
  rows = np.maximum.accumulate(losses[..., ::-1], axis=-1)[..., ::-1].tolist()
  np.testing.assert_array_equal(found.position, [defined(row, 0.7, 1)[0] for row in rows])


def test_roundings_are_no_mistakes():
  losses = np.full((N, M), 0.5, np.float32)
  losses[0] = [1 + 1e-7, 0.5, 0.5 + 1e-7, 0, -1e-7]
  assert stats.risk_control(losses, SHOWN, level=0.7).position == 0
  # In 32 bits, 0.53 is less than 53 / 100.
  missed = np.arange(99)[:, None] < 52
  assert stats.risk_control(missed, [1], level=0.53).position == 0
  assert stats.risk_control(missed, [1], level=0.5299).position == -1


def falling(others):
  """Losses from 1 to 0, but for some by query and threshold."""
  losses = np.linspace(1, 0, M) * np.ones((N, 1))
  for place, loss in others.items():
    losses[place] = loss
  return losses


@pytest.mark.parametrize(
  ("error", "message", "losses", "options"),
  [
    (ValueError, r"losses must have shape \[\.\.\., queries, thresholds\]", np.ones(M), {}),
    (ValueError, r"at least one of each, got \(0, 5\); pass", np.ones((0, M)), {}),
    (
      ValueError,
      r"thresholds must have shape \(4,\), as many as losses \(9, 4\) has of .*, got \(5,\); pass",
      np.ones((N, 4)),
      {},
    ),
    (
      ValueError,
      "between 0 and bound, 1, got 3 for query 2 at threshold 1; pass the largest .* as bound=",
      falling({(2, 1): 3, (2, 0): 0}),
      {},
    ),
    (ValueError, "between 0 and bound, 4, got -0.5 for", falling({(0, 4): -0.5}), {"bound": 4}),
    (
      ValueError,
      "not increase along .*, got 0.5 and then 0.75 for query 3 at thresholds 1 and 2; reverse",
      falling({(3, 1): 0.5, (3, 2): 0.75}),
      {},
    ),
    (TypeError, "losses must be an array of numbers", "losses", {}),
    (ValueError, "level must be more than 0 and at most bound, 1.0, got 10", None, {"level": 10}),
    (ValueError, "level must be more than 0 .* got 0; pass the expected loss", None, {"level": 0}),
    (ValueError, "level must be .* got nan", None, {"level": float("nan")}),
    (ValueError, "level must be .* got -1", None, {"level": jnp.array(-1)}),
    (TypeError, "level must be a number, got 'low'", None, {"level": "low"}),
    (TypeError, "level must be a scalar", None, {"level": np.ones(2)}),
    (ValueError, "bound must be positive and finite, got 0;", None, {"bound": 0}),
    (ValueError, "bound must be positive and finite, got inf", None, {"bound": np.inf}),
  ],
)
def test_mistakes(error, message, losses, options):
  losses = np.ones((N, M)) if losses is None else losses
  with pytest.raises(error, match=f"^stats.risk_control: .*{message}"):
    stats.risk_control(losses, SHOWN, **{"level": 0.5} | options)
