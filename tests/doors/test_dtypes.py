"""64-bit numbers have one meaning: that of JAX in the library, double precision in adapters."""

import jax
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import sorting
from jaxrank.interop import lightgbm, torchmetrics

CLOSE = 1 + np.arange(4) * 2.0**-50
LABELS = np.array([0, 0, 0, 1])
TIED = 1 / (1 + np.arange(4)) @ np.full(4, 0.25)

DOORS = {
  "function": lambda s, y: jr.reciprocal_rank(s, y),
  "measure": lambda s, y: jr.Measure(jr.reciprocal_rank)(s, y),
  "evaluate": lambda s, y: jr.evaluate("RR", s, y)["RR"],
  "evaluator": lambda s, y: mean(jr.Evaluator("RR"), s, y),
  "jitted": jax.jit(jr.reciprocal_rank),
}


def mean(evaluator, scores, labels):
  return evaluator.compute(evaluator.update(evaluator.init(), scores, labels))["RR"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", [np.asarray, list])
def test_double_precision_is_that_of_jax(door, kind):
  scores = kind(CLOSE)
  assert DOORS[door](np.asarray(scores) if door == "jitted" else scores, LABELS) == pytest.approx(
    TIED
  )
  with jax.enable_x64(True):
    assert DOORS[door](np.asarray(scores), LABELS) == 1


def test_values_have_the_dtype_of_jax():
  assert jr.ndcg(CLOSE, LABELS).dtype == np.float32
  with jax.enable_x64(True):
    assert jr.ndcg(CLOSE, LABELS).dtype == np.float64


@pytest.mark.parametrize("wide", [2**31, -(2**31) - 1, 2**40, 2**62])
@pytest.mark.parametrize("door", sorted(DOORS.keys() - {"jitted"}))
@pytest.mark.parametrize("kind", [lambda x: x, np.array, lambda x: [np.asarray(v) for v in x]])
def test_integers_that_do_not_fit_say_what_to_do(door, wide, kind):
  with pytest.raises(ValueError, match=r"scores must be integers of up to 32 bits.*np\.unique"):
    DOORS[door](kind([wide, 1, 2, 3]), LABELS)
  with pytest.raises(ValueError, match=r"labels must be integers of up to 32 bits.*x64"):
    DOORS[door]([1, 2, 3, 4], kind([wide, 0, 0, 0]))
  with jax.enable_x64(True):
    assert DOORS[door](kind([wide, 1, 2, 3]), LABELS) == (1 if wide < 0 else 0.5)


def test_what_is_advised_for_such_integers_goes_with_any_labels():
  """The check of values refuses them too, and ranks as floats do not look like labels."""
  scores, labels = np.array([2**40, 2**40, 1]), np.array([0.5, 0, 1])
  told = r"scores must be integers of up to 32 bits, .*return_inverse=True\)\[1\]\.astype\(float\)"
  for call in (jr.ndcg, jr.check_values):
    with pytest.raises(ValueError, match=told):
      call(scores, labels)
    with pytest.raises(ValueError, match="labels must be integers of up to 32 bits"):
      call(labels, scores)
  ranks = np.unique(scores, return_inverse=True)[1].astype(float)
  jr.check_values(ranks, labels)
  assert jr.ndcg(ranks, labels) == jr.ndcg([2.0, 2.0, 1.0], labels)


def test_integers_of_a_corpus_that_do_not_fit_are_refused():
  items = np.array([[2**40], [1]])
  for ask in (
    lambda: jr.corpus.evaluate("ndcg", np.ones((1, 1), int), items, np.array([[1]])),
    lambda: jr.corpus.target_ranks(np.ones((1, 1), int), items, np.array([1])),
    lambda: jr.corpus.top_items(np.ones((1, 1), int), items, 1),
  ):
    with pytest.raises(ValueError, match="items must be integers of up to 32 bits, got 10995"):
      ask()


def test_tables_hold_integers_of_any_size():
  for values in ([0, 2**40], np.array([0, 2**40]), [0, 2**70]):
    gain = jr.gains.table(values)
    np.testing.assert_allclose(jr.dcg([2.0, 1.0], [1, 0], gain=gain), float(values[1]), rtol=1e-6)
  discount = jr.discounts.table(np.array([2**40, 1]))
  np.testing.assert_allclose(jr.dcg([2.0, 1.0], [1, 0], discount=discount), 2.0**40)


def test_integers_that_fit_are_ordered_exactly():
  scores = np.array([2**31 - 1, 2**31 - 2, -(2**31), 0])
  assert jr.reciprocal_rank(scores, np.array([0, 1, 0, 0])) == 0.5
  assert jr.reciprocal_rank(scores.tolist(), [0, 0, 1, 0]) == 0.25


def test_dense_ranks_order_and_tie_as_the_scores():
  rng = np.random.default_rng(0)
  scores = 1 + rng.integers(-4, 5, (30, 40)) * 2.0**-50
  scores[rng.random(scores.shape) < 0.1] = -np.inf
  scores[rng.random(scores.shape) < 0.05] = np.nan
  found = sorting.single(scores)
  assert found.dtype == np.float32
  for before in (np.less, np.equal):
    pairs = before(scores[:, :, None], scores[:, None])
    assert np.array_equal(before(found[:, :, None], found[:, None]), pairs)
  assert np.array_equal(np.isneginf(found), np.isneginf(scores))
  assert np.array_equal(np.isnan(found), np.isnan(scores))


def test_lists_that_float32_tells_apart_keep_their_scores():
  scores = np.array([[0.1, 0.3, -np.inf], [0.1, 0.1 + 1e-12, -np.inf], [0.1, -1e300, np.nan]])
  right = [[0.1, 0.3, -np.inf], [-2, -1, -np.inf], [-1, -2, np.nan]]
  np.testing.assert_array_equal(sorting.single(scores), np.float32(right))


@pytest.mark.parametrize("scores", [CLOSE, -1e300 * np.arange(4)[::-1], 1e-300 * np.arange(4)])
def test_adapters_of_double_precision_order_it(scores):
  (row,) = lightgbm.metrics("RR")(LABELS, scores, None, [4])
  assert row == ("RR", 1.0, True)
  assert torchmetrics.retrieval_reciprocal_rank(scores, LABELS) == 1
