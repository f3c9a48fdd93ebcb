"""Exposure and its fairness against all orders, plain definitions, slopes, and bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import exposure
from jaxrank._core import platforms
from tests.helpers import cases
from tests.helpers import exposure_oracles as slow
from tests.helpers.suites import quick, thorough

N, K = 6, 3
# Tied scores, padding under a hostile mask, -inf, and a query of ties alone.
SCORES = np.array(
  [
    [0.3, -1.2, 0.3, 2.0, 0.3, -0.4],
    [1.0, 0.0, 0.5, -2.0, np.nan, np.inf],
    [-np.inf, 0.5, 0.5, -0.5, 1.5, -np.inf],
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
  ]
)
LABELS = np.array(
  [[0, 2, 4, -1, 1, 0], [0, 1, 0, 3, 9, np.nan], [3, 0, 1, -1, 2, 0], [0, 0, 4, 1, 0, 0]]
)
GROUPS = np.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 7, -3], [0, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 0]])
WHERE = np.ones(SCORES.shape, bool)
WHERE[1, 4:] = False
SHARES = np.array([0.3, 0.7])
TARGET = np.random.default_rng(0).random(SCORES.shape)
TARGET[1, 4:] = np.nan
RANKINGS = {
  "Exact": jr.Exact(),
  "Laplace": jr.Laplace(0.7),
  "Logistic": jr.Logistic(0.7),
  "Gumbel": jr.Gumbel(0.7),
  "Gaussian": jr.Gaussian(0.7),
}
SMOOTH = [name for name in RANKINGS if name != "Exact"]


def memberships(row):
  return [[float(g == 0), float(g == 1)] for g in GROUPS[row][WHERE[row]]]


def utilities(row):
  return [max(y, 0.0) for y in LABELS[row][WHERE[row]]]


# Each metric as a function of scores and a ranking, and of exposures and the number of the query.
METRICS = {
  "ee_d": (
    lambda s, **own: exposure.ee_d(s, where=WHERE, **own),
    lambda e, row: sum(x * x for x in e),
  ),
  "ee_r": (
    lambda s, **own: exposure.ee_r(s, TARGET, where=WHERE, **own),
    lambda e, row: sum(e * TARGET[row][WHERE[row]]),
  ),
  "ee_l": (
    lambda s, **own: exposure.ee_l(s, TARGET, where=WHERE, **own),
    lambda e, row: sum((e - TARGET[row][WHERE[row]]) ** 2),
  ),
  "awrf": (
    lambda s, **own: exposure.awrf(s, GROUPS, SHARES, n_groups=2, where=WHERE, **own),
    lambda e, row: slow.awrf(e, memberships(row), SHARES),
  ),
  "demographic_parity": (
    lambda s, **own: exposure.demographic_parity(s, GROUPS, where=WHERE, **own),
    lambda e, row: slow.ratio(e, memberships(row)),
  ),
  "disparate_treatment": (
    lambda s, **own: exposure.disparate_treatment(s, LABELS, GROUPS, where=WHERE, **own),
    lambda e, row: slow.ratio(e, memberships(row), utility=utilities(row)),
  ),
  "disparate_impact": (
    lambda s, **own: exposure.disparate_impact(s, LABELS, GROUPS, where=WHERE, **own),
    lambda e, row: slow.ratio(e, memberships(row), utilities(row), utilities(row)),
  ),
}


def item_exposure(scores, **own):
  return exposure.expected(scores, where=WHERE, **own)


def slopes(function, scores, directions, step=1e-5):
  """The slopes of a function of the scores along directions, by differences."""
  return [
    (function(scores + step * d) - function(scores - step * d)) / (2 * step) for d in directions
  ]


def all_orders(name, k):
  """The exposure of each item by the orders of the model, `[queries, N]`, of the scores."""

  def found(scores):
    values = np.zeros(scores.shape)
    for row, valid in enumerate(WHERE):
      own = list(scores[row][valid])
      orders = slow.tied_orders(own) if name == "Exact" else slow.plackett_luce(own, 0.7)
      values[row, valid] = slow.expected(own, orders, k)
    return values

  return found


@quick(
  ("name", "k"),
  [*(("Exact", k) for k in (None, K, N + 3)), ("Gumbel", None), ("Gumbel", K)],
  [("Exact", None)],
)
def test_exposure_is_the_mean_over_all_orders(name, k):
  scores = np.float32(SCORES)
  expected = all_orders(name, k)
  value = item_exposure(scores, k=k, ranking=RANKINGS[name])
  np.testing.assert_allclose(value, expected(SCORES), atol=1e-5)

  def total(s, c):
    return jnp.sum(c * item_exposure(s, k=k, ranking=RANKINGS[name]))

  rng = np.random.default_rng(0)
  cotangent = np.float32(rng.standard_normal(scores.shape))
  slope = np.asarray(jax.jit(jax.grad(total))(scores, cotangent))
  if name == "Exact":
    np.testing.assert_array_equal(slope, 0)
    return
  moved = WHERE & (scores > -np.inf)
  directions = np.where(moved, rng.standard_normal((2, *scores.shape)), 0)

  def by_query(s):
    return np.sum(cotangent * expected(s), axis=1)

  for direction, rise in zip(directions, slopes(by_query, SCORES, directions), strict=True):
    np.testing.assert_allclose(np.sum(slope * direction, axis=1), rise, atol=1e-4)
  np.testing.assert_array_equal(slope[~moved], 0)


@thorough
@pytest.mark.parametrize("name", ["Exact", "Gumbel"])
def test_exposure_at_a_traced_cutoff(name):
  traced = jax.jit(lambda k: item_exposure(np.float32(SCORES), k=k, ranking=RANKINGS[name]))
  value = item_exposure(np.float32(SCORES), k=K, ranking=RANKINGS[name])
  np.testing.assert_allclose(traced(K), value, atol=2e-6)


@thorough
@pytest.mark.parametrize(("ties", "k"), [("average", 2), ("average", None), ("stable", 3)])
def test_exact_exposure_of_many_queries(ties, k):
  lists = cases.draw(0, 40, 7, most_orders=120)
  value = exposure.expected(lists.scores, where=lists.where, k=k, ranking=jr.Exact(ties))
  for row, valid in enumerate(lists.where):
    own = list(lists.scores[row][valid])
    orders = slow.tied_orders(own)
    if ties == "stable":
      orders = [(1.0, min(order for _, order in orders))]
    np.testing.assert_allclose(value[row][valid], slow.expected(own, orders, k), atol=1e-6)
    np.testing.assert_array_equal(value[row][~valid], 0)


def normal_exposure(scores, temperature, k=None):
  """Each item's exposure under normal noise, by fine nodes and the distribution of its rank."""
  from scipy.stats import norm

  found = np.zeros(len(scores))
  u = np.linspace(-12, 12, 4001)
  for i in slow.retrieved(scores):
    ranks = np.zeros((len(scores) + 1, u.size))
    ranks[0] = 1
    for j in slow.retrieved(scores):
      if j != i:
        p = norm.sf(u + (scores[i] - scores[j]) / temperature)
        ranks[1:] = ranks[1:] * (1 - p) + ranks[:-1] * p
        ranks[0] *= 1 - p
    chance = ranks @ norm.pdf(u) * (u[1] - u[0])
    found[i] = sum(c * slow.discount(r) for r, c in enumerate(chance, 1) if r <= (k or len(scores)))
  return found


