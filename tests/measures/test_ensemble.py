"""The mean over models of scores on the scale of their query."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

MODELS, QUERIES, N = 3, 1500, 6
WAYS = ["z_scores", "ranks"]
ENSEMBLE = {by: jax.jit(functools.partial(jr.ensemble, by=by)) for by in WAYS}
WEIGHTS = np.linspace(-1, 2, N, dtype=np.float32)[None]


@functools.cache
def cases():
  """Ties, constant models, NaN, infinities and numbers of any size; junk as padding."""
  rng = np.random.default_rng(0)
  shape = MODELS, QUERIES, N
  kind = rng.random((MODELS, QUERIES, 1))
  x = np.where(kind < 0.4, rng.integers(-1, 3, shape), rng.normal(size=shape) * 100 + 30)
  x = np.where(kind > 0.9, 2, np.where(kind > 0.8, x * 1e30, x))
  for value, share in ((np.nan, 0.01), (-np.inf, 0.05), (np.inf, 0.02)):
    x = np.where(rng.random(shape) < share, value, x)
  return x.astype(np.float32), rng.random(shape[1:]) < rng.random((QUERIES, 1)) * 1.5


def expected(x, by):
  """The scores of one query, `[models, items]`, in double precision."""
  x = x.astype(np.float64)
  if np.any(np.isnan(x)):
    return np.full(x.shape[1], np.nan)
  scaled = np.zeros(x.shape)
  for scores, out in zip(x, scaled, strict=True):
    finite = scores[np.isfinite(scores)]
    for item, score in enumerate(scores):
      if np.isinf(score):
        out[item] = score
      elif by == "ranks":
        retrieved = scores[scores > -np.inf]
        out[item] = (np.sum(retrieved < score) - np.sum(retrieved > score)) / retrieved.size
      elif finite.min() < finite.max():
        out[item] = (score - finite.mean()) / finite.std()
  lost = np.any(x == -np.inf, axis=0)
  return np.where(lost, -np.inf, np.where(lost, 0, scaled).mean(axis=0))


@pytest.mark.parametrize("by", WAYS)
def test_values(by):
  x, where = cases()
  found = ENSEMBLE[by](x, where=where)
  assert found.dtype == jnp.float32
  values = np.zeros((QUERIES, N))
  for query, chosen in enumerate(where):
    values[query, chosen] = expected(x[:, query, chosen], by)
  np.testing.assert_allclose(found, values, atol=2e-6)
  assert np.isnan(values).any()
  assert np.isposinf(values).any()
  assert np.isneginf(values).any()


@pytest.mark.parametrize("by", WAYS)
def test_a_query_does_not_depend_on_others(by):
  x, where = cases()
  other = np.where(np.arange(QUERIES)[:, None] % 2, x, x[:, ::-1])
  found, given = ENSEMBLE[by](other, where=where), ENSEMBLE[by](x, where=where)
  np.testing.assert_array_equal(found[1::2], given[1::2])


@pytest.mark.parametrize("by", WAYS)
def test_what_is_under_the_mask_does_not_matter(by):
  x, where = cases()
  given = ENSEMBLE[by](x, where=where)
  for junk in (np.nan, np.inf, -np.inf):
    found = ENSEMBLE[by](np.where(where, x, np.float32(junk)), where=where)
    np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize("by", WAYS)
def test_items_and_models_may_come_in_any_order(by):
  x, where = cases()
  order = np.random.default_rng(1).permutation(N)
  found = ENSEMBLE[by](x[::-1][..., order], where=where[:, order])
  np.testing.assert_allclose(found, ENSEMBLE[by](x, where=where)[:, order], atol=1e-6)


@pytest.mark.parametrize("by", WAYS)
def test_the_scale_of_a_model_does_not_count(by):
  x, where = cases()
  scale = np.float32([0.5, 4, 1])[:, None, None]
  found = ENSEMBLE[by](x * scale, where=where)
  np.testing.assert_allclose(found, ENSEMBLE[by](x, where=where), atol=1e-6)


def slope(by):
  def total(x, where):
    found = jr.ensemble(x, where=where, by=by)
    return jnp.sum(jnp.where(jnp.isfinite(found), found * WEIGHTS, 0))

  return jax.jit(jax.grad(total))


def test_slopes_are_those_of_differences():
  x, where = cases()
  found = np.asarray(slope("z_scores")(x, where))
  assert np.all(np.isfinite(found))
  np.testing.assert_array_equal(found[:, ~where], 0)
  slopes, differences = [], []
  for query in range(60):
    given = x[:, query, where[query]].astype(np.float64)
    if np.any(np.isnan(given)):
      np.testing.assert_array_equal(found[:, query], 0)
      continue
    finite = np.where(np.isfinite(given), given, np.nan)
    spread = np.nanmax(finite, axis=1, initial=-np.inf) - np.nanmin(finite, axis=1, initial=np.inf)
    for model, item in np.ndindex(given.shape):
      at = found[:, query, where[query]][model, item]
      if not np.isfinite(given[model, item]) or spread[model] == 0:
        assert at == 0
        continue
      step, ends = 1e-6 * spread[model], []
      for sign in (-1, 1):
        moved = given.copy()
        moved[model, item] += sign * step
        values = expected(moved, "z_scores")
        ends.append(np.sum(np.where(np.isfinite(values), values * WEIGHTS[0, where[query]], 0)))
      slopes.append(at * spread[model])
      differences.append((ends[1] - ends[0]) / 2e-6)
  assert len(slopes) > 200
  np.testing.assert_allclose(slopes, differences, rtol=1e-4, atol=1e-5)


def test_ranks_have_no_slope():
  x, where = cases()
  np.testing.assert_array_equal(slope("ranks")(x, where), 0)


@pytest.mark.parametrize("by", WAYS)
def test_narrow_scores_have_wide_results(by):
  x = jnp.array([[3, 1, 1, 0], [0, 2, 1, 5]], jnp.bfloat16)
  found = jr.ensemble(x, by=by)
  assert found.dtype == jnp.float32
  np.testing.assert_allclose(found, expected(np.asarray(x), by), atol=1e-6)
  np.testing.assert_allclose(jr.ensemble(x.astype(jnp.int32), by=by), found, atol=1e-6)


@pytest.mark.parametrize("by", WAYS)
def test_queries_may_be_mapped(by):
  x, where = (jnp.asarray(part) for part in cases())
  mapped = jax.vmap(functools.partial(jr.ensemble, by=by), in_axes=(1,))
  found = jax.jit(lambda x, where: mapped(x, where=where))(x, where)
  np.testing.assert_allclose(found, ENSEMBLE[by](x, where=where), atol=1e-6)


@pytest.mark.parametrize("by", WAYS)
def test_nothing(by):
  assert jr.ensemble(jnp.zeros((2, 0)), by=by).shape == (0,)
  assert jr.ensemble(jnp.zeros((2, 0, 3)), by=by).shape == (0, 3)
  one = jr.ensemble(jnp.ones((1, 2, 1)), where=jnp.array([[True], [False]]), by=by)
  np.testing.assert_array_equal(one, 0)


@pytest.mark.parametrize(
  ("scores", "options", "error", "message"),
  [
    ([1.0, 2.0], {}, ValueError, r"scores must have shape \[models, .* got \(2,\); stack"),
    (np.zeros((0, 3)), {}, ValueError, r"with one model or more, got \(0, 3\)"),
    ([[1.0, 2.0]], {"where": [True]}, ValueError, r"where and the values .* \(1,\) and \(2,\)"),
    ([[1.0, 2.0]], {"where": [1, 0]}, TypeError, "where must be boolean"),
    ([[1.0, 2.0]], {"by": "mean"}, ValueError, "by must be one of 'z_scores', 'ranks', got 'mean'"),
    ([["a", "b"]], {}, TypeError, "scores must be an array of numbers"),
  ],
)
def test_bad_arguments(scores, options, error, message):
  with pytest.raises(error, match=f"^ensemble: .*{message}"):
    jr.ensemble(scores, **options)
