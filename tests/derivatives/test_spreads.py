"""Values and gradients at scores of any spread: finite, those of float64, and 0 under the mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.derivatives.differences import LEAST_SINGLE, NOT_IN_SINGLE, SHARED, SINGLE, number
from tests.derivatives.subjects import WHERE, subject, together
from tests.derivatives.test_witnesses import GROUPS
from tests.helpers.suites import thorough

SPREADS = np.array([1.0, 30.0, 100.0, 1e4, 1e30], np.float32)
# Temperatures below 1e-19, the root of the smallest float32, act as that number.
SMALL = 1 / np.minimum(SPREADS, 1e15, dtype=np.float32)
# What float32 holds without a factor beside it.
LARGEST = 1e37


def points(inputs):
  """The first case of all inputs at each spread of the scores, and at each temperature."""

  def of(parameter, x):
    x = np.asarray(x[0], np.float32)
    wide = narrow = np.broadcast_to(x, (len(SPREADS), *x.shape))
    if parameter == "scores":
      wide = SPREADS.reshape(-1, *[1] * x.ndim) * x
    if parameter == "temperature":
      wide, narrow = np.ones_like(SPREADS), SMALL
    return np.concatenate([wide, narrow])

  return {
    parameter: {owner: of(parameter, x) for owner, x in owners.items()}
    for parameter, owners in inputs.items()
  }


def values_and_gradients(functions):
  """The values of functions by name, and the gradients of their weighed sums by the scores."""

  def of(inputs):
    found = {}
    for name, function in functions.items():
      own = {
        parameter: x
        for parameter, owners in inputs.items()
        for owner, x in owners.items()
        if owner in (SHARED, name)
      }

      def weighed(scores, own=own, function=function):
        value = function(own | {"scores": scores})
        return number(value), value

      slope, value = jax.grad(weighed, has_aux=True)(own["scores"])
      found[name] = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(value)]), slope
    return found

  return of


def wrong(single, double, temperatures):
  """The spreads, by number, at which a value or a gradient is wrong."""
  (value, slope), (right, right_slope) = single, double
  finite = np.isfinite(value).all(1) & np.isfinite(slope).all((1, 2))
  held = np.abs(right).max(1) < LARGEST
  size = np.maximum(np.abs(right).max(1), 0.1)
  near = np.abs(value - right).max(1) <= 1e-5 * size
  # A slope is that by the score in temperatures, over the temperature.
  size = np.maximum(np.abs(right_slope).max((1, 2)), LEAST_SINGLE / temperatures)
  near &= np.abs(slope - right_slope).max((1, 2)) <= SINGLE * size
  return np.flatnonzero(~finite | held & ~near | (slope[:, ~WHERE] != 0).any(1))


# Operators have a test of scores far apart beside their definitions.
@thorough
@pytest.mark.parametrize(
  "group",
  [
    group
    for group in GROUPS
    if group.startswith(("losses", "ranked", "metrics")) and "Exact" not in group
  ],
)
def test_scores_of_any_spread(group):
  found = {
    name: subject(public, ranking, **fixed)
    for name, (public, ranking, fixed) in GROUPS[group].items()
    if public not in NOT_IN_SINGLE
  }
  functions, inputs = together({n: x for n, x in found.items() if "scores" in x[1]})
  inputs = points(inputs)
  program = jax.vmap(values_and_gradients(functions))
  single = jax.jit(program)(inputs)
  with jax.enable_x64(True):
    wide = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), inputs)
    double = jax.jit(program)(wide)
  single, double = jax.tree.map(np.asarray, (single, double))
  lines = []
  for name in functions:
    temperature = inputs.get("temperature", {})
    temperature = temperature.get(name, temperature.get(SHARED, np.float32(1)))
    lines += [
      f"{name}, spread {spread}: {[x[spread] for x in single[name]]}, expected "
      f"{[x[spread] for x in double[name]]}"
      for spread in wrong(single[name], double[name], temperature)
    ]
  assert not lines, "\n".join(lines)
