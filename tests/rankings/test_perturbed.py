"""Gumbel and Gaussian against all orders, samples, finer nodes, slopes and their limits."""

import dataclasses
import functools
import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank._core import platforms
from jaxrank.rankings import perturbed
from tests.helpers.suites import quick, thorough
from tests.helpers.together import Together

N = 6
NAMES = ("Gumbel", "Gaussian")
# One query a row; tied scores and labels, padding under a hostile mask, -inf, unjudged items.
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
WHERE = np.ones(SCORES.shape, bool)
WHERE[1, 4:] = False


def discount(n):
  return 1 / np.log2(np.arange(2, n + 2))


def linear(labels):
  return np.maximum(labels, 0)


def exponential(labels):
  return 2.0 ** linear(labels) - 1


def order_dcg(ranked, k):
  return linear(ranked[:, :k]) @ discount(ranked.shape[1])[:k]


def order_ndcg(ranked, labels, k):
  return order_dcg(ranked, k) / order_dcg(np.sort(labels)[None, ::-1], k)[0]


def order_err(ranked, labels, k):
  stop = exponential(ranked) / 16
  reach = np.cumprod(1 - stop, axis=1) / (1 - stop)
  return np.sum((reach * stop / np.arange(1, stop.shape[1] + 1))[:, :k], axis=1)


def order_ap(ranked, labels, k):
  hit = ranked > 0
  precision = np.cumsum(hit, axis=1) / np.arange(1, hit.shape[1] + 1)
  return np.sum((hit * precision)[:, :k], axis=1) / np.sum(labels > 0)


def order_rr(ranked, labels, k):
  hit = ranked[:, :k] > 0
  return np.where(hit.any(1), 1 / (1 + hit.argmax(1)), 0)


def order_rbp(ranked, labels, k):
  return 0.2 * ((ranked > 0) @ 0.8 ** np.arange(ranked.shape[1]))


def order_table(ranked, labels, k):
  worth = np.array([1.0, 0.2, 0.7, 0, 0, 0])[: ranked.shape[1]]
  return linear(ranked) @ worth


def order_bpref(ranked, labels, k):
  """The formula of trec_eval."""
  hit, other = ranked > 0, ranked == 0
  found, others = np.sum(labels > 0), np.sum(labels == 0)
  ahead = np.cumsum(other, axis=1)
  return np.sum(hit * (1 - np.minimum(ahead, found) / min(found, others)), axis=1) / found


def order_gap(ranked, labels, k):
  """Users who take labels from 1, 2, 3 or 4 on as relevant are as many each."""
  found = [
    np.sum(labels >= c) * order_ap(ranked >= c, labels >= c, k)
    for c in range(1, 5)
    if np.any(labels >= c)
  ]
  return sum(found) / sum(np.sum(labels >= c) for c in range(1, 5))


def order_plain(ranked, labels, k):
  return linear(ranked) @ (1 / (1.0 + np.arange(ranked.shape[1]) ** 2))


def plain(rank):
  """A discount of nobody's: no sum of exponentials is known for it."""
  return 1 / (1 + (rank - 1) ** 2)


def order_auc(ranked, labels, k):
  """Items not retrieved come last, in a tie."""
  hit = ranked > 0
  lost_hits = np.sum(labels > 0) - hit.sum(1)
  lost_others = np.sum(labels <= 0) - (~hit).sum(1)
  behind = (~hit).sum(1, keepdims=True) - np.cumsum(~hit, axis=1) + lost_others[:, None]
  good = np.sum(hit * behind, axis=1) + lost_hits * lost_others / 2
  return good / (np.sum(labels > 0) * np.sum(labels <= 0))


