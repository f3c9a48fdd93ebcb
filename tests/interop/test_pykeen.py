"""The PyKEEN adapter: types, errors, golden numbers, and every deliberate difference."""

import math
import random
import types

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank.interop import pykeen

RANKS, CANDIDATES = np.array([1, 2, 4]), np.array([4, 4, 4])
RESULTS = pykeen.RankBasedMetricResults


def evaluator(kind=pykeen.RankBasedEvaluator, **kwargs):
  given = {"metrics": ["mrr", "hits@k"], "add_defaults": False} | kwargs
  return kind(**given)


def feed(own, ranks, triples, side):
  """Scores of ten entities by which the true one of each triple has its rank."""
  triples = np.array(triples)
  scores = np.full((len(triples), 10), -1.0)
  true = triples[:, 0 if side == "head" else 2]
  for row, rank, entity in zip(scores, ranks, true, strict=True):
    row[entity] = 0
    row[np.flatnonzero(row)[: rank - 1]] = 1
  own.process_scores_(triples, side, scores, np.zeros((len(triples), 1)))


@pytest.mark.parametrize("name", ["mrr", "Mean Reciprocal-Rank", "InverseHarmonicMeanRank", None])
def test_metrics_are_made_by_name(name):
  metric = pykeen.rank_based_metric_resolver.make(name)
  assert type(metric) is pykeen.InverseHarmonicMeanRank
  value = metric(RANKS)
  assert type(value) is float
  assert value == pytest.approx(0.583333, abs=1e-6)
  assert metric.key == "inverse_harmonic_mean_rank"


def test_the_resolver_knows_every_class_and_no_other():
  resolver = pykeen.rank_based_metric_resolver
  assert len(list(resolver)) == 22
  assert resolver.make("hits@", k=3).key == "hits_at_3"
  assert resolver.make("h@k", {"k": 5}).key == "hits_at_5"
  assert [x.key for x in resolver.make_many(["mr", "mrr"])][0] == "arithmetic_mean_rank"
  assert [x.k for x in resolver.make_many(["hits@"], [{"k": 1}, {"k": 3}])] == [1, 3]
  for error in (KeyError, ValueError):
    with pytest.raises(error, match="Invalid RankBasedMetric name: mrrr"):
      resolver.make("mrrr")
  with pytest.raises(TypeError, match="Invalid RankBasedMetric type"):
    resolver.lookup(3)


def test_metrics_take_anything_that_is_an_array():
  metric = pykeen.ArithmeticMeanRank()
  for ranks in ([1, 2, 4], jnp.array([1, 2, 4]), np.array([[1.0], [2], [4]])):
    assert metric(ranks) == pytest.approx(7 / 3)
  assert metric([1, 2, 4], weights=[1, 0, 1]) == 2.5
  assert metric(range(1, 8)) == 4


def test_classes_describe_themselves():
  hits = pykeen.HitsAtK(k=3)
  assert (hits.name, hits.increasing, hits.k, repr(hits)) == ("Hits @ K", True, 3, "HitsAtK(k=3)")
  assert hits.value_range.notate() == "[0, 1]"
  assert pykeen.MedianRank.value_range.notate() == "[1, inf)"
  assert pykeen.ZHitsAtK.value_range.notate() == "(-inf, inf)"
  assert 2 not in pykeen.AdjustedArithmeticMeanRank.value_range
  assert 2 in pykeen.AdjustedArithmeticMeanRank.value_range.approximate(1e-6)
  assert pykeen.ZHitsAtK.supported_rank_types == ("realistic",)
  assert "mr" in pykeen.ArithmeticMeanRank.synonyms


