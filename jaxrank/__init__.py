"""Ranking metrics, exact inside `jit`, and smooth losses by changing one argument.

`metric(scores, labels, *, where=None, k=None, ...)` takes arrays `[..., n]` and returns `[...]`:
one value per query, never reduced. What holds for every metric is said here once.

* `where` is boolean, False on padding. What stands under the mask never matters, and has
  gradient exactly 0.
* A label is relevant if positive, or from `rel` on. A negative label is unjudged: gain 0, not
  relevant.
* A score of -inf under `where=True` is known but not retrieved: it counts as relevant and in the
  ideal, and stands at no rank. It is not padding.
* A NaN score, or label, of a valid item makes the value of its query NaN.
* Tied scores are averaged over all their orders, unless `ranking=Exact(ties=...)` says otherwise.
* `k=None` is the whole list: the number of valid items wherever `k` divides. `k` may exceed it.
* A query with nothing relevant, or with every item masked, scores 0.
* Every number may be traced: `k`, `rel`, a persistence, a temperature.

`docs/conventions.md` works through them.
"""

import importlib
import typing

from jaxrank import config, discounts, gains, metrics
from jaxrank._core.ranked import Ranked, Ranking, UnansweredError
from jaxrank.aggregation import aggregate, has_relevant
from jaxrank.metrics import (
  Curve,
  Metric,
  aggregate_curve,
  alpha_dcg,
  alpha_ndcg,
  auc,
  average_precision,
  bpref,
  dcg,
  eleven_point_average,
  err,
  err_ia,
  f_measure,
  fall_out,
  gap,
  hit_rate,
  interpolated_precision,
  judged,
  kendall_tau,
  metric,
  ndcg,
  nerr,
  nerr_ia,
  nrbp,
  ordered_pair_accuracy,
  precision,
  precision_recall_curve,
  r_precision,
  rbp,
  recall,
  recall_at_fixed_precision,
  reciprocal_rank,
  spearman,
)
from jaxrank.rankings.exact import Exact
from jaxrank.rankings.expected_rank import Laplace, Logistic
from jaxrank.rankings.perturbed import Gaussian, Gumbel
from jaxrank.rankings.sharded import Sharded

if typing.TYPE_CHECKING:
  from jaxrank import chance, class_labels, corpus, letor, losses, plot, ranks, sharded
  from jaxrank.interop.plain_names import resolve_metrics
  from jaxrank.measures import Measure, evaluate, parse
  from jaxrank.padding import Batch, batches, pad, pad_buckets, unpad
  from jaxrank.streaming import Evaluator, State
  from jaxrank.validation import check_values

__all__ = [
  "Batch",
  "Curve",
  "Evaluator",
  "Exact",
  "Gaussian",
  "Gumbel",
  "Laplace",
  "Logistic",
  "Measure",
  "Metric",
  "Ranked",
  "Ranking",
  "Sharded",
  "State",
  "UnansweredError",
  "aggregate",
  "aggregate_curve",
  "alpha_dcg",
  "alpha_ndcg",
  "auc",
  "average_precision",
  "batches",
  "bpref",
  "chance",
  "check_values",
  "class_labels",
  "config",
  "corpus",
  "dcg",
  "discounts",
  "eleven_point_average",
  "err",
  "err_ia",
  "evaluate",
  "f_measure",
  "fall_out",
  "gains",
  "gap",
  "has_relevant",
  "hit_rate",
  "interpolated_precision",
  "judged",
  "kendall_tau",
  "letor",
  "losses",
  "metric",
  "metrics",
  "ndcg",
  "nerr",
  "nerr_ia",
  "nrbp",
  "ordered_pair_accuracy",
  "pad",
  "pad_buckets",
  "parse",
  "plot",
  "precision",
  "precision_recall_curve",
  "r_precision",
  "ranks",
  "rbp",
  "recall",
  "recall_at_fixed_precision",
  "reciprocal_rank",
  "resolve_metrics",
  "sharded",
  "spearman",
  "unpad",
]

__version__ = "0.1.0"

# What loads on first use, so that `import jaxrank` takes little time: public modules, and the names
# of others by the module that defines them.
_MODULES = ("chance", "class_labels", "corpus", "letor", "losses", "plot", "ranks", "sharded")
_NAMES = {
  "interop.plain_names": ("resolve_metrics",),
  "measures": ("Measure", "evaluate", "parse"),
  "padding": ("Batch", "batches", "pad", "pad_buckets", "unpad"),
  "streaming": ("Evaluator", "State"),
  "validation": ("check_values",),
}


def __getattr__(name: str) -> typing.Any:
  if name in _MODULES:
    return importlib.import_module(f"jaxrank.{name}")
  for home, names in _NAMES.items():
    if name in names:
      value = getattr(importlib.import_module(f"jaxrank.{home}"), name)
      globals()[name] = value
      return value
  raise AttributeError(f"module 'jaxrank' has no attribute {name!r}.")


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
