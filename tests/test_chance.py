"""Chance against all orders of small queries, one by one, and what it promises beyond them."""

import functools
import math

import cases
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import jaxrank as jr

QUERIES, N = 20, 6


def average_precision(order, items, k=None, rel=None, normalizer="relevant"):
  """Of one order, which the oracle of ties never sees."""
  count = oracles.relevant_count(items, rel)
  if normalizer == "cutoff":
    count = min(oracles.cutoff(items, k), count)
  return oracles.ratio(oracles.precision_sum(order, items, k, rel), count)


def scored(oracle):
  """A statistic of scores as one of an order."""

  def value(order, items):
    lost = [item for item in items if item.score == -math.inf]
    ranked = [item._replace(score=-float(rank)) for rank, item in enumerate(order)]
    return oracle(tuple(ranked + lost))

  return value


ORACLES = {
  "average_precision": average_precision,
  **{name: scored(getattr(oracles, name)) for name in ("auc", "kendall_tau", "spearman")},
  "ordered_pair_accuracy": scored(oracles.ordered_pair_accuracy),
}
ASKED = (
  ("ndcg", {}),
  ("ndcg", {"k": 3}),
  ("dcg", {"k": 5}),
  ("dcg", {"k": 20}),
  ("err", {}),
  ("err", {"k": 3}),
  ("err", {"k": 1, "max_label": 4.0}),
  ("nerr", {"k": 9}),
  ("rbp", {"persistence": 0.5}),
  ("rbp", {"k": 2, "rel": 2}),
  ("precision", {}),
  ("precision", {"k": 3}),
  ("precision", {"k": 9}),
  ("precision", {"k": 9, "divisor": "retrieved"}),
  ("recall", {"k": 2}),
  ("recall", {"k": 2, "rel": 2}),
  ("f_measure", {"k": 2, "beta": 2.0}),
  ("fall_out", {"k": 3}),
  ("r_precision", {}),
  ("hit_rate", {}),
  ("hit_rate", {"k": 2}),
  ("reciprocal_rank", {}),
  ("reciprocal_rank", {"k": 3, "rel": 2}),
  ("average_precision", {}),
  ("average_precision", {"k": 1}),
  ("average_precision", {"k": 4, "normalizer": "cutoff"}),
  ("average_precision", {"k": 9, "rel": 2}),
  ("auc", {}),
  ("kendall_tau", {}),
  ("ordered_pair_accuracy", {}),
)


def measure(metric, parameters):
  """A measure by the call it stands for."""
  parameters = tuple(sorted(parameters.items()))
  return jr.Measure(f"{metric}{parameters}", metric, parameters)


MEASURES = [measure(*asked) for asked in ASKED]


class Small:
  """Queries of up to six items: graded, unjudged, not retrieved, padded; some with one label."""

  def __init__(self):
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.float32(cases.LABEL_KINDS[5] + (0.0, 3.0)), (QUERIES, N))
    drawn[:4] = np.float32([[0], [1], [3], [2]])
    drawn[4, 1:] = 0
    drawn[5, 1:] = 1
    self.where = rng.random((QUERIES, N)) < 0.9
    self.retrieved = rng.random((QUERIES, N)) < 0.85
    self.where[2:6] = self.retrieved[2:6] = True
    self.where[6], self.retrieved[7] = False, False
    hostile = rng.choice(np.float32(cases.HOSTILE_LABELS), drawn.shape)
    self.labels = np.where(self.where, drawn, hostile)
    self.lists = {"where": self.where, "retrieved": self.retrieved}
    scores = np.where(self.retrieved, 0, -np.inf)
    rows = zip(scores, self.labels, self.where, strict=True)
    self.items = [oracles.query(*row) for row in rows]
    self.orders = [oracles.orders(items) for items in self.items]

  def moments(self, metric, parameters):
    """Means and standard deviations by enumeration, `[queries]` each."""
    value = ORACLES.get(metric) or getattr(oracles, metric)
    found = []
    for items, orders in zip(self.items, self.orders, strict=True):
      chances, values = np.array([(p, value(order, items, **parameters)) for p, order in orders]).T
      mean = np.sum(chances * values)
      found.append((mean, np.sqrt(np.sum(chances * (values - mean) ** 2))))
    return np.array(found).T


@pytest.fixture(scope="module")
def small():
  return Small()


@pytest.fixture(scope="module")
def enumerated(small):
  return {x.name: small.moments(*asked) for x, asked in zip(MEASURES, ASKED, strict=True)}