QUESTIONS = {
  "ndcg": (jr.ndcg, {}, order_ndcg),
  "ndcg@3": (jr.ndcg, {"k": 3}, order_ndcg),
  "precision@3": (jr.precision, {"k": 3}, lambda ranked, _, k: np.sum(ranked[:, :k] > 0, 1) / k),
  "hit_rate@2": (jr.hit_rate, {"k": 2}, lambda ranked, _, k: np.any(ranked[:, :k] > 0, 1) * 1.0),
  "err": (jr.err, {"max_label": 4}, order_err),
  "err@2": (jr.err, {"max_label": 4, "k": 2}, order_err),
  "ap": (jr.average_precision, {}, order_ap),
  "ap@3": (jr.average_precision, {"k": 3}, order_ap),
  "rr": (jr.reciprocal_rank, {}, order_rr),
  "rbp": (jr.rbp, {}, order_rbp),
  "dcg(table)": (jr.dcg, {"discount": jr.discounts.table([1.0, 0.2, 0.7])}, order_table),
  "dcg(plain)": (jr.dcg, {"discount": plain}, order_plain),
  "auc": (jr.auc, {}, order_auc),
  "bpref": (jr.bpref, {}, order_bpref),
  "gap@3": (jr.gap, {"max_label": 4, "k": 3}, order_gap),
}
MEASURES = [jr.Measure(metric, name=name, **own) for name, (metric, own, _) in QUESTIONS.items()]
SAMPLED = ("ndcg", "precision@3", "err", "ap@3", "rr", "auc", "bpref", "gap@3")
# Questions that share a program. The laws of the first, and the means of the second, are quick.
FIRST, SECOND = ("ndcg", "err", "auc"), ("ndcg@3", "ap@3", "rr", "bpref", "dcg(table)")
REST = tuple(name for name in QUESTIONS if name not in (*FIRST, *SECOND))
# Gaussian shares all but the chances with Gumbel.
OF_GAUSSIAN = (("ndcg",),)
some_questions = quick(
  ("name", "ranking"),
  [*((name, "Gumbel") for name in QUESTIONS), ("ndcg", "Gaussian")],
  [*((name, "Gumbel") for name in FIRST), ("ndcg", "Gaussian")],
)
rankings = quick("ranking", NAMES, ["Gumbel"])
# Every call has as many queries, so that all share one compiled function.
QUERIES = 8


def slopes_of(measures, kind, scores, labels, where, temperature):
  """Values of measures by name, and their gradients by scores and by temperature."""

  def values(scores, temperature):
    found = jr.evaluate(measures, scores, labels, where=where, ranking=kind(temperature))
    totals = {name: jnp.sum(jnp.where(jnp.isnan(x), 0, x)) for name, x in found.items()}
    return totals, found

  slopes, found = jax.jacrev(values, (0, 1), has_aux=True)(scores, temperature)
  return {name: (found[name], *slopes[name]) for name in found}


@functools.cache
def soft(name, ranking):
  """Values and gradients of one question by scores and by temperature."""
  measures = [x for x in MEASURES if x.name == name]
  kind = getattr(jr, ranking)
  return jax.jit(lambda *args: slopes_of(measures, kind, *args)[name])


def beside(name, ranking):
  """The questions that share the program of one."""
  groups = OF_GAUSSIAN if ranking == "Gaussian" else (FIRST, SECOND, REST)
  return next(names for names in groups if name in names)


@functools.cache
def of_several(names, ranking):
  measures = [x for x in MEASURES if x.name in names]
  kind = getattr(jr, ranking)
  return Together({ranking: lambda *args: slopes_of(measures, kind, *args)})


def call(name, ranking, scores, temperature, dtype=np.float32, labels=LABELS, where=WHERE):
  """Numpy values and gradients."""
  lists = np.asarray(scores, dtype), np.asarray(labels, dtype), where
  size = len(scores)
  lists = (np.pad(x, ((0, QUERIES - size), (0, 0))) for x in lists)
  program = of_several(beside(name, ranking), ranking)
  found = program(ranking, *lists, np.asarray(temperature, dtype))
  value, slope, by_temperature = found[name]
  return value[:size], slope[:size], by_temperature


@functools.partial(jax.jit, static_argnums=1)
def plain_values(ranking, names):
  """The values of some questions."""
  measures = [x for x in MEASURES if x.name in names]
  return jr.evaluate(measures, np.float32(SCORES), np.float32(LABELS), where=WHERE, ranking=ranking)