@quick("k", [None, K], [None])
def test_gaussian_exposure_is_the_mean_over_the_ranks(k):
  value = item_exposure(np.float32(SCORES), k=k, ranking=RANKINGS["Gaussian"])
  for row, valid in enumerate(WHERE):
    expected = normal_exposure(SCORES[row][valid], 0.7, k)
    np.testing.assert_allclose(value[row][valid], expected, atol=1e-5)


@thorough
@pytest.mark.parametrize("k", [None, K])
def test_slopes_of_gaussian_exposure_are_those_of_the_values(k):
  with jax.enable_x64(True):
    f = jax.jit(lambda s: jnp.sum(TARGET[:1] * exposure.expected(s, k=k, ranking=jr.Gaussian(0.7))))
    slope = jax.grad(f)(SCORES[:1])
    directions = np.random.default_rng(0).standard_normal((2, 1, N))
    for direction, rise in zip(directions, slopes(f, SCORES[:1], directions), strict=True):
      np.testing.assert_allclose(np.sum(slope * direction), rise, atol=1e-7)


def pairwise_exposure(name, scores, temperature):
  """`d(E r_i)` from all pairs."""
  z = (scores[None, :] - scores[:, None]) / temperature
  if name == "Logistic":
    ahead = 1 / (1 + np.exp(-z))
  else:
    ahead = np.where(z < 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2)
  return 1 / np.log2(1.5 + ahead.sum(1))


def geometric_exposure(name, scores, temperature, q=0.97):
  """`E q^(r_i - 1)` by fine nodes: a product over all other items."""
  from scipy.stats import gumbel_r, norm

  noise = gumbel_r if name == "Gumbel" else norm
  z = scores / temperature
  u = np.linspace(z.min() - 9, z.max() + 40, 12001)
  near = np.log1p(-(1 - q) * noise.sf(u[:, None] - z))
  factor = np.exp(near.sum(1, keepdims=True) - near)
  return np.sum(factor * noise.pdf(u[:, None] - z), axis=0) * (u[1] - u[0])


