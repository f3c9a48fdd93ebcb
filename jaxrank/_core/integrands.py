"""Integrands of `quadrature`: products over all items but one, counts of items, weights ahead.

docs/mathematics.md, "Quadrature over noise", derives them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrank._core.arithmetic import plain_sum
from jaxrank._core.quadrature import Integrand, Noise, distances, probabilities
from jaxrank._core.reduced_integrands import reduced_counts, reduced_products


def _given(whole: Integrand, stops: bool, marked: bool) -> Integrand:
  """An integrand without its argument `stop`, which is 0, unless `stops`.

  If `marked`, it is `(1 + d/de)` of the integrand with `stop = -e mark` at `e = 0`, and `mark` is
  its last argument: docs/mathematics.md, "Quadrature over noise".
  """

  def along(function: Callable[..., Any], u: Array, z: Array, c: Array, *args: Array) -> Any:
    """The function without marks, and with them."""
    stop, *rest = args if stops else (jnp.zeros_like(z), *args)
    if not marked:
      found = function(u, z, c, stop, *rest)
      return found, found
    *rest, mark = rest
    without, more = jax.jvp(lambda stop: function(u, z, c, stop, *rest), (stop,), (-mark,))
    return without, jax.tree.map(jnp.add, without, more)

  def value(u: Array, *args: Array) -> Array:
    total: Array = along(whole.value, u, *args)[1]
    return total

  def gradient(u: Array, *args: Array) -> tuple[Array, ...]:
    without, (by_z, by_c, by_stop, *slopes) = along(whole.slopes, u, *args)
    first = (by_z, by_c, by_stop) if stops else (by_z, by_c)
    return *first, *slopes, *((-without[2],) if marked else ())

  return Integrand(value, gradient)


# The product over all items, and the sum of products over all items but one.
_Products = tuple[Array, Array]


@functools.cache
def products(noise: Noise, *, stops: bool = False, marked: bool = False) -> Integrand:
  """`sum_i c_i density_i sum_m w_m prod_j (1 - p_j + p_j (1 - stop_j) t_m)` over `j` not `i`.

  The arguments are `z` and `c`, `[..., n]`, `stop`, `[..., n]`, if `stops`, `w` and `1 - t`,
  `[..., terms]`, optionally a mask `[..., n]` of the items `j` that count, and, if `marked`, marks
  `[..., n]`: each `i` then counts 1 plus the marks of the items ahead. The code works with the
  complements of the factors, and of the product of each group of items, which have full relative
  precision: docs/mathematics.md, "Quadrature over noise".
  """

  def sums(above: Array, hit: Array, stop: Array, lost: Array) -> _Products:
    """The product over all items, and the sum of `hit_i` times the product over the others."""

    def step(state: _Products, item: tuple[Array, ...]) -> tuple[_Products, None]:
      ended, one = state
      above, hit, stop = item
      stopped = above[..., None, :] * (lost + (1 - lost) * stop)[..., None]
      left = 1 - ended
      return (ended + left * stopped, one - one * stopped + hit[..., None, :] * left), None

    def by_group(state: _Products, group: tuple[Array, ...]) -> tuple[_Products, None]:
      (ended, hit), _ = lax.scan(step, (nothing, nothing), group)
      none, one = state
      return (none - none * ended, one + (hit * none - one * ended)), None

    nothing = jnp.zeros_like(lost[..., None] * above[..., :1, :])
    groups = _in_groups(*_by_item(above, hit, stop[..., None]))
    (none, one), _ = lax.scan(by_group, (1 + nothing, nothing), groups)
    return none, one

  def value(
    u: Array, z: Array, c: Array, stop: Array, w: Array, lost: Array, *among: Array
  ) -> Array:
    above, _, density = probabilities(noise, distances(u, z), *among)
    _, one = sums(above, c[..., None] * density, stop, lost)
    return jnp.sum(w[..., None] * one, axis=(-2, -1))

  def gradient(
    u: Array, z: Array, c: Array, stop: Array, w: Array, lost: Array, *among: Array
  ) -> tuple[Array, ...]:
    v = distances(u, z)
    (above, below, density), back = jax.vjp(lambda v: probabilities(noise, v, *among), v)
    hit = c[..., None] * density
    none, one = sums(above, hit, stop, lost)

    def step(by_lost: Array, item: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
      above, hit, stop, below = item
      ended, passed = (x[..., None] for x in (lost + (1 - lost) * stop, (1 - lost) * (1 - stop)))
      without = 1 / (below[..., None, :] + above[..., None, :] * passed)
      left = without * none
      by_hit = w[..., None] * left
      others = w[..., None] * without * (hit[..., None, :] * left - one)
      by_ended = plain_sum(above[..., None, :] * others, -1)
      by_above = plain_sum(ended * others, -2)
      slopes = by_above, plain_sum(by_hit, -2), jnp.sum((1 - lost) * by_ended, axis=-1)
      return by_lost + (1 - stop) * by_ended, slopes

    items = _by_item(above, hit, stop[..., None], below)
    by_lost, slopes = lax.scan(step, jnp.zeros_like(lost), items)
    by_above, by_hit, by_stop = (jnp.moveaxis(x, 0, z.ndim - 1) for x in slopes)
    (by_v,) = back((by_above, jnp.zeros_like(below), c[..., None] * by_hit))
    by_z, by_c = -plain_sum(by_v, -1), plain_sum(by_hit * density, -1)
    return by_z, by_c, by_stop, jnp.sum(one, axis=-1), by_lost, *map(jnp.zeros_like, among)

  here = _given(Integrand(value, gradient), stops, marked)
  return here._replace(on_accelerators=reduced_products(noise, stops, marked))


def _in_groups(*rows: Array) -> tuple[Array, ...]:
  """Reshapes `[n, ...]` to about sqrt(n) groups, `[groups, items, ...]`, with zeros at the end."""

  def grouped(x: Array) -> Array:
    groups = math.isqrt(x.shape[0])
    x = jnp.pad(x, ((0, -x.shape[0] % groups), *((0, 0),) * (x.ndim - 1)))
    return x.reshape(groups, -1, *x.shape[1:])

  return tuple(map(grouped, rows))


def _by_item(*rows: Array) -> tuple[Array, ...]:
  """Moves the axis of items to the front: `[..., n, any]` to `[n, ..., any]`."""
  return tuple(jnp.moveaxis(x, -2, 0) for x in rows)


@functools.cache
def counts(noise: Noise, *, stops: bool = False, marked: bool = False) -> Integrand:
  """`sum_i c_i density_i sum_r d_r P(r - 1 others are above, and all of them are passed)`.

  The arguments are those of `products`, with `d`, `[..., k]`, for `w` and `1 - t`. Items enter one
  by one into the polynomial `prod_j (1 - p_j + p_j (1 - stop_j) y)` and the sum of such products
  over all items but one: docs/mathematics.md, "Quadrature over noise".
  """

  def value(u: Array, z: Array, c: Array, stop: Array, d: Array, *among: Array) -> Array:
    above, _, density = probabilities(noise, distances(u, z), *among)
    hit = c[..., None] * density

    def step(
      before: _Products, change: _Products, item: tuple[Array, ...]
    ) -> tuple[_Products, None]:
      none, one = jax.tree.map(jnp.add, before, change)
      above, hit, passed = (x[..., None] for x in item)
      added = above * (passed * _raised(one) - one) + hit * none
      return (change[0] + above * (passed * _raised(none) - none), change[1] + added), None

    def by_group(state: _Products, group: tuple[Array, ...]) -> tuple[_Products, None]:
      # Each group starts from 0: small changes of a large number would be rounded alike.
      nothing = jax.tree.map(jnp.zeros_like, state)
      change, _ = lax.scan(functools.partial(step, state), nothing, group)
      return jax.tree.map(jnp.add, state, change), None

    first = jnp.zeros_like(d[..., None, :]).at[..., 0].set(1)
    start = jnp.ones_like(above[..., 0, :, None]) * first
    groups = _in_groups(*_by_item(above, hit, 1 - stop[..., None]))
    (_, one), _ = lax.scan(by_group, (start, jnp.zeros_like(start)), groups)
    return jnp.sum(one * d[..., None, :], axis=(-2, -1))

  def gradient(u: Array, *args: Array) -> tuple[Array, ...]:
    total, back = jax.vjp(functools.partial(value, u), *args)
    slopes: tuple[Array, ...] = back(jnp.ones_like(total))
    return slopes

  here = _given(Integrand(value, gradient), stops, marked)
  return here._replace(on_accelerators=reduced_counts(noise, stops, marked))


def _raised(polynomial: Array) -> Array:
  """The polynomial times `y`, up to the same degree."""
  return jnp.concatenate([jnp.zeros_like(polynomial[..., :1]), polynomial[..., :-1]], axis=-1)


@functools.cache
def weight_ahead(noise: Noise) -> Integrand:
  """`density_i sum_j p_j w_j` over `j` not `i`, for each item; the arguments are `z` and `w`."""

  def value(u: Array, z: Array, w: Array) -> Array:
    above, _, density = probabilities(noise, distances(u, z))
    above = w[..., None] * above
    ahead = jnp.sum(above, axis=-2, keepdims=True) - above
    return jnp.sum(density * ahead, axis=-1)

  return Integrand(value)


@functools.cache
def of_each_item(total: Integrand) -> Integrand:
  """The terms of a sum over items, `[..., n]`: what each adds to it for `c_i = 1`.

  The arguments are those of `products` or `counts` without `c`. The sum is linear in `c`, so that
  its slopes by `c` are the terms, and the sum of the terms times weights is that for these `c`.
  """

  def value(u: Array, z: Array, *args: Array) -> Array:
    return total.slopes(u, z, jnp.zeros_like(z), *args)[1]

  def pull(u: Array, z: Array, *rest: Array) -> tuple[Array, ...]:
    *args, weights = rest
    by_z, _, *others = total.slopes(u, z, weights, *args)
    return by_z, *others

  there = total.on_accelerators and of_each_item(total.on_accelerators)
  return Integrand(value, None, there, total.nodes, pull)
