"""The examples in the docstrings of modules that need an engine which the quick tests do not have."""

import doctest
import importlib

import pytest

from tests.helpers.suites import thorough


@thorough
@pytest.mark.parametrize(("name", "engine"), [("clu", "clu"), ("grain", "grain"), ("nnx", "flax")])
def test_examples_are_true(name, engine):
  pytest.importorskip(engine)
  failed, attempted = doctest.testmod(importlib.import_module(f"jaxrank.interop.{name}"))
  assert attempted
  assert not failed
