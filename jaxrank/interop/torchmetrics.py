"""The retrieval metrics of torchmetrics, with numpy in place of torch.

Names, arguments and results are those of `torchmetrics.retrieval` and of
`torchmetrics.functional.retrieval`. Tensors, arrays of numpy and JAX and lists come in, float32
scalars and arrays of numpy go out. Tied scores are averaged over their orders by every metric, as
torchmetrics does for nDCG. `docs/interop.md` lists what else differs.

>>> metric = RetrievalMAP(top_k=3)
>>> metric.update(preds=[0.2, 0.3, 0.5], target=[0, 1, 0], indexes=[0, 0, 0])
>>> metric.update(preds=[0.1, 0.3, 0.5, 0.2], target=[0, 1, 0, 1], indexes=[1, 1, 1, 1])
>>> print(f"{metric.compute():.4f}")
0.5417
>>> print(f"{retrieval_recall([0.2, 0.3, 0.5], [1, 0, 1], top_k=2):.4f}")
0.5000
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrank import metrics, plot
from jaxrank.interop import _lists, _retrieval
from jaxrank.interop._retrieval import Kind
from jaxrank.padding import Batch

# Options of every metric of torchmetrics that have no effect: all state is here, on the host.
_OF_TORCH = {
  "compute_on_cpu",
  "compute_with_cache",
  "dist_sync_fn",
  "dist_sync_on_step",
  "distributed_available_fn",
  "process_group",
  "sync_on_compute",
}


class RetrievalMetric:
  """A metric of flat rows, grouped into queries by `indexes`, and aggregated over queries.

  Rows are kept on the host until `compute`, which evaluates all queries at once. Rows of one index
  are one query, whichever updates brought them.

  Args:
    empty_target_action: What a query without a positive target counts as (fall-out: without a
      negative one): `"neg"`, 0; `"pos"`, 1; `"skip"`, nothing; `"error"` raises.
    ignore_index: Rows with this target are dropped.
    aggregation: `"mean"`, `"median"` (the lower of two), `"min"`, `"max"`, or a function of the
      values `[queries]`, which is called once for each cut-off of a curve.
    top_k: Cut-off, a positive integer; None is the whole list.
    max_k: The last cut-off of a curve; None is the length of the longest query.
    adaptive_k: Whether a cut-off is at most the number of rows of the query.
    max_fpr: The rate of false positives up to which the standardised area is taken, in (0, 1].
    min_precision: The precision to keep, in [0, 1].

  Each metric has its own of the last five. Those of torchmetrics that distribute the state or move
  it between devices are accepted and have no effect.

  Raises:
    ValueError: if an argument is none of these, or unknown.
  """

  __signature__: inspect.Signature
  kind: Kind
  higher_is_better = True
  is_differentiable = False
  full_state_update = False
  empty_target_action: str
  ignore_index: int | None
  aggregation: str | Callable[[np.ndarray], Any]

  def __init__(self, *args: Any, **kwargs: Any):
    kwargs = {name: x for name, x in kwargs.items() if name not in _OF_TORCH}
    unknown = sorted(f"`{name}`" for name in kwargs if name not in self.__signature__.parameters)
    if unknown:
      raise ValueError(f"Unexpected keyword arguments: {', '.join(unknown)}")
    given = self.__signature__.bind(*args, **kwargs)
    given.apply_defaults()
    _retrieval.check_options(given.arguments)
    vars(self).update(given.arguments)
    self.reset()

  def reset(self) -> None:
    """Forgets all rows."""
    self.indexes: list[np.ndarray] = []
    self.preds: list[np.ndarray] = []
    self.target: list[np.ndarray] = []

  def update(self, preds: Any, target: Any, indexes: Any) -> None:
    """Adds rows.

    Args:
      preds: `[...]`, scores of any sign, floats.
      target: `[...]`, 0 or 1; grades for nDCG.
      indexes: `[...]`, integers, the query of each row.

    Raises:
      ValueError: if shapes or dtypes differ from these, or no row is left.
    """
    if indexes is None:
      raise ValueError("Argument `indexes` cannot be None")
    preds, target, indexes = map(_lists.numpy, (preds, target, indexes))
    if not indexes.shape == preds.shape == target.shape:
      raise ValueError("`indexes`, `preds` and `target` must be of the same shape")
    if indexes.dtype.kind not in "iu":
      raise ValueError("`indexes` must be a tensor of long integers")
    if self.ignore_index is not None:
      kept = target != self.ignore_index
      preds, target, indexes = preds[kept], target[kept], indexes[kept]
    if not indexes.size or not indexes.ndim:
      raise ValueError("`indexes`, `preds` and `target` must be non-empty and non-scalar tensors")
    preds, target = _retrieval.rows(preds, target, self.kind.binary)
    self.indexes.append(indexes.ravel())
    self.preds.append(preds)
    self.target.append(target)

  def compute(self) -> Any:
    """The value of all rows so far.

    Raises:
      ValueError: if there are none, or `empty_target_action="error"` and a query is empty.
    """
    if not self.preds:
      raise ValueError("No samples to concatenate")
    rows = (np.concatenate(x) for x in (self.indexes, self.preds, self.target))
    batches = _retrieval.queries(*rows)
    values = _retrieval.evaluate(self.kind, batches, self._own(batches))
    return self._result(values, _retrieval.are_empty(self.kind, batches))

  def _own(self, batches: list[Batch]) -> dict[str, Any]:
    return {name: getattr(self, name) for name in self.kind.own}

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    """The values `[queries, ...]` aggregated, with empty queries counted as they should be."""
    action = self.empty_target_action
    if action == "error" and empty.any():
      raise ValueError(
        f"`compute` method was provided with a query with no {self.kind.lacks} target."
      )
    if action == "skip":
      values = values[~empty]
    else:
      # NaN stays: a model that diverged must not look good.
      filled = empty.reshape(-1, *[1] * (values.ndim - 1)) & ~np.isnan(values)
      values = np.where(filled, np.float32(action == "pos"), values)
    if not len(values):
      return np.zeros(values.shape[1:], np.float32)[()]
    return _retrieval.aggregate(values, self.aggregation)

  def forward(self, preds: Any, target: Any, indexes: Any) -> Any:
    """Adds rows, and returns the value of these alone."""
    batch = self.clone()
    batch.reset()
    batch.update(preds, target, indexes)
    self.indexes += batch.indexes
    self.preds += batch.preds
    self.target += batch.target
    return batch.compute()

  __call__ = forward

  def clone(self) -> "RetrievalMetric":
    """A copy with rows of its own."""
    clone = copy.copy(self)
    clone.indexes, clone.preds, clone.target = [*self.indexes], [*self.preds], [*self.target]
    return clone

  def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Draws a value, or a list of values as steps; None is the value of all rows so far.

    Returns:
      The figure and the axes.

    Raises:
      ModuleNotFoundError: if matplotlib is not installed.
    """
    val = self.compute() if val is None else val
    return plot.values(val, name=type(self).__name__, ax=ax)


