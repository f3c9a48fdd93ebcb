"""Internals of the classical losses: `apply_loss` maps a kernel over queries; logits and targets.

The modules of `jaxrank.losses` import it.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, description
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking, at_least_tiny
from jaxrank._core.types import Gain
from jaxrank.rankings.exact import Exact, ExactQuery

# The bound of logits, as a fraction of the largest float: sums of millions of differences of logits
# stay finite.
_HEADROOM = 2.0**-24

Lists = tuple[ArrayLike, ArrayLike, ArrayLike | None]


def apply_loss(
  kernel: Callable[..., Array],
  lists: Lists,
  *,
  name: str | None = None,
  ties: Literal["average", "stable", "optimistic", "pessimistic"] | None = None,
  key: Array | None = None,
  in_blocks: bool = False,
  **parameters: Any,
) -> Array:
  """Computes `kernel(query, **parameters)` for each query of `lists`: scores, labels and mask.

  The queries are sorted only if `ties` is given, the rule for tied scores. `key` gives each query
  its `query.noise`. `in_blocks` says that a kernel sorts in its own way, or holds a matrix for each
  query, so that blocks of queries save time. Error messages start with `name`, by default the name
  of the kernel's function.
  """
  about = description.of_kernel(kernel)
  with checks.named(name or about.name):
    if "temperature" in parameters:
      checks.positive("temperature", parameters["temperature"])
    ranking = Exact(ties or "average") if key is None else Exact("random", key)
    depth = None if ties else 0
    call = Call(about, about.checked(parameters), depth, in_blocks or ties is not None)
    (found,) = apply_calls([call], *lists, ranking)
  value: Array = found.value
  return value


def one_minus(
  metric: Callable[..., Array], loss: str, lists: Lists, ranking: Ranking, **parameters: Any
) -> Array:
  """One minus a metric under a ranking; error messages start with the name of the loss."""
  about = _named(metric, loss)
  with checks.named(loss):
    call = Call(about, about.checked(parameters))
    (found,) = apply_calls([call], *lists, ranking)
  value: Array = 1 - found.value
  return value


@functools.cache
def _named(metric: Callable[..., Array], loss: str) -> Description:
  """The description of a metric with the name of a loss, the same for each call."""
  about = description.of_metric(metric)
  assert about is not None
  return dataclasses.replace(about, name=loss)


def logits(query: ExactQuery, temperature: ArrayLike) -> Array:
  """Scores of the retrieved items over the temperature, finite; 0 elsewhere."""
  bound = float(jnp.finfo(query.dtype).max) * _HEADROOM
  score = jnp.where(query.retrieved, query.scores, jnp.zeros_like(query.scores))
  score = jnp.clip(score.astype(query.dtype), -bound, bound)
  return jnp.clip(score / at_least_tiny(temperature, query.dtype), -bound, bound)


def target(query: ExactQuery, gain: Gain, weights: Array | None) -> Array:
  """Gains times weights of the retrieved items; 0 elsewhere."""
  return jnp.where(query.retrieved, query.gain(gain, weights), 0)


def log_total(z: Array, among: Array) -> Array:
  """`log sum exp z` over some of the items; a constant if there are none."""
  none = ~jnp.any(among)
  return jax.nn.logsumexp(jnp.where(none, 0, z), where=among | none)