@quick("names", [("err",), ("ap", "ap@3")], [("err",)])
def test_platforms_agree(names):
  """Values and slopes of the algorithms of CPUs and of accelerators, with walls, ties and -inf."""
  found = {}
  for platform in ("cpu", "gpu"):
    measures = [x for x in MEASURES if x.name in names]
    lists = [np.float32(x[[0, 2, 3]]) for x in (SCORES, LABELS)]
    with platforms.forced(platform):
      program = jax.jit(functools.partial(slopes_of, measures, jr.Gumbel))
      found[platform] = program(*lists, WHERE[[0, 2, 3]], np.float32(0.3))
  # The slope by the temperature is a sum over all items, which nearly cancels.
  for name, ours in found["cpu"].items():
    for one, other, error in zip(ours, found["gpu"][name], (1e-6, 1e-6, 2e-5), strict=True):
      np.testing.assert_allclose(
        one, other, rtol=error, atol=error * np.abs(one).max(), err_msg=name
      )


@thorough
def test_cut_offs_of_longer_lists_agree():
  """More items than points on the circle."""
  rng = np.random.default_rng(3)
  scores = rng.standard_normal((3, 60)).astype(np.float32)
  labels = rng.choice([0, 1, 4], p=[0.8, 0.1, 0.1], size=scores.shape).astype(np.float32)

  def total(scores):
    return jnp.sum(jr.average_precision(scores, labels, k=3, ranking=jr.Gumbel(1.0)))

  found = []
  for platform in ("cpu", "gpu"):
    with platforms.forced(platform):
      found.append(jax.jit(jax.value_and_grad(total))(scores))
  for one, other in zip(*found, strict=True):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(one).max())


@thorough
def test_slopes_of_longer_lists_agree():
  """Slopes by scores and labels of both algorithms."""
  rng = np.random.default_rng(0)
  scores = rng.standard_normal((2, 130)).astype(np.float32)
  labels = rng.choice([0, 1, 2], p=[0.8, 0.1, 0.1], size=scores.shape).astype(np.float32)
  names = "average_precision", "ndcg"
  measures = [jr.Measure(getattr(jr, name), name=name) for name in names]

  def totals(scores, labels):
    return jax.tree.map(jnp.sum, jr.evaluate(measures, scores, labels, ranking=jr.Gumbel(0.5)))

  found = []
  for platform in ("cpu", "gpu"):
    with platforms.forced(platform):
      found.append(jax.jit(jax.jacrev(totals, argnums=(0, 1)))(scores, labels))
  for name in names:
    for one, other in zip(found[0][name], found[1][name], strict=True):
      np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(one).max(), err_msg=name)
    assert name == "average_precision" or found[0][name][1].any()


@functools.cache
def orders(row):
  """All orders of the retrieved items of a row, and the labels of the valid ones."""
  found = np.flatnonzero(WHERE[row] & (SCORES[row] > -np.inf))
  return np.array(list(itertools.permutations(found))), LABELS[row][WHERE[row]]


def plackett_luce(name, row, scores, temperature):
  """The expectation over all orders of one row."""
  _, own, value = QUESTIONS[name]
  order, labels = orders(row)
  theta = (scores / temperature)[order]
  rest = np.logaddexp.accumulate(theta[:, ::-1], axis=1)[:, ::-1]
  chance = np.exp(np.sum(theta - rest, axis=1))
  return chance @ value(LABELS[row][order], labels, own.get("k"))


@quick("name", QUESTIONS, (*FIRST, *SECOND))
def test_gumbel_is_the_mean_over_all_orders(name):
  scores = np.float32(SCORES).astype(np.float64)
  for temperature in (0.25, 1.0, 8.0):
    value, slope, by_temperature = call(name, "Gumbel", scores, temperature)
    expected_slope = np.zeros_like(scores)
    expected_by_temperature = 0.0
    for row in range(len(scores)):
      mean = functools.partial(plackett_luce, name, row)
      np.testing.assert_allclose(value[row], mean(scores[row], temperature), rtol=1e-5)
      for item in np.flatnonzero(WHERE[row] & (scores[row] > -np.inf)):
        step = 1e-4 * temperature * np.eye(N)[item]
        rise = mean(scores[row] + step, temperature) - mean(scores[row] - step, temperature)
        expected_slope[row, item] = rise / (2e-4 * temperature)
      warm, cold = (mean(scores[row], temperature * c) for c in (1 + 1e-4, 1 - 1e-4))
      expected_by_temperature += (warm - cold) / (2e-4 * temperature)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_temperature, expected_by_temperature, rtol=1e-4, atol=1e-4)


