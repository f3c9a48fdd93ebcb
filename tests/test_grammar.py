"""Every spelling of every dialect, what it means, and how a bad one is refused."""

import inspect

import pytest

import jaxrank as jr
from jaxrank.measures.grammar import ALIASES, Spec, parse_names

# Spelling, the name of its values, metric, parameters.
IR_MEASURES = [
  ("nDCG", "nDCG", "ndcg", {"gain": "linear"}),
  ("nDCG@10", "nDCG@10", "ndcg", {"gain": "linear", "k": 10}),
  ("NDCG@10", "nDCG@10", "ndcg", {"gain": "linear", "k": 10}),
  ("nDCG(dcg='log2')@10", "nDCG@10", "ndcg", {"gain": "linear", "k": 10}),
  ("nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@10", "ndcg", {"gain": "exponential", "k": 10}),
  ("nDCG(gains={0:0,1:1})", "nDCG", "ndcg", {"gain": "linear"}),
  (
    "nDCG(gains={0: 0, 2: 5, 1: 1.5})@10",
    "nDCG(gains={1:1.5,2:5})@10",
    "ndcg",
    {"gain": ((1, 1.5), (2, 5)), "k": 10},
  ),
  ("AP", "AP", "average_precision", {"rel": 1}),
  ("MAP", "AP", "average_precision", {"rel": 1}),
  ("AP(rel=1)", "AP", "average_precision", {"rel": 1}),
  ("AP(rel=2)@100", "AP(rel=2)@100", "average_precision", {"rel": 2, "k": 100}),
  ("AP( rel = 2.0 )@100", "AP(rel=2)@100", "average_precision", {"rel": 2, "k": 100}),
  ("P@5", "P@5", "precision", {"rel": 1, "k": 5}),
  ("Precision@5", "P@5", "precision", {"rel": 1, "k": 5}),
  ("P(rel=2)@5", "P(rel=2)@5", "precision", {"rel": 2, "k": 5}),
  ("R@1000", "R@1000", "recall", {"rel": 1, "k": 1000}),
  ("Recall@1000", "R@1000", "recall", {"rel": 1, "k": 1000}),
  ("RR", "RR", "reciprocal_rank", {"rel": 1}),
  ("RR@10", "RR@10", "reciprocal_rank", {"rel": 1, "k": 10}),
  ("MRR@10", "RR@10", "reciprocal_rank", {"rel": 1, "k": 10}),
  ("Success@5", "Success@5", "hit_rate", {"rel": 1, "k": 5}),
  ("Rprec", "Rprec", "r_precision", {"rel": 1}),
  ("RPrec", "Rprec", "r_precision", {"rel": 1}),
  ("RBP", "RBP", "rbp", {"persistence": 0.8}),
  ("RBP(p=0.8)", "RBP", "rbp", {"persistence": 0.8}),
  ("RBP(p=0.8,rel=1)", "RBP(rel=1)", "rbp", {"persistence": 0.8, "rel": 1}),
  ("RBP(rel=2,p=.5)@20", "RBP(p=0.5,rel=2)@20", "rbp", {"persistence": 0.5, "rel": 2, "k": 20}),
  ("ERR@20", "ERR@20", "err", {"max_label": 4, "k": 20}),
  ("SetP", "SetP", "precision", {"divisor": "retrieved", "rel": 1}),
  ("SetR(rel=2)", "SetR(rel=2)", "recall", {"rel": 2}),
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
  ("ndcg", "ndcg", {"gain": "linear"}),
  ("ndcg_cut_10", "ndcg", {"gain": "linear", "k": 10}),
  ("success_5", "hit_rate", {"rel": 1, "k": 5}),
  ("set_P", "precision", {"divisor": "retrieved", "rel": 1}),
  ("set_recall", "recall", {"rel": 1}),
]
RANX = [
  ("ndcg@10", "ndcg", {"gain": "linear", "k": 10}),
  ("ndcg@10-l1", "ndcg", {"gain": "linear", "k": 10}),
  ("ndcg@10-l3", "ndcg", {"gain": ((1, 0), (2, 0)), "k": 10}),
  ("ndcg_burges", "ndcg", {"gain": "exponential"}),
  ("ndcg_burges@10", "ndcg", {"gain": "exponential", "k": 10}),
  ("dcg", "dcg", {"gain": "linear"}),
  ("dcg@10", "dcg", {"gain": "linear", "k": 10}),
  ("dcg-l2", "dcg", {"gain": ((1, 0),)}),
  ("dcg_burges", "dcg", {"gain": "exponential"}),
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
  ("f1@5", "f_measure", {"rel": 1, "k": 5}),
  ("f1@5-l2", "f_measure", {"rel": 2, "k": 5}),
  ("hit_rate", "hit_rate", {"rel": 1}),
  ("hit_rate@10", "hit_rate", {"rel": 1, "k": 10}),
  ("r-precision", "r_precision", {"rel": 1}),
  ("r-precision-l2", "r_precision", {"rel": 2}),
  ("rbp.95", "rbp", {"persistence": 0.95, "rel": 1}),
  ("rbp@95", "rbp", {"persistence": 0.95, "rel": 1}),
  ("rbp.5-l2", "rbp", {"persistence": 0.5, "rel": 2}),
]
LLAMA_INDEX = [
  ("hit_rate", "hit_rate", {"rel": 1}),
  ("mrr", "reciprocal_rank", {"rel": 1}),
  ("precision", "precision", {"divisor": "retrieved", "rel": 1}),
  ("recall", "recall", {"rel": 1}),
  ("ap", "average_precision", {"rel": 1}),
  ("ndcg", "ndcg", {"gain": "linear"}),
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
  ("err", "err", {}),
  ("err(max_label=4)@20", "err", {"max_label": 4, "k": 20}),
  ("nerr@20", "nerr", {"k": 20}),
  ("auc", "auc", {}),
  ("auc(rel=2)", "auc", {"rel": 2}),
  ("kendall_tau", "kendall_tau", {}),
  ("spearman", "spearman", {}),
  ("ordered_pair_accuracy", "ordered_pair_accuracy", {}),
  ("interpolated_precision(level=0.3,rel=2)", "interpolated_precision", {"level": 0.3, "rel": 2}),
  ("eleven_point_average", "eleven_point_average", {}),
]
KEPT = [(name, name, *meaning) for name, *meaning in TREC_EVAL + RANX + LLAMA_INDEX + JAXRANK]
SPELLINGS = IR_MEASURES + KEPT


