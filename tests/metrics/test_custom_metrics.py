"""Metrics of users in what works on kernels: LambdaRank and chance."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

SCORES, LABELS = jnp.array([3.0, 2.0, 1.0, 0.0]), jnp.array([0, 1, 0, 2])


def positive(factor):
  if factor <= 0:
    raise ValueError(f"factor must be positive, got {factor}.")


def counted():
  """A metric with a checked parameter, and the parameters of each time its kernel was traced."""
  traces = []

  def scaled(ranked, *, factor=1.0):
    traces.append(factor)
    return factor * ranked.expect(ranked.gain(jr.gains.linear), jr.discounts.logarithmic)

  return jr.metric(scaled, checks={"factor": positive}), traces


def test_checked_parameters_reach_lambda_rank_and_chance():
  scaled, _ = counted()
  for factor in (1.0, 3.0):
    loss = jr.losses.lambda_rank(SCORES, LABELS, metric=scaled, factor=factor)
    expected = factor * jr.losses.lambda_rank(SCORES, LABELS, metric=jr.dcg)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for moment in (jr.chance.expected, jr.chance.std):
      value = moment(scaled, LABELS, factor=factor)
      np.testing.assert_allclose(value, factor * moment(jr.dcg, LABELS), rtol=1e-5)
  with pytest.raises(ValueError, match=r"factor must be positive, got -1\.0"):
    jr.losses.lambda_rank(SCORES, LABELS, metric=scaled, factor=-1.0)


@pytest.mark.parametrize(
  "function",
  [
    lambda metric: jr.losses.lambda_rank(SCORES, LABELS, metric=metric),
    lambda metric: jr.chance.expected(metric, LABELS),
    lambda metric: jr.chance.variance(metric, LABELS),
  ],
)
def test_a_second_call_compiles_nothing(function):
  scaled, traces = counted()
  first = function(scaled)
  before = len(traces)
  np.testing.assert_array_equal(function(scaled), first)
  assert before > 0
  assert len(traces) == before
