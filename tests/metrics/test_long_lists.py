"""Lists with more items than float32 counts one by one."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from jaxrank.metrics import concordance

N = 2**24 + 3


def test_items_are_counted():
  scores, labels = jnp.zeros(N, jnp.int8), jnp.ones(N, jnp.int8)
  count = jax.jit(lambda scores, labels: jr.item_count(scores, labels))
  # The next float32.
  assert count(scores, labels) == np.float32(N) == 2**24 + 4
  assert count(scores, labels.at[0].set(0)) == 2**24 + 2
  assert jr.item_count(scores, labels, of="relevant") == np.float32(N)


def test_lists_that_tie_throughout_have_no_correlation():
  """The correlation of two constants that rounding had moved was 1."""
  scores = jnp.zeros(N // 64, jnp.int8)
  assert jax.jit(lambda scores: jr.spearman(scores, scores))(scores) == 0
  # The mean position of all is their midrank, which is a half of a whole number, in longer lists.
  tied, everything = jnp.zeros(N, jnp.int32), jnp.ones(N, bool)
  query = jr.Exact()(tied.astype(jnp.float32), tied.astype(jnp.float32), everything)
  assert concordance._middle(everything, query) == np.float32(N - 1) / 2
