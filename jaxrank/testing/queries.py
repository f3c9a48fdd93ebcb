"""`Case`, the queries that a law is about, and how they are written in a message."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrank._core.ranked import Ranking


class Case(NamedTuple):
  """Queries, and the arguments with which a metric is called on them.

  Attributes:
    scores: `[..., n]`, an array of NumPy or JAX.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding; None is all True.
    k: The cut-off; None is the default of the metric.
    ranking: The ranking, without random ties; None is the default of the metric.
  """

  scores: Any
  labels: Any
  where: Any = None
  k: int | None = None
  ranking: Ranking | None = None

  @property
  def valid(self) -> np.ndarray:
    """The mask `[..., n]`."""
    return np.ones(np.shape(self.scores), bool) if self.where is None else self.where

  def arrays(self, function: Callable[[np.ndarray], np.ndarray]) -> "Case":
    """The case with a function applied to scores, labels and mask, each `[..., n]`."""
    fields = self.scores, self.labels, self.valid
    scores, labels, where = (function(np.asarray(x)) for x in fields)
    return self._replace(scores=scores, labels=labels, where=where)

  def at(self, index: int) -> "Case":
    """One entry of the first axis."""
    return self.arrays(lambda x: x[index])

  def take(self, items: np.ndarray) -> "Case":
    """The case with only the items `[m]` of each query, in their order."""
    return self.arrays(lambda x: x[..., items])


def stacked(cases: Sequence[Case]) -> Case:
  """Cases of one shape as a case with one more axis in front; cut-off and ranking of the first."""
  scores = np.stack([case.scores for case in cases])
  labels = np.stack([case.labels for case in cases])
  where = np.stack([case.valid for case in cases])
  return cases[0]._replace(scores=scores, labels=labels, where=where)


def call(name: str, takes: frozenset[str], case: Case, query: tuple[int, ...]) -> str:
  """The call of a metric on one query of a case, as Python."""
  return f"{name}(\n" + "".join(f"  {x},\n" for x in _arguments(takes, case, query)) + ")"


def _arguments(takes: frozenset[str], case: Case, query: tuple[int, ...]) -> Iterator[str]:
  yield array(np.asarray(case.scores)[query])
  yield array(np.asarray(case.labels)[query])
  if "where" in takes and not case.valid[query].all():
    yield f"where={array(case.valid[query])}"
  if "k" in takes and case.k is not None:
    yield f"k={case.k}"
  if "ranking" in takes and case.ranking is not None:
    yield f"ranking=jaxrank.{case.ranking!r}"


def array(x: np.ndarray) -> str:
  """An array `[n]` as Python."""
  dtype = "" if x.dtype == np.bool_ else f", jnp.{x.dtype}"
  return f"jnp.array([{', '.join(map(number, x))}]{dtype})"


def number(x: Any) -> str:
  """A number as Python, in the fewest digits that tell it from others of its dtype."""
  text = str(x)
  return f"jnp.{text}" if text == "nan" or text == "inf" else text.replace("-inf", "-jnp.inf")
