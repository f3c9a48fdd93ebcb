"""Epochs that are drawn inside of a program, and values of rows in padded cells."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

SIZES, STEPS = (13, 4, 0, 1, 8), 4


@pytest.fixture(scope="module")
def drawn():
  """Epochs of many keys, from one program."""
  draw = jax.jit(jax.vmap(functools.partial(jr.epoch, sizes=SIZES, steps=STEPS)))
  return [np.asarray(x) for x in draw(jax.random.split(jax.random.key(0), 500))]


def test_each_query_comes_in_each_epoch_and_none_three_times(drawn):
  for size, rows in zip(SIZES, drawn, strict=True):
    width = -(-size // STEPS)
    assert rows.shape == (500, STEPS, width)
    assert rows.dtype == np.int32
    counts = np.stack([np.bincount(x.ravel(), minlength=size) for x in rows])
    assert counts.shape == (500, size)
    assert (counts >= STEPS * width // max(size, 1)).all()
    assert (counts <= -(-STEPS * width // max(size, 1))).all()


def test_queries_come_at_any_place_and_twice_as_often_as_others(drawn):
  rows = drawn[0]
  where = np.stack([(rows == query).mean(axis=(0, 2)) for query in range(SIZES[0])])
  # 500 epochs of 16 places for 13 queries: the standard error of a share of .077 is below .009.
  np.testing.assert_allclose(where, 1 / SIZES[0], atol=0.04)
  twice = np.stack([(rows == query).sum(axis=(1, 2)) == 2 for query in range(SIZES[0])])
  np.testing.assert_allclose(twice.mean(axis=1), 3 / 13, atol=0.08)


def test_buckets_are_drawn_apart_and_by_the_key(drawn):
  first, second = jr.epoch(jax.random.key(0), [8, 8], steps=2)
  assert (first != second).any()
  again, _ = jr.epoch(jax.random.key(0), [8, 8], steps=2)
  np.testing.assert_array_equal(first, again)
  assert (drawn[4][0] != drawn[4][1]).any()


def test_a_scan_sees_every_query():
  buckets = [jnp.arange(6.0), jnp.arange(100.0, 104.0)]

  def step(total, rows):
    return total + sum(x[i].sum() for x, i in zip(buckets, rows, strict=True)), None

  rows = jr.epoch(jax.random.key(1), np.array([6, 4]), steps=2)
  total, _ = jax.lax.scan(step, 0.0, rows)
  assert float(total) == 15 + 406


@pytest.mark.parametrize(
  ("arguments", "error", "message"),
  [
    (([3], 0), ValueError, "epoch: steps must be at least 1"),
    (([-1], 2), ValueError, "epoch: each of sizes must be at least 0"),
    (([2.5], 2), TypeError, "epoch: each of sizes must be an int"),
    ((3, 2), TypeError, "epoch: sizes must be the number of queries of each bucket"),
    (([3], True), TypeError, "epoch: steps must be an int"),
  ],
)
def test_bad_arguments_are_named(arguments, error, message):
  sizes, steps = arguments
  with pytest.raises(error, match=message):
    jr.epoch(jax.random.key(0), sizes, steps=steps)


def test_a_seed_is_no_key():
  with pytest.raises(TypeError, match=r"epoch: key must be a PRNG key such as jax.random.key\(3\)"):
    jr.epoch(3, [4], steps=2)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_gathered_values_are_those_of_the_rows(shape):
  rng = np.random.default_rng(0)
  ids = rng.integers(0, 5, 40)
  values = rng.normal(size=(40, *shape)).astype(np.float32)
  for batch in jr.pad_buckets(ids, np.zeros(40), np.zeros(40)):
    found = batch.gather(values)
    assert found.dtype == np.float32
    assert found.shape == (*batch.where.shape, *shape)
    for cell, row in np.ndenumerate(batch.rows):
      np.testing.assert_array_equal(found[cell], values[row] if row >= 0 else 0)


def test_gathering_too_few_rows_is_an_error():
  batch = jr.pad([1, 1, 2], np.zeros(3), np.zeros(3))
  with pytest.raises(ValueError, match=r"Batch.gather: values must have a row for .* at least 3"):
    batch.gather(np.zeros((2, 4)))
  with pytest.raises(ValueError, match=r"Batch.gather: values must have a row"):
    batch.gather(1.0)
  with pytest.raises(TypeError, match=r"Batch.gather"):
    jax.jit(batch.gather)(jnp.zeros(3))
