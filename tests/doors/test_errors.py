"""Each common mistake has a message that says what to write instead."""

import functools
import gc
import inspect
import pickle
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxrank as jr
from jaxrank._core import apply, ties

SCORES, LABELS = [[0.3, 0.2, 0.1]], [[0, 1, 0]]


class Frame:
  columns, shape = ["score"], (3, 1)


class Sparse:
  dtype = np.dtype(float)

  def tocsr(self):
    return self


class Tensor:
  def __init__(self, dtype, requires_grad):
    self.dtype, self.requires_grad = dtype, requires_grad


MISTAKES = {
  "a ranking without parentheses": (
    TypeError,
    r"got the class Laplace: write ranking=Laplace\(1\.0\)",
    lambda: jr.ndcg(SCORES, LABELS, ranking=jr.Laplace),
  ),
  "an exact one": (
    TypeError,
    r"^evaluate: ranking .* the class Exact: write ranking=Exact\(\)",
    lambda: jr.evaluate("RR", SCORES, LABELS, ranking=jr.Exact),
  ),
  "a ranking of an evaluator": (
    TypeError,
    r"^Evaluator: ranking .* the class Gumbel: write ranking=Gumbel\(1\.0\)",
    lambda: jr.Evaluator("RR", ranking=jr.Gumbel),
  ),
  "no best grade in a measure": (
    TypeError,
    r"err needs max_label.*as in Measure\(err, max_label=4\)",
    lambda: jr.Measure(jr.err),
  ),
  "ragged scores": (
    ValueError,
    "scores must have rows of one length.*where=.*jaxrank.pad",
    lambda: jr.ndcg([[0.1, 0.2], [0.3]], [[1, 0], [1]]),
  ),
  "lists of lists": (
    ValueError,
    r"must be flat.*pad\(np\.repeat",
    lambda: jr.pad([0, 1], [[0.1, 0.2], [0.3]], [[1, 0], [1]]),
  ),
  "lists of one length": (
    ValueError,
    r"must be flat.*pad\(np\.repeat",
    lambda: jr.pad([0, 1], [[0.1], [0.3]], [[1], [1]]),
  ),
  "a frame": (
    TypeError,
    r"scores .* a Frame: pass scores\.to_numpy\(\).* jaxrank\.pad",
    lambda: jr.ndcg(Frame(), LABELS),
  ),
  "a frame to pad": (TypeError, "scores .* a Frame", lambda: jr.pad([1], Frame(), [1])),
  "a sparse matrix": (TypeError, r"labels\.toarray\(\)", lambda: jr.ndcg(SCORES, Sparse())),
  "a tensor with a gradient": (
    TypeError,
    r"scores\.detach\(\)",
    lambda: jr.evaluate("RR", Tensor("torch.float32", True), LABELS),
  ),
  "a tensor of bfloat16": (
    TypeError,
    r"scores\.float\(\)",
    lambda: jr.ranks.from_scores(Tensor("torch.bfloat16", False), [0]),
  ),
  "swapped arguments": (
    TypeError,
    r"float64\[1,3\]\. Measures are the first argument, as in evaluate\('nDCG@10', ",
    lambda: jr.evaluate(np.array(SCORES), np.array(LABELS), "nDCG@10"),
  ),
  "swapped lists": (
    TypeError,
    "Measures are the first argument",
    lambda: jr.evaluate(SCORES, LABELS, "nDCG@10"),
  ),
  "a gain of nothing": (
    TypeError,
    "^ndcg: what gain returns must be an array of numbers, got None",
    lambda: jr.ndcg(SCORES, LABELS, gain=lambda labels: None),
  ),
  "one weight of several tasks": (
    ValueError,
    r"^ranks.evaluate: head_query_weights must have the shape of the ranks, \(2,\), got \(\)",
    lambda: jr.ranks.evaluate(
      "mrr", jr.ranks.TargetRanks([1, 2], [1, 2], [9, 9]), head_query_weights=2.0
    ),
  ),
  "no labels": (
    TypeError,
    r"^evaluate: missing .*'labels'; write evaluate\('nDCG@10', scores, labels\)",
    lambda: jr.evaluate(SCORES, LABELS),
  ),
  "lists without ids": (
    TypeError,
    r"^pad: missing .*; write pad\(query_ids.*lists of queries pad\(np\.repeat",
    lambda: jr.pad([[1, 2], [3]]),
  ),
  "judgements and a run before the measures": (
    TypeError,
    "^trec.evaluate: measures must be .*got {'q': {'d': 1}}. Measures are the first argument",
    lambda: jr.trec.evaluate({"q": {"d": 1}}, {"q": {"d": 0.5}}, "map"),
  ),
  "a file before the measures": (
    TypeError,
    "^trec.evaluate: measures must be names such as 'map', got the file .*first argument",
    lambda: jr.trec.evaluate(__file__, "run", "map"),
  ),
  "no run": (
    TypeError,
    r"^trec.evaluate: missing .*'run'; write trec.evaluate\('map', qrels, run\)",
    lambda: jr.trec.evaluate({"q": {"d": 1}}, {"q": {"d": 0.5}}),
  ),
  "vectors before the measures": (
    TypeError,
    r"^corpus.evaluate: measures must be .*float64\[2,3\]. Measures are the first argument",
    lambda: jr.corpus.evaluate(np.ones((2, 3)), np.ones((5, 3)), [[0], [1]], "RR"),
  ),
  "a mask of positives": (
    TypeError,
    "positives must be integer ids of items, got bool; of a mask .* pass the ids",
    lambda: jr.corpus.evaluate("RR", np.ones((2, 3)), np.ones((5, 3)), np.ones((2, 5), bool)),
  ),
  "a sparse matrix of positives": (
    TypeError,
    "positives must be ids .* a sparse csr_matrix; pass the columns",
    lambda: jr.corpus.evaluate(
      "RR", np.ones((2, 3)), np.ones((5, 3)), scipy.sparse.csr_matrix(np.ones((2, 5)))
    ),
  ),
  "too many items": (
    ValueError,
    "^corpus.top_items: k must be at most 2147483647, got 2147483648",
    lambda: jr.corpus.top_items(np.ones((2, 3)), np.ones((5, 3)), 2**31),
  ),
  "too many samples": (
    ValueError,
    "^hits_at_10.sampled_values: samples must be at most 2147483647",
    lambda: jr.ranks.hits_at_k.sampled_values([3], key=jax.random.key(0), samples=10**30),
  ),
  "the ranks of one task": (
    ValueError,
    r"^ranks.evaluate: head must have shape \[\.\.\., n\], got the ranks of one task.* pass \[1\]",
    lambda: jr.ranks.evaluate("mrr", jr.ranks.TargetRanks(1, 100, 100)),
  ),
  "the rank of one task": (
    ValueError,
    r"^hits_at_10: ranks must have .* \[1\] for a single one",
    lambda: jr.ranks.hits_at_k(jr.ranks.TargetRanks(1, 100, 100)),
  ),
  "ranks before the names": (
    TypeError,
    r"^ranks.evaluate: names must be strings .* as in ranks.evaluate\('mrr', ranks\)",
    lambda: jr.ranks.evaluate(jr.ranks.TargetRanks([1], [1], [9]), "mrr"),
  ),
  "a cut-off in the place of weights": (
    ValueError,
    r"^hits_at_10: query_weights .*got 5; a cut-off is k=, as in hits_at_k\(ranks, k=5\)",
    lambda: jr.ranks.hits_at_k([1, 7], 5),
  ),
  "a cut-off without need": (
    ValueError,
    "^median_rank.at: median_rank has no cut-off, got k=5; call median_rank itself",
    lambda: jr.ranks.median_rank([1, 7], k=5),
  ),
  "weights of a tail without ranks": (
    ValueError,
    "^ranks.evaluate: tail_query_weights need the ranks of the tail.*pass tail=",
    lambda: jr.ranks.evaluate("mrr", jr.ranks.TargetRanks([1], [1], [9]), tail_query_weights=[1.0]),
  ),
  "labels in the place of targets": (
    ValueError,
    r"^ranks.from_scores: targets must have .*; of labels pass jnp.argmax\(labels, -1\)",
    lambda: jr.ranks.from_scores(SCORES, LABELS),
  ),
  "a seed in the place of a key": (
    TypeError,
    r"^Exact: key must be a PRNG key such as jax.random.key\(7\), got 7",
    lambda: jr.Exact("random", 7),
  ),
  "several keys": (
    TypeError,
    "^stats.randomization_test: key must be one PRNG key .*; use vmap",
    lambda: jr.stats.randomization_test(
      [1.0, 2.0], [0.0, 1.0], key=jax.random.split(jax.random.key(0))
    ),
  ),
  "a maker of gains": (
    TypeError,
    r"gain got the function table itself: write gain=gains.table\(\[0, 1, 3\]\)",
    lambda: jr.ndcg(SCORES, LABELS, gain=jr.gains.table),
  ),
  "a maker of discounts": (
    TypeError,
    r"discount got the function geometric itself: write discount=discounts.geometric\(0.8\)",
    lambda: jr.Measure(jr.dcg, discount=jr.discounts.geometric),
  ),
  "a name in a measure": (
    TypeError,
    "^Measure: a measure is made of a metric .*; got 'nDCG@10'. What takes measures takes names",
    lambda: jr.Measure("nDCG@10"),
  ),
  "a mapping of measures": (
    TypeError,
    "^evaluate: measures must be .*Measures are the first argument",
    lambda: jr.evaluate({"n": jr.ndcg}, SCORES, LABELS),
  ),
  "a masked array": (
    TypeError,
    r"pass scores.filled\(0\), and where=~np.ma.getmaskarray\(scores\)",
    lambda: jr.ndcg(np.ma.masked_array(SCORES, [[False, True, False]]), LABELS),
  ),
  "a traced array on the host": (
    TypeError,
    "^check_values: scores must be known, got a traced array; call it outside of jit",
    lambda: jax.jit(lambda x: jr.check_values(x, LABELS))(np.array(SCORES)),
  ),
  "traced values of rows": (
    TypeError,
    "^unpad: values must be known",
    lambda: jax.jit(lambda x: jr.unpad(jr.pad([0, 0], [0.1, 0.2], [0, 1]), x))(np.ones((1, 2))),
  ),
  "a large cut-off": (
    ValueError,
    "k must be at most 2147483647, got 2147483648; pass None",
    lambda: jr.precision(SCORES, LABELS, k=2**31),
  ),
  "a large cut-off of a measure": (
    ValueError,
    "k must be at most 2147483647",
    lambda: jr.Measure(jr.ndcg, k=2**40),
  ),
  "a large cut-off of ranks": (
    ValueError,
    "k must be at most 2147483647",
    lambda: jr.ranks.hits_at_k.at(2**31),
  ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_messages_say_what_to_write(mistake):
  error, message, call = MISTAKES[mistake]
  with pytest.raises(error, match=message):
    call()


REQUIRING = [
  function
  for module in (jr, jr.metrics, jr.losses)
  for name in module.__all__
  if callable(function := getattr(module, name)) and not isinstance(function, type)
  if "max_label" in (takes := inspect.signature(function).parameters)
  if takes["max_label"].default is inspect.Parameter.empty
]


@pytest.mark.parametrize("function", dict.fromkeys(REQUIRING), ids=lambda x: x.__name__)
def test_a_best_grade_that_is_missing_is_written_down(function):
  """The signature shows it as required, and the message says what to write."""
  name = function.__name__
  told = f"^{name} needs max_label, the best grade .*: write {name}\\(scores, labels, max_label=4"
  with pytest.raises(TypeError, match=told):
    function(SCORES, LABELS)
  assert pickle.loads(pickle.dumps(function)) is function


def test_all_functions_with_a_best_grade_are_tried():
  tried = {function.__name__ for function in REQUIRING}
  assert tried >= {"err", "gap", "nerr_ia", "inst", "nearly_err", "approx_err", "softrank_err"}


def test_errors_with_advice_of_a_door_are_those_of_values():
  with pytest.raises(ValueError, match="^evaluate: 'nDGC' is no name of a measure: did") as told:
    jr.evaluate("nDGC", SCORES, LABELS)
  again = pickle.loads(pickle.dumps(told.value))
  assert str(again) == str(told.value)
  assert (again.fault, again.about) == ("evaluate: 'nDGC' is no name of a measure:", "name")


def test_a_cut_off_of_ranks_is_an_argument_too():
  for given in ([1, 7], np.array([1, 7]), jr.ranks.TargetRanks([1, 7], [1, 7], [9, 9])):
    assert jr.ranks.hits_at_k(given, k=5) == jr.ranks.hits_at_k.at(5)(given) == 0.5


def test_a_moment_of_infinitely_many_candidates_is_none():
  """The sum over the candidates would not end."""
  assert jnp.isnan(jr.ranks.median_rank.expected([jnp.inf]))


def test_a_run_that_looks_like_judgements_is_a_warning():
  qrels, run = {"q": {"d": 1, "e": 0}}, {"q": {"d": 0.5, "e": 0.7}}
  with pytest.warns(UserWarning, match=r"swapped\? The order is \(measures, qrels, run\)") as told:
    jr.trec.evaluate("map", run, qrels)
  assert told[0].filename == __file__


def test_arrays_that_convert_are_taken():
  batch = jr.pad([0, 0, 1], (0.1, 0.2, 0.3), [np.int32(1), 0, 1])
  assert batch.where.tolist() == [[True, True], [True, False]]
  assert jr.precision(SCORES, LABELS, k=2**31 - 1) == pytest.approx(2**-31)


@pytest.mark.parametrize(
  ("name", "meant"),
  [
    ("mrr", "reciprocal_rank."),
    ("MAP", "average_precision."),
    ("hits_at_k", "hit_rate, with k=10."),
    ("ndcg_at_k", "ndcg, with k=10."),
    ("precision_at_ks", "precision, with k=10."),
    ("auroc", "auc."),
    ("rbo", "agreement.rbo."),
    ("softmax_loss", "losses.softmax."),
    ("recal", "recall?"),
    ("evaluator", "Evaluator?"),
  ],
)
def test_names_that_people_try_lead_to_the_right_one(name, meant):
  with pytest.raises(AttributeError, match=f"no attribute '{name}'.*jaxrank") as found:
    getattr(jr, name)
  assert str(found.value).endswith(f"jaxrank.{meant}")
  home = jr
  for part in meant.rstrip(".?").split(",")[0].split("."):
    home = getattr(home, part)


def test_other_names_are_none_either():
  with pytest.raises(AttributeError, match="__all__ has all names"):
    jr.zzzzzz  # noqa: B018
  assert not hasattr(jr, "__wrapped__")
  assert not hasattr(jr, "_zzz")


def test_parameters_of_a_measure_do_not_change():
  measure = jr.Measure(jr.ndcg, k=10)
  before = hash(measure)
  with pytest.raises(TypeError):
    measure.parameters["k"] = 5
  assert hash(pickle.loads(pickle.dumps(measure))) == before
  assert dict(measure.parameters) == {"k": 10}


def test_programs_and_sums_do_not_stay_for_ever(monkeypatch):
  """Each lambda is another gain, and each length another table."""
  assert apply._passing.cache_info().maxsize <= 64
  refs, most = [], 2
  few = functools.lru_cache(maxsize=most)(apply._passing.__wrapped__)
  monkeypatch.setattr(apply, "_passing", few)
  scores, labels = jnp.zeros((1, 2)), jnp.array([[0.0, 1.0]])

  def evaluate(number):
    gain = lambda y: y * number  # noqa: E731
    refs.append(weakref.ref(gain))
    return jr.dcg(scores, labels, gain=gain, k=1)[0]

  values = [float(evaluate(i)) for i in range(2 * most)]
  gc.collect()
  assert values == pytest.approx([i / 2 for i in range(2 * most)])
  assert sum(ref() is not None for ref in refs) <= most
  reused = lambda y: 2 * y  # noqa: E731
  programs = apply._passing.cache_info().hits
  assert jr.dcg(scores, labels, gain=reused) == jr.dcg(scores, labels, gain=reused)
  assert apply._passing.cache_info().hits > programs
  for n in range(100, 200):
    ties.discount_words(jr.discounts.logarithmic.reference, n)
  assert ties.discount_words.cache_info().currsize <= 16
