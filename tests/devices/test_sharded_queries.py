"""Queries spread over devices and processes, and candidates of one query spread over devices."""

import functools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from tests.helpers import cases, two_processes
from tests.helpers.streams import GROUPS, close, draw
from tests.helpers.suites import quick, thorough

pytestmark = pytest.mark.any_platform

BATCHES, QUERIES, N = 4, 8, 7
DATA = {name: x[:BATCHES] for name, x in draw(1).items()}
OWN = jr.Evaluator(two_processes.MEASURES, groups=GROUPS, empty="skip", reservoir=40)
KEY = jax.random.key(0)


def batch(i):
  return {name: x[i] for name, x in DATA.items()}


@functools.cache
def whole():
  """The state on one device."""
  state, update = OWN.init(KEY), jax.jit(lambda state, arrays: OWN.update(state, **arrays))
  for i in range(BATCHES):
    state = update(state, batch(i))
  return state


def check(state):
  np.testing.assert_array_equal(state.count, whole().count)
  np.testing.assert_array_equal(state.empty, whole().empty)
  close(OWN.compute(state), OWN.compute(whole()).values())
  close(OWN.standard_error(state), OWN.standard_error(whole()).values(), 1e-5)
  assert OWN.quantile(state) == OWN.quantile(whole())
  for g in range(GROUPS):
    close(OWN.compute(OWN.group(state, g)), OWN.compute(OWN.group(whole(), g)).values())


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_queries_spread_over_a_mesh(kind):
  mesh = jax.make_mesh((4,), ("q",), axis_types=(kind,))
  place = functools.partial(NamedSharding, mesh)
  update = jax.jit(lambda state, arrays: OWN.update(state, **arrays), out_shardings=place(P()))
  with jax.set_mesh(mesh):
    state = jax.device_put(OWN.init(KEY), place(P()))
    batches = [jax.device_put(batch(i), place(P("q"))) for i in range(BATCHES)]
    program = update.lower(state, batches[0]).compile()
    for arrays in batches:
      state = program(state, arrays)
  check(state)
  assert two_processes.exchanged(program)
  # The sample alone needs all values of the queries, never a score.
  assert not any(N in shape for shape in two_processes.exchanged(program))


def test_all_reduce_inside_a_shard_map():
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=P(None, "q"), out_specs=P())
  def evaluated(data):
    step = lambda state, arrays: (OWN.update(state, **arrays), None)  # noqa: E731
    state, _ = lax.scan(step, OWN.init(KEY, axis_name="q"), data)
    return OWN.all_reduce(state, "q")

  program = evaluated.lower(DATA).compile()
  check(program(DATA))
  assert two_processes.exchanged(program)
  assert not any(N in shape for shape in two_processes.exchanged(program))


# Some select from lists so long, and some sort them.
WIDE = cases.draw(0, QUERIES, 40, most_orders=10**40)[:3]
LOSSES = ["softmax", "pairwise_logistic", "lambda_rank", "list_mle", "approx_ndcg", "softrank_ndcg"]


@functools.cache
def alone(measures):
  return jr.evaluate(measures, *WIDE[:2], where=WIDE[2])


@pytest.mark.parametrize(
  ("kind", "measures"),
  [
    (AxisType.Auto, "nDCG@3 P@5"),
    (AxisType.Explicit, "nDCG@3 P@5"),
    (AxisType.Auto, "AP ERR@5 Success@2"),
    (AxisType.Explicit, "kendall_tau"),
  ],
)
def test_metrics_exchange_no_score(kind, measures):
  mesh = jax.make_mesh((4,), ("q",), axis_types=(kind,))
  evaluate = lambda s, x, w: jr.evaluate(measures, s, x, where=w)  # noqa: E731
  with jax.set_mesh(mesh):
    spread = jax.device_put(WIDE, NamedSharding(mesh, P("q")))
    program = jax.jit(evaluate).lower(*spread).compile()
  # Whether any device has ties, say.
  assert not any(two_processes.exchanged(program))
  for name, values in program(*spread).items():
    np.testing.assert_allclose(values, alone(measures)[name], rtol=1e-6, atol=1e-6)


