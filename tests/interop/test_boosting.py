"""Objectives and metrics for boosted trees, without the libraries: rows in, rows out."""

import copy
import functools
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import losses
from jaxrank.interop import lightgbm, xgboost
from tests.helpers.suites import quick, thorough

# Random queries of few rows may have equal labels.
pytestmark = pytest.mark.filterwarnings("ignore:.* queries have no gradient")

P = functools.partial
LAPLACE = jr.Laplace(1.0)


def smooth_ndcg(scores, labels, where):
  return 1 - jr.ndcg(scores, labels, where=where, ranking=LAPLACE)


def squares(scores, labels, where):
  """A loss that any slow code computes: the sum of `(s - y)^4` over the items."""
  return jnp.sum(jnp.where(where, (scores - labels) ** 4, 0), axis=-1)


class Data:
  """What both libraries call a data set."""

  def __init__(self, labels, group, weight=None):
    self.labels, self.group = np.asarray(labels, np.float32), np.asarray(group)
    self.weight = np.zeros(0, np.float32) if weight is None else np.asarray(weight, np.float32)

  def get_label(self):
    return self.labels

  def get_group(self):
    return self.group

  def get_weight(self):
    return self.weight


def ragged(seed=0, longest=14, queries=12):
  """Scores, labels and sizes of queries, one of them without rows and one with one row."""
  rng = np.random.default_rng(seed)
  sizes = rng.integers(2, longest, queries)
  sizes[2:5] = 0, 1, longest
  labels = rng.integers(0, 5, sizes.sum())
  return rng.normal(size=labels.size).astype(np.float32), labels, sizes


def parts(sizes, *columns):
  """The rows of each query that has some."""
  cuts = [np.split(column, np.cumsum(sizes)[:-1]) for column in columns]
  return [rows for rows in zip(*cuts, strict=True) if len(rows[0])]


def hessian(loss, scores, labels):
  """The Hessian of the loss of one query, in float64 by central differences of the gradient."""
  where = jnp.ones(scores.shape, bool)
  slope = jax.jit(jax.grad(lambda s: loss(s, jnp.asarray(labels), where=where)))
  step = 1e-5 * np.eye(scores.size)
  with jax.enable_x64(True):
    columns = [np.asarray(slope(scores + e) - slope(scores - e)) / 2e-5 for e in step]
  return np.stack(columns)


def test_slopes_come_back_in_the_order_of_the_rows():
  scores, labels, sizes = ragged()
  slope, curvature = lightgbm.objective(squares, curvature="diagonal")(scores, Data(labels, sizes))
  factor = len(labels) / np.count_nonzero(sizes)
  np.testing.assert_allclose(slope, factor * 4 * (scores - labels) ** 3, rtol=1e-5)
  expected = factor * np.maximum(12 * (scores - labels) ** 2, 1e-6)
  np.testing.assert_allclose(curvature, expected, rtol=1e-4)
  assert slope.dtype == curvature.dtype == np.float32


@quick(
  "loss",
  [smooth_ndcg, losses.softmax, losses.pairwise_logistic, losses.lambda_rank, losses.list_mle],
  [losses.softmax],
)
def test_slopes_are_those_of_the_queries_alone(loss):
  scores, labels, sizes = ragged(1)
  slope, _ = xgboost.objective(loss)(scores, Data(labels, sizes))
  batch = jr.pad(np.repeat(np.arange(sizes.size), sizes), scores, labels)
  grad = jax.jit(jax.vmap(jax.grad(lambda s, y, w: loss(s, y, where=w))))
  alone = jr.unpad(batch, grad(*batch[:3]))
  factor = len(labels) / len(batch.query_ids)
  np.testing.assert_allclose(slope, factor * alone, rtol=1e-5, atol=2e-5)


