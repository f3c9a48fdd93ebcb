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
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from jaxrank._core.batching import batched
from jaxrank._core.decays import normal_tail
from jaxrank._core.platforms import primitive


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
  # JAX transposes it only if each array of its right-hand side depends on what is transposed. A
  # product with 0 would carry a NaN of one query to all others.
  nothing = sum(jnp.sum(jnp.where(False, part, 0)) for part in jax.tree.leaves(x))
  x = jax.tree.map(lambda part: part + nothing, x)
  out = jax.tree.map(
    lambda like: jnp.broadcast_to(nothing, like.shape).astype(like.dtype), jax.eval_shape(ahead, *x)
  )

  def solve(_: Any, given: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, given[0]), ahead(*given[0])

  def solve_transposed(_: Any, given: Any) -> Any:
    return back(given[1]), jax.tree.map(jnp.zeros_like, given[1])

  return lax.custom_linear_solve(lambda y: y, (x, out), solve, solve_transposed)[1]


def constant(x: Any) -> Any:
  """`x`, of which a derivative is refused rather than wrong."""
  leaves, tree = jax.tree.flatten(x)
  same: Any = batched(lambda *leaves: leaves, _refused, several=True)
  return jax.tree.unflatten(tree, same(*leaves))


def _refused(*_: Array) -> Any:
  raise NotImplementedError(
    "jaxrank: third derivatives under Gumbel and Gaussian are not available, nor second ones of"
    " mean ranks, exposures and probabilities of ranks; take one derivative less, or rank with"
    " Laplace or Logistic."
  )


# The number of floats in the largest array of a block of nodes, and the most nodes in a block on a
# CPU, by `Grid.short_blocks`.
_BLOCK_SIZE = 2**21
_MOST_NODES = {False: 64, True: 32}


# A node above all scores, where densities and probabilities to be above it are 0.
_BEYOND = 1e30


class Noise(NamedTuple):
  """A distribution of noise around a score, in units of the temperature.

  Attributes:
    probabilities: Maps `u - z` to the probabilities of a noisy score above and below `u`, and its
      density at `u`.
    spacing: `spacing(n, digits)` is the distance of two nodes for `n` items.
    reach: `reach(n, digits)` is how far nodes go below the lowest and above the highest score.
    gap: `gap(digits)` is the widest gap between scores that is kept; wider ones become as wide.
  """

  probabilities: Callable[[Array], tuple[Array, Array, Array]]
  spacing: Callable[[int, float], float]
  reach: Callable[[int, float], tuple[float, float]]
  gap: Callable[[float], float]


class Items(NamedTuple):
  """The items of a query, and what an integral is to say of them; None for what it need not know.

  Attributes:
    z: `[..., n]`, the scores in temperatures.
    c: `[..., n]`, what each item counts.
    discount: What a rank is worth, in arrays `[..., any]`.
    stop: `[..., n]`, the probability that a user who reaches the item stops there.
    among: `[..., n]`, 0 or 1; the items with 0 are never above another one.
    mark: `[..., n]`; an item counts 1 plus the marks of the items ahead.
  """

  z: Array
  c: Any = None
  discount: Any = None
  stop: Array | None = None
  among: Array | None = None
  mark: Array | None = None


class Integrand(NamedTuple):
  """A function of nodes and items.

  Attributes:
    value: `value(u, items)`, summed over the nodes `u`.
    gradient: If the value is one number, and linear in `items.c`, `gradient(u, items)` has its
      slopes by all arrays of the items: the value follows from them, and one loop computes both.
    pull: `pull(u, items, weights)`, the slopes of the sum of the values times weights, for values
      without a `gradient`; None for those that JAX derives.
    on_accelerators: The same function in another order of work; None for the same order.
    nodes: The number of nodes in a block on accelerators, by the items.
  """

  value: Callable[[Array, Items], Array]
  gradient: Callable[[Array, Items], Items] | None = None
  pull: Callable[[Array, Items, Array], Items] | None = None
  on_accelerators: "Integrand | None" = None
  nodes: Callable[[Items], int] = lambda items: 14

  def slopes(self, u: Array, items: Items) -> Items:
    """The gradient of one number."""
    if self.gradient is None:
      raise TypeError("an integrand of several values has no gradient")
    return self.gradient(u, items)


class Grid(NamedTuple):
  """Evenly spaced nodes.

  Attributes:
    spacing: The distance of two nodes.
    width: The number of floats per node and item, for the size of a block.
    short_blocks: Whether a block that is half empty takes too long.
  """

  spacing: float
  width: int
  short_blocks: bool = False


