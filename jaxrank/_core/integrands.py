"""Integrands of `quadrature`: products over all items but one, counts of items, weights ahead.

docs/mathematics.md, "Quadrature over noise", derives them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.arithmetic import log_of_rest, plain_sum
from jaxrank._core.platforms import primitive
from jaxrank._core.quadrature import Integrand, Noise, distances, probabilities


def _given(whole: Integrand, stops: bool, marked: bool) -> Integrand:
  """An integrand without its argument `stop`, which is 0, unless `stops`.

  If `marked`, it is `(1 + d/de)` of the integrand with `stop = -e mark` at `e = 0`, and `mark` is
  its last argument: docs/mathematics.md, "Quadrature over noise".
  """

  def along(function: Callable[..., Any], u: Array, z: Array, c: Array, *args: Array) -> Any:
    """The function without marks, and with them."""
    stop, *rest = args if stops else (jnp.zeros_like(z), *args)
    if not marked:
      without = function(u, z, c, stop, *rest)
      return without, without
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


class _Factors(NamedTuple):
  """What the factors of all items are made of, `[..., nodes, terms, n]`.

  Attributes:
    above: The probability to be above a node; `below` is its complement.
    hit: What the item adds to the sum if its noisy score is the node.
    lost: `1 - t` of each term.
    stop: The probability that a user stops at the item, if users do.
    mark: What the item adds to the marks ahead; 0 if items have no marks.
  """

  above: Array
  below: Array
  hit: Array
  lost: Array
  stop: Array | None
  mark: Array

  def ended(self, x: Array) -> Array:
    """`x` times the complement of the factor of an item that is above."""
    # Products of terms and stops would be stored.
    lost = x * self.lost
    return lost if self.stop is None else lost + x * (1 - self.lost) * self.stop

  def reached(self, x: Array) -> Array:
    """`x` times the probability that an item that is above does not stop the user."""
    return x if self.stop is None else x * (1 - self.stop)

  def factor(self) -> Array:
    """The factor of each item."""
    return self.below + self.reached(self.above * (1 - self.lost))

  def log(self) -> Array:
    """The logarithm of the factor."""
    return log_of_rest(self.ended(self.above), self.factor())

  def reciprocal(self) -> Array:
    """The reciprocal of the factor."""
    factor = self.factor()
    # A quotient of complex numbers takes the square of the divisor, which may underflow.
    return jnp.exp(-self.log()) if jnp.iscomplexobj(factor) else 1 / factor

  def ahead(self) -> Array:
    """The mark if the item is above the node, given that it ends no product."""
    return self.above * (1 - self.lost) * self.mark * self.reciprocal()

  def hits(self, log: Array) -> Array:
    """The hit times the product of the other factors, from the logarithm of the product of all."""
    return self.hit * jnp.exp(log - self.log())

  def after(self, *known: Array) -> tuple["_Factors", tuple[Array, ...]]:
    """The same, and sums that are known, apart from which other sums are computed."""
    above, *sums = apart(self.above, *known)
    return self._replace(above=above), tuple(sums)


@primitive
def apart(*x: Array) -> tuple[Array, ...]:
  """The same arrays, of which nothing is computed together with what they come from."""
  return x


@apart.on("gpu", gain="memory of the gradient of nDCG@10, Gumbel [32, 1000]: 5.3")
def _behind_a_barrier(*x: Array) -> tuple[Array, ...]:
  kept: tuple[Array, ...] = lax.optimization_barrier(x)
  return kept


def _over_items(x: Array) -> Array:
  return jnp.sum(x, axis=-1, keepdims=True)


class _Sums(NamedTuple):
  """Sums over the items, `[..., nodes, terms, 1]`.

  Attributes:
    log: The logarithm of the product of all factors.
    one: The sum of hits times the products of the other factors.
    total: The same sum, in which each hit counts 1 plus the marks of the others ahead.
    marks: 1 plus the sum of the marks ahead.
  """

  log: Array
  one: Array
  total: Array
  marks: Array


def _sums(given: _Factors, marked: bool) -> _Sums:
  log = _over_items(given.log())
  if not marked:
    given, (log,) = given.after(log)
    one = _over_items(given.hits(log))
    return _Sums(log, one, one, jnp.ones(()))
  marks = 1 + _over_items(given.ahead())
  given, (log, marks) = given.after(log, marks)
  total = _over_items(given.hits(log) * (marks - given.ahead()))
  given, (total,) = given.after(total)
  return _Sums(log, _over_items(given.hits(log)), total, marks)


def reduced_products(noise: Noise, stops: bool, marked: bool) -> Integrand:
  """`integrands.products` of all nodes, terms and items at once."""

  def chances(u: Array, z: Array, *args: Array) -> tuple[Array, ...]:
    among = args[2 + stops : len(args) - marked]
    chance = probabilities(noise, distances(u, z), *among)
    return tuple(jnp.swapaxes(x, -1, -2) for x in chance)

  def prepared(chance: tuple[Array, ...], c: Array, *args: Array) -> tuple[_Factors, Array]:
    """What the factors are made of, and the weights of the terms."""
    w, lost = args[stops : 2 + stops]

    def by_item(x: Array) -> Array:
      return x[..., None, None, :].astype(lost.dtype)

    above, below, density = chance
    by_node = above, below, c[..., None, :] * density
    above, below, hit = (x[..., None, :].astype(lost.dtype) for x in by_node)
    stop = by_item(args[0]) if stops else None
    mark = by_item(args[-1]) if marked else jnp.zeros(())
    return _Factors(above, below, hit, lost[..., None, :, None], stop, mark), w

  def value(u: Array, z: Array, c: Array, *args: Array) -> Array:
    given, w = prepared(chances(u, z, *args), c, *args)
    return jnp.sum(jnp.real(w[..., None, :] * _sums(given, marked).total[..., 0]), axis=(-2, -1))

  def gradient(u: Array, z: Array, c: Array, *args: Array) -> tuple[Array, ...]:
    chance, back = jax.vjp(lambda z: chances(u, z, *args), z)
    given, w = prepared(chance, c, *args)
    sums = _sums(given, marked)
    weight = w[..., None, :, None]

    def after(known: Array) -> tuple[Array, ...]:
      """The slopes by hits, chances to be above, terms, stops and marks, before they are summed."""
      again, _ = given.after(known)
      left = jnp.exp(sums.log - again.log())
      rate = weight * again.reciprocal()
      by_ended = by_ahead = rate * (given.hit * left - sums.one)
      if marked:
        left = left * (sums.marks - again.ahead())
        by_ended = rate * (given.hit * left - sums.total) - again.ahead() * by_ahead
      by_above, by_lost = again.ended(by_ended), again.reached(again.above * by_ended)
      if marked:
        by_above = by_above - (1 - given.lost) * given.mark * by_ahead
        by_lost = by_lost + again.above * given.mark * by_ahead
      passed = (1 - given.lost) * again.above
      return weight * left, by_above, by_lost, passed * by_ended, -passed * by_ahead

    by_hit = jnp.sum(jnp.real(after(sums.one)[0]), axis=-2)
    by_above = jnp.sum(jnp.real(after(by_hit)[1]), axis=-2)
    by_lost = jnp.sum(after(by_above)[2], axis=(-3, -1))
    by_stop = (jnp.sum(jnp.real(after(by_lost)[3]), axis=(-3, -2)),) if stops else ()
    (by_z,) = back((by_above, jnp.zeros_like(by_above), c[..., None, :] * by_hit))
    by_w = jnp.sum(sums.total[..., 0], axis=-2)
    by_c = jnp.sum(by_hit * chance[2], axis=-2)
    by_mark = (jnp.sum(jnp.real(after(by_lost)[4]), axis=(-3, -2)),) if marked else ()
    among = map(jnp.zeros_like, args[2 + stops : len(args) - marked])
    return by_z, by_c, *by_stop, by_w, by_lost, *among, *by_mark

  return Integrand(value, gradient)


# The number of points on the circle that accelerators take at once.
_POINTS = 8


def reduced_counts(noise: Noise, stops: bool, marked: bool) -> Integrand:
  """`integrands.counts` from values of its polynomials on a circle, by `products` of complex terms.

  docs/mathematics.md, "Quadrature over noise".
  """
  products = reduced_products(noise, stops, marked)

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

  def value(u: Array, z: Array, c: Array, *args: Array) -> Array:
    stop, d, rest = args[:stops], args[stops], args[stops + 1 :]

    def block(total: Array, terms: tuple[Array, Array]) -> tuple[Array, None]:
      return total + products.value(u, z, c, *stop, *terms, *rest), None

    return lax.scan(block, jnp.zeros_like(u[..., 0]), on_circle(d, z.shape[-1]))[0]

  def gradient(u: Array, z: Array, c: Array, *args: Array) -> tuple[Array, ...]:
    stop, d, rest = args[:stops], args[stops], args[stops + 1 :]
    among, mark = rest[: len(rest) - marked], rest[len(rest) - marked :]
    first = 2 + stops

    def block(
      total: tuple[Array, ...], terms: tuple[Array, Array]
    ) -> tuple[tuple[Array, ...], Array]:
      by_argument = products.slopes(u, z, c, *stop, *terms, *rest)
      slopes = (*by_argument[:first], *by_argument[len(by_argument) - marked :])
      return tuple(map(jnp.add, total, slopes)), by_argument[first]

    w, back, lost = jax.vjp(lambda d: on_circle(d, z.shape[-1]), d, has_aux=True)
    nothing = tuple(map(jnp.zeros_like, (z, c, *stop, *mark)))
    slopes, by_w = lax.scan(block, nothing, (w, lost))
    return *slopes[:first], *back(by_w), *map(jnp.zeros_like, among), *slopes[first:]

  # Marks take three more sums, whose complex terms are stored.
  return Integrand(value, gradient, nodes=4 if marked else 10)