def spec(name, metric, parameters):
  return Spec(name, metric, tuple(sorted(parameters.items())))


@pytest.mark.parametrize(("written", "name", "metric", "parameters"), SPELLINGS)
def test_a_name_means_what_its_dialect_means(written, name, metric, parameters):
  assert parse_names(written) == [spec(name, metric, parameters)]


@pytest.mark.parametrize(("written", "name"), sorted({row[:2] for row in SPELLINGS}))
def test_the_name_of_a_measure_reads_as_the_measure(written, name):
  (read,) = parse_names(written)
  assert parse_names(read.name) == [read]
  assert read.name == name


@pytest.mark.parametrize("written", sorted({row[0] for row in SPELLINGS}))
def test_every_measure_is_a_call(written):
  (read,) = parse_names(written)
  accepted = inspect.signature(getattr(jr, read.metric)).parameters
  assert {key for key, _ in read.parameters} <= set(accepted)
  assert hash(read) == hash(parse_names(written)[0])


@pytest.mark.parametrize(
  ("written", "like"),
  [
    ("ndcg@10", "nDCG@10"),
    ("P_5", "P@5"),
    ("map@10", "map_cut_10"),
    ("mrr", "recip_rank"),
    ("recall@7", "R@7"),
    ("set_P", "precision"),
    ("r-precision", "Rprec"),
    ("ndcg_burges@3", "nDCG(dcg='exp-log2')@3"),
    ("ndcg@10-l2", "nDCG(gains={1:0})@10"),
    ("rbp.8", "RBP(rel=1)"),
  ],
)
def test_dialects_agree(written, like):
  (first,), (second,) = parse_names(written), parse_names(like)
  assert (first.metric, first.parameters) == (second.metric, second.parameters)


@pytest.mark.parametrize(
  ("written", "names"),
  [
    ("AP RR@10", ["AP", "RR@10"]),
    ("AP,RR@10", ["AP", "RR@10"]),
    (" AP , RR@10,\n\tP@5 ", ["AP", "RR@10", "P@5"]),
    ("P.5,10", ["P.5", "P.10"]),
    ("ndcg_cut.5,10,map", ["ndcg_cut.5", "ndcg_cut.10", "map"]),
    ("P_5,10 AP", ["P_5", "P_10", "AP"]),
    ("P(rel=2)@5,10", ["P(rel=2)@5", "P(rel=2)@10"]),
    ("nDCG(gains={1: 3, 2: 5})@10, AP", ["nDCG(gains={1:3,2:5})@10", "AP"]),
    ("RBP(p=0.5, rel=2) nDCG(dcg='exp-log2')", ["RBP(p=0.5,rel=2)", "nDCG(dcg='exp-log2')"]),
    ("AP MAP AP(rel=1)", ["AP"]),
    ("map AP", ["map", "AP"]),
  ],
)
def test_a_string_may_hold_many_names(written, names):
  assert [read.name for read in parse_names(written)] == names


def test_a_sequence_is_read_in_order():
  assert parse_names(["P@5", "P.5,10 AP"]) == parse_names("P@5 P.5 P.10 AP")
  assert parse_names(iter(("AP",))) == parse_names("AP")
  assert parse_names([]) == []


