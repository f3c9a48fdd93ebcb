"""Shared by `lightgbm` and `xgboost`: slopes, curvatures and metrics of rows grouped by query."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._core import checks, sorting
from jaxrank._core._jax import without_dead_code
from jaxrank.interop._rows import Rows
from jaxrank.losses import curvature as curvatures
from jaxrank.measures import Measure, evaluate, parse, scales
from jaxrank.padding import pad_buckets

Loss = Callable[..., Any]
Curvature = Literal["bound", "diagonal"] | Callable[..., Any]

# The shortest padded length; a shorter one would take as long.
_SHORTEST = 8

# The least part of all cells that a padded length saves, for which its programs are compiled.
_LEAST_PART = 1 / 16

# The number of queries of a bucket, at least, and how many cells take as long as fewer would: a
# bucket of so many holds a power of two of queries.
_FEWEST, _SMALL = 16, 2**14

# The number of data sets whose padded form is kept, and of sets of measures whose programs are:
# enough for a cross-validation.
_KEPT = 32

# The least curvature of a row over the mean size of the gradient of its query, for a loss without a
# known bound, and the least curvature of any row.
_FLOOR, _LEAST = 0.1, 1e-6


class _Bucket(NamedTuple):
  """Queries padded to one length.

  Attributes:
    labels: `[queries, length]`, on the device.
    where: `[queries, length]`, on the device, False on padding.
    row: `[queries, length]`, the row of each cell; the number of rows on padding.
    cells: The cells that are not padding, as indices into the flattened arrays.
    rows: The rows of these cells.
    queries: The queries in the data set, without those that fill the bucket.
  """

  labels: Array
  where: Array
  row: np.ndarray
  cells: np.ndarray
  rows: np.ndarray
  queries: np.ndarray


def _lengths(sizes: np.ndarray) -> list[int]:
  """Powers of two that hold all queries, without those that would save little."""
  longest = max(_SHORTEST, int(sizes.max()))
  lengths = _SHORTEST * 2 ** np.arange((longest - 1).bit_length() - 2)
  counts = np.bincount(np.searchsorted(lengths, sizes))
  least = _LEAST_PART * (counts @ lengths)
  kept = [int(lengths[-1])]
  # From the longest one down: how much less the queries take that the next length holds.
  for length, held in zip(lengths[-2::-1], np.cumsum(counts)[-2::-1], strict=True):
    if held * (kept[-1] - length) >= least:
      kept.append(int(length))
  return kept


def _padded(rows: Rows) -> list[_Bucket]:
  """The buckets of a data set.

  The number of queries is rounded up, to a power of two in a small bucket and by at most an eighth
  in others, so that similar data sets, such as the folds of a cross-validation, share programs.
  """
  ids = np.repeat(np.arange(rows.sizes.size), rows.sizes)
  lengths = _lengths(rows.sizes[rows.sizes > 0])
  buckets = []
  for batch in pad_buckets(ids, np.zeros_like(rows.labels), rows.labels, lengths=lengths):
    queries, length = batch.labels.shape
    octave = 1 << max(_FEWEST - 1, queries - 1).bit_length()
    step = octave if octave * length <= _SMALL else octave // 16
    fill = ((0, -queries % step), (0, 0))
    where = np.pad(batch.where, fill)
    row = np.where(where, np.pad(batch.rows, fill), rows.labels.size)
    cells = np.flatnonzero(where)
    labels = jnp.asarray(np.pad(batch.labels, fill))
    buckets.append(
      _Bucket(labels, jnp.asarray(where), row, cells, row.reshape(-1)[cells], batch.query_ids)
    )
  return buckets


class _Kept:
  """The buckets of the last data sets, by their contents."""

  def __init__(self) -> None:
    self._buckets: dict[tuple[bytes, bytes], list[_Bucket]] = {}

  def __contains__(self, rows: Rows) -> bool:
    return _contents(rows) in self._buckets

  def __call__(self, rows: Rows) -> list[_Bucket]:
    key = _contents(rows)
    if key not in self._buckets:
      if len(self._buckets) == _KEPT:
        del self._buckets[next(iter(self._buckets))]
      self._buckets[key] = _padded(rows)
    return self._buckets[key]


def _contents(rows: Rows) -> tuple[bytes, bytes]:
  return rows.labels.tobytes(), rows.sizes.tobytes()


def _cells(scores: np.ndarray, bucket: _Bucket) -> np.ndarray:
  """The scores of a bucket, in their dtype."""
  return np.append(scores, np.zeros(1, scores.dtype))[bucket.row]


class Objective:
  """Slopes and curvatures of a loss for rows grouped by query.

  The gradient and the curvature of a query's loss are multiplied by the number of rows over that of
  queries, so that the objective is the mean loss of a query times the number of rows, as large as
  a sum of losses of rows.
  """

  def __init__(self, loss: Loss, curvature: Curvature = "bound"):
    """Checks the loss and the curvature without computing them."""
    self.loss, self.curvature = loss, curvature
    checks.function("loss", loss, "a function of (scores, labels, where=where)")
    if not callable(curvature):
      checks.choice("curvature", curvature, ("bound", "diagonal"))
    self._check_loss()
    self._check_curvature()
    self._derivatives = jax.jit(self._derive)
    self._buckets = _Kept()

  def __reduce__(self) -> Any:
    return type(self), (self.loss, self.curvature)

  def __deepcopy__(self, memo: Any) -> "Objective":
    # LightGBM copies its parameters, which would lose the compiled programs.
    del memo
    return self

  def __repr__(self) -> str:
    return f"objective({self.loss!r}, curvature={self.curvature!r})"

  def _derive(self, scores: Array, labels: Array, where: Array) -> tuple[Array, Array]:
    slope = jax.grad(lambda s: jnp.sum(self.loss(s, labels, where=where)))(scores)
    if callable(self.curvature):
      return slope, self.curvature(scores, labels, where=where)
    if self.curvature == "diagonal":
      bent = curvatures.diagonal(self.loss, scores, labels, where)
    elif curvatures.is_bounded(self.loss):
      bent = curvatures.bound(self.loss, scores, labels, where, slope)
    else:
      bent = _size(slope, where)
    return slope, jnp.maximum(bent, _LEAST)

  def _check_loss(self) -> None:
    scores, labels, where = _example()
    try:
      value = jax.eval_shape(lambda s, y, w: self.loss(s, y, where=w), scores, labels, where)
    except TypeError as error:
      raise TypeError(
        f"loss must be a function of (scores, labels, where=where) of arrays [queries, n]: {error}"
      ) from error
    shape = getattr(value, "shape", None)
    if shape != scores.shape[:1]:
      got = f"shape {shape}" if shape is not None else type(value).__name__
      raise ValueError(
        f"loss must have one value for each query, of shape {scores.shape[:1]} for scores of shape "
        f"{scores.shape}, got {got}; do not take the mean over queries."
      )
    if not jnp.issubdtype(value.dtype, jnp.floating):
      raise TypeError(f"loss must be real, got {value.dtype}.")
    try:
      slope = jax.make_jaxpr(jax.grad(lambda s, y, w: jnp.sum(self.loss(s, y, where=w))))
      program = slope(scores, labels, where).jaxpr
    except Exception as error:
      raise ValueError(f"loss is not differentiable: {error}") from error
    if not any(without_dead_code(program)[1]):
      raise ValueError(
        "loss is not differentiable: its gradient does not depend on scores and labels. A metric "
        "has a gradient under a smooth ranking, such as ranking=jaxrank.Laplace(1.0)."
      )

  def _check_curvature(self) -> None:
    arrays = _example()
    name = "the callable" if callable(self.curvature) else repr(self.curvature)
    try:
      _, bent = jax.eval_shape(self._derive, *arrays)
    except Exception as error:
      raise ValueError(
        f"curvature: {name} does not exist for this loss, or cannot be computed: {error}"
      ) from error
    shape = getattr(bent, "shape", type(bent).__name__)
    if shape != arrays[0].shape:
      raise ValueError(
        f"curvature: {name} must have a value for each item, {arrays[0].shape}, got {shape}."
      )

  def derivatives(
    self, rows: Rows, scores: Any, row_weights: np.ndarray | None
  ) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature, `[rows]`, float32."""
    scores = rows.scores(scores).astype(np.float32)
    new, buckets = rows not in self._buckets, self._buckets(rows)
    # All programs are started before the first result is waited for.
    started = [self._derivatives(_cells(scores, b), b.labels, b.where) for b in buckets]
    factor = np.float32(rows.labels.size / np.count_nonzero(rows.sizes))
    scale = factor if row_weights is None else factor * row_weights
    derivatives = np.empty((2, rows.labels.size), np.float32)
    for bucket, pair in zip(buckets, started, strict=True):
      for values, x in zip(derivatives, pair, strict=True):
        values[bucket.rows] = np.asarray(x).reshape(-1)[bucket.cells]
    slope, bent = derivatives
    if new:
      rows.warn_of_silence(slope)
    rows.check("gradient", slope, np.isfinite(slope), ": the loss is not finite there")
    rows.check("curvature", bent, np.isfinite(bent) & (bent > 0), ": it must be positive")
    return slope * scale, bent * scale


