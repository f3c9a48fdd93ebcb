"""Labels beyond the scale: exact where a ratio allows it, refused by the host elsewhere."""

import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

import jaxrank as jr
from jaxrank.command.main import main
from jaxrank.interop import lightgbm, xgboost
from tests.interop.test_boosting import Data

RANKINGS = [jr.Exact(), jr.Laplace(1e-3), jr.Gumbel(1e-3)]


def ndcg(scores, labels, k=None):
  """In Python integers, which have no largest one."""
  gains = lambda order: [(1 << int(labels[i])) - 1 for i in order[:k]]  # noqa: E731
  ideal = gains(np.argsort(-labels, kind="stable"))
  total = lambda x: sum(g / max(ideal[0], 1) / np.log2(r + 2) for r, g in enumerate(x))  # noqa: E731
  return total(gains(np.argsort(-scores, kind="stable"))) / total(ideal)


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("k", [None, 3])
def test_ndcg_of_exponential_gains_is_exact_for_any_label(ranking, k):
  rng = np.random.default_rng(0)
  labels = np.concatenate(
    [rng.integers(0, 5, (5, 8)), rng.integers(90, 130, (5, 8)), rng.integers(0, 1000, (5, 8))]
  )
  scores = rng.permuted(np.tile(np.arange(8.0), (15, 1)), axis=1)
  found = jr.ndcg(scores, labels, k=k, gain=jr.gains.exponential, ranking=ranking)
  expected = [ndcg(s, y, k) for s, y in zip(scores, labels, strict=True)]
  np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-20)


def test_other_ratios_of_exponential_gains_do_not_saturate():
  scores, small = jnp.array([3.0, 1.0, 2.0]), jnp.array([69, 70, 40])
  given = {"gain": jr.gains.exponential}
  for metric in (jr.ndcg_at_relevant, jr.ndcg_at_levels, jr.losses.lambda_ndcg):
    exact = metric(scores, small, **given)
    assert metric(scores, small + 130, **given) == pytest.approx(float(exact), rel=1e-5)
  slope = jax.grad(lambda s: jr.losses.approx_ndcg(s, small + 130, **given))(scores)
  assert jnp.isfinite(slope).all()
  assert (slope != 0).any()


@pytest.mark.parametrize("large", [101, 4.5, 5])
def test_hosts_refuse_labels_above_the_best_grade(large):
  labels = np.array([[0, 4.0], [large, 1]])
  jr.check_values(np.ones((2, 2)), labels)
  jr.check_values(np.ones((2, 2)), np.minimum(labels, 4), max_label=4)
  with pytest.raises(ValueError, match=rf"label of query 1, item 0 is {large}.*max_label={large}"):
    jr.check_values(np.ones((2, 2)), labels, max_label=4)
  with pytest.raises(ValueError, match="max_label must be at least 0"):
    jr.check_values(np.ones((2, 2)), labels, max_label=-1)


def test_under_jit_they_count_as_the_best_grade():
  scores, labels = jnp.array([2.0, 1.0]), jnp.array([5.0, 3.0])
  cases = (jr.err, {}), (jr.nerr, {}), (jr.sdcg, {"k": 2, "min_label": 1}), (jr.bpm, {"k": 2})

  @jax.jit
  def values_and_slopes(labels):
    calls = [functools.partial(metric, scores, max_label=4, **given) for metric, given in cases]
    values, slopes = zip(*(jax.value_and_grad(call)(labels) for call in calls), strict=True)
    return jnp.stack(values), jnp.stack(slopes)

  values, slopes = values_and_slopes(labels)
  np.testing.assert_array_equal(values, values_and_slopes(jnp.minimum(labels, 4))[0])
  assert (values > 0).all()
  assert (slopes[:, 0] == 0).all()


SCALED = {
  "ERR@10": (5, "a best grade of 4", r"write err\(max_label=5\)@10"),
  "err(max_label=3)@5": (7, "a best grade of 3", r"write err\(max_label=7\)@5"),
  "NERR9(max_rel=4,min_rel=1)@5": (5, "a best grade of 4", r"write NERR9\(max_rel=5,min_rel=1\)@5"),
  "dcg_burges@10": (101, "exponential gains of labels up to 100", "take nDCG"),
  "DCG(dcg='exp-log2')@10": (200, "exponential gains of labels up to 100", "smaller grades"),
  "dcg(gain='exponential')": (1e9, "exponential gains of labels up to 100", "take nDCG"),
  jr.Measure(jr.rbp, gain=jr.gains.exponential): (101, "exponential gains", "smaller grades"),
  jr.Measure(jr.dcg, gain=jr.gains.table([0, 1, 5])): (1.5, "gains of whole labels", "by_label"),
}
QUERIES = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
MASK = np.array([[True, True, False], [True, True, True]])


def streamed(measures, scores, labels, where):
  evaluator = jr.Evaluator(measures)
  return evaluator.update(evaluator.init(), scores, labels, where=where)


def of_corpus(measures, scores, labels, where):
  column = np.arange(3)
  return jr.corpus.evaluate(
    measures,
    jnp.asarray(scores),
    column,
    np.where(where, column, -1),
    labels=labels,
    similarity=lambda queries, items: queries[:, items],
  )


HOSTS = {
  "evaluate": lambda m, s, y, w: jr.evaluate(m, s, y, where=w),
  "lists": lambda m, s, y, w: jr.evaluate(m, s.tolist(), y.tolist(), where=w.tolist()),
  "a measure": lambda m, s, y, w: jr.parse(m)[0](s, y, where=w),
  "Evaluator.update": streamed,
  "corpus.evaluate": of_corpus,
  "chance.expected": lambda m, s, y, w: jr.chance.expected(m, y, where=w),
}


