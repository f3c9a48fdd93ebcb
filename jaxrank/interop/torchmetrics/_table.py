"""Internals: the definition of each retrieval metric, and its evaluation on flat rows."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from jaxrank import gains, metrics
from jaxrank._core import sorting
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import Ranked
from jaxrank.interop import _lists
from jaxrank.metrics import metric
from jaxrank.padding import Batch, pad_buckets

# Precision, recall and the cut-offs, `[max_k]` each.
Curve: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int_]]

# Lengths are powers of 4 from 16 on, so that programs are compiled for few lengths. Padding is at
# most 3 of 4 cells of a query of more than 16 rows.
_LEAST = 16
_LENGTHS = _LEAST * 4 ** np.arange(14)


class Row(NamedTuple):
  """The definition of a metric, which its class and its function share.

  Attributes:
    values: A function that returns an array `[queries, ...]`. It is called as
      `values(scores, labels, where, **options)`.
    options: The names of the options that `values` takes.
    lacks: The label without which a query is empty: `"positive"` or `"negative"`.
    binary: Whether targets must be 0 or 1.
  """

  values: Callable[..., Any]
  options: tuple[str, ...]
  lacks: str = "positive"
  binary: bool = True


def _cut(metric: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
  def values(scores: Any, labels: Any, where: Any, top_k: int | None, **options: Any) -> Any:
    return metric(scores, labels, where=where, k=top_k, **fixed, **options)

  return values


def _precision(scores: Any, labels: Any, *, where: Any, k: int | None, adaptive_k: bool) -> Any:
  divisor: Literal["k", "retrieved"] = "retrieved" if adaptive_k else "k"
  return metrics.precision(scores, labels, where=where, k=k, divisor=divisor)


def _r_precision(scores: Any, labels: Any, where: Any) -> Any:
  return metrics.r_precision(scores, labels, where=where)


def _auroc(scores: Any, labels: Any, where: Any, top_k: int | None, max_fpr: float | None) -> Any:
  if top_k is None and max_fpr is None:
    return metrics.auc(scores, labels, where=where)
  return _partial_auc(scores, labels, where=where, k=top_k, max_fpr=max_fpr)


@metric
def _partial_auc(ranked: Ranked, *, k: int | None, max_fpr: ArrayLike | None) -> Array:
  """The area under the ROC curve of the first `k` items, up to a false positive rate.

  A tie is a straight segment of the curve, as it is of the expected hits at each rank.
  """
  b = ranked.relevant()
  hits, misses = (jnp.pad(ranked.cumulative(x)[:k], (1, 0)) for x in (b, ranked.where & ~b))
  end = misses[-1] if max_fpr is None else jnp.asarray(max_fpr).astype(ranked.dtype) * misses[-1]
  width = jnp.diff(jnp.minimum(misses, end))
  rise = jnp.diff(hits) * safe_divide(width, jnp.diff(misses))
  pairs = hits[-1] * misses[-1]
  area = safe_divide(jnp.sum(width * (hits[:-1] + rise / 2)), pairs)
  if max_fpr is None:
    return area
  # Maps the areas of a random and of a perfect order to 1/2 and 1 (McClish, 1989).
  best = safe_divide(end, misses[-1])
  chance = jnp.square(best) / 2
  return jnp.where(pairs > 0, (1 + safe_divide(area - chance, best - chance)) / 2, 0)


def _curves(scores: Any, labels: Any, where: Any, max_k: int, adaptive_k: bool) -> Any:
  curve = metrics.precision_recall_curve(
    scores, labels, where=where, max_k=_lists.roof(max_k, _LEAST), adaptive_k=adaptive_k
  )
  return np.stack([curve.precision, curve.recall], axis=1)[..., :max_k]


MAP = Row(_cut(metrics.average_precision, normalizer="retrieved"), ("top_k",))
MRR = Row(_cut(metrics.reciprocal_rank), ("top_k",))
PRECISION = Row(_cut(_precision), ("top_k", "adaptive_k"))
RECALL = Row(_cut(metrics.recall), ("top_k",))
HIT_RATE = Row(_cut(metrics.hit_rate), ("top_k",))
FALL_OUT = Row(_cut(metrics.fall_out), ("top_k",), lacks="negative")
NDCG = Row(_cut(metrics.ndcg, gain=gains.linear), ("top_k",), binary=False)
R_PRECISION = Row(_r_precision, ())
AUROC = Row(_auroc, ("top_k", "max_fpr"))
CURVE = Row(_curves, ("max_k", "adaptive_k"))


def queries(indexes: np.ndarray, preds: np.ndarray, target: np.ndarray) -> list[Batch]:
  """Groups checked rows by their index, and pads the queries to a few lengths."""
  return pad_buckets(indexes, preds, target, lengths=_LENGTHS)


def longest(batches: list[Batch]) -> int:
  """Returns the number of rows of the longest query."""
  return max(int(batch.where.sum(-1).max()) for batch in batches)


def evaluate(kind: Row, batches: list[Batch], options: Mapping[str, Any]) -> np.ndarray:
  """Computes the values of all queries by ascending index, `[queries, ...]`."""
  return _by_index(batches, [_evaluate(kind, batch, options) for batch in batches])


def _evaluate(kind: Row, batch: Batch, options: Mapping[str, Any]) -> np.ndarray:
  size = len(batch.query_ids)
  spare = ((0, _lists.roof(size, _LEAST) - size), (0, 0))
  scores = sorting.single(batch.scores)
  arrays = (np.pad(x, spare) for x in (scores, batch.labels, batch.where))
  return np.asarray(kind.values(*arrays, **options), np.float32)[:size]


def are_empty(kind: Row, batches: list[Batch]) -> np.ndarray:
  """Returns which queries lack the label that the metric needs, `[queries]`."""
  positive = kind.lacks == "positive"
  present = [batch.where & ((batch.labels > 0) == positive) for batch in batches]
  return ~_by_index(batches, [x.any(-1) for x in present])


def _by_index(batches: list[Batch], values: list[np.ndarray]) -> np.ndarray:
  order = np.argsort(np.concatenate([batch.query_ids for batch in batches]))
  return np.concatenate(values)[order]


def rows(preds: np.ndarray, target: np.ndarray, binary: bool) -> tuple[np.ndarray, np.ndarray]:
  """Checks scores and labels, and returns them as flat arrays of dtypes that jaxrank ranks.

  Raises:
    ValueError: if the metric does not take these dtypes or labels.
  """
  if target.dtype.kind not in "biu" and not jnp.issubdtype(target.dtype, jnp.floating):
    raise ValueError("`target` must be a tensor of booleans, integers or floats")
  if not jnp.issubdtype(preds.dtype, jnp.floating):
    raise ValueError("`preds` must be a tensor of floats")
  if binary and not np.isin(target, (0, 1)).all():
    raise ValueError("`target` must contain `binary` values")
  preds = preds.ravel().astype(np.float64 if preds.dtype.itemsize > 4 else np.float32)
  # torchmetrics ranks a score of -inf last, and jaxrank does not rank it.
  preds = np.maximum(preds, np.finfo(preds.dtype).min)
  return preds, target.ravel().astype(bool if binary else np.float32)
