"""The metrics of diversity against their definitions in plain Python, and their laws."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank.metrics import described
from tests.helpers import cases, oracles
from tests.helpers.suites import quick, thorough

QUERIES, N, S = 48, 6, 3
TIES = oracles.TIES
# Sums of these are exact in float32, so that equally good items stay equal.
ALPHAS = (0.0, 0.5, 1.0)
SHARES = np.float32([0.5, 0.25, 0.25])
BETA = 0.75
# What the laws below ask of each metric. The greedy order of the ideal may be beaten.
METRICS = (
  "alpha_dcg",
  "alpha_ndcg",
  "err_ia",
  "nerr_ia",
  "nrbp",
  "nnrbp",
  "precision_ia",
  "average_precision_ia",
  "subtopic_recall",
)
GREEDY = ("alpha_ndcg", "nerr_ia", "nnrbp")
PLAIN = [name not in GREEDY for name in METRICS]


def drawn(seed, queries=QUERIES, n=N):
  """Scores, labels of subtopics and mask: ties, -inf, hostile padding, bare subtopics."""
  rng = np.random.default_rng(seed)
  scores, _, where, _ = cases.draw(seed, queries, n, most_orders=30)
  most = rng.integers(0, 3, (queries, 1, S))
  labels = rng.integers(-1, 1 + most, (queries, n, S)).astype(np.float32)
  hostile = rng.choice(np.float32(cases.HOSTILE_LABELS), labels.shape)
  return scores, np.where(where[..., None], labels, hostile), where


LISTS = drawn(0)


@functools.cache
def compiled(ties="average"):
  """All metrics, `[metrics, queries]`, of lists, a cut-off and alpha."""
  ranking = jr.Exact(ties)

  @jax.jit
  def call(scores, labels, where, k, alpha, rel):
    given = {"where": where, "k": k, "ranking": ranking}
    novel = {"alpha": alpha, "rel": rel, **given}
    each = jnp.tile(SHARES, (QUERIES, 1))
    return jnp.stack(
      [
        jr.alpha_dcg(scores, labels, **novel),
        jr.alpha_ndcg(scores, labels, subtopic_weights=SHARES, **novel),
        jr.err_ia(scores, labels, max_label=1.0, **given),
        jr.nerr_ia(scores, labels, max_label=2.0, subtopic_weights=each, **given),
        jr.nrbp(scores, labels, beta=BETA, **novel),
        jr.nnrbp(
          scores,
          labels,
          where=where,
          ranking=ranking,
          rel=rel,
          alpha=alpha,
          beta=BETA,
          subtopic_weights=SHARES,
        ),
        jr.precision_ia(scores, labels, rel=rel, **given),
        jr.average_precision_ia(scores, labels, rel=rel, subtopic_weights=SHARES, **given),
        jr.subtopic_recall(scores, labels, rel=rel, **given),
      ]
    )

  return call


def values(lists, ties="average", k=99, alpha=0.5, rel=1.0):
  return np.asarray(compiled(ties)(*lists, np.int32(k), np.float32(alpha), np.float32(rel)))


def same(actual, expected, rtol=3e-6, atol=2e-6):
  np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=atol)


def even(rows, rel):
  """The same weight for each subtopic that some item covers, of sum 1."""
  covered = [any(row[s] >= max(rel, 0) for row in rows) for s in range(S)]
  return [c / max(sum(covered), 1) for c in covered]


def expected(scores, labels, where, ties="average", k=99, alpha=0.5, rel=1.0, beta=BETA):
  """The values of one query, by all its orders; `ties` may be the orders themselves."""
  rows = tuple(map(tuple, labels[where].tolist()))
  items = oracles.query(scores, labels.clip(0).sum(-1), where, np.cumsum(where) - 1)
  orders = oracles.orders(items, ties) if isinstance(ties, str) else ties
  shares = tuple(SHARES.tolist())
  metrics = (
    lambda order: oracles.alpha_dcg(order, k, alpha, rel, (1, 1, 1)),
    lambda order: oracles.alpha_ndcg(order, k, alpha, rel, shares, rows),
    lambda order: oracles.err_ia(order, k, 1, even(rows, 1e-9)),
    lambda order: oracles.nerr_ia(order, k, 2, shares, rows),
    lambda order: oracles.nrbp(order, k, alpha, rel, even(rows, rel), beta),
    lambda order: oracles.nnrbp(order, alpha, rel, shares, beta, rows),
    lambda order: oracles.precision_ia(order, k, rel, even(rows, rel)),
    lambda order: oracles.average_precision_ia(order, k, rel, shares, rows),
    lambda order: oracles.subtopic_recall(order, k, rel, even(rows, rel)),
  )
  ordered = [(p, [rows[int(item.weight)] for item in order]) for p, order in orders]
  return [sum(p * metric(order) for p, order in ordered) for metric in metrics]


@pytest.mark.parametrize("name", [d.name for _, d in described() if d.subtopics])
def test_every_metric_has_an_oracle(name):
  """One that is described in `jaxrank.metrics`, and left out of this file, fails here."""
  assert name in METRICS
  assert hasattr(oracles, name)


def test_range():
  low, high = np.array([d.range for name in METRICS for d in [about(name)]]).T[:, :, None]
  for k in (1, 99):
    value = values(LISTS, k=k)
    assert np.all(value >= low)
    assert np.all((value <= high * (1 + 1e-6))[PLAIN])


def about(name):
  """What the library says of a metric."""
  return dict((d.name, d) for _, d in described())[name]


@quick("ties", TIES, ["average"])
def test_agree_with_their_definitions(ties):
  for seed, k, alpha, rel in (
    (0, 99, 0.5, 1.0),
    (1, 2, 1.0, 1.0),
    (2, 3, 0.0, 0.0),
    (3, 4, 0.5, 2),
  ):
    lists = drawn(seed)
    actual = values(lists, ties, k, alpha, rel)
    same(actual.T, [expected(*query, ties, k, alpha, rel) for query in zip(*lists, strict=True)])
    assert np.count_nonzero(actual) > QUERIES


def test_the_greedy_order_is_beaten_on_rare_queries():
  labels = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 0]])
  scores = -np.float32([2, 3, 0, 1])
  assert f"{jr.alpha_ndcg(scores, labels):.5f}" == "1.02069"


def plackett_luce(scores, temperature):
  """All orders of scores, with their probabilities; the weight of an item is its place."""
  odds = [math.exp(score / temperature) for score in scores]
  orders = []
  for order in itertools.permutations(range(len(scores))):
    left = [sum(odds[i] for i in order[rank:]) for rank in range(len(order))]
    probability = math.prod(odds[i] / total for i, total in zip(order, left, strict=True))
    orders.append((probability, tuple(oracles.Item(scores[i], 0.0, i) for i in order)))
  return orders


SMOOTH = {
  "alpha_ndcg": lambda *lists, alpha, **given: jr.alpha_ndcg(
    *lists, alpha=alpha, rel=1.0, subtopic_weights=SHARES, **given
  ),
  "err_ia": lambda *lists, alpha, **given: jr.err_ia(*lists, max_label=1.0, **given),
  "nrbp": lambda *lists, alpha, **given: jr.nrbp(*lists, alpha=alpha, beta=BETA, rel=1.0, **given),
}
names = quick("name", SMOOTH, ["err_ia"])


@functools.cache
def smooth(kind, name="alpha_ndcg"):
  """A metric and its slopes in scores and alpha."""

  @jax.jit
  def call(scores, labels, where, temperature, alpha):
    def total(scores, alpha):
      ranking = getattr(jr, kind)(temperature)
      value = SMOOTH[name](scores, labels, where=where, ranking=ranking, alpha=alpha)
      return jnp.sum(value), value

    slopes, value = jax.grad(total, argnums=(0, 1), has_aux=True)(scores, alpha)
    return value, *slopes

  return lambda lists, temperature, alpha=0.5: [
    np.asarray(x) for x in call(*lists, np.float32(temperature), np.float32(alpha))
  ]


@names
def test_gumbel_is_the_mean_over_all_orders(name):
  scores, labels, where = drawn(5)
  scores = np.random.default_rng(5).choice(np.float32([0, 0.5, 1, -0.7]), scores.shape)
  for alpha in (0.0, 0.5):
    value, *_ = smooth("Gumbel", name)((scores, labels, where), 0.6, alpha)
    for i in range(8):
      orders = plackett_luce(scores[i, where[i]].tolist(), 0.6)
      means = expected(scores[i], labels[i], where[i], orders, alpha=alpha)
      same(value[i], means[METRICS.index(name)], rtol=2e-5)


@quick("name", SMOOTH, ["err_ia"])
def test_laplace_agrees_with_its_definition(name):
  value, *_ = smooth("Laplace", name)(LISTS, 0.7)
  for i, (scores, labels, where) in enumerate(zip(*LISTS, strict=True)):
    items, rows = oracles.query(scores, [0] * N, where), labels[where].tolist()
    shares, discount, scale = SHARES.tolist(), "logarithmic", 1.0
    if name != "alpha_ndcg":
      shares = even(rows, 1.0)
      discount, scale = ("reciprocal", 1.0) if name == "err_ia" else (BETA, 1 - 0.5 * BETA)
    total = 0.0
    for s, weight in enumerate(shares):
      worth = [float(row[s] > 0) for row in rows]
      stop = [x / 2 for x in worth]
      if name == "err_ia":
        worth = stop = [oracles.stop_probability(row[s], 1) for row in rows]
      total += scale * weight * oracles.smooth_sum(items, 0.7, worth, discount, stop)
    if name == "alpha_ndcg":
      best = oracles.novel_first(tuple(map(tuple, rows)), 0.5, 1.0, tuple(shares))
      total = oracles.ratio(total, oracles.alpha_dcg(best, 99, 0.5, 1.0, shares))
    same(value[i], total, rtol=2e-5)


@thorough
@pytest.mark.parametrize("kind", ["Laplace", "Gumbel"])
def test_smooth_values_are_exact_when_cold_and_slopes_finite(kind):
  scores, labels, where = LISTS
  distinct = np.random.default_rng(3).random(scores.shape).argsort(-1).astype(np.float32)
  distinct[:, 2] = -np.inf
  cold, *_ = smooth(kind)((distinct, labels, where), 1e-3)
  same(cold, values((distinct, labels, where))[1], rtol=2e-5, atol=1e-5)
  for alpha in (0.0, 0.5, 1.0):
    value, by_score, by_alpha = smooth(kind)(LISTS, 0.7, alpha)
    for x in (value, by_score, by_alpha):
      assert np.all(np.isfinite(x))
    np.testing.assert_array_equal(by_score[~where | (scores == -np.inf)], 0)
    assert np.any(by_score != 0)


def test_slopes_are_those_of_differences():
  rng = np.random.default_rng(1)
  scores, labels = rng.integers(0, 3, (8, N)) / 2, rng.uniform(0.2, 1.9, (8, N, S))
  direction = rng.standard_normal(labels.shape)
  with jax.enable_x64(True):
    lists = jnp.asarray(scores), jnp.asarray(labels)

    def moved(alpha, step):
      novel = [metric(*lists, rel=1.0, k=4, alpha=alpha) for metric in (jr.alpha_dcg, jr.nrbp)]
      grades = lists[1] + step * direction
      return jnp.stack([*novel, jr.nerr_ia(lists[0], grades, max_label=2.0, k=4)])

    call = jax.jit(lambda alpha, step: jax.jvp(moved, (alpha, step), (1.0, 1.0)))
    for alpha, down, up in ((0.0, 0.0, 1e-7), (0.4, -1e-7, 1e-7), (1.0, -1e-7, 0.0)):
      rise = (call(alpha + up, up)[0] - call(alpha + down, down)[0]) / (up - down)
      assert rise.dtype == jnp.float64
      same(call(alpha, 0.0)[1], rise, rtol=2e-6)


def test_float64_is_as_good_as_its_definition():
  scores, labels, where = LISTS
  with jax.enable_x64(True):
    lists = jnp.asarray(scores), jnp.asarray(labels.astype(np.float64))
    value = jr.alpha_dcg(*lists, where=where, alpha=0.3, rel=1.0)
    assert value.dtype == jnp.float64
  for i, query in enumerate(zip(*LISTS, strict=True)):
    same(value[i], expected(*query, alpha=0.3)[0], rtol=1e-12, atol=1e-12)


def test_hostile_padding_bare_subtopics_and_order_are_irrelevant():
  scores, labels, where = LISTS
  plain = values(LISTS)
  for score, label in zip(cases.HOSTILE_SCORES, cases.HOSTILE_LABELS, strict=True):
    hidden = np.where(where, scores, np.float32(score))
    other = np.where(where[..., None], labels, np.float32(label))
    np.testing.assert_array_equal(values((hidden, other, where)), plain)
  order = np.random.default_rng(0).random(scores.shape).argsort(-1)
  shuffled = [np.take_along_axis(x, order, -1) for x in (scores, where)]
  shuffled.insert(1, np.take_along_axis(labels, order[..., None], 1))
  # Another greedy order may start from another of two equal items.
  same(values(shuffled)[PLAIN], plain[PLAIN])
  wide = [np.pad(x, [(0, 0), (2, 3), (0, 0)][: x.ndim]) for x in LISTS]
  wide[1] = np.pad(wide[1], ((0, 0), (0, 0), (0, 2)))
  same(jr.err_ia(wide[0], wide[1], where=wide[2], max_label=1.0), plain[2])


def test_nothing_to_find_is_zero_and_not_a_number_spoils_its_query():
  scores, labels, where = (x.copy() for x in LISTS)
  assert not values((scores, np.zeros_like(labels), where)).any()
  assert not values((scores, labels, np.zeros_like(where))).any()
  plain = values(LISTS)
  where[[2, 5], 3] = True
  scores[2, 3], labels[5, 3, 1] = np.nan, np.nan
  spoiled = values((scores, labels, where))
  assert np.all(np.isnan(spoiled[:, [2, 5]]))
  others = np.delete(np.arange(QUERIES), [2, 5])
  np.testing.assert_array_equal(spoiled[:, others], plain[:, others])


def test_cutoffs_and_alphas_sweep():
  call = functools.partial(
    jr.alpha_ndcg, *LISTS[:2], where=LISTS[2], rel=1.0, subtopic_weights=SHARES
  )
  ks, alphas = np.int32([2, N, N + 3]), np.float32([0.5, 0.0, 1.0])
  swept = jax.jit(jax.vmap(lambda k, alpha: call(k=k, alpha=alpha)))(ks, alphas)
  same(swept, [values(LISTS, k=k, alpha=a)[1] for k, a in zip(ks, alphas, strict=True)])
  same(call(k=2), swept[0])


def nerr(scores, labels, where):
  return jr.nerr_ia(scores, labels, where=where, max_label=2.0, subtopic_weights=SHARES)


def test_a_batch_of_batches():
  cube = [x.reshape(4, 12, *x.shape[1:]) for x in LISTS]
  same(jax.jit(nerr)(*cube), values(LISTS)[3].reshape(4, 12))


@thorough
def test_any_place():
  expected = values(LISTS)[3]
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  sharded = jax.shard_map(nerr, mesh=mesh, in_specs=P("q"), out_specs=P("q"))
  same(jax.jit(sharded)(*LISTS), expected)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    lists = [jax.device_put(x, NamedSharding(mesh, P("q"))) for x in LISTS]
    value, slope = jax.jit(jax.value_and_grad(lambda *x: jnp.sum(nerr(*x)), 1))(*lists)
    assert np.all(np.isfinite(slope))
    same(value, expected.sum(), rtol=1e-5)


def test_dtypes():
  scores = np.random.default_rng(0).integers(-3, 3, (QUERIES, N)).astype(np.int8)
  labels = np.random.default_rng(1).integers(0, 2, (QUERIES, N, S))
  lists = scores.astype(np.float32), labels.astype(np.float32), np.ones(scores.shape, bool)
  for dtype in ("bool", "uint8"):
    value = jr.alpha_dcg(jnp.asarray(scores).astype("bfloat16"), jnp.asarray(labels).astype(dtype))
    assert value.dtype == jnp.float32
    same(value, values(lists)[0])


def test_nothing_at_all():
  for shape in ((0, N, S), (3, 0, 0)):
    given = {"subtopic_weights": np.ones(shape[2]), "ranking": jr.Exact("stable")}

    @jax.jit
    def both(scores, labels, given=given):
      return jr.nerr_ia(scores, labels, max_label=1, **given), jr.nrbp(scores, labels, **given)

    for value in both(jnp.zeros(shape[:2]), jnp.ones(shape)):
      same(value, np.zeros(shape[0]))


def test_mistakes():
  scores, labels, where = LISTS
  with pytest.raises(ValueError, match=r"subtopics.*\(48, 6\), got \(48, 6\).*\[\.\.\., None\]"):
    jr.alpha_ndcg(scores, where)
  with pytest.raises(ValueError, match=r"\(48, 6\), got \(48, 5, 3\)"):
    jr.err_ia(scores, labels[:, 1:], max_label=2)
  with pytest.raises(
    ValueError, match=r"nerr_ia: subtopic_weights.*\(3,\) or \(48, 3\), got \(2,\)"
  ):
    jr.nerr_ia(scores, labels, max_label=2, subtopic_weights=[0.5, 0.5])
  for metric in (jr.err_ia, jr.nerr_ia):
    with pytest.raises(TypeError, match="max_label"):
      metric(scores, labels)
  for beta in (-0.1, 1.5):
    with pytest.raises(ValueError, match=rf"nrbp: beta must be in \[0, 1\], got {beta}"):
      jr.nrbp(scores, labels, beta=beta)
  for alpha in (-0.1, 1.5):
    with pytest.raises(ValueError, match=rf"alpha must be in \[0, 1\], got {alpha}"):
      jr.alpha_dcg(scores, labels, alpha=alpha)
  for alpha in ("x", None):
    with pytest.raises(TypeError, match=f"alpha must be a number, got {alpha!r}"):
      jr.alpha_dcg(scores, labels, alpha=alpha)
  with pytest.raises(ValueError, match="max_label must be at least 0, got -1"):
    jr.err_ia(scores, labels, max_label=-1)
  for ranking in ("exact", None):
    with pytest.raises(TypeError, match=f"ranking must be.* such as Exact.*got {ranking!r}"):
      jr.nerr_ia(scores, labels, max_label=2, ranking=ranking)
  with pytest.raises(TypeError, match="swapped"):
    jr.alpha_dcg(where, labels)
