"""Methods of fusion, normalisations and training are those of ranx, where lists have no ties."""

import functools
import importlib.util
import warnings

import jax
import numpy as np
import pytest

from jaxrank import fusion
from tests.helpers.suites import thorough

pytestmark = thorough
if importlib.util.find_spec("ranx") is None:
  pytest.skip("ranx is not installed (extra: peers)", allow_module_level=True)

# By how many systems there are, so that no collection has one without items.
COLLECTIONS = {2: 160, 3: 180, 4: 160}
QUERIES, N = 3, 12
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
WEIGHTS = [0.5, 1.25, 2.0, 0.75]

# Names of ranx, ours, and the parameters of both.
METHODS = {
  "sum": ("comb_sum", {}),
  "max": ("comb_max", {}),
  "min": ("comb_min", {}),
  "med": ("comb_med", {}),
  "anz": ("comb_anz", {}),
  "mnz": ("comb_mnz", {}),
  "gmnz": ("comb_gmnz", {"gamma": 0.3}),
  "rrf": ("rrf", {"k": 7}),
  "isr": ("isr", {}),
  "log_isr": ("log_isr", {}),
  "logn_isr": ("logn_isr", {"sigma": 0.2}),
  "rbc": ("rbc", {"phi": 0.7}),
  "bordafuse": ("borda_fuse", {}),
}
WEIGHTED = {
  "wsum": "comb_sum",
  "wmnz": "weighted_mnz",
  "mixed": "mixed",
  "w_bordafuse": "borda_fuse",
}
CONDORCET = ["condorcet", "w_condorcet"]
# What ranx calls that which was trained.
TRAINED = {
  "mapfuse": ("map_fuse", "map_scores", {}),
  "posfuse": ("pos_fuse", "probs", {}),
  "slidefuse": ("slide_fuse", "probs", {"w": 2}),
  "probfuse": ("prob_fuse", "probs", {}),
  "segfuse": ("seg_fuse", "probs", {}),
  "bayesfuse": ("bayes_fuse", "log_odds", {}),
}
SEGMENTS = {"probfuse": {"n_segments": 4}}
NORMS = {
  "min-max": fusion.min_max,
  # What a system lacks is not the best of its list.
  "min-max-inverted": lambda x, where: fusion.min_max(np.where(x > -np.inf, -x, x), where=where),
  "max": fusion.max_norm,
  "sum": fusion.sum_norm,
  "zmuv": fusion.z_score,
  "rank": fusion.rank_norm,
  "borda": fusion.borda,
}
SYSTEMS = pytest.mark.parametrize("systems", COLLECTIONS)


@functools.cache
def peer():
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It warns of its own integer casts while it compiles.
    import ranx
    import ranx.fusion
    import ranx.normalization
  return ranx


@functools.cache
def collections(systems):
  """Scores `[collections, systems, queries, n]` without ties, labels and a mask."""
  rng = np.random.default_rng(systems)
  shape = COLLECTIONS[systems], systems, QUERIES, N
  # Systems agree to some extent, so that most majorities do not contradict each other.
  good = rng.normal(size=(COLLECTIONS[systems], 1, QUERIES, N))
  place = np.argsort(np.argsort(good + 0.15 * rng.normal(size=shape), axis=-1), axis=-1)
  x = (1.5 ** (place + rng.random(shape) * 0.5)).astype(np.float32)
  where = np.arange(N) < rng.integers(1, N + 1, (COLLECTIONS[systems], QUERIES, 1))
  has = where[:, None] & (rng.random(shape) < 0.3 + 0.9 * rng.random((*shape[:-1], 1)))
  # Each system retrieves an item, because ranx fails at a query without one.
  has[..., 0] = True
  labels = rng.choice([0, 0, 1, 2], where.shape)
  return np.where(has, x, np.float32(-np.inf)), labels, where


@functools.cache
def batch(systems):
  """All queries of all collections as one batch `[systems, queries, n]`."""
  x, labels, where = collections(systems)
  return np.moveaxis(x, 1, 0).reshape(systems, -1, N), where.reshape(-1, N)


def as_run(scores):
  """A run of lists `[queries, n]`."""
  return peer().Run({
    f"q{query:05}": {f"d{item}": float(s) for item, s in enumerate(x) if s > -np.inf}
    for query, x in enumerate(scores)
  })  # fmt: skip


