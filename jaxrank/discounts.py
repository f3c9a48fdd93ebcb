"""Discounts: functions from ranks to weights, for `jaxrank.dcg` and other metrics.

A discount is a function of ranks, which start from 1 and are real numbers under `Laplace` and
`Logistic`. Cut-offs are the argument `k` of the metrics, never part of a discount.

`Gumbel` and `Gaussian` are faster for a discount that is a sum of exponentials: its attribute
`terms(n, digits)` returns weights `w` and bases `t` such that, to about this many digits,
`discount(r) = sum_m w_m t_m ** (r - 1)` for the ranks 1 ... n; `digits` need not be whole. A
discount may have a `depth` instead, the last rank at which it is not 0. Its attribute `reference`,
if it has one, is the same function of whole ranks in NumPy: accelerators average it over ties from
tables.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Discount, between, number, pytree, vector

__all__ = [
  "Affine",
  "Geometric",
  "InverseSquare",
  "Table",
  "Terms",
  "affine",
  "constant",
  "geometric",
  "inverse_square",
  "logarithmic",
  "reciprocal",
  "table",
]

_Discount = TypeVar("_Discount", bound=Discount)


class Terms(NamedTuple):
  """Weights `[terms]` and bases `[terms]` of a sum of exponentials."""

  weights: Any
  bases: Any


def _with_terms(terms: Callable[..., Terms]) -> Callable[[_Discount], _Discount]:
  def attach(discount: _Discount) -> _Discount:
    function: Any = discount
    function.terms = terms
    return discount

  return attach


def _fitted(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[_Discount], _Discount]:
  """Gives a discount its `reference`, and the terms of a least squares fit to it.

  The rates are 0 and a geometric sequence from 0.8 / n to 4.5 (1.2 / n to 2.7 below four digits),
  `(digits - 1) (1 + log10 n)` in all. The weights minimise the sum of squared relative errors at up
  to 464 ranks from 1 to n:
  docs/mathematics.md, "Discounts as sums of exponentials".
  """

  @functools.lru_cache(maxsize=256)
  def terms(n: int, digits: float = 5) -> Terms:
    size = min(n, math.ceil((digits - 1) * (1 + math.log10(n))))
    slowest, fastest = (0.8, 4.5) if digits >= 4 else (1.2, 2.7)
    rate = np.zeros(size)
    rate[1:] = np.geomspace(slowest / n, fastest, max(size - 1, 1))[: size - 1]
    rank = np.concatenate([np.arange(1, min(n, 64) + 1), np.round(np.geomspace(1, n, 400))])
    rank = np.unique(rank)
    matrix = np.exp(-np.outer(rank - 1, rate)) / function(rank)[:, None]
    weights = np.linalg.lstsq(matrix, np.ones(rank.size), rcond=1e-15)[0]
    return Terms(weights, np.exp(-rate))

  def attach(discount: _Discount) -> _Discount:
    also: Any = _with_terms(terms)(discount)
    also.reference = function
    return discount

  return attach


@_fitted(lambda rank: math.log(2.0) / np.log1p(rank))
def logarithmic(rank: Array) -> Array:
  """`1 / log2(1 + r)` (Jarvelin and Kekalainen, 2002).

  >>> print(logarithmic(jnp.array([1.0, 3.0, 7.0])))
  [1.         0.5        0.33333334]
  """
  return math.log(2.0) / jnp.log1p(rank)


@_fitted(lambda rank: 1 / rank)
def reciprocal(rank: Array) -> Array:
  """`1 / r`.

  >>> print(reciprocal(jnp.array([1.0, 2.0, 4.0])))
  [1.   0.5  0.25]
  """
  return 1 / rank


@_with_terms(lambda n, digits=5: Terms(np.ones(1), np.ones(1)))
def constant(rank: Array) -> Array:
  """1 at every rank.

  >>> print(constant(jnp.array([1.0, 2.0])))
  [1. 1.]
  """
  return jnp.ones_like(rank)


def geometric(persistence: ArrayLike) -> Discount:
  """`persistence ** (r - 1)` (Moffat and Zobel, 2008).

  >>> print(geometric(0.5)(jnp.array([1.0, 2.0, 3.0])))
  [1.   0.5  0.25]

  Args:
    persistence: The probability of going on to the next rank, in [0, 1]; may be traced.

  Returns:
    A discount, itself a pytree whose leaf is `persistence`.
  """
  return Geometric(number("discounts.geometric: persistence", persistence))


def inverse_square(target: ArrayLike) -> Discount:
  """`(2 T / (2 T + r - 1)) ** 2` for a target `T` (Moffat, Scholer and Thomas, 2012).

  >>> print(inverse_square(1.0)(jnp.array([1.0, 3.0, 7.0])))
  [1.     0.25   0.0625]

  Args:
    target: The gain that a user wants, positive; may be traced.

  Returns:
    A discount, itself a pytree whose leaf is `target`.
  """
  return InverseSquare(number("discounts.inverse_square: target", target))


def affine(first: ArrayLike, step: ArrayLike) -> Discount:
  """`first + step * (r - 1)`: with `affine(0.0, 1.0)`, the number of items ahead.

  >>> print(affine(1.0, -0.25)(jnp.array([1.0, 2.0, 5.0])))
  [1.   0.75 0.  ]

  Args:
    first: The discount of rank 1; may be traced.
    step: What each further rank adds; may be traced.

  Returns:
    A discount, itself a pytree whose leaves are `first` and `step`.
  """
  return Affine(number("discounts.affine: first", first), number("discounts.affine: step", step))


def table(values: ArrayLike) -> Discount:
  """`values[r - 1]`, interpolated linearly between whole ranks, and 0 past the last value.

  >>> print(table([1.0, 0.5])(jnp.array([1.0, 1.5, 2.0, 3.0])))
  [1.   0.75 0.5  0.  ]

  Args:
    values: `[depth]`, the discounts of the ranks 1, 2, ...; may be traced.

  Returns:
    A discount, itself a pytree whose leaf is `values`.

  Raises:
    ValueError: if `values` is not a vector.
    TypeError: if `values` are not numbers.
  """
  return Table(vector("discounts.table: values", values, "those of ranks 1, 2, ..."))


@pytree("persistence")
@dataclasses.dataclass(frozen=True, eq=False)
class Geometric:
  """The discount that `geometric` returns."""

  persistence: ArrayLike

  def __call__(self, rank: Array) -> Array:
    """`persistence ** (r - 1)`."""
    return jnp.asarray(self.persistence, rank.dtype) ** (rank - 1)

  def terms(self, n: int, digits: int = 5) -> Terms:
    """One exponential, which is exact."""
    return Terms(np.ones(1), jnp.asarray(self.persistence).reshape(1))


@pytree("target")
@dataclasses.dataclass(frozen=True, eq=False)
class InverseSquare:
  """The discount that `inverse_square` returns."""

  target: ArrayLike

  def __call__(self, rank: Array) -> Array:
    """`(2 target / (2 target + r - 1)) ** 2`."""
    start = 2 * jnp.asarray(self.target, rank.dtype)
    return jnp.square(start / (start + rank - 1))


@pytree("first", "step")
@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
  """The discount that `affine` returns."""

  first: ArrayLike
  step: ArrayLike

  def __call__(self, rank: Array) -> Array:
    """`first + step * (r - 1)`."""
    first, step = (jnp.asarray(x, rank.dtype) for x in (self.first, self.step))
    return first + step * (rank - 1)


@pytree("values")
@dataclasses.dataclass(frozen=True, eq=False)
class Table:
  """The discount that `table` returns."""

  values: Array

  @property
  def depth(self) -> int:
    """The last rank with a discount."""
    return self.values.shape[0]

  def __call__(self, rank: Array) -> Array:
    """`values[r - 1]`, interpolated between whole ranks, and `values[0]` before the first."""
    return between(jnp.append(self.values.astype(rank.dtype), 0), rank - 1)