@pytest.mark.parametrize(("wide", "tolerance"), [(True, 1e-12), (False, 2e-6)])
def test_moments_are_those_of_all_orders(small, enumerated, wide, tolerance):
  with jax.enable_x64(wide):
    labels = jnp.asarray(small.labels, float)
    expected, std, variance = (
      function(MEASURES, labels, **small.lists)
      for function in (jr.chance.expected, jr.chance.std, jr.chance.variance)
    )
  assert list(expected) == list(std) == list(variance) == list(enumerated)
  for name, (mean, deviation) in enumerated.items():
    scale = max(1, mean.max())
    np.testing.assert_allclose(expected[name], mean, rtol=0, atol=tolerance * scale, err_msg=name)
    np.testing.assert_allclose(std[name], deviation, rtol=0, atol=tolerance * scale, err_msg=name)
    np.testing.assert_allclose(
      variance[name], deviation**2, rtol=tolerance, atol=tolerance * scale, err_msg=name
    )
    # Where no order differs, not even a rounding is left.
    assert not np.any(np.asarray(std[name])[deviation < 1e-12])


def test_traced_cutoffs(small):
  names = ("ndcg", "err", "precision", "hit_rate", "reciprocal_rank", "average_precision")
  depths = jnp.array([1, 2, 4, 9], jnp.int32)

  @jax.vmap
  def deviations(k):
    measures = [measure(name, {"k": k}) for name in names]
    values = jr.chance.std(measures, small.labels, **small.lists).values()
    return jnp.stack(list(values))

  found = deviations(depths)
  for i, k in enumerate(depths.tolist()):
    for j, name in enumerate(names):
      _, deviation = small.moments(name, {"k": k})
      np.testing.assert_allclose(found[i, j], deviation, atol=2e-6, err_msg=f"{name}@{k}")


def test_weights_of_items_and_gains_of_functions():
  labels, weights = np.float32([2, 0, 1, 3, 0]), np.float32([0.5, 1.0, 3.0, 0.0, 2.0])
  items = oracles.query(np.zeros(5), labels, weights=weights)
  oracle = functools.partial(oracles.dcg, gains="linear", discounts=0.7, k=3)
  values = [oracle(order, items) for _, order in oracles.orders(items)]
  asked = {"gain": jr.gains.linear, "discount": jr.discounts.geometric(0.7), "weights": weights}
  mean = jr.chance.expected(jr.dcg, labels, k=3, **asked)
  np.testing.assert_allclose(mean, np.mean(values), rtol=1e-6)
  std = jr.chance.std(jr.dcg, labels, k=3, **asked)
  np.testing.assert_allclose(std, np.std(values), rtol=1e-6)


def test_huge_gains_have_a_finite_deviation():
  labels = jnp.array([100.0, 99.0, 0.0, 1.0])
  std = jr.chance.std(jr.ndcg, labels)
  with jax.enable_x64(True):
    np.testing.assert_allclose(std, jr.chance.std(jr.ndcg, np.float64(labels)), rtol=1e-5)


def test_values_against_chance(small, enumerated):
  scores = np.random.default_rng(1).normal(size=small.labels.shape).astype(np.float32)
  scores = np.where(small.retrieved, scores, np.float32(-np.inf))
  chosen = [MEASURES[i] for i in (0, 5, 10, 20, 23, 27)]
  lists = (chosen, scores, small.labels)
  values = jr.evaluate(*lists, where=small.where)
  adjusted = jr.chance.adjusted(*lists, where=small.where)
  z = jr.chance.z_score(*lists, where=small.where)
  for name, value in values.items():
    mean, deviation = enumerated[name]
    some = deviation > 1e-12
    np.testing.assert_allclose(z[name][some], ((value - mean) / deviation)[some], atol=2e-5)
    assert not np.any(z[name][~some])
    room = 1 - mean > 1e-6
    np.testing.assert_allclose(adjusted[name][room], ((value - mean) / (1 - mean))[room], atol=2e-6)
    assert not np.any(adjusted[name][~room])


ALL_EQUAL = "nDCG nDCG@10 ndcg_burges AP RR P@5 R@2000 Success@3 Rprec RBP nerr@5 auc kendall_tau"


