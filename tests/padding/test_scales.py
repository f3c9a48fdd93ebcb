"""Features within a query: ranks, z-scores and min-max, of rows and of padded arrays."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from jaxrank import letor
from jaxrank.letor import scales

QUERIES, N, FEATURES = 1500, 7, 2
SCALES = {"ranks": letor.ranks, "z_scores": letor.z_scores, "min_max": letor.min_max}
PADDED = {name: jax.jit(scale) for name, scale in SCALES.items()}
WEIGHTS = np.arange(1, N + 1, dtype=np.float32)[:, None]


def weighed(scale):
  """The slope of a weighted sum of squares."""

  def total(x, where):
    found = scale(x, where=where)
    return jnp.sum(jnp.where(jnp.isfinite(found), found**2 * WEIGHTS[None], 0))

  return jax.jit(jax.grad(total))


SLOPE = {name: weighed(scale) for name, scale in SCALES.items()}


@functools.cache
def cases():
  """Queries with ties, large offsets, NaN and infinities, of none to all items; junk as padding."""
  rng = np.random.default_rng(0)
  shape = QUERIES, N, FEATURES
  sizes = 10.0 ** rng.integers(-9, 8, (QUERIES, 1, FEATURES))
  few, spread = rng.integers(-1, 3, shape), rng.normal(size=shape) * sizes
  kind = rng.random((QUERIES, 1, FEATURES))
  x = np.where(kind < 0.4, few, np.where(kind < 0.8, spread, 1e6 + few))
  x = np.where(rng.random(shape) < 0.1, np.nan, x * rng.choice([1.0, 1e30, 1e-20], kind.shape))
  x = np.where(rng.random(shape) < 0.1, rng.choice([-np.inf, np.inf, -0.0], shape), x)
  where = rng.random(shape[:2]) < rng.random((QUERIES, 1)) * 1.5
  return x.astype(np.float32), where


def expected(name, x):
  """One feature of one query, item by item, in double precision."""
  x = x.astype(np.float64)
  known, finite = x[~np.isnan(x)], x[np.isfinite(x)]

  def of_item(value):
    if np.isnan(value):
      return value
    if name == "ranks":
      return (np.sum(known < value) - np.sum(known > value)) / len(known)
    if np.isinf(value):
      return value if name == "z_scores" else float(value > 0)
    if finite.min() == finite.max():
      return 0
    if name == "min_max":
      return (value - finite.min()) / (finite.max() - finite.min())
    return (value - finite.mean()) / finite.std()

  return np.array([of_item(value) for value in x])


@functools.cache
def answers(name):
  x, where = cases()
  out = np.zeros(x.shape)
  for query in range(QUERIES):
    for feature in range(FEATURES):
      out[query, where[query], feature] = expected(name, x[query, where[query], feature])
  return out


def rows(seed=0):
  """The cases as rows in any order, with names of queries, and where each row comes from."""
  x, where = cases()
  query, item = np.random.default_rng(seed).permutation(np.argwhere(where)).T
  return x[query, item], np.array([f"q{i}" for i in query]), (query, item)


@pytest.mark.parametrize("name", SCALES)
def test_values_of_padded_arrays(name):
  x, where = cases()
  found = PADDED[name](x, where=where)
  assert found.dtype == jnp.float32
  np.testing.assert_allclose(found, answers(name), atol=3e-6)
  np.testing.assert_array_equal(found[~where], 0)


@pytest.mark.parametrize("name", SCALES)
def test_values_of_rows(name):
  x, ids, place = rows()
  found = SCALES[name](x, ids)
  assert type(found) is np.ndarray
  assert found.dtype == np.float32
  np.testing.assert_allclose(found, answers(name)[place], atol=3e-6)


@pytest.mark.parametrize("name", SCALES)
def test_rows_in_blocks_of_features(name, monkeypatch):
  x, ids, _ = rows()
  whole = SCALES[name](x, ids)
  monkeypatch.setattr(scales, "_CELLS", 1)
  np.testing.assert_array_equal(SCALES[name](x, ids), whole)


@pytest.mark.parametrize("name", SCALES)
def test_ranges(name):
  found = np.asarray(PADDED[name](cases()[0], where=cases()[1]))
  found = found[np.isfinite(found)]
  if name == "z_scores":
    assert np.max(np.abs(found)) <= N**0.5
  else:
    assert np.max(found) <= 1
    assert np.min(found) >= (-1 if name == "ranks" else 0)


def test_ranks_are_zero_on_average():
  x, where = cases()
  np.testing.assert_allclose(np.nansum(PADDED["ranks"](x, where=where), axis=1), 0, atol=1e-6)


@pytest.mark.parametrize("name", SCALES)
def test_a_query_does_not_depend_on_others(name):
  x, where = cases()
  other = np.where(np.arange(QUERIES)[:, None, None] % 2, x, x[::-1])
  found = PADDED[name](other, where=where)
  np.testing.assert_array_equal(found[1::2], PADDED[name](x, where=where)[1::2])
  x, ids, _ = rows()
  some = np.isin(ids, np.unique(ids)[::3])
  np.testing.assert_array_equal(SCALES[name](x[some], ids[some]), SCALES[name](x, ids)[some])


@pytest.mark.parametrize("name", SCALES)
def test_items_may_come_in_any_order(name):
  x, where = cases()
  order = np.random.default_rng(1).permutation(N)
  found = PADDED[name](x[:, order], where=where[:, order])
  np.testing.assert_allclose(found, PADDED[name](x, where=where)[:, order], atol=1e-6)
  _, _, place = rows()
  _, _, again = rows(seed=1)
  values, others = np.zeros(x.shape), np.zeros(x.shape)
  values[place] = SCALES[name](*rows()[:2])
  others[again] = SCALES[name](*rows(seed=1)[:2])
  np.testing.assert_allclose(others, values, atol=1e-6)


@pytest.mark.parametrize("name", SCALES)
def test_what_is_under_the_mask_does_not_matter(name):
  x, where = cases()
  junk = np.where(where[..., None], x, np.float32(np.nan))
  found = PADDED[name](junk, where=where)
  np.testing.assert_array_equal(found, PADDED[name](x, where=where))


@pytest.mark.parametrize("name", SCALES)
def test_numbers_of_any_size(name):
  x = np.float32([[-3e38, 3.4e38, 3e38], [1e7, 1e7 + 1, 1e7 + 4], [1e-30, 3e-30, 2e-30]])
  found = SCALES[name](jnp.asarray(x[..., None]))[..., 0]
  np.testing.assert_allclose(found, [expected(name, query) for query in x], atol=2e-6)
  found = SCALES[name](x.reshape(-1, 1), np.repeat([2, 0, 1], 3)).reshape(x.shape)
  np.testing.assert_allclose(found, [expected(name, query) for query in x], atol=2e-6)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float16, np.float64])
def test_dtypes_of_rows(name, dtype):
  x = np.array([3, 1, 1, 0, 2, 0]).astype(dtype)[:, None]
  found = SCALES[name](x, [0, 0, 0, 0, 1, 1])
  assert found.dtype == np.float32
  values = [expected(name, x[:4, 0]), expected(name, x[4:, 0])]
  np.testing.assert_allclose(found[:, 0], np.concatenate(values), atol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bool_, jnp.int32, jnp.bfloat16])
def test_dtypes_of_padded_arrays(dtype):
  x = jnp.asarray([[3], [1], [1], [0]]).astype(dtype)
  for name, scale in SCALES.items():
    found = scale(x)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found[:, 0], expected(name, np.asarray(x)[:, 0]), atol=1e-6)


def test_integers_have_exact_ranks():
  x = 2**24 + np.array([[0], [1], [2]], np.int32)
  np.testing.assert_allclose(letor.ranks(x)[:, 0], [-2 / 3, 0, 2 / 3])
  np.testing.assert_allclose(letor.ranks(x, [0, 0, 0])[:, 0], [-2 / 3, 0, 2 / 3])


def test_double_precision_is_kept_on_the_host():
  x = 1 + np.array([[0.0], [1e-12], [3e-12]])
  np.testing.assert_allclose(letor.min_max(x, [0, 0, 0])[:, 0], [0, 1 / 3, 1], atol=1e-3)
  narrow = np.array([[1], [2]], ml_dtypes.bfloat16)
  np.testing.assert_array_equal(letor.ranks(narrow, [0, 0])[:, 0], [-0.5, 0.5])


@pytest.mark.parametrize("name", SCALES)
def test_nothing(name):
  scale = SCALES[name]
  assert scale(np.zeros((0, 3)), np.zeros(0, int)).shape == (0, 3)
  assert scale(np.zeros((2, 0)), ["a", "b"]).shape == (2, 0)
  for shape in ((0, 3), (0, 4, 3), (2, 0)):
    assert scale(jnp.zeros(shape)).shape == shape
  np.testing.assert_array_equal(scale(jnp.ones((2, 3, 1)), where=jnp.zeros((2, 3), bool)), 0)


@pytest.mark.parametrize("name", SCALES)
def test_slopes_are_finite(name):
  """Those of constant features, single items and missing numbers too, and 0 under the mask."""
  x, where = cases()
  found = SLOPE[name](np.where(np.abs(x) > 1e9, np.float32(2), x), where)
  assert np.all(np.isfinite(found))
  np.testing.assert_array_equal(found[~where], 0)


@pytest.mark.parametrize("name", SCALES)
def test_slopes(name):
  """Against differences of the formula in double precision, at numbers that do not tie."""
  _, where = cases()
  x = np.random.default_rng(2).normal(size=(QUERIES, N, FEATURES)).astype(np.float32)
  found = np.asarray(SLOPE[name](x, where))
  slopes, differences = [], []
  for query in range(40):
    chosen = where[query]
    for feature, item in np.ndindex(FEATURES, np.sum(chosen)):
      numbers, ends = x[query, chosen, feature].astype(np.float64), []
      for step in (-1e-6, 1e-6):
        moved = expected(name, numbers + step * (np.arange(numbers.size) == item))
        ends.append(np.sum(moved**2 * WEIGHTS[chosen, 0]))
      slopes.append(found[query, chosen, feature][item])
      differences.append((ends[1] - ends[0]) / 2e-6)
  np.testing.assert_allclose(slopes, differences, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", SCALES)
def test_queries_may_be_mapped(name):
  x, where = (jnp.asarray(part[:5]) for part in cases())
  found = jax.jit(jax.vmap(lambda x, where: SCALES[name](x, where=where)))(x, where)
  np.testing.assert_allclose(found, SCALES[name](x, where=where), atol=1e-6)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize(
  ("args", "where", "error", "message"),
  [
    (([1.0, 2.0],), None, ValueError, r"features must have shape \[\.\.\., n, n_features\], got"),
    (([[1.0], [2.0]],), [True], ValueError, r"where and the values .* got \(1,\) and \(2,\)"),
    (([[1.0], [2.0]],), [1, 0], TypeError, "where must be boolean"),
    (([[1.0], [2.0]], [0, 0]), [True, True], ValueError, "rows with query_ids have no padding"),
    (([[1.0], [2.0]], [0]), None, ValueError, r"got shapes \(2, 1\) and \(1,\); pass padded"),
    (([[[1.0], [2.0]]], [0]), None, ValueError, r"got shapes \(1, 2, 1\) and \(1,\)"),
    (([[1.0], [2.0]], [[0], [0]]), None, ValueError, r"got shapes \(2, 1\) and \(2, 1\)"),
    (([[1.0], [2.0]], [0, np.nan]), None, ValueError, "query_ids must not be NaN, .* row 1"),
    (([["a"], ["b"]], [0, 0]), None, TypeError, "features must be an array of numbers"),
  ],
)
def test_bad_arguments(name, args, where, error, message):
  with pytest.raises(error, match=f"^letor.{name}: .*{message}"):
    SCALES[name](*args, where=where)


def test_ids_inside_jit_are_refused():
  with pytest.raises(TypeError, match=r"letor.ranks: query_ids must be known, .* outside of jit"):
    jax.jit(lambda ids: letor.ranks(np.ones((2, 1)), ids))(jnp.array([0, 1]))