def test_weights_multiply_slopes_and_curvatures():
  scores, labels, sizes = ragged(2)
  rng = np.random.default_rng(0)
  of_rows, of_queries = rng.random(labels.size), rng.random(sizes.size)
  ours = lightgbm.objective(losses.softmax), xgboost.objective(losses.softmax)
  plain = ours[0](scores, Data(labels, sizes))
  for x, expected in zip(ours[0](scores, Data(labels, sizes, of_rows)), plain, strict=True):
    np.testing.assert_allclose(x, expected * of_rows, rtol=1e-5)
  for x, expected in zip(ours[1](scores, Data(labels, sizes, of_queries)), plain, strict=True):
    np.testing.assert_allclose(x, expected * np.repeat(of_queries, sizes), rtol=1e-5)


def test_both_calls_of_lightgbm_agree():
  scores, labels, sizes = ragged(3)
  weight = np.random.default_rng(0).random(labels.size)
  ours, means = lightgbm.objective(squares, curvature="diagonal"), lightgbm.metrics("RR P@5")
  data = Data(labels, sizes, weight)
  for x, y in zip(ours(scores, data), ours(labels, scores, weight, sizes), strict=True):
    np.testing.assert_array_equal(x, y)
  assert means(scores, data) == means(labels, scores, weight, sizes)


BOUNDED = {
  "pairwise_logistic": losses.pairwise_logistic,
  "pairwise_logistic, t": P(losses.pairwise_logistic, temperature=0.5),
  "lambda_rank": losses.lambda_rank,
  "lambda_rank, AP": P(losses.lambda_rank, metric="AP", temperature=2.0),
  "lambda_ndcg": P(losses.lambda_ndcg, k=3),
  "lambda_ndcg, ndcg2++": P(losses.lambda_ndcg, scheme="ndcg2++", gain=jr.gains.exponential),
  "softmax": losses.softmax,
  "softmax, t": P(P(losses.softmax, temperature=9.0), temperature=0.5, gain=jr.gains.exponential),
  "sampled_softmax": losses.sampled_softmax,
  "unique_softmax": P(losses.unique_softmax, gain=jr.gains.exponential),
  "xe_ndcg": losses.xe_ndcg,
  "list_mle": P(losses.list_mle, temperature=0.5),
}
PAIRS = ("pairwise_logistic", "lambda_rank", "lambda_ndcg")


@quick("name", BOUNDED, ("softmax, t", "pairwise_logistic"))
def test_the_bound_bounds_the_hessian(name):
  loss, sizes = BOUNDED[name], np.array([6, 7, 7])
  rng = np.random.default_rng(4)
  scores, labels = rng.normal(size=20) * 2, rng.integers(0, 4, 20)
  labels[:6] = 2
  _, curvature = lightgbm.objective(loss)(labels, scores, None, sizes)
  queries = parts(sizes, scores, labels.astype(float), curvature / (20 / 3))
  for s, y, bound in queries:
    exact = hessian(loss, s, y)
    assert np.linalg.eigvalsh(np.diag(bound) - exact).min() > -2e-6
    assert np.linalg.eigvalsh(np.diag(bound) - 2 * exact).min() < 1e-5  # half of it is none
    if name.startswith(PAIRS):
      np.testing.assert_allclose(bound, np.maximum(2 * np.diag(exact), 1e-6), atol=1e-5)


def test_the_bound_of_softmax_is_its_chances():
  scores, labels = np.array([1.0, 0.0, 2.0]), np.array([2, 0, 1])
  _, curvature = lightgbm.objective(losses.softmax)(labels, scores, None, np.array([3]))
  chances = np.exp(scores) / np.exp(scores).sum()
  np.testing.assert_allclose(curvature, 3 * 3 * chances, rtol=1e-5)


@quick("loss", [losses.lambda_rank, losses.softmax, smooth_ndcg], [losses.softmax])
def test_the_diagonal_is_that_of_the_hessian(loss):
  rng = np.random.default_rng(5)
  scores, labels, sizes = rng.normal(size=12), rng.integers(0, 3, 12), np.array([5, 7])
  _, curvature = lightgbm.objective(loss, curvature="diagonal")(labels, scores, None, sizes)
  exact = [np.diag(hessian(loss, *query)) for query in parts(sizes, scores, labels.astype(float))]
  expected = np.maximum(np.concatenate(exact), 1e-6)
  np.testing.assert_allclose(curvature / 6, expected, atol=1e-5)


