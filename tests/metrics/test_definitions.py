"""Every metric, in every tie mode, against the definitions in `oracles`."""

import functools
import inspect
import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxrank as jr
from jaxrank.metrics import Description, described
from tests.helpers import cases, oracles, parameters, traits
from tests.helpers.suites import quick, thorough

GAIN_TABLE = (0.0, 0.5, 0.75, 4.0, 4.5)
GAINS = {
  "exponential": jr.gains.exponential,
  "linear": jr.gains.linear,
  "binary": jr.gains.binary,
  GAIN_TABLE: jr.gains.table(GAIN_TABLE),
}
DISCOUNTS = {
  "logarithmic": jr.discounts.logarithmic,
  "reciprocal": jr.discounts.reciprocal,
  "constant": jr.discounts.constant,
  "inverse_square": jr.discounts.inverse_square(1.5),
  0.7: jr.discounts.geometric(0.7),
}
GRADED = (
  {},
  {"gains": "exponential"},
  {"gains": "exponential", "discounts": "reciprocal"},
  {"gains": GAIN_TABLE},
  {"gains": "binary", "discounts": 0.7},
  {"weighted": True},
  {"gains": "exponential", "discounts": "constant", "weighted": True},
)
# The best label of the queries is 4: a best grade below it, that grade, and one above.
GRADES = ({"max_label": 4}, {"max_label": 2.0}, {"max_label": 6})
# Models of users with a target, and gains for metrics of curves.
MODELS = (
  {"max_label": 4},
  {"max_label": 2, "target": 2.5},
  {"max_label": 4, "min_label": 1, "target": 0.75},
)
PATIENCES = ({"max_label": 4, "patience": 3}, {"max_label": 4, "patience": 50})
CURVED = ({}, {"gains": "binary"}, {"gains": GAIN_TABLE})
CHANCES = (0.5, 0.125, 0.0, 0.375)


WEIGHED_FROM_2 = {"weighted": True, "rel": 2}


class Metric(NamedTuple):
  """A public metric, its oracle of one order, and the parameters to try."""

  public: Callable[..., Any]
  oracle: Callable[..., float]
  choices: tuple[dict[str, Any], ...] = ({},)


