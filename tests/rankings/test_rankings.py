"""Rankings and discounts as pytrees."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import losses

TREES = [
  jr.Exact(),
  jr.Exact("stable"),
  jr.Exact("random", key=jax.random.key(0)),
  jr.Laplace(1.0),
  jr.Logistic(1.0),
  jr.Gumbel(1.0),
  jr.Gaussian(1.0),
  jr.discounts.geometric(0.5),
  jr.discounts.table([1.0, 0.5]),
]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(TREES, 2)))
def test_different_classes_have_different_structures(one, other):
  """Or else `jit` may run for one what it compiled for the other."""
  assert jax.tree.structure(one) != jax.tree.structure(other)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_a_structure_with_its_leaves_is_the_pytree(tree):
  leaves, structure = jax.tree.flatten(tree)
  again = jax.tree.unflatten(structure, leaves)
  assert type(again) is type(tree)
  assert vars(again) == vars(tree)
  assert jax.tree.structure(again) == structure
  # What stands in for the leaves is not checked.
  jax.tree.unflatten(structure, [object()] * len(leaves))


def test_leaves_are_named():
  paths = jax.tree_util.tree_leaves_with_path({"ranking": jr.Laplace(2.0)})
  assert [jax.tree_util.keystr(path) for path, _ in paths] == ["['ranking'].temperature"]


def test_a_ranking_passes_through_jit_and_vmap():
  scores, labels = jnp.array([1.0, 3.0, 2.0]), jnp.array([0, 1, 2])
  metric = jax.jit(lambda ranking: jr.ndcg(scores, labels, ranking=ranking))
  values = jax.vmap(metric)(jr.Laplace(jnp.array([0.1, 1.0])))
  assert values.shape == (2,)
  assert values[1] == metric(jr.Laplace(1.0))


SCORES, LABELS = np.float32([1.0, 3.0, 2.0]), np.array([0, 1, 2])
# What takes a temperature, or another positive number, by the name and the parameter in messages.
POSITIVE = {
  **{
    (ranking.__name__, "temperature"): lambda t, of=ranking: jr.ndcg(SCORES, LABELS, ranking=of(t))
    for ranking in (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)
  },
  ("softmax", "temperature"): lambda t: losses.softmax(SCORES, LABELS, temperature=t),
  ("lambda_rank", "temperature"): lambda t: losses.lambda_rank(SCORES, LABELS, temperature=t),
  ("neural_sort", "temperature"): lambda t: losses.neural_sort(SCORES, temperature=t),
  ("plackett_luce.rank_probabilities", "temperature"): (
    lambda t: jr.plackett_luce.rank_probabilities(SCORES, temperature=t)
  ),
  ("perturbed", "scale"): lambda t: losses.perturbed(losses.softmax, jax.random.key(0), 1, t),
}


@pytest.mark.parametrize(("name", "parameter"), POSITIVE)
def test_positive_numbers_are_checked_in_the_same_words(name, parameter):
  make, start = POSITIVE[name, parameter], f"^{name}: {parameter} must be "
  for value in (0, 0.0, -1.0, np.nan):
    for kind in (float, np.float32, np.array):
      with pytest.raises(ValueError, match=f"{start}positive, got {value}"):
        make(kind(value))
  for value in ("1", None, True, np.True_, 1j, jnp.array(True), object()):
    with pytest.raises(TypeError, match=f"{start}a number, got"):
      make(value)
  for value in (np.ones(2), jnp.ones(1), jnp.ones((3, 1))):
    with pytest.raises(TypeError, match=f"{start[1:]}a scalar, got .*; use vmap"):
      make(value)


def test_values_of_arrays_of_jax_are_not_read():
  limit = jr.ndcg(SCORES, LABELS, ranking=jr.Laplace(jnp.array(0.0)))
  np.testing.assert_allclose(limit, jr.ndcg(SCORES, LABELS), rtol=1e-6)
  found = jax.vmap(lambda t: jr.ndcg(SCORES, LABELS, ranking=jr.Laplace(t)))(jnp.array([-1.0, 0.0]))
  np.testing.assert_allclose(found, jr.ndcg(SCORES, LABELS), rtol=1e-6)
  with pytest.raises(TypeError, match=r"Laplace: temperature must be a scalar.*use vmap"):
    jax.jit(lambda t: jr.ndcg(SCORES, LABELS, ranking=jr.Laplace(t)))(jnp.ones(2))


def test_pytree_functions_make_rankings_of_anything():
  ranking = jr.Gumbel(1.0)
  for leaf in (None, object(), np.zeros(3), jax.ShapeDtypeStruct((), jnp.float32), "leaf"):
    assert jax.tree.map(lambda _, leaf=leaf: leaf, ranking).temperature is leaf
  assert jax.eval_shape(jr.Laplace, jnp.float32(1.0)).temperature.shape == ()


def test_other_numbers_are_read_too():
  for wrong in (np.float32(1.5), np.array(-0.5)):
    with pytest.raises(ValueError, match=r"^rbp: persistence must be in \[0, 1\], got"):
      jr.rbp(SCORES, LABELS, persistence=wrong)
  with pytest.raises(ValueError, match="^err: max_label must be at least 0, got -1"):
    jr.err(SCORES, LABELS, max_label=np.int32(-1))
  with pytest.raises(ValueError, match=r"^soft\.top_k: k must be positive, got 0"):
    jr.soft.top_k(SCORES, np.float32(0.0))


@pytest.mark.parametrize("depth", [1, 2, 7])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_table_of_discounts_is_linear_between_ranks(dtype, depth):
  values = np.random.default_rng(depth).integers(-9, 10, depth).astype(np.float32)
  ranks = np.concatenate([np.arange(-1, depth + 4, 0.25), [np.inf, -np.inf, np.nan]])
  discount = jr.discounts.table(values)
  found, slopes = jax.jit(jax.vmap(jax.value_and_grad(discount)))(jnp.asarray(ranks, dtype))
  assert found.dtype == dtype
  entries = np.append(values, 0)
  right = np.interp(ranks, np.arange(1, depth + 2), entries)
  rtol = {"float32": 0, "bfloat16": 1e-2}[dtype]
  np.testing.assert_allclose(found.astype(np.float32), right, rtol=rtol)
  # At a whole rank, the slope is that towards the next one.
  slopes = np.asarray(slopes, np.float32)
  whole = np.isin(ranks, np.arange(1, depth + 1))
  np.testing.assert_array_equal(slopes[whole], np.diff(entries))
  np.testing.assert_array_equal(slopes[ranks < 1], 0)
