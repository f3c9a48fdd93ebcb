"""A state knows its evaluator, however it was saved and whatever was traced."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from tests.helpers.suites import thorough

VALUES = jnp.array([0.25, 0.75, 0.5])
REFUSED = "the state is of another evaluator"


def made(own, **options):
  """A state with a few queries of known values, by a program that all evaluators share."""
  if own.groups:
    options["groups"] = jnp.array([0, 1, 1])
  return own.add(own.init(), dict.fromkeys(own.names, VALUES), **options)


def save_npz(path, state):
  np.savez(path / "state.npz", *jax.tree.leaves(state))


def load_npz(path, like):
  with np.load(path / "state.npz") as file:
    return jax.tree.unflatten(jax.tree.structure(like), [file[name] for name in file.files])


def save_pickle(path, state):
  (path / "state").write_bytes(pickle.dumps(state))


def load_pickle(path, like):
  return pickle.loads((path / "state").read_bytes())


def save_orbax(path, state):
  orbax = pytest.importorskip("orbax.checkpoint")
  with orbax.StandardCheckpointer() as checkpointer:
    checkpointer.save(path / "checkpoint", state)


def load_orbax(path, like):
  orbax = pytest.importorskip("orbax.checkpoint")
  with orbax.StandardCheckpointer() as checkpointer:
    return checkpointer.restore(path / "checkpoint", like)


ROUTES = {"npz": (save_npz, load_npz), "pickle": (save_pickle, load_pickle)}
ROUTES_OF_EXTRAS = ROUTES | {"orbax": (save_orbax, load_orbax)}


def named(metric=jr.ndcg, /, **parameters):
  return jr.Measure(metric, name="a", **parameters)


def blend(gain):
  return jr.Evaluator([named(gain=gain), "RR"])


# Two evaluators each, whose states have arrays of the same shapes.
OTHERS = {
  "measures": (jr.Evaluator("nDCG@5 RR"), jr.Evaluator("AP P@1")),
  "order": (jr.Evaluator("nDCG@5 RR"), jr.Evaluator("RR nDCG@5")),
  "metric": (jr.Evaluator([named(), "RR"]), jr.Evaluator([named(jr.dcg), "RR"])),
  "number": (jr.Evaluator([named(k=5), "RR"]), jr.Evaluator([named(k=10), "RR"])),
  "none": (jr.Evaluator([named(), "RR"]), jr.Evaluator([named(k=10), "RR"])),
  "function": (blend(jr.gains.linear), blend(jr.gains.exponential)),
  "table": (blend(jr.gains.table([0.0, 1.0])), blend(jr.gains.table([0.0, 2.0]))),
  "label": (blend(jr.gains.by_label({1: 2})), blend(jr.gains.by_label({1: 3}))),
  "partial": tuple(blend(functools.partial(jnp.power, x)) for x in (2.0, 3.0)),
  "kind": (blend(jr.gains.table([0.0, 1.0])), blend(jr.gains.by_label({0: 1}))),
  "policy": (jr.Evaluator([named(), "RR"]), jr.Evaluator([named(), "RR"], empty="skip")),
  "ranking": tuple(jr.Evaluator([named(), "RR"], ranking=x) for x in (jr.Exact(), jr.Laplace(1.0))),
  "noise": tuple(jr.Evaluator([named(), "RR"], ranking=jr.Laplace(x)) for x in (1.0, 2.0)),
  "ties": tuple(jr.Evaluator([named(), "RR"], ranking=jr.Exact(x)) for x in ("average", "stable")),
}


def refuses(call, *states):
  with pytest.raises(ValueError, match=REFUSED):
    call(*states)


@pytest.mark.parametrize("other", OTHERS)
def test_a_saved_state_is_that_of_its_evaluator(tmp_path, other):
  for one, another in (OTHERS[other], OTHERS[other][::-1]):
    state = made(one)
    for save, load in ROUTES.values():
      save(tmp_path, state)
      assert load(tmp_path, one.init()) == state
      assert one.compute(load(tmp_path, one.init())) == one.compute(state)
      restored, own = load(tmp_path, another.init()), another.init()
      for statistic in (
        another.compute,
        another.variance,
        another.standard_error,
        another.interval,
      ):
        refuses(statistic, restored)
      for pair in ((own, restored), (restored, own)):
        refuses(another.merge, *pair)
      refuses(another.add, restored, dict.fromkeys(another.names, VALUES))


def test_arrays_of_jax_are_refused_as_those_of_files():
  one, another = OTHERS["measures"]
  leaves = jax.block_until_ready(jax.tree.leaves(made(one)))
  restored = jax.tree.unflatten(jax.tree.structure(another.init()), leaves)
  refuses(another.compute, restored)
  refuses(another.merge, another.init(), restored)


@thorough
@pytest.mark.parametrize("route", ROUTES_OF_EXTRAS)
def test_every_route_with_groups_and_a_reservoir(tmp_path, route):
  save, load = ROUTES_OF_EXTRAS[route]
  key, sizes = jax.random.key(0), {"groups": 2, "reservoir": 4}
  one, another = (jr.Evaluator([named(k=k), "RR"], **sizes) for k in (5, 10))
  values = dict.fromkeys(one.names, VALUES)
  state = one.add(one.init(key), values, groups=jnp.array([0, 1, 1]))
  save(tmp_path, state)
  assert load(tmp_path, one.init(key)) == state
  assert one.quantile(load(tmp_path, one.init(key))) == {"a": 0.5, "RR": 0.5}
  restored = load(tmp_path, another.init(key))
  for statistic in (another.compute, another.quantile, another.per_group):
    refuses(statistic, restored)
  refuses(another.group, restored, 0)
  refuses(another.merge, another.init(key), restored)


def test_reservoirs_of_another_size_are_refused():
  key, (one, another) = jax.random.key(0), (jr.Evaluator("RR", reservoir=n) for n in (4, 8))
  restored = jax.tree.unflatten(
    jax.tree.structure(another.init(key)), jax.device_get(jax.tree.leaves(one.init(key)))
  )
  refuses(another.quantile, restored)
  refuses(another.merge, another.init(key), restored)


def test_groups_are_no_rankers(tmp_path):
  """The arrays of a state with groups are those of as many rankers without groups."""
  grouped, plain = jr.Evaluator("RR P@1", groups=2), jr.Evaluator("RR P@1")
  state = made(grouped)
  save_npz(tmp_path, state)
  refuses(plain.compute, load_npz(tmp_path, plain.init()))
  save_npz(tmp_path, jax.tree.map(lambda x: jnp.stack([x, x]), made(plain)))
  refuses(grouped.compute, load_npz(tmp_path, grouped.init()))
  # The state of one group is that of an evaluator without groups.
  for own in (grouped, plain):
    assert own.compute(grouped.group(state, 1)) == {"RR": 0.625, "P@1": 0.625}
  assert plain.compute(plain.merge(made(plain), grouped.group(state, 0)))["RR"] == 0.4375


def test_what_does_not_change_a_state_does_not_change_the_fingerprint():
  table = jr.gains.table
  alike = (
    (blend(table([0, 1])), blend(table(np.float64([0, 1])))),
    (jr.Evaluator("RR"), jr.Evaluator("RR", invalid="propagate")),
    (jr.Evaluator("RR"), jr.Evaluator("RR", empty="error")),
    (jr.Evaluator("RR"), jr.Evaluator(jr.parse("RR"), reservoir=3)),
    (jr.Evaluator([named(k=5)]), jr.Evaluator([named(k=np.int64(5))])),
    *([jr.Evaluator("RR", ranking=jr.Exact("random", jax.random.key(x))) for x in (0, 1)],),
  )
  for one, another in alike:
    key = None if another.reservoir is None else jax.random.key(0)
    assert one.init().fingerprint == another.init(key).fingerprint


def test_a_fingerprint_is_the_same_number_in_every_process():
  """Of this version and the next: a saved state is read by the minor version that wrote it."""
  measures = ["nDCG@10", named(gain=jr.gains.table([0.0, 1.0]), k=3), jr.Measure(jr.rbp)]
  ranking = jr.Gumbel(jnp.float32(0.5))
  found = [
    int(own.init().fingerprint)
    for own in (
      jr.Evaluator("nDCG@10 RR"),
      jr.Evaluator("AP(rel=2)", empty="skip", groups=5),
      jr.Evaluator(measures, ranking=ranking),
    )
  ]
  assert found == [2962031283, 3426468543, 199008256]


def test_states_that_are_mixed_inside_jit_are_refused_outside():
  one, another = OTHERS["number"]
  for mixed in (
    jax.jit(one.merge)(one.init(), made(another)),
    jax.jit(one.merge)(made(another), one.init()),
  ):
    refuses(one.compute, mixed)
    refuses(another.compute, mixed)
  values = dict.fromkeys(one.names, VALUES)

  @jax.jit
  def scanned(state):
    return lax.scan(lambda state, _: (one.add(state, values), None), state, length=2)[0]

  assert one.compute(scanned(made(one))) == one.compute(made(one))
  refuses(one.compute, scanned(made(another)))


def test_sweeps_know_the_evaluator_of_each_ranker():
  one, another = OTHERS["number"]
  pair = jax.tree.map(lambda x, y: jnp.stack([x, y]), made(one), made(one))
  values = dict.fromkeys(one.names, jnp.stack([VALUES, VALUES]))
  swept = jax.jit(jax.vmap(one.add))(pair, values)
  np.testing.assert_array_equal(swept.fingerprint, pair.fingerprint)
  np.testing.assert_array_equal(one.compute(swept)["RR"], [one.compute(made(one))["RR"]] * 2)
  mixed = jax.tree.map(lambda x, y: jnp.stack([x, y]), made(one), made(another))
  refuses(one.compute, mixed)
  refuses(one.merge, swept, mixed)


def test_a_traced_temperature_is_unknown_and_fits_any():
  def own(t):
    return jr.Evaluator([named(), "RR"], ranking=jr.Laplace(t))

  states = jax.jit(jax.vmap(lambda t: made(own(t))))(jnp.array([0.5, 1.0]))
  assert states.fingerprint.tolist() == [0, 0]
  assert own(0.5).compute(states)["a"].shape == (2,)
  known = jax.jit(lambda state, t: own(t).merge(state, made(own(t))))(made(own(0.5)), 1.0)
  assert known.fingerprint == made(own(0.5)).fingerprint
  refuses(own(1.0).compute, known)


def test_states_of_devices_have_one_fingerprint():
  one, another = OTHERS["number"]
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  values = jnp.stack([VALUES] * 4)

  def scanned(rows):
    step = lambda state, row: (one.add(state, dict.fromkeys(one.names, row)), None)  # noqa: E731
    return one.all_reduce(lax.scan(step, one.init(axis_name="q"), rows)[0], "q")

  def reduced(state):
    return one.all_reduce(jax.tree.map(lambda x: x[0], state), "q")

  over = functools.partial(jax.shard_map, mesh=mesh, in_specs=P("q"), out_specs=P())
  assert one.compute(jax.jit(over(scanned))(values)) == one.compute(made(one))
  states = [jax.tree.map(lambda x: jnp.stack([x] * 4), made(own)) for own in (one, another)]
  program = jax.jit(over(reduced))
  assert one.compute(program(states[0])) == one.compute(made(one))
  refuses(one.compute, program(states[1]))


def test_a_donated_state_takes_no_other_with_it():
  """The fingerprint of the next state is no reference to that of the last one."""
  own = OTHERS["number"][0]
  values, state = dict.fromkeys(own.names, VALUES), made(own)
  kept = jax.jit(own.add)(state, values)
  jax.jit(own.merge, donate_argnums=0)(state, own.init())
  assert own.compute(kept) == own.compute(made(own))


def test_looking_at_a_state_needs_no_leave_to_transfer():
  one, another = OTHERS["number"]
  state = jax.block_until_ready(made(one))
  with jax.transfer_guard_device_to_host("disallow_explicit"):
    one.merge(state, state)
    refuses(another.merge, state, state)