# Key, synonyms, range and whether larger is better of each class of the original.
ABOUT = """
arithmetic_mean_rank | mean_rank mr | [1, inf) | low
inverse_arithmetic_mean_rank | iamr | (0, 1] | high
geometric_mean_rank | gmr | [1, inf) | low
inverse_geometric_mean_rank | igmr | (0, 1] | high
harmonic_mean_rank | hmr | [1, inf) | low
inverse_harmonic_mean_rank | mean_reciprocal_rank mrr | (0, 1] | high
median_rank | | [1, inf) | low
inverse_median_rank | | (0, 1] | high
hits_at_10 | h@k hits@k h@ hits@ hits_at_ h_at_ | [0, 1] | high
standard_deviation | rank_std std | [0, inf) | low
variance | rank_var var | [0, inf) | low
median_absolute_deviation | rank_mad mad | [0, inf) | low
count | rank_count | [0, inf) | high
adjusted_arithmetic_mean_rank | adjusted_mean_rank amr aamr | [0, 2) | low
adjusted_arithmetic_mean_rank_index | adjusted_mean_rank_index amri aamri | [-1, 1] | high
adjusted_geometric_mean_rank_index | gmri agmri | (-inf, 1] | high
adjusted_inverse_harmonic_mean_rank | \
amrr aihmr adjusted_mrr adjusted_mean_reciprocal_rank | (-inf, 1] | high
adjusted_hits_at_10 | \
ahk ah@k ahits@k ah@ ahits@ ahits_at_ ah_at_ adjusted_hits_at_ | (-inf, 1] | high
z_arithmetic_mean_rank | zamr zmr | (-inf, inf) | high
z_geometric_mean_rank | zgmr | (-inf, inf) | high
z_inverse_harmonic_mean_rank | zmrr zihmr | (-inf, inf) | high
z_hits_at_10 | z_hits_at_ zahk | (-inf, inf) | high
"""


def test_every_class_has_the_names_and_the_range_of_the_original():
  rows = [[x.strip() for x in line.split("|")] for line in ABOUT.split("\n") if line]
  classes = {cls().key: cls for cls in pykeen.rank_based_metric_resolver}
  assert [row[0] for row in rows] == [*classes]
  for key, synonyms, bounds, better in rows:
    cls = classes[key]
    assert set(synonyms.split()) <= set(cls.synonyms)
    assert cls.value_range.notate() == bounds
    upper = float(bounds.split(", ")[1][:-1])
    assert cls.value_range.upper == (None if key.startswith("z_") else upper)
    assert (math.inf in cls.value_range) == key.startswith("z_")
    assert cls.increasing == (better == "high")
    realistic_only = key.startswith(("adjusted", "z_"))
    assert (len(cls.supported_rank_types) == 1) == cls.needs_candidates == realistic_only
    assert cls.supports_weights == (key != "count")


def test_adjusted_metrics_are_affine_in_their_base():
  for cls, expected in (
    (pykeen.AdjustedArithmeticMeanRankIndex, 0.111111),
    (pykeen.ZArithmeticMeanRank, 0.258199),
    (pykeen.AdjustedArithmeticMeanRank, 0.933333),
  ):
    metric = cls()
    assert metric(RANKS, CANDIDATES) == pytest.approx(expected, abs=1e-6)
    scale, offset = metric.get_coefficients(CANDIDATES)
    assert scale * metric.base(RANKS) + offset == pytest.approx(expected, abs=1e-6)
    assert metric.adjust(metric.base(RANKS), CANDIDATES) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match=f"{cls.__name__} requires number of candidates."):
      metric(RANKS)
  z = pykeen.ZMetric(base_cls="median_rank")
  assert z([1, 1, 2], [4, 4, 4]) == pytest.approx(1.5 / math.sqrt(0.875))
  assert z.variance([4, 4, 4]) == 1.0
  with pytest.raises(pykeen.NoClosedFormError):
    pykeen.ZMetric(base_cls=pykeen.InverseMedianRank)


def test_z_scores_see_weights_as_scales():
  """Two equal ranks are more evidence than one of twice the weight."""
  z = pykeen.ZArithmeticMeanRank()
  assert z([1, 1, 3], [5, 5, 5]) == pytest.approx(1.63299, abs=1e-5)
  assert z([1, 3], [5, 5], [2, 1]) == pytest.approx(1.26491, abs=1e-5)


def test_what_is_estimated_needs_a_number_of_samples():
  metric = pykeen.InverseMedianRank()
  with pytest.raises(pykeen.NoClosedFormError, match="requires to specify a number of samples"):
    metric.expected_value(CANDIDATES)
  generator = np.random.default_rng(0)
  value = metric.variance(CANDIDATES, num_samples=50, generator=generator)
  assert type(value) is float
  values = [
    metric.get_sampled_values(
      CANDIDATES, 50, generator=np.random.default_rng(0), memory_intense=dense
    )
    for dense in (True, False)
  ]
  assert np.array_equal(*values)
  assert value == pytest.approx(values[0].var(ddof=1))


