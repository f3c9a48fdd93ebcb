"""Batches of random queries, and an evaluator that is compiled once, for the tests of streams."""

import functools

import jax
import numpy as np

import jaxrank as jr

# Cheap to compile: they count, and do not sort.
MEASURES = "RR RR(rel=2)@2 Success@1"
RELEVANT = (1, 2, 1)
BATCHES, QUERIES, N, GROUPS = 6, 8, 7, 3


def draw(seed=0):
  """Batches of queries, some empty and some padding, with weights and groups."""
  rng = np.random.default_rng(seed)
  shape = (BATCHES, QUERIES, N)
  where = rng.random(shape) < rng.choice([0, 0.5, 1], (BATCHES, QUERIES, 1), p=[0.2, 0.4, 0.4])
  labels = rng.integers(0, 4, shape) * (rng.random((BATCHES, QUERIES, 1)) < 0.8)
  return {
    "scores": rng.integers(-4, 5, shape).astype(np.float32),
    "labels": labels.astype(np.float32),
    "where": where,
    "query_weights": rng.choice(np.float32([0, 0.5, 1, 3]), shape[:2]),
    "groups": rng.integers(0, GROUPS, shape[:2]),
  }


DATA = draw()
PLAIN = {name: DATA[name] for name in ("scores", "labels", "where")}


def batch(i, data=PLAIN):
  return {name: x[i] for name, x in data.items()}


@functools.cache
def evaluator(**options):
  return jr.Evaluator(MEASURES, **options)


@functools.cache
def updating(**options):
  """`update` compiled, with the arrays of the batch by name."""
  own = evaluator(**options)
  return jax.jit(lambda state, arrays: own.update(state, **arrays))


def run(data=PLAIN, key=None, **options):
  """The state after all batches."""
  state = evaluator(**options).init(*(() if key is None else (key,)))
  for i in range(len(data["scores"])):
    state = updating(**options)(state, batch(i, data))
  return state


def close(actual, expected, rtol=1e-6):
  np.testing.assert_allclose(list(actual.values()), list(expected), rtol=rtol)


def trees_equal(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)
