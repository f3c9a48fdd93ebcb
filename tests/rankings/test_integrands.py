"""The integrands under noise at single nodes, against sums over all sets of items above a node."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank._core import integrands, quadrature
from tests.helpers.suites import quick, thorough

N = 5
NOISE = {"Gumbel": quadrature.GUMBEL, "Gaussian": quadrature.NORMAL}
U = np.array([-0.4, 0.9])
Z = np.array([0.3, -1.2, 0.3, 1.1, -0.2])
AMONG = np.array([1.0, 1.0, 0.0, 1.0, 1.0])
# Users stop at items, or items have marks; and some items may never be above a node.
KINDS = ("", "stops", "marked")
# Gaussian differs in the chances alone.
QUICK = [("Gumbel", "marked", True), ("Gumbel", "stops", True), ("Gaussian", "", False)]
CASES = [*QUICK, ("Gumbel", "", True), ("Gumbel", "stops", False)]
FUNCTIONS = {"products": integrands.products, "counts": integrands.counts}


def items(function, given, names):
  """The arguments that an integrand takes."""
  own = {name: jnp.asarray(given[name]) for name in names}
  terms = own.pop("w"), *([own.pop("lost")] if "lost" in own else [])
  discount = integrands.Exponentials if function == "products" else integrands.FirstRanks
  return quadrature.Items(discount=discount(*terms), **own)


def named(items):
  """Slopes by the names of the arguments; a mask is constant."""
  own = {**items._asdict(), **items.discount._asdict()}
  return {name: x for name, x in own.items() if x is not None and name not in ("discount", "among")}


def chances(noise, v):
  """The chance of a noisy score above `v`, and the density at `v`, from their definitions."""
  if noise == "Gumbel":
    return -np.expm1(-np.exp(-v)), np.exp(-v - np.exp(-v))
  tail = np.vectorize(lambda x: math.erfc(x / math.sqrt(2)) / 2)(v)
  return tail, np.exp(-(v**2) / 2) / np.sqrt(2 * np.pi)


def sets(noise, u, z, among):
  """The chance of each set of items above the node of each item, and the density there."""
  above, density = chances(noise, u - z)
  above = above * among
  for i in range(N):
    others = [j for j in range(N) if j != i]
    for taken in itertools.product([False, True], repeat=N - 1):
      ahead = [j for j, is_above in zip(others, taken, strict=True) if is_above]
      behind = [j for j in others if j not in ahead]
      yield i, ahead, density[i] * np.prod(above[ahead]) * np.prod(1 - above[behind])


def expected(function, noise, given):
  """The sum over the nodes, of what each item is worth behind each set of others."""
  total = 0.0
  for u in U:
    for i, ahead, chance in sets(noise, u, given["z"], given["among"]):
      passed = np.prod(1 - given["stop"][ahead])
      if function == "products":
        worth = given["w"] @ (1 - given["lost"]) ** len(ahead)
      else:
        worth = given["w"][len(ahead)] if len(ahead) < len(given["w"]) else 0.0
      total += given["c"][i] * chance * passed * worth * (1 + np.sum(given["mark"][ahead]))
  return total


def drawn(function, kind, among):
  """Arguments by name; those that an integrand does not take have the values it assumes."""
  rng = np.random.default_rng(1)
  given = {
    "z": Z,
    "c": rng.normal(size=N),
    "stop": rng.uniform(0.1, 0.8, N) if kind == "stops" else np.zeros(N),
    "w": rng.normal(size=3),
    "lost": np.array([0.9, 0.4, -0.2]),
    "among": AMONG if among else np.ones(N),
    "mark": rng.normal(size=N) if kind == "marked" else np.zeros(N),
  }
  takes = {
    "stop": kind == "stops",
    "lost": function == "products",
    "among": among,
    "mark": kind == "marked",
  }
  return given, [name for name in given if takes.get(name, True)]


def slopes(value, given, names):
  """Central differences of fourth order, of which the error is far below 1e-9."""

  def at(name, move):
    return value({**given, name: given[name] + move})

  def slope(name, i):
    step = 1e-3 * (np.arange(given[name].size) == i)
    return (8 * (at(name, step) - at(name, -step)) - at(name, 2 * step) + at(name, -2 * step)) / (
      12e-3
    )

  return {name: [slope(name, i) for i in range(given[name].size)] for name in names}


@quick(("noise", "kind", "among"), CASES, QUICK)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_and_slopes_are_those_over_all_sets(function, noise, kind, among):
  given, names = drawn(function, kind, among)
  plain = FUNCTIONS[function](NOISE[noise])
  value = expected(function, noise, given)
  by = slopes(lambda given: expected(function, noise, given), given, set(names) - {"among"})
  with jax.enable_x64():
    asked = items(function, given, names)
    for integrand in (plain, plain.on_accelerators):

      @jax.jit
      def both(asked, integrand=integrand):
        return integrand.value(jnp.asarray(U), asked), integrand.slopes(jnp.asarray(U), asked)

      found, gradient = both(asked)
      np.testing.assert_allclose(found, value, rtol=1e-7, atol=1e-8)
      assert jax.tree.structure(gradient) == jax.tree.structure(asked)
      assert {*named(gradient)} == {*by}
      for name, x in named(gradient).items():
        np.testing.assert_allclose(x, by[name], atol=1e-7, err_msg=name)


@pytest.mark.parametrize("noise", NOISE)
def test_chances_of_ranks_and_weights_ahead(noise):
  rank, ahead_of = np.zeros((N, N)), np.zeros(N)
  w = np.random.default_rng(2).normal(size=N)
  for u in U:
    for i, ahead, chance in sets(noise, u, Z, np.ones(N)):
      rank[i, len(ahead)] += chance
      ahead_of[i] += chance * np.sum(w[ahead])
  with jax.enable_x64():
    u, asked = jnp.asarray(U), quadrature.Items(jnp.asarray(Z), c=jnp.asarray(w))
    for depth in (1, 3, N + 2):
      found = jax.jit(quadrature.rank_chances(NOISE[noise], depth).value)(u, asked)
      known = np.pad(rank, ((0, 0), (0, 2)))[:, :depth]
      np.testing.assert_allclose(found, known, rtol=1e-7, atol=1e-9)
    found = integrands.weight_ahead(NOISE[noise]).value(u, asked)
    np.testing.assert_allclose(found, ahead_of, rtol=1e-7, atol=1e-9)


@thorough
@pytest.mark.parametrize(("function", "kind"), [("products", "stops"), ("counts", "marked")])
def test_the_terms_of_each_item_and_their_slopes(function, kind):
  """Each term is the sum with a coefficient for one item, and the pull is that of their sum."""
  given, names = drawn(function, kind, True)
  total = FUNCTIONS[function](quadrature.GUMBEL)
  weights = np.random.default_rng(4).normal(size=N)
  terms = [expected(function, "Gumbel", {**given, "c": row}) for row in np.eye(N)]
  names.remove("c")
  by = slopes(
    lambda given: expected(function, "Gumbel", {**given, "c": weights}),
    given,
    set(names) - {"among"},
  )
  each = integrands.of_each_item(total)
  with jax.enable_x64():
    u, asked = jnp.asarray(U), items(function, given, names)
    for integrand in (each, each.on_accelerators):
      np.testing.assert_allclose(jax.jit(integrand.value)(u, asked), terms, rtol=1e-7, atol=1e-8)
      pulled = named(jax.jit(integrand.pull)(u, asked, jnp.asarray(weights)))
      assert {*pulled} == {*by}
      for name, x in pulled.items():
        np.testing.assert_allclose(x, by[name], atol=1e-7, err_msg=name)


def by_polynomials(noise, u, given, depth):
  """`counts` by the coefficients of the product over the other items; a mark is a slope in `t`."""
  above, density = chances(noise, u - given["z"])
  total = 0.0
  for i in range(len(above)):
    plain, marked = np.eye(1, depth)[0], np.zeros(depth)
    for j in set(range(len(above))) - {i}:
      passed = above[j] * (1 - given["stop"][j])
      up, marked_up = (np.concatenate([[0], x[:-1]]) for x in (plain, marked))
      marked = (1 - above[j]) * marked + passed * (marked_up + given["mark"][j] * up)
      plain = (1 - above[j]) * plain + passed * up
    total += given["c"][i] * density[i] * given["w"] @ (plain + marked)
  return total


@quick("kind", KINDS, ["marked"])
def test_fewer_points_of_the_circle_than_items(kind):
  """For 60 items and two ranks, 19 points in three blocks: terms that are left out are rounding."""
  rng, n, depth = np.random.default_rng(5), 60, 2
  given = {
    "z": rng.normal(size=n),
    "c": rng.normal(size=n),
    "stop": rng.uniform(0.1, 0.8, n) if kind == "stops" else np.zeros(n),
    "w": rng.normal(size=depth),
    "mark": rng.normal(size=n) if kind == "marked" else np.zeros(n),
  }
  takes = {"stop": kind == "stops", "mark": kind == "marked"}
  names = [name for name in given if takes.get(name, True)]
  # Nodes below 20 items, as terms that are left out would show, and below few, as the sum needs.
  u = np.array([1.0, 2.5])
  expected = sum(by_polynomials("Gumbel", x, given, depth) for x in u)
  plain = integrands.counts(quadrature.GUMBEL)
  with jax.enable_x64():
    asked = jnp.asarray(u), items("counts", given, names)
    (value, by), (circle, by_circle) = (
      jax.jit(lambda *asked, x=x: (x.value(*asked), x.slopes(*asked)))(*asked)
      for x in (plain, plain.on_accelerators)
    )
  np.testing.assert_allclose(value, expected, rtol=1e-10)
  np.testing.assert_allclose(circle, expected, rtol=1e-9)
  by, by_circle = named(by), named(by_circle)
  assert {*by} == {*names}
  for name, x in by.items():
    np.testing.assert_allclose(by_circle[name], x, rtol=1e-7, atol=1e-9, err_msg=name)