# What a sweep over all nodes sums up: a function of an integrand, the nodes and trees of arrays.
_Part = Callable[..., Any]
_Ends = tuple[Array, Array]


def _value(integrand: Integrand, u: Array, items: Items) -> Array:
  return integrand.value(u, items)


def _slopes(integrand: Integrand, u: Array, items: Items) -> Items:
  return integrand.slopes(u, items)


def _result(part: _Part, items: Items) -> Any:
  """A tree like the result of a part: one array, or slopes by all arrays of the items."""
  return items if part is _slopes else 0.0


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def integral(integrand: Integrand, grid: Grid, ends: _Ends, items: Items) -> Array:
  """The sum of `value` over nodes from one end to the other, times the spacing.

  The ends have no derivative, because the integral does not depend on them.

  Args:
    integrand: The function to integrate; its items may have any leading axes.
    grid: The nodes.
    ends: The first and the last node, `[...]`.
    items: What the integrand is a function of.

  Returns:
    An array of the shape of `value`.
  """
  total: Array = _swept(_value, integrand, grid, ends, items)
  return grid.spacing * total


@functools.partial(integral.defjvp, symbolic_zeros=True)
def _integral_jvp(
  integrand: Integrand, grid: Grid, primals: Any, tangents: Any
) -> tuple[Array, Array]:
  (ends, items), (_, changes) = primals, tangents
  if integrand.gradient is None:
    total = integral(integrand, grid, ends, items)
    return total, grid.spacing * _changed(_value, integrand, grid, ends, items, changes)
  slopes: Items = _swept(_slopes, integrand, grid, ends, items)
  by_array, along = jax.tree.leaves(slopes), jax.tree.leaves(changes)
  products = (jnp.sum(by_array[i] * along[i], axis=-1) for i in _moving(along))
  # The value is linear in `c`, whose slopes are the coefficients.
  total = jnp.sum(items.c * slopes.c, axis=-1)
  return grid.spacing * total, grid.spacing * functools.reduce(jnp.add, products)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _swept(part: _Part, integrand: Integrand, grid: Grid, ends: _Ends, items: Items) -> Any:
  """The sum of a part of an integrand over all nodes."""
  tree = jax.tree.structure(items)

  def again(start: Array, stop: Array, *arrays: Array) -> Any:
    return _swept(part, integrand, grid, (start, stop), jax.tree.unflatten(tree, arrays))

  like = _result(part, items)
  return _sweep(part, integrand, grid, ends, items, like=like, differentiable=again)


@functools.partial(_swept.defjvp, symbolic_zeros=True)
def _swept_jvp(
  part: _Part, integrand: Integrand, grid: Grid, primals: Any, tangents: Any
) -> tuple[Any, Any]:
  (ends, items), (_, changes) = primals, tangents
  total = _swept(part, integrand, grid, ends, items)
  return total, _changed(part, integrand, grid, ends, items, changes)


def _changed(
  part: _Part, integrand: Integrand, grid: Grid, ends: _Ends, items: Items, changes: Items
) -> Any:
  """The change of a sweep for changes of its items; its transpose is a sweep as well."""
  ends, items = constant((ends, items))
  arrays, tree = jax.tree.flatten(items)
  along = jax.tree.leaves(changes)
  moving = _moving(along)

  def ahead(integrand: Integrand, u: Array, items: Items, change: Items) -> Any:
    return jax.jvp(functools.partial(part, integrand, u), (items,), (change,))[1]

  def back(integrand: Integrand, u: Array, items: Items, out: Any) -> Items:
    if integrand.pull:
      return integrand.pull(u, items, out)
    (slopes,) = jax.vjp(functools.partial(part, integrand, u), items)[1](out)
    by_array: Items = slopes
    return by_array

  def moved(*given: Array) -> Any:
    which = dict(zip(moving, given, strict=True))
    every = [which.get(i, jnp.zeros_like(x)) for i, x in enumerate(arrays)]
    change = jax.tree.unflatten(tree, every)
    return _sweep(ahead, integrand, grid, ends, items, change, like=_result(part, items))

  def pulled(out: Any) -> tuple[Array, ...]:
    slopes = jax.tree.leaves(_sweep(back, integrand, grid, ends, items, out, like=items))
    return tuple(slopes[i] for i in moving)

  return transposable(moved, pulled, *(along[i] for i in moving))


def _moving(changes: Sequence[Any]) -> list[int]:
  """The arrays that change."""
  return [i for i, change in enumerate(changes) if not isinstance(change, SymbolicZero)]


