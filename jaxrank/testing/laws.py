"""Laws of the arguments: order, padding, NaN, batch axes and transformations of JAX."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from jaxrank._core.description import UNBOUNDED
from jaxrank._core.ranked import Ranking
from jaxrank.rankings.exact import Exact
from jaxrank.testing.asking import Answer, Law, Metric, description_of, known
from jaxrank.testing.numbers import as_floats
from jaxrank.testing.queries import Case, stacked

# What stands under a mask, as pairs of a score and a label. NaN has a law of its own.
_HIDDEN = ((1e9, 4.0), (-3e38, -7.0), (np.inf, 1e9), (-np.inf, np.inf))

# Scores and labels of the other query of a batch, and numbers of the other calls of a sweep.
_SPOILED = (
  (np.nan, None),
  (np.inf, None),
  (-np.inf, None),
  (3e38, None),
  (None, np.nan),
  (None, np.inf),
  (None, 3e38),
)
ODD_NUMBERS = (np.nan, np.inf, 0.0, -1.0, 1e30, 1e-30)


def check_permutation(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """The order of the items does not matter: `m(s_p, y_p) = m(s, y)` for every permutation `p`.

  The law says nothing of `Exact(ties="stable")`, where the order of tied items does matter. It
  tries a rotation and a swap of two items, which generate all permutations. See `jaxrank.testing`
  for the arguments.
  """
  statement = "the order of the items does not matter"
  with Law("permutation", statement, metric, case, tolerance) as law:
    n = law.case.scores.shape[-1]
    stable = isinstance(law.case.ranking, Exact) and law.case.ranking.ties == "stable"
    if n > 1 and not stable:
      expected = law.ask(law.case)
      for order in (np.roll(np.arange(n), 1), np.r_[1, 0, 2:n]):
        law.equal(law.ask(law.case.take(order)), expected)
  return law.compared


def check_mask(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """What stands under the mask does not matter, as far as it is a number or infinite.

  `m(s, y) = m(s', y')` if `s_i = s'_i` and `y_i = y'_i` for all items with `where_i`. See
  `jaxrank.testing` for the arguments.
  """
  statement = "what stands under the mask does not matter"
  with Law("mask", statement, metric, case, tolerance) as law:
    masked = ~law.case.valid
    if masked.any():
      expected = law.ask(law.case)
      for score, label in _HIDDEN:
        law.equal(law.ask(replaced(law.case, masked, score, label)), expected, masked.any(-1))
  return law.compared


def check_nan(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """A NaN score or label of a valid item makes the value NaN; a NaN under the mask does not matter.

  See `jaxrank.testing` for the arguments.
  """
  statement = "the value is NaN if and only if a score or a label of a valid item is"
  with Law("nan", statement, metric, case, tolerance) as law:
    valid = law.case.valid
    if not valid.all():
      expected = law.ask(law.case)
      hidden = replaced(law.case, ~valid, np.nan, np.nan)
      law.equal(law.ask(hidden), expected, ~valid.all(-1))
    n = valid.shape[-1]
    for valid_item in (valid.argmax(-1), n - 1 - valid[..., ::-1].argmax(-1)):
      here = valid & (np.arange(n) == valid_item[..., None])
      for score, label in ((np.nan, None), (None, np.nan)):
        if (law.case.scores if label is None else law.case.labels).dtype.kind in "biu":
          continue
        spoiled = replaced(law.case, here, score, label)
        law.equal(law.ask(spoiled), known(np.nan, "the value of a query with a NaN"), here.any(-1))
  return law.compared


def check_padding(metric: Metric, case: Case, *, columns: int = 3, tolerance: float = 1e-5) -> int:
  """Longer padding, wherever it stands, does not matter.

  The items stand among more columns, with `where` False there: before, behind and between them, in
  their order. `columns` is the number of columns that are added. See `jaxrank.testing` for the
  other arguments.
  """
  statement = "padding does not matter"
  with Law("padding", statement, metric, case, tolerance) as law:
    n = law.case.scores.shape[-1]
    if "where" in law.takes and n:
      expected = law.ask(law.case)
      spread = np.linspace(0, n + columns - 1, n).round().astype(int) if n > 1 else np.array([1])
      for places in (np.arange(n), np.arange(n) + columns, spread):
        law.equal(law.ask(padded(law.case, places, n + columns)), expected)
  return law.compared


def check_empty(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """The value of a query with every item masked is 0.

  See `jaxrank.testing` for the arguments.
  """
  statement = "a query with every item masked is 0"
  with Law("empty", statement, metric, case, tolerance) as law:
    if "where" in law.takes:
      empty = law.case._replace(where=np.zeros_like(law.case.valid))
      law.equal(law.ask(empty), known(0.0, "the value of an empty query"))
  return law.compared


def check_batch(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """A query has in a batch the value that it has alone, whatever the other queries are.

  The others are the query with its scores negated, an empty query, and one whose scores are NaN.
  See `jaxrank.testing` for the arguments.
  """
  statement = "a query has in a batch the value that it has alone"
  with Law("batch", statement, metric, case, tolerance) as law:
    batch = batch_of(law.case, "where" in law.takes)
    together = law.ask(batch, prefix="one query of a batch, ")
    for i in (0, 1):
      alone = law.ask(batch.at(i), prefix="the query alone, ")
      law.equal(together.at(i), alone)
  return law.compared


def check_isolation(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """A query in a batch keeps its value and its gradients, whatever is wrong with another query.

  The scores or the labels of the other query are NaN, infinite or huge, or all its items are
  masked. In a sweep over the numbers of the ranking, such as the temperature, the same is said of
  calls whose number is NaN, infinite, huge, tiny, 0 or negative. See `jaxrank.testing` for the
  arguments.
  """
  statement = "a query keeps its value and its gradients beside one that is not finite, or empty"
  with Law("isolation", statement, metric, case, tolerance) as law:
    single = as_floats(law.case, np.float32)
    others = list(spoiled(single, "where" in law.takes))
    count = len(others)

    def ask(others: Sequence[Case], numbers: Sequence[float]) -> list[np.ndarray]:
      pairs = pairs_of(single, [*others, *[single] * len(numbers)])
      swept = pairs._replace(ranking=_swept(single.ranking, count, numbers))
      return [x[:count, 0] for x in law.slopes(swept, "beside")]

    def text(what: str) -> Callable[[tuple[int, ...]], str]:
      def of(place: tuple[int, ...]) -> str:
        index, *rest = place[: single.scores.ndim]
        query = tuple(rest)
        return f"{what}{law.text(single, query)}\nin a batch with\n{law.text(others[index], query)}"

      return of

    whats = ("", "the gradient in the scores of\n", "the gradient in the labels of\n")
    answers = ask(others, ODD_NUMBERS)
    ordinary = ask([single] * count, (1.0,) * len(ODD_NUMBERS))
    for what, got, expected in zip(whats, answers, ordinary, strict=True):
      law.equal(Answer(got, text(what)), Answer(expected, lambda _: "the same beside itself"))
  return law.compared


def check_vmap(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """`jax.vmap(m)` of a batch is `m` of the batch.

  See `jaxrank.testing` for the arguments.
  """
  statement = "jax.vmap maps over queries as a batch axis does"
  with Law("vmap", statement, metric, case, tolerance) as law:
    batch = batch_of(law.case, "where" in law.takes)
    mapped = law.ask(batch, "mapped", "under jax.vmap, one query of a batch, ")
    law.equal(mapped, law.ask(batch, prefix="without jax.vmap, "))
  return law.compared


def check_jit(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """`jax.jit(m)`, with a traced cut-off `k`, is `m`, with an int `k`.

  See `jaxrank.testing` for the arguments.
  """
  statement = "jax.jit does not change the value, and a cut-off may be traced"
  with Law("jit", statement, metric, case, tolerance) as law:
    law.equal(
      law.ask(law.case, prefix="under jax.jit, "),
      law.ask(law.case, "direct", "without jax.jit, "),
    )
  return law.compared


def check_range(metric: Metric, case: Case, *, tolerance: float = 0.0) -> int:
  """The value is in the range that the description of the metric states.

  So is it where the scores are the labels, which is the end of many ranges, and where all scores
  are equal. The law says nothing of a function without a description. See `jaxrank.testing` for the
  arguments; no rounding takes a value of `jaxrank.metric` out of its range.
  """
  statement = "the value is in the range of the description"
  with Law("range", statement, metric, case, tolerance) as law:
    about = description_of(metric)
    ends = UNBOUNDED if about is None else about.range
    if np.isfinite(ends).any():
      inside = f"the nearest number in [{ends[0]:g}, {ends[1]:g}]"
      for scores in (law.case.scores, law.case.labels, np.zeros_like(law.case.scores)):
        answer = law.ask(law.case._replace(scores=scores))
        law.equal(answer, known(np.clip(answer.values, *ends), inside))
  return law.compared


def replaced(case: Case, here: np.ndarray, score: float | None, label: float | None) -> Case:
  """The case with another score and label, unless they are None, of some items."""
  scores = case.scores if score is None else np.where(here, _as(case.scores, score), case.scores)
  labels = case.labels if label is None else np.where(here, _as(case.labels, label), case.labels)
  return case._replace(scores=scores, labels=labels)


def _as(like: np.ndarray, x: float) -> np.generic:
  """`x` in the dtype of an array: the nearest number that it has; 0 for NaN if it has none."""
  dtype = like.dtype
  if dtype.kind in "iu":
    x = np.clip(np.nan_to_num(x), np.iinfo(dtype).min, np.iinfo(dtype).max)
  number: np.generic = dtype.type(x > 0 if dtype.kind == "b" else x)
  return number


def padded(case: Case, places: np.ndarray, width: int) -> Case:
  """The items of a case in some columns of `width`, among items that would rank first."""

  def wide(x: np.ndarray, fill: float) -> np.ndarray:
    out = np.full((*x.shape[:-1], width), _as(x, fill))
    out[..., places] = x
    return out

  return case._replace(
    scores=wide(case.scores, 1e4), labels=wide(case.labels, 4.0), where=wide(case.valid, 0.0)
  )


def spoiled(case: Case, masks: bool) -> Iterator[Case]:
  """The case with scores or labels that are not finite or huge, and with all items masked."""
  everywhere = np.ones_like(case.valid)
  for score, label in _SPOILED:
    yield replaced(case, everywhere, score, label)
  yield replaced(case, np.arange(case.scores.shape[-1]) % 2 == 0, 3e38, None)
  if masks:
    yield case._replace(where=~everywhere)


def pairs_of(case: Case, others: Sequence[Case]) -> Case:
  """Batches `[len(others), 2, ..., n]` of a case and another one."""
  return stacked([stacked([case, other]) for other in others])


def _swept(ranking: Ranking | None, count: int, numbers: Sequence[float]) -> Any:
  """A ranking with its own numbers `count` times, and then with others."""
  return jax.tree.map(lambda x: np.array([*[x] * count, *numbers], np.float32), ranking)


def batch_of(case: Case, masks: bool) -> Case:
  """A batch `[4, ..., n]` of a case and three others."""
  everywhere = np.ones_like(case.valid)
  negated = ~case.scores if case.scores.dtype.kind in "biu" else -case.scores
  other = case._replace(scores=negated, labels=np.roll(case.labels, 1, -1))
  empty = case._replace(where=~everywhere) if masks else other
  spoiled = replaced(case, everywhere, np.nan, None)._replace(where=everywhere)
  return stacked([case, other, empty, spoiled])
