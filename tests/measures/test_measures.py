"""Many measures of one ranking: the values, the names, and the work that is shared."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import apply

TWENTY = (
  "nDCG nDCG@5 nDCG@10 nDCG@20 nDCG@100 AP AP@100 RR RR@10 P@1 P@5 P@10 R@10 R@100 "
  "Success@1 Success@10 Rprec RBP ERR@20 ndcg_burges@10"
)

EXPONENTIAL = jr.gains.exponential


@pytest.fixture
def lists():
  """Scores with ties and items not retrieved, graded labels and a mask, `[16, 100]`."""
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 60, (16, 100)).astype(np.float32)
  scores[rng.random(scores.shape) < 0.05] = -np.inf
  labels = rng.integers(-1, 5, scores.shape).astype(np.float32)
  return jnp.array(scores), jnp.array(labels), jnp.array(rng.random(scores.shape) < 0.9)


def compiled(measures, *lists):
  """The optimised program of `evaluate`, for as many queries as the network is taken for."""
  measures = jr.parse(measures)
  evaluate = jax.jit(lambda *lists: jr.evaluate(measures, *lists[:2], where=lists[2]))
  return evaluate.lower(*(np.tile(x, (8, 1)) for x in lists)).compile().as_text()


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
  alone = jax.jit(lambda *lists: {m.name: m(*lists, where=where) for m in jr.parse(TWENTY)})
  for name, value in alone(scores, labels).items():
    np.testing.assert_allclose(together[name], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
  ("name", "call"),
  [
    ("nDCG@10", lambda *a, **b: jr.ndcg(*a, k=10, **b)),
    ("ndcg@10", lambda *a, **b: jr.ndcg(*a, k=10, **b)),
    ("nDCG(dcg='exp-log2')@10", lambda *a, **b: jr.ndcg(*a, k=10, gain=EXPONENTIAL, **b)),
    ("ndcg_burges@10", lambda *a, **b: jr.ndcg(*a, k=10, gain=EXPONENTIAL, **b)),
    ("ERR@20", lambda *a, **b: jr.err(*a, k=20, max_label=4, **b)),
    ("AP(rel=2)", lambda *a, **b: jr.average_precision(*a, rel=2, **b)),
    ("RBP(p=0.5)", lambda *a, **b: jr.rbp(*a, persistence=0.5, **b)),
    ("P_5", lambda *a, **b: jr.precision(*a, k=5, **b)),
    ("rbp.95", lambda *a, **b: jr.rbp(*a, persistence=0.95, gain=jr.gains.linear, **b)),
  ],
)
def test_a_name_is_its_function(name, call, lists):
  scores, labels, where = lists
  (value,) = jr.evaluate(name, scores, labels, where=where).values()
  np.testing.assert_allclose(value, call(scores, labels, where=where), rtol=1e-6)


def test_the_key_of_a_value_is_what_was_written(lists):
  """Through every door, with the value of the measure that is meant."""
  scores, labels, where = lists
  written = "NDCG@10 MAP hits@10 MRR@10 HR@5 rbp_resid"
  same = "ndcg@10 average_precision(rel=1) hit_rate@10 reciprocal_rank(rel=1)@10 hit_rate@5"
  assert list(jr.evaluate(written, scores, labels, where=where)) == written.split()
  for found, meant in zip(jr.parse(written), jr.parse(same), strict=False):
    assert (found.metric, found.parameters) == (meant.metric, meant.parameters)
  evaluator = jr.Evaluator(written)
  state = evaluator.update(evaluator.init(), scores, labels, where=where)
  assert list(evaluator.compute(state)) == written.split()
  runs = jr.trec.evaluate(written, {"q": {"a": 1}}, {"q": {"a": 1.0}})
  assert list(runs.values) == list(runs.mean()) == written.split()


def test_a_table_of_gains_is_linear_where_it_says_nothing(lists):
  scores, labels, where = lists
  (value,) = jr.evaluate("nDCG(gains={1:7,3:2})@10", scores, labels, where=where).values()

  def gain(labels):
    y = jnp.maximum(labels, 0)
    return jnp.where(y == 1, 7.0, jnp.where(y == 3, 2.0, y))

  expected = jr.ndcg(scores, labels, where=where, k=10, gain=gain)
  np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_measures_cannot_be_changed():
  measure = jr.Measure(jr.ndcg, k=3)
  for name in ("metric", "parameters", "name"):
    with pytest.raises(AttributeError, match=f"Measure: {name} cannot be changed"):
      setattr(measure, name, None)


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


def test_resolve_metrics_knows_plain_names():
  found = [measure.metric for measure in jr.resolve_metrics(["mrr", "hit_rate"])]
  assert found == [jr.reciprocal_rank, jr.hit_rate]


@pytest.mark.parametrize("resolve", [jr.parse, lambda name: jr.resolve_metrics([name])])
def test_an_unknown_name_suggests_the_nearest(resolve):
  with pytest.raises(ValueError, match=r"(?s)ndcg.*ndgc|ndgc.*ndcg"):
    resolve("ndgc@10")


def test_no_measures_no_values(lists):
  assert jr.evaluate([], *lists[:2]) == {}


@jr.metric
def hits(ranked, *, k=None, rel=None, weights=None):
  """The weight of the relevant items at the first ranks."""
  b = ranked.weighted(ranked.relevant(rel), weights)
  return ranked.expect(b, jr.discounts.constant, k=k)


def test_metrics_measures_and_names_together(lists):
  scores, labels, where = lists
  asked = [jr.ndcg, jr.Measure(hits, k=10), "AP P@5", hits, jr.Measure(jr.rbp, name="patient")]
  values = jr.evaluate(asked, scores, labels, where=where)
  assert list(values) == ["ndcg", "hits(k=10)", "AP", "P@5", "hits", "patient"]
  expected = [
    jr.ndcg(scores, labels, where=where),
    hits(scores, labels, where=where, k=10),
    jr.average_precision(scores, labels, where=where, rel=1),
    jr.precision(scores, labels, where=where, rel=1, k=5),
    hits(scores, labels, where=where),
    jr.rbp(scores, labels, where=where),
  ]
  np.testing.assert_allclose(list(values.values()), expected, rtol=1e-6, atol=1e-6)
  for alone in (jr.ndcg, jr.Measure(jr.ndcg), "ndcg"):
    (value,) = jr.evaluate(alone, scores, labels, where=where).values()
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)


def test_a_metric_of_a_user_shares_the_one_sort(lists):
  one, more = (compiled(asked, *lists) for asked in ("nDCG AP", ["nDCG AP", hits]))
  assert exchanges(more) == exchanges(one)
  assert one.count(" sort(") == more.count(" sort(")


def test_measures_take_arrays_and_functions(lists):
  scores, labels, where = lists
  weights = jnp.linspace(0, 2, labels.size).reshape(labels.shape)
  gain = lambda y: jnp.maximum(y, 0) ** 2  # noqa: E731
  weighted = jr.Measure(jr.ndcg, weights=weights, gain=gain, k=5)
  assert str(weighted) == "ndcg(weights=float32[16,100],gain=<lambda>,k=5)"
  mine = jr.Measure(hits, weights=weights)
  values = jr.evaluate([weighted, mine], scores, labels, where=where)
  asked = {"where": where, "weights": weights}
  expected = jr.ndcg(scores, labels, gain=gain, k=5, **asked)
  np.testing.assert_allclose(values[weighted.name], expected, rtol=1e-6)
  np.testing.assert_allclose(values[mine.name], hits(scores, labels, **asked), rtol=1e-6)


def test_a_measure_is_called_like_its_metric(lists):
  scores, labels, where = lists
  measure, ranking = jr.Measure(jr.average_precision, k=20), jr.Laplace(1.0)
  np.testing.assert_array_equal(
    measure(scores, labels, where=where, ranking=ranking),
    jr.average_precision(scores, labels, where=where, k=20, ranking=ranking),
  )
  with pytest.raises(TypeError, match="ranking"):
    measure(scores, labels, ranking=3)
  with pytest.raises(ValueError, match=r"average_precision\(k=20\): scores and labels must have"):
    measure(scores, labels[:, :3])


def test_equal_measures():
  weights, fixed = jnp.ones((2, 3)), np.ones((2, 3))
  pairs = [
    (jr.Measure(jr.ndcg, k=10), jr.Measure(jr.ndcg, k=10), True),
    (jr.Measure(jr.dcg, k=5, gain=EXPONENTIAL), jr.Measure(jr.dcg, k=5), False),
    (jr.Measure(jr.ndcg), jr.parse("ndcg")[0], True),
    (jr.Measure(jr.ndcg, k=10), jr.parse("ndcg@10")[0], False),
    (jr.Measure(jr.ndcg, name="x", k=10), jr.Measure(jr.ndcg, name="x", k=11), False),
    (jr.Measure(jr.ndcg, weights=weights), jr.Measure(jr.ndcg, weights=weights), True),
    (jr.Measure(jr.ndcg, weights=weights), jr.Measure(jr.ndcg, weights=weights + 0), True),
    (jr.Measure(jr.ndcg, weights=weights), jr.Measure(jr.ndcg, weights=weights + 1), False),
    (jr.Measure(jr.ndcg, weights=fixed), jr.Measure(jr.ndcg, weights=fixed), True),
    (jr.Measure(jr.ndcg, weights=fixed), jr.Measure(jr.ndcg, weights=fixed + 0), False),
    (jr.Measure(jr.ndcg), jr.Measure(jr.dcg, name="ndcg"), False),
    (jr.Measure(hits, rel=2.5), jr.Measure(hits, rel=2.5), True),
  ]
  for a, b, equal in pairs:
    assert (a == b) is equal
    assert not equal or hash(a) == hash(b)
  assert jr.Measure(jr.ndcg) != "ndcg"


def test_measures_pickle():
  asked = [jr.Measure(jr.ndcg, k=10, gain=EXPONENTIAL), jr.Measure(hits, name="mine", rel=2)]
  for measure in (*asked, *jr.parse("nDCG@10 alpha-nDCG@5 ndcg@10-l1")):
    again = pickle.loads(pickle.dumps(measure))
    assert again == measure
    assert (again.name, again.metric) == (measure.name, measure.metric)


def test_two_measures_of_one_name_are_an_error(lists):
  one, other = jr.Measure(jr.ndcg, name="x", k=1), jr.Measure(jr.dcg, name="x")
  with pytest.raises(ValueError, match=r"evaluate: two measures .* 'x': ndcg\(k=1\) and dcg"):
    jr.evaluate([one, other], *lists[:2])
  with pytest.raises(ValueError, match="two measures have the name 'ndcg': ndcg and dcg"):
    jr.evaluate(["ndcg", jr.Measure(jr.dcg, name="ndcg")], *lists[:2])
  assert list(jr.evaluate([one, one, "AP MAP AP"], *lists[:2])) == ["x", "AP", "MAP"]


@pytest.mark.parametrize(
  ("error", "match", "make"),
  [
    (TypeError, "ndcg does not take 'kk'; it takes k, gain", lambda: jr.Measure(jr.ndcg, kk=3)),
    (TypeError, "err needs max_label, the best grade", lambda: jr.Measure(jr.err)),
    (TypeError, "gap needs max_label, the best grade", lambda: jr.Measure(jr.gap)),
    (ValueError, "k must be at least 1, got 0", lambda: jr.Measure(jr.ndcg, k=0)),
    (TypeError, "k must be a positive integer.*'3'", lambda: jr.Measure(hits, k="3")),
    (TypeError, "hits does not take 'q'; it takes k, rel, weights", lambda: jr.Measure(hits, q=3)),
    (ValueError, r"persistence must be in \[0, 1\]", lambda: jr.Measure(jr.rbp, persistence=2.0)),
    (ValueError, "one of 'k', 'retrieved'", lambda: jr.Measure(jr.precision, divisor="n")),
    (TypeError, "gain must be a function of labels", lambda: jr.Measure(jr.ndcg, gain=5)),
    (TypeError, "ndcg does not take 'where'", lambda: jr.Measure(jr.ndcg, where=5)),
    (TypeError, "name must be a string, got 5", lambda: jr.Measure(jr.ndcg, name=5)),
    (TypeError, "must be a metric|made of a metric such as", lambda: jr.Measure("ndcg")),
    (TypeError, "made of a metric such as", lambda: jr.Measure(jr.precision_recall_curve)),
  ],
)
def test_mistakes_in_a_measure_are_named(error, match, make):
  with pytest.raises(error, match=f"Measure: .*{match}|Measure: {match}"):
    make()


@pytest.mark.parametrize(
  "what",
  [5, 2.5, None, b"AP", jr.Evaluator, jr.Exact(), jr.precision_recall_curve, lambda s, y: s],
  ids=lambda x: getattr(x, "__name__", repr(x)),
)
def test_what_is_no_measure_is_told(what, lists):
  for asked in (what, ["AP", what]):
    with pytest.raises(TypeError, match="evaluate: .* must be a metric such as .*; got"):
      jr.evaluate(asked, *lists[:2])


def test_an_empty_list_without_a_mask_retrieves_nothing():
  nothing = np.zeros((3, 0), np.float32)
  values = jr.evaluate(jr.parse("num_ret"), nothing, nothing)
  np.testing.assert_array_equal(values["num_ret"], np.zeros(3))
