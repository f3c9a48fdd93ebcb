"""Internals of `RankMetric`: shapes, dtypes, tasks that are left out, and invalid input."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank.ranks._statistic import Formula, Tasks
from jaxrank.ranks.target import floating


def broadcastable(**arguments: ArrayLike | None) -> list[Array]:
  """Converts arguments to arrays whose shapes broadcast; None becomes 1."""
  arrays = [checks.array(name, np.float32(1) if x is None else x) for name, x in arguments.items()]
  shapes = {name: x.shape for name, x in zip(arguments, arrays, strict=True)}
  got = ", ".join(f"{name} {list(shapes[name])}" for name, x in arguments.items() if x is not None)
  if arguments["query_weights"] is not None and not shapes["query_weights"]:
    raise ValueError(
      f"query_weights must have shape [..., n], got {checks.told(arguments['query_weights'])}; a "
      "cut-off is k=, as in hits_at_k(ranks, k=5)."
    )
  try:
    shape = np.broadcast_shapes((1,), *shapes.values())
  except ValueError:
    raise ValueError(
      f"the shapes of the arguments must broadcast, got {got}; pass [..., n] each."
    ) from None
  if shapes.get("ranks", shape) != shape:
    raise ValueError(
      f"ranks must have the shape that all arguments broadcast to, {list(shape)}, got {got}; pass "
      "ranks [..., n], [1] for a single one."
    )
  return arrays


def as_floats(*arrays: Array) -> list[Array]:
  """The arrays as floats of one dtype and one shape `[..., n]`."""
  floats = [floating(x) for x in arrays]
  wide = any(x.dtype == jnp.float64 for x in floats)
  shape = jnp.broadcast_shapes((1,), *(x.shape for x in floats))
  dtype = jnp.float64 if wide else jnp.float32
  if shape[-1] == 0:
    # A list without tasks becomes a list of one task of weight 0.
    return [jnp.zeros((*shape[:-1], 1), dtype) for _ in floats]
  alike = [jnp.broadcast_to(x.astype(dtype), shape) for x in floats]
  # Zeros that are laid out over devices as any of the arrays is, so that all are.
  nothing = functools.reduce(operator.add, map(jnp.zeros_like, alike))
  return [x + nothing for x in alike]


def draw(key: Array, candidates: Array) -> Array:
  """Random ranks, int32, each uniform on 1 to its number of candidates."""
  return jax.random.randint(key, candidates.shape, 1, candidates.astype(jnp.int32) + 1)


def apply(
  formula: Formula,
  k: int | Array | None,
  best: Array,
  worst: Array,
  candidates: Array,
  weights: Array,
) -> Array:
  """Applies a formula over the last axis.

  Tasks of weight 0 and tasks without candidates are left out. The value of a list with an invalid
  task is NaN.
  """

  def of_list(best: Array, worst: Array, candidates: Array, weights: Array) -> Array:
    kept = (weights != 0) & (candidates != 0)
    valid = kept & (weights > 0) & (candidates >= 1) & (best >= 1) & (worst >= best)
    valid &= candidates < jnp.inf
    weights = jnp.where(valid, weights, 0)
    cutoff = None if k is None else jnp.asarray(k).astype(best.dtype)
    best, worst, candidates = (jnp.where(valid, x, 1) for x in (best, worst, candidates))
    tasks = Tasks(best, worst, candidates, weights, cutoff)
    value = jnp.where(jnp.any(valid), formula(tasks), 0)
    return jnp.where(jnp.any(kept & ~valid), jnp.nan, value)

  values: Array = batching.over_queries(of_list, best.ndim - 1)(best, worst, candidates, weights)
  return values
