"""The adapter against PyKEEN itself, on 2,000 random cases for each metric."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxrank.interop import pykeen
from tests.helpers.suites import thorough

theirs = pytest.importorskip("pykeen.metrics.ranking")
evaluation = pytest.importorskip("pykeen.evaluation.rank_based_evaluator")
torch = pytest.importorskip("torch")

pytestmark = [thorough, pytest.mark.filterwarnings("ignore")]

NAMES = sorted(cls.__name__ for cls in theirs.rank_based_metric_resolver)
CASES = 2000

# Metrics whose weights 1.11.1 ignores, scales otherwise, or divides as integers.
OWN_WEIGHTS = {"StandardDeviation", "Variance", "Count", "MedianAbsoluteDeviation"}


def cases(seed):
  """Ranks, candidates and weights of six tasks each, and `where`, which takes tasks out."""
  rng = np.random.default_rng(seed)
  candidates = rng.integers(2, 40, (CASES, 6))
  ranks = rng.integers(1, candidates + 1).astype(float)
  return ranks, candidates, rng.random((CASES, 6)) + 0.01, rng.random((CASES, 6)) < 0.8


def make(name):
  kwargs = {"k": 3} if "HitsAtK" in name else {}
  return getattr(theirs, name)(**kwargs), getattr(pykeen, name)(**kwargs)


@pytest.mark.parametrize(
  ("name", "weighted"),
  [(name, False) for name in NAMES] + [(name, True) for name in NAMES if name not in OWN_WEIGHTS],
)
def test_values_are_those_of_the_original(name, weighted):
  original, own = make(name)
  ranks, candidates, weights, where = cases(0)
  where[:, 0] = True
  expected = [
    original(r[m], c[m], w[m] if weighted else None)
    for r, c, w, m in zip(ranks, candidates, weights, where, strict=True)
  ]
  with jax.enable_x64(True):
    given = np.where(where, candidates, 0).astype(float)
    values = own.native(ranks, weights if weighted else None, candidates=given)
  np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)
  for r, c, w, m, x in zip(
    *(x[:40] for x in (ranks, candidates, weights, where, expected)), strict=True
  ):
    assert own(r[m], c[m], w[m] if weighted else None) == pytest.approx(x, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if make(name)[0].closed_expectation])
@pytest.mark.parametrize("weighted", [False, True])
def test_chance_is_that_of_the_original(name, weighted):
  original, own = make(name)
  _, candidates, weights, _ = cases(1)
  with jax.enable_x64(True):
    given = candidates.astype(float), weights if weighted else None
    found = own.native.expected(*given), own.native.variance(*given)
  rows = list(zip(candidates, weights if weighted else [None] * CASES, strict=True))
  expected = [original.expected_value(c, weights=w) for c, w in rows]
  np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=1e-6)
  expected = [original.variance(c, weights=w) for c, w in rows]
  np.testing.assert_allclose(found[1], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_classes_describe_themselves_as_the_original(name):
  original, own = make(name)
  for what in ("name", "increasing", "binarize", "needs_candidates"):
    assert getattr(own, what) == getattr(original, what)
  assert tuple(own.synonyms) == tuple(original.synonyms)
  assert own.value_range.notate() == original.value_range.notate()
  assert dataclasses.astuple(own.value_range) == dataclasses.astuple(original.value_range)
  assert set(own.supported_rank_types) == set(original.supported_rank_types)
  if "HitsAtK" not in name or name == "HitsAtK":
    assert own.key == original.key
  known = pykeen.rank_based_metric_resolver
  for query in (original.name.split(" (")[0], *original.synonyms):
    try:
      expected = theirs.rank_based_metric_resolver.lookup(query).__name__
    except KeyError:
      continue
    assert known.lookup(query).__name__ == expected


def test_samples_are_those_of_the_original_for_one_generator():
  original, own = make("InverseHarmonicMeanRank")
  for what in ("get_sampled_values", "numeric_expected_value_with_ci", "numeric_variance_with_ci"):
    values = [
      getattr(metric, what)(
        num_candidates=np.array([10, 20, 30]), num_samples=200, generator=np.random.default_rng(0)
      )
      for metric in (original, own)
    ]
    np.testing.assert_allclose(*values, rtol=1e-9)


def test_ranks_are_those_of_the_original():
  rng = np.random.default_rng(2)
  scores = rng.integers(0, 5, (CASES, 7)).astype(np.float32)
  scores[:, 1:][rng.random((CASES, 6)) < 0.2] = np.nan
  given = torch.as_tensor(scores[:, :1]), torch.as_tensor(scores)
  expected = evaluation.Ranks.from_scores(*given)
  found = pykeen.Ranks.from_scores(*given)
  for field in dataclasses.fields(found):
    assert np.array_equal(getattr(found, field.name), getattr(expected, field.name))


@pytest.mark.parametrize("kind", ["RankBasedEvaluator", "MacroRankBasedEvaluator"])
def test_evaluators_are_those_of_the_original(kind):
  rng = np.random.default_rng(3)
  both = [
    getattr(home, kind)(
      metrics=["mrr", "amri", "hits@k", "median_rank"], add_defaults=False, clear_on_finalize=False
    )
    for home in (evaluation, pykeen)
  ]
  for side, column in (("head", 0), ("tail", 2)):
    for _ in range(2):
      batch = torch.as_tensor(rng.integers(0, 6, (5, 3)))
      scores = torch.as_tensor(rng.integers(0, 9, (5, 6)).astype(np.float32))
      true = scores[torch.arange(5), batch[:, column]][:, None]
      for evaluator in both:
        evaluator.process_scores_(batch, side, scores, true)
  if kind == "RankBasedEvaluator":
    # The original forgets the weights of a macro average here.
    multi = [evaluator.finalize_multi(n_boot=7) for evaluator in both]
    assert multi[0].keys() == multi[1].keys()
    for key, values in multi[0].items():
      np.testing.assert_allclose(multi[1][key], values, rtol=1e-6, atol=1e-6)
  expected, found = (evaluator.finalize().to_flat_dict() for evaluator in both)
  assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", [None, "hits@5", "head.mr", "best.mrr", "hits_at_k.3", "amri"])
def test_keys_are_those_of_the_original(name):
  key = evaluation.RankBasedMetricResults.key_from_string(name)
  assert pykeen.RankBasedMetricResults.key_from_string(name) == tuple(key)


def test_filters_are_those_of_the_original():
  from pykeen.evaluation import evaluator

  rng = np.random.default_rng(4)
  batch, known = (torch.as_tensor(rng.integers(0, 4, (n, 3))) for n in (20, 30))
  for column in (0, 2):
    expected, _ = evaluator.create_sparse_positive_filter_(batch, known, filter_col=column)
    found, _ = pykeen.create_sparse_positive_filter_(batch, known, filter_col=column)
    assert sorted(found.tolist()) == sorted(expected.tolist())
    filtered = evaluator.filter_scores_(torch.zeros(20, 4), expected)
    assert np.array_equal(
      pykeen.filter_scores_(np.zeros((20, 4)), found), filtered.numpy(), equal_nan=True
    )


def test_candidate_sets_are_those_of_the_original_and_the_true_one():
  from pykeen.evaluation import evaluator

  rng = np.random.default_rng(5)
  for restricted in ((None, None), (range(4), None), (None, [0, 1])):
    triples, more = (np.unique(rng.integers(0, 6, (n, 3)), axis=0) for n in (40, 30))
    given = torch.as_tensor(triples), *restricted, torch.as_tensor(more)
    expected = evaluator.get_candidate_set_size(*given)
    found = pykeen.get_candidate_set_size(triples, *restricted, more)
    assert list(found) == list(expected.columns)
    for name, column in found.items():
      np.testing.assert_array_equal(column, expected[name] + name.endswith("candidates"))


def test_negatives_of_tensors_are_tensors():
  triples = torch.tensor([[0, 0, 1], [2, 0, 1]])
  found = pykeen.sample_negatives(triples, num_samples=3, num_entities=6)
  for side, column in (("head", 0), ("tail", 2)):
    assert found[side].dtype == torch.long
    assert found[side].shape == (2, 3)
    assert not (found[side] == triples[:, column, None]).any()
  arrays = pykeen.sample_negatives(triples.numpy(), num_samples=3, num_entities=6)
  assert isinstance(arrays["head"], np.ndarray)
