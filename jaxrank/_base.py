"""Types that all modules share, pytrees, and what gains, discounts and config need as well."""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

Gain = Callable[[Array], Array]
Discount = Callable[[Array], Array]
Cutoff = int | Array | None

# How the values of many queries become one: "exp_mean" is the geometric mean of logarithms.
Aggregation = Literal["mean", "sum", "exp_mean"]

_Class = TypeVar("_Class", bound=type)


class Pairs(NamedTuple):
  """Numbers of pairs of valid items, as floats.

  Attributes:
    concordant: Pairs that scores and labels order alike.
    discordant: Pairs that scores and labels order in opposite ways.
    different_scores: Pairs with two different scores.
    different_labels: Pairs with two different labels.
  """

  concordant: Array
  discordant: Array
  different_scores: Array
  different_labels: Array


def pytree(*leaves: str) -> Callable[[_Class], _Class]:
  """Registers a frozen dataclass as a pytree with some of its fields as leaves.

  The tree structure contains the class. That of `jax.tree_util.register_dataclass` does not, up to
  jax 0.12 at least: two classes with equal other fields have equal structures there, and `jit` may
  run for one of them the program that it compiled for the other.
  """

  def register(cls: _Class) -> _Class:
    names = (field.name for field in dataclasses.fields(cls))
    static = [name for name in names if name not in leaves]

    def flatten(x: Any) -> Any:
      children = [(jax.tree_util.GetAttrKey(name), getattr(x, name)) for name in leaves]
      return children, (cls, *(getattr(x, name) for name in static))

    def unflatten(known: Any, children: Any) -> Any:
      # Not through `__init__`, because placeholders for leaves need not pass its checks.
      x: Any = object.__new__(cls)
      values = zip((*leaves, *static), (*children, *known[1:]), strict=True)
      for name, value in values:
        object.__setattr__(x, name, value)
      return x

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls

  return register


def vector(values: ArrayLike) -> Array:
  """Numbers as an array of JAX; those of the host as floats, which hold integers of any size."""
  host = not any(isinstance(x, Array) for x in jax.tree.leaves(values))
  return jnp.asarray(np.asarray(values, np.float64) if host else values)


def looked_up(table: Array, index: Array) -> Array:
  """`table[index]`, laid out over devices as the indices are."""
  found: Array = table.at[index].get(out_sharding=jax.typeof(index).sharding)
  return found


def count(name: str, x: Any, least: int = 1) -> int:
  """Checks a static number of things, `least` or more, and returns it as an int."""
  try:
    n = None if isinstance(x, bool | np.bool_) else operator.index(x)
  except TypeError:
    n = None
  if n is None:
    raise TypeError(f"{name} must be an int, known at trace time, got {x!r}.")
  if n < least:
    raise ValueError(f"{name} must be at least {least}, got {n}.")
  return n
