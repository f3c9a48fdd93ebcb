"""Integrands of `quadrature`: products over all items but one, counts of items, weights ahead.

docs/mathematics.md, "Quadrature over noise", derives them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.arithmetic import log_of_rest, plain_sum
from jaxrank._core.quadrature import Integrand, Noise


def _marked(plain: Integrand) -> Integrand:
  """`(1 + d/de)` of an integrand with `stop = -e mark` at `e = 0`; `mark` is one more argument.

  docs/mathematics.md, "Quadrature over noise".
  """

  def along(function: Callable[..., Any], z: Array, c: Array, stop: Array, *args: Array) -> Any:
    *rest, mark = args
    both = jax.jvp(lambda stop: function(z, c, stop, *rest), (stop,), (-mark,))
    return jax.tree.map(jnp.add, *both)

  def value(u: Array, *args: Array) -> Array:
    total: Array = along(functools.partial(plain.value, u), *args)
    return total

  def gradient(u: Array, *args: Array) -> tuple[Array, ...]:
    slopes = along(functools.partial(plain.slopes, u), *args)
    return *slopes, jnp.zeros_like(args[-1])

  there = plain.on_accelerators and _marked(plain.on_accelerators)
  # Derivatives of sums that are read several times are stored.
  return Integrand(value, gradient, there, nodes=max(1, plain.nodes // 4))


def _distances(u: Array, z: Array) -> Array:
  """How far each node is above each item, `[..., n, nodes]`."""
  return u[..., None, :] - z[..., :, None]


def _probabilities(noise: Noise, v: Array, *among: Array) -> tuple[Array, Array, Array]:
  """The probabilities and densities of every item at every node, `[..., n, nodes]`.

  With a mask `among`, `[..., n]` of 0 and 1, the other items are never above a node.
  """
  above, below, density = noise.probabilities(v)
  if among:
    counts = among[0][..., None]
    above, below = above * counts, jnp.where(counts > 0, below, 1)
  return above, below, density


# The product over all items, and the sum of products over all items but one.
_Products = tuple[Array, Array]


@functools.cache
def products(noise: Noise, marked: bool = False) -> Integrand:
  """`sum_i c_i density_i sum_m w_m prod_j (1 - p_j + p_j (1 - stop_j) t_m)` over `j` not `i`.

  The arguments are `z`, `c` and `stop`, `[..., n]`, `w` and `1 - t`, `[..., terms]`, and optionally
  a mask `[..., n]` of the items `j` that count. The code works with the complements of the factors,
  and of the product of each group of items, which have full relative precision:
  docs/mathematics.md, "Quadrature over noise".
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
    above, _, density = _probabilities(noise, _distances(u, z), *among)
    _, one = sums(above, c[..., None] * density, stop, lost)
    return jnp.sum(w[..., None] * one, axis=(-2, -1))

  def gradient(
    u: Array, z: Array, c: Array, stop: Array, w: Array, lost: Array, *among: Array
  ) -> tuple[Array, ...]:
    v = _distances(u, z)
    (above, below, density), back = jax.vjp(lambda v: _probabilities(noise, v, *among), v)
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

  plain = Integrand(value, gradient, _reduced_products(noise))
  return _marked(plain) if marked else plain


# Of longer lists XLA stores what several sums over the items have in common.
_ROW = 1024


