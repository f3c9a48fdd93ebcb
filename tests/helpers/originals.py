"""Modules of other packages, loaded from their files alone.

The metrics of AutoIntent and LlamaIndex need numpy, scikit-learn and pydantic; their packages need
far more, so `pip install --no-deps autointent llama-index-core` is enough.
"""

import importlib.machinery
import sys
import types
from pathlib import Path

import pytest


def load(package: str, *modules: str) -> types.ModuleType:
  """The last of some modules of a package, which import each other in this order."""
  root = package.split(".")[0]
  spec = importlib.machinery.PathFinder.find_spec(root)
  if spec is None:
    pytest.skip(f"{root} is not installed", allow_module_level=True)
  base = Path(next(iter(spec.submodule_search_locations))).parent
  for module in modules:
    name = f"{package}.{module}"
    # Stand-ins for the packages on the way, whose own files are not run.
    parts = name.split(".")
    for depth in range(1, len(parts)):
      parent = ".".join(parts[:depth])
      if parent not in sys.modules:
        sys.modules[parent] = types.ModuleType(parent)
        sys.modules[parent].__path__ = [str(base.joinpath(*parts[:depth]))]
    if name not in sys.modules:
      importlib.import_module(name)
  return sys.modules[name]
