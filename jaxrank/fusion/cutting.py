"""`threshold`: how many results to show, or from which score on, with a guarantee."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import floating
from jaxrank._errors import AdvisedError
from jaxrank.measures.grammar import only_measure
from jaxrank.measures.measure import Measure, Measures
from jaxrank.stats.risk import Threshold, risk_control

# So many thresholds are tried where none are given.
_TRIED = 200


def threshold(
  scores: ArrayLike,
  labels: ArrayLike,
  measure: Measures,
  *,
  level: ArrayLike,
  where: ArrayLike | None = None,
  by: Literal["count", "score"] = "count",
  thresholds: ArrayLike | None = None,
) -> Threshold:
  """The fewest results with which a measure is at least `level` in expectation on a new query.

  It is `jaxrank.stats.risk_control` of the losses `1 - m_t`, where `m_t` is the measure of a query
  whose list ends at the threshold `t`: after `t` results, or where scores fall below `t`. The
  measure must be one that more results never make worse, such as recall.

  >>> scores = jnp.tile(jnp.arange(10.0, 0.0, -1.0), (50, 1))
  >>> labels = jnp.zeros((50, 10)).at[jnp.arange(50), jnp.arange(50) % 5].set(1)
  >>> print(threshold(scores, labels, "recall", level=0.75).threshold)
  4.0

  Args:
    scores: `[queries, n]`, of one system or fused ones.
    labels: `[queries, n]`.
    measure: A measure between 0 and 1 without a cut-off, such as "recall" or "hit_rate".
    level: The expected value of the measure that is to be reached, in [0, 1).
    where: `[queries, n]`, False on padding.
    by: "count" for a number of results, the same for all queries; "score" for a smallest score,
      with which queries differ in their number of results, and some may have none.
    thresholds: Counts in ascending order, or scores in descending order, to choose from; None is up
      to 200 of those that occur.

  Returns:
    The threshold, its position among those that were tried, and 1 minus the mean of the measure;
    NaN, -1 and NaN if none is enough.

  Raises:
    ValueError: if shapes differ, the measure is not between 0 and 1, has a cut-off, or becomes
      worse with more results, or thresholds are out of order.
    TypeError: if an argument has a wrong type, or is traced.

  References:
    Angelopoulos et al., `Conformal risk control <https://arxiv.org/abs/2208.02814>`_, 2022.
  """
  with checks.named("fusion.threshold"):
    for name, x in (("scores", scores), ("labels", labels), ("where", where)):
      checks.untraced(name, x)
    checks.choice("by", by, ("count", "score"))
    checks.unit_interval("level", level)
    if not np.all(np.asarray(level) < 1):
      raise ValueError(f"level must be less than 1, got {level}; nothing promises all of it.")
    s, truth = floating(checks.array("scores", scores)), floating(checks.array("labels", labels))
    if s.ndim != 2 or not s.size:
      raise ValueError(
        f"scores must have shape [queries, n], with one item or more, got {s.shape}."
      )
    checks.same_shape("scores", s, "labels", truth)
    mask = checks.mask(where, s)
    measured = without_cutoff(measure)
    about = measured.description
    if about.range != (0, 1) or not about.higher_is_better:
      raise ValueError(f"measure must be from 0 to 1, and higher be better, got {measured.name}.")
    if measured.parameters.get("k") is not None:
      raise ValueError(f"measure must have no cut-off, which is sought, got {measured.name}.")
    if by == "count" and "k" not in about.signature.parameters:
      raise ValueError(f"measure {measured.name} has no cut-off; pass by='score'.")
    tried = jnp.asarray(_tried(s, mask, by, thresholds), s.dtype)
    found = _losses(measured, by, tried, s, truth, mask).T
    rises = np.diff(np.asarray(found), axis=1) > 1e-6
    if rises.any():
      query = int(rises.any(axis=1).argmax())
      raise ValueError(
        f"measure must be one that more results never make worse, but {measured.name} falls with "
        f"them in query {query}; use recall or hit_rate."
      )
    return risk_control(found, tried, level=1 - jnp.asarray(level, s.dtype))


def without_cutoff(measure: Measures) -> Measure:
  """The measure that is meant, whose cut-off is sought: "R" has no value without a cut-off."""
  try:
    return only_measure(measure)
  except AdvisedError as error:
    if not isinstance(measure, str) or "@" in measure or error.about != "name":
      raise
    try:
      cut = only_measure(f"{measure}@1")
    except ValueError:
      raise error from None
  parameters = {name: value for name, value in cut.parameters.items() if name != "k"}
  return Measure(cut.metric, name=measure, **parameters)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _losses(
  measure: Measure, by: str, thresholds: Array, scores: Array, labels: Array, where: Array
) -> Array:
  """`[thresholds, queries]`, the losses of lists that end at each threshold."""

  def of_threshold(t: Array) -> Array:
    if by == "count":
      cut = {**measure.parameters, "k": t.astype(jnp.int32)}
      value = measure.metric(scores, labels, where=where, **cut)
    else:
      value = measure(jnp.where(scores >= t, scores, -jnp.inf), labels, where=where)
    return 1 - jnp.asarray(value)

  losses: Array = lax.map(of_threshold, thresholds)
  return losses


def _tried(scores: Array, mask: Array, by: str, thresholds: ArrayLike | None) -> np.ndarray:
  """Thresholds from few results to many."""
  if thresholds is not None:
    tried = checks.on_host("thresholds", thresholds).astype(np.float64)
    steps = np.diff(tried) if by == "count" else -np.diff(tried)
    if tried.ndim != 1 or not tried.size or not (steps > 0).all():
      order = "ascending counts" if by == "count" else "descending scores"
      raise ValueError(f"thresholds must be {order}, without repetitions, got {tried.tolist()}.")
    if by == "count" and (tried[0] < 1 or (tried % 1).any()):
      raise ValueError(f"thresholds must be whole numbers of at least 1, got {tried.tolist()}.")
    return tried
  if by == "count":
    n = scores.shape[-1]
    counts = np.arange(1, n + 1) if n <= _TRIED else np.geomspace(1, n, _TRIED).round()
    return np.unique(counts)
  shown = np.asarray(scores)[np.asarray(mask & jnp.isfinite(scores))]
  if not shown.size:
    raise ValueError("scores must have an item that is retrieved, to have a score.")
  found = np.unique(shown)[::-1]
  places = np.linspace(0, found.size - 1, min(found.size, _TRIED)).round().astype(int)
  return np.asarray(found[places])
