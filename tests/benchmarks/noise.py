"""Gumbel noise integrated, against gradients that sample orders."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import jaxrank as jr

from .report import Row, Target, at_least, megabytes, milliseconds, ratio_row
from .timing import Contender, jitted, planned_bytes, race

SAMPLES = 100

Data = Callable[[int, int], tuple[Array, Array]]


def against_samples(data: Data) -> list[Row]:
  """Value and gradient by our integral, and by PL-Rank from samples, with the errors of both."""
  scores, labels = data(32, 1000)
  key = jax.random.key(0)
  ours = jitted(jax.value_and_grad(_loss), scores, labels)
  sampled = jitted(_sampled, scores, labels, key)
  result = race({"ours": _timed(ours), "sampled": _timed(sampled)})
  with jax.enable_x64(True):
    wide = (jnp.asarray(np.asarray(x), jnp.float64) for x in (scores, labels))
    _, exact = jax.block_until_ready(jax.jit(jax.value_and_grad(_loss))(*wide))
  errors = [_error(slope, exact) for _, slope in (ours(), sampled())]
  if errors[0] > errors[1]:
    raise AssertionError(f"the integral errs by {errors[0]}, the samples by {errors[1]}")
  times = [result[side].seconds for side in ("ours", "sampled")]
  texts = [f"{milliseconds(t)}, error {e:.1e}" for t, e in zip(times, errors, strict=True)]
  side = f"PL-Rank-3, {SAMPLES} samples"
  return [
    ratio_row("nDCG, Gumbel, [32, 1000]", texts[0], side, texts[1], times[1] / times[0],
              at_least(1))
  ]  # fmt: skip


def long_list(data: Data) -> list[Row]:
  """Time and temporary memory of 20,000 candidates."""
  lists = data(1, 20_000)
  loss = jax.value_and_grad(_loss)
  seconds = race({"ours": _timed(jitted(loss, *lists), rounds=3)})["ours"].seconds
  size = planned_bytes(loss, *lists)
  fits = Target("fits in 1 GB", most=1e9)
  ours = f"{milliseconds(seconds)}, {megabytes(size)}"
  return [Row("nDCG, Gumbel, [1, 20000]", ours, judged=size, target=fits)]


def _timed(call: Callable[[], tuple[Array, Array]], rounds: int = 5) -> Contender:
  return Contender(lambda: call()[0], rounds)


def _error(slope: Array, exact: Array) -> float:
  slope, exact = (np.asarray(x, np.float64) for x in (slope, exact))
  return float(np.linalg.norm(slope - exact) / np.linalg.norm(exact))


def _loss(scores: Array, labels: Array) -> Array:
  ranking = jr.Gumbel(1.0)
  return 1 - jnp.mean(jr.ndcg(scores, labels, gain=jr.gains.exponential, ranking=ranking))


def _sampled(scores: Array, labels: Array, key: Array) -> tuple[Array, Array]:
  gain = jnp.exp2(labels) - 1
  worth = 1 / jnp.log2(jnp.arange(2, gain.shape[-1] + 2, dtype=gain.dtype))
  worth_of = gain / jnp.sum(jnp.sort(gain, axis=-1, descending=True) * worth, -1, keepdims=True)
  keys = jax.random.split(key, scores.shape[0])
  value, slope = jax.vmap(_pl_rank, in_axes=(0, 0, None, 0))(scores, worth_of, worth, keys)
  return 1 - jnp.mean(value), -slope / scores.shape[0]


def _pl_rank(scores: Array, gain: Array, worth: Array, key: Array) -> tuple[Array, Array]:
  """The mean DCG and its gradient by PL-Rank-3 (Oosterhuis 2022), for one query.

  The gradient by the score of the item at rank `r` is the reward behind it, plus the sum over
  ranks up to `r` of its chance to be drawn there times what that gains over the reward to come.
  """
  noise = jax.random.gumbel(key, (SAMPLES, *scores.shape), scores.dtype)
  order = jnp.argsort(-(scores + noise), axis=-1)
  rate, gains = jnp.exp(scores - jnp.max(scores))[order], gain[order]
  reward = gains * worth
  to_come = jnp.cumsum(reward[:, ::-1], axis=-1)[:, ::-1]
  left = jnp.cumsum(rate[:, ::-1], axis=-1)[:, ::-1]
  placed, missed = jnp.cumsum(worth / left, axis=-1), jnp.cumsum(to_come / left, axis=-1)
  slope = to_come - reward + rate * (gains * placed - missed)
  total = jnp.zeros_like(scores).at[order.reshape(-1)].add(slope.reshape(-1))
  return jnp.mean(jnp.sum(reward, axis=-1)), total / SAMPLES
