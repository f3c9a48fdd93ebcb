"""The retrieval metrics of LlamaIndex, `llama_index.core.evaluation.retrieval.metrics`.

A metric is constructed with its options. `compute` takes the ids of one query: `expected_ids`, the
relevant documents in any order, and `retrieved_ids`, best first. Its other arguments are accepted
and have no effect. `compute_many` takes the lists of many queries and returns an array.

An id that is retrieved twice occupies both ranks and is relevant at the first one only. An id that
is expected twice is one document.

>>> result = MRR().compute(expected_ids=["d1", "d3"], retrieved_ids=["d2", "d1", "d3"])
>>> print(result)
Score: 0.5
Metadata: {}
>>> print(Recall().compute_many([["a", "b"], ["c"]], [["a"], ["x", "c"]]))
[0.5 1. ]
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import Array

from jaxrank import discounts, metrics
from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import Ranked
from jaxrank.interop import _lists
from jaxrank.metrics import metric

_MODES = ("linear", "exponential")


@dataclasses.dataclass(kw_only=True)
class RetrievalMetricResult:
  """The score of one query.

  Attributes:
    score: The score, also `float(result)`.
    metadata: Further information of the metric; empty for the metrics of this module.
  """

  score: float
  metadata: dict[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    try:
      self.score = float(self.score)
    except (TypeError, ValueError):
      raise ValueError(f"score must be a number, got {self.score!r}.") from None

  def __str__(self) -> str:
    return f"Score: {self.score}\nMetadata: {self.metadata}"

  def __float__(self) -> float:
    return self.score


class Lists(NamedTuple):
  """Lists of ids as arrays `[queries, n]` for the metrics of `jaxrank`.

  The columns are the retrieved documents, best first, and then the expected documents that are not
  retrieved.

  Attributes:
    scores: `[queries, n]`, minus the position of a retrieved document, and -inf for the others.
    labels: `[queries, n]`, whether a document is expected; False for a repeated id.
    where: `[queries, n]`, False on padding.
    repeated: `[queries, n]`, whether the id occurs at a smaller rank too.
  """

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  repeated: np.ndarray


def to_arrays(expected_ids: Any, retrieved_ids: Any) -> Lists:
  """Converts the lists of many queries to arrays, for `jaxrank.evaluate` and the native metrics.

  >>> lists = to_arrays([["a", "b"]], [["x", "a", "a"]])
  >>> print(lists.scores, lists.labels.astype(int))
  [[  0.  -1.  -2. -inf]] [[0 1 0 1]]

  Args:
    expected_ids: For each query, the list of the ids of its relevant documents.
    retrieved_ids: For each query, the list of the retrieved ids, best first; it may be empty.

  Returns:
    The arrays, as `Lists`.

  Raises:
    ValueError: if a query has no expected ids, or the numbers of lists differ.
    TypeError: if an argument is not a list of lists of hashable ids.
  """
  expected_ids = _lists.items("expected_ids", expected_ids)
  retrieved_ids = _lists.items("retrieved_ids", retrieved_ids)
  if len(expected_ids) != len(retrieved_ids):
    raise ValueError(
      "expected_ids and retrieved_ids must have one list for each query, got "
      f"{len(expected_ids)} and {len(retrieved_ids)}."
    )
  pairs = zip(expected_ids, retrieved_ids, strict=True)
  return _stacked([_query(*pair, f" for query {i}") for i, pair in enumerate(pairs)])


class _Query(NamedTuple):
  """The labels and repeats of the retrieved documents, and the number of missed documents."""

  labels: list[bool]
  repeated: list[bool]
  missed: int


def _query(expected_ids: Any, retrieved_ids: Any, of: str = "") -> _Query:
  expected, retrieved = _ids("expected_ids", expected_ids), _ids("retrieved_ids", retrieved_ids)
  # Among many queries, one for which nothing is retrieved has the value 0.
  if not expected or (not retrieved and not of):
    raise ValueError(f"Retrieved ids and expected ids must be provided{of}")
  try:
    wanted, first = set(expected), dict[Any, int]()
    repeated = [first.setdefault(x, position) != position for position, x in enumerate(retrieved)]
  except TypeError as error:
    raise TypeError(f"ids must be hashable: {error}; compute_many takes many queries.") from None
  labels = [x in wanted and not again for x, again in zip(retrieved, repeated, strict=True)]
  return _Query(labels, repeated, len(wanted - first.keys()))


def _ids(name: str, ids: Any) -> list[Any]:
  if ids is None:
    return []
  ids = _lists.items(name, ids)
  return ids.tolist() if isinstance(ids, np.ndarray) else ids


def _stacked(queries: Sequence[_Query]) -> Lists:
  labels = _lists.stack([q.labels + [True] * q.missed for q in queries])
  where = _lists.stack([[True] * (len(q.labels) + q.missed) for q in queries])
  missed = _lists.stack([[False] * len(q.labels) + [True] * q.missed for q in queries])
  repeated = _lists.stack([q.repeated + [False] * q.missed for q in queries])
  position = np.arange(where.shape[1], dtype=np.float64)
  return Lists(np.where(missed, -np.inf, 0 - position), labels, where, repeated)


class BaseRetrievalMetric(abc.ABC):
  """The base class of the metrics; a user's metric overrides `compute`."""

  metric_name: ClassVar[str]

  @abc.abstractmethod
  def compute(
    self,
    query: str | None = None,
    expected_ids: Any = None,
    retrieved_ids: Any = None,
    expected_texts: Any = None,
    retrieved_texts: Any = None,
    **kwargs: Any,
  ) -> RetrievalMetricResult:
    """The result of one query."""


