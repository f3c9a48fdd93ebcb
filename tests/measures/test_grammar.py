"""Every spelling of every dialect, what it means, and how a bad one is refused."""

import inspect
from decimal import Decimal

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import gains
from jaxrank._core.description import GAIN
from jaxrank.measures import trec_families
from tests.helpers.suites import quick

# Spelling, which is the name of the values, metric, parameters.
IR_MEASURES = [
  ("nDCG", "ndcg", {}),
  ("nDCG@10", "ndcg", {"k": 10}),
  ("NDCG@10", "ndcg", {"k": 10}),
  ("nDCG(dcg='log2')@10", "ndcg", {"k": 10}),
  ("nDCG(dcg='exp-log2')@10", "ndcg", {"gain": gains.exponential, "k": 10}),
  ("nDCG(gains={0:0,1:1})", "ndcg", {}),
  (
    "nDCG(gains={0: 0, 2: 5, 1: 1.5})@10",
    "ndcg",
    {"gain": gains.by_label({1: 1.5, 2: 5}), "k": 10},
  ),
  ("AP", "average_precision", {"rel": 1}),
  ("MAP", "average_precision", {"rel": 1}),
  ("AP(rel=1)", "average_precision", {"rel": 1}),
  ("AP(rel=2)@100", "average_precision", {"rel": 2, "k": 100}),
  ("AP( rel = 2.0 )@100", "average_precision", {"rel": 2, "k": 100}),
  ("AP(rel=3.0)", "average_precision", {"rel": 3}),
  ("P@5", "precision", {"rel": 1, "k": 5}),
  ("Precision@5", "precision", {"rel": 1, "k": 5}),
  ("P(rel=2)@5", "precision", {"rel": 2, "k": 5}),
  ("R@1000", "recall", {"rel": 1, "k": 1000}),
  ("Recall@1000", "recall", {"rel": 1, "k": 1000}),
  ("RR", "reciprocal_rank", {"rel": 1}),
  ("RR@10", "reciprocal_rank", {"rel": 1, "k": 10}),
  ("MRR@10", "reciprocal_rank", {"rel": 1, "k": 10}),
  ("Success@5", "hit_rate", {"rel": 1, "k": 5}),
  ("Rprec", "r_precision", {"rel": 1}),
  ("RPrec", "r_precision", {"rel": 1}),
  ("RBP", "rbp", {}),
  ("RBP(p=0.8)", "rbp", {}),
  ("RBP(p=0.8,rel=1)", "rbp", {"rel": 1}),
  ("RBP(rel=2,p=.5)@20", "rbp", {"persistence": 0.5, "rel": 2, "k": 20}),
  ("ERR@20", "err", {"max_label": 4, "k": 20}),
  ("SetP", "precision", {"divisor": "retrieved", "rel": 1}),
  ("SetR(rel=2)", "recall", {"rel": 2}),
  ("Bpref", "bpref", {"rel": 1}),
  ("BPref(rel=2)", "bpref", {"rel": 2}),
  ("Judged", "judged", {"of": "pooled"}),
  ("Judged@10", "judged", {"of": "pooled", "k": 10}),
  ("SetP(relative=True)", "precision", {"divisor": "attainable", "rel": 1}),
  ("SetF", "f_measure", {"divisor": "retrieved", "rel": 1}),
  ("SetF(beta=4,rel=2)", "f_measure", {"divisor": "retrieved", "rel": 2, "beta": 2.0}),
  ("SetAP(rel=2)", "set_average_precision", {"rel": 2}),
  ("NumQ", "query_count", {}),
  ("NumRet", "item_count", {"of": "retrieved"}),
  ("NumRet(rel=2)", "item_count", {"of": "relevant_retrieved", "rel": 2}),
  ("NumRelRet", "item_count", {"of": "relevant_retrieved", "rel": 1}),
  ("NumRel(rel=2)", "item_count", {"of": "relevant", "rel": 2}),
  ("infAP", "inferred_average_precision", {"rel": 1}),
  ("IPrec@0.1", "interpolated_precision", {"level": Decimal("0.1"), "rel": 1}),
  ("IPrec(rel=2)@0.25", "interpolated_precision", {"level": Decimal("0.25"), "rel": 2}),
  ("INST(max_rel=3)", "inst", {"max_label": 3, "patience": 1000}),
  (
    "INSQ(max_rel=3,min_rel=1,T=2)",
    "insq",
    {"max_label": 3, "min_label": 1, "target": 2, "patience": 1000},
  ),
  ("BPM(max_rel=3)@10", "bpm", {"max_label": 3, "k": 10}),
  ("SDCG(max_rel=3)@10", "sdcg", {"max_label": 3, "k": 10}),
  ("NERR8(max_rel=3)@10", "nearly_err", {"max_label": 3, "k": 10}),
  (
    "NERR9(max_rel=3,min_rel=1)@10",
    "nearly_err",
    {"max_label": 3, "min_label": 1, "k": 10, "discount": jr.discounts.reciprocal},
  ),
  ("Accuracy", "retrieved_auc", {"rel": 1}),
  ("Accuracy(rel=2)@5", "retrieved_auc", {"rel": 2, "k": 5}),
  ("Compat(p=0.9)", "compatibility", {"persistence": 0.9}),
  ("Compat(normalize=False)", "compatibility", {"normalizer": "weights"}),
  ("P_IA@5", "precision_ia", {"rel": 1, "k": 5}),
  ("AP_IA", "average_precision_ia", {"rel": 1}),
  ("StRecall@5", "subtopic_recall", {"rel": 1, "k": 5}),
  ("nNRBP(beta=0.7)", "nnrbp", {"rel": 1, "beta": 0.7}),
  ("alpha_nDCG@20", "alpha_ndcg", {"rel": 1, "k": 20}),
  ("alpha_nDCG(alpha=0.3,rel=2)@20", "alpha_ndcg", {"alpha": 0.3, "rel": 2, "k": 20}),
  ("alpha_DCG@20", "alpha_dcg", {"rel": 1, "k": 20, "normalizer": "perfect"}),
  ("ERR_IA@20", "err_ia", {"max_label": 1, "k": 20, "normalizer": "perfect"}),
  ("nERR_IA@20", "nerr_ia", {"max_label": 1, "k": 20}),
  ("NRBP", "nrbp", {"rel": 1}),
  ("NRBP(alpha=.3,beta=0.7)", "nrbp", {"rel": 1, "alpha": 0.3, "beta": 0.7}),
]
TREC_EVAL = [
  ("map", "average_precision", {"rel": 1}),
  ("map_cut_10", "average_precision", {"rel": 1, "k": 10}),
  ("map_cut.10", "average_precision", {"rel": 1, "k": 10}),
  ("P_10", "precision", {"rel": 1, "k": 10}),
  ("P.10", "precision", {"rel": 1, "k": 10}),
  ("recall_10", "recall", {"rel": 1, "k": 10}),
  ("recip_rank", "reciprocal_rank", {"rel": 1}),
  ("Rprec", "r_precision", {"rel": 1}),
  ("ndcg", "ndcg", {}),
  ("ndcg.1=3,2=9.5", "ndcg", {"gain": gains.by_label({1: 3, 2: 9.5})}),
  ("set_F.0.25", "f_measure", {"divisor": "retrieved", "rel": 1, "beta": 0.5}),
  ("utility", "utility", {"rel": 1}),
  ("utility.2,-1.5,0,.25", "utility", {"rel": 1, "hit": 2, "other": -1.5, "rest": 0.25}),
  ("utility.1,-1e-9,+.5,0", "utility", {"rel": 1, "other": -1e-9, "miss": 0.5}),
  ("ndcg.1=1e2,2=2.5E-1", "ndcg", {"gain": gains.by_label({1: 100, 2: 0.25})}),
  ("set_F.25e-2", "f_measure", {"divisor": "retrieved", "rel": 1, "beta": 0.5}),
  ("iprec_at_recall.5e-1", "interpolated_precision", {"rel": 1, "level": Decimal("0.5")}),
  (
    "11pt_avg.25e-2,5e-1",
    "eleven_point_average",
    {"rel": 1, "rounding": "trec_eval", "levels": (Decimal("0.25"), Decimal("0.5"))},
  ),
  ("Rprec_mult.2", "r_precision", {"rel": 1, "multiple": Decimal(2)}),
  ("iprec_at_recall..5", "interpolated_precision", {"rel": 1, "level": Decimal("0.5")}),
  ("ndcg_cut_10", "ndcg", {"k": 10}),
  ("success_5", "hit_rate", {"rel": 1, "k": 5}),
  ("set_P", "precision", {"divisor": "retrieved", "rel": 1}),
  ("set_recall", "recall", {"rel": 1}),
  ("set_F", "f_measure", {"divisor": "retrieved", "rel": 1}),
  ("set_map", "set_average_precision", {"rel": 1}),
  ("set_relative_P", "precision", {"divisor": "attainable", "rel": 1}),
  ("relative_P_5", "precision", {"divisor": "relevant", "rel": 1, "k": 5}),
  ("Rprec_mult_0.20", "r_precision", {"rel": 1, "multiple": Decimal("0.20")}),
  ("iprec_at_recall_0.10", "interpolated_precision", {"rel": 1, "level": Decimal("0.10")}),
  ("iprec_at_recall.0.10", "interpolated_precision", {"rel": 1, "level": Decimal("0.10")}),
  ("11pt_avg", "eleven_point_average", {"rel": 1, "rounding": "trec_eval"}),
  (
    "11pt_avg..25,0.5",
    "eleven_point_average",
    {"rel": 1, "rounding": "trec_eval", "levels": (Decimal("0.25"), Decimal("0.5"))},
  ),
  ("gm_map", "log_average_precision", {"rel": 1}),
  ("gm_bpref", "log_bpref", {"rel": 1}),
  ("infAP", "inferred_average_precision", {"rel": 1}),
  ("G", "normalized_gain", {}),
  ("binG", "binary_normalized_gain", {"rel": 1}),
  ("ndcg_rel", "ndcg_at_relevant", {}),
  ("Rndcg", "ndcg_at_levels", {"rel": 1}),
  ("num_q", "query_count", {}),
  ("num_ret", "item_count", {"of": "retrieved"}),
  ("num_rel", "item_count", {"of": "relevant", "rel": 1}),
  ("num_rel_ret", "item_count", {"of": "relevant_retrieved", "rel": 1}),
  ("num_nonrel_judged_ret", "item_count", {"of": "judged_others_retrieved", "rel": 1}),
]
NDEVAL = [
  ("ERR-IA@20", "err_ia", {"max_label": 1, "k": 20, "normalizer": "perfect"}),
  ("nERR-IA@20", "nerr_ia", {"max_label": 1, "k": 20}),
  ("alpha-DCG@10", "alpha_dcg", {"rel": 1, "k": 10, "normalizer": "perfect"}),
  ("alpha-nDCG@10", "alpha_ndcg", {"rel": 1, "k": 10}),
  ("NRBP", "nrbp", {"rel": 1}),
  ("nNRBP", "nnrbp", {"rel": 1}),
  ("P-IA@5", "precision_ia", {"rel": 1, "k": 5}),
  ("MAP-IA", "average_precision_ia", {"rel": 1}),
  ("strec@5", "subtopic_recall", {"rel": 1, "k": 5}),
]
TREC_EVAL10 = [
  ("unj_10", "judged", {"of": "unjudged", "divisor": "k", "k": 10}),
  ("rbp", "rbp", {"persistence": 0.9, "gain": gains.linear, "normalizer": "largest"}),
  ("rbp.p=0.5", "rbp", {"persistence": 0.5, "gain": gains.linear, "normalizer": "largest"}),
  ("rbp_resid", "rbp_residual", {"persistence": 0.9, "tail": "unjudged"}),
  (
    "iprec_at_recall_0.10",
    "interpolated_precision",
    {"rel": 1, "level": Decimal("0.10"), "rounding": "nearest"},
  ),
  ("11pt_avg", "eleven_point_average", {"rel": 1, "rounding": "nearest"}),
]
RECOMMENDERS = [
  ("hits@10", "hit_rate", {"k": 10}),
  ("Hits@10", "hit_rate", {"k": 10}),
  ("hit@10", "hit_rate", {"k": 10}),
  ("HR@10", "hit_rate", {"k": 10}),
  ("hits", "hit_rate", {}),
  ("accuracy@1", "hit_rate", {"k": 1}),
]
RANX = [
  ("ndcg@10", "ndcg", {"k": 10}),
  ("ndcg@10-l1", "ndcg", {"k": 10}),
  ("ndcg@10-l3", "ndcg", {"gain": gains.by_label({1: 0, 2: 0}), "k": 10}),
  ("ndcg_burges", "ndcg", {"gain": gains.exponential}),
  ("ndcg_burges@10", "ndcg", {"gain": gains.exponential, "k": 10}),
  ("dcg", "dcg", {}),
  ("dcg@10", "dcg", {"k": 10}),
  ("dcg-l2", "dcg", {"gain": gains.by_label({1: 0})}),
  ("dcg_burges", "dcg", {"gain": gains.exponential}),
  ("mrr", "reciprocal_rank", {"rel": 1}),
  ("mrr@10", "reciprocal_rank", {"rel": 1, "k": 10}),
  ("mrr-l2", "reciprocal_rank", {"rel": 2}),
  ("map@100", "average_precision", {"rel": 1, "k": 100}),
  ("map@100-l2", "average_precision", {"rel": 2, "k": 100}),
  ("precision", "precision", {"divisor": "retrieved", "rel": 1}),
  ("precision-l2", "precision", {"divisor": "retrieved", "rel": 2}),
  ("precision@5", "precision", {"rel": 1, "k": 5}),
  ("recall", "recall", {"rel": 1}),
  ("recall@10", "recall", {"rel": 1, "k": 10}),
  ("f1", "f_measure", {"rel": 1, "divisor": "retrieved"}),
  ("f1@5", "f_measure", {"rel": 1, "k": 5}),
  ("f1@5-l2", "f_measure", {"rel": 2, "k": 5}),
  ("hit_rate", "hit_rate", {"rel": 1}),
  ("hit_rate@10", "hit_rate", {"rel": 1, "k": 10}),
  ("r-precision", "r_precision", {"rel": 1}),
  ("r-precision-l2", "r_precision", {"rel": 2}),
  ("rbp.95", "rbp", {"persistence": 0.95, "gain": gains.linear}),
  ("rbp@95", "rbp", {"persistence": 0.95, "gain": gains.linear}),
  ("rbp.5-l2", "rbp", {"persistence": 0.5, "gain": gains.by_label({1: 0})}),
  ("bpref", "bpref", {"rel": 1}),
  ("bpref-l2", "bpref", {"rel": 2}),
  ("hits", "utility", {"rel": 1, "other": 0.0}),
  ("hits@10-l2", "utility", {"rel": 2, "other": 0.0, "k": 10}),
]
JAXRANK = [
  ("average_precision", "average_precision", {}),
  (
    "average_precision(normalizer='cutoff')@10",
    "average_precision",
    {"normalizer": "cutoff", "k": 10},
  ),
  ("reciprocal_rank", "reciprocal_rank", {}),
  ("reciprocal_rank(rel=2)@10", "reciprocal_rank", {"rel": 2, "k": 10}),
  ("hit_rate()", "hit_rate", {}),
  ("hit_rate(rel=1)@10", "hit_rate", {"rel": 1, "k": 10}),
  ("precision()@10", "precision", {"k": 10}),
  ("precision(divisor='retrieved')@10", "precision", {"divisor": "retrieved", "k": 10}),
  ("recall(rel=0.5)@10", "recall", {"rel": 0.5, "k": 10}),
  ("r_precision", "r_precision", {}),
  ("fall_out@10", "fall_out", {"k": 10}),
  ("f_measure(beta=2)@10", "f_measure", {"beta": 2, "k": 10}),
  ("f_measure(beta=2.0,rel=3)@10", "f_measure", {"beta": 2, "rel": 3, "k": 10}),
  ("rbp", "rbp", {}),
  ("rbp(persistence=0.5)@10", "rbp", {"persistence": 0.5, "k": 10}),
  ("rbp@95", "rbp", {"k": 95}),
  ("bpref", "bpref", {}),
  ("judged@5", "judged", {"k": 5}),
  ("ndcg", "ndcg", {}),
  ("ndcg()@5", "ndcg", {"k": 5}),
  ("ndcg(k=5)", "ndcg", {"k": 5}),
  ("ndcg(gain='exponential')@5", "ndcg", {"gain": gains.exponential, "k": 5}),
  ("dcg(gain='binary')", "dcg", {"gain": gains.binary}),
  ("precision", "precision", {}),
  ("precision@5", "precision", {"k": 5}),
  ("recall@10", "recall", {"k": 10}),
  ("hit_rate", "hit_rate", {}),
  ("hit_rate@10", "hit_rate", {"k": 10}),
  ("err(max_label=4)", "err", {"max_label": 4}),
  ("err(max_label=4)@20", "err", {"max_label": 4, "k": 20}),
  ("nerr(max_label=2)@20", "nerr", {"max_label": 2, "k": 20}),
  ("gap(max_label=3)", "gap", {"max_label": 3}),
  ("alpha_ndcg(alpha=0.3)@20", "alpha_ndcg", {"alpha": 0.3, "k": 20}),
  ("err_ia(max_label=1)@20", "err_ia", {"max_label": 1, "k": 20}),
  ("nrbp(beta=0.7)", "nrbp", {"beta": 0.7}),
  ("auc", "auc", {}),
  ("auc(rel=2)", "auc", {"rel": 2}),
  ("kendall_tau", "kendall_tau", {}),
  ("spearman", "spearman", {}),
  ("ordered_pair_accuracy", "ordered_pair_accuracy", {}),
  ("interpolated_precision(level=0.3,rel=2)", "interpolated_precision", {"level": 0.3, "rel": 2}),
  ("eleven_point_average", "eleven_point_average", {}),
]
# Names whose meaning without a dialect is another one, or none.
VERSION_9 = {row[0] for row in TREC_EVAL if row[0].startswith(("iprec_at_recall", "11pt_avg"))}
OTHERS = {"accuracy@1", "utility"}
OURS = {written for written, *_ in JAXRANK}
VERSION_10 = [row for row in TREC_EVAL10 if row[0] not in VERSION_9]
KEPT = [row for row in TREC_EVAL + NDEVAL + VERSION_10 + RECOMMENDERS if row[0] not in OURS]
SPELLINGS = IR_MEASURES + JAXRANK + [row for row in KEPT if row[0] not in OTHERS]
# What is spelled like a name of ours is ours without a dialect.
WAYS = [row for row in RANX if row[0].partition("@")[0] not in {*dir(jr), "hits"} or "-l" in row[0]]


