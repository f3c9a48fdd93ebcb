"""The files around the library agree, and those of `.github` have their schemas."""

import importlib.metadata
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import jaxrank

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXTS = [
  *(path for path in GITHUB.rglob("*") if path.is_file()),
  *(ROOT / "docs").glob("*.md"),
  ROOT / "docs/conf.py",
  ROOT / "README.md",
  ROOT / "pyproject.toml",
]


def test_addresses_of_the_project_are_those_of_its_metadata():
  source = PROJECT["urls"]["Source"]
  owner, name = source.split("/")[-2:]
  assert PROJECT["urls"]["Documentation"] == f"https://{owner}.github.io/{name}/"
  for path in TEXTS:
    text = path.read_text(encoding="utf-8")
    for address in re.findall(
      rf"https://github\.com/[\w-]+/{name}\b|https://[\w-]+\.github\.io", text
    ):
      assert address in (source, f"https://{owner}.github.io"), path


def test_the_first_page_of_the_repository_is_short_and_lists_all_examples():
  text = (ROOT / "README.md").read_text(encoding="utf-8")
  assert text.count("\n") <= 120
  examples = {path.name for path in (ROOT / "examples").glob("*.py")}
  assert set(re.findall(r"\]\(examples/(\w+\.py)\)", text)) == examples
  # .ci/run takes the second and the third by number: quick and thorough tests.
  blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
  ends = ["train_ranker.py", "loadgroup", "-m thorough", "docs/_build/html"]
  assert [block.strip().endswith(end) for block, end in zip(blocks, ends, strict=True)] == [
    True
  ] * 4


def test_the_citation_has_the_version():
  text = (GITHUB / "CITATION.cff").read_text(encoding="utf-8")
  assert f"\nversion: {jaxrank.__version__}\n" in text
  assert f"\nlicense: {PROJECT['license']}\n" in text


def test_the_changelog_begins_with_the_version():
  text = (ROOT / "docs/CHANGELOG.md").read_text(encoding="utf-8")
  first = re.search(r"^## (\S+) \((not released|20\d\d-\d\d-\d\d)\)$", text, re.M)
  assert first
  assert first[1] == jaxrank.__version__


def test_the_oldest_versions_are_the_bounds_of_the_metadata():
  lines = (GITHUB / "oldest.txt").read_text(encoding="utf-8").splitlines()
  pinned = dict(line.split("==") for line in lines if "==" in line)
  bounds = dict(line.partition(",")[0].split(">=") for line in PROJECT["dependencies"])
  assert pinned.keys() == bounds.keys()
  for name, bound in bounds.items():
    assert pinned[name].removesuffix(".*").removesuffix(".0") == bound.removesuffix(".0")


@pytest.mark.parametrize("version", ["0.6.2", "0.7.9", "0.8.1"])
def test_an_older_jax_is_refused_by_the_import(version, monkeypatch):
  (bound,) = [x.partition(",")[0] for x in PROJECT["dependencies"] if x.startswith("jax>")]
  old = [SimpleNamespace(version=version)]
  monkeypatch.setattr(importlib.metadata, "distributions", lambda name: old)
  with pytest.raises(ImportError, match=f"^jaxrank needs {bound}, got {version}: pip install"):
    runpy.run_path(jaxrank.__file__)


@pytest.mark.parametrize("version", ["0.8.2", "0.10.1.dev2026", "0.9.0rc1", "1.0", None])
def test_others_are_not(version, monkeypatch):
  """Nor one that was put on the path without its metadata."""
  found = [SimpleNamespace(version=version)] if version else []
  monkeypatch.setattr(importlib.metadata, "distributions", lambda name: found)
  assert runpy.run_path(jaxrank.__file__)["__version__"] == jaxrank.__version__


def test_workflows_try_the_oldest_and_the_newest_python():
  text = (GITHUB / "workflows/tests.yml").read_text(encoding="utf-8")
  matrix = re.search(r"python: \[(.*)\]", text)[1]
  assert f'"{PROJECT["requires-python"].removeprefix(">=")}"' in matrix
  assert '"3.x"' in matrix


def test_workflows_repeat_the_versions_of_the_page():
  """But for the newest, of which each run takes the next, and JAX's nightly build, each week."""
  page = (ROOT / "docs/stability.md").read_text(encoding="utf-8")
  rows = re.findall(r"^\| (\d+\.\d+)\.\S+ \|", page, re.MULTILINE)
  text = (GITHUB / "workflows/tests.yml").read_text(encoding="utf-8")
  tried = re.findall(r"jax: (?:\[newest\]|(oldest)|\"(\d+\.\d+)\.\*\")", text)
  (oldest,) = re.findall(
    r"^jax==(\d+\.\d+)", (GITHUB / "oldest.txt").read_text(encoding="utf-8"), re.MULTILINE
  )
  assert rows[:-1] == [version or oldest for old, version in tried if old or version]
  assert "--pre jax jaxlib" in (GITHUB / "workflows/weekly.yml").read_text(encoding="utf-8")


@pytest.mark.lint
@pytest.mark.parametrize(
  ("schema", "pattern"),
  [
    ("vendor.github-workflows", "workflows/*.yml"),
    ("custom.github-workflows-require-timeout", "workflows/*.yml"),
    ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
    ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ("vendor.dependabot", "dependabot.yml"),
    ("vendor.citation-file-format", "CITATION.cff"),
  ],
)
def test_files_of_github_have_their_schemas(schema, pattern):
  files = sorted(map(str, GITHUB.glob(pattern)))
  assert files
  program = Path(sys.executable).with_name("check-jsonschema")
  command = [program, "--builtin-schema", schema, *files]
  found = subprocess.run(command, capture_output=True, text=True, check=False)
  assert found.returncode == 0, found.stdout + found.stderr