def _reduced_products(noise: Noise) -> Integrand:
  """`products` by sums over all items at once, `[..., nodes, terms, n]`, of which none is stored.

  Values, and slopes for long lists, compute the logarithms of the factors anew for each sum.
  docs/mathematics.md, "Quadrature over noise".
  """

  def chances(u: Array, z: Array, *among: Array) -> tuple[Array, Array, Array]:
    across = (jnp.swapaxes(x, -1, -2) for x in _probabilities(noise, _distances(u, z), *among))
    above, below, density = across
    return above, below, density

  def factors(above: Array, below: Array, stop: Array, lost: Array) -> tuple[Array, Array]:
    """The factor of each item, and its logarithm."""
    factor = below + above * (1 - lost) * (1 - stop)
    return factor, log_of_rest(above * (lost + (1 - lost) * stop), factor)

  def sums(
    above: Array, below: Array, hit: Array, stop: Array, lost: Array, *, anew: bool
  ) -> tuple[Array, Array]:
    """The logarithm of the product, and the sum of hits times the products without each item."""
    none = jnp.sum(factors(above, below, stop, lost)[1], axis=-1, keepdims=True)
    if anew:
      none, above = lax.optimization_barrier((none, above))
    left = jnp.exp(none - factors(above, below, stop, lost)[1])
    return none, jnp.sum(hit * left, axis=-1, keepdims=True)

  def arguments(stop: Array, lost: Array, *by_node: Array) -> tuple[Array, ...]:
    """The arguments of `sums`, `[..., nodes, terms, n]`."""
    above, below, hit = (x[..., None, :].astype(lost.dtype) for x in by_node)
    return above, below, hit, stop[..., None, None, :].astype(lost.dtype), lost[..., None, :, None]

  def value(
    u: Array, z: Array, c: Array, stop: Array, w: Array, lost: Array, *among: Array
  ) -> Array:
    above, below, density = chances(u, z, *among)
    chosen = arguments(stop, lost, above, below, c[..., None, :] * density)
    _, one = sums(*chosen, anew=True)
    return jnp.sum(jnp.real(w[..., None, :] * one[..., 0]), axis=(-2, -1))

  def gradient(
    u: Array, z: Array, c: Array, stop: Array, w: Array, lost: Array, *among: Array
  ) -> tuple[Array, ...]:
    (above, below, density), back = jax.vjp(lambda z: chances(u, z, *among), z)
    chosen = arguments(stop, lost, above, below, c[..., None, :] * density)
    anew = z.shape[-1] > _ROW
    none, one = sums(*chosen, anew=anew)
    above, below, hit, stop, lost = chosen
    weight = w[..., None, :, None]

    def after(known: Array) -> tuple[Array, Array]:
      """The products without each item, and weighed slopes by its factor."""
      again = lax.optimization_barrier((known, above))[1] if anew else above
      factor, log = factors(again, below, stop, lost)
      left = jnp.exp(none - log)
      # A quotient of complex numbers takes the square of the divisor, which may underflow.
      without = jnp.exp(-log) if jnp.iscomplexobj(factor) else 1 / factor
      return left, weight * without * (hit * left - one)

    by_hit = jnp.sum(jnp.real(weight * after(one)[0]), axis=-2)
    by_above = jnp.sum(jnp.real((lost + (1 - lost) * stop) * after(by_hit)[1]), axis=-2)
    by_stop = jnp.sum(jnp.real((1 - lost) * above * after(by_above)[1]), axis=(-3, -2))
    by_lost = jnp.sum((1 - stop) * above * after(by_stop)[1], axis=(-3, -1))
    (by_z,) = back((by_above, jnp.zeros_like(by_above), c[..., None, :] * by_hit))
    by_w = jnp.sum(one[..., 0], axis=-2)
    by_c = jnp.sum(by_hit * density, axis=-2)
    return by_z, by_c, by_stop, by_w, by_lost, *map(jnp.zeros_like, among)

  return Integrand(value, gradient)


# The number of points on the circle that accelerators take at once.
_POINTS = 8


