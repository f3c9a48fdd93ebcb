"""Public functions, values and gradients, under the settings by which JAX finds mistakes.

Every function is traced while JAX looks for leaks. Eager calls, which compile many programs, are
those of one function of each kind. All tests run under strict promotion of dtypes and without
promotion of ranks, see `conftest.py`. `docs/stability.md` names what is a fault of JAX.
"""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from tests.helpers import public_calls
from tests.helpers.public_calls import CALLS, ON_THE_HOST, SPREAD, VARIANTS, value_and_slope
from tests.helpers.suites import quick

pytestmark = pytest.mark.any_platform

# One of each kind: a question to a ranking, a loss with a rule of its own, a loop.
QUICK = ("ndcg", "losses.softmax", "exposure.expected")
KINDS = (
  *("reciprocal_rank", "err", "kendall_tau", "spearman", "alpha_ndcg", "compatibility"),
  *("Gumbel", "Laplace", "losses.lambda_rank", "losses.list_mle", "soft.rank"),
  *("corpus.evaluate", "corpus.softmax", "chance.variance", "ranks.evaluate", "Evaluator"),
  *("plackett_luce.log_prob", "stats.compare", *QUICK),
)
# Operations one by one, each of which is a program, for one call of each kind of loop and rule.
EAGER = (
  *("reciprocal_rank", "alpha_ndcg", "Gaussian", "Laplace", "corpus.evaluate", "corpus.softmax"),
  *("chance.expected", "stats.compare", *QUICK),
)
# Failures of `checkify` on programs without a mistake, by the words of the error.
FAULTS_OF_JAX = (
  # Its rule for `while_loop` takes no predicate of a batch.
  "Checkify does not support batched while-loops",
  # Its rules for `index_checks` know no batch dimensions of a scatter, and no empty gather.
  "tuple index out of range",
  "attempt to get argmin of an empty sequence",
)

kinds = quick("name", KINDS, QUICK)
one_by_one = quick("name", EAGER, QUICK)


def lists():
  return tuple(map(jnp.asarray, (public_calls.SCORES, public_calls.LABELS, public_calls.WHERE)))


def test_every_public_name_is_called_or_said_not_to_be():
  public = set(public_calls.public())
  assert public >= ON_THE_HOST | SPREAD | set(public_calls.OWN)
  assert set(CALLS) - set(VARIANTS) == public - ON_THE_HOST - SPREAD


@kinds
def test_nothing_is_nan(name):
  arrays = lists()
  with jax.debug_nans(True):
    found, slope = jax.jit(value_and_slope(name))(*arrays)
  assert not any(np.isnan(x).any() for x in found if jnp.issubdtype(x.dtype, jnp.floating))
  np.testing.assert_array_equal(slope[~public_calls.WHERE], 0)


@one_by_one
def test_no_step_of_an_eager_call_is_nan(name):
  arrays = lists()
  with jax.debug_nans(True):
    _, slope = value_and_slope(name)(*arrays)
  assert not np.isnan(slope).any()


@quick("name", CALLS, QUICK)
def test_no_tracer_leaks(name):
  # Each trace ends with a collection of garbage, which need not visit the programs of other tests.
  gc.freeze()
  try:
    with jax.checking_leaks():
      _, slope = jax.eval_shape(value_and_slope(name), *lists())
  finally:
    gc.unfreeze()
  assert slope.shape == public_calls.SCORES.shape


@one_by_one
def test_without_jit(name):
  expected = jax.jit(value_and_slope(name))(*lists())
  with jax.disable_jit():
    found = value_and_slope(name)(*lists())
  for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@kinds
def test_checkify(name):
  for checks in (checkify.all_checks, checkify.nan_checks):
    checked = checkify.checkify(value_and_slope(name), errors=checks)
    try:
      error, _ = jax.jit(checked)(*lists())
    except (IndexError, ValueError) as failure:
      if not str(failure).startswith(FAULTS_OF_JAX):
        raise
    else:
      assert error.get() is None
      break