METRICS = {
  metric.public.__name__: metric
  for metric in (
    Metric(
      jr.precision,
      oracles.precision,
      (
        {},
        {"rel": 2},
        {"divisor": "retrieved"},
        {"divisor": "relevant", "rel": 2},
        {"divisor": "attainable"},
        {"rel": -1},
        {"weighted": True},
        {"weighted": True, "rel": 2, "divisor": "retrieved"},
      ),
    ),
    Metric(
      jr.recall, oracles.recall, ({}, {"rel": 2}, {"rel": 0.5}, {"weighted": True}, WEIGHED_FROM_2)
    ),
    Metric(jr.judged, oracles.judged, ({}, {"of": "pooled"}, {"of": "unjudged", "divisor": "k"})),
    Metric(jr.bpref, oracles.bpref, ({}, {"rel": 2}, {"rel": 0}, {"rel": 0.5})),
    Metric(
      jr.f_measure,
      oracles.f_measure,
      ({}, {"beta": 2.0}, {"beta": 0.5, "rel": 2}, {"divisor": "retrieved"}),
    ),
    Metric(jr.hit_rate, oracles.hit_rate, ({}, {"rel": 2}, {"rel": 0})),
    Metric(jr.reciprocal_rank, oracles.reciprocal_rank, ({}, {"rel": 2}, {"rel": 0})),
    Metric(jr.fall_out, oracles.fall_out, ({}, {"rel": 2})),
    Metric(
      jr.r_precision,
      oracles.r_precision,
      ({}, {"rel": 2}, {"rel": 0}, {"multiple": 0.6}, {"multiple": Decimal("1.55")}),
    ),
    Metric(
      jr.rbp,
      oracles.rbp,
      (
        {},
        {"persistence": 0.5},
        {"persistence": 0.95, "rel": 2},
        {"weighted": True},
        {"gain": jr.gains.linear, "normalizer": "largest", "weighted": True},
      ),
    ),
    Metric(jr.set_average_precision, oracles.set_average_precision, ({}, {"rel": 2})),
    Metric(
      jr.utility,
      oracles.utility,
      (
        {},
        {"rel": 2},
        {"hit": 0.5, "other": 0.1, "miss": -2},
        {"other": 0.3, "rest": 0.25, "collection": 50},
      ),
    ),
    Metric(
      jr.item_count,
      oracles.item_count,
      (
        {},
        {"rel": 2},
        {"of": "retrieved"},
        {"of": "relevant", "rel": 2},
        {"of": "judged_others_retrieved"},
      ),
    ),
    Metric(jr.query_count, oracles.query_count),
    Metric(jr.log_average_precision, oracles.log_average_precision, ({}, {"rel": 2, "floor": 0.1})),
    Metric(jr.log_bpref, oracles.log_bpref, ({}, {"rel": 2, "floor": 0.1})),
    Metric(
      jr.rbp_residual,
      oracles.rbp_residual,
      ({}, {"persistence": 0.5}, {"persistence": 0.9, "tail": "unjudged"}),
    ),
    Metric(jr.binary_normalized_gain, oracles.binary_normalized_gain, ({}, {"rel": 2}, {"rel": 0})),
    Metric(jr.insq, oracles.insq, (*MODELS, *PATIENCES)),
    Metric(jr.sdcg, oracles.sdcg, ({"max_label": 4}, {"max_label": 2, "discounts": "reciprocal"})),
    Metric(jr.err, oracles.err, GRADES),
    Metric(jr.nerr, oracles.nerr, GRADES),
    Metric(
      jr.gap,
      oracles.gap,
      ({"max_label": 4}, {"max_label": 1}, {"max_label": 4, "chances": CHANCES}, {"max_label": 6}),
    ),
    Metric(jr.dcg, oracles.dcg, GRADED),
    Metric(jr.ndcg, oracles.ndcg, GRADED),
    Metric(
      jr.average_precision,
      oracles.average_precision,
      ({}, {"normalizer": "cutoff"}, {"normalizer": "retrieved"}, {"rel": 2}),
    ),
  )
}
CONCORDANCE = {
  metric.public.__name__: metric
  for metric in (
    Metric(jr.auc, oracles.auc, ({}, {"rel": 2})),
    Metric(jr.ordered_pair_accuracy, oracles.ordered_pair_accuracy),
    Metric(jr.kendall_tau, oracles.kendall_tau),
    Metric(jr.spearman, oracles.spearman),
  )
}
# Metrics of the curve of a query, which is the mean over its orders: their oracles take the query.
OF_CURVES = {
  metric.public.__name__: metric
  for metric in (
    Metric(
      jr.interpolated_precision,
      oracles.interpolated_precision,
      (
        {},
        {"level": 0.3},
        {"level": 1.0},
        {"level": 0.5, "rel": 2},
        {"level": Decimal("0.27"), "rel": 1},
        {"level": Decimal("0.6"), "rel": 1, "rounding": "nearest"},
        {"level": 0.3, "rounding": "nearest"},
      ),
    ),
    Metric(
      jr.eleven_point_average,
      oracles.eleven_point_average,
      (
        {},
        {"rel": 2},
        {"rounding": "trec_eval"},
        {"rounding": "nearest", "levels": (0.25, 0.5, 0.75)},
        {"levels": (1, 0.3)},
      ),
    ),
    Metric(
      jr.inferred_average_precision,
      oracles.inferred_average_precision,
      ({}, {"rel": 2}, {"rel": 0}),
    ),
    Metric(jr.normalized_gain, oracles.normalized_gain, CURVED),
    Metric(jr.ndcg_at_relevant, oracles.ndcg_at_relevant, CURVED),
    Metric(
      jr.ndcg_at_levels,
      oracles.ndcg_at_levels,
      (*CURVED, {"rel": 2}, {"rel": 4, "gains": GAIN_TABLE}),
    ),
    Metric(jr.inst, oracles.inst, (*MODELS, *PATIENCES)),
    Metric(
      jr.nearly_err,
      oracles.nearly_err,
      (
        {"max_label": 4},
        {"max_label": 2, "discounts": "reciprocal"},
        {"max_label": 5, "min_label": 1, "discounts": 0.7, "k": 3},
        {"max_label": 6, "discounts": "inverse_square", "k": 11},
      ),
    ),
    Metric(
      jr.compatibility,
      oracles.compatibility,
      ({}, {"persistence": 0.5}, {"persistence": 1.0}, {"normalizer": "weights"}),
    ),
    Metric(jr.retrieved_auc, oracles.retrieved_auc, ({}, {"rel": 2}, {"k": 3}, {"k": 11})),
    Metric(jr.bpm, oracles.bpm, (*MODELS, {"max_label": 4, "k": 3}, {"max_label": 4, "k": 11})),
  )
}
NAMES_OF_GAINS = {gain: name for name, gain in GAINS.items()}
NAMES_OF_DISCOUNTS = {discount: name for name, discount in DISCOUNTS.items()}


