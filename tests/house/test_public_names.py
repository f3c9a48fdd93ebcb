"""Public names and signatures: `__all__` and `inspect.signature` agree with the source."""

import ast
import dataclasses
import functools
import inspect
import pickle
import re
import sys
import textwrap
from pathlib import Path

import pytest

import jaxrank
from tests.house.public_api import MODULES


def tree_of(module):
  return ast.parse(Path(module.__file__).read_text())


def bound_names(module):
  """The names that a package imports from other modules, or that a module defines."""
  package = Path(module.__file__).name == "__init__.py"
  body = tree_of(module).body
  # Modules that load on first use are imported for type checkers.
  body = [x for node in body for x in (node.body if isinstance(node, ast.If) else [node])]
  for node in body:
    if isinstance(node, ast.ImportFrom) and package and node.names[0].name == "*":
      yield from set(MODULES[node.module].__all__) - module._OF_METRICS_ALONE
    elif isinstance(node, ast.ImportFrom) and package:
      names = {alias.asname or alias.name for alias in node.names}
      yield from names - {*getattr(module, "_INNER", ())}
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
      yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
      targets = node.targets if isinstance(node, ast.Assign) else [node.target]
      yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("name", MODULES)
def test_all_lists_the_public_names(name):
  module = MODULES[name]
  public = {x for x in bound_names(module) if not x.startswith("_")}
  assert sorted(module.__all__) == sorted(public)
  assert all(hasattr(module, x) for x in module.__all__)


@pytest.mark.parametrize("name", [*MODULES, "jaxrank.interop"][1:])
def test_modules_are_attributes_that_load_on_first_use(name):
  """As a fresh interpreter finds them, which has imported `jaxrank` alone."""
  assert jaxrank.__getattr__(name.removeprefix("jaxrank.")) is sys.modules[name]


def test_names_in_text_are_found_on_first_use():
  """Those of pages, docstrings and messages, but for the adapters, which pages say to import."""
  root = Path(__file__).parents[2]
  pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "docs").rglob("*.rst")]
  mentioned = set()
  for path in [*pages, *(root / "jaxrank").rglob("*.py")]:
    text = re.sub(
      r"^.*\b(from|import) jaxrank.*$", "", path.read_text(encoding="utf-8"), flags=re.M
    )
    mentioned |= {*re.findall(r"(?<![\w./-])(?:jr|jaxrank)((?:\.(?!_)\w+)+)", text)}
  assert len(mentioned) > 100
  for name in mentioned:
    first, *rest = name.split(".")[1:]
    if first not in ("interop", "github"):
      functools.reduce(getattr, rest, jaxrank.__getattr__(first))


def public_callables():
  """The functions and classes of the public modules, each once, by qualified name."""
  for module in MODULES.values():
    for name in module.__all__:
      value = getattr(module, name)
      if inspect.isclass(value) or inspect.isfunction(value):
        yield f"{value.__module__}.{value.__qualname__}", value
      elif callable(value):
        yield f"{type(value).__module__}.{type(value).__qualname__}", type(value)


CALLABLES = dict(public_callables())
OURS = {name: x for name, x in CALLABLES.items() if name.startswith("jaxrank.")}
CLASSES = {name: x for name, x in OURS.items() if inspect.isclass(x)}
FUNCTIONS = {name: x for name, x in OURS.items() if inspect.isfunction(x)}
METHODS = {
  f"{name}.{method}": function
  for name, cls in CLASSES.items()
  for method, function in vars(cls).items()
  if inspect.isfunction(function)
  and function.__qualname__.startswith(cls.__qualname__)
  and (not method.startswith("_") or method in ("__init__", "__call__"))
}


def definition(function):
  """The definition of a function in the source of its module, the last of its overloads."""
  found = tree_of(inspect.getmodule(function)).body
  for part in function.__qualname__.split("."):
    named = [x for x in found if isinstance(x, ast.FunctionDef | ast.ClassDef) and x.name == part]
    if not named:
      return None
    found = named[-1].body
  return named[-1]


