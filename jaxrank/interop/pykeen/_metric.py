"""`RankBasedMetric`, the base class of PyKEEN's rank-based metrics, and `ClassResolver`."""

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from jaxrank._core import checks
from jaxrank._core._jax import enable_x64
from jaxrank.interop._lists import numbers, roof
from jaxrank.ranks import RankMetric, inverse_harmonic_mean_rank

RANK_TYPES = ("optimistic", "realistic", "pessimistic")

# The largest number of random ranks in memory at a time.
_HELD = 1 << 20


class NoClosedFormError(ValueError):
  """The metric has no closed form of its expectation or variance."""


class NoWeightSupportError(ValueError):
  """The metric does not take weights."""


@dataclasses.dataclass
class ValueRange:
  """The values that a metric can have; a bound of None is infinite."""

  lower: float | None = None
  lower_inclusive: bool = False
  upper: float | None = None
  upper_inclusive: bool = False

  def __contains__(self, x: float) -> bool:
    low = self.lower is None or x > self.lower or (self.lower_inclusive and x == self.lower)
    high = self.upper is None or x < self.upper or (self.upper_inclusive and x == self.upper)
    return low and high

  def approximate(self, epsilon: float) -> "ValueRange":
    """The range, extended by `epsilon` on both sides."""
    lower = None if self.lower is None else self.lower - epsilon
    upper = None if self.upper is None else self.upper + epsilon
    return ValueRange(lower, self.lower_inclusive, upper, self.upper_inclusive)

  def notate(self) -> str:
    """The range in the notation of intervals."""
    left = "[" if self.lower is not None and self.lower_inclusive else "("
    right = "]" if self.upper is not None and self.upper_inclusive else ")"
    low = "-inf" if self.lower is None else f"{self.lower:g}"
    high = "inf" if self.upper is None else f"{self.upper:g}"
    return f"{left}{low}, {high}{right}"


def padded(x: Any, length: int, fill: float) -> np.ndarray:
  """`[..., n]` as float64, padded to a power of two, so that few programs are compiled."""
  x = np.asarray(x, np.float64)
  x = np.broadcast_to(x, (*x.shape[:-1], length))
  extra = roof(length, 1) - length
  return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, extra)], constant_values=fill)


def _tasks(num_candidates: Any, weights: Any, length: int) -> tuple[Any, Any]:
  """Pads numbers of candidates, with 0, and weights to one length; the defaults are 1 and None."""
  candidates = np.ones(1) if num_candidates is None else np.atleast_1d(num_candidates)
  for name, x in (("num_candidates", candidates), ("weights", weights)):
    if x is not None and x.size not in (1, length):
      raise ValueError(f"{name} must be one for each of {length} ranks, got {x.size}.")
  if np.any(candidates < 1):
    raise ValueError(f"num_candidates must be at least 1, got {np.min(candidates)}.")
  if weights is not None and np.sum(weights) == 0:
    raise ZeroDivisionError("Weights sum to zero, can't be normalized")
  weights = None if weights is None else padded(weights, length, 0)
  return padded(candidates, length, 0), weights


def _flat(name: str, x: Any) -> Any:
  return None if x is None else numbers(name, x).ravel()


