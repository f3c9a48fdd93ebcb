"""Checks of arguments at trace time, by their shapes, dtypes and static values, and their messages.

Messages start with the name of an argument; `named` puts the name of the function in front. What
holds numbers and is no array (frames, sparse matrices, masked arrays, tensors of torch) is refused
with the conversion to write.
"""

import contextlib
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import _base
from jaxrank._base import LARGEST
from jaxrank._base import count as count
from jaxrank._base import told as told
from jaxrank._core._jax import is_traced, varying
from jaxrank._errors import AdvisedError


def check(name: str, x: Any) -> None:
  """Raises `TypeError` for what holds numbers and is no array, alone or in a list.

  The message has the conversion.
  """
  if hasattr(x, "columns") and hasattr(x, "shape"):
    raise TypeError(
      f"{name} must be an array, got a {type(x).__name__}: pass {name}.to_numpy() if a row is a "
      'query, or its columns to jaxrank.pad, such as frame["score"]; jaxrank.trec.evaluate takes '
      "frames of judgements and of a run."
    )
  _check_conversion(name, x, name, "")


def _check_conversion(name: str, x: Any, it: str, of: str) -> None:
  """Raises `TypeError` for what NumPy cannot read, alone or in a list; `it` is its name there."""
  if isinstance(x, list | tuple):
    for entry in x:
      if not isinstance(entry, int | float | np.generic | str):
        _check_conversion(name, entry, "x", f" for each x in {name}")
  elif found := _conversion(x, it):
    got, write = found
    raise TypeError(f"{name} must be an array, got {got}: pass {write}{of}.")


def _conversion(x: Any, it: str) -> tuple[str, str] | None:
  """What `x` is that holds numbers and is no array for NumPy, and its conversion."""
  kind = type(x).__name__
  if hasattr(x, "tocsr") or hasattr(x, "todense"):
    dense = "toarray" if hasattr(x, "tocsr") else "todense"
    write = f"{it}.{dense}(), and where= if cells without an entry are no candidates"
    return f"a sparse {kind}", write
  if isinstance(x, np.ma.MaskedArray):
    write = f"{it}.filled(0), and where=~np.ma.getmaskarray({it})"
    return f"a {kind}, whose mask would be lost", write
  if not hasattr(x, "requires_grad"):
    return None
  if getattr(x, "is_meta", False):
    return f"a {kind} of the device meta, which has no values", f"{it} of the CPU or a GPU"
  if x.requires_grad:
    return f"a {kind} that requires a gradient", f"{it}.detach()"
  if getattr(x, "is_nested", False):
    write = f"{it}.to_padded_tensor(0.0), and where=, which is False on padding"
    return f"a nested {kind}", write
  if str(getattr(x, "layout", "torch.strided")) != "torch.strided":
    return f"a sparse {kind}", f"{it}.to_dense()"
  if str(x.dtype).startswith(("torch.bfloat16", "torch.float8")):
    return f"a {kind} of {x.dtype}, which NumPy does not have", f"{it}.float()"
  return None


_Function = TypeVar("_Function", bound=Callable[..., Any])


@contextlib.contextmanager
def named(function: str) -> Iterator[None]:
  """Puts the name of a function in front of the messages of checks inside, unless it is there.

  Subclasses such as `UnansweredError`, which name the metric themselves, pass unchanged.
  """
  try:
    yield
  except AdvisedError as error:
    raise AdvisedError(f"{function}: {error.fault}", error.advice, error.about) from None
  except (TypeError, ValueError) as error:
    if type(error) not in (TypeError, ValueError) or str(error).startswith(f"{function}:"):
      raise
    raise type(error)(f"{function}: {error}") from None


