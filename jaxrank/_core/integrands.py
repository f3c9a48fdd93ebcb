"""Integrands of `quadrature`: discounts of ranks under noise, and weights ahead.

Given that the noisy score of item `i` is the node `u`, the others are independently above it. The
discount of the rank of `i` is a sum over values, or coefficients, of the polynomial
`prod_j (1 - p_j + p_j (1 - stop_j) y)` over the items `j` but `i`. CPUs multiply the factors of one
item after the other, and accelerators add up the logarithms of all at once. docs/mathematics.md,
"Quadrature over noise", derives both.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank._core.arithmetic import log_of_rest, plain_sum
from jaxrank._core.platforms import primitive
from jaxrank._core.quadrature import Integrand, Items, Noise, distances, probabilities

# The product over all items, and the sum over items of hits times the product over the others.
_Products = tuple[Array, Array]


class Exponentials(NamedTuple):
  """The discount `sum_m w_m t_m ** (r - 1)`, a sum over values of the polynomial at `y = t_m`.

  Attributes:
    w: `[..., terms]`.
    lost: `[..., terms]`, `1 - t`: complements have full relative precision.
  """

  w: Array
  lost: Array

  def one(self) -> Array:
    """The polynomial 1."""
    return jnp.ones_like(self.lost)

  def taken(self, x: Array, above: Array, stop: Array | None) -> Array:
    """What an item takes from a polynomial: `x` times the complement of its factor."""
    return x * _ended(above, self.lost, stop)

  def begun(self, before: _Products) -> Any:
    """The products to which a group is added: none, because those of groups multiply."""
    del before
    return 1.0, 0.0

  def joined(self, before: _Products, change: _Products) -> _Products:
    """The products with those of a group."""
    (none, one), (none_change, one_change) = before, change
    return none + none * none_change, one + (one * none_change + none * one_change)


class FirstRanks(NamedTuple):
  """The discount `w_r` of the ranks `r` from 1 to `k`, a sum over coefficients to `y ** (k - 1)`.

  Attributes:
    w: `[..., k]`.
  """

  w: Array

  def one(self) -> Array:
    """The polynomial 1."""
    return jnp.zeros_like(self.w).at[..., :1, :].set(1)

  def taken(self, x: Array, above: Array, stop: Array | None) -> Array:
    """What an item takes from a polynomial: `x` times the complement of its factor."""
    passed = jnp.concatenate([jnp.zeros_like(x[..., :1, :]), x[..., :-1, :]], axis=-2)
    return above * (x - (passed if stop is None else passed * (1 - stop)))

  def begun(self, before: _Products) -> _Products:
    """The products to which a group is added: to multiply polynomials takes too long."""
    return before

  def joined(self, before: _Products, change: _Products) -> _Products:
    """The products with those of a group."""
    return before[0] + change[0], before[1] + change[1]


def _ended(x: Array, lost: Array, stop: Array | None) -> Array:
  """`x` times the complement of the factor of an item that is above."""
  # Products of terms and stops would be stored.
  return x * lost if stop is None else x * lost + x * (1 - lost) * stop


class _Slopes(NamedTuple):
  """Slopes by the attributes of `_Factors`, of each item in each term at each node."""

  above: Array
  hit: Array
  stop: Any
  mark: Any
  lost: Array


class _Factors(NamedTuple):
  """What the factors of items are made of, for exponentials.

  The arrays broadcast; an algorithm has axes of nodes, terms and items in an order of its own.

  Attributes:
    above: The probability to be above a node; `below` is its complement.
    hit: What the item adds to the sum if its noisy score is the node.
    stop: The probability that a user stops at the item, if users do.
    mark: What the item adds to the marks ahead, if items have marks.
    lost: `1 - t` of each term.
  """

  above: Array
  below: Array
  hit: Array
  stop: Array | None
  mark: Array | None
  lost: Array

  def ended(self, x: Array) -> Array:
    """`x` times the complement of the factor of an item that is above."""
    return _ended(x, self.lost, self.stop)

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
    """The mark, if items have any and it is above the node, given that it ends no product."""
    assert self.mark is not None
    return self.above * (1 - self.lost) * self.mark * self.reciprocal()

  def slopes(self, w: Array, left: Array, counted: Array, one: Array, total: Array) -> _Slopes:
    """The slopes of `sum_m w_m total_m`.

    For each item, `left` is the product over the others, and `counted` is it times 1 plus the marks
    ahead. `one` and `total` are the sums over items of hits times these.
    """
    rate = w * self.reciprocal()
    by_ended = by_ahead = rate * (self.hit * left - one)
    if self.mark is not None:
      by_ended = rate * (self.hit * counted - total) - self.ahead() * by_ahead
    by_above, by_lost = self.ended(by_ended), self.reached(self.above * by_ended)
    if self.mark is not None:
      by_above = by_above - (1 - self.lost) * self.mark * by_ahead
      by_lost = by_lost + self.above * self.mark * by_ahead
    passed = (1 - self.lost) * self.above
    return _Slopes(
      above=by_above,
      hit=w * counted,
      stop=None if self.stop is None else passed * by_ended,
      mark=None if self.mark is None else -passed * by_ahead,
      lost=by_lost,
    )


@functools.cache
def products(noise: Noise) -> Integrand:
  """`sum_i c_i density_i E discount(r_i)`, for `Exponentials`; `Items` has what else it may count.

  The code works with the complements of the factors, and of the product of each group of items:
  docs/mathematics.md, "Quadrature over noise".
  """

  def gradient(u: Array, items: Items) -> Items:
    v = distances(u, items.z)
    (above, below, density), back = jax.vjp(lambda v: probabilities(noise, v, items.among), v)
    (none, one), (none_counted, total) = _one_by_one(items, above, density)
    w, lost = (x[..., None] for x in items.discount)

    def step(by_lost: Array, own: Any) -> tuple[Array, tuple[Any, ...]]:
      item = _Factors._make((*own, lost))
      left = counted = none * item.reciprocal()
      if item.mark is not None:
        counted = none_counted * item.reciprocal() - left * item.ahead()
      by = item.slopes(w, left, counted, one, total)
      of_terms = plain_sum(by.above, -2), plain_sum(by.hit, -2)
      of_all = jax.tree.map(lambda x: plain_sum(x, (-2, -1)), (by.stop, by.mark))
      return by_lost + plain_sum(by.lost, -1), (*of_terms, *of_all)

    stop, mark = jax.tree.map(lambda x: x[..., None], (items.stop, items.mark))
    own = _by_item(above, below, items.c[..., None] * density, stop, mark)
    by_lost, by_item = lax.scan(step, jnp.zeros_like(items.discount.lost), own)
    by_above, by_hit, by_stop, by_mark = jax.tree.map(
      lambda x: jnp.moveaxis(x, 0, items.z.ndim - 1), by_item
    )
    (by_v,) = back((by_above, jnp.zeros_like(below), items.c[..., None] * by_hit))
    return Items(
      z=-plain_sum(by_v, -1),
      c=plain_sum(by_hit * density, -1),
      discount=Exponentials(jnp.sum(total, axis=-1), by_lost),
      stop=by_stop,
      among=jax.tree.map(jnp.zeros_like, items.among),
      mark=by_mark,
    )

  value = functools.partial(_value_one_by_one, noise)
  return Integrand(value, gradient, on_accelerators=_products_at_once(noise))


@functools.cache
def counts(noise: Noise) -> Integrand:
  """`sum_i c_i density_i E discount(r_i)`, for `FirstRanks`; `Items` has what else it may count."""
  value = functools.partial(_value_one_by_one, noise)

  def gradient(u: Array, items: Items) -> Items:
    total, back = jax.vjp(functools.partial(value, u), items)
    (by_array,) = back(jnp.ones_like(total))
    slopes: Items = by_array
    return slopes

  return Integrand(value, gradient, on_accelerators=_counts_at_once(noise))


def _value_one_by_one(noise: Noise, u: Array, items: Items) -> Array:
  above, _, density = probabilities(noise, distances(u, items.z), items.among)
  _, (_, total) = _one_by_one(items, above, density)
  return jnp.sum(items.discount.w[..., None] * total, axis=(-2, -1))


def _one_by_one(items: Items, above: Array, density: Array) -> tuple[_Products, _Products]:
  """The products, and `(1 + d/de)` of them with `stop = -e mark` at `e = 0`.

  Items enter one by one, in groups: docs/mathematics.md, "Quadrature over noise".
  """
  hit = items.c[..., None] * density
  discount = jax.tree.map(lambda x: x[..., None], items.discount)

  def step(before: _Products, change: _Products, item: tuple[Any, ...]) -> tuple[_Products, None]:
    none, one = jax.tree.map(jnp.add, before, change)
    above, hit, stop = item
    none_change = change[0] - discount.taken(none, above, stop)
    return (none_change, change[1] + (hit * none - discount.taken(one, above, stop))), None

  def by_group(before: _Products, group: tuple[Any, ...]) -> tuple[_Products, None]:
    # Each group starts from 0: small changes of a large number would be rounded alike.
    nothing = jax.tree.map(jnp.zeros_like, before)
    change, _ = lax.scan(functools.partial(step, discount.begun(before)), nothing, group)
    return discount.joined(before, change), None

  def products(stop: Array | None) -> _Products:
    groups = _in_groups(_by_item(above, hit, None if stop is None else stop[..., None]))
    none = discount.one() * jnp.ones_like(above[..., :1, :])
    products: _Products = lax.scan(by_group, (none, jnp.zeros_like(none)), groups)[0]
    return products

  if items.mark is None:
    plain = products(items.stop)
    return plain, plain
  stop = jnp.zeros_like(items.z) if items.stop is None else items.stop
  plain, more = jax.jvp(products, (stop,), (-items.mark,))
  return plain, jax.tree.map(jnp.add, plain, more)


def _by_item(*arrays: Array | None) -> tuple[Any, ...]:
  """Moves the axis of items to the front: `[..., n, nodes]` to `[n, ..., 1, nodes]`."""
  moved: tuple[Any, ...] = jax.tree.map(lambda x: jnp.moveaxis(x, -2, 0)[..., None, :], arrays)
  return moved


def _in_groups(by_item: tuple[Any, ...]) -> tuple[Any, ...]:
  """Reshapes `[n, ...]` to about sqrt(n) groups, `[groups, items, ...]`, with zeros at the end."""

  def grouped(x: Array) -> Array:
    groups = math.isqrt(x.shape[0])
    x = jnp.pad(x, ((0, -x.shape[0] % groups), *((0, 0),) * (x.ndim - 1)))
    return x.reshape(groups, -1, *x.shape[1:])

  groups: tuple[Any, ...] = jax.tree.map(grouped, by_item)
  return groups


@functools.cache
def weight_ahead(noise: Noise) -> Integrand:
  """`density_i sum_j p_j c_j` over `j` not `i`, for each item."""

  def value(u: Array, items: Items) -> Array:
    above, _, density = probabilities(noise, distances(u, items.z))
    above = items.c[..., None] * above
    ahead = jnp.sum(above, axis=-2, keepdims=True) - above
    return jnp.sum(density * ahead, axis=-1)

  return Integrand(value)


@functools.cache
def of_each_item(total: Integrand) -> Integrand:
  """The terms of a sum over items, `[..., n]`: what each adds to it for `c_i = 1`.

  Here the items have no `c`. The sum is linear in `c`, so that its slopes by `c` are the terms, and
  the sum of the terms times weights is that for these `c`.
  """

  def value(u: Array, items: Items) -> Array:
    terms: Array = total.slopes(u, items._replace(c=jnp.zeros_like(items.z))).c
    return terms

  def pull(u: Array, items: Items, weights: Array) -> Items:
    return total.slopes(u, items._replace(c=weights))._replace(c=None)

  there = total.on_accelerators and of_each_item(total.on_accelerators)
  return Integrand(value, None, pull, there, total.nodes)


@primitive
def apart(*x: Array) -> tuple[Array, ...]:
  """The same arrays, of which nothing is computed together with what they come from."""
  return x


@apart.on("gpu", gain="memory of the gradient of nDCG@10, Gumbel [32, 1000]: 5.3")
def _behind_a_barrier(*x: Array) -> tuple[Array, ...]:
  kept: tuple[Array, ...] = lax.optimization_barrier(x)
  return kept


def _after(given: _Factors, *known: Array) -> tuple[_Factors, tuple[Array, ...]]:
  """The same factors, and sums that are known, apart from which other sums are computed."""
  above, *sums = apart(given.above, *known)
  return given._replace(above=above), tuple(sums)


class _Sums(NamedTuple):
  """Sums over the items, `[..., nodes, terms, 1]`.

  Attributes:
    log: The logarithm of the product over all items.
    one: The sum of hits times the products over the other items.
    total: The same sum, in which each hit counts 1 plus the marks of the others ahead.
    marks: 1 plus the sum of the marks ahead, if items have marks.
  """

  log: Array
  one: Array
  total: Array
  marks: Array | None

  def others(self, given: _Factors) -> tuple[Array, Array]:
    """The products over the other items, and these times 1 plus the marks ahead."""
    left = jnp.exp(self.log - given.log())
    return left, left if self.marks is None else left * (self.marks - given.ahead())


def _sums_at_once(given: _Factors) -> _Sums:
  def over_items(x: Array) -> Array:
    return jnp.sum(x, axis=-1, keepdims=True)

  log = over_items(given.log())
  if given.mark is None:
    given, (log,) = _after(given, log)
    one = over_items(given.hit * jnp.exp(log - given.log()))
    return _Sums(log, one, one, None)
  marks = 1 + over_items(given.ahead())
  given, (log, marks) = _after(given, log, marks)
  total = over_items(given.hit * jnp.exp(log - given.log()) * (marks - given.ahead()))
  given, (total,) = _after(given, total)
  return _Sums(log, over_items(given.hit * jnp.exp(log - given.log())), total, marks)


def _products_at_once(noise: Noise) -> Integrand:
  """`products` of all nodes, terms and items at once."""

  def chances(u: Array, z: Array, among: Array | None) -> tuple[Array, ...]:
    chance = probabilities(noise, distances(u, z), among)
    return tuple(jnp.swapaxes(x, -1, -2) for x in chance)

  def prepared(chance: tuple[Array, ...], items: Items) -> _Factors:
    above, below, density = chance
    lost = items.discount.lost

    def of_all_terms(x: Array) -> Array:
      return x[..., None, :].astype(lost.dtype)

    above, below, hit = map(of_all_terms, (above, below, items.c[..., None, :] * density))
    stop, mark = jax.tree.map(lambda x: of_all_terms(x[..., None, :]), (items.stop, items.mark))
    return _Factors(above, below, hit, stop, mark, lost[..., None, :, None])

  def value(u: Array, items: Items) -> Array:
    sums = _sums_at_once(prepared(chances(u, items.z, items.among), items))
    terms = items.discount.w[..., None, :] * sums.total[..., 0]
    return jnp.sum(jnp.real(terms), axis=(-2, -1))

  def gradient(u: Array, items: Items) -> Items:
    chance, back = jax.vjp(lambda z: chances(u, z, items.among), items.z)
    given = prepared(chance, items)
    sums = _sums_at_once(given)

    def after(known: Array) -> _Slopes:
      again, _ = _after(given, known)
      left, counted = sums.others(again)
      return again.slopes(items.discount.w[..., None, :, None], left, counted, sums.one, sums.total)

    by_hit = jnp.sum(jnp.real(after(sums.one).hit), axis=-2)
    by_above = jnp.sum(jnp.real(after(by_hit).above), axis=-2)
    by_lost = jnp.sum(after(by_above).lost, axis=(-3, -1))

    by_stop = by_mark = None
    if items.stop is not None:
      by_stop = jnp.sum(jnp.real(after(by_lost).stop), axis=(-3, -2))
    if items.mark is not None:
      by_mark = jnp.sum(jnp.real(after(by_lost).mark), axis=(-3, -2))
    (by_z,) = back((by_above, jnp.zeros_like(by_above), items.c[..., None, :] * by_hit))
    return Items(
      z=by_z,
      c=jnp.sum(by_hit * chance[2], axis=-2),
      discount=Exponentials(jnp.sum(sums.total[..., 0], axis=-2), by_lost),
      stop=by_stop,
      among=jax.tree.map(jnp.zeros_like, items.among),
      mark=by_mark,
    )

  return Integrand(value, gradient)


# The number of points on the circle that accelerators take at once.
_POINTS = 8


def _counts_at_once(noise: Noise) -> Integrand:
  """`counts` from values of the polynomial on a circle, by `products` of complex terms.

  docs/mathematics.md, "Quadrature over noise".
  """
  products = _products_at_once(noise)

  def value(u: Array, items: Items) -> Array:
    def block(total: Array, points: Exponentials) -> tuple[Array, None]:
      return total + products.value(u, items._replace(discount=points)), None

    points = Exponentials(*_on_circle(items.discount, items.z.shape[-1]))
    return lax.scan(block, jnp.zeros_like(u[..., 0]), points)[0]

  def gradient(u: Array, items: Items) -> Items:
    w, back, lost = jax.vjp(
      lambda ranks: _on_circle(ranks, items.z.shape[-1]), items.discount, has_aux=True
    )

    def block(total: Items, points: Exponentials) -> tuple[Items, Array]:
      by = products.slopes(u, items._replace(discount=points))
      return jax.tree.map(jnp.add, total, by._replace(discount=None)), by.discount.w

    nothing = jax.tree.map(jnp.zeros_like, items._replace(discount=None))
    slopes, by_w = lax.scan(block, nothing, Exponentials(w, lost))
    (by_ranks,) = back(by_w)
    by_array: Items = slopes._replace(discount=by_ranks)
    return by_array

  # Marks take three more sums, whose complex terms are stored.
  return Integrand(value, gradient, nodes=lambda items: 10 if items.mark is None else 4)


def _on_circle(ranks: FirstRanks, n: int) -> tuple[Array, Array]:
  """The weights and points of `Exponentials` in blocks, the last filled up with weights of 0."""
  d = ranks.w
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