def test_other_losses_have_the_size_of_the_gradient():
  scores, labels, sizes = ragged(6)
  slope, curvature = lightgbm.objective(squares)(scores, Data(labels, sizes))
  size = np.abs(slope)
  assert curvature.min() > 0
  for g, h in parts(sizes, size, curvature):
    np.testing.assert_allclose(h, np.maximum(g, g.mean() / 10), rtol=1e-5, atol=3e-5)


def test_a_curvature_may_be_a_function():
  scores, labels, sizes = ragged(7)
  ours = xgboost.objective(squares, curvature=lambda s, y, where: s**2 + 1)
  _, curvature = ours(scores, Data(labels, sizes))
  factor = len(labels) / np.count_nonzero(sizes)
  np.testing.assert_allclose(curvature, factor * (scores**2 + 1), rtol=1e-5)


def test_a_length_is_compiled_once():
  lengths = []

  def loss(scores, labels, where):
    lengths.append(scores.shape[1])
    return squares(scores, labels, where)

  scores, labels, sizes = ragged(8, longest=40, queries=60)
  ours = lightgbm.objective(loss)
  lengths.clear()
  for _ in range(3):
    ours(scores, Data(labels, sizes))
  assert sorted(lengths) == [16, 32, 64]
  # A part of the queries, in another order, has the same shapes; a copy has the same programs.
  order = [i for i in np.arange(sizes.size)[::-1] if sizes[i]]
  index = np.concatenate([np.arange(sizes[:i].sum(), sizes[: i + 1].sum()) for i in order])
  copy.deepcopy(ours)(scores[index], Data(labels[index], sizes[order]))
  assert len(lengths) == 3


def test_few_long_queries_take_the_short_ones_along():
  lengths = []

  def loss(scores, labels, where):
    lengths.append(scores.shape[1])
    return squares(scores, labels, where)

  sizes = np.array([3, *[1000] * 40])
  ours = lightgbm.objective(loss)
  lengths.clear()
  ours(np.zeros(sizes.sum()), Data(np.arange(sizes.sum()) % 3, sizes))
  assert lengths == [1024]


def test_queries_that_teach_nothing_are_counted_once_for_a_data_set():
  sizes = np.array([3, 2, 0, 1, 2, 3])
  labels = np.array([0, 1, 2, 1, 1, 1, -1, -2, 0, 0, 1])
  scores = np.linspace(0, 1, labels.size)
  message = (
    r"3 of 5 queries have no gradient, because their labels are all equal \(2, 1 of one row\) or "
    r"all negative \(1\)"
  )
  for make in (lightgbm, xgboost):
    ours = make.objective(losses.pairwise_logistic)
    with pytest.warns(UserWarning, match=message) as caught:
      ours(scores, Data(labels, sizes))
    assert len(caught) == 1
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      ours(scores + 1, Data(labels, sizes))
      # Equal labels are silent only if the loss is.
      make.objective(squares, curvature="diagonal")(scores + 2, Data(labels, sizes))


def test_metrics_of_equal_measures_share_programs():
  traced = []

  def kernel(ranked):
    traced.append(ranked.n)
    return ranked.expect(ranked.relevant(), jr.discounts.reciprocal)

  metric = jr.metric(kernel)
  rng = np.random.default_rng(0)
  counts = []
  for queries in (20, 23, 29):
    # Another fold, with about as many queries.
    sizes = rng.integers(3, 8, queries)
    labels = rng.integers(0, 3, sizes.sum())
    lightgbm.metrics(["RR", metric])(rng.normal(size=labels.size), Data(labels, sizes))
    counts.append(len(traced))
  assert counts[0] == counts[-1] > 0


def test_a_ranker_of_xgboost_is_named():
  """It calls a metric with the labels and scores of one query."""
  for made in (xgboost.metrics("nDCG@10"), xgboost.objective(losses.softmax)):
    with pytest.raises(
      TypeError, match=r"xgboost.*got ndarray and ndarray: XGBRanker .* xgboost.train"
    ):
      made(np.zeros(3), np.zeros(3))


