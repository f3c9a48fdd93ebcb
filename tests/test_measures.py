"""Many measures of one ranking: the values, the names, and the work that is shared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.metrics import _apply as apply

TWENTY = (
  "nDCG nDCG@5 nDCG@10 nDCG@20 nDCG@100 AP AP@100 RR RR@10 P@1 P@5 P@10 R@10 R@100 "
  "Success@1 Success@10 Rprec RBP ERR@20 ndcg_burges@10"
)


@pytest.fixture
def lists():
  """Scores with ties and items not retrieved, graded labels and a mask, `[16, 100]`."""
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 60, (16, 100)).astype(np.float32)
  scores[rng.random(scores.shape) < 0.05] = -np.inf
  labels = rng.integers(-1, 5, scores.shape).astype(np.float32)
  return jnp.array(scores), jnp.array(labels), jnp.array(rng.random(scores.shape) < 0.9)


def compiled(measures, scores, labels, where):
  """The optimised program of `evaluate`."""
  measures = jr.parse(measures)
  evaluate = jax.jit(lambda *lists: jr.evaluate(measures, *lists[:2], where=lists[2]))
  return evaluate.lower(scores, labels, where).compile().as_text()


def exchanges(program):
  """Compare-exchange stages of a network over 64-bit words."""
  return sum("minimum(" in line and " s64[" in line for line in program.splitlines())


def test_twenty_measures_rank_scores_once_and_labels_once(lists):
  one, twenty = (compiled(measures, *lists) for measures in ("nDCG", TWENTY))
  assert exchanges(one) > 0
  assert exchanges(twenty) == exchanges(one)
  # The one sort left is that of labels, for those that have too many levels.
  assert one.count(" sort(") == twenty.count(" sort(") == 1


def test_shallow_measures_select_and_do_not_sort(lists):
  program = compiled("nDCG@10 P@5 RR Success@3", *lists)
  assert exchanges(program) == 0


def test_counting_measures_neither_sort_nor_select(lists):
  program = compiled("RR Success@3 RR@10", *lists)
  assert exchanges(program) == 0
  assert " sort(" not in program
  assert "topk" not in program.lower()


def test_together_as_alone(lists):
  scores, labels, where = (x[:, :24] for x in lists)
  together = jr.evaluate(TWENTY, scores, labels, where=where)
  assert list(together) == TWENTY.split()
  for measure in jr.parse(TWENTY):
    alone = measure(scores, labels, where=where)
    np.testing.assert_allclose(together[measure.name], alone, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
  ("name", "call"),
  [
    ("nDCG@10", lambda *a, **b: jr.ndcg(*a, k=10, gain=jr.gains.linear, **b)),
    ("nDCG(dcg='exp-log2')@10", lambda *a, **b: jr.ndcg(*a, k=10, **b)),
    ("ndcg_burges@10", lambda *a, **b: jr.ndcg(*a, k=10, **b)),
    ("ERR@20", lambda *a, **b: jr.err(*a, k=20, max_label=4, **b)),
    ("AP(rel=2)", lambda *a, **b: jr.average_precision(*a, rel=2, **b)),
    ("RBP(p=0.5)", lambda *a, **b: jr.rbp(*a, persistence=0.5, **b)),
    ("P_5", lambda *a, **b: jr.precision(*a, k=5, **b)),
    ("rbp.95", lambda *a, **b: jr.rbp(*a, persistence=0.95, **b)),
  ],
)
def test_a_name_is_its_function(name, call, lists):
  scores, labels, where = lists
  (value,) = jr.evaluate(name, scores, labels, where=where).values()
  np.testing.assert_allclose(value, call(scores, labels, where=where), rtol=1e-6)


def test_a_table_of_gains_is_linear_where_it_says_nothing(lists):
  scores, labels, where = lists
  (value,) = jr.evaluate("nDCG(gains={1:7,3:2})@10", scores, labels, where=where).values()

  def gain(labels):
    y = jnp.maximum(labels, 0)
    return jnp.where(y == 1, 7.0, jnp.where(y == 3, 2.0, y))

  expected = jr.ndcg(scores, labels, where=where, k=10, gain=gain)
  np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_measures_are_hashable_and_named():
  first, again = jr.parse("nDCG@10"), jr.parse("nDCG@10")
  assert hash(first) == hash(again)
  assert jr.parse(first) == first
  assert str(first[0]) == "nDCG@10"


def test_evaluate_compiles_once(lists):
  scores, labels, where = lists
  jr.evaluate("nDCG(gains={1:7})@10 AP", scores, labels, where=where)
  programs = apply._answer._cache_size()
  jr.evaluate("nDCG(gains={1:7})@10 AP", scores + 1, labels, where=where)
  assert apply._answer._cache_size() == programs


def test_smooth_measures_train(lists):
  scores, labels, where = lists

  def loss(scores):
    values = jr.evaluate("nDCG@10 AP", scores, labels, where=where, ranking=jr.Laplace(1.0))
    return sum(value.mean() for value in values.values())

  grads = jax.grad(loss)(scores)
  assert jnp.all(jnp.isfinite(grads))
  assert jnp.any(grads != 0)


def test_resolve_metrics_knows_plain_names():
  assert [m.metric for m in jr.resolve_metrics(["mrr", "hit_rate"])] == [
    "reciprocal_rank",
    "hit_rate",
  ]


@pytest.mark.parametrize("resolve", [jr.parse, lambda name: jr.resolve_metrics([name])])
def test_an_unknown_name_suggests_the_nearest(resolve):
  with pytest.raises(ValueError, match=r"(?s)ndgc.*ndcg"):
    resolve("ndgc@10")


def test_no_measures_no_values(lists):
  assert jr.evaluate([], *lists[:2]) == {}
