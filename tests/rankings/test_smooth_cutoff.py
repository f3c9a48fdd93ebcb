"""The smooth cut-off of `Laplace` and `Logistic`: definition, limit, and gradients that live."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core.platforms import enable_x64
from tests.helpers.smooth_oracles import ahead, largest
from tests.helpers.suites import quick, thorough

KINDS = ("Laplace", "Logistic")
# Both share all but the distribution, and each compiles for seconds.
kinds = quick("kind", KINDS, KINDS[:1], weekly=KINDS[1:])
# With labels from 0 to 3; the best one has a stop probability below 1.
METRICS = {
  "dcg": jr.dcg,
  "precision": functools.partial(jr.precision, rel=2),
  "hit_rate": functools.partial(jr.hit_rate, rel=2),
  "reciprocal_rank": functools.partial(jr.reciprocal_rank, rel=2),
  "average_precision": functools.partial(jr.average_precision, rel=2),
  "err": functools.partial(jr.err, max_label=3),
}
PAIRS = list(itertools.product(KINDS, METRICS))
LATER = [("Logistic", name) for name in METRICS if name != "dcg"]


def survival(before, kept, stop):
  """The probability of passing the kept items ahead, one factor for each."""
  factors = np.where(stop[None] < 1, (1 - np.where(stop < 1, stop, 0))[None] ** before, 1 - before)
  return np.prod(np.where(np.eye(len(stop)), 1, factors ** kept[None]), axis=1)


def defined(name, kind, s, y, t, k):
  """The definition of each metric, over all pairs of items."""
  kept, before, b = largest(kind, s, t, k), ahead(kind, s, t), (y >= 2).astype(float)
  rank = 1 + before @ kept
  stop = (2.0**y - 1) / 8
  hits = b + before @ (kept * b)
  values = {
    "dcg": y / np.log2(1 + rank),
    "precision": b / k,
    "hit_rate": b * survival(before, kept, b),
    "reciprocal_rank": b * survival(before, kept, b) / rank,
    "average_precision": b * hits / rank / max(b.sum(), 1),
    "err": stop * survival(before, kept, stop) / rank,
  }
  return np.sum(kept * values[name])


def drawn(seed, n, queries=6):
  """Padded queries with ties and items that are not retrieved."""
  rng = np.random.default_rng(seed)
  scores = rng.normal(size=(queries, n))
  scores[:, 1::4] = scores[:, :1]
  scores[:, 2::9] = -np.inf
  labels = rng.integers(0, 4, (queries, n)).astype(float)
  where = rng.random((queries, n)) < 0.8
  return np.where(where, scores, np.nan), np.where(where, labels, 1e9), where


@quick(
  ("kind", "name"),
  PAIRS,
  [("Laplace", name) for name in ("dcg", "average_precision", "err", "reciprocal_rank")],
  weekly=LATER,
)
def test_values_are_those_of_the_definition(kind, name):
  scores, labels, where = drawn(1, 14)
  live = where & (scores > -np.inf)
  with enable_x64():
    # Of one item, of most and of all of them, and past the end of the list.
    ts, ks = np.meshgrid([0.02, 0.7, 30.0], [1, 3, 8, 30])
    sweep = jax.vmap(
      lambda t, k: METRICS[name](
        jnp.asarray(scores), jnp.asarray(labels), where=where, k=k, ranking=getattr(jr, kind)(t)
      )
    )
    found = np.asarray(jax.jit(sweep)(ts.ravel(), ks.ravel()))
  for t, k, row in zip(ts.ravel(), ks.ravel(), found, strict=True):
    relevant = [max((y[w] >= 2).sum(), 1) for y, w in zip(labels, where, strict=True)]
    expected = [
      defined(name, kind, s[i], y[i], t, k) for s, y, i in zip(scores, labels, live, strict=True)
    ]
    if name == "average_precision":
      kept = [max((y[i] >= 2).sum(), 1) for y, i in zip(labels, live, strict=True)]
      expected = np.array(expected) * kept / relevant
    np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-12)


@kinds
def test_a_static_cutoff_is_the_traced_one(kind):
  scores, labels, where = (jnp.asarray(x) for x in drawn(2, 14))
  for k in (1, 3, 14, 20):
    at = functools.partial(jr.ndcg, scores, labels, where=where, ranking=getattr(jr, kind)(0.5))
    np.testing.assert_allclose(at(k=k), at(k=jnp.int32(k)), rtol=2e-6, atol=1e-7)


@quick("name", METRICS, ["err"])
@kinds
def test_in_the_cold_it_is_the_exact_metric(kind, name):
  rng = np.random.default_rng(3)
  scores = rng.permuted(np.tile(np.arange(12, dtype=np.float32), (5, 1)), axis=1)
  labels = rng.integers(0, 4, (5, 12))
  for k in (1, 4, 12):
    cold = METRICS[name](scores, labels, k=k, ranking=getattr(jr, kind)(1e-3))
    np.testing.assert_allclose(cold, METRICS[name](scores, labels, k=k), rtol=1e-6)


@thorough
@kinds
def test_in_the_cold_ties_at_the_cut_share_it(kind):
  scores = np.float32([[2, 1, 1, 1, 0]])
  labels = np.float32([[0, 1, 0, 1, 0]])
  for k in (1, 2, 3, 4):
    for metric in (jr.precision, jr.recall):
      cold = metric(scores, labels, k=k, ranking=getattr(jr, kind)(1e-3))
      np.testing.assert_allclose(cold, metric(scores, labels, k=k), rtol=1e-6)


@quick("name", METRICS, ("dcg", "err"))
@quick("n", (10, 200, 1000), (200,))
@kinds
def test_gradients_live_where_a_scorer_gives_one_score_to_all(kind, n, name):
  labels = (np.random.default_rng(4).integers(0, 10, n) // 3).astype(np.float32)
  for t in (0.1, 1.0):
    at = functools.partial(METRICS[name], labels=labels, k=10, ranking=getattr(jr, kind)(t))
    slope = np.asarray(jax.grad(at)(jnp.zeros(n)))
    assert n == 10 or np.linalg.norm(slope) > 1e-4
    assert np.all(np.isfinite(slope))


# Each takes XLA seconds. The quick ones are a sum of discounts and a product of survivals.
@quick(("kind", "name"), PAIRS, [("Laplace", "dcg"), ("Laplace", "err")], weekly=LATER)
def test_derivatives_are_differences(kind, name):
  """By scores and temperature, in both modes and in float64."""
  rng = np.random.default_rng(5)
  labels = rng.integers(0, 4, 9)
  point = np.append(rng.normal(size=9), 0.6)
  moves = np.stack([np.append(rng.normal(size=9), 0.0), np.append(np.zeros(9), 1.0)])
  points = point + np.array([5e-4, -5e-4, 1e-3, -1e-3])[:, None, None] * moves

  def value(x):
    return METRICS[name](x[:-1], labels, k=3, ranking=getattr(jr, kind)(x[-1]))

  with enable_x64():
    forwards = jax.jit(jax.vmap(lambda move: jax.jvp(value, (point,), (move,))[1]))(moves)
    near = jax.jit(jax.vmap(value))(points.reshape(-1, 10)).reshape(4, -1)
    small, large = (near[0] - near[1]) / 1e-3, (near[2] - near[3]) / 2e-3
    np.testing.assert_allclose(forwards, (4 * small - large) / 3, rtol=1e-7, atol=1e-9)
    pulled = moves @ jax.jit(jax.grad(value))(point)
    np.testing.assert_allclose(pulled, forwards, rtol=1e-9, atol=1e-12)


@kinds
def test_a_temperature_of_zero_gives_the_limit_with_no_slope(kind):
  scores, labels = jnp.float32([3, 1, 1, 1, 0]), jnp.float32([0, 1, 0, 2, 1])

  def value(scores, t):
    return jr.ndcg(scores, labels, k=3, ranking=getattr(jr, kind)(t))

  for t in (0.0, -1.0):
    found, (by_scores, by_t) = jax.value_and_grad(value, argnums=(0, 1))(scores, jnp.float32(t))
    np.testing.assert_allclose(found, value(scores, 1e-6), rtol=1e-5)
    np.testing.assert_array_equal(by_scores, 0)
    assert by_t == 0


@thorough
@pytest.mark.parametrize(("kind", "density"), [(jr.Laplace, 0.5), (jr.Logistic, 0.25)])
def test_items_on_the_threshold_have_the_slope_of_the_distribution(kind, density):
  """The threshold of tied items is their score, where formulas for each of its sides meet."""
  ranking = kind(0.5)
  for n in (2, 4):
    found = jax.jacobian(lambda s: jr.soft.top_k(s, s.size // 2, ranking=ranking))(jnp.ones(n))
    np.testing.assert_allclose(found, density / 0.5 * (np.eye(n) - 1 / n), atol=1e-6)
  middle = jax.jacobian(lambda s: jr.soft.quantile(s, 0.5, ranking=ranking))(jnp.ones(3))
  np.testing.assert_allclose(middle, np.full(3, 1 / 3), atol=1e-6)


@thorough
@kinds
def test_slopes_by_the_number_of_kept_items(kind):
  """At whole numbers too, where as many items as wanted are above the threshold."""
  ranking = getattr(jr, kind)(1.0)
  with enable_x64():
    rng = np.random.default_rng(4)
    scores, where = jnp.asarray(rng.normal(size=(40, 9))), rng.random((40, 9)) < 0.8
    where[:, :4] = True
    weights = jnp.asarray(rng.normal(size=9))

    def kept(k):
      return jr.soft.top_k(scores, k, where=where, ranking=ranking) @ weights

    def quantile(q):
      return jr.soft.quantile(scores, q, where=where, ranking=ranking)

    for of, points in ((kept, (1.0, 2.0, 2.6, 3.0)), (quantile, (0.25, 0.5, 0.7))):
      both = jax.jit(lambda x, of=of: (jax.jvp(of, (x,), (1.0,))[1], of(x + 1e-5), of(x - 1e-5)))
      for x in points:
        slope, above, below = both(x)
        np.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-6, atol=1e-8)


@kinds
def test_a_query_without_items_has_no_slope_by_the_temperature(kind):
  scores, labels = jnp.full(3, -jnp.inf), jnp.array([1, 0, 1])
  for where in (jnp.ones(3, bool), jnp.zeros(3, bool)):

    def value(t, where=where):
      return jr.ndcg(scores, labels, where=where, k=2, ranking=getattr(jr, kind)(t))

    assert jax.grad(value)(1.0) == 0


@kinds
def test_a_quotient_of_vanishing_sums_has_a_slope(kind):
  labels = jnp.arange(200) % 2

  def value(scores):
    return jr.nearly_err(scores, labels, max_label=1, ranking=getattr(jr, kind)(1.0))

  slope = jax.grad(value)(jnp.zeros(200))
  assert np.all(np.isfinite(slope))
  assert np.linalg.norm(slope) > 0.1


@kinds
def test_an_item_that_is_alone_on_the_threshold_has_no_slope(kind):
  """At a temperature whose inverse would make a rounding error of its share a slope."""

  def kept(scores):
    return jr.soft.top_k(scores, 2.5, ranking=getattr(jr, kind)(1e-12)) @ jnp.arange(1.0, 6)

  scores = jnp.float32([0.3, -1.1, 2.2, 0.7, 1.9])
  np.testing.assert_array_equal(jax.jit(jax.grad(kept))(scores), 0)


def test_second_derivatives_of_a_threshold_outlast_a_loop():
  """JAX keeps the rules of derivatives of some functions only, where a loop is differentiated."""
  with enable_x64():
    scores, weights = jnp.array([0.3, -1.1, 2.2, 0.7, 1.9]), jnp.arange(1.0, 6)

    def kept(x):
      return jr.soft.top_k(x[:-1], 2.2, ranking=jr.Logistic(x[-1])) @ weights

    def in_a_loop(x):
      return jax.lax.scan(lambda total, _: (total + kept(x), None), 0.0, None, 2)[0] / 2

    x = jnp.append(scores, 0.7)
    second = jax.jit(jax.jacfwd(jax.grad(in_a_loop)))(x)
    slopes = jax.jit(jax.vmap(jax.grad(kept)))(
      jnp.concatenate([x[None] + 1e-5 * jnp.eye(6), x[None] - 1e-5 * jnp.eye(6)])
    )
    np.testing.assert_allclose(second, (slopes[:6] - slopes[6:]) / 2e-5, rtol=1e-6, atol=1e-8)
