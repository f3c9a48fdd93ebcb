"""Checks of arguments at trace time, by their shapes, dtypes and static values.

Messages start with the name of an argument; `named` puts the name of the function in front.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import count as count
from jaxrank._core.errors import AdvisedError

# Ranks are 32-bit integers.
_LARGEST = np.iinfo(np.int32).max


@contextlib.contextmanager
def named(function: str) -> Iterator[None]:
  """Puts the name of a function in front of the messages of checks inside.

  Subclasses such as `UnansweredError`, which name the metric themselves, pass unchanged.
  """
  try:
    yield
  except AdvisedError as error:
    raise AdvisedError(f"{function}: {error.fault}", error.advice, error.about) from None
  except (TypeError, ValueError) as error:
    if type(error) not in (TypeError, ValueError):
      raise
    raise type(error)(f"{function}: {error}") from None


def lists(
  scores: Any, labels: Any, where: Any, subtopics: bool = False
) -> tuple[Array, Array, Array]:
  """Scores, labels and mask as arrays `[..., n]`; labels are `[..., n, s]` with `subtopics`.

  Raises:
    TypeError: if a dtype cannot be ranked, the mask is not boolean, or scores and labels look
      swapped.
    ValueError: if shapes differ, or the scores are a scalar.
  """
  scores, labels = array("scores", scores), array("labels", labels)
  if scores.ndim == 0:
    raise ValueError("scores must have shape [..., candidates], got a scalar; pass a list.")
  if not subtopics:
    same_shape("scores", scores, "labels", labels)
  elif labels.shape[:-1] != scores.shape or labels.ndim == scores.ndim:
    raise ValueError(
      f"labels must have shape [..., candidates, subtopics], with scores of shape {scores.shape}, "
      f"got {labels.shape}; for one subtopic pass labels[..., None]."
    )
  discrete = not jnp.issubdtype(scores.dtype, jnp.floating)
  if discrete and jnp.issubdtype(labels.dtype, jnp.floating):
    raise TypeError(
      f"scores are {scores.dtype} and labels are {labels.dtype}: these look swapped. The order is "
      "(scores, labels); if that is intended, convert the scores to float."
    )
  return scores, labels, mask(where, scores)


def no_labels(scores: Any) -> Array:
  """Labels of a function that takes none, laid out over devices as the scores are."""
  return jnp.zeros_like(array("scores", scores), bool)


def not_split(scores: Array) -> None:
  """Raises `ValueError` if an Explicit mesh splits the lists, which then cannot be sorted."""
  spec = jax.typeof(scores).sharding.spec
  if len(spec) == scores.ndim and spec[-1] is not None:
    raise ValueError(
      f"the candidates of a query are split over {spec[-1]!r}: rank them with "
      f"jaxrank.Sharded({spec[-1]!r}) inside shard_map, or split over queries alone, with "
      "jax.sharding.reshard(scores, jax.P(axis))."
    )


def mask(where: Any, like: Array) -> Array:
  """A boolean mask of the shape of `like`; all True for None."""
  if where is None:
    return jnp.ones_like(like, bool)
  return boolean("where", where, like, "False on padding")


def boolean(name: str, x: Any, like: Array, meaning: str) -> Array:
  """`x` as a boolean array of the shape of `like`; `meaning` explains it in messages."""
  chosen = array(name, x)
  if chosen.dtype != jnp.bool_:
    raise TypeError(
      f"{name} must be boolean, {meaning}, got {chosen.dtype}; pass `{name} > 0` or "
      f"`{name}.astype(bool)`."
    )
  same_shape(name, chosen, "the values", like)
  return chosen


def array(name: str, x: Any) -> Array:
  """`x` as an array of real numbers, integers or booleans, in the dtypes of JAX.

  Raises:
    TypeError: if it is no array of numbers.
    ValueError: if its rows differ in length, or integers do not fit in the dtypes of JAX.
  """
  # An array is taken as it is: a copy of NaN under the mask is an error under `jax.debug_nans`.
  numbers = x if isinstance(x, Array) else _converted(name, x)
  real(name, numbers.dtype)
  return numbers


def _converted(name: str, x: Any) -> Array:
  check_container(name, x)
  try:
    return jnp.asarray(on_host(x))
  except OverflowError as error:
    raise _too_large(name, error) from None
  except (TypeError, ValueError, RuntimeError) as error:
    got = f"{x.dtype} array" if hasattr(x, "dtype") else type(x).__name__
    first = str(error).split("\n")[0]
    if "inhomogeneous" in first:
      raise ValueError(
        f"{name} must have rows of one length, got a {got} of rows that differ; pad them, and pass "
        "where=, which is False on padding: jaxrank.pad takes flat rows with the ids of queries."
      ) from None
    raise TypeError(f"{name} must be a numeric array, got {got}: {first}") from None


def fits(name: str, x: Any) -> None:
  """Raises `ValueError` for an array of NumPy with integers that do not fit the dtypes of JAX."""
  try:
    on_host(x if isinstance(x, np.ndarray) else 0)
  except OverflowError as error:
    raise _too_large(name, error) from None


def _too_large(name: str, error: OverflowError) -> ValueError:
  got = error if str(error).lstrip("-").isdigit() else "larger ones"
  bits = 8 * jax.dtypes.canonicalize_dtype(np.int64).itemsize
  return ValueError(
    f"{name} must be integers of up to {bits} bits, got {got}: pass floats, enable 64 bits with "
    "jax.config.update('jax_enable_x64', True), or, where only the order counts, pass ranks: "
    "np.unique(x, return_inverse=True)[1]."
  )


def on_host(x: Any) -> Any:
  """What NumPy can read, as its array; raises `OverflowError` where JAX would drop high bits."""
  if isinstance(x, int | float) or hasattr(x, "__jax_array__"):
    return x
  try:
    host = np.asarray(x)
  except (TypeError, RuntimeError):
    # A list of traced arrays.
    return x
  if host.dtype.kind in "OSU":
    return x
  kept = jax.dtypes.canonicalize_dtype(host.dtype) if host.dtype.kind in "iu" else host.dtype
  if kept != host.dtype and host.size:
    for value in (host.min(), host.max()):
      if not np.iinfo(kept).min <= value <= np.iinfo(kept).max:
        raise OverflowError(value)
  return host


def cell(index: Iterable[Any]) -> str:
  """The name of an item in messages, by its place in an array `[..., n]`."""
  *query, item = map(int, index)
  which = query[0] if len(query) == 1 else tuple(query)
  return f"query {which}, item {item}" if query else f"item {item}"


def check_container(name: str, x: Any) -> None:
  """Raises `TypeError` for what holds numbers and is no array; the message has the conversion."""
  kind = type(x).__name__
  if hasattr(x, "columns") and hasattr(x, "shape"):
    raise TypeError(
      f"{name} must be an array, got a {kind}: jaxrank.pad takes its columns, such as "
      'frame["score"], and jaxrank.trec.evaluate takes frames of judgements and of a run.'
    )
  if hasattr(x, "tocsr"):
    raise TypeError(
      f"{name} must be an array, got a sparse {kind}: pass {name}.toarray(), and where= if cells "
      "without an entry are no candidates."
    )
  if getattr(x, "requires_grad", False):
    raise TypeError(
      f"{name} must be an array, got a {kind} that requires a gradient: pass {name}.detach()."
    )
  if str(getattr(x, "dtype", "")) == "torch.bfloat16":
    raise TypeError(
      f"{name} must be an array, got a {kind} of bfloat16, which NumPy does not have: pass "
      f"{name}.float()."
    )


def size(x: Any) -> int:
  """How many numbers are in what is passed as an array; 0 if `array` refuses it."""
  try:
    return math.prod(np.shape(x))
  except (TypeError, ValueError):
    return 0


def real(name: str, dtype: Any) -> None:
  """Raises `TypeError` unless a dtype is real, integer or boolean."""
  kinds = (jnp.floating, jnp.integer, jnp.bool_)
  if not any(jnp.issubdtype(dtype, kind) for kind in kinds):
    raise TypeError(f"{name} must be real, integer or boolean, got {dtype}.")


def same_shape(name: str, x: Array, other: str, y: Array) -> None:
  """Raises `ValueError` if the shapes differ; the message has both."""
  if x.shape != y.shape:
    raise ValueError(f"{name} and {other} must have one shape, got {x.shape} and {y.shape}.")


def cutoff(k: Any, name: str = "k") -> int | Array | None:
  """Checks a rank cut-off, and returns it as a positive int, a traced integer scalar, or None."""
  if k is None:
    return None
  if isinstance(k, bool | np.bool_ | float | str):
    raise TypeError(f"{name} must be a positive integer or None, got {k!r}.")
  if isinstance(k, int | np.integer):
    if k < 1:
      raise ValueError(f"{name} must be at least 1, got {k}; pass None for the whole list.")
    if k > _LARGEST:
      raise ValueError(f"{name} must be at most {_LARGEST}, got {k}; pass None for the whole list.")
    return int(k)
  k = array(name, k)
  if not jnp.issubdtype(k.dtype, jnp.integer) or k.ndim:
    raise TypeError(f"{name} must be an integer scalar, got {k.dtype}{list(k.shape)}; use vmap.")
  if not isinstance(k, jax.core.Tracer):
    return cutoff(int(k), name)
  return k


def prng_key(key: Any) -> Array:
  """Checks that a key is an array; JAX checks its dtype when it is used."""
  if not isinstance(key, Array):
    raise TypeError(f"key must be a PRNG key such as jax.random.key(0), got {key!r}.")
  return key


def true_or_false(name: str, value: Any) -> None:
  """Raises `TypeError` unless `value` is True or False."""
  if not isinstance(value, bool | np.bool_):
    raise TypeError(f"{name} must be True or False, got {value!r}.")


def function(name: str, x: Any, meaning: str) -> None:
  """Raises `TypeError` unless `x` is callable and no class."""
  if not callable(x) or isinstance(x, type):
    raise TypeError(f"{name} must be {meaning}, got {x!r}.")


def axis(name: Any) -> None:
  """Raises `ValueError` outside of a `shard_map` over a mesh axis, or several."""
  try:
    lax.axis_size(name)
  except NameError:
    raise ValueError(
      f"{name!r} is no mesh axis here; it is one inside shard_map only: call this from a function "
      "that shard_map maps over it."
    ) from None


def axes_of(axis: str | tuple[str, ...]) -> set[str]:
  """The names of mesh axes as a set."""
  return {axis} if isinstance(axis, str) else set(axis)


def varying(x: Any) -> frozenset[str]:
  """The mesh axes along which an array may differ between devices, by its type."""
  axes: frozenset[str] = jax.typeof(x).manual_axis_type.varying
  return axes


def reduced(x: Any, axis: str | tuple[str, ...]) -> bool:
  """Whether an array is the same along a mesh axis inside shard_map, as far as JAX can tell."""
  axes = axes_of(axis)
  # With check_vma=False, shard_map does not track what varies.
  return axes <= varying(lax.axis_index(axis)) and not axes <= varying(x)


def same_on_devices(name: str, x: Any, axis: str | tuple[str, ...]) -> None:
  """Raises `ValueError` if an array may differ along the mesh axes."""
  if any(axes_of(axis) & varying(leaf) for leaf in jax.tree.leaves(x)):
    raise ValueError(
      f"{name} must be the same on all devices along {axis!r}, which candidates are spread over: "
      "leave that axis out of its entry in the in_specs of shard_map."
    )


def choice(name: str, value: Any, allowed: Iterable[str]) -> None:
  """Raises `ValueError` unless `value` is one of `allowed`."""
  allowed = list(allowed)
  if value not in allowed:
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def positive(name: str, value: ArrayLike) -> None:
  """Raises `ValueError` if a number that is no array of JAX is not positive."""
  if not _known(value, 1) > 0:
    raise ValueError(f"{name} must be positive, got {value}.")


def positive_number(name: str, value: Any) -> None:
  """Raises unless `value` is a positive number or a scalar of JAX."""
  number(name, value)
  positive(name, value)


def number(name: str, value: Any) -> None:
  """Raises `TypeError` unless `value` is a real number or a scalar array of one."""
  array = isinstance(value, np.ndarray | np.generic | Array)
  if isinstance(value, bool) or not (array or isinstance(value, int | float)):
    raise TypeError(f"{name} must be a number, got {value!r}.")
  if array and value.ndim:
    raise TypeError(f"{name} must be a scalar, got {value.dtype}{list(value.shape)}; use vmap.")
  if array and not any(jnp.issubdtype(value.dtype, kind) for kind in (jnp.floating, jnp.integer)):
    raise TypeError(f"{name} must be a number, got {value.dtype}.")


def _known(value: Any, unknown: float) -> Any:
  """The value of a number; `unknown` for an array of JAX, which may be traced, or not ready yet."""
  return unknown if isinstance(value, Array) else value


def threshold(name: str, value: Any) -> None:
  """Raises `TypeError` unless `value` is a number, a scalar array, None, or a label of True."""
  if value is not None and not isinstance(value, bool | np.bool_):
    number(name, value)


def nonnegative(name: str, value: Any) -> None:
  """Raises unless `value` is a number of at least 0, or a scalar of JAX."""
  number(name, value)
  if not _known(value, 0) >= 0:
    raise ValueError(f"{name} must be at least 0, got {value}.")


def best_grade(name: str, value: Any) -> None:
  """Raises unless `value` can be the best grade of labels: a number from 0, or a scalar of JAX."""
  if value is None:
    raise TypeError(
      f"{name} must be the best grade that labels can have, such as 4, got None: with the best "
      "grade of each query instead, values of different queries could not be compared."
    )
  nonnegative(name, value)


def unit_interval(name: str, value: ArrayLike) -> None:
  """Raises unless `value` is a number in [0, 1], or a scalar of JAX."""
  number(name, value)
  if not 0 <= _known(value, 0) <= 1:
    raise ValueError(f"{name} must be in [0, 1], got {value}.")
