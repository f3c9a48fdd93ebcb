"""Every public function on queries that are spread over devices: the same values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.helpers import public_calls
from tests.helpers.suites import quick

pytestmark = pytest.mark.any_platform

LISTS = public_calls.SCORES, public_calls.LABELS, public_calls.WHERE
SOME = ("sdcg@3", "alpha_dcg/perfect", "compatibility", "losses.softmax")
GROUPS = public_calls.groups()
# The others are only lowered: mistakes of layout show then.
every = quick(("module", "names"), [("some", SOME), *GROUPS.items()], [("some", SOME)])
# Statistics over queries, of which they need two at least.
OF_PAIRS = ("stats.effect_size", "stats.paired_t")


def mesh(kind):
  return jax.make_mesh((public_calls.QUERIES,), ("q",), axis_types=(kind,))


def same(found, expected):
  for name, arrays in expected.items():
    for x, y in zip(jax.tree.leaves(found[name]), jax.tree.leaves(arrays), strict=True):
      np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=name)


@every
def test_queries_on_an_explicit_mesh(module, names):
  function = jax.jit(public_calls.together(names))
  expected = function(*LISTS) if names is SOME else None
  chosen = mesh(AxisType.Explicit)
  with jax.set_mesh(chosen):
    spread = jax.device_put(LISTS, NamedSharding(chosen, P("q")))
    if names is SOME:
      same(function(*spread), expected)
    else:
      assert function.lower(*spread).out_info


@every
def test_a_query_on_each_device_of_a_shard_map(module, names):
  together = public_calls.together([name for name in names if name not in OF_PAIRS])

  def alone(*lists):
    return jax.tree.map(lambda x: jnp.asarray(x)[None], together(*lists))

  spread = jax.jit(
    jax.shard_map(alone, mesh=mesh(AxisType.Auto), in_specs=P("q"), out_specs=P("q"))
  )
  if names is not SOME:
    assert spread.lower(*LISTS).out_info
    return
  one = jax.jit(alone)
  rows = [one(*(x[i : i + 1] for x in LISTS)) for i in range(public_calls.QUERIES)]
  expected = jax.tree.map(lambda *parts: jnp.concatenate(parts), *rows)
  same(spread(*LISTS), expected)
