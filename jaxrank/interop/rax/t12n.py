"""Transformations of the metrics and losses of rax: smooth, noisy, or of segments."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, checks
from jaxrank.interop.rax.lists import like, valid
from jaxrank.interop.rax.metrics import accepts
from jaxrank.interop.rax.positions import Sigmoid, StepFn, approx_cutoff, approx_ranks

Fn = Callable[..., Array]


def approx_t12n(metric_fn: Fn, temperature: ArrayLike = 1.0) -> Fn:
  """The negative of a metric, with sigmoids in place of the steps in ranks and cut-offs.

  >>> from jaxrank.interop import rax
  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{approx_t12n(rax.ndcg_metric)(scores, labels):.5f}")
  -0.63093

  Args:
    metric_fn: Metric with the arguments `rank_fn` and `cutoff_fn`.
    temperature: Temperature `t` of the step `sigmoid(x / t)`, a positive number; may be traced.

  Returns:
    A loss with the arguments of the metric.
  """
  checks.positive_number("temperature", temperature)
  step = Sigmoid(temperature)
  return _smooth(metric_fn, step, step, "approx")


def bound_t12n(metric_fn: Fn) -> Fn:
  """A bound of the negative of a metric, with hinges in place of the steps in ranks and cut-offs.

  >>> from jaxrank.interop import rax
  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{bound_t12n(rax.ndcg_metric)(scores, labels):.5f}")
  -0.50000

  Args:
    metric_fn: As in `approx_t12n`.

  Returns:
    A loss with the arguments of the metric, at least the negative of the metric.
  """
  return _smooth(metric_fn, _upper_bound, _lower_bound, "bounded")


def _upper_bound(x: Array) -> Array:
  return jax.nn.relu(x + 1)


def _lower_bound(x: Array) -> Array:
  return 1 - jax.nn.relu(1 - x)


def _smooth(metric_fn: Fn, rank_step: StepFn, cutoff_step: StepFn, prefix: str) -> Fn:
  known = inspect.signature(metric_fn).parameters
  smooth = {
    "rank_fn": functools.partial(approx_ranks, step_fn=rank_step),
    "cutoff_fn": functools.partial(approx_cutoff, step_fn=cutoff_step),
  }
  smooth = {name: function for name, function in smooth.items() if name in known}

  def loss(scores, labels, **kwargs):
    return -metric_fn(scores, labels, **{**smooth, **kwargs})

  return _named(loss, metric_fn, prefix)


def gumbel_t12n(
  loss_or_metric_fn: Fn,
  *,
  samples: int = 8,
  beta: ArrayLike = 1.0,
  smoothing_factor: ArrayLike | None = None,
) -> Fn:
  """A loss or metric of scores with Gumbel noise, with a new leading axis of samples.

  >>> from jaxrank.interop import rax
  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> noisy = gumbel_t12n(rax.softmax_loss, beta=0.0)
  >>> print(f"{noisy(scores, labels, key=jax.random.key(0)):.5f}")
  1.40761

  Args:
    loss_or_metric_fn: Loss or metric of scores and labels.
    samples: Number of samples, at least 1.
    beta: Scale of the noise, in units of the scores.
    smoothing_factor: Number that is added to the softmax of the noisy scores, so that the scores
      become `log(softmax(scores) + smoothing_factor)`; None keeps the noisy scores.

  Returns:
    A function with the additional argument `key`, a PRNG key.
  """
  samples = checks.count("samples", samples)

  def repeated(x: Array) -> Array:
    return jnp.broadcast_to(x, (samples, *x.shape))

  def noisy(scores, labels, *, key, **kwargs):
    key = checks.prng_key(key)
    scores = arithmetic.floating(checks.array("scores", scores))
    kwargs = {name: _each(repeated, x, scores) for name, x in kwargs.items()}
    labels = _each(repeated, labels, scores)
    if accepts(loss_or_metric_fn, key=key):
      key, kwargs["key"] = jax.random.split(key)
    scores = repeated(scores)
    noise = jax.random.gumbel(key, scores.shape, scores.dtype)
    scores = scores + noise * jnp.asarray(beta).astype(scores.dtype)
    if smoothing_factor is not None:
      scores = _smoothed(scores, kwargs.get("where"), smoothing_factor)
    return loss_or_metric_fn(scores, labels, **kwargs)

  return _named(noisy, loss_or_metric_fn, "gumbel", "key")


def _smoothed(scores: Array, where: ArrayLike | None, factor: ArrayLike) -> Array:
  kept = scores != -jnp.inf
  if where is not None:
    kept &= valid(where, scores)
  none = ~jnp.any(kept, axis=-1, keepdims=True)
  chance = jax.nn.softmax(jnp.where(kept, scores, jnp.where(none, 0, -jnp.inf)), axis=-1)
  smoothed = jnp.log(chance + jnp.asarray(factor).astype(chance.dtype))
  return jnp.where(kept, smoothed, -jnp.inf)


def segment_t12n(loss_or_metric_fn: Fn) -> Fn:
  """A loss or metric that takes `segments`.

  A function that takes them already is returned as it is. Any other function is called with arrays
  `[..., n, n]`, in which each segment is a list of its added.

  >>> from jaxrank.interop import rax
  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(segment_t12n(rax.opa_metric)(scores, labels, segments=jnp.array([0, 0, 1])))
  0.5

  Args:
    loss_or_metric_fn: As in `gumbel_t12n`.

  Returns:
    A function with the additional argument `segments`, `[..., n]`, ids of groups.
  """
  if accepts(loss_or_metric_fn, segments=None):
    return loss_or_metric_fn

  def repeated(x: Array) -> Array:
    return jnp.broadcast_to(x[..., None, :], (*x.shape, x.shape[-1]))

  def segmented(scores, labels, *, segments=None, **kwargs):
    if segments is None:
      return loss_or_metric_fn(scores, labels, **kwargs)
    scores = checks.array("scores", scores)
    segments = like("segments", segments, scores)
    same = segments[..., :, None] == segments[..., None, :]
    # The mask of row i is the segment of item i if i is its first item, and empty otherwise.
    same &= jnp.cumsum(same, axis=-2) == 1
    where = kwargs.pop("where", None)
    if where is not None:
      same &= valid(where, scores)[..., None, :]
    kwargs = {
      name: x if name == "key" else _each(repeated, x, scores) for name, x in kwargs.items()
    }
    labels = _each(repeated, labels, scores)
    return loss_or_metric_fn(repeated(scores), labels, where=same, **kwargs)

  return _named(segmented, loss_or_metric_fn, "segment", "segments")


def _each(repeated: Callable[[Array], Array], x: Any, scores: Array) -> Any:
  """Repeats `x` if it is an array of the shape of the scores."""
  is_array = isinstance(x, list | tuple) or hasattr(x, "__array__")
  return repeated(jnp.asarray(x)) if is_array and np.shape(x) == scores.shape else x


def _named(function: Fn, original: Fn, prefix: str, *new: str) -> Fn:
  """Gives a function the name and the signature of the original, with new arguments at the end."""
  signature = inspect.signature(original)
  added = inspect.signature(function).parameters
  kept = [p for name, p in signature.parameters.items() if name not in new]
  functools.update_wrapper(function, original)
  name = getattr(original, "__name__", "function")
  vars(function).update(__signature__=signature.replace(parameters=kept + [added[n] for n in new]))
  function.__name__ = f"{prefix}_{name}"
  function.__doc__ = f"{prefix.capitalize()} {original.__doc__}"
  return function
