"""The state of an evaluation, and its means and errors on the host, in float64."""

import dataclasses
import functools
import statistics
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core import checks
from jaxrank._core.types import pytree
from jaxrank.streaming import batch, moments, reservoir
from jaxrank.streaming.moments import Moments
from jaxrank.streaming.reservoir import Reservoir


@pytree("count", "empty", "invalid", "moments", "reservoir")
@dataclasses.dataclass(frozen=True)
class State:
  """What an `Evaluator` keeps of the queries it has seen: a pytree of a few small arrays.

  Attributes:
    names: Of the measures.
    count: `[measures]`, or `[groups, measures]`: how many queries are in the mean, uint32.
    empty: The same shape: how many had nothing to find, whatever was made of them.
    invalid: `[]`, or `[groups]`: how many had a value that is not finite, and are in no mean.
    moments: Of the values, compensated.
    reservoir: A sample of the queries, or None.
  """

  names: tuple[str, ...]
  count: Array
  empty: Array
  invalid: Array
  moments: Moments
  reservoir: Reservoir | None


@jax.jit
def merge(a: State, b: State) -> State:
  """The state of the queries of both."""
  sample = a.reservoir
  if sample is not None and b.reservoir is not None:
    sample = reservoir.merge(sample, b.reservoir)
  return State(
    a.names,
    a.count + b.count,
    a.empty + b.empty,
    a.invalid + b.invalid,
    moments.merge(a.moments, b.moments),
    sample,
  )


class Summary(NamedTuple):
  """Statistics `[measures]` in float64, of all groups together."""

  mean: np.ndarray
  variance: np.ndarray
  error: np.ndarray


@functools.partial(jax.jit, static_argnums=0)
def update(rules: batch.Rules, state: State, *arrays: Array) -> State:
  """The state of its queries and those of a batch; arrays as `batch.queries` takes them."""
  queries = batch.queries(rules, *arrays)
  counts = State(state.names, *batch.tally(queries, rules.groups), None)
  merged: State = merge(dataclasses.replace(state, reservoir=None), counts)
  sample = None if state.reservoir is None else reservoir.add(state.reservoir, queries)
  return dataclasses.replace(merged, reservoir=sample)


def summarize(state: State) -> Summary:
  """The mean, the variance and the standard error of the mean; 0, NaN and NaN of no query."""
  _check(state)
  weight, square, mean, spread = (
    np.add(*(host(x).astype(np.float64) for x in pair)).reshape(-1, len(state.names))
    for pair in state.moments
  )
  total, square = weight.sum(0), square.sum(0)
  overall = _divided(np.sum(weight * mean, 0), total, 0.0)
  spread = np.sum(spread + weight * (mean - overall) ** 2, 0)
  # Weights of one size make this spread / (n - 1), and square / total ** 2 is 1 / n.
  variance = _divided(spread, total - _divided(square, total), np.nan)
  return Summary(overall, variance, np.sqrt(variance * _divided(square, total**2)))


def quantiles(state: State, q: float) -> np.ndarray:
  """One quantile of each measure, `[measures]`, from the sample."""
  _check(state)
  if state.reservoir is None:
    raise ValueError("Quantiles need a sample of the queries: pass reservoir=1024 to Evaluator.")
  values, weight = host(state.reservoir.values), host(state.reservoir.weight)
  return np.array([reservoir.quantile(column, weight, q) for column in values.T])


def of_group(state: State, group: int) -> State:
  """The state of one group, which has no group axis."""
  part: State = jax.tree.map(lambda x: host(x)[group], dataclasses.replace(state, reservoir=None))
  sample = state.reservoir
  if sample is not None:
    own = host(sample.group) == group
    weight = jnp.asarray(np.where(own, host(sample.weight), np.float32(0)))
    sample = sample._replace(weight=weight)
  return dataclasses.replace(part, reservoir=sample)


def apart(axis: str | tuple[str, ...], state: State) -> State:
  """The same state on each device along a mesh axis, to go different ways from here."""
  state = lax.pcast(state, axis, to="varying")
  sample = state.reservoir
  if sample is None:
    return state
  seed = sample.seed + lax.axis_index(axis).astype(jnp.uint32)
  return dataclasses.replace(state, reservoir=sample._replace(seed=seed))


def check_apart(state: State, axis: str | tuple[str, ...]) -> None:
  """Raises `ValueError` for what must not be added up over devices, as far as JAX can tell."""
  checks.axis(axis)
  axes = checks.axes_of(axis)
  if not axes <= checks.varying(lax.axis_index(axis)):
    return  # Of a shard_map that was told not to check.
  if not axes <= checks.varying(state.count):
    raise ValueError(
      f"The state is the same on all devices along {axis!r}: it is reduced already, or has read "
      "the same queries everywhere, and another sum would count them again."
    )
  if state.reservoir is not None and not axes <= checks.varying(state.reservoir.seed):
    raise ValueError(
      f"The samples of all devices were drawn alike: start with init(key, axis_name={axis!r})."
    )


def check_like(
  state: State, names: tuple[str, ...], groups: int | None, size: int | None, or_of_a_group: bool
) -> None:
  """Raises `ValueError` for a state of other measures, groups or samples."""
  _check(state)
  shape = () if groups is None or (or_of_a_group and not state.invalid.shape) else (groups,)
  own = None if state.reservoir is None else state.reservoir.priority.shape[-1]
  if (state.names, state.invalid.shape, own) != (names, shape, size):
    raise ValueError(
      f"The state is of another evaluator: {state.names}, groups {state.invalid.shape}, "
      f"reservoir {own}; expected {names}, {shape}, {size}."
    )


def _check(state: State) -> None:
  if not isinstance(state, State):
    raise TypeError(f"Expected a State, from init, update or merge, got {type(state).__name__}.")


def refuse_empty(state: State) -> None:
  """Raises `ValueError` if any query had nothing to find, and says for which measure."""
  empty = host(state.empty).reshape(-1, len(state.names)).sum(0)
  if empty.any():
    counts = ", ".join(f"{n} for {name}" for name, n in zip(state.names, empty, strict=True))
    raise ValueError(f'Queries have nothing to find: {counts}. empty="skip" leaves them out.')


def normal_quantile(p: float) -> float:
  """The quantile of the standard normal distribution."""
  return statistics.NormalDist().inv_cdf(p)


def host(x: Array) -> np.ndarray:
  """An array of a state on the host."""
  if isinstance(x, jax.core.Tracer):
    raise TypeError(
      "compute and its kin give Python floats, so they cannot run inside jit: return the state "
      "from the jitted function and call them on it."
    )
  return np.asarray(x)


def _divided(x: np.ndarray, y: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
  quotient: np.ndarray = np.divide(x, y, out=np.full_like(x, otherwise), where=y > 0)
  return quotient
