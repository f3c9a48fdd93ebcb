"""Metrics of users: in what works on kernels, LambdaRank and chance, and within loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers.suites import quick

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


def test_a_metric_that_reads_the_scores_has_no_slopes():
  def total(ranked):
    return jnp.sum(ranked.labels * ranked.scores)

  def weighed(ranked):
    return ranked.expect(ranked.scores, jr.discounts.logarithmic)

  def ordered(ranked):
    return jnp.max(ranked.keys)

  def by_shape(ranked):
    return ranked.expect(jnp.ones_like(ranked.scores), jr.discounts.logarithmic)

  for kernel in (total, weighed, ordered):
    with pytest.raises(jr.UnansweredError, match=f"^{kernel.__name__}: the metric reads the sco"):
      jr.losses.lambda_rank(SCORES, LABELS, metric=jr.metric(kernel))
    with pytest.raises(jr.UnansweredError, match=f"^{kernel.__name__}: the metric reads the sco"):
      jr.chance.expected(jr.metric(kernel), LABELS)
  assert jr.losses.lambda_rank(SCORES, LABELS, metric=jr.metric(by_shape)) == 0


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


def _in_loop(question):
  return jnp.sum(jax.lax.map(lambda factor: factor * question(), jnp.array([0.0, 1.0])))


def _in_branch(question):
  return jax.lax.cond(question() > -1, question, lambda: -question())


def _in_vmap(question):
  return jnp.sum(jax.vmap(lambda factor: factor * question())(jnp.array([0.0, 1.0])))


RANKINGS = [
  jr.Exact(),
  jr.Exact("stable"),
  jr.Laplace(0.5),
  jr.Exact("random", jax.random.key(1)),
]


@quick("inside", [_in_loop, _in_branch, _in_vmap], [_in_loop])
@quick("ranking", RANKINGS, RANKINGS[::2])
def test_a_kernel_may_ask_first_within_a_loop(ranking, inside):
  discount = jr.discounts.logarithmic

  def value(ranked):
    hits = ranked.expect(ranked.relevant(), discount, k=3)
    gain = ranked.expect(ranked.gain(jr.gains.exponential), discount)
    best = jnp.sum(ranked.best(jr.gains.exponential))
    return (
      hits
      + gain
      + best
      + ranked.precision(ranked.relevant())
      + 1e-9 * jnp.max(ranked.keys).astype(jnp.float32)
    )

  @jr.metric
  def once(ranked):
    return value(ranked)

  @jr.metric
  def inside_first(ranked):
    return inside(lambda: value(ranked)) + value(ranked)

  @jax.jit
  def each(scores, labels):
    both = jr.evaluate([once, inside_first], scores, labels, ranking=ranking)
    return [metric(scores, labels, ranking=ranking) for metric in (once, inside_first)], both

  (expected, alone), both = each(SCORES, LABELS)
  np.testing.assert_allclose(alone, 2 * expected, rtol=1e-6)
  np.testing.assert_allclose(both["once"], expected, rtol=1e-6)
