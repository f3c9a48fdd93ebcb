"""The table of primitives, whole: each module of the core adds its own when it is imported."""

import importlib
import pkgutil

from jaxrank import _core
from jaxrank._core import platforms


def table() -> dict[str, platforms.Primitive]:
  """All primitives, by module and name."""
  for module in pkgutil.iter_modules(_core.__path__, "jaxrank._core."):
    importlib.import_module(module.name)
  return platforms.TABLE