def written(usage: str) -> Callable[[_Function], _Function]:
  """A decorator: a call with other arguments than the function takes raises an error with `usage`.

  Args:
    usage: What to write instead.

  Returns:
    A decorator.
  """

  def attach(function: _Function) -> _Function:
    signature, name = inspect.signature(function), usage.split("(")[0]

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
      try:
        return function(*args, **given)
      except TypeError:
        try:
          signature.bind(*args, **given)
        except TypeError as error:
          raise TypeError(f"{name}: {error}; write {usage}.") from None
        raise

    return cast(_Function, call)

  return attach


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
  given = x if isinstance(x, Array) else _converted(name, x)
  real(name, given.dtype)
  return given


def on_host(name: str, x: Any) -> np.ndarray:
  """`x` as an array of NumPy of real numbers, integers or booleans, whatever their size.

  Raises:
    TypeError: if it is traced, or no array of numbers.
    ValueError: if its rows differ in length.
  """
  untraced(name, x)
  check(name, x)
  try:
    host = np.asarray(x)
  except (TypeError, ValueError, RuntimeError) as error:
    raise _refused(name, x, error) from None
  if host.dtype.kind in "OSUMm":
    raise _refused(name, x)
  real(name, host.dtype)
  return host


def untraced(name: str, x: Any) -> None:
  """Raises `TypeError` for a traced array, of which a function of the host cannot know values."""
  leaves = jax.tree.leaves(x, is_leaf=lambda leaf: isinstance(leaf, Iterator))
  if any(is_traced(leaf) for leaf in leaves):
    raise TypeError(f"{name} must be known, got a traced array; call it outside of jit.")


def is_known(x: Any) -> bool:
  """Whether this process can read values: they are not traced, and no other process has a part."""
  return not is_traced(x) and getattr(x, "is_fully_addressable", True)


def _converted(name: str, x: Any) -> Array:
  check(name, x)
  try:
    return jnp.asarray(without_loss(x))
  except OverflowError as error:
    raise _too_large(name, error) from None
  except (TypeError, ValueError, RuntimeError) as error:
    raise _refused(name, x, error) from None


def _refused(name: str, x: Any, error: Exception | None = None) -> TypeError | ValueError:
  """The error for what is no array of numbers; `error` is that of its conversion."""
  if "inhomogeneous" in str(error):
    return ValueError(
      f"{name} must have rows of one length, got {told(x)}, whose rows differ; pad them, and pass "
      "where=, which is False on padding: jaxrank.pad takes flat rows with the ids of queries."
    )
  got, write = _no_numbers(name, x)
  return TypeError(f"{name} must be an array of numbers, got {got}; {write}.")


def _no_numbers(name: str, x: Any) -> tuple[str, str]:
  """What came instead of numbers, and what to write."""
  kind = type(x).__name__
  if isinstance(x, Mapping):
    return f"a {kind}", "pass its values in a list; jaxrank.trec.evaluate takes dictionaries"
  if isinstance(x, Iterator | Set):
    return f"a {kind}", f"pass list({name})"
  if hasattr(x, "detach") and hasattr(x, "cpu"):
    on_host = str(getattr(x, "device", "")) == "cpu"
    write = "convert it to an array of NumPy" if on_host else f"pass {name}.cpu()"
    return f"a {kind} that NumPy cannot read", write
  single = x is None or isinstance(x, str | bytes)
  if single or not (isinstance(x, list | tuple) or hasattr(x, "__array__")):
    return told(x), "pass a list or an array"
  kind = "an array" if hasattr(x, "dtype") else f"a {kind}"
  entries: list[Any] = [] if isinstance(x, type) else np.asarray(x, object).ravel().tolist()
  wrong = [entry for entry in entries if not isinstance(entry, numbers.Real)]
  if not wrong:
    return f"{kind} of objects", f"pass np.asarray({name}, float)"
  column = not isinstance(x, list | tuple)
  if column and any(isinstance(entry, list | tuple | np.ndarray) for entry in wrong):
    method = next(way for way in ("tolist", "to_list", "to_pylist") if hasattr(x, way))
    return "a column of lists", f"pass {name}.{method}()"
  if wrong[0] is None:
    return f"{kind} with None", "pass a number, and where= with False there"
  if name == "groups" and isinstance(wrong[0], str | bytes):
    write = "number the names of all queries at once: names, groups = np.unique(groups, "
    return f"{kind} with {told(wrong[0])}", f"{write}return_inverse=True)"
  return f"{kind} with {told(wrong[0])}", "pass numbers"


