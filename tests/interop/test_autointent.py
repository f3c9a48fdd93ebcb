"""AutoIntent's functions: numbers that were run on the original, and plain Python."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank.interop.autointent as ai
from tests.helpers import label_oracles as oracle

NAMES = tuple(oracle.METRICS)
FUNCTIONS = {
  f"retrieval_{name}{suffix}": getattr(ai, f"retrieval_{name}{suffix}")
  for name in NAMES
  for suffix in ("", "_intersecting", "_macro")
}
CLASSES = [1, 3], [[2, 1, 1], [3, 1, 1]]
ROWS = (
  [[0, 1, 1], [1, 0, 0]],
  [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 1], [1, 1, 0], [0, 0, 0]]],
)

# Run on AutoIntent 0.4.0, in the order of NAMES; None where the adapter differs on purpose.
PLAIN = (
  (*CLASSES, None, (0.791667, 1.0, 0.5, 0.846713, 0.75)),
  (*CLASSES, 2, (0.75, 1.0, 0.5, 0.693426, 0.75)),
  ([1], [[2, 1, 1]], 10, (0.583333, 1.0, None, 0.693426, 0.5)),
  ([1], [[2, 1, 1]], 0, (0.0, 0.0, None, 0.0, 0.0)),
)
INTERSECTING = (
  (None, (0.541667, 1.0, 0.5, None, 0.5)),
  (2, (0.5, 1.0, 0.5, None, 0.5)),
)
MACRO = (
  (None, (0.472222, 1.0, 0.444444, 0.608119, 0.444444)),
  (2, (0.333333, 0.666667, 0.333333, 0.339261, 0.333333)),
)


def assert_values(suffix, arguments, expected, **options):
  for name, value in zip(NAMES, expected, strict=True):
    if value is not None:
      got = FUNCTIONS[f"retrieval_{name}{suffix}"](*arguments, **options)
      assert isinstance(got, float)
      assert got == pytest.approx(value, abs=1e-6), name


@pytest.mark.parametrize(("queries", "lists", "k", "expected"), PLAIN)
def test_numbers_of_the_plain_functions(queries, lists, k, expected):
  assert_values("", (queries, lists, k), expected)


@pytest.mark.parametrize(("k", "expected"), INTERSECTING)
def test_numbers_of_the_intersecting_functions(k, expected):
  assert_values("_intersecting", (*ROWS, k), expected)


@pytest.mark.parametrize(("k", "expected"), MACRO)
def test_numbers_of_the_macro_functions_with_joint_absence(k, expected):
  assert_values("_macro", (*ROWS, k), expected, joint_absence=True)


def test_cut_offs_of_five_candidates():
  expected = {
    1: (1, 1, 1, 1, 1),
    2: (1, 1, 0.5, 0.6131, 1),
    3: (0.8333, 1, 0.6667, 0.7039, 1),
    4: (0.8333, 1, 0.5, 0.7039, 1),
    5: (0.7556, 1, 0.6, 0.8855, 1),
    # The original's precision is 0.6 here.
    10: (0.7556, 1, 0.3, 0.8855, 1),
  }
  for k, values in expected.items():
    found = [FUNCTIONS[f"retrieval_{name}"]([1], [[1, 0, 1, 0, 1]], k) for name in NAMES]
    assert found == pytest.approx(values, abs=5e-5)


def test_candidates_of_another_query_do_not_count():
  """A private variant of the original looks through those of all queries, and finds 1.0."""
  assert ai.retrieval_hit_rate([3, 1], [[1, 1], [3, 2]]) == 0.0


def test_precision_divides_by_k():
  assert ai.retrieval_precision([1], [[2, 1, 1]], 10) == pytest.approx(0.2)
  assert ai.retrieval_precision([1], [[2, 1, 1]], 0) == 0.0
  assert ai.retrieval_precision([1], [[]]) == 0.0


def test_intersecting_ndcg_asks_for_a_shared_class():
  assert ai.retrieval_ndcg_intersecting(*ROWS) == pytest.approx(0.662178, abs=1e-6)
  assert ai.retrieval_ndcg_intersecting(*ROWS, 2) == pytest.approx(0.508891, abs=1e-6)
  assert ai.retrieval_ndcg_intersecting([[1, 0]], [[[1, 1], [0, 1], [0, 0]]]) == 1.0
  assert ai.retrieval_ndcg_intersecting([[0, 0, 0]], [[[0, 0, 0], [1, 0, 0]]]) == 0.0


def test_joint_absence_is_an_option():
  arguments = [[0, 0, 0]], [[[0, 0, 0], [1, 0, 0]]]
  assert_values("_macro", arguments, (1.0, 1.0, 0.833333, 1.0, 1.0), joint_absence=True)
  assert_values("_macro", arguments, (0.0,) * 5)
  # The third class, which no query has, does not count; the second counts once.
  arguments = [[1, 1, 0], [1, 0, 0]], [[[0, 1, 1]], [[1, 0, 1]]]
  assert ai.retrieval_hit_rate_macro(*arguments) == (0.5 + 1.0) / 2


def ragged(rng, label, size):
  """A few queries, some out of scope, with lists of up to eight."""
  queries = [label(rng) if rng.random() < 0.8 else None for _ in range(size - 1)] + [label(rng)]
  return queries, [[label(rng) for _ in range(rng.integers(0, 9))] for _ in queries]


@pytest.mark.parametrize("name", NAMES)
def test_ragged_lists_agree_with_plain_python(name):
  rng = np.random.default_rng(0)
  for k in (None, 3) * 20:
    queries, lists = ragged(rng, lambda rng: int(rng.integers(4)), 8)
    got = FUNCTIONS[f"retrieval_{name}"](queries, lists, k)
    assert got == pytest.approx(oracle.plain(oracle.METRICS[name], queries, lists, k), abs=1e-9)

    queries, lists = ragged(rng, lambda rng: rng.integers(0, 2, 2).tolist(), 4)
    got = FUNCTIONS[f"retrieval_{name}_intersecting"](queries, lists, k)
    expected = oracle.intersecting(oracle.METRICS[name], queries, lists, k)
    assert got == pytest.approx(expected, abs=1e-9)
    for joint in (False, True):
      got = FUNCTIONS[f"retrieval_{name}_macro"](queries, lists, k, joint_absence=joint)
      expected = oracle.macro(oracle.METRICS[name], queries, lists, k, joint)
      assert got == pytest.approx(expected, abs=1e-9)


class Tensor:
  """All that is known of a tensor of another library."""

  def __init__(self, values):
    self.values = np.array(values)

  def __array__(self, dtype=None, copy=None):
    return self.values.astype(dtype or self.values.dtype)


@pytest.mark.parametrize("convert", [np.array, jnp.array, tuple, Tensor])
def test_arrays_are_lists(convert):
  assert ai.retrieval_map(*map(convert, CLASSES)) == ai.retrieval_map(*CLASSES)
  assert ai.retrieval_map_macro(*map(convert, ROWS)) == ai.retrieval_map_macro(*ROWS)


def test_classes_may_be_names():
  assert ai.retrieval_mrr(["car", "boat", None], [["bus", "car"], ["boat"], ["car"]]) == 0.75
  assert ai.retrieval_mrr(["car"], [["ca", "carpet", "ca\0"]]) == 0.0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_input_is_named(name):
  function = FUNCTIONS[name]
  good, bad = (CLASSES, ROWS) if name in ai.RETRIEVAL_METRICS_MULTICLASS else (ROWS, CLASSES)
  with pytest.raises(ValueError, match="a label must be"):
    function(*bad)
  with pytest.raises(ValueError, match="none of 0 queries has a label"):
    function([], [])
  with pytest.raises(ValueError, match="none of 2 queries has a label"):
    function([None, None], good[1])
  with pytest.raises(ValueError, match="1 lists for 2 queries"):
    function(good[0], good[1][:1])
  with pytest.raises(ValueError, match="k must be at least 1, got -1"):
    function(*good, -1)
  with pytest.raises(TypeError, match="k must be a positive integer"):
    function(*good, 1.5)
  with pytest.raises(TypeError, match="candidates_labels must be a list"):
    function(good[0], 3)


def test_rows_are_of_numbers():
  for rows in ([["a", "b"]], [[None, 1]]):
    with pytest.raises(TypeError, match="a row of zeros and ones must be numbers"):
      ai.retrieval_map_intersecting([[1, 0]], [rows])


def test_labels_of_one_query_have_one_shape():
  with pytest.raises(ValueError, match="labels of one shape"):
    ai.retrieval_map_macro([[0, 1]], [[[0, 1], [1]]])
  with pytest.raises(ValueError, match="a label must be a row"):
    ai.retrieval_map_macro([[0, 1]], [[[0, 1, 1]]])


def test_registries_and_signatures_are_those_of_the_original():
  registries = ai.RETRIEVAL_METRICS_MULTICLASS | ai.RETRIEVAL_METRICS_MULTILABEL
  assert registries == FUNCTIONS
  for name, function in FUNCTIONS.items():
    signature = inspect.signature(function)
    assert list(signature.parameters)[:3] == ["query_labels", "candidates_labels", "k"]
    assert signature.parameters["k"].default is None
    assert ("joint_absence" in signature.parameters) == name.endswith("_macro")
    assert function.__name__ == name
    assert function.__doc__


def test_scores_of_classes_agree_with_scikit_learn():
  sklearn = pytest.importorskip("sklearn.metrics")
  rng = np.random.default_rng(0)
  for _ in range(100):
    labels, scores = rng.integers(0, 2, (5, 4)), rng.integers(0, 4, (5, 4)) / 4
    expected = {
      ai.scoring_map: sklearn.label_ranking_average_precision_score(labels, scores),
      ai.scoring_neg_coverage: 1 - (sklearn.coverage_error(labels, scores) - 1) / 3,
      ai.scoring_neg_ranking_loss: -sklearn.label_ranking_loss(labels, scores),
      ai.scoring_hit_rate: np.mean(labels[np.arange(5), np.argmax(scores, axis=1)]),
    }
    for function, value in expected.items():
      assert function(labels, scores) == pytest.approx(float(value), abs=1e-12)
      with_none = [*labels.tolist(), None], [*scores.tolist(), [0.0] * 4]
      assert function(*with_none) == function(labels, scores)


@pytest.mark.parametrize(
  ("labels", "scores", "message"),
  [
    ([], [], "must be .items, classes."),
    ([None], [[0.5, 0.5]], "must be .items, classes."),
    ([1], [[0.5, 0.5]], "must be .items, classes."),
    ([[1, 0]], [[0.5, 0.5, 0.5]], "must be .items, classes."),
    ([[1, 0]], [[0.5, 0.5]] * 2, "one row for each label"),
    ([[1, 0]], [[0.5, np.nan]], "scores must be finite"),
    ([[np.nan, 0]], [[0.5, 0.5]], "labels must be finite"),
  ],
)
def test_bad_scores_of_classes_are_named(labels, scores, message):
  for function in (ai.scoring_map, ai.scoring_hit_rate):
    with pytest.raises(ValueError, match=message):
      function(labels, scores)
  with pytest.raises(ValueError, match="two classes at least"):
    ai.scoring_neg_coverage([[1]], [[0.5]])
