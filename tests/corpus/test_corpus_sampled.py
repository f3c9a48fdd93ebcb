"""Corrections of metrics of a sample, against sums over all its outcomes."""

import math

import numpy as np
import pytest

from jaxrank import corpus

SAMPLED, ITEMS = 5, 40


def outcomes():
  """`[ranks, sampled ranks]`, the chance of each, term by term."""
  table = np.zeros((ITEMS, SAMPLED + 1))
  for rank in range(1, ITEMS + 1):
    p = (rank - 1) / (ITEMS - 1)
    for hits in range(SAMPLED + 1):
      table[rank - 1, hits] = math.comb(SAMPLED, hits) * p**hits * (1 - p) ** (SAMPLED - hits)
  return table


RANKS, CHANCES = np.arange(1, ITEMS + 1), outcomes()


def reciprocal(rank):
  return 1 / rank


def hits(rank):
  return rank <= 3


def test_the_rank_is_unbiased():
  estimate = corpus.unsampled_rank(np.arange(1, SAMPLED + 2), SAMPLED, ITEMS)
  np.testing.assert_allclose(CHANCES @ estimate, RANKS, rtol=1e-12)


def risk(table, metric, tradeoff):
  """What the table is the least of, by its definition."""
  mean = CHANCES @ table
  variance = (CHANCES * (table - mean[:, None]) ** 2).sum(axis=1)
  return (((mean - metric(RANKS)) ** 2) + tradeoff * variance).sum()


@pytest.mark.parametrize("metric", [reciprocal, hits])
@pytest.mark.parametrize("tradeoff", [0.01, 0.1, 1.0])
def test_no_other_table_has_less_bias_and_variance(metric, tradeoff):
  table = corpus.unsampled_metric(metric, SAMPLED, ITEMS, tradeoff=tradeoff)
  least = risk(table, metric, tradeoff)
  for seed in range(20):
    other = table + np.random.default_rng(seed).normal(0, 1e-3, table.shape)
    assert risk(other, metric, tradeoff) > least


def test_a_full_price_of_variance_is_the_mean_given_the_sample():
  table = corpus.unsampled_metric(reciprocal, SAMPLED, ITEMS, tradeoff=1)
  expected = (CHANCES * reciprocal(RANKS)[:, None]).sum(axis=0) / CHANCES.sum(axis=0)
  np.testing.assert_allclose(table, expected, rtol=1e-9)


def test_polynomials_of_the_rank_have_no_bias():
  table = corpus.unsampled_metric(lambda r: r**2, SAMPLED, ITEMS, tradeoff=0)
  np.testing.assert_allclose(CHANCES @ table, RANKS**2, rtol=1e-8)


def test_many_items_are_summed_in_blocks():
  """With the prior of 10,000 ranks, the mean of the corrected metric is that of the metric."""
  items, sampled = 10_000, 50
  table = corpus.unsampled_metric(hits, sampled, items, tradeoff=1)
  chance = (np.arange(items) / (items - 1))[:, None]
  best = (1 - chance[:, 0]) ** sampled
  np.testing.assert_allclose(table[0], best[:3].sum() / best.sum(), rtol=1e-9)


def test_sampled_metrics_mislead_and_corrected_ones_less():
  """One model is often first or far behind, the other never bad: hits at 10 tell them apart."""
  rng = np.random.default_rng(0)
  items, sampled = 10_000, 100
  ranks = {
    "first or far": np.where(rng.random(4000) < 0.3, 1, 5000),
    "never bad": rng.integers(50, 300, 4000),
  }
  table = corpus.unsampled_metric(lambda r: r <= 10, sampled, items, tradeoff=0.01)
  plain, corrected = {}, {}
  for name, rank in ranks.items():
    drawn = rng.binomial(sampled, (rank - 1) / (items - 1))
    plain[name], corrected[name] = (drawn < 10).mean(), table[drawn].mean()
  assert plain["never bad"] > plain["first or far"]
  assert corrected["never bad"] < corrected["first or far"]


@pytest.mark.parametrize(
  ("call", "message"),
  [
    (lambda: corpus.unsampled_rank([0], 5, 10), "ranks must be from 1 to sampled"),
    (lambda: corpus.unsampled_rank([7], 5, 10), "ranks must be from 1 to sampled"),
    (lambda: corpus.unsampled_rank([1], 0, 10), "sampled must be at least 1"),
    (lambda: corpus.unsampled_metric(hits, 5, 0), "items must be at least 1"),
    (lambda: corpus.unsampled_metric(hits, 5, 10, tradeoff=2), "tradeoff must be in \\[0, 1\\]"),
    (lambda: corpus.unsampled_metric(sum, 5, 10), "one value for each rank"),
  ],
)
def test_what_is_out_of_range_is_told(call, message):
  with pytest.raises(ValueError, match=message):
    call()


def test_what_is_no_number_is_told():
  with pytest.raises(TypeError, match="items must be an int"):
    corpus.unsampled_metric(hits, 5, 10.5)
  with pytest.raises(TypeError, match="metric must be a function"):
    corpus.unsampled_metric("mrr", 5, 10)
  with pytest.raises(ValueError, match="metric must be finite, got inf at rank 1"):
    corpus.unsampled_metric(lambda r: np.where(r == 1, np.inf, 0), 5, 10)


def test_one_item_is_always_first():
  assert corpus.unsampled_rank(1, 3, 1) == 1
  np.testing.assert_allclose(corpus.unsampled_metric(reciprocal, 3, 1)[0], 1)
