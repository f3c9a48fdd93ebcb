"""Values stay in the ranges of their descriptions, and rounding takes none out of them.

`test_laws.py` holds every exact metric to its range; here are smooth rankings, other dtypes,
perfect rankings, derivatives at the ends, and the functions that are no metrics.
"""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import agreement, corpus, exposure, ranks, testing
from jaxrank._core import description
from jaxrank._core._jax import enable_x64
from jaxrank._core.arithmetic import kept_within
from tests.helpers.suites import quick

QUERIES, N = 100, 7
ULP = 2.0**-23


def precision(dtype):
  """A context in which JAX has the dtype."""
  return enable_x64() if dtype == np.float64 else contextlib.nullcontext()


def queries(n=N, size=QUERIES):
  """Scores, labels and masks: the labels as scores, in both orders, ties, and one score for all."""
  rng = np.random.default_rng(0)
  labels = rng.integers(0, 5, (6, size, n)).astype(np.float32)
  labels[-1] = rng.integers(1, 5, (size, 1))
  scores = np.stack(
    [
      labels[0],
      -labels[1],
      labels[2] + rng.random((size, n), np.float32) / 2,
      rng.integers(0, 3, (size, n)),
      np.zeros((size, n)),
      np.zeros((size, n)),
    ]
  )
  where = rng.random(labels.shape) < 0.9
  return [x.reshape(-1, n) for x in (scores.astype(np.float32), labels, where)]


def outside(measures, values):
  """The names of the measures with a value that is NaN or out of the range."""
  found = []
  for measure, value in zip(measures, values, strict=True):
    low, high = measure.description.range
    if not np.all((low <= value) & (value <= high)):
      found.append(measure.name)
  return found


# Each was above 1, or below its least value, before values kept their ranges.
SMOOTH = [
  jr.Measure(jr.ndcg),
  jr.Measure(jr.nerr, max_label=4),
  jr.Measure(jr.q_measure),
  jr.Measure(jr.log_bpref),
]


@quick("kind", [jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian], [jr.Laplace])
def test_smooth_values_keep_their_ranges(kind):
  def evaluated(scores, labels, where, temperature):
    ranking = kind(temperature)
    return list(jr.evaluate(SMOOTH, scores, labels, where=where, ranking=ranking).values())

  lists = queries()
  run = jax.jit(evaluated)
  for temperature in (0.05, 0.1, 1.0):
    assert outside(SMOOTH, run(*lists, np.float32(temperature))) == []


PERFECT = [
  jr.Measure(jr.ndcg),
  jr.Measure(jr.ndcg, k=3),
  jr.Measure(jr.ndcg, gain=jr.gains.exponential, name="exponential"),
  jr.Measure(jr.nerr, max_label=4),
  jr.Measure(jr.average_precision),
  jr.Measure(jr.q_measure),
  jr.Measure(jr.compatibility),
  jr.Measure(jr.kendall_tau),
  jr.Measure(jr.spearman),
]


@functools.cache
def perfect():
  """The values of labels as scores."""

  def evaluated(labels):
    return list(jr.evaluate(PERFECT, labels, labels).values())

  return jax.jit(evaluated)


@quick("n", [N, 100], [N])
def test_a_perfect_ranking_is_one(n):
  """Exactly without ties; to two units in the last place with ties in a short list."""
  rng = np.random.default_rng(1)
  labels = rng.permuted(np.tile(np.linspace(0.1, 4, n, dtype=np.float32), (300, 1)), axis=1)
  for measure, value in zip(PERFECT, perfect()(labels), strict=True):
    # The sums of Spearman's rho are rounded in long lists.
    units = int(measure.metric is jr.spearman and n > N)
    assert np.all((1 - units * ULP <= value) & (value <= 1)), measure.name
  tied = rng.integers(0, 5, (300, n)).astype(np.float32)
  tied[:, :2] = [4, 0]
  for measure, value in zip(PERFECT, perfect()(tied), strict=True):
    assert np.all((1 - (2 if n == N else 3) * ULP <= value) & (value <= 1)), measure.name


def test_one_minus_a_value_has_a_root():
  """The case that was reported; float64 as well."""
  assert jr.ndcg(jnp.ones(5), jnp.ones(5, int)) == 1
  assert jr.losses.approx_ndcg(jnp.ones(5), jnp.ones(5, int)) >= 0
  scores, labels, where = queries()
  for dtype in (jnp.bfloat16, np.float32, np.float64):
    with precision(dtype):
      value = jax.jit(jr.ndcg)(scores.astype(dtype), labels, where=where)
      assert np.all(np.isfinite(np.sqrt(1 - np.asarray(value))))


def without_range(metric):
  """The same metric as a kernel, of which no value is rounded into a range."""
  kernel = description.of_metric(metric).kernel
  given = {"k": None, "gain": jr.gains.linear, "discount": jr.discounts.logarithmic}

  @jr.metric
  def raw(ranked, *, weights=None):
    return kernel(ranked, **given, weights=weights)

  return raw


