"""A JAX that does not take the rules of primitives: plain functions serve instead, never wrong."""

import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import refusal
from tests.helpers.suites import thorough

# What a version to come may lack or refuse, before jaxrank is imported.
MODULE = """
import sys, jax.interpreters.mlir
del jax.interpreters.mlir
sys.modules["jax.interpreters.mlir"] = None
"""
NAME = "import jax.interpreters.batching; del jax.interpreters.batching.primitive_batchers"
RULE = """
import jax.interpreters.mlir
jax.interpreters.mlir.register_lowering = lambda primitive: None
"""


def printed(refused, then):
  """The lines that a program prints after a refusal."""
  command = [sys.executable, "-c", f"{refused}\n{then}"]
  return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("refused", [MODULE, NAME, RULE], ids=["module", "name", "rule"])
def test_one_warning_says_so(refused):
  then = """
import warnings
with warnings.catch_warnings(record=True) as given:
  warnings.simplefilter("always")
  import jaxrank as jr
  jr.ndcg, jr.Laplace, jr.Gumbel, jr.losses.list_mle
from jaxrank._core import _jax
print(len(_jax.refusals) > 1)
print(*(str(warning.message) for warning in given if issubclass(warning.category, RuntimeWarning)))
"""
  several, warning = printed(refused, then)
  assert several == "True"
  assert warning.startswith("jaxrank: jax ")
  assert warning.count("plain functions serve instead") == 1


def test_values_and_derivatives_are_right(tmp_path):
  path = str(tmp_path / "found.npz")
  assert printed(RULE, f"from tests.helpers import refusal; refusal.save({path!r})") == []
  found, expected = np.load(path), refusal.found()
  assert found.keys() == expected.keys()
  for name, x in expected.items():
    np.testing.assert_allclose(found[name], x, rtol=1e-4, atol=2e-6, err_msg=name)


def test_a_gradient_that_nobody_can_know_is_refused():
  then = """
import jax
from jaxrank._core.platforms import forward_only
print(forward_only(2.0, "no gradient here"))
try:
  jax.grad(forward_only)(2.0, "no gradient here")
except ValueError as error:
  print(error)
"""
  assert printed(RULE, then) == ["2.0", "no gradient here"]


@thorough
@pytest.mark.parametrize("metric", ["ndcg", "reciprocal_rank"])
def test_laws_hold(metric):
  then = f"""
import jaxrank as jr
jr.testing.check_metric(jr.{metric}, max_examples=10)
print("they do")
"""
  assert printed(RULE, then) == ["they do"]
