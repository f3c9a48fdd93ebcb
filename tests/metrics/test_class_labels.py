"""Class-labelled retrieval against plain Python, and as a JAX function."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import class_labels
from tests.helpers import label_oracles as oracle
from tests.helpers.suites import thorough

Q, N, C = 6, 7, 3
METRICS = {
  "map": functools.partial(jr.average_precision, normalizer="retrieved"),
  "hit_rate": jr.hit_rate,
  "precision": jr.precision,
  "ndcg": jr.ndcg,
  "mrr": jr.reciprocal_rank,
}


def draw(seed, rows):
  """Scores without ties, labels and a mask; the last query has no label."""
  rng = np.random.default_rng(seed)
  scores = rng.permuted(np.tile(np.arange(N, dtype=np.float32), (Q, 1)), axis=1)
  where = rng.random((Q, N)) < 0.8
  where[:, 0] = True
  size = (C,) if rows else ()
  high = 2 if rows else C
  queries = rng.integers(0, high, (Q, *size), dtype=np.int32)
  queries[-1] = 0 if rows else -1
  return scores, queries, rng.integers(0, high, (Q, N, *size), dtype=np.int32), where


def ranked(scores, queries, candidates, where):
  """The same as lists, as the oracle takes them; None is a query without a label."""
  lists = []
  for order, row, valid in zip(np.argsort(-scores), candidates, where, strict=True):
    lists.append([row[i].tolist() for i in order if valid[i]])
  has = queries.any(axis=1) if queries.ndim == 2 else queries >= 0
  return [q if x else None for q, x in zip(queries.tolist(), has, strict=True)], lists


@pytest.mark.parametrize("rows", [False, True])
def test_means_agree_with_plain_python(rows):
  @jax.jit
  def means(*lists, where):
    return {name: class_labels.mean(x, *lists, where=where, k=3) for name, x in METRICS.items()}

  expected = oracle.intersecting if rows else oracle.plain
  for seed in range(10):
    *lists, where = draw(seed, rows)
    plain = ranked(*lists, where)
    for name, got in means(*lists, where=where).items():
      mean = expected(oracle.METRICS[name], *plain, 3)
      assert float(got) == pytest.approx(mean, abs=1e-6), name


@pytest.mark.parametrize("joint_absence", [False, True])
def test_macro_means_agree_with_plain_python(joint_absence):
  macro = jax.jit(
    functools.partial(class_labels.macro_mean, jr.hit_rate, k=3, joint_absence=joint_absence)
  )
  for seed in range(20):
    scores, queries, candidates, where = draw(seed, rows=True)
    _, lists = ranked(scores, queries, candidates, where)
    expected = oracle.macro(oracle.hit_rate, queries.tolist(), lists, 3, joint_absence)
    assert float(macro(scores, queries, candidates, where=where)) == pytest.approx(
      expected, abs=1e-6
    )


@thorough
def test_macro_means_of_classes_are_those_of_one_hot_rows():
  metric = functools.partial(class_labels.macro_mean, jr.reciprocal_rank)
  for seed in range(5):
    scores, queries, candidates, where = draw(seed, rows=False)
    rows = (jax.nn.one_hot(x, C, dtype=jnp.int32) for x in (queries, candidates))
    found = metric(scores, queries, candidates, where=where)
    np.testing.assert_allclose(found, metric(scores, *rows, where=where), rtol=1e-6)
    values = jr.reciprocal_rank(scores, class_labels.relevance(queries, candidates), where=where)
    means = [np.mean(values[queries == c]) for c in set(queries.tolist()) - {-1}]
    np.testing.assert_allclose(found, np.mean(means), rtol=1e-6)


@pytest.mark.parametrize("rows", [False, True])
def test_shared_candidates_are_those_of_every_query(rows):
  scores, queries, candidates, where = draw(0, rows)
  everyones = np.broadcast_to(candidates[0], candidates.shape)
  np.testing.assert_array_equal(
    class_labels.relevance(queries, candidates[0]), class_labels.relevance(queries, everyones)
  )

  @jax.jit
  def means(candidates):
    lists = scores, queries, candidates
    both = class_labels.mean, class_labels.macro_mean
    return [average(jr.reciprocal_rank, *lists, where=where) for average in both]

  for value, other in zip(means(candidates[0]), means(everyones), strict=True):
    assert value == other > 0


def test_relevance():
  classes = [[1, 2, -1], [2, 2, -1], [-1, 0, -1]]
  expected = [[True, False, False], [True, True, False], [False] * 3]
  np.testing.assert_array_equal(
    class_labels.relevance(np.array([1, 2, -1]), np.array(classes)), expected
  )
  np.testing.assert_array_equal(class_labels.relevance(2, [1, 2]), [False, True])
  # A boolean row is a row, also of one query.
  assert class_labels.relevance(np.array([True, False]), np.eye(2, dtype=bool)).tolist() == [
    True,
    False,
  ]
  assert not class_labels.relevance([[0, 0]], [[0, 0], [1, 1]]).any()


def test_large_classes_and_mixed_widths_are_compared_exactly():
  large = np.array([2**40, 2**40 + 2**32, 1])
  np.testing.assert_array_equal(class_labels.relevance(large, large), np.eye(3, dtype=bool))
  small = class_labels.relevance(jnp.array([1], jnp.int8), jnp.array([1, 257], jnp.int32))
  assert small.tolist() == [[True, False]]
  values = jnp.array([1.0, 0.0, 0.0])
  metric = lambda scores, relevant, *, where: values  # noqa: E731
  assert class_labels.macro_mean(metric, None, large, large) == pytest.approx(1 / 3)


def test_a_query_without_label_or_candidates_does_not_count():
  scores, queries, candidates, where = draw(1, rows=False)
  padded = where.copy()
  padded[2:] = False
  none = np.array([-1] * Q, np.int32)
  for average in (class_labels.mean, class_labels.macro_mean):
    metric = functools.partial(average, jr.reciprocal_rank, scores)
    few = metric(np.where(np.arange(Q) < 2, queries, none), candidates, where=where)
    assert metric(queries, candidates, where=padded) == few > 0
    assert metric(none, candidates, where=where) == 0
  rows = np.array([[1, 0]] * 3), np.array([[1, 0], [0, 1]])
  where = np.array([[True] * 2] * 2 + [[False] * 2])
  assert class_labels.macro_mean(jr.hit_rate, None, *rows, where=where, joint_absence=True) == 1.0
  assert class_labels.macro_mean(jr.hit_rate, None, np.zeros((3, 2), int), rows[1]) == 0.0


def test_ranked_order_stands_for_scores():
  _, queries, candidates, where = draw(2, rows=True)
  order = jnp.broadcast_to(-jnp.arange(N), (Q, N))
  for average in (class_labels.mean, class_labels.macro_mean):
    value = average(jr.reciprocal_rank, order, queries, candidates, where=where)
    assert average(jr.reciprocal_rank, None, queries, candidates, where=where) == value


def test_means_run_inside_jit_and_vmap():
  batches = [draw(seed, rows=False) for seed in range(3)]
  scores, queries, candidates, where = map(np.stack, zip(*batches, strict=True))
  for average in (class_labels.mean, class_labels.macro_mean):

    def value(scores, queries, candidates, where, average=average):
      return average(jr.reciprocal_rank, scores, queries, candidates, where=where)

    expected = [value(*batch) for batch in batches]
    got = jax.jit(jax.vmap(value))(scores, queries, candidates, where)
    np.testing.assert_allclose(got, np.array(expected), rtol=1e-6)


@thorough
@pytest.mark.parametrize("rows", [False, True])
def test_queries_may_be_spread_over_devices(rows):
  scores, queries, candidates = (x[:4] for x in draw(5, rows)[:3])
  expected = class_labels.macro_mean(jr.reciprocal_rank, scores, queries, candidates[0])
  mesh = jax.make_mesh((2,), ("queries",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    spread = [jax.device_put(x, jax.P("queries")) for x in (scores, queries)]
    assert class_labels.macro_mean(jr.reciprocal_rank, *spread, candidates[0]) == expected > 0


@thorough
def test_what_is_under_the_mask_does_not_matter():
  scores, queries, candidates, where = draw(3, rows=True)
  hostile = np.where(where, scores, np.nan), queries, np.where(where[..., None], candidates, -9)
  loss = functools.partial(class_labels.macro_mean, jr.losses.softmax)
  value, slope = jax.value_and_grad(lambda s: loss(s, queries, candidates, where=where))(scores)
  spoiled, again = jax.value_and_grad(lambda s: loss(s, *hostile[1:], where=where))(hostile[0])
  assert value == spoiled > 0
  np.testing.assert_array_equal(slope, again)
  assert np.abs(slope[where]).max() > 0
  np.testing.assert_array_equal(slope[~where], 0)


def test_scores_are_sorted_once_for_all_classes():
  scores, queries, candidates, _ = draw(0, rows=True)
  program = jax.jit(functools.partial(class_labels.macro_mean, jr.average_precision))
  text = program.lower(scores, queries, candidates).as_text()
  assert f"tensor<{Q}x{N}xi64>" in text
  assert f"tensor<{C}x{Q}x{N}xi64>" not in text


def test_measures_are_metrics():
  arguments = draw(4, rows=True)[:3]
  (measure,) = jr.parse("RR")
  for average in (class_labels.mean, class_labels.macro_mean):
    assert average(measure, *arguments) == average(jr.reciprocal_rank, *arguments)


@pytest.mark.parametrize(
  ("queries", "candidates", "wanted"),
  [
    ((), (), r"\[n\], got \[\]"),
    ((3,), (), r"\[n\] or \[3, n\], got \[\]"),
    ((3,), (2, 4), r"\[n\] or \[3, n\], got \[2, 4\]"),
    ((2, 3), (3,), r"\[n, 3\] or \[2, n, 3\], got \[3\]"),
    ((2, 3), (4, 2), r"\[n, 3\] or \[2, n, 3\], got \[4, 2\]"),
    ((2, 3), (5, 4, 3), r"\[n, 3\] or \[2, n, 3\], got \[5, 4, 3\]"),
  ],
)
def test_shapes_that_do_not_go_together_are_named(queries, candidates, wanted):
  queries, candidates = np.zeros(queries, int), np.zeros(candidates, int)
  for name, call in (
    ("relevance", class_labels.relevance),
    ("mean", functools.partial(class_labels.mean, jr.ndcg, None)),
    ("macro_mean", functools.partial(class_labels.macro_mean, jr.ndcg, None)),
  ):
    with pytest.raises(ValueError, match=rf"^class_labels\.{name}: .*{wanted}"):
      call(queries, candidates)


def test_joint_absence_is_of_rows():
  with pytest.raises(ValueError, match=r"^class_labels\.macro_mean: joint_absence needs rows"):
    class_labels.macro_mean(jr.ndcg, None, [1], [[1]], joint_absence=True)
  with pytest.raises(ValueError, match="scores and labels must have one shape"):
    class_labels.mean(jr.ndcg, np.zeros((1, 3)), [1], [[1, 2]])


@jr.metric
def share(ranked, *, k=None):
  """The share of relevant items at the first ranks."""
  return ranked.expect(ranked.relevant(), jr.discounts.constant, k=k) / ranked.cutoff(k)


SPELLINGS = [
  ("P@2", {}),
  (jr.parse("precision@2")[0], {}),
  (jr.Measure(jr.precision, k=2), {}),
  (jr.precision, {"k": 2}),
  (share, {"k": 2}),
  (jr.Measure(share, k=2), {}),
  (lambda scores, labels, *, where: jr.precision(scores, labels, where=where, k=2), {}),
  (lambda scores, labels, *, where, k: jr.precision(scores, labels, where=where, k=k), {"k": 2}),
]


@pytest.mark.parametrize("average", [class_labels.mean, class_labels.macro_mean])
def test_names_measures_metrics_and_functions_say_the_same(average):
  rng = np.random.default_rng(0)
  scores, where = rng.normal(size=(5, 8)).astype(np.float32), rng.random((5, 8)) < 0.8
  queries, candidates = rng.integers(0, 3, 5), rng.integers(0, 3, 8)
  lists = (scores, queries, candidates)
  expected = average(functools.partial(jr.precision, k=2), *lists, where=where)
  assert 0 < expected < 1
  rows = np.eye(3, dtype=bool)

  @jax.jit
  def means(*lists):
    return [average(asked, *lists, where=where, **given) for asked, given in SPELLINGS]

  for found in (means(*lists), means(scores, rows[queries], rows[candidates])):
    np.testing.assert_allclose(found, np.full(len(SPELLINGS), expected), rtol=1e-6)
  # A name in front of numbers that are known.
  np.testing.assert_allclose(average("P@2", *lists, where=where), expected, rtol=1e-6)


def test_what_is_no_metric_of_class_labels_is_named():
  for average in (class_labels.mean, class_labels.macro_mean):
    name = f"class_labels.{average.__name__}"
    with pytest.raises(TypeError, match=rf"{name}: metric must be a metric such as .*got 5"):
      average(5, None, [1], [[1, 2]])
    with pytest.raises(ValueError, match=rf"{name}: 'nDGC' is no name of a measure"):
      average("nDGC", None, [1], [[1, 2]])
    with pytest.raises(ValueError, match=rf"{name}: expected one measure, got AP RR"):
      average("AP RR", None, [1], [[1, 2]])
    with pytest.raises(TypeError, match=rf"{name}: k: parameters go with a metric"):
      average("AP", None, [1], [[1, 2]], k=3)
    with pytest.raises(TypeError, match=rf"{name}: .*ndcg does not take 'kk'"):
      average(jr.ndcg, None, [1], [[1, 2]], kk=3)
