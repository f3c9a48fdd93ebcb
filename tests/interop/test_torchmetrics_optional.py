"""The adapter against the original, 2,000 queries a metric, and each difference from it."""

import math
import pickle
import warnings

import numpy as np
import pytest

import jaxrank as jr
from jaxrank.interop import torchmetrics as tm
from tests.helpers.suites import thorough

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")
with warnings.catch_warnings():
  warnings.simplefilter("ignore")
  from torchmetrics import retrieval as theirs
  from torchmetrics.functional import retrieval as their_functions
  from torchmetrics.retrieval.precision_recall_curve import _retrieval_recall_at_fixed_precision

pytestmark = thorough


QUERIES = 2000
METRICS = [
  ("RetrievalMAP", {}),
  ("RetrievalMAP", {"top_k": 3}),
  ("RetrievalMRR", {}),
  ("RetrievalMRR", {"top_k": 3}),
  ("RetrievalPrecision", {}),
  ("RetrievalPrecision", {"top_k": 3}),
  ("RetrievalPrecision", {"top_k": 9, "adaptive_k": True}),
  ("RetrievalRecall", {}),
  ("RetrievalRecall", {"top_k": 3}),
  ("RetrievalHitRate", {}),
  ("RetrievalHitRate", {"top_k": 3}),
  ("RetrievalFallOut", {}),
  ("RetrievalFallOut", {"top_k": 3}),
  ("RetrievalNormalizedDCG", {}),
  ("RetrievalNormalizedDCG", {"top_k": 3}),
  ("RetrievalRPrecision", {}),
  ("RetrievalAUROC", {}),
  ("RetrievalAUROC", {"top_k": 6}),
  ("RetrievalAUROC", {"max_fpr": 0.3}),
  ("RetrievalAUROC", {"max_fpr": 0.5, "top_k": 6}),
]
CURVES = [{}, {"max_k": 5}, {"max_k": 20}, {"max_k": 20, "adaptive_k": True}]
FUNCTIONS = {
  "retrieval_average_precision": "RetrievalMAP",
  "retrieval_reciprocal_rank": "RetrievalMRR",
  "retrieval_precision": "RetrievalPrecision",
  "retrieval_recall": "RetrievalRecall",
  "retrieval_hit_rate": "RetrievalHitRate",
  "retrieval_fall_out": "RetrievalFallOut",
  "retrieval_normalized_dcg": "RetrievalNormalizedDCG",
  "retrieval_r_precision": "RetrievalRPrecision",
  "retrieval_auroc": "RetrievalAUROC",
}


def same(value, expected):
  np.testing.assert_allclose(value, np.asarray(expected), rtol=1e-6, atol=1e-6)


def rows_of(seed, *, tied=False, grades=2):
  """Rows of many queries of 1 to 14 items in any order, with scores in (0, 1), as tensors."""
  rng = np.random.default_rng(seed)
  names = rng.permutation(3 * QUERIES)[:QUERIES] - QUERIES
  indexes = rng.permutation(np.repeat(names, rng.integers(1, 15, QUERIES)))
  n = len(indexes)
  preds = rng.integers(1, 8, n) / 8 if tied else (1 + rng.permutation(n)) / (n + 2)
  share = rng.random(3 * QUERIES)[indexes]
  target = (rng.random(n) < share) * rng.integers(1, grades, n, endpoint=False)
  return torch.tensor(preds, dtype=torch.float32), torch.tensor(target), torch.tensor(indexes)


def values_of(cls, rows, **options):
  """The values of all queries, as an aggregation sees them."""
  seen = []

  def keep(values, dim=None):
    seen.append(np.asarray(values))
    return values.sum()

  metric = cls(aggregation=keep, **options)
  # The rows of a query come in two updates.
  metric.update(*(x[::2] for x in rows))
  metric.update(*(x[1::2] for x in rows))
  metric.compute()
  return seen[0]


@pytest.mark.parametrize(("name", "options"), METRICS, ids=str)
def test_values_agree(name, options):
  rows = rows_of(1, grades=5 if name == "RetrievalNormalizedDCG" else 2)
  for action in ("neg", "pos", "skip"):
    found = values_of(getattr(tm, name), rows, empty_target_action=action, **options)
    expected = values_of(getattr(theirs, name), rows, empty_target_action=action, **options)
    assert len(found) == len(expected) > QUERIES / 2
    same(found, expected)


