"""LlamaIndex's metrics: numbers that were run on the original, and plain Python."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
import jaxrank.interop.llama_index as li

METRICS = {
  "hit": li.HitRate(),
  "hit granular": li.HitRate(use_granular_hit_rate=True),
  "mrr": li.MRR(),
  "mrr granular": li.MRR(use_granular_mrr=True),
  "precision": li.Precision(),
  "recall": li.Recall(),
  "ap": li.AveragePrecision(),
  "ndcg": li.NDCG(),
}

# Run on llama-index-core 0.14.25, in the order of METRICS; None where an id counts twice there.
RUN = {
  ("d1 d3 d9", "d2 d1 d3 d4"): (1, 0.666667, 0.5, 0.416667, 0.5, 0.666667, 0.388889, 0.530721),
  ("a", "a a b"): (1, None, 1, None, 0.5, 1, None, None),
  ("a a b", "a c"): (1, None, 1, 1, 0.5, 0.5, 0.5, None),
  ("a b c", "a"): (1, 0.333333, 1, 1, 1, 0.333333, 0.333333, 0.469279),
  ("x", "a b"): (0, 0, 0, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("ids", RUN)
def test_numbers_of_the_original(ids):
  expected_ids, retrieved_ids = (text.split() for text in ids)
  for (name, metric), value in zip(METRICS.items(), RUN[ids], strict=True):
    result = metric.compute("query", expected_ids, retrieved_ids)
    assert isinstance(result, li.RetrievalMetricResult)
    assert result.metadata == {}
    if value is not None:
      assert float(result) == pytest.approx(value, abs=1e-6), name


def test_numbers_of_the_first_of_five_ids():
  """Three of five documents are relevant, and the first 1 to 5, or 10, are retrieved."""
  expected = {
    "ap": (0.3333, 0.3333, 0.5556, 0.5556, 0.7556, 0.7556),
    "ndcg": (0.4693, 0.4693, 0.7039, 0.7039, 0.8855, 0.8855),
    "precision": (1, 0.5, 0.6667, 0.5, 0.6, 0.6),
    "recall": (0.3333, 0.3333, 0.6667, 0.6667, 1, 1),
  }
  retrieved = [["d1", "d2", "d3", "d4", "d5"][:k] for k in (1, 2, 3, 4, 5, 10)]
  for name, values in expected.items():
    found = METRICS[name].compute_many([["d1", "d3", "d5"]] * 6, retrieved)
    np.testing.assert_allclose(found, values, atol=5e-5)


def test_an_id_counts_once():
  def scores(expected_ids, retrieved_ids):
    return [m.compute_many([expected_ids], [retrieved_ids])[0] for m in METRICS.values()]

  assert scores(["a"], ["a", "a", "b"]) == [1, 1, 1, 1, 0.5, 1, 1, 1]
  # The repetition keeps its rank: "b" is third.
  gain = 1 + 1 / math.log2(4)
  expected = [1, 1, 1, (1 + 1 / 3) / 2, 1, 1, (1 + 2 / 3) / 2, gain / (1 + 1 / math.log2(3))]
  assert scores(["a", "b"], ["a", "a", "b"]) == pytest.approx(expected)
  found = [1, 0.5, 1, 1, 0.5, 0.5, 0.5, 1 / (1 + 1 / math.log2(3))]
  assert scores(["a", "a", "b"], ["a", "c"]) == pytest.approx(found)
  assert scores(["a"], ["x", "x", "a"])[2] == pytest.approx(1 / 3)


def oracle(expected, retrieved):
  """All metrics, in the order of METRICS, of lists without repetition."""
  ranks = [rank for rank, x in enumerate(retrieved, start=1) if x in expected]
  best = sum(1 / math.log2(rank + 1) for rank in range(1, len(expected) + 1))
  return (
    float(bool(ranks)),
    len(ranks) / len(expected),
    1 / ranks[0] if ranks else 0.0,
    sum(1 / rank for rank in ranks) / max(len(ranks), 1),
    len(ranks) / len(retrieved),
    len(ranks) / len(expected),
    sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(expected),
    sum(1 / math.log2(rank + 1) for rank in ranks) / best,
  )


def test_many_queries_agree_with_plain_python():
  rng = np.random.default_rng(0)
  ids = [f"d{i}" for i in range(8)]
  for _ in range(50):
    lists = [[rng.permutation(ids)[: rng.integers(1, 8)].tolist() for _ in ids] for _ in "ab"]
    expected = np.array([oracle(*pair) for pair in zip(*lists, strict=True)]).T
    got = [metric.compute_many(*lists) for metric in METRICS.values()]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_arrays_serve_the_native_metrics():
  lists = li.to_arrays([["a", "b"], ["c"]], [["x", "a"], ["c", "x", "y"]])
  values = jr.evaluate("AP RR", lists.scores, lists.labels, where=lists.where)
  np.testing.assert_allclose(values["AP"], [0.25, 1.0])
  np.testing.assert_allclose(values["RR"], [0.5, 1.0])


@pytest.mark.parametrize("convert", [tuple, np.array, jnp.array, set])
def test_ids_come_in_any_collection(convert):
  metric = METRICS["recall"]
  assert float(metric.compute(expected_ids=convert([1, 2]), retrieved_ids=convert([2]))) == 0.5


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("ids", [(None, ["a"]), (["a"], None), ([], ["a"]), (["a"], [])])
def test_missing_ids_raise_as_in_the_original(metric, ids):
  message = "Retrieved ids and expected ids must be provided"
  with pytest.raises(ValueError, match=f"^{message}$"):
    metric.compute("query", *ids)
  if ids[0]:
    assert metric.compute_many([["a"], ids[0]], [["a"], ids[1]]).tolist() == [1, 0]
    lists = li.to_arrays([["a"], ids[0]], [["a"], ids[1]])
    assert jr.recall(lists.scores, lists.labels, where=lists.where).tolist() == [1, 0]
  else:
    with pytest.raises(ValueError, match=f"^{message} for query 1$"):
      metric.compute_many([["a"], ids[0]], [["a"], ids[1]])


def test_wrong_options_are_named():
  with pytest.raises(TypeError, match="use_granular_mrr must be True or False, got 'x'"):
    li.MRR(use_granular_mrr="x")
  with pytest.raises(TypeError, match="use_granular_hit_rate must be True or False, got None"):
    li.HitRate(use_granular_hit_rate=None)
  for i in (0, -1):
    with pytest.raises(ValueError, match=f"i must be a rank, at least 1, got {i}"):
      gain(1, i, "linear")
  with pytest.raises(TypeError, match="rel must be a number, got 'a'"):
    gain("a", 1, "linear")
  with pytest.raises(TypeError, match="metrics must be a list or an array, got NoneType None"):
    li.resolve_metrics(None)
  with pytest.raises(ValueError, match=r"Invalid metric name: \['mrr'\]"):
    li.resolve_metrics([["mrr"]])


def test_what_is_no_list_of_ids_is_named():
  with pytest.raises(TypeError, match="expected_ids must be a list or an array, got str 'abc'"):
    li.MRR().compute(expected_ids="abc", retrieved_ids=["a"])
  with pytest.raises(TypeError, match="compute_many takes many queries"):
    li.MRR().compute(expected_ids=[["a"]], retrieved_ids=[["a"]])
  with pytest.raises(ValueError, match="one list for each query, got 1 and 2"):
    li.MRR().compute_many([["a"]], [["a"], ["b"]])
  assert li.MRR().compute_many([], []).shape == (0,)


def test_results_are_floats_and_text():
  result = li.RetrievalMetricResult(score="0.5", metadata={"agg": "max"})
  assert (result.score, float(result)) == (0.5, 0.5)
  assert str(result) == "Score: 0.5\nMetadata: {'agg': 'max'}"
  assert li.RetrievalMetricResult(score=1).metadata == {}
  with pytest.raises(ValueError, match="score must be a number, got 'high'"):
    li.RetrievalMetricResult(score="high")


def test_names_resolve_to_classes():
  names = ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg"]
  assert list(li.METRIC_REGISTRY) == names
  assert all(kind.metric_name == name for name, kind in li.METRIC_REGISTRY.items())
  assert li.resolve_metrics(["ndcg", "mrr", "mrr"]) == [li.NDCG, li.MRR, li.MRR]
  assert li.resolve_metrics([]) == []
  for name in ("foo", "MRR", "cohere_rerank_relevancy"):
    with pytest.raises(ValueError, match=f"^Invalid metric name: {name}$"):
      li.resolve_metrics(["mrr", name])


def test_modes_of_ndcg():
  ids = ["a", "b"], ["b", "c"]
  both = [float(li.NDCG(mode=m).compute("query", *ids)) for m in ("linear", "exponential")]
  assert both[0] == both[1] > 0
  for make in (lambda mode: li.NDCG(mode=mode), lambda mode: gain(2, 1, mode)):
    with pytest.raises(ValueError, match="mode must be one of 'linear', 'exponential', got 'log'"):
      make("log")


def gain(rel, i, mode):
  return li.discounted_gain(rel=rel, i=i, mode=mode)


def test_discounted_gain():
  assert gain(0, 1, "linear") == gain(False, 2, "exponential") == 0
  assert gain(1, 3, "linear") == gain(True, 3, "exponential") == 0.5
  assert (gain(2, 3, "linear"), gain(2, 3, "exponential")) == (1.0, 1.5)


def test_metrics_of_ones_own():
  class Always(li.BaseRetrievalMetric):
    metric_name = "always"

    def compute(self, *args, **kwargs):
      return li.RetrievalMetricResult(score=1.0)

  assert float(Always().compute()) == 1.0
  with pytest.raises(TypeError, match="abstract"):
    li.BaseRetrievalMetric()