def test_metrics_are_means_over_queries():
  scores, labels, sizes = ragged(9, longest=5)
  rng = np.random.default_rng(0)
  of_rows, of_queries = rng.random(labels.size), rng.random(sizes.size)
  alone = [
    [float(metric(s, y)) for metric in (jr.reciprocal_rank, jr.fall_out)]
    for s, y in parts(sizes, scores, labels)
  ]
  found = lightgbm.metrics([jr.reciprocal_rank, jr.fall_out])(scores, Data(labels, sizes))
  assert [(name, better) for name, _, better in found] == [
    ("reciprocal_rank", True),
    ("fall_out", False),
  ]
  np.testing.assert_allclose([x for _, x, _ in found], np.mean(alone, axis=0), rtol=1e-5)

  means = [w.mean() for (w,) in parts(sizes, of_rows)]
  found = lightgbm.metrics([jr.reciprocal_rank, jr.fall_out])(scores, Data(labels, sizes, of_rows))
  expected = np.average(alone, axis=0, weights=means)
  np.testing.assert_allclose([x for _, x, _ in found], expected, rtol=1e-5)

  found = xgboost.metrics([jr.reciprocal_rank, jr.fall_out])(
    scores, Data(labels, sizes, of_queries)
  )
  expected = np.average(alone, axis=0, weights=of_queries[sizes > 0])
  np.testing.assert_allclose([x for _, x in found], expected, rtol=1e-5)
  nothing = xgboost.metrics("RR")(scores, Data(labels, sizes, 0 * of_queries))
  assert nothing == [("pre_RR", 0.0)]


def maximised(name):
  """The rule of `xgboost.callback.EarlyStopping`."""
  starts = ("auc", "aucpr", "pre", "pre@", "map", "ndcg", "auc@", "aucpr@", "map@", "ndcg@")
  return name != "mape" and name.startswith(starts)


def test_names_tell_xgboost_the_direction():
  names = "ndcg nDCG@10 AP P@5 precision@5 RR ERR@20 recall@3 AUC kendall_tau fall_out@5 RBP"
  ours = xgboost.metrics(names)
  for name, measure in zip(ours.names, ours.measures, strict=False):
    assert maximised(name) == measure.description.higher_is_better
  assert {"ndcg@10", "pre_RR", "fall_out@5", "pre@5"} <= {*ours.names}
  odd = [jr.Measure(jr.fall_out, name="preference"), jr.Measure(jr.ndcg, name="mape")]
  odd += [jr.Measure(jr.recall, name="in: words")]
  assert xgboost.metrics(odd).names == ("less_preference", "pre_mape", "pre_in__words")
  with pytest.raises(ValueError, match=r"xgboost.metrics: two measures .* 'ndcg@10'"):
    xgboost.metrics("nDCG@10 ndcg@10")


def test_objectives_and_metrics_pickle():
  scores, labels, sizes = ragged(10)
  for make in (lightgbm, xgboost):
    ours = make.objective(squares, curvature="diagonal")
    again = pickle.loads(pickle.dumps(ours))
    data = Data(labels, sizes)
    np.testing.assert_array_equal(ours(scores, data), again(scores, data))
    means = make.metrics("RR P@5")
    assert pickle.loads(pickle.dumps(means))(scores, data) == means(scores, data)
    assert "squares" in repr(ours)
    assert repr(means) == "metrics('RR P@5')"


