"""Counts of whole lists, alone, together and within loops, beside those of sets."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core.arithmetic import share_of

METRICS = {"precision": jr.precision, "recall": jr.recall, "f_measure": jr.f_measure}


def drawn(n, queries=6):
  """Scores, labels and masks.

  The second query has no relevant item, the third only relevant ones, and the last has no item.
  """
  rng = np.random.default_rng(n)
  scores = rng.choice(np.float32([-np.inf, -1, 0, 2]), size=(queries, n))
  labels = rng.integers(-1, 3, size=(queries, n)).astype(np.float32)
  where = rng.random((queries, n)) < 0.8
  where[:2, 0] = True
  labels[1] = np.minimum(labels[1], 0)
  scores[2, 1:], labels[2], where[2] = 1, 1, True
  scores[2, 0] = -np.inf
  where[-1] = False
  return scores, labels, where


def by_hand(scores, labels, where):
  """The values of the metrics for one query, from sets of items."""
  valid = np.flatnonzero(where)
  relevant = {i for i in valid if labels[i] > 0}
  hits = len({i for i in relevant if scores[i] > -np.inf})
  over = {"precision": len(valid), "recall": len(relevant)}
  values = {name: hits / size if size else 0.0 for name, size in over.items()}
  both = sum(over.values())
  return values | {"f_measure": 2 * hits / both if both else 0.0}


@pytest.mark.parametrize("n", [1, 7, 4096])
@pytest.mark.parametrize("name", METRICS)
def test_values_are_those_of_sets(name, n):
  query = drawn(n)
  expected = [by_hand(*row)[name] for row in zip(*query, strict=True)]
  scores, labels, where = query
  np.testing.assert_allclose(METRICS[name](scores, labels, where=where), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [7])
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("array", [0, 1], ids=["scores", "labels"])
def test_one_nan_makes_the_value_of_its_query_nan(array, name, n):
  query = drawn(n)
  clean = METRICS[name](*query[:2], where=query[2])
  query[array][:2, 0] = np.nan
  query[array][2:][~query[2][2:]] = np.nan
  value = METRICS[name](*query[:2], where=query[2])
  assert np.all(np.isnan(value[:2]))
  np.testing.assert_array_equal(value[2:], clean[2:])


def test_measures_evaluated_together_share_the_nan():
  scores, labels, where = drawn(7)
  alone = {name: metric(scores, labels, where=where) for name, metric in METRICS.items()}
  scores[0, 0] = np.nan
  values = jr.evaluate(list(METRICS.values()), scores, labels, where=where)
  for name, value in values.items():
    assert np.isnan(value[0])
    np.testing.assert_array_equal(value[1:], alone[name][1:])


@pytest.mark.parametrize("loop", [jax.lax.map, lambda f, xs: jax.vmap(f)(xs)], ids=["map", "vmap"])
def test_a_kernel_may_count_within_a_loop(loop):
  @jr.metric
  def levels(ranked):
    def found(level):
      return ranked.expect(ranked.labels >= level, jr.discounts.constant)

    each = loop(found, jnp.array([1.0, 2.0]))
    return jnp.sum(each) + ranked.expect(ranked.labels == 0, jr.discounts.constant)

  scores = np.float32([[3, 2, 1, -np.inf], [3, np.nan, 1, 0]])
  np.testing.assert_array_equal(levels(scores, np.array([[2, 1, 0, 2], [1, 1, 1, 1]])), [4, np.nan])


@pytest.mark.parametrize("level", [0.3, 0.34, 0.1, 1 / 3, 1.0])
def test_a_share_of_a_count_is_rounded_up_but_for_its_rounding_error(level):
  counts = np.arange(1, 200)
  exact = Fraction(level).limit_denominator(100)
  for dtype in (jnp.float32, jnp.float16):
    few = counts[: 200 if dtype == jnp.float32 else 15]
    found = share_of(level, jnp.asarray(few, dtype), 200)
    np.testing.assert_array_equal(found, [math.ceil(exact * int(count)) for count in few])
