"""The names of `rax.types`, for annotations."""

from typing import Any, Protocol

from jax import Array


class RankFn(Protocol):
  """From scores `[..., n]` to 1-based ranks."""

  def __call__(
    self,
    scores: Array,
    where: Array | None,
    key: Array | None,
    segments: Array | None = None,
  ) -> Array:
    """Ranks of the shape of the scores."""
    ...


class CutoffFn(Protocol):
  """From values `[..., n]` to which of them are among the largest `n`."""

  def __call__(self, a: Array, n: int | None, segments: Array | None = None) -> Array:
    """1 for what is included, else 0, of the shape of `a`."""
    ...


class ReduceFn(Protocol):
  """Reduces an array, such as `jax.numpy.mean`."""

  def __call__(self, a: Array, axis: Any = None, *, where: Array | None) -> Array:
    """The reduced values."""
    ...


class LossFn(Protocol):
  """A loss of scores and labels."""

  def __call__(self, scores: Array, labels: Array, *, where: Array | None, **kwargs: Any) -> Array:
    """The loss."""
    ...


class MetricFn(Protocol):
  """A metric of scores and labels."""

  def __call__(self, scores: Array, labels: Array, *, where: Array | None, **kwargs: Any) -> Array:
    """The metric."""
    ...


class LambdaweightFn(Protocol):
  """Weights of pairs."""

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
