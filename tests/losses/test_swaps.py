"""What a swap of two items changes, against brute force: swap them and evaluate again."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import description
from jaxrank._core.description import Description
from jaxrank.losses import swaps
from tests.helpers import parameters, user_metrics
from tests.helpers.suites import quick
from tests.helpers.together import apart
from tests.house import metric_table

QUERIES, N, SUBTOPICS = 30, 7, 3
FIRST, SECOND = np.triu_indices(N, 1)


class Given(NamedTuple):
  """The arrays of `Lists`, as programs take them."""

  scores: Any
  labels: Any
  subtopics: Any
  where: Any
  swapped: Any

  def labels_of(self, about: Description) -> Any:
    return self.subtopics if about.subtopics else self.labels


class Lists:
  """Queries without tied scores, in float64, and parameters of their items and subtopics."""

  def __init__(self, seed: int):
    rng = np.random.default_rng(seed)
    shape = (QUERIES, N)
    self.where = rng.random(shape) < rng.choice([0.6, 0.9, 1.0], (QUERIES, 1))
    self.where[2] = False
    scores = np.where(rng.random(shape) < 0.12, -np.inf, rng.standard_normal(shape))
    scores[1] = -np.inf
    self.scores = np.where(self.where, scores, rng.choice([np.nan, np.inf, 0.0], shape))
    labels = rng.integers(-1, 5, shape).astype(float)
    labels[0] = rng.integers(-1, 1, N)
    self.labels = np.where(self.where, labels, rng.choice([np.nan, 9.0, -7.0], shape))
    covered = rng.integers(-1, 3, (*shape, SUBTOPICS)).astype(float)
    self.subtopics = np.where(self.where[..., None], covered, 3.0)
    self.weights = np.where(self.where, rng.choice([0.0, 0.25, 0.5, 1.0, 3.0], shape), np.nan)
    self.even_weights, self.subtopic_weights = rng.random(SUBTOPICS), rng.random((QUERIES, 3))
    retrieved = self.where & (scores > -np.inf)
    self.length = retrieved.sum(-1)
    # The scores after each swap, and of no swap in the last row, `[queries, pairs + 1, N]`.
    order = np.where(retrieved, -scores, np.inf).argsort(-1, kind="stable")
    a, b = order[:, FIRST], order[:, SECOND]
    row, pair = np.arange(QUERIES)[:, None], np.arange(len(FIRST))[None]
    self.swapped = np.tile(self.scores[:, None], (1, len(FIRST) + 1, 1))
    self.swapped[row, pair, a] = self.scores[row, b]
    self.swapped[row, pair, b] = self.scores[row, a]
    self.given = Given(self.scores, self.labels, self.subtopics, self.where, self.swapped)

  @property
  def swappable(self) -> np.ndarray:
    """Which pairs of ranks hold two retrieved items, `[queries, pairs]`."""
    return self.length[:, None] > SECOND


LISTS = Lists(0)
WEIGHTS = {"weights": LISTS.weights}
SHARED = {"subtopic_weights": LISTS.even_weights}
OWN = {"subtopic_weights": LISTS.subtopic_weights}
TABLE = jr.gains.table(np.arange(5.0) ** 1.5)
STEPS = jr.discounts.table(np.array([3.0, 2.0, 2.0, 0.5]))
AFFINE, RECIPROCAL = jr.discounts.affine(1.0, -0.1), jr.discounts.reciprocal
GRADED = [
  {"k": 3},
  {"k": 20, "gain": jr.gains.exponential},
  {"gain": jr.gains.by_label({1: 7, 3: 2}), "discount": AFFINE} | WEIGHTS,
  {"gain": TABLE, "discount": STEPS, "k": 5},
]
BINARY = [{}, {"rel": 3.5, "k": 4}]
NOVEL = [{"k": 3, "rel": 2} | SHARED, {"alpha": 0.0} | OWN, {"alpha": 1.0, "k": 4}]
# Each parameter is in some set, and where parameters do not change each other's terms, in one.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
  "alpha_dcg": [*NOVEL, {"k": 3, "normalizer": "perfect", "discount": RECIPROCAL}],
  "alpha_ndcg": [{"k": 3, "rel": 2, "discount": AFFINE} | SHARED, {"alpha": 0.25} | OWN],
  "auc": [{"rel": 2}],
  "average_precision": [{}, {"rel": 2}, {"k": 3, "normalizer": "cutoff"}],
  "average_precision_ia": [{"k": 3, "rel": 2} | SHARED, OWN],
  "binary_normalized_gain": [{"rel": 2}],
  "bpref": [{}, {"rel": 1}, {"rel": 3}],
  "dcg": [{}, {"gain": TABLE, "discount": RECIPROCAL, "k": 4} | WEIGHTS],
  "err": [{"max_label": 4}, {"max_label": 3, "k": 3}, {"max_label": 2.5}],
  "err_ia": [{"max_label": 1, "k": 3} | OWN,
             {"max_label": 2, "k": 3, "normalizer": "perfect"} | SHARED],
  "f_measure": [{}, {"k": 3, "beta": 2.0, "rel": 2}, {"divisor": "retrieved"}],
  "fall_out": BINARY,
  "gap": [{"max_label": 3, "k": 3, "chances": np.array([0.5, 0.0, 0.25])}],
  "hit_rate": [{"k": 2}, {"rel": 3.5, "k": 2}],
  "insq": [{"max_label": 4}, {"max_label": 3, "min_label": 1, "patience": 3, "target": 2.0}],
  "item_count": [{"k": 2}, {"of": "judged_others_retrieved", "k": 4, "rel": 2}],
  "judged": [{}, {"of": "pooled", "k": 2}, {"of": "unjudged", "divisor": "k", "k": 3}],
  "ndcg": GRADED,
  "nerr": [{"max_label": 3, "k": 3}],
  "nerr_ia": [{"max_label": 1, "k": 3} | OWN],
  "ndcg_at_levels": [{"rel": 2, "gain": TABLE, "discount": RECIPROCAL}],
  "nnrbp": [{"rel": 2, "beta": 0.9, "alpha": 0.25} | SHARED],
  "nrbp": [{"k": 3, "rel": 2} | SHARED, {"beta": 0.9, "alpha": 0.25} | OWN],
  "precision": [{"k": 4, "divisor": "retrieved"}, {"rel": 2} | WEIGHTS],
  "precision_ia": [{"k": 2, "rel": 2} | SHARED, {"k": 3} | OWN],
  "query_count": [{}],
  "r_precision": [{"rel": 2}, {"multiple": 0.5}],
  "rbp": [{"rel": 2, "k": 4}, {"persistence": 0.0},
          {"gain": jr.gains.linear, "normalizer": "largest", "persistence": 0.3} | WEIGHTS],
  "rbp_residual": [{"persistence": 0.3, "k": 4}, {"tail": "unjudged"}],
  "recall": [{"rel": 2} | WEIGHTS | {"k": 3}],
  "reciprocal_rank": [{}, {"k": 2}, {"rel": 3.5, "k": 4}],
  "sdcg": [{"max_label": 2, "min_label": 1, "discount": RECIPROCAL, "k": 3}],
  "subtopic_recall": [{"k": 3, "rel": 2} | SHARED, {"k": 1} | OWN],
  "utility": [{"k": 2, "rel": 2, "miss": -0.5, "hit": 2.0, "other": -0.25},
              {"k": 3, "rest": 0.5, "collection": 40}],
}  # fmt: skip
REFUSED: dict[str, list[dict[str, Any]]] = {
  "average_precision": [{"normalizer": "retrieved"}, {"normalizer": "retrieved", "k": 3}],
  "bpm": [{"max_label": 4}],
  "compatibility": [{}],
  "eleven_point_average": [{}],
  "inferred_average_precision": [{}],
  "inst": [{"max_label": 4}],
  "interpolated_precision": [{"level": 0.5}],
  "kendall_tau": [{}],
  "log_average_precision": [{}],
  "log_bpref": [{}],
  "ndcg_at_relevant": [{}],
  "nearly_err": [{"max_label": 4}],
  "normalized_gain": [{}],
  "ordered_pair_accuracy": [{}],
  "retrieved_auc": [{}, {"k": 3}],
  "set_average_precision": [{}],
  "spearman": [{}],
}
USERS: dict[str, list[dict[str, Any]]] = {
  "among_judged": [{}, {"k": 2}, WEIGHTS],
  "bpref": [{}, {"rel": 3}],
  "by_size": [{}, {"k": 3}],
  "constant": [{}],
  "depths": [{}, WEIGHTS],
  "first_good": [{}, {"k": 3, "rel": 3}],
  "mixture": [{}, {"k": 3}, WEIGHTS],
  "overtaken": [{}, WEIGHTS],
  "three_users": [{}, {"k": 3}],
  "three_thresholds": [{}, {"k": 3}],
  "wasted": [{}, {"k": 1}],
}
OURS = {about.name: metric for metric, about in jr.metrics.described()}
# Metrics that are in no table have parameters by their descriptions. docs/metrics.md has a column
# that says which are refused.
for _about in map(description.of_metric, OURS.values()):
  if _about.name not in PARAMETERS | REFUSED:
    _affine = metric_table.has_swaps(OURS[_about.name], _about)
    _sets = parameters.choices(_about) if _affine else [parameters.required(_about)]
    _taken = _about.signature.parameters
    _sets += [_sets[0] | {"k": k} for k in (3, 20) if "k" in _taken and _affine]
    _sets += [_sets[0] | WEIGHTS] if "weights" in _taken and _affine else []
    (PARAMETERS if _affine else REFUSED)[_about.name] = _sets


def changes(query, about, **parameters):
  """The changes by all swaps, `[n, n]`, the upper rank first."""
  total = jnp.zeros((query.n, query.n), query.dtype)
  for swap in swaps.of_metric(query, about, **parameters):
    upper, lower = ([x[at] for x in swap.features] for at in ((..., None), (None, ...)))
    total += swap.change(tuple(upper), tuple(lower))
  return total


def predicted(metric, sets, given):
  """What the swaps say for each set of parameters, `[sets, queries, pairs]`."""
  about = description.of_metric(metric)
  sets = [about.bind(own) for own in sets]
  where, labels = given.where, given.labels_of(about)
  column = where[..., None] if about.subtopics else where
  own = [{key: jnp.asarray(x) for key, x in one.items() if np.ndim(x) == 2} for one in sets]

  def one(scores, labels, where, own):
    query = jr.Exact("pessimistic")(scores, labels, where)
    found = []
    for numbers, arrays in zip(sets, own, strict=True):
      arrays = {key: query.in_order(x) if key == "weights" else x for key, x in arrays.items()}
      found.append(changes(query, about, **numbers | arrays)[FIRST, SECOND])
    return jnp.stack(found)

  clean = jnp.where(where, given.scores, 0), jnp.where(column, labels, 0), where
  return jax.vmap(one, out_axes=1)(*clean, own)


def happened(metric, sets, given):
  """How much better the metric is after each swap, `[sets, queries, pairs]`."""
  about = description.of_metric(metric)

  def repeated(x):
    return jnp.broadcast_to(x[:, None], (QUERIES, len(FIRST) + 1, *x.shape[1:]))

  measures = [
    jr.Measure(metric, name=str(i), **{k: repeated(x) if np.ndim(x) == 2 else x for k, x in own})
    for i, own in enumerate(one.items() for one in sets)
  ]
  labels, where = repeated(given.labels_of(about)), repeated(given.where)
  values = jnp.stack([*jr.evaluate(measures, given.swapped, labels, where=where).values()])
  return (values[..., :-1] - values[..., -1:]) * (1 if about.higher_is_better else -1)


def check(found, expected, lists):
  kept = lists.swappable
  found, expected = np.asarray(found)[kept], np.asarray(expected)[kept]
  assert np.all(np.isfinite(found))
  assert np.abs(found - expected).max() <= 1e-9 * max(np.abs(expected).max(), 1e-3)


# Metrics that ask for expectations, users who stop, the first hit, precision and what is ahead.
QUICK = ("bpref", "err", "fall_out", "ndcg", "reciprocal_rank", "users.mixture")


def test_every_metric_has_swaps_that_are_tested_or_is_refused():
  assert set(PARAMETERS) | set(REFUSED) == set(OURS)
  assert set(USERS) == set(user_metrics.AFFINE)
  takes = {name: set(description.of_metric(metric).signature.parameters) for name, metric in
           OURS.items() if name in PARAMETERS}  # fmt: skip
  for name, taken in takes.items():
    assert taken == {key for given in PARAMETERS[name] for key in given}, name


def metric_and_sets(name):
  user = name.removeprefix("users.")
  return (
    (user_metrics.AFFINE[user], USERS[user]) if user != name else (OURS[name], PARAMETERS[name])
  )


def both(name, given):
  return [way(*metric_and_sets(name), given) for way in (happened, predicted)]


NAMES = [*PARAMETERS, *(f"users.{name}" for name in USERS)]
of_swaps = apart({name: functools.partial(both, name) for name in NAMES}, QUICK)


@quick("name", NAMES, QUICK)
def test_a_swap_changes_what_it_says(name):
  with jax.enable_x64(True):
    expected, found = of_swaps(name, LISTS.given)
  assert found.dtype == expected.dtype == np.float64
  for one, other in zip(found, expected, strict=True):
    check(one, other, LISTS)
  changed = np.abs(np.where(LISTS.swappable, expected, 0)) > 1e-9
  assert changed.sum() > 30 or name in ("users.constant", "query_count")


CUT = [
  name
  for name, metric in OURS.items()
  if name in PARAMETERS and "k" in description.of_metric(metric).signature.parameters
]
QUICK_CUT = ("ndcg", "average_precision")


def by_cutoff(name, given, ks):
  def at(k):
    sets = [PARAMETERS[name][0] | {"k": k}]
    return [way(OURS[name], sets, given)[0] for way in (predicted, happened)]

  return jax.vmap(at)(ks)


of_cutoffs = apart({name: functools.partial(by_cutoff, name) for name in CUT}, QUICK_CUT)


@quick("name", CUT, QUICK_CUT)
def test_a_swap_by_a_traced_cutoff(name):
  with jax.enable_x64(True):
    both_ways = of_cutoffs(name, LISTS.given, np.array([1, 3, 20]))
  for found, expected in zip(*both_ways, strict=True):
    check(found, expected, LISTS)


REFUSALS = [(OURS[name], given) for name, sets in REFUSED.items() for given in sets]
REFUSALS += [(metric, {}) for metric in user_metrics.BENT.values()]


@pytest.mark.parametrize(("metric", "given"), REFUSALS, ids=lambda x: getattr(x, "__name__", ""))
def test_metrics_without_a_swap_are_refused_by_name(metric, given):
  name = description.of_metric(metric).name
  reason = "pairs by a swap" if name in ("kendall_tau", "ordered_pair_accuracy") else "affine"
  with pytest.raises(jr.UnansweredError, match=f"^{name}: .*{reason}"):
    jr.losses.lambda_rank(LISTS.scores, LISTS.labels, where=LISTS.where, metric=metric, **given)


def test_swaps_in_a_long_list():
  """Hundreds of relevant items, at most of which nobody arrives."""
  rng = np.random.default_rng(0)
  scores, labels = rng.standard_normal(400), rng.integers(0, 5, 400).astype(float)
  order = (-scores).argsort()
  upper = rng.integers(0, 40, 60)
  places = np.stack([upper, rng.integers(upper + 1, 400)], axis=1)
  a, b = order[places.T]
  swapped = np.tile(scores, (61, 1))
  swapped[np.arange(60), a], swapped[np.arange(60), b] = scores[b], scores[a]
  measures = jr.parse("err(max_label=4) reciprocal_rank bpref average_precision auc ndcg")
  with jax.enable_x64(True):
    values = jr.evaluate(measures, swapped, np.tile(labels, (61, 1)))

  @jax.jit
  def predict(scores, labels):
    query = jr.Exact("pessimistic")(scores, labels, jnp.ones(400, bool))
    return [
      changes(query, measure.description, **measure.call().parameters)[places[:, 0], places[:, 1]]
      for measure in measures
    ]

  for found, value in zip(predict(jnp.float32(scores), jnp.float32(labels)), values.values(),
                          strict=True):  # fmt: skip
    np.testing.assert_allclose(found, value[:-1] - value[-1], rtol=0, atol=2e-6)
