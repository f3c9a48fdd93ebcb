"""Calls a metric in the ways that a user may, and compares the values."""

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank._core import description
from jaxrank._core.description import Description
from jaxrank._core.ranked import UnansweredError
from jaxrank.measures import Measure
from jaxrank.rankings.exact import Exact
from jaxrank.testing.queries import Case, array, call

Metric = Callable[..., Any]
How = Literal["direct", "jitted", "whole", "mapped", "slopes", "beside"]

_OPTIONS = ("where", "k", "ranking")


class Identity:
  """A metric as a key: some are not hashable, and some equal others."""

  def __init__(self, metric: Metric):
    self.metric = metric

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Identity) and self.metric is other.metric

  def __hash__(self) -> int:
    return id(self.metric)


def name_of(metric: Metric) -> str:
  """The name of a metric for messages."""
  inner = metric.func if isinstance(metric, functools.partial) else metric
  return getattr(inner, "__name__", None) or str(inner)


def description_of(metric: Metric) -> Description | None:
  """The description of a metric, of a measure, or of one with parameters; None for functions."""
  inner = metric.func if isinstance(metric, functools.partial) else metric
  return description.of_metric(inner.metric if isinstance(inner, Measure) else inner)


def takes(metric: Metric) -> frozenset[str]:
  """Which of `where`, `k` and `ranking` a metric takes."""
  if isinstance(metric, Measure):
    return frozenset({"where", "ranking"})
  about = description.of_metric(metric)
  if about is not None and about.public is None:
    return frozenset({"where", "ranking", *about.signature.parameters} & {*_OPTIONS})
  parameters = inspect.signature(metric).parameters
  if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
    return frozenset(_OPTIONS)
  return frozenset(_OPTIONS) & parameters.keys()


def takes_whole_lists(metric: Metric) -> bool:
  """Whether the default of `k` is known to be None."""
  try:
    return inspect.signature(metric).parameters["k"].default is None
  except (KeyError, TypeError, ValueError):
    return False


class Programs:
  """The jitted forms of one metric, each compiled once for each shape and kind of ranking.

  Attributes:
    name: The name of the metric for messages.
    takes: Which of `where`, `k` and `ranking` the metric takes.
    forms: The functions of `(scores, labels, where, k, ranking)` that are compiled, by name.
    run: The forms, compiled but for "direct".
  """

  def __init__(self, metric: Metric):
    self.name, self.takes = name_of(metric), takes(metric)

    def value(
      scores: Any, labels: Any, where: Any, k: Any, ranking: Any, *, whole: bool = False
    ) -> Any:
      options = {"where": where, "k": k, "ranking": ranking}
      given = {x: options[x] for x in self.takes if options[x] is not None}
      # None is given, because the default may be another.
      return metric(scores, labels, **(given | {"k": None} if whole else given))

    def slopes(*case: Any) -> Any:
      def total(scores: Any, labels: Any) -> Any:
        values = value(scores, labels, *case[2:])
        return jnp.sum(values), values

      (_, values), slopes = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(*case[:2])
      return values, *slopes

    self.forms: dict[How, Callable[..., Any]] = {
      "direct": value,
      "jitted": value,
      "whole": functools.partial(value, whole=True),
      "mapped": jax.vmap(value, (0, 0, 0, None, None)),
      "slopes": slopes,
      "beside": jax.vmap(slopes, (0, 0, 0, None, 0)),
    }
    self.run = {how: form if how == "direct" else jax.jit(form) for how, form in self.forms.items()}
    if takes_whole_lists(metric):
      self.run["whole"] = self.run["jitted"]


def programs(identity: Identity) -> Programs:
  """The programs of a metric: its attribute `programs`, or those kept of the metrics tested last.

  Something with the attribute stands for a metric, and may share its programs with others.
  """
  own: Programs | None = getattr(identity.metric, "programs", None)
  return _compiled(identity) if own is None else own


@functools.lru_cache(maxsize=16)
def _compiled(identity: Identity) -> Programs:
  return Programs(identity.metric)


class Answer(NamedTuple):
  """Values of queries, and what they are values of.

  Attributes:
    values: `[...]`.
    text: What the value of a query is, by the index of the query.
  """

  values: np.ndarray
  text: Callable[[tuple[int, ...]], str]

  def at(self, index: int) -> "Answer":
    """The answer about one entry of the first axis."""
    return Answer(self.values[index], lambda query: self.text((index, *query)))


def known(value: Any, text: str) -> Answer:
  """An answer that is known, the same for all queries."""
  return Answer(np.asarray(value), lambda query: text)


