"""The examples in docstrings of modules whose engines the quick tests do not have."""

import doctest
import importlib

import jax
import pytest

from tests.helpers.suites import thorough


@thorough
@pytest.mark.parametrize(("name", "engine"), [("clu", "clu"), ("grain", "grain"), ("nnx", "flax")])
def test_examples_are_true(name, engine):
  pytest.importorskip(engine)
  module = importlib.import_module(f"jaxrank.interop.{name}")
  # The other metrics of the engines need promotion.
  with jax.numpy_dtype_promotion("standard"):
    failed, attempted = doctest.testmod(module)
  assert attempted
  assert not failed
