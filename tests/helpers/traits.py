"""Every described metric as a row: how to call it, and what is true of it.

The columns are derived from the description and the signature of the metric, except for what the
tables here say.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from jaxrank._core import description
from jaxrank._core.description import Description
from jaxrank._core.ranked import Recorder
from jaxrank.metrics import described
from tests.helpers import parameters

# One metric for each question to a ranking; `test_each_question_has_a_metric` compares the list
# with what the metrics ask. `spearman` asks for the spread of the ranks as well.
QUESTIONS = {
  "expect": "ndcg",
  "first": "reciprocal_rank",
  "precision": "average_precision",
  "cascade": "err",
  "before": "auc",
  "cumulative": "normalized_gain",
  "pairs": "kendall_tau",
  "exposure": "compatibility",
}
ASKING = (*QUESTIONS.values(), "spearman")
# Those of which smooth rankings answer the question.
SMOOTHLY = ("ndcg", "reciprocal_rank", "average_precision", "err", "auc", "spearman")
# Metrics of pairs: no rule breaks their ties.
CONCORDANCE = ("auc", "kendall_tau", "ordered_pair_accuracy", "spearman")
# Measures of the set of retrieved items, and counts: without a cut-off, ties do not matter.
OF_SETS = ("item_count", "query_count", "set_average_precision", "utility")
# Metrics of the mean curve of tied orders, which are not bounded by those of single orders.
OF_MEAN_CURVES = (
  "bpm",
  "compatibility",
  "inferred_average_precision",
  "ndcg_at_relevant",
  "nearly_err",
  "normalized_gain",
  "retrieved_auc",
)
# Metrics that do not reach the best value of their range in a perfect ranking of every query.
BY_QUERY = (
  "err",
  "f_measure",
  "fall_out",
  "insq",
  "inst",
  "nearly_err",
  "precision",
  "rbp",
  "rbp_residual",
  "sdcg",
  "set_average_precision",
)
# Logarithms with a floor.
LOGARITHMS = ("log_average_precision", "log_bpref")
LEAST_LOGARITHM = math.log(1e-5)
# The values of a query of which nothing is retrieved, if not 0.
UNRETRIEVED = {
  "query_count": 1.0,
  "rbp_residual": 1.0,
  **dict.fromkeys(LOGARITHMS, LEAST_LOGARITHM),
}
# Metrics that do not obey a law of `jaxrank.testing` on purpose, by the law.
EXCEPTIONS = {
  law: tuple(about.name for _, about in described() if law in about.departs)
  for law in ("permutation", "ties", "long_cutoff", "empty")
}


class Row(NamedTuple):
  """A public metric with parameters, and what is true of it."""

  public: Callable[..., Any]
  own: dict[str, Any]
  perfect: float | None
  saturates: bool

  @property
  def about(self) -> Description:
    """What the library says of the metric; of a function of the tests, the defaults."""
    name = getattr(self.public, "__name__", "")
    return description.of_metric(self.public) or Description(name, self.public, range=(0.0, 1.0))

  @property
  def low(self) -> float:
    """The least value."""
    return self.about.range[0]

  @property
  def high(self) -> float:
    """The largest value, of all but a few queries if it is relative to a greedy order."""
    return self.about.range[1] * (2 if "range" in self.about.departs else 1)

  @property
  def tied(self) -> bool:
    """Whether a ranking says how ties are broken."""
    return self.takes("ranking") and self.about.name not in CONCORDANCE

  def __call__(self, scores, labels, **given):
    """The value, `[...]`, of labels `[..., n]`."""
    labels = subtopics(labels) if self.about.subtopics else labels
    return self.public(scores, labels, **{**self.own, **given})

  def __str__(self) -> str:
    """The name of the metric, for messages."""
    return self.about.name

  @property
  def __signature__(self) -> inspect.Signature:
    """The public signature."""
    return inspect.signature(self.public)

  def takes(self, parameter: str) -> bool:
    """Whether the public signature has a parameter."""
    return parameter in inspect.signature(self.public).parameters


def subtopics(labels):
  """Labels of three subtopics, `[..., n, 3]`, that grow with the labels of the items."""
  labels = jnp.asarray(labels)
  grades = labels.astype(jnp.int32) if labels.dtype == bool else labels
  found = jnp.stack([grades, *(jnp.maximum(grades - i, 0) for i in (1, 2))], axis=-1)
  return found.astype(labels.dtype)


def row(public, *, perfect: float | None = 1.0, saturates: bool = True, **own) -> Row:
  """A row by hand, of a metric with parameters."""
  return Row(public, own, perfect, saturates)


def rows() -> dict[str, Row]:
  """A row for every described metric, by its name; a best grade is 4."""
  table = {}
  for metric, about in described():
    best = about.range[1 if about.higher_is_better else 0]
    by_query = about.subtopics or about.name in BY_QUERY or not math.isfinite(best)
    table[about.name] = row(
      metric,
      perfect=None if by_query else best,
      saturates="long_cutoff" not in about.departs,
      **parameters.required(about),
    )
  return table


@functools.cache
def recorded(about: Description) -> Recorder:
  """What a metric asks of a query with its required parameters."""
  recorders = []

  def ask(scores, labels):
    recorders.append(Recorder(scores, labels, scores > 0, None))
    return about.kernel(recorders[0], **about.bind(parameters.required(about)))

  scores = np.float32([2, 1])
  jax.eval_shape(ask, scores, np.ones((2, 2), np.float32) if about.subtopics else scores)
  (recorder,) = recorders
  return recorder


def only_counts(about: Description) -> bool:
  """Whether a metric is made of numbers of retrieved items: constant unless there is a cut-off."""
  recorder = recorded(about)
  weights = [question.arguments.get("w", recorder.scores) for question in recorder.questions]
  counts = all(w.dtype == jnp.bool_ for w in weights)
  return bool(weights) and counts and all(depth == 0 for depth in recorder.depths)


def curve_precision(scores, labels, *, where=None):
  """The mean of the precision curve: one value per query, as the laws want it."""
  return jnp.mean(jr.precision_recall_curve(scores, labels, where=where, max_k=4)[0], axis=-1)


def curve_recall(scores, labels, *, where=None):
  """The mean of the recall curve."""
  return jnp.mean(jr.precision_recall_curve(scores, labels, where=where, max_k=4)[1], axis=-1)
