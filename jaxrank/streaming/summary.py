"""`State`, the state of an `Evaluator`, and its statistics on the host in float64.

`evaluator` imports it; the programs that merge and update states are compiled here.
"""

import dataclasses
import functools
import statistics
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._base import pytree
from jaxrank._core import checks
from jaxrank._core._jax import is_traced, varying
from jaxrank._errors import counted
from jaxrank.measures.measure import Measure
from jaxrank.streaming import batch, fingerprint, moments, reservoir
from jaxrank.streaming.moments import Moments
from jaxrank.streaming.reservoir import Reservoir


@pytree("fingerprint", "count", "empty", "invalid", "moments", "least", "largest", "reservoir")
@dataclasses.dataclass(frozen=True)
class State:
  """The state of an `Evaluator` after some queries: a pytree of a few small arrays.

  The arrays may have leading axes, those of a `vmap`, in front of the axis of the groups.

  Attributes:
    names: The names of the measures.
    groups: The number of groups, or None.
    fingerprint: `[]`, uint32, a number for the evaluator with its measures, by which it knows its
      states, and 0 if a parameter was traced.
    count: `[measures]` or `[groups, measures]`, uint32, how many queries the mean includes.
    empty: `[measures]` or `[groups, measures]`, uint32, how many queries hold nothing that the
      measure seeks, under any policy.
    invalid: `[]` or `[groups]`, uint32, how many queries are in no mean because a value is not
      finite, or because the weight or the group is not valid.
    moments: The weighted moments of the values, with compensation of rounding errors.
    least: `[measures]` or `[groups, measures]`, float32, the smallest value, at first infinity.
    largest: `[measures]` or `[groups, measures]`, float32, the largest value, at first -infinity.
    reservoir: A sample of the queries, or None.
  """

  names: tuple[str, ...]
  groups: int | None
  fingerprint: Array
  count: Array
  empty: Array
  invalid: Array
  moments: Moments
  least: Array
  largest: Array
  reservoir: Reservoir | None

  def __repr__(self) -> str:
    counts = (f"{name}={_shown(getattr(self, name))}" for name in ("count", "empty", "invalid"))
    return f"<State of {' '.join(self.names)}: {', '.join(counts)}>"


def _shown(x: Any) -> str:
  known = isinstance(x, np.ndarray | Array) and not is_traced(x)
  return str(x.tolist()) if known and x.is_fully_addressable else checks.told(x)


def leading(state: State) -> tuple[int, ...]:
  """The shape of the leading axes of a state."""
  shape = state.invalid.shape
  return shape if state.groups is None else shape[:-1]


def each(f: Callable[..., State], state: State, *others: State) -> State:
  """Applies a function of states to each of those along the leading axes."""
  for _ in leading(state):
    f = jax.vmap(f)
  return f(state, *others)


@jax.jit
def merge(a: State, b: State) -> State:
  """The state of the queries of both states."""
  return each(_merge, a, b)


def _merge(a: State, b: State) -> State:
  sample = a.reservoir
  if sample is not None and b.reservoir is not None:
    sample = reservoir.merge(sample, b.reservoir)
  return State(
    a.names,
    a.groups,
    fingerprint.merged(a.fingerprint, b.fingerprint),
    a.count + b.count,
    a.empty + b.empty,
    a.invalid + b.invalid,
    moments.merge(a.moments, b.moments),
    jnp.minimum(a.least, b.least),
    jnp.maximum(a.largest, b.largest),
    sample,
  )


def over(axis: str | tuple[str, ...], state: State) -> State:
  """The state of the queries of all devices along a mesh axis."""

  def one(state: State) -> State:
    count, empty, invalid = lax.psum((state.count, state.empty, state.invalid), axis)
    whole = moments.over(axis, state.moments)
    least, largest = lax.pmin(state.least, axis), lax.pmax(state.largest, axis)
    sample = None if state.reservoir is None else reservoir.over(axis, state.reservoir)
    known = state.names, state.groups, state.fingerprint
    return State(*known, count, empty, invalid, whole, least, largest, sample)

  reduced = each(one, state)
  # That of states which were passed from outside, one for each device.
  apart = checks.axes_of(axis) & varying(state.fingerprint)
  if apart:
    own = lax.pmax(state.fingerprint, tuple(apart))
    reduced = dataclasses.replace(reduced, fingerprint=own)
  return reduced


# The least and the largest value that a query can have.
Bounds = tuple[float, float]


class Summary(NamedTuple):
  """The statistics of the values of each measure, `[..., measures]` in float64.

  Attributes:
    weight: The sum of the weights.
    mean: The mean.
    variance: The variance.
    error: The standard error of the mean.
  """

  weight: np.ndarray
  mean: np.ndarray
  variance: np.ndarray
  error: np.ndarray