@functools.cache
def runs(systems):
  return [as_run(x) for x in batch(systems)[0]]


def as_array(run, where):
  """The lists of a run, -inf for what it lacks and 0 on padding."""
  out = np.where(where, -np.inf, 0.0)
  for query, found in run.to_dict().items():
    for document, score in found.items():
      out[int(query[1:]), int(document[1:])] = score
  return out


def fuse(runs, method, norm=None, **parameters):
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    return peer().fuse(runs, norm=norm, method=method, params=parameters)


def test_all_names_are_here():
  ranx = peer()
  names = {*METHODS, *WEIGHTED, *CONDORCET, *TRAINED}
  assert len(names) == len([x for x in ranx.fusion.__all__ if not x.endswith("_train")]) == 25
  assert len({ranx.fusion.fusion_switch(name) for name in names}) == 25
  assert len(NORMS) == len(ranx.normalization.__all__) + 1
  assert sum(COLLECTIONS.values()) == 500


@SYSTEMS
@pytest.mark.parametrize("name", METHODS)
def test_methods(name, systems):
  x, where = batch(systems)
  ours, parameters = METHODS[name]
  found = getattr(fusion, ours)(x, where=where, **parameters)
  right = as_array(fuse(runs(systems), name, **parameters), where)
  np.testing.assert_allclose(found, right, **TOLERANCE)


@SYSTEMS
@pytest.mark.parametrize("name", WEIGHTED)
def test_methods_with_weights(name, systems):
  x, where = batch(systems)
  weights = WEIGHTS[:systems]
  found = getattr(fusion, WEIGHTED[name])(x, where=where, weights=weights)
  right = as_array(fuse(runs(systems), name, weights=weights), where)
  np.testing.assert_allclose(found, right, **TOLERANCE)


def decided(x, weights):
  """Whether no pair of items is drawn, also as ranx counts, and no majorities contradict.

  ranx counts a system that lacks both items for the second one of the comparison, so that both are
  ahead of each other, and the order of a set of names decides, as it does for a draw.
  """
  found = np.flatnonzero((x > -np.inf).any(axis=0))
  votes = (x[:, found, None] > x[:, None, found]) * weights[:, None, None]
  half = votes.sum(axis=0) >= weights.sum() / 2
  wins = (half & ~half.T).sum(axis=1)
  return np.array_equal(np.sort(wins), np.arange(found.size))


@SYSTEMS
@pytest.mark.parametrize("name", CONDORCET)
def test_condorcet(name, systems):
  x, where = batch(systems)
  weights = np.array(WEIGHTS[:systems]) if name == "w_condorcet" else np.ones(systems)
  given = {"weights": weights.tolist()} if name == "w_condorcet" else {}
  found = np.asarray(fusion.condorcet_fuse(x, where=where, **given))
  right = as_array(fuse(runs(systems), name, **given), where)
  strict = np.array([decided(x[:, query], weights) for query in range(len(where))])
  strict &= [np.unique(row[row > 0]).size == (row > 0).sum() for row in found]
  assert strict.mean() > 0.2
  np.testing.assert_allclose(found[strict], right[strict], **TOLERANCE)


@functools.cache
def judged_runs(systems):
  """The judgements and the runs of each collection."""
  x, labels, where = collections(systems)
  judged = []
  for scores, grades, chosen in zip(x, labels, where, strict=True):
    qrels = peer().Qrels({
      f"q{query:05}": {f"d{item}": int(grade) for item, grade in enumerate(row[w])}
      for query, (row, w) in enumerate(zip(grades, chosen, strict=True))
    })  # fmt: skip
    judged.append((qrels, [as_run(s) for s in scores]))
  return judged


@functools.cache
def learnt(name, systems):
  """What ranx learns, by collection, as it returns it."""
  train = getattr(peer().fusion, f"{name}_train")
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    return [train(*judged, **SEGMENTS.get(name, {})) for judged in judged_runs(systems)]