@quick("name", SMOOTH, ["Laplace"])
def test_exposure_of_long_lists(name):
  rng = np.random.default_rng(0)
  scores, cotangent, direction = rng.standard_normal((3, 300))
  scores[:40] = scores[40:80]
  noisy = name in ("Gumbel", "Gaussian")
  own = {"discount": jr.discounts.geometric(0.97)} if noisy else {}
  definition = functools.partial(geometric_exposure if noisy else pairwise_exposure, name)

  def total(s):
    value = exposure.expected(s, ranking=RANKINGS[name], **own)
    return jnp.sum(np.float32(cotangent) * value), value

  (_, value), slope = jax.jit(jax.value_and_grad(total, has_aux=True))(np.float32(scores))
  np.testing.assert_allclose(value, definition(scores, 0.7), atol=1e-5)
  (rise,) = slopes(lambda s: np.sum(cotangent * definition(s, 0.7)), scores, [direction], 1e-4)
  np.testing.assert_allclose(np.sum(slope * direction), rise, atol=1e-4)


@quick(("name", "k"), [*((name, K) for name in METRICS), ("ee_d", None)], lambda case: case[1])
def test_metrics_by_definition(name, k):
  """Of the exposures under a smooth ranking, they are the same functions."""
  metric, definition = METRICS[name]
  shares = all_orders("Exact", k)(SCORES)
  expected = [definition(shares[row][valid], row) for row, valid in enumerate(WHERE)]
  value = metric(np.float32(SCORES), k=k)
  np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


@thorough
@pytest.mark.parametrize(
  ("name", "ranking"),
  [
    ("ee_d", "Gaussian"),
    ("ee_r", "Laplace"),
    ("ee_l", "Gumbel"),
    ("awrf", "Laplace"),
    ("demographic_parity", "Laplace"),
    ("disparate_treatment", "Laplace"),
    ("disparate_impact", "Logistic"),
  ],
)
def test_metrics_have_slopes(name, ranking):
  """Against differences in float64; what is masked or not retrieved has slope 0."""
  with jax.enable_x64(True):
    f = jax.jit(lambda s: METRICS[name][0](s, ranking=RANKINGS[ranking]))
    slope = np.asarray(jax.jit(jax.grad(lambda s: jnp.sum(f(s))))(SCORES))
    moved = WHERE & (-np.inf < SCORES)
    np.testing.assert_array_equal(slope[~moved], 0)
    directions = np.where(moved, np.random.default_rng(0).standard_normal((2, *SCORES.shape)), 0)
    # The slopes of Laplace have kinks at ties, so that differences err by the step.
    for direction, rise in zip(directions, slopes(f, SCORES, directions, 1e-7), strict=True):
      np.testing.assert_allclose(np.sum(slope * direction, axis=1), rise, rtol=1e-5, atol=1e-6)
    assert np.all(np.any(slope != 0, axis=1) | (np.abs(f(SCORES)) == 0))


@thorough
@pytest.mark.parametrize("ranking", ["Laplace", "Gumbel"])
def test_cold_rankings_are_exact(ranking):
  scores = np.float32(SCORES[1:2] + 0.1 * np.arange(N))
  cold = type(RANKINGS[ranking])(1e-3)
  value = exposure.expected(scores, where=WHERE[1:2], ranking=cold)
  np.testing.assert_allclose(value, exposure.expected(scores, where=WHERE[1:2]), atol=1e-5)


@pytest.mark.parametrize("k", [None, 2])
def test_target_gives_grades_equal_shares(k):
  value = exposure.target(np.float32(LABELS), where=WHERE, k=k)
  for row, valid in enumerate(WHERE):
    np.testing.assert_allclose(value[row][valid], slow.target(LABELS[row][valid], k), atol=1e-6)
  np.testing.assert_array_equal(value[~WHERE], 0)
  half = np.float32(slow.discount(2))
  np.testing.assert_allclose(exposure.target(np.array([True, False])), [1, half], rtol=1e-6)


@thorough
def test_the_loss_of_the_target_is_least_for_the_labels():
  labels = np.where(WHERE, LABELS, 0)
  goal = exposure.target(labels, where=WHERE)
  own = {"where": WHERE}
  np.testing.assert_allclose(exposure.ee_l(np.float32(labels).clip(0), goal, **own), 0, atol=1e-10)
  scores = np.float32(SCORES)
  square = exposure.ee_d(scores, **own) - 2 * exposure.ee_r(scores, goal, **own)
  expected = square + jnp.sum(goal**2, axis=-1)
  np.testing.assert_allclose(exposure.ee_l(scores, goal, **own), expected, atol=1e-5)
  # Unfair orders by chance are fairer in expectation.
  assert exposure.ee_d(np.zeros(5, np.float32)) < exposure.ee_d(np.arange(5.0))


