"""The exact metrics that rax has too, at the shapes of training; a section of `training`."""

import functools
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import jaxrank

from .report import Row, Section
from .timing import check_same, raced

# The metrics of which rax compares all pairs of items.
_OF_PAIRS = ("average_precision", "ordered_pair_accuracy")

# The name in rax, and whether the metric has a cut-off.
_METRICS = {
  "ndcg": ("ndcg_metric", True),
  "dcg": ("dcg_metric", True),
  "average_precision": ("ap_metric", True),
  "reciprocal_rank": ("mrr_metric", True),
  "precision": ("precision_metric", True),
  "recall": ("recall_metric", True),
  "ordered_pair_accuracy": ("opa_metric", False),
}


def against_rax(shapes: Sequence[tuple[int, int]], pairs_up_to: int) -> Section:
  """Times the mean of each metric over the queries; all pairs of items up to so many items."""
  if importlib.util.find_spec("rax") is None:
    return Section("Exact metrics", _NOTES, [Row("exact metrics", "", "rax", "is not installed")])
  import rax

  rows = []
  for (name, (other, cuts)), shape in itertools.product(_METRICS.items(), shapes):
    if name in _OF_PAIRS and shape[1] > pairs_up_to:
      continue
    for k in (None, 10) if cuts and shape[1] > 10 else (None,):
      ours = _mean(getattr(jaxrank, name), **({} if k is None else {"k": k}))
      theirs = _mean(getattr(rax, other), reduce_fn=None, **({} if k is None else {"topn": k}))
      data = _data(*shape)
      measured = f"{name}{'' if k is None else f'@{k}'} {list(shape)}"
      check_same(measured, "rax", float(ours(*data)), float(theirs(*data)))
      rows.append(raced(measured, ours, f"rax.{other}", theirs, data, 1))
  return Section("Exact metrics", _NOTES, rows)


def _mean(metric: Callable[..., Array], **arguments: Any) -> Callable[..., Array]:
  metric = functools.partial(metric, **arguments)
  return jax.jit(lambda scores, labels: jnp.mean(metric(scores, labels)))


def _data(queries: int, n: int) -> tuple[Array, Array]:
  """Normal scores; a fifth of the items is relevant, the first of each query among them."""
  generator = np.random.default_rng(2024)
  scores = generator.standard_normal((queries, n)).astype(np.float32)
  labels = (generator.random((queries, n)) < 0.2).astype(np.float32)
  labels[:, 0] = 1
  return jnp.asarray(scores), jnp.asarray(labels)


_NOTES = """The mean of an exact metric over all queries, against rax, which puts tied items in a
fixed order. `average_precision` and `ordered_pair_accuracy` of rax compare all pairs of items, and
are left out for the longest lists."""
