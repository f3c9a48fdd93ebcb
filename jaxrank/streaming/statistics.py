"""`Statistics`, what an `Evaluator` computes from a state on the host."""

from typing import Any

import numpy as np

from jaxrank._core import checks
from jaxrank.streaming import summary
from jaxrank.streaming.summary import State


class Statistics:
  """The statistics of an `Evaluator`, computed outside `jit` and in float64.

  They are floats by the names of the measures. A state with leading axes, such as `vmap` of
  `update` over 64 rankers returns, gives NumPy arrays of these axes instead of floats.
  """

  empty: Any
  invalid: Any
  groups: int | None
  _measures: Any

  @property
  def names(self) -> tuple[str, ...]:
    """The names of the measures."""
    return tuple(measure.name for measure in self._measures)

  def _check_own(self, state: State, *, or_of_a_group: bool = False) -> None:
    raise NotImplementedError

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
      found = self._summary(state)
      values = self._named(state, summary.aggregates(self._measures, found))
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

    `sqrt(variance / n)` for a mean, with `n = (sum w)^2 / sum w^2` for weights `w`; `sum w` times
    as much for a sum; and to first order the aggregate times as much for an exponential.

    Args:
      state: State of the queries.

    Returns:
      Floats by name, or arrays of the leading axes of the state.
    """
    with checks.named("Evaluator.standard_error"):
      return self._named(state, summary.errors(self._measures, self._summary(state)))

  def interval(self, state: State, *, confidence: float = 0.95) -> dict[str, tuple[Any, Any]]:
    """A confidence interval of what `compute` returns, for 30 queries or more.

    It is that of the mean, by the normal approximation, with its ends aggregated as the mean is.

    Args:
      state: State of the queries.
      confidence: Probability that the interval contains the value of the population, in (0, 1).

    Returns:
      The lower and the upper end by name: floats, or arrays of the leading axes of the state.

    Raises:
      ValueError: if `confidence` is not between 0 and 1.
    """
    with checks.named("Evaluator.interval"):
      ends = summary.interval(self._measures, self._summary(state), confidence)
      low, high = (self._named(state, end) for end in ends)
    return {name: (low[name], high[name]) for name in low}

  def quantile(self, state: State, q: float = 0.5) -> dict[str, Any]:
    """A quantile of each measure over the queries; exact if the reservoir holds all queries.

    It is the smallest value such that the values up to it have a fraction `q` of the weight or
    more, and halfway to the next value if the fraction is exactly `q`, as for medians.

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
        raise ValueError(f"q must be a number between 0 and 1, got {q!r}.")
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
    return summary.of_group(state, group)

  def per_group(self, state: State) -> dict[str, list[Any]]:
    """What `compute` returns for each group.

    Args:
      state: State with groups.

    Returns:
      Lists by name, with a float or an array for each group, as `compute` returns them.

    Raises:
      ValueError: if the evaluator has no groups.
    """
    if self.groups is None:
      raise ValueError("Evaluator.per_group: there are no groups; pass groups= to Evaluator.")
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
