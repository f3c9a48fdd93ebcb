"""Agreement with LlamaIndex's own metrics, and each deliberate difference."""

import numpy as np
import pytest

import jaxrank.interop.llama_index as li
from tests.helpers.originals import load
from tests.helpers.suites import thorough

pytest.importorskip("pydantic")
original = load(
  "llama_index.core", "bridge.pydantic", "evaluation.retrieval.metrics_base",
  "evaluation.retrieval.metrics",
)  # fmt: skip

pytestmark = thorough


KINDS = [
  ("HitRate", {}),
  ("HitRate", {"use_granular_hit_rate": True}),
  ("MRR", {}),
  ("MRR", {"use_granular_mrr": True}),
  ("Precision", {}),
  ("Recall", {}),
  ("AveragePrecision", {}),
  ("NDCG", {"mode": "linear"}),
  ("NDCG", {"mode": "exponential"}),
]


def both(kind, options):
  return getattr(original, kind)(**options), getattr(li, kind)(**options)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_two_thousand_queries_agree(kind, options):
  rng = np.random.default_rng(0)
  theirs, ours = both(kind, options)
  lists = [
    [[f"d{i}" for i in rng.permutation(12)[: rng.integers(1, 12)]] for _ in range(2000)]
    for _ in range(2)
  ]
  expected = [float(theirs.compute("query", *pair)) for pair in zip(*lists, strict=True)]
  np.testing.assert_allclose(ours.compute_many(*lists), expected, atol=1e-9)
  for pair, value in zip(zip(*(x[:20] for x in lists), strict=True), expected, strict=False):
    result = ours.compute("query", *pair)
    assert float(result) == pytest.approx(value, abs=1e-9)
    assert type(result.score) is float


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_errors_are_those_of_the_original(kind, options):
  for metric in both(kind, options):
    for ids in ((None, ["a"]), (["a"], None), ([], ["a"]), (["a"], [])):
      with pytest.raises(ValueError, match="^Retrieved ids and expected ids must be provided$"):
        metric.compute("query", *ids)


def test_results_look_as_those_of_the_original():
  for module in (original, li):
    result = module.MRR().compute(expected_ids=["d1", "d3"], retrieved_ids=["d2", "d1"])
    assert str(result) == "Score: 0.5\nMetadata: {}"
    assert float(result) == 0.5
    assert module.RetrievalMetricResult(score="2").score == 2.0
    with pytest.raises(ValueError, match="score"):
      module.RetrievalMetricResult(score="high")
    with pytest.raises(ValueError, match="mode"):
      module.NDCG(mode="log")


def test_names_resolve_as_in_the_original():
  names = list(li.METRIC_REGISTRY)
  assert names == [name for name in original.METRIC_REGISTRY if not name.startswith("cohere")]
  for module in (original, li):
    assert [kind.metric_name for kind in module.resolve_metrics(names)] == names
    with pytest.raises(ValueError, match="^Invalid metric name: foo$"):
      module.resolve_metrics(["mrr", "foo"])


def test_discounted_gains_are_those_of_the_original():
  for mode in ("linear", "exponential"):
    for rel in (0, 1, 2, 3.5):
      values = [module.discounted_gain(rel=rel, i=4, mode=mode) for module in (original, li)]
      assert values[0] == pytest.approx(values[1], abs=1e-12)


@pytest.mark.parametrize(
  ("kind", "options", "expected_ids", "theirs", "ours"),
  [
    ("HitRate", {"use_granular_hit_rate": True}, ["a"], 2.0, 1.0),
    ("MRR", {"use_granular_mrr": True}, ["a"], 0.75, 1.0),
    ("AveragePrecision", {}, ["a"], 2.0, 1.0),
    ("NDCG", {}, ["a"], 1.63093, 1.0),
    ("HitRate", {"use_granular_hit_rate": True}, ["a", "c", "c"], 2 / 3, 1 / 2),
    ("NDCG", {}, ["c", "c", "b"], 0.5 / 2.1309297, 0.5 / 1.6309297),
  ],
)
def test_difference_an_id_counts_once(kind, options, expected_ids, theirs, ours):
  for metric, value in zip(both(kind, options), (theirs, ours), strict=True):
    result = metric.compute(expected_ids=expected_ids, retrieved_ids=["a", "a", "b"])
    assert float(result) == pytest.approx(value, abs=1e-5)


def test_difference_a_name_alone_is_no_list_of_letters():
  with pytest.raises(ValueError, match="Invalid metric name: m"):
    original.resolve_metrics("mrr")
  assert li.resolve_metrics("mrr") == [li.MRR]