def meaning(measure):
  return measure.metric, dict(measure.parameters)


def one(name, **how):
  (measure,) = jr.parse(name, **how)
  return measure


@pytest.mark.parametrize(("written", "metric", "parameters"), SPELLINGS)
def test_a_name_means_what_its_dialect_means(written, metric, parameters):
  assert meaning(one(written)) == (getattr(jr, metric), parameters)
  assert one(written).name == written


@pytest.mark.parametrize(
  ("dialect", "written", "metric", "parameters"),
  [
    *(("jaxrank", *row) for row in JAXRANK),
    *(("ir_measures", *row) for row in IR_MEASURES),
    *(("trec_eval", *row) for row in TREC_EVAL),
    *(("ndeval", *row) for row in NDEVAL),
    *(("trec_eval10", *row) for row in TREC_EVAL10),
    *(("trec_eval10", *row) for row in TREC_EVAL if row[0] not in VERSION_9),
    *(("recommenders", *row) for row in RECOMMENDERS),
    *(("ranx", *row) for row in RANX),
    *((None, *row) for row in WAYS),
  ],
)
def test_a_dialect_reads_its_own_names(dialect, written, metric, parameters):
  assert meaning(one(written, dialect=dialect)) == (getattr(jr, metric), parameters)


def test_names_that_are_ours_and_ranx_spells_too():
  assert one("precision").parameters == {}
  assert one("precision", dialect="ranx").parameters == {"rel": 1, "divisor": "retrieved"}
  assert one("rbp@95").parameters == {"k": 95}
  ranx = {"gain": gains.linear, "persistence": 0.95}
  assert one("rbp@95", dialect="ranx").parameters == ranx
  assert one("hits@5").metric is jr.hit_rate
  assert one("hits@5", dialect="ranx").metric is jr.utility
  assert meaning(one("ndcg@10-l2")) == meaning(one("ndcg@10-l2", dialect="ranx"))
  with pytest.raises(
    ValueError, match="dialect must be one of 'jaxrank', 'ir_measures', .*got 'ran'"
  ):
    jr.parse("precision", dialect="ran")
  with pytest.raises(ValueError, match="'nERR-IA@5' is no name"):
    jr.parse("nERR-IA@5", dialect="ranx")


