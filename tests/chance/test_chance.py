"""Chance against all orders of small queries, one by one, and what it promises beyond them."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers import cases, oracles, parameters
from tests.helpers.suites import thorough
from tests.house import metric_table

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
  "ndcg": functools.partial(oracles.ndcg, gains="linear"),
  "dcg": functools.partial(oracles.dcg, gains="linear"),
  **{name: scored(getattr(oracles, name)) for name in ("auc", "kendall_tau", "spearman")},
  "ordered_pair_accuracy": scored(oracles.ordered_pair_accuracy),
  "ndcg_at_levels": lambda order, items, **own: oracles.ndcg_at_levels(items, [(1, order)], **own),
}
ASKED = (
  ("ndcg", {"k": 3}),
  ("dcg", {"k": 20}),
  ("err", {"max_label": 3}),
  ("err", {"k": 3, "max_label": 4.0}),
  ("nerr", {"k": 1, "max_label": 3}),
  ("rbp", {"k": 4, "persistence": 0.5, "rel": 2}),
  ("precision", {}),
  ("precision", {"k": 9, "divisor": "retrieved"}),
  ("recall", {"k": 2}),
  ("f_measure", {"k": 2, "beta": 2.0}),
  ("fall_out", {"k": 3}),
  ("r_precision", {}),
  ("hit_rate", {"k": 2}),
  ("reciprocal_rank", {"k": 3, "rel": 2}),
  ("average_precision", {}),
  ("average_precision", {"k": 1}),
  ("average_precision", {"k": 4, "normalizer": "cutoff"}),
  ("auc", {}),
  ("kendall_tau", {}),
  ("ordered_pair_accuracy", {}),
  ("bpref", {}),
  ("bpref", {"rel": 2}),
  ("judged", {}),
  ("judged", {"k": 3}),
  ("gap", {"max_label": 1}),
  ("gap", {"max_label": 3}),
  ("gap", {"max_label": 2, "k": 3}),
  ("utility", {"k": 3, "miss": -0.5}),
  ("item_count", {"k": 3}),
  ("item_count", {"of": "judged_others_retrieved", "k": 2}),
  ("rbp_residual", {}),
  ("binary_normalized_gain", {}),
  ("insq", {"max_label": 3}),
  ("sdcg", {"max_label": 3, "k": 4}),
  ("query_count", {}),
  ("ndcg_at_levels", {}),
)
# They ask the ranking several questions, or one whose variance is not known.
MEAN_ONLY = {("gap", 3), ("gap", 2), ("ndcg_at_levels", None)}
SAMPLED_ONLY = {
  "spearman",
  "interpolated_precision",
  "eleven_point_average",
  "set_average_precision",
  "log_average_precision",
  "log_bpref",
  "inferred_average_precision",
  "normalized_gain",
  "ndcg_at_relevant",
  "inst",
  "compatibility",
  "nearly_err",
  "retrieved_auc",
  "bpm",
}
# Metrics that are in no table, by their descriptions. docs/metrics.md has a column that says which
# moments have closed forms.
for _metric, _about in jr.metrics.described():
  if _about.subtopics or _about.name in {name for name, _ in ASKED} | SAMPLED_ONLY:
    continue
  _known = metric_table.closed_forms(_metric, _about)
  if "mean" not in _known:
    SAMPLED_ONLY.add(_about.name)
    continue
  # The oracles know gains by name.
  _sets = [own for own in parameters.choices(_about) if not any(map(callable, own.values()))]
  _cut = [_sets[0] | {"k": 3}] if "k" in _about.signature.parameters else []
  ASKED += tuple((_about.name, own) for own in (*_sets, *_cut))
  MEAN_ONLY |= set() if "variance" in _known else {(_about.name, None)}


def measure(metric, parameters):
  """A measure by the call it stands for."""
  said = tuple(sorted(parameters.items()))
  return jr.Measure(getattr(jr, metric), name=f"{metric}{said}", **parameters)


def has_variance(metric, parameters):
  return (metric, parameters.get("max_label")) not in MEAN_ONLY


MEANS = [measure(*asked) for asked in ASKED]
MEASURES = [measure(*asked) for asked in ASKED if has_variance(*asked)]
# One of each kind of answer of a ranking.
FEW = [MEANS[i] for i in (0, 3, 12, 14, 17)]


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
    return self.moments_of(functools.partial(value, **parameters))

  def moments_of(self, value):
    """Those of a function of one order and all items."""
    found = []
    for items, orders in zip(self.items, self.orders, strict=True):
      chances, values = np.array([(p, value(order, items)) for p, order in orders]).T
      mean = np.sum(chances * values)
      found.append((mean, np.sqrt(np.sum(chances * (values - mean) ** 2))))
    return np.array(found).T


@pytest.fixture(scope="module")
def small():
  return Small()


@pytest.fixture(scope="module")
def enumerated(small):
  return {x.name: small.moments(*asked) for x, asked in zip(MEANS, ASKED, strict=True)}


@pytest.mark.parametrize(
  ("means", "measures"),
  [
    pytest.param(FEW, FEW, id="few"),
    pytest.param(MEANS, MEASURES, marks=thorough, id="all"),
  ],
)
def test_moments_are_those_of_all_orders(small, enumerated, means, measures):
  with jax.enable_x64(True):
    labels = jnp.asarray(small.labels, float)
    std = jr.chance.std(measures, labels, **small.lists)
    # A standard deviation is the root of a variance for all alike.
    variance = jr.chance.variance(measures[:4], labels, **small.lists)
    expected = jr.chance.expected(means, labels, **small.lists)
  assert list(expected) == [x.name for x in means]
  assert list(std) == [x.name for x in measures]
  assert list(variance) == [x.name for x in measures[:4]]
  for name in expected:
    mean, deviation = enumerated[name]
    scale = max(1, mean.max())
    np.testing.assert_allclose(expected[name], mean, atol=1e-12 * scale, err_msg=name)
    if name not in std:
      continue
    np.testing.assert_allclose(std[name], deviation, atol=1e-12 * scale, err_msg=name)
    # Where no order differs, not even a rounding is left.
    assert not np.any(np.asarray(std[name])[deviation < 1e-12])
    if name in variance:
      np.testing.assert_allclose(variance[name], deviation**2, atol=1e-12 * scale**2)


def test_every_metric_of_one_label_an_item_is_asked_above():
  names = {metric.__name__ for metric, about in jr.metrics.described() if not about.subtopics}
  assert names == {name for name, _ in ASKED} | SAMPLED_ONLY


# Metrics of a user, beside what they are of one order.
@jr.metric
def harmonic(ranked, *, k=None):
  """Labels over one more than the judged items ahead, some of which have labels themselves."""
  among = ranked.judged & ~ranked.relevant(2)
  return ranked.expect(jnp.maximum(ranked.labels, 0), jr.discounts.reciprocal, k=k, among=among)


def harmonic_of(order, items, k=None):
  total, ahead = 0.0, 0
  for item in order:
    if k is None or ahead < k:
      total += max(item.label, 0) / (1 + ahead)
    ahead += oracles.is_judged(item) and not oracles.is_relevant(item, 2)
  return total


@jr.metric
def overtaken(ranked):
  """Each item counts half of the label of all that is ahead of it, times its own label and 1."""
  w = jnp.maximum(ranked.labels, 0)
  return ranked.total(ranked.weighted(ranked.labels + 1) * ranked.before(w)) / 2


def overtaken_of(order, items):
  total, ahead = 0.0, 0.0
  for item in order:
    total += (item.label + 1) * ahead
    ahead += max(item.label, 0)
  lost = [item for item in items if item.score == -math.inf]
  return (total + sum((item.label + 1) * ahead for item in lost)) / 2


@jr.metric
def early(ranked):
  """The relevant items at all first ranks."""
  return jnp.sum(ranked.cumulative(ranked.weighted(ranked.relevant()))) / ranked.n


def early_of(order, items):
  found = [oracles.relevant_count(order[:r], None) for r in range(1, N + 1)]
  return sum(found) / N


@jr.metric
def mixture(ranked):
  """A sum of two questions."""
  b = ranked.relevant()
  hits = ranked.expect(b.astype(ranked.dtype), jr.discounts.reciprocal)
  return hits / 2 - ranked.first(b, jr.discounts.constant, k=2) / 3


def mixture_of(order, items):
  found = [1 / r for r, item in enumerate(order, start=1) if oracles.is_relevant(item, None)]
  return sum(found) / 2 - any(x >= 0.5 for x in found) / 3


@jr.metric
def bent(ranked):
  """A function of a mean, which is not the mean of the function."""
  return ranked.total(jnp.exp(-ranked.before(ranked.weighted(ranked.relevant()))))


@jr.metric
def share(ranked):
  """A ratio of two answers, as of inferred average precision."""
  hits = ranked.expect(ranked.relevant().astype(ranked.dtype), jr.discounts.reciprocal)
  return hits / (1 + ranked.expect(ranked.judged.astype(ranked.dtype), jr.discounts.reciprocal))


def share_of(order, items):
  hits = sum(oracles.is_relevant(x, None) / r for r, x in enumerate(order, start=1))
  return hits / (1 + sum(oracles.is_judged(x) / r for r, x in enumerate(order, start=1)))


USERS = [
  (harmonic, harmonic_of),
  (jr.Measure(harmonic, k=2), functools.partial(harmonic_of, k=2)),
  (overtaken, overtaken_of),
]


@pytest.mark.parametrize(
  ("asked", "value"),
  [*USERS, (early, early_of), (mixture, mixture_of)],
)
def test_means_of_affine_metrics_of_a_user(small, asked, value):
  mean, _ = small.moments_of(value)
  with jax.enable_x64(True):
    found = jr.chance.expected(asked, jnp.asarray(small.labels, float), **small.lists)
  np.testing.assert_allclose(found, mean, atol=1e-12)


@pytest.mark.parametrize(("asked", "value"), USERS)
def test_variances_of_one_question_of_a_user(small, asked, value):
  _, deviation = small.moments_of(value)
  for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-5)):
    with jax.enable_x64(dtype is np.float64):
      found = jr.chance.std(asked, jnp.asarray(small.labels, dtype), **small.lists)
    np.testing.assert_allclose(found, deviation, atol=tolerance)
    assert not np.any(np.asarray(found)[deviation < 1e-12])


@pytest.mark.parametrize(
  ("asked", "questions"), [(jr.Measure(jr.gap, max_label=3), "3 questions"), (mixture, "2 q")]
)
def test_several_questions_have_a_mean_and_no_variance(small, asked, questions):
  match = rf"{asked.description.name}: .*{questions}.*no closed form; pass key="
  jr.chance.expected(asked, small.labels, **small.lists)
  for moment in (jr.chance.std, jr.chance.variance):
    with pytest.raises(jr.chance.NoClosedFormError, match=match):
      moment(asked, small.labels, **small.lists)
  value = mixture_of if asked is mixture else functools.partial(oracles.gap, max_label=3)
  _, deviation = small.moments_of(value)
  key = jax.random.key(5)
  found = jr.chance.std(asked, small.labels, key=key, samples=2000, **small.lists)
  np.testing.assert_allclose(found, deviation, atol=0.02)


@pytest.mark.parametrize(
  ("asked", "value"),
  [
    (jr.spearman, ORACLES["spearman"]),
    (bent, None),
    (share, share_of),
    (
      jr.Measure(jr.average_precision, k=2, normalizer="retrieved"),
      functools.partial(average_precision, k=2, normalizer="relevant"),
    ),
    (jr.interpolated_precision, None),
    (jr.eleven_point_average, None),
  ],
)
def test_what_is_not_affine_has_no_closed_form(small, asked, value):
  for moment in (jr.chance.expected, jr.chance.std):
    with pytest.raises(jr.chance.NoClosedFormError, match="not affine.*pass key="):
      moment(asked, small.labels, **small.lists)
  if value in (share_of, ORACLES["spearman"]):
    mean, deviation = small.moments_of(value)
    found = jr.chance.sampled(
      asked, small.labels, key=jax.random.key(6), samples=2000, **small.lists
    )
    np.testing.assert_allclose(found.expected, mean, atol=5 * deviation.max() / 2000**0.5)


DIVERSITY = [
  ("alpha_dcg", {"k": 3}),
  ("alpha_dcg", {"alpha": 0.0}),
  ("alpha_dcg", {"alpha": 1.0, "k": 2, "normalizer": "perfect"}),
  ("alpha_ndcg", {}),
  ("err_ia", {"max_label": 2}),
  ("nerr_ia", {"max_label": 2, "k": 2}),
  ("nrbp", {"beta": 0.9}),
  ("nnrbp", {}),
  ("precision_ia", {"k": 2}),
  ("average_precision_ia", {}),
  ("subtopic_recall", {"k": 2}),
]


@functools.cache
def moments_of_diversity():
  """The means of eight queries by `chance`, and those of the values of all orders."""
  rng = np.random.default_rng(7)
  labels = rng.integers(-1, 3, (8, 5, 3)).astype(float)
  where, retrieved = rng.random((8, 5)) < 0.85, rng.random((8, 5)) < 0.8
  orders = np.array(list(itertools.permutations(range(5))), float)
  scores = np.where(retrieved[:, None], orders, -np.inf)
  measures = [
    jr.Measure(getattr(jr, name), name=str(i), **parameters)
    for i, (name, parameters) in enumerate(DIVERSITY)
  ]

  @jax.jit
  def both(labels, where, retrieved, scores):
    found = jr.chance.expected(measures, labels, where=where, retrieved=retrieved)
    lists = (jnp.repeat(x[:, None], len(orders), axis=1) for x in (labels, where))
    values = jr.evaluate(measures, scores, next(lists), where=next(lists))
    return found, jax.tree.map(lambda x: jnp.mean(x, axis=1), values)

  with jax.enable_x64(True):
    return both(labels, where, retrieved, scores)


@pytest.mark.parametrize("case", range(len(DIVERSITY)), ids=[name for name, _ in DIVERSITY])
def test_means_of_diversity_are_those_of_all_orders(case):
  found, expected = (x[str(case)] for x in moments_of_diversity())
  assert found.dtype == np.float64
  np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_every_metric_of_diversity_is_asked_above():
  names = {metric.__name__ for metric, about in jr.metrics.described() if about.subtopics}
  assert names == {name for name, _ in DIVERSITY}


@thorough
def test_the_variance_of_diversity_is_sampled():
  labels = jnp.array([[1, 0], [0, 1], [1, 0]])
  with pytest.raises(jr.chance.NoClosedFormError, match="alpha_ndcg: .*variance.*pass key="):
    jr.chance.std("alpha_nDCG@2", labels)
  found = jr.chance.std("alpha_DCG@2 NRBP", labels, key=jax.random.key(0), samples=50)
  assert all(0 < value < 1 for value in found.values())


@thorough
def test_all_kinds_of_measures_are_sampled_and_compared(small):
  scores = np.where(small.retrieved, np.arange(N, dtype=np.float32)[None], np.float32(-np.inf))
  asked = ["P@2", jr.Measure(jr.ndcg, k=2), jr.bpref, harmonic, jr.Measure(harmonic, k=2)]
  names = ["P@2", "ndcg(k=2)", "bpref", "harmonic", "harmonic(k=2)"]
  key = jax.random.key(7)
  found = jr.chance.sampled(asked, small.labels, key=key, samples=400, **small.lists)
  means = jr.chance.expected(asked, small.labels, **small.lists)
  deviations = jr.chance.std(asked, small.labels, **small.lists)
  values = jr.evaluate(asked, scores, small.labels, where=small.where)
  adjusted = jr.chance.adjusted(asked, scores, small.labels, where=small.where)
  z = jr.chance.z_score(asked, scores, small.labels, where=small.where)
  assert list(found) == list(means) == list(adjusted) == list(z) == names
  for name, mean in means.items():
    np.testing.assert_array_less(abs(found[name].expected - mean), deviations[name] / 4 + 1e-5)
    some = np.asarray(deviations[name]) > 1e-6
    expected = ((values[name] - mean) / deviations[name])[some]
    np.testing.assert_allclose(z[name][some], expected, rtol=1e-4, atol=1e-5)
    assert not np.any(z[name][~some])
    room = np.abs(1 - np.asarray(mean)) > 1e-4
    expected = ((values[name] - mean) / (1 - mean))[room]
    np.testing.assert_allclose(adjusted[name][room], expected, rtol=1e-4, atol=1e-5)
  alone = jr.chance.z_score(harmonic, scores, small.labels, where=small.where, k=2)
  np.testing.assert_allclose(alone, z["harmonic(k=2)"], rtol=1e-6)


def test_traced_cutoffs(small):
  names = ("ndcg", "err", "reciprocal_rank", "average_precision")
  depths = jnp.array([1, 2, 4, 9], jnp.int32)

  def parameters(name, k):
    return {"k": k, "max_label": 3} if name == "err" else {"k": k}

  @jax.vmap
  def deviations(k):
    measures = [measure(name, parameters(name, k)) for name in names]
    values = jr.chance.std(measures, small.labels, **small.lists).values()
    return jnp.stack(list(values))

  found = deviations(depths)
  for i, k in enumerate(depths.tolist()):
    for j, name in enumerate(names):
      _, deviation = small.moments(name, parameters(name, k))
      np.testing.assert_allclose(found[i, j], deviation, atol=2e-6, err_msg=f"{name}@{k}")


def test_weights_of_items_and_gains_of_functions():
  labels, weights = np.float32([2, 0, 1, 3, 0]), np.float32([0.5, 1.0, 3.0, 0.0, 2.0])
  items = oracles.query(np.zeros(5), labels, weights=weights)
  oracle = functools.partial(oracles.dcg, gains="linear", discounts=0.7, k=3)
  values = [oracle(order, items) for _, order in oracles.orders(items)]
  asked = {"discount": jr.discounts.geometric(0.7), "weights": weights}
  mean = jr.chance.expected(jr.dcg, labels, k=3, **asked)
  np.testing.assert_allclose(mean, np.mean(values), rtol=1e-6)
  std = jr.chance.std(jr.dcg, labels, k=3, **asked)
  np.testing.assert_allclose(std, np.std(values), rtol=1e-6)


def test_huge_gains_have_a_finite_deviation():
  labels, gain = jnp.array([100.0, 99.0, 0.0, 1.0]), jr.gains.exponential
  std = jr.chance.std(jr.ndcg, labels, gain=gain)
  with jax.enable_x64(True):
    np.testing.assert_allclose(
      std, jr.chance.std(jr.ndcg, np.float64(labels), gain=gain), rtol=1e-5
    )


@thorough
def test_values_against_chance(small, enumerated):
  scores = np.random.default_rng(1).normal(size=small.labels.shape).astype(np.float32)
  scores = np.where(small.retrieved, scores, np.float32(-np.inf))
  lists = (FEW[2:], scores, small.labels)
  values = jr.evaluate(*lists, where=small.where)
  adjusted = jr.chance.adjusted(*lists, where=small.where)
  z = jr.chance.z_score(*lists, where=small.where)
  assert list(values) == list(adjusted) == list(z)
  for name, value in values.items():
    mean, deviation = enumerated[name]
    some, room = deviation > 1e-12, 1 - mean > 1e-12
    np.testing.assert_allclose(z[name][some], ((value - mean) / deviation)[some], atol=2e-5)
    np.testing.assert_allclose(adjusted[name][room], ((value - mean) / (1 - mean))[room], atol=2e-6)
    assert not np.any(z[name][~some])
    assert not np.any(adjusted[name][~room])


@thorough
def test_nothing_differs_in_long_queries_of_equal_labels():
  names = ["ndcg_burges AP P@5 Success@3 nerr(max_label=4)@5 bpref auc judged@5", overtaken]
  labels = jnp.array([[0.0], [1.0], [3.0]]) + jnp.zeros((1, 300))
  std = jr.chance.std(names, labels)
  assert not any(np.any(x) for x in std.values())
  # Nothing above chance where both are 1.
  adjusted = jr.chance.adjusted("RR", -jnp.cumsum(labels, axis=1), labels)
  assert not np.any(adjusted["RR"])


def test_queries_of_no_length_are_0():
  std = jr.chance.std("nDCG RR", jnp.ones((2, 0)))
  assert all(value.shape == (2,) and not np.any(value) for value in std.values())


def test_nan_stays():
  scores = jnp.array([[1.0, jnp.nan], [1.0, 0.0], [1.0, 0.0], [jnp.nan, 1.0]])
  labels = jnp.array([[1.0, 0.0], [jnp.nan, 0.0], [1.0, 0.0], [1.0, 1.0]])
  for function in (jr.chance.adjusted, jr.chance.z_score):
    value = function(jr.reciprocal_rank, scores, labels)
    np.testing.assert_array_equal(np.isnan(value), [True, True, False, True])
  for function in (jr.chance.expected, jr.chance.std, jr.chance.variance):
    value = function(jr.reciprocal_rank, labels)
    np.testing.assert_array_equal(np.isnan(value), [False, True, False, False])


@thorough
@pytest.mark.parametrize(
  ("names", "n", "tolerance"),
  [("nDCG AP@100 RR Success@10", 10_000, 1e-4), ("ERR@20", 3000, 1e-3)],
)
def test_float32_keeps_its_digits_in_long_queries(names, n, tolerance):
  rng = np.random.default_rng(2)
  labels = np.float32([rng.random(n) < share for share in (1e-3, 0.5, 0.999)])
  labels[1] *= rng.integers(1, 5, n)
  found = jr.chance.std(names, labels)
  with jax.enable_x64(True):
    wide = jr.chance.std(names, labels.astype(float))
  for name in found:
    assert wide[name].dtype == np.float64
    np.testing.assert_allclose(found[name], wide[name], rtol=tolerance, err_msg=name)


def test_wide_scores_give_wide_values():
  labels = [1.0, 0.0, 2.0, 0.0]
  items = oracles.query([4.0, 3.0, 2.0, 1.0], labels)
  tied = oracles.query([0.0] * 4, labels)
  value = oracles.reciprocal_rank(items, items)
  mean = oracles.expectation(oracles.reciprocal_rank, tied)
  with jax.enable_x64(True):
    adjusted = jr.chance.adjusted(jr.reciprocal_rank, -jnp.arange(4.0), np.float32(labels))
    assert adjusted.dtype == jnp.float64
  np.testing.assert_allclose(adjusted, (value - mean) / (1 - mean), rtol=1e-12)


def test_low_scores_of_numpy_are_retrieved_where_jax_has_them():
  """No float32 is as low: JAX warns, and makes them -inf."""
  labels, low = np.array([1.0, 0.0, 0.0]), np.array([-1e300, -1e301, -1e302])
  with jax.enable_x64(True):
    np.testing.assert_allclose(jr.chance.adjusted(jr.reciprocal_rank, low, labels), 1, rtol=1e-6)
  lost = jr.chance.adjusted(jr.reciprocal_rank, np.full(3, -np.inf), labels)
  with pytest.warns(RuntimeWarning, match="overflow"):
    assert jr.chance.adjusted(jr.reciprocal_rank, low, labels) == lost


def test_samples_agree_with_all_orders(small):
  name, parameters = ASKED[16]
  key = jax.random.key(3)
  found = jr.chance.sampled(
    jr.average_precision, small.labels, key=key, samples=2000, **parameters, **small.lists
  )
  mean, deviation = small.moments(name, parameters)
  assert np.all(np.abs(found.expected - mean) <= 2.5 * found.expected_margin + 1e-6)
  assert np.all(np.abs(found.variance - deviation**2) <= 2.5 * found.variance_margin + 1e-6)
  assert np.all(found.expected_margin <= 3 * deviation / 2000**0.5 + 1e-6)


@thorough
def test_margins_are_as_confident_as_they_say():
  labels = jnp.zeros((200, 6)).at[:, :2].set(1)
  found = jr.chance.sampled(
    jr.reciprocal_rank, labels, key=jax.random.key(0), samples=300, confidence=0.8
  )
  mean = jr.chance.expected(jr.reciprocal_rank, labels)
  variance = jr.chance.variance(jr.reciprocal_rank, labels)
  right = jnp.mean(jnp.abs(found.expected - mean) <= found.expected_margin)
  assert 0.7 < right < 0.9
  right = jnp.mean(jnp.abs(found.variance - variance) <= found.variance_margin)
  assert 0.7 < right < 0.9


@thorough
def test_a_key_samples_only_what_needs_it():
  key, labels = jax.random.key(4), jnp.array([[2, 0, 1, 0, 0, 3, 0, 1, 0, 0]])
  std = jr.chance.std("RR spearman", labels, key=key, samples=2000)
  assert list(std) == ["RR", "spearman"]
  np.testing.assert_allclose(std["RR"], jr.chance.std(jr.reciprocal_rank, labels), rtol=1e-6)
  np.testing.assert_allclose(std["spearman"], 1 / 3, rtol=0.05)
  with pytest.raises(jr.chance.NoClosedFormError, match="pass key="):
    jr.chance.std("RR spearman", labels)
  by_hits = {"normalizer": "retrieved", "k": 2}
  mean = jr.chance.expected(jr.average_precision, labels, key=key, samples=2000, **by_hits)
  # 1 for two hits and for one at rank 1, and 1/2 for one at rank 2.
  np.testing.assert_allclose(mean, 12 / 90 + 24 / 90 + 24 / 90 / 2, atol=0.03)


def test_measures_names_and_metrics_say_the_same(small):
  (parsed,) = jr.parse("RR@3")
  alone = jr.chance.expected(parsed, small.labels, **small.lists)
  assert np.any(alone)
  for asked in ("RR@3", ["RR@3"], iter([parsed])):
    named = jr.chance.expected(asked, small.labels, **small.lists)
    np.testing.assert_array_equal(named["RR@3"], alone)
  value = jr.chance.expected(jr.reciprocal_rank, small.labels, k=3, rel=1, **small.lists)
  np.testing.assert_array_equal(value, alone)


def test_under_jit_vmap_and_grad(small):
  scores = np.where(small.retrieved, np.arange(N, dtype=np.float32)[None], np.float32(-np.inf))

  @jax.jit
  @jax.vmap
  @functools.partial(jax.value_and_grad, has_aux=True)
  def z(scores, labels, where):
    asked = {"where": where, "k": 3, "max_label": 3}
    return jr.chance.z_score(jr.err, scores, labels, **asked), jr.err(scores, labels, **asked)

  (z, value), slope = z(*map(jnp.asarray, (scores, small.labels, small.where)))
  mean, deviation = small.moments("err", {"k": 3, "max_label": 3})
  some = deviation > 1e-12
  np.testing.assert_allclose(z[some], ((value - mean) / deviation)[some], atol=1e-4)
  assert not np.any(z[~some])
  assert not np.any(slope)


def test_smooth_values_have_the_slope_of_their_metric():
  scores, labels = jnp.array([0.3, 0.1, 0.2]), jnp.array([1, 0, 2])
  smooth = {"ranking": jr.Laplace(0.5), "discount": jr.discounts.reciprocal}
  slope = jax.grad(lambda scores: jr.dcg(scores, labels, **smooth))(scores)
  z = jax.grad(lambda scores: jr.chance.z_score(jr.dcg, scores, labels, **smooth))(scores)
  std = jr.chance.std(jr.dcg, labels, discount=jr.discounts.reciprocal)
  np.testing.assert_allclose(z, slope / std, rtol=1e-5)


TWINS = [jr.Measure(jr.ndcg, name="x", k=1), jr.Measure(jr.ndcg, name="x", k=2)]


@pytest.mark.parametrize(
  ("error", "match", "call"),
  [
    (TypeError, "as in nDCG@10", lambda y: jr.chance.std("AP", y, k=3)),
    (TypeError, "leave it out", lambda y: jr.chance.std(jr.ndcg, y, ranking=jr.Exact())),
    (TypeError, "retrieved must be boolean", lambda y: jr.chance.std(jr.ndcg, y, retrieved=y)),
    (TypeError, "must be a metric such as", lambda y: _sampled(jr.precision_recall_curve, y)),
    (TypeError, "PRNG key", lambda y: jr.chance.sampled(jr.ndcg, y, key=None)),
    (ValueError, "did you mean", lambda y: jr.chance.expected("nDGC@10", y)),
    (ValueError, "at least 2", lambda y: _sampled(jr.ndcg, y, samples=1)),
    (ValueError, "between 0 and 1", lambda y: _sampled(jr.ndcg, y, confidence=95)),
    (ValueError, "no closed form", lambda y: jr.chance.expected(jr.spearman, y)),
    (TypeError, "must be a metric such as", lambda y: jr.chance.std(jr.precision_recall_curve, y)),
    (TypeError, "ndcg does not take 'kk'", lambda y: jr.chance.std(jr.ndcg, y, kk=3)),
    (TypeError, "err needs max_label", lambda y: jr.chance.expected(jr.err, y)),
    (ValueError, "two measures have the name", lambda y: jr.chance.std(TWINS, y)),
  ],
)
def test_mistakes_are_told(error, match, call):
  with pytest.raises(error, match=match):
    call(jnp.array([1, 0, 2]))


def _sampled(*asked, **how):
  return jr.chance.sampled(*asked, key=jax.random.key(0), **how)