def test_intervals_that_were_run():
  metric, candidates = pykeen.InverseHarmonicMeanRank(), np.array([10, 20, 30])

  def rng():
    return np.random.default_rng(0)

  assert metric.expected_value(candidates) == pytest.approx(0.201983, abs=1e-6)
  assert metric.variance(candidates) == pytest.approx(0.016960, abs=1e-6)
  drawn = {"num_candidates": candidates, "num_samples": 500}
  assert metric.numeric_expected_value(**drawn, generator=rng()) == pytest.approx(0.19137, abs=1e-5)
  assert metric.numeric_variance(**drawn, generator=rng()) == pytest.approx(0.01548, abs=1e-6)
  interval = metric.numeric_expected_value_with_ci(**drawn, generator=rng())
  assert interval.tolist() == pytest.approx([0.18012, 0.19120, 0.20224], abs=1e-5)
  with pytest.raises(ValueError, match=r"Invalid confidence_level=50. Should be in \(50, 100\)."):
    metric.numeric_variance_with_ci(**drawn, confidence_level=50)


def test_the_median_of_an_even_number_is_exact():
  """The original has the upper median: 2.8333 and .8056, 1.75, 2.475."""
  median = pykeen.MedianRank()
  assert median.expected_value([3, 4]) == pytest.approx(2.25)
  assert median.variance([3, 4]) == pytest.approx(0.479167, abs=1e-6)
  assert median.expected_value([2, 2]) == pytest.approx(1.5)
  assert median.variance([2, 2]) == pytest.approx(0.125)
  assert median.expected_value([2, 3, 4, 5]) == pytest.approx(2.095833, abs=1e-6)
  assert median.variance([2, 3, 4, 5]) == pytest.approx(0.3846, abs=5e-5)
  assert median.expected_value([3, 4, 5]) == pytest.approx(2.4)
  assert median.variance([3, 4, 5]) == pytest.approx(0.773333, abs=1e-6)


def test_half_of_the_weight_is_half_also_when_rounded():
  """The original takes 5, because ten times .1 is not 1."""
  assert pykeen.MedianRank()(np.arange(1, 11), weights=np.full(10, 0.1)) == pytest.approx(5.5)
  assert pykeen.MedianRank()([1, 2, 3], weights=[1, 1, 2]) == pytest.approx(2.5)


def test_spread_takes_weights():
  ranks, weights = [1, 1, 4], [1, 1, 2]
  assert pykeen.Variance()(ranks, weights=weights) == pytest.approx(2.25)
  assert pykeen.StandardDeviation()(ranks, weights=weights) == pytest.approx(1.5)
  scaled = pykeen.MedianAbsoluteDeviation()(ranks, weights=weights)
  assert scaled == pytest.approx(1.5 / 0.6744897501960817)


def test_the_variance_of_ranks_has_a_closed_expectation():
  ranks = np.stack(np.meshgrid([1, 2, 3], [1, 2, 3, 4], indexing="ij"), -1).reshape(-1, 2)
  expected = ranks.var(axis=1).mean()
  assert pykeen.Variance().expected_value([3, 4]) == pytest.approx(expected)
  assert pykeen.Count().expected_value([3, 4]) == 2
  assert pykeen.Count().variance([3, 4]) == 0


def test_inputs_that_cannot_be_right():
  assert math.isnan(pykeen.ArithmeticMeanRank()([]))
  assert pykeen.Count()([]) == 0
  with pytest.raises(pykeen.NoWeightSupportError):
    pykeen.Count()([1, 2], weights=[1, 1])
  with pytest.raises(ZeroDivisionError):
    pykeen.ArithmeticMeanRank()([1, 2], weights=[0, 0])
  with pytest.raises(ValueError, match="num_candidates must be at least 1"):
    pykeen.InverseHarmonicMeanRank().expected_value([0, 3])
  # The original takes a rank of 0 for the best of all.
  assert math.isnan(pykeen.InverseHarmonicMeanRank()([0, 2]))