@functools.cache
def sampled_orders(row, temperature, samples):
  """Many orders of one row under normal noise, and their labels."""
  found, labels = orders(row)[0][0], orders(row)[1]
  rng = np.random.default_rng(row)
  noisy = SCORES[row, found] + temperature * rng.standard_normal((samples, found.size))
  return LABELS[row, found][np.argsort(-noisy, axis=1)], labels


@quick(
  ("name", "samples"),
  [*((name, 10**5) for name in FIRST), *((name, 10**6) for name in SAMPLED)],
  lambda case: case[1] == 10**5,
)
def test_gaussian_is_the_mean_of_samples(name, samples):
  _, own, of_order = QUESTIONS[name]
  value = plain_values(jr.Gaussian(np.float32(0.8)), beside(name, "Gumbel"))[name]
  for row in (0, 2):
    sample = of_order(*sampled_orders(row, 0.8, samples), own.get("k"))
    error = np.std(sample) / len(sample) ** 0.5
    assert abs(value[row] - np.mean(sample)) <= 4 * error + 1e-6


@pytest.mark.parametrize(
  ("name", "ranking"), [*((name, "Gumbel") for name in FIRST), ("ndcg", "Gaussian")]
)
def test_gradients_are_slopes(name, ranking):
  rng = np.random.default_rng(0)
  direction = np.where(WHERE & (-np.inf < SCORES), rng.standard_normal(SCORES.shape), 0)
  with jax.enable_x64(True):
    run = functools.partial(call, name, ranking, dtype=np.float64)
    value, slope, by_temperature = run(SCORES, 0.7)
    assert value.dtype == slope.dtype == np.float64
    up, down = (run(SCORES + c * 1e-5 * direction, 0.7)[0] for c in (1, -1))
    rise = (up - down) / 2e-5
    along = np.sum(slope * direction, axis=-1)
    np.testing.assert_allclose(along, rise, rtol=1e-6, atol=1e-9)
    warm, cold = (run(SCORES, 0.7 + c * 1e-5)[0].sum() for c in (1, -1))
    np.testing.assert_allclose(by_temperature, (warm - cold) / 2e-5, rtol=1e-6, atol=1e-9)
  # Half the nodes, and fewer terms, still agree to the stated error.
  narrow, narrow_slope, _ = call(name, ranking, SCORES, 0.7)
  np.testing.assert_allclose(narrow, value, rtol=1e-5)
  np.testing.assert_allclose(narrow_slope, slope, rtol=1e-4, atol=1e-5)


@functools.partial(
  jax.tree_util.register_dataclass, data_fields=["temperature"], meta_fields=["kind", "factor"]
)
@dataclasses.dataclass(frozen=True)
class Spaced(jr.Ranking):
  """A ranking with its nodes closer together."""

  temperature: float
  kind: str
  factor: float = 0.5

  def __call__(self, scores, labels, where, *, k=None):
    base = {"Gumbel": perturbed.GumbelQuery, "Gaussian": perturbed.GaussianQuery}[self.kind]
    spacing = base.noise.spacing
    closer = base.noise._replace(spacing=lambda n, wide: self.factor * spacing(n, wide))
    return type(base.__name__, (base,), {"noise": closer})(
      self.temperature, scores, labels, where, k
    )


@thorough
@pytest.mark.parametrize(
  ("ranking", "n", "how"),
  [
    ("Gaussian", 7, jr.reciprocal_rank),
    ("Gumbel", 300, functools.partial(jr.ndcg, k=10)),
  ],
  ids=["rr", "ndcg@10"],
)
def test_closer_nodes_agree(ranking, n, how):
  rng = np.random.default_rng(n)
  scores = np.float32(rng.standard_normal((2, n)))
  scores[1] = np.round(scores[1])
  labels = np.float32(rng.integers(-3, 5, scores.shape).clip(0))

  def both(kind, temperature):
    metric = functools.partial(how, labels=labels, ranking=kind(temperature))
    return jax.value_and_grad(lambda scores: jnp.sum(metric(scores)))(scores)

  spaced = functools.partial(Spaced, kind=ranking)
  plain = jax.jit(functools.partial(both, getattr(jr, ranking)))
  closer = jax.jit(functools.partial(both, spaced))
  for temperature in (0.1, 1.0, 10.0):
    (value, slope), (fine, fine_slope) = plain(temperature), closer(temperature)
    np.testing.assert_allclose(value, fine, rtol=1e-5)
    np.testing.assert_allclose(slope, fine_slope, rtol=1e-4, atol=2e-6 / temperature)
  if n == 7:
    far = how(scores, labels, ranking=spaced(1.0, factor=8))
    assert not np.allclose(far.sum(), closer(1.0)[0], rtol=1e-5)