@functools.partial(jax.jit, static_argnums=0)
def update(rules: batch.Rules, state: State, *arrays: Array) -> State:
  """The state after one more batch; `arrays` are the arguments of `batch.queries`."""
  queries = batch.queries(rules, *arrays)
  tally = batch.tally(queries, rules.groups)
  counts = State(state.names, rules.groups, state.fingerprint, *tally, None)
  merged: State = merge(dataclasses.replace(state, reservoir=None), counts)
  sample = None if state.reservoir is None else reservoir.add(state.reservoir, queries)
  return dataclasses.replace(merged, reservoir=sample)


def summarize(state: State) -> Summary:
  """The summary of all groups together; without queries it is 0, NaN and NaN."""
  _check(state)
  groups = 1 if state.groups is None else state.groups
  shape = (*leading(state), groups, len(state.names))
  weight, square, mean, spread = (
    np.add(*(host(x).astype(np.float64) for x in pair)).reshape(shape) for pair in state.moments
  )
  total, square = weight.sum(-2), square.sum(-2)
  overall = _divided(np.sum(weight * mean, -2), total, 0.0)
  spread = np.sum(spread + weight * (mean - overall[..., None, :]) ** 2, -2)
  # With equal weights, this is spread / (n - 1), and square / total ** 2 is 1 / n.
  variance = _divided(spread, total - _divided(square, total), np.nan)
  return Summary(total, overall, variance, np.sqrt(variance * _divided(square, total**2)))


def aggregates(
  measures: tuple[Measure, ...], summary: Summary, deviation: np.ndarray | float = 0.0
) -> np.ndarray:
  """The aggregate of each measure if its mean were larger by `deviation`; 0 without queries."""
  how = _aggregations(measures)
  mean = summary.mean + deviation
  power = np.exp(mean, where=how == "exp_mean", out=np.ones_like(mean))
  exponential = np.where(summary.weight > 0, power, 0)
  chosen = [how == "sum", how == "exp_mean"]
  values: np.ndarray = np.select(chosen, [summary.weight * mean, exponential], mean)
  return values


def errors(measures: tuple[Measure, ...], summary: Summary) -> np.ndarray:
  """The standard error of the aggregate of each measure; that of "exp_mean" is of first order."""
  how = _aggregations(measures)
  slope = np.exp(summary.mean, where=how == "exp_mean", out=np.ones_like(summary.mean))
  scale: np.ndarray = np.where(how == "sum", summary.weight, slope)
  return np.asarray(scale * summary.error)


def _aggregations(measures: tuple[Measure, ...]) -> np.ndarray:
  return np.array([measure.description.aggregation for measure in measures])