def mistakes():
  median, inverse = pykeen.MedianRank(), pykeen.InverseMedianRank()
  ranks, batch = pykeen.Ranks.from_scores, np.array([[0, 0, 1]])
  process = pykeen.RankBasedEvaluator(metrics=["mrr"], add_defaults=False).process_scores_
  unfiltered = evaluator(filtered=False).process_scores_
  return [
    (TypeError, "ranks must be numbers, got None", lambda: median(None)),
    (TypeError, "ranks must be numbers", lambda: median(["a"])),
    (
      ValueError,
      "weights must be one for each of 2 ranks, got 3",
      lambda: median([1, 2], None, [1] * 3),
    ),
    (TypeError, "weights must be numbers", lambda: median([1, 2], weights="ab")),
    (
      ValueError,
      "num_candidates must be one for each of 2 ranks, got 3",
      lambda: pykeen.AdjustedArithmeticMeanRank()([1, 2], [3, 3, 3]),
    ),
    (TypeError, "num_candidates must be numbers", lambda: median.expected_value(None)),
    (
      ValueError,
      "num_samples must be at least 1",
      lambda: inverse.expected_value([3], num_samples=0),
    ),
    (TypeError, "num_samples must be an int", lambda: inverse.expected_value([3], 2.5)),
    (ValueError, "num_samples must be at least 2", lambda: inverse.variance([3], num_samples=1)),
    (TypeError, "positive integer, got None", lambda: pykeen.HitsAtK(None)),
    (ValueError, r"true_score must be \[batch, 1\]", lambda: ranks([0.5], [[0.5, 0.1]])),
    (ValueError, r"all_scores \[batch, n\], got .* \[2\]", lambda: ranks([[0.5]], [0.5, 0.1])),
    (TypeError, "all_scores must be numbers", lambda: ranks([[0.5]], [["a"]])),
    (
      ValueError,
      r"y_pred must be \[1, 'n'\], got \[2, 1\]",
      lambda: pykeen.RankBuilder([0.5]).update([[1.0], [2.0]]),
    ),
    (
      ValueError,
      "target must be one of 'head', 'tail'",
      lambda: process(batch, "both", [[0.0] * 2]),
    ),
    (ValueError, r"triples \[n, 3\], got \[1, 2\]", lambda: process([[0, 0]], "tail", [[0.0] * 2])),
    (TypeError, "integer ids, got float64", lambda: process([[0.5, 0, 1]], "tail", [[0.0] * 2])),
    (ValueError, r"scores must be \[1, entities\]", lambda: process(batch, "tail", [0.0] * 2)),
    (ValueError, "scores of 1 entities lack that of 1", lambda: unfiltered(batch, "tail", [[0.0]])),
    (TypeError, r"unexpected arguments: \['filter'\]", lambda: evaluator(filter=True)),
    (TypeError, "name of a metric must be a string, got 3", lambda: RESULTS.key_from_string(3)),
    (
      ValueError,
      "Invalid RankBasedMetric name: hits@-1",
      lambda: RESULTS.key_from_string("hits@-1"),
    ),
    (TypeError, "data must be a dictionary", lambda: RESULTS(None)),
    (ValueError, "no values", lambda: pykeen.summarize_values([])),
    (TypeError, "name of one of numpy .'mode'", lambda: pykeen.summarize_values([1], "mode")),
    (ValueError, "pairs of a row", lambda: pykeen.filter_scores_(np.zeros((1, 2)), [[0, 9]])),
    (ValueError, "num_samples must be at least 1", lambda: pykeen.sample_negatives(batch, None, 0)),
    (ValueError, "num_candidates must be at least 1", lambda: pykeen.generate_ranks([0])),
  ]


def test_mistakes_say_what_was_expected_and_what_came():
  for error, message, call in mistakes():
    with pytest.raises(error, match=message):
      call()


def test_scores_that_cannot_change_are_filtered_in_a_copy():
  for scores in ([[1.0, 2.0]], jnp.array([[1.0, 2.0]])):
    filtered = pykeen.filter_scores_(scores, [[0, 1]])
    assert np.isnan(filtered).tolist() == [[False, True]]
    assert not np.isnan(np.array(scores)).any()


def test_helpers():
  ranks = pykeen.generate_ranks(np.array([1, 3, 5]), (200,), 0)
  assert ranks.shape == (200, 3)
  assert ranks.max(0).tolist() == [1, 3, 5]
  ranks, candidates = pykeen.generate_num_candidates_and_ranks(100, 7, 0)
  assert np.all((ranks >= 1) & (ranks <= candidates) & (candidates < 7))
  assert pykeen.generalized_harmonic_numbers(3).tolist() == pytest.approx([1, 1.5, 11 / 6])
  assert pykeen.harmonic_variances(2).tolist() == pytest.approx([0, 0.0625])