class _ListMetric(BaseRetrievalMetric):
  """The base class of the metrics of this module, which use ids only."""

  def compute(
    self,
    query: str | None = None,
    expected_ids: Any = None,
    retrieved_ids: Any = None,
    expected_texts: Any = None,
    retrieved_texts: Any = None,
    **kwargs: Any,
  ) -> RetrievalMetricResult:
    """The result of one query, from its ids only.

    Raises:
      ValueError: if there are no expected or no retrieved ids.
      TypeError: if an argument is not a list of hashable ids.
    """
    lists = _stacked([_query(expected_ids, retrieved_ids)])
    return RetrievalMetricResult(score=float(self._values(lists)[0]))

  def compute_many(self, expected_ids: Any, retrieved_ids: Any) -> np.ndarray:
    """The scores of many queries, `[queries]`; the arguments are those of `to_arrays`.

    A query for which nothing is retrieved has the score 0, where `compute` raises as LlamaIndex
    does: one such query must not stop the evaluation of all others.

    Raises:
      ValueError: if a query has no expected ids, or the numbers of lists differ.
      TypeError: if an argument is not a list of lists of hashable ids.
    """
    return self._values(to_arrays(expected_ids, retrieved_ids))

  @abc.abstractmethod
  def _values(self, lists: Lists) -> np.ndarray: ...


@dataclasses.dataclass(kw_only=True)
class HitRate(_ListMetric):
  """Hit rate: whether an expected document is retrieved.

  Attributes:
    use_granular_hit_rate: Whether to return the fraction of the expected documents that are
      retrieved, as `Recall` does.
  """

  metric_name: ClassVar[str] = "hit_rate"
  use_granular_hit_rate: bool = False

  def __post_init__(self):
    checks.true_or_false("use_granular_hit_rate", self.use_granular_hit_rate)

  def _values(self, lists: Lists) -> np.ndarray:
    return _evaluate(metrics.recall if self.use_granular_hit_rate else metrics.hit_rate, lists)


