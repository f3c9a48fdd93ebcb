"""What each retrieval metric of torchmetrics is in jaxrank, and how flat rows become its values."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank import gains, metrics
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.types import Ranked
from jaxrank.interop import _lists
from jaxrank.metrics._apply import metric
from jaxrank.padding import Batch, pad_buckets

# Few shapes, so that other data seldom compile anew; at most 3 of 4 cells of a long row are waste.
_LEAST = 16
_LENGTHS = _LEAST * 4 ** np.arange(14)

_AGGREGATIONS: dict[str, Callable[[np.ndarray], Any]] = {
  "mean": lambda values: np.mean(values, axis=0, dtype=np.float64),
  "median": lambda values: np.quantile(values, 0.5, axis=0, method="lower"),
  "min": lambda values: np.min(values, axis=0),
  "max": lambda values: np.max(values, axis=0),
}


class Kind(NamedTuple):
  """A row of the table.

  Attributes:
    about: What it is, a noun.
    values: `values(scores, labels, where, **own)`, an array `[queries, ...]`.
    own: Its own options with their defaults, in the order of the arguments.
    lacks: The label without which a query is empty.
    binary: Whether targets are 0 or 1.
  """

  about: str
  values: Callable[..., Any]
  own: Mapping[str, Any]
  lacks: str = "positive"
  binary: bool = True


def _cut(metric: Callable[..., Array], **fixed: Any) -> Callable[..., Array]:
  def values(scores, labels, where, top_k, **own):
    return metric(scores, labels, where=where, k=top_k, **fixed, **own)

  return values


def _precision(scores, labels, *, where, k, adaptive_k):
  divisor = "retrieved" if adaptive_k else "k"
  return metrics.precision(scores, labels, where=where, k=k, divisor=divisor)


def _r_precision(scores, labels, where):
  return metrics.r_precision(scores, labels, where=where)


def _auroc(scores, labels, where, top_k, max_fpr):
  if top_k is None and max_fpr is None:
    return metrics.auc(scores, labels, where=where)
  return _partial_auc(scores, labels, where=where, k=top_k, max_fpr=max_fpr)


@metric(sorts="all")
def _partial_auc(ranked: Ranked, *, k: int | None, max_fpr: ArrayLike | None) -> Array:
  """The area under the ROC curve of the first `k` items, up to a rate of false positives.

  A tie is one straight piece of the curve, and so it is in the expected hits, rank by rank.
  """
  b, exact = ranked.relevant(None), ranked.exact("retrieval_auroc")
  hits, misses = (jnp.pad(exact.hits(x)[:k], (1, 0)) for x in (b, ranked.where & ~b))
  end = misses[-1] if max_fpr is None else jnp.asarray(max_fpr).astype(ranked.dtype) * misses[-1]
  width = jnp.diff(jnp.minimum(misses, end))
  rise = jnp.diff(hits) * safe_divide(width, jnp.diff(misses))
  pairs = hits[-1] * misses[-1]
  area = safe_divide(jnp.sum(width * (hits[:-1] + rise / 2)), pairs)
  if max_fpr is None:
    return area
  # From the areas of chance and of a perfect order to 1/2 and 1 (McClish, 1989).
  best = safe_divide(end, misses[-1])
  chance = jnp.square(best) / 2
  return jnp.where(pairs > 0, (1 + safe_divide(area - chance, best - chance)) / 2, 0)


def _curves(scores, labels, where, max_k, adaptive_k):
  curve = metrics.precision_recall_curve(
    scores, labels, where=where, max_k=_lists.roof(max_k, _LEAST), adaptive_k=adaptive_k
  )
  return np.stack([curve.precision, curve.recall], axis=1)[..., :max_k]


_CUT = {"top_k": None}
MAP = Kind("Average precision", _cut(metrics.average_precision, normalizer="retrieved"), _CUT)
MRR = Kind("Reciprocal rank", _cut(metrics.reciprocal_rank), _CUT)
PRECISION = Kind("Precision", _cut(_precision), {"top_k": None, "adaptive_k": False})
RECALL = Kind("Recall", _cut(metrics.recall), _CUT)
HIT_RATE = Kind("Hit rate", _cut(metrics.hit_rate), _CUT)
FALL_OUT = Kind("Fall-out", _cut(metrics.fall_out), _CUT, lacks="negative")
NDCG = Kind(
  "Normalised discounted cumulative gain, with linear gain",
  _cut(metrics.ndcg, gain=gains.linear),
  _CUT,
  binary=False,
)
R_PRECISION = Kind("R-precision", _r_precision, {})
AUROC = Kind("Area under the ROC curve", _auroc, {"top_k": None, "max_fpr": None})
CURVE = Kind("Precision and recall at each cut-off", _curves, {"max_k": None, "adaptive_k": False})


def queries(indexes: np.ndarray, preds: np.ndarray, target: np.ndarray) -> list[Batch]:
  """Checked rows, padded query by query to a few lengths."""
  return pad_buckets(indexes, preds, target, lengths=_LENGTHS)


def evaluate(kind: Kind, batches: list[Batch], own: Mapping[str, Any]) -> np.ndarray:
  """The values of all queries by ascending index, `[queries, ...]`."""
  return _by_index(batches, [_evaluate(kind, batch, own) for batch in batches])


def _evaluate(kind: Kind, batch: Batch, own: Mapping[str, Any]) -> np.ndarray:
  size = len(batch.query_ids)
  spare = ((0, _lists.roof(size, _LEAST) - size), (0, 0))
  arrays = (np.pad(x, spare) for x in (batch.scores, batch.labels, batch.where))
  return np.asarray(kind.values(*arrays, **own), np.float32)[:size]


def are_empty(kind: Kind, batches: list[Batch]) -> np.ndarray:
  """Which queries lack the label that the metric needs, `[queries]`."""
  positive = kind.lacks == "positive"
  found = [batch.where & ((batch.labels > 0) == positive) for batch in batches]
  return ~_by_index(batches, [x.any(-1) for x in found])


def _by_index(batches: list[Batch], values: list[np.ndarray]) -> np.ndarray:
  order = np.argsort(np.concatenate([batch.query_ids for batch in batches]))
  return np.concatenate(values)[order]


def aggregate(values: np.ndarray, how: str | Callable[[np.ndarray], Any]) -> Any:
  """Values `[queries, ...]` aggregated over the queries: a float32 scalar or array."""
  if callable(how):
    return np.float32(np.apply_along_axis(how, 0, values))
  return np.float32(_AGGREGATIONS[how](values))


def rows(preds: np.ndarray, target: np.ndarray, binary: bool) -> tuple[np.ndarray, np.ndarray]:
  """Checked scores and labels, flat, in dtypes that the core ranks.

  Raises:
    ValueError: if dtypes or labels are not what the metric takes.
  """
  if target.dtype.kind not in "biu" and not jnp.issubdtype(target.dtype, jnp.floating):
    raise ValueError("`target` must be a tensor of booleans, integers or floats")
  if not jnp.issubdtype(preds.dtype, jnp.floating):
    raise ValueError("`preds` must be a tensor of floats")
  if binary and not np.isin(target, (0, 1)).all():
    raise ValueError("`target` must contain `binary` values")
  preds = preds.ravel().astype(np.float64 if preds.dtype.itemsize > 4 else np.float32)
  # The last rank is a rank in torchmetrics: in jaxrank -inf has none.
  preds = np.maximum(preds, np.finfo(preds.dtype).min)
  return preds, target.ravel().astype(bool if binary else np.float32)


def _is_cutoff(x: Any) -> bool:
  return x is None or (isinstance(x, int | np.integer) and x is not True and bool(x > 0))


# Whether an option is valid, and what to say if not.
_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
  "empty_target_action": (
    lambda x: x in ("error", "skip", "neg", "pos"),
    "Argument `empty_target_action` received a wrong value `{}`.",
  ),
  "ignore_index": (
    lambda x: x is None or isinstance(x, int | np.integer),
    "Argument `ignore_index` must be an integer or None.",
  ),
  "aggregation": (
    lambda x: callable(x) or x in tuple(_AGGREGATIONS),
    "Argument `aggregation` must be one of `mean`, `median`, `min`, `max` or a custom callable "
    "function which takes tensor of values, but got {}.",
  ),
  "top_k": (_is_cutoff, "`top_k` has to be a positive integer or None"),
  "max_k": (_is_cutoff, "`max_k` has to be a positive integer or None"),
  "adaptive_k": (lambda x: isinstance(x, bool), "`adaptive_k` has to be a boolean"),
  "max_fpr": (
    lambda x: x is None or (isinstance(x, float) and 0 < x <= 1),
    "Arguments `max_fpr` should be a float in range (0, 1], but got: {}",
  ),
  "min_precision": (
    lambda x: isinstance(x, float) and 0 <= x <= 1,
    "`min_precision` has to be a positive float between 0 and 1",
  ),
}


def check_options(options: Mapping[str, Any]) -> None:
  """Raises `ValueError` for the first option that torchmetrics documents otherwise."""
  for name, value in options.items():
    valid, message = _OPTIONS[name]
    if not valid(value):
      raise ValueError(message.format(value))
