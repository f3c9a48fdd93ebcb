"""`Statistics`, what an `Evaluator` computes from a state on the host."""

import warnings
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

  names: Any
  empty: Any
  invalid: Any
  groups: int | None

  def _check_own(self, state: State, *, or_of_a_group: bool = False) -> None:
    raise NotImplementedError

  def compute(self, state: State) -> dict[str, Any]:
    """The mean of each measure; 0.0 without queries.

    Args:
      state: State of the queries.

    Returns:
      Floats by name, or arrays of the leading axes of the state.

    Raises:
      ValueError: if a query is empty and the policy is `"error"`.
      TypeError: if it is called inside `jit`.
    """
    with checks.named("Evaluator.compute"):
      means = self._named(state, summary.summarize(state).mean)
    invalid = int(np.sum(summary.host(state.invalid)))
    if invalid and self.invalid == "warn":
      warnings.warn(
        f"Evaluator.compute: {invalid} queries with a value that is not finite, or an invalid "
        "weight or group, are in no mean. jaxrank.check_values finds the former, and "
        "invalid='propagate' makes the mean NaN.",
        stacklevel=2,
      )
    return means

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
      return self._named(state, summary.summarize(state).variance)

  def standard_error(self, state: State) -> dict[str, Any]:
    """The standard error of each mean; NaN for fewer than two queries.

    `sqrt(variance / n)`, with `n = (sum w)^2 / sum w^2` for weights `w`.

    Args:
      state: State of the queries.

    Returns:
      Floats by name, or arrays of the leading axes of the state.
    """
    with checks.named("Evaluator.standard_error"):
      return self._named(state, summary.summarize(state).error)

  def interval(self, state: State, *, confidence: float = 0.95) -> dict[str, tuple[Any, Any]]:
    """A confidence interval of each mean, by the normal approximation, for 30 queries or more.

    Args:
      state: State of the queries.
      confidence: Probability that the interval contains the mean of the population, in (0, 1).

    Returns:
      The lower and the upper end by name: floats, or arrays of the leading axes of the state.

    Raises:
      ValueError: if `confidence` is not between 0 and 1.
    """
    with checks.named("Evaluator.interval"):
      if not (isinstance(confidence, int | float | np.number) and 0 < confidence < 1):
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}; try 0.95.")
      mean, _, error = summary.summarize(state)
      margin = summary.normal_quantile((1 + confidence) / 2) * error
      low, high = self._named(state, mean - margin), self._named(state, mean + margin)
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
    """The means of each group.

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

  def _named(self, state: State, values: np.ndarray) -> dict[str, Any]:
    """The values `[..., measures]` by the names of the measures, under the policies."""
    self._check_own(state, or_of_a_group=True)
    if self.empty == "error":
      summary.refuse_empty(state)
    if self.invalid == "propagate":
      values = np.where(summary.has_invalid(state)[..., None], np.nan, values)
    if values.ndim == 1:
      return dict(zip(state.names, map(float, values), strict=True))
    return dict(zip(state.names, np.moveaxis(values, -1, 0), strict=True))
