"""Ranks and the best of a whole corpus, against a loop over all its items."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxrank import corpus, ranks

Q, N, D, K = 12, 700, 4, 6
FIELDS = ("optimistic", "pessimistic", "candidates")


def integers(seed, *shape):
  """Vectors of small integers: their products are exact, whatever sums them, and often tie."""
  return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


QUERIES, ITEMS = integers(0, Q, D), integers(1, N, D)
TARGETS = np.random.default_rng(2).integers(0, N, Q).astype(np.int32)
EXCLUDED = np.random.default_rng(3).integers(-1, N, (Q, 9)).astype(np.int32)
EXCLUDED[2, :3] = 7  # Thrice the same.
TARGETS[5] = -1  # A query that is padding.
EXCLUDED[6] = -1  # Nothing is excluded.


def cosine(x, y):
  norms = np.linalg.norm(x, axis=-1)[:, None] * np.linalg.norm(y, axis=-1)
  return np.divide(x @ y.T, norms, out=np.zeros_like(norms), where=norms > 0)


SCORES = {
  "dot": QUERIES @ ITEMS.T,
  "cosine": cosine(QUERIES, ITEMS),
  "l2": -np.square(QUERIES[:, None] - ITEMS).sum(-1),
}


def counted(scores, targets, excluded):
  """Optimistic and pessimistic ranks and candidates, one item after another."""
  found = []
  for row, target, out in zip(scores, targets, excluded, strict=True):
    left = [j for j in range(len(row)) if j not in out]
    above = sum(row[j] > row[target] for j in left)
    reaching = sum(row[j] >= row[target] for j in left)
    ranked = target in left and not np.isnan(row[left]).any()
    triple = (1 + above, reaching, len(left)) if ranked else (0, 0, len(left))
    found.append(triple if target >= 0 else (0, 0, 0))
  return np.array(found).T


def best(scores, excluded, k):
  """The ids of the best, -1 behind the last, one query after another."""
  found = []
  for row, out in zip(scores, excluded, strict=True):
    left = [j for j, s in enumerate(row) if j not in out and s > -np.inf]
    found.append([*sorted(left, key=lambda j: (-row[j], j))[:k], *[-1] * k][:k])
  return np.array(found)


def told(found):
  return np.stack([getattr(found, field) for field in FIELDS])


@pytest.mark.parametrize("chunk", [7, 8192])
def test_counts_are_those_of_a_loop(chunk):
  found = corpus.target_ranks(
    jnp.asarray(QUERIES), jnp.asarray(ITEMS), TARGETS, exclude=EXCLUDED, chunk=chunk
  )
  np.testing.assert_array_equal(told(found), counted(SCORES["dot"], TARGETS, EXCLUDED))
  assert all(getattr(found, field).dtype == jnp.int32 for field in FIELDS)


@pytest.mark.parametrize("similarity", ["cosine", "l2"])
def test_other_similarities(similarity):
  """Cosines round, so that items on one ray need not tie; others do as they should."""
  queries, items = jnp.asarray(QUERIES), jnp.asarray(ITEMS)
  found = told(corpus.target_ranks(queries, items, TARGETS, similarity=similarity, chunk=64))
  score = SCORES[similarity]
  nothing = np.full((Q, 1), -1)
  near = 1e-5 * (similarity == "cosine")
  own = np.take_along_axis(score, np.maximum(TARGETS, 0)[:, None], axis=1)
  some = TARGETS >= 0
  assert (found[0] >= 1 + (score > own + near).sum(axis=1))[some].all()
  assert (found[1] <= (score >= own - near).sum(axis=1))[some].all()
  if similarity == "l2":
    np.testing.assert_array_equal(found, counted(score, TARGETS, nothing))
  values, ids = corpus.top_items(queries, items, K, similarity=similarity, chunk=64)
  expected = np.sort(score, axis=1)[:, : -K - 1 : -1]
  np.testing.assert_allclose(values, expected, atol=1e-5)
  np.testing.assert_allclose(np.take_along_axis(score, np.asarray(ids), 1), expected, atol=1e-5)


@pytest.mark.parametrize("chunk", [7, N])
def test_the_best_are_those_of_a_sort(chunk):
  values, ids = corpus.top_items(
    jnp.asarray(QUERIES), jnp.asarray(ITEMS), K, exclude=EXCLUDED, chunk=chunk
  )
  expected = best(SCORES["dot"], EXCLUDED, K)
  np.testing.assert_array_equal(ids, expected)
  np.testing.assert_array_equal(values, np.take_along_axis(SCORES["dot"], expected, axis=1))


def test_ranks_are_those_of_all_scores_at_once():
  """With scores that round: the counts of `ranks.from_scores` in the whole product."""
  rng = np.random.default_rng(4)
  queries = jnp.asarray(rng.standard_normal((Q, 33)), jnp.float32)
  items = rng.standard_normal((768, 33)).astype(np.float32)
  items[500:] = items[:268]
  targets = jnp.arange(Q, dtype=jnp.int32)
  whole = ranks.from_scores(jnp.matmul(queries, items.T, precision="highest"), targets)
  for chunk in (128, 640):
    found = corpus.target_ranks(queries, jnp.asarray(items), targets, chunk=chunk)
    np.testing.assert_array_equal(told(found), told(whole))
  assert (whole.pessimistic > whole.optimistic).all()


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("similarity", ["dot", "cosine", "l2"])
def test_copies_of_an_item_tie_wherever_they_stand(rows, similarity):
  rng = np.random.default_rng(5)
  queries = jnp.asarray(rng.standard_normal((rows, 19)), jnp.float32)
  items = jnp.broadcast_to(jnp.asarray(rng.standard_normal(19), jnp.float32), (300, 19))
  targets = jnp.full(rows, 30)
  found = corpus.target_ranks(queries, items, targets, similarity=similarity, chunk=128)
  np.testing.assert_array_equal(told(found), [[1] * rows, [300] * rows, [300] * rows])


def test_items_from_the_host_give_the_same_and_tell_of_progress():
  told_of = []
  found = corpus.target_ranks(
    QUERIES, ITEMS, TARGETS, exclude=EXCLUDED, chunk=256, progress=lambda *x: told_of.append(x)
  )
  np.testing.assert_array_equal(told(found), counted(SCORES["dot"], TARGETS, EXCLUDED))
  assert told_of == [(256, N), (512, N), (N, N)]
  _, ids = corpus.top_items(QUERIES, ITEMS, K, exclude=EXCLUDED, chunk=64)
  np.testing.assert_array_equal(ids, best(SCORES["dot"], EXCLUDED, K))


def test_memory_maps_are_read_in_chunks(tmp_path):
  np.save(tmp_path / "items.npy", ITEMS)
  items = np.load(tmp_path / "items.npy", mmap_mode="r")
  found = corpus.target_ranks(QUERIES, items, TARGETS, exclude=EXCLUDED, chunk=64)
  np.testing.assert_array_equal(told(found), counted(SCORES["dot"], TARGETS, EXCLUDED))


def test_a_function_scores_pytrees():
  def translated(queries, entities):
    head, relation = queries
    return -jnp.abs(head[:, None] + relation[:, None] - entities["at"][None]).sum(-1)

  head, relation = jnp.asarray(QUERIES), jnp.ones((Q, D), jnp.float32)
  scores = -np.abs(QUERIES[:, None] + 1 - ITEMS).sum(-1)
  found = corpus.target_ranks(
    (head, relation), {"at": jnp.asarray(ITEMS)}, TARGETS, similarity=translated, chunk=64
  )
  expected = counted(scores, TARGETS, np.full((Q, 1), -1))
  np.testing.assert_array_equal(told(found), expected)


def test_parameters_in_a_partial_do_not_compile_again():
  traced, times = [], []

  def scaled(scale, queries, items):
    traced.append(scale)
    return scale * (queries @ items.T)

  for scale, rank in ((1.0, 1), (-1.0, 3)):
    found = corpus.target_ranks(
      jnp.eye(1, 2),
      jnp.array([[3.0, 0], [2, 0], [1, 0]]),
      jnp.array([0]),
      similarity=jax.tree_util.Partial(scaled, scale),
    )
    assert found.optimistic.tolist() == [rank]
    times.append(len(traced))
  assert times[0] == times[1] > 0


@pytest.mark.parametrize(("host", "chunk"), [(False, 128), (True, 1)])
def test_a_nan_spoils_a_query_and_infinities_are_scores(host, chunk):
  """The first query excludes the item with the NaN."""
  items = np.ones((300, 1), np.float32)
  items[[0, 2, 3]] = np.array([[np.nan], [np.inf], [-np.inf]])
  queries = jnp.array([[1.0], [jnp.nan], [1.0], [1.0]])
  targets, excluded = np.array([1, 1, 0, 3]), np.array([[0, 0], [0, 2], [-1, -1], [2, 2]])
  given = queries, items if host else jnp.asarray(items)
  found = corpus.target_ranks(*given, targets, exclude=excluded, chunk=chunk)
  scores = np.asarray(queries) @ items.T
  np.testing.assert_array_equal(told(found), counted(scores, targets, excluded))
  assert np.isnan(found.realistic).tolist() == [False, True, True, True]
  values, ids = corpus.top_items(*given, 4, exclude=excluded, chunk=chunk)
  assert ids.tolist() == [[2, 1, 4, 5], *[[-1] * 4] * 3]
  np.testing.assert_array_equal(values, [[np.inf, 1, 1, 1], *[[np.nan] * 4] * 3])


def test_zeros_of_both_signs_tie():
  items = jnp.array([[-0.0], [0.0], [-1.0], [-0.0]])
  assert corpus.top_items(jnp.ones((2, 1)), items, 3, chunk=2)[1].tolist() == [[0, 1, 3]] * 2


def test_half_precision_is_multiplied_exactly():
  """In bfloat16 the sums would tie."""
  items = jnp.array([[256.0, 1.0], [256.0, 0.0], [0.0, 0.0]], jnp.bfloat16)
  found = corpus.target_ranks(jnp.ones((2, 2), jnp.bfloat16), items, jnp.array([1, 0]))
  assert (found.optimistic.tolist(), found.pessimistic.tolist()) == ([2, 1], [2, 1])
  mixed = corpus.target_ranks(jnp.ones((2, 2), jnp.int8), items, jnp.array([1, 0]))
  assert mixed.optimistic.tolist() == [2, 1]


def test_float64_is_kept():
  with jax.enable_x64(True):
    items = jnp.array([[1.0], [1.0 + 2.0**-50], [0.0]])
    found = corpus.target_ranks(jnp.ones((2, 1)), items, jnp.array([0, 1]), chunk=2)
    values, _ = corpus.top_items(jnp.ones((2, 1)), items, 1, chunk=2)
  assert (found.optimistic.tolist(), values.dtype) == ([2, 1], np.float64)


@pytest.mark.parametrize("axes", [AxisType.Explicit, AxisType.Auto], ids=lambda axes: axes.name)
def test_meshes(axes):
  mesh = jax.make_mesh((2, 2), ("query", "item"), axis_types=(axes,) * 2)
  for by_query, by_item in ((P("query"), P("item")), (P(("query", "item")), P())):
    queries = jax.device_put(QUERIES, NamedSharding(mesh, by_query))
    items = jax.device_put(ITEMS, NamedSharding(mesh, by_item))
    found = corpus.target_ranks(queries, items, TARGETS, exclude=EXCLUDED, chunk=64)
    np.testing.assert_array_equal(told(found), counted(SCORES["dot"], TARGETS, EXCLUDED))
    _, ids = corpus.top_items(queries, items, K, exclude=EXCLUDED, chunk=64)
    np.testing.assert_array_equal(ids, best(SCORES["dot"], EXCLUDED, K))
    if axes == AxisType.Explicit:
      assert jax.typeof(found.optimistic).sharding.spec == by_query


def test_items_split_in_shard_map():
  mesh = jax.make_mesh((4,), ("item",), axis_types=(AxisType.Auto,))

  def ask(queries, items, targets, excluded):
    found = corpus.target_ranks(
      queries, items, targets, exclude=excluded, chunk=32, axis_name="item"
    )
    return found, corpus.top_items(queries, items, K, exclude=excluded, chunk=32, axis_name="item")

  call = jax.jit(jax.shard_map(ask, mesh=mesh, in_specs=(P(), P("item"), P(), P()), out_specs=P()))
  lowered = call.lower(QUERIES, ITEMS, TARGETS, EXCLUDED).compile()
  found, (_, ids) = lowered(QUERIES, ITEMS, TARGETS, EXCLUDED)
  np.testing.assert_array_equal(told(found), counted(SCORES["dot"], TARGETS, EXCLUDED))
  np.testing.assert_array_equal(ids, best(SCORES["dot"], EXCLUDED, K))
  assert "all-gather" not in lowered.as_text()


def test_memory_does_not_grow_with_the_items():
  rows = 2000

  def planned(items):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((rows, 8), (items, 8))]
    ids = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((rows,), (rows, 5))]

    def ask(queries, items, targets, excluded):
      return corpus.target_ranks(
        queries, items, targets, exclude=excluded, chunk=1024
      ), corpus.top_items(queries, items, K, exclude=excluded, chunk=1024)

    compiled = jax.jit(ask).lower(*shapes, *ids).compile()
    return compiled.memory_analysis().temp_size_in_bytes

  short, long = planned(10_000), planned(1_000_000)
  assert long <= 1.01 * short
  assert long < 8 * rows * 1024 * 4


def test_under_jit_ids_beyond_the_corpus_are_no_items():
  ask = jax.jit(lambda t, e: corpus.target_ranks(QUERIES[:3], ITEMS, t, exclude=e))
  found = ask(jnp.array([N, 3, 5]), jnp.array([[-5], [N + 7], [5]]))
  assert found.candidates.tolist() == [N, N, N - 1]
  assert jnp.isnan(found.realistic).tolist() == [True, False, True]


def test_more_than_there_are():
  values, ids = corpus.top_items(QUERIES[:2], ITEMS[:3], 5, exclude=np.array([[1], [-1]]))
  expected = best(SCORES["dot"][:2, :3], [[1], [-1]], 5)
  np.testing.assert_array_equal(ids, expected)
  assert (values[expected < 0] == -np.inf).all()


def test_no_queries():
  found = corpus.target_ranks(QUERIES[:0], ITEMS, np.zeros(0, int))
  assert told(found).shape == (3, 0)
  assert corpus.top_items(QUERIES[:0], ITEMS, 3)[1].shape == (0, 3)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"items": ITEMS[:0]}, "at least one item"),
    ({"items": ITEMS[:, :3]}, "vectors of one length"),
    ({"items": ITEMS[0]}, "shape"),
    ({"queries": (QUERIES, QUERIES)}, "pass a function"),
    ({"queries": (QUERIES, QUERIES[:1])}, "one length"),
    ({"targets": np.full(Q, N)}, f"ids from 0 to {N - 1}, .* got {N} for query 0"),
    ({"targets": np.full(Q, -2)}, "got -2 for query 0"),
    ({"targets": TARGETS[:3]}, "one row for each query"),
    ({"exclude": np.array([[0]] * (Q - 1) + [[N + 4]])}, f"got {N + 4} for query {Q - 1}"),
    ({"exclude": TARGETS}, "one row for each query"),
    ({"exclude": TARGETS[:, None]}, r"targets and excluded ids .* for query 0 \(11 such queries"),
    ({"similarity": "euclid"}, "similarity must be one of"),
    ({"similarity": lambda queries, items: queries}, "similarity must return"),
    ({"chunk": 0}, "chunk must be at least 1"),
    ({"axis_name": "item"}, "'item' is no mesh axis here"),
    ({"exclude": [[1], [2, 3]] * (Q // 2)}, "exclude must have rows of one length"),
  ],
)
def test_what_does_not_go_together_is_told(change, message):
  given = {"queries": QUERIES, "items": ITEMS, "targets": TARGETS} | change
  with pytest.raises(ValueError, match=message):
    corpus.target_ranks(**given)


def test_wrong_types_are_told():
  with pytest.raises(TypeError, match="integer ids"):
    corpus.target_ranks(QUERIES, ITEMS, TARGETS.astype(float))
  with pytest.raises(TypeError, match="k must be an int"):
    corpus.top_items(QUERIES, ITEMS, 2.5)
  with pytest.raises(ValueError, match="k must be at least 1"):
    corpus.top_items(QUERIES, ITEMS, 0)
  with pytest.raises(TypeError, match="items must be real"):
    corpus.target_ranks(QUERIES, ITEMS.astype(complex), TARGETS)
  with pytest.raises(TypeError, match="similarity must be real"):
    corpus.top_items(QUERIES, ITEMS, 1, similarity=lambda q, x: (q @ x.T).astype(complex))
  with pytest.raises(TypeError, match="progress must be a function"):
    corpus.target_ranks(QUERIES, ITEMS, TARGETS, progress=True)


def test_a_mesh_axis_is_for_queries_or_for_items():
  """Each device would rank its own queries among its own items."""
  mesh = jax.make_mesh((4,), ("all",), axis_types=(AxisType.Explicit,))
  queries, items = (jax.device_put(x, NamedSharding(mesh, P("all"))) for x in (QUERIES, ITEMS))
  with pytest.raises(ValueError, match="share a mesh axis.*reshard"):
    corpus.top_items(queries, items, K)
  mesh = jax.make_mesh((4,), ("all",), axis_types=(AxisType.Auto,))
  for specs, name in (((P("all"), P()), "queries"), ((P(), P("all")), "targets")):
    call = jax.shard_map(
      lambda q, t, x: corpus.target_ranks(q, x, t, axis_name="all"),
      mesh=mesh,
      in_specs=(*specs, P("all")),
      out_specs=P("all"),
    )
    few = QUERIES if name == "queries" else QUERIES[: Q // 4]
    with pytest.raises(ValueError, match=f"{name}.* must be the same on all devices along 'all'"):
      call(few, TARGETS[: Q // 4] if name == "queries" else TARGETS, ITEMS)


def test_no_ids_are_legal_as_lists():
  found = corpus.target_ranks(QUERIES[:2], ITEMS, [3, 4], exclude=[[], []])
  np.testing.assert_array_equal(found.candidates, [N, N])


def test_progress_goes_with_no_jit():
  with pytest.raises(ValueError, match="outside of jit"):
    jax.jit(lambda t: corpus.target_ranks(QUERIES, ITEMS, t, progress=print))(TARGETS)
