"""Values of methods of fusion, of normalisations and of `train`, against their definitions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxrank import fusion
from jaxrank.fusion import _define
from tests.fusion import cases, oracles
from tests.fusion.cases import QUERIES, SYSTEMS, N

TOLERANCE = {"rtol": 3e-6, "atol": 3e-6}
# The points of sums may cancel.
OF_SCORES = {"rtol": 3e-6, "atol": 3e-5}


def expected(name, x, where, weights, **parameters):
  table = {"trained": cases.tables()[name]} if name in cases.tables() else {}
  rule = name.partition(",")[0]
  return cases.padded(
    [
      oracles.fused(rule, scores, weight, **table, **parameters)
      for scores, weight in zip(cases.valid(x, where), weights, strict=True)
    ],
    where,
  )


def test_all_methods_and_normalisations_are_here():
  assert {name.partition(",")[0] for name in cases.METHODS} == set(_define.METHODS)
  assert set(cases.NORMALISATIONS) == set(_define.NORMALISATIONS)
  assert set(oracles.METHODS) == set(_define.METHODS)


@pytest.mark.parametrize("name", cases.METHODS)
def test_values_of_methods(name):
  """With a weight for each system of each query."""
  x, where, weights = cases.queries()
  found = np.asarray(cases.call(name, x, where, weights))
  assert found.dtype == np.float32
  right = expected(name, x, where, weights, **cases.METHODS[name])
  np.testing.assert_allclose(found, right, **(OF_SCORES if name in cases.OF_SCORES else TOLERANCE))
  assert np.isnan(right).any()
  assert np.isneginf(right).any()
  assert np.isposinf(right).any() == (name in (*cases.OF_SCORES, "seg_fuse"))


@pytest.mark.parametrize("name", [n for n in cases.METHODS if cases.METHODS[n] and "," not in n])
def test_values_of_methods_with_their_defaults(name):
  x, where, weights = cases.queries()
  given = {} if name in cases.tables() else {"weights": weights}
  table = {"trained": cases.tables()[name]} if name in cases.tables() else {}
  found = cases.function(name)(x, where=where, **given, **table)
  np.testing.assert_allclose(found, expected(name, x, where, weights), **TOLERANCE | {"atol": 3e-5})


@pytest.mark.parametrize(
  ("name", "parameters"),
  [
    ("rrf, weights of ranks", {"k": 60.0}),
    ("comb_gmnz", {"gamma": 0.0}),
    ("rbc", {"phi": 0.0}),
    ("rbc", {"phi": 1.0}),
    ("logn_isr", {"sigma": 0.0}),
    ("slide_fuse", {"w": 0.0}),
    ("slide_fuse", {"w": 100.0}),
  ],
)
def test_parameters_at_their_ends(name, parameters):
  x, where, weights = cases.queries()
  found = cases.call(name, x, where, weights, **parameters)
  right = expected(name, x, where, weights, **(cases.METHODS[name] | parameters))
  np.testing.assert_allclose(found, right, **TOLERANCE | {"atol": 3e-5})


@jax.jit
def with_shared_weights(x, where, weights):
  """All methods that take weights, without weights and with one for each system."""
  names = [name for name in cases.METHODS if name not in cases.tables()]
  return {name: [cases.call(name, x, where, given) for given in (None, weights)] for name in names}


def test_weights_of_systems_and_none():
  x, where, _ = cases.queries()
  weights = np.float32([0.5, 0, 2])
  for name, values in with_shared_weights(x, where, weights).items():
    for given, found in zip(([1, 1, 1], weights), values, strict=True):
      each = np.broadcast_to(np.float32(given), (QUERIES, SYSTEMS))
      np.testing.assert_allclose(
        found, cases.call(name, x, where, each), rtol=1e-6, atol=1e-5, err_msg=name
      )


def test_ranks_behind_the_last_segment():
  order = np.random.default_rng(0).permutation(5200)
  rank = 1 + order
  for name, ends, beyond in (
    ("seg_fuse", oracles.SEGMENTS, 0),
    ("bayes_fuse", oracles.RANGES, oracles.LOG_ODDS_OF_OTHERS),
  ):
    table = np.arange(1.0, len(ends) + 1)
    segment = np.searchsorted(ends, rank)
    points = np.append(table, beyond)[segment]
    scores = -order[None] / 5200
    found = cases.function(name)(scores, trained=table[None])
    right = points * (scores[0] + 1) if name == "seg_fuse" else points
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    labels = np.random.default_rng(1).integers(0, 2, 5200)
    learnt = fusion.train(name, scores, labels)
    hits = labels[np.argsort(order)]
    starts = [0, *ends[:-1]]
    share = [sum(hits[a:b]) / (b - a) for a, b in zip(starts, ends, strict=True)]
    right = [oracles.log_odds(p) for p in share] if name == "bayes_fuse" else share
    np.testing.assert_allclose(learnt[0], right, rtol=1e-5)


@pytest.mark.parametrize(
  ("name", "missing"),
  [
    (name, missing)
    for name in cases.NORMALISATIONS
    for missing in (None, "min", 0.25)
    if name != "borda" or missing is None
  ],
)
def test_values_of_normalisations(name, missing):
  x, where, _ = cases.queries()
  given = {} if missing is None else {"missing": missing}
  found = np.asarray(cases.call(name, x, where, **given))
  assert found.dtype == np.float32
  parameters = cases.NORMALISATIONS[name] | given
  lists = [oracles.normalised(name, scores, **parameters) for scores in cases.valid(x, where)]
  right = cases.padded(lists, where, (SYSTEMS,))
  np.testing.assert_allclose(found, right, **TOLERANCE)
  assert np.isnan(right).any()
  assert np.isneginf(right).any()


COLLECTIONS, JUDGED = 40, 6


@functools.cache
def collections():
  """Scores `[collections, systems, queries, n]`, labels and a mask; some queries are padding."""
  rng = np.random.default_rng(2)
  shape = COLLECTIONS, SYSTEMS, JUDGED, N
  kind = rng.random((COLLECTIONS, SYSTEMS, JUDGED, 1))
  x = np.where(kind < 0.4, rng.integers(0, 4, shape), rng.normal(size=shape))
  x = np.where(rng.random(shape) < rng.random(kind.shape), -np.inf, x)
  x = np.where(kind > 0.9, -np.inf, x)
  labels = rng.choice([-1, 0, 0, 1, 2], (COLLECTIONS, JUDGED, N))
  labels[::7, 0] = 2
  # In one collection all items are relevant and retrieved.
  x[1], labels[1] = np.maximum(x[1], 0), 2
  where = rng.random(labels.shape) < rng.random((COLLECTIONS, JUDGED, 1)) * 1.5
  where[::5, -1] = False
  where[:, 0, 0] = True
  where[1] = True
  junk = np.where(rng.random(shape) < 0.5, np.nan, 1e30)
  return np.where(where[:, None], x, junk).astype(np.float32), labels, where


@pytest.mark.parametrize("rel", [None, 2])
@pytest.mark.parametrize("name", cases.tables())
def test_values_of_train(name, rel):
  x, labels, where = collections()
  parameters = {"n_segments": 5} if name == "prob_fuse" and rel else {}

  def learn(x, labels, where):
    return fusion.train(name, x, labels, where=where, rel=rel, **parameters)

  found = np.asarray(jax.jit(jax.vmap(learn))(x, labels, where))
  assert found.dtype == np.float32
  right = np.array([
    oracles.train(name, *collection, **parameters)
    for collection in zip(x, labels >= (rel or 1), where, strict=True)
  ])  # fmt: skip
  np.testing.assert_allclose(found, right, **TOLERANCE)


def test_train_takes_one_query_and_functions():
  x, labels, where = (jnp.asarray(part[0]) for part in collections())

  @jax.jit
  def learn(x, labels, where):
    one = fusion.train("pos_fuse", x[:, 0], labels[0], where=where[0])
    several = fusion.train(fusion.pos_fuse, x[:, :1], labels[:1], where=where[:1])
    shaped = [part.reshape(*part.shape[:-2], 2, 3, N) for part in (x, labels, where)]
    grid = fusion.train("prob_fuse", shaped[0], shaped[1], where=shaped[2])
    return one, several, grid, fusion.train("prob_fuse", x, labels, where=where)

  one, several, grid, flat = learn(x, labels, where)
  np.testing.assert_array_equal(one, several)
  np.testing.assert_array_equal(grid, flat)


@pytest.mark.parametrize("name", cases.tables())
def test_train_of_a_system_with_nan_is_nan(name):
  x, labels, where = (part[0] for part in collections())
  query, item = np.argwhere(where)[0]
  spoilt = x.copy()
  spoilt[1, query, item] = np.nan

  @jax.jit
  @jax.vmap
  def learn(x):
    return fusion.train(name, x, labels, where=where)

  given, found = np.asarray(learn(np.stack([x, spoilt])))
  assert np.isfinite(given).all()
  assert np.isnan(found[1]).all()
  np.testing.assert_array_equal(found[[0, 2]], given[[0, 2]])


@pytest.mark.any_platform
def test_train_of_queries_on_an_explicit_mesh():
  lists = tuple(part[0] for part in collections())
  mesh = jax.make_mesh((2,), ("q",), axis_types=(AxisType.Explicit,))

  @jax.jit
  def learn(x, labels, where):
    return {name: fusion.train(name, x, labels, where=where) for name in cases.tables()}

  with jax.checking_leaks():
    right = learn(*lists)
  with jax.set_mesh(mesh):
    by_query = NamedSharding(mesh, P("q"))
    x = jax.device_put(lists[0], NamedSharding(mesh, P(None, "q")))
    found = learn(x, *jax.device_put(lists[1:], by_query))
  for name, table in right.items():
    np.testing.assert_allclose(found[name], table, rtol=3e-6, err_msg=name)