@thorough
def test_groups_by_ids_and_by_memberships():
  scores = np.float32(SCORES)
  members = np.stack([g == GROUPS for g in range(3)], axis=-1)
  own = {"where": WHERE, "n_groups": 3}
  by_ids = exposure.by_group(scores, GROUPS, **own)
  np.testing.assert_array_equal(by_ids, exposure.by_group(scores, members, **own))
  shares = np.float32([0.25, 0.5, 0.25]) + np.zeros((*scores.shape, 1), np.float32)
  total = jnp.sum(exposure.expected(scores, where=WHERE), axis=-1)
  expected = np.outer(total, [0.25, 0.5, 0.25])
  np.testing.assert_allclose(exposure.by_group(scores, shares, **own), expected, rtol=1e-6)
  assert np.all(by_ids[..., 2] == 0)
  np.testing.assert_allclose(jnp.sum(by_ids, axis=-1), total, rtol=1e-6)
  for dtype in (np.uint8, np.int8, bool):
    ids = np.where(WHERE, GROUPS, 0).astype(dtype)
    value = exposure.by_group(scores, ids, where=WHERE, n_groups=2)
    np.testing.assert_array_equal(value, by_ids[..., :2])


@thorough
def test_the_divergence_is_that_of_scipy():
  from scipy.spatial.distance import jensenshannon

  p, q = np.random.default_rng(0).dirichlet(np.ones(4), (2, 50))
  p[0], q[0] = [1, 0, 0, 0], [0, 0.5, 0.5, 0]
  p[1], q[1] = [1e-30, 1, 0, 0], [1, 0, 0, 0]
  q[2] = p[2] * [1, 1 + 1e-3, 1, 1] / np.sum(p[2] * [1, 1 + 1e-3, 1, 1])
  expected = jensenshannon(p, q, base=2, axis=1) ** 2
  value = exposure.jensen_shannon(np.float32(p), np.float32(q))
  np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-8)
  np.testing.assert_array_equal(exposure.jensen_shannon(p, p), 0)
  slope = jax.grad(lambda p: jnp.sum(exposure.jensen_shannon(p, np.float32(q))))(np.float32(p))
  assert np.all(np.isfinite(slope))


def test_awrf_as_trec_took_it():
  """Natural logarithms, and the discount 1 / log2 max(r, 2)."""
  from scipy.spatial.distance import jensenshannon

  def nats(p, q):
    return exposure.jensen_shannon(p, q) * np.float32(np.log(2))

  def trec(rank):
    return 1 / jnp.log2(jnp.maximum(rank, 2))

  rng = np.random.default_rng(0)
  scores, shares = np.float32(rng.permutation(20)), rng.dirichlet(np.ones(3))
  groups = rng.integers(0, 3, 20)
  own = {"n_groups": 3, "discount": trec, "distance": nats}
  ranked = np.eye(3)[groups[np.argsort(-scores)]]
  found = ranked.T @ (1 / np.log2(np.maximum(np.arange(1, 21), 2)))
  expected = 1 - jensenshannon(found / found.sum(), shares) ** 2
  np.testing.assert_allclose(exposure.awrf(scores, groups, shares, **own), expected, rtol=1e-6)


@thorough
def test_targets_of_each_query():
  rng = np.random.default_rng(0)
  scores, groups = np.float32(rng.random((4, 5))), rng.integers(0, 3, (4, 5))
  shares = rng.dirichlet(np.ones(3), 4).astype(np.float32)
  together = exposure.awrf(scores, groups, shares, n_groups=3)
  alone = [exposure.awrf(*row, n_groups=3) for row in zip(scores, groups, shares, strict=True)]
  np.testing.assert_allclose(together, alone, rtol=1e-6)
  same = exposure.awrf(scores, groups, shares[0], n_groups=3)
  np.testing.assert_allclose(same[0], together[0], rtol=1e-6)
  assert np.all(same[1:] != together[1:])


@thorough
def test_empty_queries_and_missing_groups_are_0():
  scores = np.zeros((2, 3), np.float32)
  nothing = np.array([[False] * 3, [True] * 3])
  same = np.zeros((2, 3), int)
  for ratio in (
    lambda s: exposure.demographic_parity(s, same, where=nothing),
    lambda s: exposure.disparate_impact(s, np.float32(same), same, where=nothing),
    lambda s: exposure.awrf(s, same, np.ones(2), n_groups=2, where=nothing)[:1],
    lambda s: exposure.ee_d(s, where=nothing)[:1],
  ):
    np.testing.assert_array_equal(ratio(scores), 0)
    slope = jax.grad(lambda s, ratio=ratio: jnp.sum(exposure.squared_log(ratio(s))))(scores)
    np.testing.assert_array_equal(slope, 0)
  assert exposure.expected(np.zeros((2, 0), np.float32)).shape == (2, 0)
  assert exposure.by_group(np.zeros((0, 3)), np.zeros((0, 3), int), n_groups=2).shape == (0, 2)


