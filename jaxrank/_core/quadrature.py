"""Expectations under noise: integrals over the noisy score of one item, and noise itself.

Given that the noisy score of an item is `u`, every other item `j` is independently above it, with
probability `p_j(u)`, or below it. The integral over `u` is a sum over evenly spaced nodes, which
converges exponentially. A `while_loop` takes the nodes in blocks, together with the gradient if
the integral is one number, so that memory does not grow with the number of nodes. `integrands` has
the functions of nodes that `rankings.perturbed` integrates. docs/mathematics.md, "Quadrature over
noise", derives the spacing and the reach of the nodes.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core import sorting
from jaxrank._core.pair_sums import normal_tail
from jaxrank._core.platforms import by_platform

# The number of floats in the largest array of a block of nodes, and the most nodes in a block.
_BLOCK_SIZE = 2**21
_MOST_NODES = 64


class Noise(NamedTuple):
  """A distribution of noise around a score, in units of the temperature.

  Attributes:
    probabilities: Maps `u - z` to the probabilities of a noisy score above and below `u`, and its
      density at `u`.
    spacing: `spacing(n, wide)` is the distance of two nodes for `n` items; float64 is wide.
    reach: `reach(n, wide)` is how far nodes go below the lowest and above the highest score.
    gap: `gap(wide)` is the widest gap between scores that is kept; wider ones are shortened to it.
  """

  probabilities: Callable[[Array], tuple[Array, Array, Array]]
  spacing: Callable[[int, bool], float]
  reach: Callable[[int, bool], tuple[float, float]]
  gap: Callable[[bool], float]


class Integrand(NamedTuple):
  """A function of nodes, and its gradient.

  Attributes:
    value: `value(u, *args)`, summed over the nodes `u`.
    gradient: `gradient(cotangent, u, *args)`, one array per argument.
    on_accelerators: The same function in another order of work; None for the same order.
    single: Whether the value is one number, so that one loop computes it and its gradient.
    nodes: The number of nodes in a block on accelerators.
  """

  value: Callable[..., Array]
  gradient: Callable[..., tuple[Array, ...]]
  on_accelerators: "Integrand | None" = None
  single: bool = False
  nodes: int = 16

  def both(self, u: Array, *args: Array) -> tuple[Array, tuple[Array, ...]]:
    """The value and the gradient of a single number."""
    return self.value(u, *args), self.gradient(jnp.ones_like(u[..., 0]), u, *args)


# The ends and the arguments of an integral, and its slopes by the arguments if it is one number.
_Saved = tuple[tuple[Array, Array], tuple[Array, ...], tuple[Array, ...] | None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def integral(
  integrand: Integrand, spacing: float, width: int, ends: tuple[Array, Array], *args: Array
) -> Array:
  """The sum of `value` over nodes from one end to the other, times the spacing.

  Args:
    integrand: The function to integrate; its arguments may have any leading axes.
    spacing: The distance of two nodes.
    width: The number of floats per node and item, for the size of a block.
    ends: The first and the last node, `[...]`.
    *args: Arrays `[..., any]`; the first is `[..., n]`.

  Returns:
    An array of the shape of `value`.
  """
  total: Array = _sweep(_value, integrand, spacing, width, ends, args)
  return spacing * total


def _forward(
  integrand: Integrand, spacing: float, width: int, ends: tuple[Array, Array], *args: Array
) -> tuple[Array, _Saved]:
  if not integrand.single:
    return integral(integrand, spacing, width, ends, *args), (ends, args, None)
  total, slopes = _sweep(Integrand.both, integrand, spacing, width, ends, args)
  return spacing * total, (ends, args, slopes)


def _backward(
  integrand: Integrand, spacing: float, width: int, saved: _Saved, cotangent: Array
) -> tuple[tuple[Array, ...] | Array, ...]:
  ends, args, slopes = saved
  if slopes is None:
    slopes = _sweep(_slopes, integrand, spacing, width, ends, (*args, cotangent))
  else:
    slopes = tuple(cotangent[..., None] * x for x in slopes)
  none = tuple(jnp.zeros_like(x) for x in ends)
  return none, *(spacing * x for x in slopes)


def _value(integrand: Integrand, u: Array, *args: Array) -> Array:
  return integrand.value(u, *args)


def _slopes(integrand: Integrand, u: Array, *args: Array) -> tuple[Array, ...]:
  return integrand.gradient(args[-1], u, *args[:-1])


integral.defvjp(_forward, _backward)


def _sweep(
  part: Callable[..., Any],
  integrand: Integrand,
  spacing: float,
  width: int,
  ends: tuple[Array, Array],
  args: tuple[Array, ...],
) -> Any:
  """The sum of a part of an integrand, its value or slopes, over all nodes."""

  def run(integrand: Integrand, nodes: int, start: Array, stop: Array, *args: Array) -> Any:
    count = jnp.max(jnp.ceil((stop - start) / (spacing * nodes))).astype(jnp.int32)

    def block(index: Array) -> Any:
      step = (index * nodes).astype(start.dtype) + jnp.arange(nodes, dtype=start.dtype)
      step = step.reshape((1,) * start.ndim + (nodes,))
      return part(integrand, start[..., None] + spacing * step, *args)

    def body(state: tuple[Array, Any]) -> tuple[Array, Any]:
      index, total = state
      return index + 1, jax.tree.map(jnp.add, total, block(index))

    first = jnp.zeros_like(count)
    start_at = jax.tree.map(jnp.zeros_like, jax.eval_shape(block, first))
    return lax.while_loop(lambda state: state[0] < count, body, (first, start_at))[1]

  @sorting.batched
  def either(*args: Array) -> Any:
    nodes = min(max(_BLOCK_SIZE // (args[2].size * width), 1), _MOST_NODES)
    there = integrand.on_accelerators or integrand
    return by_platform(
      *args,
      cpu=functools.partial(run, integrand, nodes),
      default=functools.partial(run, there, min(nodes, there.nodes)),
    )

  return either(*ends, *args)


def _gumbel(v: Array) -> tuple[Array, Array, Array]:
  """Gumbel noise; the probability below is at least 1e-30, because gradients divide by it."""
  rate = jnp.exp(jnp.minimum(-v, math.log(69.0)))
  below = jnp.exp(-rate)
  return -jnp.expm1(-rate), below, rate * below


def _normal(v: Array) -> tuple[Array, Array, Array]:
  """Normal noise; both probabilities are at least about 1e-30, because gradients divide by one."""
  v = jnp.clip(v, -11.5, 11.5)
  return normal_tail(v), normal_tail(-v), jnp.exp(-jnp.square(v) / 2) / math.sqrt(2 * math.pi)


def _gumbel_reach(n: int, wide: bool) -> tuple[float, float]:
  return math.log(45.0 if wide else 25.0), math.log(n) + (34.0 if wide else 14.0)


def _normal_reach(n: int, wide: bool) -> tuple[float, float]:
  return 2 * (math.sqrt(2 * (math.log(n) + (34.0 if wide else 14.0))),)


def _normal_spacing(n: int, wide: bool) -> float:
  spacing = min(0.5, 0.5 / math.sqrt(2 * math.log(max(n, 2))))
  return spacing / 2 if wide else spacing


GUMBEL = Noise(
  _gumbel, lambda n, wide: 0.25 if wide else 0.5, _gumbel_reach, lambda wide: 45.0 if wide else 25.0
)
NORMAL = Noise(_normal, _normal_spacing, _normal_reach, lambda wide: 12.0)
