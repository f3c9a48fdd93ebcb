"""One program for many functions of the same arguments, whose answers tests look up by name."""

from collections.abc import Callable, Container, Hashable, Mapping
from typing import Any

import jax
import numpy as np

# Tests of one law ask for the same few cases, one name after the other.
_KEPT = 64


class Together:
  """Functions by name, which share one compiled program for each shape of their arguments.

  A program costs tracing, lowering and compiling, and is called for next to nothing: a law that
  changes only arrays costs one program for all functions. The answers are arrays of numpy. A
  function that raises while it is traced raises when its own answer is asked for, so that no other
  name fails.
  """

  def __init__(self, functions: Mapping[Any, Callable[..., Any]]):
    self.functions = dict(functions)
    self._program = jax.jit(self._traced)
    self._answers: dict[Hashable, dict[Any, Any]] = {}

  def __call__(self, name: Any, *args: Any) -> Any:
    """What the function of a name returns."""
    leaves, tree = jax.tree.flatten(args)
    arrays = [np.asarray(x) for x in leaves]
    kind = (tree, *((x.shape, x.dtype) for x in arrays))
    key = (kind, *(x.tobytes() for x in arrays))
    if key not in self._answers:
      while len(self._answers) >= _KEPT:
        del self._answers[next(iter(self._answers))]
      self._answers[key] = jax.tree.map(np.asarray, self._program(*args))
    found = self._answers[key]
    if name not in found:
      self.functions[name](*args)
      raise AssertionError(f"{name} failed beside the others, and not alone")
    return found[name]

  def _traced(self, *args: Any) -> dict[Any, Any]:
    found = {}
    for name, function in self.functions.items():
      try:
        found[name] = function(*args)
      except Exception:  # Its own test calls it again, and sees the error.
        continue
    return found


def apart(
  functions: Mapping[Any, Callable[..., Any]], sooner: Container[Any], most: int = 12
) -> Callable[..., Any]:
  """As `Together`, with programs for the names of quick tests, and others for the others.

  A program has some functions at most, because XLA takes far longer for the largest ones.
  """
  parts: dict[Any, Together] = {}
  for quick in (True, False):
    names = [name for name in functions if (name in sooner) == quick]
    for first in range(0, len(names), most):
      some = names[first : first + most]
      part = Together({name: functions[name] for name in some})
      parts |= dict.fromkeys(some, part)
  return lambda name, *args: parts[name](name, *args)
