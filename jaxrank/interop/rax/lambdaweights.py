"""Weights of pairs for `lambdaweight_fn`, `[..., n * n]`: how much a pair affects a metric.

A list without items has no pairs, and its weights are an empty array. `jaxrank.interop.rax`
explains the arguments.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.arithmetic import safe_divide
from jaxrank.interop.rax.lists import Lists
from jaxrank.interop.rax.metrics import (
  Cutoff,
  default_discount_fn,
  default_gain_fn,
  ideal_dcg,
  worth,
)
from jaxrank.interop.rax.pairwise import compute_pairs
from jaxrank.interop.rax.positions import ranks

Fn = Callable[[Array], Array]


def labeldiff_lambdaweight(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
) -> Array:
  """Absolute difference of the labels, `|y_i - y_j|`; `scores` and `weights` have no effect.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(labeldiff_lambdaweight(scores, labels))
  [0. 1. 1. 1. 0. 0. 1. 0. 0.]

  See `jaxrank.interop.rax` for the arguments.
  """
  del weights
  lists = Lists.of(scores, labels, where, segments, may_be_empty=True)
  return _within(lists, _differences(lists.labels.astype(lists.dtype)))


def dcg_lambdaweight(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  topn: Cutoff = None,
  normalize: bool = False,
  gain_fn: Fn = default_gain_fn,
  discount_fn: Fn = default_discount_fn,
) -> Array:
  """LambdaRank: `n |gain_i - gain_j| |discount(r_i) - discount(r_j)|`.

  The discount is 0 at ranks greater than `topn`, and `n` is the padded length of the list.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{dcg_lambdaweight(scores, labels)[1]:.5f}")
  0.39279

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    normalize: Whether to divide gains by the ideal DCG.
  """
  topn = checks.cutoff(topn, "topn")
  lists = Lists.of(scores, labels, where, segments, may_be_empty=True)
  rank = ranks(lists.scores, where=lists.where, segments=lists.segments)
  discount = discount_fn(rank).astype(lists.dtype)
  if topn is not None:
    discount = jnp.where(rank <= topn, discount, 0)
  gain = _gains(lists, weights, topn, normalize, gain_fn, discount_fn)
  return rank.shape[-1] * _within(lists, _differences(gain) * _differences(discount))


def dcg2_lambdaweight(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  topn: Cutoff = None,
  normalize: bool = False,
  gain_fn: Fn = default_gain_fn,
  discount_fn: Fn = default_discount_fn,
  light_discount: bool = False,
) -> Array:
  """LambdaLoss: `n |gain_i - gain_j| |discount(d) - discount(d + 1)|`, with `d = |r_i - r_j|`.

  The weights of pairs with a rank greater than `topn` are divided by `1 - discount(max(r_i, r_j))`.
  `normalize` and `n` are those of `dcg_lambdaweight`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{dcg2_lambdaweight(scores, labels)[1]:.5f}")
  1.10721

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    light_discount: Whether to leave out the second discount.
  """
  topn = checks.cutoff(topn, "topn")
  lists = Lists.of(scores, labels, where, segments, may_be_empty=True)
  rank = ranks(lists.scores, where=lists.where, segments=lists.segments)
  apart = jnp.abs(compute_pairs(rank, jnp.subtract))
  step = jnp.maximum(apart, 1)
  delta = discount_fn(step).astype(lists.dtype)
  if not light_discount:
    delta = delta - discount_fn(step + 1).astype(lists.dtype)
  delta = jnp.where(apart > 0, jnp.abs(delta), 0)
  if topn is not None:
    deep = compute_pairs(rank, jnp.maximum)
    left = 1 - discount_fn(deep).astype(lists.dtype)
    delta = jnp.where(deep > topn, safe_divide(delta, left), delta)
  gain = _gains(lists, weights, topn, normalize, gain_fn, discount_fn)
  return rank.shape[-1] * _within(lists, _differences(gain) * delta)


def _gains(
  lists: Lists,
  weights: ArrayLike | None,
  topn: Cutoff,
  normalize: bool,
  gain_fn: Fn,
  discount_fn: Fn,
) -> Array:
  gain = worth(lists, gain_fn, weights)
  return safe_divide(gain, ideal_dcg(lists, gain, topn, discount_fn)) if normalize else gain


def _differences(x: Array) -> Array:
  return jnp.abs(compute_pairs(x, jnp.subtract))


def _within(lists: Lists, weight: Array) -> Array:
  """The weights of pairs of valid items in the same segment; 0 for other pairs."""
  both = compute_pairs(lists.valid, jnp.logical_and)
  return jnp.where(both & compute_pairs(lists.segment, jnp.equal), weight, 0)