def test_ranks_of_scores():
  scores = np.array([[0.5, 0.9, 0.5, 0.5, 0.1]] * 2)
  scores[1, 2] = np.nan
  ranks = pykeen.Ranks.from_scores(np.array([[0.5], [0.5]]), scores)
  assert ranks.optimistic.tolist() == [2, 2]
  assert ranks.realistic.tolist() == [3, 2.5]
  assert ranks.pessimistic.tolist() == [4, 3]
  assert ranks.number_of_options.tolist() == [5, 4]
  assert list(dict(ranks.items())) == ["optimistic", "realistic", "pessimistic"]


def test_ranks_of_scores_that_are_not_numbers_or_not_there():
  """The original ranks NaN first, an absent true score below its best, and hides infinities."""
  scores = np.array([[np.nan, 2.0, 1.0], [5.0, 2.0, 1.0], [np.inf, 2.0, -np.inf]])
  ranks = pykeen.Ranks.from_scores(np.array([[np.nan], [3.0], [2.0]]), scores)
  assert ranks.optimistic.tolist() == [0, 2, 2]
  assert ranks.pessimistic.tolist() == [0, 2, 2]
  assert np.isnan(ranks.realistic[0])
  assert ranks.number_of_options.tolist() == [2, 3, 3]


def test_ranks_of_scores_in_batches():
  builder = pykeen.RankBuilder(y_true=np.array([0.2, 0.1]))
  for scores in ([[0.5, 0.2], [0.0, np.nan]], [[0.1, 0.9], [0.1, 0.3]]):
    builder = builder.update(np.array(scores))
  ranks = builder.compute()
  assert ranks.optimistic.tolist() == [3, 2]
  assert ranks.pessimistic.tolist() == [4, 3]
  assert ranks.realistic.tolist() == [3.5, 2.5]
  # The original leaves the true score out of these.
  assert ranks.number_of_options.tolist() == [5, 4]


@pytest.mark.parametrize(
  ("name", "key"),
  [
    (None, "both.realistic.inverse_harmonic_mean_rank"),
    ("both.realistic.mean_rank", "both.realistic.arithmetic_mean_rank"),
    ("adjusted_mean_rank_index", "both.realistic.adjusted_arithmetic_mean_rank_index"),
    ("head.mean_rank", "head.realistic.arithmetic_mean_rank"),
    ("optimistic.mean_rank", "both.optimistic.arithmetic_mean_rank"),
    ("worst.MRR", "both.pessimistic.inverse_harmonic_mean_rank"),
    ("hits@k", "both.realistic.hits_at_10"),
    ("hits@5", "both.realistic.hits_at_5"),
    ("h@1", "both.realistic.hits_at_1"),
    ("hits_at_3", "both.realistic.hits_at_3"),
    ("hits_at_k.3", "both.realistic.hits_at_3"),
    # Names that the original refuses, or answers with the last cut-off it has.
    ("z_hits_at_k.3", "both.realistic.z_hits_at_3"),
    ("adjusted_hits_at_5", "both.realistic.adjusted_hits_at_5"),
    ("ah@5", "both.realistic.adjusted_hits_at_5"),
    ("adjusted_hits_at_k", "both.realistic.adjusted_hits_at_10"),
  ],
)
def test_keys(name, key):
  assert RESULTS.key_to_string(name) == key
  assert RESULTS.key_from_string(key) == tuple(key.split("."))


@pytest.mark.parametrize(
  "name", ["hits@0", "optimistic.amri", "Head.mrr", "mrrr", "mrr.3", "both.realistic", "a.b.c.d"]
)
def test_keys_that_are_none(name):
  with pytest.raises(ValueError, match="Invalid|at least 1|no cut-off"):
    RESULTS.key_from_string(name)


def test_results_are_looked_up_by_any_name():
  results = RESULTS({"both.realistic.hits_at_10": 0.5, "head.mrr": 0.25})
  assert results.get_metric("hits@10") == 0.5
  assert results.get_metric(("head", "realistic", "inverse_harmonic_mean_rank")) == 0.25
  assert results.to_flat_dict()["head.realistic.inverse_harmonic_mean_rank"] == 0.25
  assert results.to_dict()["both"] == {"realistic": {"hits_at_10": 0.5}}
  with pytest.raises(KeyError):
    results.get_metric("mr")


BATCH = [[0, 0, 1], [2, 0, 1], [0, 0, 3]]


