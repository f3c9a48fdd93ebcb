"""Linear functions that JAX transposes as it is told to."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def transposable(ahead: Callable[..., Any], back: Callable[[Any], Any], *x: Any) -> Any:
  """`ahead(*x)` for a linear function, whose transpose is `back`.

  `ahead` may close over arrays, but they have no derivative: see `constant`.

  Args:
    ahead: A linear function of `x`.
    back: Maps a cotangent of the result to a tuple of those of `x`.
    *x: Arrays, or trees of them.
  """
  # JAX transposes and batches the solution of a linear equation as it is told to. The equation has
  # as many unknowns as numbers, so that each side has room for the arguments and for the result.
  # JAX transposes it only if each array of its right-hand side depends on what is transposed.
  nothing = sum(jnp.sum(0 * part) for part in jax.tree.leaves(x))
  x = jax.tree.map(lambda part: part + nothing, x)
  out = jax.tree.map(
    lambda like: jnp.broadcast_to(nothing, like.shape).astype(like.dtype), jax.eval_shape(ahead, *x)
  )

  def solve(_: Any, given: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, given[0]), ahead(*given[0])

  def solve_transposed(_: Any, given: Any) -> Any:
    return back(given[1]), jax.tree.map(jnp.zeros_like, given[1])

  return lax.custom_linear_solve(lambda y: y, (x, out), solve, solve_transposed)[1]


@jax.custom_jvp
def constant(x: Any) -> Any:
  """`x`, of which a derivative is refused rather than wrong."""
  return x


@constant.defjvp
def _constant_jvp(primals: Any, tangents: Any) -> Any:
  raise NotImplementedError(
    "jaxrank: third derivatives under Gumbel and Gaussian are not available, nor second ones of"
    " mean ranks, exposures and probabilities of ranks; take one derivative less, or rank with"
    " Laplace or Logistic."
  )
