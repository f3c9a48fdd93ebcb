"""The classes of metrics whose value is a number.

`jaxrank.interop.torchmetrics` and `RetrievalMetric` explain their arguments.
"""

from typing import Any

import numpy as np

from jaxrank.interop.torchmetrics import _table
from jaxrank.interop.torchmetrics._options import Aggregation, EmptyTargetAction, checked
from jaxrank.interop.torchmetrics.base import RetrievalMetric


class _AtCutoff(RetrievalMetric[np.float32]):
  """The base class of metrics of the first `top_k` items of a query."""

  def __init__(
    self,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    top_k: int | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(empty_target_action, ignore_index, aggregation, **kwargs)
    self.top_k = checked("top_k", top_k)


class RetrievalMAP(_AtCutoff):
  """Mean average precision: aggregates `retrieval_average_precision` over the queries.

  >>> metric = RetrievalMAP()
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.6667

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.MAP


class RetrievalMRR(_AtCutoff):
  """Mean reciprocal rank: aggregates `retrieval_reciprocal_rank` over the queries.

  >>> metric = RetrievalMRR()
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.6667

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.MRR


class RetrievalPrecision(_AtCutoff):
  """Precision: aggregates `retrieval_precision` over the queries.

  >>> metric = RetrievalPrecision(top_k=2)
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.2500

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.PRECISION

  def __init__(
    self,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    top_k: int | None = None,
    adaptive_k: bool = False,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)
    self.adaptive_k = checked("adaptive_k", adaptive_k)


class RetrievalRecall(_AtCutoff):
  """Recall: aggregates `retrieval_recall` over the queries.

  >>> metric = RetrievalRecall(top_k=2)
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.RECALL


class RetrievalHitRate(_AtCutoff):
  """Hit rate: aggregates `retrieval_hit_rate` over the queries.

  >>> metric = RetrievalHitRate(top_k=2)
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.HIT_RATE


class RetrievalFallOut(_AtCutoff):
  """Fall-out: aggregates `retrieval_fall_out` over the queries.

  A query is empty if it has no negative target, and counts as 1 by default. Lower values are
  better.

  >>> metric = RetrievalFallOut(top_k=2)
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  1.0000

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.FALL_OUT
  higher_is_better = False

  def __init__(
    self,
    empty_target_action: EmptyTargetAction = "pos",
    ignore_index: int | None = None,
    top_k: int | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)


class RetrievalNormalizedDCG(_AtCutoff):
  """Normalised DCG: aggregates `retrieval_normalized_dcg` over the queries.

  >>> metric = RetrievalNormalizedDCG()
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.7500

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.NDCG


class RetrievalRPrecision(RetrievalMetric[np.float32]):
  """R-precision: aggregates `retrieval_r_precision` over the queries.

  >>> metric = RetrievalRPrecision()
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.R_PRECISION


class RetrievalAUROC(_AtCutoff):
  """Area under the ROC curve: aggregates `retrieval_auroc` over the queries.

  >>> metric = RetrievalAUROC()
  >>> value = metric([0.2, 0.3, 0.5, 0.9, 0.1], [1, 0, 0, 1, 0], indexes=[0, 0, 0, 1, 1])
  >>> print(f"{value:.4f}")
  0.5000

  See `jaxrank.interop.torchmetrics` for the arguments.
  """

  kind = _table.AUROC

  def __init__(
    self,
    empty_target_action: EmptyTargetAction = "neg",
    ignore_index: int | None = None,
    top_k: int | None = None,
    max_fpr: float | None = None,
    aggregation: Aggregation = "mean",
    **kwargs: Any,
  ):
    super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)
    self.max_fpr = checked("max_fpr", max_fpr)