def fits(name: str, x: Any) -> None:
  """Raises `ValueError` for an array of NumPy with integers that do not fit the dtypes of JAX."""
  try:
    without_loss(x if isinstance(x, np.ndarray) else 0)
  except OverflowError as error:
    raise _too_large(name, error) from None


def _too_large(name: str, error: OverflowError) -> ValueError:
  got = error if str(error).lstrip("-").isdigit() else "larger ones"
  bits = 8 * jax.dtypes.canonicalize_dtype(np.int64).itemsize
  return ValueError(
    f"{name} must be integers of up to {bits} bits, got {got}: pass floats, enable 64 bits with "
    "jax.config.update('jax_enable_x64', True), or, where only the order counts, pass ranks: "
    "np.unique(x, return_inverse=True)[1].astype(float)."
  )


def without_loss(x: Any) -> Any:
  """What NumPy can read, as its array; raises `OverflowError` where JAX would drop high bits."""
  if isinstance(x, int | float) or hasattr(x, "__jax_array__"):
    return x
  try:
    host = np.asarray(x)
  except (TypeError, RuntimeError):
    # A list of traced arrays.
    return x
  if host.dtype.kind in "SU":
    raise TypeError("These are strings.")
  if host.dtype == object:
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


def size(x: Any) -> int:
  """How many numbers are in what is passed as an array; 0 if `array` refuses it."""
  try:
    return math.prod(np.shape(x))
  except (TypeError, ValueError, RuntimeError):
    return 0


def real(name: str, dtype: Any) -> None:
  """Raises `TypeError` unless a dtype is real, integer or boolean."""
  kinds = (jnp.floating, jnp.integer, jnp.bool_)
  if not any(jnp.issubdtype(dtype, kind) for kind in kinds):
    write = "; pass abs(x) or x.real" if jnp.issubdtype(dtype, jnp.complexfloating) else ""
    raise TypeError(f"{name} must be real, integer or boolean, got {dtype}{write}.")


def same_shape(name: str, x: Array, other: str, y: Array) -> None:
  """Raises `ValueError` if the shapes differ; the message has both."""
  if x.shape != y.shape:
    raise ValueError(f"{name} and {other} must have one shape, got {x.shape} and {y.shape}.")


def cutoff(k: Any, name: str = "k") -> int | Array | None:
  """Checks a rank cut-off, and returns it as a positive int, a traced integer scalar, or None."""
  if k is None:
    return None
  if isinstance(k, bool | np.bool_ | float | str):
    raise TypeError(f"{name} must be a positive integer or None, got {told(k)}.")
  if isinstance(k, int | np.integer):
    if k < 1:
      raise ValueError(f"{name} must be at least 1, got {k}; pass None for the whole list.")
    if k > LARGEST:
      raise ValueError(f"{name} must be at most {LARGEST}, got {k}; pass None for the whole list.")
    return int(k)
  given = array(name, k)
  if not jnp.issubdtype(given.dtype, jnp.integer) or given.ndim:
    got = f"{given.dtype}{list(given.shape)}"
    raise TypeError(f"{name} must be an integer scalar, got {got}; use vmap.")
  return given if is_traced(given) else cutoff(int(given), name)


def prng_key(key: Any) -> Array:
  """Checks that a key is a single one: typed, or of 32-bit words as those of jax.random.PRNGKey."""
  keys(key)
  if key.ndim != (0 if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else 1):
    raise TypeError(
      f"key must be one PRNG key such as jax.random.key(0), got {told(key)}; use vmap for several."
    )
  checked: Array = key
  return checked


