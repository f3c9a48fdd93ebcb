"""The smooth cut-off of `Laplace` and `Logistic`: definition, limit, and gradients that live."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core._jax import enable_x64
from tests.helpers.smooth_oracles import ahead, largest
from tests.helpers.suites import quick, thorough

# With labels from 0 to 3; the best one has a stop probability below 1.
METRICS = {
  "dcg": (jr.dcg, {}),
  "precision": (jr.precision, {"rel": 2}),
  "hit_rate": (jr.hit_rate, {"rel": 2}),
  "reciprocal_rank": (jr.reciprocal_rank, {"rel": 2}),
  "average_precision": (jr.average_precision, {"rel": 2}),
  "err": (jr.err, {"max_label": 3}),
}


# A sum of discounts and a product of survivals. Logistic shares all but the distribution with
# Laplace.
CHEAP = ("Laplace", ("dcg", "err"))
REST = ("Laplace", ("precision", "hit_rate", "reciprocal_rank", "average_precision"))


def values(names, scores, labels, k, ranking, **given):
  """The values of some metrics at a cut-off, `[metrics, ...]`."""
  measures = [jr.Measure(METRICS[x][0], name=x, k=k, **METRICS[x][1]) for x in names]
  return jnp.stack([*jr.evaluate(measures, scores, labels, ranking=ranking, **given).values()])


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


@quick(("kind", "names"), [CHEAP, REST, ("Logistic", ("err",))], [CHEAP])
def test_values_are_those_of_the_definition(kind, names):
  scores, labels, where = drawn(1, 14)
  live = where & (scores > -np.inf)
  with enable_x64():
    # Of one item, of most and of all of them, and past the end of the list.
    ts, ks = np.meshgrid([0.02, 0.7, 30.0], [1, 3, 8, 30])
    lists = jnp.asarray(scores), jnp.asarray(labels)
    sweep = jax.vmap(lambda t, k: values(names, *lists, k, getattr(jr, kind)(t), where=where))
    found = np.asarray(jax.jit(sweep)(ts.ravel(), ks.ravel()))
  for t, k, of_metrics in zip(ts.ravel(), ks.ravel(), found, strict=True):
    relevant = [max((y[w] >= 2).sum(), 1) for y, w in zip(labels, where, strict=True)]
    for name, row in zip(names, of_metrics, strict=True):
      expected = [
        defined(name, kind, s[i], y[i], t, k) for s, y, i in zip(scores, labels, live, strict=True)
      ]
      if name == "average_precision":
        kept = [max((y[i] >= 2).sum(), 1) for y, i in zip(labels, live, strict=True)]
        expected = np.array(expected) * kept / relevant
      np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_static_cutoff_is_the_traced_one():
  scores, labels, where = (jnp.asarray(x) for x in drawn(2, 14))
  at = functools.partial(jr.ndcg, scores, labels, where=where, ranking=jr.Laplace(0.5))
  ks = (3, 20)
  traced = jax.jit(jax.vmap(lambda k: at(k=k)))(jnp.int32(ks))
  static = jax.jit(lambda: [at(k=k) for k in ks])()
  np.testing.assert_allclose(static, traced, rtol=2e-6, atol=1e-7)


@quick("names", [CHEAP[1], REST[1]], [CHEAP[1]])
def test_in_the_cold_it_is_the_exact_metric(names):
  rng = np.random.default_rng(3)
  scores = rng.permuted(np.tile(np.arange(12, dtype=np.float32), (5, 1)), axis=1)
  labels = rng.integers(0, 4, (5, 12))

  def both(k):
    return [values(names, scores, labels, k, x) for x in (jr.Laplace(1e-3), jr.Exact())]

  for cold, exact in zip(*jax.jit(jax.vmap(both))(np.int32([1, 4, 12])), strict=True):
    np.testing.assert_allclose(cold, exact, rtol=1e-6)


@thorough
def test_in_the_cold_ties_at_the_cut_share_it():
  scores = np.float32([[2, 1, 1, 1, 0]])
  labels = np.float32([[0, 1, 0, 1, 0]])

  def both(k):
    measures = [jr.Measure(metric, k=k) for metric in (jr.precision, jr.recall)]
    rankings = jr.Laplace(1e-3), jr.Exact()
    return [jr.evaluate(measures, scores, labels, ranking=x) for x in rankings]

  cold, exact = jax.jit(jax.vmap(both))(np.int32([1, 2, 3, 4]))
  for name, found in cold.items():
    np.testing.assert_allclose(found, exact[name], rtol=1e-6, err_msg=name)


@quick("names", [("err",), ("dcg", "average_precision")], [("err",)])
def test_gradients_live_where_a_scorer_gives_one_score_to_all(names):
  """In lists of 10, 200 and 1000 items; those of 10 are all above the cut-off."""
  labels = (np.random.default_rng(4).integers(0, 10, 1000) // 3).astype(np.float32)

  def slopes(n, t):
    of = functools.partial(values, names, labels=labels, k=10, ranking=jr.Laplace(t))
    return jax.jacrev(lambda scores: of(scores, where=jnp.arange(1000) < n))(jnp.zeros(1000))

  ns, ts = np.int32([10, 10, 200, 200, 1000, 1000]), np.float32([0.1, 1.0] * 3)
  found = np.asarray(jax.jit(jax.vmap(slopes))(ns, ts))
  assert np.all(np.isfinite(found))
  norms = np.linalg.norm(found, axis=-1)
  assert np.all(norms[2:] > 1e-4), dict(zip(names, norms.T, strict=True))


@quick(
  ("kind", "names"),
  [
    ("Laplace", ("err",)),
    ("Laplace", ("dcg", "reciprocal_rank", "average_precision")),
    ("Logistic", ("dcg",)),
  ],
  [("Laplace", ("err",))],
)
def test_derivatives_are_differences(kind, names):
  """By scores and temperature, in both modes and in float64."""
  rng = np.random.default_rng(5)
  labels = rng.integers(0, 4, 9)
  point = np.append(rng.normal(size=9), 0.6)
  moves = np.stack([np.append(rng.normal(size=9), 0.0), np.append(np.zeros(9), 1.0)])
  points = point + np.array([5e-4, -5e-4, 1e-3, -1e-3])[:, None, None] * moves

  def of(x):
    return values(names, x[:-1], labels, 3, getattr(jr, kind)(x[-1]))

  @jax.jit
  def program(points):
    forwards = jax.vmap(lambda move: jax.jvp(of, (point,), (move,))[1])(moves)
    return forwards, jax.vmap(of)(points), jax.jacrev(of)(point)

  with enable_x64():
    forwards, near, slopes = map(np.asarray, program(points.reshape(-1, 10)))
  near = near.reshape(4, 2, -1)
  small, large = (near[0] - near[1]) / 1e-3, (near[2] - near[3]) / 2e-3
  np.testing.assert_allclose(forwards, (4 * small - large) / 3, rtol=1e-7, atol=1e-9)
  np.testing.assert_allclose(moves @ slopes.T, forwards, rtol=1e-9, atol=1e-12)


def test_the_limit_has_no_slope():
  """At temperatures that are not positive, and of queries without items."""
  row = jnp.float32([3, 1, 1, 1, 0])
  scores = jnp.stack([row, row, row, row - jnp.inf, row])
  where, t = jnp.ones((5, 5), bool).at[4].set(False), jnp.float32([1e-6, 0.0, -1.0, 1.0, 1.0])

  def value(scores, where, t):
    labels = jnp.float32([0, 1, 0, 2, 1])
    return jr.ndcg(scores, labels, where=where, k=3, ranking=jr.Laplace(t))

  program = jax.jit(jax.vmap(jax.value_and_grad(value, argnums=(0, 2))))
  found, (by_scores, by_t) = map(jax.device_get, program(scores, where, t))
  np.testing.assert_allclose(found[1:], [found[0], found[0], 0, 0], rtol=1e-5)
  np.testing.assert_array_equal(by_scores[1:], 0)
  np.testing.assert_array_equal(by_t[1:], 0)


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
def test_slopes_by_the_number_of_kept_items():
  """At whole numbers too, where as many items as wanted are above the threshold."""
  ranking = jr.Laplace(1.0)
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


def test_a_quotient_of_vanishing_sums_has_a_slope():
  labels = jnp.arange(200) % 2

  def value(scores):
    return jr.nearly_err(scores, labels, max_label=1, ranking=jr.Laplace(1.0))

  slope = jax.jit(jax.grad(value))(jnp.zeros(200))
  assert np.all(np.isfinite(slope))
  assert np.linalg.norm(slope) > 0.1


def test_an_item_that_is_alone_on_the_threshold_has_no_slope():
  """At a temperature whose inverse would make a rounding error of its share a slope."""

  def kept(scores):
    return jr.soft.top_k(scores, 2.5, ranking=jr.Laplace(1e-12)) @ jnp.arange(1.0, 6)

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
