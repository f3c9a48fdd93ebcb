"""PyKEEN's ranks of true triples, and the filters and negatives that go before them."""

import dataclasses
import logging
import math
import random
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxrank._core import checks
from jaxrank.interop._lists import numbers, numpy
from jaxrank.interop.pykeen._metric import RANK_TYPES

COLUMNS = {"head": 0, "relation": 1, "tail": 2}
SIDES = ("head", "tail")

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Ranks:
  """Ranks of true triples by type, `[batch]`, and how many options each was ranked among."""

  optimistic: np.ndarray
  realistic: np.ndarray
  pessimistic: np.ndarray
  number_of_options: np.ndarray

  def to_type_dict(self) -> dict[str, np.ndarray]:
    """Ranks by type."""
    return {kind: getattr(self, kind) for kind in RANK_TYPES}

  def items(self) -> Iterable[tuple[str, np.ndarray]]:
    """Pairs of type and ranks."""
    return self.to_type_dict().items()

  @classmethod
  def from_scores(cls, true_score: Any, all_scores: Any) -> "Ranks":
    """Ranks `true_score`, `[batch, 1]`, among `all_scores`, `[batch, n]`, which include it.

    NaN is filtered. A true score that is NaN has no rank: 0, and NaN for the realistic one.
    """
    true, scores = numbers("true_score", true_score), numbers("all_scores", all_scores)
    if scores.ndim != 2 or true.shape != (len(scores), 1):
      raise ValueError(
        "true_score must be [batch, 1] and all_scores [batch, n], got "
        f"{list(true.shape)} and {list(scores.shape)}."
      )
    larger, not_smaller = (scores > true).sum(1), (scores >= true).sum(1)
    return _ranks(true[:, 0], larger, not_smaller, _options(scores))


def _options(scores: np.ndarray) -> np.ndarray:
  """The number of options: at least 1, so that a query whose scores are all NaN stays."""
  return np.maximum((~np.isnan(scores)).sum(1), 1)


def _ranks(true: np.ndarray, larger: Any, not_smaller: Any, options: Any) -> Ranks:
  scored = ~np.isnan(true)
  best = np.where(scored, larger + 1, 0)
  # No less than the best rank, where the true score was left out of all scores.
  worst = np.maximum(np.where(scored, not_smaller, 0), best)
  realistic = np.where(scored, (best + worst) / 2, np.nan).astype(np.float32)
  return Ranks(best, realistic, worst, np.asarray(options))


@dataclasses.dataclass
class RankBuilder:
  """Ranks `y_true` among scores that come in batches and do not include it."""

  y_true: Any
  larger: Any = 0
  not_smaller: Any = 0
  total: Any = 0

  def update(self, y_pred: Any) -> "RankBuilder":
    """Another builder that has also counted `y_pred`, `[..., n]`."""
    true, scores = numbers("y_true", self.y_true)[..., None], numbers("y_pred", y_pred)
    if scores.shape[:-1] != true.shape[:-1]:
      raise ValueError(f"y_pred must be {[*true.shape[:-1], 'n']}, got {list(scores.shape)}.")
    return RankBuilder(
      self.y_true,
      self.larger + (scores > true).sum(-1),
      self.not_smaller + (scores >= true).sum(-1),
      self.total + (~np.isnan(scores)).sum(-1),
    )

  def compute(self) -> Ranks:
    """The ranks; the true score counts among its options."""
    return _ranks(numbers("y_true", self.y_true), self.larger, self.not_smaller + 1, self.total + 1)


def triples_of(name: str, x: Any) -> np.ndarray:
  """Triples `[n, 3]`: head, relation and tail."""
  triples = numbers(name, x)
  if triples.ndim != 2 or triples.shape[1] != 3:
    raise ValueError(f"{name} must be triples [n, 3], got {list(triples.shape)}.")
  if triples.dtype.kind not in "iu":
    raise TypeError(f"{name} must be integer ids, got {triples.dtype}.")
  return triples


