"""The house plan: imports point down, sorting has one home, files stay small."""

import ast
import re
from pathlib import Path

import pytest

import jaxrank

FLOORS = (
  "_core config gains discounts",
  "aggregation padding validation",
  "rankings",
  "metrics",
  "measures ranks",
  "losses class_labels",
  "chance corpus letor plot sharded streaming",
  "interop",
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}
ROOT = Path(jaxrank.__path__[0])
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imports(path):
  """The modules of jaxrank that a file imports."""
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.ImportFrom) and node.module == "jaxrank":
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxrank."):
      yield node.module.split(".")[1]
    elif isinstance(node, ast.Import):
      assert not any(alias.name.startswith("jaxrank") for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_down(path):
  module = path.relative_to(ROOT).parts[0].removesuffix(".py")
  for name in imports(path):
    # Internals may use the two leaf modules, which use the types of the internals.
    leaf = {name, module} <= {"_core", "config", "gains", "discounts"}
    assert leaf or name == module or FLOOR[name] < FLOOR[module], f"{module} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_sorting_sorts(path):
  called = re.findall(r"\b(?:lax|jnp)\.(?:sort|argsort|top_k|approx_max_k)\(", path.read_text())
  assert not called or path.name == "sorting.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_stay_small(path):
  assert len(path.read_text().splitlines()) <= 350