class Sweep(NamedTuple):
  """What is added up over the nodes, and how; `tree` is that of the items and what goes with them.

  The other attributes are the arguments of `integral`.
  """

  part: _Part
  integrand: Integrand
  grid: Grid
  tree: Any

  def nodes(self, arrays: Sequence[Array], width: int, most: int) -> int:
    """The number of nodes in a block, for so many floats per node and item, at most `most`."""
    return min(max(_BLOCK_SIZE // (self.items(arrays).z.size * width), 1), most)

  def items(self, arrays: Sequence[Array]) -> Items:
    """The items among all arrays."""
    items: Items = jax.tree.unflatten(self.tree, arrays)[0]
    return items


def _sweep(
  part: _Part,
  integrand: Integrand,
  grid: Grid,
  ends: _Ends,
  *given: Any,
  like: Any,
  differentiable: Callable[..., Any] | None = None,
) -> Any:
  """The sum of `part(integrand, nodes, *given)` over all nodes, a tree like `like`."""
  arrays, tree = jax.tree.flatten(given)
  summed = functools.partial(total_of_nodes, sweep=Sweep(part, integrand, grid, tree))
  values = batched(summed, differentiable, several=True)(*ends, *arrays)
  return jax.tree.unflatten(jax.tree.structure(like), values)


@primitive
def total_of_nodes(start: Array, stop: Array, *arrays: Array, sweep: Sweep) -> Any:
  """The sum of a part of an integrand over the nodes of a whole batch, one after the other."""
  return _in_blocks(sweep, 1, start, stop, *arrays)


@total_of_nodes.on("cpu", gain="gradient of nDCG, Gumbel [32, 1000]: 2.2")
def _total_in_cache(start: Array, stop: Array, *arrays: Array, sweep: Sweep) -> Any:
  nodes = sweep.nodes(arrays, sweep.grid.width, _MOST_NODES[sweep.grid.short_blocks])
  return _in_blocks(sweep, nodes, start, stop, *arrays)


@total_of_nodes.on("tpu", "gpu", gain="launches of the gradient of nDCG, Gumbel [32, 1000]: 8,200")
def _total_on_accelerators(start: Array, stop: Array, *arrays: Array, sweep: Sweep) -> Any:
  # An order of work for accelerators takes no more memory for a wider integrand.
  there = sweep.integrand.on_accelerators
  width = 1 if there else sweep.grid.width
  sweep = sweep._replace(integrand=there or sweep.integrand)
  nodes = sweep.nodes(arrays, width, sweep.integrand.nodes(sweep.items(arrays)))
  return _in_blocks(sweep, nodes, start, stop, *arrays)


def _in_blocks(sweep: Sweep, nodes: int, start: Array, stop: Array, *arrays: Array) -> Any:
  spacing = sweep.grid.spacing
  # A NaN, which the arguments have as well, must not end the loop of the other queries.
  blocks = jnp.ceil((stop - start) / (spacing * nodes))
  count = jnp.max(jnp.where(jnp.isnan(blocks), 1, blocks)).astype(jnp.int32)

  # The shape of a block and the body of the loop share one trace.
  @functools.partial(jax.jit, inline=True)
  def block(index: Array, start: Array, blocks: Array, *arrays: Array) -> Any:
    step = (index * nodes).astype(start.dtype) + jnp.arange(nodes, dtype=start.dtype)
    step = step.reshape((1,) * start.ndim + (nodes,))
    # A query adds nothing in the blocks that only others have.
    inside = index.astype(start.dtype) < blocks[..., None]
    u = jnp.where(inside, start[..., None] + spacing * step, _BEYOND)
    return sweep.part(sweep.integrand, u, *jax.tree.unflatten(sweep.tree, arrays))

  def body(state: tuple[Array, Any]) -> tuple[Array, Any]:
    index, total = state
    return index + 1, jax.tree.map(jnp.add, total, block(index, start, blocks, *arrays))

  first = jnp.zeros_like(count)
  start_at = jax.tree.map(jnp.zeros_like, jax.eval_shape(block, first, start, blocks, *arrays))
  return lax.while_loop(lambda state: state[0] < count, body, (first, start_at))[1]


def distances(u: Array, z: Array) -> Array:
  """How far each node is above each item, `[..., n, nodes]`."""
  return u[..., None, :] - z[..., :, None]


def probabilities(noise: Noise, v: Array, among: Array | None = None) -> tuple[Array, Array, Array]:
  """The probabilities and densities of every item at every node, `[..., n, nodes]`.

  `among` is that of `Items`.
  """
  above, below, density = noise.probabilities(v)
  if among is not None:
    counts = among[..., None]
    above, below = above * counts, jnp.where(counts > 0, below, 1)
  return above, below, density


def _gumbel(v: Array) -> tuple[Array, Array, Array]:
  """Gumbel noise; the probability below is at least 1e-30, because gradients divide by it."""
  rate = jnp.exp(jnp.minimum(-v, math.log(69.0)))
  below = jnp.exp(-rate)
  return -jnp.expm1(-rate), below, rate * below


def _normal(v: Array) -> tuple[Array, Array, Array]:
  """Normal noise; both probabilities are at least about 1e-30, because gradients divide by one."""
  v = jnp.clip(v, -11.5, 11.5)
  return normal_tail(v), normal_tail(-v), jnp.exp(-jnp.square(v) / 2) / math.sqrt(2 * math.pi)


def _tail(digits: float) -> float:
  """Minus the logarithm of the probability that one of `n` noisy scores is above all nodes."""
  return max(2.5 * digits + 1.5, 5 * digits - 11)


def _coarser(digits: float) -> float:
  """The spacing of nodes in that of five digits."""
  return 5 / digits if digits <= 5 else 0.5


def _gumbel_reach(n: int, digits: float) -> tuple[float, float]:
  return math.log(5 * digits), math.log(n) + _tail(digits)


def _normal_reach(n: int, digits: float) -> tuple[float, float]:
  return 2 * (math.sqrt(2 * (math.log(n) + _tail(digits))),)


def _normal_spacing(n: int, digits: float) -> float:
  return min(0.5, 0.5 / math.sqrt(2 * math.log(max(n, 2)))) * _coarser(digits)


GUMBEL = Noise(
  _gumbel, lambda n, digits: 0.5 * _coarser(digits), _gumbel_reach, lambda digits: 5 * digits
)
NORMAL = Noise(_normal, _normal_spacing, _normal_reach, lambda digits: 12.0)


@functools.lru_cache(maxsize=256)
def rank_chances(noise: Noise, depth: int) -> Integrand:
  """`density_i P(r - 1 others are above)` for each item and rank, `[..., n, depth]`."""

  def value(u: Array, items: Items) -> Array:
    above, below, density = noise.probabilities(u[..., :, None] - items.z[..., None, :])
    one = jnp.stack([below, above], axis=-1)[..., :depth]
    others = _products_of_others(one, depth)
    others = jnp.pad(others, (*((0, 0),) * (others.ndim - 1), (0, depth - others.shape[-1])))
    return jnp.sum(density[..., None] * others, axis=-3)

  return Integrand(value, nodes=lambda items: 4)


def _products_of_others(one: Array, most: int) -> Array:
  """The product of all polynomials but each one, `[..., n, any]`, up to `most` coefficients.

  A tree of products of halves, quarters and so on goes up to the root. On the way down, each node
  gets the product of everything outside of it: that of its parent, times its sibling.
  """
  n = one.shape[-2]
  size = 1 << (n - 1).bit_length()
  empty = jnp.zeros_like(one[..., :1, :]).at[..., 0].set(1)
  empty = jnp.repeat(empty, size - n, axis=-2)
  levels = [jnp.concatenate([one, empty], axis=-2)]
  while levels[-1].shape[-2] > 2:
    levels.append(_times(levels[-1][..., ::2, :], levels[-1][..., 1::2, :], most))
  outside = jnp.ones_like(one[..., :1, :1])
  for level in reversed(levels if size > 1 else []):
    pairs = level.reshape(*level.shape[:-2], -1, 2, level.shape[-1])
    siblings = pairs[..., ::-1, :].reshape(level.shape)
    outside = _times(jnp.repeat(outside, 2, axis=-2), siblings, most)
  return outside[..., :n, :]


def _times(x: Array, y: Array, most: int) -> Array:
  """Products of polynomials along the last axis, up to `most` coefficients."""
  length = min(x.shape[-1] + y.shape[-1] - 1, most)
  if x.shape[-1] < y.shape[-1]:
    x, y = y, x
  terms, x = y.shape[-1], x[..., :length]
  room = (terms - 1, length - x.shape[-1])
  x = jnp.pad(x, (*((0, 0),) * (x.ndim - 1), room))

  def step(total: Array, term: tuple[Array, Array]) -> tuple[Array, None]:
    c, first = term
    return total + c[..., None] * lax.dynamic_slice_in_dim(x, first, length, axis=-1), None

  # A loop, because that of the gradient would compile slowly if it was unrolled.
  each = jnp.moveaxis(y, -1, 0), jnp.arange(terms - 1, -1, -1)
  total, _ = lax.scan(step, jnp.zeros_like(x[..., :length]), each)
  return total
