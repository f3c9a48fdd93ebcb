"""The adapter of torchmetrics: its documented numbers, its options and errors, our differences."""

import functools
import inspect
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.interop import torchmetrics as tm
from tests.helpers import oracles

CLASSES = [
  tm.RetrievalMAP,
  tm.RetrievalMRR,
  tm.RetrievalPrecision,
  tm.RetrievalRecall,
  tm.RetrievalHitRate,
  tm.RetrievalFallOut,
  tm.RetrievalNormalizedDCG,
  tm.RetrievalRPrecision,
  tm.RetrievalAUROC,
]
CURVES = [tm.RetrievalPrecisionRecallCurve, tm.RetrievalRecallAtFixedPrecision]
TENSORS = any(cls.__module__ == "torchmetrics.metric" for cls in tm.RetrievalMetric.__mro__)
every = pytest.mark.parametrize("cls", [*CLASSES, *CURVES], ids=lambda cls: cls.__name__)

# Three queries, the last without a positive target.
INDEXES = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
PREDS = np.float32([0.4, 0.01, 0.5, 0.6, 0.2, 0.3, 0.5, 0.9, 0.8])
TARGET = np.array([1, 0, 0, 1, 1, 0, 1, 0, 0])
ROWS = (PREDS, TARGET, INDEXES)
# The two of them that are torchmetrics' own example of a curve.
SEED = tuple(x[:7] for x in ROWS)
FIVE = (np.float32([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([1, 0, 1, 0, 1]))


def same(value, expected, atol=2e-6):
  np.testing.assert_allclose(value, expected, rtol=2e-6, atol=atol)


def rounded(value, expected):
  """Equal to the digits of the reference."""
  same(value, expected, atol=6e-5)


class TestReferenceNumbers:
  """Numbers that torchmetrics 1.9.0 was seen to give."""

  def test_cut_offs_of_five_items(self):
    expected = {
      1: (1, 1, 1, 1, 1 / 3),
      2: (1, 0.6131, 0.5, 0.5, 1 / 3),
      3: (0.8333, 0.7039, 2 / 3, 2 / 3, 2 / 3),
      4: (0.8333, 0.7039, 0.5, 0.5, 2 / 3),
      5: (0.7556, 0.8855, 0.6, 0.6, 1),
      10: (0.7556, 0.8855, 0.3, 0.6, 1),
    }

    def native(k):
      return (
        jr.average_precision(*FIVE, k=k, normalizer="retrieved"),
        jr.ndcg(*FIVE, k=k, gain=jr.gains.linear),
        jr.precision(*FIVE, k=k),
        jr.precision(*FIVE, k=k, divisor="retrieved"),
        jr.recall(*FIVE, k=k),
      )

    rounded(jax.jit(jax.vmap(native))(np.array([*expected])), np.transpose([*expected.values()]))
    found = (
      tm.retrieval_average_precision(*FIVE, top_k=10),
      tm.retrieval_normalized_dcg(*FIVE, top_k=10),
      tm.retrieval_precision(*FIVE, top_k=10),
      tm.retrieval_precision(*FIVE, top_k=10, adaptive_k=True),
      tm.retrieval_recall(*FIVE, top_k=10),
    )
    rounded(found, expected[10])
    rounded(tm.retrieval_average_precision(*FIVE, top_k=2), 1)

  def test_graded_gain_is_linear(self):
    grades = np.array([3, 0, 2, 0, 1])
    same(tm.retrieval_normalized_dcg(FIVE[0], grades, 3), 0.840008)
    same(tm.retrieval_normalized_dcg(FIVE[0], grades), 0.921248)
    preds = np.float32([0.1, 0.2, 0.3, 4, 70])
    same(tm.retrieval_normalized_dcg(preds, np.array([10, 0, 0, 1, 5])), 0.695694)

  def test_ties_of_ndcg_and_auroc(self):
    preds, grades = np.float32([0.5, 0.5, 0.1]), np.array([3, 0, 1])
    same(tm.retrieval_normalized_dcg(preds, grades), 0.811471)
    same(tm.retrieval_normalized_dcg(preds, grades, top_k=1), 0.5)
    same(tm.retrieval_auroc(np.zeros(5, np.float32), FIVE[1]), 0.5)

  @pytest.mark.parametrize(
    ("cls", "neg", "pos", "skip", "median", "low", "high"),
    [
      (tm.RetrievalMAP, 0.555556, 0.888889, 0.833333, 0.833333, 0, 0.833333),
      (tm.RetrievalMRR, 0.666667, 1, 1, 1, 0, 1),
      (tm.RetrievalHitRate, 0.666667, 1, 1, 1, 0, 1),
      (tm.RetrievalRecall, 0.666667, 1, 1, 1, 0, 1),
      (tm.RetrievalPrecision, 0.388889, 0.722222, 0.583333, 0.5, 0, 0.666667),
      (tm.RetrievalRPrecision, 0.333333, 0.666667, 0.5, 0.5, 0, 0.5),
      (tm.RetrievalNormalizedDCG, 0.613147, 0.946481, 0.919721, 0.919721, 0, 0.919721),
      (tm.RetrievalAUROC, 0.416667, 0.75, 0.625, 0.5, 0, 0.75),
      (tm.RetrievalFallOut, 1, 1, 1, 1, 1, 1),
    ],
    ids=lambda x: getattr(x, "__name__", None),
  )
  def test_actions_and_aggregations(self, cls, neg, pos, skip, median, low, high):
    found = [cls(action)(*ROWS) for action in ("neg", "pos", "skip")]
    found += [cls("neg", aggregation=how)(*ROWS) for how in ("median", "min", "max")]
    same(found, [neg, pos, skip, median, low, high])

  def test_fall_out_and_precision_at_k(self):
    preds = np.float32([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2])
    target = np.array([False, False, True, False, True, False, True])
    same(tm.RetrievalFallOut(top_k=2)(preds, target, np.array([0, 0, 0, 1, 1, 1, 1])), 0.5)
    two = (np.float32([0.9, 0.8]), np.array([1, 1]), np.array([0, 0]))
    same(tm.RetrievalPrecision(top_k=5)(*two), 0.4)
    same(tm.RetrievalPrecision(top_k=5, adaptive_k=True)(*two), 1.0)

  def test_median_is_the_lower_one(self):
    values = np.float32([0, 1, 0.5, 0.25])
    indexes = np.repeat(np.arange(4), 4)
    target = (np.arange(4) < 4 * values[:, None]).ravel().astype(int)
    preds = np.tile(np.float32([4, 3, 2, 1]), 4)
    same(tm.RetrievalPrecision(aggregation="median")(preds, target, indexes), 0.25)

  def test_curves_of_one_query(self):
    precision = [1, 0.5, 2 / 3, 0.5, 0.6, 0.5, 3 / 7]
    recall = [1 / 3, 1 / 3, 2 / 3, 2 / 3, 1, 1, 1]
    found = tm.retrieval_precision_recall_curve(*FIVE, max_k=7)
    for value, expected in zip(found, (precision, recall, np.arange(1, 8)), strict=True):
      same(value, expected)
    found = tm.retrieval_precision_recall_curve(*FIVE, max_k=7, adaptive_k=True)
    same(found[0], [*precision[:5], 0.6, 0.6])
    np.testing.assert_array_equal(found[2], [1, 2, 3, 4, 5, 5, 5])
    same(tm.retrieval_precision_recall_curve(*FIVE)[0], precision[:5])

  def test_aggregated_curves(self):
    curve = tm.RetrievalPrecisionRecallCurve
    precision, recall, top_k = curve(max_k=4)(*SEED)
    same(precision, [1, 0.5, 2 / 3, 0.5])
    same(recall, [0.5, 0.5, 1, 1])
    np.testing.assert_array_equal(top_k, [1, 2, 3, 4])
    precision, recall, _ = curve(max_k=6)(*ROWS)
    rounded(precision, [0.6667, 0.3333, 0.4444, 0.3333, 0.2667, 0.2222])
    rounded(recall, [0.3333, 0.3333, 0.6667, 0.6667, 0.6667, 0.6667])
    precision, _, top_k = curve(6, True)(*ROWS)
    rounded(precision, [0.6667, 0.3333, 0.4444, 0.3889, 0.3889, 0.3889])
    np.testing.assert_array_equal(top_k, np.arange(1, 7))
    rounded(curve(max_k=4, empty_target_action="skip")(*ROWS)[0], [1, 0.5, 0.6667, 0.5])

  @pytest.mark.parametrize(
    ("options", "expected"),
    [
      *(({"min_precision": p}, (1, 4)) for p in (0.0, 0.3, 0.5)),
      *(({"min_precision": p}, (1, 3)) for p in (0.6, 0.66)),
      *(({"min_precision": p}, (0.5, 1)) for p in (0.8, 1.0)),
      ({"min_precision": 0.5, "max_k": 6, "adaptive_k": True}, (1, 6)),
    ],
  )
  def test_recall_at_fixed_precision(self, options, expected):
    recall, k = tm.RetrievalRecallAtFixedPrecision(**options)(*SEED)
    assert (recall, k) == expected

  def test_recall_at_fixed_precision_of_nothing(self):
    nothing = (PREDS[:4], np.zeros(4, int), np.zeros(4, int))
    assert tm.RetrievalRecallAtFixedPrecision()(*nothing) == (0, 4)

  def test_recall_at_fixed_precision_thresholds_the_aggregated_curve(self):
    rows = (np.float32([0.9, 0.8, 0.9, 0.8]), np.array([1, 1, 0, 1]), np.array([0, 0, 1, 1]))
    assert tm.RetrievalRecallAtFixedPrecision(0.6)(*rows) == (1, 2)


class TestDifferences:
  """Each deliberate difference that `docs/interop.md` lists."""

  def test_scores_of_any_sign_rank(self):
    preds, target = np.float32([2, -1, -3]), np.array([0, 1, 0])
    same(tm.retrieval_average_precision(preds, target), 0.5)
    same(tm.retrieval_reciprocal_rank(preds, target), 0.5)
    same(tm.retrieval_precision(preds, target), 1 / 3)
    same(tm.retrieval_recall(preds, target), 1)
    same(tm.retrieval_hit_rate(preds, target), 1)
    same(tm.retrieval_precision_recall_curve(preds, target)[1], [0, 1, 1])
    same(tm.retrieval_average_precision(np.float32([2, 1, -3]), np.array([1, 0, 1])), 5 / 6)

  def test_minus_infinity_is_the_last_rank(self):
    preds = np.float32([1, -np.inf, 0])
    same(tm.retrieval_recall(preds, np.array([0, 1, 0])), 1)
    same(tm.retrieval_reciprocal_rank(preds, np.array([0, 1, 0])), 1 / 3)

  def test_nan_stays_nan(self):
    rows = (np.float32([np.nan, 1, 2, 1]), np.array([0, 0, 1, 0]), np.array([0, 0, 1, 1]))
    for action in ("neg", "pos"):
      found = tm.RetrievalPrecisionRecallCurve(empty_target_action=action)(*rows)[0]
      assert np.isnan(np.asarray(tm.RetrievalMAP(action)(*rows)))
      assert np.isnan(np.asarray(found)).all()
    same(tm.RetrievalMAP("skip")(*rows), 1)

  @pytest.mark.parametrize("k", [0, -1, 2.0, 0.5, "3", True])
  def test_cut_offs_are_positive_integers_for_every_metric(self, k):
    for cls in (x for x in CLASSES if x is not tm.RetrievalRPrecision):
      with pytest.raises(ValueError, match="`top_k` has to be a positive integer or None"):
        cls(top_k=k)
    for cls in CURVES:
      with pytest.raises(ValueError, match="`max_k` has to be a positive integer or None"):
        cls(max_k=k)
    for name in ("average_precision", "reciprocal_rank", "auroc", "recall", "fall_out"):
      with pytest.raises(ValueError, match="`top_k` has to be a positive integer or None"):
        getattr(tm, f"retrieval_{name}")(*FIVE, top_k=k)
    with pytest.raises(ValueError, match="`max_k` has to be a positive integer or None"):
      tm.retrieval_precision_recall_curve(*FIVE, max_k=k)

  def test_ties_are_averaged_by_every_metric(self):
    preds = np.zeros(5, np.float32)
    for order in ([1, 0, 1, 0, 1], [0, 0, 1, 1, 1]):
      same(tm.retrieval_precision(preds, order, top_k=2), 0.6)
      same(tm.retrieval_recall(preds, order, top_k=2), 0.4)
      same(tm.retrieval_hit_rate(preds, order, top_k=2), 0.9)

  def test_unjudged_grades_gain_nothing(self):
    preds = np.float32([0.5, 0.4, 0.1])
    discount = 1 / np.log2([2, 3, 4])
    expected = discount @ [0, 2, 1] / (discount @ [2, 1, 0])
    same(tm.retrieval_normalized_dcg(preds, np.array([-1, 2, 1])), expected)
    same(tm.retrieval_normalized_dcg(preds, np.array([-1, -2, -1])), 0)
    # Nor do they make a query empty.
    found = tm.RetrievalNormalizedDCG("error")(preds, np.array([-1, 0, 1]), np.zeros(3, int))
    same(found, 0.5)

  def test_large_logits_do_not_saturate(self):
    same(tm.retrieval_auroc(np.float32([30, 20]), np.array([1, 0])), 1)

  def test_scores_of_64_bits_are_not_squeezed(self):
    close = np.array([1.0, 1.0 + 1e-12])
    same(tm.retrieval_reciprocal_rank(close, np.array([0, 1])), 1)

  def test_a_partial_area_needs_a_rate(self):
    for max_fpr in (1, 2.0, 0, 0.0, -0.5, "1"):
      with pytest.raises(ValueError, match=r"`max_fpr` should be a float in range \(0, 1\]"):
        tm.retrieval_auroc(*FIVE, max_fpr=max_fpr)
      with pytest.raises(ValueError, match=r"`max_fpr` should be a float in range \(0, 1\]"):
        tm.RetrievalAUROC(max_fpr=max_fpr)

  def test_fractions_are_no_binary_targets(self):
    with pytest.raises(ValueError, match="`target` must contain `binary` values"):
      tm.retrieval_recall(FIVE[0], np.float32([0.5, 0, 1, 0, 0]))
    same(tm.retrieval_r_precision(FIVE[0], np.float32(FIVE[1])), 2 / 3)

  def test_integers_of_any_width_are_taken(self):
    expected = tm.RetrievalMAP()(*ROWS)
    narrow = (PREDS, TARGET.astype(np.uint8), INDEXES.astype(np.int32))
    assert tm.RetrievalMAP()(*narrow) == expected

  def test_a_function_takes_the_values_alone(self):
    same(tm.RetrievalMAP(aggregation=lambda values: values.sum())(*ROWS), 5 / 3)
    highest = tm.RetrievalPrecisionRecallCurve(aggregation=lambda x: jnp.max(np.asarray(x)))
    precision, _, _ = highest(*ROWS)
    same(precision, [1, 0.5, 2 / 3, 0.5])


def oracle(metric, top_k):
  """The value of one query of the oracle, by the name of a function of torchmetrics."""
  if metric == "average_precision":
    return functools.partial(oracles.average_precision, k=top_k, normalizer="retrieved")
  if metric == "normalized_dcg":
    definition = functools.partial(oracles.ndcg, gains="linear")
  else:
    definition = getattr(oracles, metric)
  if metric == "r_precision":
    return functools.partial(oracles.expectation, definition)
  return functools.partial(oracles.expectation, definition, k=top_k)


NAMED = {
  "average_precision": tm.RetrievalMAP,
  "reciprocal_rank": tm.RetrievalMRR,
  "precision": tm.RetrievalPrecision,
  "recall": tm.RetrievalRecall,
  "hit_rate": tm.RetrievalHitRate,
  "fall_out": tm.RetrievalFallOut,
  "normalized_dcg": tm.RetrievalNormalizedDCG,
  "r_precision": tm.RetrievalRPrecision,
}


def rounds(seed, levels=40):
  """Rows of 16 queries, twenty times: of 1 to 14 items, in any order, tied here and there.

  One shape, so that a metric compiles once.
  """
  rng = np.random.default_rng(seed)
  for _ in range(20):
    indexes = rng.permutation(np.repeat(rng.permutation(99)[:16] - 50, rng.integers(1, 15, 16)))
    preds = np.float32(rng.integers(-levels, levels, len(indexes)) / 4)
    share = rng.random(99)[indexes]
    yield preds, (rng.random(len(indexes)) < share).astype(int), indexes


def by_query(definition, preds, target, indexes):
  """A function of scores and labels, query by query in ascending order of their indexes."""
  queries = [indexes == query for query in np.unique(indexes)]
  return [definition(preds[mine], target[mine]) for mine in queries]


def values_of(cls, rows, *options, **named):
  """The values of all queries, as an aggregation sees them."""
  seen = []
  metric = cls(*options, aggregation=lambda values: seen.append(values) or 0, **named)
  # Queries are cut in two.
  metric.update(*(x[::2] for x in rows))
  metric.update(*(x[1::2] for x in rows))
  metric.compute()
  return seen[0]


@pytest.mark.parametrize("name", NAMED)
def test_agrees_with_definitions(name):
  """320 queries, ties and empty queries among them."""
  top_k = {} if name == "r_precision" else {"top_k": 10}
  value = oracle(name, 10)
  lacking = 1 if name == "fall_out" else 0

  def definition(preds, target):
    return 1.0 if (target == lacking).all() else value(oracles.query(preds, target))

  for rows in rounds(7):
    same(values_of(NAMED[name], rows, "pos", **top_k), by_query(definition, *rows))


@pytest.mark.parametrize("max_fpr", [None, 0.2, 0.5, 1.0])
def test_auroc_agrees_with_scikit_learn(max_fpr):
  roc_auc_score = pytest.importorskip("sklearn.metrics").roc_auc_score

  def definition(preds, target):
    return roc_auc_score(target, preds, max_fpr=max_fpr) if len({*target}) == 2 else 0.0

  for rows in rounds(8, levels=6):
    found = values_of(tm.RetrievalAUROC, rows, max_fpr=max_fpr)
    same(found, by_query(definition, *rows))


def test_auroc_looks_at_the_first_k():
  def definition(preds, target):
    first = np.argsort(-preds)[:4]
    return oracles.auc(oracles.query(preds[first], target[first]))

  for preds, target, indexes in rounds(9):
    rows = (preds + np.linspace(0, 0.2, len(preds), dtype=np.float32), target, indexes)
    same(values_of(tm.RetrievalAUROC, rows, top_k=4), by_query(definition, *rows))


class TestState:
  def test_rows_of_one_index_are_one_query(self):
    whole = tm.RetrievalMRR()(*ROWS)
    metric = tm.RetrievalMRR()
    for row in zip(*ROWS, strict=True):
      metric.update(*(np.array([x]) for x in row))
    assert metric.compute() == whole

  def test_forward_gives_the_value_of_its_rows_and_keeps_them(self):
    metric = tm.RetrievalMRR()
    first = metric(PREDS[:4], TARGET[:4], INDEXES[:4])
    last = metric(PREDS[7:], TARGET[7:], INDEXES[7:])
    assert (first, last) == (1, 0)
    assert metric.compute() == 0.5

  def test_reset_and_clone(self):
    metric = tm.RetrievalMRR(top_k=2)
    metric.update(*ROWS)
    clone = metric.clone()
    metric.reset()
    with warnings.catch_warnings():
      # Of torchmetrics, where it is installed.
      warnings.simplefilter("ignore")
      with pytest.raises(ValueError, match="No samples to concatenate"):
        metric.compute()
    assert clone.compute() == tm.RetrievalMRR(top_k=2)(*ROWS)

  def test_ignored_rows_are_gone(self):
    target = np.where(np.arange(9) >= 7, -100, TARGET)
    metric = tm.RetrievalMAP(ignore_index=-100)
    same(metric(PREDS, target, INDEXES), tm.RetrievalMAP()(*SEED))
    with pytest.raises(ValueError, match="must be non-empty"):
      metric.update(PREDS[7:], target[7:], INDEXES[7:])

  def test_rows_have_any_shape(self):
    square = [np.reshape(x[:8], (2, 4)) for x in ROWS]
    assert tm.RetrievalMAP()(*square) == tm.RetrievalMAP()(*(x.ravel() for x in square))
    assert tm.retrieval_recall(square[0], square[1]) == 1

  def test_everything_skipped(self):
    nothing = (PREDS, np.zeros(9, int), INDEXES)
    assert tm.RetrievalMAP("skip")(*nothing) == 0
    precision, recall, top_k = tm.RetrievalPrecisionRecallCurve(3, False, "skip")(*nothing)
    np.testing.assert_array_equal([precision, recall], np.zeros((2, 3)))
    np.testing.assert_array_equal(top_k, [1, 2, 3])

  def test_long_and_short_queries_keep_their_order(self):
    sizes = np.array([3, 40, 2, 5])
    indexes = np.repeat([3, 2, 1, 0], sizes)
    preds = -np.arange(len(indexes), dtype=np.float32)
    target = np.isin(np.arange(len(indexes)), np.cumsum(sizes) - 1).astype(int)
    same(values_of(tm.RetrievalMRR, (preds, target, indexes)), 1 / sizes[::-1])

  @every
  def test_types_of_results(self, cls):
    value = cls()(*ROWS)
    values = value if isinstance(value, tuple) else (value,)
    assert [np.asarray(x).dtype.kind for x in values] == {1: ["f"], 2: ["f", "i"]}.get(
      len(values), ["f", "f", "i"]
    )
    assert np.asarray(values[0]).dtype == np.float32
    if TENSORS:
      assert {type(x).__name__ for x in values} == {"Tensor"}
    elif len(values) < 3:
      assert all(isinstance(x, np.generic) for x in values)

  @every
  def test_metrics_and_their_rows_can_be_stored(self, cls):
    metric = cls()
    metric.update(*ROWS)
    assert str(pickle.loads(pickle.dumps(metric)).compute()) == str(metric.compute())


class TestMistakes:
  @every
  def test_of_options(self, cls):
    options = {
      "empty_target_action": ("foo", "Argument `empty_target_action` received a wrong value `foo`"),
      "ignore_index": (1.5, "Argument `ignore_index` must be an integer or None."),
      "aggregation": ("foo", "one of `mean`, `median`, `min`, `max` .* but got foo"),
      "adaptive_k": (1, "`adaptive_k` has to be a boolean"),
      "min_precision": (1, "`min_precision` has to be a positive float between 0 and 1"),
      "top": (1, "Unexpected keyword arguments: `top`"),
    }
    for name, (value, message) in options.items():
      known = name in inspect.signature(cls).parameters
      with pytest.raises(ValueError, match=message if known else f"Unexpected .* `{name}`"):
        cls(**{name: value})
    cls(sync_on_compute=False, compute_on_cpu=True)

  def test_of_rows(self):
    metric = tm.RetrievalMAP()
    with pytest.raises(ValueError, match="Argument `indexes` cannot be None"):
      metric.update(PREDS, TARGET, None)
    with pytest.raises(ValueError, match="must be of the same shape"):
      metric.update(PREDS, TARGET, INDEXES[:3])
    with pytest.raises(ValueError, match="`indexes` must be a tensor of long integers"):
      metric.update(PREDS, TARGET, INDEXES.astype(float))
    with pytest.raises(ValueError, match="must be non-empty and non-scalar"):
      metric.update(*(x[:0] for x in ROWS))
    with pytest.raises(ValueError, match="`preds` must be a tensor of floats"):
      metric.update(TARGET, TARGET, INDEXES)
    with pytest.raises(ValueError, match="`target` must be a tensor of booleans"):
      metric.update(PREDS, TARGET.astype(str), INDEXES)
    with pytest.raises(ValueError, match="`target` must contain `binary` values"):
      metric.update(PREDS, TARGET + 1, INDEXES)
    assert not metric.preds

  @every
  def test_too_many_arguments(self, cls):
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\.__init__\(\) takes from 1 to "):
      cls(*range(9))

  def test_of_one_query(self):
    for preds, target, message in (
      (PREDS, TARGET[:3], "`preds` and `target` must be of the same shape"),
      (PREDS[:0], TARGET[:0], "must be non-empty and non-scalar tensors"),
      (PREDS[0], TARGET[0], "must be non-empty and non-scalar tensors"),
      (TARGET, TARGET, "`preds` must be a tensor of floats"),
      (PREDS, TARGET - 1, "`target` must contain `binary` values"),
    ):
      with pytest.raises(ValueError, match=message):
        tm.retrieval_recall(preds, target)
    with pytest.raises(ValueError, match="`adaptive_k` has to be a boolean"):
      tm.retrieval_precision(*FIVE, adaptive_k=1)

  def test_of_empty_queries(self):
    with pytest.raises(ValueError, match="a query with no positive target"):
      tm.RetrievalMAP("error")(*ROWS)
    with pytest.raises(ValueError, match="a query with no positive target"):
      tm.RetrievalPrecisionRecallCurve(empty_target_action="error")(*ROWS)
    with pytest.raises(ValueError, match="a query with no negative target"):
      tm.RetrievalFallOut("error")(PREDS, np.ones(9, int), INDEXES)


def test_a_query_of_one_kind_of_target_has_no_area_whatever_the_action():
  assert tm.RetrievalAUROC("pos")(PREDS, np.ones(9, int), INDEXES) == 0


def test_signatures_are_those_of_the_originals():
  assert [*inspect.signature(tm.RetrievalAUROC).parameters] == [
    "empty_target_action", "ignore_index", "top_k", "max_fpr", "aggregation", "kwargs"
  ]  # fmt: skip
  assert inspect.signature(tm.RetrievalFallOut).parameters["empty_target_action"].default == "pos"
  assert [*inspect.signature(tm.retrieval_precision).parameters] == [
    "preds", "target", "top_k", "adaptive_k"
  ]  # fmt: skip
  assert tm.RetrievalMAP.higher_is_better
  assert not tm.RetrievalFallOut.higher_is_better


def test_plots():
  matplotlib = pytest.importorskip("matplotlib")
  matplotlib.use("Agg")
  from matplotlib import pyplot

  metric = tm.RetrievalPrecisionRecallCurve()
  metric.update(*SEED)
  _, ax = metric.plot()
  assert (ax.get_xlabel(), ax.get_ylabel()) == ("Recall", "Precision")
  assert ax.get_title() == "RetrievalPrecisionRecallCurve"
  same(ax.lines[0].get_xdata(), [0.5, 0.5, 1, 1])
  at = tm.RetrievalRecallAtFixedPrecision(0.8)
  _, ax = at.plot([at(*SEED), at(*ROWS)])
  same(ax.lines[0].get_ydata(), [0.5, 0])
  _, ax = at.plot(at(*SEED)[0])
  same(ax.lines[0].get_ydata(), [0.5])
  mrr = tm.RetrievalMRR()
  mrr.update(*ROWS)
  _, ax = mrr.plot()
  assert ax.get_ylabel() == "RetrievalMRR"
  same(ax.lines[0].get_ydata(), [2 / 3])
  pyplot.close("all")


def test_the_native_call_gives_the_same_numbers():
  batch = jr.pad(INDEXES, PREDS, TARGET)
  values = jr.average_precision(
    batch.scores, batch.labels, where=batch.where, normalizer="retrieved"
  )
  same(jr.aggregate(values), tm.RetrievalMAP()(*ROWS))