RATIOS = {
  "demographic_parity": exposure.demographic_parity,
  "disparate_treatment": lambda s, *own, **k: exposure.disparate_treatment(s, WORTH, *own, **k),
  "disparate_impact": lambda s, *own, **k: exposure.disparate_impact(s, WORTH, *own, **k),
}
SPLIT = np.array([0, 0, 1, 1])
DOWN = np.float32([3, 2, 1, 0])
LOST = np.float32([1, 0, -np.inf, -np.inf])
# Scores and groups; the first six have a group of items without exposure in the first two ranks.
UNSEEN = [
  (DOWN, SPLIT),
  (DOWN, 1 - SPLIT),
  (LOST, SPLIT),
  (LOST, 1 - SPLIT),
  (LOST - np.inf, SPLIT),
  (np.float32([3, 2, 1, 0]), np.array([[0, 0], [0, 0], [1, 0], [0, 1]])),
  (DOWN, 0 * SPLIT),
  (DOWN, 0 * SPLIT + 1),
  (DOWN, np.array([0, 1, 0, 1])),
  (DOWN[[0, 3, 2, 1]], SPLIT),
]
WORTH = np.tile(np.float32([1, 2, 1, 2]), (len(UNSEEN), 1))


def test_a_group_without_exposure_is_the_worst():
  scores = np.stack([s for s, _ in UNSEEN])
  members = [g if g.ndim == 2 else np.eye(2, dtype=int)[g] for _, g in UNSEEN]
  groups = np.float32(members)

  def loss(scores):
    ratios = jnp.stack([ratio(scores, groups, k=2) for ratio in RATIOS.values()])
    losses = exposure.squared_log(ratios)
    return jnp.sum(losses), (ratios, losses)

  (_, (ratios, losses)), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(scores)
  for row, (own, worth) in enumerate(zip(scores, WORTH.tolist(), strict=True)):
    shares = slow.expected(list(own), slow.tied_orders(list(own)), 2)
    of = functools.partial(slow.ratio, shares, members[row])
    expected = [of(), of(utility=worth), of(worth, worth)]
    np.testing.assert_allclose(ratios[:, row], expected, rtol=1e-5)
  worst = np.log(slow.MOST) ** 2
  np.testing.assert_allclose(losses[:, :6], np.full((3, 6), worst), rtol=1e-6)
  # Groups without an item cannot be compared.
  np.testing.assert_array_equal(losses[:, 6:8], 0)
  assert np.all((losses[:, 8:] > 0) & (losses[:, 8:] < 10))
  np.testing.assert_array_equal(slope, 0)
  # No number has a larger loss, and an inverse has the same one.
  ends = exposure.squared_log(np.float32([np.inf, 3e38, 2e-38, 1 / slow.MOST, slow.MOST]))
  np.testing.assert_allclose(ends, np.full(5, worst), rtol=1e-6)
  np.testing.assert_allclose(worst, 1192.9, atol=0.05)
  ends = np.float32([np.inf, 1.01 * slow.MOST, 0.99 / slow.MOST, 1 / slow.MOST, slow.MOST])
  slope = jax.grad(lambda ratio: jnp.sum(exposure.squared_log(ratio)))(ends)
  expected = [0, 0, 0, *2 * np.log(ends[3:]) / ends[3:]]
  np.testing.assert_allclose(slope, expected, rtol=1e-5)


@quick("name", SMOOTH, ["Laplace"])
def test_smooth_ratios_grow_to_that_of_a_group_without_exposure(name):
  """Their losses have slopes where a division would overflow, and at the bound of ratios too."""
  cold = np.float32([1.0, 0.04, 0.012, 0.01, 0.005, 0.001])

  def loss(scores, groups, t):
    ratio = exposure.demographic_parity(scores, groups, k=2, ranking=type(RANKINGS[name])(t))
    return (jnp.stack([exposure.squared_log(ratio), ratio]),) * 2

  grow = jax.vmap(jax.jacrev(loss, has_aux=True), (None, None, 0))
  slopes, found = jax.jit(jax.vmap(grow, (None, 0, None)))(DOWN, np.stack([SPLIT, 1 - SPLIT]), cold)
  slopes, (values, ratios) = np.float64(slopes), np.moveaxis(np.float64(found), -1, 0)
  slope = slopes[:, :, 0]
  assert np.all(np.diff(ratios[0]) >= 0)
  assert np.all(ratios[0] <= np.float32(slow.MOST))
  np.testing.assert_allclose(ratios[1] * ratios[0], 1, rtol=1e-5)
  np.testing.assert_allclose(values[1], values[0], rtol=1e-5)
  assert np.all(np.isfinite(slopes))
  # The slopes of the ratio itself are finite as well, and tell the same.
  over = slopes[:, :, 1] / ratios[..., None] * (2 * np.log(ratios))[..., None]
  np.testing.assert_allclose(slope, over, rtol=1e-4, atol=1e-4)
  if name == "Gumbel":
    # Its integrals resolve no smaller exposure.
    np.testing.assert_allclose(ratios[0, -1], 1.9e11, rtol=0.1)
  if name in ("Laplace", "Logistic"):
    # The third is saturated. The exposure of item 2 is as the exponential of half its distance from
    # item 1.
    np.testing.assert_array_equal(ratios[0, 2:], np.float32(slow.MOST))
    ahead = (values[:, 1:3] ** 0.5 / cold[1:3])[..., None] * np.float32([0, 1, -1, 0])
    np.testing.assert_allclose(slope[:, 1:3], ahead, rtol=1e-3, atol=1e-3 * np.max(ahead))
    # Colder ones have a part of this slope, down to 0.
    ahead = (values[:, 3:] ** 0.5 / cold[3:])[..., None]
    part = slope[:, 3:] / ahead
    assert np.all((part[..., 1] >= 0) & (part[..., 1] <= 1.001) & (part[..., 2] == -part[..., 1]))
    assert part[0, 0, 1] > 0
    np.testing.assert_array_equal(part[:, -1], 0)


