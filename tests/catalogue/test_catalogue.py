"""Counts over a catalogue, novelty and distances within lists, against plain Python."""

import collections
import itertools
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers.suites import quick, thorough

ITEMS = 7


def spread(ids, popularity):
  """The numbers of `compute` by their definitions."""
  ids = [int(i) for i in np.ravel(ids) if i >= 0]
  counts = collections.Counter(ids)
  c = [counts[i] for i in range(ITEMS)]
  pairs = sum(abs(a - b) for a in c for b in c)
  shares = [x / len(ids) for x in c if x]
  return {
    "coverage": len(counts) / ITEMS,
    "gini": pairs / (2 * ITEMS * sum(c)),
    "entropy": -sum(x * math.log(x) for x in shares),
    "mean_popularity": sum(popularity[i] for i in ids) / len(ids),
  }


def test_a_catalogue_counts_what_is_recommended():
  rng = np.random.default_rng(0)
  ids, popularity = rng.integers(-1, 5, (3, 10, 2)), rng.random(ITEMS)
  catalogue = jr.Catalogue(ITEMS, popularity)
  states = [catalogue.update(catalogue.init(), x) for x in ids]
  state = catalogue.merge(catalogue.merge(*states[:2]), states[2])
  found = catalogue.compute(state)
  assert found == pytest.approx(spread(ids, popularity))
  scanned, _ = jax.lax.scan(lambda s, x: (catalogue.update(s, x), None), catalogue.init(), ids)
  assert catalogue.compute(scanned) == found
  assert set(jr.Catalogue(ITEMS).compute(state)) == {"coverage", "gini", "entropy"}


def test_catalogues_over_devices():
  ids = np.random.default_rng(1).integers(0, ITEMS, (8, 3))
  catalogue = jr.Catalogue(ITEMS)
  mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))

  def reduced(ids):
    start = catalogue.init(axis_name="data")
    return catalogue.all_reduce(catalogue.update(start, ids), "data")

  spec = jax.P("data")
  state = jax.jit(jax.shard_map(reduced, mesh=mesh, in_specs=spec, out_specs=jax.P()))(ids)
  expected = catalogue.update(catalogue.init(), ids)
  np.testing.assert_array_equal(state.count, expected.count)

  def twice(ids):
    return catalogue.all_reduce(reduced(ids), "data")

  with pytest.raises(ValueError, match="would count the lists again"):
    jax.shard_map(twice, mesh=mesh, in_specs=spec, out_specs=jax.P())(ids)


def test_the_ends_of_a_catalogue():
  catalogue = jr.Catalogue(ITEMS, np.ones(ITEMS))
  assert set(catalogue.compute(catalogue.init()).values()) == {0.0}
  alike = catalogue.compute(catalogue.update(catalogue.init(), np.arange(ITEMS)))
  assert alike == pytest.approx(
    {"coverage": 1, "gini": 0, "entropy": math.log(ITEMS), "mean_popularity": 1}
  )
  for ids in ([0, ITEMS], [-2, 1]):
    with pytest.raises(ValueError, match="Catalogue.compute: 1 ids were of no item"):
      catalogue.compute(catalogue.update(catalogue.init(), np.array(ids)))


def lists(seed=0, n=6, levels=3):
  """Scores with ties and items that are not retrieved, popularity, vectors and a mask."""
  rng = np.random.default_rng(seed)
  scores = rng.integers(0, levels, (30, n)).astype(np.float32)
  scores[rng.random(scores.shape) < 0.15] = -np.inf
  where = rng.random(scores.shape) < 0.9
  where[0] = False
  popularity = rng.uniform(0.01, 1, scores.shape).astype(np.float32)
  vectors = rng.normal(size=(30, n, 3)).astype(np.float32)
  vectors[1, 0] = 0
  return scores, popularity, vectors, where


def orders(scores, where):
  """All orders of the retrieved items that agree with the scores."""
  kept = [i for i in range(len(scores)) if where[i] and scores[i] > -np.inf]
  groups = [[i for i in kept if scores[i] == s] for s in sorted({scores[i] for i in kept})[::-1]]
  for chosen in itertools.product(*(itertools.permutations(group) for group in groups)):
    yield [i for group in chosen for i in group]


def mean_over_orders(value, scores, where, k):
  values = [value(order[:k]) for order in orders(scores, where)]
  return sum(values) / len(values)


@quick("k", [1, 3, 50], [3])
def test_novelty_is_its_definition(k):
  scores, popularity, _, where = lists()
  found = jr.novelty(scores, popularity, where=where, k=k)
  expected = [
    mean_over_orders(
      lambda top, p=p: sum(-math.log2(p[i]) for i in top) / max(len(top), 1), s, m, k
    )
    for s, p, m in zip(scores, popularity, where, strict=True)
  ]
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  np.testing.assert_allclose(
    jr.novelty(scores, popularity, where=where, k=k, ranking=jr.Gumbel(1e-4)), expected, rtol=1e-4
  )


