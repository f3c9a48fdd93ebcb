"""`python -m tests.mutants`: small random changes of the library, and whether the tests find them.

A mutant is a copy of the tree in which one operator, number or pair of arguments is another one. It
is drawn by a seed from the syntax trees of the packages below, so that no list of changes has to
follow the source. The first run notes which statements each quick test runs. On a mutant, those
tests run that run the changed statement, the quickest first, then their whole files, until one
fails. A mutant that takes far too long is found as well. The command prints the mutants that no
test finds, as lines of a diff, and exits with 1 if they are more than a tenth.
"""

import argparse
import ast
import copy
import difflib
import hashlib
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("_core", "rankings", "losses", "metrics")
# Folders of tests, and packages with examples, that check what these compute.
TESTS = (
  *("metrics", "losses", "rankings", "soft", "derivatives", "ranks", "chance", "exposure"),
  *("corpus", "measures", "devices", "testing"),
)
FILES = [path for name in PACKAGES for path in sorted((ROOT / "jaxrank" / name).glob("*.py"))]

_SWAPPED: dict[type, type] = {
  ast.Add: ast.Sub,
  ast.Sub: ast.Add,
  ast.Mult: ast.Div,
  ast.Div: ast.Mult,
  ast.Lt: ast.LtE,
  ast.LtE: ast.Lt,
  ast.Gt: ast.GtE,
  ast.GtE: ast.Gt,
  ast.Eq: ast.NotEq,
  ast.NotEq: ast.Eq,
  ast.BitAnd: ast.BitOr,
  ast.BitOr: ast.BitAnd,
}
_OTHER = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min"}

# A plugin of pytest that notes which statements of a tree with probes each test runs.
_PLUGIN = """
import builtins, json, os, time
import pytest

tests = {}

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
  imported, builtins.__ran__ = builtins.__ran__, {}
  start = time.process_time()
  result = yield
  tests[item.nodeid] = time.process_time() - start, list(builtins.__ran__)
  builtins.__ran__ = imported | builtins.__ran__
  return result

def pytest_sessionfinish():
  with open(os.environ["RAN"], "w") as file:
    json.dump({"seconds": time.process_time(), "ran": list(builtins.__ran__), "tests": tests}, file)
"""


class Mutant(NamedTuple):
  """A file, relative to the root, its changed text, and the statement that changed."""

  path: pathlib.Path
  text: str
  statement: str


class Tests(NamedTuple):
  """The processor seconds of a test or of a file of tests, its name, and the statements it runs."""

  seconds: float
  name: str
  ran: frozenset[str]


def changes(tree: ast.Module) -> Iterator[tuple[int, Callable[[], None]]]:
  """The possible changes of a syntax tree: the line of the statement, and an edit in place."""
  functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
  inside = {node: None for function in functions for x in function.body for node in ast.walk(x)}
  for statement in inside:
    # Messages have tests of their own kind; defaults and annotations change no value.
    if isinstance(statement, ast.stmt) and not isinstance(
      statement, ast.Raise | ast.FunctionDef | ast.ClassDef
    ):
      for node in _expressions(statement):
        for edit in _of_node(node):
          yield statement.lineno, edit


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
  """A statement and its expressions, without the statements inside it."""
  yield node
  for name, value in ast.iter_fields(node):
    for child in value if isinstance(value, list) else [value]:
      if isinstance(child, ast.expr | ast.keyword | ast.comprehension) and name != "annotation":
        yield from _expressions(child)


def _of_node(node: ast.AST) -> Iterator[Callable[[], None]]:
  def put(owner: object, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)

  if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPPED:
    yield put(node, "op", _SWAPPED[type(node.op)]())
  elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
    yield put(node, "ops", [_SWAPPED[type(node.ops[0])](), *node.ops[1:]])
  elif isinstance(node, ast.Constant) and type(node.value) is int:
    yield put(node, "value", node.value + 1)
  elif isinstance(node, ast.Constant) and type(node.value) is float:
    yield put(node, "value", 2 * node.value + 1)
  elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
    yield put(node, "op", ast.UAdd())
  elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
    if node.func.attr == "where" and len(node.args) == 3:
      condition, yes, no = node.args
      yield put(node, "args", [condition, no, yes])
    elif node.func.attr in _OTHER:
      yield put(node.func, "attr", _OTHER[node.func.attr])


def mutants(seed: int) -> Iterator[Mutant]:
  """Draws mutants without end."""
  draw = random.Random(seed)
  trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
  places = [(path, i) for path, tree in trees.items() for i, _ in enumerate(changes(tree))]
  while True:
    path, i = draw.choice(places)
    tree = copy.deepcopy(trees[path])
    line, edit = list(changes(tree))[i]
    edit()
    own = path.relative_to(ROOT)
    yield Mutant(own, ast.unparse(tree), f"{own.as_posix()}:{line}")


def difference(mutant: Mutant) -> str:
  """The changed lines, without comments and layout."""
  before = ast.unparse(ast.parse((ROOT / mutant.path).read_text(encoding="utf-8")))
  lines = difflib.unified_diff(before.splitlines(), mutant.text.splitlines(), lineterm="", n=0)
  return "\n".join(line for line in lines if line[:3] not in ("---", "+++") and line[0] in "+-")