def test_an_evaluator_keeps_a_group_without_exposure():
  groups = np.array([SPLIT, 0 * SPLIT])
  parity = jr.Measure(exposure.demographic_parity, name="x", k=2, groups=groups)
  evaluator = jr.Evaluator([parity], empty="skip")
  scores = np.stack([DOWN, DOWN])
  state = evaluator.update(evaluator.init(), scores, np.zeros_like(scores))
  assert int(state.count[0]) == 1
  np.testing.assert_allclose(evaluator.compute(state)["x"], slow.MOST, rtol=1e-6)


@pytest.mark.parametrize("x64", [False, True])
def test_one_group_without_exposure_leaves_moments_finite(x64):
  """They are float32 in every dtype; the ratios of the three other queries are near 1."""
  groups = np.array([SPLIT, [0, 1, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1]])
  with jax.enable_x64(x64):
    parity = jr.Measure(exposure.demographic_parity, name="x", k=2, groups=groups)
    evaluator = jr.Evaluator([parity])
    scores = np.tile(DOWN.astype(float if x64 else np.float32), (4, 1))
    values = jr.evaluate([parity], scores, np.zeros_like(scores))["x"]
    assert values.dtype == (np.float64 if x64 else np.float32)
    state = evaluator.update(evaluator.init(), scores, np.zeros_like(scores))
    merged = state
    for times in (1, 2, 4):
      all_values = np.tile([slow.MOST, 0, 0, 0], times)
      error = np.std(all_values, ddof=1) / np.sqrt(all_values.size)
      expected = [np.mean(all_values), np.var(all_values, ddof=1), error]
      own = evaluator.compute, evaluator.variance, evaluator.standard_error
      np.testing.assert_allclose([f(merged)["x"] for f in own], expected, rtol=1e-6)
      ends = np.array(evaluator.interval(merged)["x"])
      half = 1.959964 * error
      np.testing.assert_allclose(ends, expected[0] + np.array([-half, half]), rtol=1e-6)
      merged = evaluator.merge(merged, merged)


def test_tiny_shares_have_slopes():
  """Quotients of exposures that are too small to be squared, and of shares near 0."""
  p, q = np.float32([[1e-25, 1], [1e-30, 1]]), np.float32([[0, 1], [2e-30, 1]])
  slope = jax.grad(lambda p: jnp.sum(exposure.jensen_shannon(p, q)))(p)
  expected = [[0.5, 0], [np.log2(2 / 3) / 2, 0]]
  np.testing.assert_allclose(slope, expected, atol=1e-6)

  def value(members):
    return exposure.awrf(DOWN[:2], members, np.float32([1, 3]), n_groups=2)

  members = np.eye(2, dtype=np.float32)
  small = jax.jit(jax.grad(value))(members * np.float32(1e-25))
  np.testing.assert_allclose(small * 1e-25, jax.jit(jax.grad(value))(members), rtol=1e-4)


def test_items_of_no_group_keep_their_ranks():
  """As the message for an id of -1 says."""
  groups = np.array([0, -1, 1])
  with pytest.raises(ValueError, match=r"by_group: .*got -1; .*jax.nn.one_hot\(groups, 2\)"):
    exposure.by_group(DOWN[:3], groups, n_groups=2)
  members = jax.nn.one_hot(groups, 2)
  found = exposure.by_group(DOWN[:3], members, n_groups=2)
  np.testing.assert_allclose(found, [slow.discount(1), slow.discount(3)], rtol=1e-6)


def test_targets_are_shares():
  scores, groups = np.zeros((2, 4), np.float32), np.stack([SPLIT, SPLIT])
  for wrong in ([0, 0], [1, -1], [np.nan, 1], [np.inf, 1], [[1, 1], [0, 0]]):
    with pytest.raises(ValueError, match=r"^awrf: target must be shares .*; jnp.ones\(2\)"):
      exposure.awrf(scores, groups, np.float32(wrong), n_groups=2)
  # The target of a query of padding does not matter, and nothing is refused under `jit`.
  shares, where = np.float32([[1, 1], [0, 0]]), np.array([[True] * 4, [False] * 4])
  traced = jax.jit(
    lambda target, where: exposure.awrf(scores, groups, target, n_groups=2, where=where)
  )
  np.testing.assert_array_equal(
    exposure.awrf(scores, groups, shares, n_groups=2, where=where), [1, 0]
  )
  np.testing.assert_array_equal(traced(shares, where), [1, 0])
  np.testing.assert_array_equal(traced(shares, np.ones_like(where)), [1, np.nan])


