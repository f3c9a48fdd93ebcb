"""Agreement with trec_eval in every measure it has, and with the providers of ir_measures.

Columns stand in the descending order of the documents' ids, so that `Exact("stable")` breaks ties
as trec_eval does.
"""

import functools
import importlib.util
from typing import Any

import jax
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.measures import trec_families
from tests.helpers.suites import thorough

pytestmark = thorough

pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs the extra peers")

QUERIES = 200
STABLE = jr.Exact("stable")
NAMES = trec_families("all_trec")
# They are texts, and not measures.
TEXTS = {"runid", "relstring"}
Lists = tuple[np.ndarray, np.ndarray]


@functools.cache
def lists(seed: int, n: int, levels: int | None = None, share: float = 0.3) -> Lists:
  """Scores and labels of queries, with labels of all kinds and items that are not retrieved.

  Every query has a judged item and a retrieved one: trec_eval crashes without the first.
  """
  rng = np.random.default_rng(seed)
  shape = (QUERIES, n)
  if levels is None:
    scores = rng.permuted(np.tile(np.arange(n) / 4, (QUERIES, 1)), axis=1)
  else:
    scores = rng.integers(levels, size=shape) / 4
  scores = np.where(rng.random(shape) < rng.choice([0.0, 0.2, 0.6], (QUERIES, 1)), -np.inf, scores)
  chances = [0.1, 0.2, 0.7 - share, share * 0.5, share * 0.3, share * 0.2]
  labels = rng.choice([-2, -1, 0, 1, 2, 3], p=chances, size=shape)
  labels[:9] = np.minimum(labels[:9], 0)
  labels[:, 0] = np.maximum(labels[:, 0], 0)
  scores[:, 1] = np.where(scores[:, 1] > -np.inf, scores[:, 1], 0.5)
  scores[9:15] = np.where(np.arange(n) < 2, scores[9:15], -np.inf)
  return scores.astype(np.float32), labels.astype(np.float32)


LISTS = {
  "short": (0, 9, 4),
  "ties": (1, 60, 12),
  "distinct": (2, 60),
  "many relevant": (3, 400, 50, 0.5),
}


def files(scores: np.ndarray, labels: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
  """Judgements and run, by query and document; no judgement for the label -1."""
  names = [f"d{9999 - column}" for column in range(scores.shape[1])]
  qrels, run = {}, {}
  for query, rows in enumerate(zip(scores, labels, strict=True)):
    row, judged = rows
    pairs = list(zip(names, row.tolist(), judged.tolist(), strict=True))
    qrels[str(query)] = {name: int(label) for name, _, label in pairs if label != -1}
    run[str(query)] = {name: score for name, score, _ in pairs if score > -np.inf}
  return qrels, run


@functools.cache
def theirs(case: str, level: int) -> list[dict[str, float]]:
  """The values of trec_eval, by query and name."""
  qrels, run = files(*lists(*LISTS[case]))
  evaluator = pytrec_eval.RelevanceEvaluator(
    qrels, pytrec_eval.supported_measures, relevance_level=level
  )
  found = evaluator.evaluate(run)
  return [found[query] for query in qrels]


@functools.cache
def ours(case: str, level: int) -> tuple[dict[str, Any], dict[str, float]]:
  """Our values by name, and what an evaluator makes of them."""
  measures = [
    jr.Measure(x.metric, name=x.name, **_at_level(x.parameters, level))
    for x in jr.parse(NAMES, dialect="trec_eval")
  ]
  scores, labels = lists(*LISTS[case])
  evaluator = jr.Evaluator(measures, ranking=STABLE)
  state = jax.jit(evaluator.update)(evaluator.init(), scores, labels)
  values = jax.jit(lambda *x: jr.evaluate(measures, *x, ranking=STABLE))(scores, labels)
  return {name: np.asarray(x) for name, x in values.items()}, evaluator.compute(state)


def _at_level(parameters: Any, level: int) -> dict[str, Any]:
  return {name: level if name == "rel" else x for name, x in parameters.items()}


def test_every_measure_is_one_of_ours():
  families = {name for name in pytrec_eval.supported_measures if name not in TEXTS}
  assert set(trec_families(families)) == set(NAMES)
  assert set(theirs("short", 1)[0]) == set(NAMES) | TEXTS
  for nickname in ("official", "set", "all_trec"):
    members = pytrec_eval.supported_nicknames[nickname] - TEXTS
    assert set(trec_families(nickname)) == set(trec_families(members))


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("case", LISTS)
def test_values_are_those_of_trec_eval(case, level):
  found, aggregated = ours(case, level)
  expected = theirs(case, level)
  for name in NAMES:
    values = np.array([query[name] for query in expected])
    np.testing.assert_allclose(found[name], values, rtol=2e-6, atol=2e-6, err_msg=name)
    whole = pytrec_eval.compute_aggregated_measure(name, values.tolist())
    np.testing.assert_allclose(aggregated[name], whole, rtol=2e-6, atol=2e-6, err_msg=name)


def test_the_rounding_of_recall_levels_is_that_of_trec_eval():
  """0.3 of 57 is less than 17.1 in float64, and `floor(x + 0.9)` makes 17 of it."""
  for count in (57, 67, 77, 10):
    labels = np.zeros((1, 400), np.float32)
    labels[0, np.arange(count) * 3] = 1
    scores = -np.arange(400, dtype=np.float32)[None]
    qrels, run = files(scores, labels)
    names = ["iprec_at_recall_0.30", "11pt_avg", "iprec_at_recall_0.70"]
    found = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)["0"]
    values = jr.evaluate(jr.parse(names, dialect="trec_eval"), scores, labels, ranking=STABLE)
    for name in names:
      assert float(values[name][0]) == pytest.approx(found[name], abs=1e-6)


