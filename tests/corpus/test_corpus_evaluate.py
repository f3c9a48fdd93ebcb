"""Metrics of many positives among a whole corpus, against the metrics of all scores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import corpus
from jaxrank._core.platforms import forced
from jaxrank.rankings import long_ties
from tests.helpers.suites import quick, thorough

# Items that are not listed have a gain as well.
OF_ALL = jr.Measure(jr.dcg, k=5, gain=lambda label: label + 1, name="gain of 0")
MEASURES = (
  "nDCG nDCG@5 DCG@3 AP AP@4 RR RR@2 Success@3 R@5 P@5 Rprec RBP(p=.7) RBP(p=.7)@4 SetP F1@3",
  jr.bpref,
  jr.auc,
  jr.fall_out,
  jr.Measure(jr.fall_out, k=4),
  jr.Measure(jr.judged, k=3),
  jr.Measure(jr.err, max_label=3),
  jr.Measure(jr.err, max_label=3, k=4),
  jr.Measure(jr.nerr, max_label=3),
  jr.Measure(jr.gap, max_label=3),
  jr.Measure(jr.recall, rel=2),
  jr.Measure(jr.average_precision, k=6, normalizer="retrieved"),
  jr.Measure(jr.precision, k=9, divisor="retrieved"),
  jr.Measure(jr.dcg, discount=lambda rank: 1 / (1 + jnp.sqrt(rank)), name="other discount"),
  OF_ALL,
)


def names(measures):
  """All measures as one list."""
  found = []
  for measure in measures:
    found += measure.split() if isinstance(measure, str) else [measure]
  return found


def batch(rng, queries, items, positives, excluded, levels):
  """Scores with long ties, and positives with repeats, exclusions and padding."""
  scores = rng.integers(0, levels, (queries, items)).astype(np.float32)
  scores[rng.random((queries, items)) < 0.05] = -np.inf
  ids = rng.integers(-1, items, (queries, positives))
  ids[rng.random(queries) < 0.05] = -1
  labels = rng.integers(-1, 4, ids.shape)
  out = rng.integers(-1, items, (queries, excluded))
  out[(out[:, :, None] == ids[:, None]).any(-1)] = -1
  return scores, ids, labels, out


def dense(measures, scores, ids, labels, out):
  """`jaxrank.evaluate` on all scores; of repeated positives the first counts."""
  graded = np.zeros(scores.shape, labels.dtype)
  where = np.ones(scores.shape, bool)
  for row, (query, given, removed) in enumerate(zip(ids, labels, out, strict=True)):
    for item, label in reversed([*zip(query, given, strict=True)]):
      if item >= 0:
        graded[row, item] = label
    where[row, removed[removed >= 0]] = False
  return jr.evaluate(measures, scores, graded, where=where)


def table(queries, items):
  """A similarity that reads scores: queries are rows of scores, and items are columns."""
  return queries[:, items]


def counted(measures, scores, ids, labels, out, **options):
  items = jnp.arange(scores.shape[1])
  return corpus.evaluate(
    measures, scores, items, ids, labels=labels, exclude=out, similarity=table, **options
  )


def compare(found, expected):
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


# As many as a quick test compiles; the thorough one takes all.
FEW = ["nDCG@5", "AP", "RR@2", "Rprec", jr.bpref, jr.auc, jr.Measure(jr.gap, max_label=3), OF_ALL]


def test_values_are_those_of_all_scores():
  rng = np.random.default_rng(3)
  parts = [batch(rng, 200, 300, 7, 12, levels) for levels in (3, 40)]
  given = [np.concatenate(x) for x in zip(*parts, strict=True)]
  compare(counted(FEW, *given), dense(FEW, *given))


@pytest.mark.thorough
@pytest.mark.parametrize(
  ("measures", "items", "positives"), [(FEW, 1, 2), (names(MEASURES), 130, 20)]
)
def test_values_are_those_of_all_scores_in_many_cases(measures, items, positives):
  """One chunk of few items and several of many, and lists of one score and without ties."""
  rng = np.random.default_rng(9)
  parts = [batch(rng, 1000, items, positives, 9, levels) for levels in (1, 2, 30, 10000)]
  given = [np.concatenate(x) for x in zip(*parts, strict=True)]
  compare(counted(measures, *given, chunk=128), dense(measures, *given))


@pytest.mark.thorough
def test_values_by_the_algorithms_of_accelerators():
  given = batch(np.random.default_rng(3), 100, 300, 7, 12, 20)
  expected = dense(FEW, *given)
  with forced("gpu"):
    compare(counted(FEW, *given), expected)


def test_what_is_ahead_of_items_that_are_not_listed():
  """Two slots stand for all of them: those that are retrieved, and those that are not."""

  @jr.metric
  def overtaken(ranked):
    b = ranked.relevant()
    w = ranked.weighted(jnp.where(b, 1, jnp.ones_like(ranked.labels) * 2))
    return ranked.total(jnp.where(b, 0, ranked.before(w)))

  given = batch(np.random.default_rng(8), 50, 60, 4, 9, 5)
  compare(counted([overtaken], *given), dense([overtaken], *given))


# The last one needs the number of candidates.
SOME = "AP@9 R@3 SetP"
Q, N = 11, 700
QUERIES, ITEMS = (
  np.random.default_rng(seed).integers(-3, 4, (size, 4)).astype(np.float32)
  for seed, size in enumerate((Q, N))
)
POSITIVES = np.random.default_rng(5).integers(-1, N, (Q, 5)).astype(np.int32)
EXCLUDED = np.random.default_rng(6).integers(0, N, (Q, 9)).astype(np.int32)
EXCLUDED[(EXCLUDED[:, :, None] == POSITIVES[:, None]).any(-1)] = -1
ONES = np.ones_like(POSITIVES)
EXPECTED = functools.cache(lambda: dense(SOME, QUERIES @ ITEMS.T, POSITIVES, ONES, EXCLUDED))


@pytest.mark.parametrize("chunk", [7, 8192])
def test_chunks_do_not_matter(chunk):
  found = corpus.evaluate(
    SOME, QUERIES, jnp.asarray(ITEMS), POSITIVES, exclude=EXCLUDED, chunk=chunk
  )
  compare(found, EXPECTED())


def test_items_from_the_host_give_the_same_and_tell_of_progress():
  told = []
  found = corpus.evaluate(
    SOME, QUERIES, ITEMS, POSITIVES, exclude=EXCLUDED, chunk=256,
    progress=lambda *x: told.append(x),
  )  # fmt: skip
  compare(found, EXPECTED())
  assert told == [(256, N), (512, N), (N, N)]


@quick("axes", [AxisType.Explicit, AxisType.Auto], [AxisType.Explicit])
def test_meshes(axes):
  mesh = jax.make_mesh((2, 2), ("query", "item"), axis_types=(axes,) * 2)
  queries, items = (
    jax.device_put(x, NamedSharding(mesh, P(axis)))
    for x, axis in ((np.concatenate([QUERIES, QUERIES[:1]]), "query"), (ITEMS, "item"))
  )
  more = (np.concatenate([x, x[:1]]) for x in (POSITIVES, EXCLUDED))
  positives, excluded = more
  found = corpus.evaluate(SOME, queries, items, positives, exclude=excluded, chunk=64)
  compare({name: np.asarray(value)[:Q] for name, value in found.items()}, EXPECTED())


def test_items_split_in_shard_map():
  mesh = jax.make_mesh((4,), ("item",), axis_types=(AxisType.Auto,))

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("item"), P(), P()), out_specs=P())
  def split(queries, items, positives, excluded):
    return corpus.evaluate(
      SOME, queries, items, positives, exclude=excluded, chunk=32, axis_name="item"
    )

  compare(split(QUERIES, ITEMS, POSITIVES, EXCLUDED), EXPECTED())


@quick("similarity", ["dot", "cosine", "l2"], ["l2"])
def test_copies_of_a_positive_tie_wherever_they_stand(similarity):
  """Each of three positives is one of 100 copies, whose mean reciprocal ranks are known."""
  rng = np.random.default_rng(5)
  items = np.repeat(rng.standard_normal((3, 19)).astype(np.float32), 100, axis=0)
  rng.shuffle(order := np.arange(300))
  ids = np.argsort(order)[[30, 130, 230]][None].repeat(2, 0)
  queries = jnp.asarray(rng.standard_normal((2, 19)), jnp.float32)
  found = corpus.evaluate(
    "DCG", queries, jnp.asarray(items[order]), ids, similarity=similarity, chunk=128
  )
  np.testing.assert_allclose(found["DCG"], (1 / np.log2(np.arange(2, 302))).sum() / 100, rtol=1e-6)


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_items():
  def planned(items):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((500, 8), (items, 8))]
    ids = [jax.ShapeDtypeStruct((500, size), jnp.int32) for size in (5, 3)]

    def ask(queries, items, positives, excluded):
      return corpus.evaluate("AP R@9", queries, items, positives, exclude=excluded, chunk=1024)

    compiled = jax.jit(ask).lower(*shapes, *ids).compile()
    return compiled.memory_analysis().temp_size_in_bytes

  short, long = planned(10_000), planned(1_000_000)
  assert long <= 1.01 * short


def test_spoiled_queries_are_nan():
  """An excluded positive, one that is no item, NaN scores of a positive and of another item."""
  items = jnp.array([[0.0], [1.0], [2.0], [jnp.nan]])
  positives = jnp.array([[0, 1], [9, 1], [1, 3], [1, 2], [-1, -1], [-1, -1], [2, -1]])
  labels = jnp.array([[1.0, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, jnp.nan]])
  excluded = jnp.array([[1], [3], [-1], [-1], [-1], [3], [3]])
  ask = jax.jit(lambda ids: corpus.evaluate(
    "RR nDCG", jnp.ones((7, 1)), items, ids, labels=labels, exclude=excluded
  ))  # fmt: skip
  for value in ask(positives).values():
    np.testing.assert_array_equal(value, [np.nan] * 5 + [0, 1])
  nan_label = jnp.where(positives == 1, jnp.nan, labels)
  ask = corpus.evaluate(
    "RR", jnp.ones((7, 1)), items[:3], jnp.full((7, 1), 1), labels=nan_label[:, 1:]
  )
  np.testing.assert_array_equal(jnp.isnan(ask["RR"]), jnp.isnan(nan_label[:, 1]))


@quick("similarity", ["dot", "cosine", "l2"], ["dot"])
def test_one_nan_among_many_items_is_seen(similarity):
  """The maximum of XLA for a CPU loses it from 4,096 numbers on."""
  items = np.random.default_rng(1).normal(size=(600, 8)).astype(np.float32)
  queries, positives = np.ones((1, 8), np.float32), np.array([[1]])

  def ask(queries, items):
    return corpus.evaluate("RR", queries, items, positives, similarity=similarity)["RR"]

  jitted = jax.jit(ask)
  for place in (3, 5, 599):
    spoiled = np.array(items)
    spoiled[place, 0] = np.nan
    assert np.isnan(jitted(queries, spoiled))
  for value in (ask(queries, spoiled), ask(queries, jnp.asarray(spoiled))):
    assert np.isnan(value)


def test_what_ranks_of_positives_do_not_tell_is_nan_or_refused():
  ask = functools.partial(corpus.evaluate, queries=QUERIES, items=ITEMS, positives=POSITIVES)
  for measure in (jr.kendall_tau, jr.spearman, jr.interpolated_precision):
    with pytest.raises(ValueError, match=f"{measure.__name__}: jaxrank.corpus.evaluate does not"):
      ask(measure)
  with pytest.raises(ValueError, match=r"alpha_ndcg.* takes labels \[..., n, subtopics\]"):
    ask(jr.alpha_ndcg)
  with pytest.raises(ValueError, match="weights of single items"):
    ask(jr.Measure(jr.dcg, weights=jnp.ones((Q, 5))))
  relevant_to_all = jr.Measure(jr.average_precision, rel=0)
  assert jnp.isnan(ask(relevant_to_all)["average_precision(rel=0)"]).all()
  plus_one = jr.Measure(jr.ndcg, gain=lambda label: label + 1, name="shifted")
  assert jnp.isnan(ask(plus_one)["shifted"]).all()

  @jr.metric
  def of_two_users(ranked, *, least=0):
    b = jnp.stack([ranked.relevant(rel) for rel in (1, least)], axis=-1)
    return jnp.sum(ranked.each_user(ranked.precision, b))

  one, other = jr.Measure(of_two_users, name="0"), jr.Measure(of_two_users, least=1, name="1")
  found = ask([one, other, "AP"])
  assert jnp.isnan(found["0"]).all()
  assert not jnp.isnan(found["1"] + found["AP"]).any()


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"positives": np.full((Q, 2), N)}, f"positives must be ids from 0 to {N - 1}"),
    ({"positives": POSITIVES[0]}, "positives must have one row for each query"),
    ({"labels": ONES[:, :2]}, "labels"),
    ({"exclude": EXCLUDED[:3]}, "exclude must have one row for each query"),
    ({"chunk": 0}, "chunk must be at least 1"),
    ({"axis_name": "item"}, "'item' is no mesh axis here"),
    ({"measures": "nDCG@0"}, "corpus.evaluate: "),
  ],
)
def test_what_does_not_go_together_is_told(change, message):
  given = {"measures": SOME, "queries": QUERIES, "items": ITEMS, "positives": POSITIVES} | change
  with pytest.raises(ValueError, match=message):
    corpus.evaluate(**given)


@thorough
def test_more_columns_of_positives_than_items():
  ids = np.random.default_rng(2).integers(0, 5, (3, 300))
  found = corpus.evaluate(SOME, QUERIES[:3], jnp.asarray(ITEMS[:5]), ids)
  nothing = np.full((3, 1), -1)
  compare(found, dense(SOME, QUERIES[:3] @ ITEMS[:5].T, ids, np.ones_like(ids), nothing))


def test_no_queries_and_no_positives():
  found = corpus.evaluate("RR", QUERIES[:0], ITEMS, np.zeros((0, 3), int))
  assert found["RR"].shape == (0,)
  found = corpus.evaluate("RR", QUERIES, ITEMS, np.zeros((Q, 0), int))
  np.testing.assert_array_equal(found["RR"], np.zeros(Q))
  assert corpus.evaluate([], QUERIES, ITEMS, POSITIVES) == {}


@thorough
def test_float64_is_kept():
  with jax.enable_x64(True):
    items = jnp.array([[1.0], [1.0 + 2.0**-50], [0.0]])
    found = corpus.evaluate("RR nDCG AP", jnp.ones((1, 1)), items, jnp.array([[0]]), chunk=2)
  np.testing.assert_allclose(found["RR"], 0.5, rtol=1e-15)
  np.testing.assert_allclose(found["nDCG"], 1 / np.log2(3), rtol=1e-12)
  assert found["AP"].dtype == np.float64


TIES = [(0, 1), (0, 7), (3, 40), (2, 5000), (1000, 33), (10**6, 2), (10**6, 50), (7, 10**6)]


@thorough
@pytest.mark.parametrize("k", [None, 10, 3000])
def test_long_ties_have_the_sums_of_all_their_ranks(k):
  """The means of discounts, and the two sums of average precision, by adding rank after rank."""
  above, size = (jnp.asarray(x, jnp.int32) for x in zip(*TIES, strict=True))
  most = 2 * 10**6
  other = jr.discounts.geometric(0.999)
  count = long_ties.inside(above, size, k)
  sums = [
    long_ties.sums(discount, above, count, jnp.float32)
    for discount in (jr.discounts.reciprocal, other)
  ]
  for at, (a, t) in enumerate(TIES):
    rank = np.arange(a + 1.0, min(a + t, k or np.inf) + 1)
    for discount, values in (
      (jr.discounts.logarithmic, 1 / np.log2(1 + rank)),
      (jr.discounts.reciprocal, 1 / rank),
      (jr.discounts.constant, rank**0),
      (other, 0.999 ** (rank - 1)),
    ):
      found = long_ties.mean(discount, above, size, k, most, jnp.float32)
      np.testing.assert_allclose(found[at], values.sum() / t, rtol=3e-5, atol=1e-30)
    for (plain, by_place), values in zip(sums, (1 / rank, 0.999 ** (rank - 1)), strict=True):
      np.testing.assert_allclose(plain[at], values.sum(), rtol=3e-5, atol=1e-30)
      expected = np.sum((rank - a - 1) * values)
      np.testing.assert_allclose(by_place[at], expected, rtol=3e-5, atol=1e-30)


def first_of(values, chosen, size):
  """`E values[place]` of the first of the chosen places, by the chance to miss all before."""
  place = np.arange(len(values))
  missed = np.maximum(size - chosen - place, 0) / (size - place)
  alive = np.concatenate([[1], np.cumprod(missed)[:-1]])
  return (alive * (1 - missed) * values).sum()


@quick("chosen", [1, 2, 30], [2])
def test_the_first_of_several_in_a_long_tie(chosen):
  above, size = 5, 20000
  for k in (None, 100):
    rank = np.arange(above + 1.0, min(above + size, k or np.inf) + 1)
    for discount in (jr.discounts.reciprocal, jr.discounts.constant):
      found = long_ties.first(
        discount, *map(jnp.int32, (above, size, chosen)), k, 10**5, 40, jnp.float32
      )
      expected = first_of(np.asarray(discount(jnp.asarray(rank, jnp.float32))), chosen, size)
      np.testing.assert_allclose(found, expected, rtol=3e-5)


@pytest.mark.thorough
def test_as_many_as_a_knowledge_graph_has():
  """FB15k-237: 14,541 entities; 2,000 queries with up to 1,000 known answers each, in one call."""
  keys = jax.random.split(jax.random.key(0), 4)
  items, queries = (
    jax.random.normal(key, (size, 32)) for key, size in zip(keys[:2], (14541, 2000), strict=True)
  )
  positives, excluded = (
    np.array(jax.random.randint(key, (2000, size), 0, 14541))
    for key, size in zip(keys[2:], (10, 1000), strict=True)
  )
  for column in positives.T:
    excluded[excluded == column[:, None]] = -1
  found = corpus.evaluate("AP nDCG RR", queries, items, positives, exclude=excluded)
  few = slice(0, 20)
  scores = np.asarray(jnp.matmul(queries[few], items.T, precision="highest"))
  rest = (x[few] for x in (positives, np.ones_like(positives), excluded))
  compare({name: value[few] for name, value in found.items()}, dense("AP nDCG RR", scores, *rest))
