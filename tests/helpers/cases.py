"""Random queries, unkind on purpose: ties, infinities, masks, odd labels, nothing to find."""

import math
from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.helpers import oracles

N = 8
LEVELS = (-2.5, -1.0, -0.0, 0.0, 0.25, 1.0, 1.0 + 2.0**-23, 3.0, 1e9, math.inf)
HOSTILE_SCORES = (math.nan, math.inf, -math.inf, 1e9, -3e38, 0.0)
HOSTILE_LABELS = (math.nan, math.inf, -math.inf, 1e9, -7.0, 4.0)
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 3.0)
LABEL_KINDS = (
  (0.0,),
  (1.0,),
  (0.0, 1.0),
  (0.0, 0.0, 0.0, 1.0),
  (0.0, 1.0, 2.0, 3.0, 4.0),
  (-1.0, 0.0, 1.0, 2.0),
  (-2.0, -1.0, 0.0),
  (0.0, 0.5, 1.0, 1.5, 2.0, 3.5),
)


class Cases(NamedTuple):
  """Padded queries: every field has shape [queries, columns]."""

  scores: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  weights: np.ndarray

  def rows(self, index) -> "Cases":
    """Some of the queries."""
    return Cases(*(field[index] for field in self))

  def queries(self, weighted: bool = False) -> list[oracles.Items]:
    """The queries as the oracles take them."""
    weights = self.weights if weighted else np.ones_like(self.weights)
    rows = (x.tolist() for x in (self.scores, self.labels, self.where, weights))
    return [oracles.query(*row) for row in zip(*rows, strict=True)]


def order_counts(scores: np.ndarray, where: np.ndarray) -> np.ndarray:
  """How many orders each query's ties allow, [queries]."""
  counted = where & (scores > -np.inf)
  tied = (scores[:, :, None] == scores[:, None, :]) & counted[:, None, :] & counted[:, :, None]
  earlier = np.tril(tied).sum(-1)
  return np.prod(np.maximum(earlier, 1), axis=-1)


def draw(
  seed: int, queries: int, n: int = N, most_orders: int = 240, spoiled: float = 0.0
) -> Cases:
  """Thousands of random queries at once, none with more than `most_orders` orders.

  A share `spoiled` of the scores and of the labels is NaN.
  """
  rng = np.random.default_rng(seed)
  kept, total = [], 0
  while total < queries:
    batch = _draw(rng, queries, n)
    for field in (batch.scores, batch.labels):
      field[rng.random(field.shape) < spoiled] = np.nan
    batch = batch.rows(order_counts(batch.scores, batch.where) <= most_orders)
    kept.append(batch)
    total += len(batch.scores)
  drawn = Cases(*(np.concatenate(fields) for fields in zip(*kept, strict=True)))
  return drawn.rows(slice(queries))


def _draw(rng: np.random.Generator, queries: int, n: int) -> Cases:
  shape = (queries, n)
  levels = rng.permuted(np.tile(np.float32(LEVELS), (queries, 1)), axis=1)
  used = rng.integers(1, len(LEVELS) + 1, (queries, 1))
  scores = np.take_along_axis(levels, rng.integers(0, used, shape), axis=1)
  missing = rng.random(shape) < rng.choice([0.0, 0.2, 0.9], (queries, 1), p=[0.5, 0.45, 0.05])
  scores = np.where(missing, np.float32(-np.inf), scores)

  kinds = [rng.choice(np.float32(kind), shape) for kind in LABEL_KINDS]
  labels = np.choose(rng.integers(0, len(kinds), (queries, 1)), kinds)

  present = rng.choice([0.0, 0.5, 0.8, 1.0], (queries, 1), p=[0.03, 0.27, 0.3, 0.4])
  where = rng.random(shape) < present
  return Cases(
    np.where(where, scores, rng.choice(np.float32(HOSTILE_SCORES), shape)),
    np.where(where, labels, rng.choice(np.float32(HOSTILE_LABELS), shape)),
    where,
    np.where(where, rng.choice(np.float32(WEIGHTS), shape), np.float32(np.nan)),
  )


def one_of(values) -> st.SearchStrategy[float]:
  """One of some float32 values."""
  return st.sampled_from([float(np.float32(value)) for value in values])


@st.composite
def lists(draw, n: int = N, most_orders: int = 240) -> Cases:
  """One random query, with shape [1, n] so that a jitted metric compiles once."""
  scores = one_of((-math.inf, *LEVELS)) | st.floats(-8, 8, width=32, allow_subnormal=False)
  labels = draw(st.sampled_from([one_of(kind) for kind in LABEL_KINDS]))
  valid = st.tuples(scores, labels, st.just(True))
  padding = st.tuples(one_of(HOSTILE_SCORES), one_of(HOSTILE_LABELS), st.just(False))
  cells = draw(st.lists(valid | padding, min_size=n, max_size=n))
  scores, labels, where = (np.array([column]) for column in zip(*cells, strict=True))
  scores, labels = scores.astype(np.float32), labels.astype(np.float32)
  assume(order_counts(scores, where)[0] <= most_orders)
  return Cases(scores, labels, where, np.ones_like(scores))


def cutoffs(n: int = N) -> st.SearchStrategy[int]:
  """A cut-off, also beyond the end of the list."""
  return st.integers(1, n + 3)
