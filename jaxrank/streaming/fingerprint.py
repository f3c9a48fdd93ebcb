"""The fingerprint of an evaluator, by which a saved state tells whose queries it holds.

Files of arrays, such as npz and the checkpoints of orbax, keep the numbers of a state and not the
names of its measures, so that a state has a number that stands for them. It does not depend on the
process: neither on Python's hashes, nor on the modules of functions.
"""

import dataclasses
import decimal
import functools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._core._jax import is_traced
from jaxrank.measures.measure import Measure

# The fingerprint of an evaluator with a traced number, and that of a state of two evaluators.
_UNKNOWN, _SEVERAL = 0, 2**32 - 1

_NUMBERS = (bool, int, float, decimal.Decimal, np.generic, np.ndarray, Array)


def of(*settings: Any) -> int:
  """The fingerprint of settings: of equal names, numbers to single precision, and functions' names.

  It is unknown where a number is traced, or lies on the devices of another process.
  """
  found = 0
  try:
    for word in _words(settings):
      found = zlib.crc32(word, found)
  except (jax.errors.TracerArrayConversionError, RuntimeError):
    return _UNKNOWN
  return found % (_SEVERAL - 1) + 1


def _words(x: Any) -> Iterator[bytes]:
  """What a value consists of, with the length of each collection in front of it."""
  if isinstance(x, str):
    yield f"{len(x)} {x}".encode()
  elif isinstance(x, Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
    yield b"key"
  elif isinstance(x, _NUMBERS):
    with np.errstate(all="ignore"), jax.transfer_guard_device_to_host("allow"):
      numbers = np.asarray(x).astype("<f4")
    yield str(numbers.shape).encode()
    yield numbers.tobytes()
  elif isinstance(x, Measure):
    yield from _words((x.description.name, x.name, x.parameters))
  elif isinstance(x, Mapping):
    yield from _words(sorted(x.items(), key=lambda item: str(item[0])))
  elif isinstance(x, list | tuple):
    yield f"{len(x)} of".encode()
    for part in x:
      yield from _words(part)
  elif isinstance(x, functools.partial):
    yield from _words((x.func, x.args, x.keywords))
  elif dataclasses.is_dataclass(x) and not isinstance(x, type):
    fields = [getattr(x, field.name) for field in dataclasses.fields(x)]
    yield from _words((type(x).__name__, fields))
  else:
    parts = jax.tree.leaves(x)
    inside = parts if parts and parts[0] is not x else []
    yield from _words((getattr(x, "__name__", type(x).__name__), inside))


def merged(a: Array, b: Array) -> Array:
  """The fingerprint of the queries of two states."""
  alike = (a == b) | (a == _UNKNOWN) | (b == _UNKNOWN)
  return jnp.where(alike, jnp.maximum(a, b), jnp.uint32(_SEVERAL))


def check(found: Any, expected: int, names: tuple[str, ...], *, wait: bool) -> None:
  """Raises `ValueError` for a fingerprint that is not the expected one, as far as it is known.

  Args:
    found: The fingerprint of a state.
    expected: That of the evaluator.
    names: The names of the measures of the evaluator.
    wait: Whether to wait for the state, as where it is read; the next step does not wait for it.
  """
  if is_traced(found) or not (wait or _is_there(found)):
    return
  with jax.transfer_guard_device_to_host("allow"):
    numbers = np.asarray(found)
  if expected != _UNKNOWN and ((numbers != expected) & (numbers != _UNKNOWN)).any():
    raise ValueError(
      "the state is of another evaluator, or merged with such a state: the measures, their "
      "parameters, the ranking, empty= or groups= were not those of this evaluator of "
      f"{', '.join(names)}; use the evaluator that made the state."
    )


def _is_there(x: Any) -> bool:
  of_jax = isinstance(x, Array)
  return not of_jax or bool(x.is_fully_addressable and x.is_ready())
