"""The layers of docs/extending.md: imports point down, sorting has one home, files stay small."""

import ast
import functools
import inspect
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import jaxrank

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
LAYERS = (
  PAGE.read_text(encoding="utf-8")
  .partition("## The layers")[2]
  .split("```text\n")[1]
  .split("```")[0]
)
LAYER = {name: -i for i, names in enumerate(LAYERS.splitlines()) for name in names.split()}
ROOT = Path(jaxrank.__path__[0])
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@functools.cache
def statements(path):
  """The imports of a file."""
  tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
  return [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]


def line(module):
  """The name in the layers of a module of jaxrank, mostly that of its package."""
  return module if module in LAYER else module.partition(".")[0]


def imports(path):
  """The modules of jaxrank that a file imports, as the layers name them."""
  for node in statements(path):
    if isinstance(node, ast.ImportFrom) and node.module == "jaxrank":
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxrank."):
      yield line(node.module.removeprefix("jaxrank."))
    elif isinstance(node, ast.Import):
      # The name alone, for the version.
      assert not any(alias.name.startswith("jaxrank.") for alias in node.names)


def of_each_file(test):
  """One test of all files, because a test of each takes longer to report than to run."""

  def of_all():
    for path in FILES:
      try:
        test(path)
      except AssertionError as error:
        error.add_note(f"in {path.relative_to(ROOT)}")
        raise

  of_all.__name__, of_all.__doc__ = test.__name__, test.__doc__
  return of_all


@of_each_file
def test_imports_point_down(path):
  module = line(".".join(path.relative_to(ROOT).with_suffix("").parts))
  for name in imports(path):
    assert name == module or LAYER[name] < LAYER[module], f"{module} imports {name}"


def test_files_of_the_core_import_files_of_lower_rows():
  page = (PAGE.parent / "internals.md").read_text(encoding="utf-8")
  rows = re.findall(r"^\| `(\w+)\.py` \|", page, re.MULTILINE)
  core = {path.stem: path for path in (ROOT / "_core").glob("*.py") if path.stem != "__init__"}
  assert sorted(rows) == sorted(core)
  for name, path in core.items():
    for node in statements(path):
      if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxrank._core"):
        module = node.module.removeprefix("jaxrank._core").removeprefix(".")
        for used in [module] if module else [alias.name for alias in node.names]:
          assert rows.index(used) > rows.index(name), f"{name} imports {used}"


@of_each_file
def test_private_modules_serve_their_own_package(path):
  """Except for the internals in `_core`, which serve all."""
  package = ".".join(("jaxrank", *path.relative_to(ROOT).parts[:-1]))
  for node in statements(path):
    if isinstance(node, ast.ImportFrom):
      names = [f"{node.module}.{alias.name}" for alias in node.names]
      for name in names if (node.module or "").startswith("jaxrank") else ():
        public = name.replace("jaxrank._core._jax", "jaxrank.core.jax")
        home, _, private = public.replace("jaxrank._core", "jaxrank.core").partition("._")
        assert not private or package.startswith(home), f"{package} imports {name}"


@of_each_file
def test_files_begin_with_what_is_in_them(path):
  text = ast.get_docstring(ast.parse(path.read_text()))
  assert text
  # A summary of one line, or a paragraph of its own.
  assert text.partition("\n\n")[0].endswith((".", ":"))


@of_each_file
def test_only_sorting_sorts(path):
  called = re.findall(r"\b(?:lax|jnp)\.(?:sort|argsort|top_k|approx_max_k)\(", path.read_text())
  assert not called or path.name == "sorting.py"


@of_each_file
def test_files_stay_small(path):
  assert len(path.read_text().splitlines()) <= 800


@of_each_file
def test_one_module_chooses_by_platform(path):
  """And variants for platforms stand beside the reference of their primitive."""
  text = path.read_text()
  assert "platform_dependent" not in text or path == ROOT / "_core" / "platforms.py"
  assert not re.search(r"\.on\(\s*\"", text) or "\n@primitive\n" in text


