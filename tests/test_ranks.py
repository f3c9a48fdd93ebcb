"""Ranks of targets and their statistics, against plain Python and exhaustive enumeration."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr


def slow_ranks(scores, target, where):
  """Optimistic and pessimistic rank and the number of candidates, counted one by one."""
  kept = [s for s, w in zip(scores, where, strict=True) if w and not math.isnan(s)]
  if not where[target] or math.isnan(scores[target]):
    return 0, 0, len(kept)
  true = scores[target]
  return sum(s > true for s in kept) + 1, sum(s >= true for s in kept), len(kept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, jnp.bfloat16])
def test_ranks_count_the_candidates_ahead(dtype):
  rng = np.random.default_rng(0)
  scores = rng.integers(-2, 3, (200, 7)).astype(np.float64)
  if dtype != np.int32:
    scores[rng.random(scores.shape) < 0.2] = np.nan
    scores[rng.random(scores.shape) < 0.1] = np.inf
    scores[rng.random(scores.shape) < 0.1] = -np.inf
  targets, where = rng.integers(0, 7, 200), rng.random(scores.shape) < 0.8
  ranks = jr.ranks.from_scores(scores.astype(dtype), targets.astype(np.int32), where=where)
  expected = [slow_ranks(*row) for row in zip(scores, targets, where, strict=True)]
  assert np.array_equal(
    np.stack([ranks.optimistic, ranks.pessimistic, ranks.candidates], -1), expected
  )
  best, worst = np.array(expected)[:, :2].T
  assert np.array_equal(
    ranks.realistic, np.where(best > 0, (best + worst) / 2, np.nan), equal_nan=True
  )


def test_close_scores_of_64_bits_are_told_apart():
  scores = np.array([1.0, 1.0 + 1e-12])
  assert jr.ranks.from_scores(scores, 0).pessimistic == 2
  assert jr.ranks.from_scores(scores, 1).pessimistic == 1


@pytest.mark.parametrize("target", [-1, 3, 100])
def test_an_index_out_of_range_has_no_rank(target):
  ranks = jax.jit(jr.ranks.from_scores)(jnp.arange(3.0), jnp.array(target))
  assert ranks.optimistic == 0
  assert jnp.isnan(ranks.realistic)


def test_ranks_under_vmap_are_those_of_a_batch():
  scores = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 5)))
  targets = jnp.array([[0, 1, 2], [3, 4, 0]])
  batch = jr.ranks.from_scores(scores, targets)
  mapped = jax.vmap(jax.vmap(jr.ranks.from_scores))(scores, targets)
  assert all(map(np.array_equal, jax.tree.leaves(batch), jax.tree.leaves(mapped)))


def test_wrong_arguments_are_named():
  scores = jnp.zeros((2, 3))
  with pytest.raises(ValueError, match=r"one index a query, shape \(2,\), got \(\)"):
    jr.ranks.from_scores(scores, 0)
  with pytest.raises(TypeError, match="targets must be integer indices"):
    jr.ranks.from_scores(scores, jnp.zeros(2))
  with pytest.raises(TypeError, match="where must be boolean"):
    jr.ranks.from_scores(scores, jnp.zeros(2, int), where=jnp.ones((2, 3)))
  with pytest.raises(ValueError, match="got a scalar"):
    jr.ranks.from_scores(1.0, 0)
