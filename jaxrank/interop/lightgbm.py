"""Objectives and metrics for LightGBM: trees that optimise a loss of jaxrank, or any other.

`objective` and `metrics` serve `lightgbm.train` and `lightgbm.LGBMRanker`. Labels, groups and
weights are those of the data set. LightGBM itself is not imported. `docs/boosting.md` has a
comparison with LightGBM's own objective.

>>> import functools, jaxrank as jr
>>> loss = functools.partial(jr.losses.softmax, gain=jr.gains.exponential)
>>> scores, labels, sizes = [0.5, 0.2, 0.1, 0.3], [0, 2, 1, 0], [2, 2]
>>> slope, curvature = objective(loss)(labels, scores, None, sizes)
>>> print(slope.round(3), curvature.round(3))
[ 3.447 -3.447 -1.1    1.1  ] [3.447 2.553 0.9   1.1  ]
>>> metrics("RR fall_out@1")(labels, scores, None, sizes)  # name, value, whether larger is better
[('RR', 0.5, True), ('fall_out@1', 1.0, False)]
"""

from typing import Any

import numpy as np

from jaxrank._core import checks
from jaxrank.interop import _boosting
from jaxrank.interop._boosting import Curvature, Loss
from jaxrank.interop._rows import Rows, query_means
from jaxrank.measures.measure import Measures

__all__ = [
  "metrics",
  "objective",
]

_GROUPS = "pass group= to lightgbm.Dataset or to fit"


def objective(loss: Loss, *, curvature: Curvature = "bound") -> "_Objective":
  """An objective of LightGBM from a loss.

  >>> import jaxrank as jr
  >>> smooth = lambda s, y, where: 1 - jr.ndcg(s, y, where=where, ranking=jr.Laplace(1.0))
  >>> parameters = {"objective": objective(smooth), "learning_rate": 0.1}

  LightGBM 4.7 grows no tree from an objective of one's own if it draws rows with
  `bagging_by_query=True`.

  Gradient and curvature are multiplied by the number of rows over the number of queries, so that
  the objective is the mean loss of a query times the number of rows, and by the weights of the
  rows. Neither changes the step of a leaf, but thresholds such as `min_sum_hessian_in_leaf` and
  `lambda_l2` compare with them.

  Args:
    loss: Function `loss(scores, labels, where=where)` of arrays `[queries, n]` that returns
      `[queries]` and can be differentiated: a loss of `jaxrank.losses`, `functools.partial` of one,
      or any other. Items with `where=False` are padding and must not matter.
    curvature: What stands for the second derivatives, which must be positive. `"bound"` is a
      diagonal that bounds the Hessian where one is known: for `pairwise_logistic`, `lambda_rank`
      and `lambda_ndcg` twice its diagonal, for `softmax`, `sampled_softmax`, `unique_softmax`,
      `xe_ndcg` and `list_mle` the sum of the probabilities. It recognises these losses and
      `functools.partial` of them. For all other losses, such as `1 - metric`, it is a heuristic:
      the size of the gradient, at least a tenth of its mean in the query. `"diagonal"` is that of
      the Hessian, at least 1e-6; except for pairs of items it takes as many gradients as the
      longest query has items. A function `curvature(scores, labels, where=where)` returns
      `[queries, n]`, which the factor multiplies too.

  Returns:
    The objective, for `params={"objective": ...}` of `lightgbm.train` and for
    `LGBMRanker(objective=...)`.

  Raises:
    TypeError: if the loss is not a function of scores, labels and mask.
    ValueError: if the loss does not have one value for each query or cannot be differentiated, or
      the curvature is unknown or cannot be computed. In training, if there are no groups, they do
      not sum to the rows, or a score, gradient or curvature is NaN or infinite.

  Warns:
    UserWarning: once for a data set, if labels leave queries without a gradient, with their number.
  """
  with checks.named("lightgbm.objective"):
    return _Objective(loss, curvature)


def metrics(measures: Measures) -> "_Metrics":
  """Measures for the evaluation of LightGBM, each with the direction that is better.

  >>> import jaxrank as jr
  >>> evaluation = metrics("nDCG@10 AP")  # lightgbm.train(..., feval=evaluation)

  A value is the mean over queries, weighted by the mean weight of the rows of each query. A query
  without relevant items has the value 0, where LightGBM's own nDCG is 1. Early stopping follows all
  measures, unless it is told to follow the first one only.

  Args:
    measures: What `jaxrank.parse` takes: names, metrics or measures.

  Returns:
    The function for `feval=` of `lightgbm.train` and for `eval_metric=` of `LGBMRanker.fit`. Make
    an `LGBMRanker` with `metric="None"`: early stopping follows LightGBM's own nDCG too otherwise.

  Raises:
    TypeError: if an item is no measure.
    ValueError: if a name is unknown. In training, if there are no groups, they do not sum to the
      rows, a score is NaN, or a label is beyond the scale of a measure.
  """
  with checks.named("lightgbm.metrics"):
    return _Metrics(measures)


def _read(a: Any, b: Any, weight: Any, group: Any) -> tuple[Rows, Any, np.ndarray | None]:
  """Rows, scores and weights of `(scores, data set)` or `(labels, scores, weight, group)`."""
  if hasattr(b, "get_label"):
    labels, scores, weight, group = b.get_label(), a, b.get_weight(), b.get_group()
  else:
    labels, scores = a, b
  rows = Rows.of(labels, group, _GROUPS)
  return rows, scores, rows.weights(weight, rows.labels.size)


class _Objective(_boosting.Objective):
  """`objective(scores, data set)` or `objective(labels, scores, weight, group)`."""

  # LightGBM's own wrapper counts these parameters.
  def __call__(
    self, a: Any, b: Any, weight: Any = None, group: Any = None
  ) -> tuple[np.ndarray, np.ndarray]:
    with checks.named("lightgbm.objective"):
      return self.derivatives(*_read(a, b, weight, group))


class _Metrics(_boosting.Metrics):
  """`metrics(scores, data set)` or `metrics(labels, scores, weight, group)`."""

  def __call__(
    self, a: Any, b: Any, weight: Any = None, group: Any = None
  ) -> list[tuple[str, float, bool]]:
    with checks.named("lightgbm.metrics"):
      rows, scores, weights = _read(a, b, weight, group)
      values = self.means(rows, scores, query_means(rows, weights))
    return [
      (measure.name, value, measure.description.higher_is_better)
      for measure, value in zip(self.measures, values, strict=True)
    ]