def test_values_of_the_dialect_ranx_are_those_of_ranx():
  """Of ranx 0.3.21, for labels 3, 1, 2 at the ranks 1, 3 and 5, and a judged 0 at rank 4."""
  scores, labels = jnp.arange(5.0, 0.0, -1.0), jnp.array([3, -1, 1, 0, 2])
  expected = {
    "rbp.95": 0.27657563,
    "rbp.95-l2": 0.23145063,
    "hits": 3.0,
    "hits@3": 2.0,
    "hits@3-l2": 1.0,
    "bpref": 0.66666667,
    "bpref-l2": 0.5,
    "dcg_burges@3": 7.5,
  }
  found = jr.evaluate(jr.parse(list(expected), dialect="ranx"), scores, labels)
  for name, value in expected.items():
    assert float(found[name]) == pytest.approx(value, rel=1e-6), name


@pytest.mark.parametrize("written", sorted({row[0] for row in SPELLINGS}))
def test_the_name_of_a_measure_reads_as_the_measure(written):
  read = one(written)
  assert one(read.name) == read


@pytest.mark.parametrize("written", sorted({row[0] for row in SPELLINGS}))
def test_every_measure_is_a_call(written):
  read = one(written)
  assert set(read.parameters) <= set(inspect.signature(read.metric).parameters)
  assert hash(read) == hash(one(written))


