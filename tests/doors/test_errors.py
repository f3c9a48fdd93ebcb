"""Each common mistake has a message that says what to write instead."""

import functools
import gc
import inspect
import pickle
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

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
  "no best grade in a measure": (TypeError, "err needs max_label", lambda: jr.Measure(jr.err)),
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
  "a frame": (TypeError, r"scores .* a Frame: jaxrank\.pad", lambda: jr.ndcg(Frame(), LABELS)),
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
    r"array of shape \(1, 3\)\. They come before .*evaluate\('nDCG@10', scores, labels\)",
    lambda: jr.evaluate(np.array(SCORES), np.array(LABELS), "nDCG@10"),
  ),
  "swapped lists": (
    TypeError,
    "Measures come before scores and labels",
    lambda: jr.evaluate(SCORES, LABELS, "nDCG@10"),
  ),
  "judgements before measures": (
    TypeError,
    "got a dictionary. They come first, before scores and labels, or before judgements and a run",
    lambda: jr.trec.evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, "AP"),
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
  refs, most = [], 4
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
