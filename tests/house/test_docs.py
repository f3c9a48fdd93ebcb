"""Every public name is documented, and every example in the docs is true."""

import collections
import doctest
import functools
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jaxrank import losses, metrics
from tests.helpers.suites import quick, thorough
from tests.house import derived, metric_table, repeated
from tests.house.public_api import MODULES

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def public_names():
  """Public functions and classes by dotted name; adapters have tests of their own."""
  for module, contents in MODULES.items():
    for name in contents.__all__:
      value = getattr(contents, name)
      if callable(value) and (getattr(value, "__module__", None) or "").startswith("jaxrank"):
        yield f"{module}.{name}", value


PUBLIC = dict(public_names())
METRICS = {
  name: value
  for name, value in PUBLIC.items()
  if inspect.isfunction(value) and value.__module__.startswith("jaxrank.metrics.")
}
LOSSES = {name: value for name, value in PUBLIC.items() if name.startswith("jaxrank.losses.")}
OF_LISTS = {
  name: value
  for name, value in (METRICS | LOSSES).items()
  if "scores" in inspect.signature(value).parameters
}


def arguments(function):
  """What a docstring says of arguments, by name."""
  section = re.search(r"^Args:\n((?:  .*\n?)+)", inspect.getdoc(function), re.M)
  entries = re.findall(r"^  \*{0,2}(\w+): (.*(?:\n    .*)*)", section[1] if section else "", re.M)
  return {name: " ".join(text.split()) for name, text in entries}


def shared_arguments(package):
  """What the docstring of a package explains for all of its functions."""
  return set(re.findall(r"^\* `(\w+)`: ", package.__doc__, re.M))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
  text = inspect.getdoc(PUBLIC[name])
  assert text
  assert text.splitlines()[0].endswith((".", ":")) or "\n\n" in text


@pytest.mark.parametrize("name", METRICS | LOSSES)
def test_every_argument_is_documented(name):
  """By the function itself, or once for all by its package, to which the function then points."""
  function = (METRICS | LOSSES)[name]
  package = losses if name in LOSSES else metrics
  shared = shared_arguments(package) if name in OF_LISTS else set()
  takes = set(inspect.signature(function).parameters)
  assert takes <= set(arguments(function)) | shared
  assert set(arguments(function)) <= takes
  if takes - set(arguments(function)):
    assert f"See `{package.__name__}` for the arguments" in inspect.getdoc(function)
  assert "Returns:" in inspect.getdoc(function)


@pytest.mark.parametrize(("package", "public"), [(metrics, METRICS), (losses, LOSSES)])
def test_shared_arguments_are_explained_once(package, public):
  functions = list(dict.fromkeys(public.values()))
  entries = [entry for function in functions for entry in arguments(function).items()]
  repeated = sum(count for count in collections.Counter(entries).values() if count > 1)
  assert repeated < 0.2 * len(entries)
  taken = {name for function in functions for name in inspect.signature(function).parameters}
  assert shared_arguments(package) <= taken


@pytest.mark.parametrize("name", METRICS | LOSSES)
def test_metrics_and_losses_have_examples(name):
  """The collector of their module runs them."""
  function = (METRICS | LOSSES)[name]
  found = doctest.DocTestFinder().find(function, name)
  assert any(test.examples for test in found)


# The examples of pages in an interpreter that starts as that of a reader does: of the library it
# has the variants of platforms alone, of which it traces those of a CPU, as other tests do. Pages
# of the same settings share what it imports, traces and compiles, but neither names nor files.
IN_AN_INTERPRETER = """
import contextlib, doctest, gc, os, pathlib, sys
from jaxrank._core import platforms
assert not [name for name in sys.modules if name.startswith("jaxrank.") and "._" not in name]
gc.set_threshold(100_000, 50, 100)
for page in map(pathlib.Path, sys.argv[1:]):
  os.mkdir(page.stem)
  with contextlib.ExitStack() as stack:
    file = stack.enter_context(open(page.stem + ".txt", "w", encoding="utf-8"))
    stack.enter_context(contextlib.chdir(page.stem))
    stack.enter_context(contextlib.redirect_stdout(file))
    stack.enter_context(platforms.forced("cpu"))
    doctest.testfile(str(page), module_relative=False, encoding="utf-8")
"""


