"""`holm` and `benjamini_hochberg`: p-values adjusted for the number of tests."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import checks, sorting
from jaxrank._core.arithmetic import floating
from jaxrank._core.batching import over_queries, replicated


def holm(p_values: ArrayLike) -> Array:
  """p-values adjusted for the family-wise error rate, by Holm's method.

  With the `m` p-values in ascending order, the adjusted one is `max_{j <= i} (m - j + 1) p_j`, at
  most 1. Rejecting those of at most `a` makes a false rejection with probability `a` at most.

  >>> print(holm(jnp.array([0.01, 0.04, 0.03])))
  [0.03 0.06 0.06]

  Args:
    p_values: `[..., m]`, each list a family of tests. NaN stays NaN and counts in `m`.

  Returns:
    `[..., m]`, in the order given.

  Raises:
    ValueError: if `p_values` is a scalar.
    TypeError: if it is not numeric.

  References:
    Holm, `A simple sequentially rejective multiple test procedure
    <https://www.jstor.org/stable/4615733>`_, 1979.
  """
  return _adjusted("stats.holm", p_values, _holm)


def _holm(p: Array, left: Array, _: Array) -> Array:
  return lax.cummax(p * left)


def benjamini_hochberg(p_values: ArrayLike) -> Array:
  """p-values adjusted for the false discovery rate, by the method of Benjamini and Hochberg.

  With the `m` p-values in ascending order, the adjusted one is `min_{j >= i} p_j m / j`. Of the
  tests with at most `a`, a share of `a` at most are expected to be false, if tests are independent.

  >>> print(benjamini_hochberg(jnp.array([0.01, 0.04, 0.03])))
  [0.03 0.04 0.04]

  Args:
    p_values: `[..., m]`, each list a family of tests. NaN stays NaN and counts in `m`.

  Returns:
    `[..., m]`, in the order given.

  Raises:
    ValueError: if `p_values` is a scalar.
    TypeError: if it is not numeric.

  References:
    Benjamini and Hochberg, `Controlling the false discovery rate
    <https://doi.org/10.1111/j.2517-6161.1995.tb02031.x>`_, 1995.
  """
  return _adjusted("stats.benjamini_hochberg", p_values, _benjamini_hochberg)


def _benjamini_hochberg(p: Array, _: Array, rank: Array) -> Array:
  return lax.cummin(p * (p.shape[-1] / rank), reverse=True)


def _adjusted(
  name: str, p_values: ArrayLike, rule: Callable[[Array, Array, Array], Array]
) -> Array:
  """Applies a rule of the ascending p-values, the number of tests left and the rank, from 1."""
  with checks.named(name):
    (p,) = replicated(floating(checks.array("p_values", p_values)))
    if p.ndim == 0:
      raise ValueError("p_values must have shape [..., tests], got a scalar; pass a list.")
  if not p.size:
    return p

  adjusted: Array = _adjust(rule, p)
  return adjusted


@functools.partial(jax.jit, static_argnums=0)
def _adjust(rule: Callable[[Array, Array, Array], Array], p: Array) -> Array:
  def of_family(p: Array) -> Array:
    unknown = jnp.isnan(p)
    _, item = sorting.order(sorting.keys(-jnp.where(unknown, 1, p), jnp.ones_like(unknown)))
    before = sorting.slots(p).astype(p.dtype)
    ascending = sorting.take(jnp.where(unknown, 1, p), item)
    adjusted = rule(ascending, p.shape[-1] - before, 1 + before)
    return jnp.where(unknown, jnp.nan, sorting.scatter(jnp.minimum(adjusted, 1), item))

  adjusted: Array = over_queries(of_family, p.ndim - 1)(p)
  return adjusted