def as_tables(name, tables):
  """Tables of ranx in our shapes."""
  if name == "bayesfuse":
    starts = [0, 5, 10, 15, 20, 30, 100, 200, 500]
    return np.array([[odds[starts] for odds in table] for table in tables])
  if name in ("posfuse", "slidefuse"):
    # As long as the longest list.
    return np.array([
      [np.pad(row, (0, N - len(row))) for row in table] for table in tables
    ])  # fmt: skip
  return np.array(tables, float)


@SYSTEMS
@pytest.mark.parametrize("name", TRAINED)
def test_what_is_trained(name, systems):
  x, labels, where = collections(systems)

  @jax.jit
  @jax.vmap
  def train(x, labels, where):
    return fusion.train(TRAINED[name][0], x, labels, where=where, **SEGMENTS.get(name, {}))

  right = as_tables(name, learnt(name, systems))
  np.testing.assert_allclose(train(x, labels, where), right, **TOLERANCE)


@SYSTEMS
@pytest.mark.parametrize("name", TRAINED)
def test_trained_methods(name, systems):
  """On the queries that trained them, and by what ranx learnt of them."""
  x, _, where = collections(systems)
  ours, key, parameters = TRAINED[name]
  norm = "min-max" if name == "segfuse" else None

  @jax.jit
  @jax.vmap
  def fused(x, where, table):
    x = x if norm is None else fusion.min_max(x, where=where)
    return getattr(fusion, ours)(x, where=where, trained=table, **parameters)

  tables = learnt(name, systems)
  found = fused(x, where, as_tables(name, tables).astype(np.float32))
  right = [
    as_array(fuse(given, name, norm, **{key: table}, **parameters), chosen)
    for (_, given), chosen, table in zip(judged_runs(systems), where, tables, strict=True)
  ]
  np.testing.assert_allclose(found, right, **TOLERANCE)


@SYSTEMS
@pytest.mark.parametrize("name", NORMS)
def test_normalisations(name, systems):
  x, where = batch(systems)
  switch = peer().normalization.norm_switch(name)
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    normal = switch(runs(systems)) if name == "borda" else [switch(r) for r in runs(systems)]
  right = np.stack([as_array(run, where) for run in normal])
  found = NORMS[name](x, where=where)
  np.testing.assert_allclose(found, right, **TOLERANCE)
  fused = as_array(fuse(runs(systems), "sum", name), where)
  np.testing.assert_allclose(fusion.comb_sum(found, where=where), fused, rtol=1e-6, atol=2e-6)


NONE = -np.inf


@pytest.mark.parametrize(
  ("scores", "method", "norm", "theirs", "ours"),
  [
    # It divides by 1e-9 where the largest score is not positive.
    ([[-2.0, -1.0], [1.0, NONE]], "max", "max", [1, -1e9], [1, -1]),
    # It divides by a range of 1e-9 at least.
    ([[1e-10, 0.0], [NONE, 0.5]], "max", "min-max", [0.1, 0], [1, 0]),
    # What a system lacks has 1e9 or -1e9.
    ([[2e9, 1.0], [NONE, 2.0]], "min", None, [1e9, 1], [2e9, 1]),
    ([[-2e9, 1.0], [NONE, 2.0]], "max", None, [-1e9, 2], [-2e9, 2]),
  ],
)
def test_what_differs(scores, method, norm, theirs, ours):
  """Both sides have the values that docs/interop.md has."""
  x = np.float32(scores)
  where = np.ones((1, x.shape[1]), bool)
  found = as_array(fuse([as_run(row[None]) for row in x], method, norm), where)[0]
  np.testing.assert_allclose(found, theirs, rtol=1e-6)
  x = x if norm is None else NORMS[norm](x, where=where[0])
  np.testing.assert_allclose(getattr(fusion, METHODS[method][0])(x), ours, rtol=1e-6)


def test_ranks_after_the_borda_norm():
  """That of ranx leaves lists in the order of a set of names, by which methods of ranks rank."""
  x = np.arange(24.0)[None] + np.zeros((2, 1))
  found = [
    as_array(fuse([as_run(row[None]) for row in x], "rrf", norm), np.ones((1, 24), bool))[0]
    for norm in (None, "borda")
  ]
  right = fusion.rrf(fusion.borda(x))
  np.testing.assert_allclose(found[0], right, rtol=1e-6)
  assert np.abs(found[1] - found[0]).max() > 1e-4
