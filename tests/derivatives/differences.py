"""Central differences in float64, extrapolated, for functions of dictionaries of arrays.

All differences of a function, over its coordinates, its steps and its cases, are one program.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

STEPS = 2e-3 * 0.5 ** np.arange(5)


def extrapolated(slopes):
  """The limit of slopes `[steps, ...]` whose error is a power series in the step.

  All powers are eliminated, not the even ones alone: the slopes of `Laplace` have odd ones at ties.
  """
  for power in range(1, len(STEPS)):
    slopes = (2**power * slopes[1:] - slopes[:-1]) / (2**power - 1)
  return slopes[0]


def differences(of, x):
  """The derivatives `[coordinates, ...]` of `of` by a vector."""
  moves = STEPS[:, None, None] * np.eye(x.size)
  x = x[None, None]
  ends = jax.vmap(jax.vmap(of))(jnp.stack([x + moves, x - moves]).reshape(-1, x.size, x.size))
  above, below = ends.reshape(2, len(STEPS), *ends.shape[1:])
  shape = (-1, *[1] * (above.ndim - 1))
  return extrapolated((above - below) / (2 * STEPS.reshape(shape)))


def scalar(of):
  """A function whose values are summed with weights that no symmetry cancels."""

  def summed(parameters):
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(of(parameters))]
    values = jnp.concatenate(leaves)
    return values @ (1 + 0.5 * jnp.sin(1.0 + jnp.arange(values.size, dtype=values.dtype)))

  return summed


def of_vector(of, like):
  """The same function of a vector of all its parameters."""
  back = ravel_pytree(like)[1]
  return lambda x: scalar(of)(back(x.astype(x.dtype)))


def slopes(of, cases, order=1):
  """By differences, by `jvp` and by `vjp`: arrays `[cases, ...]` of float64; float32 gradients.

  `cases` is a dictionary of float64 arrays with a leading axis of cases.
  """
  first = jax.tree.map(lambda leaf: leaf[0], cases)
  with jax.enable_x64(True):
    wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), first)
    points = jax.vmap(lambda case: ravel_pytree(case)[0])(
      jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), cases)
    )
    function = of_vector(of, wide)
    base = function if order == 1 else jax.grad(function)

    @jax.jit
    @jax.vmap
    def program(x):
      return differences(base, x), jax.jacfwd(base)(x).T, jax.jacrev(base)(x).T

    expected, forwards, backwards = map(np.asarray, program(points))
  if order == 2:
    return expected, forwards, backwards, None
  single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), first)
  narrow = jax.jit(jax.vmap(jax.grad(of_vector(of, single))))(np.asarray(points, np.float32))
  return expected, forwards, backwards, np.asarray(narrow)


@functools.cache
def places(shapes):
  """The slices of a flat vector by the name of the parameter."""
  found, start = {}, 0
  for name, shape in sorted(shapes):
    size = int(np.prod(shape, dtype=int))
    found[name] = slice(start, start + size)
    start += size
  return found


def faults(of, cases, order=1):
  """What differs, as lines that name the parameter, the way, the error and the scale."""
  expected, forwards, backwards, narrow = slopes(of, cases, order)
  lines = []
  ways = [("jvp", forwards, 1e-7), ("vjp", backwards, 1e-7)]
  if narrow is not None:
    ways.append(("float32", narrow, 1e-4))
  shapes = tuple((name, np.shape(value)[1:]) for name, value in cases.items())
  for name, place in places(shapes).items():
    for way, found, tolerance in ways:
      for case, (right, given) in enumerate(zip(expected[:, place], found[:, place], strict=True)):
        scale = max(np.abs(right).max(initial=0.0), 1e-3)
        error = np.abs(given - right).max(initial=0.0)
        if not error <= tolerance * scale:
          worst = np.unravel_index(np.argmax(np.abs(given - right)), right.shape)
          lines.append(
            f"d/d{name} by {way}, case {case}, at {worst}: {given[worst]:.9g}, by differences "
            f"{right[worst]:.9g} (largest {scale:.3g})"
          )
  return lines
