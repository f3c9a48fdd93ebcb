"""Gains: functions from labels to gains, for `jaxrank.dcg` and other graded metrics.

Each of these functions clips negative labels, which mean unjudged, to 0.

Programs are compiled for the identity of the function that is passed as a gain. Define a gain of
your own once, at the top of a module: a lambda that is written in the call, as in
`ndcg(scores, labels, gain=lambda y: y**2)`, is a new function at every call, and compiles every
time. `table` and `by_label` are for gains that are data.
"""

import dataclasses
import math
from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Gain, looked_up, pytree, told, vector

__all__ = [
  "binary",
  "by_label",
  "exponential",
  "linear",
  "stop_probability",
  "table",
]

# 2 ** 100 times the length of any list is a finite float32.
_MAX_LABEL = 100


def exponential(labels: Array) -> Array:
  """`2 ** y - 1` (Burges et al., 2005); labels above 100 count as 100.

  NDCG and the other ratios of gains divide it by a power of 2 where a query has larger labels, and
  are those of the labels themselves.

  >>> print(exponential(jnp.array([0.0, 1.0, 3.0, -1.0])))
  [0. 1. 7. 0.]
  """
  return jnp.exp2(jnp.clip(labels, 0, _MAX_LABEL)) - 1


def linear(labels: Array) -> Array:
  """`y` itself (Jarvelin and Kekalainen, 2002).

  >>> print(linear(jnp.array([0.0, 1.0, 3.0, -1.0])))
  [0. 1. 3. 0.]
  """
  return jnp.maximum(labels, 0)


def binary(labels: Array) -> Array:
  """1 for a positive label, 0 otherwise.

  >>> print(binary(jnp.array([0.0, 1.0, 3.0, -1.0])))
  [0. 1. 1. 0.]
  """
  return (labels > 0).astype(labels.dtype)


def table(values: ArrayLike) -> Gain:
  """A gain by table: `values[y]`, for integer labels `y`; fractions are cut off.

  >>> print(table([0.0, 1.0, 5.0])(jnp.array([0.0, 2.0, -1.0, 9.0])))
  [0. 5. 0. 5.]

  Args:
    values: `[grades]`, the gains of the labels 0, 1, 2, ...; larger labels have the last gain. They
      may be traced.

  Returns:
    A gain, itself a pytree whose leaf is `values`.

  Raises:
    ValueError: if `values` is not a vector.
    TypeError: if `values` are not numbers.
  """
  return _Table(vector("gains.table: values", values, "the gains of labels 0, 1, ..."))


@pytree("values")
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Table:
  """The gain that `table` returns."""

  values: Array

  def __call__(self, labels: Array) -> Array:
    """`values[y]` of whole labels `y`."""
    index = jnp.clip(labels, 0, self.values.shape[0] - 1).astype(jnp.int32)
    return looked_up(self.values, index).astype(labels.dtype)

  def __repr__(self) -> str:
    return f"table({self.values!r})"


def by_label(table: Mapping[float, float]) -> Gain:
  """A gain by dictionary; the gain of a label that is not in it is the label itself.

  Equal dictionaries give equal functions, which share compiled programs.

  >>> print(by_label({1: 0, 3: 10})(jnp.array([1.0, 2.0, 3.0])))
  [ 0.  2. 10.]

  Args:
    table: Gains by label, all finite Python numbers of at least 0.

  Returns:
    A gain.

  Raises:
    ValueError: if `table` is no such dictionary.
  """
  numbers = (*table, *table.values()) if isinstance(table, Mapping) else (math.nan,)
  if not all(type(x) in (int, float) and 0 <= x < math.inf for x in numbers):
    raise ValueError(
      "gains.by_label: table must have labels and gains that are numbers of at least 0, like "
      f"{{0: 0, 2: 5}}, got {told(table)}."
    )
  pairs = tuple(sorted((label, gain) for label, gain in table.items() if label != gain))
  return _ByLabel(pairs) if pairs else linear


@dataclasses.dataclass(frozen=True)
class _ByLabel:
  """The gain that `by_label` returns: pairs of labels and gains that differ from them."""

  pairs: tuple[tuple[float, float], ...]

  def __call__(self, labels: Array) -> Array:
    value = linear(labels)
    for label, gain in self.pairs:
      value = jnp.where(labels == label, jnp.asarray(gain, labels.dtype), value)
    return value

  def __repr__(self) -> str:
    return f"by_label({dict(self.pairs)})"


def stop_probability(labels: Array, max_label: ArrayLike) -> Array:
  """`(2 ** y - 1) / 2 ** max_label`: the probability of stopping at an item, as in ERR.

  Labels are clipped to the range from 0 to `max_label` (Chapelle et al., 2009).

  >>> print(stop_probability(jnp.array([0.0, 1.0, 2.0]), 2.0))
  [0.   0.25 0.75]
  """
  y = jnp.clip(labels, 0, max_label)
  return jnp.exp2(y - max_label) - jnp.exp2(-jnp.asarray(max_label, y.dtype))
