"""Batches that are computed a few queries at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import apply, batching


@pytest.fixture
def three_at_a_time(monkeypatch):
  """Metrics cut batches into blocks of three queries."""
  monkeypatch.setattr(apply, "_rows", lambda scores: 3)
  apply._answer.clear_cache()
  yield
  apply._answer.clear_cache()


def lists(*shape):
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 9, shape).astype(np.float32)
  labels = rng.integers(0, 4, shape).astype(np.float32)
  return jnp.array(scores), jnp.array(labels), jnp.array(rng.random(shape) < 0.8)


@pytest.mark.parametrize("queries", [1, 3, 4, 6, 7, 11])
def test_a_function_in_blocks_is_the_function(queries):
  def function(x, key):
    return {"sum": x.sum(-1), "noise": jax.vmap(jax.random.uniform)(key), "x": x}

  x = jnp.arange(2.0 * queries).reshape(queries, 2)
  keys = jax.random.split(jax.random.key(0), queries)
  blocks = batching.in_blocks(function, 3)
  assert str(jax.make_jaxpr(blocks)(x, keys)).count("scan") == (queries > 3)
  jax.tree.map(np.testing.assert_array_equal, blocks(x, keys), function(x, keys))


@pytest.mark.usefixtures("three_at_a_time")
@pytest.mark.parametrize("ties", ["average", "stable", "random"])
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


def test_one_device_of_a_cpu_cuts_what_exceeds_its_caches(monkeypatch):
  def rows(scores):
    found = []
    jax.eval_shape(lambda scores: found.append(apply._rows(scores)), scores)
    return found[0]

  scores = jax.ShapeDtypeStruct((1000, 10_000), jnp.float32)
  monkeypatch.setattr(jax, "device_count", lambda: 1)
  assert 1 <= rows(scores) < 1000
  with jax.set_mesh(jax.make_mesh((1,), ("q",), devices=jax.devices()[:1])):
    spread = jax.sharding.NamedSharding(jax.sharding.get_abstract_mesh(), jax.P("q"))
    assert rows(jax.ShapeDtypeStruct(scores.shape, scores.dtype, sharding=spread)) == 1000
  monkeypatch.setattr(jax, "device_count", lambda: 4)
  assert rows(scores) == 1000
