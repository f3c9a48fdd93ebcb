"""Agreement of two rankings against their definitions in plain Python."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import agreement
from tests.helpers.suites import quick, thorough

INF = math.inf


def groups(scores):
  """The indices of items by score, best first; items at -inf have no rank."""
  shown = [s for s in scores if s > -INF]
  return [
    [i for i, s in enumerate(scores) if s == value] for value in sorted(set(shown), reverse=True)
  ]


def seen(scores, depth):
  """The items down to a depth; tied items all have the best of their ranks."""
  found = set()
  for group in groups(scores):
    if len(found) < depth:
      found |= set(group)
  return found


def slow_rbo(x, y, p, deep=400):
  """The sum of the definition down to a depth at which the weights vanish."""
  sizes = sorted(sum(v > -INF for v in z) for z in (x, y))
  s, longer = sizes
  if s == 0:
    return 0.0

  def agreement_at(d):
    a, b = seen(x, d), seen(y, d)
    size = max(len(a), d) + max(len(b), d)
    unseen = max(d - s, 0) * (agreement_at(s) if d > s else 0)
    return 2 * (len(a & b) + unseen) / size

  by_depth = [agreement_at(d) for d in range(1, longer + 1)]
  by_depth += by_depth[-1:] * (deep - longer)
  return sum((1 - p) * p**i * value for i, value in enumerate(by_depth))


def slow_residual(x, y, p, deep=1500):
  """RBO of the continuations with the most and with the fewest items in common."""
  s, longer = sorted(sum(v > -INF for v in z) for z in (x, y))
  total = 0.0
  for d in range(s + 1, deep):
    a, b = seen(x, d), seen(y, d)
    size = max(len(a), d) + max(len(b), d)
    common = len(a & b)
    # Every unseen item of a list may be one that the other shows, as long as there are such items.
    free = max(d - s, 0) + max(d - longer, 0)
    most = common + free if d <= longer else min(d, common + free)
    total += (1 - p) * p ** (d - 1) * 2 * (most - common) / size
  return total


def slow_tau_ap(x, y):
  """The mean of the definition over all orders of tied items in both lists."""
  kept = [i for i in range(len(x)) if x[i] > -INF and y[i] > -INF]
  if len(kept) < 2:
    return 0.0
  values = []
  for order in orders([x[i] for i in kept]):
    total = 0.0
    for r in range(1, len(order)):
      item = kept[order[r]]
      above = [kept[j] for j in order[:r]]
      total += sum(1.0 if y[j] > y[item] else 0.5 * (y[j] == y[item]) for j in above) / r
    values.append(2 * total / (len(order) - 1) - 1)
  return sum(values) / len(values)


def orders(scores):
  """All orders of items, best first, that agree with the scores."""
  parts = [list(itertools.permutations(group)) for group in groups(scores)]
  return [sum(map(list, chosen), []) for chosen in itertools.product(*parts)]


def cases(n, count, seed=0, levels=4):
  """Pairs of lists with ties and items that are missing on either side, and a mask."""
  rng = np.random.default_rng(seed)
  x, y = rng.integers(0, levels, (2, count, n)).astype(np.float32)
  for z in (x, y):
    z[rng.random(z.shape) < 0.25] = -INF
  where = rng.random(x.shape) < 0.85
  where[0] = False
  return x, y, where


def rows(x, y, where):
  return [(a[m].tolist(), b[m].tolist()) for a, b, m in zip(x, y, where, strict=True)]


@pytest.mark.parametrize("levels", [3, 100])
@quick("p", [0.5, 0.9], [0.9])
def test_rbo_is_its_definition(p, levels):
  x, y, where = cases(9, 40, levels=levels)
  found = agreement.rbo(x, y, p=p, where=where)
  expected = [slow_rbo(a, b, p) for a, b in rows(x, y, where)]
  np.testing.assert_allclose(found, expected, atol=2e-6)
  np.testing.assert_allclose(agreement.rbo(y, x, p=p, where=where), expected, atol=2e-6)


@pytest.mark.parametrize("levels", [3, 100])
@quick("p", [0.5, 0.9], [0.9])
def test_the_residual_is_its_definition(p, levels):
  x, y, where = cases(9, 40, seed=1, levels=levels)
  found = agreement.rbo_residual(x, y, p=p, where=where)
  expected = [slow_residual(a, b, p) for a, b in rows(x, y, where)]
  np.testing.assert_allclose(found, expected, atol=3e-6)


def test_the_residual_bounds_what_may_follow():
  """Continued lists change the overlap by no more than the residual of their beginnings."""
  rng = np.random.default_rng(0)
  x, y = (np.argsort(rng.random((50, 30)), axis=-1).astype(np.float32) for _ in range(2))
  short = [np.where(z >= 25, z, -INF) for z in (x, y)]
  whole, begun = agreement.rbo(x, y, p=0.8), agreement.rbo(*short, p=0.8)
  assert np.all(np.abs(whole - begun) <= agreement.rbo_residual(*short, p=0.8) + 1e-6)
  assert np.all(agreement.rbo_residual(x, y, p=0.8) < agreement.rbo_residual(*short, p=0.8))


def test_the_ends_of_p():
  x, y, _ = cases(9, 20, levels=100)
  both = np.where((x > -INF) & (y > -INF), 1, 0)
  x[:, 0], y[:, 0] = 200, 200
  np.testing.assert_allclose(agreement.rbo(x, y, p=0.0), 1)
  np.testing.assert_allclose(agreement.rbo_residual(x, y, p=0.0), 0, atol=1e-7)
  np.testing.assert_allclose(agreement.rbo_residual(x, y, p=1.0), 1, atol=1e-6)
  full = np.where(both, x, 0)
  np.testing.assert_allclose(agreement.rbo(full, full[:, ::-1], p=1.0), 1, atol=1e-6)
  # A long list and a small p: what the sum leaves out is not lost in rounding.
  long = np.arange(3000.0)
  np.testing.assert_allclose(agreement.rbo_residual(long, long, p=0.5), 0, atol=1e-9)


@pytest.mark.parametrize("levels", [2, 3, 100])
def test_tau_ap_is_its_definition(levels):
  x, y, where = cases(6, 40, seed=2, levels=levels)
  found = agreement.tau_ap(x, y, where=where)
  np.testing.assert_allclose(found, [slow_tau_ap(a, b) for a, b in rows(x, y, where)], atol=2e-6)


def test_tau_ap_of_long_lists():
  rng = np.random.default_rng(3)
  x, y = rng.normal(size=(2, 700)).astype(np.float32)
  y += x
  order = np.argsort(-x)
  greater = np.tril(y[order][None] > y[order][:, None], -1).sum(1)[1:]
  expected = 2 * np.mean(greater / np.arange(1, 700)) - 1
  np.testing.assert_allclose(agreement.tau_ap(x, y), expected, atol=2e-6)
  np.testing.assert_allclose(agreement.tau_ap(x, x), 1, atol=1e-6)
  np.testing.assert_allclose(agreement.tau_ap(x, -x), -1, atol=1e-6)


@thorough
@pytest.mark.parametrize(
  "function",
  [
    lambda x, y, **where: agreement.rbo(x, y, p=0.8, **where),
    lambda x, y, **where: agreement.rbo_residual(x, y, p=0.8, **where),
    agreement.tau_ap,
  ],
)
def test_masks_transformations_and_dtypes(function):
  x, y, where = cases(12, 6, seed=4)
  expected = function(x, y, where=where)
  spoiled = function(np.where(where, x, np.nan), np.where(where, y, 1e9), where=where)
  np.testing.assert_array_equal(spoiled, expected)
  mapped = jax.jit(jax.vmap(lambda x, y, where: function(x, y, where=where)))(x, y, where)
  np.testing.assert_allclose(mapped, expected, atol=1e-6)
  half = function(jnp.asarray(x, jnp.bfloat16), jnp.asarray(y, jnp.bfloat16), where=where)
  np.testing.assert_allclose(half, expected, atol=1e-6)
  assert half.dtype == jnp.float32
  x[1, np.argmax(where[1])] = np.nan
  np.testing.assert_array_equal(np.isnan(function(x, y, where=where)), np.arange(6) == 1)
  assert function(jnp.zeros((2, 0)), jnp.zeros((2, 0))).shape == (2,)
  with jax.enable_x64(True):
    assert function(x.astype(np.float64), y, where=where).dtype == jnp.float64


def test_what_is_masked_never_matters():
  x, y, where = cases(9, 40, seed=4)
  expected = agreement.tau_ap(x, y, where=where)
  hidden = np.where(where, x, np.nan), np.where(where, y, 1e9)
  np.testing.assert_array_equal(
    agreement.tau_ap(*(z.astype(np.float32) for z in hidden), where=where), expected
  )
  x[1, np.argmax(where[1])] = np.nan
  np.testing.assert_array_equal(
    np.isnan(agreement.rbo(x, y, p=0.9, where=where)), np.arange(40) == 1
  )


def mistakes():
  x = jnp.ones((2, 3))
  return [
    (
      ValueError,
      "agreement.rbo: x and y must have one shape",
      lambda: agreement.rbo(x, x[0], p=0.9),
    ),
    (ValueError, r"p must be in \[0, 1\], got 2", lambda: agreement.rbo(x, x, p=2)),
    (TypeError, "p must be a scalar", lambda: agreement.rbo_residual(x, x, p=x)),
    (TypeError, "where must be boolean", lambda: agreement.tau_ap(x, x, where=x)),
    (ValueError, "x and reference must have one shape", lambda: agreement.tau_ap(x, x[0])),
    (ValueError, "got a scalar", lambda: agreement.tau_ap(1.0, 1.0)),
  ]


def test_mistakes_say_what_was_expected_and_what_came():
  for error, message, call in mistakes():
    with pytest.raises(error, match=message):
      call()