class RankBasedMetric:
  """The base class of metrics of ranks; `native`, of `jaxrank.ranks`, computes the values."""

  native: RankMetric
  name: ClassVar[str]
  value_range: ClassVar[ValueRange]
  increasing: ClassVar[bool]
  synonyms: ClassVar[Collection[str]] = ()
  binarize: ClassVar[bool] = False
  supported_rank_types: ClassVar[Collection[str]] = RANK_TYPES
  needs_candidates: ClassVar[bool] = False
  supports_weights: ClassVar[bool] = True
  closed_expectation: ClassVar[bool] = False
  closed_variance: ClassVar[bool] = False

  def __init_subclass__(cls) -> None:
    native = vars(cls).get("native")
    if native is not None:
      cls.increasing, cls.synonyms = native.increasing, native.synonyms
      cls.needs_candidates = native.needs_candidates
      cls.closed_expectation = native.has_closed_form("expected")
      cls.closed_variance = native.has_closed_form("variance")

  @property
  def key(self) -> str:
    """The name of the metric in the keys of results."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
    return self.native.name if self.native.k is not None else snake

  def __repr__(self) -> str:
    k = "" if self.native.k is None else f"k={self.native.k}"
    return f"{type(self).__name__}({k})"

  def __call__(self, ranks: Any, num_candidates: Any = None, weights: Any = None) -> float:
    """Computes the value of ranks, with a number of candidates and a weight for each."""
    if num_candidates is None and self.needs_candidates:
      raise ValueError(f"{type(self).__name__} requires number of candidates.")
    ranks = numbers("ranks", ranks).ravel()
    num_candidates, weights = _flat("num_candidates", num_candidates), _flat("weights", weights)
    self._check_weights(weights)
    if ranks.size == 0:
      return self._value_without_ranks()
    return self._values(ranks, num_candidates, weights).item()

  def _value_without_ranks(self) -> float:
    return 0.0 if self.key == "count" else math.nan

  def _check_weights(self, weights: Any) -> None:
    if weights is not None and not self.supports_weights:
      raise NoWeightSupportError(f"{type(self).__name__} does not support weights.")

  def _values(self, ranks: np.ndarray, num_candidates: Any, weights: Any) -> np.ndarray:
    """The values `[...]` of many lists of ranks `[..., n]` of the same tasks."""
    length = ranks.shape[-1]
    candidates, weights = _tasks(num_candidates, weights, length)
    with enable_x64():
      ranks = padded(ranks, length, 1)
      candidates = np.broadcast_to(candidates, ranks.shape)
      return np.asarray(self.native(ranks, weights, candidates=candidates))

  def get_sampled_values(
    self,
    num_candidates: Any,
    num_samples: int,
    weights: Any = None,
    generator: np.random.Generator | None = None,
    memory_intense: bool = True,
  ) -> np.ndarray:
    """The values of random ranks, `[num_samples]`; `memory_intense` does not change them."""
    candidates = numbers("num_candidates", num_candidates).ravel()
    weights = _flat("weights", weights)
    self._check_weights(weights)
    num_samples = checks.count("num_samples", num_samples)
    generator = np.random.default_rng(generator)
    block = min(num_samples, max(1, _HELD // candidates.size)) if memory_intense else 1
    drawn = [
      self._values(
        generate_ranks(candidates, (min(block, num_samples - i),), generator), candidates, weights
      )
      for i in range(0, num_samples, block)
    ]
    return np.concatenate(drawn)

  def numeric_expected_value(self, **kwargs: Any) -> float:
    """The mean of sampled values; the arguments are those of `get_sampled_values`."""
    return self.get_sampled_values(**kwargs).mean().item()

  def numeric_variance(self, **kwargs: Any) -> float:
    """The variance of sampled values; the arguments are those of `get_sampled_values`."""
    return self.get_sampled_values(**kwargs).var(ddof=1).item()

  def numeric_expected_value_with_ci(self, **kwargs: Any) -> np.ndarray:
    """The lower end, median and upper end of the bootstrapped expectation."""
    return self._bootstrap(np.mean, **kwargs)

  def numeric_variance_with_ci(self, **kwargs: Any) -> np.ndarray:
    """The lower end, median and upper end of the bootstrapped variance."""
    return self._bootstrap(np.var, **kwargs)

  def _bootstrap(
    self,
    estimate: Callable[[np.ndarray], Any],
    *,
    confidence_level: float = 95.0,
    n_boot: int = 1000,
    generator: Any = None,
    **kwargs: Any,
  ) -> np.ndarray:
    if not 50 < confidence_level < 100:
      raise ValueError(f"Invalid {confidence_level=}. Should be in (50, 100).")
    checks.count("n_boot", n_boot)
    generator = np.random.default_rng(generator)
    values = self.get_sampled_values(generator=generator, **kwargs)
    n = len(values)
    means = [estimate(values[generator.integers(n, size=n)]) for _ in range(n_boot)]
    return np.percentile(means, (50 - confidence_level / 2, 50, 50 + confidence_level / 2))

  def expected_value(
    self, num_candidates: Any, num_samples: int | None = None, weights: Any = None, **kwargs: Any
  ) -> float:
    """The expectation under chance, in closed form if there is one, else from samples."""
    return self._moment("expected", num_candidates, num_samples, weights, kwargs)

  def variance(
    self, num_candidates: Any, num_samples: int | None = None, weights: Any = None, **kwargs: Any
  ) -> float:
    """The variance under chance, in closed form if there is one, else from samples."""
    return self._moment("variance", num_candidates, num_samples, weights, kwargs)

  def std(
    self, num_candidates: Any, num_samples: int | None = None, weights: Any = None, **kwargs: Any
  ) -> float:
    """The standard deviation under chance, the square root of `variance`."""
    return math.sqrt(self.variance(num_candidates, num_samples, weights, **kwargs))

  def _moment(
    self,
    moment: Literal["expected", "variance"],
    num_candidates: Any,
    num_samples: int | None,
    weights: Any,
    kwargs: dict[str, Any],
  ) -> float:
    candidates = numbers("num_candidates", num_candidates).ravel()
    weights = _flat("weights", weights)
    self._check_weights(weights)
    if candidates.size == 0:
      return self._value_without_ranks()
    if moment == "expected":
      closed_form, estimate, fewest = self.native.expected, self.numeric_expected_value, 1
    else:
      closed_form, estimate, fewest = self.native.variance, self.numeric_variance, 2
    if not self.native.has_closed_form(moment, weights):
      if num_samples is None:
        raise NoClosedFormError("Numeric estimation requires to specify a number of samples.")
      checks.count("num_samples", num_samples, fewest)
      return estimate(num_candidates=candidates, num_samples=num_samples, weights=weights, **kwargs)
    with enable_x64():
      return np.asarray(closed_form(*_tasks(candidates, weights, candidates.size))).item()


def generate_ranks(
  num_candidates: Any,
  prefix_shape: tuple[int, ...] = (),
  seed: None | int | np.random.Generator = None,
  dtype: Any = None,
) -> np.ndarray:
  """Random ranks `[*prefix_shape, *s]` for numbers of candidates of shape `[*s]`."""
  candidates = numbers("num_candidates", num_candidates)
  if np.any(candidates < 1):
    raise ValueError(f"num_candidates must be at least 1, got {np.min(candidates)}.")
  size = prefix_shape + candidates.shape
  generator = np.random.default_rng(seed)
  return generator.integers(1, candidates + 1, size=size, dtype=dtype or np.int_)


class UnknownMetricError(KeyError, ValueError):
  """No metric has the name."""

  def __str__(self) -> str:
    return str(self.args[0])


class ClassResolver:
  """Finds classes by name: `make` returns an instance, `lookup` a class; iterates over all classes.

  Case, `-`, `_` and spaces in names have no effect.
  """

  def __init__(self, classes: Sequence[type[RankBasedMetric]], default: type[RankBasedMetric]):
    self.default = default
    self.lookup_dict = {self.normalize(cls.__name__): cls for cls in classes}
    self.synonyms = {self.normalize(name): cls for cls in classes for name in cls.synonyms}

  def __iter__(self) -> Iterator[type[RankBasedMetric]]:
    return iter(self.lookup_dict.values())

  def normalize(self, name: str) -> str:
    """The normalised name, which is compared."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")

  def normalize_cls(self, cls: type[RankBasedMetric]) -> str:
    """The normalised name of a class."""
    return self.normalize(cls.__name__)

  def lookup(self, query: Any, default: Any = None) -> type[RankBasedMetric]:
    """The class for a name, a class or an instance; for None, `default` or the resolver's own."""
    if query is None:
      return default or self.default
    if isinstance(query, RankBasedMetric):
      return type(query)
    if isinstance(query, type) and issubclass(query, RankBasedMetric):
      return query
    if not isinstance(query, str):
      raise TypeError(f"Invalid RankBasedMetric type: {type(query)} - {query}")
    known = self.synonyms | self.lookup_dict
    name = self.normalize(query)
    if name not in known:
      raise UnknownMetricError(
        f"Invalid RankBasedMetric name: {query} (normalized to: {name}). "
        f"Valid choices are: {sorted(known)}"
      )
    return known[name]

  def make(
    self, query: Any = None, pos_kwargs: Mapping[str, Any] | None = None, **kwargs: Any
  ) -> RankBasedMetric:
    """An instance for a name or a class; an instance is returned as it is."""
    if isinstance(query, RankBasedMetric):
      return query
    return self.lookup(query)(**(pos_kwargs or {}), **kwargs)

  def make_many(self, queries: Any = None, kwargs: Any = None) -> list[RankBasedMetric]:
    """Instances for one or many names, with the same arguments for all or one set for each."""
    queries = list(queries) if isinstance(queries, list | tuple) else [queries]
    kwargs = list(kwargs) if isinstance(kwargs, list | tuple) else [kwargs]
    if len(queries) == 1:
      queries *= len(kwargs)
    if len(kwargs) == 1:
      kwargs *= len(queries)
    if len(kwargs) != len(queries):
      raise ValueError("Mismatch in number of queries and kwargs")
    return [self.make(query, own) for query, own in zip(queries, kwargs, strict=True)]


def generate_num_candidates_and_ranks(
  num_ranks: int, max_num_candidates: int, seed: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Random ranks, and random numbers of candidates from 1 to `max_num_candidates - 1`."""
  checks.count("max_num_candidates", max_num_candidates, 2)
  generator = np.random.default_rng(seed)
  candidates = generator.integers(1, max_num_candidates, size=num_ranks)
  return generate_ranks(candidates, seed=generator), candidates


def generalized_harmonic_numbers(n: int, p: float = -1.0) -> np.ndarray:
  """The generalised harmonic numbers `sum_{i <= m} i^p` for all `m` from 1 to `n`, `[n]`."""
  return np.cumsum(np.arange(1.0, checks.count("n", n) + 1) ** p)


def harmonic_variances(n: int) -> np.ndarray:
  """The variance of `1 / r` for a rank `r` uniform on 1 to `m`, for all `m` from 1 to `n`."""
  with enable_x64():
    lists = np.arange(1, n + 1)[:, None]
    return np.asarray(inverse_harmonic_mean_rank.variance(lists))
