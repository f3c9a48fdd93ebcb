"""Agreement with AutoIntent's own functions, and each deliberate difference."""

import numpy as np
import pytest

import jaxrank as jr
import jaxrank.interop.autointent as ai
from tests.helpers import label_oracles as oracle
from tests.helpers.originals import load
from tests.helpers.suites import thorough

original = load("autointent.metrics", "retrieval")

QUERIES, N = 10, 8

pytestmark = thorough


NAMES = [name for name in dir(original) if name.startswith("retrieval_")]


def draw(rng, rows):
  """Two hundred sets of queries with lists of one length, as the original wants them."""
  size = (200, QUERIES)
  if rows:
    return rng.integers(0, 2, (*size, 3)), rng.integers(0, 2, (*size, N, 3))
  return rng.integers(0, 4, size), rng.integers(0, 4, (*size, N))


def test_every_function_has_an_adapter():
  assert len(NAMES) == 15
  assert {*ai.RETRIEVAL_METRICS_MULTICLASS, *ai.RETRIEVAL_METRICS_MULTILABEL} == {*NAMES}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "retrieval_ndcg_intersecting"])
def test_two_thousand_queries_agree(name):
  rows = name in ai.RETRIEVAL_METRICS_MULTILABEL
  options = {"joint_absence": True} if name.endswith("_macro") else {}
  rng = np.random.default_rng(0)
  for i, (queries, lists) in enumerate(zip(*draw(rng, rows), strict=True)):
    k = (None, 1, 3, N)[i % 4]
    queries = queries.tolist()
    if i % 3 == 0:
      queries[rng.integers(QUERIES)] = None
    expected = getattr(original, name)(queries, lists, k)
    got = getattr(ai, name)(queries, lists, k, **options)
    assert got == pytest.approx(float(expected), abs=1e-9)


NATIVE = {
  "map": lambda *args, **kw: jr.average_precision(*args, normalizer="retrieved", **kw),
  "hit_rate": jr.hit_rate,
  "precision": jr.precision,
  "ndcg": jr.ndcg,
  "mrr": jr.reciprocal_rank,
}


@pytest.mark.parametrize("name", NATIVE)
def test_native_calls_agree_query_by_query(name):
  queries, lists = (x.reshape(-1, *x.shape[2:]) for x in draw(np.random.default_rng(1), rows=False))
  scores = np.broadcast_to(-np.arange(N), lists.shape)
  got = NATIVE[name](scores, jr.class_labels.relevance(queries, lists), k=5)
  function = getattr(original, f"retrieval_{name}")
  expected = [function([q], [c], 5) for q, c in zip(queries, lists, strict=True)]
  np.testing.assert_allclose(got, expected, atol=1e-6)


def test_scores_of_classes_agree():
  pytest.importorskip("sklearn")
  scoring = load("autointent.metrics", "decision", "scoring")
  rng = np.random.default_rng(3)
  for _ in range(100):
    labels, scores = (
      rng.integers(0, 2, (20, 4)).tolist(),
      (rng.integers(0, 9, (20, 4)) / 8).tolist(),
    )
    for name in ("hit_rate", "map", "neg_coverage", "neg_ranking_loss"):
      functions = (getattr(module, f"scoring_{name}") for module in (scoring, ai))
      expected, got = (function(labels, scores) for function in functions)
      assert got == pytest.approx(expected, abs=1e-12)


def test_difference_intersecting_ndcg_asks_for_a_shared_class():
  arguments = [[1, 0]], [[[1, 1], [0, 1], [0, 0]]]
  assert original.retrieval_ndcg_intersecting(*arguments) == pytest.approx(0.919721, abs=1e-6)
  assert ai.retrieval_ndcg_intersecting(*arguments) == 1.0
  rng = np.random.default_rng(2)
  for queries, lists in zip(*(x[:20].tolist() for x in draw(rng, rows=True)), strict=True):
    expected = oracle.intersecting(oracle.ndcg, queries, lists)
    assert ai.retrieval_ndcg_intersecting(queries, lists) == pytest.approx(expected)


def test_difference_macro_leaves_joint_absence_out():
  arguments = [[1, 0, 0]], [[[0, 0, 0], [1, 0, 0]]]
  assert original.retrieval_mrr_macro(*arguments) == pytest.approx((0.5 + 1 + 1) / 3)
  assert ai.retrieval_mrr_macro(*arguments, joint_absence=True) == pytest.approx((0.5 + 1 + 1) / 3)
  assert ai.retrieval_mrr_macro(*arguments) == 0.5


def test_difference_precision_divides_by_k():
  arguments = [1], [[2, 1, 1]]
  assert original.retrieval_precision(*arguments, 10) == pytest.approx(2 / 3)
  assert ai.retrieval_precision(*arguments, 10) == pytest.approx(2 / 10)
  with pytest.raises(ZeroDivisionError):
    original.retrieval_precision(*arguments, 0)
  assert ai.retrieval_precision(*arguments, 0) == 0.0


def test_difference_negative_k():
  arguments = [1], [[2, 1, 1]], -1
  assert original.retrieval_map(*arguments) == 0.5
  with pytest.raises(ValueError, match="k must be at least 1, got -1"):
    ai.retrieval_map(*arguments)


def test_difference_lists_may_be_ragged():
  arguments = [1, 2], [[1], [1, 2]]
  with pytest.raises(ValueError, match="inhomogeneous"):
    original.retrieval_mrr(*arguments)
  assert ai.retrieval_mrr(*arguments) == 0.75


def test_difference_no_query_left():
  for function, error in (
    ("retrieval_map", ZeroDivisionError),
    ("retrieval_mrr", IndexError),
  ):
    with pytest.raises(error):
      getattr(original, function)([None], [[1]])
    with pytest.raises(ValueError, match="none of 1 queries has a label"):
      getattr(ai, function)([None], [[1]])