@pytest.mark.parametrize(
  ("name", "options"),
  [x for x in METRICS if x[0] in ("RetrievalNormalizedDCG", "RetrievalAUROC")],
  ids=str,
)
def test_values_agree_under_ties_where_the_original_is_defined(name, options):
  options = {key: x for key, x in options.items() if key != "top_k" or name != "RetrievalAUROC"}
  rows = rows_of(2, tied=True, grades=5 if name == "RetrievalNormalizedDCG" else 2)
  found = values_of(getattr(tm, name), rows, **options)
  same(found, values_of(getattr(theirs, name), rows, **options))


@pytest.mark.parametrize("options", CURVES, ids=str)
def test_curves_agree(options):
  rows = rows_of(3)
  name = "RetrievalPrecisionRecallCurve"
  for action, how in (("neg", "mean"), ("pos", "min"), ("skip", "median"), ("skip", "max")):
    given = {"empty_target_action": action, "aggregation": how, **options}
    found = getattr(tm, name)(**given)(*rows)
    for value, expected in zip(found, getattr(theirs, name)(**given)(*rows), strict=True):
      same(value, expected)


@pytest.mark.parametrize("options", CURVES, ids=str)
def test_recall_at_fixed_precision_agrees(options):
  rng = np.random.default_rng(4)
  preds, target, indexes = rows_of(4)
  for trial in range(6):
    chosen = torch.tensor(np.isin(indexes, rng.choice(np.unique(indexes), 12)))
    # Between any two precisions that 12 short queries may have.
    given = {"min_precision": float(rng.integers(1, 900) / 1000 + math.pi / 1e4), **options}
    rows = preds[chosen], target[chosen], indexes[chosen]
    recall, k = tm.RetrievalRecallAtFixedPrecision(**given)(*rows)
    their_recall, their_k = theirs.RetrievalRecallAtFixedPrecision(**given)(*rows)
    same(recall, their_recall)
    assert k == int(their_k), trial


def test_thresholds_agree():
  """2,000 curves with repeated recalls, and a third of the precisions high enough."""
  rng = np.random.default_rng(10)
  precision = rng.random((QUERIES, 9), dtype=np.float32)
  recall = np.sort(rng.integers(0, 4, (QUERIES, 9)), axis=-1).astype(np.float32) / 3
  k = np.tile(np.arange(1, 10), (QUERIES, 1))
  found = jr.recall_at_fixed_precision((precision, recall, k), 2 / 3)
  curves = zip(*map(torch.tensor, (precision, recall, k)), strict=True)
  pairs = [_retrieval_recall_at_fixed_precision(*curve, 2 / 3) for curve in curves]
  for value, expected in zip(found, zip(*pairs, strict=True), strict=True):
    same(value, expected)