@quick("metric", [x for x, _ in jr.metrics.described()], [jr.ndcg, jr.err])
def test_the_name_of_a_function_is_the_function_with_its_defaults(metric):
  description = dict(jr.metrics.described())[metric]
  signature = description.signature.parameters
  needs = {"max_label": 4} if "max_label" in signature else {}
  rng = np.random.default_rng(0)
  shape = (4, 7, 3) if description.subtopics else (4, 7)
  scores = rng.integers(0, 5, (4, 7)).astype(np.float32)
  labels = rng.choice(np.float32([-1, 0, 0.5, 1, 4]), shape)
  said = f"({','.join(f'{key}={x}' for key, x in needs.items())})" if needs else ""
  names = [f"{metric.__name__}{said or way}" for way in ("", "()")]
  calls = [needs]
  if "k" in signature:
    names += [f"{name}@3" for name in names]
    calls.append({**needs, "k": 3})
  for name in names:
    (value,) = jr.evaluate(name, scores, labels).values()
    expected = metric(scores, labels, **calls["@" in name])
    np.testing.assert_allclose(value, expected, rtol=1e-6, err_msg=name)
    assert one(name).metric is metric


@pytest.mark.parametrize("metric", [x for x, _ in jr.metrics.described()], ids=lambda x: x.__name__)
def test_every_parameter_of_a_metric_has_a_kind(metric):
  description = dict(jr.metrics.described())[metric]
  for parameter in description.signature.parameters:
    kind = description.kind(parameter)
    assert kind.meaning
    if kind.spelled and kind != GAIN:
      # Nothing takes a list.
      with pytest.raises(ValueError, match=f"{parameter} must be {kind.meaning}, got"):
        jr.parse(f"{metric.__name__}({parameter}=[])")


