"""Agreement with ptranking where it is installed, and where it differs on purpose.

The release on PyPI has no measures of diversity; those are compared where the repository is.
"""

import contextlib
import importlib
import inspect
import warnings

import numpy as np
import pytest

from jaxrank.interop import ptranking as pt
from tests.helpers.suites import thorough

torch = pytest.importorskip("torch")
pytest.importorskip("ptranking")

QUERIES, N, S = 2000, 7, 3

pytestmark = thorough


KS = [1, 3, 5, 7]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
  """Threads that wait for each other take far longer than so few numbers."""
  threads = torch.get_num_threads()
  torch.set_num_threads(1)
  yield
  torch.set_num_threads(threads)


def original(*names):
  """The first of some modules of ptranking that there is."""
  for name in names:
    with warnings.catch_warnings(), contextlib.suppress(ModuleNotFoundError):
      warnings.simplefilter("ignore")
      return importlib.import_module(f"ptranking.metric.{name}")
  return pytest.skip(f"this ptranking has no {' or '.join(names)}")


@pytest.fixture(scope="module")
def adhoc():
  return original("adhoc.adhoc_metric", "adhoc_metric")


@pytest.fixture(scope="module")
def diversity():
  return original("srd.diversity_metric")


def ndcg_of(module):
  """By either of its names."""
  return getattr(module, "torch_ndcg_at_ks", None) or module.torch_nDCG_at_ks


def lists(most):
  """Labels in the order of a system and in the best one; every query has something relevant."""
  rng = np.random.default_rng(most)
  system = rng.integers(0, most + 1, (QUERIES, N)).astype(np.float32)
  system[:, 3] = np.maximum(system[:, 3], 1)
  return system, -np.sort(-system, axis=1)


def same(actual, expected):
  np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-6, atol=1e-6)


def test_binary_metrics(adhoc):
  system, ideal = lists(1)
  tensors = torch.tensor(system), torch.tensor(ideal)
  same(pt.torch_precision_at_ks(system, KS), adhoc.torch_precision_at_ks(tensors[0], ks=KS))
  same(pt.torch_precision_at_k(tensors[0], 4), adhoc.torch_precision_at_k(tensors[0], k=4))
  same(pt.torch_ap_at_ks(*tensors, KS), adhoc.torch_ap_at_ks(*tensors, ks=KS))
  same(pt.torch_ap_at_k(*tensors, 4), adhoc.torch_ap_at_k(*tensors, k=4))


def test_graded_metrics(adhoc):
  system, ideal = lists(4)
  tensors = torch.tensor(system), torch.tensor(ideal)
  for kind in ("MultiLabel", "Permutation"):
    label_type = adhoc.LABEL_TYPE[kind]
    expected = ndcg_of(adhoc)(*tensors, ks=KS, label_type=label_type)
    same(pt.torch_ndcg_at_ks(system, ideal, KS, label_type=label_type), expected)
    expected = adhoc.torch_dcg_at_k(tensors[0], cutoff=5, label_type=label_type)
    same(pt.torch_dcg_at_k(system, 5, label_type), expected)
  best = torch.tensor(4.0)
  for point in (True, False):
    expected = adhoc.torch_rankwise_err(tensors[0], max_label=best, k=5, point=point)
    same(pt.torch_rankwise_err(system, best, 5, point), expected)
  same(pt.torch_nerr_at_ks(system, ideal, KS, max_label=4), adhoc.torch_nerr_at_ks(*tensors, ks=KS))