@pytest.mark.parametrize("label", [0.0, 1.0, 3.0])
def test_nothing_differs_in_a_long_query_of_equal_labels(label):
  labels = jnp.full((1, 1000), label)
  scores = jax.random.normal(jax.random.key(0), labels.shape)
  std = jr.chance.std(ALL_EQUAL, labels)
  z = jr.chance.z_score(ALL_EQUAL, scores, labels)
  adjusted = jr.chance.adjusted(ALL_EQUAL, scores, labels)
  assert not any(x for values in (std, z) for x in values.values())
  assert not any(abs(x) > 1e-5 for x in adjusted.values())
  best = jr.chance.expected(ALL_EQUAL, labels)
  for name in ("nDCG", "nDCG@10", "ndcg_burges", "AP", "RR", "P@5", "Success@3", "Rprec"):
    np.testing.assert_allclose(best[name], label > 0, rtol=1e-5)


def test_empty_queries_are_0():
  shape = {"where": jnp.zeros((2, 3), bool)}
  for labels, lists in ((jnp.ones((2, 3)), shape), (jnp.ones((2, 0)), {}), (jnp.zeros((2, 1)), {})):
    for function in (jr.chance.expected, jr.chance.std):
      values = function("nDCG AP RR ERR@5 auc", labels, **lists)
      assert not any(np.any(value) for value in values.values())


def test_nan_stays():
  scores = jnp.array([[1.0, jnp.nan], [1.0, 0.0], [1.0, 0.0], [jnp.nan, 1.0]])
  labels = jnp.array([[1.0, 0.0], [jnp.nan, 0.0], [1.0, 0.0], [1.0, 1.0]])
  for function in (jr.chance.adjusted, jr.chance.z_score):
    value = function(jr.average_precision, scores, labels)
    np.testing.assert_array_equal(np.isnan(value), [True, True, False, True])
  for function in (jr.chance.expected, jr.chance.std, jr.chance.variance):
    value = function(jr.average_precision, labels)
    np.testing.assert_array_equal(np.isnan(value), [False, True, False, False])


LONG = (
  "nDCG nDCG@10 ndcg_burges AP AP@100 RR RR@10 P@10 R@100 Success@10 RBP ERR@20 auc kendall_tau"
)


def test_float32_keeps_its_digits_in_long_queries():
  rng = np.random.default_rng(2)
  labels = np.float32([rng.random(10_000) < share for share in (3e-4, 0.01, 0.5, 0.999)])
  labels[1] *= rng.integers(1, 5, 10_000)
  found = [f(LONG, labels) for f in (jr.chance.expected, jr.chance.std)]
  with jax.enable_x64(True):
    exact = [f(LONG, labels.astype(float)) for f in (jr.chance.expected, jr.chance.std)]
  for values, wide in zip(found, exact, strict=True):
    for name in values:
      assert wide[name].dtype == np.float64
      np.testing.assert_allclose(values[name], wide[name], rtol=1e-4, err_msg=name)


def test_wide_scores_give_wide_values():
  with jax.enable_x64(True):
    scores, labels = jnp.arange(4.0), jnp.array([1, 0, 2, 0], jnp.float32)
    z = jr.chance.z_score(jr.ndcg, scores, labels)
    assert z.dtype == jnp.float64
    wide = jr.chance.z_score(jr.ndcg, scores, labels.astype(float))
    np.testing.assert_allclose(z, wide, rtol=1e-12)


def test_low_scores_of_numpy_are_retrieved():
  """No float32 is as low, but nothing makes a float64 of numpy one."""
  labels = np.array([1.0, 0.0, 0.0])
  low = jr.chance.adjusted(jr.reciprocal_rank, np.array([-1e300, -1e301, -1e302]), labels)
  np.testing.assert_allclose(low, 1, rtol=1e-6)


def test_samples_agree_with_all_orders(small):
  key, chosen = jax.random.key(3), [MEASURES[i] for i in (1, 5, 23, 28)]
  found = jr.chance.sampled(
    chosen, small.labels, key=key, samples=4000, confidence=0.9999, **small.lists
  )
  for i in (1, 5, 23, 28):
    mean, deviation = small.moments(*ASKED[i])
    moments = found[MEASURES[i].name]
    assert np.all(np.abs(moments.expected - mean) <= moments.expected_margin + 1e-6)
    assert np.all(np.abs(moments.variance - deviation**2) <= moments.variance_margin + 1e-6)
    assert np.all(moments.expected_margin <= 4 * deviation / 4000**0.5 + 1e-6)


