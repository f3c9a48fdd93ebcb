"""Labels beyond the scale: exact where a ratio allows it, refused by the host elsewhere."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

RANKINGS = [jr.Exact(), jr.Laplace(1e-3), jr.Gumbel(1e-3)]


def ndcg(scores, labels, k=None):
  """In Python integers, which have no largest one."""
  gains = lambda order: [(1 << int(labels[i])) - 1 for i in order[:k]]  # noqa: E731
  ideal = gains(np.argsort(-labels, kind="stable"))
  total = lambda x: sum(g / max(ideal[0], 1) / np.log2(r + 2) for r, g in enumerate(x))  # noqa: E731
  return total(gains(np.argsort(-scores, kind="stable"))) / total(ideal)


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("k", [None, 3])
def test_ndcg_of_exponential_gains_is_exact_for_any_label(ranking, k):
  rng = np.random.default_rng(0)
  labels = np.concatenate(
    [rng.integers(0, 5, (5, 8)), rng.integers(90, 130, (5, 8)), rng.integers(0, 1000, (5, 8))]
  )
  scores = rng.permuted(np.tile(np.arange(8.0), (15, 1)), axis=1)
  found = jr.ndcg(scores, labels, k=k, gain=jr.gains.exponential, ranking=ranking)
  expected = [ndcg(s, y, k) for s, y in zip(scores, labels, strict=True)]
  np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-20)


def test_other_ratios_of_exponential_gains_do_not_saturate():
  scores, small = jnp.array([3.0, 1.0, 2.0]), jnp.array([69, 70, 40])
  given = {"gain": jr.gains.exponential}
  for metric in (jr.ndcg_at_relevant, jr.ndcg_at_levels, jr.losses.lambda_ndcg):
    exact = metric(scores, small, **given)
    assert metric(scores, small + 130, **given) == pytest.approx(float(exact), rel=1e-5)
  slope = jax.grad(lambda s: jr.losses.approx_ndcg(s, small + 130, **given))(scores)
  assert jnp.isfinite(slope).all()
  assert (slope != 0).any()


@pytest.mark.parametrize("large", [101, 4.5, 5])
def test_hosts_refuse_labels_above_the_best_grade(large):
  labels = np.array([[0, 4.0], [large, 1]])
  jr.check_values(np.ones((2, 2)), labels)
  jr.check_values(np.ones((2, 2)), np.minimum(labels, 4), max_label=4)
  with pytest.raises(ValueError, match=rf"label of query 1, item 0 is {large}.*max_label={large}"):
    jr.check_values(np.ones((2, 2)), labels, max_label=4)
  with pytest.raises(ValueError, match="max_label must be at least 0"):
    jr.check_values(np.ones((2, 2)), labels, max_label=-1)


def test_under_jit_they_count_as_the_best_grade():
  scores, labels = jnp.array([2.0, 1.0]), jnp.array([5.0, 3.0])
  cases = (jr.err, {}), (jr.nerr, {}), (jr.sdcg, {"k": 2, "min_label": 1}), (jr.bpm, {"k": 2})
  for metric, given in cases:
    value = functools.partial(metric, max_label=4, **given)
    assert jax.jit(value)(scores, labels) == value(scores, jnp.minimum(labels, 4))
    assert jax.grad(value, argnums=1)(scores, labels)[0] == 0