def test_novelty_needs_popularity_of_every_item():
  scores = jnp.array([[3.0, 2.0, 1.0]] * 3)
  popularity = jnp.array([[0.5, 0.0, 0.5], [0.5, jnp.nan, 0.5], [0.5, 0.25, 0.5]])
  where = jnp.array([[True, False, True], [True, False, True], [True, True, True]])
  np.testing.assert_allclose(jr.novelty(scores, popularity, where=where), [1, 1, 4 / 3], rtol=1e-6)
  np.testing.assert_array_equal(np.isnan(jr.novelty(scores, popularity)), [True, True, False])


DISTANCES = {
  "cosine": lambda a, b: 1 - a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30),
  "squared_euclidean": lambda a, b: ((a - b) ** 2).sum(),
}


def distance_within(top, vectors, distance):
  pairs = list(itertools.combinations(top, 2))
  return sum(DISTANCES[distance](vectors[i], vectors[j]) for i, j in pairs) / max(len(pairs), 1)


@pytest.mark.parametrize("distance", DISTANCES)
@quick("k", [1, 3, 50], [3])
def test_distance_is_its_definition(k, distance):
  scores, _, vectors, where = lists(1)
  found = jr.intra_list_distance(scores, vectors, where=where, k=k, distance=distance)
  expected = [
    mean_over_orders(lambda top, v=v: distance_within(top, v, distance), s, m, k)
    for s, v, m in zip(scores, vectors.astype(np.float64), where, strict=True)
  ]
  np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("ranking", [jr.Laplace(0.7), pytest.param(jr.Gumbel(0.7), marks=thorough)])
def test_smooth_distance_is_the_product_of_soft_masks(ranking):
  scores, _, vectors, where = lists(2, levels=100)
  scores, vectors, where = scores[:4] / 20, vectors[:4], where[:4]
  found = jr.intra_list_distance(scores, vectors, where=where, k=2, ranking=ranking)
  inside = np.stack(
    [
      # The soft mask of an item is the precision at k of its own, times k.
      2
      * jr.precision(
        scores, np.arange(6)[None] == np.full((4, 1), i), where=where, k=2, ranking=ranking
      )
      for i in range(6)
    ],
    axis=-1,
  )
  for row in range(1, 4):
    w = np.outer(inside[row], inside[row])
    np.fill_diagonal(w, 0)
    d = [[DISTANCES["cosine"](a, b) for b in vectors[row]] for a in vectors[row]]
    np.testing.assert_allclose(found[row], (w * d).sum() / w.sum(), atol=2e-5)
  slope = jax.grad(
    lambda s: jr.intra_list_distance(s, vectors[1], where=where[1], k=2, ranking=ranking)
  )(scores[1])
  assert np.all(np.isfinite(slope))
  assert np.any(slope != 0)
  np.testing.assert_array_equal(slope[~where[1]], 0)


def test_a_saved_state_of_a_catalogue_of_another_size_is_refused():
  """The counts of a state say how many items there are, also where its arrays were read alone."""
  one, another = jr.Catalogue(3), jr.Catalogue(2, jnp.ones(2))
  state = one.update(one.init(), jnp.array([[0, 2]]))
  leaves = jax.device_get(jax.tree.leaves(state))
  for restored in (
    jax.tree.unflatten(jax.tree.structure(another.init()), leaves),
    pickle.loads(pickle.dumps(state)),
  ):
    assert one.compute(restored) == one.compute(state)
    for call in (
      another.compute,
      lambda x: another.merge(another.init(), x),
      lambda x: another.update(x, jnp.array([[0]])),
    ):
      with pytest.raises(ValueError, match=r"of a catalogue of 2 items, got one of counts \[3\]"):
        call(restored)


def mistakes():
  x, vectors, ragged = jnp.ones((2, 3)), jnp.ones((2, 3, 4)), [[1.0], [1.0, 2.0]]
  catalogue = jr.Catalogue(3)
  return [
    (ValueError, "Catalogue: items must be at least 1", lambda: jr.Catalogue(0)),
    (ValueError, r"popularity must be \[3\], got \[2\]", lambda: jr.Catalogue(3, [1.0, 2.0])),
    (TypeError, "ids must be integers", lambda: catalogue.update(catalogue.init(), x)),
    (ValueError, "of a catalogue of 3 items", lambda: catalogue.compute(jr.Catalogue(2).init())),
    (ValueError, "of 3 items, got None; use", lambda: catalogue.compute(None)),
    (TypeError, "outside jit", lambda: jax.jit(catalogue.compute)(catalogue.init())),
    (
      ValueError,
      "'lists' is no mesh axis",
      lambda: catalogue.all_reduce(catalogue.init(), "lists"),
    ),
    (ValueError, "novelty: scores and popularity must have one shape", lambda: jr.novelty(x, x[0])),
    (ValueError, "novelty: scores must have rows of one length", lambda: jr.novelty(ragged, x[0])),
    (
      ValueError,
      "intra_list_distance: scores must have rows of one length",
      lambda: jr.intra_list_distance(ragged, vectors),
    ),
    (
      ValueError,
      "intra_list_distance: embeddings must have shape",
      lambda: jr.intra_list_distance(x, x),
    ),
    (
      ValueError,
      "distance must be one of",
      lambda: jr.intra_list_distance(x, vectors, distance="l1"),
    ),
  ]


def test_mistakes_say_what_was_expected_and_what_came():
  for error, message, call in mistakes():
    with pytest.raises(error, match=message):
      call()
