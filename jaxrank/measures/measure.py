"""`Measure`, a metric with parameters and a name, and what counts as a measure."""

import contextlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks, description
from jaxrank._core._jax import is_traced
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking
from jaxrank.measures import scales
from jaxrank.rankings.exact import Exact

Metric = Callable[..., Any]

_METRIC = "a metric such as jaxrank.ndcg, or one that jaxrank.metric made of a kernel"
_WHAT = (
  "a metric such as jaxrank.ndcg, one that jaxrank.metric made of a kernel, a jaxrank.Measure, or "
  "a name such as 'nDCG@10'"
)
_FIRST = "Measures are the first argument, as in evaluate('nDCG@10', ...)."


# Arrays of at most so many numbers, such as tables of gains, are compared by value.
_COMPARED = 256


class Measure:
  """A metric with some parameters set, and a name for its values.

  It is called as its metric is. Measures are equal, and have equal hashes, if their metrics,
  parameters and names are equal. Gains and discounts of equal numbers are equal; large arrays, and
  arrays of NumPy, are compared by identity.

  >>> import jaxrank as jr
  >>> print(Measure(jr.ndcg, k=10), Measure(jr.rbp, name="patient", persistence=0.95))
  ndcg(k=10) patient

  Attributes:
    metric: The metric.
    parameters: The parameters that were given, by name; it cannot be changed.
    name: The key of its values in the result of `evaluate`.
  """

  metric: Metric
  parameters: Mapping[str, Any]
  name: str

  def __init__(self, metric: Metric, /, *, name: str | None = None, **parameters: Any):
    """Sets parameters of a metric and names the result.

    Args:
      metric: A metric of the library, or one made by `jaxrank.metric`.
      name: The key of its values; None is the metric with its parameters, as in `ndcg(k=10)`.
      **parameters: Parameters of the metric, which may be functions or arrays; others have their
        defaults.

    Raises:
      TypeError: if `metric` is no metric, or a parameter is unknown, missing or of the wrong type.
      ValueError: if a parameter is out of its range.
    """
    # The parameters are part of the hash.
    self.metric, self.parameters = metric, types.MappingProxyType(dict(parameters))
    with checks.named("Measure"):
      self._call = Call(self.description, self.description.bind(parameters))
    if name is not None and not isinstance(name, str):
      raise TypeError(f"Measure: name must be a string, got {checks.told(name)}.")
    given = ",".join(f"{key}={_shown(value)}" for key, value in parameters.items())
    metric_name = self.description.name
    default = f"{metric_name}({given})" if given else metric_name
    self.name = default if name is None else name

  def __setattr__(self, name: str, value: Any) -> None:
    # The name is set last.
    if "name" in vars(self):
      raise AttributeError(f"Measure: {name} cannot be changed; make another measure.")
    super().__setattr__(name, value)

  @property
  def description(self) -> Description:
    """The description of the metric."""
    about = description.of_metric(self.metric)
    if about is None:
      named = isinstance(self.metric, str | Measure)
      raise TypeError(
        f"a measure is made of {_METRIC}; got {checks.told(self.metric)}."
        + " What takes measures takes names as they are." * named
      )
    return about

  def call(self) -> Call:
    """The kernel with all parameters, after their checks."""
    return self._call

  def __call__(
    self,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    ranking: Ranking = Exact(),
  ) -> Array:
    """The values `[...]` of the measure; see `jaxrank.metrics` for the arguments."""
    with checks.named(self.name):
      (evaluated,) = apply_calls([self._call], scores, labels, where, ranking)
      scales.check_arrays([self], labels, where)
    value: Array = evaluated.value
    return value

  def __str__(self) -> str:
    return self.name

  def __repr__(self) -> str:
    return f"Measure({self.name!r})"

  def _identity(self) -> tuple[Any, ...]:
    given = frozenset((key, identity(value)) for key, value in self.parameters.items())
    return self.description, self.name, given

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Measure) and self._identity() == other._identity()

  def __hash__(self) -> int:
    return hash(self._identity())

  def __reduce__(self) -> Any:
    return _measure, (self.metric, self.name, dict(self.parameters))


# A single measure, and what may be several: a string may hold the names of several measures.
One = Measure | Callable[..., Any]
Many = str | Iterable[str | One]
Measures = One | Many


def _measure(metric: Metric, name: str, parameters: Mapping[str, Any]) -> Measure:
  return Measure(metric, name=name, **parameters)


def _is_array(x: Any) -> bool:
  return isinstance(x, jax.Array | np.ndarray)


def identity(x: Any) -> Any:
  """A key to compare values by: type and value; pytrees, as of gains, have those of their leaves.

  Large arrays, arrays of NumPy, which may change, and what cannot be hashed are compared by
  identity.
  """
  leaves, tree = jax.tree.flatten(x)
  if leaves and leaves[0] is not x:
    return tree, tuple(map(identity, leaves))
  if _is_array(x):
    known = isinstance(x, Array) and not is_traced(x)
    if known and x.size <= _COMPARED and isinstance(x.dtype, np.dtype) and x.is_fully_addressable:
      return str(x.dtype), x.shape, tuple(np.ravel(x).tolist())
    return id(x)
  with contextlib.suppress(TypeError):
    hash(x)
    return type(x), x
  return id(x)


def _shown(x: Any) -> str:
  """A value as it appears in the name of a measure."""
  if _is_array(x):
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"
  if isinstance(x, np.generic):
    return repr(x.item())
  leaves = jax.tree.leaves(x)
  if leaves and leaves[0] is not x:
    return f"{type(x).__name__.lstrip('_').lower()}({','.join(map(_shown, leaves))})"
  return getattr(x, "__name__", None) or repr(x)


def as_measures(measures: Any) -> Iterable[str | Measure]:
  """Yields names and measures one by one, from one of them or several; metrics become measures.

  Raises:
    TypeError: if an item is no measure.
  """
  alone = isinstance(measures, str | Measure) or description.of_metric(measures) is not None
  other = hasattr(measures, "shape") or isinstance(measures, Mapping | bytes | type)
  if not alone and (other or not isinstance(measures, Iterable)):
    swapped = hasattr(measures, "shape") or isinstance(measures, Mapping)
    raise TypeError(
      f"measures must be {_WHAT}, or several of these; got {checks.told(measures)}."
      + f" {_FIRST}" * swapped
    )
  for measure in [measures] if alone else measures:
    if isinstance(measure, str | Measure):
      yield measure
    elif description.of_metric(measure) is not None:
      yield Measure(measure)
    else:
      swapped = isinstance(measure, int | float | list)
      raise TypeError(
        f"a measure must be {_WHAT}; got {checks.told(measure)}." + f" {_FIRST}" * swapped
      )
