"""Objectives and metrics for XGBoost: trees that optimise a loss of jaxrank, or any other.

`objective` and `metrics` serve `xgboost.train` and `xgboost.cv`. (`XGBRanker` takes no objectives,
and calls a metric with the rows of one query at a time.)
Labels, groups and weights are those of the `DMatrix`. XGBoost itself is not imported.
`docs/boosting.md` has examples and measurements.

Set `disable_default_eval_metric` in the parameters of XGBoost. With an objective of one's own it
evaluates `rmse` too otherwise, which wants a weight for each row, and the process aborts if the
`DMatrix` has weights of queries.
"""

import re
from typing import Any

import numpy as np

from jaxrank._core import checks
from jaxrank.interop import _boosting
from jaxrank.interop._boosting import Curvature, Loss
from jaxrank.interop._rows import Rows
from jaxrank.measures.measure import Measure, Measures

__all__ = [
  "metrics",
  "objective",
]

_GROUPS = "pass group= or qid= to xgboost.DMatrix"

# XGBoost maximises measures whose names begin with one of these, and minimises all others.
_MAXIMISED = ("auc", "map", "ndcg", "pre")

# Names by which XGBoost knows measures of jaxrank.
_OWN = {"nDCG": "ndcg", "AP": "map", "AUC": "auc", "P": "pre"}


def objective(loss: Loss, *, curvature: Curvature = "bound") -> "_Objective":
  """An objective of XGBoost from a loss.

  >>> import jaxrank as jr
  >>> smooth = lambda s, y, where: 1 - jr.ndcg(s, y, where=where, ranking=jr.Laplace(1.0))
  >>> ours = objective(smooth)
  >>> parameters = {"disable_default_eval_metric": True}  # xgboost.train(parameters, ..., obj=ours)

  Gradient and curvature are multiplied by the number of rows over the number of queries, so that
  the objective is the mean loss of a query times the number of rows, and by the weight of the
  query. Thresholds such as `min_child_weight` and `lambda` compare with them.

  Args:
    loss: As for `jaxrank.interop.lightgbm.objective`.
    curvature: As for `jaxrank.interop.lightgbm.objective`.

  Returns:
    The objective, for `obj=` of `xgboost.train`.

  Raises:
    TypeError: if the loss is not a function of scores, labels and mask.
    ValueError: as `jaxrank.interop.lightgbm.objective`.
  """
  with checks.named("xgboost.objective"):
    return _Objective(loss, curvature)


def metrics(measures: Measures) -> "_Metrics":
  """Measures for the evaluation of XGBoost, under names that make early stopping go the right way.

  XGBoost maximises a measure if its name begins with `auc`, `map`, `ndcg` or `pre`, and minimises
  any other. Names are therefore changed where they must be: `nDCG@10` to `ndcg@10`, `AP` to `map`,
  `P@5` to `pre@5`, `AUC` to `auc`. Any other measure of which more is better gets the prefix
  `pre_`, as in `pre_RR`, and one of which less is better gets `less_` if its name begins as one
  that is maximised. White space and colons, which separate names for XGBoost, become underscores.

  >>> ours = metrics("nDCG@10 AP(rel=2) RR fall_out@5")
  >>> ours.names
  ('ndcg@10', 'map(rel=2)', 'pre_RR', 'fall_out@5')
  >>> parameters = {"disable_default_eval_metric": True}  # train(parameters, custom_metric=ours)

  A value is the mean over queries, weighted by their weights. A query without relevant items has
  the value 0, where XGBoost's own nDCG is 1. XGBoost prints and compares six decimals. Early
  stopping follows the last measure of the last data set.

  Args:
    measures: What `jaxrank.parse` takes: names, metrics or measures.

  Returns:
    The function for `custom_metric=` of `xgboost.train`.

  Raises:
    TypeError: if an item is no measure.
    ValueError: if a name is unknown, or two measures get the same name. In training, if there are
      no groups, a score is NaN, or a label is beyond the scale of a measure; and a `TypeError` from
      `XGBRanker(eval_metric=...)`.
  """
  with checks.named("xgboost.metrics"):
    return _Metrics(measures)


def _name(measure: Measure) -> str:
  """The name of a measure whose beginning tells XGBoost the direction."""
  name = re.sub(r"[\s:]", "_", measure.name)
  if not measure.description.higher_is_better:
    return f"less_{name}" if name.startswith(_MAXIMISED) else name
  head = re.match(r"\w*", name)[0]  # type: ignore[index]
  name = _OWN.get(head, head) + name[len(head) :]
  return name if name.startswith(_MAXIMISED) and name != "mape" else f"pre_{name}"


def _read(scores: Any, data: Any) -> tuple[Rows, Any, np.ndarray | None]:
  """Rows, scores and weights of queries."""
  if not hasattr(data, "get_label"):
    raise TypeError(
      f"expected the scores of all rows and a DMatrix, got {type(scores).__name__} and "
      f"{type(data).__name__}: XGBRanker calls its eval_metric with the labels and scores of one "
      "query at a time, and counts a query of one row as 1. Pass custom_metric=metrics(...) to "
      "xgboost.train instead."
    )
  rows = Rows.of(data.get_label(), data.get_group(), _GROUPS)
  return rows, scores, rows.weights(data.get_weight(), rows.sizes.size)


class _Objective(_boosting.Objective):
  """`objective(scores, data)`."""

  def __call__(self, scores: Any, data: Any) -> tuple[np.ndarray, np.ndarray]:
    with checks.named("xgboost.objective"):
      rows, scores, weights = _read(scores, data)
      each = None if weights is None else np.repeat(weights, rows.sizes)
      return self.derivatives(rows, scores, each)


class _Metrics(_boosting.Metrics):
  """`metrics(scores, data)`.

  Attributes:
    names: The names that XGBoost sees.
  """

  def __init__(self, measures: Measures):
    super().__init__(measures)
    self.names = tuple(map(_name, self.measures))
    for name in self.names:
      if self.names.count(name) > 1:
        raise ValueError(
          f"two measures would have the name {name!r}; give one another name, "
          "jaxrank.Measure(..., name=...)."
        )

  def __call__(self, scores: Any, data: Any) -> list[tuple[str, float]]:
    with checks.named("xgboost.metrics"):
      values = self.means(*_read(scores, data))
    return list(zip(self.names, values, strict=True))