@pytest.mark.parametrize(
  ("written", "like"),
  [
    ("P_5", "P@5"),
    ("map@10", "map_cut_10"),
    ("mrr", "recip_rank"),
    ("R(rel=1)@7", "recall_7"),
    ("r-precision", "Rprec"),
    ("ndcg@10", "nDCG@10"),
    ("ndcg_burges@3", "nDCG(dcg='exp-log2')@3"),
    ("ndcg_burges@3", "ndcg(gain='exponential')@3"),
    ("ndcg@10-l2", "nDCG(gains={1:0})@10"),
    ("alpha_nDCG@20", "alpha-nDCG@20"),
    ("ERR_IA@20", "ERR-IA@20"),
  ],
)
def test_dialects_agree(written, like):
  assert meaning(one(written)) == meaning(one(like))


def test_families_of_trec_eval():
  names = trec_families("P success.1,2 map")
  assert names[:2] == ("P_5", "P_10")
  assert names[-2:] == ("success.1,2", "map")
  every = trec_families(["all_trec", "set", "official"])
  assert len(every) == 93
  assert len(jr.parse(every, dialect="trec_eval")) == 93
  ten = trec_families("all_trec", "trec_eval10")
  assert ten == (*trec_families("all_trec"), "rbp", "rbp_resid", "unj_5", "unj_10", "unj_20")
  assert len(jr.parse(ten, dialect="trec_eval10")) == 98