def interval(
  measures: tuple[Measure, ...], summary: Summary, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
  """The ends of a confidence interval of the aggregate of each measure."""
  _check_confidence(confidence)
  margin = statistics.NormalDist().inv_cdf((1 + confidence) / 2) * summary.error
  return aggregates(measures, summary, -margin), aggregates(measures, summary, margin)


def anytime_interval(
  measures: tuple[Measure, ...],
  state: State,
  summary: Summary,
  confidence: float,
  bounds: Bounds | Mapping[str, Bounds] | None,
) -> tuple[np.ndarray, np.ndarray]:
  """The ends of an interval of the aggregate of each measure that holds after every query."""
  # The tests of `stats` take time to import, which other intervals need not.
  from jaxrank.stats import sequences

  _check_confidence(confidence)
  by_name = bounds if isinstance(bounds, Mapping) else {x.name: bounds for x in measures}
  unknown = by_name.keys() - {x.name for x in measures}
  if unknown:
    raise ValueError(
      f"bounds must be those of measures of the evaluator, {', '.join(x.name for x in measures)}, "
      f"got {', '.join(map(repr, sorted(unknown, key=str)))}."
    )
  ranges = [
    x.description.range if by_name.get(x.name) is None else sequences.checked(by_name[x.name])
    for x in measures
  ]
  least, largest = np.array(ranges, np.float64).T
  for i, measure in enumerate(measures):
    if not np.isfinite([least[i], largest[i]]).all():
      raise ValueError(
        f"values of {measure.name} have no bounds, which an interval for all times needs; pass "
        "bounds=(least, largest) if those of the queries have."
      )
  ends = sequences.of_state(jax.tree.map(jnp.asarray, state), least, largest, confidence)
  first, second = (
    aggregates(measures, summary, np.asarray(end, np.float64) - summary.mean) for end in ends
  )
  return first, second


def _check_confidence(confidence: float) -> None:
  if not (isinstance(confidence, int | float | np.number) and 0 < confidence < 1):
    raise ValueError(
      f"confidence must be between 0 and 1, got {checks.told(confidence)}; try 0.95."
    )


def quantiles(state: State, q: float) -> np.ndarray:
  """A quantile of each measure, `[..., measures]`, from the sample."""
  _check(state)
  if state.reservoir is None:
    raise ValueError("quantiles need a sample of the queries; pass reservoir=1024 to Evaluator.")
  values, weight = host(state.reservoir.values), host(state.reservoir.weight)
  quantile = np.empty((*leading(state), len(state.names)))
  for i in np.ndindex(quantile.shape):
    quantile[i] = reservoir.quantile(values[*i[:-1], :, i[-1]], weight[i[:-1]], q)
  return quantile


def has_invalid(state: State) -> np.ndarray:
  """Whether there are invalid queries, in the shape of the leading axes."""
  invalid = host(state.invalid)
  return np.asarray(np.any(invalid, -1) if state.groups is not None else invalid > 0)


def of_group(state: State, group: int, fingerprint: int) -> State:
  """The state of one group, without the axis of groups and with another fingerprint."""
  axis = len(leading(state))
  others: dict[str, Any] = {"fingerprint": None, "reservoir": None}
  arrays = dataclasses.replace(state, **others)
  part: State = jax.tree.map(lambda x: np.take(host(x), group, axis), arrays)
  own: Any = np.full_like(host(state.fingerprint), fingerprint)
  part = dataclasses.replace(part, groups=None, fingerprint=own)
  sample = state.reservoir
  if sample is not None:
    in_group = host(sample.group) == group
    weight = jnp.asarray(np.where(in_group, host(sample.weight), np.float32(0)))
    sample = sample._replace(weight=weight)
  return dataclasses.replace(part, reservoir=sample)


def apart(axis: str | tuple[str, ...], state: State) -> State:
  """The state as one of its own for each device along a mesh axis, with a seed of its own."""
  # But for the fingerprint, which all devices share and need not exchange.
  state = dataclasses.replace(lax.pcast(state, axis, to="varying"), fingerprint=state.fingerprint)
  sample = state.reservoir
  if sample is None:
    return state
  seed = sample.seed + lax.axis_index(axis).astype(jnp.uint32)
  return dataclasses.replace(state, reservoir=sample._replace(seed=seed))


def check_apart(state: State, axis: str | tuple[str, ...]) -> None:
  """Raises `ValueError` for a state that is the same on all devices, as far as JAX can tell."""
  checks.axis(axis)
  if checks.reduced(state.count, axis):
    raise ValueError(
      f"the state is the same on all devices along {axis!r}, because it is reduced already or all "
      "devices have read the same queries: another sum would count the queries again."
    )
  if state.reservoir is not None and checks.reduced(state.reservoir.seed, axis):
    raise ValueError(
      "the samples of all devices were drawn alike, with one seed; start with "
      f"init(key, axis_name={axis!r})."
    )


def check_like(
  state: State, names: tuple[str, ...], groups: int | None, size: int | None, or_of_a_group: bool
) -> None:
  """Raises `ValueError` for a state of other measures, groups or size of the sample."""
  _check(state)
  sampled = None if state.reservoir is None else state.reservoir.priority.shape[-1]
  of_a_group = or_of_a_group and state.groups is None
  if (state.names, sampled) != (names, size) or not (state.groups == groups or of_a_group):
    raise ValueError(
      f"the state is of another evaluator: expected measures {names}, groups {groups}, reservoir "
      f"{size}, got {state.names}, {state.groups}, {sampled}."
    )


def check_without_leading(state: State) -> None:
  """Raises `ValueError` for a state with leading axes."""
  if leading(state):
    raise ValueError(
      f"the state has leading axes {leading(state)}, which a batch of queries does not have; call "
      "the function inside jax.vmap over these axes of the state and of the scores."
    )


def check_same_leading(a: State, b: State) -> None:
  """Raises `ValueError` for states with different leading axes."""
  if leading(a) != leading(b):
    raise ValueError(f"the states have different leading axes: {leading(a)} and {leading(b)}.")


def _check(state: State) -> None:
  if not isinstance(state, State):
    raise TypeError(
      f"state must be a State of init, update or merge, got {checks.told(state)}; write "
      "state = evaluator.update(state, ...)."
    )


def refuse_empty(state: State) -> None:
  """Raises `ValueError` if a query is empty, with the number of such queries by measure."""
  empty = host(state.empty).reshape(-1, len(state.names)).sum(0)
  if empty.any():
    counts = ", ".join(f"{n} for {name}" for name, n in zip(state.names, empty, strict=True))
    raise ValueError(
      f"some queries hold nothing that the measure seeks: {counts}; empty='skip' leaves them out."
    )


def warn_of_invalid(state: State) -> None:
  """Warns the caller of `Evaluator.compute` if a query is invalid, with the number of them."""
  invalid = int(np.sum(host(state.invalid)))
  if invalid:
    warnings.warn(
      f"Evaluator.compute: {counted(invalid, 'query', 'queries')} with a value that is not finite, "
      "or an invalid weight or group, left out of the means. jaxrank.check_values finds "
      "the former, and invalid='propagate' makes the mean NaN.",
      stacklevel=3,
    )


def host(x: Array) -> np.ndarray:
  """An array of a state, on the host."""
  if is_traced(x):
    raise TypeError(
      "the result is Python floats, which cannot be computed inside jit; return the state from the "
      "jitted function and call the method on it."
    )
  return np.asarray(x)


def _divided(x: np.ndarray, y: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
  quotient: np.ndarray = np.divide(x, y, out=np.full_like(x, otherwise), where=y > 0)
  return quotient
