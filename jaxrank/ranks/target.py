"""`TargetRanks` and `from_scores`: the ranks of targets among their candidates.

Ranks are optimistic, realistic and pessimistic about ties. `jaxrank.sharded` uses the checks and
`counted` for candidates that are spread over devices.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import pytree
from jaxrank._core import batching, checks


@pytree("optimistic", "pessimistic", "candidates")
@dataclasses.dataclass(frozen=True, init=False)
class TargetRanks:
  """The ranks of targets, from 1 for the best score, and the numbers of their candidates.

  A target that ties has all ranks from the optimistic to the pessimistic one in some order of the
  tied items, and metrics are averaged over the orders. A rank of 0 stands for a target without a
  rank, as of a query with a NaN score; its realistic rank is NaN, and so is every metric that
  includes it. A target with 0 candidates is padding, which metrics leave out.

  >>> ranks = TargetRanks(jnp.array([1, 2]), jnp.array([1, 5]), jnp.array([9, 9]))
  >>> print(ranks.realistic)
  [1.  3.5]

  Attributes:
    optimistic: `[...]`, 1 + the number of candidates with a higher score than the target.
    pessimistic: `[...]`, the number of candidates with the same score or a higher one, the target
      included.
    candidates: `[...]`, the number of candidates, the target included.
  """

  optimistic: Array
  pessimistic: Array
  candidates: Array

  def __init__(self, optimistic: ArrayLike, pessimistic: ArrayLike, candidates: ArrayLike):
    given = {"optimistic": optimistic, "pessimistic": pessimistic, "candidates": candidates}
    with checks.named("ranks.TargetRanks"):
      for name, value in given.items():
        x = checks.array(name, value)
        object.__setattr__(self, name, x)
        checks.same_shape(name, x, "optimistic", self.optimistic)

  @property
  def realistic(self) -> Array:
    """The mean rank over all orders of tied items, `[...]`; NaN for a rank of 0.

    PyKEEN takes metrics of it by default. They are not averages over orders: `1 / 50.5` is not the
    mean of `1 / r` over the ranks 1 to 100, which is .0519.
    """
    best, worst = floating(self.optimistic), floating(self.pessimistic)
    return jnp.where(best > 0, 0.5 * (best + worst), jnp.nan)


def floating(x: Array) -> Array:
  """`x` as floats: float64 if it has 64 bits, else float32."""
  return x.astype(jnp.float64 if x.dtype.itemsize == 8 else jnp.float32)


def from_scores(
  scores: ArrayLike, targets: ArrayLike, *, where: ArrayLike | None = None
) -> TargetRanks:
  """Ranks the target of each query among its candidates.

  The rank is 0, which stands for no rank and makes metrics NaN, if a candidate has a NaN score, if
  the target is left out, or if its index is out of range.

  >>> ranks = from_scores(jnp.array([0.5, 0.9, 0.5, 0.5, 0.1]), 0)
  >>> print(ranks.optimistic, ranks.realistic, ranks.pessimistic, ranks.candidates)
  2 3.0 4 5

  Args:
    scores: `[..., n]`, higher first; -inf is an ordinary score here.
    targets: `[...]`, integers, the index of each target among its candidates.
    where: `[..., n]`, boolean, False on padding and on other known answers, True at the target;
      None is all True.

  Returns:
    `TargetRanks` of shape `[...]`, int32.

  Raises:
    TypeError: if `where` is not boolean, or `targets` are not integers.
    ValueError: if shapes do not match.
  """
  with checks.named("ranks.from_scores"):
    given = checked_tasks(scores, targets, where)
  ranks: TargetRanks = _from_scores(*given)
  return ranks


def checked_scores(scores: ArrayLike) -> Array:
  """Scores as an array `[..., n]`."""
  scores = checks.array("scores", scores)
  if scores.ndim == 0:
    raise ValueError("scores must have shape [..., candidates], got a scalar; pass a list.")
  return scores


def checked_tasks(
  scores: ArrayLike, targets: ArrayLike, where: ArrayLike | None
) -> tuple[Array, Array, Array]:
  """Scores, int32 targets and mask, of matching shapes."""
  scores, targets = checked_scores(scores), checks.array("targets", targets)
  if targets.shape != scores.shape[:-1]:
    labels = "; of labels pass jnp.argmax(labels, -1)" if targets.shape == scores.shape else ""
    raise ValueError(
      f"targets must have one index per query, shape {scores.shape[:-1]}, got {targets.shape}; "
      f"pass scores [..., n] and targets [...]{labels}."
    )
  if not jnp.issubdtype(targets.dtype, jnp.integer):
    raise TypeError(
      f"targets must be integer indices of candidates, got {targets.dtype}; convert them with "
      "targets.astype(int)."
    )
  return scores, targets.astype(jnp.int32), checks.mask(where, scores)


@jax.jit
def _from_scores(scores: Array, targets: Array, where: Array) -> TargetRanks:
  return counted(scores, targets, where, lambda x: x)


def counted(
  scores: Array, targets: Array, where: Array, total: Callable[[Array], Array]
) -> TargetRanks:
  """Ranks by counting; `total` sums a number over the devices that share the candidates."""
  rank = functools.partial(_rank, total)
  ranks: TargetRanks = batching.over_queries(rank, targets.ndim)(scores, targets, where)
  return ranks


def _rank(
  total: Callable[[Array], Array], scores: Array, target: Array, where: Array
) -> TargetRanks:
  # A masked sum also reads the score of a target on another device, which indexing does not.
  chosen = where & (jnp.arange(scores.size, dtype=jnp.int32) == target)
  score = total(jnp.sum(jnp.where(chosen, scores, jnp.zeros_like(scores)), dtype=scores.dtype))

  def count(which: Array) -> Array:
    return total(jnp.sum(which, dtype=jnp.int32))

  ranked = (count(chosen) > 0) & (count(where & (scores != scores)) == 0)
  optimistic = jnp.where(ranked, 1 + count(where & (scores > score)), 0)
  pessimistic = jnp.where(ranked, count(where & (scores >= score)), 0)
  return TargetRanks(optimistic, pessimistic, count(where))
