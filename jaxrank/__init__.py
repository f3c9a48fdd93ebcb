"""Ranking metrics in JAX: exact inside `jit`, and smooth losses by changing one argument.

`metric(scores, labels, *, where=None, ...)` takes arrays of shape `[..., n]` and returns an array
of shape `[...]`: one value per query, never reduced. Most metrics have a cut-off `k`. All metrics
share these conventions:

* `where` is boolean, and False on padding. Values under the mask do not affect the result, and
  their gradient is exactly 0.
* An item is relevant if its label is positive, or at least `rel` if that is given. A negative label
  means unjudged: gain 0, not relevant.
* A score of -inf under `where=True` marks an item that is known but was not retrieved. It has no
  rank, but its label counts among the relevant items and in the ideal. It is not padding.
* A NaN score or label of a valid item makes the value of its query NaN, with gradient 0. So does a
  number of the call that is NaN, such as a traced temperature. Other queries do not change.
* The value under tied scores is the mean over all orders of the tied items, unless
  `ranking=Exact(ties=...)` selects another rule.
* `k=None` means the whole list; where a metric divides by `k`, it is the number of valid items. `k`
  may exceed the length of the list.
* A query without the items that a metric looks for, mostly relevant ones, has the value 0; so has
  a query with every item masked.
* Numbers such as `k`, `rel`, a persistence or a temperature may be traced.

`docs/conventions.md` explains each with examples.
"""

import importlib
import importlib.metadata
import itertools
import re
import typing

_jax = next(iter(importlib.metadata.distributions(name="jax")), None)
if _jax is not None and [*map(int, re.findall(r"\d+", _jax.version)[:3])] < [0, 8, 2]:
  raise ImportError(f"jaxrank needs jax>=0.8.2, got {_jax.version}: pip install --upgrade jax.")

if typing.TYPE_CHECKING:
  from jaxrank import agreement as agreement
  from jaxrank import chance as chance
  from jaxrank import class_labels as class_labels
  from jaxrank import config as config
  from jaxrank import corpus as corpus
  from jaxrank import discounts as discounts
  from jaxrank import exposure as exposure
  from jaxrank import fusion as fusion
  from jaxrank import gains as gains
  from jaxrank import letor as letor
  from jaxrank import losses as losses
  from jaxrank import metrics as metrics
  from jaxrank import plackett_luce as plackett_luce
  from jaxrank import plot as plot
  from jaxrank import ranks as ranks
  from jaxrank import sharded as sharded
  from jaxrank import soft as soft
  from jaxrank import stats as stats
  from jaxrank import testing as testing
  from jaxrank import trec as trec
  from jaxrank._core.ranked import Ranked as Ranked
  from jaxrank._core.ranked import Ranking as Ranking
  from jaxrank._core.ranked import UnansweredError as UnansweredError
  from jaxrank.aggregation import aggregate as aggregate
  from jaxrank.aggregation import ensemble as ensemble
  from jaxrank.aggregation import has_both_classes as has_both_classes
  from jaxrank.aggregation import has_relevant as has_relevant
  from jaxrank.catalogue import Catalogue as Catalogue
  from jaxrank.catalogue import CatalogueState as CatalogueState
  from jaxrank.catalogue import intra_list_distance as intra_list_distance
  from jaxrank.catalogue import novelty as novelty
  from jaxrank.interop.plain_names import resolve_metrics as resolve_metrics
  from jaxrank.measures import Measure as Measure
  from jaxrank.measures import evaluate as evaluate
  from jaxrank.measures import parse as parse
  from jaxrank.metrics import *  # noqa: F403
  from jaxrank.padding import Batch as Batch
  from jaxrank.padding import batches as batches
  from jaxrank.padding import epoch as epoch
  from jaxrank.padding import pad as pad
  from jaxrank.padding import pad_buckets as pad_buckets
  from jaxrank.padding import unpad as unpad
  from jaxrank.rankings.exact import Exact as Exact
  from jaxrank.rankings.expected_rank import Laplace as Laplace
  from jaxrank.rankings.expected_rank import Logistic as Logistic
  from jaxrank.rankings.perturbed import Gaussian as Gaussian
  from jaxrank.rankings.perturbed import Gumbel as Gumbel
  from jaxrank.rankings.sharded import Sharded as Sharded
  from jaxrank.streaming import Evaluator as Evaluator
  from jaxrank.streaming import State as State
  from jaxrank.validation import check_values as check_values

__version__ = "0.1.0"

