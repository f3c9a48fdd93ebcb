"""Every metric, in every tie mode, against the definitions in `oracles`."""

import functools
import inspect
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
TABLES = {**METRICS, **OF_CURVES}
# A cut-off that is an array: every query has its own, and they are traced.
TRACED = "one per query"
# The rules for ties, and whether the other choices of parameters meet a traced cut-off.
RULES = [("average", False), ("average", True), *((ties, False) for ties in oracles.TIES[1:])]
rules = quick(("ties", "fully"), RULES, [("average", False)])
QUERIES = 250


class Slot(NamedTuple):
  """What one metric is asked about the random queries of some columns."""

  name: str
  columns: int
  k: int | str | None
  choice: int


def takes_k(name: str) -> bool:
  """Whether every query may have a cut-off of its own."""
  return name not in OF_CURVES and "k" in inspect.signature(TABLES[name].public).parameters


def slots(name: str, ties: str, fully: bool) -> list[Slot]:
  """What is asked of a metric.

  A cut-off is None, past the end, in the middle, or 2 of 20, which selects and does not sort, or
  one for each query, which is traced. Where ties are averaged, every choice of parameters meets the
  whole list, and the last one a traced cut-off; `fully`, the others do. Under other rules some
  choices meet some cut-offs, for metrics that ask different questions and those that depart from
  the law of ties, which holds all others to the rules.
  """
  metric = TABLES[name]
  *others, last = every = range(len(metric.choices))
  asks = name in traits.QUESTIONS.values()
  if fully:
    cut = [Slot(name, 8, 3, last)] if asks else []
    return [*(Slot(name, (8, 20)[i % 2], TRACED, i) for i in others), *cut] if takes_k(name) else []
  if ties != "average" and not asks and name not in traits.EXCEPTIONS["ties"]:
    return []
  if not takes_k(name):
    return [Slot(name, 8, metric.choices[i].get("k"), i) for i in every]
  if ties == "average":
    few = [Slot(name, 20, 2, last)] if asks else []
    return [Slot(name, 8, TRACED, last), *few, *(Slot(name, 8, None, i) for i in every)]
  cuts = [(8, TRACED), (20, 2), (8, None), (8, 11)]
  first = oracles.TIES.index(ties)
  pairs = range(max(len(cuts), len(every)))
  return [Slot(name, *cuts[i % len(cuts)], (first + i) % len(every)) for i in pairs]


def is_call(slot: Slot) -> bool:
  """Whether a slot is a call of the public function, and no measure of `evaluate`.

  One of each metric is: at cut-offs of the queries where it takes them, with the last choice of
  parameters otherwise.
  """
  last = slot.choice == len(TABLES[slot.name].choices) - 1
  return slot.k == TRACED or (last and not takes_k(slot.name))


@functools.cache
def batch(columns: int, ties: str) -> cases.Cases:
  """Random queries.

  Weights follow from labels where the tie mode looks at labels only, or items that it does not
  tell apart would differ.
  """
  drawn = cases.draw(columns, QUERIES, columns, spoiled=0.002)
  if ties in ("optimistic", "pessimistic"):
    drawn = drawn._replace(weights=np.where(drawn.where, 1 + np.abs(drawn.labels), np.nan))
  return drawn


def cutoffs(slot: Slot) -> list[int | None]:
  """The cut-off of each query of a slot."""
  if slot.k == TRACED:
    rng = np.random.default_rng(slot.columns)
    return rng.integers(1, slot.columns + 4, QUERIES).tolist()
  return [slot.k] * QUERIES


def with_functions(choice: dict[str, Any]) -> dict[str, Any]:
  """Parameters with the gain and the discount that the oracle knows by name."""
  own = dict(choice)
  if "gains" in own:
    own["gain"] = GAINS[own.pop("gains")]
  if "discounts" in own:
    own["discount"] = DISCOUNTS[own.pop("discounts")]
  return own