@pytest.mark.parametrize("how", ["mean", "median", "min", "max"])
def test_aggregations_and_ignored_rows_agree(how):
  preds, target, indexes = rows_of(5)
  target = torch.where(torch.arange(len(target)) % 3 == 0, -100, target)
  for name in ("RetrievalMAP", "RetrievalFallOut", "RetrievalNormalizedDCG"):
    given = {"ignore_index": -100, "aggregation": how}
    found, expected = (
      getattr(library, name)(**given)(preds, target, indexes) for library in (tm, theirs)
    )
    same(found, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree(name):
  """The classes above are these functions, query by query: so fewer cases do."""
  preds, target, indexes = rows_of(6, grades=5 if "dcg" in name else 2)
  for query in np.unique(indexes)[:60]:
    mine = indexes == int(query)
    for options in ({}, {"top_k": 3}) if name != "retrieval_r_precision" else ({},):
      found = getattr(tm, name)(preds[mine], target[mine], **options)
      same(found, getattr(their_functions, name)(preds[mine], target[mine], **options))


@pytest.mark.parametrize("options", CURVES, ids=str)
def test_the_curve_of_one_query_agrees(options):
  preds, target, indexes = rows_of(7)
  for query in np.unique(indexes)[:60]:
    mine = indexes == int(query)
    found = tm.retrieval_precision_recall_curve(preds[mine], target[mine], **options)
    expected = their_functions.retrieval_precision_recall_curve(
      preds[mine], target[mine], **options
    )
    for value, other in zip(found, expected, strict=True):
      same(value, other)


def test_tensors_of_all_kinds_come_in():
  preds, target, indexes = (x[:40] for x in rows_of(8))
  expected = tm.RetrievalMAP()(preds, target, indexes)
  assert tm.RetrievalMAP()(preds.clone().requires_grad_(), target.bool(), indexes) == expected
  coarse = preds.to(torch.bfloat16)
  expected = tm.RetrievalMAP()(coarse.float(), target.float(), indexes)
  assert tm.RetrievalMAP()(coarse, target.float(), indexes) == expected


@pytest.mark.parametrize(
  ("name", "options", "preds", "target", "ours", "original"),
  [
    # Scores of any sign rank.
    ("average_precision", {}, [2, -1, -3], [0, 1, 0], 0.5, 0),
    ("reciprocal_rank", {}, [2, -1, -3], [0, 1, 0], 0.5, 0),
    ("precision", {}, [2, -1, -3], [0, 1, 0], 1 / 3, 0),
    ("recall", {}, [2, -1, -3], [0, 1, 0], 1, 0),
    ("average_precision", {}, [2, 1, -3], [1, 0, 1], 5 / 6, 1),
    # A NaN is no first rank.
    ("hit_rate", {"top_k": 1}, [math.nan, 1], [1, 0], math.nan, 1),
    # Unjudged grades gain nothing.
    ("normalized_dcg", {}, [0.5, 0.4, 0.1], [-1, 2, 1], 0.669672, 0.357524),
    ("normalized_dcg", {}, [0.5, 0.4, 0.1], [-1, -2, -1], 0, 1.049766),
    # Large logits do not saturate.
    ("auroc", {}, [30, 20], [1, 0], 1, 0.5),
    # A float target is a target.
    ("r_precision", {}, [3, 2, 1], [1.0, 0.0, 1.0], 0.5, TypeError),
    # Cut-offs are positive integers.
    ("average_precision", {"top_k": 0}, [3, 2, 1], [0, 1, 1], ValueError, 7 / 12),
    ("auroc", {"top_k": 0}, [3, 2, 1], [0, 1, 1], ValueError, 0),
    ("average_precision", {"top_k": -1}, [3, 2, 1], [0, 1, 1], ValueError, RuntimeError),
    ("reciprocal_rank", {"top_k": 2.0}, [3, 2, 1], [0, 1, 1], ValueError, TypeError),
    ("recall", {"top_k": True}, [3, 2, 1], [1, 0, 1], ValueError, 0.5),
    # A rate is a float in (0, 1].
    ("auroc", {"max_fpr": 2.0}, [0.3, 0.2, 0.1], [0, 1, 1], ValueError, IndexError),
    # Fractions are no binary targets.
    ("recall", {"top_k": 1}, [3, 2, 1], [0.5, 0.0, 1.0], ValueError, 1 / 3),
  ],
)
def test_differences(name, options, preds, target, ours, original):
  """Both sides of what `docs/interop.md` lists."""
  preds, target = torch.tensor(preds, dtype=torch.float32), torch.tensor(target)
  for library, expected in ((tm, ours), (their_functions, original)):
    function = getattr(library, f"retrieval_{name}")
    if isinstance(expected, type):
      with pytest.raises(expected):
        function(preds, target, **options)
    else:
      same(function(preds, target, **options), expected)


def test_ties_have_no_order():
  """The original breaks them by accident, differently in precision and recall."""
  preds, target = torch.zeros(5), torch.tensor([1, 0, 1, 0, 1])
  at_2 = (
    their_functions.retrieval_precision(preds, target, top_k=2) * 2,
    their_functions.retrieval_recall(preds, target, top_k=2) * 3,
  )
  assert {float(x) for x in at_2} <= {0.0, 1.0, 2.0}
  same(tm.retrieval_precision(preds, target, top_k=2), 0.6)
  same(tm.retrieval_recall(preds, target, top_k=2), 0.4)


def test_a_grade_below_0_does_not_empty_a_query():
  rows = torch.tensor([0.5, 0.4, 0.1]), torch.tensor([-1, 0, 1]), torch.zeros(3, dtype=torch.long)
  same(tm.RetrievalNormalizedDCG("pos")(*rows), 0.5)
  same(theirs.RetrievalNormalizedDCG("pos")(*rows), 1)


def test_constructors_refuse_what_the_original_lets_pass():
  for name in ("RetrievalMAP", "RetrievalMRR"):
    getattr(theirs, name)(top_k=-1)
    with pytest.raises(ValueError, match="top_k"):
      getattr(tm, name)(top_k=-1)
  theirs.RetrievalAUROC(max_fpr=2.0)
  with pytest.raises(ValueError, match="max_fpr"):
    tm.RetrievalAUROC(max_fpr=2.0)


def test_a_function_needs_no_axis():
  rows = rows_of(9)
  with pytest.raises(TypeError, match="dim"):
    theirs.RetrievalMAP(aggregation=lambda values: values.mean())(*rows)
  same(
    tm.RetrievalMAP(aggregation=lambda values: values.mean())(*rows),
    tm.RetrievalMAP()(*rows),
  )


@pytest.mark.parametrize(
  "options",
  [
    {"empty_target_action": "foo"},
    {"ignore_index": 1.5},
    {"aggregation": "foo"},
    {"max_k": 0},
    {"adaptive_k": 1},
    {"min_precision": 1},
    {"min_precision": 1.5},
    {"foo": 1, "bar": 2},
  ],
  ids=str,
)
def test_messages_agree(options):
  messages = []
  for library in (tm, theirs):
    with pytest.raises(ValueError, match=".") as error:
      library.RetrievalRecallAtFixedPrecision(**options)
    # Two words of one message run together in the original.
    messages.append(str(error.value).replace("functionwhich", "function which"))
  assert messages[0] == messages[1]


ALL = [name for name in tm.__all__ if name.startswith("Retrieval") and name != "RetrievalMetric"]
EACH = pytest.mark.parametrize("name", ALL)


def tensors(value):
  """The tensors of a result as lists."""
  return [x.tolist() for x in (value if isinstance(value, tuple) else (value,))]


@EACH
def test_the_classes_are_metrics_of_torchmetrics(name):
  """State, transport, clones, checkpoints and results are those of the original's base class."""
  preds, target, indexes = (x[:200] for x in rows_of(11))
  metric, other = getattr(tm, name)(), getattr(theirs, name)()
  assert isinstance(metric, torchmetrics.Metric)
  for half in (slice(None, 100), slice(100, None)):
    metric.update(preds[half], target[half], indexes[half])
    other.update(preds[half], target[half], indexes[half])
  assert metric.update_count == 2
  found = metric.compute()
  for value, expected in zip(tensors(found), tensors(other.compute()), strict=True):
    same(value, expected)
  for copy in (metric.clone(), pickle.loads(pickle.dumps(metric)), metric.to("cpu")):
    assert tensors(copy.compute()) == tensors(found)
  metric.persistent(True)
  restored = getattr(tm, name)()
  restored.persistent(True)
  restored.load_state_dict(metric.state_dict())
  assert {*metric.state_dict()} == {"indexes", "preds", "target"}
  restored._update_count = 1
  assert tensors(restored.compute()) == tensors(found)
  merged = getattr(tm, name)()
  merged.update(preds[:100], target[:100], indexes[:100])
  rest = getattr(tm, name)()
  rest.update(preds[100:], target[100:], indexes[100:])
  merged.merge_state(rest)
  assert tensors(merged.compute()) == tensors(found)
  metric.reset()
  assert not metric.preds


def test_states_are_gathered_from_processes():
  """As from two processes, each of which has the rows of this one."""
  preds, target, indexes = (x[:200] for x in rows_of(12))
  twice = {
    "dist_sync_fn": lambda x, group=None: [x, x],
    "distributed_available_fn": lambda: True,
  }
  for library in (tm, theirs):
    metric = library.RetrievalPrecision(top_k=3, **twice)
    metric.update(preds, target, indexes)
    both = [torch.cat([x, x]) for x in (preds, target, indexes)]
    expected = library.RetrievalPrecision(top_k=3)(*both)
    same(metric.compute(), expected)
    assert len(metric.preds) == 1


def test_collections_wrappers_and_arithmetic():
  rows = tuple(x[:300] for x in rows_of(13))
  preds, target, indexes = rows
  metrics = torchmetrics.MetricCollection(
    {"map": tm.RetrievalMAP(), "mrr": tm.RetrievalMRR(), "ndcg": tm.RetrievalNormalizedDCG()}
  )
  for half in (slice(None, 150), slice(150, None)):
    metrics.update(preds[half], target[half], indexes=indexes[half])
  values = metrics.compute()
  assert values["map"] == tm.RetrievalMAP()(*rows)
  assert values["mrr"] == tm.RetrievalMRR()(*rows)
  tracker = torchmetrics.MetricTracker(tm.RetrievalMRR())
  for step in range(2):
    tracker.increment()
    tracker.update(preds if step else -preds, target, indexes)
  reverse = tm.RetrievalMRR()(-preds, target, indexes)
  assert tracker.best_metric() == float(max(values["mrr"], reverse))
  torch.manual_seed(0)
  bootstrap = torchmetrics.BootStrapper(tm.RetrievalMAP(), num_bootstraps=5)
  bootstrap.update(*rows)
  assert bootstrap.compute()["std"] > 0
  modules = torch.nn.ModuleList([tm.RetrievalMAP()])
  same(modules[0](*rows), values["map"])
  both = tm.RetrievalMAP() + 2 * tm.RetrievalMRR()
  both.update(*rows)
  same(both.compute(), values["map"] + 2 * values["mrr"])


def test_aggregations_get_tensors():
  rows = rows_of(14)
  found = tm.RetrievalMAP(aggregation=lambda values: torch.quantile(values, 0.25))(*rows)
  same(found, np.quantile(values_of(tm.RetrievalMAP, rows), 0.25))
