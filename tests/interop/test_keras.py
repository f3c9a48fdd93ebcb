"""Losses and metrics for Keras, beside loops by hand."""

import functools
import importlib.util
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers.lenient import for_keras
from tests.helpers.suites import thorough

keras = pytest.importorskip("keras")
from jaxrank.interop.keras import Loss, Metric  # noqa: E402

# Keras itself calls what NumPy deprecates.
pytestmark = [thorough, pytest.mark.filterwarnings("ignore:__array__ implementation")]

QUERIES, N, WIDTH, BATCH = 10, 6, 4, 4
NAN = float("nan")


@pytest.fixture(autouse=True)
def lenient():
  with for_keras():
    yield


def data():
  """Features, zero on padding, labels, and the mask; the fourth list has no item."""
  rng = np.random.default_rng(0)
  where = np.arange(N) < rng.integers(2, N + 1, QUERIES)[:, None]
  where[3] = False
  features = np.where(where[..., None], rng.normal(size=(QUERIES, N, WIDTH)), 0)
  labels = rng.integers(0, 3, (QUERIES, N))
  labels[5] = 0
  return features.astype(np.float32), labels, where


X, Y, WHERE = data()
SCORES = np.random.default_rng(1).normal(size=(QUERIES, N)).astype(np.float32)
MARKED = np.where(WHERE, Y, -1)
WEIGHTS = np.random.default_rng(2).random(QUERIES).astype(np.float32)


def functional(masks=False):
  inputs = keras.Input((N, WIDTH))
  masked = keras.layers.Masking()(inputs) if masks else inputs
  hidden = keras.layers.Dense(3, activation="tanh")(masked)
  return keras.Model(inputs, keras.layers.Dense(1)(hidden))


class Scorer(keras.Model):
  """A model whose output is `[batch, n]`."""

  def __init__(self, **options):
    super().__init__(**options)
    self.hidden, self.out = keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)

  def call(self, features):
    return self.out(self.hidden(features))[..., 0]


def forward(weights, x):
  first, shift, second, last = weights
  return (jnp.tanh(x @ first + shift) @ second + last)[..., 0]


def loop(weights, loss, epochs, query_weights=None):
  """Plain gradient descent: the weights, and the mean loss of each epoch as Keras logs it."""
  weights, rows = [jnp.asarray(w) for w in weights], np.arange(QUERIES)
  query_weights = np.ones(QUERIES) if query_weights is None else query_weights

  @jax.jit
  def step(weights, x, y, where, w):
    def mean(weights):
      return jnp.sum(w * loss(forward(weights, x), y, where=where)) / jnp.sum(jnp.any(where, -1))

    value, slopes = jax.value_and_grad(mean)(weights)
    return [w - 0.5 * g for w, g in zip(weights, slopes, strict=True)], value

  history = []
  for _ in range(epochs):
    values = []
    for part in np.array_split(rows, range(BATCH, QUERIES, BATCH)):
      live = query_weights[part] * WHERE[part].any(-1)
      weights, value = step(weights, X[part], Y[part], WHERE[part], live)
      values.append(float(value) * len(part))
    history.append(sum(values) / QUERIES)
  return weights, history


def compiled(model, loss, **options):
  model.compile(optimizer=keras.optimizers.SGD(0.5), loss=loss, **options)
  return model


def fitted(model, labels, epochs=2, **options):
  return model.fit(
    X, labels, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, **options
  ).history


def means(measures, scores=SCORES, labels=Y, query_weights=None, **options):
  own = jr.Evaluator(measures, **options)
  state = own.update(own.init(), scores, labels, where=WHERE, query_weights=query_weights)
  return own.compute(state)


def close(found, expected):
  """Whether two dictionaries of numbers are equal to rounding."""
  assert {*found} == {*expected}
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@keras.saving.register_keras_serializable("tests")
def own_loss(scores, labels, where, power=2):
  return jnp.sum(jnp.where(where, jnp.abs(scores - labels) ** power, 0), axis=-1)


@keras.saving.register_keras_serializable("tests")
@jr.metric
def own_metric(ranked, *, k=None):
  return ranked.expect(ranked.relevant(None), jr.discounts.reciprocal, k=k)


