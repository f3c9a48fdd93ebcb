"""Precision and recall at every cut-off, and metrics that are read off this curve."""

import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import aggregation
from jaxrank._core import arithmetic, checks
from jaxrank._core.apply import as_long_as_the_lists, lifted, metric, ranked_query
from jaxrank._core.arithmetic import Level, safe_divide, share_of
from jaxrank._core.description import (
  COUNT,
  DECIMAL,
  LEVEL,
  LEVELS,
  MEANS_FIRST,
  Argument,
  ir_measures,
  trec_eval,
  trec_eval10,
)
from jaxrank._core.ranked import Ranking
from jaxrank.aggregation import Reduction
from jaxrank.rankings.exact import Exact

_LEVELS = tuple(i / 10 for i in range(11))

# A tolerance for rounding: a recall of 3 / 10 may be less than a level of 0.3, and a mean of
# precisions less than a precision to keep.
_SLACK = 1e-6


class Curve(NamedTuple):
  """Precision and recall at cut-offs, of many queries or aggregated.

  Attributes:
    precision: `[..., max_k]`.
    recall: `[..., max_k]`, nondecreasing.
    k: `[..., max_k]`, the cut-offs, int32, nondecreasing.
  """

  precision: Array
  recall: Array
  k: Array


def _as_long_as_asked(arguments: Mapping[str, Any], curve: Curve) -> Any:
  return curve if arguments["max_k"] else as_long_as_the_lists(arguments, curve)


