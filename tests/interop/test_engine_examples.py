"""The examples in docstrings of modules whose engines the quick tests do not have."""

import doctest
import importlib

import jax
import pytest

from tests.helpers.lenient import for_keras
from tests.helpers.suites import thorough

ENGINES = [("clu", "clu"), ("grain", "grain"), ("keras", "keras"), ("nnx", "flax")]


@thorough
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_examples_are_true(name, engine):
  pytest.importorskip(engine)
  module = importlib.import_module(f"jaxrank.interop.{name}")
  # The other metrics of the engines need promotion.
  with for_keras() if engine == "keras" else jax.numpy_dtype_promotion("standard"):
    failed, attempted = doctest.testmod(module)
  assert attempted
  assert not failed