def with_probes(path: pathlib.Path) -> str:
  """The text of a file in which each statement of a function first notes that it runs."""
  tree = ast.parse(path.read_text(encoding="utf-8"))
  for node in list(ast.walk(tree)):
    for name in ("body", "orelse", "finalbody"):
      block = getattr(node, name, None)
      if isinstance(block, list) and not isinstance(node, ast.Module | ast.ClassDef):
        probed = []
        for statement in block:
          place = f"{path.relative_to(ROOT).as_posix()}:{statement.lineno}"
          probe = ast.parse(f"__ran__[{place!r}] = 1").body
          is_docstring = isinstance(statement, ast.Expr) and isinstance(
            statement.value, ast.Constant
          )
          probed += [statement] if is_docstring else [*probe, statement]
        setattr(node, name, probed)
  return ast.unparse(ast.fix_missing_locations(tree))


def run(
  tree: pathlib.Path, folder: pathlib.Path, arguments: list[str], limit: float, **environment: str
) -> int:
  """The status of pytest, which stops at the first failure, and after some seconds."""

  def limited() -> None:
    # Processor time, so that a busy machine finds no mutants.
    resource.setrlimit(resource.RLIMIT_CPU, 2 * (int(limit),))

  programs = {
    "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
  }
  return subprocess.run(
    [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments],
    cwd=tree,
    env={**os.environ, **programs, **environment},
    preexec_fn=limited,
    capture_output=True,
    check=False,
  ).returncode


def quick_tests(tree: pathlib.Path, folder: pathlib.Path) -> tuple[list[Tests], list[Tests]]:
  """The quick tests and their files, each the quickest first.

  What they run stays in the folder until the packages change.
  """
  text = b"".join(path.read_bytes() for path in FILES)
  notes = folder / f"{hashlib.sha256(text).hexdigest()[:16]}.json"
  known = json.loads(notes.read_text()) if notes.exists() else {}
  names = [f"jaxrank/{name}" for name in TESTS if (ROOT / "jaxrank" / name).exists()]
  for name in TESTS:
    found = sorted((ROOT / "tests" / name).glob("test_*.py"))
    names += [path.relative_to(ROOT).as_posix() for path in found]
  for path in FILES:
    (tree / path.relative_to(ROOT)).write_text(with_probes(path), encoding="utf-8")
  for name in [name for name in names if name not in known]:
    with tempfile.TemporaryDirectory() as plugins:
      # Also for processes that tests start.
      pathlib.Path(plugins, "sitecustomize.py").write_text("import builtins; builtins.__ran__ = {}")
      pathlib.Path(plugins, "notes_of_mutants.py").write_text(_PLUGIN)
      ran = pathlib.Path(plugins, "ran.json")
      environment = {"RAN": str(ran), "PYTHONPATH": plugins}
      status = run(tree, folder, ["-p", "notes_of_mutants", name], 3600, **environment)
      # 5 says that a file has no quick tests. A file that fails here cannot find a mutant.
      known[name] = json.loads(ran.read_text()) if status == 0 else {}
    print(f"{name}: status {status}", file=sys.stderr, flush=True)
    notes.write_text(json.dumps(known))
  for path in FILES:
    shutil.copy(path, tree / path.relative_to(ROOT))
  run_of = {name: x for name, x in known.items() if name in names and x}
  files = [Tests(x["seconds"], name, frozenset(x["ran"])) for name, x in run_of.items()]
  tests = [
    Tests(seconds, name, frozenset(ran))
    for x in run_of.values()
    for name, (seconds, ran) in x["tests"].items()
  ]
  return sorted(tests), sorted(files)


def is_found(
  tree: pathlib.Path, folder: pathlib.Path, mutant: Mutant, stages: Iterable[list[Tests]]
) -> bool:
  """Whether a test that runs the changed statement fails; `tree` is a copy of the repository."""
  (tree / mutant.path).write_text(mutant.text, encoding="utf-8")
  try:
    for stage in stages:
      chosen = [tests for tests in stage if mutant.statement in tests.ran]
      limit = 60 + 3 * sum(tests.seconds for tests in chosen)
      if chosen and run(tree, folder, [tests.name for tests in chosen], limit) != 0:
        return True
    return False
  finally:
    shutil.copy(ROOT / mutant.path, tree / mutant.path)


def main() -> int:
  """Runs the command, and returns its status."""
  parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--from", type=int, default=0, dest="first", help="the first mutant to run")
  parser.add_argument("--count", type=int, default=100, help="how many mutants to draw")
  parser.add_argument("--only", type=int, nargs="*", help="the numbers of the mutants to run")
  parser.add_argument(
    "--folder",
    type=pathlib.Path,
    default=pathlib.Path(tempfile.gettempdir(), "jaxrank_mutants"),
    help="keeps what the tests run, and compiled programs",
  )
  arguments = parser.parse_args()
  arguments.folder.mkdir(parents=True, exist_ok=True)
  drawn = list(enumerate(itertools.islice(mutants(arguments.seed), arguments.count)))
  chosen = [x for x in drawn[arguments.first :] if arguments.only is None or x[0] in arguments.only]
  lost = 0
  with tempfile.TemporaryDirectory() as copied:
    tree = pathlib.Path(copied, "tree")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "_build"))
    stages = quick_tests(tree, arguments.folder)
    for number, mutant in chosen:
      found = is_found(tree, arguments.folder, mutant, stages)
      lost += not found
      print(f"{number} {mutant.statement}: {'found' if found else 'not found'}", flush=True)
      if not found:
        print(difference(mutant), flush=True)
  print(f"{len(chosen) - lost} of {len(chosen)} found")
  return int(lost > len(chosen) / 10)


if __name__ == "__main__":
  sys.exit(main())
