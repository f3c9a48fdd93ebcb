"""Every public function on queries that are spread over devices: the same values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.helpers import public_calls
from tests.helpers.public_calls import CALLS, value_and_slope
from tests.helpers.suites import quick

pytestmark = pytest.mark.any_platform

LISTS = public_calls.SCORES, public_calls.LABELS, public_calls.WHERE
QUICK = ("sdcg@3", "alpha_dcg/perfect", "compatibility", "losses.softmax")

# The others are weekly, and do not run: mistakes of layout show when a program is lowered.
every = quick("name", CALLS, QUICK, weekly=CALLS)


def mesh(kind):
  return jax.make_mesh((public_calls.QUERIES,), ("q",), axis_types=(kind,))


def same(found, expected):
  for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@every
def test_queries_on_an_explicit_mesh(name):
  function = jax.jit(value_and_slope(name))
  expected = function(*LISTS) if name in QUICK else None
  with jax.set_mesh(mesh(AxisType.Explicit)) as chosen:
    del chosen
    spread = jax.device_put(LISTS, NamedSharding(jax.sharding.get_mesh(), P("q")))
    if name in QUICK:
      same(function(*spread), expected)
    else:
      function.lower(*spread)


# Statistics over queries, of which they need two at least.
OF_PAIRS = ("stats.effect_size", "stats.paired_t")


@quick("name", [name for name in CALLS if name not in OF_PAIRS], QUICK, weekly=CALLS)
def test_a_query_on_each_device_of_a_shard_map(name):
  def alone(*lists):
    return jax.tree.map(lambda x: jnp.asarray(x)[None], value_and_slope(name)(*lists))

  spread = jax.shard_map(alone, mesh=mesh(AxisType.Auto), in_specs=P("q"), out_specs=P("q"))
  if name not in QUICK:
    jax.jit(spread).lower(*LISTS)
    return
  one = jax.jit(alone)
  rows = [one(*(x[i : i + 1] for x in LISTS)) for i in range(public_calls.QUERIES)]
  expected = jax.tree.map(lambda *parts: jnp.concatenate(parts), *rows)
  same(jax.jit(spread)(*LISTS), expected)
