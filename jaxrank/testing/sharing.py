"""Few programs for many calls: what `check_metric` asks in place of the metric itself.

All queries are asked in batches of one shape, and one program holds the values under all rankings
and at all cut-offs. It is compiled without optimisation, because it runs on little data.
"""

import dataclasses
import functools
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrank._core._jax import is_traced
from jaxrank._core.description import Description
from jaxrank._core.ranked import Ranking
from jaxrank.rankings.exact import Exact
from jaxrank.testing import asking_losses
from jaxrank.testing.asking import (
  How,
  Identity,
  Metric,
  Programs,
  description_of,
  takes_whole_lists,
)
from jaxrank.testing.exact import TIES
from jaxrank.testing.queries import Case

# By these options XLA takes little time for a program. A version of it need not have each of them.
_OPTIONS: dict[str, Any] = {
  "xla_backend_optimization_level": 0,
  "xla_llvm_disable_expensive_passes": True,
  "xla_cpu_parallel_codegen_split_count": 1,
  "xla_cpu_use_fusion_emitters": False,
}

# The most queries of a batch, and the most pairs of items in it, unless one query has more.
_ROWS, _PAIRS = 64, 2**16

# The axes in front of the queries of a batch.
_IN_FRONT = {"beside": 2}


@functools.cache
def options() -> dict[str, Any]:
  """Those of the options that the installed version of XLA has."""

  def is_known(options: dict[str, Any]) -> bool:
    try:
      jax.jit(lambda: np.float32(0), compiler_options=options).lower().compile()
    except Exception:
      return False
    return True

  if is_known(_OPTIONS):
    return _OPTIONS
  return {name: value for name, value in _OPTIONS.items() if is_known({name: value})}