@pytest.mark.parametrize(
  ("written", "names"),
  [
    ("AP RR@10", ["AP", "RR@10"]),
    ("AP,RR@10", ["AP", "RR@10"]),
    (" AP , RR@10,\n\tP@5 ", ["AP", "RR@10", "P@5"]),
    ("P.5,10", ["P.5", "P.10"]),
    ("iprec_at_recall.1e-1,.5", ["iprec_at_recall.1e-1", "iprec_at_recall..5"]),
    ("P.5,10,20", ["P.5", "P.10", "P.20"]),
    ("iprec_at_recall.0.1,0.5", ["iprec_at_recall.0.1", "iprec_at_recall.0.5"]),
    ("ndcg_cut.5,10,map", ["ndcg_cut.5", "ndcg_cut.10", "map"]),
    ("P_5,10 AP", ["P_5", "P_10", "AP"]),
    ("P(rel=2)@5,10", ["P(rel=2)@5", "P(rel=2)@10"]),
    ("nDCG(gains={1: 3, 2: 5})@10, AP", ["nDCG(gains={1: 3, 2: 5})@10", "AP"]),
    ("RBP(p=0.5, rel=2) nDCG(dcg='exp-log2')", ["RBP(p=0.5, rel=2)", "nDCG(dcg='exp-log2')"]),
    ("AP MAP AP AP(rel=1)", ["AP", "MAP", "AP(rel=1)"]),
    ("NDCG@10 MAP hits@10 MRR@10", ["NDCG@10", "MAP", "hits@10", "MRR@10"]),
    ("utility.1,-1,0,0 ndcg.1=3,2=9 AP", ["utility.1,-1,0,0", "ndcg.1=3,2=9", "AP"]),
    ("iprec_at_recall.0,.5", ["iprec_at_recall.0", "iprec_at_recall..5"]),
    ("map AP", ["map", "AP"]),
  ],
)
def test_a_string_may_hold_many_names(written, names):
  assert [read.name for read in jr.parse(written)] == names


@pytest.mark.parametrize("nickname", ["official", "set", "all_trec"])
def test_a_nickname_of_trec_eval_is_all_its_measures(nickname):
  written = f"nDCG@10 {nickname}"
  assert [x.name for x in jr.parse(written)] == ["nDCG@10", *trec_families(nickname)]
  ten = jr.parse(nickname, "trec_eval10")
  assert [x.name for x in ten] == [*trec_families(nickname, "trec_eval10")]
  with pytest.raises(ValueError, match=f"'{nickname}' is no name of a measure"):
    jr.parse(nickname, "ranx")


def test_a_sequence_is_read_in_order():
  assert jr.parse(["P@5", "P.5,10 AP"]) == jr.parse("P@5 P.5 P.10 AP")
  assert jr.parse(iter(("AP",))) == jr.parse("AP")
  assert jr.parse([]) == ()


@pytest.mark.parametrize(
  ("written", "like"),
  [
    ("Ndcg@10", "nDCG@10"),
    ("NDCG", "ndcg"),
    ("NDCG(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')@5"),
    ("mrr(rel=2)@10", "RR(rel=2)@10"),
    ("success@5", "Success@5"),
    ("p@5", "P@5"),
    ("setp", "SetP"),
    ("NDCG_CUT_10", "ndcg_cut_10"),
    ("R-Precision", "r-precision"),
    ("Fall_Out@5", "fall_out@5"),
    ("Precision", "precision"),
    ("Rbp@95", "rbp@95"),
    ("err-ia@20", "ERR-IA@20"),
    ("HITS@5", "hits@5"),
    ("hr@5", "HR@5"),
  ],
)
def test_case_matters_little(written, like):
  assert meaning(one(written)) == meaning(one(like))
  assert one(written).name == written


def test_a_name_of_recommenders_that_is_another_but_for_its_case_is_refused():
  """`accuracy@1` is the hit rate for them, and `Accuracy@1` of ir_measures an AUC."""
  for written in ("accuracy@1", "ACCURACY@1"):
    with pytest.raises(ValueError, match=rf"'{written}' may be ") as told:
      jr.parse(written)
    assert "hit_rate@1 (jaxrank)" in str(told.value)
    assert "Accuracy@1 (ir_measures)" in str(told.value)
  assert one("Accuracy@1").metric is jr.retrieved_auc


