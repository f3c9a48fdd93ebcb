"""Ways of sorting on a CPU against numpy, and where the network is taken."""

import jax
import numpy as np
import pytest

from jaxrank._core import batching, sorting


@pytest.fixture(params=["few", "many"])
def words(request, monkeypatch):
  """Passes as for few words, and as for many."""
  monkeypatch.setattr(sorting, "_WORDS", 0 if request.param == "many" else 2**30)
  monkeypatch.setattr(sorting, "_ROW", 0)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 32, 64, 512])
def test_a_network_sorts(n, words):
  rng = np.random.default_rng(n)
  arrays = [rng.integers(-9, 9, size=x, dtype=np.int32) for x in ((n,), (n, 3), (n, 2, 5))]
  ascending = jax.jit(lambda arrays: [sorting.ascending(x) for x in arrays])
  for x, found in zip(arrays, ascending(arrays), strict=True):
    np.testing.assert_array_equal(found, np.sort(x, axis=0))


def test_a_network_sorts_all_zeros_and_ones(words):
  """A network of comparisons that sorts these sorts everything (Knuth, volume 3, 5.3.4)."""
  x = (np.arange(2**16, dtype=np.int32) >> np.arange(16, dtype=np.int32)[:, None]) & 1
  np.testing.assert_array_equal(jax.jit(lambda x: sorting.ascending(x))(x), np.sort(x, axis=0))


def test_keys_have_the_order_of_floats():
  """Also of denormal numbers, which comparisons of floats on a CPU take for 0."""
  limits = np.finfo(np.float32)
  above = np.float32([limits.smallest_subnormal, limits.tiny, 1, limits.max, np.inf])
  x = np.concatenate([-above[::-1], np.float32([-0.0, 0.0]), above])
  key = np.asarray(sorting.keys(x, np.ones(x.shape, bool)))
  np.testing.assert_array_equal(np.sign(np.diff(key)), [1] * 5 + [0] + [1] * 5)
  assert key[0] == sorting.LOST > sorting.MASKED == sorting.keys(x, np.zeros(x.shape, bool))[0]
  np.testing.assert_array_equal(sorting.top_values(x, key), x)


@pytest.mark.parametrize("shape", [(82, 100), (9, 1000), (2, 5000), (3, 4, 1000)])
def test_orders_by_the_network_are_stable(shape):
  key = np.random.default_rng(0).integers(-40, 40, size=shape, dtype=np.int32)
  wanted = np.argsort(-key, axis=-1, kind="stable")
  ordered, index = jax.jit(sorting.order_by_network)(key)
  np.testing.assert_array_equal(index, wanted)
  np.testing.assert_array_equal(ordered, np.take_along_axis(key, wanted, -1))


@pytest.mark.parametrize("shape", [(1, 10000), (32, 100), (2, 70000)])
def test_few_items_are_sorted_without_a_network(shape):
  (network,) = (x for x in sorting.order_of_batch.variants if "network" in x.function.__name__)
  assert not network.when(np.zeros(shape, np.int32))
  assert network.when(np.zeros((82, 100), np.int32))


def test_the_largest_values_are_those_of_a_sort():
  """By a search for the levels, which may be infinite, or by a sort where there are many levels."""
  rng = np.random.default_rng(0)
  x = rng.choice(np.float32([-np.inf, -2, 0, 1, 3, np.inf]), size=(2000, 20))
  assert x.size > sorting._MANY
  many = x.copy()
  many[0] = rng.standard_normal(20)
  for labels in (x, many, x.reshape(2, 1000, 20), x.reshape(-1)):
    largest = batching.over_queries(lambda x: sorting.descending(x, 7), labels.ndim - 1)
    found = jax.jit(largest)(labels)
    np.testing.assert_array_equal(found, -np.sort(-labels, axis=-1)[..., :7])
