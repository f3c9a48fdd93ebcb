"""The rank of one target among its candidates, from above and from below."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.types import pytree


@pytree("optimistic", "pessimistic", "candidates")
@dataclasses.dataclass(frozen=True)
class TargetRanks:
  """Ranks of targets, best first and counted from 1, and the candidates they were ranked among.

  A rank of 0 is no rank: its target has no score, and what is made of it is NaN. A target with no
  candidate at all is padding, and counts nowhere.

  >>> ranks = TargetRanks(jnp.array([1, 2]), jnp.array([1, 5]), jnp.array([9, 9]))
  >>> print(ranks.realistic)
  [1.  3.5]

  Attributes:
    optimistic: `[...]`, 1 + the number of candidates that score higher than the target.
    pessimistic: `[...]`, the number that score at least as high, the target included.
    candidates: `[...]`, how many there are, the target included.
  """

  optimistic: Array
  pessimistic: Array
  candidates: Array

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      x = checks.array(field.name, getattr(self, field.name))
      object.__setattr__(self, field.name, x)
      checks.same_shape(field.name, x, "optimistic", self.optimistic)

  @property
  def realistic(self) -> Array:
    """`[...]`, halfway between the two, the mean over all orders of tied items; NaN for no rank."""
    best, worst = floating(self.optimistic), floating(self.pessimistic)
    return jnp.where(best > 0, 0.5 * (best + worst), jnp.nan)


def floating(x: Array) -> Array:
  """`x` as floats: float64 if it has 64 bits, else float32."""
  return x.astype(jnp.float64 if x.dtype.itemsize == 8 else jnp.float32)


def from_scores(
  scores: ArrayLike, targets: ArrayLike, *, where: ArrayLike | None = None
) -> TargetRanks:
  """Ranks one target a query among its candidates.

  A NaN score leaves its candidate out, as `where` does. A target that is left out itself has
  no rank, and neither has one whose index is out of range.

  >>> ranks = from_scores(jnp.array([0.5, 0.9, 0.5, 0.5, 0.1]), 0)
  >>> print(ranks.optimistic, ranks.realistic, ranks.pessimistic, ranks.candidates)
  2 3.0 4 5

  Args:
    scores: `[..., n]`. Infinite ones are ordinary scores here.
    targets: `[...]`, the index of each target among its candidates.
    where: `[..., n]`, False on padding and on other known answers, True at the target.

  Returns:
    Ranks `[...]`, int32.

  Raises:
    TypeError: if `where` is not boolean, or `targets` are not integers.
    ValueError: if shapes do not go together.
  """
  wide = isinstance(scores, np.ndarray) and scores.dtype.itemsize == 8
  with jax.enable_x64(True) if wide else contextlib.nullcontext():
    return _from_scores(*checked(scores, targets, where))


def lists(scores: ArrayLike) -> Array:
  """Scores as an array `[..., n]`."""
  scores = checks.array("scores", scores)
  if scores.ndim == 0:
    raise ValueError("scores must have shape [..., candidates], got a scalar; pass a list.")
  return scores


def checked(
  scores: ArrayLike, targets: ArrayLike, where: ArrayLike | None
) -> tuple[Array, Array, Array]:
  """Scores, int32 targets and mask as arrays that go together."""
  scores, targets = lists(scores), checks.array("targets", targets)
  if not jnp.issubdtype(targets.dtype, jnp.integer):
    raise TypeError(f"targets must be integer indices of candidates, got {targets.dtype}.")
  if targets.shape != scores.shape[:-1]:
    raise ValueError(
      f"targets must have one index a query, shape {scores.shape[:-1]}, got {targets.shape}."
    )
  return scores, targets.astype(jnp.int32), checks.mask(where, scores)


@jax.jit
def _from_scores(scores: Array, targets: Array, where: Array) -> TargetRanks:
  return counted(scores, targets, where, lambda x: x)


def counted(
  scores: Array, targets: Array, where: Array, total: Callable[[Array], Array]
) -> TargetRanks:
  """Ranks by counts; `total` adds up numbers `[...]` of all who have a part of the candidates."""
  rank = functools.partial(_rank, total)
  return batching.over_queries(rank, targets.ndim)(scores, targets, where)


def _rank(
  total: Callable[[Array], Array], scores: Array, target: Array, where: Array
) -> TargetRanks:
  valid = where & (scores == scores)
  # No gather: a mask also reads a score from candidates that are spread over devices.
  chosen = valid & (jnp.arange(scores.size, dtype=jnp.int32) == target)
  score = total(jnp.sum(jnp.where(chosen, scores, jnp.zeros_like(scores)), dtype=scores.dtype))

  def count(which: Array) -> Array:
    return total(jnp.sum(which, dtype=jnp.int32))

  found = count(chosen) > 0
  optimistic = jnp.where(found, 1 + count(valid & (scores > score)), 0)
  pessimistic = jnp.where(found, count(valid & (scores >= score)), 0)
  # Where all scores are NaN it is no padding yet: it must not vanish, but be NaN.
  candidates = jnp.maximum(count(valid), (count(where) > 0).astype(jnp.int32))
  return TargetRanks(optimistic, pessimistic, candidates)