@dataclasses.dataclass(kw_only=True)
class MRR(_ListMetric):
  """The reciprocal rank of the first expected document.

  Attributes:
    use_granular_mrr: Whether to return the mean of the reciprocal ranks of all expected documents
      that are retrieved.
  """

  metric_name: ClassVar[str] = "mrr"
  use_granular_mrr: bool = False

  def __post_init__(self):
    checks.true_or_false("use_granular_mrr", self.use_granular_mrr)

  def _values(self, lists: Lists) -> np.ndarray:
    return _evaluate(_reciprocal_ranks if self.use_granular_mrr else metrics.reciprocal_rank, lists)


@metric
def _reciprocal_ranks(ranked: Ranked) -> Array:
  b = ranked.relevant()
  return safe_divide(ranked.expect(b, discounts.reciprocal), ranked.expect(b, discounts.constant))


@dataclasses.dataclass(kw_only=True)
class Precision(_ListMetric):
  """Precision: the fraction of the retrieved documents that are expected."""

  metric_name: ClassVar[str] = "precision"

  def _values(self, lists: Lists) -> np.ndarray:
    once = lists._replace(where=lists.where & ~lists.repeated)
    return _evaluate(_precision, once)


@dataclasses.dataclass(kw_only=True)
class Recall(_ListMetric):
  """Recall: the fraction of the expected documents that are retrieved."""

  metric_name: ClassVar[str] = "recall"

  def _values(self, lists: Lists) -> np.ndarray:
    return _evaluate(metrics.recall, lists)


@dataclasses.dataclass(kw_only=True)
class AveragePrecision(_ListMetric):
  """Average precision: the precisions at retrieved expected documents, over all expected ones."""

  metric_name: ClassVar[str] = "ap"

  def _values(self, lists: Lists) -> np.ndarray:
    return _evaluate(metrics.average_precision, lists)


@dataclasses.dataclass(kw_only=True)
class NDCG(_ListMetric):
  """Normalised discounted cumulative gain; the ideal retrieves every expected document first.

  Attributes:
    mode: `"linear"` or `"exponential"`; both gains are equal for binary relevance.

  Raises:
    ValueError: if the mode is another one.
  """

  metric_name: ClassVar[str] = "ndcg"
  mode: str = "linear"

  def __post_init__(self):
    checks.choice("mode", self.mode, _MODES)

  def _values(self, lists: Lists) -> np.ndarray:
    return _evaluate(metrics.ndcg, lists)


def discounted_gain(*, rel: float, i: int, mode: str) -> float:
  """The discounted gain of a document: its gain, divided by `log2(i + 1)`.

  Args:
    rel: The relevance of the document, a number.
    i: The rank of the document, at least 1.
    mode: `"linear"` for the gain `rel`, or `"exponential"` for `2 ** rel - 1`.

  Returns:
    The discounted gain.

  Raises:
    ValueError: if the mode is unknown, or the rank is less than 1.
    TypeError: if `rel` is not a number.
  """
  checks.choice("mode", mode, _MODES)
  checks.number("rel", int(rel) if isinstance(rel, bool) else rel)
  if i < 1:
    raise ValueError(f"i must be a rank, at least 1, got {i}.")
  return (2**rel - 1 if mode == "exponential" else rel) / math.log2(i + 1)


def _evaluate(metric: Callable[..., Any], lists: Lists) -> np.ndarray:
  return _lists.values(metric, lists.labels, lists.where, lists.scores)


_precision = functools.partial(metrics.precision, divisor="retrieved")


METRIC_REGISTRY: dict[str, type[BaseRetrievalMetric]] = {
  kind.metric_name: kind for kind in (HitRate, MRR, Precision, Recall, AveragePrecision, NDCG)
}


def resolve_metrics(metrics: Iterable[str]) -> list[type[BaseRetrievalMetric]]:
  """The classes of the metrics with these names, in order.

  Raises:
    ValueError: if a name is unknown.
    TypeError: if `metrics` is not a list of names.
  """
  names = [metrics] if isinstance(metrics, str) else list(_lists.items("metrics", metrics))
  for name in names:
    if not isinstance(name, str) or name not in METRIC_REGISTRY:
      raise ValueError(f"Invalid metric name: {name}")
  return [METRIC_REGISTRY[name] for name in names]
