"""Metrics of a user's, outside the package, have the rights of our own."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from tests.helpers import user_metrics
from tests.helpers.suites import quick, thorough

BPREF = user_metrics.AFFINE["bpref"]
BENT = user_metrics.BENT["bent"]
LAPLACE = jr.Laplace(0.5)
QUERIES, N = 8, 40


@pytest.fixture
def lists():
  """Scores with ties and items not retrieved, labels of which some are unjudged, and a mask."""
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 12, (QUERIES, N)).astype(np.float32)
  scores[rng.random(scores.shape) < 0.1] = -np.inf
  labels = rng.integers(-1, 4, scores.shape).astype(np.float32)
  return scores, labels, rng.random(scores.shape) < 0.9


def distinct(lists):
  """The same with scores without ties."""
  scores = np.random.default_rng(1).standard_normal(lists[0].shape).astype(np.float32)
  return np.where(lists[0] > -np.inf, scores, lists[0]), *lists[1:]


def same(found, expected, rtol=1e-5, atol=1e-6):
  np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def test_a_bpref_of_ones_own_is_ours(lists):
  scores, labels, where = lists
  same(BPREF(scores, labels, where=where), jr.bpref(scores, labels, where=where, rel=1))
  assert "binary preference" in BPREF.__doc__.lower()


def sorts(measures, lists):
  """Compare-exchange stages of a network over 64-bit words, and sorts, in the program.

  It is compiled for as many queries as the network is taken for.
  """
  run = jax.jit(lambda s, y, w: jr.evaluate(measures, s, y, where=w))
  many = [np.tile(x, (16, 1)) for x in lists]
  lines = run.lower(*many).compile().as_text().splitlines()
  stages = sum("minimum(" in line and " s64[" in line for line in lines)
  return stages, sum(" sort(" in line for line in lines)


def test_evaluate_ranks_once_for_metrics_of_a_users_and_ours(lists):
  mine = jr.Measure(BPREF, name="mine", rel=2)
  measures = ["nDCG@10 AP", mine, BPREF, BENT]
  values = jr.evaluate(measures, *lists[:2], where=lists[2])
  assert list(values) == ["nDCG@10", "AP", "mine", "bpref", "bent"]
  same(values["bpref"], jr.bpref(*lists[:2], where=lists[2]))
  same(values["mine"], jr.bpref(*lists[:2], where=lists[2], rel=2))
  same(values["bent"], BENT(*lists[:2], where=lists[2]))
  stages, other = sorts("nDCG@10 AP", lists)
  assert stages > 0
  assert sorts(["nDCG@10 AP", BPREF, BENT], lists) == (stages, other)


@pytest.mark.parametrize("name", ["bpref", "bent"])
def test_an_evaluator_streams_them(name, lists):
  metric = {"bpref": BPREF, "bent": BENT}[name]
  evaluator = jr.Evaluator(["nDCG@10 AP", metric], empty="skip")
  state = evaluator.init()
  update = jax.jit(evaluator.update)
  for part in (slice(0, 4), slice(4, 8)):
    state = update(state, lists[0][part], lists[1][part], where=lists[2][part])
  means = evaluator.compute(state)
  values = metric(*lists[:2], where=lists[2])
  sought = (lists[2] & (lists[1] > 0)).any(-1)
  same(means[name], values[sought].mean())


@quick("name", ["bpref", "bent"], ["bpref"])
def test_they_train_under_laplace(name, lists):
  metric = {"bpref": BPREF, "bent": BENT}[name]
  scores, labels, where = distinct(lists)
  direction = np.random.default_rng(2).standard_normal(scores.shape)
  ranking = jr.Laplace(1.0)
  with jax.enable_x64(True):
    scores, labels = scores.astype(np.float64), labels.astype(np.float64)

    @jax.jit
    def value(scores):
      return jnp.sum(metric(scores, labels, where=where, ranking=ranking))

    slope = jax.jit(jax.grad(value))(scores)
    step = np.where(where & (scores > -np.inf), 1e-5 * direction, 0)
    rise = (value(scores + step) - value(scores - step)) / 2e-5
    same(np.sum(np.where(step, slope * direction, 0)), rise, rtol=1e-6)
    assert rise != 0
    np.testing.assert_array_equal(slope[~where | (scores == -np.inf)], 0)
    cold = metric(scores, labels, where=where, ranking=jr.Laplace(1e-7))
    same(cold, metric(scores, labels, where=where))


def both(metric, **parameters):
  """Value and gradient of `lambda_rank`."""

  def total(scores, labels, where):
    value = jr.losses.lambda_rank(scores, labels, where=where, metric=metric, **parameters)
    return jnp.sum(value), value

  def call(*lists):
    (_, value), slope = jax.value_and_grad(total, has_aux=True)(*lists)
    return value, slope

  return jax.jit(call)


@quick("name", user_metrics.AFFINE, [*user_metrics.AFFINE][:4])
def test_lambda_rank_takes_what_is_affine(name, lists):
  value, slope = map(np.asarray, both(user_metrics.AFFINE[name])(*lists))
  assert np.all(np.isfinite(slope))
  np.testing.assert_array_equal(slope[~lists[2] | (lists[0] == -np.inf)], 0)
  assert name == "constant" or np.any(slope != 0)
  assert np.all(value >= 0)


@thorough
@pytest.mark.parametrize(
  ("ranking", "told"), [(LAPLACE, False), (LAPLACE, True), (jr.Gumbel(0.5), False)]
)
def test_users_are_asked_one_after_the_other(ranking, told, lists):
  """Whether or not `each_user` knows the cut-off, the query answers the same question later."""
  scores, labels, where = distinct(lists)

  def together(ranked):
    b = jnp.stack([ranked.relevant(rel) for rel in (1, 2)], axis=1)
    question = functools.partial(ranked.precision, k=3)
    found = ranked.each_user(ranked.precision, b, k=3) if told else ranked.each_user(question, b)
    return jnp.sum(found) + ranked.precision(ranked.relevant(3), k=3)

  def apart(ranked):
    return sum(ranked.precision(ranked.relevant(rel), k=3) for rel in (1, 2, 3))

  def of(kernel):
    metric = functools.partial(jr.metric(kernel), labels=labels, where=where, ranking=ranking)
    return jax.jit(jax.value_and_grad(lambda scores: jnp.sum(metric(scores))))(scores)

  for found, expected in zip(of(together), of(apart), strict=True):
    same(found, expected, atol=1e-5)


def test_gradients_of_lambda_rank_are_slopes(lists):
  scores, labels, where = distinct(lists)
  direction = np.random.default_rng(3).standard_normal(scores.shape)
  with jax.enable_x64(True):
    scores, labels = scores.astype(np.float64), labels.astype(np.float64)
    run = both(BPREF)
    _, slope = run(scores, labels, where)
    step = np.where(where & (scores > -np.inf), 1e-6 * direction, 0)
    up, down = (run(x, labels, where)[0] for x in (scores + step, scores - step))
    same(np.where(step, slope * direction, 0).sum(-1), (up - down) / 2e-6, rtol=1e-6)


def test_lambda_rank_takes_measures_names_and_metrics(lists):
  rank = functools.partial(jr.losses.lambda_rank, *lists[:2], where=lists[2])
  expected = rank(metric=jr.ndcg, k=10)
  for metric in ("nDCG@10", "ndcg(k=10)", "ndcg_cut_10", jr.Measure(jr.ndcg, k=10)):
    same(rank(metric=metric), expected)
  same(rank(k=10), expected)
  same(rank(metric=jr.Measure(BPREF, rel=2, name="mine")), rank(metric=jr.bpref, rel=2))
  same(rank(metric=BPREF, rel=2), rank(metric="Bpref(rel=2)"))
  same(rank(metric="ERR@5"), rank(metric=jr.err, k=5, max_label=4))
  same(rank(metric=jr.ndcg, gain=jr.gains.exponential), rank(metric="ndcg_burges"))
  exponential = jr.losses.lambda_ndcg(*lists[:2], where=lists[2], gain=jr.gains.exponential)
  same(rank(metric=jr.ndcg, gain=jr.gains.exponential), exponential)


def test_mistakes_of_lambda_rank_are_named(lists):
  rank = functools.partial(jr.losses.lambda_rank, *lists[:2], where=lists[2])
  for metric in ("nDCG@10", jr.Measure(jr.ndcg, k=10), jr.Measure(BPREF)):
    with pytest.raises(TypeError, match=r"^lambda_rank: k.*measure or a name"):
      rank(metric=metric, k=3)
  with pytest.raises(TypeError, match="bpref does not take 'depth'; it takes rel"):
    rank(metric=BPREF, depth=3)
  with pytest.raises(TypeError, match="err needs max_label"):
    rank(metric=jr.err)
  with pytest.raises(ValueError, match="expected one measure"):
    rank(metric="nDCG@10 AP")
  with pytest.raises(ValueError, match=r"(?s)ndgc.*ndcg"):
    rank(metric="ndgc@10")
  for wrong in (max, 3, None):
    with pytest.raises(TypeError, match="^lambda_rank: .*a metric such as jaxrank.ndcg"):
      rank(metric=wrong)
  with pytest.raises(jr.UnansweredError, match="^bent: .*affine"):
    rank(metric=BENT)


def test_lambda_rank_descends_what_is_better_lower(lists):
  scores, labels, where = distinct(lists)
  for metric in (functools.partial(jr.fall_out, k=5), user_metrics.AFFINE["wasted"]):
    own = {"k": 5} if isinstance(metric, functools.partial) else {}
    step = both(jr.fall_out if own else metric, **own)
    trained = scores
    for _ in range(60):
      trained = trained - 0.5 * np.asarray(step(trained, labels, where)[1])
    before, after = (np.asarray(metric(x, labels, where=where)) for x in (scores, trained))
    assert np.all(after <= before)
    assert after.mean() < before.mean() - 0.05


@thorough
def test_lambda_rank_of_a_users_metric_on_many_devices(lists):
  value, slope = both(BPREF)(*lists)
  each = jax.jit(jax.vmap(lambda *x: jr.losses.lambda_rank(*x[:2], where=x[2], metric=BPREF)))
  same(each(*lists), value)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Auto,))
  spread = jax.shard_map(both(BPREF), mesh=mesh, in_specs=P("q"), out_specs=P("q"))
  same(jax.jit(spread)(*lists)[1], slope, rtol=1e-4)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    placed = [jax.device_put(x, NamedSharding(mesh, P("q", None))) for x in lists]
    spread_value, spread_slope = both(BPREF)(*placed)
    assert jax.typeof(spread_slope).sharding.spec == P("q", None)
    same(spread_value, value)
    same(spread_slope, slope, rtol=1e-4)


def test_pickles_of_a_users_metric(lists):
  copy = pickle.loads(pickle.dumps(BPREF))
  measure = jr.Measure(BPREF, rel=2, name="mine")
  for one, other in ((copy, BPREF), (pickle.loads(pickle.dumps(measure)), measure)):
    np.testing.assert_array_equal(one(*lists[:2]), other(*lists[:2]))


def test_a_comparison_of_facts_inside_of_a_program_leaves_a_metric_affine():
  @jax.jit
  def masked(answer, fact):
    return jnp.where(fact > 1, answer, 0)

  def hits(ranked):
    return ranked.expect(ranked.relevant(), jr.discounts.reciprocal)

  def plain(ranked):
    return jnp.where(ranked.labels[0] > 1, hits(ranked), 0)

  def affine(ranked):
    return masked(hits(ranked), ranked.labels[0])

  def compared(ranked):
    return masked(ranked.labels[0], hits(ranked))

  lists = jnp.array([3.0, 2.0, 1.0]), jnp.array([2.0, 0.0, 1.0])
  expected = jr.losses.lambda_rank(*lists, metric=jr.metric(plain))
  assert expected > 0
  assert jr.losses.lambda_rank(*lists, metric=jr.metric(affine)) == expected
  with pytest.raises(jr.UnansweredError, match="not affine"):
    jr.losses.lambda_rank(*lists, metric=jr.metric(compared))