def test_derivatives_at_the_end_of_the_range_are_those_of_the_formula():
  labels = np.random.default_rng(2).integers(1, 5, (60, 1)) * np.ones((60, N), np.float32)
  scores = np.zeros_like(labels)

  def derivatives(metric):
    def value(labels):
      return metric(scores, labels)

    slope = jax.grad(lambda labels: jnp.sum(value(labels)))
    rise = lambda labels: jnp.sum(slope(labels)[:, 0])  # noqa: E731
    return value(labels), slope(labels), jax.grad(rise)(labels)

  both = jax.jit(lambda: [derivatives(metric) for metric in (jr.ndcg, without_range(jr.ndcg))])
  (value, *slopes), (formula, *expected) = both()
  above = np.asarray(formula) > 1
  assert above.any()
  np.testing.assert_array_equal(value, np.minimum(formula, 1))
  for slope, other in zip(slopes, expected, strict=True):
    assert np.all(np.any(np.asarray(other)[above] != 0, axis=-1))
    np.testing.assert_allclose(slope, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_rounding_is_kept_within_a_range(dtype):
  ends = (-1.0, 3.0)
  near = np.arange(1, 30).astype(dtype) * np.finfo(dtype).eps
  far = np.array([3.2, -1.2, np.nan, np.inf, -np.inf], dtype)
  at = jax.jit(lambda x: kept_within(x, ends))
  bends = jax.jit(jax.vmap(jax.grad(jax.grad(lambda x: kept_within(x, ends) ** 3))))
  with precision(dtype):
    np.testing.assert_array_equal(at(3 + 2 * near), dtype(3))
    np.testing.assert_array_equal(at(-1 - near), dtype(-1))
    for given in (np.linspace(-1, 3, 29).astype(dtype), -near, np.resize(far, 29)):
      np.testing.assert_array_equal(at(given), given)
    for x in (3 + 2 * near, -1 - near):
      np.testing.assert_allclose(bends(x), 6 * x, rtol=1e-4)


LISTS = np.float32([2, 1]), np.float32([1, 0])


def test_weights_and_gains_may_exceed_a_range():
  weights = np.float32([1.00001, 1])
  assert jr.precision(*LISTS, k=1, weights=weights) == weights[0]
  assert jr.dcg(*LISTS, gain=jr.gains.table([0.0, -1e-5])) == np.float32(-1e-5)
  # Rounding takes no perfect ranking out of it, whatever the weights are.
  scores, labels, where = queries()
  for weight in (0.7, 1.1, 3.0):
    given = {"weights": np.full_like(scores, weight), "where": where}
    assert np.all(jr.ndcg(scores, labels, **given) <= 1)


def test_a_range_of_ones_own_hides_no_fault():
  @jr.metric(range=(0, 1))
  def scaled(ranked, *, factor):
    return factor * ranked.expect(ranked.where, jr.discounts.constant) / ranked.n

  at = jax.jit(lambda factor: scaled(*LISTS, factor=factor))
  assert at(np.float32(1.2)) == np.float32(1.2)
  assert at(np.float32(1 + 4e-7)) == 1
  # The size of one end is not that of the other.
  wide = functools.partial(jr.metric(scaled.description.kernel, range=(1, 1e6)), *LISTS)
  assert wide(factor=np.float32(-5.0)) == -5
  assert wide(factor=np.float32(1 - 4e-7)) == 1
  case = testing.Case(*LISTS)
  assert testing.check_range(functools.partial(scaled, factor=1.0), case) == 3
  with pytest.raises(AssertionError, match="scaled breaks the law of range"):
    testing.check_range(functools.partial(scaled, factor=1.2), case)
  with pytest.raises(ValueError, match=r"^metric: range must be \(least, largest\), got \(1, 0\)"):
    jr.metric(scaled.description.kernel, range=(1, 0))


def test_other_kernels_of_a_description_have_no_range():
  """LambdaRank and moments under chance pass kernels of their own, whose values have other ends."""
  about = description.of_metric(jr.ndcg)
  assert description.with_kernel(about, len).range == (-np.inf, np.inf)
  assert jr.chance.expected(jr.ndcg, np.ones(5, np.float32)) <= 1


def test_a_corpus_keeps_ranges():
  items = np.zeros((5, 2), np.float32)
  positives = np.tile(np.arange(5), (1, 1))
  for ranking in (jr.Exact(), jr.Laplace(0.1)):
    (value,) = corpus.evaluate(jr.ndcg, items[:1], items, positives, ranking=ranking).values()
    assert np.all(value <= 1)


def test_agreements_and_divergences_keep_their_ranges():
  rng = np.random.default_rng(3)
  x = rng.integers(0, 3, (QUERIES, N)).astype(np.float32)
  y = np.where(np.arange(QUERIES)[:, None] % 2, x, -x)

  @jax.jit
  def agreements(x, y):
    both = agreement.rbo(x, y, p=0.9), agreement.rbo_residual(x, y, p=0.9)
    return *both, agreement.tau_ap(x, y)

  for values, low in zip(agreements(x, y), (0, 0, -1), strict=True):
    assert np.all((low <= values) & (values <= 1))
  shares = rng.dirichlet(np.full(N, 0.2), (2, QUERIES)).astype(np.float32)
  nothing = np.zeros_like(shares[0])
  p, q = np.concatenate([shares[0], nothing], -1), np.concatenate([nothing, shares[1]], -1)
  distance = jax.jit(exposure.jensen_shannon)
  for far in (distance(p, q), distance(p, p)):
    assert np.all((far >= 0) & (far <= 1))
  weights = rng.random((QUERIES, N)).astype(np.float32)
  for metric in (ranks.inverse_harmonic_mean_rank, ranks.inverse_geometric_mean_rank):
    value = jax.jit(metric)(np.ones((QUERIES, N)), weights)
    assert np.all(value <= 1)
