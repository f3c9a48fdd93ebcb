"""The text of `public_api.txt`: every public function and method with parameters and defaults.

`python -m tests.house` writes the file, which shows a change in review.
"""

import importlib
import inspect
import pkgutil
from pathlib import Path

import jaxrank

FILE = Path(__file__).with_name("public_api.txt")
MODULES = {"jaxrank": jaxrank} | {
  f"jaxrank.{module.name}": importlib.import_module(f"jaxrank.{module.name}")
  for module in pkgutil.iter_modules(jaxrank.__path__)
  if not module.name.startswith("_") and module.name != "interop"
}


def lines():
  """A line for each public callable, and for each public method of a class."""
  for module, contents in MODULES.items():
    for name in contents.__all__:
      value = getattr(contents, name)
      if inspect.isfunction(value) or inspect.isclass(value):
        yield f"{module}.{name}{parameters(value)}"
      if inspect.isclass(value):
        for method, function in vars(value).items():
          if inspect.isfunction(function) and (method[0] != "_" or method == "__call__"):
            yield f"{module}.{name}.{method}{parameters(function)}"


def parameters(function):
  """The parameters of a function without their types, which the type checkers check."""
  try:
    signature = inspect.signature(function)
  except ValueError:
    return "(...)"
  bare = [
    p.replace(annotation=p.empty, default=p.default if p.default is p.empty else Shown(p.default))
    for p in signature.parameters.values()
  ]
  return str(signature.replace(parameters=bare, return_annotation=signature.empty))


class Shown:
  """A default as the file shows it: a function by its name, anything else by its `repr`."""

  def __init__(self, value):
    self.value = value

  def __repr__(self):
    name = getattr(self.value, "__qualname__", None)
    return name or repr(self.value)


def text():
  """The contents of the file."""
  return "\n".join(lines()) + "\n"