def _example() -> tuple[jax.ShapeDtypeStruct, ...]:
  """Shapes of scores, labels and mask."""
  shape = 2, _SHORTEST
  return tuple(jax.ShapeDtypeStruct(shape, dtype) for dtype in (jnp.float32, jnp.float32, bool))


def _size(slope: Array, where: Array) -> Array:
  """The size of the gradient, at least a tenth of its mean in the query."""
  size = jnp.abs(slope)
  count = jnp.maximum(jnp.sum(where, axis=-1, keepdims=True, dtype=jnp.int32), 1)
  mean = jnp.sum(jnp.where(where, size, 0), axis=-1, keepdims=True) / count.astype(size.dtype)
  return jnp.maximum(size, _FLOOR * mean)


@functools.lru_cache(maxsize=_KEPT)
def _evaluation(measures: tuple[Measure, ...]) -> Callable[..., tuple[Array, ...]]:
  """The values of measures, with the same programs wherever the measures are equal."""
  return jax.jit(lambda s, y, w: tuple(evaluate(measures, s, y, where=w).values()))


class Metrics:
  """Means of measures over the queries of a data set, whose scores are ordered as they are."""

  def __init__(self, measures: Any):
    """Reads the measures."""
    self.measures: tuple[Measure, ...] = parse(measures)
    self._evaluate = _evaluation(self.measures)
    self._buckets = _Kept()

  def __reduce__(self) -> Any:
    return type(self), (self.measures,)

  def __deepcopy__(self, memo: Any) -> "Metrics":
    del memo
    return self

  def __repr__(self) -> str:
    return f"metrics({' '.join(map(str, self.measures))!r})"

  def means(self, rows: Rows, scores: Any, query_weights: np.ndarray | None) -> list[float]:
    """The means in order of the measures, weighted if there are weights."""
    scores = rows.scores(scores)
    if rows not in self._buckets:
      scales.check(self.measures, rows.labels, np.ones(rows.labels.shape, bool), rows.place)
    buckets = self._buckets(rows)
    ordered = (sorting.single(_cells(scores, b)) for b in buckets)
    started = [self._evaluate(s, b.labels, b.where) for s, b in zip(ordered, buckets, strict=True)]
    queries = np.concatenate([b.queries for b in buckets])
    values = [
      np.concatenate([np.asarray(x)[: b.queries.size] for b, x in zip(buckets, xs, strict=True)])
      for xs in zip(*started, strict=True)
    ]
    weights = None if query_weights is None else query_weights[queries]
    weights = np.ones(queries.size) if weights is None else weights
    # 0 if no query has a weight, as in `aggregate`.
    return [float(x.astype(np.float64) @ weights / (weights.sum() or 1)) for x in values]
