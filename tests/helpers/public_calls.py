"""Every public function as a function of queries, for tests that run all of them.

The calls are made from the signatures: a parameter without a default gets the argument of its name
in `arguments`. A function that needs another call has it in `OWN`, and what JAX does not trace is
in `ON_THE_HOST`. A new public function is therefore covered, or fails by name.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from jaxrank import chance, class_labels, fusion, gains, losses, ranks, stats
from jaxrank._core import description
from jaxrank.fusion._define import METHODS, NORMALISATIONS
from tests.helpers.traits import subtopics
from tests.house import public_api

Query = Callable[[Any, Any, Any], Any]

QUERIES, N = 4, 6
_NAN, _LOST = np.nan, -np.inf
# Ties, an item that is not retrieved, and NaN under the mask.
SCORES = np.float32(
  [
    [2, 1, 1, -1, 0, _NAN],
    [0.5, _LOST, 3, 1, 1, 1],
    [1, 2, -2, 0.25, _NAN, _NAN],
    [-1, 0, 1, 2, 3, _NAN],
  ]
)
LABELS = np.float32(
  [[0, 2, 1, 0, 4, _NAN], [1, 3, 0, 0, 0, 2], [0, 1, 1, 4, _NAN, _NAN], [1, 0, 2, 0, 0, _NAN]]
)
WHERE = ~np.isnan(SCORES)
# One measure for each question to a ranking, with one cut-off.
MEASURES = ["nDCG@3 AP P@3 RR", jr.Measure(jr.err, max_label=4, k=3)]

# What methods of fusion learnt about two systems.
_SHARES = 0.8 ** np.arange(20, dtype=np.float32).reshape(2, 10)
TRAINED = {
  "bayes_fuse": np.log(_SHARES[:, :9] / (1.5 - _SHARES[:, :9])),
  "map_fuse": _SHARES[:, 0],
  "pos_fuse": _SHARES,
  "prob_fuse": _SHARES,
  "seg_fuse": _SHARES,
  "slide_fuse": _SHARES,
}

# Functions and classes that read files, learn from all queries, make arrays of the host, or hold
# what others return.
ON_THE_HOST = {
  "Batch",
  "CatalogueState",
  "Curve",
  "Ranked",
  "Ranking",
  "State",
  "UnansweredError",
  "batches",
  "chance.NoClosedFormError",
  "chance.Sampled",
  "check_values",
  "command.main",
  "command.program",
  "config.items_per_block",
  "config.update",
  "corpus.unsampled_metric",
  "corpus.unsampled_rank",
  "discounts.Terms",
  "epoch",
  "fusion.Fit",
  "fusion.Gain",
  "fusion.Setting",
  "fusion.fit",
  "fusion.threshold",
  "fusion.train",
  "letor.Dataset",
  "letor.Fold",
  "letor.concatenate",
  "letor.folds",
  "letor.read",
  "measures.trec_families",
  "metrics.Description",
  "metrics.described",
  "pad",
  "pad_buckets",
  "parse",
  "plot.precision_recall",
  "plot.values",
  "plot.weights",
  "ranked_query",
  "ranks.Name",
  "ranks.macro_weights",
  "ranks.parse",
  "ranks.resolve",
  "resolve_metrics",
  "stats.Bounds",
  "stats.Comparison",
  "stats.Interval",
  "stats.Leaderboard",
  "stats.Powered",
  "stats.RankIntervals",
  "stats.Threshold",
  "stats.queries_needed",
  "trec.Arrays",
  "trec.Evaluation",
  "trec.Qrels",
  "trec.Run",
  "trec.evaluate",
  "trec.read_qrels",
  "trec.read_run",
  "trec.to_arrays",
  "unpad",
}
# Functions without a derivative.
WITHOUT_SLOPE = {"corpus.top_items"}
# Candidates that are spread over devices: tests/devices/test_sharded_candidates.py.
SPREAD = {"Sharded", "sharded.target_ranks", "sharded.top"}


def arguments(scores, labels, where) -> dict[str, Any]:
  """What the parameters without a default get, by name."""
  finite = jnp.where(where & (scores > -jnp.inf), scores, 0)
  column = jnp.zeros_like(where, jnp.int32) + jnp.arange(N, dtype=jnp.int32)[None]
  return {
    "base": ranks.inverse_harmonic_mean_rank,
    "candidate_labels": jnp.asarray(np.arange(3 * N).reshape(N, 3) % 2 == 0),
    "embeddings": jnp.stack([finite, 1 - finite], -1),
    "first": 1.0,
    "groups": column % 2,
    "items": jnp.asarray(np.cos(np.arange(21, dtype=np.float32)).reshape(7, 3)),
    "k": 2,
    "key": jax.random.key(0),
    "labels": labels,
    "max_label": 4,
    "measures": MEASURES,
    "metric": jr.ndcg,
    "n_groups": 2,
    "order": jnp.zeros_like(column[:, :3]) + jnp.array([3, 0, 2], jnp.int32)[None],
    "p": jnp.abs(finite) / 8,
    "p_values": jnp.abs(finite[:, 0]) / 8,
    "persistence": 0.8,
    "popularity": jnp.where(where, 0.5, 1.0),
    "positives": column[:, :2] + 3,
    "q": jnp.abs(finite) / 16,
    "queries": finite[:, :3],
    "query_labels": jnp.where(where[:, :3], labels[:, :3] > 0, False),
    "rank": (column + 1).astype(jnp.float32),
    "ratio": 1 + jnp.abs(finite),
    "reference": jnp.where(where, jnp.square(finite - 1), 0),
    "scores": scores,
    "step": -0.1,
    "table": {0: 0.0, 1: 0.5, 2: 1.0, 3: 3.0, 4: 7.0},
    "target": jnp.abs(finite) / 8,  # of each item
    "targets": jnp.argmax(where, -1).astype(jnp.int32),
    "teacher": labels,
    "values": jnp.sum(finite, -1),
    "where": where,
    "x": finite[:, 0],
    "y": finite[:, 1],
  }


def _targets(scores, where):
  """The ranks of two targets of each query."""
  scores, where = (jnp.stack([x, x], 1) for x in (jnp.where(where, scores, 0), where))
  targets = jnp.argmax(where, -1).astype(jnp.int32) + jnp.array([0, 2], jnp.int32)[None]
  return ranks.from_scores(scores, targets, where=where)


def _rank_metric(metric, scores, labels, where):
  found = metric(_targets(scores, where))
  candidates = jnp.sum(jnp.stack([where, where], 1), -1, dtype=jnp.int32)
  moments = [
    getattr(metric, moment)(candidates)
    for moment in ("expected", "variance")
    if metric.has_closed_form(moment)
  ]
  return found, moments


def _evaluator(scores, labels, where):
  own = jr.Evaluator("nDCG@3 RR", empty="skip", groups=2)
  group = jnp.argmax(where, -1).astype(jnp.int32)
  state = own.update(own.init(), scores, labels, where=where, groups=group)
  state = own.add(state, dict.fromkeys(own.names, jnp.mean(labels, -1, where=where)), groups=group)
  return own.merge(state, own.init())


def _catalogue(scores, labels, where):
  own = jr.Catalogue(N)
  ids = jnp.where(where, jnp.arange(N, dtype=jnp.int32)[None], -1)
  return own.merge(own.update(own.init(), ids), own.init())


@jr.metric
def _of_a_user(ranked, *, k=None):
  return ranked.expect(ranked.relevant(), jr.discounts.reciprocal, k=k)


def _chance(moment):
  """A moment of metrics that ask each kind of question."""
  measures = [*MEASURES, jr.kendall_tau]
  return lambda scores, labels, where: moment(measures, labels, where=where)


def _curve(scores, labels, where):
  return jr.precision_recall_curve(scores, labels, where=where, max_k=3)


def _called(made):
  """A discount or a gain of numbers from 1, not all of them whole."""
  return lambda scores, labels, where: made(
    1 + jnp.where(where & jnp.isfinite(scores), jnp.abs(scores), 0)
  )


def _zero(scores):
  return 0 * jnp.sum(jnp.where(jnp.isfinite(scores), scores, 0))


def _fusion(function):
  """A method or a normalisation of two systems; the scores of the second one are the labels."""
  table = TRAINED.get(function.__name__)
  parameters = {} if table is None else {"trained": table}

  def call(scores, labels, where):
    return function(jnp.stack([scores, labels]), where=where, **parameters)

  return call


def _ranked(ranking):
  """A metric of each kind of question under a ranking, with a cut-off and without."""

  def call(scores, labels, where):
    return jr.evaluate(["nDCG", *MEASURES], scores, labels, where=where, ranking=ranking)

  return call


def _distributed(ranking):
  """A metric under a ranking that differs from others in the distribution alone."""
  return lambda scores, labels, where: jr.ndcg(scores, labels, where=where, k=3, ranking=ranking)


def _smooth_metrics(scores, labels, where):
  """Metrics under `Laplace`, one for each question that it answers, and one of subtopics."""
  own = {"where": where, "ranking": jr.Laplace(1.0)}
  return [
    jr.alpha_ndcg(scores, _subtopics(labels, where), **own),
    *jr.evaluate(["nDCG", *MEASURES, jr.auc, jr.spearman], scores, labels, **own).values(),
  ]


def _evaluated(scores, labels, where):
  """Every metric, by `evaluate`."""
  found = []
  for subtopic in (False, True):
    chosen = []
    for metric, about in description.described():
      own = {"max_label": 4} if "max_label" in about.signature.parameters else {}
      chosen += [jr.Measure(metric, **own)] if about.subtopics == subtopic else []
    given = _subtopics(labels, where) if subtopic else labels
    found.append(jr.evaluate(chosen, scores, given, where=where))
  return found


OWN: dict[str, Query] = {
  "Catalogue": _catalogue,
  "Evaluator": _evaluator,
  "Exact": _ranked(jr.Exact("optimistic")),
  "Gaussian": _distributed(jr.Gaussian(1.0)),
  "Gumbel": _ranked(jr.Gumbel(1.0)),
  "Laplace": _distributed(jr.Laplace(1.0)),
  "Logistic": _distributed(jr.Logistic(1.0)),
  "Measure": lambda scores, labels, where: jr.Measure(jr.ndcg, k=3)(scores, labels, where=where),
  "Metric": lambda scores, labels, where: _of_a_user(scores, labels, where=where, k=2),
  "aggregate_curve": lambda *lists: jr.aggregate_curve(_curve(*lists)),
  "aggregate": lambda s, x, w: jr.aggregate(jnp.mean(x, -1, where=w), where=w[:, 2]),
  "agreement.rbo": lambda s, x, w: jr.agreement.rbo(*_two(s, x, w), p=0.9, where=w),
  "agreement.rbo_residual": lambda s, x, w: jr.agreement.rbo_residual(*_two(s, x, w), p=0.9),
  "agreement.tau_ap": lambda s, x, w: jr.agreement.tau_ap(*_two(s, x, w), where=w),
  "chance.expected": _chance(chance.expected),
  "chance.std": _chance(chance.std),
  "chance.variance": _chance(chance.variance),
  "class_labels.has_label": lambda s, x, w: class_labels.has_label(_classes(x, w)),
  "discounts.Affine": _called(jr.discounts.affine(1.0, -0.1)),
  "discounts.Geometric": _called(jr.discounts.geometric(0.8)),
  "discounts.InverseSquare": _called(jr.discounts.inverse_square(2.0)),
  "discounts.Table": _called(jr.discounts.table([1.0, 0.5, 0.2])),
  "discounts.affine": _called(jr.discounts.affine(1.0, -0.1)),
  "discounts.geometric": _called(jr.discounts.geometric(0.8)),
  "discounts.inverse_square": _called(jr.discounts.inverse_square(2.0)),
  "discounts.table": _called(jr.discounts.table([1.0, 0.5, 0.2])),
  "ensemble": lambda s, x, w: jr.ensemble(jnp.stack([s, x]), where=w),
  "exposure.awrf": lambda s, x, w: jr.exposure.awrf(
    s, jnp.where(w & (x > 1), 1, 0), jnp.array([0.6, 0.4]), n_groups=2, where=w
  ),
  **{
    f"fusion.{name}": _fusion(getattr(fusion, name))
    for name in [*METHODS, *NORMALISATIONS]
    if f"fusion.{name}" not in ON_THE_HOST
  },
  "gains.by_label": lambda s, x, w: jr.gains.by_label({0: 0.0, 4: 3.0})(jnp.where(w, x, 0)),
  "gains.table": lambda s, x, w: jr.gains.table([0.0, 1.0, 3.0, 7.0, 15.0])(jnp.where(w, x, 0)),
  "letor.min_max": lambda s, x, w: jr.letor.min_max(jnp.stack([s, x], -1), where=w),
  "letor.ranks": lambda s, x, w: jr.letor.ranks(jnp.stack([s, x], -1), where=w),
  "letor.z_scores": lambda s, x, w: jr.letor.z_scores(jnp.stack([s, x], -1), where=w),
  "losses.lambda_rank": lambda s, x, w: losses.lambda_rank(
    s, x, where=w, metric=jr.err, max_label=4
  ),
  "losses.perturbed": lambda s, x, w: losses.perturbed(losses.softmax, jax.random.key(0), 2)(
    s, x, where=w
  ),
  "metric": lambda scores, labels, where: _of_a_user(scores, labels, where=where),
  "ranks.RankMetric": functools.partial(_rank_metric, ranks.hits_at_k),
  "ranks.TargetRanks": lambda scores, labels, where: _targets(scores, where),
  "ranks.adjusted": functools.partial(_rank_metric, ranks.adjusted(ranks.hits_at_k)),
  "ranks.evaluate": lambda s, x, w: ranks.evaluate(["hits@2", "mr", "mrr"], _targets(s, w)),
  "ranks.expectation_normalized": functools.partial(
    _rank_metric, ranks.expectation_normalized(ranks.hits_at_k)
  ),
  "ranks.z_score": functools.partial(_rank_metric, ranks.z_score(ranks.hits_at_k)),
  "recall_at_fixed_precision": lambda *lists: jr.recall_at_fixed_precision(_curve(*lists), 0.4),
  "soft.quantile": lambda s, x, w: jr.soft.quantile(s, 0.4, where=w),
  "stats.bootstrap_interval": lambda s, x, w: stats.bootstrap_interval(
    jnp.mean, jnp.where(w, x, 0)[:, 0], key=jax.random.key(0), resamples=20
  ),
  "stats.compare": lambda s, x, w: stats.compare(
    {"first": _two_systems(x, w)[0], "second": _two_systems(x, w)[1]},
    key=jax.random.key(0),
    test="t",
    resamples=None,
  ),
  "stats.confidence_sequence": lambda s, x, w: stats.confidence_sequence(
    jnp.where(w, x, 0), bounds=(-9, 9)
  ),
  "stats.prediction_powered": lambda s, x, w: stats.prediction_powered(
    jnp.where(w, x, 0)[:, :3], jnp.where(w, x, 0)[:, 3:6], jnp.where(w, x, 0)[:, 2:]
  ),
  "stats.rank_intervals": lambda s, x, w: stats.rank_intervals(
    _two_systems(x, w), key=jax.random.key(0), resamples=20
  ),
  "stats.randomization_test": lambda s, x, w: stats.randomization_test(
    x[:, 0], x[:, 1], key=jax.random.key(0), flips=100
  ),
  "stats.risk_control": lambda s, x, w: stats.risk_control(
    jnp.where(w, x, 0)[:, :1] / (1 + jnp.arange(N, dtype=x.dtype)[None]), jnp.arange(N), level=0.9
  ),
  "stats.tukey_hsd": lambda s, x, w: stats.tukey_hsd(
    jnp.where(w, x, 0), key=jax.random.key(0), permutations=20
  ),
}
# Parameters whose values take another path than the defaults.
VARIANTS: dict[str, Query] = {
  "metrics/Laplace": _smooth_metrics,
  "metrics/evaluate": _evaluated,
  "alpha_dcg/perfect": lambda s, x, w: jr.alpha_dcg(
    s, _subtopics(x, w), where=w, normalizer="perfect"
  ),
  "err_ia/perfect": lambda s, x, w: jr.err_ia(
    s, _subtopics(x, w), where=w, max_label=4, k=9, normalizer="perfect"
  ),
  "ndcg/table": lambda s, x, w: jr.ndcg(
    s, x, where=w, gain=jr.gains.table([0.0, 1.0, 3.0, 7.0, 15.0])
  ),
  **{
    f"ndcg/discounts.table/{type(ranking).__name__}": lambda s, x, w, ranking=ranking: jr.ndcg(
      s, x, where=w, discount=jr.discounts.table([1.0, 0.5, 0.2]), ranking=ranking
    )
    for ranking in (jr.Exact(), jr.Laplace(1.0))
  },
  "sdcg@3": lambda s, x, w: jr.sdcg(s, x, where=w, max_label=4, k=3),
  "chance.sampled@P": lambda s, x, w: chance.sampled(
    jr.precision, x, where=w, k=2, key=jax.random.key(0), samples=4
  ),
}


def _subtopics(labels, where):
  """Labels of subtopics; those under the mask are 0, because a copy of NaN is a NaN of our own."""
  return subtopics(jnp.where(where, labels, 0))


def _two_systems(labels, where):
  """Values of two systems for as many queries as there are items."""
  first = jnp.sum(jnp.where(where, labels, 0), 0)
  return jnp.stack([first, jnp.cos(first)])


def _classes(labels, where):
  return jnp.where(where[:, :3], labels[:, :3] > 0, False)


def _two(scores, labels, where):
  """Two rankings of the same items."""
  return (jnp.where(where, x, jnp.zeros_like(x)) for x in (scores, labels))


def public() -> dict[str, Any]:
  """The public functions, classes and rank metrics, each by the first of its names."""
  found: dict[int, tuple[str, Any]] = {}
  for module, contents in public_api.MODULES.items():
    for name in contents.__all__:
      value = getattr(contents, name)
      if inspect.isfunction(value) or isinstance(value, type | ranks.RankMetric):
        found.setdefault(id(value), (f"{module}.{name}".removeprefix("jaxrank."), value))
  return {name: value for name, value in found.values() if not name.startswith("testing.")}


def _by_name(value, scores, labels, where):
  """Calls a function with the arguments of its parameters without a default, and a mask."""
  given = arguments(scores, labels, where)
  about = description.of_metric(value)
  if about is not None and about.subtopics:
    given["labels"] = _subtopics(labels, where)
  if value.__module__ == gains.__name__:
    given["labels"] = jnp.where(where, labels, 0)
  positional, named = [], {}
  for name, parameter in inspect.signature(value).parameters.items():
    needed = parameter.default is parameter.empty and parameter.kind != parameter.VAR_KEYWORD
    if not needed and name != "where":
      continue
    if parameter.kind == parameter.KEYWORD_ONLY:
      named[name] = given[name]
    else:
      positional.append(given[name])
  return value(*positional, **named)


def _call(name: str, value: Any) -> Query:
  if name in OWN:
    return OWN[name]
  if isinstance(value, ranks.RankMetric):
    return functools.partial(_rank_metric, value)
  return functools.partial(_by_name, value)


CALLS: dict[str, Query] = {
  **{
    name: _call(name, value) for name, value in public().items() if name not in ON_THE_HOST | SPREAD
  },
  **VARIANTS,
}


def groups() -> dict[str, list[str]]:
  """The names of calls by module, for tests that make one program of many calls.

  Calls of single metrics are in none: one of `evaluate` has all of them.
  """
  metrics = {about.name for _, about in description.described()}
  found: dict[str, list[str]] = {}
  for name in CALLS:
    if name not in metrics:
      module, dot, _ = name.split("/")[0].partition(".")
      found.setdefault(module if dot else "jaxrank", []).append(name)
  return found


def together(names: Iterable[str]) -> Query:
  """Values and slopes of many calls by name; an error says which call raised it."""

  def call(scores, labels, where):
    found = {}
    for name in names:
      try:
        found[name] = value_and_slope(name)(scores, labels, where)
      except Exception as error:
        error.add_note(f"in the call of {name}")
        raise
    return found

  return call


def value_and_slope(name: str) -> Query:
  """All arrays that a call returns, and the gradient of the sum of their squares by the scores."""
  query = CALLS[name]

  def total(scores, labels, where):
    found = jax.tree.map(jnp.asarray, jax.tree.leaves(query(scores, labels, where)))
    found = [x for x in found if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    # Squares, because the soft ranks of a list have a constant sum.
    floats = [jnp.sum(x * x) for x in found if jnp.issubdtype(x.dtype, jnp.floating)]
    return sum(floats, _zero(scores)), found

  def call(scores, labels, where):
    if name in WITHOUT_SLOPE:
      return total(scores, labels, where)[1], jnp.zeros_like(scores)
    (_, found), slope = jax.value_and_grad(total, has_aux=True)(scores, labels, where)
    return found, slope

  return call