def create_sparse_positive_filter_(
  hrt_batch: Any, all_pos_triples: Any, relation_filter: Any = None, filter_col: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """Pairs `[m, 2]` of a row of the batch and a known answer to it, and the filter by relation."""
  if filter_col not in (0, 2):
    raise NotImplementedError(f"filter_col must be 0, the head, or 2, the tail, got {filter_col}.")
  batch = triples_of("hrt_batch", hrt_batch)
  known = triples_of("all_pos_triples", all_pos_triples)
  if relation_filter is None:
    relation_filter = known[None, :, 1] == batch[:, 1:2]
  other = 2 - filter_col
  row, triple = np.nonzero(relation_filter & (known[None, :, other] == batch[:, other, None]))
  return np.stack([row, known[triple, filter_col]], axis=1), relation_filter


def filter_scores_(scores: Any, filter_batch: Any) -> Any:
  """Sets the scores of known answers to NaN, in place; of lists and JAX arrays, in a copy."""
  if not isinstance(scores, np.ndarray) and not hasattr(scores, "detach"):
    scores = np.array(numbers("scores", scores), float)
  rows, answers = numbers("filter_batch", filter_batch).T
  try:
    scores[rows, answers] = math.nan
  except IndexError as error:
    raise ValueError(f"filter_batch must be pairs of a row and an answer: {error}.") from None
  if np.isnan(numpy(scores)).all(axis=1).any():
    logger.warning("All candidates of a query are known answers, and are filtered.")
  return scores


def known_triples(evaluation: Any, additional: Any) -> np.ndarray:
  """All triples to filter by, `[m, 3]`, each once."""
  more = additional if isinstance(additional, list | tuple) else [additional]
  parts = [numpy(x).reshape(-1, 3) for x in [evaluation, *more] if x is not None]
  return np.unique(np.concatenate(parts), axis=0)


def get_candidate_set_size(
  mapped_triples: Any,
  restrict_entities_to: Any = None,
  restrict_relations_to: Any = None,
  additional_filter_triples: Any = None,
  num_entities: int | None = None,
) -> dict[str, np.ndarray]:
  """How many entities each triple is ranked among, the true one included, once others are filtered.

  >>> sizes = get_candidate_set_size([[0, 0, 1], [0, 0, 2], [3, 0, 1]], num_entities=10)
  >>> print(sizes["head_candidates"], sizes["tail_candidates"])
  [ 9 10  9] [ 9  9 10]

  Args:
    mapped_triples: `[n, 3]`, the triples to evaluate.
    restrict_entities_to: The entities that matter; None is all.
    restrict_relations_to: The relations that matter; None is all.
    additional_filter_triples: `[m, 3]`, or a list of such, more known answers.
    num_entities: How many there are; None counts those of all triples.

  Returns:
    Columns by name: `index`, `head`, `relation`, `tail`, `head_candidates`, `tail_candidates`.
  """
  restricted = (restrict_entities_to, restrict_relations_to)
  triples = _restricted(triples_of("mapped_triples", mapped_triples), *restricted)
  known = known_triples(triples, additional_filter_triples)
  total = num_entities or np.unique(known[:, [0, 2]]).size
  if restrict_entities_to is not None:
    total = len(restrict_entities_to)
  known = _restricted(known, *restricted)
  columns = dict(zip(COLUMNS, triples.T, strict=True))
  sizes = {f"{side}_candidates": _sizes(triples, known, COLUMNS[side], total) for side in SIDES}
  return {"index": np.arange(len(triples))} | columns | sizes


def _restricted(triples: np.ndarray, entities: Any, relations: Any) -> np.ndarray:
  kept = np.ones(len(triples), bool)
  if entities is not None:
    kept &= np.isin(triples[:, [0, 2]], list(entities)).all(axis=1)
  if relations is not None:
    kept &= np.isin(triples[:, 1], list(relations))
  return triples[kept]


def _sizes(triples: np.ndarray, known: np.ndarray, column: int, total: int) -> np.ndarray:
  """One for the triple itself, which is known, and the others that are not."""
  keys = np.delete(np.concatenate([known, triples]), column, axis=1)
  _, query = np.unique(keys, axis=0, return_inverse=True)
  query = query.ravel()
  return total + 1 - np.bincount(query[: len(known)])[query[len(known) :]]


def sample_negatives(
  evaluation_triples: Any,
  additional_filter_triples: Any = None,
  num_samples: int = 50,
  num_entities: int | None = None,
) -> dict[str, np.ndarray]:
  """Entities that are no known answer, `[n, num_samples]`, for the head and for the tail.

  They are drawn without replacement by Python's `random`; a pool that is too small is repeated.
  """
  triples = triples_of("evaluation_triples", evaluation_triples)
  checks.count("num_samples", num_samples)
  known = known_triples(triples, additional_filter_triples)
  num_entities = num_entities or int(known[:, [0, 2]].max()) + 1
  return {
    side: np.stack(
      [_negatives(row, known, COLUMNS[side], num_samples, num_entities) for row in triples]
    )
    for side in SIDES
  }


def _negatives(
  triple: np.ndarray, known: np.ndarray, column: int, num_samples: int, num_entities: int
) -> np.ndarray:
  others = [x for x in range(3) if x != column]
  answers = known[(known[:, others] == triple[others]).all(axis=1), column]
  pool = np.setdiff1d(np.arange(num_entities), answers).tolist()
  if not pool:
    raise ValueError(f"all entities are known answers to {triple.tolist()}: there is no negative.")
  if len(pool) < num_samples:
    logger.warning("There are less than %d candidates for %s.", num_samples, triple.tolist())
    pool *= math.ceil(num_samples / len(pool))
  return np.array(random.sample(pool, num_samples))