def written_signature(function, node):
  """The signature that Python gives to the definition alone, without its decorators."""
  bare = ast.FunctionDef("bare", node.args, [ast.Pass()], [], node.returns, type_params=[])
  module = ast.fix_missing_locations(ast.Module([bare], []))
  names = dict(vars(inspect.getmodule(function)))
  exec(compile(module, "source", "exec"), names)
  return inspect.signature(names["bare"])


def is_generated(cls, method):
  """Whether a dataclass or a NamedTuple has the method without a definition in its source."""
  return dataclasses.is_dataclass(cls) and method == "__init__"


# Functions that people call without the measures, or without the ids of queries.
WITH_USAGE = {
  "jaxrank.corpus.evaluation.evaluate",
  "jaxrank.measures.evaluation.evaluate",
  "jaxrank.padding.padding.pad",
  "jaxrank.padding.padding.pad_buckets",
  "jaxrank.trec.evaluation.evaluate",
}


@pytest.mark.parametrize("name", FUNCTIONS | METHODS)
def test_signatures_are_those_of_the_source(name):
  function = (FUNCTIONS | METHODS)[name]
  # Functions with usage say what to write for a missing argument, and lifted ones run their bodies
  # for each query.
  remembers = name.startswith("jaxrank._core.ranked.Ranked.")
  lifted = name.startswith(
    tuple(f"jaxrank.{x}." for x in ("metrics", "losses", "exposure", "fusion"))
  )
  assert not hasattr(function, "__wrapped__") or name in WITH_USAGE or lifted or remembers
  assert "__signature__" not in vars(function)
  node = definition(function)
  if node is None:
    cls = CLASSES[name.rpartition(".")[0]]
    assert is_generated(cls, function.__name__)
  else:
    assert inspect.signature(function) == written_signature(function, node)


@pytest.mark.parametrize("name", FUNCTIONS | METHODS)
def test_every_argument_and_result_has_a_type(name):
  function = (FUNCTIONS | METHODS)[name]
  signature = inspect.signature(function)
  parameters = [x for x in signature.parameters.values() if x.name != "self"]
  assert all(x.annotation is not x.empty for x in parameters)
  assert signature.return_annotation is not signature.empty or name.endswith(".__init__")


def has_default(value):
  """Whether what stands after the `=` of a field, if anything, gives it a default."""
  if isinstance(value, ast.Call) and ast.unparse(value.func) == "dataclasses.field":
    return any(keyword.arg.startswith("default") for keyword in value.keywords)
  return value is not None


def written_fields(cls):
  """The fields of a dataclass or a NamedTuple in its source, and whether they have defaults."""
  for owner in reversed(cls.__mro__):
    if "__dataclass_fields__" in vars(owner) or "_fields" in vars(owner):
      (node,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
      for field in node.body:
        if isinstance(field, ast.AnnAssign):
          kind = ast.unparse(field.annotation).split("[")[0]
          if kind not in ("ClassVar", "dataclasses.KW_ONLY"):
            yield field.target.id, has_default(field.value)


GENERATED = [
  name
  for name, cls in CLASSES.items()
  if (dataclasses.is_dataclass(cls) or issubclass(cls, tuple))
  and (definition(cls.__init__) is None if "__init__" in vars(cls) else True)
]


@pytest.mark.parametrize("name", GENERATED)
def test_fields_are_those_of_the_source(name):
  found = inspect.signature(CLASSES[name]).parameters.values()
  assert [(x.name, x.default is not x.empty) for x in found] == [*written_fields(CLASSES[name])]


@pytest.mark.parametrize("name", OURS)
def test_classes_and_functions_state_no_signature_of_their_own(name):
  assert "__signature__" not in vars(OURS[name])


@pytest.mark.parametrize("name", OURS)
def test_public_names_pickle_as_themselves(name):
  assert pickle.loads(pickle.dumps(OURS[name])) is OURS[name]


def test_the_package_is_marked_as_typed():
  assert Path(jaxrank.__path__[0], "py.typed").is_file()
