"""`check_metric` finds planted bugs, names the law that they break, and shows a small case."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest

from jaxrank import testing


def share(scores, labels, *, where=None, k=None, bug=None):
  """The share of the gain that is at the first `k` ranks, on average over the orders of ties."""
  dtype = jnp.float64 if scores.dtype == jnp.float64 else jnp.float32
  where = jnp.ones(scores.shape, bool) if where is None else where
  scores = scores.astype(jnp.bfloat16 if bug == "dtype loss" else dtype)
  labels = labels.astype(dtype)
  unknown = jnp.isnan(scores) | jnp.isnan(labels)
  poisoned = jnp.any(unknown if bug == "NaN leak" else where & unknown, axis=-1)

  retrieved = where & (scores > -jnp.inf)
  pairs = retrieved[..., None, :] & retrieved[..., :, None]
  better = pairs & (scores[..., None, :] > scores[..., :, None])
  tied = pairs & (scores[..., None, :] == scores[..., :, None])
  if bug == "order dependence":
    better, tied = better | jnp.tril(tied, -1), pairs & jnp.eye(scores.shape[-1], dtype=bool)
  ahead, size = (jnp.sum(x.astype(dtype), axis=-1) for x in (better, tied))
  wrong = 0 if k is None else {"one too deep": 1, "one too high": -1}.get(bug, 0)
  k = jnp.asarray(scores.shape[-1] if k is None else k).astype(dtype)
  room = k + wrong - ahead
  inside = jnp.clip(room / jnp.maximum(size, 1), 0, 1)
  if bug == "wrong tie":
    inside = jnp.floor(inside)

  counted = jnp.ones_like(where) if bug == "mask leak" else where
  gains = jnp.where(counted & ~jnp.isnan(labels), jnp.maximum(labels, 0), 0)
  total = jnp.sum(gains, axis=-1)
  if bug == "padding dependence":
    total = total * (scores.shape[-1] / jnp.maximum(jnp.sum(where.astype(dtype), axis=-1), 1))
  found = jnp.sum(jnp.where(retrieved, gains * inside, 0), axis=-1)
  value = found / jnp.where(total > 0, total, 1)
  if bug == "batch dependence":
    value = value / jnp.maximum(jnp.max(total), 1)
  if bug == "jit difference" and not isinstance(scores, jax.core.Tracer):
    value = jnp.round(value, 1)
  if bug == "vmap difference":
    value = mapped_wrongly(value)
  if bug == "wrong gradient":
    value = value + straight_through(jnp.sum(jnp.where(retrieved, scores, 0), axis=-1))
  return jnp.where(poisoned, jnp.nan, value)


@jax.custom_batching.custom_vmap
def mapped_wrongly(value):
  return value


@mapped_wrongly.def_vmap
def _(axis_size, in_batched, value):
  return 2 * value, True


def straight_through(x):
  """0, with the gradient of something else."""
  return jnp.where(jnp.isfinite(x), x - jax.lax.stop_gradient(x), 0)


BUGS = {
  "wrong tie": "ties",
  "mask leak": "mask",
  "NaN leak": "nan",
  "one too deep": "cutoff",
  "one too high": "cutoff",
  "wrong gradient": "gradients",
  "order dependence": "permutation",
  "padding dependence": "padding",
  "dtype loss": "dtypes",
  "vmap difference": "vmap",
  "jit difference": "jit",
  "batch dependence": "batch",
}


def broken(metric, **options):
  """The message about a metric that breaks a law."""
  with pytest.raises(AssertionError) as raised:
    testing.check_metric(metric, **options)
  return str(raised.value)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug):
  text = broken(functools.partial(share, bug=bug))
  assert text.startswith(f"share breaks the law of {BUGS[bug]}: ")
  # The smallest case has few items.
  found = re.findall(r"jnp\.array\(\[(.*?)\]", text)
  assert found
  assert all(
    x.count(",") < (3 if bug in ("one too deep", "padding dependence") else 5) for x in found
  )


def test_a_metric_without_a_bug_passes():
  testing.check_metric(share)