@thorough
@rankings
def test_every_rank_is_taken_once(ranking):
  n = 30_000 if ranking == "Gumbel" else 1000
  scores = np.random.default_rng(0).standard_normal(n).astype(np.float32)

  @jax.jit
  @jax.value_and_grad
  def total(scores):
    return jr.dcg(scores, jnp.ones_like(scores), ranking=getattr(jr, ranking)(0.5))

  value, slope = total(scores)
  np.testing.assert_allclose(value, discount(n).sum(), rtol=1e-5)
  # Whatever the scores, the sum is the same.
  np.testing.assert_allclose(slope, 0, atol=2e-4)


@quick("name", QUESTIONS, FIRST)
def test_cold_is_exact_with_ties_averaged(name):
  names = beside(name, "Gumbel")
  exact = plain_values(jr.Exact(), names)[name]
  for temperature in (1e-30, 1e-3):
    value, slope, by_temperature = call(name, "Gumbel", SCORES, temperature)
    np.testing.assert_allclose(value, exact, rtol=2e-5, atol=1e-6)
    assert np.all(np.isfinite(slope))
    assert np.isfinite(by_temperature)
    other = plain_values(jr.Gaussian(np.float32(temperature)), names)[name]
    np.testing.assert_allclose(other, exact, rtol=2e-5, atol=1e-6)


@some_questions
def test_laws_of_scores(name, ranking):
  value, slope, _ = call(name, ranking, SCORES, 0.7)
  np.testing.assert_array_equal(slope[~WHERE | (-np.inf == SCORES)], 0)
  np.testing.assert_allclose(slope.sum(-1), 0, atol=1e-5)
  shifted, shifted_slope, _ = call(name, ranking, SCORES + 64, 0.7)
  np.testing.assert_allclose(shifted, value, rtol=1e-5)
  np.testing.assert_allclose(shifted_slope, slope, rtol=1e-3, atol=1e-5)
  for c in (2.0**-20, 3.0, 2.0**30):
    scaled, scaled_slope, _ = call(name, ranking, c * SCORES, c * 0.7)
    np.testing.assert_allclose(scaled, value, rtol=1e-5)
    np.testing.assert_allclose(c * scaled_slope, slope, rtol=1e-4, atol=1e-5)
  order = np.random.default_rng(0).permutation(N)
  moved, moved_slope, _ = call(
    name, ranking, SCORES[:, order], 0.7, labels=LABELS[:, order], where=WHERE[:, order]
  )
  np.testing.assert_allclose(moved, value, rtol=1e-6)
  np.testing.assert_allclose(moved_slope, slope[:, order], rtol=1e-4, atol=1e-6)


@some_questions
def test_degenerate_queries_are_finite(name, ranking):
  scores = np.zeros((7, N))
  labels = np.tile([0.0, 1.0, 2.0, 0.0, 0.0, 4.0], (7, 1))
  where = np.ones((7, N), bool)
  where[0] = False
  labels[2] = 0
  where[3, 1:] = False
  labels[3, 0] = 1
  scores[4] = [1e30, -1e30, 1e30, 0, 3e38, -3e38]
  scores[5] = [-np.inf, 0, np.inf, 1, -np.inf, 2]
  scores[6] = -np.inf
  for temperature in (1e-30, 1.0, 1e30, 0.0, -1.0):
    out = call(name, ranking, scores, temperature, labels=labels, where=where)
    for x in out:
      assert np.all(np.isfinite(x))
    np.testing.assert_array_equal(out[0][[0, 2]], 0)
    np.testing.assert_array_equal(out[1][~where | (scores == -np.inf)], 0)


