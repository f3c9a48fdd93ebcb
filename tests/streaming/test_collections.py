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
  own = evaluator(**GROUPED)

  @flax.struct.dataclass
  class Ranking(clu.Metric):
    state: jr.State

    @classmethod
    def empty(cls):
      return cls(own.init())

    @classmethod
    def from_model_output(cls, **arrays):
      names = ("scores", "labels", "where", "query_weights", "groups")
      return cls(own.update(own.init(), **{name: arrays[name] for name in names}))

    def merge(self, other):
      return Ranking(own.merge(self.state, other.state))

    def compute(self):
      return own.compute(self.state)

  @flax.struct.dataclass
  class Metrics(clu.Collection):
    ranking: Ranking
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
  own = evaluator(**GROUPED)

  class Ranking(nnx.Metric):
    def __init__(self):
      self.state = nnx.metrics.MetricState(own.init())

    def reset(self):
      self.state.set_value(own.init())

    def update(self, *, scores, labels, where, query_weights, groups, **_):
      arrays = {"where": where, "query_weights": query_weights, "groups": groups}
      self.state.set_value(own.update(self.state.get_value(), scores, labels, **arrays))

    def compute(self):
      return own.compute(self.state.get_value())

  metrics = nnx.MultiMetric(ranking=Ranking(), loss=nnx.metrics.Average("loss"))

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
