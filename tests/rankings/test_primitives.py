"""Every variant of every primitive gives the values of the plain reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank._core import decays, quadrature, ties
from tests.helpers import primitives

pytestmark = pytest.mark.any_platform

TABLE = primitives.table()
RNG = np.random.default_rng(0)


def keys(*shape):
  return jnp.asarray(RNG.integers(-9, 9, size=shape), jnp.int32)


def tied(*shape):
  return jnp.asarray(RNG.random(shape) < 0.6).at[..., 0].set(False)


def runs(*shape):
  flags = tied(*shape)
  return ties.Runs(flags, *ties.ends.reference(flags))


def floats(*shape):
  return jnp.asarray(RNG.standard_normal(shape), jnp.float32)


def masses(*shape):
  """A running count `ahead` and `through` of a random mask."""
  through = jnp.cumsum(jnp.asarray(RNG.random(shape) < 0.4), axis=-1, dtype=jnp.int32)
  return jnp.pad(through, [(0, 0)] * (len(shape) - 1) + [(1, 0)])[..., :-1], through


def harmonic(rank):
  return 1 / rank


def words(n):
  return ties.discount_words(harmonic, n)


def squares(x, y):
  return (jnp.where(x[0] > y[0], jnp.square(x[0] - y[0]) * x[1] * y[1], 0),)


def wins(upper, lower):
  return (upper[0] > lower[0]).astype(jnp.int32)


def a_total(n):
  """The sum of densities at nodes, which is one over the spacing for each item."""
  integrand = quadrature.Integrand(
    lambda u, items: jnp.sum(
      quadrature.NORMAL.probabilities(quadrature.distances(u, items.z))[2], axis=-1
    )
  )
  ends = jnp.float32([[-9.0], [-9.5]])[:, 0], jnp.float32([9.0, 9.5])
  (z,), tree = jax.tree.flatten((quadrature.Items(floats(2, n)),))
  sweep = quadrature.Sweep(quadrature._value, integrand, quadrature.Grid(0.25, width=1), tree)
  return (*ends, z), dict(sweep=sweep)


def a_sum(n, powers):
  coefficients = RNG.standard_normal((1, 1, 2, powers))
  static = dict(
    coefficients=tuple(tuple(tuple(map(tuple, x)) for x in y) for y in coefficients.tolist()),
    schedule=decays.Schedule(),
    recompute=powers > 2,
  )
  scores = -jnp.sort(-floats(3, n))
  return (floats(1, 3, n), jnp.float32([0.5, 1.0, 2.0]), scores), static


first = functools.partial(dict, value=lambda rank: 1 / rank, n=9)
scaled = functools.partial(dict, function=lambda x: jnp.cumsum(jnp.exp(x)))
whole = jnp.int32


# For each primitive, arguments that together reach all of its variants.
@functools.cache
def all_examples():
  return {
    "all_pairs.counts_by_item": [
      (((keys(n),), (keys(n),)), dict(count=wins)) for n in (9, 40, 300)
    ],
    "all_pairs.sum_of_pairs": [
      (((floats(70), floats(70)), ()), dict(pair=squares, rows=16))
    ],
    "batching.of_all_rows": [((floats(7, 5),), dict(function=lambda x: jnp.cumsum(x, -1), rows=3))],
    "batching.of_each_column": [((floats(6, 4),), scaled())],
    "ties.first": [
      ((whole(a), whole(t), whole(m)), first()) for a, t, m in ((0, 1, 1), (3, 5, 2), (2, 9, 1))
    ],
    "counting.counts_above": [((floats(3, 4), floats(3, n)), {}) for n in (128, 5120)],
    "decays.sums_of_powers": [a_sum(n, p) for n in (40, 300) for p in (2, 12)],
    "integrands.apart": [((floats(9), floats(9)), {})],
    "marks.marked": [
      ((jnp.asarray(RNG.integers(-300, 500, size=(3, e)), jnp.int32), floats(3, 256)), {})
      for e in (0, 40)
    ],
    "sorting.arranged_batch": [
      ((keys(3, 9), floats(3, 9), floats(*shape)), {}) for shape in ((3, 9), (3, 9, 2), (3, 9, 9))
    ],
    "quadrature.total_of_nodes": [a_total(5)],
    "sorting.largest": [((jnp.round(floats(*s)), ), dict(k=k)) for s, k in (
      ((3, 9), 9), ((3, 90), 9), ((40, 1000), 1000), ((40, 1000), 3))],
    "sorting.order_of_batch": [((keys(*s),), {}) for s in ((9,), (3, 9), (41, 100))],
    "sorting.top": [((floats(*s),), dict(k=5)) for s in ((9,), (2, 3000))],
    "ties.at_end": [((masses(40)[1], runs(40)), {})],
    "ties.at_start": [((masses(40)[1], runs(40)), {})],
    "ties.ends": [((tied(*s),), {}) for s in ((9,), (3, 100))],
    "ties.mean_of_sums": [((runs(3, 40),), dict(table=words(40)))],
    "ties.sums": [((floats(*s), *runs(*s)[1:]), {}) for s in ((9,), (2, 100), (50, 100))],
  }  # fmt: skip


def test_every_primitive_has_examples():
  assert sorted(all_examples()) == sorted(TABLE)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_variants_have_the_values_of_the_reference(name):
  primitive, examples = TABLE[name], all_examples()[name]
  serving = [[x for x in primitive.variants if x.when(*args, **own)] for args, own in examples]

  @jax.jit
  def every(arguments):
    return [
      [way(*args, **own) for way in (primitive.reference, *(x.function for x in variants))]
      for args, (_, own), variants in zip(arguments, examples, serving, strict=True)
    ]

  for expected, *others in every([args for args, _ in examples]):
    for found in others:
      jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=1e-5), found, expected
      )
  reached = {x.function for variants in serving for x in variants}
  assert reached == {variant.function for variant in primitive.variants}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_gains_name_a_row(name):
  for variant in TABLE[name].variants:
    assert variant.platforms
    assert set(variant.platforms) <= {"cpu", "tpu", "gpu"}
    assert any(sign.isdigit() for sign in variant.gain), variant.function
