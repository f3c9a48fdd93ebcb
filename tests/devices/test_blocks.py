"""Batches that are computed a few queries at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import batching
from tests.helpers.suites import quick

pytestmark = pytest.mark.any_platform


@pytest.fixture
def three_at_a_time():
  """Metrics cut batches of lists of 12 into blocks of three queries."""
  before = jr.config.items_per_block()
  jr.config.update(items_per_block=36)
  yield
  jr.config.update(items_per_block=before)


def lists(*shape):
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 9, shape).astype(np.float32)
  labels = rng.integers(0, 4, shape).astype(np.float32)
  return jnp.array(scores), jnp.array(labels), jnp.array(rng.random(shape) < 0.8)


@quick("queries", [1, 3, 4, 6, 7, 11], [1, 7])
def test_a_function_in_blocks_is_the_function(queries):
  def function(x, key):
    return {"sum": x.sum(-1), "noise": jax.vmap(jax.random.uniform)(key), "x": x}

  x = jnp.arange(2.0 * queries).reshape(queries, 2)
  keys = jax.random.split(jax.random.key(0), queries)
  blocks = batching.in_blocks(function, 3)
  assert str(jax.make_jaxpr(blocks)(x, keys)).count("scan") == (queries > 3)
  jax.tree.map(np.testing.assert_array_equal, blocks(x, keys), function(x, keys))


@pytest.mark.usefixtures("three_at_a_time")
@quick("ties", ["average", "stable", "random"], ["average"])
def test_blocks_do_not_show_in_values(ties):
  scores, labels, where = lists(7, 12)
  ranking = jr.Exact(ties, jax.random.key(3) if ties == "random" else None)
  names = "nDCG ERR RR@3 AP P@2 Rprec Bpref"
  together = jr.evaluate(names, scores, labels, where=where, ranking=ranking)
  if ties == "random":
    # The noise of a query is that of its place in the whole batch.
    again = jr.evaluate(names, scores[:4], labels[:4], where=where[:4], ranking=ranking)
    together, alone = jax.tree.map(lambda x: x[:4], together), again
  else:
    one = [
      jr.evaluate(names, scores[i], labels[i], where=where[i], ranking=ranking) for i in range(7)
    ]
    alone = jax.tree.map(lambda *x: jnp.stack(x), *one)
  for name, value in together.items():
    np.testing.assert_allclose(value, alone[name], rtol=1e-6)


@pytest.mark.usefixtures("three_at_a_time")
def test_gradients_pass_through_blocks():
  scores, labels, where = lists(7, 12)
  weights = jnp.ones_like(scores)

  def total(weights):
    return jr.dcg(scores, labels, where=where, weights=weights).sum()

  slope = jax.grad(total)(weights)
  np.testing.assert_allclose(jnp.sum(slope * weights), total(weights), rtol=1e-6)
  assert not np.any(np.asarray(slope)[~np.asarray(where)])


@pytest.mark.usefixtures("three_at_a_time")
def test_batches_of_batches_are_cut_along_the_first_axis():
  scores, labels, where = lists(5, 2, 12)
  values = jr.ndcg(scores, labels, where=where)
  expected = jnp.stack(
    [jr.ndcg(scores[:, i], labels[:, i], where=where[:, i]) for i in range(2)], 1
  )
  np.testing.assert_allclose(values, expected, rtol=1e-6)


def exported(platform, function=jr.average_precision):
  """The program of a metric or a loss for a platform, as text."""
  scores = jax.ShapeDtypeStruct((40, 12), jnp.float32)
  # A function of its own each time, so that nothing is taken from a cache.
  metric = jax.jit(lambda scores, labels: function(scores, labels))
  return metric.trace(scores, scores).lower(lowering_platforms=(platform,)).as_text()


def test_only_a_cpu_runs_in_blocks(three_at_a_time):
  blocks = {platform: exported(platform) for platform in ("cpu", "cuda", "tpu")}
  jr.config.update(items_per_block=None)
  whole = {platform: exported(platform) for platform in ("cpu", "cuda", "tpu")}
  assert blocks["cpu"] != whole["cpu"]
  assert "tensor<20x2x12xf32>" in blocks["cpu"]
  for platform in ("cuda", "tpu"):
    assert "20x2x12" not in blocks[platform]
    assert "20x2x12" not in whole[platform]


@pytest.mark.parametrize(
  ("loss", "blocks"),
  [
    (jr.losses.softmax, False),
    (jr.losses.pairwise_logistic, False),
    (jr.losses.list_mle, True),
    (jr.losses.lambda_rank, True),
    (lambda scores, _: jr.losses.neural_sort(scores), True),
  ],
)
def test_only_what_gains_by_it_runs_in_blocks(loss, blocks, three_at_a_time):
  assert ("20x2x12" in exported("cpu", loss)) == blocks


def test_programs_do_not_depend_on_the_machine_that_traces_them(monkeypatch, three_at_a_time):
  programs = {platform: exported(platform) for platform in ("cpu", "cuda")}
  monkeypatch.setattr(jax, "device_count", lambda: 64)
  monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
  monkeypatch.setattr("os.cpu_count", lambda: 64)
  assert programs == {platform: exported(platform) for platform in ("cpu", "cuda")}


def test_blocks_leave_batches_alone_that_a_mesh_splits(three_at_a_time):
  scores, labels, _ = lists(8, 12)
  expected = jr.ndcg(scores, labels)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    spread = [
      jax.device_put(x, jax.NamedSharding(mesh, jax.P("q", None))) for x in (scores, labels)
    ]
    values = jax.jit(jr.ndcg)(*spread)
    assert jax.typeof(values).sharding.spec == jax.P("q")
    assert "scan" not in str(jax.make_jaxpr(jr.ndcg)(*spread)).split("platform_index")[0]
  np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError)])
def test_mistakes_of_settings(wrong, error):
  with pytest.raises(error, match="config.update: items_per_block"):
    jr.config.update(items_per_block=wrong)


@pytest.mark.usefixtures("three_at_a_time")
def test_blocks_of_temperatures_do_not_show_in_gradients():
  """Three of five temperatures are a block."""
  scores, labels, where = lists(1, 12)

  def loss(scores, temperature):
    ranking = jr.Laplace(temperature)
    return jnp.sum(jr.ndcg(scores, labels, where=where, ranking=ranking))

  both = jax.value_and_grad(loss, (0, 1))
  temperatures = jnp.geomspace(0.1, 3, 5)
  sweep = jax.jit(jax.vmap(both, (None, 0)))
  assert sweep.lower(scores, temperatures).compile().as_text().count(" while(") >= 2
  for i, alone in enumerate([both(scores, t) for t in temperatures]):
    for one, other in zip(
      jax.tree.leaves(sweep(scores, temperatures)), jax.tree.leaves(alone), strict=True
    ):
      np.testing.assert_allclose(one[i], other, rtol=1e-5, atol=1e-6)
