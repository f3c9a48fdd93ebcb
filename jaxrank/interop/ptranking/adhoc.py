"""The ad hoc metrics, with one label for each document: precision, AP, nDCG, ERR, nERR, tau.

`jaxrank.interop.ptranking` explains the arguments that they share.
"""

import enum
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank import discounts, gains, metrics
from jaxrank.interop._lists import padded
from jaxrank.interop.ptranking import _lists


@enum.unique
class LABEL_TYPE(enum.Enum):  # noqa: N801, the name of the original
  """The meaning of labels: grades, with the gain `2^y - 1`, or gains."""

  MultiLabel = enum.auto()
  Permutation = enum.auto()


_GAINS = {"MultiLabel": gains.exponential, "Permutation": gains.linear}
_DCG = {name: functools.partial(metrics.dcg, gain=gain) for name, gain in _GAINS.items()}
_HITS = functools.partial(metrics.dcg, gain=gains.binary, discount=discounts.constant)


def torch_precision_at_k(batch_predict_rankings, k=None, device="cpu") -> np.ndarray:
  """Precision at `k`, `[queries, 1]`.

  >>> print(torch_precision_at_k([[1, 0, 1]], k=2))
  [[0.5]]
  """
  return torch_precision_at_ks(batch_predict_rankings, [k])


def torch_precision_at_ks(batch_predict_rankings, ks=None, device="cpu") -> np.ndarray:
  """Precision at several cut-offs, `[queries, cutoffs]`."""
  return _lists.at(metrics.precision, _lists.as_lists(batch_predict_rankings), ks)


def torch_ap_at_k(batch_predict_rankings, batch_ideal_rankings, k=None, device="cpu") -> np.ndarray:
  """Average precision at `k`, divided by `min(k, R)`, `[queries, 1]`."""
  return torch_ap_at_ks(batch_predict_rankings, batch_ideal_rankings, [k])


def torch_ap_at_ks(
  batch_predict_rankings, batch_ideal_rankings, ks=None, device="cpu"
) -> np.ndarray:
  """Average precision at several cut-offs, divided by `min(k, R)`, `[queries, cutoffs]`.

  Any positive label is relevant, and `R` is the number of relevant documents.

  >>> print(torch_ap_at_ks([[1, 0, 1]], [[1, 1, 0]], ks=[3, 2]).round(4))
  [[0.8333 0.5   ]]
  """
  system, ideal = _lists.pair(batch_predict_rankings, batch_ideal_rankings)
  hits = np.sum(system > 0, axis=1, keepdims=True, dtype=np.float32)
  return _lists.ratio(
    _lists.at(metrics.average_precision, system, ks) * hits, _lists.at(_HITS, ideal, ks)
  )


def torch_rankwise_err(
  batch_rankings, max_label=None, k=10, point=True, device="cpu"
) -> np.ndarray:
  """Expected reciprocal rank at `k`, `[queries, 1]`, or at 1 ... k, `[queries, k]`."""
  lists = _lists.as_lists(batch_rankings)
  return _err(lists, [k] if point else _lists.up_to(k, lists), _lists.best(max_label, lists))


def torch_nerr_at_k(
  batch_predict_rankings,
  batch_ideal_rankings,
  k=None,
  device="cpu",
  label_type=LABEL_TYPE.MultiLabel,
  max_label=None,
) -> np.ndarray:
  """Normalised expected reciprocal rank at `k`, `[queries, 1]`."""
  lists = batch_predict_rankings, batch_ideal_rankings
  return torch_nerr_at_ks(*lists, [k], device, label_type, max_label)


def torch_nerr_at_ks(
  batch_predict_rankings,
  batch_ideal_rankings,
  ks=None,
  device="cpu",
  label_type=LABEL_TYPE.MultiLabel,
  max_label=None,
) -> np.ndarray:
  """Normalised expected reciprocal rank at several cut-offs, `[queries, cutoffs]`.

  It is the expected reciprocal rank divided by that of the ideal ranking.

  >>> print(torch_nerr_at_ks([[3, 2, 4]], [[4, 3, 2]], ks=[1, 2, 3]).round(4))
  [[0.4667 0.5154 0.664 ]]

  Raises:
    NotImplementedError: if `label_type` is not `LABEL_TYPE.MultiLabel`.
  """
  if _name(label_type) != "MultiLabel":
    raise NotImplementedError(
      f"torch_nerr_at_ks: label_type must be LABEL_TYPE.MultiLabel, got {label_type!r}."
    )
  system, ideal = _lists.pair(batch_predict_rankings, batch_ideal_rankings)
  best = _lists.best(max_label, ideal)
  return _lists.ratio(_err(system, ks, best), _err(ideal, ks, best))


