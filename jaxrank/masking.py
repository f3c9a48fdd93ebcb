"""One query to many, and many values to one: `lift`, `in_blocks`, `aggregate`, safe arithmetic."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import _checks


def lift(kernel: Callable[..., Any], leading: int) -> Callable[..., Any]:
  """Maps a kernel of one query over `leading` axes of every argument."""
  for _ in range(leading):
    kernel = jax.vmap(kernel)
  return kernel


def in_blocks(function: Callable[..., Any], rows: int) -> Callable[..., Any]:
  """The same function of arrays `[q, ...]`, with about `rows` of the first axis at a time."""

  def blocked(*args):
    size = jax.tree.leaves(args)[0].shape[0]
    least = -(-size // max(rows, 1))
    if least <= 1:
      return function(*args)
    # Blocks that leave nothing over need no copy of the arguments.
    blocks = next((b for b in range(least, 2 * least) if size % b == 0), least)
    length = -(-size // blocks)

    def cut(x):
      if blocks * length > size:
        x = x[jnp.minimum(jnp.arange(blocks * length), size - 1)]
      return x.reshape(blocks, length, *x.shape[1:])

    values = lax.map(lambda block: function(*block), jax.tree.map(cut, args))
    return jax.tree.map(lambda x: x.reshape(blocks * length, *x.shape[2:])[:size], values)

  return blocked


def safe_divide(x: Array, y: Array) -> Array:
  """`x / y`, and 0 with gradient 0 where `y` is 0.

  >>> print(safe_divide(jnp.array([1.0, 1.0]), jnp.array([2.0, 0.0])))
  [0.5 0. ]
  """
  zero = y == 0
  return jnp.where(zero, 0, x / jnp.where(zero, 1, y))


def safe_sqrt(x: Array) -> Array:
  """A square root, and 0 with gradient 0 where `x` is not positive."""
  positive = x > 0
  return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def relevant(labels: Array, where: Array, rel: ArrayLike | None = None) -> Array:
  """`label > 0`, or `label >= rel`, of the valid items; unjudged items never are."""
  if rel is None:
    return where & (labels > 0)
  return where & (labels >= jnp.asarray(rel).astype(labels.dtype)) & (labels >= 0)


def has_relevant(
  labels: ArrayLike, *, where: ArrayLike | None = None, rel: ArrayLike | None = None
) -> Array:
  """Whether a query has a relevant item at all.

  >>> print(has_relevant(jnp.array([[0, 1], [0, -1]])))
  [ True False]

  Args:
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    rel: Labels from here on are relevant; None is any positive label.

  Returns:
    `[...]`, bool.

  Raises:
    TypeError: if `where` is not boolean.
    ValueError: if shapes differ.
  """
  labels = _checks.array("labels", labels)
  if labels.ndim == 0:
    raise ValueError("labels must have shape [..., candidates], got a scalar; pass a list.")
  return jnp.any(relevant(floating(labels), _checks.mask(where, labels), rel), axis=-1)


def aggregate(
  values: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  how: str | Callable[..., Array] = "mean",
) -> Array:
  """One number from the values of many queries.

  Metrics never reduce, so that this is the place to leave queries out and to weigh them. A NaN
  that is not left out makes the result NaN; a weight of 0 leaves out.

  >>> values = jnp.array([1.0, 0.5, 0.0])
  >>> found = jnp.array([True, True, False])
  >>> print(f"{aggregate(values):.2f} {aggregate(values, where=found):.2f}")
  0.50 0.75

  Args:
    values: `[...]`, one per query.
    where: `[...]`, False for queries to leave out.
    weights: `[...]`, for the mean only.
    how: "mean", "median" (of an even count, halfway between the middle two), "min", "max", or a
      function of all values, such as `jnp.std`; a mask is passed on to it as `where=`.

  Returns:
    A scalar, at least float32; 0.0 if nothing is left.

  Raises:
    TypeError: if `where` is not boolean.
    ValueError: if shapes differ, `how` is unknown, or `weights` do not go with it.
  """
  if not callable(how):
    _checks.choice("how", how, _REDUCTIONS)
  values = floating(_checks.array("values", values))
  kept = _checks.mask(where, values)
  if weights is not None:
    if how != "mean":
      raise ValueError(f"weights go with how='mean' only, got how={how!r}; drop the weights.")
    weights = floating(_checks.array("weights", weights)).astype(values.dtype)
    _checks.same_shape("weights", weights, "values", values)
    return _mean(values, kept & (weights != 0), weights)
  if not callable(how):
    return _REDUCTIONS[how](values, kept)
  if where is None and values.size:
    return how(values)
  some = jnp.any(kept)
  reduced = how(jnp.where(kept, values, 0), where=kept | ~some)
  return jnp.where(some, reduced, jnp.zeros_like(reduced))


def gathered(*arrays: Array) -> tuple[Array, ...]:
  """Arrays made whole on every device of their mesh, to be sorted along an axis that was spread."""
  mesh = jax.typeof(arrays[0]).sharding.mesh
  if mesh.empty:
    return arrays
  whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  return tuple(jax.sharding.reshard(x, whole) for x in arrays)


def floating(x: Array) -> Array:
  """`x` as floats of 32 bits at least."""
  wide = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize >= 4
  return x if wide else x.astype(jnp.float32)


def _mean(values: Array, kept: Array, weights: Array | None = None) -> Array:
  weights = jnp.ones_like(values) if weights is None else weights
  total = jnp.sum(jnp.where(kept, weights * jnp.where(kept, values, 0), 0))
  return safe_divide(total, jnp.sum(jnp.where(kept, weights, 0)))


def _median(values: Array, kept: Array) -> Array:
  if not values.size:
    return jnp.sum(values)
  values, kept = gathered(values, kept)
  # Never all NaN: that has no median, and no gradient to multiply by 0.
  shown = jnp.where(kept, values, jnp.where(jnp.any(kept), jnp.nan, 0))
  median = jnp.nanquantile(shown, 0.5, method="midpoint")
  return jnp.where(jnp.any(kept & jnp.isnan(values)), jnp.nan, median)


def _min(values: Array, kept: Array) -> Array:
  return jnp.where(jnp.any(kept), jnp.min(values, where=kept, initial=jnp.inf), 0)


def _max(values: Array, kept: Array) -> Array:
  return jnp.where(jnp.any(kept), jnp.max(values, where=kept, initial=-jnp.inf), 0)


_REDUCTIONS = {"mean": _mean, "median": _median, "min": _min, "max": _max}
