"""The protocols of `rax.types`, for annotations."""

from typing import Any, Protocol

from jax import Array


class RankFn(Protocol):
  """Computes 1-based ranks from scores `[..., n]`."""

  def __call__(
    self,
    scores: Array,
    where: Array | None,
    key: Array | None,
    segments: Array | None = None,
  ) -> Array:
    """The ranks, in the shape of the scores."""
    ...


class CutoffFn(Protocol):
  """Computes which of the values `[..., items]` are among the `n` largest."""

  def __call__(self, a: Array, n: int | None, segments: Array | None = None) -> Array:
    """1 for the values that are included, else 0, in the shape of `a`."""
    ...


class ReduceFn(Protocol):
  """Reduces an array, such as `jax.numpy.mean`."""

  def __call__(self, a: Array, axis: Any = None, *, where: Array | None) -> Array:
    """The reduced values."""
    ...


class LossFn(Protocol):
  """Computes a loss from scores and labels."""

  def __call__(self, scores: Array, labels: Array, *, where: Array | None, **kwargs: Any) -> Array:
    """The reduced loss."""
    ...


class MetricFn(Protocol):
  """Computes a metric from scores and labels."""

  def __call__(self, scores: Array, labels: Array, *, where: Array | None, **kwargs: Any) -> Array:
    """The reduced metric."""
    ...


class LambdaweightFn(Protocol):
  """Computes the weights of pairs from scores and labels."""

  def __call__(
    self,
    scores: Array,
    labels: Array,
    *,
    where: Array | None,
    weights: Array | None,
    **kwargs: Any,
  ) -> Array:
    """The weights, `[..., n * n]`."""
    ...
