"""The Plackett-Luce model against all orders of a short list: likelihoods, ranks and samples."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import plackett_luce
from tests.helpers.suites import quick, thorough

SCORES = np.float32([0.3, -1.2, 0.3, 2.0])


def log_probability(scores, order):
  """The formula, item by item."""
  left, total = list(range(len(scores))), 0.0
  for item in order:
    total += scores[item] - np.log(sum(np.exp(scores[j]) for j in left))
    left.remove(item)
  return total


def over_orders(scores):
  """All orders, and the logarithms of their probabilities."""
  orders = np.array(list(itertools.permutations(range(len(scores)))))
  return orders, np.array([log_probability(np.asarray(scores, float), o) for o in orders])


def rank_probabilities(scores):
  orders, log = over_orders(scores)
  hit = orders[:, None, :] == np.arange(len(scores))[:, None]
  return np.einsum("o,oir->ir", np.exp(log), hit)


@quick("t", (0.2, 7.0), (0.2,))
def test_likelihoods_and_ranks_are_those_over_all_orders(t):
  orders, log = over_orders(SCORES / t)
  found = plackett_luce.log_prob(SCORES, orders, temperature=t)
  np.testing.assert_allclose(found, log, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(jnp.sum(jnp.exp(found)), 1, rtol=1e-5)
  top = np.array(list(itertools.permutations(range(4), 2)))
  expected = [log_probability(SCORES.astype(float) / t, order) for order in top]
  for given in ({}, {"k": 2}, {"k": jnp.int32(2)}):
    order = top if not given else [[*o, *({0, 1, 2, 3} - {*o})] for o in top.tolist()]
    found = plackett_luce.log_prob(SCORES, np.array(order), temperature=t, **given)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
  chances = plackett_luce.rank_probabilities(SCORES, temperature=t)
  np.testing.assert_allclose(chances, rank_probabilities(SCORES / t), atol=1e-5)
  np.testing.assert_allclose(
    plackett_luce.rank_probabilities(SCORES, temperature=t, k=2), chances[:, :2], atol=1e-5
  )


@quick("n", (1, 5), (5,))
def test_gradients_are_differences_of_the_formulas(n):
  s = np.random.default_rng(0).normal(size=n)
  w = np.random.default_rng(1).normal(size=(n, n))
  order = np.random.default_rng(2).permutation(n)
  wide = jnp.asarray(s, jnp.float32)
  ranks = jax.grad(lambda s: jnp.sum(plackett_luce.rank_probabilities(s) * w.astype(np.float32)))
  slope = ranks(wide)
  likelihood = jax.grad(lambda s: plackett_luce.log_prob(s, order))(wide)
  for i, e in enumerate(1e-5 * np.eye(n)):
    change = (rank_probabilities(s + e) - rank_probabilities(s - e)) / 2e-5
    np.testing.assert_allclose(slope[i], np.sum(change * w), atol=1e-4)
    change = (log_probability(s + e, order) - log_probability(s - e, order)) / 2e-5
    np.testing.assert_allclose(likelihood[i], change, atol=1e-4)


def test_samples_agree_with_the_probabilities():
  orders, log = over_orders(SCORES / 0.8)
  key = jax.random.key(3)
  found = np.asarray(plackett_luce.sample(key, SCORES, temperature=0.8, shape=(100_000,)))
  assert found.dtype == np.int32
  share = np.mean(np.all(found[:, None] == orders[None], axis=-1), axis=0)
  p = np.exp(log)
  assert np.all(abs(share - p) < 4 * np.sqrt(p * (1 - p) / 1e5))
  assert abs(share.sum() - 1) < 1e-12


# Masked and lost items, no items, and a score that is not a number.
HOLES = np.float32([[0.5, np.nan, 2.0, -np.inf, -1.0], [np.nan] * 5, [0.0, np.nan, 1.0, 2.0, 3.0]])
SHOWN = np.array([[1, 0, 1, 1, 1], [0] * 5, [1] * 5]) > 0


@thorough
def test_masked_and_lost_items_are_in_no_order():
  s, where = HOLES, SHOWN
  orders = plackett_luce.sample(jax.random.key(0), s, where=where, k=4, shape=(50, 2))
  assert orders.shape == (50, 2, 3, 4)
  first = np.sort(orders[:, :, 0], axis=-1)
  np.testing.assert_array_equal(first, np.broadcast_to([-1, 0, 2, 4], first.shape))
  np.testing.assert_array_equal(orders[:, :, 1:], -1)
  np.testing.assert_array_equal(orders[:, :, 0, 3], -1)

  def likelihood(s):
    order = np.array([[2, 0, 4, -1], [-1] * 4, [-1] * 4])
    return plackett_luce.log_prob(s, order, where=where)

  value = likelihood(s)
  np.testing.assert_allclose(value[0], log_probability([0.5, 2.0, -1.0], [1, 0, 2]), rtol=1e-5)
  assert value[1] == 0
  assert np.isnan(value[2])
  slope = jax.grad(lambda s: likelihood(s)[0])(jnp.asarray(s))
  assert np.all(np.isfinite(slope[0]))
  np.testing.assert_array_equal(slope[0, np.array([1, 3])], 0)
  impossible = plackett_luce.log_prob(s[0], np.array([[1, 0], [3, 0]]), where=where[0])
  np.testing.assert_array_equal(impossible, -np.inf)


@thorough
def test_masked_and_lost_items_have_no_rank():
  found = plackett_luce.rank_probabilities(HOLES, where=SHOWN, k=7)
  assert found.shape == (3, 5, 7)
  live = np.array([0, 2, 4])
  expected = rank_probabilities([0.5, 2.0, -1.0])
  np.testing.assert_allclose(found[0][live, :3], expected, atol=1e-5)
  np.testing.assert_array_equal(found[0][np.array([1, 3])], 0)
  np.testing.assert_allclose(found[0, :, 3:], 0, atol=1e-6)
  np.testing.assert_array_equal(found[1], 0)
  assert np.all(np.isnan(found[2]))


def test_more_padding_does_not_change_samples():
  key, s = jax.random.key(1), np.float32([[0.0, 1.0, 0.5]])
  padded = np.pad(s, ((0, 0), (0, 4)))
  where = np.arange(7)[None] < 3
  found = plackett_luce.sample(key, padded, where=where, k=3, shape=(20,))
  np.testing.assert_array_equal(found, plackett_luce.sample(key, s, shape=(20,)))


@thorough
def test_temperature_zero_draws_among_ties():
  s, zero = np.float32([1.0, 1e6, 1.0]), jnp.float32(0)
  found = plackett_luce.sample(jax.random.key(1), s, temperature=zero, shape=(400,))
  np.testing.assert_array_equal(found[:, 0], 1)
  assert 130 < np.sum(found[:, 1] == 0) < 270
  value = plackett_luce.log_prob(s, np.array([1, 0, 2]), temperature=zero)
  np.testing.assert_allclose(value, -np.log(2), rtol=1e-6)
  chances = plackett_luce.rank_probabilities(s, temperature=zero)
  np.testing.assert_allclose(chances, [[0, 0.5, 0.5], [1, 0, 0], [0, 0.5, 0.5]], atol=1e-5)


@thorough
def test_the_likelihood_of_labels_is_that_of_their_order():
  labels = np.float32([2, 0, 1, 3])
  order = np.array([3, 0, 2, 1])
  for k in (1, 2, 3, None):
    found = jr.losses.list_mle(SCORES, labels, k=k)
    np.testing.assert_allclose(found, -plackett_luce.log_prob(SCORES, order, k=k), rtol=1e-5)
  np.testing.assert_allclose(
    jax.jit(lambda k: jr.losses.list_mle(SCORES, labels, k=k))(jnp.int32(2)),
    -plackett_luce.log_prob(SCORES, order, k=2),
    rtol=1e-5,
  )


def test_list_mle_averages_the_tie_at_its_cut():
  """Of equal scores, which of the tied items is the last one makes no difference."""
  scores, labels = np.float32([0.7, 0.7, 0.7, -0.3, 1.0]), np.float32([1, 1, 1, 0, 2])
  found = jr.losses.list_mle(scores, labels, k=3)
  expected = -log_probability(scores.astype(float), [4, 0, 1])
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  slope = jax.grad(jr.losses.list_mle)(jnp.asarray(scores), labels, k=3)
  np.testing.assert_allclose(slope[:3], slope[0], rtol=1e-5)


@thorough
def test_long_lists():
  s = jnp.asarray(np.random.default_rng(0).normal(size=300), jnp.float32)
  found = plackett_luce.rank_probabilities(s)
  np.testing.assert_allclose(jnp.sum(found, axis=0), 1, atol=1e-5)
  np.testing.assert_allclose(jnp.sum(found, axis=1), 1, atol=1e-5)
  ranks = found @ jnp.arange(1.0, 301)
  np.testing.assert_allclose(ranks, jr.soft.rank(s, ranking=jr.Gumbel(1.0)), rtol=1e-4)
  mean = jr.ndcg(s, s > 0.5, k=10, ranking=jr.Gumbel(1.0))
  gains = (s > 0.5).astype(s.dtype) @ plackett_luce.rank_probabilities(s, k=10)
  discount = jr.discounts.logarithmic(jnp.arange(1.0, 11))
  np.testing.assert_allclose(gains @ discount / jnp.sum(discount), mean, rtol=1e-4)


def test_wrong_arguments_are_named():
  scores = jnp.zeros((2, 3))
  for order, said in (
    ([[0, 1, 2], [0, 0, 1]], r"plackett_luce.log_prob: 0 in order\[1\] occurs twice"),
    ([[0, 1, 2], [0, 3, 1]], r"3 in order\[1\] is no column of 3 items"),
    ([[0, -1, 2], [0, 2, 1]], r"2 in order\[0\] stands behind a -1"),
    ([0, 1, 2], r"order must have shape \[\*samples, ..., ranks\]"),
  ):
    with pytest.raises(ValueError, match=said):
      plackett_luce.log_prob(scores, np.array(order))
  with pytest.raises(TypeError, match="order must be integers"):
    plackett_luce.log_prob(scores, scores)
  with pytest.raises(ValueError, match="plackett_luce.sample: temperature must be positive"):
    plackett_luce.sample(jax.random.key(0), scores, temperature=0.0)
  with pytest.raises(TypeError, match="plackett_luce.sample: key must be a PRNG key"):
    plackett_luce.sample(0, scores)
  with pytest.raises(
    ValueError, match=r"plackett_luce.sample: scores must have rows of one length"
  ):
    plackett_luce.sample(jax.random.key(0), [[1.0, 2.0], [3.0]])
  with pytest.raises(TypeError, match="plackett_luce.rank_probabilities: k must be an int"):
    plackett_luce.rank_probabilities(scores, k=1.5)
  traced = jax.jit(plackett_luce.log_prob)(scores[0], jnp.array([[0, 0, 1], [0, 1, 2], [5, 1, 2]]))
  np.testing.assert_array_equal(np.isnan(traced), [True, False, True])
