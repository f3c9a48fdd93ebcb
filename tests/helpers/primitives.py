"""The table of primitives, whole: each module adds its own when it is imported."""

import importlib
import pkgutil

from jaxrank import _core, corpus
from jaxrank._core import platforms


def table() -> dict[str, platforms.Primitive]:
  """All primitives, by module and name."""
  for package in (_core, corpus):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
      importlib.import_module(module.name)
  return platforms.TABLE
