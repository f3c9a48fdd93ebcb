"""PyKEEN's ranks of true triples, filters of known answers, and sampled negatives."""

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
  """Ranks of true triples by type, `[batch]`, and the number of options of each."""

  optimistic: np.ndarray
  realistic: np.ndarray
  pessimistic: np.ndarray
  number_of_options: np.ndarray

  def to_type_dict(self) -> dict[str, np.ndarray]:
    """The ranks by type."""
    return {kind: getattr(self, kind) for kind in RANK_TYPES}

  def items(self) -> Iterable[tuple[str, np.ndarray]]:
    """Pairs of type and ranks."""
    return self.to_type_dict().items()

  @classmethod
  def from_scores(cls, true_score: Any, all_scores: Any) -> "Ranks":
    """Ranks `true_score`, `[batch, 1]`, among `all_scores`, `[batch, n]`, which include it.

    NaN scores are filtered. A true score of NaN has no rank: its ranks are 0, and the realistic one
    is NaN.
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
  """The number of options, at least 1: a query whose scores are all NaN must not be left out."""
  return np.maximum((~np.isnan(scores)).sum(1), 1)


def _ranks(true: np.ndarray, larger: Any, not_smaller: Any, options: Any) -> Ranks:
  scored = ~np.isnan(true)
  best = np.where(scored, larger + 1, 0)
  # At least the best rank, for a true score that is not among all scores.
  worst = np.maximum(np.where(scored, not_smaller, 0), best)
  realistic = np.where(scored, (best + worst) / 2, np.nan).astype(np.float32)
  return Ranks(best, realistic, worst, np.asarray(options))


@dataclasses.dataclass
class RankBuilder:
  """Ranks `y_true` among batches of scores that do not include it."""

  y_true: Any
  larger: Any = 0
  not_smaller: Any = 0
  total: Any = 0

  def update(self, y_pred: Any) -> "RankBuilder":
    """A new builder with the counts of `y_pred`, `[..., n]`, added."""
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
    """The ranks, with the true score as one of its options."""
    return _ranks(numbers("y_true", self.y_true), self.larger, self.not_smaller + 1, self.total + 1)


def triples_of(name: str, x: Any) -> np.ndarray:
  """Checks and converts triples `[n, 3]` of head, relation and tail."""
  triples = numbers(name, x)
  if triples.ndim != 2 or triples.shape[1] != 3:
    raise ValueError(f"{name} must be triples [n, 3], got {list(triples.shape)}.")
  if triples.dtype.kind not in "iu":
    raise TypeError(f"{name} must be integer ids, got {triples.dtype}.")
  return triples


def create_sparse_positive_filter_(
  hrt_batch: Any, all_pos_triples: Any, relation_filter: Any = None, filter_col: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """The known answers to the triples of a batch.

  Returns pairs `[m, 2]` of a row of the batch and a known answer, and the filter by relation.
  """
  if filter_col not in (0, 2):
    raise NotImplementedError(f"filter_col must be 0 (head) or 2 (tail), got {filter_col}.")
  batch = triples_of("hrt_batch", hrt_batch)
  known = triples_of("all_pos_triples", all_pos_triples)
  if relation_filter is None:
    relation_filter = known[None, :, 1] == batch[:, 1:2]
  other = 2 - filter_col
  row, triple = np.nonzero(relation_filter & (known[None, :, other] == batch[:, other, None]))
  return np.stack([row, known[triple, filter_col]], axis=1), relation_filter


def filter_scores_(scores: Any, filter_batch: Any) -> Any:
  """Sets the scores of known answers to NaN: in place, but in a copy of a list or a JAX array."""
  if not isinstance(scores, np.ndarray) and not hasattr(scores, "detach"):
    scores = np.array(numbers("scores", scores), float)
  rows, answers = numbers("filter_batch", filter_batch).T
  try:
    scores[rows, answers] = math.nan
  except IndexError as error:
    raise ValueError(f"filter_batch must be pairs of a row and an answer: {error}.") from None
  if np.isnan(numpy(scores)).all(axis=1).any():
    logger.warning("filter_scores_: all candidates of a query are known answers and filtered.")
  return scores


def known_triples(evaluation: Any, additional: Any) -> np.ndarray:
  """All triples of known answers, `[m, 3]`, without repeats."""
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
  """The number of candidates of each triple: entities that are not other known answers.

  >>> sizes = get_candidate_set_size([[0, 0, 1], [0, 0, 2], [3, 0, 1]], num_entities=10)
  >>> print(sizes["head_candidates"], sizes["tail_candidates"])
  [ 9 10  9] [ 9  9 10]

  Args:
    mapped_triples: `[n, 3]`, integers, the triples to evaluate.
    restrict_entities_to: Ids of the entities to evaluate; None is all.
    restrict_relations_to: Ids of the relations to evaluate; None is all.
    additional_filter_triples: `[m, 3]`, or a list of such arrays, further known answers.
    num_entities: Number of entities; None counts those of all triples.

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
  """The number of candidates of each triple, with itself; `total` is the number of entities."""
  keys = np.delete(np.concatenate([known, triples]), column, axis=1)
  _, query = np.unique(keys, axis=0, return_inverse=True)
  query = query.ravel()
  return total + 1 - np.bincount(query[: len(known)])[query[len(known) :]]


def sample_negatives(
  evaluation_triples: Any,
  additional_filter_triples: Any = None,
  num_samples: int = 50,
  num_entities: int | None = None,
) -> dict[str, Any]:
  """Random entities that are no known answers, `[n, num_samples]`, for the head and the tail.

  They are drawn without replacement with Python's `random`. A pool of fewer entities is repeated.
  They are torch tensors, on the device of the triples, if the triples are; otherwise numpy arrays.
  """
  triples = triples_of("evaluation_triples", evaluation_triples)
  checks.count("num_samples", num_samples)
  known = known_triples(triples, additional_filter_triples)
  num_entities = num_entities or int(known[:, [0, 2]].max()) + 1
  sampled = {
    side: np.stack(
      [_negatives(row, known, COLUMNS[side], num_samples, num_entities) for row in triples]
    )
    for side in SIDES
  }
  # torch need not be installed.
  new = getattr(evaluation_triples, "new_tensor", lambda x: x)
  return {side: new(x) for side, x in sampled.items()}


def _negatives(
  triple: np.ndarray, known: np.ndarray, column: int, num_samples: int, num_entities: int
) -> np.ndarray:
  others = [x for x in range(3) if x != column]
  answers = known[(known[:, others] == triple[others]).all(axis=1), column]
  pool = np.setdiff1d(np.arange(num_entities), answers).tolist()
  if not pool:
    raise ValueError(
      f"sample_negatives: all entities are known answers to {triple.tolist()}, so that there is no "
      "negative."
    )
  if len(pool) < num_samples:
    logger.warning(
      "sample_negatives: fewer than %d candidates for %s.", num_samples, triple.tolist()
    )
    pool *= math.ceil(num_samples / len(pool))
  return np.array(random.sample(pool, num_samples))