@pytest.mark.parametrize("make", [functional, Scorer])
def test_fit_is_a_loop_by_hand(make):
  model = make()
  model(X[:1])
  start = model.get_weights()
  loss, parameters = jr.losses.softmax, {"temperature": 0.5}
  compiled(model, Loss("softmax", **parameters), metrics=[Metric("nDCG@3 RR"), Metric("P@2")])
  history = fitted(model, MARKED)
  expected, logged = loop(start, functools.partial(loss, **parameters), 2)
  for found, x in zip(model.get_weights(), expected, strict=True):
    np.testing.assert_allclose(found, x, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(history["loss"], logged, rtol=1e-5)
  assert {*history} == {"loss", "nDCG@3", "RR", "P@2"}
  found = model.evaluate(X, MARKED, batch_size=BATCH, verbose=0, return_dict=True)
  del found["loss"]
  close(found, means("nDCG@3 RR P@2", forward(expected, X)))


def test_fit_weighs_queries_and_stops_by_a_metric():
  model = functional()
  start = model.get_weights()
  measures = [Metric("RR"), Metric("fall_out@1")]
  compiled(model, Loss(own_loss), metrics=measures[:1], weighted_metrics=measures[1:])
  # Each callback finds out whether more is better.
  stops = [keras.callbacks.EarlyStopping(f"val_{x.name}") for x in measures]
  history = fitted(
    model, MARKED, sample_weight=WEIGHTS, validation_data=(X, MARKED, WEIGHTS), callbacks=stops
  )
  assert [stop.monitor_op.__name__ for stop in stops] == ["greater", "less"]
  expected, logged = loop(start, own_loss, 2, WEIGHTS)
  np.testing.assert_allclose(history["loss"], logged, rtol=1e-5)
  scores = forward(expected, X)
  found = {x.name: history[f"val_{x.name}"][-1] for x in measures}
  weighted = means("fall_out@1", scores, query_weights=WEIGHTS)
  close(found, means("RR", scores) | weighted)


REDUCTIONS = ["sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", None, "none"]


def test_reductions_are_those_of_keras():
  from keras.src.losses.loss import reduce_weighted_values

  values = jr.losses.softmax(SCORES, Y, where=WHERE)
  live = WHERE.any(-1)
  for reduction in REDUCTIONS:
    loss = Loss("softmax", reduction=reduction)
    for weights in (None, WEIGHTS, WEIGHTS[:, None], 2.0):
      given = None if weights is None else np.broadcast_to(np.ravel(weights), QUERIES)
      options = {"sample_weight": given, "reduction": reduction}
      expected = reduce_weighted_values(values, mask=live, **options)
      np.testing.assert_allclose(loss(MARKED, SCORES, weights), expected, rtol=1e-5)
      whole = jr.losses.softmax(SCORES, Y)
      expected = reduce_weighted_values(whole, **options)
      np.testing.assert_allclose(loss(Y, SCORES, weights), expected, rtol=1e-5)
  np.testing.assert_allclose(loss.call(MARKED, SCORES), values, rtol=1e-6)


def test_what_marks_padding():
  expected = jr.losses.pairwise_logistic(SCORES, Y, where=WHERE)
  odd = np.where(WHERE, SCORES, NAN)
  for padding, mark in ((-1, -1), (-1, -1.0), (NAN, NAN), (-7, -7), (0, None)):
    loss = Loss("pairwise_logistic", reduction=None, padding=padding)
    labels = Y + 1 if mark is None else Y
    marked = np.where(WHERE, labels, 0 if mark is None else mark)
    for scores, y in ((odd, marked), (odd[..., None], marked), (odd[..., None], marked[..., None])):
      np.testing.assert_allclose(loss(y, scores), expected, rtol=1e-5)
  # -1 is an item without a judgement where no label, or another one, marks padding.
  expected = jr.judged(SCORES, MARKED, k=2).mean()
  for padding in (None, -2, NAN):
    metric = Metric("judged@2", padding=padding)
    np.testing.assert_allclose(metric(MARKED.astype(np.float32), SCORES), expected, rtol=1e-6)
  with pytest.raises(TypeError, match="keras.Loss: padding must be a number, got 'nan'"):
    Loss("softmax", padding="nan")


def test_a_keras_mask_is_padding():
  marked, masked = functional(), functional(masks=True)
  masked.set_weights(marked.get_weights())
  histories, ends = [], []
  for model, labels in ((marked, MARKED), (masked, np.where(WHERE, Y, 0))):
    compiled(model, Loss("softmax"), metrics=[Metric("RR")])
    histories.append(fitted(model, labels))
    ends.append(model.evaluate(X, labels, verbose=0))
  np.testing.assert_allclose(histories[0]["loss"], histories[1]["loss"], rtol=1e-5)
  np.testing.assert_allclose(*ends, rtol=1e-5)
  # The module says that `fit` hides masks from metrics; when this fails, it must not.
  assert abs(histories[0]["RR"][0] - histories[1]["RR"][0]) > 1e-3


def test_weights_of_items_are_the_argument_of_the_loss():
  weights = np.random.default_rng(3).random((QUERIES, N))
  for name, function in (("softmax", jr.losses.softmax), ("list_mle", jr.losses.list_mle)):
    loss = Loss(name, reduction=None)
    expected = function(SCORES, Y, where=WHERE, weights=weights)
    np.testing.assert_allclose(loss(MARKED, SCORES, weights), expected, rtol=1e-5)
  smooth = jr.Laplace(1.0)
  expected = 1 - jr.dcg(SCORES, Y, where=WHERE, weights=weights, ranking=smooth)
  found = Loss(jr.dcg, ranking=smooth, reduction=None)(MARKED, SCORES, weights)
  np.testing.assert_allclose(found, np.where(WHERE.any(-1), expected, 0), rtol=1e-5)
  with pytest.raises(ValueError, match=r"keras.Loss: own_loss takes no weights of items"):
    Loss(own_loss)(MARKED, SCORES, weights)
  with pytest.raises(ValueError, match=r"keras.Metric: sample_weight weighs queries here"):
    Metric("RR").update_state(MARKED, SCORES, weights)


def test_a_query_of_weight_zero_does_not_matter():
  broken = SCORES.copy()
  broken[2] = NAN
  weights = WEIGHTS.copy()
  weights[2] = 0
  loss = Loss("softmax")
  value, slope = jax.value_and_grad(lambda s: loss(MARKED, s, weights))(jnp.asarray(broken))
  fine, expected = jax.value_and_grad(lambda s: loss(MARKED, s, weights))(jnp.asarray(SCORES))
  np.testing.assert_allclose(value, fine, rtol=1e-6)
  np.testing.assert_allclose(slope, expected, rtol=1e-6)
  assert not np.any(slope[2])


def test_metrics_are_means_over_queries():
  own = [jr.ndcg, jr.Measure(jr.precision, k=2, name="P@2")]
  for measures, empty in (("nDCG", "one"), ("P@2 fall_out@1 gm_map num_q", "skip"), (own, "zero")):
    metric = Metric(measures, empty=empty)
    for weights in (None, WEIGHTS):
      metric.reset_state()
      for part in np.split(np.arange(QUERIES), 2):
        given = None if weights is None else weights[part]
        metric.update_state(MARKED[part], SCORES[part], given)
      found = metric.result()
      found = found if isinstance(found, dict) else {metric.name: found}
      close(found, means(measures, query_weights=weights, empty=empty))


def test_a_score_of_nan_is_seen():
  broken = SCORES.copy()
  broken[2, 0] = NAN
  metric = Metric("RR P@2")
  assert np.isnan([*metric(MARKED, broken).values()]).all()
  metric.reset_state()
  close(metric(MARKED, SCORES), means("RR P@2"))
  assert np.isnan(Loss("softmax")(MARKED, broken))


def test_half_precision_is_ranked_and_summed_in_float32():
  inputs = keras.Input((N, WIDTH))
  model = keras.Model(inputs, keras.layers.Dense(1, dtype="mixed_bfloat16")(inputs))
  # Compiled programs keep more digits of what is bfloat16 in between.
  compiled(model, Loss(own_loss), metrics=[Metric("nDCG RR")], run_eagerly=True)
  scores = model(X)[..., 0]
  assert scores.dtype == jnp.bfloat16
  found = model.evaluate(X, MARKED, verbose=0, return_dict=True)
  scores = scores.astype(np.float32)
  loss = own_loss(scores, Y, where=WHERE).sum() / WHERE.any(-1).sum()
  close(found, means("nDCG RR", scores) | {"loss": loss})


CONFIGURED = [
  Loss("softmax", temperature=0.5, reduction="sum"),
  Loss("approx_ndcg", ranking=jr.Logistic(0.1), gain=jr.gains.exponential),
  Loss("smooth_ap", ranking=jr.Laplace(jnp.float32(0.5)), padding=-3),
  Loss(jr.ndcg, k=3, ranking=jr.Laplace(1.0), gain=jr.gains.table([0.0, 1.0, 5.0])),
  Loss("P@2", ranking=jr.Laplace(1.0), name="smooth"),
  Loss(jr.losses.softmax, gain=jr.gains.by_label({1: 3})),
  Loss("lambda_rank", metric=jr.Measure(jr.rbp, persistence=0.5), temperature=2.0),
  Loss("approx_ndcg", discount=jr.discounts.geometric(0.9)),
  Loss(own_loss, power=3, name="cubes", padding=None, reduction=None),
  Metric("nDCG@3 AP", empty="skip", ranking=jr.Exact("stable")),
  Metric([jr.Measure(jr.ndcg, gain=jr.gains.exponential, name="burges"), jr.recall], padding=-3),
  Loss(own_metric, k=2, ranking=jr.Laplace(1.0)),
  Metric([own_metric, jr.Measure(own_metric, k=2)]),
]


@pytest.mark.parametrize("made", CONFIGURED, ids=lambda made: made.name)
def test_configurations_hold_all_parameters(made):
  config = made.get_config()
  text = json.loads(json.dumps(keras.saving.serialize_keras_object(made)))
  for again in (type(made).from_config(config), keras.saving.deserialize_keras_object(text)):
    assert type(again) is type(made)
    assert again.get_config() == config
  if made.name == "cubes":
    np.testing.assert_array_equal(again(Y, SCORES), made(Y, SCORES))


def test_a_compiled_model_is_saved_and_loaded(tmp_path):
  model = Scorer()
  options = {
    "metrics": [Metric(["RR", "P@2", own_metric])],
    "weighted_metrics": [Metric("fall_out", empty="skip")],
  }
  compiled(model, Loss("softmax", temperature=0.5), **options)
  model(X[:1])
  model.save(tmp_path / "model.keras")
  scope = {"Scorer": Scorer}
  again = keras.models.load_model(tmp_path / "model.keras", custom_objects=scope)
  ends = [x.evaluate(X, MARKED, verbose=0, return_dict=True) for x in (model, again)]
  assert ends[0] == ends[1]
  assert {*ends[0]} == {"loss", "RR", "P@2", "own_metric", "fall_out"}
  assert fitted(again, MARKED) == fitted(model, MARKED)


def test_a_configuration_reaches_public_functions_only():
  for named in (
    {"jaxrank": "trec.read_run"},
    {"jaxrank": "ndcg", "fields": {}},
    {"jaxrank": "Metric", "fields": {}},
  ):
    with pytest.raises(ValueError, match="a configuration cannot name"):
      Loss.from_config({"loss": named})
  for parameter in (functools.partial(own_loss, power=3), jax.random.key(0)):
    made = Loss("xe_ndcg", key=parameter)
    with pytest.raises(TypeError, match=r"keras.Loss.get_config: key cannot be written .*register"):
      made.get_config()


def test_a_metric_that_keras_does_not_know_is_refused():
  unknown = jr.metric(own_metric.description.kernel)
  for made in (
    Metric([unknown]),
    Metric(["RR", jr.Measure(unknown, k=2)]),
    Loss(unknown, ranking=jr.Laplace(1.0)),
    Loss("lambda_rank", metric=unknown),
  ):
    with pytest.raises(TypeError, match=r"get_config: .*got .*: decorate it with keras.*register"):
      made.get_config()
  known = keras.saving.register_keras_serializable("tests", "known")(unknown)
  again = Metric.from_config(Metric([known]).get_config())
  assert again.measures[0].metric is known


def test_mistakes_are_named():
  smooth = {"ranking": jr.Laplace(1.0)}
  for error, words, loss, given in (
    (
      ValueError,
      "loss must be a function, a measure, or one of approx_ap, .*sofmax",
      "sofmax",
      smooth,
    ),
    (ValueError, "loss must be .*'kl'", "kl", smooth),
    (
      ValueError,
      "the metric nDCG@10 has a gradient under .*ranking=jaxrank.Laplace",
      "nDCG@10",
      {},
    ),
    (ValueError, "the metric ndcg has a gradient", jr.ndcg, {"ranking": jr.Exact("stable")}),
    (TypeError, "'softmax' does not take them: .*temperatur", "softmax", {"temperatur": 1.0}),
    (TypeError, "'softrank_err' does not take them: missing .*max_label", "softrank_err", {}),
    (TypeError, "the function <lambda> does not take them", lambda y_true, y_pred: y_pred, {}),
    (TypeError, "loss must be a function", 3, {}),
  ):
    with pytest.raises(error, match=f"^keras.Loss: .*{words}"):
      Loss(loss, **given)
  loss, metric = Loss("softmax"), Metric("nDCG")
  for given, words in (
    ((Y, SCORES[0]), r"y_pred must have shape \[batch, n\] or \[batch, n, 1\], got \(6,\)"),
    ((Y, X), r"y_pred must have shape .* got \(10, 6, 4\)"),
    ((Y[:, :3], SCORES), r"y_true must have the shape of the scores, \(10, 6\), got \(10, 3\)\.$"),
    ((Y[:, 0], SCORES[:, :1]), r"y_true must .*, got \(10,\); the items of a query are a row: .*n"),
    ((Y, SCORES, WEIGHTS[:3]), r"sample_weight must have shape \(10,\), a weight for each query"),
  ):
    for made, name in ((loss, "keras.Loss"), (metric, "keras.Metric")):
      with pytest.raises(ValueError, match=f"^{name}: {words}"):
        made(*given)
  with pytest.raises(ValueError, match=r"keras.Loss: mean must return a value for each list"):
    Loss(lambda s, y, where: jnp.mean(s), name="mean")(Y, SCORES)
  for bad in ("error", "none"):
    with pytest.raises(
      ValueError, match="keras.Metric: empty must be one of 'zero', 'one', 'skip'"
    ):
      Metric("nDCG", empty=bad)
  with pytest.warns(UserWarning, match=r"y_pred has shape \(10, 1\), lists of one item"):
    loss(Y[:, :1], SCORES[:, :1])


REFUSED = """
import os, sys
os.environ["KERAS_BACKEND"] = "tensorflow"
try:
  import jaxrank.interop.keras
except ImportError as error:
  print(error)
# It has read the variable, but has no backend.
for name in [name for name in sys.modules if name.startswith(("keras", "jaxrank.interop.keras"))]:
  del sys.modules[name]
os.environ["KERAS_BACKEND"] = "numpy"
from jaxrank.interop.keras import Loss, Metric
for make in (Loss, Metric):
  try:
    make("softmax")
  except RuntimeError as error:
    print(error)
"""


def test_another_backend_is_refused():
  if importlib.util.find_spec("tensorflow"):
    pytest.skip("TensorFlow is installed")
  done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True)
  assert done.stdout.splitlines() == [
    f"{told}; set KERAS_BACKEND=jax in the environment before Keras is imported."
    for told in (
      "jaxrank.interop.keras: Keras finds no tensorflow, which its backend needs",
      "keras.Loss: Keras runs on numpy, got a loss or a metric that JAX computes",
      "keras.Metric: Keras runs on numpy, got a loss or a metric that JAX computes",
    )
  ], done.stderr
