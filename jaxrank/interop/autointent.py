"""The retrieval metrics of AutoIntent, `autointent.metrics`.

Every retrieval function returns a float in [0, 1], and takes

* `query_labels`: the label of each query. A query whose label is None is out of scope, and dropped.
* `candidates_labels`: for each query, the labels of its candidates in rank order, best first. The
  lists may differ in length.
* `k`: the number of candidates to evaluate, an integer; None is all, and 0 gives 0.0.
* `joint_absence`, of the `_macro` functions: whether to evaluate, for each class, also the queries
  without the class, with the candidates without it as relevant. Every class then counts, and the
  values are those of the original.

In the plain functions a label is a class, and candidates of the same class are relevant. In the
`_intersecting` functions a label is a row of zeros and ones with a column for each class, and
candidates that share a class with the query are relevant. The `_macro` functions take such rows
too: the value of a class is the mean over the queries that have the class, with the candidates that
have it as relevant, and the result is the mean over the classes.

They raise `ValueError` if no query is left, if lengths or shapes do not match, and for a negative
`k`. The `scoring_` functions take the classes of items, as rows, and the scores of all classes.

>>> queries, candidates = [1, 3], [[2, 1, 1], [3, 1, 1]]
>>> print(f"{retrieval_map(queries, candidates):.6f} {retrieval_mrr(queries, candidates, k=1)}")
0.791667 0.5
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrank import metrics
from jaxrank.interop import _lists
from jaxrank.interop._multilabel import scoring_hit_rate as scoring_hit_rate
from jaxrank.interop._multilabel import scoring_map as scoring_map
from jaxrank.interop._multilabel import scoring_neg_coverage as scoring_neg_coverage
from jaxrank.interop._multilabel import scoring_neg_ranking_loss as scoring_neg_ranking_loss


class RetrievalMetricFn(Protocol):
  """The type of the functions of this module."""

  __name__: str

  def __call__(self, query_labels: Any, candidates_labels: Any, k: int | None = None) -> float:
    """The mean over queries, or over classes."""
    ...


RetrievalMetricFnWithOOS = RetrievalMetricFn


class _MacroMetricFn(RetrievalMetricFn, Protocol):
  def __call__(
    self,
    query_labels: Any,
    candidates_labels: Any,
    k: int | None = None,
    *,
    joint_absence: bool = False,
  ) -> float: ...


def _functions(
  name: str, metric: Callable[..., Any], title: str, more: str
) -> tuple[RetrievalMetricFn, RetrievalMetricFn, _MacroMetricFn]:
  """The three functions of a metric; the docstring of the plain one says more than the title."""

  def plain(query_labels: Any, candidates_labels: Any, k: int | None = None) -> float:
    lists = _read(query_labels, candidates_labels, "a class", 1)
    shared = np.asarray(lists.candidates == lists.query_labels)
    return float(_values(metric, lists, shared[:, None], k).mean())

  def intersecting(query_labels: Any, candidates_labels: Any, k: int | None = None) -> float:
    lists = _read(query_labels, candidates_labels, "a row of zeros and ones", 2)
    shared = np.any((lists.candidates > 0) & (lists.query_labels > 0), axis=1)
    return float(_values(metric, lists, shared[:, None], k).mean())

  def macro(
    query_labels: Any,
    candidates_labels: Any,
    k: int | None = None,
    *,
    joint_absence: bool = False,
  ) -> float:
    lists = _read(query_labels, candidates_labels, "a row of zeros and ones", 2)
    if joint_absence:
      shared = np.asarray(lists.candidates == lists.query_labels)
      return float(_values(metric, lists, shared, k).mean())
    values = _values(metric, lists, lists.candidates > 0, k)
    having = lists.queries.T > 0
    count = having.sum(axis=1)
    means = (having * values).sum(axis=1)[count > 0] / count[count > 0]
    return float(means.mean()) if means.size else 0.0

  for function, suffix, rest in (
    (plain, "", more),
    (intersecting, "_intersecting", ", for multilabel rows that share a class."),
    (macro, "_macro", ", averaged over classes."),
  ):
    function.__name__ = function.__qualname__ = f"retrieval_{name}{suffix}"
    function.__doc__ = title + rest
  return plain, intersecting, macro


retrieval_hit_rate, retrieval_hit_rate_intersecting, retrieval_hit_rate_macro = _functions(
  "hit_rate",
  metrics.hit_rate,
  "Hit rate",
  ": the fraction of queries with a relevant candidate in the first `k`.",
)
retrieval_map, retrieval_map_intersecting, retrieval_map_macro = _functions(
  "map",
  functools.partial(metrics.average_precision, normalizer="retrieved"),
  "Mean average precision",
  ", divided by the number of relevant candidates in the first `k`.",
)
retrieval_mrr, retrieval_mrr_intersecting, retrieval_mrr_macro = _functions(
  "mrr",
  metrics.reciprocal_rank,
  "Mean reciprocal rank",
  " of the first relevant candidate; 0 if its rank is greater than `k`.",
)
retrieval_ndcg, retrieval_ndcg_intersecting, retrieval_ndcg_macro = _functions(
  "ndcg", metrics.ndcg, "Normalised discounted cumulative gain", " at `k`."
)
retrieval_precision, retrieval_precision_intersecting, retrieval_precision_macro = _functions(
  "precision",
  metrics.precision,
  "Precision",
  " of the first `k` candidates; the divisor is `k` even if there are fewer.",
)

_RETRIEVAL = {name: x for name, x in list(globals().items()) if name.startswith("retrieval_")}
RETRIEVAL_METRICS_MULTILABEL: dict[str, RetrievalMetricFn] = {
  name: x for name, x in _RETRIEVAL.items() if name.endswith(("_intersecting", "_macro"))
}
RETRIEVAL_METRICS_MULTICLASS: dict[str, RetrievalMetricFn] = {
  name: x for name, x in _RETRIEVAL.items() if name not in RETRIEVAL_METRICS_MULTILABEL
}


class _Lists(NamedTuple):
  """The queries with a label, and all their candidates, one list after the other.

  Attributes:
    queries: `[queries]` or `[queries, classes]`, the labels of the queries.
    query_labels: The label of the query of each candidate, in the shape of `candidates`.
    candidates: `[candidates]` or `[candidates, classes]`, the labels of the candidates.
    where: `[queries, longest]`, the places of the candidates in padded lists.
  """

  queries: np.ndarray
  query_labels: np.ndarray
  candidates: np.ndarray
  where: np.ndarray


def _values(
  metric: Callable[..., Any], lists: _Lists, shared: np.ndarray, k: int | None
) -> np.ndarray:
  """The values `[kinds, queries]` of a metric for several kinds of relevance.

  `shared`, `[candidates, kinds]`, tells which candidates are relevant.
  """
  where = np.broadcast_to(lists.where, (shared.shape[1], *lists.where.shape))
  labels = np.zeros(where.shape, bool)
  labels[:, lists.where] = shared.T
  if k == 0:
    k, where = None, np.zeros_like(where)
  kinds, queries, width = where.shape
  flat = (kinds * queries, width)
  values = _lists.values(metric, labels.reshape(flat), where.reshape(flat), k=k)
  return values.reshape(kinds, queries)


def _read(query_labels: Any, candidates_labels: Any, kind: str, axes: int) -> _Lists:
  query_labels = _lists.items("query_labels", query_labels)
  candidates_labels = _lists.items("candidates_labels", candidates_labels)
  if len(query_labels) != len(candidates_labels):
    raise ValueError(
      "candidates_labels must have one list for each query, got "
      f"{len(candidates_labels)} lists for {len(query_labels)} queries."
    )
  pairs = zip(query_labels, candidates_labels, strict=True)
  kept = [(label, candidates) for label, candidates in pairs if label is not None]
  if not kept:
    raise ValueError(f"none of {len(query_labels)} queries has a label; pass at least one.")
  queries = _array("query_labels", [label for label, _ in kept])
  lists = [_array("candidates_labels", candidates) for _, candidates in kept]
  shapes = {x.shape[1:] for x in lists if len(x)}
  if queries.ndim != axes or shapes - {queries.shape[1:]}:
    raise ValueError(
      f"a label must be {kind} here, got query labels of shape {list(queries.shape)} and "
      f"candidates of shapes {[list(x.shape) for x in lists[:3]]}."
    )
  if axes == 2:
    for x in (queries, *lists):
      _lists.numbers("a row of zeros and ones", x)
  where = _lists.stack([[True] * len(x) for x in lists])
  none = np.zeros((0, *queries.shape[1:]), queries.dtype)
  candidates = np.concatenate([x for x in lists if len(x)] or [none])
  return _Lists(queries, np.repeat(queries, where.sum(axis=1), axis=0), candidates, where)


def _array(name: str, labels: Any) -> np.ndarray:
  try:
    return np.asarray(_lists.items(name, labels))
  except ValueError:
    raise ValueError(f"{name} must have labels of one shape, got {labels!r}.") from None