@thorough
def test_not_a_number_poisons_its_own_query():
  scores, groups = np.zeros((3, 4), np.float32), np.tile([0, 1], (3, 2))
  scores[1, 2] = np.nan
  for value in (
    exposure.expected(scores),
    exposure.ee_d(scores)[:, None],
    exposure.awrf(scores, groups, np.ones(2), n_groups=2)[:, None],
    exposure.demographic_parity(scores, groups)[:, None],
  ):
    np.testing.assert_array_equal(np.isnan(value).all(1), [False, True, False])
    np.testing.assert_array_equal(np.isnan(value).any(1), [False, True, False])


@thorough
def test_dtypes():
  half = jnp.asarray(SCORES[[0, 3]], jnp.bfloat16)
  for name in ("Exact", "Laplace"):
    value = exposure.expected(half, ranking=RANKINGS[name])
    assert value.dtype == jnp.float32
    wide = exposure.expected(half.astype(jnp.float32), ranking=RANKINGS[name])
    np.testing.assert_allclose(value, wide, atol=1e-6)
  # 64-bit scores have the dtypes of JAX.
  close = np.array([1.0, 1.0 + 1e-12, 0.0])
  tied = np.mean([slow.discount(1), slow.discount(2)])
  np.testing.assert_allclose(exposure.expected(close), [tied, tied, slow.discount(3)], rtol=1e-6)
  np.testing.assert_allclose(exposure.expected([3, 1, 2]), [slow.discount(r) for r in (1, 3, 2)])
  with jax.enable_x64(True):
    np.testing.assert_allclose(exposure.expected(close), [slow.discount(r) for r in (2, 1, 3)])
    assert exposure.ee_d(SCORES[0]).dtype == jnp.float64


@thorough
def test_platforms_agree():
  def total(s):
    return jnp.sum(np.float32(TARGET[:1]) * exposure.expected(s, ranking=RANKINGS["Laplace"]))

  def found():
    return jax.jit(jax.value_and_grad(total))(np.float32(SCORES[:1]))

  with platforms.forced("cpu"):
    here = found()
  with platforms.forced("gpu"):
    there = found()
  for one, other in zip(here, there, strict=True):
    np.testing.assert_allclose(one, other, atol=2e-6)


@thorough
def test_metrics_of_queries_on_many_devices():
  scores, groups = np.float32(SCORES[:, :]), np.where(WHERE, GROUPS, 0)
  args = np.where(WHERE, scores, 0), np.float32(LABELS).clip(0, 3), groups, WHERE

  def value(scores, labels, groups, where):
    own = {"where": where, "ranking": jr.Laplace(1.0)}
    return exposure.awrf(scores, groups, SHARES, n_groups=2, **own) + exposure.disparate_treatment(
      scores, labels, groups, **own
    )

  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Auto,))
  spread = jax.shard_map(value, mesh=mesh, in_specs=P("q"), out_specs=P("q"))
  args = (args[0], np.nan_to_num(args[1]), *args[2:])
  np.testing.assert_allclose(jax.jit(spread)(*args), value(*args), rtol=1e-6)
  each = jax.vmap(value)(*args)
  np.testing.assert_allclose(each, value(*args), rtol=1e-6)


@thorough
def test_candidates_on_many_devices():
  scores, groups = np.float32(np.random.default_rng(0).permutation(16)), np.arange(16) % 2
  mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

  def value(scores, groups):
    return exposure.demographic_parity(scores, groups, k=3, ranking=jr.Sharded("i"))

  spread = jax.shard_map(value, mesh=mesh, in_specs=P("i"), out_specs=P())
  expected = exposure.demographic_parity(scores, groups, k=3)
  np.testing.assert_allclose(jax.jit(spread)(scores, groups), expected, rtol=1e-6)


