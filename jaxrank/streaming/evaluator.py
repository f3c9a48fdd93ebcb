"""`Evaluator`, the means of measures over any number of batches."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.apply import check_ranking
from jaxrank._core.arithmetic import floating
from jaxrank._core.batching import over_queries
from jaxrank._core.ranked import Ranking
from jaxrank.measures.evaluation import evaluate_calls
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measure, Measures, identity
from jaxrank.rankings.exact import Exact
from jaxrank.streaming import batch, fingerprint, moments, reservoir, summary
from jaxrank.streaming.summary import State

Empty = Literal["zero", "one", "skip", "error"]
Invalid = Literal["warn", "propagate"]


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluator:
  """The mean of measures over any number of batches, devices and processes.

  `update` adds a batch of scores and labels to a state, `add` a batch of values, `merge` combines
  two states, and `compute` returns the means. `init`, `update`, `add`, `merge` and `all_reduce` are
  pure functions for `jit`, `vmap` and `lax.scan`; the others take a state outside `jit` and return
  Python floats, or the state of a group. Moments are pairs of float32, whose error does not grow
  with the queries.

  A state may have leading axes, such as those that `vmap` of `update` over the rankers of a sweep
  gives it. `merge` and `all_reduce` keep them, and the statistics are NumPy arrays of these axes
  instead of floats.

  A state knows its evaluator by a fingerprint of the measures with their parameters, `empty`,
  `groups` and the ranking, which saved states keep in any format. The statistics and, as far as
  states are computed already, `merge`, `update` and `add` raise `ValueError` for the state of
  another evaluator, and the statistics for one that was merged with it inside `jit`. Functions
  count by their names: measures with two functions of one name, such as two lambdas, are told apart
  only if the measures have different names.

  Evaluators of equal measures, policies and rankings are equal, so that a program with one of them
  among its static arguments is not traced again for another.

  A query without a candidate, `where` all False, is padding and never counts. A query with a value
  that is not finite is in no mean, and counts in `state.invalid`.

  >>> evaluator = Evaluator("nDCG@2 RR")
  >>> state = evaluator.init()
  >>> for scores in ([[3.0, 2.0, 1.0]], [[1.0, 2.0, 3.0]]):
  ...   state = evaluator.update(state, jnp.array(scores), jnp.array([[0, 2, 1]]))
  >>> print({name: f"{value:.4f}" for name, value in evaluator.compute(state).items()})
  {'nDCG@2': '0.6697', 'RR': '0.7500'}

  Args:
    measures: Names, metrics and measures, as `jaxrank.evaluate` takes them.
    empty: The policy for a query that holds nothing the metric seeks (relevant items for most
      metrics, non-relevant items for fall-out, both for AUC, two different labels for
      correlations): it counts as 0 (`"zero"`) or 1 (`"one"`), does not count (`"skip"`), or makes
      the statistics raise `ValueError` (`"error"`).
    invalid: The policy of the statistics for invalid queries: `"warn"` leaves them out and makes
      `compute` warn, `"propagate"` returns NaN.
    groups: The number of groups of queries, at least 1, or None. More groups take more time.
    reservoir: The number of queries to keep as a sample for quantiles, at least 1, or None.
    ranking: The ranking of all measures, exact or smooth.

  Raises:
    ValueError: if a name or a policy is unknown, there is no measure, or a number is less than 1.
    TypeError: if an argument has a wrong type.

  References:
    Chan, Golub and LeVeque, `Algorithms for computing the sample variance
    <https://doi.org/10.1080/00031305.1983.10483115>`_, 1983.
  """

  measures: Measures
  _: dataclasses.KW_ONLY
  empty: Empty = "zero"
  invalid: Invalid = "warn"
  groups: int | None = None
  reservoir: int | None = None
  ranking: Ranking = Exact()

  def __post_init__(self) -> None:
    with checks.named("Evaluator"):
      if not self._measures:
        raise ValueError("measures must be at least one measure, such as 'nDCG@10', got none.")
      checks.choice("empty", self.empty, get_args(Empty))
      checks.choice("invalid", self.invalid, get_args(Invalid))
      for name in ("groups", "reservoir"):
        if getattr(self, name) is not None:
          object.__setattr__(self, name, checks.count(name, getattr(self, name)))
      check_ranking(self.ranking)

  def _identity(self) -> tuple[Any, ...]:
    settings = self.empty, self.invalid, self.groups, self.reservoir
    return self._measures, settings, identity(self.ranking)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Evaluator) and self._identity() == other._identity()

  def __hash__(self) -> int:
    return hash(self._identity())

  @functools.cached_property
  def _measures(self) -> tuple[Measure, ...]:
    return read_measures(self.measures)

  @functools.cached_property
  def _fingerprints(self) -> dict[int | None, int]:
    """The fingerprints of states with the groups of the evaluator, and of one of a single group."""
    # States under "error" are those under "zero".
    empty = "zero" if self.empty == "error" else self.empty
    settings = self._measures, empty, self.ranking
    return {groups: fingerprint.of(*settings, groups) for groups in (self.groups, None)}

  @property
  def names(self) -> tuple[str, ...]:
    """The names of the measures."""
    return tuple(measure.name for measure in self._measures)

  def init(
    self, key: Array | None = None, *, axis_name: str | tuple[str, ...] | None = None
  ) -> State:
    """The state before the first query.

    Args:
      key: PRNG key of the reservoir; None without a reservoir. States that will be merged need
        different keys.
      axis_name: Inside `shard_map`, the mesh axes over which queries are split. Each device then
        has a state of its own, with priorities of its own, until `all_reduce`, also with
        `check_vma=False` and in `jax.pmap`.

    Returns:
      The state.

    Raises:
      ValueError: if there is a reservoir or a key without the other, or no such axis.
      TypeError: if `key` is not a single PRNG key.
    """
    with checks.named("Evaluator.init"):
      if (self.reservoir is None) != (key is None):
        got = f"got reservoir={self.reservoir} and key={checks.told(key)}"
        raise ValueError(f"a reservoir needs a key, and only a reservoir does; {got}.")
      if key is not None:
        reservoir.check(key)
      if axis_name is not None:
        checks.axis(axis_name)
    groups = () if self.groups is None else (self.groups,)
    shape = (*groups, len(self.names))
    sample = None if key is None else reservoir.new(self.reservoir or 0, len(self.names), key)
    count, empty, invalid = (jnp.zeros(s, jnp.uint32) for s in (shape, shape, groups))
    none = jnp.full(shape, jnp.inf, jnp.float32)
    sums = moments.zeros(shape)
    own = jnp.uint32(self._fingerprints[self.groups])
    state = State(self.names, self.groups, own, count, empty, invalid, sums, none, -none, sample)
    return state if axis_name is None else summary.apart(axis_name, state)

  def update(
    self,
    state: State,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    query_weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
  ) -> State:
    """The state after one more batch of queries.

    Batches may have any shape. Each shape is compiled for once, so it saves time to pad the last
    batch with queries that have no candidate.

    Args:
      state: State of `init`, `update` or `merge`.
      scores: `[..., n]`, higher first; -inf for items that are known and not retrieved.
      labels: `[..., n]`, or `[..., n, subtopics]` for measures of diversity.
      where: `[..., n]`, boolean, False on padding; None is all True.
      query_weights: `[...]`, the weight of each query; None is 1. A query of weight 0 does not
        count; a negative or infinite weight makes it invalid.
      groups: `[...]`, integers, the group of each query, from 0. A query whose group is out of
        range is invalid, and the nearest group counts it as such; give those of unknown groups a
        group of their own.

    Returns:
      The state.

    Raises:
      ValueError: if shapes differ, the state has leading axes, there are groups here or in the
        evaluator alone, or a label is beyond the scale of a measure, as for `jaxrank.evaluate`.
      TypeError: if a dtype cannot be ranked, groups are not integers, or `state` is not a state.
    """
    with checks.named("Evaluator.update"):
      self._check_one(state)
      evaluated = evaluate_calls(
        self._measures, scores, labels, where, self.ranking, with_found=True
      )
      values = jnp.stack([x.value for x in evaluated], -1)
      found = jnp.stack([x.found for x in evaluated if x.found is not None], -1)
      mask = checks.mask(where, checks.array("scores", scores))
      live = over_queries(self.ranking.anywhere, mask.ndim - 1)(mask)
      weight = batch.weight(query_weights, live.astype(values.dtype))
      group = batch.group(groups, self.groups, live)
    rules = batch.rules(self._measures, self.empty, self.groups)
    updated: State = summary.update(rules, state, values, found, live, weight, group)
    return updated

  def add(
    self,
    state: State,
    values: Mapping[str, ArrayLike],
    *,
    query_weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
  ) -> State:
    """The state after a batch of queries with values that are known.

    The values may be any numbers, such as the differences of two scorers, whose standard error and
    interval are then those of a paired comparison. No query is padding or empty; give padding the
    weight 0.

    >>> import jaxrank as jr
    >>> evaluator = jr.Evaluator("RR")
    >>> state = evaluator.add(evaluator.init(), {"RR": jnp.array([0.5, -0.25])})
    >>> print(evaluator.compute(state))
    {'RR': 0.125}

    Args:
      state: State of `init`, `update`, `add` or `merge`.
      values: Arrays `[...]` of one shape by the names of all measures.
      query_weights: `[...]`, the weight of each query, as for `update`.
      groups: `[...]`, integers, the group of each query, as for `update`.

    Returns:
      The state.

    Raises:
      ValueError: if the names are not those of the measures, shapes differ, the state has leading
        axes, or there are groups here or in the evaluator alone.
      TypeError: if values are not numbers, groups are not integers, or `state` is not a state.
    """
    with checks.named("Evaluator.add"):
      self._check_one(state)
      if not isinstance(values, Mapping) or set(values) != set(self.names):
        got = sorted(values) if isinstance(values, Mapping) else type(values).__name__
        raise ValueError(f"values must be a dict with the names {sorted(self.names)}, got {got}.")
      columns = [floating(checks.array(name, values[name])) for name in self.names]
      for name, column in zip(self.names, columns, strict=True):
        checks.same_shape(self.names[0], columns[0], name, column)
      dtype = jnp.result_type(*columns)
      stacked = jnp.stack([column.astype(dtype) for column in columns], axis=-1)
      live = jnp.ones_like(columns[0], bool)
      weight = batch.weight(query_weights, live.astype(dtype))
      group = batch.group(groups, self.groups, live)
    rules = batch.rules(self._measures, self.empty, self.groups)
    found = jnp.ones_like(stacked, bool)
    updated: State = summary.update(rules, state, stacked, found, live, weight, group)
    return updated

  def merge(self, a: State, b: State) -> State:
    """The state of the queries of two states.

    Args:
      a: State of one part of the queries.
      b: State of the other part.

    Returns:
      The state of all of them.

    Raises:
      ValueError: if a state has other measures, groups or another reservoir than this evaluator,
        or the states have different leading axes.
    """
    with checks.named("Evaluator.merge"):
      for state in (a, b):
        self._check_own(state, wait=False)
      summary.check_same_leading(a, b)
    merged: State = summary.merge(a, b)
    return merged

  def all_reduce(self, state: State, axis_name: str | tuple[str, ...]) -> State:
    """The state of the queries of all devices, inside `shard_map`.

    It must not be reduced twice: reduce at the end, or reduce the state of each step and merge it.
    With `check_vma=False`, and in `jax.pmap`, the values are the same, and a second reduction is
    not seen. The result has no derivatives.

    Args:
      state: State of the queries of each device.
      axis_name: The mesh axes over which queries are split.

    Returns:
      The state of all queries, the same on every device.

    Raises:
      ValueError: if there is no such axis, or the state is the same on all devices already.
    """
    with checks.named("Evaluator.all_reduce"):
      self._check_own(state, wait=False)
      summary.check_apart(state, axis_name)
    return summary.over(axis_name, state)

  def compute(self, state: State) -> dict[str, Any]:
    """The mean of each measure, or what its description calls for instead; 0.0 without queries.

    Counts are summed, and the mean of logarithms is exponentiated: see `Description.aggregation`.

    Args:
      state: State of the queries.

    Returns:
      Floats by name, or arrays of the leading axes of the state.

    Raises:
      ValueError: if a query is empty and the policy is `"error"`.
      TypeError: if it is called inside `jit`.
    """
    with checks.named("Evaluator.compute"):
      summarised = self._summary(state)
      values = self._named(state, summary.aggregates(self._measures, summarised))
    if self.invalid == "warn":
      summary.warn_of_invalid(state)
    return values

  def variance(self, state: State) -> dict[str, Any]:
    """The unbiased variance of each measure over the queries; NaN for fewer than two queries.

    `sum w (x - mean)^2 / (W - sum w^2 / W)` with the weights `w` and `W = sum w`, which does not
    depend on the scale of the weights.

    Args:
      state: State of the queries.

    Returns:
      Floats by name, or arrays of the leading axes of the state.
    """
    with checks.named("Evaluator.variance"):
      return self._named(state, self._summary(state).variance)

  def standard_error(self, state: State) -> dict[str, Any]:
    """The standard error of what `compute` returns; NaN for fewer than two queries.

    For a mean it is `sqrt(variance / n)`, with `n = (sum w)^2 / sum w^2` for weights `w`. For a
    sum it is multiplied by `sum w`, and for an exponential, to first order, by the aggregate.

    Args:
      state: State of the queries.

    Returns:
      Floats by name, or arrays of the leading axes of the state.
    """
    with checks.named("Evaluator.standard_error"):
      return self._named(state, summary.errors(self._measures, self._summary(state)))

  def interval(
    self,
    state: State,
    *,
    confidence: float = 0.95,
    anytime: bool = False,
    bounds: summary.Bounds | Mapping[str, summary.Bounds] | None = None,
  ) -> dict[str, tuple[Any, Any]]:
    """A confidence interval of what `compute` returns.

    The interval of the mean follows from the normal approximation, for 30 queries or more, and
    holds for one look. With `anytime` it is that of `jaxrank.stats.confidence_sequence`, and all
    intervals that one looks at as queries come in hold together. Its ends are aggregated as the
    mean is.

    Args:
      state: State of the queries.
      confidence: Probability that the interval contains the value of the population, in (0, 1).
      anytime: Whether the interval is to hold at all times at once. The queries then have one
        weight.
      bounds: With `anytime`, the least and the largest value of a query, or a dict of them by the
        names of measures; None, and a measure that the dict lacks, is the range of the measure.
        Differences of values between 0 and 1 need `(-1, 1)`.

    Returns:
      The lower and the upper end by name: floats, or arrays of the leading axes of the state.

    Raises:
      ValueError: if `confidence` is not between 0 and 1, or, with `anytime`, values are not within
        the bounds, these are not finite, or the queries have different weights.
      TypeError: if an argument has a wrong type.
    """
    with checks.named("Evaluator.interval"):
      checks.true_or_false("anytime", anytime)
      if bounds is not None and not anytime:
        raise ValueError("bounds are those of an interval for all times; pass anytime=True too.")
      summarised = self._summary(state)
      if anytime:
        ends = summary.anytime_interval(self._measures, state, summarised, confidence, bounds)
      else:
        ends = summary.interval(self._measures, summarised, confidence)
      low, high = (self._named(state, end) for end in ends)
    return {name: (low[name], high[name]) for name in low}

  def quantile(self, state: State, q: float = 0.5) -> dict[str, Any]:
    """A quantile of each measure over the queries; exact if the reservoir holds all queries.

    The quantile is the smallest value at which the values up to it have at least a fraction `q` of
    the weight. If they have exactly that fraction, it lies halfway to the next value, as a median
    does.

    Args:
      state: State with a reservoir.
      q: Number in [0, 1]; the default is the median.

    Returns:
      Floats by name, or arrays of the leading axes of the state; 0.0 without queries.

    Raises:
      ValueError: if `q` is out of range, or there is no reservoir.
    """
    with checks.named("Evaluator.quantile"):
      if not (isinstance(q, int | float | np.number) and 0 <= q <= 1):
        raise ValueError(f"q must be a number between 0 and 1, got {checks.told(q)}.")
      self._check_own(state, or_of_a_group=True)
      return self._named(state, summary.quantiles(state, q))

  def group(self, state: State, group: int) -> State:
    """The state of a single group, for `compute` and the other statistics.

    Args:
      state: State with groups.
      group: The number of the group, from 0.

    Returns:
      A state without groups, with the same leading axes.

    Raises:
      ValueError: if there is no such group.
      TypeError: if `group` is not an int.
    """
    with checks.named("Evaluator.group"):
      self._check_own(state)
      if checks.count("group", group, least=0) >= (self.groups or 0):
        raise ValueError(f"group must be one of {self.groups or 'no'} groups, got {group}.")
    return summary.of_group(state, group, self._fingerprints[None])

  def per_group(self, state: State) -> dict[str, list[Any]]:
    """What `compute` returns for each group.

    Args:
      state: State with groups.

    Returns:
      Lists by name, with a float or an array for each group, as `compute` returns them.

    Raises:
      ValueError: if the evaluator has no groups.
    """
    with checks.named("Evaluator.per_group"):
      if self.groups is None:
        raise ValueError("there are no groups; pass groups= to Evaluator.")
      self._check_own(state)
    means = [self.compute(self.group(state, g)) for g in range(self.groups)]
    return {name: [mean[name] for mean in means] for name in self.names}

  def _summary(self, state: State) -> summary.Summary:
    self._check_own(state, or_of_a_group=True)
    return summary.summarize(state)

  def _named(self, state: State, values: np.ndarray) -> dict[str, Any]:
    """The values `[..., measures]` by the names of the measures, under the policies."""
    if self.empty == "error":
      summary.refuse_empty(state)
    if self.invalid == "propagate":
      values = np.where(summary.has_invalid(state)[..., None], np.nan, values)
    if values.ndim == 1:
      return dict(zip(state.names, map(float, values), strict=True))
    return dict(zip(state.names, np.moveaxis(values, -1, 0), strict=True))

  def _check_own(self, state: State, *, or_of_a_group: bool = False, wait: bool = True) -> None:
    summary.check_like(state, self.names, self.groups, self.reservoir, or_of_a_group)
    own = self._fingerprints[state.groups]
    fingerprint.check(state.fingerprint, own, self.names, wait=wait)

  def _check_one(self, state: State) -> None:
    self._check_own(state, wait=False)
    summary.check_without_leading(state)
