"""The state inside metric collections and checkpoints of other libraries."""

import jax
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers.streams import (
  BATCHES,
  DATA,
  GROUPS,
  batch,
  evaluator,
  run,
  trees_equal,
  updating,
)
from tests.helpers.suites import thorough

pytestmark = thorough


OPTIONS = {"empty": "skip", "groups": GROUPS, "reservoir": 40}
GROUPED = {"empty": "skip", "groups": GROUPS}


@pytest.fixture(autouse=True)
def lenient():
  """Flax promotes types."""
  with jax.numpy_dtype_promotion("standard"):
    yield


def test_a_collection_of_clu():
  clu = pytest.importorskip("clu.metrics")
  flax = pytest.importorskip("flax")
  from jaxrank.interop.clu import Ranking

  own = evaluator(**GROUPED)

  @flax.struct.dataclass
  class Metrics(clu.Collection):
    ranking: Ranking.of(own)
    loss: clu.Average.from_output("loss")

  @jax.jit
  def step(metrics, arrays):
    return metrics.merge(Metrics.single_from_model_output(**arrays, loss=jax.numpy.ones(3)))

  metrics = Metrics.empty()
  for i in range(BATCHES):
    metrics = step(metrics, batch(i, DATA))
  values = metrics.compute()
  whole = own.compute(run(DATA, **GROUPED))
  assert values["loss"] == 1
  assert list(values["ranking"]) == list(whole)
  np.testing.assert_allclose(list(values["ranking"].values()), list(whole.values()), rtol=1e-6)


def test_a_multi_metric_of_nnx():
  nnx = pytest.importorskip("flax.nnx")
  from jaxrank.interop.nnx import Ranking

  own = evaluator(**GROUPED)
  metrics = nnx.MultiMetric(ranking=Ranking(own), loss=nnx.metrics.Average("loss"))

  @nnx.jit
  def step(metrics, arrays):
    metrics.update(**arrays, loss=jax.numpy.ones(3))

  for _ in range(2):
    metrics.reset()
    for i in range(BATCHES):
      step(metrics, batch(i, DATA))
  values = metrics.compute()
  assert values["loss"] == 1
  np.testing.assert_allclose(
    list(values["ranking"].values()),
    list(own.compute(run(DATA, **GROUPED)).values()),
    rtol=1e-6,
  )


def test_orbax_resumes_an_evaluation(tmp_path):
  orbax = pytest.importorskip("orbax.checkpoint")
  own, key = evaluator(**OPTIONS), jax.random.key(0)
  state = run({name: x[:2] for name, x in DATA.items()}, key, **OPTIONS)
  with orbax.StandardCheckpointer() as checkpointer:
    checkpointer.save(tmp_path / "state", state)
    checkpointer.wait_until_finished()
    del state
    state = checkpointer.restore(tmp_path / "state", own.init(key))
  for i in range(2, BATCHES):
    state = updating(**OPTIONS)(state, batch(i, DATA))
  trees_equal(state, run(DATA, key, **OPTIONS))


def test_metrics_of_collections_take_options_and_keywords():
  nnx, clu = pytest.importorskip("jaxrank.interop.nnx"), pytest.importorskip("jaxrank.interop.clu")
  outputs = {"logits": np.float32([[1, 2], [2, 1]]), "labels": np.array([[1, 0], [0, 0]])}
  given = {"keywords": {"scores": "logits"}, "empty": "skip"}
  metric = nnx.Ranking("RR", **given)
  metric.update(**outputs, loss=1.0)
  found = clu.Ranking.of("RR", **given).from_model_output(**outputs, loss=1.0)
  assert metric.compute() == found.compute() == {"RR": 0.5}
  metric.reset()
  assert metric.compute() == {"RR": 0}
  sampled = nnx.Ranking("RR", reservoir=4, key=jax.random.key(0))
  for _ in range(2):
    sampled.reset()
    sampled.update(scores=outputs["logits"], labels=outputs["labels"])
    assert sampled.evaluator.quantile(sampled.state.get_value(), 1.0) == {"RR": 0.5}


def test_metrics_of_collections_tell_what_is_wrong():
  nnx, clu = pytest.importorskip("jaxrank.interop.nnx"), pytest.importorskip("jaxrank.interop.clu")
  for make, name in ((nnx.Ranking, "nnx.Ranking"), (clu.Ranking.of, "clu.Ranking.of")):
    with pytest.raises(TypeError, match=f"{name}: an Evaluator has its own options, got empty"):
      make(jr.Evaluator("RR"), empty="skip")
    with pytest.raises(ValueError, match=f"{name}: keywords"):
      make("RR", keywords={"logits": "scores"})
  with pytest.raises(ValueError, match="reservoir must be None"):
    clu.Ranking.of("RR", reservoir=3)
  with pytest.raises(TypeError, match="nnx.Ranking.update: scores must be passed as scores="):
    nnx.Ranking("RR").update(logits=1)
  with pytest.raises(TypeError, match="labels must be passed as y=, got scores"):
    clu.Ranking.of("RR", keywords={"labels": "y"}).from_model_output(scores=1)


def test_a_metric_of_clu_is_gathered_from_devices():
  flax, metrics = pytest.importorskip("flax"), pytest.importorskip("clu.metrics")
  from jaxrank.interop.clu import Ranking

  @flax.struct.dataclass
  class Metrics(metrics.Collection):
    ranking: Ranking.of("RR nDCG")

  scores = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)
  labels = np.random.default_rng(1).integers(0, 2, scores.shape)
  gathered = jax.pmap(
    lambda scores, labels: Metrics.gather_from_model_output(scores=scores, labels=labels),
    axis_name="batch",
  )(scores, labels)
  found = gathered.unreplicate().compute()["ranking"]
  own = jr.Evaluator("RR nDCG")
  expected = own.compute(own.update(own.init(), scores, labels))
  np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-6)
