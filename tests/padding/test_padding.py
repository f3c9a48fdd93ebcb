"""Flat rows to padded arrays and back."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrank import padding

INTEGERS = st.integers(-3, 3)
IDS = st.one_of(
  st.lists(INTEGERS, max_size=40),
  st.lists(st.sampled_from(["q1", "q10", "q2", "", "é"]), max_size=40),
  st.lists(st.sampled_from([-0.0, 0.0, 1.5, -np.inf]), max_size=40),
)


def columns(query_ids):
  """Scores and labels that tell the rows apart."""
  rows = len(query_ids)
  return np.arange(rows) + 0.5, np.arange(rows, 0, -1)


@given(IDS, st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_pad_agrees_with_a_loop(query_ids, extra):
  scores, labels = columns(query_ids)
  expected = {}
  for row, query in enumerate(query_ids):
    expected.setdefault(query, []).append(row)
  longest = max(map(len, expected.values()), default=0)
  batch = padding.pad(query_ids, scores, labels, length=longest + extra)
  assert batch.rows.shape == (len(expected), longest + extra)
  assert batch.query_ids.tolist() == sorted(expected)
  for query, rows, where in zip(batch.query_ids.tolist(), batch.rows, batch.where, strict=True):
    assert rows[where].tolist() == expected[query]
    assert (rows[~where] == -1).all()
  valid = batch.where
  np.testing.assert_array_equal(batch.scores[valid], scores[batch.rows[valid]])
  np.testing.assert_array_equal(batch.labels[valid], labels[batch.rows[valid]])
  assert not batch.scores[~valid].any()
  assert not batch.labels[~valid].any()


@given(IDS)
@settings(max_examples=100, deadline=None)
def test_unpad_undoes_pad(query_ids):
  scores, labels = columns(query_ids)
  batch = padding.pad(query_ids, scores, labels)
  np.testing.assert_array_equal(padding.unpad(batch, batch.scores), scores)
  np.testing.assert_array_equal(padding.unpad(batch, batch.labels), labels)


@given(IDS, st.none() | st.lists(st.integers(1, 50), max_size=4))
@settings(max_examples=200, deadline=None)
def test_buckets_hold_what_pad_holds(query_ids, lengths):
  scores, labels = columns(query_ids)
  if lengths is not None:
    lengths = [*lengths, 40]
  batches = padding.pad_buckets(query_ids, scores, labels, lengths=lengths)
  back = padding.unpad(batches, [batch.scores for batch in batches])
  np.testing.assert_array_equal(back, scores)
  whole = padding.pad(query_ids, scores, labels, length=64)
  for batch in batches:
    rows = np.searchsorted(whole.query_ids, batch.query_ids)
    length = batch.rows.shape[1]
    for field in ("scores", "labels", "where", "rows"):
      expected = getattr(whole, field)[rows, :length]
      np.testing.assert_array_equal(getattr(batch, field), expected)
    assert whole.where[rows].sum() == batch.where.sum()


@given(st.lists(INTEGERS, min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_powers_of_two_are_few_and_more_than_half_full(query_ids):
  batches = padding.pad_buckets(query_ids, *columns(query_ids))
  lengths = [batch.scores.shape[1] for batch in batches]
  assert lengths == sorted(set(lengths))
  assert all(length.bit_count() == 1 for length in lengths)
  for batch, length in zip(batches, lengths, strict=True):
    assert (2 * batch.where.sum(axis=1) > length).all()


def test_given_lengths_are_used_in_any_order():
  query_ids = np.repeat([5, 6, 7, 8], [1, 3, 4, 9])
  batches = padding.pad_buckets(query_ids, *columns(query_ids), lengths=[10, 100, 3, 3])
  found = [(batch.query_ids.tolist(), batch.scores.shape) for batch in batches]
  assert found == [([5, 6], (2, 3)), ([7, 8], (2, 10))]


@pytest.mark.parametrize("scores", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("labels", ["bool", "int8", "float64"])
@pytest.mark.parametrize("query_ids", ["uint8", "int64", "float32", "str", "object"])
def test_dtypes_are_kept(query_ids, scores, labels):
  inputs = [np.array([2, 1, 2]).astype(dtype) for dtype in (query_ids, scores, labels)]
  batch = padding.pad(*inputs)
  kept = [batch.query_ids.dtype, batch.scores.dtype, batch.labels.dtype]
  assert kept == [array.dtype for array in inputs]
  assert batch.where.dtype == np.bool_
  assert all(isinstance(field, np.ndarray) for field in batch)
  assert padding.unpad(batch, batch.scores).dtype == inputs[1].dtype


def test_float64_scores_are_not_squeezed():
  scores = np.array([1.0, 1.0 + 2.0**-50])
  assert (padding.pad([0, 0], scores, [0, 1]).scores == scores).all()


def test_ids_of_queries_that_tie_as_floats_stay_apart():
  query_ids = np.array([2**53 + 1, 2**53, 2**53 + 1])
  assert padding.pad(query_ids, *columns(query_ids)).query_ids.tolist() == [2**53, 2**53 + 1]


def test_the_order_of_rows_changes_only_the_order_of_items():
  rng = np.random.default_rng(0)
  query_ids = rng.integers(0, 20, 200)
  scores, labels = columns(query_ids)
  shuffle = rng.permutation(200)
  batch = padding.pad(query_ids, scores, labels)
  other = padding.pad(query_ids[shuffle], scores[shuffle], labels[shuffle])
  np.testing.assert_array_equal(other.query_ids, batch.query_ids)
  np.testing.assert_array_equal(other.where, batch.where)
  np.testing.assert_array_equal(np.sort(other.scores, axis=1), np.sort(batch.scores, axis=1))


def test_a_batch_is_a_pytree_that_jit_takes():
  batch = padding.pad([3, 1, 3], [0.5, 1.0, 2.0], [0, 1, 1])
  total = jax.jit(lambda b: b.scores.sum(axis=1, where=b.where))(batch)
  assert total.tolist() == [1.0, 2.5]


def test_unpad_takes_device_arrays_and_trailing_axes():
  batch = padding.pad([3, 1, 3], [0.5, 1.0, 2.0], [0, 1, 1])
  pairs = jax.numpy.stack([batch.scores, -batch.scores], axis=-1)
  assert padding.unpad(batch, pairs).tolist() == [[0.5, -0.5], [1.0, -1.0], [2.0, -2.0]]


def test_unpad_ignores_a_narrower_mask():
  batch = padding.pad([3, 1, 3], [0.5, 1.0, 2.0], [0, 1, 1])
  judged = batch._replace(where=batch.where & (batch.labels > 0))
  assert padding.unpad(judged, judged.scores).tolist() == [0.5, 1.0, 2.0]


def test_no_rows_are_legal():
  batch = padding.pad([], [], [])
  assert batch.scores.shape == (0, 0)
  assert padding.pad([], [], [], length=5).where.shape == (0, 5)
  assert padding.unpad(batch, batch.scores).shape == (0,)
  assert padding.pad_buckets([], [], []) == []
  assert padding.unpad([], []).shape == (0,)


@pytest.mark.parametrize("function", [padding.pad, padding.pad_buckets])
@pytest.mark.parametrize(
  ("shapes", "message"),
  [
    (((3,), (2,), (3,)), r"got shapes \(3,\), \(2,\) and \(3,\)"),
    (((3,), (3,), (4,)), r"got shapes \(3,\), \(3,\) and \(4,\)"),
    (((2, 3), (2, 3), (2, 3)), r"one-dimensional.* got shapes \(2, 3\), \(2, 3\) and \(2, 3\)"),
    (((3,), (3, 1), (3,)), r"\(3,\), \(3, 1\) and \(3,\)"),
    (((), (), ()), r"got shapes \(\), \(\) and \(\)"),
  ],
)
def test_shapes_that_do_not_fit_are_named(function, shapes, message):
  with pytest.raises(ValueError, match=message):
    function(*map(np.zeros, shapes))


def test_a_length_too_small_names_the_query():
  query_ids = ["a", "b", "b", "b"]
  with pytest.raises(ValueError, match="length is 2, .* got 3 items for query 'b'"):
    padding.pad(query_ids, *columns(query_ids), length=2)
  with pytest.raises(ValueError, match="largest of lengths is 2, .* got 3 items for query 'b'"):
    padding.pad_buckets(query_ids, *columns(query_ids), lengths=[1, 2])


def test_a_length_is_a_count():
  with pytest.raises(ValueError, match="length must be at least 0, got -1"):
    padding.pad([], [], [], length=-1)
  with pytest.raises(TypeError, match="length must be an int, .* got 2.5"):
    padding.pad([1], [0.5], [1], length=2.5)


@pytest.mark.parametrize("lengths", [[0, 4], [-1, 4], [2.5, 4.0], ["4"]])
def test_lengths_must_be_positive_integers(lengths):
  with pytest.raises(ValueError, match="lengths must be positive integers"):
    padding.pad_buckets([1, 1], [0.5, 1.0], [0, 1], lengths=lengths)


def test_a_query_needs_a_name():
  with pytest.raises(ValueError, match="got nan in row 1"):
    padding.pad([1.0, np.nan], [0.5, 1.0], [0, 1])


@pytest.mark.parametrize(
  ("columns", "error", "message"),
  [
    (
      (["a", None], [0.5, 1.0], [0, 1]),
      TypeError,
      "query_ids must be of one type that sorts, got NoneType, str",
    ),
    (([[1], [1, 2]], [0.5, 1.0], [0, 1]), ValueError, "must be flat"),
    (
      ([1, 1], ["a", "b"], [0, 1]),
      TypeError,
      "scores must be an array of numbers, got a list with 'a'",
    ),
    (
      ([1, 1], [0.5, 1.0], [None, 1]),
      TypeError,
      "labels must be an array of numbers, got a list with None",
    ),
    (([1, 1], [0.5, 1.0], [1j, 1]), TypeError, "labels must be real"),
  ],
)
def test_columns_that_are_no_numbers_are_told(columns, error, message):
  with pytest.raises(error, match=message):
    padding.pad(*columns)


def test_padding_goes_with_no_jit():
  with pytest.raises(TypeError, match="outside of jit"):
    jax.jit(lambda scores: padding.pad([1, 1], scores, [0, 1]).scores)(np.ones(2))


@pytest.mark.parametrize("padded", [None, np.ones((2, 2)), (np.ones(2), np.ones(2))])
def test_what_was_not_padded_is_told(padded):
  with pytest.raises(TypeError, match="what pad or pad_buckets returned"):
    padding.batches(padded)
  with pytest.raises(TypeError, match="what pad or pad_buckets returned"):
    padding.unpad(padded, padded)


def test_unpad_names_values_that_do_not_fit():
  query_ids = np.array([1, 2, 2])
  batch = padding.pad(query_ids, *columns(query_ids))
  batches = padding.pad_buckets(query_ids, *columns(query_ids))
  with pytest.raises(ValueError, match=r"\(2, 2\), first, got \(2,\)"):
    padding.unpad(batch, np.zeros(2))
  with pytest.raises(ValueError, match="got 1 for 2 batches"):
    padding.unpad(batches, [batches[0].scores])
  with pytest.raises(ValueError, match="2 cells and rows up to 2"):
    padding.unpad(batches[1:], [batches[1].scores])
  with pytest.raises(ValueError, match="each row of the flat input once"):
    padding.unpad([batch, batch], [batch.scores, batch.scores])


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_buckets_leave_the_least_padding(query_ids, buckets):
  batches = padding.pad_buckets(query_ids, *columns(query_ids), buckets=buckets)
  sizes = np.unique(query_ids, return_counts=True)[1]
  lengths = np.unique(sizes)
  least = min(
    np.take(chosen, np.searchsorted(chosen, sizes)).sum()
    for chosen in itertools.combinations(lengths, min(buckets, lengths.size))
    if chosen[-1] == lengths[-1]
  )
  assert len(batches) <= buckets
  assert sum(batch.where.size for batch in batches) == least


def test_many_sizes_are_rounded_up():
  sizes = np.arange(1, 3000)
  query_ids = np.repeat(sizes, sizes)
  batches = padding.pad_buckets(query_ids, query_ids, query_ids, buckets=16)
  cells = sum(batch.where.size for batch in batches)
  assert len(batches) <= 16
  assert sizes.sum() <= cells <= 1.07 * sizes.sum()


def test_buckets_replace_lengths():
  with pytest.raises(ValueError, match="buckets must be at least 1, got 0"):
    padding.pad_buckets([0], [0.0], [0], buckets=0)
  with pytest.raises(ValueError, match="exclude each other"):
    padding.pad_buckets([0], [0.0], [0], buckets=2, lengths=[4])


@pytest.mark.parametrize("buckets", [None, 2])
@pytest.mark.parametrize("cells", [1, 12, 1000])
def test_batches_have_one_shape_a_length_and_hold_all(cells, buckets):
  query_ids = np.repeat(np.arange(9), [1, 1, 4, 3, 4, 2, 4, 8, 1])
  scores, labels = columns(query_ids)
  padded = padding.pad_buckets(query_ids, scores, labels, buckets=buckets)
  told = []
  found = list(padding.batches(padded, cells=cells, progress=lambda *x: told.append(x)))
  shapes = {batch.scores.shape for batch in found}
  assert len(shapes) == len(padded)
  assert all(length >= cells or rows * length <= cells for rows, length in shapes)
  np.testing.assert_array_equal(padding.unpad(found, [batch.scores for batch in found]), scores)
  assert told[-1] == (9, 9)
  assert [done for done, _ in told] == sorted({done for done, _ in told})
  for batch in found:
    assert batch.query_ids.shape == batch.where.shape[:1]
    assert isinstance(batch.scores, jax.Array)


def test_batches_are_sent_ahead(monkeypatch):
  sent = []
  put = jax.device_put
  monkeypatch.setattr(jax, "device_put", lambda *x: sent.append(1) or put(*x))
  padded = padding.pad(np.arange(6), *columns(np.arange(6)))
  counts = [len(sent) for _ in padding.batches(padded, cells=1, ahead=2)]
  assert counts == [3, 4, 5, 6, 6, 6]


def test_batches_divide_over_devices():
  mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
  place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
  padded = padding.pad(["a", "b", "c", "d", "e"], *columns(range(5)))
  found = list(padding.batches(padded, cells=7, sharding=place))
  assert [batch.query_ids.tolist() for batch in found] == [list("abcd"), list("eeee")]
  assert found[0].scores.sharding == place
  np.testing.assert_array_equal(found[1].where, [[True], [False], [False], [False]])


def test_nothing_gives_no_batches():
  assert list(padding.batches(padding.pad([], [], []))) == []
  assert list(padding.batches(padding.pad_buckets([], [], [], buckets=3))) == []


@pytest.mark.parametrize("change", [{"cells": 0}, {"ahead": 0}])
def test_batches_need_room(change):
  with pytest.raises(ValueError, match="must be at least 1, got 0"):
    padding.batches(padding.pad([0], [0.0], [0]), **change)


@pytest.mark.parametrize("name", ["cells", "ahead", "sharding", "progress"])
def test_batches_name_what_is_of_no_use(name):
  with pytest.raises(TypeError, match=f"{name} must be"):
    padding.batches(padding.pad([0], [0.0], [0]), **{name: 2.5})
