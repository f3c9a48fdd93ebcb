"""Agreement of `jaxrank.interop.rax` with rax, on 2,000 random lists a function."""

import functools
import inspect
import types
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank.interop import rax as ours
from tests.helpers.suites import thorough

theirs = pytest.importorskip("rax")

LISTS, ITEMS = 2000, 8

pytestmark = thorough


RNG = np.random.default_rng(11)
SHAPE = (LISTS, ITEMS)
SCORES = RNG.normal(size=SHAPE).astype(np.float32)
COARSE = np.where(RNG.random(SHAPE) < 0.1, -np.inf, np.round(2 * SCORES)).astype(np.float32)
LABELS = (RNG.integers(4, size=SHAPE) * (RNG.random((LISTS, 1)) < 0.9)).astype(np.float32)
WEIGHTS = RNG.random(SHAPE).astype(np.float32)
WHERE = RNG.random(SHAPE) < 0.75
WHERE[:9] = False
SEGMENTS = RNG.integers(3, size=SHAPE).astype(np.int32)
KEY = jax.random.key(7)
METRICS = [name for name in theirs.__all__ if name.endswith("metric")]
LOSSES = [name for name in theirs.__all__ if name.endswith("loss")]
WEIGHERS = [name for name in theirs.__all__ if name.endswith("weight")]


@contextmanager
def as_rax_likes_it():
  """It relies on promotions that our tests forbid."""
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    yield


@pytest.fixture
def transformations(monkeypatch):
  """Those of rax 0.4.0 need what newer versions of JAX do not have."""
  wraps = lambda *_, **__: lambda function: function  # noqa: E731
  monkeypatch.setattr(jax, "util", types.SimpleNamespace(wraps=wraps), raising=False)


def taken(function, **own):
  parameters = inspect.signature(function).parameters
  return {name: value for name, value in own.items() if name in parameters}


def answers(function, arrays, static, slopes):
  """The values of all lists, their mean, and the gradient of the mean."""

  def value(scores, labels, arrays):
    return function(scores, labels, reduce_fn=jnp.mean, **arrays, **static)

  def run(scores, labels, arrays):
    each = function(scores, labels, reduce_fn=None, **arrays, **static)
    mean = value(scores, labels, arrays)
    slope = jax.grad(value)(scores, labels, arrays) if slopes else 0
    return each, mean, slope

  return jax.jit(run)(arrays.pop("scores"), LABELS, arrays)


def check(mine, other, arrays, *, static=None, slopes=True, tolerance=1e-6):
  static = static or {}
  got = answers(mine, dict(arrays), static, slopes)
  with as_rax_likes_it():
    want = answers(other, dict(arrays), static, slopes)
  for x, y in zip(got, want, strict=True):
    assert np.shape(x) == np.shape(y)
    assert jnp.result_type(x) == jnp.result_type(y)
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


CASES = {
  "masked": {"where": WHERE, "weights": WEIGHTS},
  "segments": {"where": WHERE, "segments": SEGMENTS, "weights": WEIGHTS},
}


@pytest.mark.parametrize("name", [n for n in theirs.__all__ if not n.endswith("t12n")])
def test_arguments(name):
  mine, other = (inspect.signature(getattr(x, name)).parameters for x in (ours, theirs))
  assert list(mine) == list(other)
  for one, two in zip(mine.values(), other.values(), strict=True):
    assert one.kind == two.kind
    assert one.default == two.default or (callable(one.default) and callable(two.default))


def test_every_name_is_here():
  for module in ("utils", "types"):
    names = getattr(theirs, module).__all__
    assert all(hasattr(getattr(ours, module), name) for name in names)
  assert all(hasattr(ours, name) for name in theirs.__all__)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", METRICS)
def test_metrics(name, case):
  if name == "opa_metric" and case == "segments":
    return check_segmented_opa()
  mine, other = getattr(ours, name), getattr(theirs, name)
  own = taken(mine, scores=COARSE, **CASES[case])
  static = {} if name == "opa_metric" else {"topn": 3, "key": KEY}
  return check(mine, other, own, static=static, slopes=False)


def check_segmented_opa():
  own = {"scores": COARSE, "where": WHERE, "segments": SEGMENTS}
  wraps = lambda *_, **__: lambda function: function  # noqa: E731
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(jax, "util", types.SimpleNamespace(wraps=wraps), raising=False)
    other = theirs.segment_t12n(theirs.opa_metric)
  check(ours.segment_t12n(ours.opa_metric), other, own, slopes=False)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, case):
  mine, other = getattr(ours, name), getattr(theirs, name)
  own = taken(mine, scores=SCORES, **CASES[case])
  if name in ("listmle_loss", "poly1_softmax_loss") and case == "segments":
    # rax loses a segment that starts with padding, or fails for a batch.
    del own["where"]
  check(mine, other, own, static=taken(mine, key=KEY))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", WEIGHERS)
