"""`python -m tests.mutants`: small random changes of the library, and whether the tests find them.

A mutant is a copy of the tree in which one operator, number or pair of arguments is another one. It
is drawn by a seed from the syntax trees of the packages below, so that no list of changes has to
follow the source. The quick tests run on each mutant, those of its own package first, until one
fails. The command prints the mutants that no test finds, as lines of a diff, and exits with 1 if
they are more than a tenth.
"""

import argparse
import ast
import copy
import difflib
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("_core", "rankings", "losses", "metrics")

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

Change = Callable[[], None]


def changes(tree: ast.Module) -> Iterator[Change]:
  """The possible changes of a syntax tree; each edits the tree in place."""
  for function in ast.walk(tree):
    if isinstance(function, ast.FunctionDef):
      for statement in function.body:
        # Checks of arguments and messages have tests of their own kind.
        if not isinstance(statement, ast.Raise | ast.FunctionDef):
          for node in ast.walk(statement):
            yield from _of_node(node)


def _of_node(node: ast.AST) -> Iterator[Change]:
  def put(owner: object, name: str, value: object) -> Change:
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


def mutants(seed: int) -> Iterator[tuple[pathlib.Path, str]]:
  """Draws files, relative to the root, and their changed texts, without end."""
  draw = random.Random(seed)
  paths = [path for name in PACKAGES for path in sorted((ROOT / "jaxrank" / name).glob("*.py"))]
  trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
  places = [(path, i) for path, tree in trees.items() for i, _ in enumerate(changes(tree))]
  while True:
    path, i = draw.choice(places)
    tree = copy.deepcopy(trees[path])
    list(changes(tree))[i]()
    yield path.relative_to(ROOT), ast.unparse(tree)


def difference(path: pathlib.Path, text: str) -> str:
  """The changed lines, without comments and layout."""
  before = ast.unparse(ast.parse((ROOT / path).read_text(encoding="utf-8")))
  lines = difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=0)
  return "\n".join(line for line in lines if line[:3] not in ("---", "+++") and line[0] in "+-")


def is_found(tree: pathlib.Path, path: pathlib.Path, text: str, tests: list[str]) -> bool:
  """Whether a test fails on a mutant; `tree` is a copy of the repository."""
  (tree / path).write_text(text, encoding="utf-8")
  try:
    for chosen in tests:
      command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", chosen]
      done = subprocess.run(
        [*command, "-n", "2", "--dist", "loadgroup"], cwd=tree, capture_output=True, check=False
      )
      # 5 says that a folder has no quick tests.
      if done.returncode not in (0, 5):
        return True
    return False
  finally:
    shutil.copy(ROOT / path, tree / path)


def tests_of(path: pathlib.Path) -> list[str]:
  """The folders of tests, those that are likely to find a mutant of a file first."""
  own = path.parts[1]
  first = ["metrics", "rankings", "losses"] if own == "_core" else [own]
  folders = sorted(x.name for x in (ROOT / "tests").iterdir() if any(x.glob("test_*.py")))
  return [f"tests/{name}" for name in dict.fromkeys([*first, *folders])]


def main() -> int:
  """Runs the command, and returns its status."""
  parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--count", type=int, default=100)
  arguments = parser.parse_args()
  lost = 0
  with tempfile.TemporaryDirectory() as folder:
    tree = pathlib.Path(folder, "tree")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "_build"))
    for number, (path, text) in zip(range(arguments.count), mutants(arguments.seed), strict=False):
      found = is_found(tree, path, text, tests_of(path))
      lost += not found
      print(f"{number} {path}: {'found' if found else 'not found'}", flush=True)
      if not found:
        print(difference(path, text), flush=True)
  print(f"{arguments.count - lost} of {arguments.count} found")
  return int(lost > arguments.count / 10)


if __name__ == "__main__":
  sys.exit(main())