@pytest.mark.parametrize(
  ("written", "name", "like"),
  [
    ("Ndcg@10", "nDCG@10", "nDCG@10"),
    ("ndcg(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')@5"),
    ("mrr(rel=2)@10", "RR(rel=2)@10", "RR(rel=2)@10"),
    ("success@5", "Success@5", "Success@5"),
    ("p@5", "P@5", "P@5"),
    ("setp", "SetP", "SetP"),
    ("NDCG_CUT_10", "NDCG_CUT_10", "ndcg_cut_10"),
    ("R-Precision", "R-Precision", "r-precision"),
    ("Fall_Out@5", "Fall_Out@5", "fall_out@5"),
    ("Err@20", "ERR@20", "ERR@20"),
  ],
)
def test_case_matters_little(written, name, like):
  (read,), (expected,) = parse_names(written), parse_names(like)
  assert read == Spec(name, expected.metric, expected.parameters)


def test_an_exact_spelling_wins():
  assert parse_names("err@20") == [spec("err@20", "err", {"k": 20})]
  assert parse_names("rbp@95") == [spec("rbp@95", "rbp", {"persistence": 0.95, "rel": 1})]
  assert parse_names("RBP@95") == [spec("RBP@95", "rbp", {"persistence": 0.8, "k": 95})]
  with pytest.raises(ValueError, match="'Rbp@95' may be ir_measures or ranx, which differ"):
    parse_names("Rbp@95")


def test_only_the_names_that_say_so_have_exponential_gain():
  names = ["nDCG", "NDCG", "Ndcg", "ndcg", "ndcg@5", "ndcg_cut_5", "dcg", "dcg@5", "DCG", "ndcg()"]
  assert {dict(read.parameters)["gain"] for read in parse_names(names)} == {"linear"}


@pytest.mark.parametrize(
  ("written", "message"),
  [
    ("nDGC@10", r"'nDGC@10' is no name of a measure: did you mean nDCG\[\(\.\.\.\)\]\[@10\]"),
    ("presicion@5", r"did you mean Precision\[\(\.\.\.\)\]@10 \(ir_measures\)"),
    ("hitrate@10", r"did you mean hit_rate\[@10\]"),
    ("kendal_tau", r"did you mean kendall_tau\[\(\.\.\.\)\] \(jaxrank\)"),
    ("ndgc_cut_10", r"did you mean ndcg_cut_10 \(trec_eval\)"),
    ("xyz", r"nothing is called so\. Names look like nDCG@10"),
    ("10", "'10' is no name of a measure"),
    ("nDGC", r"AP\(rel=2\)@100 \(ir_measures\), map or ndcg_cut\.5,10 \(trec_eval\)"),
    ("SetF(beta=1.0)", "f_measure divides by k, not by the number retrieved"),
    ("set_F", "give a cutoff, as in f1@10"),
    ("f1", "give a cutoff, as in f1@10"),
    ("P", r"write P\[\(\.\.\.\)\]@10 \(ir_measures\) or P_10 \(trec_eval\)"),
    ("map_cut", r"write map_cut_10 \(trec_eval\)"),
    ("auc@10", r"write auc\[\(\.\.\.\)\] \(jaxrank\)"),
    ("Rprec@10", r"write Rprec\[\(\.\.\.\)\] \(ir_measures\)"),
    ("recip_rank@10", r"write recip_rank \(trec_eval\)"),
    ("dcg(gain='linear')", r"write dcg\[@10\]\[-l2\] \(ranx\)"),
    ("AP(rel=2", "write AP"),
    ("AP(rel=(2))", "write AP"),
    ("P@", "write P"),
    ("", "'' names no measure"),
    (" , ", "' , ' names no measure"),
  ],
)
def test_unknown_names_are_refused_with_a_way_out(written, message):
  with pytest.raises(ValueError, match=message):
    parse_names(written)


@pytest.mark.parametrize("k", ["0", "-1", "1.5", "x", "05", "5(rel=2)", "10-lx", "9999999999"])
def test_a_cutoff_is_a_whole_number(k):
  with pytest.raises(ValueError, match=r"a cutoff is a whole number from 1 to 999999999, got '"):
    parse_names(f"P@{k}")


@pytest.mark.parametrize("name", ["P_0", "ndcg_cut.5,0", "mrr@0", "fall_out@0", "dcg_burges@9-l2"])
def test_every_dialect_refuses_a_bad_cutoff(name):
  with pytest.raises(ValueError, match="a cutoff is a whole number from 1"):
    parse_names(name)


@pytest.mark.parametrize(
  ("written", "message"),
  [
    ("AP(foo=1)", "AP takes rel, got 'foo'"),
    ("nDCG(rel=2)@10", "nDCG takes dcg and gains, got 'rel'"),
    ("precision(k=5)", "precision takes rel and divisor, got 'k'"),
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
    ("err(max_label='4')", "max_label must be a number from 0, got '4'"),
    ("precision(divisor='n')@5", "divisor must be 'k' or 'retrieved', got 'n'"),
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
    parse_names(written)


@pytest.mark.parametrize("names", [5, None, b"AP", [b"AP"], ["AP", 5]])
def test_names_are_strings(names):
  with pytest.raises(TypeError, match="named by"):
    parse_names(names)


def test_aliases_are_the_names_of_llama_index():
  assert {name: spec(name, *meaning) for name, *meaning in LLAMA_INDEX} == ALIASES