@quick("name", LOSSES, [*LOSSES][:2])
def test_losses_and_their_gradients_exchange_no_score(name):
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))

  def mean(scores, labels, where):
    return jr.aggregate(getattr(jr.losses, name)(scores, labels, where=where))

  spread = jax.device_put([WIDE[0], WIDE[1], WIDE[2]], NamedSharding(mesh, P("q")))
  program = jax.jit(jax.value_and_grad(mean)).lower(*spread).compile()
  assert two_processes.exchanged(program)
  assert not any(two_processes.exchanged(program))


def test_an_exchanged_score_would_be_found():
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  place = functools.partial(NamedSharding, mesh)
  scores = jax.device_put(np.zeros((QUERIES, 8), np.float32), place(P("q")))

  def found(turned, spec):
    program = jax.jit(turned, out_shardings=place(spec)).lower(scores).compile()
    return two_processes.exchanged(program)

  assert found(jnp.negative, P()) == [[QUERIES, 8]]
  assert any(found(jnp.negative, P(None, "q")))
  assert any(found(lambda x: jnp.roll(x, 1, axis=0), P("q")))


def test_split_candidates_are_told_from_split_queries():
  mesh = jax.make_mesh((4,), ("items",), axis_types=(AxisType.Explicit,))
  with jax.set_mesh(mesh):
    scores, labels, _ = jax.device_put(WIDE, NamedSharding(mesh, P(None, "items")))
    for metric in (jr.ndcg, jr.kendall_tau):
      with pytest.raises(ValueError, match=r"split over 'items'.*Sharded\('items'\).*reshard"):
        metric(scores, labels)


def test_what_an_axis_does_not_divide_is_refused():
  """Pad the queries: those without a candidate never count."""
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  own, odd = jr.Evaluator("RR"), {name: DATA[name][0][:6] for name in ("scores", "labels", "where")}

  @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("q"), out_specs=P())
  def step(lists):
    return own.all_reduce(own.update(own.init(axis_name="q"), **lists), "q")

  with pytest.raises(ValueError, match="divi(de|sible)"):
    jax.device_put(odd, NamedSharding(mesh, P("q")))
  with pytest.raises(ValueError, match="divi(de|sible)"):
    jax.jit(step)(odd)
  padded = {name: np.pad(x, ((0, 2), (0, 0))) for name, x in odd.items()}
  values = np.asarray(jr.reciprocal_rank(*list(odd.values())[:2], where=odd["where"]))
  mean = values[odd["where"].any(-1)].mean()
  assert own.compute(jax.jit(step)(padded)) == pytest.approx({"RR": mean})


@pytest.mark.parametrize("check", [True, False])
def test_what_is_reduced_is_not_reduced_again(check):
  own = jr.Evaluator("RR", reservoir=4)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))

  def reduced(times, axis_name):
    def call(scores):
      state = own.update(own.init(KEY, axis_name=axis_name), scores, scores)
      for _ in range(times):
        state = own.all_reduce(state, "q")
      return state.count

    spread = jax.shard_map(call, mesh=mesh, in_specs=P("q"), out_specs=P(), check_vma=check)
    return jax.eval_shape(spread, jnp.ones((8, 3)))

  assert reduced(1, "q").shape == (1,)
  if check:
    with pytest.raises(ValueError, match="reduced already"):
      reduced(2, "q")
    with pytest.raises(ValueError, match=r"drawn alike.*axis_name='q'"):
      reduced(1, None)


def test_priorities_differ_between_devices():
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=(), out_specs=P("q"))
  def seeds():
    return OWN.init(KEY, axis_name="q").reservoir.seed[None]

  assert len(np.unique(seeds(), axis=0)) == 4