def test_weights_of_pairs(name, case):
  own = {"scores": SCORES, **CASES[case]}
  # rax normalizes the first item of a segment only.
  options = {"topn": 3, "normalize": case != "segments", "light_discount": case == "masked"}
  pair = []
  for module in (ours, theirs):
    weigh = getattr(module, name)
    weigh = functools.partial(weigh, **taken(weigh, **options))
    pair.append(functools.partial(module.pairwise_logistic_loss, lambdaweight_fn=weigh))
  check(*pair, own)


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("name", WEIGHERS)
def test_weights_of_an_empty_list(name, shape):
  for own in ({}, {"where": np.ones(shape, bool)}, {"segments": np.zeros(shape, np.int32)}):
    scores, own = jnp.zeros(shape), jax.tree.map(jnp.asarray, own)
    with as_rax_likes_it():
      want = getattr(theirs, name)(scores, scores, **own)
    got = getattr(ours, name)(scores, scores, **own)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["mrr_metric", "ap_metric", "ndcg_metric"])
@pytest.mark.parametrize("transform", ["approx_t12n", "bound_t12n"])
def test_smooth_metrics(name, transform, case, transformations):
  """With `topn` without padding; average precision without padding: rax lets it count."""
  mine = getattr(ours, transform)(getattr(ours, name))
  other = getattr(theirs, transform)(getattr(theirs, name))
  own = taken(getattr(ours, name), scores=SCORES, **CASES[case])
  if name == "ap_metric" or case == "segments":
    own.pop("where", None)
  static = {} if "where" in own else {"topn": 2}
  check(mine, other, own, static=static)


@pytest.mark.parametrize("smoothing", [None, 1e-20])
@pytest.mark.parametrize("name", ["ndcg_metric", "softmax_loss"])
def test_gumbel(name, smoothing, transformations):
  options = {"samples": 2, "beta": 0.5, "smoothing_factor": smoothing}
  mine, other = (x.gumbel_t12n(getattr(x, name), **options) for x in (ours, theirs))
  own = {"scores": SCORES, "where": WHERE, "weights": WEIGHTS}
  check(mine, other, own, static={"key": KEY}, slopes=False)


@pytest.mark.parametrize("segments", [None, SEGMENTS])
def test_shares(segments):
  own = {"where": WHERE, "segments": segments}
  got = ours.utils.normalize_probabilities(LABELS, **own)
  with as_rax_likes_it():
    want = theirs.utils.normalize_probabilities(jnp.asarray(LABELS), **own)
  np.testing.assert_allclose(got[WHERE], want[WHERE], rtol=1e-6)


# Where rax is wrong: each of these has a test of our value in `test_rax.py`.


def test_padding_changes_smooth_metrics_of_rax(transformations):
  scores, labels = jnp.array([2.0, 1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 1.0, 1.0])
  where = jnp.array([True, True, True, False])
  for name, topn in (("ap_metric", None), ("recall_metric", 2)):
    padded, alone = [], []
    for module in (ours, theirs):
      metric = module.approx_t12n(getattr(module, name))
      with as_rax_likes_it():
        padded.append(metric(scores, labels, where=where, topn=topn))
        alone.append(metric(scores[:3], labels[:3], topn=topn))
    np.testing.assert_allclose(alone[0], alone[1], rtol=1e-6)
    np.testing.assert_allclose(padded[0], alone[0], rtol=1e-6)
    assert abs(padded[1] - alone[1]) > 0.01


def test_segments_of_rax_that_go_wrong():
  scores, labels = jnp.array([[5.0, 5, 5, 1, 2]] * 2), jnp.array([[0.0, 0, 0, 1, 0]] * 2)
  where = jnp.array([[False, False, False, True, True]] * 2)
  own = {"where": where, "segments": jnp.zeros((2, 5), jnp.int32)}
  with as_rax_likes_it():
    lost = theirs.listmle_loss(scores, labels, **own)
    slope = jax.grad(theirs.listmle_loss)(scores, labels, **own)
    with pytest.raises(ValueError, match="Incompatible shapes"):
      theirs.poly1_softmax_loss(scores, labels, **own)
  assert lost == 0
  assert np.isnan(slope).any()
  for name in ("listmle_loss", "poly1_softmax_loss"):
    whole = getattr(ours, name)(scores, labels, where=where)
    np.testing.assert_allclose(getattr(ours, name)(scores, labels, **own), whole, rtol=1e-6)


def test_unranked_items_of_rax_give_nan():
  scores, labels = jnp.array([1.0, -jnp.inf]), jnp.array([1.0, 0.0])
  with as_rax_likes_it():
    assert np.isnan(theirs.softmax_loss(scores, labels))
    smooth = functools.partial(theirs.ndcg_metric, rank_fn=theirs.utils.approx_ranks)
    assert np.isnan(jax.grad(smooth)(scores, labels)).any()
  assert ours.softmax_loss(scores, labels) == 0
  smooth = functools.partial(ours.ndcg_metric, rank_fn=ours.utils.approx_ranks)
  assert np.isfinite(jax.grad(smooth)(scores, labels)).all()


def test_values_of_rax_that_hide_or_invent():
  scores, labels = jnp.array([1.0, 2.0]), jnp.array([-1.0, -1.0])
  with as_rax_likes_it():
    assert theirs.ndcg_metric(scores, labels) == 1
    assert np.isnan(theirs.ndcg_metric(scores, jnp.array([200.0, 0.0])))
    assert theirs.mrr_metric(jnp.array([jnp.nan, 1.0]), jnp.array([0.0, 1.0])) == 1
  assert ours.ndcg_metric(scores, labels) == 0
  assert np.isnan(ours.mrr_metric(jnp.array([jnp.nan, 1.0]), jnp.array([0.0, 1.0])))
