"""The functions of ptranking: its own numbers, its shapes, and where they are mended."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.interop import ptranking as pt

FOUND = [[1, 0, 1, 0, 1]]
BEST = [[1, 1, 1, 0, 0]]
GRADES = [[3, 0, 2, 0, 1]]
BEST_GRADES = [[3, 2, 1, 0, 0]]
COVERS = np.float32([[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]])
BEST_COVERS = COVERS[:, [2, 1, 0, 3]]
DOCS = {"a": ["1"], "b": ["3"], "c": ["1", "2"]}
KS = [1, 2, 3, 4, 5]


def same(actual, expected, decimals=4):
  """Equal to the digits that were published, to float32."""
  assert np.shape(actual) == np.shape(expected)
  np.testing.assert_allclose(actual, expected, rtol=2e-7, atol=0.5 * 10.0**-decimals)


def test_precision_average_precision_and_ndcg():
  same(pt.torch_precision_at_ks(FOUND, KS), [[1, 0.5, 0.6667, 0.5, 0.6]])
  same(pt.torch_ap_at_ks(FOUND, BEST, KS), [[1, 0.5, 0.5556, 0.5556, 0.7556]])
  same(pt.torch_ndcg_at_ks(FOUND, BEST, KS), [[1, 0.6131, 0.7039, 0.7039, 0.8855]])
  same(pt.torch_ap_at_ks(FOUND, np.ones((1, 5)), [1, 3, 5]), [[1, 0.5556, 0.4533]])
  system, ideal = [[1, 1, 0, 1, 0, 0, 1]], [[1, 1, 1, 1, 0, 0, 0]]
  ndcg = [[1, 1, 0.76536, 0.80481, 0.80481, 0.80481, 0.93494]]
  same(pt.torch_ndcg_at_ks(system, ideal, range(1, 8)), ndcg, 5)


def test_graded_labels():
  lists = GRADES, BEST_GRADES
  same(pt.torch_ndcg_at_ks(*lists, [3, 5]), [[0.904950, 0.946136]], 6)
  permutation = {"label_type": pt.LABEL_TYPE.Permutation}
  same(pt.torch_ndcg_at_ks(*lists, [3, 5], **permutation), [[0.840008, 0.921248]], 6)
  # Any grade is relevant: the original divides by the sum of the grades.
  same(pt.torch_ap_at_ks(*lists, [1, 3, 5]), [[1, 0.5556, 0.7556]])
  same(pt.torch_dcg_at_k([[3, 2, 3, 0, 1, 2]], 6), [[13.8483]])
  same(pt.torch_ndcg_at_k([[3, 2, 3, 0, 1, 2]], [[3, 3, 2, 2, 1, 0]], 6), [[0.9488]])
  same(pt.torch_dcg_at_ks(FOUND, 3), [[1, 1, 1.5]])


def test_expected_reciprocal_rank():
  for best, err in ((3, [0.875, 0.890625, 0.892578]), (4, [0.4375, 0.472656, 0.478369])):
    upto = pt.torch_rankwise_err(GRADES, max_label=best, k=5, point=False)
    assert upto.shape == (1, 5)
    same(upto[:, [0, 2, 4]], [err], 6)
    same(pt.torch_rankwise_err(GRADES, max_label=best, k=3), [err[1:2]], 6)
  same(pt.torch_nerr_at_k(GRADES, BEST_GRADES, 3), [[0.987726]], 6)
  same(pt.torch_nerr_at_k(GRADES, BEST_GRADES, 3, max_label=4), [[0.945774]], 6)
  same(pt.torch_rankwise_err([[0, 1, 0]], 1, k=3), [[0.25]])
  same(pt.torch_rankwise_err([[0, 1, 0]], 3, k=3), [[0.0625]])
  same(pt.torch_nerr_at_ks([[3, 2, 4]], [[4, 3, 2]], [1, 2, 3]), [[0.46667, 0.51540, 0.66402]], 5)


def test_the_best_grade_is_that_of_each_query():
  lists = [[0, 1, 1], [3, 0, 0]], [[1, 1, 0], [3, 0, 0]]
  same(pt.torch_nerr_at_k(*lists, 3), [[0.5333], [1]])
  same(pt.torch_nerr_at_k(*lists, 3, max_label=3), [[0.5507], [1]])
  same(pt.torch_nerr_at_k(*lists, 3, max_label=[1, 3]), [[0.5333], [1]])
  same(pt.torch_rankwise_err([[0, 1, 0]], k=3), [[0.25]])


def test_cutoffs_in_any_order_and_beyond_the_list():
  same(pt.torch_precision_at_ks(FOUND, [10, 1, 3]), [[0.3, 1, 0.6667]])
  same(pt.torch_precision_at_k(FOUND, 10), [[0.3]])
  same(pt.torch_ap_at_ks(FOUND, BEST, [10, 1, 3]), [[0.7556, 1, 0.5556]])
  same(pt.torch_ndcg_at_ks(FOUND, BEST, [10, 1, 3]), [[0.8855, 1, 0.7039]])
  whole = pt.torch_nerr_at_ks(GRADES, BEST_GRADES, [5, 1])
  same(pt.torch_nerr_at_ks(GRADES, BEST_GRADES, [10, 1]), whole)
  assert pt.torch_precision_at_ks(FOUND, []).shape == (1, 0)
  same(pt.torch_ndcg_at_k(FOUND, BEST), [[0.8855]])
  same(pt.torch_alpha_ndcg_at_ks(COVERS, BEST_COVERS, [9, 1]), [[0.82644, 0.5]], 5)
  same(pt.torch_err_ia_at_ks(COVERS, 1, [9, 1]), [0.33333, 0.16667], 5)


def test_nothing_relevant_is_zero():
  nothing = np.zeros((2, 5))
  for measure in (pt.torch_ap_at_ks, pt.torch_nerr_at_ks, pt.torch_ndcg_at_ks):
    same(measure(nothing, nothing, [1, 5]), np.zeros((2, 2)))
  same(pt.torch_alpha_ndcg_at_k(nothing, nothing, 5), 0)
  same(pt.torch_alpha_ndcg_at_ks(nothing, nothing, [1, 5]), [[0, 0]])
  same(pt.torch_nerr_ia_at_ks(nothing, nothing, 1, [1, 5]), [0, 0])
  assert pt.alpha_ndcg_at_k(["x"], ["x"], 1, {}) == 0.0
  same(pt.get_delta_ndcg(nothing, nothing), np.zeros((2, 5, 5)))
  same(pt.get_delta_alpha_dcg(nothing, nothing), np.zeros((5, 5)))


def test_unjudged_and_fractional_labels():
  same(pt.torch_ap_at_k([[1, -1, 1]], [[1, 1, -1]], 3), [[(1 + 2 / 3) / 2]])
  same(pt.torch_dcg_at_k([[-1, 1]]), [[1 / math.log2(3)]])
  same(pt.torch_precision_at_k([[0.5, 0]], 1), [[1]])


def test_kendall_tau():
  same(pt.torch_kendall_tau([2, 1, 5, 3, 4]), 0.4)
  same(pt.torch_kendall_tau([0.2, 0.1, 0.5, 0.3, 0.4]), 0.4)
  same(pt.torch_kendall_tau([7, 7, 7]), 1)
  same(pt.torch_kendall_tau([3, 2, 2, 1]), 1 - 4 * 5 / 12)
  same(pt.torch_kendall_tau([3, 2, 2, 1], natural_ascending_as_reference=False), 1)
  assert np.isnan(pt.torch_kendall_tau([1, np.nan, 2]))


def test_diversity():
  alpha_dcg = [1, 1.63093, 2.38093]
  same([pt.torch_alpha_dcg_at_k(COVERS, k) for k in (1, 2, 4)], alpha_dcg, 5)
  same(pt.torch_alpha_dcg_at_ks(COVERS, 4)[:, [0, 1, 3]], [alpha_dcg], 5)
  same(pt.torch_alpha_ndcg_at_ks(COVERS, BEST_COVERS, [1, 2, 4]), [[0.5, 0.61991, 0.82644]], 5)
  same(pt.torch_alpha_ndcg_at_k(COVERS, BEST_COVERS, 4, 0.0), 0.84030, 5)
  same(pt.torch_alpha_ndcg_at_k(COVERS, BEST_COVERS, 4, 1.0), 0.80995, 5)
  same(pt.torch_err_ia_at_ks(COVERS, 1, [1, 2, 4]), [0.16667, 0.25, 0.33333], 5)
  same(pt.torch_err_ia_at_k(COVERS, 1, 4), 0.33333, 5)
  same(pt.torch_nerr_ia_at_ks(COVERS, BEST_COVERS, 1, [1, 2, 4]), [0.5, 0.6, 0.75])
  same(pt.torch_nerr_ia_at_k(COVERS, BEST_COVERS, 1, 2), 0.6)
  # Twice as relevant is as relevant; the original covers a subtopic twice, 4.51186.
  same(pt.torch_alpha_dcg_at_k(2 * COVERS, 4), 2.38093, 5)
  # All subtopics count, also one that nothing covers.
  same(pt.torch_err_ia_at_k(np.vstack([COVERS, np.zeros(4)]), 1, 4), 0.25)
  value, zero = pt.torch_rankwise_err_ia(COVERS, 1, k=10, point=False)
  same(value[[0, 1, 3]], [0.16667, 0.25, 0.33333], 5)
  assert value.shape == (4,)
  assert not zero
  value, zero = pt.torch_rankwise_err_ia([[0, 0, 1]], 1, k=2)
  assert value == 0
  assert zero is True


def test_the_native_functions_agree():
  scores = -jnp.arange(4.0)
  same(jr.alpha_ndcg(scores, COVERS.T), 0.82644, 5)
  same(jr.nerr_ia(scores, COVERS.T, max_label=1), 0.75)
  same(jr.err_ia(scores, COVERS.T, max_label=1), 0.33333, 5)


def test_smooth_ranks_of_a_perfect_order_are_perfect():
  """Two queries sum to 2, where the original's surrogates sum to 4.7127 (nERR) and 1.4394."""
  grades = jnp.array([[3.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
  scores = jnp.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
  ranking = jr.Laplace(1e-3)
  same(jnp.sum(jr.nerr(scores, grades, max_label=3, ranking=ranking)), 2)
  ndcg = jr.ndcg(scores, grades, k=1, gain=jr.gains.exponential, ranking=ranking)
  same(jnp.sum(ndcg), 2)


def test_documents_by_name():
  ideal = pt.get_div_ideal_ranking("abcx", DOCS)
  assert ideal == ["c", "b", "a", "x"]
  assert isinstance(pt.alpha_dcg_at_k("abcx", DOCS, 4), float)
  same(pt.alpha_dcg_at_k("abcx", DOCS, 4), 2.38093, 5)
  same(pt.alpha_ndcg_at_k("abcx", ideal, 2, DOCS), 0.61991, 5)
  many = {doc: [str(doc)] for doc in range(1, 31)}
  same(pt.alpha_dcg_at_k(list(many), many, 40), sum(1 / math.log2(r + 1) for r in range(1, 31)))


def test_the_greedy_order_is_that_of_the_definition():
  rng = np.random.default_rng(0)
  for alpha in (0.0, 0.5, 1.0):
    pool = [f"d{i}" for i in range(8)]
    docs = {doc: [str(s) for s in range(5) if rng.random() < 0.4] for doc in pool[:7]}
    left, covered, expected = list(pool), dict.fromkeys("01234", 0), []
    while left:
      gains = [sum((1 - alpha) ** covered[s] for s in docs.get(doc, ())) for doc in left]
      expected.append(left.pop(gains.index(max(gains))))
      for s in docs.get(expected[-1], ()):
        covered[s] += 1
    assert pt.get_div_ideal_ranking(pool, docs, alpha) == expected


def test_what_swaps_change():
  delta = pt.get_delta_ndcg(BEST_GRADES, GRADES)
  dcg = lambda row: pt.torch_dcg_at_k([row])[0, 0]  # noqa: E731
  swapped = [2, 0, 3, 0, 1]
  assert delta.shape == (1, 5, 5)
  same(delta[0, 0, 2], (dcg(GRADES[0]) - dcg(swapped)) / dcg(BEST_GRADES[0]))
  same(delta, delta.transpose(0, 2, 1))
  # Neighbours have none between them.
  delta = pt.get_delta_alpha_dcg(BEST_COVERS[2:], COVERS[2:], normalization=False)
  change = pt.torch_alpha_dcg_at_k(COVERS[2:]) - pt.torch_alpha_dcg_at_k(COVERS[2:, [1, 0, 2, 3]])
  same(delta[0, 1], abs(change))
  ideal = pt.torch_alpha_dcg_at_k(BEST_COVERS[2:])
  same(pt.get_delta_alpha_dcg(BEST_COVERS[2:], COVERS[2:]), delta / ideal)


def test_odds_and_ends():
  assert pt.metric_results_to_string([0.5], [3], metric="P") == "P@3:0.5000"
  same(pt.rele_gain(3), 7.0)
  same(pt.torch_nDCG_at_ks(FOUND, BEST, KS), pt.torch_ndcg_at_ks(FOUND, BEST, KS))
  for kind in (np.float64, np.int64):
    same(pt.torch_precision_at_k(np.array(FOUND, kind), 2), [[0.5]])
  same(pt.torch_precision_at_k(jnp.array(FOUND), 2), [[0.5]])


def test_mistakes():
  with pytest.raises(ValueError, match=r"two axes.*\(5,\)"):
    pt.torch_precision_at_k(FOUND[0], 2)
  with pytest.raises(ValueError, match="2 rankings and 1 ideal"):
    pt.torch_ndcg_at_k(FOUND * 2, BEST, 2)
  with pytest.raises(ValueError, match="at least 1, got 0"):
    pt.torch_precision_at_k(FOUND, 0)
  with pytest.raises(TypeError, match="positive integer"):
    pt.torch_precision_at_ks(FOUND, [1.5])
  with pytest.raises(TypeError, match="sequence of cut-offs, got None"):
    pt.torch_precision_at_ks(FOUND)
  for rankings in ([["x"]], [[1], [1, 2]]):
    with pytest.raises(TypeError, match="rankings must be numbers, got"):
      pt.torch_precision_at_k(rankings, 1)
  for max_label in ([1, 2, 3], -1):
    with pytest.raises(ValueError, match="max_label must be one number from 0 on, or one for each"):
      pt.torch_rankwise_err(GRADES * 2, max_label, 1)
  with pytest.raises(TypeError, match="subtopics of documents by name, got None"):
    pt.alpha_dcg_at_k(["a"], None, 1)
  for subtopics in ("12", None):
    with pytest.raises(TypeError, match="subtopics must be a list or an array, got"):
      pt.alpha_dcg_at_k(["a"], {"a": subtopics}, 1)
  with pytest.raises(ValueError, match="vector"):
    pt.torch_kendall_tau(FOUND)
  with pytest.raises(ValueError, match=r"alpha.*\[0, 1\]"):
    pt.torch_alpha_dcg_at_k(COVERS, 2, alpha=2.0)
  for label_type in (pt.LABEL_TYPE.Permutation, None):
    with pytest.raises(NotImplementedError, match="got "):
      pt.torch_nerr_at_k(GRADES, BEST_GRADES, 3, label_type=label_type)
  with pytest.raises(NotImplementedError):
    pt.torch_dcg_at_k(GRADES, 3, label_type=None)
