"""Agreement with scikit-learn and scipy, which the tests always have."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

import jaxrank as jr
from tests.helpers.peer_queries import Queries, draw
from tests.helpers.suites import thorough

pytestmark = thorough


TIED = draw(1, levels=6)
DISTINCT = draw(2)
BINARY = draw(3, levels=6, grades=2)


@pytest.mark.parametrize("k", [None, 1, 5, 40])
@pytest.mark.parametrize("queries", [TIED, DISTINCT], ids=["tied", "distinct"])
@pytest.mark.parametrize(("ours", "theirs"), [(jr.ndcg, sk.ndcg_score), (jr.dcg, sk.dcg_score)])
def test_ndcg_and_dcg_are_sklearns(ours, theirs, queries: Queries, k: int | None):
  """Linear gain, ties averaged."""
  expected = [theirs(labels[None], scores[None], k=k) for scores, labels in queries.lists()]
  actual = queries.measure(ours, gain=jr.gains.linear, k=k)
  np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)


def test_stable_ndcg_is_sklearns_without_ties():
  """With `ignore_ties` scikit-learn keeps whatever order its sort gives."""
  actual = DISTINCT.measure(jr.ndcg, gain=jr.gains.linear, ranking=jr.Exact(ties="stable"))
  expected = [
    sk.ndcg_score(labels[None], scores[None], ignore_ties=True)
    for scores, labels in DISTINCT.lists()
  ]
  np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
  "theirs",
  [
    lambda relevant, scores: sk.average_precision_score(relevant, scores),
    lambda relevant, scores: sk.label_ranking_average_precision_score(relevant[None], scores[None]),
  ],
  ids=["average_precision_score", "label_ranking_average_precision_score"],
)
def test_average_precision_is_sklearns_without_ties(theirs):
  """Both of scikit-learn's are the mean precision at the relevant ranks if no scores tie."""
  actual = DISTINCT.measure(jr.average_precision)
  for value, (scores, labels) in zip(actual, DISTINCT.lists(), strict=True):
    if labels.any():  # Without one, scikit-learn warns and gives 0, or gives 1.
      assert value == pytest.approx(theirs(labels > 0, scores), abs=1e-6)
    else:
      assert value == 0


def test_average_precision_score_reads_tied_scores_as_one_threshold():
  """Scikit-learn credits every tied item with the precision at the end of the tie.

  Two tied items, one relevant: scikit-learn has one threshold, with precision 1/2. Over the two
  orders of the items average precision is 1 and 1/2.
  """
  scores, labels = np.zeros(2, np.float32), np.array([1, 0], np.int32)
  assert sk.average_precision_score(labels, scores) == 0.5
  assert jr.average_precision(scores, labels) == 0.75


def test_auc_is_sklearns():
  """A tie of a relevant and a non-relevant item is half a pair."""
  actual = BINARY.measure(jr.auc)
  for value, (scores, labels) in zip(actual, BINARY.lists(), strict=True):
    if len(set(labels)) == 2:
      assert value == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-6)
    else:
      assert value == 0


@pytest.mark.parametrize("queries", [TIED, DISTINCT, BINARY], ids=["tied", "distinct", "binary"])
@pytest.mark.parametrize(
  ("ours", "theirs"),
  [
    (jr.kendall_tau, lambda scores, labels: stats.kendalltau(scores, labels).statistic),
    (jr.spearman, lambda scores, labels: stats.spearmanr(scores, labels).statistic),
    # Somers' D counts concordant less discordant pairs over those whose labels differ.
    (
      jr.ordered_pair_accuracy,
      lambda scores, labels: 0.5 + 0.5 * stats.somersd(labels, scores).statistic,
    ),
  ],
  ids=["kendall_tau", "spearman", "ordered_pair_accuracy"],
)
def test_concordance_is_scipys(ours, theirs, queries: Queries):
  """With ties on either side; scipy has no value where a side is constant, ours is 0."""
  checked = 0
  for value, (scores, labels) in zip(queries.measure(ours), queries.lists(), strict=True):
    if len(set(labels)) > 1 and len(set(scores)) > 1:
      assert value == pytest.approx(theirs(scores, labels), abs=2e-6)
      checked += 1
    elif len(set(labels)) == 1 or ours is not jr.ordered_pair_accuracy:
      assert value == 0
  assert checked > len(queries.scores) // 2
