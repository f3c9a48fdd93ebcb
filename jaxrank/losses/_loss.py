"""What the classical losses share: the wrapper of the metrics, and the logits of a query."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.ranked import Query, at_least_tiny
from jaxrank._core.types import Gain
from jaxrank.metrics._apply import Question, ask
from jaxrank.rankings.exact import Exact

# Of the largest float: room for the sum of so many differences of logits.
_HEADROOM = 2.0**-24


def answer(
  kernel: Callable[..., Array],
  lists: tuple[ArrayLike, ArrayLike, ArrayLike | None],
  *,
  ties: str | None = None,
  key: Array | None = None,
  **parameters: Any,
) -> Array:
  """`kernel(query, **parameters)` of each query of `lists`: scores, labels, mask.

  The kernel sees no order unless `ties` says how to break it; `key` becomes `query.noise`.
  """
  if "temperature" in parameters:
    checks.positive("temperature", parameters["temperature"])
  ranking = Exact(ties or "average") if key is None else Exact("random", key)
  question = Question(kernel, parameters, None if ties else 0)
  return ask([question], *lists, ranking)[0]


def logits(query: Query, temperature: ArrayLike) -> Array:
  """Scores of the retrieved items over the temperature, finite; 0 elsewhere."""
  bound = float(jnp.finfo(query.dtype).max) * _HEADROOM
  score = jnp.where(query.retrieved, query.scores, jnp.zeros_like(query.scores))
  score = jnp.clip(score.astype(query.dtype), -bound, bound)
  return jnp.clip(score / at_least_tiny(temperature, query.dtype), -bound, bound)


def target(query: Query, gain: Gain, weights: Array | None) -> Array:
  """Gains times weights of the retrieved items; 0 elsewhere."""
  return jnp.where(query.retrieved, query.gain(gain, weights), 0)


def log_total(z: Array, among: Array) -> Array:
  """`log sum exp z` over some of the items; a constant if there are none."""
  none = ~jnp.any(among)
  return jax.nn.logsumexp(jnp.where(none, 0, z), where=among | none)