@thorough
def test_two_processes_are_as_one(tmp_path):
  """Uneven parts, and a process that has no query of the last batch."""
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
  np.savez(tmp_path / "data.npz", **DATA)
  root = Path(__file__).parents[2]
  environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PYTHONPATH": str(root)}
  command = [sys.executable, "-W", "error", two_processes.__file__]
  running = [
    subprocess.Popen(
      [*command, address, str(i), str(tmp_path / "data.npz"), str(tmp_path / f"{i}.json")],
      env=environment,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    for i in range(2)
  ]
  try:
    outputs = [process.communicate(timeout=300)[0] for process in running]
  finally:
    for process in running:
      process.kill()
  assert [process.returncode for process in running] == [0, 0], outputs
  expected = two_processes.report(OWN, whole())
  lists = {name: DATA[name][0] for name in ("scores", "labels", "where")}
  value, slope = jax.value_and_grad(two_processes.mean_loss)(lists.pop("scores"), **lists)
  for i in range(2):
    found = json.loads((tmp_path / f"{i}.json").read_text())
    for how in ("jit", "shard_map", "merged"):
      assert found[how]["count"] == expected["count"]
      assert found[how]["invalid"] == expected["invalid"]
      close(found[how]["mean"], expected["mean"].values())
      close(found[how]["error"], expected["error"].values(), 1e-5)
      for name, values in expected["groups"].items():
        np.testing.assert_allclose(found[how]["groups"][name], values, rtol=1e-6)
    np.testing.assert_allclose(found["loss"], value, rtol=1e-6)
    cut = 3 * QUERIES // 4
    mine = slice(cut) if i == 0 else slice(cut, QUERIES)
    np.testing.assert_allclose(found["slope"][: len(slope[mine])], slope[mine], atol=1e-6)
    assert found["exchanged"]
    assert not any(N in shape for shape in found["exchanged"])


def test_in_batch_negatives_of_all_devices():
  """Values and gradients of `sampled_softmax` do not depend on how candidates are split."""
  rng = np.random.default_rng(3)
  rows, n = 6, 16
  scores = rng.normal(size=(rows, n)).astype(np.float32) * 3
  scores[0, 5], scores[1, 2], scores[5] = -np.inf, np.nan, -np.inf
  ids = rng.integers(0, 9, n)
  labels = np.eye(rows, n, dtype=np.float32)
  labels[3], labels[4] = 0, -1
  where = rng.random((rows, n)) < 0.9
  where[2, 4:], where[1, 2] = False, True
  hits = ids[:rows, None] == ids
  log_q = np.log(rng.random(n)).astype(np.float32)
  weights = rng.random((rows, n)).astype(np.float32)
  # A weight of 0 has a slope.
  weights[0, 0] = 0
  mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
  arrays = labels, where, log_q, hits, weights

  def loss(scores, labels, where, log_q, hits, weights, **options):
    options |= {"log_q": log_q, "accidental_hits": hits, "weights": weights, "temperature": 0.7}
    return jr.losses.sampled_softmax(scores, labels, where=where, **options)

  specs = P(None, "d"), P(None, "d"), P(None, "d"), P("d"), P(None, "d"), P(None, "d")
  split = jax.jit(
    jax.shard_map(functools.partial(loss, axis_name="d"), mesh=mesh, in_specs=specs, out_specs=P())
  )
  whole = loss(scores, *arrays)
  np.testing.assert_allclose(split(scores, *arrays), whole, rtol=1e-6)
  assert np.isnan(whole[1])
  factors = jnp.where(jnp.isnan(whole), 0, lax.iota(jnp.float32, rows) + 1)

  def total(function, scores, weights):
    losses = function(scores, *arrays[:-1], weights)
    return jnp.sum(jnp.where(factors > 0, factors * losses, 0))

  expected, got = (
    jax.jit(jax.grad(functools.partial(total, f), argnums=(0, 1)))(scores, weights)
    for f in (loss, split)
  )
  for x, y in zip(got, expected, strict=True):
    assert np.isfinite(np.delete(x, 1, 0)).all()
    np.testing.assert_allclose(np.delete(x, 1, 0), np.delete(y, 1, 0), atol=1e-6)
  assert got[1][0, 0] > 0
  with pytest.raises(ValueError, match="sampled_softmax: 'd' is no mesh axis here"):
    loss(scores, *arrays, axis_name="d")
