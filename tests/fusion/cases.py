"""Drawn queries of several systems, and calls of all methods and normalisations."""

import functools

import numpy as np

import jaxrank as jr
from jaxrank import fusion

SYSTEMS, QUERIES, N = 3, 300, 12

# Parameters away from their defaults. `trained` is added.
METHODS = {
  "comb_sum": {},
  "comb_max": {},
  "comb_min": {},
  "comb_med": {},
  "comb_anz": {},
  "comb_mnz": {},
  "comb_gmnz": {"gamma": -0.7},
  "weighted_mnz": {},
  "mixed": {},
  "rrf": {"k": 1.5},
  "rrf, weights of ranks": {"k": 0.0, "weighs": "rank"},
  "isr": {},
  "log_isr": {},
  "logn_isr": {"sigma": 0.6},
  "rbc": {"phi": 0.4},
  "borda_fuse": {},
  "condorcet_fuse": {},
  "map_fuse": {},
  "pos_fuse": {},
  "slide_fuse": {"w": 2.0},
  "prob_fuse": {},
  "seg_fuse": {},
  "bayes_fuse": {},
}
NORMALISATIONS = {
  "min_max": {},
  "theoretical_min_max": {"lower": -0.5},
  "max_norm": {},
  "sum_norm": {},
  "z_score": {},
  "distribution": {},
  "rank_norm": {},
  "borda": {},
}
OF_SCORES = list(METHODS)[:9]
# They give points to items that a system lacks.
WITH_POINTS_FOR_OTHERS = ("borda_fuse", "bayes_fuse")
# These functions take a ranking.
RANKED = [*list(METHODS)[9:16], "map_fuse", "pos_fuse", "slide_fuse", "rank_norm", "borda"]


def function(name):
  return getattr(fusion, name.partition(",")[0])


@functools.cache
def tables():
  """What trained methods might have learnt, of fewer ranks than lists have."""
  rng = np.random.default_rng(1)
  shapes = {
    "map_fuse": (),
    "pos_fuse": (7,),
    "slide_fuse": (7,),
    "prob_fuse": (4,),
    "seg_fuse": (10,),
  }
  drawn = {name: rng.random((SYSTEMS, *shape)) for name, shape in shapes.items()}
  drawn["seg_fuse"][0, 0] = 0
  drawn["bayes_fuse"] = rng.normal(size=(SYSTEMS, 9))
  return {name: table.astype(np.float32) for name, table in drawn.items()}


@functools.cache
def queries():
  """Scores `[systems, queries, n]`, a mask, and weights `[queries, systems]`.

  There are ties, constant and negative lists, NaN and infinities, systems and queries that have
  nothing, and junk as padding.
  """
  rng = np.random.default_rng(0)
  shape = SYSTEMS, QUERIES, N
  kind = rng.random((SYSTEMS, QUERIES, 1))
  x = np.where(kind < 0.5, rng.integers(-1, 4, shape), rng.normal(size=shape) * 20)
  x = np.where(kind > 0.8, -1 - np.abs(x), np.where(kind > 0.7, 3, x))
  x = np.where(rng.random(shape) < 0.01, np.inf, x)
  x = np.where(rng.random(shape) < rng.random((SYSTEMS, QUERIES, 1)), -np.inf, x)
  empty = (rng.random((SYSTEMS, QUERIES, 1)) < 0.1) | (rng.random((1, QUERIES, 1)) < 0.03)
  x = np.where(empty, -np.inf, x)
  x = np.where(rng.random(shape) < 0.003, np.nan, x)
  where = rng.random(shape[1:]) < rng.random((QUERIES, 1)) * 1.5
  x = np.where(where | (rng.random(shape) < 0.5), x, rng.choice([np.nan, np.inf, 1e30], shape))
  weights = rng.choice([0, 0.1, 0.2, 0.3, 0.5, 1, 2], (QUERIES, SYSTEMS))
  weights[::5] = 1
  weights[::29] = 0
  return x.astype(np.float32), where, weights.astype(np.float32)


def call(name, x, where=None, weights=None, trained=None, **parameters):
  """A method or normalisation, which gets those of the arguments that it takes."""
  given = dict(NORMALISATIONS[name] if name in NORMALISATIONS else METHODS[name]) | parameters
  if name in tables():
    given["trained"] = tables()[name] if trained is None else trained
  elif name in METHODS:
    given["weights"] = weights
  return function(name)(x, where=where, **given)


def smooth(name, temperature):
  """The ranking of a function that takes one."""
  return {"ranking": jr.Laplace(temperature)} if name in RANKED else {}


def valid(x, where):
  """The items of each query."""
  return (x[:, query, chosen] for query, chosen in enumerate(where))


def padded(values, where, axes=()):
  """Values of the items of each query `[..., items]` as `[..., queries, n]`, 0 on padding."""
  out = np.zeros((*axes, *where.shape))
  for query, (value, chosen) in enumerate(zip(values, where, strict=True)):
    out[..., query, chosen] = value
  return out
