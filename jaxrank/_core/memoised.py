"""Results of methods that are computed once for each combination of arguments."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar


class _Remembering(Protocol):
  memory: dict[Any, Any]


_Query = TypeVar("_Query", bound=_Remembering)
_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def memoised(
  method: Callable[Concatenate[_Query, _Arguments], _Answer],
) -> Callable[Concatenate[_Query, _Arguments], _Answer]:
  """Computes the result of a method once for each combination of arguments.

  Metrics that are evaluated together share the results. Numbers are compared by value, arrays and
  functions by identity; the arguments are kept alive, so that no `id` is reused.
  """

  @functools.wraps(method)
  def once(self: _Query, /, *args: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
    given = (*args, *named.values())
    known = (x if isinstance(x, int | float) else id(x) for x in given)
    name = (method.__name__, *named, *known)
    if name not in self.memory:
      self.memory[name] = (method(self, *args, **named), given)
    answer: _Answer = self.memory[name][0]
    return answer

  return once


@contextlib.contextmanager
def apart(query: _Remembering) -> Iterator[None]:
  """Forgets what a query computes meanwhile: it exists within a loop, or for one platform."""
  known = dict(vars(query))
  query.memory = dict(query.memory)
  try:
    yield
  finally:
    vars(query).clear()
    vars(query).update(known)