# For each provider, measures of every kind that it computes. cwl_eval takes the relevant items that
# are retrieved for all of them in AP, which is another measure, and adds thirds up in float64.
PROVIDED = {
  "pytrec_eval": (
    "P@5 P(rel=2)@7 RR(rel=2) Rprec AP AP@10 nDCG nDCG@7 nDCG(gains={1:3,2:9})@7 R@9 Bpref "
    "Bpref(rel=2) NumRet NumRet(rel=2) NumRelRet NumQ NumRel SetAP SetAP(rel=2) SetF SetF(beta=2) "
    "SetF(rel=2,beta=0.5) SetP SetP(relative=True) SetR Success@3 IPrec@0.1 IPrec(rel=2)@0.65 "
    "infAP infAP(rel=2)"
  ),
  "cwl_eval": (
    "P@5 P(rel=2)@10 RR RBP(rel=1) RBP(rel=2,p=0.95) BPM(max_rel=4)@10 BPM(T=2,max_rel=2)@50 "
    "BPM(T=0.5,max_rel=4)@3 BPM(min_rel=1,max_rel=3)@5 SDCG(max_rel=3)@10 "
    "SDCG(min_rel=1,max_rel=2)@50 INST(max_rel=3) INST(T=3,max_rel=2) "
    "INST(T=2,min_rel=1,max_rel=2) INSQ(max_rel=3) INSQ(T=2.5,max_rel=4) NERR8(max_rel=3)@5 "
    "NERR8(max_rel=3)@100 NERR8(min_rel=1,max_rel=2)@1000 NERR9(max_rel=3)@10 "
    "NERR9(min_rel=1,max_rel=4)@1000 NERR10(max_rel=3) NERR10(p=0.5,min_rel=1,max_rel=4) "
    "NERR11(max_rel=3) NERR11(T=2.5,min_rel=1,max_rel=4)"
  ),
  "accuracy": "Accuracy Accuracy@20 Accuracy(rel=2) Accuracy(rel=2)@7",
  "compat": "Compat Compat(p=0.5) Compat(p=0.8,normalize=False)",
  "judged": "Judged Judged@5",
  "msmarco": "RR@10 RR(rel=2)@5",
}


