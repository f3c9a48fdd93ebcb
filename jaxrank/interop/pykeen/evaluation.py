"""PyKEEN's rank-based evaluators, for arrays of scores."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._core import checks
from jaxrank._core._jax import enable_x64
from jaxrank.interop._lists import numbers
from jaxrank.interop.pykeen._metric import (
  RANK_TYPES,
  NoWeightSupportError,
  RankBasedMetric,
  padded,
)
from jaxrank.interop.pykeen.metrics import HITS_METRICS, rank_based_metric_resolver
from jaxrank.interop.pykeen.results import RankBasedMetricKey, RankBasedMetricResults
from jaxrank.interop.pykeen.scoring import COLUMNS, SIDES, Ranks, sample_negatives, triples_of
from jaxrank.ranks import TargetRanks
from jaxrank.ranks.names import by_side

_KS = (1, 3, 5, 10)

# Options of the original for running a model, which have no effect here.
_MODEL_OPTIONS = {"requires_positive_mask", "batch_size", "slice_size", "mode"}

# The largest number of resampled ranks in memory at a time.
_HELD = 1 << 20


class _Side(NamedTuple):
  """All tasks of a side; arrays `[n]`."""

  optimistic: np.ndarray
  pessimistic: np.ndarray
  candidates: np.ndarray
  weights: np.ndarray

  def take(self, rows: np.ndarray) -> "_Side":
    return _Side(*(x[rows] for x in self))

  def for_by_side(self) -> tuple[TargetRanks, Array]:
    """The arguments of `by_side`, padded so that few programs are compiled."""
    n = self.candidates.shape[-1]
    fills = (1, 1, 0, 0)
    filled = (jnp.asarray(padded(x, n, fill)) for x, fill in zip(self, fills, strict=True))
    *ranks, weights = filled
    return TargetRanks(*ranks), weights


def _joined(sides: Sequence[_Side]) -> _Side:
  return _Side(*(np.concatenate(x) for x in zip(*sides, strict=True)))


class RankBasedEvaluator:
  """Collects the ranks of batches of scores, and computes metrics of all ranks together."""

  weighted = False

  def __init__(
    self,
    filtered: bool = True,
    metrics: Any = None,
    metrics_kwargs: Any = None,
    add_defaults: bool = True,
    clear_on_finalize: bool = True,
    **kwargs: Any,
  ):
    unknown = kwargs.keys() - _MODEL_OPTIONS
    if unknown:
      raise TypeError(f"{type(self).__name__} got unexpected arguments: {sorted(unknown)}.")
    self.filtered, self.clear_on_finalize = filtered, clear_on_finalize
    self.metrics: list[RankBasedMetric] = []
    if metrics is not None and metrics != []:
      self.metrics += rank_based_metric_resolver.make_many(metrics, metrics_kwargs)
    if add_defaults or metrics is None:
      for cls in rank_based_metric_resolver:
        if cls.supports_weights or not self.weighted:
          options = [{"k": k} for k in _KS] if cls in HITS_METRICS else [{}]
          self.metrics += rank_based_metric_resolver.make_many(cls, options)
    self.num_entities: int | None = None
    self.batches: defaultdict[str, list[tuple[Ranks, np.ndarray]]] = defaultdict(list)

  def process_scores_(
    self,
    hrt_batch: Any,
    target: str,
    scores: Any,
    true_scores: Any = None,
    dense_positive_mask: Any = None,
  ) -> None:
    """Ranks the true entities of a batch among all entities.

    Args:
      hrt_batch: `[batch, 3]`, integers, the head, relation and tail of each triple.
      target: The side that is ranked, `"head"` or `"tail"`.
      scores: `[batch, entities]`, NaN for filtered entities.
      true_scores: `[batch, 1]`, the scores of the true entities; required for `filtered=True`, and
        otherwise by default taken from `scores`.
      dense_positive_mask: Has no effect.
    """
    checks.choice("target", target, SIDES)
    batch, scores = triples_of("hrt_batch", hrt_batch), numbers("scores", scores)
    if scores.shape[:-1] != (len(batch),):
      raise ValueError(f"scores must be [{len(batch)}, entities], got {list(scores.shape)}.")
    if true_scores is None:
      if self.filtered:
        raise ValueError(f"{type(self).__name__} needs the true scores!")
      true = batch[:, COLUMNS[target], None]
      if np.any(true >= scores.shape[1]):
        raise ValueError(f"scores of {scores.shape[1]} entities lack that of {np.max(true)}.")
      true_scores = np.take_along_axis(scores, true, axis=1)
    self.num_entities = scores.shape[1]
    ranks = Ranks.from_scores(true_scores, self._candidates(batch, target, scores, true_scores))
    key = np.delete(batch, COLUMNS[target], axis=1)
    self.batches[target].append((ranks, key))

  def _candidates(self, batch: Any, target: str, scores: Any, true_scores: Any) -> np.ndarray:
    return scores

  def clear(self) -> None:
    """Removes all ranks."""
    self.batches.clear()

  def finalize(self) -> RankBasedMetricResults:
    """The values of all metrics, for each side and both together, and for each type of rank."""
    sides = self._sides()
    names = (*sides, "both")
    with enable_x64():
      given = {name: side.for_by_side() for name, side in sides.items()}
      values = by_side(names, RANK_TYPES, [metric.native for metric in self.metrics], given)
    if self.clear_on_finalize:
      self.clear()
    return RankBasedMetricResults(
      {
        RankBasedMetricKey(side, kind, metric.key): float(value[i, j])
        for metric, value in zip(self.metrics, map(np.asarray, values), strict=True)
        for i, side in enumerate(names)
        for j, kind in enumerate(RANK_TYPES)
      }
    )

  def _sides(self) -> dict[str, _Side]:
    if not self.batches:
      raise ValueError(f"{type(self).__name__}: there are no ranks; call process_scores_ first.")
    unweighted = [metric for metric in self.metrics if not metric.supports_weights]
    if self.weighted and unweighted:
      raise NoWeightSupportError(f"{unweighted[0]} does not support weights.")
    return {target: self._side(batches) for target, batches in sorted(self.batches.items())}

  def _side(self, batches: Sequence[tuple[Ranks, np.ndarray]]) -> _Side:
    ranks, keys = zip(*batches, strict=True)
    key = np.concatenate(keys)
    parts = [(x.optimistic, x.pessimistic, x.number_of_options) for x in ranks]
    best, worst, candidates = (np.concatenate(x) for x in zip(*parts, strict=True))
    return _Side(best, worst, candidates, self._weights_of(key))

  def _weights_of(self, key: np.ndarray) -> np.ndarray:
    return np.ones(len(key))

  def finalize_multi(self, n_boot: int = 1000, seed: int = 42) -> dict[str, list[float]]:
    """The values of `n_boot` resamples of the ranks of each side, with replacement."""
    sides = self._sides()
    result: dict[str, list[float]] = {}
    for name, side in (sides | {"both": _joined(list(sides.values()))}).items():
      for metric, values in zip(
        self.metrics, _resampled(self.metrics, side, n_boot, seed), strict=True
      ):
        for kind, column in zip(RANK_TYPES, values.T, strict=True):
          result[f"{name}.{kind}.{metric.key}"] = column.tolist()
    return result

  def finalize_with_confidence(
    self,
    estimator: str | Callable[[Sequence[float]], float] = np.median,
    ci: float | str | Callable[[Sequence[float]], float] = 90,
    n_boot: int = 1000,
    seed: int = 42,
  ) -> dict[str, tuple[float, float]]:
    """The centre of the resampled values, and the width of the interval with `ci` % of them."""
    return {
      name: summarize_values(values, estimator, ci)
      for name, values in self.finalize_multi(n_boot, seed).items()
    }


def _resampled(
  metrics: Sequence[RankBasedMetric], side: _Side, n_boot: int, seed: int
) -> list[np.ndarray]:
  """The resampled values of each metric, `[n_boot, types]`."""
  n = side.candidates.size
  block = max(1, min(n_boot, _HELD // n))
  parts = []
  for start in range(0, n_boot, block):
    seeds = range(seed + start, seed + start + block)
    rows = np.stack([np.random.default_rng(x).integers(n, size=n) for x in seeds])
    with enable_x64():
      given = {"both": side.take(rows).for_by_side()}
      values = by_side(("both",), RANK_TYPES, [metric.native for metric in metrics], given)
    parts.append([np.asarray(value)[:, 0] for value in values])
  return [np.concatenate(x)[:n_boot] for x in zip(*parts, strict=True)]


def summarize_values(
  vs: Sequence[float],
  estimator: str | Callable[[Sequence[float]], float] = np.median,
  ci: float | str | Callable[[Sequence[float]], float] = 90,
) -> tuple[float, float]:
  """The centre and the width of values.

  `estimator` is a function, or the name of one of numpy, and so may be `ci`. A number `ci` is the
  percentage of the values that the interval contains.
  """
  values = numbers("vs", vs)
  if not values.size:
    raise ValueError("summarize_values: vs must have at least one value, got no values.")
  centre = _numpy_function(estimator)
  if callable(ci) or isinstance(ci, str):
    return float(centre(values)), float(_numpy_function(ci)(values))
  if not 0 <= ci <= 100:
    raise ValueError(f"Invalid CI value: {ci}. Must be in [0, 100].")
  low, high = np.percentile(values, [50 - ci / 2, 50 + ci / 2])
  return float(centre(values)), float(high - low)


def _numpy_function(function: Any) -> Any:
  summary = getattr(np, function, None) if isinstance(function, str) else function
  checks.function("a summary", summary, f"a function, or the name of one of numpy ({function!r})")
  return summary


class MacroRankBasedEvaluator(RankBasedEvaluator):
  """Weights all queries equally, whatever the number of triples of a query."""

  weighted = True

  def _weights_of(self, key: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    return 1 / counts[inverse.ravel()]


class SampledRankBasedEvaluator(RankBasedEvaluator):
  """Ranks triples among sampled negatives, so that values are better than among all entities."""

  def __init__(
    self,
    evaluation_factory: Any,
    *,
    additional_filter_triples: Any = None,
    num_negatives: int | None = None,
    head_negatives: Any = None,
    tail_negatives: Any = None,
    **kwargs: Any,
  ):
    """Samples negatives, unless they are given.

    `evaluation_factory` is any object with `mapped_triples`, `[n, 3]`, and `num_entities`.
    """
    super().__init__(**kwargs)
    triples = triples_of("mapped_triples", evaluation_factory.mapped_triples)
    entities = evaluation_factory.num_entities
    if (head_negatives is None) != (tail_negatives is None):
      raise ValueError("Either both, head and tail negatives must be provided, or none.")
    if head_negatives is None:
      number = num_negatives or 50
      if number > entities:
        raise ValueError("Cannot use more negative samples than there are entities.")
      negatives = sample_negatives(triples, additional_filter_triples, number, entities)
    else:
      negatives = {
        "head": numbers("head_negatives", head_negatives),
        "tail": numbers("tail_negatives", tail_negatives),
      }
    for side, ids in negatives.items():
      if ids.shape[0] != len(triples):
        raise ValueError(f"Negatives for {side} are in wrong shape: {ids.shape}")
    self.triple_to_index = {tuple(triple): i for i, triple in enumerate(triples.tolist())}
    self.negative_samples = negatives

  def _candidates(self, batch: Any, target: str, scores: Any, true_scores: Any) -> np.ndarray:
    rows = [self.triple_to_index[tuple(triple)] for triple in batch.tolist()]
    sampled = np.take_along_axis(scores, self.negative_samples[target][rows], axis=1)
    return np.concatenate([numbers("true_scores", true_scores), sampled], axis=1)