@pytest.mark.parametrize(
  ("written", "ours", "theirs"),
  [
    ("err@20", r"err\(max_label=4\)@20", "ERR@20"),
    ("Err@20", r"err\(max_label=4\)@20", "ERR@20"),
    ("err", r"err\(max_label=4\)", "ERR"),
    ("err_ia@20", r"err_ia\(max_label=4\)@20", "ERR_IA@20"),
    ("Err_ia@20", r"err_ia\(max_label=4\)@20", "ERR_IA@20"),
    ("RECALL@10", "recall@10", "Recall@10"),
    ("BPREF", "bpref", "Bpref"),
  ],
)
def test_a_name_between_two_names_shows_both(written, ours, theirs):
  for shown in (rf"{ours} \(jaxrank\)", rf"{theirs} \(ir_measures\)"):
    with pytest.raises(ValueError, match=f"'{written}'.* {shown}"):
      jr.parse(written)


def test_only_the_names_that_say_so_have_exponential_gain():
  names = ["nDCG", "NDCG", "Ndcg", "ndcg", "ndcg@5", "ndcg_cut_5", "dcg", "dcg@5", "DCG", "ndcg()"]
  for read in jr.parse(names):
    assert read.call().parameters["gain"] is gains.linear


def test_names_of_diversity_have_a_best_grade_of_1():
  rng = np.random.default_rng(0)
  scores, labels = rng.normal(size=(3, 8)), rng.integers(0, 2, (3, 8, 4))
  values = jr.evaluate("ERR-IA@5 nERR_IA@5 alpha-nDCG@5 NRBP", scores, labels)
  assert list(values) == ["ERR-IA@5", "nERR_IA@5", "alpha-nDCG@5", "NRBP"]
  expected = [
    jr.err_ia(scores, labels, max_label=1, k=5, normalizer="perfect"),
    jr.nerr_ia(scores, labels, max_label=1, k=5),
    jr.alpha_ndcg(scores, labels, k=5),
    jr.nrbp(scores, labels),
  ]
  np.testing.assert_allclose(list(values.values()), expected, rtol=1e-6)
  with pytest.raises(ValueError, match=r"alpha_ndcg takes labels .*subtopics\] and ndcg takes"):
    jr.evaluate("alpha_nDCG@5 nDCG@5", scores, labels)
  with pytest.raises(ValueError, match="labels"):
    jr.evaluate("ndcg", scores, labels)
  with pytest.raises(ValueError, match="labels"):
    jr.evaluate("NRBP", scores, jnp.ones((3, 8)))


@pytest.mark.parametrize(
  ("written", "message"),
  [
    ("nDGC@10", r"'nDGC@10' is no name of a measure: did you mean ndcg@10 \(jaxrank\)"),
    ("presicion@5", r"did you mean precision@10 \(jaxrank\)"),
    ("hitrate@10", r"did you mean hit_rate@10 \(jaxrank\)"),
    ("kendal_tau", r"did you mean kendall_tau \(jaxrank\)"),
    ("ndgc_cut_10", r"did you mean ndcg_cut_10 \(trec_eval\)"),
    ("yaap", r"'yaap' is no name of a measure: trec_eval has it, and jaxrank has not; docs"),
    ("ndcg_p.1=3", r"trec_eval has it, and jaxrank has not"),
    ("prefs_simp_ret", r"trec_eval has it, and jaxrank has not"),
    ("P_avgjg.5", r"trec_eval has it, and jaxrank has not"),
    ("xyz", r"there is no similar name\. Names look like ndcg, "),
    ("mine@3", r"A metric of your own has no name: pass jaxrank\.Measure\(metric, k=10\)\.$"),
    ("10", "'10' is no name of a measure"),
    ("nDGC", r"AP\(rel=2\)@100 \(ir_measures\), map or ndcg_cut\.5,10 \(trec_eval\)"),
    ("Rprec_mult", r"write Rprec_mult_0.10 \(trec_eval\)"),
    ("P", r"write P@10 \(ir_measures\) or P_10 \(trec_eval\)"),
    ("map_cut", r"write map_cut_10 \(trec_eval\)"),
    ("auc@10", r"write auc \(jaxrank\)"),
    ("Rprec@10", r"write Rprec \(ir_measures\)"),
    ("recip_rank@10", r"write recip_rank \(trec_eval\)"),
    ("ndcg_burges(rel=2)", r"write ndcg_burges \(ranx\)"),
    ("AP(rel=2", r"write AP\(rel=\.\.\.\) \(ir_measures\)"),
    ("rbp.1=x", r"or rbp\.1=3,2=9 \(trec_eval10\) or rbp\.95 \(ranx\)"),
    ("ndcg.1=3,1=9", r"'ndcg\.1=3,1=9': 1=3,1=9 has a name twice; give each once"),
    ("set_F.x", r"write set_F\.0\.5 \(trec_eval\)"),
    ("map.5", r"write MAP@10 \(ir_measures\) or map \(trec_eval\) or map@10 \(ranx\)"),
    ("map.5@3-lx", r"or map@10-l2 \(ranx\)"),
    ("AP(rel=(2))", "write AP"),
    ("P@", "write P"),
    ("", "'' names no measure"),
    (" , ", "' , ' names no measure"),
  ],
)
def test_unknown_names_are_refused_with_a_way_out(written, message):
  with pytest.raises(ValueError, match=message):
    jr.parse(written)


