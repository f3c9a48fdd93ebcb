"""Metrics of many positives among a whole corpus, against the metrics of all scores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import corpus
from jaxrank._core import long_ties
from jaxrank._core.platforms import forced

MEASURES = (
  "nDCG nDCG@5 DCG@3 AP AP@4 RR RR@2 Success@3 R@5 P@5 Rprec RBP(p=.7) RBP(p=.7)@4 SetP F1@3",
  jr.bpref,
  jr.auc,
  jr.fall_out,
  jr.Measure(jr.fall_out, k=4),
  jr.Measure(jr.judged, k=3),
  jr.Measure(jr.err, max_label=3),
  jr.Measure(jr.err, max_label=3, k=4),
  jr.Measure(jr.nerr, max_label=3),
  jr.Measure(jr.gap, max_label=2),
  jr.Measure(jr.recall, rel=2),
  jr.Measure(jr.average_precision, k=6, normalizer="retrieved"),
  jr.Measure(jr.precision, k=9, divisor="retrieved"),
  jr.Measure(jr.dcg, discount=lambda rank: 1 / (1 + jnp.sqrt(rank)), name="other discount"),
)


def names(measures):
  """All measures as one list."""
  found = []
  for measure in measures:
    found += measure.split() if isinstance(measure, str) else [measure]
  return found


def batch(rng, queries, items, positives, excluded, levels):
  """Scores with long ties, and positives with repeats, exclusions and padding."""
  scores = rng.integers(0, levels, (queries, items)).astype(np.float32)
  scores[rng.random((queries, items)) < 0.05] = -np.inf
  ids = rng.integers(-1, items, (queries, positives))
  ids[rng.random(queries) < 0.05] = -1
  labels = rng.integers(-1, 4, ids.shape)
  out = rng.integers(-1, items, (queries, excluded))
  out[(out[:, :, None] == ids[:, None]).any(-1)] = -1
  return scores, ids, labels, out


def dense(measures, scores, ids, labels, out):
  """`jaxrank.evaluate` on all scores; of repeated positives the first counts."""
  graded = np.zeros(scores.shape, labels.dtype)
  where = np.ones(scores.shape, bool)
  for row, (query, given, removed) in enumerate(zip(ids, labels, out, strict=True)):
    for item, label in reversed([*zip(query, given, strict=True)]):
      if item >= 0:
        graded[row, item] = label
    where[row, removed[removed >= 0]] = False
  return jr.evaluate(measures, scores, graded, where=where)


def table(queries, items):
  """A similarity that reads scores: queries are rows of scores, and items are columns."""
  return queries[:, items]


def counted(measures, scores, ids, labels, out, **options):
  items = jnp.arange(scores.shape[1])
  return corpus.evaluate(
    measures, scores, items, ids, labels=labels, exclude=out, similarity=table, **options
  )


def compare(found, expected):
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(2))
def test_values_are_those_of_all_scores(seed):
  rng = np.random.default_rng(seed)
  given = batch(rng, 200, 300, 7, 12, (3, 40)[seed])
  compare(counted(names(MEASURES), *given), dense(names(MEASURES), *given))


@pytest.mark.thorough
def test_values_are_those_of_all_scores_in_many_cases():
  rng = np.random.default_rng(9)
  cases = 0
  for items in (1, 5, 130, 700):
    for positives in (1, 2, 20):
      for levels in (1, 2, 30, 10000):
        given = batch(rng, 420, items, positives, 9, levels)
        compare(counted(names(MEASURES), *given, chunk=256), dense(names(MEASURES), *given))
        cases += 420
  assert cases >= 20000
