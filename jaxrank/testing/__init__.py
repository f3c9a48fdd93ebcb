"""Tests of metrics and losses: laws that they should obey, and queries to test them with.

`check_metric(metric)` tests a function `metric(scores, labels, *, where=None, k=None, ranking=...)`
against all laws of `LAWS`, with queries that hypothesis draws, which the extra `testing` installs.
It takes any function of this kind, not only those that `jaxrank.metric` made. A metric that has no
`where`, `k` or `ranking` is called without it, and the laws about it say nothing.

A law is a function `check_*(metric, case)` that raises an `AssertionError` if the metric breaks it.
The message names the law and shows two calls whose values should be equal. The laws share their
arguments:

* `metric`: A function of arrays `[..., n]` to values `[...]`, which JAX can trace.
* `case`: The queries, and how the metric is called, a `Case`.
* `tolerance`: `x` and `y` count as equal if `|x - y| <= tolerance * (1 + |y|)`, if they are the
  same infinity, or if both are NaN.
* The result is the number of values that were compared: 0 if the law says nothing of the case. So
  it is if a smooth ranking raises `jaxrank.UnansweredError`.

`check_loss(loss)` does the same for a function `loss(scores, labels, *, where=None, ...)` and the
laws of `LOSS_LAWS`, each of which is about the values and about the gradients in the scores.

`docs/testing.md` explains the laws with examples.
"""

import importlib

try:
  importlib.import_module("hypothesis")
except ModuleNotFoundError as error:
  if error.name != "hypothesis":
    raise
  raise ModuleNotFoundError(
    "jaxrank.testing needs hypothesis: python -m pip install 'jaxrank[testing]' brings it.",
    name="hypothesis",
  ) from None

from jaxrank.testing.checking import LAWS, LOSS_LAWS, check_loss, check_metric
from jaxrank.testing.exact import (
  check_cutoff,
  check_limit,
  check_long_cutoff,
  check_order,
  check_ties,
)
from jaxrank.testing.laws import (
  check_batch,
  check_empty,
  check_isolation,
  check_jit,
  check_mask,
  check_nan,
  check_padding,
  check_permutation,
  check_range,
  check_vmap,
)
from jaxrank.testing.numbers import check_dtypes, check_gradients
from jaxrank.testing.queries import Case
from jaxrank.testing.strategies import cases, cutoffs, dtypes, labels, masks, scores

__all__ = [
  "LAWS",
  "LOSS_LAWS",
  "Case",
  "cases",
  "check_batch",
  "check_cutoff",
  "check_dtypes",
  "check_empty",
  "check_gradients",
  "check_isolation",
  "check_jit",
  "check_limit",
  "check_long_cutoff",
  "check_loss",
  "check_mask",
  "check_metric",
  "check_nan",
  "check_order",
  "check_padding",
  "check_permutation",
  "check_range",
  "check_ties",
  "check_vmap",
  "cutoffs",
  "dtypes",
  "labels",
  "masks",
  "scores",
]