# Everything is imported on first use, so `import jaxrank` alone does not import jax. Public names
# that are neither here nor below are those of `jaxrank.metrics`.
_MODULES = (
  "agreement",
  "chance",
  "class_labels",
  "config",
  "corpus",
  "discounts",
  "exposure",
  "fusion",
  "gains",
  "letor",
  "losses",
  "metrics",
  "plackett_luce",
  "plot",
  "ranks",
  "sharded",
  "soft",
  "stats",
  "trec",
)
# These are found as attributes too. What they define has shorter names, or needs more libraries, so
# that `from jaxrank import *` leaves them out.
_INNER = (
  "aggregation",
  "catalogue",
  "command",
  "interop",
  "measures",
  "padding",
  "rankings",
  "streaming",
  "testing",
  "validation",
)
_NAMES = {
  "_core.ranked": ("Ranked", "Ranking", "UnansweredError"),
  "aggregation": ("aggregate", "ensemble", "has_both_classes", "has_relevant"),
  "catalogue": ("Catalogue", "CatalogueState", "intra_list_distance", "novelty"),
  "interop.plain_names": ("resolve_metrics",),
  "measures": ("Measure", "evaluate", "parse"),
  "padding": ("Batch", "batches", "epoch", "pad", "pad_buckets", "unpad"),
  "rankings.exact": ("Exact",),
  "rankings.expected_rank": ("Laplace", "Logistic"),
  "rankings.perturbed": ("Gaussian", "Gumbel"),
  "rankings.sharded": ("Sharded",),
  "streaming": ("Evaluator", "State"),
  "validation": ("check_values",),
}
# Public names of `jaxrank.metrics` about metrics, which are found there only.
_OF_METRICS_ALONE = {"Description", "described"}


# What other libraries call what has another name here, or is in a module; without `_at_k`.
_ELSEWHERE = {
  "accuracy": "hit_rate(..., k=1)",
  "auroc": "auc",
  "dcg_score": "dcg",
  "f1": "f_measure",
  "f1_score": "f_measure",
  "gauc": "auc",
  "gmap": "log_average_precision",
  "hit": "hit_rate",
  "hit_ratio": "hit_rate",
  "hits": "hit_rate",
  "hr": "hit_rate",
  "map": "average_precision",
  "mean_average_precision": "average_precision",
  "mean_reciprocal_rank": "reciprocal_rank",
  "mrr": "reciprocal_rank",
  "ndcg_score": "ndcg",
  "ap": "average_precision",
  "p": "precision",
  "rank_biased_precision": "rbp",
  "rbo": "agreement.rbo",
  "recip_rank": "reciprocal_rank",
  "roc_auc": "auc",
  "roc_auc_score": "auc",
  "rprec": "r_precision",
  "rr": "reciprocal_rank",
  "success": "hit_rate",
  "tau_ap": "agreement.tau_ap",
  "top_k_accuracy": "hit_rate",
  **{
    name: f"losses.{name}"
    for name in ("approx_ndcg", "approx_mrr", "lambda_rank", "list_mle", "softmax", "xe_ndcg")
  },
}


def _advice(name: str) -> str:
  """What to write instead of a name that is none of this module."""
  import difflib

  plain, names = name.lower(), _exported()
  cut = plain.endswith(("_at_k", "_at_ks"))
  family = plain.removesuffix("s").removesuffix("_at_k") if cut else plain.removesuffix("_loss")
  found = _ELSEWHERE.get(family) or (family if family in names else None)
  if found:
    return f"write jaxrank.{found}{', with k=10' * cut}."
  near = difflib.get_close_matches(plain, names, n=1)
  return f"did you mean jaxrank.{near[0]}?" if near else "jaxrank.__all__ has all names."


def _exported() -> list[str]:
  """The public names."""
  metrics = importlib.import_module("jaxrank.metrics").__all__
  return sorted({*_MODULES, *itertools.chain(*_NAMES.values()), *metrics} - _OF_METRICS_ALONE)


def __getattr__(name: str) -> typing.Any:
  if name in _MODULES or name in _INNER:
    return importlib.import_module(f"jaxrank.{name}")
  home = next((home for home, names in _NAMES.items() if name in names), "metrics")
  if name == "__all__":
    value: typing.Any = _exported()
  elif name.startswith("_"):
    raise AttributeError(f"module 'jaxrank' has no attribute {name!r}.")
  elif home != "metrics" or name in _exported():
    value = getattr(importlib.import_module(f"jaxrank.{home}"), name)
  else:
    raise AttributeError(f"module 'jaxrank' has no attribute {name!r}. {_advice(name)}")
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted({*globals(), *_exported()})
