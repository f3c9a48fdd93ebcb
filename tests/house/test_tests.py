"""Every test asserts a value or an error, itself or through a helper that does."""

import ast
import functools
import importlib
import inspect
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@functools.cache
def functions_of(path):
  """The functions and methods of a file by name, and the functions that it imports from tests."""
  tree = ast.parse(path.read_text(encoding="utf-8"))
  own = {x.name: x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef)}
  imported = {}
  for node in tree.body:
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
      home = TESTS.joinpath(*node.module.split(".")[1:])
      for alias in node.names:
        whole = home / f"{alias.name}.py"
        imported[alias.asname or alias.name] = whole if whole.exists() else home.with_suffix(".py")
  return own, imported


FILES = sorted(TESTS.rglob("test_*.py"))


def asserts(path, name, seen=frozenset()):
  """Whether a function asserts something that is not a constant, or calls one that does."""
  if not path.exists() or (path, name) in seen:
    return False
  own, imported = functions_of(path)
  if name not in own:
    return name in imported and asserts(imported[name], name, seen | {(path, name)})
  for node in ast.walk(own[name]):
    if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
      return True
    if isinstance(node, ast.Attribute) and node.attr.startswith("assert_"):
      return True
    if not isinstance(node, ast.Call):
      continue
    called = node.func
    if isinstance(called, ast.Attribute):
      if called.attr in ("raises", "warns"):
        return True
      module = called.value.id if isinstance(called.value, ast.Name) else None
      if module in imported and asserts(imported[module], called.attr, seen | {(path, name)}):
        return True
    elif isinstance(called, ast.Name) and asserts(path, called.id, seen | {(path, name)}):
      return True
  return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_every_test_asserts(path):
  tests = [name for name in functions_of(path)[0] if name.startswith("test_")]
  assert not [name for name in tests if not asserts(path, name)]


def test_the_search_finds_a_test_without_an_assertion(tmp_path):
  path = tmp_path / "test_nothing.py"
  path.write_text("def test_silent():\n  print(1)\n\ndef test_constant():\n  assert True\n")
  assert not asserts(path, "test_silent")
  assert not asserts(path, "test_constant")


def taken(tree):
  """The modules of jaxrank that a file takes, by the names that it gives them."""
  for node in ast.walk(tree):
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxrank"):
      if node.module.startswith("jaxrank.interop"):
        continue  # They may need a library that is not installed.
      home = importlib.import_module(node.module)
      for alias in node.names:
        if not hasattr(home, alias.name):
          importlib.import_module(f"{node.module}.{alias.name}")
        value = getattr(home, alias.name)
        if inspect.ismodule(value):
          yield alias.asname or alias.name, value


def test_benchmarks_take_names_that_exist():
  """They run by hand, and a name that moved would be missed late."""
  for path in sorted((TESTS / "benchmarks").rglob("*.py")):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = dict(taken(tree))
    for node in ast.walk(tree):
      if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = modules.get(node.value.id)
        place = f"{path.name}:{node.lineno}"
        assert module is None or hasattr(module, node.attr), f"{place}: {ast.unparse(node)}"