@pytest.mark.parametrize("k", ["0", "-1", "1.5", "x", "05", "5(rel=2)", "10-lx", "9999999999"])
def test_a_cutoff_is_a_whole_number(k):
  with pytest.raises(ValueError, match=r"a cutoff is a whole number from 1 to 999999999, got '"):
    jr.parse(f"P@{k}")


@pytest.mark.parametrize("name", ["P_0", "ndcg_cut.5,0", "mrr@0", "fall_out@0", "dcg_burges@9-l2"])
def test_every_dialect_refuses_a_bad_cutoff(name):
  with pytest.raises(ValueError, match="a cutoff is a whole number from 1"):
    jr.parse(name)


@pytest.mark.parametrize(
  ("written", "message"),
  [
    ("AP(foo=1)", "AP takes rel, got 'foo'"),
    (
      "P(judged_only=True)@5",
      "P takes rel, got 'judged_only'. Pass where=labels >= 0 to leave out",
    ),
    ("NERR10(max_rel=3,p=1.5)", "p must be a number from 0 to 1, got 1.5"),
    ("NERR11(max_rel=3,T=0)", "T must be a positive number, got 0"),
    ("nDCG(rel=2)@10", "nDCG takes dcg and gains, got 'rel'"),
    ("precision(at=5)", "precision takes k and rel and divisor, got 'at'"),
    ("precision(weights=1)", "precision takes k and rel and divisor, got 'weights'"),
    ("precision(k=5)@5", "give the cutoff once, got k=5 and @5"),
    ("ndcg(gain='log2')", "gain must be 'linear' or 'exponential' or 'binary', got 'log2'"),
    ("ndcg(dcg='log2')", "ndcg takes k and gain, got 'dcg'"),
    ("gap(max_label=0)", "max_label must be .*a whole number from 1.*, got 0"),
    ("gap(max_label=2.5)", "max_label must be .*a whole number from 1.*, got 2.5"),
    ("gap", r"gap needs max_label, the best .*Write gap\(max_label=4\) \(jaxrank\)"),
    ("nerr@5", r"nerr needs max_label, the best .* nerr\(max_label=4\)@5"),
    ("alpha_nDCG(alpha=2)@5", "alpha must be a number from 0 to 1, got 2"),
    ("kendall_tau(rel=1)", "kendall_tau takes no parameters, got 'rel'"),
    ("AP(rel='x')", "rel must be a number, got 'x'"),
    ("AP(rel=True)", "rel must be a number, got True"),
    ("AP(rel=None)", "rel must be a number, got None"),
    ("AP(rel=1e999)", "rel must be a number, got inf"),
    ("nDCG(dcg='exp')", "dcg must be 'log2' or 'exp-log2', got 'exp'"),
    ("nDCG(dcg={})", "dcg must be 'log2' or 'exp-log2', got {}"),
    ("nDCG(gains=[0,1])", "gains must be labels with gains from 0, like {0: 0, 1: 1, 2: 5}"),
    ("nDCG(gains={0:-1})", "gains must be labels with gains from 0"),
    ("nDCG(gains={'a':1})", "gains must be labels with gains from 0"),
    ("nDCG(dcg='exp-log2',gains={1:2})", "give dcg or gains, not both"),
    ("RBP(p=1.5)", "p must be a number from 0 to 1, got 1.5"),
    ("f_measure(beta=-1)@5", "beta must be a number from 0, got -1"),
    ("err(max_label='4')", "max_label must be .*, a number from 0, got '4'"),
    (
      "precision(divisor='n')@5",
      "must be 'k' or 'retrieved' or 'relevant' or 'attainable', got",
    ),
    (
      "average_precision(normalizer='R')",
      "normalizer must be 'relevant' or 'cutoff' or 'retrieved', got 'R'",
    ),
    ("AP(2)", r"parameters are written like \(rel=2\), got \(2\)"),
    ("AP(rel=x)", r"parameters are written like \(rel=2\), got \(rel=x\)"),
    ("AP(rel=)", r"parameters are written like"),
    ("AP(rel=1,rel=2)", r"parameters are written like"),
    ("nDCG(gains={[]:1})", r"parameters are written like"),
  ],
)
def test_bad_parameters_say_what_is_allowed(written, message):
  with pytest.raises(ValueError, match=message):
    jr.parse(written)


@pytest.mark.parametrize(
  "names",
  [
    5,
    None,
    b"AP",
    [b"AP"],
    ["AP", 5],
    jr.Measure,
    lambda s, y: s,
    jr.precision_recall_curve,
    [3.0],
  ],
  ids=lambda x: getattr(x, "__name__", repr(x)),
)
def test_what_is_no_measure_is_told_what_is(names):
  with pytest.raises(TypeError, match="must be a metric such as jaxrank.ndcg, .*or a name.*; got"):
    jr.parse(names)


def test_plain_names_are_those_of_llama_index():
  names = ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg"]
  found = jr.resolve_metrics(names)
  assert [measure.name for measure in found] == names
  with pytest.raises(ValueError, match="got 'nDCG@10'; jaxrank.parse reads other names"):
    jr.resolve_metrics(["nDCG@10"])
