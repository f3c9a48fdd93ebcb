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

from jaxrank._core._jax import is_traced

Gain = Callable[[Array], Array]
Discount = Callable[[Array], Array]
Cutoff = int | Array | None

# How the values of many queries become one: "exp_mean" is the geometric mean of logarithms.
Aggregation = Literal["mean", "sum", "exp_mean"]

_Class = TypeVar("_Class", bound=type)

# Ranks and counts are 32-bit integers.
LARGEST = int(np.iinfo(np.int32).max)

# Messages show so many characters of a value.
_SHOWN = 80


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

  Instances that a dataclass compares by its fields are equal if their static fields and the values
  of their leaves are, which may be arrays.
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
    own: Any = cls
    if own.__eq__ is not object.__eq__:
      own.__eq__ = _equal
    return cls

  return register


def _equal(x: Any, y: object) -> Any:
  """Whether two instances of a pytree are equal."""
  if type(x) is not type(y):
    return NotImplemented
  trees: list[Any] = [jax.tree.structure(x), jax.tree.structure(y)]
  if trees[0] != trees[1]:
    return False
  return all(map(_same, jax.tree.leaves(x), jax.tree.leaves(y)))


def _same(x: Any, y: Any) -> bool:
  """Whether two leaves are equal, NaN included."""
  known = np.shape(x) == np.shape(y)
  return x is y or (known and bool(np.all((x == y) | ((x != x) & (y != y)))))


def vector(name: str, values: ArrayLike, meaning: str) -> Array:
  """Numbers `[n]` as an array of JAX; those of the host as floats, for integers of any size.

  Raises:
    TypeError: if they are not numbers.
    ValueError: if they are no vector; the messages have their meaning.
  """
  entries = values if isinstance(values, list | tuple) else [values]
  host = not any(isinstance(x, Array) for x in entries)
  try:
    if host and np.asarray(values).dtype.kind in "cmMSU":
      raise TypeError
    numbers = jnp.asarray(np.asarray(values, np.float64) if host else values)
  except (TypeError, ValueError, RuntimeError):
    raise TypeError(f"{name} must be numbers, {meaning}, got {told(values)}.") from None
  if numbers.ndim != 1 or numbers.size == 0:
    raise ValueError(f"{name} must be a vector, {meaning}, got {numbers.shape}.")
  return numbers


def number(name: str, x: ArrayLike) -> ArrayLike:
  """`x`, a number or an array of numbers that `vmap` may map over; raises `TypeError` otherwise."""
  if not isinstance(x, int | float | np.ndarray | np.generic | Array) or isinstance(x, bool):
    raise TypeError(f"{name} must be a number, got {told(x)}.")
  return x


def looked_up(table: Array, index: Array) -> Array:
  """`table[index]`, laid out over devices as the indices are."""
  entries: Array = table.at[index].get(out_sharding=jax.typeof(index).sharding)
  return entries


def between(table: Array, place: Array) -> Array:
  """`table[place]` at places that need not be whole: linear between two entries.

  A place before the first entry has the first one, and a place behind the last one has the last.
  """
  last = table.shape[0] - 1
  low = jnp.where(place > 0, jnp.minimum(jnp.floor(place), last), 0)
  # NaN is in no range, and stays.
  further = jnp.where((place < 0) | (place >= last), 0, place - low)
  at, then = (looked_up(table, jnp.minimum(x, last).astype(jnp.int32)) for x in (low, low + 1))
  return at + further * (then - at)


def told(x: Any) -> str:
  """What came as an argument, for messages: in few words, and on one line."""
  kind = type(x).__name__
  if is_traced(x):
    return f"a traced array {x.dtype}[{','.join(map(str, x.shape))}]"
  if isinstance(x, type):
    return f"the class {x.__name__}"
  if hasattr(x, "columns"):
    return f"a {kind}"
  if getattr(x, "shape", ()) and hasattr(x, "dtype"):
    return f"an array {x.dtype}[{','.join(map(str, x.shape))}]"
  if callable(x) and hasattr(x, "__name__"):
    return f"the function {x.__name__}"
  text = " ".join(repr(x).split())
  return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... (a {kind})"


def count(name: str, x: Any, least: int = 1, most: int | None = LARGEST) -> int:
  """Checks a static number of things, from `least` to `most`, and returns it as an int."""
  try:
    n = None if isinstance(x, bool | np.bool_) else operator.index(x)
  except TypeError:
    n = None
  if n is None:
    raise TypeError(f"{name} must be an int, known at trace time, got {told(x)}.")
  if n < least:
    raise ValueError(f"{name} must be at least {least}, got {n}.")
  if most is not None and n > most:
    raise ValueError(f"{name} must be at most {most}, got {n}.")
  return n