class _PrecisionRecallCurve(RetrievalMetric):
  max_k: int | None

  def _own(self, batches: list[Batch]) -> dict[str, Any]:
    own = super()._own(batches)
    longest = max(int(batch.where.sum(-1).max()) for batch in batches)
    return own | {"max_k": self.max_k or longest}

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    precision, recall = super()._result(values, empty)
    return precision, recall, np.arange(1, len(recall) + 1)

  def plot(self, curve: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Draws a curve, recall across and precision up; None is the curve of all rows so far."""
    figure, ax = plot.precision_recall(self.compute() if curve is None else curve, ax=ax)
    ax.set_title(type(self).__name__)
    return figure, ax


class _RecallAtFixedPrecision(_PrecisionRecallCurve):
  min_precision: float

  def _result(self, values: np.ndarray, empty: np.ndarray) -> Any:
    curve = super()._result(values, empty)
    recall, k = metrics.recall_at_fixed_precision(curve, self.min_precision)
    return np.asarray(recall)[()], np.asarray(k)[()]

  def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Draws a recall, or a list of them as steps, alone or in results; None computes one."""
    val = self.compute() if val is None else val
    val = [_recall(x) for x in val] if isinstance(val, list) else _recall(val)
    return RetrievalMetric.plot(self, val, ax)


def _recall(result: Any) -> Any:
  return result[0] if isinstance(result, tuple) else result


def _signature(**defaults: Any) -> inspect.Signature:
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  return inspect.Signature(
    [inspect.Parameter(name, kind, default=value) for name, value in defaults.items()]
  )


def _class(
  name: str,
  kind: Kind,
  base: type[RetrievalMetric] = RetrievalMetric,
  empty: str = "neg",
  **first: Any,
) -> type[RetrievalMetric]:
  """A row of the table as a class; curves have their own options first, as in torchmetrics."""
  common = {"empty_target_action": empty, "ignore_index": None}
  aggregation = {"aggregation": "mean"}
  if issubclass(base, _PrecisionRecallCurve):
    signature = _signature(**first, **kind.own, **common, **aggregation)
  else:
    signature = _signature(**common, **kind.own, **aggregation)
  return type(
    name,
    (base,),
    {
      "__doc__": f"{kind.about}, over queries{signature}: see `RetrievalMetric`.",
      "__module__": __name__,
      "__signature__": signature,
      "kind": kind,
      "higher_is_better": kind.lacks == "positive",
    },
  )


def _functional(name: str, kind: Kind) -> Callable[..., Any]:
  """A row of the table as a function of one query."""
  options = _signature(**kind.own)
  required = [
    inspect.Parameter(x, inspect.Parameter.POSITIONAL_OR_KEYWORD) for x in ("preds", "target")
  ]
  signature = inspect.Signature([*required, *options.parameters.values()])

  def functional(*args, **kwargs):
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    own = dict(given.arguments)
    preds, target = (_lists.numpy(own.pop(x)) for x in ("preds", "target"))
    return _one_query(kind, preds, target, own)

  functional.__name__ = functional.__qualname__ = name
  functional.__doc__ = f"{kind.about} of one query, `{name}{signature}`."
  vars(functional)["__signature__"] = signature
  return functional


def _one_query(kind: Kind, preds: np.ndarray, target: np.ndarray, own: dict[str, Any]) -> Any:
  if preds.shape != target.shape:
    raise ValueError("`preds` and `target` must be of the same shape")
  if not preds.size or not preds.ndim:
    raise ValueError("`preds` and `target` must be non-empty and non-scalar tensors")
  preds, target = _retrieval.rows(preds, target, kind.binary)
  _retrieval.check_options(own)
  if kind is _retrieval.CURVE:
    own["max_k"] = own["max_k"] or preds.size
  batches = _retrieval.queries(np.zeros(preds.size, np.int64), preds, target)
  (value,) = _retrieval.evaluate(kind, batches, own)
  if kind is not _retrieval.CURVE:
    return value
  last = preds.size if own["adaptive_k"] else own["max_k"]
  return *value, np.minimum(np.arange(1, own["max_k"] + 1), last)


RetrievalMAP = _class("RetrievalMAP", _retrieval.MAP)
RetrievalMRR = _class("RetrievalMRR", _retrieval.MRR)
RetrievalPrecision = _class("RetrievalPrecision", _retrieval.PRECISION)
RetrievalRecall = _class("RetrievalRecall", _retrieval.RECALL)
RetrievalHitRate = _class("RetrievalHitRate", _retrieval.HIT_RATE)
RetrievalFallOut = _class("RetrievalFallOut", _retrieval.FALL_OUT, empty="pos")
RetrievalNormalizedDCG = _class("RetrievalNormalizedDCG", _retrieval.NDCG)
RetrievalRPrecision = _class("RetrievalRPrecision", _retrieval.R_PRECISION)
RetrievalAUROC = _class("RetrievalAUROC", _retrieval.AUROC)
RetrievalPrecisionRecallCurve = _class(
  "RetrievalPrecisionRecallCurve", _retrieval.CURVE, _PrecisionRecallCurve
)
RetrievalRecallAtFixedPrecision = _class(
  "RetrievalRecallAtFixedPrecision", _retrieval.CURVE, _RecallAtFixedPrecision, min_precision=0.0
)

retrieval_average_precision = _functional("retrieval_average_precision", _retrieval.MAP)
retrieval_reciprocal_rank = _functional("retrieval_reciprocal_rank", _retrieval.MRR)
retrieval_precision = _functional("retrieval_precision", _retrieval.PRECISION)
retrieval_recall = _functional("retrieval_recall", _retrieval.RECALL)
retrieval_hit_rate = _functional("retrieval_hit_rate", _retrieval.HIT_RATE)
retrieval_fall_out = _functional("retrieval_fall_out", _retrieval.FALL_OUT)
retrieval_normalized_dcg = _functional("retrieval_normalized_dcg", _retrieval.NDCG)
retrieval_r_precision = _functional("retrieval_r_precision", _retrieval.R_PRECISION)
retrieval_auroc = _functional("retrieval_auroc", _retrieval.AUROC)
retrieval_precision_recall_curve = _functional("retrieval_precision_recall_curve", _retrieval.CURVE)