def _provided() -> list[tuple[str, str]]:
  if importlib.util.find_spec("ir_measures") is None:
    return []
  import ir_measures

  there = {name for name, x in ir_measures.providers.registry.items() if x.is_available()}
  texts = {name: text.split() for name, text in PROVIDED.items() if name in there}
  return [(provider, name) for provider, names in texts.items() for name in names]


def _by_place(run: dict[str, float]) -> dict[str, float]:
  """A run with different positive scores and the same order, of `Exact("stable")`."""
  ordered = sorted(run, key=lambda name: -run[name])
  return {name: float(len(run) - place) for place, name in enumerate(ordered)}


def _has_others(run: dict[str, float], judged: dict[str, int], measure: Any) -> bool:
  """Whether one of the first documents of a run is not relevant."""
  first = sorted(run, key=lambda name: -run[name])[: measure.params.get("cutoff")]
  return any(judged.get(name, 0) < measure["rel"] for name in first)


@pytest.mark.parametrize(("provider", "name"), _provided())
def test_values_are_those_of_ir_measures(provider, name):
  import ir_measures

  # Providers break ties in different ways.
  scores, labels = lists(*LISTS["distinct"])
  qrels, run = files(scores, labels)
  measure = ir_measures.parse_measure(name)
  evaluator = ir_measures.providers.registry[provider].evaluator([measure], qrels)
  # That of Compat takes 0 for the score of a document that is not retrieved, and orders the two of
  # equal scores that a list may have in another way.
  if provider == "compat":
    run = {query: _by_place(there) for query, there in run.items()}
  # The program of Accuracy stops at a query whose first documents are all relevant.
  if provider == "accuracy":
    every = [query for query, there in run.items() if _has_others(there, qrels[query], measure)]
    run = {query: run[query] for query in every}
  expected = {x.query_id: x.value for x in evaluator.iter_calc(run)}
  (own,) = jr.parse(name, dialect="ir_measures")
  found = jax.jit(lambda *x: own(*x, ranking=STABLE))(scores, labels)
  # It has no value for one without a relevant document there.
  missing = {} if provider != "accuracy" else dict.fromkeys(qrels, 0.0)
  values = [{**missing, **expected}[query] for query in qrels]
  np.testing.assert_allclose(found, values, rtol=2e-6, atol=2e-6)
  total = ir_measures.measures.base.SumAgg
  sums = isinstance(measure.aggregator(), total)
  assert (own.description.aggregation == "sum") == sums


# They are computed without the documents that are not in the judgements.
JUDGED_ONLY = [
  "P(judged_only=True)@5",
  "RR(judged_only=True)",
  "Rprec(judged_only=True)",
  "AP(judged_only=True)",
  "AP(judged_only=True)@10",
  "nDCG(judged_only=True)",
  "nDCG(judged_only=True)@7",
  "R(judged_only=True)@9",
  "SetAP(judged_only=True)",
  "SetF(judged_only=True)",
  "SetP(judged_only=True)",
  "SetP(judged_only=True,relative=True)",
  "Success(judged_only=True)@3",
  "IPrec(judged_only=True)@0.1",
]


@pytest.mark.parametrize("name", JUDGED_ONLY)
def test_a_mask_of_judged_items_is_judged_only(name):
  ir_measures = pytest.importorskip("ir_measures", reason="needs the extra peers")
  scores, labels = lists(*LISTS["distinct"])
  labels = np.maximum(labels, -1)
  qrels, run = files(scores, labels)
  measure = ir_measures.parse_measure(name)
  evaluator = ir_measures.providers.registry["pytrec_eval"].evaluator([measure], qrels)
  expected = {x.query_id: x.value for x in evaluator.iter_calc(run)}
  plain = name.replace("(judged_only=True)", "").replace("judged_only=True,", "")
  (own,) = jr.parse(plain, dialect="ir_measures")
  found = own(scores, labels, where=labels >= 0, ranking=STABLE)
  np.testing.assert_allclose(found, [expected[x] for x in qrels], rtol=2e-6, atol=2e-6)
