"""Mesh axes along which JAX does not track what varies: values are right, gradients are refused."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from tests.helpers.suites import quick
from tests.house.public_api import MODULES

pytestmark = pytest.mark.any_platform

Q, N, D, DEVICES = 3, 512, 4, 4
AXIS = "items"
RNG = np.random.default_rng(0)
QUERIES = jnp.asarray(RNG.normal(size=(Q, D)), jnp.float32)
ITEMS = jnp.asarray(RNG.normal(size=(N, D)), jnp.float32)
LISTED = jnp.array([[1, 200], [3, -1], [400, 7]])
LABELS = jnp.asarray(RNG.integers(0, 3, (Q, N)), jnp.float32)
GIVEN = QUERIES, ITEMS, LABELS
SPECS = P(), P(AXIS), P(None, AXIS)


def softmax(queries, items, labels, axis):
  del labels
  return jr.corpus.softmax(queries, items, LISTED, chunk=128, axis_name=axis)


def smooth(measure, queries, items, labels, axis):
  del labels
  ranking = jr.Laplace(1.0)
  values = jr.corpus.evaluate(
    measure, queries, items, LISTED, ranking=ranking, chunk=128, axis_name=axis
  )
  return values[measure]


def sampled(queries, items, labels, axis):
  scores = queries @ items.T
  return jr.losses.sampled_softmax(
    scores, labels, log_q=0.3 * items[:, 0], accidental_hits=scores > 3, axis_name=axis
  )


def ranking(axis):
  return jr.Exact() if axis is None else jr.Sharded(axis)


def weighted(queries, items, labels, axis):
  scores = queries @ items.T
  options = {"weights": labels + items[:, :1].T, "ranking": ranking(axis)}
  return jr.dcg(scores, labels, k=9, **options) + jr.ndcg(scores, labels, k=9, **options)


def best(queries, items, labels, axis):
  del labels
  scores = queries @ items.T
  return jax.lax.top_k(scores, 3)[0] if axis is None else jr.sharded.top(scores, 3, axis)[0]


# By the name that the message starts with.
LOSSES = {
  "corpus.softmax": softmax,
  "corpus.evaluate": functools.partial(smooth, "nDCG"),
  "sampled_softmax": sampled,
  "Sharded": weighted,
  "sharded.top": best,
}


def mapped(function, out, check=True):
  """The function over devices in `shard_map`, with the axis as its last argument."""
  mesh = jax.make_mesh((DEVICES,), (AXIS,), axis_types=(AxisType.Auto,))
  function = functools.partial(function, axis=AXIS)
  return jax.shard_map(function, mesh=mesh, in_specs=SPECS, out_specs=out, check_vma=check)


# The arguments of `in_pmap`.
PARTS = QUERIES, ITEMS.reshape(DEVICES, -1, D), jnp.stack(jnp.split(LABELS, DEVICES, axis=1))


def in_pmap(function):
  """The function in `jax.pmap`, with the results of the first device."""
  call = jax.pmap(functools.partial(function, axis=AXIS), axis_name=AXIS, in_axes=(None, 0, 0))
  return lambda *parts: jax.tree.map(lambda x: x[0], call(*parts))


def values(queries, items, labels, axis):
  given = queries, items, labels
  return {name: loss(*given, axis) for name, loss in LOSSES.items()}


def total(loss, queries, items, labels, axis):
  return jnp.sum(loss(queries, items, labels, axis))


def gradients(queries, items, labels, axis):
  given = queries, items, labels
  return {
    name: jax.grad(functools.partial(total, loss), (0, 1, 2))(*given, axis)
    for name, loss in LOSSES.items()
  }


def same(found, expected):
  for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6)


@quick("how", ["shard_map", "pmap"], ["shard_map"])
def test_values_do_not_need_to_be_tracked(how):
  expected = jax.jit(functools.partial(values, axis=None))(*GIVEN)
  if how == "pmap":
    same(in_pmap(values)(*PARTS), expected)
  else:
    same(jax.jit(mapped(values, P(), check=False))(*GIVEN), expected)


@pytest.mark.thorough
def test_gradients_are_right_where_axes_are_tracked():
  """Inside of `shard_map` and outside."""
  expected = jax.jit(functools.partial(gradients, axis=None))(*GIVEN)
  assert all(np.any(of_items) for _, of_items, _ in expected.values())
  same(jax.jit(mapped(gradients, dict.fromkeys(LOSSES, SPECS)))(*GIVEN), expected)

  def outside(*given):
    return {
      name: jax.grad(mapped(functools.partial(total, loss), P()), (0, 1, 2))(*given)
      for name, loss in LOSSES.items()
    }

  same(jax.jit(outside)(*GIVEN), expected)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_refused_where_axes_are_not_tracked(name):
  loss = functools.partial(total, LOSSES[name])
  told = f"^{name}: there is no gradient along 'items'.*jax.shard_map with check_vma=True"
  untracked = mapped(loss, P(), check=False)
  inside = jax.grad(loss, 1)
  for gradient, given in (
    (jax.grad(untracked, 1), GIVEN),
    (jax.jacrev(jax.checkpoint(untracked), 1), GIVEN),
    (mapped(inside, P(AXIS), check=False), GIVEN),
    (jax.grad(in_pmap(loss), 1), PARTS),
    (in_pmap(inside), PARTS),
  ):
    with pytest.raises(ValueError, match=told):
      jax.eval_shape(gradient, *given)
  # What no gradient passes through may be there.
  jax.eval_shape(jax.grad(lambda *x: jnp.sum(x[0]) + jax.lax.stop_gradient(untracked(*x))), *GIVEN)


def test_what_is_right_without_tracking_is_not_refused():
  """Derivatives in forward mode; the gradient of a ranking by scores, which is 0; maps."""

  def loss(scores, labels, temperature, axis):
    return jr.losses.sampled_softmax(scores, labels, temperature=temperature, axis_name=axis)

  def call(queries, items, labels, axis):
    scores = queries @ items.T
    by_temperature = jax.jacfwd(functools.partial(loss, scores, labels, axis=axis))(1.5)
    exact = functools.partial(jr.ndcg, labels=labels, k=9, ranking=ranking(axis))
    by_scores = jax.grad(lambda s: jnp.sum(exact(s)))(scores)
    of_each = jax.vmap(functools.partial(loss, scores, labels, axis=axis))(jnp.array([0.5, 1.5]))
    return by_temperature, of_each, by_scores

  found = jax.jit(mapped(call, (P(), P(), P(None, AXIS)), check=False))(*GIVEN)
  same(found, jax.jit(functools.partial(call, axis=None))(*GIVEN))
  assert np.any(found[0])
  assert not np.any(found[2])


@pytest.mark.thorough
def test_gradients_in_labels_of_an_exact_ranking_of_a_corpus():
  """Only counts, which have no derivatives, are exchanged: they are right without tracking."""

  def loss(queries, items, labels, axis):
    labels = labels[:, :2] + jnp.float32(0.01) * LISTED.astype(jnp.float32)
    values = jr.corpus.evaluate(
      "nDCG", queries, items, LISTED, labels=labels, chunk=128, axis_name=axis
    )
    return jnp.sum(values["nDCG"])

  expected = jax.grad(loss, 2)(*GIVEN, None)
  assert np.any(expected)
  mesh = jax.make_mesh((DEVICES,), (AXIS,), axis_types=(AxisType.Auto,))
  over = functools.partial(
    jax.shard_map, mesh=mesh, in_specs=(P(), P(AXIS), P()), out_specs=P(), check_vma=False
  )
  split = functools.partial(loss, axis=AXIS)
  same(jax.jit(over(jax.grad(split, 2)))(*GIVEN), expected)
  same(jax.jit(jax.grad(over(split), 2))(*GIVEN), expected)


def test_states_are_those_of_all_devices():
  own, catalogue = jr.Evaluator("RR"), jr.Catalogue(3)

  def states(queries, items, labels, axis):
    state = own.update(own.init(axis_name=axis), (queries @ items.T).T, labels.T)
    counts = catalogue.update(catalogue.init(axis_name=axis), labels.astype(jnp.int32))
    return own.all_reduce(state, axis), catalogue.all_reduce(counts, axis)

  found = jax.jit(mapped(states, P(), check=False))(*GIVEN)
  same(in_pmap(states)(*PARTS), found)
  assert int(found[0].count[0]) == N
  assert int(found[1].count.sum()) == Q * N


def with_axis_name():
  """The public functions and methods that take the name of a mesh axis, by name."""
  for module in MODULES.values():
    for name in module.__all__:
      value = getattr(module, name)
      if inspect.isclass(value) and value.__module__.startswith("jaxrank"):
        for method, function in vars(value).items():
          if inspect.isfunction(function) and not method.startswith("_"):
            yield f"{name}.{method}", function
      yield f"{module.__name__}.{name}".removeprefix("jaxrank."), value


def test_every_function_with_an_axis_says_what_it_needs():
  taken = {}
  for name, value in with_axis_name():
    try:
      parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
      continue
    if "axis_name" in parameters:
      taken[name] = value
  of_states = {f"{x}.{y}" for x in ("Evaluator", "Catalogue") for y in ("init", "all_reduce")}
  without = {"corpus.target_ranks", "corpus.top_items", "sharded.target_ranks"}
  again = {"sampled_softmax": "losses.sampled_softmax"}
  refused = {again.get(name, name) for name in LOSSES} | {"rankings.Sharded"}
  assert {*taken} == refused | of_states | without
  for name, value in taken.items():
    assert "check_vma" in inspect.getdoc(value), name