def loaded_by(code):
  done = subprocess.run(
    [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
    capture_output=True,
    text=True,
    check=True,
  )
  return {*done.stdout.split()}


def test_an_import_loads_nothing_else():
  assert not {"jax", "numpy", "jaxrank._core"} & loaded_by("import jaxrank")


def test_metrics_load_what_most_programs_need():
  """And nothing of the rest, nor parts of jax that jax itself does not load."""
  # `jax.extend` is the public home of the class of primitives.
  loaded = loaded_by("import jax, jaxrank; jaxrank.ndcg")
  loaded -= loaded_by("import jax, jax.extend")
  assert "jaxrank.metrics" in loaded
  assert not [name for name in loaded if name.startswith("jax.") or "pallas" in name]
  needed = {"metrics", "config", "gains", "discounts", "aggregation"}
  late = {name for name in (*jaxrank._MODULES, *jaxrank._NAMES) if "." not in name} - needed
  assert not loaded & {f"jaxrank.{name}" for name in late}


JAX = ROOT / "_core" / "_jax.py"
# The parts of JAX whose names its reference documents.
DOCUMENTED = [
  "config",
  "custom_derivatives",
  "dtypes",
  "errors",
  "lax",
  "nn",
  "numpy",
  "random",
  "scipy",
  "sharding",
  "tree",
  "tree_util",
  "typing",
]


def names_of_jax(path):
  """The names of JAX that a file imports or writes out: `jax.lax.psum` for `lax.psum` too."""

  def dotted(node):
    if isinstance(node, ast.Attribute):
      return f"{dotted(node.value)}.{node.attr}"
    return {"lax": "jax.lax"}.get(node.id, node.id) if isinstance(node, ast.Name) else ""

  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
      names = [dotted(node)]
    yield from (name for name in names if name.split(".")[0] in ("jax", "jaxlib"))


OWN = {*names_of_jax(JAX)} - {"jax", "jax.Array", "jax.lax", "jax.sharding", "jax.typeof"}


@of_each_file
def test_one_module_uses_what_jax_does_not_document(path):
  names, text = {*names_of_jax(path)}, path.read_text(encoding="utf-8")
  found = names & OWN
  for name in names:
    part = name.split(".")[1:2]
    module = inspect.ismodule(getattr(jax, *part, None)) if part else False
    if name.startswith("jaxlib") or (module and part[0] not in DOCUMENTED):
      found.add(name)
  words = r"jax\.(interpreters|extend|_src)|get_opaque_trace_state|\.(vma|manual_axis_type)\b"
  found.update(match[0] for match in re.finditer(words, text))
  assert bool(found) == (path == JAX), found


WALK = """
import sys
import jax, jax.numpy as jnp
import jaxrank as jr
scores, labels = jnp.arange(3200.0).reshape(32, 100) % 7, jnp.arange(3200).reshape(32, 100) % 3
called = set()
def note(frame, event, _):
  code = frame.f_code
  if event == "call" and code.co_filename.startswith(jr.__path__[0]):
    called.add((code.co_filename, code.co_qualname, code.co_firstlineno))
jr.ndcg, jr.Laplace
sys.setprofile(note)
{call}
sys.setprofile(None)
print(len(called), len({{name for name, *_ in called}}))
"""


@pytest.mark.parametrize(
  ("call", "functions", "files"),
  [
    ("jr.ndcg(scores, labels, k=10)", 168, 16),
    (
      "jax.grad(lambda s: jr.ndcg(s, labels, k=10, ranking=jr.Laplace(1.0)).sum())(scores)",
      249,
      17,
    ),
  ],
)
def test_a_first_call_takes_few_functions_in_few_files(call, functions, files):
  """Comprehensions included; docs/internals.md follows such a call."""
  done = subprocess.run(
    [sys.executable, "-c", WALK.format(call=call)], capture_output=True, text=True, check=True
  )
  walked = tuple(map(int, done.stdout.split()))
  assert walked[0] <= functions, walked
  assert walked[1] <= files, walked