@pytest.mark.parametrize("make", [lightgbm, xgboost], ids=["lightgbm", "xgboost"])
def test_bad_losses_are_named_before_training(make):
  name = rf"{make.__name__.rpartition('.')[2]}.objective: "
  mean = P(_mean, losses.softmax)
  exact = P(_less, jr.ndcg)
  for loss, error, words in [
    (3, TypeError, "loss must be a function"),
    (lambda scores, labels: scores.sum(-1), TypeError, "scores, labels, where=where"),
    (mean, ValueError, r"one value for each query, of shape \(2,\) .* got shape \(\)"),
    (lambda s, y, where: [s, y], ValueError, "one value for each query.* got list"),
    (lambda s, y, where: jnp.argmax(s, axis=-1), TypeError, "loss must be real, got int32"),
    (exact, ValueError, r"not differentiable: .* ranking=jaxrank.Laplace\(1.0\)"),
    (lambda s, y, where: jnp.sum(jnp.round(s), -1), ValueError, "not differentiable"),
    (lambda s, y, where: _no_gradient(s), ValueError, "not differentiable: "),
  ]:
    with pytest.raises(error, match=name + ".*" + words):
      make.objective(loss)
  with pytest.raises(ValueError, match=name + "curvature must be one of 'bound', 'diagonal'"):
    make.objective(squares, curvature="exact")
  with pytest.raises(ValueError, match=name + r"curvature: the callable .* \(2, 8\), got \(2,\)"):
    make.objective(squares, curvature=lambda s, y, where: s.sum(-1))
  with pytest.raises(ValueError, match=name + "curvature: 'diagonal' does not exist"):
    make.objective(_once, curvature="diagonal")


def _mean(loss, scores, labels, where):
  return jnp.mean(loss(scores, labels, where=where))


def _less(metric, scores, labels, where):
  return 1 - metric(scores, labels, where=where)


def _no_gradient(scores):
  """A loop of unknown length, which has no reverse mode."""
  return jax.lax.while_loop(lambda x: jnp.any(x > 1), lambda x: x / 2, scores).sum(-1)


@jax.custom_vjp
def _first_derivative_only(scores):
  return jnp.sum(scores**2, axis=-1)


_first_derivative_only.defvjp(lambda s: (jnp.sum(s**2, axis=-1), s), lambda s, g: (_pure(s),))


def _pure(scores):
  return jax.pure_callback(
    lambda s: 2 * s, jax.ShapeDtypeStruct(scores.shape, scores.dtype), scores
  )


def _once(scores, labels, where):
  return _first_derivative_only(scores)


@pytest.mark.parametrize("make", [lightgbm, xgboost], ids=["lightgbm", "xgboost"])
def test_bad_data_are_named(make):
  ours, means = make.objective(squares), make.metrics("RR")
  name = make.__name__.rpartition(".")[2]
  scores, labels, sizes = np.zeros(5), np.arange(5.0), np.array([2, 3])
  wrong = labels.copy()
  wrong[3] = np.nan
  for given, data, words in [
    (scores, Data(labels, [2, 2]), r"the groups sum to 4, but there are labels of shape \(5,\)"),
    (scores, Data(labels, []), "the data have no groups, .* pass group="),
    (scores, Data(labels, [2.5, 2.5]), "groups must be numbers of rows"),
    (scores, Data(labels, [6, -1]), "groups must be numbers of rows"),
    (wrong, Data(labels, sizes), r"the score of row 3, in query 1, is nan \(1 such row\)"),
    (scores[:4], Data(labels, sizes), r"scores must have shape \(5,\), got \(4,\)"),
    (scores, Data(wrong, sizes), "the label of row 3, in query 1, is nan"),
    (scores, Data(labels, sizes, np.ones(3)), r"weights must have shape .*, got \(3,\)"),
  ]:
    for kind, call in (("objective", ours), ("metrics", means)):
      with pytest.raises(ValueError, match=f"^{name}.{kind}: {words}"):
        call(given, data)
  broken = make.objective(lambda s, y, where: jnp.sum(jnp.sqrt(s), axis=-1))
  with pytest.raises(ValueError, match="the gradient of row 0, in query 0, is inf"):
    broken(scores, Data(labels, sizes))
  for value in (0.0, -1.0, np.nan):
    flat = make.objective(squares, curvature=lambda s, y, where, c=value: 0 * s + c)
    with pytest.raises(ValueError, match="the curvature of row 0, .* must be positive"):
      flat(scores, Data(labels, sizes))


@thorough
def test_many_data_sets_do_not_add_up():
  ours = lightgbm.objective(squares)
  for seed in range(40):
    scores, labels, sizes = ragged(seed)
    slope, _ = ours(scores, Data(labels, sizes))
    factor = len(labels) / np.count_nonzero(sizes)
    np.testing.assert_allclose(slope, factor * 4 * (scores - labels) ** 3, rtol=1e-5)
  assert len(ours._buckets._buckets) == 32