@lifted(max_k=COUNT, finish=_as_long_as_asked, integers=True)
def precision_recall_curve(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  max_k: int | None = None,
  adaptive_k: bool = False,
  ranking: Ranking = Exact(),
) -> Curve:
  """Precision and recall at every cut-off up to `max_k`; positive labels are relevant.

  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 0, 0, 1])
  >>> precision, recall, k = precision_recall_curve(scores, labels, max_k=2)
  >>> print(precision, recall, k)
  [1.  0.5] [0.5 0.5] [1 2]

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    max_k: The last cut-off, a Python int; None is `n`.
    adaptive_k: Whether cut-offs beyond the number of valid items of the query are replaced by that
      number.

  Returns:
    A `Curve` of precision, recall and cut-offs, each `[..., max_k]`.

  Raises:
    TypeError: if `max_k` is traced, because it is the length of the result.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant()
  k = jnp.arange(1, (max_k or ranked.n) + 1, dtype=jnp.int32)
  hits = ranked.cumulative(b)[jnp.minimum(k, ranked.n) - 1]
  if adaptive_k:
    k = jnp.minimum(k, jnp.maximum(jnp.sum(ranked.where, dtype=jnp.int32), 1))
  k = k + jnp.zeros_like(hits, k.dtype)
  return Curve(hits / k.astype(ranked.dtype), safe_divide(hits, ranked.count(b)), k)


_AT = {"x": Argument("level", DECIMAL)}
_ALL_AT = {"levels": Argument("levels")}


@metric(
  departs=MEANS_FIRST,
  level=LEVEL,
  names=(
    ir_measures("IPrec", "@0.1", "rel", reads=_AT, rel=1),
    trec_eval("iprec_at_recall", "_0.10", reads=_AT, rel=1),
    trec_eval10("iprec_at_recall", "_0.10", reads=_AT, rel=1, rounding="nearest"),
  ),
)
def interpolated_precision(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  level: Level = 0.0,
  rel: ArrayLike | None = None,
  rounding: Literal["up", "nearest"] = "up",
  ranking: Ranking = Exact(),
) -> Array:
  """Interpolated precision: the best precision from a level of recall on.

  `IP = max_{k: R@k >= level} P@k`, with precision `P@k` and recall `R@k`; 0 if no cut-off reaches
  the level. For many levels, `vmap` over `level`.

  Tied scores are averaged in the curve, which is then interpolated.

  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 0, 1, 1])
  >>> print(f"{interpolated_precision(scores, labels, level=0.5):.5f}")
  0.75000

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    level: The recall to reach, a scalar in [0, 1], which may be traced. A `decimal.Decimal` stands
      for the number of relevant items that trec_eval 9 wants, `floor(level R + 0.9)` of `R`.
    rounding: How many of the `R` relevant items make the level: `"up"`, at least `level R`; or the
      whole number `"nearest"` to it, with halves rounded up, as in trec_eval 10.

  Returns:
    `[...]`, in [0, 1].

  References:
    Manning, Raghavan and Schutze, `Introduction to information retrieval, section 8.4
    <https://nlp.stanford.edu/IR-book/html/htmledition/evaluation-of-ranked-retrieval-results-1.html>`_,
    2008.
  """
  ranked = ranked_query(scores, labels, where, ranking)
  b = ranked.relevant(rel)
  hits, count = ranked.cumulative(b), ranked.count(b)
  precision = hits / jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)
  if rounding == "nearest" or isinstance(level, decimal.Decimal):
    reached = hits + _SLACK >= share_of(level, count, ranked.n, nearest=rounding == "nearest")
  else:
    reached = safe_divide(hits, count) + _SLACK >= jnp.asarray(level).astype(ranked.dtype)
  return jnp.max(jnp.where(reached, precision, 0))


@metric(
  departs=MEANS_FIRST,
  levels=LEVELS,
  names=(
    trec_eval("11pt_avg", "[_.25,.5]", reads=_ALL_AT, rel=1, rounding="trec_eval"),
    trec_eval10("11pt_avg", "[_.25,.5]", reads=_ALL_AT, rel=1, rounding="nearest"),
  ),
)
def eleven_point_average(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  rel: ArrayLike | None = None,
  levels: Sequence[float] = _LEVELS,
  rounding: Literal["up", "nearest", "trec_eval"] = "up",
  ranking: Ranking = Exact(),
) -> Array:
  """The mean of the interpolated precision at the recall levels from 0 to 1 in steps of 0.1.

  `11AP = sum_{l = 0 ... 10} IP(l / 10) / 11`, where `IP` is `interpolated_precision`; or the mean
  at other levels.

  Tied scores are averaged in the curve, which is then interpolated.

  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 0, 1, 1])
  >>> print(f"{eleven_point_average(scores, labels):.5f}")
  0.84091

  See `jaxrank.metrics` for the arguments that metrics share.

  Args:
    levels: The levels of recall, Python numbers in [0, 1].
    rounding: How many of the `R` relevant items a recall of `l` takes: `"up"`, `ceil(l R)`;
      `"nearest"`, the whole number nearest to `l R`, as in trec_eval 10; or `"trec_eval"`,
      `floor(l R + 0.9)`, as in version 9. The last two are computed in float64.

  Returns:
    `[...]`, in [0, 1].

  References:
    Manning, Raghavan and Schutze, `Introduction to information retrieval, section 8.4
    <https://nlp.stanford.edu/IR-book/html/htmledition/evaluation-of-ranked-retrieval-results-1.html>`_,
    2008.
  """
  how = "nearest" if rounding == "nearest" else "up"
  given: dict[str, Any] = {"where": where, "rel": rel, "rounding": how, "ranking": ranking}
  read = map(float, levels) if rounding == "up" else levels
  each = [interpolated_precision(scores, labels, level=level, **given) for level in read]
  return jnp.mean(jnp.stack(each))


def aggregate_curve(
  curve: tuple[ArrayLike, ArrayLike, ArrayLike],
  *,
  where: ArrayLike | None = None,
  how: Reduction | Callable[..., Array] = "mean",
) -> Curve:
  """Aggregates the curves of many queries into one, at each cut-off separately.

  >>> scores, labels = jnp.array([[2.0, 1.0], [2.0, 1.0]]), jnp.array([[1, 1], [0, 1]])
  >>> print(*aggregate_curve(precision_recall_curve(scores, labels)))
  [0.5  0.75] [0.25 1.  ] [1 2]

  Args:
    curve: A result of `precision_recall_curve`, `[..., max_k]`.
    where: `[...]`, False for queries to leave out.
    how: As in `aggregate`.

  Returns:
    A `Curve` of arrays `[max_k]`, with cut-offs `1 ... max_k`; precision and recall are 0 if no
    query is left.

  Raises:
    ValueError: if shapes differ or `how` is unknown.
    TypeError: if `curve` is not three arrays, or `where` is not boolean.
  """
  with checks.named("aggregate_curve"):
    precision, recall, k = _arrays(curve)

  def reduce(values: Array) -> Array:
    return aggregation._reduced("aggregate_curve", values, where, None, how)

  over_queries = jax.vmap(reduce, in_axes=-1)
  cutoffs = jnp.arange(1, k.shape[-1] + 1, dtype=jnp.int32)
  return Curve(over_queries(precision), over_queries(recall), cutoffs)


def recall_at_fixed_precision(
  curve: tuple[ArrayLike, ArrayLike, ArrayLike], min_precision: ArrayLike
) -> tuple[Array, Array]:
  """The best recall of a curve at which its precision is at least a given one, and the cut-off.

  The result for an aggregated curve is not the mean of the results for its queries.

  >>> curve = Curve(*jnp.array([[1.0, 0.5, 0.75], [0.25, 0.25, 0.75]]), jnp.array([1, 2, 3]))
  >>> recall, k = recall_at_fixed_precision(curve, 0.7)
  >>> print(f"{recall:.2f} at {k}")
  0.75 at 3

  Args:
    curve: A result of `precision_recall_curve` or `aggregate_curve`, `[..., max_k]`.
    min_precision: The precision to keep, in [0, 1], a scalar.

  Returns:
    Recall `[...]`, and the largest cut-off `[...]` that reaches it; 0 and the last cut-off if no
    relevant item is found at that precision.

  Raises:
    ValueError: if shapes differ, or `min_precision` is out of its range.
    TypeError: if `curve` is not three arrays, or `min_precision` is no number.
  """
  with checks.named("recall_at_fixed_precision"):
    precision, recall, k = _arrays(curve)
    checks.unit_interval("min_precision", min_precision)
  enough = precision + _SLACK >= jnp.asarray(min_precision).astype(precision.dtype)
  best = jnp.max(jnp.where(enough, recall, 0), axis=-1, keepdims=True, initial=0)
  at = enough & (recall == best) & (best > 0)
  at = at | ~jnp.any(at, axis=-1, keepdims=True)
  has_nan = jnp.any(jnp.isnan(precision), axis=-1)
  return jnp.where(has_nan, jnp.nan, best[..., 0]), jnp.max(jnp.where(at, k, 0), axis=-1, initial=0)


def _arrays(curve: tuple[ArrayLike, ArrayLike, ArrayLike]) -> Curve:
  """The arrays of a curve after their checks."""
  if not hasattr(curve, "__len__") or len(curve) != 3:
    raise TypeError(f"curve must be (precision, recall, k), three arrays, got {curve!r}.")
  precision, recall, k = (checks.array(f, x) for f, x in zip(Curve._fields, curve, strict=True))
  if precision.ndim == 0:
    raise ValueError("curve must hold arrays of shape [..., max_k], got scalars.")
  checks.same_shape("recall", recall, "precision", precision)
  checks.same_shape("k", k, "precision", precision)
  return Curve(arithmetic.floating(precision), arithmetic.floating(recall), k)