@pytest.mark.parametrize("door", HOSTS)
@pytest.mark.parametrize("measure", SCALED, ids=str)
def test_hosts_refuse_labels_beyond_the_scale_of_a_measure(door, measure):
  large, meaning, advice = SCALED[measure]
  labels = np.array([[0, 1, 0], [2, 0, large]])
  with pytest.raises(
    ValueError, match=rf"has {meaning}.* query 1, item 2 the label .*; .*{advice}"
  ):
    HOSTS[door](measure, QUERIES, labels, MASK)
  if door == "evaluate":
    # A label that does not count may be any.
    HOSTS[door](measure, QUERIES, labels[::-1], MASK)


@pytest.mark.parametrize("adapter", [lightgbm, xgboost], ids=["lightgbm", "xgboost"])
@pytest.mark.parametrize("measure", SCALED, ids=str)
def test_metrics_of_boosters_refuse_labels_beyond_the_scale_of_a_measure(adapter, measure):
  large, meaning, advice = SCALED[measure]
  scores, metrics = QUERIES[MASK], adapter.metrics(["P@2", measure])
  told = rf"metrics: .*has {meaning}.* row 4, in query 1, the label .*; .*{advice}"
  # What was refused stays so.
  for _ in range(2):
    with pytest.raises(ValueError, match=told):
      metrics(scores, Data([0, 1, 2, 0, large], [2, 3]))
  metrics(scores, Data([0, 1, 2, 0, 1], [2, 3]))


def test_lambda_rank_refuses_labels_beyond_the_scale_of_a_measure():
  scores, labels = QUERIES[1], np.array([4, 5, 0])
  loss = functools.partial(jr.losses.lambda_rank, metric="ERR@10")
  for given in (labels, labels.tolist()):
    with pytest.raises(ValueError, match=r"lambda_rank: .*item 1 the label 5; write err\(max"):
      loss(scores, given)
  allowed = loss(scores, np.minimum(labels, 4))
  assert loss(scores, labels, where=labels != 5) < allowed
  assert loss(scores, jnp.asarray(labels)) == jax.jit(loss)(scores, labels) == allowed


@pytest.mark.parametrize("measure", SCALED, ids=str)
def test_files_refuse_labels_beyond_the_scale_of_a_measure(measure, tmp_path, capsys):
  large, meaning, advice = SCALED[measure]
  qrels = {"q0": {"z": large}, "q1": {"a": 1}, "q2": {"b": 2, "c": large}}
  run = {"q1": {"a": 1.5}, "q2": {"b": 2.5, "c": 1.5}}
  (tmp_path / "qrels").write_text(json.dumps(qrels))
  (tmp_path / "run").write_text(json.dumps(run))
  rows = [(q, d, y) for q, judged in qrels.items() for d, y in judged.items()]
  queries, documents, labels = map(list, zip(*rows, strict=True))
  frame = pa.table({"qid": queries, "docno": documents, "label": labels})
  told = rf"has {meaning}.* query 'q2', document 'c' the label .*; .*{advice}"
  for source in (qrels, tmp_path / "qrels", rows, frame):
    with pytest.raises(ValueError, match=told):
      jr.trec.evaluate(measure, source, run)
  if isinstance(measure, str):
    words = [str(tmp_path / "qrels"), str(tmp_path / "run"), "-m", measure]
    assert main(["--no-cache", "--queries", "both", *words]) == 1
    assert re.search(told, capsys.readouterr().err)


def test_a_label_beyond_a_table_has_its_last_gain():
  measure = jr.Measure(jr.dcg, gain=jr.gains.table([0, 1, 5]), name="dcg")
  assert jr.evaluate(measure, np.ones(1), np.array([7]))["dcg"] == 5
  assert jr.trec.evaluate(measure, {"q": {"moth": 7}}, {"q": {"moth": 1.0}}).mean() == {"dcg": 5}


@pytest.mark.parametrize("name", ["ERR@10", "dcg_burges"])
def test_arrays_of_jax_are_not_read(name):
  """A label beyond the scale counts as the largest one of it, eager and jitted alike."""
  large = {"ERR@10": (5, 4), "dcg_burges": (130, 100)}[name]
  given = [jnp.array([[1.0, 0.0, x], [0.0, x, 0.0]]) for x in large]
  evaluate = lambda y: jr.evaluate(name, QUERIES, y, where=MASK)[name]  # noqa: E731
  for call in (evaluate, jax.jit(evaluate)):
    np.testing.assert_array_equal(call(given[0]), call(given[1]))


def test_relative_gains_are_those_of_labels_of_any_size():
  """The other metrics with a gain are limited, and their measures refuse larger labels."""
  small, given = np.array([69, 70, 40]), {"gain": jr.gains.exponential}
  relative = set()
  for metric, about in jr.metrics.described():
    if "gain" in about.signature.parameters:
      values = [metric(QUERIES[1], y, **given) for y in (small, small + 130)]
      is_exact = bool(np.allclose(*values, rtol=1e-5))
      assert about.kind("gain").relative == is_exact, about.name
      relative |= {about.name} if is_exact else set()
      measure = jr.Measure(metric, **given)
      if is_exact:
        jr.evaluate(measure, QUERIES[1], small + 130)
      else:
        with pytest.raises(ValueError, match="the label 199"):
          jr.evaluate(measure, QUERIES[1], small + 130)
  assert "ndcg" in relative
