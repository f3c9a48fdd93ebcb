"""States of many rankers at once: each is as that of its ranker alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from tests.helpers.streams import DATA, GROUPS, N, batch, evaluator, trees_equal

# As many rankers as groups, so that one axis could be taken for the other.
RANKERS = GROUPS
NOISE = jnp.linspace(0.0, 2.0, RANKERS)
OWN = evaluator(groups=GROUPS, reservoir=16)
PLAIN = evaluator()


def state_of(own, noise, data, **options):
  """The state of a ranker that adds noise to the scores."""

  def step(state, arrays):
    turned = arrays["scores"] + noise * jnp.sin(lax.iota(jnp.float32, N))[None]
    return own.update(state, **arrays | {"scores": turned}), None

  key = None if own.reservoir is None else jax.random.key(0)
  return lax.scan(step, own.init(key, **options), data)[0]


@functools.cache
def swept(own):
  data = DATA if own.groups else {name: DATA[name] for name in ("scores", "labels", "where")}
  one = functools.partial(state_of, own, data=data)
  return jax.jit(jax.vmap(one))(NOISE), [jax.jit(one)(x) for x in NOISE]


def take(state, i):
  return jax.tree.map(lambda x: x[i], state)


def same(values, alone):
  """Whether arrays by name are those of the rankers alone; numbers may be in lists or tuples."""
  for name, value in values.items():
    columns = np.moveaxis(np.asarray([x[name] for x in alone]), 0, -1)
    assert np.asarray(value).shape == columns.shape
    np.testing.assert_allclose(value, columns, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("own", [PLAIN, OWN], ids=["plain", "groups"])
def test_statistics_of_a_sweep_are_those_of_each_ranker(own):
  states, alone = swept(own)
  calls = [own.compute, own.variance, own.standard_error, own.interval]
  calls += [own.quantile, own.per_group] if own.groups else []
  for call in calls:
    same(call(states), [call(state) for state in alone])
  assert len({own.compute(state)["RR"] for state in alone}) == RANKERS


def test_a_group_of_a_sweep_is_that_of_each_ranker():
  states, alone = swept(OWN)
  for g in range(GROUPS):
    part = OWN.group(states, g)
    for call in (OWN.compute, OWN.quantile):
      same(call(part), [call(OWN.group(state, g)) for state in alone])


def test_sweeps_merge_ranker_by_ranker():
  states, alone = swept(OWN)
  merged = OWN.merge(states, states)
  for i, state in enumerate(alone):
    trees_equal(take(merged, i), OWN.merge(take(states, i), take(states, i)))
    np.testing.assert_array_equal(take(merged, i).count, 2 * state.count)


def test_two_leading_axes():
  twice = jax.tree.map(lambda x: jnp.stack([x, x]), swept(PLAIN)[0])
  mean = PLAIN.compute(twice)["RR"]
  assert mean.shape == (2, RANKERS)
  np.testing.assert_array_equal(mean[0], PLAIN.compute(swept(PLAIN)[0])["RR"])


def test_an_invalid_query_is_in_the_mean_of_its_ranker_alone():
  own = jr.Evaluator("RR", invalid="propagate")
  arrays = batch(0)
  scores = jnp.stack([arrays["scores"], jnp.full_like(arrays["scores"], jnp.nan)])
  update = jax.vmap(lambda x: own.update(own.init(), x, arrays["labels"], where=arrays["where"]))
  first, second = own.compute(update(scores))["RR"]
  assert np.isfinite(first)
  assert np.isnan(second)


@pytest.mark.thorough
def test_sweeps_are_reduced_ranker_by_ranker():
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(None, "q")), out_specs=P())
  def reduced(noise, data):
    each = jax.vmap(lambda x: state_of(OWN, x, data, axis_name="q"))
    return OWN.all_reduce(each(noise), "q")

  states, alone = reduced(NOISE, DATA), swept(OWN)[1]
  for call in (OWN.compute, OWN.standard_error, OWN.per_group):
    same(call(states), [call(state) for state in alone])