def keys(key: Any) -> None:
  """Raises `TypeError` unless an argument is an array of PRNG keys, one or several."""
  typed = isinstance(key, Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
  if not typed and not (isinstance(key, Array) and key.dtype == jnp.uint32 and key.ndim):
    seed = key if isinstance(key, int) and not isinstance(key, bool) else 0
    raise TypeError(f"key must be a PRNG key such as jax.random.key({seed}), got {told(key)}.")


def true_or_false(name: str, value: Any) -> None:
  """Raises `TypeError` unless `value` is True or False."""
  if not isinstance(value, bool | np.bool_):
    raise TypeError(f"{name} must be True or False, got {told(value)}.")


def function(name: str, x: Any, meaning: str) -> None:
  """Raises `TypeError` unless `x` is callable and no class."""
  if not callable(x) or isinstance(x, type):
    raise TypeError(f"{name} must be {meaning}, got {told(x)}.")


def axis(name: Any) -> None:
  """Raises unless `name` is a mesh axis of the `shard_map` around, or a tuple of several."""
  axis_name("axis_name", name)
  try:
    lax.axis_size(name)
  except NameError:
    raise ValueError(
      f"{name!r} is no mesh axis here; it is one inside shard_map only: call this from a function "
      "that shard_map maps over it."
    ) from None


def axis_name(name: str, x: Any) -> None:
  """Raises `TypeError` unless `x` is the name of a mesh axis, or a tuple of several."""
  if not isinstance(x, str) and not (
    isinstance(x, tuple) and x and all(isinstance(axis, str) for axis in x)
  ):
    raise TypeError(
      f"{name} must be the name of a mesh axis, such as 'data', or a tuple of names, got {told(x)}."
    )


def axes_of(axis: str | tuple[str, ...]) -> set[str]:
  """The names of mesh axes as a set."""
  return {axis} if isinstance(axis, str) else set(axis)


def tracked(axis: str | tuple[str, ...]) -> bool:
  """Whether JAX tracks what varies along mesh axes: not in pmap, or with check_vma=False."""
  return axes_of(axis) <= varying(lax.axis_index(axis))


def reduced(x: Any, axis: str | tuple[str, ...]) -> bool:
  """Whether an array is the same along a mesh axis inside shard_map, as far as JAX can tell."""
  return tracked(axis) and not axes_of(axis) <= varying(x)


def same_on_devices(name: str, x: Any, axis: str | tuple[str, ...]) -> None:
  """Raises `ValueError` if an array may differ along the mesh axes."""
  if any(axes_of(axis) & varying(leaf) for leaf in jax.tree.leaves(x)):
    raise ValueError(
      f"{name} must be the same on all devices along {axis!r}, which candidates are spread over: "
      "leave that axis out of its entry in the in_specs of shard_map."
    )


def drawn(name: str, log_q: Any, candidates: Any = True) -> None:
  """Raises `ValueError` if a known logarithm of how often candidates are drawn is -inf."""
  if all(map(is_known, jax.tree.leaves((log_q, candidates)))):
    never = (np.asarray(log_q) == -np.inf) & np.asarray(candidates)
    if never.any():
      raise ValueError(
        f"{name} must be finite, got -inf for {cell(np.argwhere(never)[0])}, the logarithm of a "
        "count of 0, with which the item would outweigh all others: add one to all counts, or clip "
        f"with jnp.maximum({name}, -20)."
      )


def choice(name: str, value: Any, allowed: Iterable[str | None]) -> None:
  """Raises `ValueError` unless `value` is one of `allowed`."""
  allowed = list(allowed)
  if isinstance(value, str | None) and value in allowed:
    return
  # Here, because only an error needs it.
  import difflib

  words = [x for x in allowed if x is not None]
  near = difflib.get_close_matches(value, words, 1) if isinstance(value, str) else []
  advice = f"; did you mean {near[0]!r}?" if near else "."
  raise ValueError(
    f"{name} must be one of {', '.join(map(repr, allowed))}, got {told(value)}{advice}"
  )


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
  _base.number(name, value)
  array = isinstance(value, np.ndarray | np.generic | Array)
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
