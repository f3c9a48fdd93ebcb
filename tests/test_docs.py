"""Every public name is documented, and every example in the docs is true."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import jaxrank

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SECTIONS = ("Args:", "Returns:")
MODULES = (
  jaxrank,
  jaxrank.chance,
  jaxrank.corpus,
  jaxrank.discounts,
  jaxrank.gains,
  jaxrank.class_labels,
  jaxrank.losses,
  jaxrank.ranks,
)


def public():
  """The public functions and classes by dotted name."""
  for module in MODULES:
    for name, value in vars(module).items():
      home = getattr(value, "__module__", "")
      own = home.startswith("jaxrank") and not home.startswith("jaxrank._")
      if not name.startswith("_") and callable(value) and own:
        yield f"{module.__name__}.{name}", value


PUBLIC = dict(public())
METRICS = {
  name: value
  for name, value in PUBLIC.items()
  if inspect.isfunction(value) and hasattr(value, "question")
}
LOSSES = {name: value for name, value in PUBLIC.items() if name.startswith("jaxrank.losses.")}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
  text = inspect.getdoc(PUBLIC[name])
  assert text
  assert text.splitlines()[0].endswith((".", ":")) or "\n\n" in text


@pytest.mark.parametrize("name", METRICS | LOSSES)
def test_metrics_and_losses_document_every_argument(name):
  text = inspect.getdoc(PUBLIC[name])
  assert all(section in text for section in SECTIONS)
  for argument in inspect.signature(PUBLIC[name]).parameters:
    assert re.search(rf"^  (\*\*)?{argument}: ", text, re.M), f"{name} does not document {argument}"


@pytest.mark.parametrize("name", LOSSES)
def test_losses_have_examples(name):
  """The collector of their module runs them."""
  module = inspect.getmodule(LOSSES[name])
  found = doctest.DocTestFinder().find(module)
  examples = {test.name: test.examples for test in found}
  assert examples[f"{module.__name__}.{LOSSES[name].__name__}"]


@pytest.mark.parametrize("name", METRICS)
def test_examples_of_metrics_are_true(name):
  """The wrapper of a metric hides its doctest from the collector of its module."""
  metric = METRICS[name]
  names = {**vars(inspect.getmodule(inspect.unwrap(metric))), "jnp": jaxrank.metrics.binary.jnp}
  examples = doctest.DocTestFinder().find(inspect.unwrap(metric), name, globs=names)
  results = [doctest.DocTestRunner().run(example) for example in examples]
  assert sum(result.attempted for result in results) > 0
  assert not any(result.failed for result in results)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_pages_are_true(page):
  failed, _ = doctest.testfile(str(page), module_relative=False)
  assert not failed


def test_the_documentation_names_every_function():
  text = "".join(page.read_text() for page in PAGES)
  missing = [name for name in PUBLIC if name.rsplit(".", 1)[1] not in text]
  assert not missing
