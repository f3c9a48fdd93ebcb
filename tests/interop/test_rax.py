"""`jaxrank.interop.rax` without rax: plain Python oracles, the laws of masks and segments, docs."""

import copy
import functools
import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank.interop import rax
from tests.helpers import rax_oracles as oracles
from tests.helpers.suites import quick, thorough

LISTS, ITEMS, SEGMENTS = 60, 9, 3
RNG = np.random.default_rng(5)
SHAPE = (LISTS, ITEMS)
WHERE = RNG.random(SHAPE) < 0.75
WHERE[:3] = False
SEGMENT = RNG.integers(-1, SEGMENTS - 1, size=SHAPE).astype(np.int32)
LABELS = (RNG.integers(4, size=SHAPE) * (RNG.random((LISTS, 1)) < 0.9)).astype(np.float32)
SCORES = RNG.normal(size=SHAPE).astype(np.float32)
# For metrics: some ties, some unranked.
COARSE = np.where(RNG.random(SHAPE) < 0.1, -np.inf, np.round(2 * SCORES)).astype(np.float32)
WEIGHTS = RNG.random(SHAPE).astype(np.float32)
WEIGHTED = ("dcg_metric", "ndcg_metric")
LOSSES = [*oracles.LISTWISE, *oracles.SUMS]
SIGNATURES = {
  "ap_metric": "where segments topn key rank_fn cutoff_fn reduce_fn",
  "mrr_metric": "where segments topn key rank_fn cutoff_fn reduce_fn",
  "precision_metric": "where segments topn key rank_fn cutoff_fn reduce_fn",
  "recall_metric": "where segments topn key rank_fn cutoff_fn reduce_fn",
  "dcg_metric": ("where segments topn weights key gain_fn discount_fn rank_fn cutoff_fn reduce_fn"),
  "ndcg_metric": (
    "where segments topn weights key gain_fn discount_fn rank_fn cutoff_fn reduce_fn"
  ),
  "opa_metric": "where reduce_fn",
  "softmax_loss": "where segments weights label_fn reduce_fn",
  "poly1_softmax_loss": "epsilon where segments weights reduce_fn",
  "unique_softmax_loss": "where segments weights gain_fn reduce_fn",
  "listmle_loss": "key where segments reduce_fn",
  "pointwise_mse_loss": "where segments weights reduce_fn",
  "pointwise_sigmoid_loss": "where segments weights reduce_fn",
  "pairwise_hinge_loss": "where segments weights lambdaweight_fn reduce_fn",
  "pairwise_logistic_loss": "where segments weights lambdaweight_fn reduce_fn",
  "pairwise_mse_loss": "where segments weights lambdaweight_fn reduce_fn",
  "pairwise_qr_loss": "where segments weights tau squared lambdaweight_fn reduce_fn",
  "pairwise_soft_zero_one_loss": "where segments weights lambdaweight_fn reduce_fn",
  "labeldiff_lambdaweight": "where segments weights",
  "dcg_lambdaweight": "where segments weights topn normalize gain_fn discount_fn",
  "dcg2_lambdaweight": ("where segments weights topn normalize gain_fn discount_fn light_discount"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_are_those_of_rax(name):
  arguments = inspect.signature(getattr(rax, name)).parameters.values()
  assert [a.name for a in arguments] == ["scores", "labels", *SIGNATURES[name].split()]
  assert all(a.kind is a.KEYWORD_ONLY for a in list(arguments)[2:])


@pytest.mark.parametrize("name", SIGNATURES)
def test_functions_are_what_they_are_called(name):
  """Also those of a family, whose arguments are written once."""
  function = getattr(rax, name)
  assert function.__name__ == function.__qualname__ == name
  assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function
  signature = inspect.signature(function)
  annotations = {a.name: a.annotation for a in signature.parameters.values()}
  assert annotations | {"return": jax.Array} == inspect.get_annotations(function)
  assert signature.return_annotation is jax.Array
  with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required .* 'labels'$"):
    function(SCORES)
  with pytest.raises(TypeError, match=rf"^{name}\(\) takes 2 positional arguments but 3 were"):
    function(SCORES, LABELS, WHERE)
  with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'k'"):
    function(SCORES, LABELS, k=3)


def takes(name, **own):
  """Those of the arguments that a function takes."""
  taken = inspect.signature(getattr(rax, name)).parameters
  return {key: value for key, value in own.items() if key in taken}


def hostile(x):
  """What stands under the mask replaced."""
  return np.where(WHERE, x, np.where(RNG.random(SHAPE) < 0.5, np.nan, 1e9)).astype(x.dtype)


def by_list(oracle, scores, *args):
  """The values of an oracle of lists without their padding; 0 of nothing."""
  rows = zip(scores, LABELS, WEIGHTS, WHERE, strict=True)
  lists = [[x[where].astype(float).tolist() for x in values] for *values, where in rows]
  return [oracle(*one, *args) if one[0] else 0 for one in lists]


REDUCTIONS = {"none": None, "mean": jnp.mean, "sum": jnp.sum}


@functools.cache
def measured(coarse=False, topn=None):
  """All metrics, or all losses, of the padded lists, with every reduction: one program."""

  @jax.jit
  def values(scores, labels, where, weights):
    return {
      (name, how): getattr(rax, name)(
        scores, labels, where=where, reduce_fn=reduce_fn, **takes(name, topn=topn, weights=weights)
      )
      for name in ([*oracles.METRICS, "opa_metric"] if coarse else LOSSES)
      for how, reduce_fn in REDUCTIONS.items()
    }

  return values(*map(hostile, (COARSE if coarse else SCORES, LABELS)), WHERE, hostile(WEIGHTS))


@quick("topn", [None, 3], [3])
@pytest.mark.parametrize("name", [*oracles.METRICS, "opa_metric", *oracles.LISTWISE])
def test_metrics_and_losses_of_lists_mean_what_they_say(name, topn):
  if name in oracles.METRICS:
    values, got = by_list(oracles.METRICS[name], COARSE, topn), measured(True, topn)
  elif name == "opa_metric":
    values, got = by_list(oracles.opa, COARSE), measured(True)
  else:
    values, got = by_list(oracles.LISTWISE[name], SCORES), measured()
  np.testing.assert_allclose(got[name, "none"], values, rtol=1e-5)
  np.testing.assert_allclose(got[name, "mean"], np.mean(np.array(values)[WHERE.any(-1)]), rtol=1e-5)
  np.testing.assert_allclose(got[name, "sum"], np.sum(values), rtol=1e-5)


@pytest.mark.parametrize("name", oracles.SUMS)
def test_losses_of_pairs_and_points_are_means_over_the_batch(name):
  sums = [x or (0, 0) for x in by_list(oracles.SUMS[name], SCORES)]
  total, count = np.sum(sums, axis=0)
  got = measured()
  np.testing.assert_allclose(got[name, "mean"], total / count, rtol=1e-5)
  np.testing.assert_allclose(got[name, "sum"], total, rtol=1e-5)
  one_by_one = got[name, "none"]
  assert one_by_one.shape == ((LISTS, ITEMS**2) if name.startswith("pair") else SHAPE)
  np.testing.assert_allclose(one_by_one.sum(-1), [s for s, _ in sums], rtol=1e-5, atol=1e-6)


@thorough
def test_segments_are_lists_of_their_own():
  """The value of each segment stands at its first valid item, and elsewhere is 0."""

  def values(scores, coarse, labels, weights, **lists):
    return {
      name: getattr(rax, name)(
        coarse if name in oracles.METRICS else scores,
        labels,
        reduce_fn=None,
        **takes(name, topn=2, weights=weights, **lists),
      )
      for name in (*oracles.METRICS, *oracles.LISTWISE, "pairwise_hinge_loss", "pointwise_mse_loss")
    }

  values = jax.jit(values)
  given = SCORES, COARSE, LABELS, WEIGHTS
  got = values(*map(hostile, given), where=WHERE, segments=SEGMENT)
  member = WHERE & (np.arange(-1, SEGMENTS - 1)[:, None, None] == SEGMENT)
  each = values(*(np.broadcast_to(x, (SEGMENTS, *SHAPE)) for x in given), where=member)
  for name, apart in each.items():
    if apart.shape == (SEGMENTS, LISTS):
      apart = np.where(member & (member.cumsum(-1) == 1), apart[..., None], 0)
    total = np.sum(apart, axis=0)
    np.testing.assert_allclose(got[name], total, rtol=1e-5, atol=1e-6, err_msg=name)


def test_segments_of_a_function_that_knows_none():
  assert rax.segment_t12n(rax.ndcg_metric) is rax.ndcg_metric
  opa = rax.segment_t12n(rax.opa_metric)
  got = opa(COARSE, LABELS, where=WHERE, segments=SEGMENT, reduce_fn=None)
  for index in np.arange(-1, SEGMENTS - 1):
    member = index == SEGMENT
    alone = rax.opa_metric(COARSE, LABELS, where=WHERE & member, reduce_fn=None)
    first = member & (member.cumsum(-1) == 1)
    np.testing.assert_allclose(np.sum(np.where(first, got, 0), -1), alone, rtol=1e-6)
  np.testing.assert_array_equal(opa(COARSE, LABELS), rax.opa_metric(COARSE, LABELS))


def long_lists():
  """The shapes of a batch whose masks of pairs would show."""
  n = 1021
  return [jax.ShapeDtypeStruct((2, n), x) for x in (jnp.float32, jnp.float32, bool, jnp.int32)], n


@thorough
@pytest.mark.parametrize(
  "name", [*oracles.METRICS, *oracles.LISTWISE, "approx_ndcg", "opa_metric", *oracles.SUMS]
)
def test_no_array_of_all_pairs(name):
  metric = rax.approx_t12n(rax.ndcg_metric) if name == "approx_ndcg" else getattr(rax, name)
  shapes, n = long_lists()

  def value(scores, labels, where, segments):
    own = {} if name == "opa_metric" else {"segments": segments}
    return metric(scores, labels, where=where, **own)

  program = jax.jit(value).lower(*shapes).as_text()
  rows = 2**19 // (2 * n)
  assert f"{n}x{n}x" not in program
  assert (f"{rows}x{n}x" in program) == name.startswith("pairwise")


def test_gradients_of_losses_know_no_padding_and_no_nan():
  def losses(scores):
    own = {"where": WHERE, "weights": WEIGHTS, "segments": SEGMENT}
    return jnp.stack([getattr(rax, name)(scores, LABELS, **takes(name, **own)) for name in LOSSES])

  check_slopes(losses)


def smooth_metrics(scores, labels, where, reduce_fn=jnp.mean):
  """Two smooth metrics in one array."""
  own = {"where": where, "topn": 3, "reduce_fn": reduce_fn}
  metrics = [rax.approx_t12n(rax.ap_metric), rax.bound_t12n(rax.ndcg_metric)]
  return jnp.stack([metric(scores, labels, **own) for metric in metrics])


@thorough
def test_gradients_of_smooth_metrics_know_no_padding_and_no_nan():
  labels = hostile(LABELS)
  check_slopes(lambda scores: smooth_metrics(scores, labels, WHERE))


def check_slopes(losses):
  """A NaN of any loss would be one of their sum."""
  scores = hostile(np.where(COARSE > -1, SCORES, -np.inf))
  slope = jax.jit(jax.grad(lambda scores: jnp.sum(losses(scores))))(scores)
  assert np.isfinite(slope).all()
  assert (slope[~WHERE] == 0).all()
  assert (slope[np.isneginf(scores)] == 0).all()
  assert (slope[WHERE & np.isfinite(scores)] != 0).mean() > 0.8


def test_smooth_metrics_know_no_padding():
  smooth = jax.jit(functools.partial(smooth_metrics, reduce_fn=None))
  alone = smooth(SCORES[:, :6], LABELS[:, :6], np.ones((LISTS, 6), bool))
  where = np.tile(np.arange(ITEMS) < 6, (LISTS, 1))
  padded = [np.where(where, x, y) for x, y in ((SCORES, np.float32(9)), (LABELS, np.float32(3)))]
  np.testing.assert_allclose(smooth(*padded, where), alone, rtol=1e-5, atol=1e-6)


def test_approximate_metrics_become_exact():
  scores = RNG.permuted(np.tile(np.arange(ITEMS, dtype=np.float32), (LISTS, 1)), axis=1)

  def pairs(scores):
    for name in ("ap_metric", "dcg_metric"):
      own = takes(name, weights=WEIGHTS, topn=3, segments=SEGMENT)
      metric = functools.partial(getattr(rax, name), where=WHERE, reduce_fn=None, **own)
      yield rax.approx_t12n(metric, temperature=1e-3)(scores, LABELS), metric(scores, LABELS)

  for smooth, exact in jax.jit(lambda scores: list(pairs(scores)))(scores):
    np.testing.assert_allclose(-smooth, exact, rtol=1e-5, atol=1e-6)


def test_hinges_bound_metrics():
  for name in ("mrr_metric", "ndcg_metric"):
    metric = functools.partial(getattr(rax, name), where=WHERE, reduce_fn=None)
    bound, value = jax.jit(rax.bound_t12n(metric)), jax.jit(metric)
    assert (bound(SCORES, LABELS) >= -value(SCORES, LABELS) - 1e-6).all()


@thorough
def test_sigmoid_ranks_are_sums_over_pairs():
  scores = hostile(np.where(COARSE > -2, SCORES, -np.inf))
  for step, name in ((None, "pairs"), (jax.nn.sigmoid, "default")):
    step = step or (lambda x: 1 / (1 + jnp.exp(-x)))
    got = rax.utils.approx_ranks(scores, where=WHERE, segments=SEGMENT, step_fn=step)
    for i, j in np.argwhere(WHERE)[:60]:
      others = WHERE[i] & (SEGMENT[i] == SEGMENT[i, j]) & (np.arange(ITEMS) != j)
      with np.errstate(invalid="ignore", over="ignore"):
        gap = np.nan_to_num(scores[i, others].astype(float) - float(scores[i, j]), nan=0.0)
        np.testing.assert_allclose(
          got[i, j], 1 + np.sum(1 / (1 + np.exp(-gap))), rtol=2e-6, err_msg=name
        )
  assert (got[~WHERE] == 1).all()


def test_ranks_and_cutoffs():
  scores = jnp.array([[2.0, 7.0], [3.0, 5.0], [3.0, 6.0]])
  np.testing.assert_array_equal(rax.utils.ranks(scores, axis=0), [[3, 1], [1, 3], [2, 2]])
  np.testing.assert_array_equal(rax.utils.cutoff(scores[:, 0], 1), [0, 1, 0])
  inside = rax.utils.cutoff(scores[:, 0], 1, where=jnp.array([True, False, False]))
  np.testing.assert_array_equal(inside, [1, 0, 0])
  by_chance = [rax.utils.ranks(scores[:, 0], key=jax.random.key(i)).tolist() for i in range(20)]
  assert {tuple(r) for r in by_chance} == {(3, 1, 2), (3, 2, 1)}
  assert rax.utils.ranks(jnp.array([jnp.nan, 1.0])).tolist() == [2, 1]
  assert rax.utils.approx_cutoff(scores[:, 0], 0).tolist() == [0, 0, 0]
  assert rax.utils.approx_cutoff(scores[:, 0], 3).tolist() == [1, 1, 1]


def test_functions_of_the_caller():
  scores, labels = jnp.array([1.0, 2.0, 3.0]), jnp.array([2, 0, 1])
  table = jnp.array([0.0, 1.0, 5.0])
  dcg = rax.dcg_metric(
    scores,
    labels,
    gain_fn=lambda label: table[label],
    discount_fn=lambda rank: jnp.array([1.0, 0.5, 0.25])[rank - 1],
  )
  np.testing.assert_allclose(dcg, 1 + 5 / 4)

  def upside_down(scores, where, key, segments=None):
    return rax.utils.ranks(-scores, where=where, segments=segments, key=key)

  def first(a, n, segments=None):
    return (a >= -n).astype(jnp.float32)

  for name in ("mrr_metric", "precision_metric", "ap_metric"):
    metric = functools.partial(getattr(rax, name), labels=labels, topn=2)
    np.testing.assert_allclose(metric(scores, rank_fn=upside_down), metric(-scores))
    np.testing.assert_allclose(metric(scores, cutoff_fn=first), metric(scores))
  assert rax.ndcg_metric(scores, labels, reduce_fn=jnp.max) == rax.ndcg_metric(scores, labels)


@thorough
def test_normalized_labels():
  share = rax.utils.normalize_probabilities(LABELS, where=WHERE, segments=SEGMENT)
  for index in np.arange(-1, SEGMENTS - 1):
    member = WHERE & (index == SEGMENT)
    total = np.sum(np.where(member, share, 0), -1)
    np.testing.assert_allclose(total, member.any(-1), rtol=1e-6)
  np.testing.assert_allclose(rax.utils.normalize_probabilities(jnp.zeros((2, 4))), 0.25)
  by_column = rax.utils.normalize_probabilities(jnp.array([[1.0, 2], [3, 2]]), axis=0)
  np.testing.assert_allclose(by_column, [[0.25, 0.5], [0.75, 0.5]])
  normalized = rax.softmax_loss(
    SCORES, LABELS, where=WHERE, label_fn=rax.utils.normalize_probabilities, reduce_fn=None
  )
  labels = np.where(LABELS.any(-1, keepdims=True, where=WHERE), LABELS, 1)
  labels = labels / np.maximum(labels.sum(-1, where=WHERE, keepdims=True), 1)
  plain = rax.softmax_loss(SCORES, labels.astype(np.float32), where=WHERE, reduce_fn=None)
  np.testing.assert_allclose(normalized, plain, rtol=1e-5)


def test_gumbel_is_the_mean_over_its_samples():
  noisy = rax.gumbel_t12n(rax.ndcg_metric, samples=3, beta=0.5)
  key = jax.random.key(1)
  given = {"where": WHERE, "segments": SEGMENT, "topn": 2, "reduce_fn": None}
  got = jax.jit(functools.partial(noisy, **given))(SCORES, LABELS, key=key)
  own, _ = jax.random.split(key)
  assert got.shape == (3, *SHAPE)
  noise = jax.random.gumbel(own, got.shape)
  one = jax.jit(functools.partial(rax.ndcg_metric, **given))
  for sample, noise_of_it in zip(got, noise, strict=True):
    np.testing.assert_allclose(sample, one(SCORES + 0.5 * noise_of_it, LABELS), rtol=1e-6)
  smooth = rax.approx_t12n(noisy)
  assert list(inspect.signature(smooth).parameters)[-1] == "key"
  assert smooth.__name__ == "approx_gumbel_ndcg_metric"


def test_smoothing_keeps_unranked_items_unranked():
  noisy = rax.gumbel_t12n(rax.recall_metric, smoothing_factor=1e-20)
  scores, labels = jnp.array([0.0, -jnp.inf]), jnp.array([1, 1])
  noisy = jax.jit(noisy)
  assert noisy(scores, labels, key=jax.random.key(0)) == 0.5
  assert np.isnan(noisy(scores.at[1].set(jnp.nan), labels, key=jax.random.key(0)))


@thorough
def test_transformations_and_dtypes():
  names = ("ap_metric", "softmax_loss")
  scores, labels = np.round(SCORES), LABELS

  def values(scores, labels, segments=SEGMENT):
    return jnp.stack([getattr(rax, name)(scores, labels, segments=segments) for name in names])

  expected = values(scores, labels)
  got = jax.jit(values)(jnp.asarray(scores, jnp.bfloat16), jnp.asarray(labels, jnp.int32))
  assert got.dtype == expected.dtype == jnp.float32
  np.testing.assert_allclose(got, expected, rtol=1e-6)
  with jax.enable_x64(True):
    given = scores.astype(float), labels.astype(float), SEGMENT.astype(int)
    wide = jax.jit(values)(*given)
  assert wide.dtype == jnp.float64
  np.testing.assert_allclose(wide, expected, rtol=1e-6)
  swept = jax.jit(jax.vmap(lambda s, y, k: rax.ndcg_metric(s, y, topn=k), (0, 0, None)))
  for k in (1, 3):
    each = rax.ndcg_metric(scores, labels, topn=k, reduce_fn=None)
    np.testing.assert_allclose(swept(scores, labels, k), each, rtol=1e-6)


def test_masks_of_other_dtypes_and_shapes():
  expected = rax.mrr_metric(SCORES, LABELS, where=WHERE)
  assert rax.mrr_metric(SCORES, LABELS, where=WHERE.astype(np.int32)) == expected
  assert rax.mrr_metric(SCORES, LABELS, where=WHERE.astype(np.float32)) == expected
  row = rax.softmax_loss(SCORES, LABELS, weights=WEIGHTS[:, :1], where=WHERE[5])
  whole = np.broadcast_to(WEIGHTS[:, :1], SHAPE), np.broadcast_to(WHERE[5], SHAPE)
  assert row == rax.softmax_loss(SCORES, LABELS, weights=whole[0], where=whole[1])


FEW = ("mrr_metric", "softmax_loss", "pairwise_hinge_loss")


@quick("names", [FEW, (*oracles.METRICS, *LOSSES)], [FEW])
def test_nan_spoils_its_segment_alone(names):
  labels, segments = jnp.array([1.0, 0.0, 1.0, 0.0]), jnp.array([0, 0, 1, 1])
  scores, without = jnp.array([jnp.nan, 1.0, 2.0, 0.5]), jnp.array([False, True, True, True])

  @jax.jit
  def spoiled(scores, labels, where, segments):
    own = {"where": where, "segments": segments}
    return {
      name: (function(scores, labels, **own), function(scores, labels, reduce_fn=None, **own))
      for name, function in ((name, getattr(rax, name)) for name in names)
    }

  everywhere = jnp.ones(4, bool)
  for name, (mean, each) in spoiled(scores, labels, everywhere, segments).items():
    assert np.isnan(mean), name
    if each.shape == (4,):
      assert np.isnan(each).tolist() == [True, False, False, False], name
  for name, (mean, _) in spoiled(scores, labels, without, segments).items():
    assert np.isfinite(mean), name
  for name, (mean, _) in spoiled(labels, scores, everywhere, segments).items():
    assert np.isnan(mean), name


@thorough
def test_nothing_to_learn_has_no_gradient():
  nothing = jnp.zeros((2, 3), bool)

  def losses(scores):
    return jnp.stack([getattr(rax, name)(scores, nothing, where=nothing) for name in LOSSES])

  ones = jnp.ones((2, 3))
  assert (jax.jit(losses)(ones) == 0).all()
  assert (jax.jit(jax.grad(lambda scores: jnp.sum(losses(scores))))(ones) == 0).all()


def test_no_pairs_no_gradient():
  loss = functools.partial(rax.pairwise_logistic_loss, labels=jnp.ones(3))
  for weight in (None, rax.labeldiff_lambdaweight):
    slope = jax.jit(jax.grad(functools.partial(loss, lambdaweight_fn=weight)))(jnp.arange(3.0))
    assert slope.tolist() == [0, 0, 0]


def test_negative_labels_are_worth_nothing_and_large_ones_are_finite():
  scores = jnp.array([1.0, 2.0])
  assert rax.ndcg_metric(scores, jnp.array([-1.0, -1.0])) == 0
  assert rax.dcg_metric(scores, jnp.array([-1.0, 0.0])) == 0
  assert rax.ndcg_metric(scores, jnp.array([200.0, 0.0])) == pytest.approx(1 / np.log2(3))


def test_precision_divides_by_what_is_retrieved():
  scores, labels = jnp.array([2.0, 1.0, -jnp.inf]), jnp.array([1, 0, 1])
  assert rax.precision_metric(scores, labels, topn=10) == 0.5


def test_lambda_weights():
  scores, labels = jnp.array([[1.0, 3.0, 2.0]]), jnp.array([[1, 0, 2]])
  same = jnp.array([[0, 0, 1]])
  got = jax.jit(rax.labeldiff_lambdaweight)(scores, labels, segments=same).reshape(3, 3)
  np.testing.assert_array_equal(got, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
  ideal = 3 + 1 / np.log2(3)
  gain, discount = np.array([1, 0, 3]), 1 / np.log2(np.array([3, 1, 2]) + 1)
  rank = np.array([3, 1, 2])
  differ = np.abs(gain[:, None] - gain)
  swap = 3 * differ * np.abs(discount[:, None] - discount) / ideal
  got = jax.jit(functools.partial(rax.dcg_lambdaweight, normalize=True))(scores, labels)
  np.testing.assert_allclose(got.reshape(3, 3), swap, rtol=1e-5, atol=1e-6)
  apart = np.maximum(np.abs(rank[:, None] - rank), 1)
  step = np.where(np.eye(3), 0, 1 / np.log2(apart + 1) - 1 / np.log2(apart + 2))
  got = jax.jit(rax.dcg2_lambdaweight)(scores, labels)
  np.testing.assert_allclose(got.reshape(3, 3), 3 * differ * step, rtol=1e-5, atol=1e-6)
  deep = np.maximum(rank[:, None], rank)
  step = np.where(np.eye(3), 0, 1 / np.log2(apart + 1))
  step = np.where(deep > 2, step / (1 - 1 / np.log2(np.maximum(deep, 2) + 1)), step)
  light = functools.partial(rax.dcg2_lambdaweight, topn=2, light_discount=True)
  got = jax.jit(light)(scores, labels)
  np.testing.assert_allclose(got.reshape(3, 3), 3 * differ * step, rtol=1e-5, atol=1e-6)


@thorough
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("options", [{}, {"topn": 2, "normalize": True}])
def test_lambda_weights_of_an_empty_list_are_empty(shape, options):
  scores, labels = jnp.zeros(shape), jnp.zeros(shape, jnp.int32)
  where, segments = jnp.ones(shape, bool), jnp.zeros(shape, jnp.int32)
  for weigh in (rax.labeldiff_lambdaweight, rax.dcg_lambdaweight, rax.dcg2_lambdaweight):
    given = options if weigh is not rax.labeldiff_lambdaweight else {}
    for own in ({}, {"where": where}, {"segments": segments}, {"weights": scores}):
      got = weigh(scores, labels, **own, **given)
      assert (got.shape, got.dtype) == (shape, jnp.float32)


def test_every_segment_has_its_own_ideal():
  """rax normalizes the gain of the first item of a segment only."""
  scores, labels = jnp.array([2.0, 1.0, 2.0, 1.0]), jnp.array([1, 0, 3, 0])
  segments = jnp.array([0, 0, 1, 1])
  weigh = jax.jit(functools.partial(rax.dcg_lambdaweight, normalize=True))
  got = weigh(scores, labels, segments=segments).reshape(4, 4)
  np.testing.assert_allclose(got[0, 1], got[2, 3], rtol=1e-6)


def test_first_valid_items_anywhere():
  """rax loses the ListMLE of a segment that starts with much padding."""
  scores, labels = jnp.array([5.0, 5.0, 5.0, 1.0, 2.0]), jnp.array([0, 0, 0, 1, 0])
  where = jnp.array([False, False, False, True, True])
  got = jax.jit(rax.listmle_loss)(scores, labels, where=where, segments=jnp.zeros(5, jnp.int32))
  np.testing.assert_allclose(got, np.log(np.e + 1), rtol=1e-6)


def documented():
  """What the documentation of rax prints, and our values of it."""
  a, b = jnp.array([2.0, 1.0, 3.0]), jnp.array([2.0, 0.0, 1.0])
  yield 0.79670763, rax.ndcg_metric(a, b)
  yield 1.4076059, rax.softmax_loss(a, jnp.array([1.0, 0.0, 0.0]))
  both = jnp.array([[2.0, 1.0, 3.0], [1.0, 0.5, 1.5]])
  yield 0.8983538, rax.ndcg_metric(both, jnp.array([[2.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))
  a, b = jnp.array([[2.0, 1.0, 0.0], [1.0, 0.5, 1.5]]), jnp.array([[1.0, 0, 0], [0, 0, 1]])
  where = jnp.array([[True, True, False], [True, True, True]])
  yield 0.16666667, rax.pairwise_hinge_loss(a, b, where=where)
  a, b = jnp.array([[0.0, 1.0, 3.0], [1.0, 2.0, 0.0]]), jnp.array([[0.0, 0, 1], [1, 0, 0]])
  slope = [[0.02100503, 0.0570976, -0.07810265], [-0.37763578, 0.33262047, 0.04501529]]
  yield slope, jax.grad(rax.softmax_loss)(a, b)
  a, b = jnp.array([1.2, 0.4, 1.9]), jnp.array([1.0, 2.0, 0.0])
  weight = rax.labeldiff_lambdaweight
  yield 1.8923712, rax.pairwise_logistic_loss(a, b, lambdaweight_fn=weight)
  a, b = jnp.array([-1.0, 1.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
  approx = functools.partial(rax.ndcg_metric, rank_fn=rax.utils.approx_ranks)
  yield 0.63092977, approx(a, b)
  yield [-0.03763788, -0.03763788, 0.07527576], jax.grad(approx)(a, b)
  a, b = jnp.array([0.0, 1.0, 3.0, 2.0]), jnp.array([0.0, 0.0, 1.0, 2.0])
  c, key = jnp.array([0.0, 1.0, 0.0, 1.0]), jax.random.key(42)
  approx, bound = rax.approx_t12n(rax.mrr_metric), rax.bound_t12n(rax.mrr_metric)
  yield -0.71789175, rax.approx_t12n(rax.ndcg_metric)(a, b)
  yield -0.33333334, bound(a, c)
  yield -0.71880937, rax.gumbel_t12n(approx)(a, b, key=key)
  yield 6.2066536, rax.gumbel_t12n(rax.softmax_loss)(a, b, key=key)
  yield 5.0127797, rax.gumbel_t12n(rax.softmax_loss)(a, b, key=jax.random.key(79))


@thorough
def test_numbers_of_the_documentation_of_rax():
  # It was written when this was the default.
  with jax.threefry_partitionable(False):
    for expected, got in jax.jit(lambda: list(documented()))():
      np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_mistakes_have_names():
  scores, labels = jnp.zeros(3), jnp.zeros(3)
  with pytest.raises(ValueError, match=r"tau should be in the range of \(0.0, 1.0\], but 0.0"):
    rax.pairwise_qr_loss(scores, labels, tau=0.0)
  with pytest.raises(ValueError, match="only axis=-1 is supported when segments are set"):
    rax.utils.ranks(jnp.zeros((2, 2)), segments=jnp.zeros((2, 2), jnp.int32), axis=0)
  with pytest.raises(ValueError, match=r"scores and labels must have one shape, got \(3,\)"):
    rax.ndcg_metric(scores, jnp.zeros(4))
  with pytest.raises(ValueError, match=r"segments must have the shape of the scores, \(3,\)"):
    rax.softmax_loss(scores, labels, segments=jnp.zeros(2))
  with pytest.raises(ValueError, match=r"with an item at least, got \(\)"):
    rax.softmax_loss(1.0, 1.0)
  with pytest.raises(ValueError, match=r"with an item at least, got \(2, 0\)"):
    rax.ndcg_metric(jnp.zeros((2, 0)), jnp.zeros((2, 0)))
  with pytest.raises(TypeError, match="weights must be an array of numbers"):
    rax.softmax_loss(scores, labels, weights="heavy")


def test_wrong_options_are_named():
  scores, labels = jnp.array([3.0, 2.0, 1.0]), jnp.array([1.0, 0.0, 1.0])
  for topn, error in ((0, ValueError), (-1, ValueError), (2.5, TypeError)):
    for call in (rax.ndcg_metric, rax.dcg_lambdaweight, rax.dcg2_lambdaweight):
      with pytest.raises(error, match="topn must be"):
        call(scores, labels, topn=topn)
    with pytest.raises(error, match="n must be"):
      rax.utils.cutoff(scores, n=topn)
  with pytest.raises(TypeError, match="reduce_fn must be a function such as jnp.mean.*got 'mean'"):
    rax.softmax_loss(scores, labels, reduce_fn="mean")
  with pytest.raises(TypeError, match=r"key must be a PRNG key.*got 3"):
    rax.ndcg_metric(scores, labels, key=3)
  with pytest.raises(TypeError, match=r"key must be a PRNG key.*got 3"):
    rax.gumbel_t12n(rax.softmax_loss)(scores, labels, key=3)
  with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
    rax.gumbel_t12n(rax.softmax_loss, samples=0)
  with pytest.raises(ValueError, match="temperature must be positive, got -1.0"):
    rax.approx_t12n(rax.ndcg_metric, temperature=-1.0)
  with pytest.raises(TypeError, match="temperature must be a number, got 'a'"):
    rax.approx_t12n(rax.ndcg_metric, temperature="a")
  with pytest.raises(TypeError, match="epsilon must be an array of numbers"):
    rax.poly1_softmax_loss(scores, labels, epsilon="much")
