"""What mypy and pyright see of the public API, from outside of the package.

`typing_calls.py` has calls, right and wrong; the pages of the documentation have examples. These
tests need the `lint` extra and start the checkers, so that they run only under `-m lint`, as
`.ci/run` does. With `JAXRANK_WITHOUT_PYRIGHT=1` in the environment those of pyright are skipped.
"""

import doctest
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lint

ROOT = Path(__file__).parents[2]
CALLS = Path(__file__).with_name("typing_calls.py")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
INSTALL = "{} is not installed: python -m pip install '.[lint]' brings it."


def run(checker, *arguments):
  """The output of a checker; its exit status only tells whether it reports something."""
  if importlib.util.find_spec(checker) is None:
    pytest.fail(INSTALL.format(checker))
  command = [sys.executable, "-m", checker, *map(str, arguments)]
  path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("MYPYPATH"))))
  quiet = {"MYPYPATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
  done = subprocess.run(command, capture_output=True, text=True, env=os.environ | quiet, cwd=ROOT)
  assert done.returncode in (0, 1), done.stdout + done.stderr
  return done.stdout


def by_mypy(files, *options):
  """The errors of mypy: the file name, the line and the message of each."""
  cache = ROOT / ".mypy_cache" / "typing"
  silent = ("--config-file=", "--follow-imports=silent", f"--cache-dir={cache}")
  output = run("mypy", *silent, "--no-error-summary", *options, *files)
  found = re.findall(r"^(.+?):(\d+): error: (.*)$", output, re.M)
  assert found or not output, output
  return [(Path(file).name, int(line), message) for file, line, message in found]


def by_pyright(files, folder):
  """The errors of pyright in basic mode, as those of mypy; its configuration is in the folder."""
  if os.environ.get("JAXRANK_WITHOUT_PYRIGHT"):
    pytest.skip("JAXRANK_WITHOUT_PYRIGHT is set.")
  config = {
    "include": [os.path.relpath(file, folder) for file in files],
    "extraPaths": [os.path.relpath(ROOT, folder)],
    "typeCheckingMode": "basic",
  }
  (folder / "pyrightconfig.json").write_text(json.dumps(config))
  output = run("pyright", "-p", folder, "--pythonpath", sys.executable, "--outputjson")
  found = json.loads(output)
  assert found["summary"]["filesAnalyzed"] == len(files)
  return [
    (Path(x["file"]).name, x["range"]["start"]["line"] + 1, x["message"])
    for x in found["generalDiagnostics"]
    if x["severity"] == "error"
  ]


def marked():
  """The lines that a checker must report."""
  lines = enumerate(CALLS.read_text().splitlines(), 1)
  return {number for number, line in lines if line.endswith("# wrong")}


def check(reported):
  missed = marked() - {line for _, line, _ in reported}
  more = [error for error in reported if error[1] not in marked()]
  assert not missed, f"Wrong calls that pass, by line: {sorted(missed)}"
  assert not more, f"Right calls that are reported: {more}"


def test_there_are_calls_right_and_wrong():
  text = CALLS.read_text()
  assert len(marked()) >= 40
  assert text.count("assert_type(") >= 40


def test_mypy_reports_the_wrong_calls_and_no_other():
  check(by_mypy([CALLS], "--strict", "--allow-untyped-calls"))


def test_pyright_reports_the_wrong_calls_and_no_other(tmp_path):
  check(by_pyright([CALLS], tmp_path))


# Engines and peers whose types are loose or missing; the examples of pages that import one run in
# the tests.
ENGINES = re.compile(r"^>>> (?:import|from) (?:equinox|flax|grain|optuna|rax)\b", re.MULTILINE)


@pytest.fixture
def examples(tmp_path):
  """A module of the examples of each page, without those of errors, which are wrong on purpose."""
  modules = []
  for page in PAGES:
    if ENGINES.search(page.read_text()):
      continue
    found = doctest.DocTestParser().get_examples(page.read_text())
    modules.append(tmp_path / f"{page.stem.lower()}_examples.py")
    modules[-1].write_text("".join(x.source for x in found if x.exc_msg is None))
  return modules


def test_mypy_passes_the_examples_of_the_documentation(examples):
  # mypy infers no type for a list that is filled later in a lambda, nor for a dictionary of
  # functions with different arguments. A page may define a name again.
  limits = ("var-annotated", "has-type", "operator", "no-redef")
  options = ("--allow-redefinition", "--ignore-missing-imports")
  assert by_mypy(examples, *options, *(f"--disable-error-code={x}" for x in limits)) == []


def test_pyright_passes_the_examples_of_the_documentation(examples, tmp_path):
  assert by_pyright(examples, tmp_path) == []
