"""Every public metric with parameters, and programs that compute all of them at once.

A law about data changes arrays and no program. The programs here have the values of all rows of the
table; an `Asked` stands for one row in the laws of `jaxrank.testing` and looks its values up there.
`test_definitions.py` holds each metric to its definition, so that no law holds only because all
rows share a fault.
"""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from jaxrank._core.description import Description
from tests.helpers.traits import (
  Row,
  curve_precision,
  curve_recall,
  only_counts,
  row,
  rows,
  subtopics,
)

# The queries of one call, and the columns of their arrays.
QUERIES, N = 480, 7
# A gradient of all metrics is a Jacobian, whose time grows with the square of their number.
SLOPES = 24
TIES = ("average", "stable", "optimistic", "pessimistic")

METRICS: dict[str, Row] = {
  **rows(),
  "precision@2": row(jr.precision, k=2, saturates=False),
  "precision@2/retrieved": row(jr.precision, k=2, divisor="retrieved"),
  "recall@3(rel=2)": row(jr.recall, k=3, rel=2, perfect=None),
  "f(beta=2)": row(jr.f_measure, beta=2.0, perfect=None, saturates=False),
  "f@3": row(jr.f_measure, k=3, perfect=None, saturates=False),
  "hit_rate@2": row(jr.hit_rate, k=2),
  "rr@2": row(jr.reciprocal_rank, k=2),
  "ap@3": row(jr.average_precision, k=3, perfect=None),
  "ap@3/retrieved": row(jr.average_precision, k=3, normalizer="retrieved"),
  "ap@3/cutoff": row(jr.average_precision, k=3, normalizer="cutoff"),
  "fall_out@3": row(jr.fall_out, k=3, perfect=None),
  "judged@2": row(jr.judged, k=2),
  "bpref(rel=2)": row(jr.bpref, rel=2),
  "gap@3": row(jr.gap, k=3, max_label=4, chances=np.float32([0.5, 0.2, 0.0, 0.3]), perfect=None),
  "dcg@3": row(jr.dcg, k=3, perfect=None),
  "dcg(exponential)": row(jr.dcg, gain=jr.gains.exponential, perfect=None),
  "ndcg(exponential)": row(jr.ndcg, gain=jr.gains.exponential),
  "ndcg@2(table)": row(jr.ndcg, k=2, gain=jr.gains.table([0.0, 2.0, 2.5, 3.0, 9.0])),
  "ndcg(geometric)": row(jr.ndcg, discount=jr.discounts.geometric(0.8)),
  "ndcg@3": row(jr.ndcg, k=3),
  "err@3(max=4)": row(jr.err, k=3, max_label=4.0, perfect=None),
  "nerr@3": row(jr.nerr, k=3, max_label=4.0),
  "rbp@3": row(jr.rbp, k=3, persistence=0.5, perfect=None),
  "curve_precision": row(curve_precision, perfect=None),
  "curve_recall": row(curve_recall, perfect=None),
  "interpolated_precision(level=0.4)": row(jr.interpolated_precision, level=0.4),
  "auc(rel=2)": row(jr.auc, rel=2),
  "inst@3": row(jr.inst, patience=3, max_label=4, perfect=None),
  "insq@3": row(jr.insq, patience=3, max_label=4, perfect=None),
  "bpm@3": row(jr.bpm, k=3, max_label=4, target=2.0, perfect=None, saturates=False),
  "sdcg@3": row(jr.sdcg, k=3, max_label=4, perfect=None, saturates=False),
  "nearly_err@3": row(
    jr.nearly_err, k=3, max_label=4, discount=jr.discounts.reciprocal, perfect=None, saturates=False
  ),
  "retrieved_auc@3": row(jr.retrieved_auc, k=3, perfect=None),
  "set_ap@3": row(jr.set_average_precision, k=3, perfect=None),
  "utility@3": row(jr.utility, k=3, perfect=None),
  "item_count@3": row(jr.item_count, k=3, perfect=None),
  "rbp_residual@3": row(jr.rbp_residual, k=3, perfect=None),
}
# Metrics that are constant without a cut-off have one too.
_cut = {metric.public for metric in METRICS.values() if "k" in metric.own}
for _name, _row in rows().items():
  if _row.takes("k") and _row.public not in _cut and only_counts(_row.about):
    METRICS[f"{_name}@3"] = _row._replace(own=_row.own | {"k": 3}, perfect=None)
# One row for each public function, with a cut-off if the table has one.
_LAST = {metric.public: name for name, metric in METRICS.items()}
_ROW_OF = {name: _LAST[metric.public] for name, metric in rows().items()}
ONCE = list(_LAST.values())
TIED = [name for name in ONCE if METRICS[name].tied]


