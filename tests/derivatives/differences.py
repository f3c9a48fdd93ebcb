"""Derivatives of many functions against differences in float64, all in one program.

The inputs are a dictionary of parameters, of dictionaries of arrays by the function that reads
them; `SHARED` are those that all functions read. One direction moves a parameter of all functions
at once: each value answers to those of its own function alone.
"""

import jax
import jax.numpy as jnp
import numpy as np

SHARED = ""
STEPS = 5e-4 * 0.5 ** np.arange(5)
# Of the largest slope by a parameter among the directions, or of these if it is smaller.
DOUBLE, SINGLE, SECOND = 1e-7, 1e-4, 1e-6
# In float32 some roundings of values of size 1.
LEAST, LEAST_SINGLE = 1e-3, 1e-2
# In float32, the size of terms of a slope that cancel: of functions and parameters.
CANCELLING = {
  ("agreement.rbo_residual", "p"): 0.2,
  ("nerr", "max_label"): 0.1,
  ("precision", "temperature"): 0.1,
  ("spearman", "temperature"): 0.1,
}
# In float32 another noise is drawn than in float64.
NOT_IN_SINGLE = ("losses.perturbed",)
# Slopes below this are those of a constant, and the rounding of nodes.
NO_SLOPE = 1e-8


def extrapolated(slopes):
  """The limit of slopes `[steps, ...]` whose error is a power series in the step.

  All powers are eliminated, not the even ones alone: the slopes of `Laplace` have odd ones at ties.
  """
  for power in range(1, len(STEPS)):
    slopes = (2**power * slopes[1:] - slopes[:-1]) / (2**power - 1)
  return slopes[0]


def directions(inputs, count=3):
  """For each parameter some random directions `[D, ...]`, and the name of each."""
  draw = np.random.default_rng(7)
  names = [name for name in inputs for _ in range(count)]

  def of(name, leaf):
    moves = draw.normal(size=(len(names), *np.shape(leaf)[1:]))
    return moves * np.reshape([name == n for n in names], (-1, *[1] * (moves.ndim - 1)))

  return names, {
    name: {owner: of(name, leaf) for owner, leaf in leaves.items()}
    for name, leaves in inputs.items()
  }


def number(output):
  """A value as one number, with weights that no symmetry cancels."""
  values = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(output)])
  return values @ (1 + 0.5 * jnp.sin(1.0 + jnp.arange(values.size, dtype=values.dtype)))


def stack(functions):
  """All functions as one, of the dictionary of inputs: `[F]`."""

  def of(inputs):
    found = []
    for name, function in functions.items():
      own = {p: x for p, leaves in inputs.items() for o, x in leaves.items() if o in (SHARED, name)}
      found.append(number(function(own)))
    return jnp.stack(found)

  return of


def along(moves, jacobian):
  """The derivatives `[D, F]` along directions, of a Jacobian whose leaves are `[F, ...]`."""
  pairs = zip(jax.tree.leaves(moves), jax.tree.leaves(jacobian), strict=True)
  return sum(m.reshape(len(m), -1) @ j.reshape(len(j), -1).T for m, j in pairs)


def differences(of, x, move):
  """The derivatives along a direction, by extrapolated central differences."""
  points = jnp.asarray([*STEPS, *-STEPS])
  values = jax.vmap(lambda s: of(jax.tree.map(lambda leaf, way: leaf + s * way, x, move)))(points)
  above, below = jnp.split(values, 2)
  return extrapolated((above - below) / (2 * STEPS[:, None]))


def as_type(tree, dtype):
  """The tree with arrays of a type."""
  return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)


def slopes(functions, inputs):
  """Derivatives `[cases, D, F]` by `vjp`, differences, and `jvp` in float32; names of directions.

  `inputs` has a leading axis of cases. Each mode has a precision of its own, because both go
  through the same rules.
  """
  names, moves = directions(inputs)
  of = stack(functions)

  def wide(x, moves):
    expected = jax.vmap(lambda move: differences(of, x, move))(moves)
    return along(moves, jax.jacrev(of)(x)), expected

  def single(x, moves):
    return jax.vmap(lambda move: jax.jvp(of, (x,), (move,))[1])(moves)

  with jax.enable_x64(True):
    program = jax.jit(jax.vmap(wide, (0, None)))
    found = [np.asarray(x) for x in program(*as_type((inputs, moves), jnp.float64))]
  forwards = jax.jit(jax.vmap(single, (0, None)))(*as_type((inputs, moves), jnp.float32))
  return names, [*found, np.asarray(forwards)]


def second_faults(functions, inputs):
  """Functions whose second derivatives along directions are not the differences of the first.

  Forward over forward and forward over reverse, in float64.
  """
  names, moves = directions(inputs)
  of = stack(functions)

  def three_ways(x, move):
    def slope(x):
      return jax.jvp(of, (x,), (move,))[1]

    turned = jax.jvp(jax.jacrev(of), (x,), (move,))[1]
    by_reverse = along(jax.tree.map(lambda leaf: leaf[None], move), turned)[0]
    return differences(slope, x, move), jax.jvp(slope, (x,), (move,))[1], by_reverse

  with jax.enable_x64(True):
    arguments = as_type((inputs, moves), jnp.float64)
    found = jax.jit(jax.vmap(jax.vmap(three_ways, (None, 0)), (0, None)))(*arguments)
  expected, *found = map(np.asarray, found)
  size = np.maximum(np.abs(expected).max(1), LEAST)
  return [
    f"d2 {function} / d {parameter}2 by {way}: {values[:, d, f]}, expected {expected[:, d, f]}"
    for way, values in zip(("jvp of jvp", "jvp of vjp"), found, strict=True)
    for d, parameter in enumerate(names)
    for f, function in enumerate(functions)
    if not np.all(np.abs(values - expected)[:, d, f] <= SECOND * size[:, f])
  ]


def faults(functions, inputs):
  """What differs, as lines that name the function, the parameter, the way and the case.

  Also a list of the functions and the parameters whose slope is 0 in all cases.
  """
  names, (backwards, expected, forwards) = slopes(functions, inputs)
  lines, constant = [], []
  for parameter in inputs:
    chosen = [i for i, name in enumerate(names) if name == parameter]
    for f, name in enumerate(functions):
      if not {SHARED, name} & {*inputs[parameter]}:
        continue
      right = expected[:, chosen, f]
      if np.all(np.abs(right) < NO_SLOPE):
        constant.append((name, parameter))
      least_single = CANCELLING.get((name, parameter), LEAST_SINGLE)
      for way, found, right, tolerance, least in (
        ("vjp", backwards, expected, DOUBLE, LEAST),
        ("jvp in float32", forwards, backwards, SINGLE, least_single),
      ):
        if found is forwards and name in NOT_IN_SINGLE:
          continue
        found, right = found[:, chosen, f], right[:, chosen, f]
        size = np.maximum(np.abs(expected[:, chosen, f]).max(1, keepdims=True), least)
        right_here = np.all(np.abs(found - right) <= tolerance * size, axis=1)
        lines += [
          f"d {name} / d {parameter} by {way}, case {case}: {found[case]}, expected {right[case]}"
          for case in np.flatnonzero(~right_here)
        ]
  return lines, constant
