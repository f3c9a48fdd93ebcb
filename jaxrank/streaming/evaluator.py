"""`Evaluator`: measures over any number of batches."""

import dataclasses
import functools
import warnings
from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.batching import over_queries
from jaxrank._core.ranked import Ranking
from jaxrank.measures import Measure
from jaxrank.measures.evaluation import evaluate_calls
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measures
from jaxrank.rankings.exact import Exact
from jaxrank.streaming import batch, moments, reservoir, summary
from jaxrank.streaming.summary import State

Empty = Literal["zero", "one", "skip", "error"]
Invalid = Literal["warn", "propagate"]


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluator:
  """The mean of measures over any number of batches, devices and processes.

  `update` takes a batch, `merge` two states, `compute` gives the means; all but `compute` and its
  kin are pure, and may be jitted and scanned. The mean and the spread `sum w (x - mean)^2` are
  merged by the formulas of Chan, Golub and LeVeque, in pairs of float32: their error does not
  grow with the number of queries.

  A query without a candidate, `where` all False, is padding and never counts. A query with a
  value that is not finite counts apart, in `state.invalid`.

  >>> evaluator = Evaluator("nDCG@2 RR")
  >>> state = evaluator.init()
  >>> for scores in ([[3.0, 2.0, 1.0]], [[1.0, 2.0, 3.0]]):
  ...   state = evaluator.update(state, jnp.array(scores), jnp.array([[0, 2, 1]]))
  >>> print({name: f"{value:.4f}" for name, value in evaluator.compute(state).items()})
  {'nDCG@2': '0.6697', 'RR': '0.7500'}

  Args:
    measures: Names, metrics and `Measure`s, as `evaluate` takes them.
    empty: What a query counts that does not hold what the metric seeks, by its description:
      relevant items for most, others for fall-out, both for AUC, two labels that differ for
      correlations. `"zero"`, `"one"`, nothing (`"skip"`), or an `"error"` in `compute`.
    invalid: What `compute` makes of queries that are not finite: `"warn"` leaves them out and
      says so, `"propagate"` returns NaN.
    groups: The number of groups of queries, for results of each. Work grows with it.
    reservoir: How many queries to keep as a sample, for quantiles.
    ranking: Exact or smooth.

  Raises:
    ValueError: for an unknown name or policy, no measure at all, or numbers less than 1.
    TypeError: for names, numbers or a ranking that are none.

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
    if not self._measures:
      raise ValueError("Evaluator needs at least one measure, such as 'nDCG@10'; got none.")
    checks.choice("empty", self.empty, get_args(Empty))
    checks.choice("invalid", self.invalid, get_args(Invalid))
    for name in ("groups", "reservoir"):
      if getattr(self, name) is not None:
        object.__setattr__(self, name, checks.count(name, getattr(self, name)))
    if not isinstance(self.ranking, Ranking):
      raise TypeError(f"Evaluator: ranking must be one such as Exact(), got {self.ranking!r}.")

  @functools.cached_property
  def _measures(self) -> tuple[Measure, ...]:
    with checks.named("Evaluator"):
      return read_measures(self.measures)

  @property
  def names(self) -> tuple[str, ...]:
    """The names of the measures."""
    return tuple(measure.name for measure in self._measures)

  def init(
    self, key: Array | None = None, *, axis_name: str | tuple[str, ...] | None = None
  ) -> State:
    """The state of no query at all.

    Args:
      key: A PRNG key, for a reservoir only; states that will be merged need different ones.
      axis_name: Inside `shard_map`, the mesh axes that queries are spread over: each device has a
        state of its own, and priorities of its own, until `all_reduce`.

    Returns:
      A state.

    Raises:
      ValueError: if there is a reservoir and no key, or the other way round, or no such axis.
      TypeError: if the key is none.
    """
    if (self.reservoir is None) != (key is None):
      raise ValueError(f"A reservoir needs a key, and only it; got {self.reservoir}, {key}.")
    if key is not None:
      reservoir.check(key)
    if axis_name is not None:
      checks.axis(axis_name)
    groups = () if self.groups is None else (self.groups,)
    shape = (*groups, len(self.names))
    sample = None if key is None else reservoir.new(self.reservoir or 0, len(self.names), key)
    count, empty, invalid = (jnp.zeros(s, jnp.uint32) for s in (shape, shape, groups))
    state = State(self.names, count, empty, invalid, moments.zeros(shape), sample)
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
    """The state after some more queries.

    Batches may have any shape. Each is compiled for once, so pad the last one with queries that
    have no candidate.

    Args:
      state: From `init`, `update` or `merge`.
      scores: `[..., n]`.
      labels: `[..., n]`.
      where: `[..., n]`, False on padding.
      query_weights: `[...]`; 0 leaves out, and a negative or infinite one is invalid.
      groups: `[...]`, the group of each query, from 0; another is invalid, and counts as such in
        the nearest group.

    Returns:
      A state.

    Raises:
      ValueError: if shapes differ, or groups are missing or not expected.
      TypeError: for dtypes that cannot be ranked, groups that are not integers, or no state.
    """
    self._check_own(state)
    with checks.named("Evaluator.update"):
      evaluated = evaluate_calls(
        self._measures, scores, labels, where, self.ranking, with_found=True
      )
      values = jnp.stack([x.value for x in evaluated], -1)
      found = jnp.stack([x.found for x in evaluated if x.found is not None], -1)
      mask = checks.mask(where, checks.array("scores", scores))
      live = over_queries(self.ranking.anywhere, mask.ndim - 1)(mask)
      weight = batch.weight(query_weights, live.astype(values.dtype))
      group = batch.group(groups, self.groups, live)
    rules = batch.Rules(self.empty, self.groups)
    updated: State = summary.update(rules, state, values, found, live, weight, group)
    return updated

  def merge(self, a: State, b: State) -> State:
    """The state of the queries of both.

    Args:
      a: A state.
      b: Another.

    Returns:
      A state.

    Raises:
      ValueError: if they are not both of such an evaluator.
    """
    self._check_own(a)
    self._check_own(b)
    merged: State = summary.merge(a, b)
    return merged

  def all_reduce(self, state: State, axis_name: str | tuple[str, ...]) -> State:
    """The state of the queries of all devices, inside `shard_map`.

    What a device has from another already is counted again: reduce at the end of a loop, or
    reduce the state of one step alone and merge that into the whole.

    Args:
      state: Of the queries of each device.
      axis_name: The mesh axes that queries are spread over.

    Returns:
      A state, the same on every device.

    Raises:
      ValueError: if the state is not of such an evaluator, there is no such axis, or the state is
        the same on all devices already.
    """
    self._check_own(state)
    summary.check_apart(state, axis_name)
    count, empty, invalid = lax.psum((state.count, state.empty, state.invalid), axis_name)
    whole = moments.over(axis_name, state.moments)
    sample = None if state.reservoir is None else reservoir.over(axis_name, state.reservoir)
    return State(state.names, count, empty, invalid, whole, sample)

  def compute(self, state: State) -> dict[str, float]:
    """The mean of each measure; 0.0 of no query.

    Args:
      state: Outside `jit`.

    Returns:
      Floats by name.

    Raises:
      ValueError: for empty queries, if the policy is `"error"`, or a state of another evaluator.
      TypeError: inside `jit`.
    """
    means = self._named(state, summary.summarize(state).mean)
    invalid = int(np.sum(summary.host(state.invalid)))
    if invalid and self.invalid == "warn":
      warnings.warn(
        f"{invalid} queries have a value that is not finite, or a bad weight or group, and are in "
        'no mean. jaxrank.check_values finds them; invalid="propagate" makes the mean NaN.',
        stacklevel=2,
      )
    return means

  def variance(self, state: State) -> dict[str, float]:
    """The unbiased variance of a measure between queries; NaN of less than two.

    With weights, `sum w (x - mean)^2 / (W - sum w^2 / W)`, `W = sum w`, whatever their scale.

    Args:
      state: Outside `jit`.

    Returns:
      Floats by name.
    """
    return self._named(state, summary.summarize(state).variance)

  def standard_error(self, state: State) -> dict[str, float]:
    """The standard error of each mean, `sqrt(variance / n)`; NaN of less than two queries.

    With weights, `n = (sum w)^2 / sum w^2`.

    Args:
      state: Outside `jit`.

    Returns:
      Floats by name.
    """
    return self._named(state, summary.summarize(state).error)

  def interval(self, state: State, *, confidence: float = 0.95) -> dict[str, tuple[float, float]]:
    """A confidence interval of each mean, normal: for 30 queries or more.

    Args:
      state: Outside `jit`.
      confidence: How often intervals made so cover the mean of all queries there are.

    Returns:
      The lower and the upper end by name.

    Raises:
      ValueError: if `confidence` is not between 0 and 1.
    """
    if not (isinstance(confidence, int | float | np.number) and 0 < confidence < 1):
      raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}; try 0.95.")
    mean, _, error = summary.summarize(state)
    reach = summary.normal_quantile((1 + confidence) / 2) * error
    low, high = self._named(state, mean - reach), self._named(state, mean + reach)
    return {name: (low[name], high[name]) for name in low}

  def quantile(self, state: State, q: float = 0.5) -> dict[str, float]:
    """A quantile of each measure between queries: exact while the reservoir holds them all.

    It is the least value that a share `q` of the weight does not exceed, or halfway to the next
    where the share is met exactly: the median of an even number is between the middle two.

    Args:
      state: Outside `jit`.
      q: In [0, 1]; the median by default.

    Returns:
      Floats by name; 0.0 of no query.

    Raises:
      ValueError: if `q` is out of range, or there is no reservoir.
    """
    if not (isinstance(q, int | float | np.number) and 0 <= q <= 1):
      raise ValueError(f"q must be a number between 0 and 1, got {q!r}.")
    return self._named(state, summary.quantiles(state, q))

  def group(self, state: State, group: int) -> State:
    """The state of one group alone, for `compute` and its kin.

    Args:
      state: With groups, outside `jit`.
      group: From 0.

    Returns:
      A state without groups.

    Raises:
      ValueError: if there is no such group.
      TypeError: if it is no int.
    """
    self._check_own(state)
    if checks.count("group", group, least=0) >= (self.groups or 0):
      raise ValueError(f"group must be one of {self.groups or 'no'} groups, got {group}.")
    return summary.of_group(state, group)

  def per_group(self, state: State) -> dict[str, list[float]]:
    """The means of each group.

    Args:
      state: With groups, outside `jit`.

    Returns:
      `groups` floats by name.

    Raises:
      ValueError: if the evaluator has no groups.
    """
    if self.groups is None:
      raise ValueError("There are no groups: pass groups= to Evaluator, and to update.")
    means = [self.compute(self.group(state, g)) for g in range(self.groups)]
    return {name: [mean[name] for mean in means] for name in self.names}

  def _named(self, state: State, values: np.ndarray) -> dict[str, float]:
    self._check_own(state, or_of_a_group=True)
    if self.empty == "error":
      summary.refuse_empty(state)
    if self.invalid == "propagate" and np.any(summary.host(state.invalid)):
      values = np.full_like(values, np.nan)
    return dict(zip(state.names, map(float, values), strict=True))

  def _check_own(self, state: State, *, or_of_a_group: bool = False) -> None:
    summary.check_like(state, self.names, self.groups, self.reservoir, or_of_a_group)
