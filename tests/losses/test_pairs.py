"""Sums over pairs as accelerators compute them, against the blocks of a CPU."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import losses, metrics
from jaxrank._core import all_pairs as pairs
from jaxrank._core import platforms
from tests.helpers.suites import quick

N = 300


def _margin_mse(scores, labels, *, where, weights, temperature):
  del weights
  return losses.margin_mse(scores, labels, teacher=jnp.sin(5 * labels) / temperature, where=where)


LOSSES = {
  "pairwise_logistic": losses.pairwise_logistic,
  "pairwise_hinge": lambda *args, temperature, **given: losses.pairwise_hinge(
    *args, margin=temperature, **given
  ),
  "lambda_rank": lambda *args, weights, **given: losses.lambda_rank(*args, **given),
  "lambda_rank_of_err": lambda *args, weights, **given: losses.lambda_rank(
    *args, metric=metrics.err, max_label=3, k=10, **given
  ),
  "lambda_ndcg": functools.partial(losses.lambda_ndcg, scheme="ndcg2++", k=20),
  "margin_mse": _margin_mse,
}


def _same(ours, theirs, tolerance=2e-6):
  assert len(ours) == len(theirs) > 0
  for x, y in zip(ours, theirs, strict=True):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max())


# A block of 64 of the 300 items, or all of them.
BLOCKS = {"cpu": ("cpu", 64), "gpu": ("gpu", 64), "whole": ("cpu", 2 * N)}


OTHERS = [name for name in LOSSES if name != "pairwise_hinge"]


@quick("names", [["pairwise_hinge"], OTHERS], [["pairwise_hinge"]])
def test_platforms_and_blocks_agree(names, monkeypatch):
  rng = np.random.default_rng(5)
  scores, along = (jnp.asarray(rng.standard_normal((2, N)), jnp.float32) for _ in range(2))
  labels = jnp.asarray(rng.integers(0, 4, (2, N)), jnp.float32)
  where = jnp.asarray(rng.random((2, N)) < 0.9)
  weights = jnp.asarray(rng.random((2, N)), jnp.float32)

  def every(name, scores, temperature, weights):
    def value(scores, temperature, weights):
      given = {"where": where, "weights": weights, "temperature": temperature}
      return jnp.sum(LOSSES[name](scores, labels, **given))

    slope = jax.value_and_grad(value, argnums=(0, 1, 2))
    forward = jax.jvp(lambda x: value(x, temperature, weights), (scores,), (along,))
    return jax.tree.leaves((slope(scores, temperature, weights), forward))

  found = {}
  for way, (platform, rows) in BLOCKS.items():
    monkeypatch.setattr(pairs, "_PAIRS", rows * scores.size)
    with platforms.forced(platform):
      program = jax.jit(lambda *given: [every(name, *given) for name in names])
      found[way] = program(scores, jnp.float32(0.7), weights)
    jax.clear_caches()
  for i in range(len(names)):
    _same(found["gpu"][i], found["cpu"][i])
    _same(found["whole"][i], found["cpu"][i])


def test_second_derivatives_and_constants():
  """Also features without a derivative, and several outputs in a tree."""
  rng = np.random.default_rng(6)
  with jax.enable_x64(True):
    z, along = (jnp.asarray(rng.standard_normal(N)) for _ in range(2))
    grade = jnp.asarray(rng.integers(0, 3, N))

    def value(z, scale):
      def pair(upper, lower):
        (z, grade), (other_z, other_grade) = upper, lower
        better = grade > other_grade
        return {
          "loss": jnp.where(better, jnp.tanh(scale * (z - other_z)) * z, 0),
          "count": better.astype(z.dtype),
        }

      found = pairs.total(pair, (z, grade), 64)
      return found["loss"] ** 2 / found["count"]

    def every(z, scale):
      slope = jax.grad(value, argnums=(0, 1))
      return jax.tree.leaves(
        (
          slope(z, scale),
          jax.jvp(lambda z: slope(z, scale), (z,), (along,)),
          jax.grad(lambda z: jnp.sum(slope(z, scale)[0] * along))(z),
        )
      )

    found = {}
    for platform in ("cpu", "gpu"):
      with platforms.forced(platform):
        found[platform] = jax.jit(every)(z, jnp.float64(1.5))
  _same(found["gpu"], found["cpu"], 1e-11)


@pytest.mark.parametrize("grade", [np.arange(N) % 3, np.where(np.arange(N) == 7, np.nan, 1)])
def test_features_that_all_queries_share(grade):
  """Their matrix belongs to each query, or XLA would store it; an unknown number stays unknown."""
  z = jnp.asarray(np.random.default_rng(7).standard_normal((2, N)), jnp.float32)
  grade = jnp.asarray(grade, jnp.float32)

  def pair(upper, lower):
    (z, grade), (other_z, other_grade) = upper, lower
    return jnp.tanh(z - other_z) * jnp.square(grade) * other_grade

  def slopes(z):
    return jax.vmap(jax.grad(lambda z: pairs.total(pair, (z, grade), 64)))(z)

  found = {}
  for platform in ("cpu", "gpu"):
    with platforms.forced(platform):
      found[platform] = jax.jit(slopes)(z)
      program = jax.make_jaxpr(slopes)(z)
  np.testing.assert_allclose(found["gpu"], found["cpu"], rtol=1e-4, atol=1e-4)
  assert np.isnan(found["gpu"]).any() == np.isnan(grade).any()
  assert f"sub {N}" not in str(program)
