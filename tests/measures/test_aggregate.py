"""One number from the values of many queries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

HOWS = ["mean", "sum", "exp_mean", "median", "min", "max"]
NUMPY = {
  "mean": np.mean,
  "sum": np.sum,
  "exp_mean": lambda values: np.exp(np.mean(values)),
  "median": np.median,
  "min": np.min,
  "max": np.max,
  "std": np.std,
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("shape", [(1,), (4,), (5,), (3, 4), (2, 3, 5)])
def test_agrees_with_numpy(how, shape):
  values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
  result = jr.aggregate(values, how=how)
  assert result.shape == ()
  np.testing.assert_allclose(result, NUMPY[how](values), rtol=1e-6)


@pytest.mark.parametrize("how", [*HOWS, jnp.std])
@pytest.mark.parametrize("hostile", [jnp.nan, jnp.inf, -jnp.inf, 1e9])
def test_what_is_left_out_does_not_matter(how, hostile):
  values = jnp.array([[0.25, hostile, 1.0], [hostile, 0.5, 0.125]])
  where = values != hostile if hostile == hostile else ~jnp.isnan(values)
  expected = NUMPY["std" if callable(how) else how]([0.25, 1.0, 0.5, 0.125])

  def reduced(values):
    return jr.aggregate(values, where=where, how=how)

  np.testing.assert_allclose(reduced(values), expected, rtol=1e-6)
  gradient = jax.grad(reduced)(values)
  assert jnp.all(jnp.isfinite(gradient))
  assert jnp.all(jnp.where(where, 0, gradient) == 0)


@pytest.mark.parametrize(
  ("values", "median"),
  [([3.0], 3.0), ([3.0, 1.0], 2.0), ([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 2.0, 8.0], 3.0)],
)
def test_median_is_halfway_between_the_middle_two(values, median):
  padded = jnp.array([*values, -5.0, 70.0])
  where = jnp.arange(padded.size) < len(values)
  assert jr.aggregate(jnp.array(values), how="median") == median
  assert jr.aggregate(padded, where=where, how="median") == median


def test_median_keeps_infinities():
  values = jnp.array([0.0, jnp.inf, jnp.inf])
  assert jr.aggregate(values, how="median") == jnp.inf


@pytest.mark.parametrize("how", [*HOWS, jnp.mean, jnp.std])
def test_nothing_left_is_zero(how):
  values = jnp.array([jnp.nan, 2.0])

  def reduced(values):
    return jr.aggregate(values, where=jnp.zeros(2, bool), how=how)

  assert reduced(values) == 0
  assert not jnp.signbit(reduced(values))
  assert jr.aggregate(jnp.zeros((0,)), how=how) == 0
  np.testing.assert_array_equal(jax.grad(reduced)(values), np.zeros(2))


@pytest.mark.parametrize("how", [*HOWS, jnp.mean])
def test_nan_propagates_unless_left_out(how):
  values = jnp.array([1.0, jnp.nan, 3.0])
  assert jnp.isnan(jr.aggregate(values, how=how))
  assert jnp.isnan(jr.aggregate(values, where=jnp.array([True, True, False]), how=how))
  assert jnp.isfinite(jr.aggregate(values, where=jnp.array([True, False, True]), how=how))


def test_weights():
  values = jnp.array([1.0, 2.0, 4.0])
  where = jnp.array([True, True, False])
  weights = jnp.array([1, 3, 5])
  assert jr.aggregate(values, query_weights=weights) == pytest.approx(27 / 9)
  assert jr.aggregate(values, where=where, query_weights=weights) == pytest.approx(7 / 4)
  assert jr.aggregate(values, query_weights=weights, how="sum") == 27
  logs = jr.aggregate(values, where=where, query_weights=weights, how="exp_mean")
  assert logs == pytest.approx(np.exp(7 / 4))
  for how in ("mean", "sum", "exp_mean"):
    assert jr.aggregate(values, query_weights=jnp.zeros(3), how=how) == 0


def test_a_weight_of_zero_leaves_out():
  values = jnp.array([1.0, jnp.nan])

  def reduced(values):
    return jr.aggregate(values, query_weights=jnp.array([2.0, 0.0]))

  assert reduced(values) == 1
  np.testing.assert_array_equal(jax.grad(reduced)(values), [1.0, 0.0])


@pytest.mark.parametrize("how", HOWS)
def test_jit_and_vmap(how):
  rng = np.random.default_rng(1)
  values = jnp.asarray(rng.normal(size=(6, 7)), jnp.float32)
  where = jnp.asarray(rng.random((6, 7)) < 0.6)

  def reduced(values, where):
    return jr.aggregate(values, where=where, how=how)

  rows = jax.jit(jax.vmap(reduced))(values, where)
  expected = [reduced(*row) for row in zip(values, where, strict=True)]
  np.testing.assert_allclose(rows, jnp.stack(expected), rtol=1e-6)


@pytest.mark.parametrize("how", HOWS)
def test_queries_spread_over_devices(how):
  devices = jax.device_count()
  values = jnp.arange(2.0 * devices)
  with jax.set_mesh(
    jax.make_mesh((devices,), ("queries",), axis_types=(jax.sharding.AxisType.Explicit,))
  ):
    spread = jax.device_put(values, jax.P("queries"))
    where = jax.device_put(values > 0, jax.P("queries"))
    result = jax.jit(lambda x, y: jr.aggregate(x, where=y, how=how))(spread, where)
    assert float(result) == pytest.approx(NUMPY[how](np.arange(1, 2 * devices)))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("dtype", [jnp.bool_, jnp.int32, jnp.bfloat16, jnp.float16, jnp.float32])
def test_results_are_at_least_float32(how, dtype):
  result = jr.aggregate(jnp.array([1, 0, 1, 1], dtype), how=how)
  assert result.dtype == jnp.float32
  assert result == NUMPY[how]([1.0, 0.0, 1.0, 1.0])


def test_a_sum_of_half_precision_runs_in_float32():
  assert jr.aggregate(jnp.full(4096, 0.5, jnp.bfloat16)) == 0.5


def test_a_function_sees_all_values_and_the_mask():
  values = jnp.array([1.0, 2.0, 9.0])
  assert jr.aggregate(values, how=lambda x: x[0]) == 1
  where = jnp.array([True, True, False])
  assert jr.aggregate(values, where=where, how=jnp.sum) == 3


def test_mistakes_are_refused():
  values = jnp.ones(3)
  with pytest.raises(ValueError, match="'exp_mean', 'median', 'min', 'max', got 'average'"):
    jr.aggregate(values, how="average")
  with pytest.raises(ValueError, match="how=mean, sum, exp_mean only, got how='max'"):
    jr.aggregate(values, query_weights=values, how="max")
  with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
    jr.aggregate(values, query_weights=jnp.ones(2))
  with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
    jr.aggregate(values, where=jnp.ones(2, bool))
  with pytest.raises(TypeError, match="where must be boolean"):
    jr.aggregate(values, where=jnp.ones(3))


def test_class_means_refuse_what_is_no_mean():
  total = jr.metric(lambda ranked: ranked.count(ranked.relevant()), aggregation="sum")
  labels = jnp.array([0, 1])
  for mean in (jr.class_labels.mean, jr.class_labels.macro_mean):
    with pytest.raises(ValueError, match="must have a mean over queries; that of .* is a sum"):
      mean(total, None, labels, labels)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("place", [0, 7, 4095, 4999])
def test_one_nan_among_many_makes_the_result_nan(how, place):
  """The maximum of XLA for a CPU loses it from 4,096 numbers on."""
  values = np.full(5000, 0.5, np.float32)
  values[place] = np.nan
  assert np.isnan(jr.aggregate(values, how=how))
  assert np.isnan(jax.jit(lambda x: jr.aggregate(x, how=how))(values))
  others = jr.aggregate(np.delete(values, place), how=how)
  np.testing.assert_allclose(jr.aggregate(values, how=how, where=np.arange(5000) != place), others)