def test_an_evaluator_joins_the_tasks_of_both_sides():
  own = evaluator()
  feed(own, [1, 2, 4], BATCH, "head")
  feed(own, [3, 10, 1], BATCH, "tail")
  results = own.finalize()
  assert results.get_metric("head.mrr") == pytest.approx(0.583333, abs=1e-6)
  assert results.get_metric("tail.mrr") == pytest.approx((1 / 3 + 1 / 10 + 1) / 3)
  joined = (1 + 1 / 2 + 1 / 4 + 1 / 3 + 1 / 10 + 1) / 6
  assert results.get_metric("mrr") == pytest.approx(joined)
  assert results.get_metric("both.pessimistic.hits@10") == 1
  assert all(type(value) is float for value in results.to_flat_dict().values())
  with pytest.raises(ValueError, match="there are no ranks"):
    own.finalize()


def test_realistic_ranks_are_not_rounded_to_float32():
  """The original gives .27777779."""
  own = evaluator()
  feed(own, [3, 3, 6], BATCH, "head")
  feed(own, [3, 3, 6], BATCH, "tail")
  assert own.finalize().get_metric("mrr") == pytest.approx(5 / 18, abs=1e-15)


def test_an_evaluator_has_every_metric_by_default():
  own = pykeen.RankBasedEvaluator()
  keys = {metric.key for metric in own.metrics}
  assert {f"{x}hits_at_{k}" for x in ("", "z_", "adjusted_") for k in (1, 3, 5, 10)} < keys
  assert len(keys) == len(own.metrics) == 12 + 19
  assert len(pykeen.RankBasedEvaluator(metrics=["mrr"], add_defaults=False).metrics) == 1


def test_an_evaluator_without_a_filter_finds_the_true_scores():
  """The original cannot."""
  scores = np.array([[0.5, 0.9, 0.1], [0.1, 0.2, 0.3]])
  own = evaluator(filtered=False)
  own.process_scores_(np.array([[0, 0, 1], [0, 0, 2]]), "tail", scores)
  assert own.finalize().get_metric("mrr") == 1
  with pytest.raises(ValueError, match="RankBasedEvaluator needs the true scores!"):
    evaluator().process_scores_(np.array([[0, 0, 1]]), "tail", scores[:1])


def test_known_answers_are_filtered():
  batch, known = np.array([[0, 0, 1], [2, 1, 1]]), np.array([[0, 0, 1], [0, 0, 2], [3, 0, 1]])
  pairs, by_relation = pykeen.create_sparse_positive_filter_(batch, known, filter_col=2)
  assert pairs.tolist() == [[0, 1], [0, 2]]
  pairs, _ = pykeen.create_sparse_positive_filter_(batch, known, by_relation)
  assert pairs.tolist() == [[0, 0], [0, 3]]
  scores = pykeen.filter_scores_(np.zeros((2, 4)), pairs)
  assert np.isnan(scores).tolist() == [[True, False, False, True], [False] * 4]
  with pytest.raises(NotImplementedError):
    pykeen.create_sparse_positive_filter_(batch, known, filter_col=1)


def test_every_query_counts_once_in_macro_averages():
  own = evaluator(pykeen.MacroRankBasedEvaluator, clear_on_finalize=False)
  triples = [[0, 0, 1], [2, 0, 3], [2, 0, 1]]
  feed(own, [3, 3, 6], triples, "head")
  results = own.finalize()
  assert results.get_metric("head.mrr") == pytest.approx(0.291667, abs=1e-6)
  resampled = own.finalize_multi(n_boot=20)["head.realistic.inverse_harmonic_mean_rank"]
  rows = [np.random.default_rng(42 + i).integers(3, size=3) for i in range(20)]
  # The original forgets the weights here.
  reciprocal, weights = 1 / np.array([3, 3, 6]), np.array([0.5, 1, 0.5])
  expected = [np.average(reciprocal[x], weights=weights[x]) for x in rows]
  np.testing.assert_allclose(resampled, expected)
  counting = evaluator(pykeen.MacroRankBasedEvaluator, metrics=["count"])
  feed(counting, [3], triples[:1], "head")
  with pytest.raises(pykeen.NoWeightSupportError):
    counting.finalize()
  assert "count" not in {x.key for x in pykeen.MacroRankBasedEvaluator().metrics}