def by_description(public: Callable[..., Any], about: Description) -> Metric:
  """A metric with the oracle of its name, and parameters of the kinds of its description."""
  choices = []
  for own in parameters.choices(about):
    if "gain" in own:
      own = own | {"gains": NAMES_OF_GAINS[own["gain"]]}
    if "discount" in own:
      own = own | {"discounts": NAMES_OF_DISCOUNTS[own["discount"]]}
    choices.append({name: x for name, x in own.items() if name not in ("gain", "discount")})
  if "weights" in about.signature.parameters:
    choices.append(choices[0] | {"weighted": True})
  return Metric(public, getattr(oracles, about.name), tuple(choices))


# All other metrics. The first argument of an oracle says what it takes: an order of the items, or
# the query, with a rule for ties or without.
for _public, _about in described():
  if not _about.subtopics and hasattr(oracles, _about.name):
    _first, *_others = inspect.signature(getattr(oracles, _about.name)).parameters
    _table = METRICS if _first == "order" else OF_CURVES if "ties" in _others else CONCORDANCE
    if not any(_about.name in table for table in (METRICS, OF_CURVES, CONCORDANCE)):
      _table[_about.name] = by_description(_public, _about)
# A cut-off that is an array: every query has its own, and they are traced.
TRACED = "one per query"
# A tenth of the queries are quick or thorough.
shares = quick("share", [0.1, 1.0], [0.1], weekly=[1.0])
QUERIES = {"average": 10_000, "stable": 2_000, "optimistic": 2_000, "pessimistic": 2_000}


class Slot(NamedTuple):
  """Some random queries, and what one metric is asked about them."""

  seed: int
  queries: int
  columns: int
  ties: str
  k: int | str | None
  choice: int


# The other tie rules are quick for one metric of each question, and for ranks among some items.
TIED = (*traits.ASKING, "bpref")


def slots(metric: Metric, ties: str, share: float) -> list[Slot]:
  """The questions of one test, asked of a share of `QUERIES[ties]` queries or more together.

  A cut-off is None, past the end, in the middle, or 2 of 20, which selects and does not sort; and
  where ties are averaged every choice of parameters meets every cut-off as a traced one. Each pair
  of them compiles on its own: a small share has every choice and every cut-off, but not all pairs.
  """
  every = range(len(metric.choices))
  takes_k = "k" in inspect.signature(metric.public).parameters
  if share < 1 and ties == "average":
    cuts = [(8, TRACED), (20, 2), (8, None), (8, 11)] if takes_k else [(8, None), (20, None)]
    pairs = range(max(len(cuts), len(every)))
    asked = [(*cuts[i % len(cuts)], i % len(every)) for i in pairs]
  elif not takes_k:
    asked = [(columns, None, choice) for choice in every for columns in (8, 20)]
  else:
    cuts = [(8, None), (20, 2), (8, 11), (8, 3) if ties == "average" else (20, TRACED)]
    first = oracles.TIES.index(ties)
    asked = [(*cut, (first + i) % len(every)) for i, cut in enumerate(cuts)]
    if ties == "average":
      asked += [((8, 20)[choice % 2], TRACED, choice) for choice in every]
  queries = math.ceil(share * QUERIES[ties] / len(asked))
  return [
    Slot(seed, queries, columns, ties, k, choice) for seed, (columns, k, choice) in enumerate(asked)
  ]


def batch(slot: Slot) -> cases.Cases:
  """The random queries of a slot.

  Weights follow from labels where the tie mode looks at labels only, or items that it does not
  tell apart would differ.
  """
  drawn = cases.draw(slot.seed, slot.queries, slot.columns, spoiled=0.002)
  if slot.ties in ("optimistic", "pessimistic"):
    drawn = drawn._replace(weights=np.where(drawn.where, 1 + np.abs(drawn.labels), np.nan))
  return drawn


def cutoffs(slot: Slot) -> list[int | None]:
  """The cut-off of each query of a slot."""
  if slot.k == TRACED:
    rng = np.random.default_rng(slot.seed)
    return rng.integers(1, slot.columns + 4, slot.queries).tolist()
  return [slot.k] * slot.queries