def imported(page):
  """The packages that the examples of a page import."""
  text = page.read_text(encoding="utf-8")
  return {*re.findall(r"^>>> (?:import|from) (\w+)", text, re.MULTILINE)}


def missing(page):
  """The packages among them that are not installed."""
  return sorted(name for name in imported(page) if importlib.util.find_spec(name) is None)


def settings(page):
  """The variables of the environment in which the examples of a page run."""
  # One device, unless the page says with how many to start Python.
  devices = re.search(r"`JAX_NUM_CPU_DEVICES=(\d+)`", page.read_text(encoding="utf-8"))
  modules = imported(page)
  return {
    "PYTHONPATH": str(ROOT),
    "JAX_NUM_CPU_DEVICES": devices[1] if devices else "1",
    # Keras promotes ranks and has keys of the old kind. It promotes dtypes, and so does optax.
    "JAX_LEGACY_PRNG_KEY": "allow" if "keras" in modules else "error",
    "JAX_NUMPY_RANK_PROMOTION": "allow" if "keras" in modules else "raise",
    "JAX_NUMPY_DTYPE_PROMOTION": "standard" if {"keras", "optax"} & modules else "strict",
  }


@pytest.fixture(scope="module")
def told(request, tmp_path_factory):
  """A function from a page to what its examples print beside what they should."""
  here = [x for x in request.session.items if x.getparent(pytest.Module) is request.node]
  pages = [x.callspec.params["page"] for x in here if request.fixturename in x.fixturenames]

  @functools.cache
  def folder_of(variables):
    folder = tmp_path_factory.mktemp("pages")
    own = [x for x in pages if settings(x) == dict(variables) and not missing(x)]
    command = [sys.executable, "-W", "error", "-c", IN_AN_INTERPRETER, *own]
    done = subprocess.run(
      command,
      cwd=folder,
      env=os.environ | dict(variables),
      capture_output=True,
      text=True,
      check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder

  def of_page(page):
    folder = folder_of(tuple(settings(page).items()))
    return (folder / f"{page.stem}.txt").read_text(encoding="utf-8")

  return of_page


# The examples of `peers.md` need many libraries, not all at once: tests/interop/test_peers_page.py.
@thorough
@pytest.mark.parametrize(
  "page",
  [page for page in PAGES if page.stem != "peers" and ">>> " in page.read_text(encoding="utf-8")],
  ids=lambda page: page.name,
)
def test_examples_of_pages_are_true(page, told):
  if missing(page):
    pytest.skip(f"{', '.join(missing(page))} is not installed")
  assert not told(page)


def test_the_metric_that_extending_shows_is_the_one_of_the_library():
  text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
  (block,) = re.findall(r"^   ```python\n(.*?)^   ```", text, re.M | re.S)
  source = inspect.getsource(inspect.getmodule(metrics.hole))
  for part in textwrap.dedent(block).split("  ...\n"):
    assert part in source


# Which of the metrics have a smooth form is seen where each is called.
@quick("path", derived.FILES, lambda path: path not in {metric_table.PAGE, *repeated.FILES})
def test_files_that_follow_from_descriptions_are_up_to_date(path):
  written = path.read_text(encoding="utf-8")
  assert written == derived.FILES[path](), "run python -m tests.house, if the change is meant"


def test_the_documentation_names_every_function():
  text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
  words = set(re.findall(r"\w+", text))
  missing = [name for name in PUBLIC if name.rsplit(".", 1)[1] not in words]
  assert not missing


def test_links_between_pages_lead_somewhere():
  anchors, pages = {}, [*PAGES, *(ROOT / "docs" / "notebooks").glob("*.md")]
  for page in pages:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    anchors[page] = {re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in heads}
  for page in pages:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
      path, _, anchor = target.partition("#")
      if "://" in target:
        continue
      found = (page.parent / path).resolve() if path else page
      assert found.exists(), f"{page.name}: {target}"
      assert not anchor or anchor in anchors[found], f"{page.name}: {target}"
