"""Smooth metrics over a whole corpus, against those of all scores: values and derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import corpus
from tests.corpus.test_corpus_evaluate import batch, table
from tests.helpers.suites import quick, thorough

# A metric for each question, and what is counted behind the listed items.
WHOLE = ["nDCG", "AP", "RR", jr.Measure(jr.err, max_label=3), jr.q_measure]
CUT = ["nDCG@5", "AP@5", "RR@5", "Success@5", "Rprec", jr.Measure(jr.fall_out, k=4)]
CUT += [jr.Measure(jr.err, max_label=3, k=5)]


def dense(measures, ranking, scores, ids, labels, out):
  """`jaxrank.evaluate` on all scores; of repeated positives the first counts."""
  graded, where = np.zeros(scores.shape, labels.dtype), np.ones(scores.shape, bool)
  for row, (query, given, removed) in enumerate(zip(ids, labels, out, strict=True)):
    for item, label in reversed([*zip(query, given, strict=True)]):
      if item >= 0:
        graded[row, item] = label
    where[row, removed[removed >= 0]] = False
  return jr.evaluate(measures, scores, graded, where=where, ranking=ranking)


def streamed(measures, ranking, scores, ids, labels, out):
  items = jnp.arange(scores.shape[1])
  return corpus.evaluate(
    measures, scores, items, ids, labels=labels, exclude=out, similarity=table, ranking=ranking,
    chunk=128,
  )  # fmt: skip


def both(measures, kind, given, temperature, dtype=jnp.float32):
  """Values `[measures, q]`, and their slopes by scores and temperature, of both ways."""
  scores, ids, labels, out = given
  weights = jnp.asarray(np.random.default_rng(1).normal(size=len(ids)), dtype)

  def found(evaluate, scores, temperature):
    values = evaluate(measures, kind(temperature), scores, ids, labels, out)
    values = jnp.stack([*values.values()])
    return values @ weights, values

  place = jnp.asarray(scores, dtype), jnp.asarray(temperature, dtype)
  return [
    jax.jit(jax.jacrev(functools.partial(found, way), argnums=(0, 1), has_aux=True))(*place)
    for way in (streamed, dense)
  ]


def compare(measures, kind, given, temperature, dtype=jnp.float32, exact=1e-5, close=1e-4):
  (ours, values), (theirs, expected) = both(measures, kind, given, temperature, dtype)
  np.testing.assert_allclose(values, expected, rtol=exact, atol=exact)
  for x, y, what in zip(ours, theirs, ("scores", "temperature"), strict=True):
    assert np.isfinite(x).all()
    # Relative to the largest slope of each measure.
    largest = np.max(np.abs(np.reshape(y, (len(measures), -1))), axis=1)
    size = np.reshape(np.maximum(largest, 1e-3), (-1, *(1,) * (np.ndim(y) - 1)))
    np.testing.assert_allclose(x / size, y / size, atol=close, err_msg=what)


@thorough
@pytest.mark.parametrize(
  ("kind", "measures"),
  [(jr.Laplace, WHOLE), (jr.Laplace, CUT), (jr.Logistic, ["nDCG", "RR@5"])],
  ids=["Laplace, whole", "Laplace, cut", "Logistic"],
)
def test_values_and_slopes_are_those_of_all_scores(kind, measures):
  """Of scores with ties, -inf, exclusions, repeats, and labels that are not positive."""
  rng = np.random.default_rng(5)
  scores, *rest = batch(rng, 40, 300, 7, 12, 30)
  # Some queries have all scores equal, and some have scores far apart.
  scale = rng.choice([0.0, 0.1, 1.0, 30.0], (40, 1))
  lost = scores == -np.inf
  scores = scale * (np.where(lost, 0, scores) / 10 - 1.5)
  scores[lost] = -np.inf
  with jax.enable_x64():
    compare(measures, kind, (scores, *rest), 0.7, jnp.float64, 1e-9, 1e-7)


@thorough
@pytest.mark.parametrize(
  ("kind", "items", "temperature"), [(jr.Laplace, 1000, 0.01), (jr.Logistic, 3, 5.0)]
)
def test_other_shapes_and_temperatures(kind, items, temperature):
  scores, *rest = batch(np.random.default_rng(items), 60, items, 5, 3, 100)
  given = (scores.astype(np.float64) / 20, *rest)
  with jax.enable_x64():
    compare(["AP", "nDCG@5"], kind, given, temperature, jnp.float64, 1e-8, 1e-6)


@quick("measure", ["nDCG", "AP@5"], ["nDCG"])
def test_in_single_precision(measure):
  scores, *rest = batch(np.random.default_rng(2), 10, 200, 4, 3, 50)
  compare([measure], jr.Laplace, (scores / 17, *rest), 0.3, jnp.float32, 1e-5, 1e-4)


@thorough
@pytest.mark.parametrize("kind", [jr.Laplace, jr.Logistic])
def test_thresholds_in_gaps_of_thousands_of_temperatures(kind):
  """Where the tails of all items vanish, and with a score that is far beyond all others."""
  rng = np.random.default_rng(3)
  scores = 30 * rng.normal(size=(40, 300))
  scores[::2, 0] = 1e30
  ids = np.stack([rng.choice(300, 9, replace=False) for _ in scores])
  given = scores, ids, np.ones_like(ids), np.full((40, 0), -1)
  with jax.enable_x64():
    ours, theirs = (way(["R@1", "R@7"], kind(0.003), *given) for way in (streamed, dense))
  for name, value in theirs.items():
    np.testing.assert_allclose(ours[name], value, atol=1e-9, err_msg=name)


def test_near_temperature_zero_values_are_exact():
  rng = np.random.default_rng(4)
  scores = rng.permuted(np.tile(np.arange(500, dtype=np.float32), (20, 1)), axis=1)
  ids = np.stack([rng.choice(500, 6, replace=False) for _ in scores])
  given = scores, ids, rng.integers(1, 4, ids.shape), np.full((20, 0), -1)
  exact, smooth = (
    streamed(["AP", "nDCG@5"], ranking, *given) for ranking in (jr.Exact(), jr.Laplace(1e-3))
  )
  for name, value in exact.items():
    np.testing.assert_allclose(smooth[name], value, atol=2e-5, err_msg=name)


@thorough
def test_gradients_reach_vectors_and_parameters():
  """By the queries, the items, the temperature and a parameter, under `jit`, against all scores."""
  rng = np.random.default_rng(6)
  queries, items = (jnp.asarray(rng.normal(size=(n, 8)), jnp.float32) for n in (9, 400))
  ids = np.stack([rng.choice(400, 5, replace=False) for _ in range(9)])
  labels = np.zeros((9, 400), np.int32)
  np.put_along_axis(labels, ids, 1, axis=1)

  def ours(queries, items, temperature, p):
    measure = jr.Measure(jr.rbp, persistence=p, name="rbp")
    found = corpus.evaluate(
      [measure, "nDCG@10"], queries, items, ids, ranking=jr.Laplace(temperature), chunk=128
    )
    return jnp.sum(found["rbp"]) + jnp.sum(found["nDCG@10"])

  def theirs(queries, items, temperature, p):
    scores = jnp.matmul(queries, items.T, precision="highest")
    ranking = jr.Laplace(temperature)
    rbp = jr.rbp(scores, labels, persistence=p, ranking=ranking)
    return jnp.sum(rbp) + jnp.sum(jr.ndcg(scores, labels, k=10, ranking=ranking))

  given = queries, items, jnp.float32(0.5), jnp.float32(0.6)
  found, expected = (
    jax.jit(jax.value_and_grad(f, argnums=(0, 1, 2, 3)))(*given) for f in (ours, theirs)
  )
  np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
  for x, y in zip(found[1], expected[1], strict=True):
    np.testing.assert_allclose(x, y, atol=1e-4 * float(jnp.max(jnp.abs(y))))


@thorough
def test_second_derivatives_are_those_of_all_scores():
  """By forward mode over reverse mode, also of the threshold of a cut-off."""
  rng = np.random.default_rng(9)
  scores, *rest = batch(rng, 6, 40, 4, 3, 100)
  measures, scale = ["nDCG", "AP@5"], np.array([[3.0], [2.0]])
  with jax.enable_x64():
    place = jnp.asarray(scores / 40, jnp.float64), jnp.asarray(0.7)
    turn = jnp.asarray(rng.normal(size=scores.shape)), jnp.asarray(1.3)

    def found(evaluate, scores, temperature):
      values = evaluate(measures, jr.Laplace(temperature), scores, *rest)
      return jnp.sum(jnp.stack([*values.values()]) * scale)

    slopes = [jax.grad(functools.partial(found, way), (0, 1)) for way in (streamed, dense)]
    ours, theirs = (jax.jit(functools.partial(jax.jvp, slope))(place, turn) for slope in slopes)
  for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
    np.testing.assert_allclose(x, y, atol=1e-9)


@thorough
def test_second_derivatives_at_a_tie_are_those_of_one_side():
  """The density of `Laplace` has a kink at a tie, where the other item counts as ahead."""
  rng = np.random.default_rng(12)
  given = np.array([[6]]), np.array([[2]]), np.array([[-1]])
  tied, turn = (rng.normal(size=(1, 12)) for _ in range(2))
  tied[0, 9] = tied[0, 6]
  ahead, behind = (tied + x * (np.arange(12) == 9) for x in (1e-9, -1e-9))

  def found(way, scores):
    slope = jax.grad(lambda s: way(["RBP"], jr.Laplace(1.0), s, *given)["RBP"][0])
    return jax.jvp(slope, (scores,), (jnp.asarray(turn),))

  with jax.enable_x64():
    scores = jnp.asarray(np.stack([tied, ahead, behind]))
    ours, theirs = (
      [np.asarray(x) for x in jax.jit(jax.vmap(functools.partial(found, way)))(scores)]
      for way in (streamed, dense)
    )
  # The value and the slopes have no kink.
  np.testing.assert_allclose(ours[0], theirs[0], atol=1e-12)
  np.testing.assert_allclose(ours[0][1:], ours[0][[0, 0]], atol=1e-8)
  # Beside the tie both ways agree, and at the tie each is that of one side.
  np.testing.assert_allclose(ours[1][1:], theirs[1][1:], atol=1e-12)
  np.testing.assert_allclose(ours[1][0], ours[1][1], atol=1e-8)
  np.testing.assert_allclose(theirs[1][0], theirs[1][2], atol=1e-8)
  assert np.abs(ours[1][1] - ours[1][2]).max() > 1e-3


def test_a_nan_spoils_its_query_alone():
  rng = np.random.default_rng(7)
  scores = rng.normal(size=(3, 200)).astype(np.float32)
  scores[1, 50] = np.nan
  ids = np.array([[3, 4], [5, 6], [7, -1]])
  given = scores, ids, np.ones_like(ids), np.array([[-1], [-1], [9]])
  found = streamed(["nDCG@5"], jr.Laplace(1.0), *given)["nDCG@5"]
  np.testing.assert_array_equal(np.isnan(found), [False, True, False])
  given[3][1] = 50
  assert not np.isnan(streamed(["nDCG@5"], jr.Laplace(1.0), *given)["nDCG@5"]).any()


@pytest.mark.thorough
def test_double_precision_beside_single():
  """The values have the dtype of `jaxrank.evaluate`: that of scores and labels together."""
  scores, ids, labels, out = batch(np.random.default_rng(10), 3, 40, 2, 1, 50)
  measures = ["nDCG@5", "AP"]
  expected = dense(measures, jr.Laplace(2.0), scores, ids, labels, out)
  with jax.enable_x64():
    for kind, dtype in ((labels.dtype, jnp.float32), (np.float64, jnp.float64)):
      given = scores, ids, labels.astype(kind), out
      found = streamed(measures, jr.Laplace(np.float64(2.0)), *given)
      for name, value in found.items():
        assert value.dtype == dtype
        np.testing.assert_allclose(value, expected[name], rtol=1e-5)


def test_what_is_refused():
  queries, items, ids = jnp.ones((2, 3)), jnp.ones((9, 3)), jnp.array([[1], [2]])
  call = functools.partial(corpus.evaluate, "nDCG", queries, items, ids)
  with pytest.raises(TypeError, match="corpus.evaluate: temperature must be a scalar"):
    call(ranking=jr.Laplace(jnp.ones(2)))
  for ranking in (jr.Gumbel(1.0), jr.Exact("stable"), jr.Laplace, "Laplace"):
    with pytest.raises(ValueError, match=r"corpus.evaluate: ranking must be jaxrank.Exact\(\)"):
      call(ranking=ranking)
  with pytest.raises(ValueError, match=r"progress works under jaxrank.Exact\(\) only"):
    call(ranking=jr.Laplace(1), progress=print)
  for name, measure in (
    ("bpref", "Bpref"),
    ("auc", "auc"),
    ("spearman", "spearman"),
    ("rbp_residual", jr.rbp_residual),
    ("nearly_err", jr.Measure(jr.nearly_err, max_label=1, k=5)),
  ):
    with pytest.raises(ValueError, match=f"{name}: jaxrank.corpus.evaluate does not answ"):
      corpus.evaluate(measure, queries, items, ids, ranking=jr.Laplace(1))


@thorough
def test_items_over_four_devices():
  """Equal to one device, also the gradients, and scores are never gathered."""
  rng = np.random.default_rng(12)
  queries, items = (jnp.asarray(rng.normal(size=(n, 8)), jnp.float32) for n in (4, 1600))
  ids = np.stack([rng.choice(1600, 3, replace=False) for _ in range(4)])
  out = np.setdiff1d(rng.permutation(1600)[:40], ids)[:20].reshape(4, 5)

  def values(queries, items, axis=None):
    return corpus.evaluate(
      "nDCG@10 AP", queries, items, ids, exclude=out, ranking=jr.Laplace(0.5), chunk=128,
      axis_name=axis,
    )  # fmt: skip

  mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
  spread = jax.shard_map(
    functools.partial(values, axis="i"), mesh=mesh, in_specs=(P(), P("i")), out_specs=P()
  )

  def total(function, queries, items):
    found = function(queries, items)
    return jnp.sum(found["nDCG@10"] + found["AP"]), found

  programs = [
    jax.jit(jax.grad(functools.partial(total, f), argnums=(0, 1), has_aux=True)).lower(
      queries, items
    ).compile()
    for f in (values, spread)
  ]  # fmt: skip
  one, four = (program(queries, items) for program in programs)
  for x, y in zip(jax.tree.leaves(four), jax.tree.leaves(one), strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
  assert "all-gather" not in programs[1].as_text()


@pytest.mark.thorough
def test_queries_and_items_over_an_explicit_mesh():
  """Without `exclude` and `labels`; also of exact metrics. The slopes of items are summed."""
  rng = np.random.default_rng(8)
  queries, items = (jnp.asarray(rng.normal(size=(n, 8)), jnp.float32) for n in (4, 600))
  ids = np.stack([rng.choice(600, 3, replace=False) for _ in range(4)])

  def loss(queries, items, ids):
    smooth = corpus.evaluate("nDCG@10", queries, items, ids, ranking=jr.Laplace(0.5), chunk=128)
    return jnp.sum(smooth["nDCG@10"]), smooth

  def every(queries, items, ids):
    exact = corpus.evaluate("nDCG AP", queries, items, ids, chunk=128)
    return exact, jax.grad(loss, argnums=(0, 1), has_aux=True)(queries, items, ids)

  expected = jax.jit(every)(queries, items, ids)
  mesh = jax.make_mesh((2, 2), ("q", "i"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
  with jax.set_mesh(mesh):

    def place(x, axis):
      return jax.device_put(x, jax.NamedSharding(mesh, jax.P(axis)))

    found = jax.jit(every)(place(queries, "q"), place(items, "i"), place(ids, "q"))
  for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(jax.device_get(x), y, rtol=1e-5, atol=1e-6)