def test_half_precision():
  half = jnp.asarray(SCORES, jnp.bfloat16)
  value, slope, _ = soft("ndcg", "Gumbel")(half, np.float32(LABELS), WHERE, np.float32(1))
  expected, *_ = call("ndcg", "Gumbel", half.astype(jnp.float32), 1.0)
  assert value.dtype == jnp.float32
  assert slope.dtype == jnp.bfloat16
  np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.fixture(scope="module")
def queries():
  """Twice the queries of this module: scores, labels and mask."""
  given = (SCORES, "f"), (LABELS, "f"), (WHERE, "?")
  return [np.concatenate([x, x]).astype(dtype) for x, dtype in given]


@thorough
def test_gumbel_trains_on_many_devices(queries):
  name = "ap@3"
  _, slope, _ = soft(name, "Gumbel")(*queries, np.float32(0.7))
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  each = lambda *lists: soft(name, "Gumbel")(*lists, np.float32(0.7))[:2]  # noqa: E731
  sharded = jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("q"), out_specs=P("q")))
  np.testing.assert_allclose(sharded(*queries)[1], slope, rtol=1e-4, atol=1e-6)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    spread = [jax.device_put(x, NamedSharding(mesh, P("q", None))) for x in queries]
    _, spread_slope, _ = soft(name, "Gumbel")(*spread, np.float32(0.7))
    assert jax.typeof(spread_slope).sharding.spec == P("q", None)
    np.testing.assert_allclose(spread_slope, slope, rtol=1e-4, atol=1e-6)


@pytest.mark.any_platform
@thorough
def test_gumbel_trains_under_vmap_and_exported(queries):
  value, slope, _ = soft("ap@3", "Gumbel")(*queries, np.float32(0.7))
  mapped = jax.vmap(soft("ap@3", "Gumbel"), in_axes=(0, 0, 0, None))
  alone_value, alone_slope, _ = mapped(*queries, np.float32(0.7))
  np.testing.assert_allclose(alone_value, value, rtol=1e-6)
  np.testing.assert_allclose(alone_slope, slope, rtol=1e-4, atol=1e-6)
  exported = jax.export.export(soft("ap@3", "Gumbel"), platforms=("cpu", "cuda", "tpu"))
  called = exported(*queries, np.float32(0.7)).call(*queries, np.float32(0.7))
  np.testing.assert_allclose(called[1], slope, rtol=1e-4, atol=1e-6)


def test_mistakes_of_noise():
  lists = SCORES[0], LABELS[0]
  for kind in (jr.Gumbel, jr.Gaussian):
    for temperature in (0.0, -1.0):
      with pytest.raises(ValueError, match=f"temperature.*{temperature}"):
        kind(temperature)
    for metric in (jr.kendall_tau, jr.ordered_pair_accuracy, jr.precision_recall_curve):
      with pytest.raises(jr.UnansweredError, match=f"^{metric.__name__}: .*{kind.__name__}"):
        metric(*lists, ranking=kind(1.0))


@rankings
def test_wide_gaps_are_shortened_at_every_temperature(ranking):
  scores = np.float32([3.0, 1.2, 0.1, -2.7])
  kind, alike = getattr(jr, ranking), np.ones(4, bool)
  temperatures = np.geomspace(1e-9, 1e-2, 999, dtype=np.float32)
  z = jax.jit(jax.vmap(lambda t: kind(t)(jnp.asarray(scores), jnp.zeros(4), alike).z))(temperatures)
  widest = {"Gumbel": 25, "Gaussian": 12}[ranking]
  np.testing.assert_allclose(z, np.tile(-widest * np.arange(4.0), (999, 1)), rtol=1e-6)


TOLERATED = [jr.Measure(jr.err, max_label=4), *jr.parse("nDCG AP P@5 RR")]
TOLERANCES = (1e-5, 1e-4, 1e-3)


