"""Strategies of hypothesis for queries: scores, labels, masks, cut-offs, dtypes, and cases."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from jaxrank._core.ranked import Ranking
from jaxrank.testing.queries import Case

# The first is the simplest: that of the smallest case.
LEVELS = (0.0, 1.0, 2.0, 3.0, -1.0, 0.25, -2.5, -0.0, 1.0 + 2.0**-23, 1e9, np.inf, -np.inf)
LABELS = (0.0, 1.0, 2.0, 3.0, 4.0, -1.0)

_DTYPES = ("float32", "bfloat16", "float16", "int32", "uint32", "int16", "int8", "uint8", "bool")


def scores(
  n: int, *, levels: Sequence[float] = LEVELS, dtype: Any = np.float32
) -> st.SearchStrategy[np.ndarray]:
  """Scores `[n]`, some of them tied, infinite or close.

  >>> import hypothesis
  >>> settings = hypothesis.settings(database=None)
  >>> hypothesis.find(scores(3), lambda drawn: drawn[0] > drawn[1], settings=settings)
  array([1., 0., 0.], dtype=float32)

  Args:
    n: The number of items.
    levels: The scores, the simplest first.
    dtype: The dtype; the levels are rounded to it.
  """
  with np.errstate(over="ignore"):
    return _arrays(n, np.array(levels).astype(dtype))


def labels(
  n: int, *, values: Sequence[float] = LABELS, dtype: Any = np.float32
) -> st.SearchStrategy[np.ndarray]:
  """Labels `[n]`.

  Args:
    n: The number of items.
    values: The labels, the simplest first: `(0, 1)` for metrics of binary labels.
    dtype: The dtype.
  """
  return _arrays(n, np.array(values).astype(dtype))


def masks(n: int) -> st.SearchStrategy[np.ndarray]:
  """Masks `[n]`, False on padding."""
  return _arrays(n, np.array([True, False]))


def cutoffs(n: int) -> st.SearchStrategy[int]:
  """Cut-offs for lists of `n` items, also beyond the end."""
  return st.integers(1, n + 3)


def dtypes() -> st.SearchStrategy[Any]:
  """Dtypes of scores that do not need 64-bit arithmetic."""
  return st.sampled_from([jnp.dtype(name) for name in _DTYPES])


@st.composite
def _case(draw: Any, fields: Sequence[st.SearchStrategy[Any]]) -> Case:
  return Case(*map(draw, fields))


def cases(
  n: int = 5,
  *,
  scores: st.SearchStrategy[np.ndarray] | None = None,
  labels: st.SearchStrategy[np.ndarray] | None = None,
  where: st.SearchStrategy[np.ndarray] | None = None,
  cutoffs: Sequence[int | None] = (None,),
  rankings: Sequence[Ranking | None] = (None,),
) -> st.SearchStrategy[Case]:
  """Cases of one query with `n` items, for the laws and for tests of a user's own.

  Args:
    n: The number of items, padding included.
    scores: A strategy of scores `[n]`; None is `jaxrank.testing.scores(n)`.
    labels: A strategy of labels `[n]`; None is `jaxrank.testing.labels(n)`.
    where: A strategy of masks `[n]`; None is `jaxrank.testing.masks(n)`.
    cutoffs: The values of `k`, the simplest first.
    rankings: The rankings, the simplest first.
  """
  given = scores, labels, where
  levels, values = np.array(LEVELS, np.float32), np.array(LABELS, np.float32)
  default = _arrays(n, levels), _arrays(n, values), masks(n)
  fields = [y if x is None else x for x, y in zip(given, default, strict=True)]
  return _case([*fields, st.sampled_from(cutoffs), st.sampled_from(rankings)])


def _arrays(n: int, values: np.ndarray) -> st.SearchStrategy[np.ndarray]:
  """Arrays `[n]` of some of the values; often of only the first few of them."""

  def some(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, count - 1), min_size=n, max_size=n)

  indices = st.integers(1, len(values)).flatmap(some)
  return indices.map(lambda chosen: values[np.array(chosen, int)])
