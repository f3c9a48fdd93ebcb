"""Averages over ties that are given by counts, of any shape, against sums over all ranks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import discounts
from jaxrank.rankings import long_ties

N = 400
# Counted, from a table of prefix sums, in closed form, and in steps.
DISCOUNTS = {
  "constant": (discounts.constant, lambda rank: 1 + 0 * rank),
  "logarithmic": (discounts.logarithmic, lambda rank: 1 / np.log2(rank + 1)),
  "reciprocal": (discounts.reciprocal, lambda rank: 1 / rank),
  "of a user": (lambda rank: rank**-0.5, lambda rank: rank**-0.5),
}


def ties(shape):
  """Numbers of items above and in ties, some of them none, one, or more than a step."""
  rng = np.random.default_rng(len(shape))
  size = rng.choice([0, 1, 2, 40, 64, 65, 200], shape)
  return rng.integers(0, 100, shape).astype(np.int32), np.asarray(size, np.int32)


def of_each(value, *counts):
  """A function of whole numbers, for each element of arrays."""
  return np.vectorize(value, otypes=[float])(*counts)


@pytest.mark.parametrize(("dtype", "close"), [(jnp.float32, 2e-5), (jnp.float64, 1e-7)])
@pytest.mark.parametrize("name", DISCOUNTS)
@pytest.mark.parametrize("shape", [(), (6,), (3, 4)])
def test_means_and_sums_are_those_over_all_ranks(shape, name, dtype, close):
  discount, reference = DISCOUNTS[name]
  above, size = ties(shape) if shape else (np.int32(7), np.int32(130))

  @jax.jit
  def both(above, size, k):
    means = [long_ties.mean(discount, above, size, x, N, dtype) for x in (None, k)]
    return *means, *long_ties.sums(discount, above, size, dtype)

  def ranks(above, size):
    return above + 1 + np.arange(size)

  def mean(k, above, size):
    rank = ranks(above, size)
    return np.sum(reference(rank) * (rank <= k)) / max(size, 1)

  def moment(power, above, size):
    return np.sum((ranks(above, size) - above - 1.0) ** power * reference(ranks(above, size)))

  with jax.enable_x64(dtype == jnp.float64):
    answers = both(above, size, 90)
  for found, (of, given) in zip(
    answers, ((mean, N), (mean, 90), (moment, 0), (moment, 1)), strict=True
  ):
    expected = of_each(lambda a, s, of=of, given=given: of(given, a, s), above, size)
    assert found.shape == shape
    np.testing.assert_allclose(found, expected, rtol=close, atol=close / 20)
