"""`Evaluator.add`, which takes values of queries instead of scores and labels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import floating
from jaxrank.streaming import batch, summary
from jaxrank.streaming.summary import State

if TYPE_CHECKING:
  from jaxrank.streaming.evaluator import Evaluator


def add(
  self: "Evaluator",
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
    self: The evaluator.
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
