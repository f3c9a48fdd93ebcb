"""Logarithms of average precision and bpref, whose means are exponentiated to geometric means."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Cutoff
from jaxrank._core.apply import metric
from jaxrank._core.description import MEANS_FIRST, POSITIVE, trec_eval
from jaxrank._core.ranked import Ranking
from jaxrank.metrics.binary import average_precision, bpref
from jaxrank.rankings.exact import Exact

# 0 would be the logarithm of a perfect ranking.
_LEAST = {"empty": "its value is the logarithm of the floor"}


def _logarithm(value: Array, floor: ArrayLike) -> Array:
  """The logarithm of a value, at least that of the floor."""
  return jnp.log(jnp.maximum(value, jnp.asarray(floor).astype(value.dtype)))


@metric(
  departs=MEANS_FIRST | _LEAST,
  floor=POSITIVE,
  range=(-float("inf"), 0.0),
  aggregation="exp_mean",
  names=(trec_eval("gm_map", rel=1),),
)
def log_average_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  rel: ArrayLike | None = None,
  floor: ArrayLike = 1e-5,
  ranking: Ranking = Exact(),
) -> Array:
  """The logarithm of average precision; `Evaluator` makes the geometric mean GMAP of it.

  `log AP@k = log max(AP@k, floor)`, with `average_precision` `AP@k` of which ties are averaged
  first. A query without relevant items has the logarithm of the floor.

  >>> print(f"{log_average_precision(jnp.array([2.0, 1.0]), jnp.array([0, 1])):.5f}")
  -0.69315

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    floor: The least average precision, positive, so that a query with 0 does not decide the mean.

  Returns:
    `[...]`, at most 0; `jaxrank.aggregate(values, how="exp_mean")` is GMAP.

  References:
    Robertson, `On GMAP: and other transformations <https://doi.org/10.1145/1183614.1183630>`_,
    2006.
  """
  value = average_precision(scores, labels, where=where, k=k, rel=rel, ranking=ranking)
  return _logarithm(value, floor)


@metric(
  departs=MEANS_FIRST | _LEAST,
  floor=POSITIVE,
  range=(-float("inf"), 0.0),
  aggregation="exp_mean",
  names=(trec_eval("gm_bpref", rel=1),),
)
def log_bpref(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  floor: ArrayLike = 1e-5,
  ranking: Ranking = Exact(),
) -> Array:
  """The logarithm of binary preference; `Evaluator` makes a geometric mean of it.

  `log bpref = log max(bpref, floor)`, with `bpref` of which ties are averaged first. A query
  without relevant items has the logarithm of the floor.

  >>> print(f"{log_bpref(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  -0.69315

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    floor: The least value of bpref, positive.

  Returns:
    `[...]`, at most 0; `jaxrank.aggregate(values, how="exp_mean")` is the geometric mean.

  References:
    Robertson, `On GMAP: and other transformations <https://doi.org/10.1145/1183614.1183630>`_,
    2006.
  """
  return _logarithm(bpref(scores, labels, where=where, rel=rel, ranking=ranking), floor)
