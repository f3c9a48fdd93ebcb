"""Losses of scores of any spread, and their derivatives, against float64."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import jaxrank as jr
from jaxrank import losses, plackett_luce
from jaxrank.interop import rax
from tests.helpers.suites import quick
from tests.helpers.together import apart

SPREADS = np.array([1.0, 30.0, 100.0, 1e4, 1e30])
TEMPERATURES = np.array([0.5, 1.0, 2.0])
# Distinct labels and scores, the best item on neither end; the last two items are not counted.
SCORES = np.array([0.6, -0.35, 0.2, 1.0, -1.0, 0.3, -np.inf])
LABELS = np.array([2.0, 0.0, 1.0, 3.0, 0.5, 4.0, 1.0])
TEACHER = np.array([1.0, -2.0, 0.0, 0.25, 3.0, 9.0, 1.0])
WHERE = np.array([True] * 5 + [False, True])
ORDER = np.array([2, 0, 1, 4, 3])
# Metrics under a smooth ranking, operators, whose results are matrices, and what makes losses.
OTHERS = ("approx_", "softrank_", "smooth_ap", "neural_sort", "soft_sort", "perturbed")
NAMES = [name for name in losses.__all__ if not name.startswith(OTHERS)]
NAMES += ["plackett_luce.log_prob"]
FEW = ("softmax", "lambda_ndcg", "softrank_ndcg")
TEMPERED = [
  name
  for name in NAMES
  if name == "plackett_luce.log_prob"
  or "temperature" in inspect.signature(getattr(losses, name)).parameters
]


def value(name, scores, temperature):
  """A loss of the query above; `temperature` is not passed to losses that take none."""
  given = {"temperature": temperature} if name in TEMPERED else {}
  if name == "plackett_luce.log_prob":
    return plackett_luce.log_prob(scores, ORDER, where=WHERE, **given)
  loss = getattr(losses, name)
  takes, lists = inspect.signature(loss).parameters, []
  if "labels" in takes:
    lists.append(jnp.asarray(LABELS, scores.dtype))
  if "teacher" in takes:
    given["teacher"] = jnp.asarray(TEACHER, scores.dtype)
  return loss(scores, *lists, where=WHERE, **given)


def everything(name, scores, temperatures):
  """Value, gradient by the scores, and both derivatives by the temperature, for each case."""

  def one(scores, temperature):
    of = functools.partial(value, name)
    found, slopes = jax.value_and_grad(of, (0, 1))(scores, temperature)
    _, forwards = jax.jvp(
      functools.partial(of, scores), (temperature,), (jnp.ones_like(temperature),)
    )
    return found, *slopes, forwards

  return jax.vmap(lambda s: jax.vmap(lambda t: one(s, t))(temperatures))(scores)


found_of = apart({name: functools.partial(everything, name) for name in NAMES}, FEW)


def spread(dtype):
  return jnp.asarray(SPREADS[:, None] * SCORES, dtype)


@quick("name", NAMES, FEW)
def test_values_and_gradients_at_any_spread(name):
  single = found_of(name, spread(np.float32), jnp.asarray(TEMPERATURES, np.float32))
  with jax.enable_x64(True):
    double = found_of(name, spread(np.float64), jnp.asarray(TEMPERATURES, np.float64))
  # Squares of margins of 1e30 are too large for float32.
  fits = np.abs(double[0]) < 1e36
  for x, y in zip(single, double, strict=True):
    assert np.isfinite(x).all()
    assert np.isfinite(y).all()
    x, y = (np.where(fits, np.moveaxis(a, -1, 0) if a.ndim > 2 else a, 0) for a in (x, y))
    size = np.max(np.abs(y), axis=0) if y.ndim > 2 else np.abs(y)
    assert (np.abs(x - y) <= 1e-4 * size + 1e-6).all()


@quick("name", TEMPERED, FEW)
def test_slopes_by_the_temperature_are_differences(name):
  with jax.enable_x64(True):
    scores, t = spread(np.float64), jnp.asarray(TEMPERATURES)
    _, _, backwards, forwards = found_of(name, scores, t)
    step = 1e-6
    above, below = (found_of(name, scores, t + by)[0] for by in (step, -step))
  slopes = (above - below) / (2 * step)
  for found in (backwards, forwards):
    # Differences of larger scores are rounding errors.
    np.testing.assert_allclose(found[:2], slopes[:2], rtol=1e-7, atol=1e-8)


@quick("name", TEMPERED, FEW)
def test_traced_temperatures_that_are_not_positive(name):
  found = found_of(name, spread(np.float32), jnp.array([0.0, -1.0, 0.0]))
  for x in found:
    assert np.isfinite(x[:2]).all()
  for slopes in found[2:]:
    np.testing.assert_array_equal(slopes[:2], 0)


RAX = [name for name in dir(rax) if name.endswith("_loss")]


def adapted(name, scores):
  def total(scores):
    if name in RAX:
      return getattr(rax, name)(scores, jnp.asarray(LABELS, scores.dtype), where=WHERE)
    chances = plackett_luce.rank_probabilities(scores, where=WHERE)
    return jnp.sum(chances * jnp.sin(jnp.arange(49, dtype=scores.dtype)).reshape(7, 7))

  return jax.vmap(jax.value_and_grad(total))(scores)


ADAPTED = [*RAX, "rank_probabilities"]
of_rax = apart({name: functools.partial(adapted, name) for name in ADAPTED}, RAX)


@quick("name", ADAPTED, RAX)
def test_adapters_and_rank_probabilities_at_any_spread(name):
  single = of_rax(name, spread(np.float32))
  with jax.enable_x64(True):
    double = of_rax(name, spread(np.float64))
  # Squares of 1e30, which are too large for float32, are infinite.
  fits = np.abs(double[0]) < 1e36
  np.testing.assert_allclose(single[0][fits], double[0][fits], rtol=1e-4, atol=1e-5)
  size = np.maximum(np.max(np.abs(double[1]), axis=-1, keepdims=True), 0.1)
  np.testing.assert_allclose(single[1] / size, double[1] / size, rtol=0, atol=1e-4)


def test_slopes_by_the_temperature():
  def slope(of, temperature):
    return float(jax.grad(of)(temperature))

  scores, labels = jnp.array([2.0, 0.0, 1.0]), jnp.array([1.0, 0.0, 0.0])
  assert slope(lambda t: losses.softmax(scores, labels, temperature=t), 0.5) == pytest.approx(
    0.5962516, rel=1e-5
  )
  teacher = jnp.array([1.0, -2.0, 0.0])
  assert slope(lambda t: losses.kl(scores, teacher=teacher, temperature=t), 2.0) == pytest.approx(
    0.024688, rel=1e-4
  )


def test_log_prob_of_far_scores_has_a_gradient():
  scores, order = jnp.array([9.0, -36.0, 12.0, 60.0]), jnp.array([3, 0, 1, 2])
  slopes = jax.grad(plackett_luce.log_prob)(scores, order)
  np.testing.assert_allclose(slopes, [0.9525741, 1.0, -1.9525741, 0.0], rtol=1e-5)


@pytest.mark.parametrize(
  "call",
  [
    lambda s, x: losses.softmax(s, s, temperature=x),
    lambda s, x: losses.kl(s, teacher=s, temperature=x),
    lambda s, x: losses.list_mle(s, s, temperature=x),
    lambda s, x: losses.sampled_softmax(s, s, temperature=x),
    lambda s, x: losses.lambda_rank(s, s, temperature=x),
    lambda s, x: losses.lambda_ndcg(s, s, scheme="ndcg2++", mu=x),
    lambda s, x: losses.pairwise_hinge(s, s, margin=x),
    lambda s, x: losses.poly1(s, s, epsilon=x),
    lambda s, x: plackett_luce.log_prob(s, jnp.argsort(s), temperature=x),
    lambda s, x: plackett_luce.sample(jax.random.key(0), s, temperature=x),
    lambda s, x: jr.ndcg(s, s, ranking=jr.Laplace(x)),
    lambda s, x: jr.rbp(s, s, persistence=x),
  ],
)
def test_parameters_are_scalars(call):
  with pytest.raises(TypeError, match=r"must be a scalar, got float32\[3, 1\]; use vmap"):
    call(jnp.ones((3, 3)), jnp.ones((3, 1)))


@pytest.mark.parametrize("name", ["softmax", "list_mle", "unique_softmax"])
def test_checks_of_gradients_raise_no_false_alarms(name):
  def total(scores, where):
    return getattr(losses, name)(scores, jnp.array([1.0, 0.0, 2.0]), where=where)

  checked = jax.jit(checkify.checkify(jax.grad(total), errors=checkify.all_checks))
  for where in (jnp.array([True, True, False]), jnp.zeros(3, bool)):
    error, _ = checked(jnp.array([2.0, 0.0, 1.0]), where)
    assert error.get() is None


@pytest.mark.parametrize("name", ["softmax", "poly1", "list_mle", "unique_softmax", "lambda_ndcg"])
def test_nan_under_the_mask_raises_no_false_alarms(name):
  scores, labels = jnp.array([2.0, 0.0, 1.0, jnp.nan]), jnp.array([1.0, 0.0, 0.0, jnp.nan])
  where = jnp.array([True, True, True, False])
  with jax.debug_nans(True):
    slopes = jax.grad(lambda scores: getattr(losses, name)(scores, labels, where=where))(scores)
  assert slopes[-1] == 0
