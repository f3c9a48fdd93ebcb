"""The retrieval metrics of torchmetrics, with or without torch.

Names, arguments and results are those of `torchmetrics.retrieval` and of
`torchmetrics.functional.retrieval`. The metrics take torch tensors, numpy and JAX arrays and lists.
The classes are metrics of torchmetrics that return tensors where it is installed; otherwise they
return float32 numpy scalars and arrays, as the functions always do. Every metric averages tied
scores over their orders, as torchmetrics does for nDCG. `docs/interop.md` lists the other
differences.

The arguments that the metrics share mean the same in all of them:

* `preds`: the scores of the items, floats of any sign and any shape.
* `target`: in the shape of `preds`, 1 for a relevant item and 0 for any other item.
* `top_k`: the number of items at the top of a query that count, a positive integer; None is all.
* `max_k`: the last cut-off of a curve, a positive integer; None is the number of items, or that of
  the longest query.
* `adaptive_k`: whether a cut-off is at most the number of items of the query. Otherwise precision
  divides by the cut-off even where a query has fewer items.
* `max_fpr`: the false positive rate at which the area under the ROC curve ends, a float in (0, 1].
  The area is then standardised. None takes the whole area.
* `RetrievalMetric` describes the other arguments of the classes.

>>> metric = RetrievalMAP(top_k=3)
>>> metric.update(preds=[0.2, 0.3, 0.5], target=[0, 1, 0], indexes=[0, 0, 0])
>>> metric.update(preds=[0.1, 0.3, 0.5, 0.2], target=[0, 1, 0, 1], indexes=[1, 1, 1, 1])
>>> print(f"{metric.compute():.4f}")
0.5417
>>> print(f"{retrieval_recall([0.2, 0.3, 0.5], [1, 0, 1], top_k=2):.4f}")
0.5000
"""

from jaxrank.interop.torchmetrics.base import RetrievalMetric
from jaxrank.interop.torchmetrics.classes import (
  RetrievalAUROC,
  RetrievalFallOut,
  RetrievalHitRate,
  RetrievalMAP,
  RetrievalMRR,
  RetrievalNormalizedDCG,
  RetrievalPrecision,
  RetrievalRecall,
  RetrievalRPrecision,
)
from jaxrank.interop.torchmetrics.curves import (
  RetrievalPrecisionRecallCurve,
  RetrievalRecallAtFixedPrecision,
)
from jaxrank.interop.torchmetrics.functional import (
  retrieval_auroc,
  retrieval_average_precision,
  retrieval_fall_out,
  retrieval_hit_rate,
  retrieval_normalized_dcg,
  retrieval_precision,
  retrieval_precision_recall_curve,
  retrieval_r_precision,
  retrieval_recall,
  retrieval_reciprocal_rank,
)

__all__ = [
  "RetrievalAUROC",
  "RetrievalFallOut",
  "RetrievalHitRate",
  "RetrievalMAP",
  "RetrievalMRR",
  "RetrievalMetric",
  "RetrievalNormalizedDCG",
  "RetrievalPrecision",
  "RetrievalPrecisionRecallCurve",
  "RetrievalRPrecision",
  "RetrievalRecall",
  "RetrievalRecallAtFixedPrecision",
  "retrieval_auroc",
  "retrieval_average_precision",
  "retrieval_fall_out",
  "retrieval_hit_rate",
  "retrieval_normalized_dcg",
  "retrieval_precision",
  "retrieval_precision_recall_curve",
  "retrieval_r_precision",
  "retrieval_recall",
  "retrieval_reciprocal_rank",
]