def _is_smooth(name: str) -> bool:
  """Whether a metric takes a ranking, and `Laplace` answers what it asks."""
  if not METRICS[name].takes("ranking"):
    return False
  scores = jnp.arange(3.0)
  with contextlib.suppress(jr.UnansweredError):
    jax.eval_shape(lambda: METRICS[name](scores, scores, ranking=jr.Laplace(1.0)))
    return True
  return False


# Metrics under `Laplace`: all of items, all of subtopics, or, in float64, one for each question.
GROUPS = ("items", "subtopics", "asking")
ASKING = [
  *("precision@2/retrieved", "reciprocal_rank", "average_precision", "ndcg@3", "err", "auc"),
  *("spearman", "bpref"),
]


@functools.cache
def smooth(group: str) -> list[str]:
  """A row for each metric that `Laplace` answers, some with a cut-off.

  Those that count retrieved items are constant without one.
  """
  if group == "asking":
    return ASKING
  names = [once if only_counts(METRICS[name].about) else name for name, once in _ROW_OF.items()]
  if group == "items":
    names += ["ndcg@3", "err@3(max=4)", "ap@3/cutoff", "ndcg(exponential)", "ndcg(geometric)"]
  some = [x for x in names if METRICS[x].about.subtopics == (group == "subtopics")]
  return [x for x in some if _is_smooth(x)]


def _without_cutoff(name: str) -> str:
  """The row with the same parameters and no cut-off; it need not be in the table."""
  public, own = METRICS[name].public, _bare(METRICS[name]).own
  for other, (its_public, its_own, *_) in METRICS.items():
    same = its_public is public and its_own.keys() == own.keys()
    if same and all(its_own[x] is own[x] for x in own):
      return other
  return f"{name}, whole"


def _bare(row: Row) -> Row:
  return row._replace(own={key: x for key, x in row.own.items() if key != "k"})


# The rows without their cut-offs.
WHOLE = {name: _without_cutoff(name) for name, row in METRICS.items() if row.takes("k")}
# One row for all cut-offs of a metric with the same other parameters.
CUT = {whole: name for name, whole in reversed(WHOLE.items())}
ROWS = METRICS | {whole: _bare(METRICS[name]) for whole, name in CUT.items()}


def evaluated(names: Iterable[str], scores, labels, where, ranking) -> dict[str, jax.Array]:
  """The values of rows, of which those that ask a ranking share one."""
  values, measures = {}, collections.defaultdict(list)
  for name in names:
    row = ROWS[name]
    if row.takes("ranking"):
      measures[row.about.subtopics].append(jr.Measure(row.public, name=name, **row.own))
    else:
      values[name] = row(scores, labels, where=where)
  for of_subtopics, some in measures.items():
    grades = subtopics(labels) if of_subtopics else labels
    values |= jr.evaluate(some, scores, grades, where=where, ranking=ranking)
  return values


def _exact(ties: str) -> Callable[..., dict[str, jax.Array]]:
  """Rows under a rule for ties, of which parameters say nothing: all where they are averaged."""
  ranking: Any = jr.Exact(ties=ties)

  def values(scores, labels, where, *, number):
    names = ROWS if ties == "average" else TIED
    return evaluated(names, scores, labels, where, ranking)

  return values


def _cut_off(scores, labels, where, *, number) -> dict[str, jax.Array]:
  """All rows that take a cut-off, at a traced one."""
  return {name: METRICS[name](scores, labels, where=where, k=number) for name in CUT.values()}


def _slopes_of(names: Iterable[str], scores, labels, where, ranking) -> dict[str, Any]:
  """Values and gradients in scores and labels of rows, by one Jacobian."""

  def stacked(scores, labels):
    values = evaluated(names, scores, labels, where, ranking)
    values = jnp.stack([values[name] for name in names])
    return values, values

  slopes, values = jax.jacrev(stacked, argnums=(0, 1), has_aux=True)(scores, labels)
  found = zip(values, *slopes, strict=True)
  return {name: row for name, row in zip(names, found, strict=True)}


def _laplace(group: str) -> Callable[..., dict[str, Any]]:
  """Values and gradients under `Laplace` at a temperature for each query."""

  def of_one(scores, labels, where, temperature):
    return _slopes_of(smooth(group), scores, labels, where, jr.Laplace(temperature))

  return lambda *lists, number: jax.vmap(of_one)(*lists, number)


def exact_slopes() -> list[str]:
  """A row for each question, and for each metric that no smooth ranking answers."""
  return [*(name for name in ONCE if not _is_smooth(name)), *ASKING]


def _exact_slopes(scores, labels, where, *, number) -> dict[str, Any]:
  """Values and gradients where ties are averaged."""
  names = exact_slopes()
  return jax.vmap(lambda *lists: _slopes_of(names, *lists, jr.Exact()))(scores, labels, where)