def test_margins_are_as_confident_as_they_say():
  labels = jnp.zeros((400, 8)).at[:, :3].set(1)
  found = jr.chance.sampled(
    jr.average_precision, labels, key=jax.random.key(0), samples=500, confidence=0.8
  )
  mean = jr.chance.expected(jr.average_precision, labels)
  variance = jr.chance.variance(jr.average_precision, labels)
  right = jnp.mean(jnp.abs(found.expected - mean) <= found.expected_margin)
  assert 0.73 < right < 0.87
  right = jnp.mean(jnp.abs(found.variance - variance) <= found.variance_margin)
  assert 0.73 < right < 0.87


def test_a_key_samples_only_what_needs_it(small):
  key = jax.random.key(4)
  mixed = ["AP", measure("average_precision", {"normalizer": "retrieved", "k": 2}), "spearman"]
  labels = jnp.array([[2, 0, 1, 0, 0, 3, 0, 1, 0, 0]])
  std = jr.chance.std(mixed, labels, key=key, samples=4000)
  assert std["AP"] == jr.chance.std(jr.average_precision, labels, rel=1)
  np.testing.assert_allclose(std["spearman"], 1 / 3, rtol=0.05)
  mean = jr.chance.expected(mixed, labels, key=key, samples=4000)
  # Precision at the first hit and at two hits: 4/10 at rank 1, and both at 2 with 4 * 3 / 90.
  both, first, second = 12 / 90, 24 / 90, 24 / 90
  np.testing.assert_allclose(mean[mixed[1].name], both + first + second / 2, atol=0.03)
  with pytest.raises(jr.chance.NoClosedFormError, match="pass key="):
    jr.chance.std("AP spearman", labels)


def test_measures_names_and_metrics_say_the_same(small):
  (parsed,) = jr.parse("AP@3")
  alone = jr.chance.expected(parsed, small.labels, **small.lists)
  for asked in ("AP@3", ["AP@3"], iter([parsed])):
    np.testing.assert_array_equal(
      jr.chance.expected(asked, small.labels, **small.lists)["AP@3"], alone
    )
  value = jr.chance.expected(jr.average_precision, small.labels, k=3, rel=1, **small.lists)
  np.testing.assert_array_equal(value, alone)


def test_under_transformations(small):
  scores = jnp.array(small.retrieved, jnp.float32) * jnp.arange(N, dtype=jnp.float32)[None]
  labels, where = jnp.array(small.labels), jnp.array(small.where)

  def z(scores, labels, where):
    return jr.chance.z_score(jr.err, scores, labels, where=where, k=4, ranking=jr.Laplace(0.5))

  values = z(scores, labels, where)
  np.testing.assert_allclose(jax.jit(z)(scores, labels, where), values, atol=1e-5)
  np.testing.assert_allclose(jax.vmap(z)(scores, labels, where), values, atol=1e-5)
  slope = jax.grad(lambda scores: jnp.sum(z(scores, labels, where)))(scores)
  assert np.all(np.isfinite(slope))
  assert np.any(slope)
  assert not np.any(slope[~where])


@pytest.mark.parametrize(
  ("error", "match", "call"),
  [
    (TypeError, "as in nDCG@10", lambda y: jr.chance.std("AP", y, k=3)),
    (TypeError, "leave it out", lambda y: jr.chance.std(jr.ndcg, y, ranking=jr.Exact())),
    (TypeError, "retrieved must be boolean", lambda y: jr.chance.std(jr.ndcg, y, retrieved=y)),
    (TypeError, "not curves", lambda y: _sampled(jr.precision_recall_curve, y)),
    (TypeError, "PRNG key", lambda y: jr.chance.sampled(jr.ndcg, y, key=None)),
    (ValueError, "did you mean", lambda y: jr.chance.expected("nDGC@10", y)),
    (ValueError, "at least 2", lambda y: _sampled(jr.ndcg, y, samples=1)),
    (ValueError, "between 0 and 1", lambda y: _sampled(jr.ndcg, y, confidence=95)),
    (ValueError, "no closed form", lambda y: jr.chance.expected(jr.spearman, y)),
    (ValueError, "no closed form", lambda y: jr.chance.std(jr.precision_recall_curve, y)),
  ],
)
def test_mistakes_are_told(error, match, call):
  with pytest.raises(error, match=match):
    call(jnp.array([1, 0, 2]))


def _sampled(*asked, **how):
  return jr.chance.sampled(*asked, key=jax.random.key(0), **how)
