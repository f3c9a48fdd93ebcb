"""Soft operators against their O(n^2) definitions in float64, bisection, and all orders."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import soft
from jaxrank._core import platforms
from tests.helpers.smooth_oracles import cdf, threshold
from tests.helpers.suites import quick, thorough

NOISE = ("Gumbel", "Gaussian")


def rank(name, s, t):
  return 0.5 + np.sum(cdf(name, (s[None] - s[:, None]) / t), axis=1)


def top_k(name, s, t, k):
  return cdf(name, (s - threshold(name, s, t, k)) / t)


def sort(name, s, t):
  return np.array([threshold(name, s, t, r + 0.5) for r in range(len(s))])


def quantile(name, s, t, q):
  return threshold(name, s, t, len(s) - 0.5 - q * (len(s) - 1))


def over_orders(scores, t):
  """`P(item i has rank r)` under the Plackett-Luce model, `[n, n]`."""
  weight = np.exp(np.asarray(scores, float) / t)
  found = np.zeros((len(weight),) * 2)
  for order in itertools.permutations(range(len(weight))):
    left = np.cumsum(weight[list(order)][::-1])[::-1]
    found[list(order), range(len(weight))] += np.prod(weight[list(order)] / left)
  return found


def scores_of(n, seed=0, dtype=np.float32):
  s = np.random.default_rng(seed).normal(size=n).astype(dtype)
  s[1:n:5] = s[0]
  return s


@quick(
  ("name", "n"),
  # The last list is too long for a table of all pairs.
  [("Laplace", 40), ("Laplace", 2), ("Logistic", 70)],
  [("Laplace", 40)],
)
def test_values_are_those_of_the_definitions(name, n):
  s, ts = scores_of(n), np.float32([0.05, 1.0, 20.0])
  ks = [k for k in (0.3, 1.0, n / 2, n - 0.25) if k < n]
  qs = [0.0, 0.3, 1.0]

  def at(t):
    ranking = getattr(jr, name)(t)
    kept = jax.vmap(lambda k: soft.top_k(s, k, ranking=ranking))(jnp.float32(ks))
    found = jax.vmap(lambda q: soft.quantile(s, q, ranking=ranking))(jnp.float32(qs))
    return soft.rank(s, ranking=ranking), soft.sort(s, ranking=ranking), kept, found

  found = map(np.asarray, jax.jit(jax.vmap(at))(ts))
  wide = s.astype(float)
  close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
  for t, ranks, ordered, kept, quantiles in zip(ts.astype(float), *found, strict=True):
    close(ranks, rank(name, wide, t))
    close(ordered, sort(name, wide, t), atol=1e-5 * max(t, 1))
    for k, shares in zip(ks, kept, strict=True):
      close(shares, top_k(name, wide, t, k), atol=1e-6)
      close(np.sum(shares), k)
    close(quantiles, [quantile(name, wide, t, q) for q in qs], atol=1e-5 * max(t, 1))


OPERATORS = {
  "rank": (soft.rank, rank),
  "top_k": (functools.partial(soft.top_k, k=2.5), functools.partial(top_k, k=2.5)),
  "sort": (soft.sort, sort),
  "quantile": (functools.partial(soft.quantile, q=0.3), functools.partial(quantile, q=0.3)),
}


@quick("operator", OPERATORS, ("rank", "top_k"))
def test_gradients_are_those_of_the_definitions(operator):
  name = "Laplace"
  ours, theirs = OPERATORS[operator]
  n, t, h = 6, 0.7, 1e-5
  s, w = scores_of(n).astype(float), np.arange(1.0, n + 1)

  def value(s, t):
    return jnp.sum(ours(s, ranking=getattr(jr, name)(t)) * jnp.asarray(w, s.dtype))

  def slow(s, t):
    return np.sum(theirs(name, s, t) * w)

  slopes = [(slow(s + h * e, t) - slow(s - h * e, t)) / (2 * h) for e in np.eye(n)]
  by_t = (slow(s, t + h) - slow(s, t - h)) / (2 * h)
  found = jax.jit(jax.grad(value, (0, 1)))(jnp.asarray(s, jnp.float32), t)
  np.testing.assert_allclose(found[0], slopes, rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(found[1], by_t, rtol=1e-4, atol=1e-4)


@thorough
def test_first_and_second_derivatives_in_float64():
  @jax.jit
  def derivatives(s):
    w, steps = jnp.arange(1.0, 7), 1e-5 * jnp.eye(6)

    def values(s):
      ranking = jr.Logistic(0.7)
      return jnp.stack([jnp.sum(f(s, ranking=ranking) * w) for f, _ in OPERATORS.values()])

    slopes = jax.jacrev(values)
    changes = [
      (jax.vmap(f, out_axes=-1)(s[None] + steps) - jax.vmap(f, out_axes=-1)(s[None] - steps)) / 2e-5
      for f in (values, slopes)
    ]
    return slopes(s), jax.jacfwd(slopes)(s), *changes

  with jax.enable_x64(True):
    found = derivatives(jnp.asarray(scores_of(6), jnp.float64))
  for name, slope, bend, change, change_of_slope in zip(OPERATORS, *found, strict=True):
    np.testing.assert_allclose(slope, change, rtol=1e-6, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(bend, change_of_slope, rtol=1e-5, atol=1e-6, err_msg=name)


def test_top_k_sums_to_k_in_long_lists():
  s = jnp.asarray(np.random.default_rng(1).normal(size=100_000), jnp.float32)
  for k in (10, 30_000.5):
    total = np.sum(np.asarray(soft.top_k(s, k, ranking=jr.Laplace(1.0)), float))
    np.testing.assert_allclose(total, k, rtol=1e-5)


@thorough
def test_a_million_items():
  s = jnp.asarray(np.random.default_rng(1).normal(size=1_000_000), jnp.float32)
  for operator in (soft.rank, soft.sort):
    slope = jax.grad(lambda s, f=operator: jnp.sum(f(s, ranking=jr.Laplace(0.5)) ** 2) / 1e6)(s)
    assert np.all(np.isfinite(slope))
  total = jnp.sum(soft.top_k(s, 1000, ranking=jr.Logistic(0.5)), dtype=jnp.float32)
  np.testing.assert_allclose(total, 1000, rtol=1e-4)


@thorough
@pytest.mark.parametrize("name", NOISE)
def test_noise_gives_the_chance_of_the_rank(name):
  s, k, t = np.float32([0.3, -1.2, 0.3, 2.0, -0.4]), 2, 0.8
  ranking = getattr(jr, name)(t)
  found = soft.top_k(s, k, ranking=ranking)
  if name == "Gumbel":
    expected = over_orders(s, t)[:, :k].sum(1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    chances = functools.partial(soft.top_k, k=k, ranking=ranking)
    slope = jax.grad(lambda s: chances(s)[3] - 2 * chances(s)[0])(jnp.asarray(s))
    for i, e in enumerate(1e-5 * np.eye(5)):
      change = over_orders(s + e, t)[:, :k].sum(1) - over_orders(s - e, t)[:, :k].sum(1)
      np.testing.assert_allclose(slope[i], (change[3] - 2 * change[0]) / 2e-5, atol=1e-4)
    np.testing.assert_allclose(
      soft.rank(s, ranking=ranking), over_orders(s, t) @ np.arange(1, 6), atol=1e-5
    )
  else:
    noise = np.random.default_rng(0).normal(size=(400_000, 5))
    above = (-(s + t * noise)).argsort(1).argsort(1)
    for ours, samples in ((found, above < k), (soft.rank(s, ranking=ranking), 1 + above)):
      error = 4 * samples.std(0) / np.sqrt(len(samples))
      assert np.all(abs(ours - samples.mean(0)) < error)
  traced = jax.jit(lambda k: soft.top_k(s, k, ranking=ranking))(jnp.int32(k))
  np.testing.assert_allclose(traced, found, atol=1e-6)
  np.testing.assert_array_equal(soft.top_k(s, 9, ranking=ranking), np.ones(5))


@quick("name", ("Exact", "Laplace", "Gumbel"), ("Exact", "Laplace"))
def test_the_hard_operators_are_the_limit(name):
  @jax.jit
  def limits(s, zero):
    ranking = jr.Exact() if name == "Exact" else getattr(jr, name)(zero)
    of_all = soft.rank(s, ranking=ranking), soft.top_k(s, 3, ranking=ranking)
    if name in NOISE:
      return of_all
    quantiles = jax.vmap(lambda q: soft.quantile(s, q, ranking=ranking))
    return (
      *of_all,
      soft.sort(s, ranking=ranking),
      quantiles(jnp.float32([0, 0.5, 0.7, 0.8, 1])),
      soft.top_k(s, 1.5, ranking=ranking),
    )

  expected = [
    [4, 2, 4, 6, 1, 4],
    [1 / 3, 1, 1 / 3, 0, 1, 1 / 3],
    [5, 3, 1, 1, 1, -2],
    [-2, 1, 2, 3, 5],
    [0, 0.5, 0, 0, 1, 0],
  ]
  found = limits(np.float32([1.0, 3.0, 1.0, -2.0, 5.0, 1.0]), np.float32(0))
  assert len(found) == (2 if name in NOISE else 5)
  for x, y in zip(found, expected, strict=False):
    np.testing.assert_allclose(x, y, atol=2e-6)


def test_gradients_across_gaps_no_float_can_bridge():
  """The median of two distant groups moves with both, although all densities underflow."""
  s = jnp.array([1000.0, -1000.0, -1000.0, 1000.0])
  ranking = jr.Laplace(1.0)
  median = jax.value_and_grad(functools.partial(soft.quantile, q=0.5, ranking=ranking))
  of_kept = jax.grad(lambda s: soft.top_k(s, 2, ranking=ranking)[0])
  (value, slope), slope_of_kept = jax.jit(lambda s: (median(s), of_kept(s)))(s)
  np.testing.assert_allclose(value, 0, atol=1e-3)
  np.testing.assert_allclose(slope, 0.25, rtol=1e-4)
  np.testing.assert_array_equal(slope_of_kept, 0)


@quick(
  ("operator", "name"),
  [*itertools.product(OPERATORS, ("Laplace", "Exact")), ("rank", "Gumbel")],
  (("rank", "Exact"), ("top_k", "Laplace")),
)
def test_masks_lost_items_nan_and_empty_lists(operator, name):
  function = OPERATORS[operator][0]
  ranking = jr.Exact() if name == "Exact" else getattr(jr, name)(0.5)
  clean = jnp.array([0.5, 2.0, -1.0])
  nothing = jnp.nan
  rows = jnp.array(
    [
      [0.5, nothing, 2.0, -jnp.inf, -1.0],
      [0.5, 1e9, 2.0, nothing, -1.0],
      [nothing] * 5,
      [0.5, nothing, 2.0, 1.0, -1.0],
      [-jnp.inf] * 5,
    ]
  )
  where = jnp.array([[1, 0, 1, 1, 1], [1, 0, 1, 0, 1], [0] * 5, [1, 1, 1, 1, 1], [1] * 5]) > 0
  items = np.array([0, 2, 4])
  known = jnp.array([0, 1, 2, 4])

  @jax.jit
  def all_of(rows, clean):
    slope = jax.grad(lambda s: jnp.sum(function(s, where=where, ranking=ranking)[known] ** 2))
    return (
      function(rows, where=where, ranking=ranking),
      slope(rows),
      function(clean, ranking=ranking),
      function(clean.astype(jnp.bfloat16), ranking=ranking),
    )

  found, slopes, expected, narrow = map(np.asarray, all_of(rows, clean))
  for row in (0, 1):
    if operator == "quantile":
      np.testing.assert_allclose(found[row], expected, rtol=1e-6)
    else:
      place = slice(3) if operator == "sort" else items
      np.testing.assert_allclose(found[row, place], expected, rtol=1e-5)
      np.testing.assert_array_equal(np.delete(found[row], place), 0)
  np.testing.assert_array_equal(found[np.array([2, 4])], 0)
  assert np.all(np.isnan(found[3]))
  np.testing.assert_array_equal(slopes[~np.asarray(where)], 0)
  np.testing.assert_array_equal(slopes[:3][np.isinf(rows[:3])], 0)
  assert np.all(np.isfinite(slopes))
  assert narrow.dtype == jnp.float32
  np.testing.assert_allclose(narrow, expected, rtol=1e-6)


@thorough
@pytest.mark.parametrize("shape", [(2, 0), (0, 3)])
def test_no_items_and_no_queries(shape):
  s, n, queries = jnp.zeros(shape), shape[-1], shape[:-1]

  def check(function, expected):
    def both(s):
      value, pull = jax.vjp(function, s)
      return value, *pull(jax.tree.map(jnp.ones_like, value))

    # Nothing is in these arrays, so that tracing them tells all.
    found, slope = jax.eval_shape(both, s)
    assert [x.shape for x in jax.tree.leaves(found)] == expected
    assert slope.shape == shape

  for ranking in (jr.Exact(), jr.Laplace(1.0), jr.Gumbel(1.0)):
    by_item = [soft.rank, functools.partial(soft.top_k, k=2), jr.exposure.expected]
    if type(ranking).__name__ not in NOISE:
      by_item.append(soft.sort)
      check(functools.partial(soft.quantile, q=0.5, ranking=ranking), [queries])
    for function in by_item:
      check(functools.partial(function, ranking=ranking), [shape])
    check(lambda s, r=ranking: jr.ndcg(s, s, ranking=r, k=2), [queries])
  for matrix in (jr.losses.neural_sort, jr.losses.soft_sort, jr.plackett_luce.rank_probabilities):
    check(matrix, [(*shape, n)])
  check(lambda s: jr.precision_recall_curve(s, s)[:2], 2 * [shape])
  for samples in ((), (4,), (0,)):
    order = np.broadcast_to(np.arange(n), (*samples, *shape))
    check(lambda s, order=order: jr.plackett_luce.log_prob(s, order), [(*samples, *queries)])
  assert jr.plackett_luce.sample(jax.random.key(0), s, shape=(4,)).shape == (4, *shape)
  assert soft.top_k(s, 2, ranking=jr.Gumbel(1.0)).shape == shape
  for x in jr.recall_at_fixed_precision(jr.precision_recall_curve(s, s), 0.5):
    np.testing.assert_array_equal(x, np.zeros(queries))


def test_all_items_are_selected_from_their_number_on():
  s = jnp.array([0.5, 2.0, -1.0])
  for k in (3, 3.5, 100):
    value, slope = jax.value_and_grad(lambda s, k=k: soft.top_k(s, k)[1])(s)
    assert value == 1
    np.testing.assert_array_equal(slope, 0)


def test_numbers_may_be_traced_and_mapped():
  s = jnp.array([[0.5, 2.0, -1.0, 0.7], [1.0, 1.0, 3.0, 0.0]])
  each = jax.jit(jax.vmap(lambda k, t: soft.top_k(s, k, ranking=jr.Laplace(t))))
  k, t = jnp.array([1.0, 2.5]), jnp.array([0.1, 2.0])
  for i, found in enumerate(each(k, t)):
    expected = soft.top_k(s, float(k[i]), ranking=jr.Laplace(float(t[i])))
    np.testing.assert_allclose(found, expected, atol=1e-6)
  value, slope = jax.jit(jax.vmap(jax.value_and_grad(lambda k: soft.top_k(s[0], k)[1])))(
    jnp.array([1.49, 1.5, 1.51])
  )
  np.testing.assert_allclose(slope[1], (value[2] - value[0]) / 0.02, rtol=1e-3)


@thorough
@pytest.mark.parametrize("operator", ["rank", "sort"])
def test_accelerators_compute_the_same(operator):
  function = OPERATORS[operator][0]
  s = jnp.asarray(np.random.default_rng(3).normal(size=(3, 50)), jnp.float32)

  def both():
    total = lambda s: jnp.sum(function(s, ranking=jr.Logistic(0.5)) ** 2)  # noqa: E731
    return jax.jit(jax.value_and_grad(total))(s)

  here = both()
  with platforms.forced("gpu"):
    there = both()
  for x, y in zip(here, there, strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5 * np.max(abs(x)))


@thorough
def test_queries_split_over_devices():
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  s = jnp.asarray(np.random.default_rng(3).normal(size=(8, 6)), jnp.float32)
  slope = jax.grad(lambda s: jnp.sum(soft.sort(s) ** 2))
  expected = jax.jit(slope)(s)
  with jax.set_mesh(mesh):
    split = jax.device_put(s, jax.NamedSharding(mesh, jax.P("q")))
    np.testing.assert_allclose(jax.jit(slope)(split), expected, atol=1e-5)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Auto,))
  shared = jax.shard_map(slope, mesh=mesh, in_specs=jax.P("q"), out_specs=jax.P("q"))
  np.testing.assert_allclose(jax.jit(shared)(s), expected, atol=1e-5)


def test_wrong_arguments_are_named():
  s = jnp.zeros(3)
  with pytest.raises(ValueError, match=r"soft.sort: ranking=Gumbel has noise"):
    soft.sort(s, ranking=jr.Gumbel(1.0))
  with pytest.raises(ValueError, match=r"soft.quantile: ranking=Gaussian has noise"):
    soft.quantile(s, 0.5, ranking=jr.Gaussian(1.0))
  with pytest.raises(ValueError, match=r"soft.top_k: k must be positive, got 0"):
    soft.top_k(s, 0)
  with pytest.raises(TypeError, match=r"soft.top_k: k must be a positive integer"):
    soft.top_k(s, 1.5, ranking=jr.Gumbel(1.0))
  with pytest.raises(TypeError, match=r"soft.top_k: k must be a real scalar"):
    soft.top_k(s, jnp.ones(2))
  with pytest.raises(ValueError, match=r"soft.quantile: q must be in \[0, 1\], got 1.5"):
    soft.quantile(s, 1.5)
  with pytest.raises(ValueError, match=r"soft.rank: where and the values must have one shape"):
    soft.rank(s, where=jnp.ones(2, bool))
  with pytest.raises(TypeError, match=r"soft.rank: ranking must be a jaxrank.Ranking"):
    soft.rank(s, ranking="Laplace")
