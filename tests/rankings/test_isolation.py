"""Isolation: what is wrong in one query of a batch changes no value or slope of another query.

A batch has ordinary queries in the even rows. The odd rows are ordinary too, or have something that
is NaN, infinite, huge, tiny or empty: scores, labels, weights, or a number such as the temperature.
One program computes the values and slopes of all queries, so that bad rows are only data.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import chance, corpus, losses, plackett_luce, ranks, soft
from jaxrank._core import integrands, platforms, quadrature
from tests.helpers import traits
from tests.helpers.neighbours import NUMBERS

ROWS, N = 4, 5
NAN, INF = np.nan, np.inf
EVEN = np.arange(ROWS) % 2 == 0
SMOOTH = {kind.__name__: kind for kind in (jr.Gumbel, jr.Laplace)}


def ordinary():
  """Queries with a tie, whose scores are within a few temperatures, and numbers of each query."""
  rng = np.random.default_rng(0)
  scores = rng.normal(size=(ROWS, N))
  scores[:, 2] = scores[:, 1]
  return {
    "scores": scores,
    "labels": rng.integers(0, 4, (ROWS, N)) + np.eye(ROWS, N),
    "weights": rng.uniform(0.5, 1.5, (ROWS, N)),
    "temperature": rng.uniform(0.5, 1.5, ROWS),
    "share": rng.uniform(0.2, 0.8, ROWS),
  }


def bad():
  """Cases by name: an ordinary batch with something wrong in the odd rows."""
  given = ordinary()
  for name, x in given.items():
    for number in NUMBERS:
      wrong = np.array(x)
      # Of some items, or of all.
      wrong[1] = number
      wrong[(3,) if x.ndim == 1 else (3, 1)] = number
      yield f"{name} {number}", given | {name: wrong}
  spread = np.array(given["scores"])
  spread[1::2] *= 1e4
  yield "scores far apart", given | {"scores": spread}
  lost = np.where(EVEN[:, None], given["scores"], -INF)
  yield "nothing retrieved", given | {"scores": lost}


def check(function, *, slopes=True, tempered=False):
  """Values and slopes of the even rows beside bad ones are those beside ordinary ones.

  `function` of one query returns a vector of numbers; its slopes are those of a weighted sum. If it
  is `tempered`, all numbers are NaN, and all slopes are 0, at a temperature that is NaN.
  """

  def answer(given):
    values = function(**given)
    return jnp.sum(values * jnp.cos(jnp.arange(values.size, dtype=values.dtype))), values

  run = jax.value_and_grad(answer, has_aux=True) if slopes else lambda given: (answer(given), {})
  program = jax.jit(jax.vmap(run))

  def computed(given, rows=EVEN):
    found = program({name: jnp.asarray(x, jnp.float32) for name, x in given.items()})
    return jax.tree.map(lambda x: np.asarray(x)[rows], found)

  expected = jax.tree.leaves(computed(ordinary()))
  assert all(np.all(np.isfinite(x)) for x in expected)
  assert np.any(expected[1] != 0)
  for name, case in bad():
    for got, want in zip(jax.tree.leaves(computed(case)), expected, strict=True):
      np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7, err_msg=name)
    if tempered and name == "temperature nan":
      (_, values), by_number = computed(case, ~EVEN)
      assert np.all(np.isnan(values))
      assert all(np.all(x == 0) for x in by_number.values())


def asked(ranking, *names):
  """The values of metrics that ask different questions."""

  def values(scores, labels, weights, temperature, share):
    made = ranking if isinstance(ranking, jr.Ranking) else ranking(temperature)
    own = {
      "ndcg": {"weights": weights, "k": 3},
      "err": {"max_label": 3 + share},
      "compatibility": {"persistence": share},
    }
    measures = [jr.Measure(getattr(jr, name), **own.get(name, {})) for name in names]
    found = jr.evaluate(measures, scores, labels, ranking=made)
    discounted = jr.rbp(scores, labels, weights=weights, persistence=share, ranking=made)
    return jnp.stack([*found.values(), discounted])

  return values


SWEPT = {"scores": [1.0, 2.0, 3.0, 0.0], "labels": [1.0, 0.0, 2.0, 0.0]}


@pytest.mark.parametrize("kind", ["Gumbel", pytest.param("Laplace", marks=pytest.mark.thorough)])
def test_nan_among_temperatures(kind):
  """Each entry of a sweep has the value and the slopes that it has alone; that of NaN is NaN."""
  scores, labels = map(np.float32, SWEPT.values())

  def value(scores, temperature):
    return jr.ndcg(scores, labels, ranking=SMOOTH[kind](temperature))

  program = jax.jit(jax.vmap(jax.value_and_grad(value, argnums=(0, 1)), (None, 0)))
  values, slopes = program(scores, np.float32([1.0, NAN, 0.5]))
  if kind == "Gumbel":
    np.testing.assert_allclose(values, [0.8622, NAN, 0.9170], atol=5e-5)
  alone = [program(scores, np.full(3, t, np.float32)) for t in (1.0, 0.5)]
  values, slopes, alone = jax.device_get((values, slopes, alone))
  for row, (expected, of_alone) in zip((0, 2), alone, strict=True):
    np.testing.assert_allclose(values[row], expected[row], rtol=1e-6)
    for x, y in zip(slopes, of_alone, strict=True):
      assert np.any(y != 0)
      np.testing.assert_allclose(x[row], y[row], rtol=1e-5, atol=1e-7)
  assert np.isnan(values[1])
  assert all(np.all(x[1] == 0) for x in slopes)
  limit, (by_score, _) = program(scores, np.float32([1.0, -1.0, 0.0]))
  np.testing.assert_allclose(np.asarray(limit)[1:], float(jr.ndcg(scores, labels)), rtol=1e-6)
  assert np.all(np.asarray(by_score)[1:] == 0)


# The other rankings differ from these in the distribution alone.
@pytest.mark.thorough
@pytest.mark.parametrize(
  ("kind", "names"), [("Gumbel", ("ndcg", "err", "auc")), ("Laplace", traits.SMOOTHLY)]
)
def test_metrics_under_a_temperature(kind, names):
  check(asked(SMOOTH[kind], *names), tempered=True)


def test_metrics_by_ties():
  """Loops over ties end with the longest tie of the batch."""
  check(asked(jr.Exact(), *traits.ASKING), slopes=False)


@pytest.mark.parametrize(
  "platform",
  ["cpu", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("reference", "gpu"))],
)
def test_integrals(platform):
  """A block of nodes that only another query of the batch has adds nothing; neither does a NaN."""
  rng = np.random.default_rng(1)
  z, w = np.sort(rng.normal(size=(ROWS, 3))), rng.uniform(size=(ROWS, 3))
  # The width makes blocks of one node. The nodes end where the density is not small.
  integrand = integrands.weight_ahead(quadrature.GUMBEL)

  def integral(z, w):
    ends = jax.lax.stop_gradient((z[:, 0] - 1, z[:, -1] + 1))
    items = quadrature.Items(z, c=w)
    return quadrature.integral(integrand, quadrature.Grid(0.5, 2**21), ends, items)

  def answers(z, w):
    value, pull = jax.vjp(integral, z, w)
    return value, pull(jnp.cos(value)), jax.jvp(integral, (z, w), (w, z))[1]

  def computed(z, w):
    with platforms.forced(platform):
      return [np.asarray(x)[EVEN] for x in jax.tree.leaves(program(jnp.float32(z), jnp.float32(w)))]

  program = jax.jit(answers)
  expected = computed(z, w)
  assert all(np.all(np.isfinite(x)) and np.any(x != 0) for x in expected)
  odd = ~EVEN[:, None]
  far = np.where(odd, z * 100, z), w
  for case in (
    far,
    (np.where(odd, NAN, z), w),
    (z, np.where(odd, NAN, w)),
    (z, np.where(odd, INF, w)),
  ):
    for got, want in zip(computed(*case), expected, strict=True):
      np.testing.assert_allclose(got, want, rtol=2e-6)
  everywhere = program(*(jnp.full((ROWS, 3), NAN, jnp.float32),) * 2)
  assert all(np.all(np.isnan(x)) for x in jax.tree.leaves(everywhere))


@pytest.mark.thorough
def test_soft_operators():
  def values(scores, labels, weights, temperature, share):
    del labels, weights
    ranking = jr.Laplace(temperature)
    found = [
      soft.rank(scores, ranking=ranking),
      soft.top_k(scores, 2 * share + 1, ranking=ranking),
      soft.sort(scores, ranking=ranking),
      soft.quantile(scores, share, ranking=ranking)[None],
    ]
    return jnp.concatenate(found)

  check(values, tempered=True)


# What losses take besides scores, labels, weights and a temperature.
LOSSES = {
  "listwise": ("softmax", "poly1", "xe_ndcg", "sampled_softmax", "unique_softmax", "list_mle"),
  "pairwise": ("pairwise_logistic", "pairwise_hinge", "pairwise_soft_zero_one", "lambda_ndcg"),
  "without weights": ("lambda_rank", "neural_sort", "soft_sort", "kl", "margin_mse", "rank_mse"),
}


@pytest.mark.parametrize(
  "family",
  ["listwise", *(pytest.param(name, marks=pytest.mark.thorough) for name in [*LOSSES][1:])],
)
def test_losses(family):
  def values(scores, labels, weights, temperature, share):
    given = {
      "epsilon": share,
      "labels": labels,
      "margin": share,
      "mu": share,
      "ranking": jr.Logistic(temperature),
      "teacher": labels * weights,
      "temperature": temperature,
      "weights": weights,
    }
    found = []
    for name in LOSSES[family]:
      loss = getattr(losses, name)
      taken = inspect.signature(loss).parameters
      found.append(loss(scores, **{key: x for key, x in given.items() if key in taken}))
    return jnp.concatenate([jnp.ravel(x) for x in found])

  check(values, tempered=family == "listwise")


@pytest.mark.thorough
def test_plackett_luce():
  order = jnp.array([2, 0, 4])

  def values(scores, labels, weights, temperature, share):
    del labels, weights, share
    ranked = plackett_luce.rank_probabilities(scores, temperature=temperature, k=2)
    known = plackett_luce.log_prob(scores, order, temperature=temperature)
    return jnp.append(jnp.ravel(ranked), known)

  def samples(scores, labels, weights, temperature, share):
    del labels, weights, share
    drawn = plackett_luce.sample(jax.random.key(0), scores, temperature=temperature, shape=(9,))
    return jnp.ravel(drawn).astype(jnp.float32)

  check(values, tempered=True)
  check(samples, slopes=False)
  assert np.all(samples(jnp.arange(3.0), 0, 0, jnp.float32(NAN), 0) == -1)


@pytest.mark.parametrize("kind", ["Exact", pytest.param("Laplace", marks=pytest.mark.thorough)])
def test_corpus(kind):
  """Losses and values over a corpus; the slopes of the items are those of the even queries."""
  rng = np.random.default_rng(2)
  items = jnp.asarray(rng.normal(size=(150, N)), jnp.float32)
  positives = jnp.asarray(rng.integers(0, 150, (ROWS, 2)), jnp.int32)

  def answer(queries, weights, items):
    loss = corpus.softmax(queries, items, positives, weights=weights[:, :2], chunk=128)
    values = [loss]
    if kind == "Laplace":
      given = {"ranking": jr.Laplace(0.7), "chunk": 128}
      values += corpus.evaluate("nDCG@3 RR", queries, items, positives, **given).values()
    values = jnp.stack(values)
    return jnp.sum(jnp.where(EVEN, values, 0)), values

  def counted(queries):
    values = corpus.evaluate("nDCG@3 AP RR", queries, items, positives)
    found = corpus.target_ranks(queries, items, positives[:, 0])
    return jax.tree.leaves((values, found, corpus.top_items(queries, items, 3)))

  of_slopes = jax.jit(jax.value_and_grad(answer, (0, 1, 2), has_aux=True))
  of_counts = jax.jit(counted)

  def computed(given):
    queries, weights = (jnp.asarray(given[name], jnp.float32) for name in ("scores", "weights"))
    (_, values), (by_query, by_weight, by_item) = of_slopes(queries, weights, items)
    rows = [*values, by_query, by_weight, *(of_counts(queries) if kind == "Exact" else ())]
    return [np.asarray(x)[EVEN] for x in rows], by_item

  expected, slope = computed(ordinary())
  # Scores that overflow in both directions, and are NaN.
  large = np.where(EVEN[:, None], ordinary()["scores"], 3e38 * (-1) ** np.arange(N))
  for name, case in [*bad(), ("overflow", ordinary() | {"scores": large})]:
    got, of_items = computed(case)
    for x, y in zip(got, expected, strict=True):
      np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(of_items, slope, rtol=1e-5, atol=1e-6, err_msg=name)


def test_chance():
  def values(scores, labels, weights, temperature, share):
    del temperature
    measures = [jr.Measure(jr.ndcg, weights=weights), jr.Measure(jr.err, max_label=3 + share)]
    measures += [jr.reciprocal_rank, jr.average_precision, jr.kendall_tau]
    retrieved = scores > -jnp.inf
    means = chance.expected(measures, labels, retrieved=retrieved)
    spreads = chance.std(measures, labels, retrieved=retrieved)
    return jnp.stack([*means.values(), *spreads.values()])

  check(values, slopes=False)


def test_ranks():
  """A number of candidates that no rank can have ends no loop, and keeps no other list waiting."""
  metrics = [ranks.median_rank, ranks.median_absolute_deviation, ranks.geometric_mean_rank]

  def values(best, worst, candidates):
    found = [metric(best, worst, candidates=candidates) for metric in metrics]
    moments = [
      metric.expected(candidates) for metric in metrics if metric.has_closed_form("expected")
    ]
    return jnp.stack([*found, *moments])

  rng = np.random.default_rng(3)
  best = rng.integers(1, 9, (ROWS, N)).astype(np.float32)
  given = best, best + rng.integers(0, 3, (ROWS, N)), np.full((ROWS, N), 20)
  program = jax.jit(values)

  def computed(*arrays):
    return np.asarray(program(*(jnp.asarray(x, jnp.float32) for x in arrays)))[:, EVEN]

  expected = computed(*given)
  assert np.all(np.isfinite(expected))
  for i in range(3):
    for number in (*NUMBERS, 3e9):
      wrong = [np.where(EVEN[:, None] | (i != j), x, number) for j, x in enumerate(given)]
      np.testing.assert_array_equal(computed(*wrong), expected, err_msg=f"{i} {number}")