def tolerated(measures, n, ranking, tolerance, dtype):
  """Metrics of normal and of tied scores, at three temperatures; slopes of five items and fewer."""
  rng = np.random.default_rng(n)
  scores = rng.standard_normal((2, n))
  scores[1] = np.round(scores[1])
  scores, labels = scores.astype(dtype), rng.integers(-3, 5, scores.shape).clip(0).astype(dtype)

  def at(temperature):
    given = getattr(jr, ranking)(temperature, tolerance)

    def values(scores):
      found = jr.evaluate(measures, scores, labels, ranking=given)
      return jax.tree.map(jnp.sum, found), found

    if n > 5:
      return values(scores)[1]
    slopes, found = jax.jacrev(values, has_aux=True)(scores)
    return found, jax.tree.map(lambda x: temperature * x, slopes)

  found = jax.jit(jax.vmap(at))(jnp.asarray([0.1, 1.0, 10.0], dtype))
  return jax.tree.map(lambda x: np.asarray(x, np.float64), found)


@quick(
  ("n", "ranking", "measures", "tolerances"),
  [
    (5, "Gumbel", TOLERATED[:2], TOLERANCES[-1:]),
    (5, "Gumbel", TOLERATED, TOLERANCES[::2]),
    (200, "Gumbel", TOLERATED, TOLERANCES),
    (5, "Gaussian", TOLERATED[1:3], TOLERANCES[-1:]),
    (200, "Gaussian", TOLERATED, TOLERANCES[::2]),
  ],
  lambda case: len(case[-1]) == 1 and case[1] == "Gumbel",
)
def test_values_are_within_the_tolerance(n, ranking, measures, tolerances):
  with jax.enable_x64(True):
    exact = tolerated(measures, n, ranking, 1e-5, np.float64)
  for tolerance in tolerances:
    found = tolerated(measures, n, ranking, tolerance, np.float32)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
      np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)


def test_tolerance_is_static():
  for kind in (jr.Gumbel, jr.Gaussian):
    ranking = kind(2.0, 1e-3)
    assert jax.tree.leaves(ranking) == [2.0]
    assert jax.tree.structure(ranking) != jax.tree.structure(kind(2.0))
    assert pickle.loads(pickle.dumps(ranking)) == ranking
    assert hash(ranking) == hash(kind(2.0, 1e-3))
    assert repr(ranking) == f"{kind.__name__}(temperature=2.0, tolerance=0.001)"
    assert [kind(2.0, np.float32(x)) for x in (1e-5, 1e-3)] == [kind(2.0), ranking]
    for wrong in (0.0, 1e-6, 0.1, np.nan, "fine", True, jnp.float32(1e-3)):
      with pytest.raises(ValueError, match=f"^{kind.__name__}: tolerance must be .*got"):
        kind(1.0, wrong)


@pytest.mark.parametrize(("digits", "error"), [(5, 6e-6), (9, 1e-8)])
def test_discounts_are_sums_of_exponentials(digits, error):
  for n in (1, 2, 7, 31, 100, 1000, 30_000, 100_000):
    rank = np.unique(np.round(np.geomspace(1, n, 5000)))
    for d, expected in (
      (jr.discounts.logarithmic, np.log(2) / np.log1p(rank)),
      (jr.discounts.reciprocal, 1 / rank),
      (jr.discounts.constant, np.ones_like(rank)),
      (jr.discounts.geometric(0.5), 0.5 ** (rank - 1)),
    ):
      w, t = (np.asarray(x, np.float64) for x in d.terms(n, digits))
      assert np.all((t >= 0) & (t <= 1))
      approximate = np.sum(w * t ** (rank[:, None] - 1), axis=1)
      np.testing.assert_allclose(approximate, expected, rtol=error)


def test_numbers_of_discounts_are_leaves():
  for d in (jr.discounts.geometric(0.5), jr.discounts.table([1.0, 0.5])):
    assert len(jax.tree.leaves(d)) == 1
    hash(d)
  lists = np.float32(SCORES[0]), np.float32(LABELS[0])

  def value(q):
    return jr.rbp(*lists, persistence=q, ranking=jr.Gumbel(1.0))

  q = np.float32([0.3, 0.8])
  swept, slope = jax.jit(jax.vmap(jax.value_and_grad(value)))(q)
  np.testing.assert_allclose(swept, [value(0.3), value(0.8)], rtol=1e-6)
  rise = [(value(x + 0.01) - value(x - 0.01)) / 0.02 for x in (0.3, 0.8)]
  np.testing.assert_allclose(slope, rise, rtol=1e-2)
