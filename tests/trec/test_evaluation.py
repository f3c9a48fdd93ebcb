"""Padded arrays and values of runs, against one query at a time in plain Python and trec_eval."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.measures.evaluation import compiled
from jaxrank.trec import _strings
from tests.helpers.suites import thorough
from tests.trec import oracle

trec = jr.trec
QRELS = {"q1": {"a": 1, "b": 0, "c": -3, "d": -1}, "q2": {"a": 2}, "q3": {"z": 1}}
RUN = {"q1": {"x": 2.0, "c": 1.0, "b": 1.0}, "q2": {"a": 0.5}, "q9": {"a": 1.0}}


@pytest.mark.parametrize("seed", range(3))
def test_documents_stand_in_the_order_of_trec_eval(seed):
  qrels, run = oracle.draw(seed)
  arrays = trec.to_arrays(qrels, run)
  assert arrays.queries == tuple(sorted(qrels.keys() & run.keys()))
  for row, query in enumerate(arrays.queries):
    documents = arrays.documents[row]
    size = int(arrays.where[row].sum())
    expected = oracle.order(run[query])
    assert documents[: len(expected)].tolist() == expected
    assert sorted(documents[len(expected) : size]) == sorted(qrels[query].keys() - set(expected))
    assert arrays.where[row].tolist() == [True] * size + [False] * (documents.size - size)
    assert not documents[size:].any()
    scores = [*range(-1, -1 - len(expected), -1)] + [-np.inf] * (
      arrays.where.shape[1] - len(expected)
    )
    assert arrays.scores[row].tolist() == scores
    labels = [
      max(qrels[query].get(x, -1), -2) if qrels[query].get(x) != -1 else -2 for x in documents
    ]
    assert arrays.labels[row, :size].tolist() == labels[:size]


def test_values_are_those_of_the_definition():
  qrels, run = oracle.draw(7)
  found = trec.evaluate("map", qrels, run)
  expected = [oracle.average_precision(qrels[x], run[x]) for x in found.queries]
  np.testing.assert_allclose(found.values["map"], expected, atol=1e-6)
  assert found.mean()["map"] == pytest.approx(np.mean(expected))


def test_values_and_means_are_those_of_double_precision():
  """In float32 the mean of P@10 is 0.13750000536, which is rounded up."""
  hits = [1, 2, 1, 1, 1, 2, 1, 2]
  qrels = {f"q{i}": {f"d{j}": 1 for j in range(x)} for i, x in enumerate(hits)}
  run = {query: {"d0": 2.0, "d1": 1.0, "x": 0.5} for query in qrels}
  found = trec.evaluate("P_10 map recip_rank", qrels, run)
  assert found.values["P_10"].tolist() == [x / 10 for x in hits]
  assert found.mean()["P_10"] == sum(x / 10 for x in hits) / 8
  ties = {f"q{i}": {f"d{j}": j % 3 - 1 for j in range(3, 12 + i)} for i in range(30)}
  reverse = {query: {x: float(-label) for x, label in row.items()} for query, row in ties.items()}
  for how in ("document", "average"):
    assert (trec.evaluate("bpref", ties, reverse, ties=how).values["bpref"] >= 0).all()


def test_arrays_give_the_values_of_evaluate():
  qrels, run = oracle.draw(8)
  for ties in ("document", "average"):
    arrays = trec.to_arrays(qrels, run, ties=ties, length=128)
    assert arrays.where.shape[1] == 128
    values = jr.evaluate("map ndcg bpref", arrays.scores, arrays.labels, where=arrays.where)
    found = trec.evaluate("map ndcg bpref", qrels, run, ties=ties)
    for name, value in values.items():
      np.testing.assert_allclose(found.values[name], value, atol=1e-6)


def test_ties_are_averaged_on_request():
  found = trec.evaluate("recip_rank", {"q": {"b": 1}}, {"q": {"a": 1.0, "b": 1.0}}, ties="average")
  assert found.values["recip_rank"].tolist() == [0.75]
  found = trec.evaluate("recip_rank", {"q": {"b": 1}}, {"q": {"a": 1.0, "b": 1.0}})
  assert found.values["recip_rank"].tolist() == [1.0]


@pytest.mark.parametrize("ties", ["document", "average"])
def test_scores_are_ordered_in_double_precision(ties):
  """As trec_eval 9.0.8 and 10 order them; rounded to float32 they tie, and RR is 0.5 or 0.75."""
  qrels = {"q": {"a": 1}, "p": {"z": 1}}
  run = {"q": {"a": 30.00000020, "b": 30.00000010}, "p": {"y": 3.5, "z": 3.5, "x": 0.1}}
  for found in (run, {query: dict(reversed(row.items())) for query, row in run.items()}):
    values = trec.evaluate("recip_rank", qrels, found, ties=ties)
    assert values.values["recip_rank"].tolist() == [1.0 if ties == "document" else 0.75, 1.0]
    arrays = trec.to_arrays(qrels, found, ties=ties)
    assert arrays.documents[1].tolist()[int(arrays.scores[1].argmax())] == "a"
    if ties == "average":
      # A query whose scores float32 tells apart keeps them.
      assert sorted(arrays.scores[0].tolist(), reverse=True) == [3.5, 3.5, np.float32(0.1)]
      assert sorted(arrays.scores[1].tolist(), reverse=True)[:2] == [-1.0, -2.0]


def test_dense_ranks_keep_the_order_and_the_ties_of_scores():
  rng = np.random.default_rng(2)
  run = {}
  for i in range(60):
    scores = rng.integers(0, 9, 30) * 1e-9 + rng.integers(0, 2) * 30 + rng.integers(0, 2, 30)
    run[f"q{i}"] = {f"d{j}": x for j, x in enumerate(scores.tolist())}
  arrays = trec.to_arrays({query: {"d0": 1} for query in run}, run, ties="average")
  for row, query in enumerate(arrays.queries):
    scores = np.array([run[query][x] for x in arrays.documents[row]])
    ours = arrays.scores[row]
    expected = np.sign(scores[:, None] - scores)
    assert (np.sign(ours[:, None] - ours) == expected).all()


@pytest.mark.parametrize("ties", ["document", "average"])
def test_scores_beyond_float32_are_retrieved(ties):
  """Rounded to float32 they are infinite, and -inf means that a document is not retrieved."""
  run = {"q": {"a": -1e300, "b": 1e300, "c": -1e-300, "d": 0.0}}
  found = trec.evaluate("recall_4 P_1", {"q": dict.fromkeys("abcd", 1)}, run, ties=ties)
  assert found.mean() == {"recall_4": 1.0, "P_1": 1.0}
  assert trec.evaluate("P_1", {"q": {"b": 1}}, run, ties=ties).mean() == {"P_1": 1.0}


def test_labels_tell_what_is_not_in_the_qrels_from_negative_labels():
  arrays = trec.to_arrays(QRELS, RUN)
  assert arrays.documents.tolist() == [["x", "c", "b", "a", "d"], ["a", "", "", "", ""]]
  assert arrays.labels.tolist() == [[-1, -2, 0, 1, -2], [2, 0, 0, 0, 0]]
  assert arrays.where.sum() == 6


def test_documents_may_be_left_out():
  """The query itself, as in BEIR; those without a judgement; and those past a depth."""
  qrels = {"a": {"b": 1, "c": 0}, "q": {"z": 1}}
  run = {"q": {"y": 1.0, "z": 0.5}, "a": {"x": 1.0, "a": 9.0, "b": 0.5, "c": 2.0}, "e": {"e": 1.0}}
  names = "recip_rank num_ret num_rel"

  def values(**how):
    found = trec.evaluate(names, qrels, run, **how)
    assert found.queries == ("a", "q")
    return [x.tolist() for x in found.values.values()]

  assert values() == [[0.25, 0.5], [4, 2], [1, 1]]
  assert values(drop_self=True) == [[1 / 3, 0.5], [3, 2], [1, 1]]
  assert values(judged_only=True) == [[0.5, 1.0], [2, 1], [1, 1]]
  assert values(depth=2) == [[0, 0.5], [2, 2], [1, 1]]
  # The depth is that of the run, before documents that are not judged are left out.
  assert values(depth=2, judged_only=True) == [[0, 1.0], [1, 1], [1, 1]]
  assert values(depth=3, drop_self=True) == [[1 / 3, 0.5], [3, 2], [1, 1]]
  assert values(drop_self=True, ties="average") == values(drop_self=True)
  with pytest.raises(TypeError, match="drop_self must be True or False, got 1"):
    values(drop_self=1)
  with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
    values(depth=0)


def test_queries_on_one_side_are_named():
  for found in (trec.to_arrays(QRELS, RUN), trec.evaluate("map", QRELS, RUN)):
    assert found.queries == ("q1", "q2")
    assert (found.only_in_qrels, found.only_in_run) == (("q3",), ("q9",))


def test_queries_of_the_qrels_without_a_ranking_count_as_0():
  found = trec.evaluate("map", QRELS, RUN, queries="judged")
  assert found.queries == ("q1", "q2", "q3")
  assert found.values["map"].tolist() == [0.0, 1.0, 0.0]
  arrays = trec.to_arrays(QRELS, RUN, queries="judged")
  assert arrays.scores[2].tolist() == [-np.inf] * 5
  assert arrays.documents[2].tolist() == ["z", "", "", "", ""]
  assert (found.only_in_qrels, found.only_in_run) == (("q3",), ("q9",))


def test_queries_without_a_ranking_count_as_0_in_means():
  """Also for one that would have another value, as trec_eval does."""
  count = jr.Measure(jr.metric(lambda ranked: ranked.count(ranked.judged)), name="judged")
  found = trec.evaluate(count, QRELS, RUN, queries="judged")
  assert found.values["judged"].tolist() == [2.0, 1.0, 0.0]


@pytest.mark.parametrize("how", ["mean", "sum", "exp_mean"])
def test_values_are_aggregated_as_the_description_says(how):
  kernel = jr.metric(lambda ranked: -ranked.count(ranked.judged), aggregation=how)
  found = trec.evaluate(jr.Measure(kernel, name="x"), QRELS, RUN)
  assert found.values["x"].tolist() == [-2.0, -1.0]
  np.testing.assert_allclose(found.mean()["x"], jr.aggregate(found.values["x"], how=how), rtol=1e-6)
  # The value 0 would be the logarithm of 1, and a count is one of the qrels.
  kept = trec.evaluate(jr.Measure(kernel, name="x"), QRELS, RUN, queries="judged").values["x"]
  assert kept.tolist() == [-2.0, -1.0, 0.0 if how == "mean" else -1.0]


def test_counts_of_all_judged_queries_are_those_of_trec_eval():
  names = "num_q num_rel num_ret num_rel_ret num_nonrel_judged_ret NumRel(rel=2)"
  found = trec.evaluate(names, QRELS, RUN, queries="judged").mean()
  assert [*found.values()] == [3, 3, 4, 1, 1, 1]
  found = trec.evaluate(names, QRELS, RUN).mean()
  assert [*found.values()] == [2, 2, 4, 1, 1, 1]


@pytest.mark.parametrize(
  ("written", "best", "right"),
  [
    ("ERR@10", 4, "err(max_label=7)@10"),
    ("err(max_label=4.5)", 4.5, "err(max_label=7)"),
    ("NERR9(max_rel=4,min_rel=1)@5", 4, "NERR9(max_rel=7,min_rel=1)@5"),
    (jr.Measure(jr.err, max_label=4, k=3, name="mine"), 4, "err(max_label=7)@3"),
  ],
)
def test_labels_beyond_the_best_grade_are_refused(written, best, right):
  """They would count as the best grade: both orders of 4 and 5 would have one value."""
  qrels = {"q0": {"z": 7}, "q1": {"a": 4, "b": 5}, "q2": {"c": 7}}
  run = {"q1": {"a": 2.0, "b": 1.0}, "q2": {"c": 1.0}}
  with pytest.raises(ValueError, match="has a best grade of") as caught:
    trec.evaluate(["nDCG", written], qrels, run)
  told = str(caught.value)
  assert f"has a best grade of {best}, and query 'q1', document 'b' the label 5; write" in told
  assert right in told
  trec.evaluate(told.partition("write ")[2].removesuffix("."), qrels, run)
  # A label of a query that is not evaluated does not matter.
  trec.evaluate("ERR", {"q0": {"z": 7}, "q1": {"a": 4}}, {"q1": {"a": 1.0}})
  with pytest.raises(ValueError, match="q0"):
    trec.evaluate("ERR", {"q0": {"z": 7}, "q1": {"a": 4}}, {"q1": {"a": 1.0}}, queries="judged")


def test_queries_on_one_side_raise_on_request():
  with pytest.raises(
    ValueError, match=r"lacks 1 query \('q3'\) .* lack 1 query \('q9'\) .*'judged'"
  ):
    trec.evaluate("map", QRELS, RUN, queries="error")
  both = {name: RUN[name] for name in ("q1", "q2")}
  judged = {name: QRELS[name] for name in ("q1", "q2")}
  assert len(trec.evaluate("map", judged, both, queries="error").queries) == 2


def test_a_run_without_a_query_of_the_qrels():
  for queries in ("both", "judged", "error"):
    with pytest.raises(
      ValueError, match="run 'run' has no query of the qrels 'qrels': it has 'q9'"
    ):
      trec.to_arrays(QRELS, {"q9": {"a": 1.0}}, queries=queries)


def test_a_query_that_retrieved_nothing():
  found = trec.evaluate("map", {"q": {"a": 1}, "p": {"a": 1}}, {"q": {}, "p": {"a": 1}})
  assert found.queries == ("p", "q")
  assert found.values["map"].tolist() == [1.0, 0.0]


def test_batches_do_not_change_values():
  rng = np.random.default_rng(0)
  qrels, run = oracle.draw(3, queries=60)
  # One query is far longer than the others.
  run["q5"] = {f"long{i}": x for i, x in enumerate(rng.normal(size=3000).tolist())}
  qrels["q5"] = {f"long{i}": int(i % 50 == 0) for i in range(0, 3000, 2)}
  whole = trec.evaluate("map P_10", qrels, run)
  seen = []
  parts = trec.evaluate("map P_10", qrels, run, cells=500, progress=lambda *x: seen.append(x))
  for name, value in whole.values.items():
    np.testing.assert_allclose(parts.values[name], value, atol=1e-6)
  total = len(whole.queries)
  assert seen == sorted(seen)
  assert seen[-1] == (total, total)
  assert len(seen) > 3


def test_small_collections_share_programs():
  """Whatever their sizes are: one shape for each power of four of the length."""
  rng = np.random.default_rng(4)
  measures = jr.parse("map P_3")
  for i in range(12):
    size = int(rng.integers(2, 200))
    documents = [f"d{j}" for j in range(size)]
    qrels = {f"q{j}": {"d0": 1, "d1": 2} for j in range(int(rng.integers(1, 90)))}
    run = {q: dict(zip(documents, rng.normal(size=size).tolist(), strict=True)) for q in qrels}
    found = trec.evaluate(measures, qrels, run)
    expected = [oracle.average_precision(qrels[q], run[q]) for q in found.queries]
    np.testing.assert_allclose(found.values["map"], expected, atol=1e-12, err_msg=str(i))
  assert compiled(measures)._cache_size() == 2


def test_hashes_that_collide_do_not_match(monkeypatch):
  qrels, run = oracle.draw(4, queries=20)
  expected = trec.evaluate("map", qrels, run)
  exact = _strings.keys
  # One bit for each query and document.
  monkeypatch.setattr("jaxrank.trec._grouping.keys", lambda *x: exact(*x) >> np.uint64(63))
  tables = trec.read_qrels(qrels), trec.read_run(run)
  assert np.unique(tables[1].pair_keys).tolist() == [0, 1]
  assert tables[1].to_dict() == run
  assert expected.values["map"].any()


def test_numbers_of_a_run_are_written_back():
  qrels, run = oracle.draw(5, queries=12)
  arrays = trec.to_arrays(qrels, run, ties="average")
  back = trec.Run.from_arrays(arrays.queries, arrays.documents, arrays.scores, where=arrays.where)
  kept = {query: dict(run[query]) for query in arrays.queries}
  assert {x: set(y) for x, y in back.to_dict().items()} == {x: set(y) for x, y in kept.items()}
  model = jnp.asarray(arrays.labels, jnp.bfloat16)
  again = trec.Run.from_arrays(arrays.queries, arrays.documents, model, where=arrays.where)
  found = trec.evaluate("ndcg", qrels, again).values["ndcg"]
  np.testing.assert_allclose(found, (arrays.labels > 0).any(axis=1), atol=1e-6)


MEASURES = (
  "map ndcg ndcg_cut_5 ndcg_cut_10 P_5 P_10 P_100 recall_5 recall_100 recip_rank Rprec bpref "
  "success_1 success_5 map_cut_10"
)


@thorough
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_trec_eval(seed):
  pytrec_eval = pytest.importorskip("pytrec_eval")
  qrels, run = oracle.draw(seed)
  # pytrec_eval rounds scores to float32, which trec_eval does not since 9.0.8.
  run = {query: {x: float(np.float32(y)) for x, y in row.items()} for query, row in run.items()}
  found = trec.evaluate(MEASURES, qrels, run)
  names = {name.replace("_cut_", "_cut.").replace("P_", "P.") for name in MEASURES.split()}
  names = {name.replace("recall_", "recall.").replace("success_", "success.") for name in names}
  theirs = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
  assert found.queries == tuple(sorted(theirs))
  for name in MEASURES.split():
    expected = [theirs[query][name] for query in found.queries]
    np.testing.assert_allclose(found.values[name], expected, atol=5e-5, err_msg=name)


@thorough
@pytest.mark.parametrize(
  "ids", [lambda i: i, lambda i: f"http://example.org/{i}/page"], ids=["int", "url"]
)
def test_long_runs_have_the_values_of_trec_eval(ids):
  pytrec_eval = pytest.importorskip("pytrec_eval")
  rng = np.random.default_rng(1)
  run, qrels = {}, {}
  for query in range(30):
    documents = [str(ids(int(x))) for x in rng.choice(10**6, 1500, replace=False)]
    run[str(query)] = dict(
      zip(documents[:1000], rng.normal(size=1000).round(2).tolist(), strict=True)
    )
    qrels[str(query)] = {x: int(rng.integers(-1, 3)) for x in documents[::9]}
  found = trec.evaluate("map ndcg bpref recip_rank", qrels, run)
  theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg", "bpref", "recip_rank"}).evaluate(
    run
  )
  for name, values in found.values.items():
    expected = [theirs[query][name] for query in found.queries]
    np.testing.assert_allclose(values, expected, atol=5e-5, err_msg=name)
