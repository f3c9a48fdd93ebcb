"""The values of queries become one number as the description of the measure says."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

SCORES = jnp.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
LABELS = jnp.array([[1, 0, 1], [1, 0, 0], [1, 1, 1]])
NAMES = "gm_map num_rel gm_bpref num_ret map num_q P_5 bpref"


@pytest.mark.parametrize("measure", jr.parse(NAMES), ids=str)
def test_aggregate_takes_the_measure(measure):
  evaluator = jr.Evaluator(measure)
  total = evaluator.compute(evaluator.update(evaluator.init(), SCORES, LABELS))[measure.name]
  values = measure(SCORES, LABELS)
  assert jr.aggregate(values, how=measure) == pytest.approx(total, rel=1e-6)
  weights = jnp.array([1.0, 2.0, 0.0])
  state = evaluator.update(evaluator.init(), SCORES, LABELS, query_weights=weights)
  found = jr.aggregate(values, how=measure, query_weights=weights)
  assert found == pytest.approx(evaluator.compute(state)[measure.name], rel=1e-6)


def test_a_metric_says_how_too_and_functions_are_called():
  values = jnp.array([1.0, 2.0])
  assert jr.aggregate(values, how=jr.item_count) == 3
  assert jr.aggregate(values, how=jr.ndcg) == 1.5
  assert jr.aggregate(values, how=jnp.max) == 2
  counts = jr.metric(lambda ranked: ranked.count(ranked.where), aggregation="sum")
  assert jr.aggregate(values, how=counts) == 3


def test_the_values_of_several_measures_are_refused():
  with pytest.raises(TypeError, match=r"got a dict with gm_map, num_rel:.*how=.*Evaluator"):
    jr.aggregate(jr.evaluate("gm_map num_rel", SCORES, LABELS))


def test_queries_of_one_class_are_left_out_of_auc():
  where = jnp.array([[True] * 3, [True, False, False], [True] * 3])
  keeps = jr.has_both_classes(LABELS, where=where)
  assert keeps.tolist() == [True, False, False]
  values = jr.auc(SCORES, LABELS, where=where)
  evaluator = jr.Evaluator(jr.auc, empty="skip")
  state = evaluator.update(evaluator.init(), SCORES, LABELS, where=where)
  assert jr.aggregate(values, where=keeps) == evaluator.compute(state)["auc"]
  graded = np.array([[2, 1, 1], [1, 1, 0], [-1, 0, 2]])
  assert jr.has_both_classes(graded, rel=2).tolist() == [True, False, True]
  with pytest.raises(ValueError, match="has_both_classes: labels must have shape"):
    jr.has_both_classes(1)
