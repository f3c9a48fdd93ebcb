"""Laws of sorting: ties, cut-offs, and the limit of smooth rankings."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from jaxrank.rankings.exact import Exact, Ties
from jaxrank.testing.asking import Answer, Law, Metric
from jaxrank.testing.queries import Case, stacked

# All orders of this many items are 720.
_MOST = 6

TIES: tuple[Ties, ...] = ("average", "stable", "optimistic", "pessimistic")


def check_order(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """Only the order of the scores matters: `m(s, y) = m(f(s), y)` for every increasing `f`.

  The scores become the numbers 0, 1, 2, ... in their order, neighbours among the numbers from 1 on,
  and multiples of 1e-30; tied scores stay tied, and -inf stays. The law says nothing of smooth
  rankings. See `jaxrank.testing` for the arguments.
  """
  with Law("order", "only the order of the scores matters", metric, case, tolerance) as law:
    if law.exact:
      place, expected = places(law.case), law.ask(law.case)
      step = np.finfo(place.dtype).eps
      for scores in (place, 1 + step * place, place.dtype.type(1e-30) * place):
        law.equal(expected, law.ask(law.case._replace(scores=scores)))
  return law.compared


def check_ties(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """The value under ties is the mean over all orders of the tied items.

  The law tries all `n!` orders of the items, each of which breaks ties in one way. If the metric
  takes `ranking`, it tries `Exact` with the other rules too: "stable" breaks ties by index,
  "optimistic" and "pessimistic" by label. The law says nothing of smooth rankings. See
  `jaxrank.testing` for the arguments.

  Raises:
    ValueError: if the queries have more than 6 items.
  """
  statement = "all orders of tied items count alike, unless ties says otherwise"
  n = case.scores.shape[-1]
  if n > _MOST:
    raise ValueError(f"check_ties tries all orders of at most {_MOST} items, got {n} items.")
  with Law("ties", statement, metric, case, tolerance) as law:
    rules = TIES if "ranking" in law.takes else TIES[:1]
    for rule in rules if law.exact else ():
      exact: Any = Exact(ties=rule) if "ranking" in law.takes else None
      tied = law.ask(law.case._replace(ranking=exact))
      law.equal(tied, _broken(law, rule))
  return law.compared


def check_cutoff(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """The value at `k` does not depend on the order below rank `k`, and `k = n` is the whole list.

  The items below rank `k` swap their labels, which changes the items there but not the set of all.
  For `n` valid items, the value at `k = n` is that at `k=None`. The law says nothing of smooth
  rankings, whose cut-off is a smooth step, and nothing of metrics without `k`. See
  `jaxrank.testing` for the arguments.
  """
  statement = "the order below rank k does not matter, and k = n is the whole list"
  with Law("cutoff", statement, metric, case, tolerance) as law:
    if law.exact and "k" in law.takes:
      if law.case.k is not None:
        below = _below(law.case, law.case.k)
        moved = law.case._replace(labels=_rolled(law.case.labels, below))
        law.equal(law.ask(moved), law.ask(law.case), below.sum(-1) > 1)
      _whole_list(law, law.case.valid.sum(-1))
  return law.compared


def check_long_cutoff(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """The value at a cut-off beyond the end of the list is that of the whole list.

  Leave it out for metrics that divide by `k`, such as precision. The law says nothing of smooth
  rankings, and nothing of metrics without `k`. See `jaxrank.testing` for the arguments.
  """
  statement = "a cut-off beyond the end is the whole list"
  with Law("long_cutoff", statement, metric, case, tolerance) as law:
    if law.exact and "k" in law.takes:
      n = law.case.scores.shape[-1]
      _whole_list(law, np.full(law.case.scores.shape[:-1], n + 2))
  return law.compared


def check_limit(
  metric: Metric, case: Case, *, temperature: float = 1e-6, tolerance: float = 1e-5
) -> int:
  """A smooth ranking at temperature 0 is exact, if no scores are tied.

  `lim_(t -> 0) m(s, y; t) = m(s, y)`, for scores 1 apart in the order of those of the case. The law
  is about rankings with a field `temperature`; the argument `temperature` counts as 0. See
  `jaxrank.testing` for the other arguments.
  """
  statement = "a smooth ranking at temperature 0 is exact"
  with Law("limit", statement, metric, case, tolerance) as law:
    ranking: Any = law.case.ranking
    if hasattr(ranking, "temperature"):
      apart = law.case._replace(scores=untied(law.case, _index(law.case)))
      cold = law.ask(apart._replace(ranking=dataclasses.replace(ranking, temperature=temperature)))
      law.equal(cold, law.ask(apart._replace(ranking=Exact())))
  return law.compared


def places(case: Case) -> np.ndarray:
  """The number of different lower scores of valid items, `[..., n]`; -inf stays."""
  s = case.scores.astype(np.float64)
  counted = case.valid & (s > -np.inf)
  lower = (s[..., None, :] < s[..., :, None]) & counted[..., None, :]
  first = np.tril(s[..., None, :] == s[..., :, None], -1) & counted[..., None, :]
  lower &= ~first.any(-1)[..., None, :]
  return _like(case, np.where(counted, lower.sum(-1), s))


def untied(case: Case, key: np.ndarray) -> np.ndarray:
  """Scores 1 apart in the order of those of the case, `[..., n]`; ties by key, the least first."""
  s = case.scores.astype(np.float64)
  counted = case.valid & (s > -np.inf)
  order = np.lexsort((np.broadcast_to(key, s.shape), -s), axis=-1)
  rank = np.argsort(order, axis=-1, kind="stable")
  return _like(case, np.where(counted, -rank, s))


def _like(case: Case, scores: np.ndarray) -> np.ndarray:
  wide = case.scores.dtype == np.float64
  return scores.astype(np.float64 if wide else np.float32)


def _index(case: Case) -> np.ndarray:
  return np.arange(case.scores.shape[-1])


def _broken(law: Law, rule: Ties) -> Answer:
  """The mean over the orders that a rule allows, from scores without ties."""
  case, ranking = law.case, Exact() if "ranking" in law.takes else None
  case = case._replace(ranking=ranking)
  if rule != "average":
    # Stable: the index breaks ties. Optimistic: the higher label goes first.
    labels = case.labels.astype(np.float64)
    key = {"stable": _index(case), "optimistic": -labels, "pessimistic": labels}[rule]
    return law.ask(case._replace(scores=untied(case, key)))
  every = [
    case._replace(scores=untied(case, np.array(key)))
    for key in itertools.permutations(_index(case))
  ]
  values = law.ask(stacked(every)).values.astype(np.float64).mean(0)
  return Answer(values, lambda query: "its mean over the orders of tied items")


def _below(case: Case, k: int) -> np.ndarray:
  """Valid items with fewer than `k` others at or above their score, itself not counted."""
  s = case.scores.astype(np.float64)
  counted = case.valid & (s > -np.inf)
  above = (s[..., None, :] > s[..., :, None]) & counted[..., None, :]
  below: np.ndarray = case.valid & (above.sum(-1) >= k)
  return below


def _rolled(x: np.ndarray, here: np.ndarray) -> np.ndarray:
  """`x` with the entries of a mask moved on by one place of the mask."""
  out = x.copy()
  flat, mask = out.reshape(-1, x.shape[-1]), here.reshape(-1, x.shape[-1])
  for row, chosen in zip(flat, mask, strict=True):
    row[chosen] = np.roll(row[chosen], 1)
  rolled: np.ndarray = flat.reshape(x.shape)
  return rolled


def _whole_list(law: Law, k: np.ndarray) -> None:
  """Compares the values at a cut-off of each query's own with those at `k=None`."""
  ks = np.arange(1, law.case.scores.shape[-1] + 3)
  at = law.cutoffs(ks)
  chosen = np.take_along_axis(at, np.maximum(k - 1, 0)[None], axis=0)[0]
  whole = law.ask(law.case._replace(k=None), "whole", "with k=None, ")

  def text(query: tuple[int, ...]) -> str:
    return law.text(law.case._replace(k=int(k[query])), query)

  law.equal(Answer(chosen, text), whole, k > 0)
