"""Candidates of one query spread over four devices: the same values as on one."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from tests.helpers import cases, two_processes

# With jax 0.8.2 and 0.8.3, `psum` is a TypeError under `vmap`.
OLD = jax.__version_info__ < (0, 9)
pytestmark = [pytest.mark.any_platform, pytest.mark.skipif(OLD, reason="it needs jax 0.9")]

QUERIES, N, K = 96, 32, 6
MEASURES = (
  "nDCG@5 ndcg_burges@6 nDCG(gains={1:3})@4 P@1 P@6 R@4 R(rel=2)@4 AP@6 AP(rel=2)@3 RR RR@2 "
  "Success@3 RBP(p=0.5)@6 f1@3"
)
# Ties within a device and across, -inf, NaN, and queries that stand on some devices only.
LISTS = cases.draw(0, QUERIES, N, most_orders=10**40, spoiled=0.003)[:3]
SHARDED = jr.Sharded("items")
over_items = functools.partial(
  jax.shard_map,
  mesh=jax.make_mesh((4,), ("items",), axis_types=(AxisType.Auto,)),
  in_specs=P(None, "items"),
  out_specs=P(),
)


def same(actual, expected):
  np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


def others(scores, labels, where, **options):
  """Metrics that no name stands for, and deeper cut-offs."""
  options["where"] = where
  return [
    jr.precision(scores, labels, k=N + 5, **options),
    jr.average_precision(scores, labels, k=3, normalizer="retrieved", **options),
    jr.ndcg(scores, labels, k=20, discount=jr.discounts.geometric(0.9), **options),
  ]


def largest(program):
  """How many numbers the devices exchange at a time, at most."""
  return max(map(math.prod, two_processes.exchanged(program)))


def test_metrics_are_those_of_one_device():
  @jax.jit
  @over_items
  def spread(scores, labels, where):
    return jr.evaluate(MEASURES, scores, labels, where=where, ranking=SHARDED)

  expected = jr.evaluate(MEASURES, *LISTS[:2], where=LISTS[2])
  assert 0 < np.isnan(expected["RR"]).sum() < QUERIES / 2
  assert len(expected) == len(MEASURES.split())
  program = spread.lower(*LISTS).compile()
  for name, values in program(*LISTS).items():
    same(values, expected[name])
  # The best few of each device, at most.
  assert QUERIES < largest(program) <= QUERIES * 4 * K


@pytest.mark.thorough
def test_other_metrics_and_deeper_cutoffs():
  spread = jax.jit(over_items(lambda *lists: others(*lists, ranking=SHARDED)))
  for values, expected in zip(spread(*LISTS), others(*LISTS), strict=True):
    same(values, expected)


def test_counting_metrics_exchange_counts():
  spread = over_items(lambda s, x, w: jr.reciprocal_rank(s, x, where=w, ranking=SHARDED))
  assert largest(jax.jit(spread).lower(*LISTS).compile()) == QUERIES


@pytest.mark.thorough
def test_queries_and_candidates_spread_both():
  own = jr.Evaluator("nDCG@3 RR", empty="skip", ranking=SHARDED)
  mesh = jax.make_mesh((2, 2), ("q", "items"), axis_types=(AxisType.Auto,) * 2)

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("q", "items"), out_specs=P())
  def step(scores, labels, where):
    state = own.update(own.init(axis_name="q"), scores, labels, where=where)
    return own.all_reduce(state, "q")

  lists = cases.draw(1, 16, 8, most_orders=10**9)[:3]
  plain = jr.Evaluator("nDCG@3 RR", empty="skip")
  expected = plain.update(plain.init(), *lists[:2], where=lists[2])
  state = step(*lists)
  np.testing.assert_array_equal(state.count, expected.count)
  np.testing.assert_array_equal(state.empty, expected.empty)
  assert 0 < state.empty[1] < 16
  for name, value in own.compute(state).items():
    assert value == pytest.approx(plain.compute(expected)[name], rel=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.int8])
def test_top(dtype):
  scores, where = np.clip(LISTS[0], -3, 3), LISTS[2]
  if dtype == jnp.int8:
    scores = np.nan_to_num(scores)
  scores = jnp.asarray(scores).astype(dtype)
  spread = over_items(lambda s, w: jr.sharded.top(s, 20, "items", where=w))
  values, index = map(np.asarray, jax.jit(spread)(scores, where))
  floats = np.asarray(scores.astype(jnp.float32))
  spoiled = (where & np.isnan(floats)).any(-1)
  assert spoiled.any() == (dtype == jnp.bfloat16)
  assert (index[spoiled] == -1).all()
  assert np.isnan(values[spoiled]).all()
  for q in np.flatnonzero(~spoiled):
    retrieved = [i for i in range(N) if where[q, i] and floats[q, i] > -np.inf]
    order = sorted(retrieved, key=lambda i: (-floats[q, i], i))[:20]
    lost = 20 - len(order)
    np.testing.assert_array_equal(index[q], [*order, *[-1] * lost])
    np.testing.assert_array_equal(values[q], [*floats[q][order], *[-np.inf] * lost])


def test_ranks_of_targets_are_those_of_one_device():
  scores, _, where = LISTS
  scores = scores.copy()
  scores[np.argmax(where.any(-1))] = np.nan
  targets = np.random.default_rng(0).integers(-1, N + 1, QUERIES)
  spread = jax.shard_map(
    lambda s, t, w: jr.sharded.target_ranks(s, t, "items", where=w),
    mesh=jax.make_mesh((4,), ("items",), axis_types=(AxisType.Auto,)),
    in_specs=(P(None, "items"), P(), P(None, "items")),
    out_specs=P(),
  )
  program = jax.jit(spread).lower(scores, targets.astype(np.int32), where).compile()
  found = program(scores, targets.astype(np.int32), where)
  expected = jr.ranks.from_scores(scores, targets, where=where)
  jax.tree.map(np.testing.assert_array_equal, found, expected)
  assert 0 < np.sum(np.asarray(found.optimistic) > 0) < QUERIES
  assert largest(program) == QUERIES


def test_mistakes():
  lists = LISTS[:2]
  with pytest.raises(ValueError, match="inside shard_map only"):
    jr.ndcg(*lists, k=3, ranking=SHARDED)
  unanswered = {
    jr.ndcg: "static k",
    jr.r_precision: "static k",
    functools.partial(jr.err, max_label=4, k=3): "err: ranking=Sharded does not answer cascade",
    jr.kendall_tau: "kendall_tau: ranking=Sharded does not answer pairs",
    jr.auc: "auc: ranking=Sharded does not answer before",
  }
  for metric, match in unanswered.items():
    spread = over_items(lambda s, x, m=metric: m(s, x, ranking=SHARDED))
    with pytest.raises(jr.UnansweredError, match=match):
      jax.jit(spread)(*lists)
  with pytest.raises(TypeError, match="int32.*float32"):
    jax.jit(over_items(lambda s, x: jr.precision(s, x, k=1, ranking=SHARDED)))(
      np.zeros((2, 8), np.int32), np.zeros((2, 8), np.int32)
    )
  with pytest.raises(ValueError, match=f"from 1 to {N} candidates, got {N + 1}"):
    jax.jit(over_items(lambda s: jr.sharded.top(s, N + 1, "items")))(lists[0])
  with pytest.raises(TypeError, match="integer indices"):
    jax.jit(over_items(lambda s: jr.sharded.target_ranks(s, jnp.ones(96), "items")))(lists[0])
  with pytest.raises(TypeError, match="k must be an int"):
    jax.jit(over_items(lambda s: jr.sharded.top(s, 2.0, "items")))(lists[0])
  spread = jax.shard_map(
    lambda s, t: jr.sharded.target_ranks(s, t[: len(s)], "items"),
    mesh=jax.make_mesh((4,), ("items",), axis_types=(AxisType.Auto,)),
    in_specs=(P(None, "items"), P("items")),
    out_specs=P(),
  )
  with pytest.raises(ValueError, match="targets must be the same on all devices"):
    spread(lists[0][:2], np.zeros(8, int))
  few = jax.jit(over_items(lambda s: jr.sharded.target_ranks(s, jnp.arange(3), "items")))
  with pytest.raises(ValueError, match=r"one index per query, shape \(96,\), got \(3,\)"):
    few(lists[0])
