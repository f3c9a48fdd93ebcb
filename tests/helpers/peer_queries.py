"""Random queries for the comparisons with other libraries.

The peers see plain lists; jaxrank sees the same lists padded, with hostile values under the mask.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np


class Queries(NamedTuple):
  """Padded queries, `[queries, candidates]`; labels may have a last axis of subtopics."""

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray

  def lists(self) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores and labels of each query without its padding, as float64 and integers."""
    rows = zip(self.scores.astype(float), self.labels.astype(int), self.where, strict=True)
    return [(scores[valid], labels[valid]) for scores, labels, valid in rows]

  def measure(self, metric: Callable[..., jax.Array], **options: Any) -> np.ndarray:
    """One value per query."""
    return np.asarray(_compiled(metric, **options)(self.scores, self.labels, where=self.where))


def draw(
  seed: int,
  *,
  levels: int | None = None,
  grades: int = 4,
  queries: int = 250,
  longest: int = 30,
  unjudged: float = 0.0,
  missed: float = 0.0,
  subtopics: int = 0,
) -> Queries:
  """Queries of 2 to `longest` items, a tenth of them with nothing relevant.

  Scores have `levels` distinct values, or are all distinct within a query. The shares `unjudged`
  and `missed` of all items have label -1 and score -inf, the first item of a query never. With
  `subtopics` labels are `[queries, candidates, subtopics]`, a third of them relevant, and a third
  of the subtopics of no item.
  """
  rng = np.random.default_rng(seed)
  shape = (queries, longest)
  if levels is None:
    scores = 0.37 * rng.permuted(np.tile(np.arange(longest), (queries, 1)), axis=1) - 5
  else:
    scores = rng.integers(levels, size=shape) / 2 - 1
  labels = rng.integers(grades, size=shape) * (rng.random((queries, 1)) < 0.9)
  first = np.arange(longest) == 0
  labels = np.where((rng.random(shape) < unjudged) & ~first, -1, labels)
  scores = np.where((rng.random(shape) < missed) & ~first, -np.inf, scores)
  where = np.arange(longest) < rng.integers(2, longest + 1, size=(queries, 1))
  if subtopics:
    covers = rng.random((*shape, subtopics)) < 1 / 3
    covers &= rng.random((queries, 1, subtopics)) < 2 / 3
    labels = np.where(labels[..., None] < 0, -1, covers)
  masked = where[..., None] if subtopics else where
  scores, labels = np.where(where, scores, np.nan), np.where(masked, labels, 10**6)
  return Queries(scores.astype(np.float32), labels.astype(np.float32), where)


@functools.cache
def _compiled(metric: Callable[..., jax.Array], **options: Any) -> Callable[..., jax.Array]:
  # Queries of one shape share the compiled metric.
  return jax.jit(functools.partial(metric, **options))