def torch_dcg_at_k(
  batch_rankings, cutoff=None, label_type=LABEL_TYPE.MultiLabel, device="cpu"
) -> np.ndarray:
  """Discounted cumulative gain at a cut-off, `[queries, 1]`.

  >>> print(torch_dcg_at_k([[3, 2, 3, 0, 1, 2]]).round(4))
  [[13.8483]]
  """
  return _lists.at(_DCG[_name(label_type)], _lists.as_lists(batch_rankings), [cutoff])


def torch_dcg_at_ks(
  batch_rankings, max_cutoff, label_type=LABEL_TYPE.MultiLabel, device="cpu"
) -> np.ndarray:
  """Discounted cumulative gain at 1 ... `max_cutoff`, `[queries, max_cutoff]`."""
  lists = _lists.as_lists(batch_rankings)
  return _lists.at(_DCG[_name(label_type)], lists, _lists.up_to(max_cutoff, lists))


def torch_ndcg_at_k(
  batch_predict_rankings,
  batch_ideal_rankings,
  k=None,
  device="cpu",
  label_type=LABEL_TYPE.MultiLabel,
) -> np.ndarray:
  """Normalised DCG at `k`, `[queries, 1]`."""
  return torch_ndcg_at_ks(batch_predict_rankings, batch_ideal_rankings, [k], device, label_type)


def torch_ndcg_at_ks(
  batch_predict_rankings,
  batch_ideal_rankings,
  ks=None,
  device="cpu",
  label_type=LABEL_TYPE.MultiLabel,
) -> np.ndarray:
  """Normalised DCG at several cut-offs, `[queries, cutoffs]`.

  It is the DCG divided by that of the ideal ranking.

  >>> print(torch_ndcg_at_ks([[1, 0, 2]], [[2, 1, 0]], ks=[1, 3]).round(4))
  [[0.3333 0.6885]]
  """
  dcg = _DCG[_name(label_type)]
  system, ideal = _lists.pair(batch_predict_rankings, batch_ideal_rankings)
  return _lists.ratio(_lists.at(dcg, system, ks), _lists.at(dcg, ideal, ks))


# The names in the release on PyPI.
torch_nDCG_at_k = torch_ndcg_at_k  # noqa: N816
torch_nDCG_at_ks = torch_ndcg_at_ks  # noqa: N816


def torch_kendall_tau(sys_ranking, natural_ascending_as_reference=True) -> np.float32:
  """Kendall's tau of a ranking, `[ranks]`, with the ascending or the descending order.

  Equal values count as in the right order.

  >>> print(f"{torch_kendall_tau([2, 1, 5, 3, 4]):.1f}")
  0.4
  """
  values = _lists.array("sys_ranking", sys_ranking)
  if values.ndim != 1:
    raise ValueError(
      f"torch_kendall_tau: sys_ranking must be a vector, got shape {values.shape}; pass one row."
    )
  values = values if natural_ascending_as_reference else -values
  place = np.argsort(np.argsort(values, kind="stable")).astype(np.float32)
  place[np.isnan(values)] = np.nan
  order = np.arange(len(place), dtype=np.float32)
  lists = (padded(x) for x in (place, order, np.ones_like(order, bool)))
  return np.float32(_tau(*lists))


def get_delta_ndcg(
  batch_ideal_rankings, batch_predict_rankings, label_type=LABEL_TYPE.MultiLabel, device="cpu"
) -> np.ndarray:
  """The absolute change of nDCG if the documents at two ranks swap, `[queries, ranks, ranks]`."""
  system, ideal = _lists.pair(batch_predict_rankings, batch_ideal_rankings)
  best = torch_dcg_at_k(ideal, label_type=label_type)
  gain = _lists.ratio(np.asarray(_GAINS[_name(label_type)](jnp.asarray(system))), best)
  return np.abs(_lists.differences(gain) * _lists.differences(_lists.discount(system)))


def rele_gain(rele_level, gain_base=2.0) -> Any:
  """The gain `gain_base ** rele_level - 1`."""
  return np.power(gain_base, rele_level) - 1.0


def metric_results_to_string(
  list_scores=None, list_cutoffs=None, split_str=", ", metric="nDCG"
) -> str:
  """Formats values with their cut-offs.

  >>> metric_results_to_string([0.5, 0.25], [1, 3])
  'nDCG@1:0.5000, nDCG@3:0.2500'
  """
  pairs = zip(list_scores or (), list_cutoffs or (), strict=False)
  return split_str.join(f"{metric}@{k}:{score:.4f}" for score, k in pairs)


def _err(lists: np.ndarray, ks: Any, best: np.ndarray) -> np.ndarray:
  return _lists.at(metrics.err, lists, ks, max_label=best)


def _name(label_type: Any) -> str:
  name = getattr(label_type, "name", None)
  if name not in _GAINS:
    raise NotImplementedError(
      f"label_type must be LABEL_TYPE.MultiLabel or LABEL_TYPE.Permutation, got {label_type!r}."
    )
  return name


@jax.jit
def _tau(scores: Array, labels: Array, where: Array) -> Array:
  return metrics.kendall_tau(scores, labels, where=where)
