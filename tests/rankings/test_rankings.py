"""Rankings and discounts as pytrees."""

import itertools

import jax
import jax.numpy as jnp
import pytest

import jaxrank as jr

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