class Law:
  """The context in which a law asks a metric; it gives errors the name of the law.

  Attributes:
    case: The case with arrays of numpy.
    asked: The case of the last call, which a message shows if the call raises an error.
    exact: Whether the ranking sorts; it does by default.
    compared: The number of values that were compared.
  """

  def __init__(
    self,
    name: str,
    statement: str,
    metric: Metric,
    case: Case,
    tolerance: float,
    programs: Callable[[Identity], Any] = programs,
  ):
    self.name, self.statement, self.tolerance = name, statement, tolerance
    self.metric, self.programs = metric, programs(Identity(metric))
    self.takes = self.programs.takes
    self.case = case.arrays(np.asarray)._replace(
      k=case.k if "k" in self.takes else None,
      ranking=case.ranking if "ranking" in self.takes else None,
    )
    if "where" not in self.takes and not self.case.valid.all():
      raise ValueError(f"{self.programs.name} does not take where: give it a case without padding.")
    if getattr(case.ranking, "key", None) is not None:
      raise ValueError("the ranking of a case must not be random.")
    self.asked = self.case
    self.exact = isinstance(self.case.ranking, Exact | None)
    self.compared = 0

  def __enter__(self) -> Self:
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> bool:
    if isinstance(error, UnansweredError) and not self.exact:
      return True
    if isinstance(error, Exception) and not isinstance(error, AssertionError):
      text = f"{type(error).__name__}: {error}"
      where = self.text(self.asked, (0,) * (self.asked.scores.ndim - 1))
      raise AssertionError(f"{self._heading()}\n{where}\nraises {text}") from error
    return False

  def _heading(self) -> str:
    return f"{self.programs.name} breaks the law of {self.name}: {self.statement}."

  def ask(self, case: Case, how: How = "jitted", prefix: str = "") -> Answer:
    """The values of a case."""
    self.asked = case
    run = self.programs.run[how]
    k: Any = case.k
    if how == "direct":
      # Without `jit`, a cut-off is a number that is known, as users write it.
      scores, labels, where = map(jax.device_put, case.arrays(np.asarray)[:3])
      values = run(scores, labels, where, k, case.ranking)
    else:
      k = None if k is None else np.int32(k)
      values = run(case.scores, case.labels, case.valid, k, case.ranking)
    values = np.asarray(values)
    shape = case.scores.shape[:-1]
    if values.shape != shape:
      self.fail(
        f"The values must have shape {shape} for scores of shape {case.scores.shape}, "
        f"got {values.shape}."
      )
    return Answer(values, lambda query: prefix + self.text(case, query))

  def text(self, case: Case, query: tuple[int, ...]) -> str:
    """The call of the metric on one query of a case."""
    return call(self.programs.name, self.takes, case, query)

  def cutoffs(self, ks: np.ndarray) -> np.ndarray:
    """The values `[len(ks), ...]` at several cut-offs."""
    return np.stack([self.ask(self.case._replace(k=int(k))).values for k in ks])

  def slopes(self, case: Case, how: How = "slopes") -> list[np.ndarray]:
    """The values `[...]`, and the gradients in scores and labels, `[..., n]`.

    "beside" maps over the first axis, also of the numbers of the ranking.
    """
    self.asked = case
    k = None if case.k is None else np.int32(case.k)
    run = self.programs.run[how]
    arrays = run(case.scores, case.labels, case.valid, k, case.ranking)
    return [np.asarray(x) for x in arrays]

  def fail(self, what: str) -> NoReturn:
    """Raises an error that says what is wrong."""
    raise AssertionError(f"{self._heading()}\n{what}")

  def equal(self, answer: Answer, expected: Answer, among: Any = True) -> None:
    """Raises an error for the first of some queries whose values differ."""
    values, others = np.broadcast_arrays(answer.values, expected.values)
    among = np.broadcast_to(among, values.shape)
    x, y = values.astype(np.float64), others.astype(np.float64)
    with np.errstate(invalid="ignore"):
      same = (np.abs(x - y) <= self.tolerance * (1 + np.abs(y))) & np.isfinite(y)
    same |= (x == y) | (np.isnan(x) & np.isnan(y))
    self.compared += int(np.count_nonzero(among))
    wrong = np.argwhere(among & ~same)
    if len(wrong):
      query = tuple(map(int, wrong[0]))
      many = "" if len(wrong) == 1 else f"\n({len(wrong)} of {among.sum()} values)"
      self.fail(
        f"{answer.text(query)}\nis {values[query]}, but\n"
        f"{expected.text(query)}\nis {others[query]}.{many}"
      )

  def require(self, truth: np.ndarray, slopes: np.ndarray, case: Case, what: str) -> None:
    """Raises an error for the first query with slopes `[..., n]` that are not as they should be."""
    right = truth.all(-1)
    self.compared += right.size
    if not right.all():
      query = tuple(map(int, np.argwhere(~right)[0]))
      self.fail(f"{what} of\n{self.text(case, query)}\nis {array(slopes[query])}.")