def test_macro_averages_that_were_run():
  own = evaluator(pykeen.MacroRankBasedEvaluator)
  feed(own, [3, 3, 6], [[0, 0, 1], [2, 0, 3], [2, 0, 1]], "head")
  feed(own, [3, 3, 6], [[0, 0, 1], [0, 0, 3], [2, 0, 1]], "tail")
  results = own.finalize()
  values = [results.get_metric(f"{side}.mrr") for side in ("head", "tail", "both")]
  assert values == pytest.approx([0.291667, 0.25, 0.270833], abs=1e-6)


def test_an_interval_of_confidence_holds_what_it_says():
  """The original gives the central tenth for 90."""
  assert pykeen.summarize_values(np.arange(101.0), np.mean, 90) == (50, 90)
  assert pykeen.summarize_values(np.arange(101.0), "median", "std")[0] == 50
  with pytest.raises(ValueError, match="Invalid CI value: 101"):
    pykeen.summarize_values([1.0], ci=101)
  own = evaluator()
  feed(own, [1, 2, 4], BATCH, "head")
  centre, width = own.finalize_with_confidence(n_boot=50)["both.realistic.hits_at_10"]
  assert (centre, width) == (1, 0)


def test_sizes_of_candidate_sets_are_those_that_are_ranked_among():
  """The original's are one less than what its evaluator ranks among: 7 for 8."""
  triples = np.array([[0, 0, 1], [0, 0, 2], [3, 1, 1], [4, 0, 5]])
  more = np.array([[0, 0, 3], [0, 0, 1], [6, 0, 1]])
  sizes = pykeen.get_candidate_set_size(triples, None, None, more, 10)
  assert [*sizes] == ["index", "head", "relation", "tail", "head_candidates", "tail_candidates"]
  known = np.concatenate([triples, more])
  for side, column in (("head", 0), ("tail", 2)):
    pairs, _ = pykeen.create_sparse_positive_filter_(triples, known, filter_col=column)
    scores = pykeen.filter_scores_(np.zeros((4, 10)), pairs)
    scores[np.arange(4), triples[:, column]] = 1
    ranks = pykeen.Ranks.from_scores(np.ones((4, 1)), scores)
    assert sizes[f"{side}_candidates"].tolist() == ranks.number_of_options.tolist()
  assert sizes["tail_candidates"].tolist() == [8, 8, 10, 10]
  few = pykeen.get_candidate_set_size(triples, {0, 1, 2}, [0], more)
  assert (few["tail"].tolist(), few["tail_candidates"].tolist()) == ([1, 2], [2, 2])
  assert pykeen.get_candidate_set_size(triples)["head_candidates"].tolist() == [6] * 4


def test_negatives_are_no_known_answers():
  random.seed(0)
  triples = np.array([[0, 0, 1], [2, 0, 1], [3, 1, 4]])
  negatives = pykeen.sample_negatives(triples, [[4, 0, 1]], num_samples=2, num_entities=6)
  assert negatives["head"].shape == negatives["tail"].shape == (3, 2)
  assert not set(negatives["head"][:2].ravel()) & {0, 2, 4}
  assert 4 not in negatives["tail"][2]
  assert pykeen.sample_negatives(triples, num_samples=9, num_entities=6)["head"].shape == (3, 9)


def test_a_sampled_evaluator_ranks_among_the_negatives():
  triples = np.array([[0, 0, 1], [1, 0, 2]])
  factory = types.SimpleNamespace(mapped_triples=triples, num_entities=4)
  own = evaluator(
    lambda **kwargs: pykeen.SampledRankBasedEvaluator(factory, **kwargs),
    metrics=["mr", "amr"],
    head_negatives=[[2, 3], [2, 3]],
    tail_negatives=[[0, 3], [0, 3]],
  )
  scores = np.array([[0.9, 0.5, 0.8, 0.1], [0.9, 0.5, 0.2, 0.1]])
  own.process_scores_(triples, "tail", scores, np.array([[0.5], [0.2]]))
  results = own.finalize()
  assert results.get_metric("tail.mr") == 2
  assert results.get_metric("amr") == 1
  assert pykeen.SampledRankBasedEvaluator(factory, num_negatives=3).negative_samples["head"].shape
  for kwargs, message in (
    ({"head_negatives": [[1]]}, "Either both, head and tail negatives must be provided, or none."),
    ({"num_negatives": 5}, "Cannot use more negative samples than there are entities."),
    ({"head_negatives": [[1]], "tail_negatives": [[1]]}, "Negatives for head are in wrong shape"),
  ):
    with pytest.raises(ValueError, match=message):
      pykeen.SampledRankBasedEvaluator(factory, **kwargs)
