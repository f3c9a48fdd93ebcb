"""Internals of `jaxrank.interop.rax`: functions that share their arguments, which are said once."""

import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, get_args

Shared = ParamSpec("Shared")
Own = TypeVar("Own", bound=Callable[..., Any])
Result = TypeVar("Result")


def family(
  shared: Callable[Shared, Callable[[Own], Result]],
) -> Callable[[Own], Callable[Shared, Result]]:
  """A decorator for functions with the same arguments, each of which says only what is its own.

  >>> @family
  ... def _of_numbers(x: int, *, y: int = 2) -> Callable[[Callable[[int, int], int]], str]:
  ...   return lambda own: str(own(x, y))
  >>> @_of_numbers
  ... def product(x, y):
  ...   return x * y
  >>> product(3)
  '6'

  Args:
    shared: A function with the arguments of the family. It returns a function that computes the
      result of a member from what the decorator is applied to.

  Returns:
    The decorator. A member has the name and the docstring of what is its own, and the signature of
    `shared`, also in what Python says of wrong arguments.
  """
  result = get_args(shared.__annotations__["return"])[-1]

  def decorate(own: Own) -> Callable[Shared, Result]:
    # A copy, because what Python says of wrong arguments has the name of the function itself.
    read: Any = types.FunctionType(
      shared.__code__, shared.__globals__, own.__name__, shared.__defaults__, shared.__closure__
    )
    read.__kwdefaults__ = shared.__kwdefaults__

    def member(*args: Shared.args, **kwargs: Shared.kwargs) -> Result:
      return read(*args, **kwargs)(own)

    for function in (read, member):
      for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(own, name))
      function.__annotations__ = shared.__annotations__ | {"return": result}
    # In it `inspect` finds the signature, and Sphinx the source of the defaults.
    vars(member)["__wrapped__"] = read
    return member

  return decorate