class Together:
  """A program of many rows at one shape, and what it answered last, by the bytes of the arrays."""

  def __init__(self, program: Callable[..., Any], queries: int = QUERIES):
    self.program, self.queries = jax.jit(program), queries
    self.answers: dict[Any, Any] = {}

  def __call__(self, scores, labels, where, number=None) -> dict[Any, Any]:
    """What the program says of queries `[..., n]`; `number` is one for all, or one for each.

    Queries stand in blocks of one size, so that one program serves all. Those of the first axis
    stand beside each other, because laws stack what a query must not be changed by.
    """
    lead, n = scores.shape[:-1], scores.shape[-1]
    if n > N:
      raise ValueError(f"expected at most {N} items, got {n}")
    axes = range(len(lead))[::-1]

    def queries(x, fill):
      flat = np.asarray(x).transpose(*axes, len(lead)).reshape(-1, n)
      # Arrays of fewer items have items under the mask that would rank first.
      return np.pad(flat, ((0, 0), (0, N - n)), constant_values=fill)

    lists = [queries(*pair) for pair in ((scores, 1e4), (labels, 4), (where, False))]
    if np.ndim(number):
      number = number.transpose(*axes).reshape(-1)
    key = (number is None or (np.asarray(number).tobytes(), np.shape(number)),)
    key += tuple((x.dtype.str, x.tobytes()) for x in lists)
    if key not in self.answers:
      if len(self.answers) > 40:
        self.answers.pop(next(iter(self.answers)))
      self.answers[key] = self._compute(lists, number)
    found = self.answers[key]

    def back(x):
      trailing = x.shape[1:]
      x = x.reshape(*lead[::-1], *trailing).transpose(
        *axes, *range(len(lead), x.ndim + len(lead) - 1)
      )
      return x[..., :n] if trailing else x

    return _Lazily(found, back)

  def _compute(self, lists, number):
    count = len(lists[0])
    filled = -(-count // self.queries) * self.queries

    def block(x, start):
      return np.resize(x, (filled, *x.shape[1:]))[start : start + self.queries]

    parts = []
    for start in range(0, filled, self.queries):
      own = block(number, start) if np.ndim(number) else number
      parts.append(self.program(*(block(x, start) for x in lists), number=own))
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


class _Lazily:
  """Answers in the shape of the question, of the row that is looked up."""

  def __init__(self, found: dict[Any, Any], back: Callable[[np.ndarray], np.ndarray]):
    self.found, self.back = found, back

  def __getitem__(self, name: Any) -> Any:
    return jax.tree.map(self.back, self.found[name])


EXACT = {ties: Together(_exact(ties)) for ties in TIES}
CUT_OFF = Together(_cut_off)
# Metrics of subtopics compile twice as long as all others.
LAPLACE = {group: Together(_laplace(group), SLOPES) for group in GROUPS}
EXACT_SLOPES = Together(_exact_slopes, SLOPES)


class Asked:
  """A row that stands for its metric in the laws, and takes its answers from the programs of all.

  Attributes:
    programs: Itself, with the interface of `jaxrank.testing.asking.Programs`.
  """

  def __init__(self, name: str):
    self.group = "subtopics" if METRICS[name].about.subtopics else "items"
    self.name, self.row, self.programs = name, METRICS[name], self
    self.takes = frozenset(x for x in ("where", "k", "ranking") if self.row.takes(x))
    self.run = {
      "jitted": self._values,
      "whole": self._whole,
      "slopes": self._slopes,
      "beside": self._slopes,
    }

  @property
  def description(self) -> Description:
    """What the library says of the metric, with the range of the row."""
    return dataclasses.replace(self.row.about, range=(self.row.low, self.row.high))

  def _values(self, scores, labels, where, k, ranking):
    if k is not None:
      assert isinstance(ranking, jr.Exact | None)
      # Of one type, or a plain int would be another program.
      return CUT_OFF(scores, labels, where, np.int32(k))[CUT[WHOLE[self.name]]]
    if isinstance(ranking, jr.Laplace):
      return self._slopes(scores, labels, where, k, ranking)[0]
    return EXACT[getattr(ranking, "ties", "average")](scores, labels, where)[self.name]

  def _whole(self, scores, labels, where, k, ranking):
    return EXACT["average"](scores, labels, where)[WHOLE[self.name]]

  def _slopes(self, scores, labels, where, k, ranking):
    assert k is None
    if isinstance(ranking, jr.Laplace):
      temperature = np.asarray(ranking.temperature, scores.dtype)
      shape = scores.shape[:-1]
      temperature = temperature.reshape(temperature.shape + (1,) * (len(shape) - temperature.ndim))
      program = LAPLACE["asking" if scores.dtype == np.float64 else self.group]
      return program(scores, labels, where, np.broadcast_to(temperature, shape))[self.name]
    return EXACT_SLOPES(scores, labels, where)[self.name]


ASKED = {name: Asked(name) for name in METRICS}


def forget() -> None:
  """Frees what was compiled and answered."""
  for together in (*EXACT.values(), *LAPLACE.values(), CUT_OFF, EXACT_SLOPES):
    together.answers.clear()
    together.program.clear_cache()
