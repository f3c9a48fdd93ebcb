"""The algorithms of accelerators and of CPUs give the same values, on ties, masks and -inf."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import platforms, sorting, ties
from jaxrank._core.sorting import arranged
from tests.helpers import cases, traits
from tests.helpers.suites import quick, thorough

pytestmark = pytest.mark.any_platform

ROWS = traits.rows()
# The platforms with algorithms of their own; the default ones are those of a GPU.
EVERY = ("cpu", "tpu", "gpu", "reference")
QUICK = ("ndcg", "average_precision", "reciprocal_rank", "bpref")


def lists(n, ties_of):
  """Scores, labels and a mask `[6, n]`, with more or fewer ties."""
  rng = np.random.default_rng(n)
  scores = rng.standard_normal((6, n))
  scores = {"few": scores, "many": np.round(2 * scores) / 2, "one": 0 * scores}[ties_of]
  scores = np.where(rng.random(scores.shape) < 0.1, -np.inf, scores).astype(np.float32)
  labels = rng.choice([-1, 0, 1, 2, 3, 4], p=[0.1, 0.5, 0.2, 0.1, 0.05, 0.05], size=scores.shape)
  return scores, labels.astype(np.float32), rng.random(scores.shape) < 0.9


def values(names, queries):
  """The values of metrics with and without a cut-off, ties averaged."""
  scores, labels, where = queries
  found = {}
  for name in names:
    row = ROWS[name]
    for cut in ({}, {"k": 7}) if row.takes("k") else ({},):
      found[name, *cut] = row(scores, labels, where=where, **cut)
  return found


def check(names, queries, others=("tpu", "gpu", "reference")):
  found = {}
  for platform in ("cpu", *others):
    with platforms.forced(platform):
      found[platform] = jax.jit(lambda *lists: values(names, lists))(*queries)
  for name, value in found["cpu"].items():
    for other in others:
      np.testing.assert_allclose(found[other][name], value, rtol=1e-6, err_msg=str(name))


def test_values_agree():
  check(QUICK, lists(40, "many"))


@thorough
def test_values_of_many_users_agree_on_a_tpu():
  check(("err_ia", "average_precision_ia", "gap"), lists(40, "many"), ["tpu"])


@thorough
@pytest.mark.parametrize("ties_of", ["few", "many"])
def test_values_of_longer_lists_agree(ties_of):
  check(QUICK, lists(300, ties_of))


@thorough
def test_values_of_other_questions_agree():
  """A platform has algorithms for what the questions need, of which a metric knows nothing."""
  check([name for name in traits.ASKING if name not in QUICK], lists(40, "many"))


@thorough
@pytest.mark.parametrize(
  ("kind", "names"), [("Laplace", (*traits.SMOOTHLY, "bpref")), ("Logistic", ("ndcg", "err"))]
)
def test_slopes_agree(kind, names):
  """Gradients agree to 1e-6 of the largest of a query.

  Where slopes cancel it is 1e-6 of what cancels, of the order of the value over the temperature.
  """
  queries = cases.draw(0, 300)
  ranking = getattr(jr, kind)(0.3)

  def both(name, scores, labels, where):
    def total(scores):
      value = ROWS[name](scores, labels, where=where, ranking=ranking)
      return jnp.sum(jnp.where(jnp.isfinite(value), value, 0)), value

    (_, value), slopes = jax.value_and_grad(total, has_aux=True)(scores)
    return value, slopes

  found = {}
  for platform in EVERY:
    with platforms.forced(platform):
      computed = jax.jit(lambda *lists: [both(name, *lists) for name in names])(*queries[:3])
    found[platform] = jax.tree.map(np.asarray, computed)
  for i, name in enumerate(names):
    value, slopes = found["cpu"][i]
    scale = np.maximum(np.abs(slopes).max(-1), np.nan_to_num(np.abs(value)) / ranking.temperature)
    scale = np.maximum(scale, 1e-3)[:, None]
    for other in EVERY[1:]:
      value_of_other, slopes_of_other = found[other][i]
      np.testing.assert_allclose(value_of_other, value, rtol=1e-6, atol=1e-6, err_msg=name)
      np.testing.assert_allclose(
        slopes_of_other / scale, slopes / scale, rtol=0, atol=1e-6, err_msg=name
      )


@quick("n", [2, 50, 40_000], [50])
def test_ties_agree(n):
  key = jnp.asarray(np.sort(np.random.default_rng(n).integers(0, 7, n))[::-1].astype(np.int32))
  chosen = jnp.asarray(np.random.default_rng(1).random(n) < 0.3)
  found = []
  for platform in EVERY:
    with platforms.forced(platform):

      @jax.jit
      def runs_and_counts(key, chosen):
        runs = ties.runs(key)
        return runs, ties.counts(chosen, runs, jnp.float32)

      found.append(runs_and_counts(key, chosen))
  for other in found[1:]:
    jax.tree.map(np.testing.assert_array_equal, found[0], other)


@pytest.mark.parametrize("platform", EVERY)
@quick("n", [1, 10, 64, 65, 300, 5000], [10, 65])
def test_means_of_weights_are_those_of_the_ties(n, platform):
  rng = np.random.default_rng(n)
  key = np.sort(rng.integers(0, 7, n))[::-1].astype(np.int32)
  w = rng.standard_normal(n).astype(np.float32)
  with platforms.forced(platform):

    @jax.jit
    def mean(key, w):
      _, start, end = ties.runs(key)
      return ties.mean(w, start, end)

    found = mean(key, w)
  expected = [w[key == own].mean(dtype=np.float64) for own in key]
  np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n", [2047, 2048, 5001])
@pytest.mark.parametrize("k", [1, 10, 128, 129])
def test_the_largest_are_those_of_blocks_with_ties_by_index(n, k):
  rng = np.random.default_rng(n)
  few = np.where(rng.random(n) < 0.999, -np.inf, 1)
  largest = jax.jit(jax.vmap(lambda values: sorting.top(values, k=k)))
  for x in (rng.standard_normal(n), rng.integers(0, 5, n), np.full(n, -np.inf), few):
    with platforms.forced("gpu"):
      found = largest(jnp.float32(x)[None])[0]
    np.testing.assert_array_equal(found, np.argsort(-x, kind="stable")[:k])


@pytest.mark.parametrize("platform", EVERY)
def test_the_largest_integers_are_those_of_blocks_too(platform):
  x = np.random.default_rng(0).integers(-3, 3, 3000).astype(np.int32)
  x[x < 1] = sorting.MASKED
  with platforms.forced(platform):
    found = jax.jit(lambda values: sorting.top(values, k=100))(x)
    none = jax.jit(lambda values: sorting.top(values, k=100))(np.full_like(x, sorting.MASKED))
  np.testing.assert_array_equal(found, np.argsort(-x.astype(np.int64), kind="stable")[:100])
  np.testing.assert_array_equal(none, np.arange(100))


@pytest.mark.parametrize("platform", EVERY)
def test_means_of_a_discount_keep_their_precision(platform):
  """A tie deep in a long list has the mean of float64, with and without a cut-off."""
  n = 100_000
  start, end = 99_990, 99_996
  key = jnp.zeros(n, jnp.int32) - jnp.arange(n, dtype=jnp.int32) - 1
  key = key.at[start : end + 1].set(key[start])
  table = ties.discount_words(jr.discounts.logarithmic.reference, n)
  with platforms.forced(platform):

    @jax.jit
    def means(key):
      runs = ties.runs(key)
      whole = ties.mean_discount(table, runs)
      return whole, {k: ties.mean_discount_down_to(k, table, runs, whole) for k in (99_993, 5)}

    whole, cut = means(key)
  discount = np.log(2) / np.log1p(np.arange(1.0, n + 1))
  for k, mean in {None: whole, **cut}.items():
    inside = np.where(np.arange(n) < (n if k is None else k), discount, 0)
    mean = np.asarray(mean)
    np.testing.assert_allclose(mean[start : end + 1], inside[start : end + 1].mean(), rtol=3e-7)
    np.testing.assert_allclose(mean[:start], inside[:start], rtol=3e-7)


@pytest.mark.parametrize("platform", EVERY)
def test_an_infinite_gain_beyond_the_cutoff_adds_nothing(platform):
  scores, labels = np.float32([[3, 2, 2, 1, 0]]), np.float32([[1, 2, 0, 3, 200]])
  with platforms.forced(platform):
    value = jr.dcg(scores, labels, k=4, gain=jr.gains.exponential)
  expected = 1 + 1.5 * (1 / np.log2(3) + 1 / 2) + 7 / np.log2(5)
  np.testing.assert_allclose(value, [expected], rtol=1e-6)


@thorough
def test_derivatives_travel_with_the_items():
  rng = np.random.default_rng(0)
  scores = jnp.asarray(np.round(rng.standard_normal((4, 9)), 1), jnp.float32)
  weights = jnp.asarray(rng.standard_normal((4, 9)), jnp.float32)
  key = sorting.keys(scores, jnp.ones(scores.shape, bool))

  def total(scores, weights, key):
    _, _, first, second = arranged(key, scores, weights)
    return jnp.sum(first**2 * second * jnp.arange(9.0))

  found = {}
  for platform in EVERY:
    with platforms.forced(platform):
      slopes = jax.vmap(jax.grad(total, (0, 1)))(scores, weights, key)
      forward = jax.vmap(lambda *x: jax.jvp(lambda s: total(s, *x[1:]), x[:1], x[:1]))
      curve = jax.vmap(jax.hessian(total))(scores, weights, key)
      found[platform] = slopes, forward(scores, weights, key), curve
  order = np.argsort(-np.asarray(key), axis=-1, kind="stable")
  place = np.argsort(order, axis=-1)
  np.testing.assert_allclose(
    found["cpu"][0][0], 2.0 * scores * weights * place.astype(np.float32), rtol=1e-6
  )
  for other in EVERY[1:]:
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found["cpu"], found[other]
    )


@pytest.mark.parametrize("platform", EVERY)
@quick("columns", [0, 3, 12], [3])
def test_labels_travel_with_their_items(platform, columns):
  rng = np.random.default_rng(columns)
  key = jnp.asarray(rng.integers(0, 5, (4, 9)), jnp.int32)
  scores = key.astype(jnp.float32)
  shape = (4, 9, columns) if columns else (4, 9)
  labels, change = rng.standard_normal((2, *shape)).astype(np.float32)
  order = np.argsort(-np.asarray(key), axis=-1, kind="stable")
  order = order[..., None] if columns else order

  def moved(labels):
    return jax.vmap(lambda *query: arranged(*query)[3])(key, scores, labels)

  def of_shared_scores(column):
    return arranged(key[0], scores[0], column)[3]

  with platforms.forced(platform):

    @jax.jit
    def every_way(labels, change):
      found, back = jax.vjp(moved, labels)
      (slopes,) = back(change)
      _, moves = jax.jvp(moved, (labels,), (change,))
      return found, slopes, moves, jax.vmap(of_shared_scores, 1, 1)(labels[0].reshape(9, -1))

    found, slopes, moves, shared = every_way(labels, change)
  np.testing.assert_array_equal(found, np.take_along_axis(labels, order, axis=1))
  np.testing.assert_array_equal(moves, np.take_along_axis(change, order, axis=1))
  np.testing.assert_array_equal(np.take_along_axis(np.asarray(slopes), order, axis=1), change)
  np.testing.assert_array_equal(shared, found[0].reshape(9, -1))


@pytest.mark.parametrize("platform", EVERY)
@quick("columns", [0, 3, 12], [3])
def test_ties_have_the_order_of_other_keys(platform, columns):
  rng = np.random.default_rng(columns)
  key, first = rng.integers(0, 4, (2, 5, 30)).astype(np.int32)
  scores = rng.standard_normal((5, 30)).astype(np.float64)
  labels = rng.standard_normal((5, 30, columns) if columns else (5, 30)).astype(np.float32)
  item = np.broadcast_to(np.arange(30), key.shape)
  order = np.lexsort((item, -first, -key))
  with platforms.forced(platform), jax.enable_x64(True):
    found = jax.jit(jax.vmap(arranged))(*map(jnp.asarray, (key, scores, labels, first)))
  for x, moved in zip((key, item, scores), found[:3], strict=True):
    np.testing.assert_array_equal(moved, np.take_along_axis(x, order, axis=1))
  rows = order[..., None] if columns else order
  np.testing.assert_array_equal(found[3], np.take_along_axis(labels, rows, axis=1))
