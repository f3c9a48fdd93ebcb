"""Losses against a teacher: definitions in plain Python, slopes, masks and bad input."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import losses
from tests.helpers import cases
from tests.helpers.suites import quick, thorough

QUERIES, N, T = 12, 6, 0.7


def lists():
  """Ties in scores and in the teacher, -inf, masks over NaN; the teacher may be negative."""
  drawn = cases.draw(3, QUERIES, N, most_orders=10**6)
  scores = np.where(drawn.where & (drawn.scores > 10), np.float32(4.5), drawn.scores)
  rng = np.random.default_rng(0)
  teacher = np.where(drawn.where, rng.integers(-4, 4, scores.shape) / 2, np.nan)
  return scores, drawn.labels, np.float32(teacher), drawn.where


SCORES, LABELS, TEACHER, WHERE = lists()
LABELS = np.where(WHERE, LABELS, 0)


def margin_mse(s, y, t):
  pairs = [
    (i, j) for i, j in itertools.permutations(range(len(s)), 2) if max(y[i], 0) > max(y[j], 0)
  ]
  errors = [((s[i] - s[j]) - (t[i] - t[j])) ** 2 for i, j in pairs]
  return sum(errors) / len(errors) if errors else 0.0


def kl(s, y, t):
  def log_softmax(x):
    z = [v / T for v in x]
    top = max(z)
    total = top + math.log(sum(math.exp(v - top) for v in z))
    return [v - total for v in z]

  if not len(s):
    return 0.0
  p, q = log_softmax(t), log_softmax(s)
  return T**2 * sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))


def rank_mse(s, y, t):
  errors = []
  for i in range(len(s)):
    others = [j for j in range(len(s)) if j != i]
    rank = 1 + sum((t[j] > t[i]) + (t[j] == t[i]) / 2 for j in others)
    soft = 1 + sum(1 / (1 + math.exp(-(s[j] - s[i]) / T)) for j in others)
    errors.append((rank - soft) ** 2 / math.log2(1 + rank))
  return sum(errors) / len(errors) if errors else 0.0


LOSSES = {
  "margin_mse": (
    lambda s, t, where: losses.margin_mse(s, LABELS, teacher=t, where=where),
    margin_mse,
  ),
  "kl": (lambda s, t, where: losses.kl(s, teacher=t, where=where, temperature=T), kl),
  "rank_mse": (
    lambda s, t, where: losses.rank_mse(s, teacher=t, where=where, ranking=jr.Logistic(T)),
    rank_mse,
  ),
}
every = pytest.mark.parametrize("name", LOSSES)


@functools.cache
def both(name):
  def total(s, t, where):
    value = LOSSES[name][0](s, t, where)
    return jnp.sum(jnp.where(jnp.isnan(value), 0, value)), value

  return jax.jit(jax.value_and_grad(total, has_aux=True))


@every
def test_definition_and_slopes(name):
  (_, value), slope = both(name)(SCORES, TEACHER, WHERE)
  moved = WHERE & (-np.inf < SCORES)
  np.testing.assert_array_equal(np.asarray(slope)[~moved], 0)
  direction = np.where(moved, np.random.default_rng(0).standard_normal(SCORES.shape), 0)
  for row, live in enumerate(moved):

    def definition(step, row=row, live=live):
      s = np.float64(SCORES[row]) + step * direction[row]
      return LOSSES[name][1](s[live], LABELS[row][live], np.float64(TEACHER[row])[live])

    np.testing.assert_allclose(value[row], definition(0.0), rtol=1e-5, atol=1e-6)
    rise = (definition(1e-5) - definition(-1e-5)) / 2e-5
    np.testing.assert_allclose(np.sum(slope[row] * direction[row]), rise, rtol=1e-4, atol=1e-4)


@thorough
@every
def test_the_teacher_itself_has_loss_0(name):
  scores = np.where(WHERE, TEACHER, 0)
  (_, value), slope = both(name)(scores, TEACHER, WHERE)
  if name == "rank_mse":
    value = losses.rank_mse(scores, teacher=TEACHER, where=WHERE, ranking=jr.Laplace(1e-4))
    np.testing.assert_allclose(value, 0, atol=1e-6)
    return
  np.testing.assert_allclose(value, 0, atol=1e-6)
  np.testing.assert_allclose(slope, 0, atol=1e-6)


@thorough
@every
def test_shifts_of_either_change_nothing(name):
  (_, value), _ = both(name)(SCORES, TEACHER, WHERE)
  (_, moved), _ = both(name)(SCORES + 2, TEACHER - 8, WHERE)
  np.testing.assert_allclose(moved, value, rtol=1e-4, atol=1e-5)


@thorough
@every
def test_not_a_number_poisons_its_own_query(name):
  scores, teacher = (np.where(WHERE & np.isfinite(x), x, 0) for x in (SCORES, TEACHER))
  whole = np.ones_like(WHERE)
  (_, clean), clean_slope = both(name)(scores, teacher, whole)
  scores[2, 1] = teacher[5, 3] = np.nan
  teacher[2, 1] = -np.inf
  (_, value), slope = both(name)(scores, teacher, whole)
  np.testing.assert_array_equal(np.isnan(value), np.isin(np.arange(QUERIES), [2, 5]))
  kept = np.delete(np.arange(QUERIES), [2, 5])
  np.testing.assert_allclose(value[kept], clean[kept], rtol=1e-5)
  np.testing.assert_allclose(slope[kept], clean_slope[kept], rtol=1e-4, atol=1e-6)
  assert np.all(np.isfinite(slope))


@thorough
@every
def test_extremes_are_finite(name):
  rng = np.random.default_rng(0)
  for levels in (
    (-1e30, 0.0, 1e30),
    (3e38, -3e38),
    (np.inf, -np.inf, 1.0),
    (-np.inf,),
    (1e18, 0.0),
  ):
    x, t = (rng.choice(np.float32(levels), SCORES.shape) for _ in range(2))
    for student, teacher in ((x, TEACHER), (SCORES, t), (x, t)):
      (_, value), slope = both(name)(student, np.where(WHERE, teacher, np.float32(0)), WHERE)
      assert np.all(np.isfinite(value))
      assert np.all(np.isfinite(slope))
  # Squares of differences as large as a float can hold.
  pair = np.float32([[1e18, 0.0]])
  value = losses.margin_mse(pair, np.array([[1, 0]]), teacher=np.zeros_like(pair))
  np.testing.assert_allclose(value, 1e36, rtol=1e-5)


@thorough
@every
def test_dtypes_and_batches(name):
  half = jnp.where(WHERE, jnp.asarray(SCORES), 0).astype(jnp.bfloat16)
  (_, value), slope = both(name)(half, TEACHER, WHERE)
  (_, wide), _ = both(name)(half.astype(jnp.float32), TEACHER, WHERE)
  assert (value.dtype, slope.dtype) == (jnp.float32, jnp.bfloat16)
  np.testing.assert_allclose(value, wide, rtol=1e-6)
  if name != "margin_mse":
    each = jax.vmap(LOSSES[name][0])(half, TEACHER, WHERE)
    np.testing.assert_allclose(each, value, rtol=1e-5, atol=1e-6)
  with jax.enable_x64(True):
    (_, value), slope = both(name)(*(np.float64(x) for x in (SCORES, TEACHER)), WHERE)
    assert value.dtype == slope.dtype == jnp.float64


@thorough
def test_margins_in_blocks():
  rng = np.random.default_rng(0)
  s, t = rng.standard_normal((2, 1, 2000)).astype(np.float32)
  y = rng.integers(0, 3, (1, 2000))
  value = losses.margin_mse(s, y, teacher=t)
  error = (s - t)[0].astype(np.float64)
  better = y[0][:, None] > y[0][None]
  expected = np.mean(np.square(error[:, None] - error[None])[better])
  np.testing.assert_allclose(value, [expected], rtol=1e-5)


@quick("ranking", [jr.Laplace(1.0), jr.Gumbel(1.0), jr.Gaussian(1.0)], [])
def test_rank_mse_under_other_rankings(ranking):
  s, t = np.float32([[0.3, -1.0, 2.0]]), np.float32([[1.0, 2.0, 3.0]])
  before = jr.metric(lambda ranked: ranked.in_input_order(ranked.before(ranked.where)))
  soft = 1 + np.asarray(before(s, t, ranking=ranking))[0]
  rank = np.array([3.0, 2.0, 1.0])
  expected = np.mean((rank - soft) ** 2 / np.log2(1 + rank))
  value = losses.rank_mse(s, teacher=t, ranking=ranking)
  np.testing.assert_allclose(value, [expected], rtol=1e-5)


@every
def test_an_item_without_a_score_of_the_teacher_is_left_out(name):
  """As one with a score of -inf is, also if the teacher scored nothing."""
  lost = (np.arange(N) % 3 == 1) | (np.arange(QUERIES) == 2)[:, None]
  (_, value), slope = both(name)(SCORES, np.where(lost, -np.float32(np.inf), TEACHER), WHERE)
  (_, expected), expected_slope = both(name)(
    np.where(lost, -np.float32(np.inf), SCORES), TEACHER, WHERE
  )
  np.testing.assert_array_equal(value, expected)
  np.testing.assert_array_equal(slope, expected_slope)
  np.testing.assert_array_equal(np.asarray(slope)[lost], 0)
  assert np.all(np.isfinite(value))
  assert np.any(value > 0)


BAD = [
  (lambda s: losses.margin_mse(s, s, teacher=s[:, 1:]), r"margin_mse: teacher.*\(2, 2\).*\(2, 3\)"),
  (lambda s: losses.kl(s, teacher=s[:1]), r"kl: teacher.*\(1, 3\).*\(2, 3\)"),
  (lambda s: losses.rank_mse(s, teacher=s[0]), r"rank_mse: teacher.*\(3,\).*\(2, 3\)"),
  (lambda s: losses.kl(s, teacher=None), "kl: teacher must be an array of numbers, got None"),
  (lambda s: losses.kl(s, teacher=s, temperature=0), "kl: temperature must be positive"),
  (lambda s: losses.margin_mse(s, s[:, 1:], teacher=s), r"margin_mse: scores and labels.*\(2, 2\)"),
  (lambda s: losses.rank_mse(s, teacher=s, where=s), "rank_mse: where must be boolean"),
  (lambda s: losses.rank_mse(s, teacher=s, ranking=1.0), "rank_mse: ranking"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_mistakes_name_the_argument(call, message):
  with pytest.raises((TypeError, ValueError), match=f"^{message}"):
    call(np.zeros((2, 3), np.float32))


def test_padding_does_not_clip_huge_margins():
  scores, teacher = np.float32([1e30, -1e30, 2.0]), np.float32([0.0, 1.0, 2.0])
  labels, where = np.float32([1, 0, 0]), np.ones(3, bool)
  wide = [np.pad(x, (0, 5)) for x in (scores, labels, teacher, where)]
  padded = losses.margin_mse(wide[0], wide[1], teacher=wide[2], where=wide[3])
  assert padded == losses.margin_mse(scores, labels, teacher=teacher)