def _reduced_counts(noise: Noise) -> Integrand:
  """`counts` from values of its polynomials on a circle, by `products` of complex terms.

  docs/mathematics.md, "Quadrature over noise".
  """
  products = _reduced_products(noise)

  def on_circle(d: Array, n: int) -> tuple[Array, Array]:
    """Blocks of weights and of points, the last filled up with weights of 0."""
    k = d.shape[-1]
    # So that r ** points is lost by rounding, and r ** -k is e ** 2.
    points = min(n, math.ceil(k * (18.0 if d.dtype == jnp.float64 else 8.0))) | 1
    radius = 1.0 if k >= n else math.exp(-2.0 / k)
    half = np.arange(points // 2 + 1)
    lead = (1,) * (d.ndim - 1)
    grown = jnp.asarray(radius ** -np.arange(k), d.dtype).reshape(*lead, -1)
    w = jnp.fft.rfft(d * grown, n=points)
    twice = jnp.asarray(np.where(half > 0, 2, 1) / points, w.dtype).reshape(*lead, -1)
    lost = jnp.asarray(1 - radius * np.exp(2j * np.pi / points * half), w.dtype)

    def blocks(x: Array) -> Array:
      x = jnp.pad(x, (*((0, 0),) * (x.ndim - 1), (0, -len(half) % _POINTS)))
      return jnp.moveaxis(x.reshape(*x.shape[:-1], -1, min(_POINTS, x.shape[-1])), -2, 0)

    return blocks(twice * w), blocks(lost.reshape(*lead, -1))

  def value(u: Array, z: Array, c: Array, stop: Array, d: Array, *among: Array) -> Array:
    def block(total: Array, terms: tuple[Array, Array]) -> tuple[Array, None]:
      return total + products.value(u, z, c, stop, *terms, *among), None

    return lax.scan(block, jnp.zeros_like(u[..., 0]), on_circle(d, z.shape[-1]))[0]

  def gradient(
    u: Array, z: Array, c: Array, stop: Array, d: Array, *among: Array
  ) -> tuple[Array, ...]:
    def block(
      total: tuple[Array, ...], terms: tuple[Array, Array]
    ) -> tuple[tuple[Array, ...], Array]:
      *slopes, by_w, _ = products.slopes(u, z, c, stop, *terms, *among)[:5]
      return tuple(map(jnp.add, total, slopes)), by_w

    w, back, lost = jax.vjp(lambda d: on_circle(d, z.shape[-1]), d, has_aux=True)
    nothing = tuple(map(jnp.zeros_like, (z, c, stop)))
    slopes, by_w = lax.scan(block, nothing, (w, lost))
    return *slopes, *back(by_w), *map(jnp.zeros_like, among)

  return Integrand(value, gradient, nodes=2)


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
def counts(noise: Noise, marked: bool = False) -> Integrand:
  """`sum_i c_i density_i sum_r d_r P(r - 1 others are above, and all of them are passed)`.

  The arguments are those of `products`, with `d`, `[..., k]`, for `w` and `1 - t`. Items enter one
  by one into the polynomial `prod_j (1 - p_j + p_j (1 - stop_j) y)` and the sum of such products
  over all items but one: docs/mathematics.md, "Quadrature over noise".
  """

  def value(u: Array, z: Array, c: Array, stop: Array, d: Array, *among: Array) -> Array:
    above, _, density = _probabilities(noise, _distances(u, z), *among)
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

  plain = Integrand(value, gradient, _reduced_counts(noise))
  return _marked(plain) if marked else plain


def _raised(polynomial: Array) -> Array:
  """The polynomial times `y`, up to the same degree."""
  return jnp.concatenate([jnp.zeros_like(polynomial[..., :1]), polynomial[..., :-1]], axis=-1)


@functools.cache
def weight_ahead(noise: Noise) -> Integrand:
  """`density_i sum_j p_j w_j` over `j` not `i`, for each item; the arguments are `z` and `w`."""

  def value(u: Array, z: Array, w: Array) -> Array:
    above, _, density = _probabilities(noise, _distances(u, z))
    above = w[..., None] * above
    ahead = jnp.sum(above, axis=-2, keepdims=True) - above
    return jnp.sum(density * ahead, axis=-1)

  return Integrand(value)


@functools.cache
def of_each_item(total: Integrand) -> Integrand:
  """The terms of a sum over items, `[..., n]`: what each adds to it for `c_i = 1`.

  The arguments are those of `products` or `counts` without `c`. The sum is linear in `c`, so that
  its slopes by `c` are the terms.
  """

  def value(u: Array, z: Array, stop: Array, *args: Array) -> Array:
    return total.slopes(u, z, jnp.zeros_like(z), stop, *args)[1]

  there = total.on_accelerators and of_each_item(total.on_accelerators)
  return Integrand(value, None, there, total.nodes)
