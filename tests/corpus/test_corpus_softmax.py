"""The softmax over a whole corpus, against `losses.sampled_softmax` of all scores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import corpus
from tests.helpers.suites import quick

Q, N, D = 7, 900, 6


def draw(seed=0, queries=Q, items=N, positives=3, excluded=6):
  """Vectors, positives with padding and a query without any, exclusions, weights, and a bias."""
  rng = np.random.default_rng(seed)
  u, v = (jnp.asarray(rng.normal(size=(n, D)), jnp.float32) for n in (queries, items))
  ids = np.stack([rng.choice(items, positives, replace=False) for _ in range(queries)])
  ids[0, -1], ids[1] = -1, -1
  out = rng.integers(-1, items, (queries, excluded))
  out[(out[:, :, None] == ids[:, None]).any(-1)] = -1
  weights = jnp.asarray(rng.uniform(0.5, 2, ids.shape), jnp.float32)
  return u, v, weights, jnp.asarray(rng.normal(size=items), jnp.float32), ids, out


def dense(scores, weights, log_q, temperature, ids, out):
  n = scores.shape[1]
  row = jnp.arange(len(ids))[:, None]
  labels = jnp.zeros_like(scores).at[row, jnp.where(ids < 0, n, ids)].set(weights, mode="drop")
  where = jnp.ones(scores.shape, bool)
  where = where.at[row, jnp.where(out < 0, n, out)].set(False, mode="drop")
  return jr.losses.sampled_softmax(
    scores, labels, where=where, log_q=log_q, temperature=temperature
  )


def slopes(loss, given, seed=3):
  """The losses, and their slopes by all arguments, weighted over the queries."""
  share = jnp.asarray(np.random.default_rng(seed).normal(size=len(given[0])), jnp.float32)

  def total(*given):
    found = loss(*given)
    return jnp.sum(share * found), found

  return jax.jit(jax.grad(total, argnums=range(len(given)), has_aux=True))(*given)


def same(found, expected, exact=1e-5, close=1e-5):
  (ours, values), (theirs, others) = found, expected
  np.testing.assert_allclose(values, others, rtol=exact, atol=exact)
  for x, y in zip(ours, theirs, strict=True):
    assert x.dtype == y.dtype
    assert np.isfinite(x).all()
    y = np.asarray(y, np.float32)
    np.testing.assert_allclose(np.asarray(x, np.float32), y, atol=close * np.abs(y).max() + 1e-30)


def product(u, v):
  return jnp.matmul(u, v.T, precision="highest", preferred_element_type=jnp.float32)


@quick("chunk", [128, 8192], [128])
def test_values_and_slopes_are_those_of_all_scores(chunk):
  u, v, weights, log_q, ids, out = draw(chunk)
  given = u, v, weights, log_q, jnp.float32(0.7)

  def ours(u, v, weights, log_q, temperature):
    return corpus.softmax(
      u, v, ids, weights=weights, exclude=out, log_q=log_q, temperature=temperature, chunk=chunk
    )

  def theirs(u, v, weights, log_q, temperature):
    return dense(product(u, v), weights, log_q, temperature, ids, out)

  found = slopes(ours, given)
  same(found, slopes(theirs, given))
  # The query without positives.
  assert found[1][1] == 0
  assert not np.any(found[0][0][1])


def test_the_slope_of_a_weight_is_the_loss_of_its_positive():
  """Also of a weight that is 0."""
  u, v, weights, log_q, ids, out = draw(10)
  weights = weights.at[2].set(0)

  def loss(weights, ids):
    return corpus.softmax(u, v, ids, weights=weights, exclude=out, chunk=128)

  slopes = jax.grad(lambda weights: jnp.sum(loss(weights, ids)))(weights)
  alone = [loss(jnp.ones((Q, 1)), ids[:, i : i + 1]) for i in range(3)]
  np.testing.assert_allclose(slopes, jnp.stack(alone, axis=1), rtol=1e-5)
  assert np.all(slopes[2] > 0)


@pytest.mark.parametrize("similarity", ["cosine", "l2"])
def test_similarities(similarity):
  u, v, weights, log_q, ids, out = draw(1)

  def unit(x):
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)

  def scores(u, v):
    if similarity == "cosine":
      return product(unit(u), unit(v))
    return -jnp.sum(jnp.square(u[:, None] - v[None]), axis=2)

  def ours(u, v):
    return corpus.softmax(u, v, ids, similarity=similarity, temperature=0.2, chunk=256)

  def theirs(u, v):
    return dense(scores(u, v), jnp.ones_like(weights), 0 * log_q, 0.2, ids, np.full_like(out, -1))

  same(slopes(ours, (u, v)), slopes(theirs, (u, v)))


def test_a_similarity_of_the_user_with_parameters_and_integers():
  """Items are integers, looked up in a table that is a parameter of the similarity."""
  u, v, weights, log_q, ids, out = draw(2)

  def looked_up(table, queries, items):
    return (
      product(queries["vector"], table[items["id"]]) * queries["sign"].astype(jnp.float32)[:, None]
    )

  items = {"id": jnp.arange(N)[::-1]}
  sign = jnp.where(jnp.arange(Q) % 2, 1, -1)

  def ours(u, table):
    similarity = jax.tree_util.Partial(looked_up, table)
    return corpus.softmax({"vector": u, "sign": sign}, items, ids, similarity=similarity, chunk=128)

  def theirs(u, table):
    scores = product(u, table[::-1]) * sign.astype(jnp.float32)[:, None]
    return dense(scores, jnp.ones_like(weights), 0 * log_q, 1.0, ids, np.full_like(out, -1))

  same(slopes(ours, (u, v)), slopes(theirs, (u, v)))


def test_items_in_half_precision():
  """An item that is a positive of many queries gets the sum of their slopes, rounded once."""
  u, v, *_ = draw(4, queries=64)
  ids, v = np.full((64, 1), 7), v.astype(jnp.bfloat16)
  u = u.astype(jnp.bfloat16)

  def ours(u, v):
    return corpus.softmax(u, v, ids, chunk=128)

  def theirs(u, v):
    u, v = u.astype(jnp.float32), v.astype(jnp.float32)
    none = np.full((64, 0), -1)
    return dense(product(u, v), jnp.ones((64, 1)), jnp.zeros(N), 1.0, ids, none)

  found, expected = slopes(ours, (u, v)), slopes(theirs, (u, v))
  assert found[1].dtype == jnp.float32
  same(found, expected, close=1e-2)


def test_scores_of_any_spread():
  u, v, weights, log_q, ids, out = draw(5)
  share = jnp.asarray(np.random.default_rng(3).normal(size=Q), jnp.float32)

  def ours(u, v):
    return corpus.softmax(u, v, ids, exclude=out, weights=weights, chunk=256)

  def theirs(u, v):
    return dense(product(u, v), weights, 0 * log_q, 1.0, ids, out)

  def total(loss, u, v):
    found = loss(u, v)
    return jnp.sum(share * found), found

  ways = [jax.grad(functools.partial(total, f), (0, 1), has_aux=True) for f in (ours, theirs)]
  both = jax.jit(lambda u, v: [way(u, v) for way in ways])
  for spread in (1.0, 100.0, 1e4, 1e30):
    same(*both(spread * u, v), close=1e-4)


def test_repeats_nan_and_ids_under_jit():
  u, v, *_ = draw(6)
  ids = np.array(
    [[3, 3, -1], [5, 5, 5], [1, 2, -1], [-1, -1, -1], [4, -1, 4], [9, 8, 9], [6, 6, 7]]
  )
  weights = jnp.asarray(np.arange(21).reshape(7, 3) + 1, jnp.float32)
  first = np.array(
    [[1, 0, 0], [4, 0, 0], [7, 8, 0], [0, 0, 0], [13, 0, 0], [16, 17, 0], [19, 0, 21]]
  )
  found = corpus.softmax(u, v, ids, weights=weights)
  without = np.where(first > 0, ids, -1)
  np.testing.assert_allclose(
    found, corpus.softmax(u, v, without, weights=jnp.asarray(first, jnp.float32)), rtol=1e-6
  )
  spoiled = corpus.softmax(u.at[2, 0].set(jnp.nan), v, ids)
  np.testing.assert_array_equal(np.isnan(spoiled), np.arange(7) == 2)
  wrong = jnp.asarray(ids).at[4, 0].set(N).at[5, 0].set(-2)
  found = jax.jit(lambda ids: corpus.softmax(u, v, ids, exclude=jnp.asarray(ids[:, :1] * 0 + 1)))(
    wrong
  )
  np.testing.assert_array_equal(np.isnan(found), [False, False, True, False, True, True, False])


def mesh(shape, names, kind):
  return jax.make_mesh(shape, names, axis_types=(kind,) * len(names))


@pytest.mark.thorough
def test_items_over_four_devices():
  """Equal to one device, and scores are never gathered."""
  u, v, weights, log_q, ids, out = draw(8, items=1600)
  given = u, v, weights, log_q, jnp.float32(0.7)

  def loss(u, v, weights, log_q, temperature, axis=None):
    return corpus.softmax(
      u, v, ids, weights=weights, exclude=out, log_q=log_q, temperature=temperature, chunk=128,
      axis_name=axis,
    )  # fmt: skip

  specs = P(), P("i"), P(), P("i"), P()
  spread = jax.shard_map(
    functools.partial(loss, axis="i"),
    mesh=mesh((4,), ("i",), jax.sharding.AxisType.Auto),
    in_specs=specs,
    out_specs=P(),
  )
  same(slopes(spread, given), slopes(loss, given), 1e-6, 2e-6)
  text = jax.jit(jax.grad(lambda *x: jnp.sum(spread(*x)), argnums=(0, 1))).lower(*given).compile()
  assert "all-gather" not in text.as_text()


@pytest.mark.thorough
def test_queries_and_items_over_an_explicit_mesh():
  u, v, weights, log_q, ids, out = draw(9, queries=8, items=1600)
  given = u, v, weights, log_q, jnp.float32(0.7)
  both = mesh((2, 2), ("q", "i"), jax.sharding.AxisType.Explicit)

  def loss(u, v, weights, log_q, temperature, ids=ids, out=out):
    return corpus.softmax(
      u, v, ids, weights=weights, exclude=out, log_q=log_q, temperature=temperature, chunk=128
    )

  expected = slopes(loss, given)
  with jax.set_mesh(both):

    def place(x, spec):
      return jax.device_put(x, jax.NamedSharding(both, spec))

    specs = P("q"), P("i"), P("q"), P("i"), P()
    spread = functools.partial(loss, ids=place(ids, P("q")), out=place(out, P("q")))
    share = place(np.random.default_rng(3).normal(size=8).astype(np.float32), P("q"))

    def total(*given):
      found = spread(*given)
      return jnp.sum(share * found), found

    placed = [place(x, spec) for x, spec in zip(given, specs, strict=True)]
    found = jax.jit(jax.grad(total, argnums=range(5), has_aux=True))(*placed)
  same(jax.device_get(found), jax.device_get(expected), 1e-6, 2e-6)


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_items():
  """Beside the gradients themselves; four matrices of scores of a chunk are the limit."""
  queries, chunk, sizes = 64, 1024, []
  for items in (10_000, 100_000):
    u, v = jnp.zeros((queries, D)), jnp.zeros((items, D))
    ids = jnp.zeros((queries, 5), jnp.int32)
    for loss in (
      lambda u, v, ids: jnp.sum(corpus.softmax(u, v, ids, chunk=chunk)),
      lambda u, v, ids: jnp.sum(
        corpus.evaluate("nDCG", u, v, ids, ranking=jr.Laplace(1), chunk=chunk)["nDCG"]
      ),
    ):
      program = jax.jit(jax.value_and_grad(loss, argnums=(0, 1))).lower(u, v, ids).compile()
      sizes.append(program.memory_analysis().temp_size_in_bytes)
  assert max(sizes[2] / sizes[0], sizes[3] / sizes[1]) < 1.05
  assert max(sizes[:1]) < 4 * 4 * queries * chunk


@pytest.mark.thorough
def test_dtypes_of_numbers_are_free():
  """The scores have the dtype of the result; integers are numbers; a traced log_q may be -inf."""
  u, v, weights, log_q, ids, out = draw(11)
  whole = jnp.arange(Q * 3).reshape(Q, 3)
  found = corpus.softmax(u, v, ids, weights=whole, temperature=jnp.bfloat16(2))
  expected = corpus.softmax(u, v, ids, weights=whole.astype(jnp.float32), temperature=2.0)
  np.testing.assert_array_equal(found, expected)
  with jax.enable_x64():
    for options in ({}, {"weights": np.asarray(weights, np.float64), "temperature": np.float64(2)}):
      assert corpus.softmax(u, v, ids, **options).dtype == jnp.float32
    wide = [x.astype(jnp.float64) for x in (u, v)]
    assert corpus.softmax(*wide, ids, weights=weights, log_q=log_q).dtype == jnp.float64
  # An item that is never drawn counts for all.
  never = log_q.at[ids[2, 0]].set(-jnp.inf)
  one, none = ids[:, :1], np.full((Q, 0), -1)
  found = jax.jit(lambda log_q: corpus.softmax(u, v, one, log_q=log_q))(never)
  scores, weights = product(u, v), jnp.ones((Q, 1))
  expected = jax.jit(lambda log_q: dense(scores, weights, log_q, 1.0, one, none))(never)
  np.testing.assert_array_equal(found, expected)


def test_what_is_refused():
  u, v, weights, log_q, ids, out = draw(7)
  for options, error, told in (
    ({"temperature": 0.0}, ValueError, "temperature must be positive"),
    (
      {"weights": weights[:, :2]},
      ValueError,
      "weights must have one number for each of the",
    ),
    (
      {"log_q": log_q[:-1]},
      ValueError,
      "log_q must have one number for each of the item",
    ),
    (
      {"log_q": log_q.at[5].set(-jnp.inf)},
      ValueError,
      "log_q must be finite, got -inf for item 5",
    ),
    ({"exclude": ids[:, :1]}, ValueError, "positives and excluded ids must differ"),
    ({"exclude": np.full((Q, 1), N)}, ValueError, "exclude must be ids from 0 to 899"),
    ({"chunk": 0}, ValueError, "chunk must be"),
    ({"axis_name": "x"}, ValueError, "'x'"),
  ):
    with pytest.raises(error, match=f"corpus.softmax: .*{told}"):
      corpus.softmax(u, v, ids, **options)
  for positives, error, told in (
    (ids[:-1], ValueError, r"positives must have one row for each query, shape \[7, p\]"),
    (ids.astype(np.float32), TypeError, "positives must be integer ids"),
    (np.where(ids < 0, N, ids), ValueError, "positives must be ids from 0 to 899"),
  ):
    with pytest.raises(error, match=f"corpus.softmax: .*{told}"):
      corpus.softmax(u, v, positives)
  with pytest.raises(ValueError, match="items must hold at least one item"):
    corpus.softmax(u, v[:0], ids)
  assert corpus.softmax(u[:0], v, ids[:0]).shape == (0,)


def test_hessians_are_symmetric():
  """By the vectors, the weights, the bias and the temperature; far apart, with weights of 0."""
  ids = np.array([[0, 2, 1], [3, 4, -1]])

  def total(given):
    u, v, weights, log_q, temperature = given
    found = corpus.softmax(
      u, v, ids, weights=weights, log_q=log_q, temperature=temperature, chunk=4
    )
    return found @ jnp.array([1.0, 2.0])

  with jax.enable_x64():
    rng = np.random.default_rng(11)
    u, v, log_q = (rng.normal(size=x) for x in ((2, 3), (6, 3), 6))
    weights, far = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0]]), np.arange(6)[:, None] == 1
    cases = [(u, np.where(far, x * v, v), weights, log_q, np.array(1.0)) for x in (1, 100, 1000)]
    back = ravel_pytree(cases[0])[1]
    at = np.stack([np.concatenate([np.ravel(x) for x in case]) for case in cases])
    found = np.asarray(jax.jit(jax.vmap(jax.jacfwd(jax.grad(lambda x: total(back(x))))))(at))
  size = np.abs(found).max((1, 2), keepdims=True)
  np.testing.assert_allclose(found / size, np.swapaxes(found, 1, 2) / size, rtol=0, atol=1e-12)
  # The losses are linear in the weights.
  assert np.all(found[:, 24:30, 24:30] == 0)