@thorough
def test_measures():
  scores, labels = np.float32(SCORES[[0, 3]]), np.float32(LABELS[[0, 3]])
  groups, goal = GROUPS[[0, 3]], TARGET[[0, 3]]
  treatment = jr.Measure(exposure.disparate_treatment, name="treatment", groups=groups)
  measures = [treatment, jr.Measure(exposure.ee_r, name="ee_r", target=goal, k=3), "nDCG"]
  values = jr.evaluate(measures, scores, labels)
  expected = exposure.disparate_treatment(scores, labels, groups)
  np.testing.assert_allclose(values["treatment"], expected, rtol=1e-6)
  np.testing.assert_allclose(values["ee_r"], exposure.ee_r(scores, goal, k=3), rtol=1e-6)
  assert treatment.description.best == 1
  assert not jr.Measure(exposure.ee_d).description.higher_is_better
  alone = jr.Measure(exposure.demographic_parity, name="x", groups=np.array([[0, 1], [1, 1]]))
  evaluator = jr.Evaluator([alone], empty="skip")
  pair = np.float32([[1, 2], [2, 1]])
  state = evaluator.update(evaluator.init(), pair, pair)
  np.testing.assert_allclose(evaluator.compute(state)["x"], slow.discount(2), rtol=1e-6)
  with pytest.raises(jr.UnansweredError, match="best at 1.*end of its range"):
    jr.losses.lambda_rank(scores, labels, metric=treatment)
  # EE-R is affine, so that LambdaRank and chance know it.
  by_chance = jr.chance.expected(jr.Measure(exposure.ee_r, target=goal), labels)
  tied = exposure.ee_r(np.zeros_like(scores), goal)
  np.testing.assert_allclose(by_chance, tied, rtol=1e-5)
  relevance = jr.Measure(exposure.ee_r, target=goal)
  assert np.all(np.isfinite(jr.losses.lambda_rank(scores, labels, metric=relevance)))


def test_a_metric_of_ones_own_is_best_inside():
  @jr.metric(best=1.0)
  def share(ranked, *, k=2):
    return ranked.expect(ranked.relevant(), jr.discounts.constant, k=k)

  assert share.description.best == 1
  with pytest.raises(jr.UnansweredError, match="^share: .*best at 1"):
    jr.losses.lambda_rank(np.float32(SCORES[:1]), np.float32(LABELS[:1]), metric=share)


SCORE, GROUP = np.zeros((2, 3), np.float32), np.array([[0, 1, 2], [0, 0, 0]])
SHARE = np.ones(3, np.float32)
by_group = functools.partial(exposure.by_group, SCORE)
awrf = functools.partial(exposure.awrf, SCORE, GROUP)
BAD = [
  (lambda: by_group(GROUP, n_groups=2), "by_group: groups.*0 to 1.*got 2"),
  (lambda: by_group(GROUP - 1, n_groups=3), "by_group: .*got -1"),
  (lambda: by_group(GROUP[:, :2], n_groups=3), r"by_group: groups.*\(2, 2\).*\(2, 3\)"),
  (lambda: by_group(np.ones((2, 3, 4)), n_groups=3), "by_group: groups.*3 groups.*got 4"),
  (lambda: by_group(GROUP, n_groups=2.5), "by_group: n_groups must be an int"),
  (lambda: by_group("ab", n_groups=2), "by_group: groups"),
  (
    lambda: by_group(np.array([["a", "b", "a"]] * 2), n_groups=2),
    r"by_group: groups .*'a'; number .*names, groups = np.unique\(groups, return_inverse=True\)",
  ),
  (lambda: awrf(SHARE[:2], n_groups=2), "awrf: .*got 2"),
  (lambda: awrf(SHARE[:2], n_groups=3), "awrf: target.*3 groups.*got 2"),
  (lambda: awrf(np.ones((3, 3)), n_groups=3), r"awrf: target.*\(3, 3\)"),
  (lambda: awrf(SHARE, n_groups=3, distance=1.0), "awrf: distance"),
  (lambda: exposure.demographic_parity(SCORE, GROUP), "demographic_parity: .*got 2"),
  (
    lambda: exposure.disparate_impact(SCORE, SCORE, jnp.asarray(GROUP)),
    "disparate_impact: .*got 2",
  ),
  (
    lambda: exposure.disparate_treatment(SCORE, SCORE, SCORE),
    "disparate_treatment: groups must be integer.*float32",
  ),
  (lambda: exposure.ee_l(SCORE, np.zeros((2, 4))), r"ee_l: target.*\(2, 4\)"),
  (lambda: exposure.ee_r(SCORE, None), "ee_r: target"),
  (lambda: exposure.ee_d(SCORE, k=0), "ee_d: k"),
  (lambda: exposure.ee_d("ab"), "ee_d: scores"),
  (lambda: exposure.expected(SCORE, discount=2), "expected: discount"),
  (lambda: exposure.expected(SCORE, where=SCORE), "expected: where"),
  (lambda: exposure.target(SCORE, where=GROUP[:, :2] > 0), "target: where"),
  (lambda: exposure.jensen_shannon(np.ones(2), np.ones(3)), "jensen_shannon: p and q"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_mistakes_name_the_function(call, message):
  with pytest.raises((TypeError, ValueError), match=f"^{message}"):
    call()


@thorough
def test_traced_ids_out_of_range_are_not_a_number():
  value = jax.jit(lambda g: exposure.by_group(SCORE, g, n_groups=2))(GROUP)
  np.testing.assert_array_equal(np.isnan(value).all(1), [True, False])
  where = np.array([[True, True, False], [True] * 3])
  assert np.all(np.isfinite(exposure.by_group(SCORE, GROUP, n_groups=2, where=where)))