def public_values(asked: list[Slot], ties: str) -> dict[Slot, np.ndarray]:
  """The metrics of the queries of slots: measures of the same columns share one ranking."""
  found: dict[Slot, Any] = {}
  ranking: Any = jr.Exact(ties=ties)
  for columns in sorted({slot.columns for slot in asked}):
    drawn = batch(columns, ties)
    some = [slot for slot in asked if slot.columns == columns]
    own = {slot: with_functions(TABLES[slot.name].choices[slot.choice]) for slot in some}
    weighted = {slot: own[slot].pop("weighted", False) for slot in some}
    called = [slot for slot in some if is_call(slot)]
    measures = []
    for slot in (slot for slot in some if not is_call(slot)):
      given = own[slot] | ({} if slot.k is None else {"k": slot.k})
      given |= {"weights": drawn.weights} if weighted[slot] else {}
      measures.append(jr.Measure(TABLES[slot.name].public, name=str(slot), **given))

    def each(scores, labels, where, weights, k, own=own, weighted=weighted, called=called):
      lists = {"where": where, "ranking": ranking}
      calls = {}
      for slot in called:
        given = own[slot] | lists | ({"weights": weights} if weighted[slot] else {})
        given |= {"k": k} if slot.k == TRACED else {}
        calls[str(slot)] = TABLES[slot.name].public(scores, labels, **given)
      return calls

    @jax.jit
    def compute(drawn, k, measures=measures, each=each):
      values = jr.evaluate(measures, *drawn[:2], where=drawn.where, ranking=ranking)
      return values | jax.vmap(each)(*drawn, k)

    k = np.random.default_rng(columns).integers(1, columns + 4, QUERIES).astype(np.int32)
    values = compute(drawn, k)
    found |= {slot: np.asarray(values[str(slot)]) for slot in some}
  return found


def definition(metric: Metric, items: oracles.Items, ties, k, own) -> float:
  """The metric of one query; `ties` is a tie mode or the orders themselves."""
  if "k" in inspect.signature(metric.oracle).parameters:
    own = {"k": k, **own}
  if "ties" in inspect.signature(metric.oracle).parameters:
    return metric.oracle(items, ties, **own)
  return oracles.expectation(metric.oracle, items, ties, **own)


@functools.cache
def ranked(columns, ties, weighted):
  """The queries of some columns for the oracles, and the orders of each."""
  return [
    (items, ties if oracles.poisoned(items) else oracles.orders(items, ties))
    for items in batch(columns, ties).queries(weighted)
  ]


def oracle_values(slot: Slot, ties: str) -> list[float]:
  """The metric of the queries of a slot, by its definition."""
  metric = TABLES[slot.name]
  own = dict(metric.choices[slot.choice])
  queries = ranked(slot.columns, ties, own.pop("weighted", False))
  asked = zip(queries, cutoffs(slot), strict=True)
  if slot.name in OF_CURVES:
    return [definition(metric, items, ties, k, own) for (items, _), k in asked]
  return [definition(metric, items, orders, k, own) for (items, orders), k in asked]


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


@rules
def test_every_metric_agrees_with_its_definition(ties, fully):
  asked = [slot for name in TABLES for slot in slots(name, ties, fully)]
  wrong = []
  for slot, values in public_values(asked, ties).items():
    context = f"{slot.name}, ties={ties}, k={slot.k}, {TABLES[slot.name].choices[slot.choice]}"
    try:
      assert_agree(values, oracle_values(slot, ties), batch(slot.columns, ties), context)
    except AssertionError as error:
      wrong.append(str(error))
  assert not wrong, "\n\n".join(wrong)


@quick("ties", oracles.TIES, ["average"])
def test_concordance_agrees_with_its_definition(ties):
  @jax.jit
  def each(scores, labels, where):
    given = {"where": where, "ranking": jr.Exact(ties=ties)}
    return {
      name: [metric.public(scores, labels, **given, **own) for own in metric.choices]
      for name, metric in CONCORDANCE.items()
    }

  for columns, count in ((8, 1000), (20, 100)):
    drawn = cases.draw(columns, count, columns, most_orders=10**9, spoiled=0.002)
    queries = drawn.queries()
    for name, values in each(*drawn[:3]).items():
      for own, value in zip(CONCORDANCE[name].choices, values, strict=True):
        expected = [CONCORDANCE[name].oracle(items, **own) for items in queries]
        assert_agree(value, expected, drawn, f"{name}, ties={ties}, {own}")


@pytest.mark.parametrize("adaptive_k", [False, True])
@quick("max_k", [None, 2, 8, 11], [None, 8])
def test_curve_agrees_with_its_definition(max_k, adaptive_k):
  drawn = cases.draw(max_k or 0, 400, spoiled=0.002)
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
def one_query() -> Any:
  """All metrics of [1, n] arrays, and of a traced k where they take one."""

  @jax.jit
  def compute(scores, labels, where, k):
    found = {}
    for name, metric in {**METRICS, **CONCORDANCE}.items():
      takes_k = "k" in inspect.signature(metric.public).parameters
      own = {**metric.choices[0], **({"k": k} if takes_k else {})}
      found[name] = metric.public(scores, labels, where=where, **own)
    return found

  return compute


@thorough
@given(drawn=cases.lists(), k=cases.cutoffs())
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_every_metric_agrees_on_any_query(drawn, k):
  (items,) = drawn.queries()
  for name, value in one_query()(*drawn[:3], np.int32(k)).items():
    if name in CONCORDANCE:
      expected = CONCORDANCE[name].oracle(items)
    else:
      expected = definition(METRICS[name], items, "average", k, METRICS[name].choices[0])
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
