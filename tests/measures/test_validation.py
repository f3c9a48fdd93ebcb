"""The checks of values on the host."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank.validation import check_values

SCORES = np.array([[0.5, 0.25, 1.0], [2.0, -1.0, 0.0]])
LABELS = np.array([[1, 0, 2], [0, -1, 1]])


def changed(array, cell, value):
  """A float copy of `array` with one cell changed."""
  array = np.array(array, float)
  array[cell] = value
  return array


@pytest.mark.parametrize(
  ("scores", "labels"),
  [
    (SCORES, LABELS),
    (SCORES.tolist(), LABELS.tolist()),
    (SCORES.astype(int), LABELS > 0),
    (jnp.asarray(SCORES, jnp.bfloat16), jnp.asarray(LABELS, jnp.bfloat16)),
    (jnp.asarray(SCORES, jnp.float16), LABELS.astype(np.int8)),
    (np.full_like(SCORES, -np.inf), LABELS),
    (changed(SCORES, (0, 1), np.inf), LABELS),
    (SCORES[0], LABELS[0]),
    (SCORES[None], LABELS[None]),
    (np.zeros((0, 3)), np.zeros((0, 3))),
    (np.zeros((2, 0)), np.zeros((2, 0))),
  ],
)
def test_good_values_pass(scores, labels):
  assert check_values(scores, labels) is None
  assert check_values(scores, labels, where=np.zeros(np.shape(scores), bool)) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_masked_does_not_matter(value):
  where = np.arange(3) < np.array([[3], [2]])
  hostile = changed(SCORES, (1, 2), value), changed(LABELS, (1, 2), value)
  assert check_values(*hostile, where=where) is None
  assert check_values(*hostile, where=where.tolist()) is None


@pytest.mark.parametrize(
  ("scores", "labels", "message"),
  [
    (changed(SCORES, (1, 2), np.nan), LABELS, r"score of query 1, item 2 is nan \(1 such cell\)"),
    (SCORES, changed(LABELS, (0, 1), np.nan), "label of query 0, item 1 is nan"),
    (SCORES, changed(LABELS, (0, 0), np.inf), "label of query 0, item 0 is inf"),
    (SCORES, changed(LABELS, (1, 0), -np.inf), "label of query 1, item 0 is -inf"),
    (SCORES * np.nan, LABELS, r"score of query 0, item 0 is nan \(6 such cells\)"),
    (jnp.asarray(SCORES * np.nan, jnp.bfloat16), LABELS, "score of query 0, item 0 is nan"),
    (SCORES[0] * np.nan, LABELS[0], "score of item 0 is nan"),
    (SCORES[None] * np.nan, LABELS[None], r"score of query \(0, 0\), item 0 is nan"),
  ],
)
def test_a_bad_cell_is_named(scores, labels, message):
  with pytest.raises(ValueError, match=message):
    check_values(scores, labels)


def test_the_first_valid_cell_is_named():
  where = np.array([[False, True, True], [True, True, True]])
  scores = changed(changed(SCORES, (0, 0), np.nan), (1, 1), np.nan)
  with pytest.raises(ValueError, match=r"query 1, item 1 is nan \(1 such cell\)"):
    check_values(scores, LABELS, where=where)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_a_mask_must_be_boolean(dtype):
  with pytest.raises(TypeError, match=f"where must be boolean.* got {dtype}"):
    check_values(SCORES, LABELS, where=np.ones_like(SCORES, dtype))


@pytest.mark.parametrize(
  ("scores", "labels", "where", "message"),
  [
    ((2, 3), (2, 4), (2, 3), r"\(2, 3\), \(2, 4\) and \(2, 3\)"),
    ((2, 3), (3,), (2, 3), r"\(2, 3\), \(3,\) and \(2, 3\)"),
    ((2, 3), (2, 3), (3,), r"\(2, 3\), \(2, 3\) and \(3,\)"),
    ((), (), (), r"\(\), \(\) and \(\)"),
  ],
)
def test_shapes_must_agree(scores, labels, where, message):
  with pytest.raises(ValueError, match=message):
    check_values(np.zeros(scores), np.zeros(labels), where=np.ones(where, bool))


@pytest.mark.parametrize("bad", [np.array(["a", "b"]), np.array([1j, 2]), np.array([None, 1])])
def test_values_must_be_real_numbers(bad):
  with pytest.raises(TypeError, match="^check_values: scores must be (an array of|real)"):
    check_values(bad, [0, 1])
  with pytest.raises(TypeError, match="labels must be (an array of|real)"):
    check_values([0, 1], bad)


def test_queries_whose_labels_prefer_no_order_are_counted_once():
  labels = np.array([[0, 1, 2], [1, 1, 0], [0, 0, 5], [-1, -2, -3], [-1, -1, 9], [3, 9, 9]])
  where = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0]], bool)
  message = r"in 5 of 6 queries, whose labels are all equal \(3\) or all negative \(2\)"
  for dtype in (np.float32, np.int8, jnp.bfloat16):
    with pytest.warns(UserWarning, match=message) as caught:
      check_values(np.zeros(labels.shape), jnp.asarray(labels, dtype), where=where)
    assert len(caught) == 1
    assert caught[0].filename == __file__
  # A column of scores and labels is a batch of queries of one item each.
  with pytest.warns(UserWarning, match=r"in 4 of 4 queries, whose labels are all equal \(4\)"):
    check_values(np.zeros((4, 1)), np.arange(4)[:, None])