def rows_of(n: int) -> int:
  """The number of queries of `n` items in a batch."""
  return max(1, min(_ROWS, _PAIRS // max(n * n, 1)))


def in_batches(ask: Callable[..., Any], arrays: Sequence[Any], front: int = 0) -> Any:
  """The results of a function of arrays `[..., n]`, asked for `rows_of(n)` queries at a time.

  Args:
    ask: A function of batches of the arrays, filled with copies of the last query, to a tree of
      arrays.
    arrays: The arrays, of one shape.
    front: The number of axes in front of those of the queries.
  """
  *shape, n = arrays[0].shape
  before, shape = tuple(shape[:front]), tuple(shape[front:])
  flat = [np.reshape(x, (*before, -1, n)) for x in arrays]
  size, rows = flat[0].shape[front], rows_of(n)
  parts = []
  for first in range(0, size, rows):
    chosen = np.minimum(np.arange(first, first + rows), size - 1)
    part = jax.tree.map(np.asarray, ask(*(np.take(x, chosen, front) for x in flat)))
    if any(x.shape[: front + 1] != (*before, rows) for x in jax.tree.leaves(part)):
      # The law says that the shape is wrong.
      return part
    parts.append(part)

  def joined(*parts: np.ndarray) -> np.ndarray:
    whole = np.take(np.concatenate(parts, front), np.arange(size), front)
    return whole.reshape(*before, *shape, *whole.shape[front + 1 :])

  return jax.tree.map(joined, *parts)


def one_cutoff(
  ranking: Ranking | None, cutoffs: Sequence[int | None], slopes: bool = False
) -> int | None:
  """The cut-off of laws that take programs of their own: one of the ints, the most general form.

  Only slopes take it under a smooth ranking, where a cut-off costs more than all the rest.
  """
  known = [k for k in cutoffs if k is not None]
  smooth = not isinstance(ranking, Exact | None)
  if not known or (smooth and not slopes and None in cutoffs):
    return None
  return known[len(known) // 2]


class _Way(NamedTuple):
  """How a metric is called: the structure of the ranking, and whether a cut-off is given."""

  structure: Any
  cut: bool


class _Program:
  """One program with the results of a form of the metric in several ways, or their errors."""

  def __init__(self, form: Callable[..., Any], ways: Sequence[_Way]):
    self.ways, self.errors = list(ways), dict[_Way, tuple[Exception, Any]]()

    def every(scores: Any, labels: Any, where: Any, k: Any, leaves: Any) -> list[Any]:
      found = []
      for way, numbers in zip(self.ways, leaves, strict=True):
        ranking = jax.tree.unflatten(way.structure, numbers)
        try:
          found.append(form(scores, labels, where, k if way.cut else None, ranking))
        except Exception as error:
          # The other ways have results all the same. The error says where it was raised, but does
          # not hold what the metric computed.
          traceback.clear_frames(error.__traceback__)
          self.errors[way] = error, error.__traceback__ and error.__traceback__.tb_next
          found.append(None)
      return found

    self.run = jax.jit(every, compiler_options=options())

  def __call__(self, way: _Way, arrays: Sequence[Any], k: Any, leaves: Sequence[Any]) -> Any:
    found = self.run(*arrays, k, leaves)
    if way in self.errors:
      error, place = self.errors[way]
      # Otherwise the traceback would hold the frames of each time that the error is raised.
      raise error.with_traceback(place)
    return found[self.ways.index(way)]


class Shared:
  """The forms of one metric as `Programs` has them, with as few programs as can be.

  A query alone, `[n]`, is asked alone; all others are asked in batches.
  """

  def __init__(
    self, metric: Metric, rankings: Sequence[Ranking | None], cutoffs: Sequence[int | None]
  ):
    plain = Programs(metric)
    self.name, self.takes, self._forms = plain.name, plain.takes, plain.forms
    cutoffs = cutoffs if "k" in self.takes else (None,)

    def group(
      rankings: Sequence[Ranking | None], chosen: Callable[[Any], Sequence[int | None]]
    ) -> dict[_Way, list[Any]]:
      """The ways of a program, with the numbers of their rankings."""
      ways = {}
      for ranking in rankings:
        leaves, structure = jax.tree.flatten(ranking)
        ways.update({_Way(structure, k is not None): leaves for k in chosen(ranking)})
      return ways

    def each(ranking: Any) -> Sequence[int | None]:
      # The laws of exact rankings compare cut-offs with the whole list.
      both = isinstance(ranking, Exact | None) and "k" in self.takes
      return (None, 1) if both else cutoffs

    rules = [Exact(ties=rule) for rule in TIES[1:]] if "ranking" in self.takes else []
    self._groups = [group(rankings, each), group(rules, lambda _: cutoffs)]
    self._costly = group(rankings, lambda x: (one_cutoff(x, cutoffs),))
    self._slopes = group(rankings, lambda x: (one_cutoff(x, cutoffs, slopes=True),))
    self._programs: dict[Any, _Program] = {}
    self.run: dict[How, Callable[..., Any]] = {
      how: functools.partial(self._call, how) for how in self._forms
    }
    if takes_whole_lists(metric):
      self.run["whole"] = self.run["jitted"]

  def _call(self, how: How, scores: Any, labels: Any, where: Any, k: Any, ranking: Any) -> Any:
    arrays = [np.asarray(x) for x in (scores, labels, where)]
    ask = functools.partial(self._ask, how, k, ranking)
    return ask(*arrays) if arrays[0].ndim == 1 else in_batches(ask, arrays, _IN_FRONT.get(how, 0))

  def _ask(self, how: How, k: Any, ranking: Any, *arrays: np.ndarray) -> Any:
    if how == "direct":
      return self._forms[how](*map(jax.device_put, arrays), k, ranking)
    leaves, structure = jax.tree.flatten(ranking)
    way = _Way(structure, k is not None)
    groups = self._groups
    alone = arrays[0].ndim == 1
    if alone or how not in ("jitted", "whole") or any(x.dtype != np.float32 for x in arrays[:2]):
      groups = [self._slopes if how == "slopes" else self._costly]
    ways = next((ways for ways in groups if way in ways), {way: leaves})
    key = (how, tuple(ways), *((x.shape, x.dtype) for x in arrays))
    program = self._programs.get(key) or _Program(self._forms[how], list(ways))
    self._programs[key] = program
    numbers = list((ways | {way: leaves}).values())
    if how == "beside":
      size = len(arrays[0])
      numbers = [[np.float32(np.resize(x, size)) for x in leaves] for leaves in numbers]
    k = np.int32(1) if k is None else k
    return program(way, arrays, k, numbers)


class SharedLoss(asking_losses.Programs):
  """The forms of one loss with as few programs as can be, of batches of queries as in `Shared`."""

  def __init__(self, loss: Metric):
    super().__init__(loss)
    compiled: Callable[[Any], Any] = functools.partial(jax.jit, compiler_options=options())
    self.backward, self.probe = map(compiled, self.slopes.values())
    self.run = {how: functools.partial(self._call, how) for how in self.forms}
    self._compiled = {how: compiled(form) for how, form in self.forms.items() if how != "direct"}

  def filled(self, case: Case) -> Case:
    """The case with as many queries as there are in a batch."""
    size, n = case.scores.shape
    rows = -(-size // rows_of(n)) * rows_of(n)
    return case.arrays(lambda x: x[np.minimum(np.arange(rows), size - 1)])

  def _call(self, how: str, scores: Any, labels: Any, where: Any) -> Any:
    if is_traced(scores):
      return self.forms[how](scores, labels, where)

    def ask(*arrays: np.ndarray) -> Any:
      if how == "direct":
        return self.forms[how](*map(jax.device_put, arrays))
      return self._compiled[how](*arrays)

    arrays = [np.asarray(x) for x in (scores, labels, where)]
    return ask(*arrays) if arrays[0].ndim == 1 else in_batches(ask, arrays, _IN_FRONT.get(how, 0))


class Subject(NamedTuple):
  """What stands for a metric before the laws."""

  metric: Metric
  programs: Any

  def __call__(self, *args: Any, **given: Any) -> Any:
    """The values of the metric."""
    return self.metric(*args, **given)

  @property
  def description(self) -> Description | None:
    """The description of the metric."""
    return description_of(self.metric)


@dataclasses.dataclass(frozen=True)
class _Kind:
  """A ranking, equal to all of its structure, which have its programs."""

  structure: Any
  ranking: Ranking | None = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=16)
def _shared(
  identity: Identity, kinds: tuple[_Kind, ...], cutoffs: tuple[int | None, ...]
) -> Subject:
  rankings = [kind.ranking for kind in kinds]
  return Subject(identity.metric, Shared(identity.metric, rankings, cutoffs))


def subject(
  metric: Metric, rankings: Sequence[Ranking | None], cutoffs: Sequence[int | None]
) -> Any:
  """A metric with shared programs, kept for those tested last."""
  kinds = tuple(_Kind(jax.tree.structure(x), x) for x in rankings)
  return _shared(Identity(metric), kinds, tuple(cutoffs))


@functools.lru_cache(maxsize=16)
def _shared_loss(identity: Identity) -> Subject:
  return Subject(identity.metric, SharedLoss(identity.metric))


def loss_subject(loss: Metric) -> Any:
  """A loss with shared programs, kept for those tested last."""
  return _shared_loss(Identity(loss))