def with_functions(choice: dict[str, Any]) -> dict[str, Any]:
  """Parameters with the gain and the discount that the oracle knows by name."""
  own = dict(choice)
  if "gains" in own:
    own["gain"] = GAINS[own.pop("gains")]
  if "discounts" in own:
    own["discount"] = DISCOUNTS[own.pop("discounts")]
  return own


def public_values(metric: Metric, slot: Slot, drawn: cases.Cases):
  """The metric of the queries of a slot, as jaxrank is called."""
  own = with_functions(metric.choices[slot.choice])
  arrays = {"where": drawn.where}
  if own.pop("weighted", False):
    arrays["weights"] = drawn.weights
  if slot.k == TRACED:
    arrays["k"] = np.array(cutoffs(slot), np.int32)
  elif slot.k is not None:
    own["k"] = slot.k

  def call(scores, labels, arrays):
    return metric.public(scores, labels, ranking=jr.Exact(ties=slot.ties), **own, **arrays)

  return (jax.vmap(call) if slot.k == TRACED else call)(drawn.scores, drawn.labels, arrays)


def definition(metric: Metric, items: oracles.Items, ties, k, own) -> float:
  """The metric of one query; `ties` is a tie mode or the orders themselves."""
  if "k" in inspect.signature(metric.oracle).parameters:
    own = {**own, "k": k}
  if "ties" in inspect.signature(metric.oracle).parameters:
    return metric.oracle(items, ties, **own)
  return oracles.expectation(metric.oracle, items, ties, **own)


@functools.lru_cache(maxsize=64)
def ranked(seed, queries, columns, ties, weighted):
  """The queries of a slot for the oracles, and the orders of each."""
  drawn = batch(Slot(seed, queries, columns, ties, None, 0))
  return [
    (items, ties if oracles.poisoned(items) else oracles.orders(items, ties))
    for items in drawn.queries(weighted)
  ]


def oracle_values(metric: Metric, slot: Slot) -> list[float]:
  """The metric of the queries of a slot, by its definition."""
  own = dict(metric.choices[slot.choice])
  queries = ranked(*slot[:4], own.pop("weighted", False))
  return [
    definition(metric, items, orders, k, own)
    for (items, orders), k in zip(queries, cutoffs(slot), strict=True)
  ]


def assert_agree(actual, expected, drawn: cases.Cases, context: str) -> None:
  """Equal to 1e-6, or the first query that is not, in full."""
  actual, expected = np.asarray(actual, np.float64), np.asarray(expected)
  assert actual.shape == expected.shape
  close = np.isclose(actual, expected, rtol=1e-6, atol=1e-6, equal_nan=True)
  wrong = np.flatnonzero(~close.reshape(len(close), -1).all(-1))
  if wrong.size:
    row = wrong[0]
    valid = drawn.where[row]
    raise AssertionError(
      f"{context}: {wrong.size} of {len(close)} queries differ. The first: jaxrank "
      f"{actual[row]}, oracle {expected[row]}; valid scores {drawn.scores[row][valid].tolist()}, "
      f"labels {drawn.labels[row][valid].tolist()}, weights {drawn.weights[row][valid].tolist()}, "
      f"valid columns {np.flatnonzero(valid).tolist()} of {len(valid)}."
    )


@pytest.mark.parametrize("name", [d.name for _, d in described() if not d.subtopics])
def test_every_metric_has_an_oracle(name):
  """One that is described in `jaxrank.metrics`, and has no definition in `oracles`, fails here."""
  (metric,) = [table[name] for table in (METRICS, OF_CURVES, CONCORDANCE) if name in table]
  assert metric.public is getattr(jr, name)
  assert metric.oracle is getattr(oracles, name)


@shares
@quick(
  ("name", "ties"),
  itertools.product(METRICS, oracles.TIES),
  lambda case: case[1] == "average" or case[0] in TIED,
)
def test_agrees_with_its_definition(name, ties, share):
  metric = METRICS[name]
  asked = slots(metric, ties, share)
  batches = [batch(slot) for slot in asked]

  @jax.jit
  def compute(batches):
    return [public_values(metric, *pair) for pair in zip(asked, batches, strict=True)]

  for slot, drawn, values in zip(asked, batches, compute(batches), strict=True):
    context = f"{name}, ties={ties}, k={slot.k}, {metric.choices[slot.choice]}"
    assert_agree(values, oracle_values(metric, slot), drawn, context)