def test_kendall_tau(adhoc, capsys):
  rng = np.random.default_rng(0)
  for ascending in (True, False):
    for values in rng.integers(0, 9, (QUERIES // 2, N)).astype(np.float32):
      expected = adhoc.torch_kendall_tau(torch.tensor(values), ascending)
      same(pt.torch_kendall_tau(values, ascending), expected)
  capsys.readouterr()


def test_delta_ndcg():
  module = original("metric_utils")
  system, ideal = lists(4)
  tensors = torch.tensor(ideal), torch.tensor(system)
  same(pt.get_delta_ndcg(ideal, system), module.get_delta_ndcg(*tensors))


def matrices(most):
  """Labels of subtopics in two orders, of one query at a time."""
  rng = np.random.default_rng(most)
  for _ in range(QUERIES):
    matrix = rng.integers(0, most + 1, (S, N)).astype(np.float32)
    yield matrix, matrix[:, rng.permutation(N)]


def test_alpha_ndcg(diversity):
  for i, (system, ideal) in enumerate(matrices(1)):
    tensors, alpha = (torch.tensor(system), torch.tensor(ideal)), (0.5, 0.2, 0.0, 1.0)[i % 4]
    expected = diversity.torch_alpha_ndcg_at_ks(*tensors, ks=KS, alpha=alpha)
    same(pt.torch_alpha_ndcg_at_ks(system, ideal, KS, alpha), expected)
    expected = diversity.torch_alpha_dcg_at_k(tensors[0], k=4, alpha=alpha)
    same(pt.torch_alpha_dcg_at_k(system, 4, alpha), expected)
    for normalization in (True, False):
      given = {"alpha": alpha, "normalization": normalization}
      expected = diversity.get_delta_alpha_dcg(*tensors[::-1], **given)
      same(pt.get_delta_alpha_dcg(ideal, system, **given), expected)


def test_err_ia(diversity):
  for system, ideal in matrices(3):
    tensors, best = (torch.tensor(system), torch.tensor(ideal)), torch.tensor(3.0)
    expected = diversity.torch_err_ia_at_ks(tensors[0], max_label=best, ks=KS)
    same(pt.torch_err_ia_at_ks(system, 3, KS), expected)
    expected = diversity.torch_nerr_ia_at_ks(*tensors, max_label=best, ks=KS)
    same(pt.torch_nerr_ia_at_ks(system, ideal, 3, KS), expected)


def test_named_documents(diversity):
  rng = np.random.default_rng(0)
  pool = [f"d{i}" for i in range(N)]
  for _ in range(QUERIES):
    docs = {doc: [str(s + 1) for s in range(S) if rng.random() < 0.5] for doc in pool[1:]}
    expected = diversity.alpha_dcg_at_k(pool, docs, k=5)
    same(pt.alpha_dcg_at_k(pool, docs, 5), expected)
  # No two of these are ever equally good.
  docs = {"a": ["1", "2", "3"], "b": ["1", "4"], "c": ["5"], "d": []}
  assert diversity.get_div_ideal_ranking(list("dcba"), docs) == list("abcd")
  assert pt.get_div_ideal_ranking("dcba", docs) == list("abcd")


def test_differences_of_the_adhoc_metrics(adhoc):
  def both(name, *given, **named):
    tensors = [torch.tensor(x, dtype=torch.float32) for x in given]
    return getattr(pt, name)(*given, **named), getattr(adhoc, name)(*tensors, **named).numpy()

  ours, theirs = both("torch_precision_at_k", [[1, 0, 1]], k=6)
  assert (ours, theirs) == (pytest.approx(2 / 6), pytest.approx(2 / 3))
  ours, theirs = both("torch_precision_at_ks", [[1, 0, 1]], ks=[6, 1])
  np.testing.assert_allclose(ours, [[2 / 6, 1]], rtol=1e-6)
  np.testing.assert_allclose(theirs, [[1, 0]])
  ours, theirs = both("torch_ap_at_k", [[3, 0, 2]], [[3, 2, 0]], k=3)
  assert (ours, theirs) == (pytest.approx(5 / 6), pytest.approx(1 / 3))
  ours, theirs = both("torch_ap_at_k", [[0, 0]], [[0, 0]], k=2)
  assert ours == 0
  assert np.isnan(theirs)
  ours, theirs = both("torch_nerr_at_k", [[0, 1, 1], [3, 0, 0]], [[1, 1, 0], [3, 0, 0]], k=3)
  assert (ours[0], theirs[0]) == (pytest.approx(0.5333, abs=1e-4), pytest.approx(0.5507, abs=1e-4))
  ours, theirs = both("torch_dcg_at_k", [[-1.0]], cutoff=1)
  assert (ours, theirs) == (0, -0.5)
  ours, theirs = both("torch_precision_at_k", [[0.5]], k=1)
  assert (ours, theirs) == (1, 0.5)
  assert pt.torch_dcg_at_k([[1]], 3) == 1
  with pytest.raises(RuntimeError):
    adhoc.torch_dcg_at_k(torch.ones(1, 1), cutoff=3)
  assert pt.torch_rankwise_err([[1]], None, 3) == 0.5
  with pytest.raises(AssertionError):
    adhoc.torch_rankwise_err(torch.ones(1, 1), None, 3)
  ours, theirs = both("torch_kendall_tau", [0.2, 0.1, 0.5, 0.3, 0.4])
  assert (ours, theirs) == (pytest.approx(0.4), pytest.approx(0.92))


def test_differences_of_diversity(diversity):
  covers = np.float32([[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]])
  ours, theirs = pt.torch_alpha_dcg_at_k(2 * covers, 4), torch.tensor(2 * covers)
  assert ours == pytest.approx(2.38093, abs=1e-5)
  assert float(diversity.torch_alpha_dcg_at_k(theirs, k=4)) == pytest.approx(4.51186, abs=1e-5)
  assert pt.torch_alpha_ndcg_at_ks(covers, covers, [9, 1]).shape == (1, 2)
  assert diversity.torch_alpha_ndcg_at_ks(theirs, theirs, ks=[1, 9]).shape == (3, 2)
  nothing = np.zeros((2, 3), np.float32)
  assert pt.torch_nerr_ia_at_ks(nothing, nothing, 1, [1, 2]).shape == (2,)
  theirs = diversity.torch_nerr_ia_at_ks(*2 * (torch.tensor(nothing),), max_label=1, ks=[1, 2])
  assert theirs.shape == (1,)
  assert pt.alpha_ndcg_at_k(["x"], ["x"], 1, {}) == 0
  with pytest.raises(ZeroDivisionError):
    diversity.alpha_ndcg_at_k(["x"], ["x"], 1, {})
  assert pt.alpha_dcg_at_k(["x"], {"x": ["21"]}, 2) == 1
  with pytest.raises(IndexError):
    diversity.alpha_dcg_at_k(["x"], {"x": ["21"]}, 1)


@pytest.mark.parametrize("kind", ["adhoc", "diversity"])
def test_names_and_arguments(kind, request):
  """Of the functions that both have, which are called alike by place and by name."""
  module = request.getfixturevalue(kind)
  names = [name for name, _ in inspect.getmembers(module, inspect.isfunction) if hasattr(pt, name)]
  # The release on PyPI, whose names are others, says gpu where the repository says device.
  if "gpu" in inspect.signature(getattr(module, names[-1])).parameters:
    pytest.skip("this ptranking is the release on PyPI")
  for name in names:
    ours, theirs = (inspect.signature(getattr(x, name)).parameters for x in (pt, module))
    assert list(ours) == list(theirs), name
