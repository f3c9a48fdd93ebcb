"""`docs/peers.md` is true of the libraries that are installed.

A block whose libraries are not all installed has no case. A library of another version than the
page's is no failure; a skip says so, and a value that differs fails.
"""

import importlib.metadata
import re
import warnings

import jax
import pytest

import jaxrank as jr
from tests.helpers import peers_page
from tests.helpers.suites import thorough

BLOCKS = [block for block in peers_page.blocks() if not block.missing]


def test_the_tables_and_the_blocks_agree():
  """The rows of the values are those that the blocks print, and no library is left out."""
  printed = {}
  for block in peers_page.blocks():
    for line in re.findall(r"^>>> row\(.*\)\n(.*)$", block.source, re.M):
      name = "jaxrank" if "jaxrank" in block.modules else block.section
      printed[name] = line
  assert printed == peers_page.values()
  libraries = list(printed)
  assert libraries == peers_page.libraries()
  assert {library for library in libraries if f"\n## {library}\n" in peers_page.TEXT} == {
    *libraries[1:]
  }


def test_the_page_is_about_this_version():
  assert peers_page.versions()["jaxrank"] == jr.__version__


@thorough
@pytest.mark.parametrize("block", BLOCKS, ids=lambda x: f"{x.section}, {x.number + 1}")
def test_blocks_are_as_written(block):
  # The peers promote dtypes and ranks, and some warn when they are imported or compile.
  promotion = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
  with promotion[0], promotion[1], warnings.catch_warnings():
    warnings.simplefilter("ignore")
    report = peers_page.run(block)
  assert not report, "\n".join([*peers_page.others(), report])


@thorough
@pytest.mark.parametrize("package", peers_page.versions())
def test_versions_are_those_of_the_page(package):
  try:
    installed = importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    pytest.skip(f"{package} is not installed")
  written = peers_page.versions()[package]
  if installed != written:
    pytest.skip(f"{package} {installed} is installed, and docs/peers.md is about {written}")
  assert any(package.replace("-", "_") in block.modules for block in BLOCKS)
