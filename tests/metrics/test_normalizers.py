"""`normalizer="perfect"`, by which the names of ndeval give the numbers of ndeval."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers.suites import quick, thorough

N, S = 6, 3
RNG = np.random.default_rng(3)
SCORES = np.float32(RNG.permuted(np.tile(np.arange(N), (8, 1)), axis=1))
LABELS = np.float32(RNG.random((8, N, S)) < 0.4)
LABELS[0], LABELS[1, :, 1] = 0, 0
METRICS = {
  "ERR-IA": functools.partial(jr.err_ia, max_label=1, normalizer="perfect"),
  "alpha-DCG": functools.partial(jr.alpha_dcg, rel=1, normalizer="perfect"),
}


def discount(name, rank):
  return 1 / rank if name == "ERR-IA" else 1 / np.log2(rank + 1)


def by_hand(name, scores, labels, k, alpha=0.5):
  """As ndeval computes it, with only the subtopics that some item covers."""
  found, perfect, left = 0.0, 0.0, np.ones(labels.shape[1])
  for rank, item in enumerate(np.argsort(-scores)[:k], 1):
    found += np.sum(left * labels[item]) * discount(name, rank)
    left = left * (1 - alpha * labels[item])
  for rank in range(1, k + 1):
    perfect += (1 - alpha) ** (rank - 1) * discount(name, rank)
  covered = np.sum(labels.any(axis=0))
  return found / perfect / covered if covered else 0.0


@quick("k", [1, 2, 5, 20], [2])
@pytest.mark.parametrize("name", METRICS)
def test_names_of_ndeval_mean_its_definitions(name, k):
  want = [by_hand(name, *query, k) for query in zip(SCORES, LABELS, strict=True)]
  named = [f"{name}@{k}", f"{name.replace('-', '_')}@{k}"]

  @jax.jit
  def every_way(traced):
    direct = [METRICS[name](SCORES, LABELS, k=x) for x in (k, traced)]
    return [*direct, *jr.evaluate(named, SCORES, LABELS).values()]

  for got in every_way(k):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", METRICS)
def test_the_whole_list_is_that_of_the_valid_items(name):
  pad = ((0, 0), (0, 4))
  scores, labels = np.pad(SCORES, pad), np.pad(LABELS, (*pad, (0, 0)), constant_values=1)
  where = np.arange(N + 4) < N

  @jax.jit
  def both():
    got = METRICS[name](scores, labels, where=np.broadcast_to(where, scores.shape))
    return got, METRICS[name](SCORES, LABELS, k=N)

  np.testing.assert_allclose(*both(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weights", [None, [0.2, 0.3, 0.5]])
def test_a_perfect_list_is_1(weights):
  given = {"normalizer": "perfect", "subtopic_weights": weights, "k": 4}
  labels = np.full((N, S), 3)
  labels[:, 1] = 0  # No item covers this subtopic, whose weight does not count.

  @jax.jit
  def values():
    novel = [jr.alpha_dcg(SCORES[0], labels, alpha=x, **given) for x in (0.3, 1.0, 0.0)]
    return [*novel, *(jr.err_ia(SCORES[0], labels, max_label=x, **given) for x in (3, 0))]

  *perfect, nothing = values()
  assert perfect == pytest.approx([1] * 4)
  assert nothing == 0


@thorough
@pytest.mark.parametrize("name", METRICS)
def test_it_divides_whatever_the_ranking(name):
  """The divisor depends on labels alone, so that smooth values, slopes and chance go with it."""
  normal, plain = METRICS[name], functools.partial(METRICS[name], normalizer="none")
  ratio = normal(SCORES[2], LABELS[2], k=4) / plain(SCORES[2], LABELS[2], k=4)

  def slope(metric):
    smooth = lambda s: metric(s, LABELS[2], k=4, ranking=jr.Logistic(0.5))  # noqa: E731
    return jax.value_and_grad(smooth)(jnp.asarray(SCORES[2]))

  for got, want in zip(slope(normal), slope(plain), strict=True):
    np.testing.assert_allclose(got, ratio * want, rtol=1e-5, atol=1e-6)


def test_an_unknown_normalizer_is_named():
  with pytest.raises(ValueError, match="err_ia: normalizer must be .*'none'.*got 'ideal'"):
    jr.err_ia(SCORES, LABELS, max_label=1, normalizer="ideal")
