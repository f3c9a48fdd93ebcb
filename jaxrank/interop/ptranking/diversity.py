"""The metrics of diversity, for one query: alpha-nDCG, ERR-IA and nERR-IA.

`jaxrank.interop.ptranking` explains the arguments that they share.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank import gains, metrics
from jaxrank._core import checks
from jaxrank._core.ties import Cascades, greedy_order
from jaxrank.interop._lists import items, padded
from jaxrank.interop.ptranking import _lists

Subtopics = Mapping[Any, Iterable[Any]]


def torch_alpha_dcg_at_k(sorted_q_doc_rele_mat, k=None, alpha=0.5, device="cpu") -> np.float32:
  """Alpha-DCG at `k`; a document with a positive label covers the subtopic.

  >>> print(f"{torch_alpha_dcg_at_k([[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]], k=4):.5f}")
  2.38093
  """
  return _alpha_dcg(sorted_q_doc_rele_mat, [k], alpha)[0]


def torch_alpha_dcg_at_ks(
  sorted_q_doc_rele_mat, max_cutoff=None, alpha=0.5, device="cpu"
) -> np.ndarray:
  """Alpha-DCG at 1 ... `max_cutoff`, `[1, max_cutoff]`."""
  matrix = _lists.as_lists(sorted_q_doc_rele_mat)
  return _alpha_dcg(matrix, _lists.up_to(max_cutoff, matrix), alpha)[None]


def torch_alpha_ndcg_at_k(
  sys_q_doc_rele_mat, ideal_q_doc_rele_mat, k=None, alpha=0.5, device="cpu"
) -> np.float32:
  """Alpha-nDCG at `k`: alpha-DCG divided by that of the ideal ranking."""
  return torch_alpha_ndcg_at_ks(sys_q_doc_rele_mat, ideal_q_doc_rele_mat, [k], alpha)[0, 0]


def torch_alpha_ndcg_at_ks(
  sys_q_doc_rele_mat, ideal_q_doc_rele_mat, ks=None, alpha=0.5, device="cpu"
) -> np.ndarray:
  """Alpha-nDCG at several cut-offs, `[1, cutoffs]`."""
  system, ideal = (_alpha_dcg(x, ks, alpha) for x in (sys_q_doc_rele_mat, ideal_q_doc_rele_mat))
  return _lists.ratio(system, ideal)[None]


def torch_rankwise_err_ia(
  sorted_q_doc_rele_mat, max_label=None, k=10, point=True, device="cpu"
) -> tuple[Any, bool]:
  """ERR-IA at `k`, or at 1 ... k, and whether no document at the first `k` ranks is relevant.

  ERR-IA is the mean of the expected reciprocal rank over all subtopics.

  Returns:
    A number, or an array of at most `k` numbers, one for each rank of the list; and a bool.
  """
  matrix = _lists.as_lists(sorted_q_doc_rele_mat)
  ks = [k] if point else _lists.up_to(k, matrix)[: matrix.shape[1]]
  values = _err_ia(matrix, ks, max_label)
  return values[0] if point else values, not np.any(matrix[:, :k] > 0)


def torch_err_ia_at_k(sorted_q_doc_rele_mat, max_label=None, k=10, device="cpu") -> np.float32:
  """ERR-IA at `k`."""
  return torch_err_ia_at_ks(sorted_q_doc_rele_mat, max_label, [k])[0]


def torch_err_ia_at_ks(sorted_q_doc_rele_mat, max_label=None, ks=None, device="cpu") -> np.ndarray:
  """ERR-IA at several cut-offs, `[cutoffs]`."""
  return _err_ia(_lists.as_lists(sorted_q_doc_rele_mat), ks, max_label)


def torch_nerr_ia_at_k(
  sys_q_doc_rele_mat, ideal_q_doc_rele_mat, max_label=None, k=10, device="cpu"
) -> np.float32:
  """nERR-IA at `k`: ERR-IA divided by that of the ideal ranking."""
  return torch_nerr_ia_at_ks(sys_q_doc_rele_mat, ideal_q_doc_rele_mat, max_label, [k])[0]


def torch_nerr_ia_at_ks(
  sys_q_doc_rele_mat, ideal_q_doc_rele_mat, max_label=None, ks=None, device="cpu"
) -> np.ndarray:
  """nERR-IA at several cut-offs, `[cutoffs]`."""
  system, ideal = _lists.as_lists(sys_q_doc_rele_mat), _lists.as_lists(ideal_q_doc_rele_mat)
  best = _lists.best(max_label, ideal[None])
  return _lists.ratio(_err_ia(system, ks, best), _err_ia(ideal, ks, best))


def alpha_dcg_at_k(
  sorted_docs: Sequence[Hashable], q_doc_subtopics: Subtopics, k=None, alpha=0.5
) -> float:
  """Alpha-DCG of documents in rank order.

  >>> print(alpha_dcg_at_k(["a", "b"], {"a": ["1"], "b": ["1", "2"]}, k=1))
  1.0

  Args:
    sorted_docs: The documents, best first.
    q_doc_subtopics: A mapping of documents to the subtopics that they cover; other documents cover
      none.

  Returns:
    A float.
  """
  return float(torch_alpha_dcg_at_k(_matrix(sorted_docs, q_doc_subtopics), k, alpha))


def alpha_ndcg_at_k(
  sys_sorted_docs: Sequence[Hashable],
  ideal_sorted_docs: Sequence[Hashable],
  k=None,
  q_doc_subtopics: Subtopics | None = None,
  alpha=0.5,
) -> float:
  """Alpha-nDCG of documents in rank order; the arguments are those of `alpha_dcg_at_k`."""
  system, ideal = (_matrix(x, q_doc_subtopics or {}) for x in (sys_sorted_docs, ideal_sorted_docs))
  return float(torch_alpha_ndcg_at_k(system, ideal, k, alpha))


def get_div_ideal_ranking(
  pool_docs: Iterable[Hashable], q_doc_subtopics: Subtopics, alpha=0.5
) -> list[Any]:
  """The ideal order of documents: the greedy order for alpha-DCG.

  Of equally good documents, the first one of the pool comes first.

  >>> get_div_ideal_ranking("xab", {"a": ["1"], "b": ["1", "2"]})
  ['b', 'a', 'x']
  """
  checks.unit_interval("alpha", alpha)
  docs = list(dict.fromkeys(pool_docs))
  worth = padded(_matrix(docs, q_doc_subtopics))
  item, count = _greedy(worth, np.float32(alpha))
  return list(dict.fromkeys([docs[i] for i in item[:count]] + docs))


def get_delta_alpha_dcg(
  ideal_q_doc_rele_mat=None, sys_q_doc_rele_mat=None, alpha=0.5, device="cpu", normalization=True
) -> np.ndarray:
  """The absolute change of alpha-DCG if the documents at two ranks swap, `[ranks, ranks]`.

  The gains of the documents between the two ranks are taken as unchanged.

  Args:
    normalization: Whether to divide by the alpha-DCG of the ideal ranking.

  Returns:
    `[ranks, ranks]`.
  """
  system = _lists.as_lists(sys_q_doc_rele_mat)
  covered = np.cumsum(system, axis=1) - system
  worth = (1 - np.float32(alpha)) ** covered * _lists.discount(system)
  change = _lists.differences(np.asarray(gains.exponential(jnp.asarray(system))))
  delta = np.abs(np.sum(change * worth[:, :, None], 0) - np.sum(change * worth[:, None], 0))
  if not normalization:
    return delta
  return _lists.ratio(delta, torch_alpha_dcg_at_k(ideal_q_doc_rele_mat, alpha=alpha))


def _alpha_dcg(matrix: Any, ks: Any, alpha: float) -> np.ndarray:
  checks.unit_interval("alpha", alpha)
  labels = _lists.as_lists(matrix).T[None]
  return _lists.at(metrics.alpha_dcg, labels, ks, alpha=np.array([alpha]))[0]


def _err_ia(matrix: np.ndarray, ks: Any, max_label: Any) -> np.ndarray:
  best = _lists.best(max_label, matrix[None])
  uniform = np.full((1, len(matrix)), 1 / max(len(matrix), 1))
  return _lists.at(metrics.err_ia, matrix.T[None], ks, max_label=best, subtopic_weights=uniform)[0]


@jax.jit
def _greedy(worth: Array, stop: Array) -> tuple[Array, Array]:
  return greedy_order(Cascades(worth.T, stop, jnp.ones_like(worth[:, 0])), worth.shape[1])


def _matrix(docs: Sequence[Hashable], q_doc_subtopics: Subtopics) -> np.ndarray:
  """Which documents cover each subtopic, `[subtopics, ranks]`."""
  if not isinstance(q_doc_subtopics, Mapping):
    raise TypeError(
      f"q_doc_subtopics must be the subtopics of documents by name, got {q_doc_subtopics!r}."
    )
  topics_of = [items("subtopics", q_doc_subtopics.get(doc, ())) for doc in docs]
  covered = [{str(topic) for topic in covers} for covers in topics_of]
  topics = sorted(set().union(*covered))
  cells = [[topic in covers for covers in covered] for topic in topics]
  return np.array(cells, np.float32).reshape(len(topics), len(docs))