@shares
@quick("ties", oracles.TIES, ["average"])
@pytest.mark.parametrize("name", CONCORDANCE)
def test_concordance_agrees_with_its_definition(name, ties, share):
  metric = CONCORDANCE[name]
  call = functools.partial(metric.public, ranking=jr.Exact(ties=ties))
  each = jax.jit(lambda *lists, where: [call(*lists, where=where, **own) for own in metric.choices])
  for columns, queries in ((8, QUERIES[ties]), (20, 400)):
    drawn = cases.draw(columns, int(share * queries), columns, most_orders=10**9, spoiled=0.002)
    values = each(drawn.scores, drawn.labels, where=drawn.where)
    for own, value in zip(metric.choices, values, strict=True):
      expected = [metric.oracle(items, **own) for items in drawn.queries()]
      assert_agree(value, expected, drawn, f"{name}, ties={ties}, {own}")


@shares
@quick("ties", oracles.TIES, ["average"])
@pytest.mark.parametrize("name", OF_CURVES)
def test_of_curves_agrees_with_its_definition(name, ties, share):
  metric = OF_CURVES[name]
  drawn = cases.draw(3, int(share * 1000), spoiled=0.002)
  queries, choices = drawn.queries(), [with_functions(own) for own in metric.choices]
  call = functools.partial(metric.public, ranking=jr.Exact(ties=ties))
  each = jax.jit(lambda *lists, where: [call(*lists, where=where, **own) for own in choices])
  values = each(drawn.scores, drawn.labels, where=drawn.where)
  for own, value in zip(metric.choices, values, strict=True):
    expected = [metric.oracle(items, ties, **own) for items in queries]
    assert_agree(value, expected, drawn, f"{name}, ties={ties}, {own}")


@pytest.mark.parametrize("adaptive_k", [False, True])
@quick("max_k", [None, 2, 8, 11], [None, 8])
def test_curve_agrees_with_its_definition(max_k, adaptive_k):
  drawn = cases.draw(max_k or 0, 1300, spoiled=0.002)
  curve = functools.partial(jr.precision_recall_curve, max_k=max_k, adaptive_k=adaptive_k)
  precision, recall, ks = jax.jit(curve)(drawn.scores, drawn.labels, where=drawn.where)
  depth = max_k or drawn.scores.shape[1]
  expected = [oracles.curve(items, max_k=depth, adaptive_k=adaptive_k) for items in drawn.queries()]
  expected_precision, expected_recall, expected_ks = map(np.array, zip(*expected, strict=True))
  assert_agree(precision, expected_precision, drawn, "precision")
  assert_agree(recall, expected_recall, drawn, "recall")
  some = drawn.where.any(-1)
  ks = np.broadcast_to(ks, expected_ks.shape)
  np.testing.assert_array_equal(ks[some], expected_ks[some])


@functools.cache
def one_query(name: str):
  """A jitted metric of [1, n] arrays, and of a traced k where it takes one."""
  metric = {**METRICS, **CONCORDANCE}[name]
  takes_k = "k" in inspect.signature(metric.public).parameters

  @jax.jit
  def compute(scores, labels, where, k):
    own = {**metric.choices[0], **({"k": k} if takes_k else {})}
    return metric.public(scores, labels, where=where, **own)

  return compute


@thorough
@pytest.mark.parametrize("name", [*METRICS, *CONCORDANCE])
@given(drawn=cases.lists(), k=cases.cutoffs())
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_agrees_on_any_query(name, drawn, k):
  (items,) = drawn.queries()
  if name in CONCORDANCE:
    expected = CONCORDANCE[name].oracle(items)
  else:
    expected = definition(METRICS[name], items, "average", k, METRICS[name].choices[0])
  value = one_query(name)(*drawn[:3], np.int32(k))
  assert_agree(value, [expected], drawn, f"{name}, k={k}")


def test_the_best_grade_gains_exactly_1():
  # A quotient rounded below 1 makes the value under a smooth ranking jump with the last bit.
  scores, labels = jnp.array([1.0, 3.0, -2.0, 0.5]), jnp.array([0.0, 2.0, 4.0, 1.0])

  @jax.jit
  @jax.vmap
  def value(least):
    ranking = jr.Laplace(0.7)
    return jr.nearly_err(scores, labels, max_label=4, min_label=least, ranking=ranking)

  assert np.abs(np.diff(value(jnp.linspace(0, 0.9, 200)))).max() < 1e-3
