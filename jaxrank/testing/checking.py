"""`check_metric` and `check_loss`, which test a function against the laws, and tables of laws."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from jaxrank._core import checks
from jaxrank._core.ranked import Ranking, UnansweredError
from jaxrank.rankings.exact import Exact
from jaxrank.rankings.expected_rank import Laplace
from jaxrank.testing import (
  asking_losses,
  derivatives,
  exact,
  laws,
  losses,
  numbers,
  sharing,
  strategies,
)
from jaxrank.testing.asking import Metric, description_of, name_of, takes
from jaxrank.testing.queries import Case, stacked

# The order of `check_metric`, which names the first law that is broken: a bug that breaks several
# is named by the most basic.
LAWS: Mapping[str, Callable[[Metric, Case], int]] = MappingProxyType(
  {
    "jit": laws.check_jit,
    "mask": laws.check_mask,
    "nan": laws.check_nan,
    "padding": laws.check_padding,
    "permutation": laws.check_permutation,
    "empty": laws.check_empty,
    "batch": laws.check_batch,
    "vmap": laws.check_vmap,
    "isolation": laws.check_isolation,
    "dtypes": numbers.check_dtypes,
    "order": exact.check_order,
    "ties": exact.check_ties,
    "cutoff": exact.check_cutoff,
    "long_cutoff": exact.check_long_cutoff,
    "limit": exact.check_limit,
    "range": laws.check_range,
    "gradients": numbers.check_gradients,
  }
)

# The order of `check_loss`.
LOSS_LAWS: Mapping[str, Callable[[Metric, Case], int]] = MappingProxyType(
  {
    "jit": losses.check_jit,
    "remat": losses.check_remat,
    "mask": losses.check_mask,
    "nan": losses.check_nan,
    "padding": losses.check_padding,
    "permutation": losses.check_permutation,
    "empty": losses.check_empty,
    "batch": losses.check_batch,
    "vmap": losses.check_vmap,
    "isolation": losses.check_isolation,
    "dtypes": losses.check_dtypes,
    "finite": losses.check_finite,
    "derivatives": derivatives.check_derivatives,
    "alive": losses.check_alive,
  }
)

_RANKINGS = (Exact(), Laplace(1.0))

# Laws of one query and others beside it, which take no query of a batch.
_ALONE = ("batch",)

# Laws that take programs of their own, or ask for one query at a time.
_ONE_CUTOFF = ("batch", "vmap", "isolation", "dtypes", "gradients")

# Laws that cost more than a call of a compiled program take this share of the cases.
_COSTLY = {"alive": 5}


def check_metric(
  metric: Metric,
  *,
  laws: Iterable[str] | None = None,
  scores: st.SearchStrategy[np.ndarray] | None = None,
  labels: st.SearchStrategy[np.ndarray] | None = None,
  cutoffs: Sequence[int | None] = (None, 1, 3, 8),
  rankings: Sequence[Ranking | None] = _RANKINGS,
  n: int = 5,
  max_examples: int = 50,
  seed: int = 0,
) -> None:
  """Tests a metric against the laws, and shows the smallest case that breaks one.

  >>> import jax.numpy as jnp
  >>> def first_label(scores, labels):
  ...   return labels[..., 0]
  >>> check_metric(first_label, laws=["vmap", "batch"])
  >>> check_metric(first_label, laws=["permutation"])
  Traceback (most recent call last):
    ...
  AssertionError: first_label breaks the law of permutation: the order of the items does not matter.
  first_label(
    jnp.array([0.0, 0.0], jnp.float32),
    jnp.array([1.0, 0.0], jnp.float32),
  )
  is 1.0, but
  first_label(
    jnp.array([0.0, 0.0], jnp.float32),
    jnp.array([0.0, 1.0], jnp.float32),
  )
  is 0.0.

  Args:
    metric: `metric(scores, labels, *, where=None, k=None, ranking=...)` of arrays `[..., n]` to
      values `[...]`. It need not have `where`, `k` or `ranking`; other parameters keep their
      defaults, and `functools.partial` sets them.
    laws: The names of the laws, keys of `LAWS`; for all but one, `LAWS.keys() - {"gradients"}`.
      None is all, without those that the description of the metric departs from: `precision` at a
      cut-off beyond the end of the list, for example, which divides by `k`.
    scores: A strategy of scores `[n]`; None is `jaxrank.testing.scores(n)`.
    labels: A strategy of labels `[n]`; None is `jaxrank.testing.labels(n)`. Metrics of binary
      labels take `jaxrank.testing.labels(n, values=(0, 1))`.
    cutoffs: The values of `k`, if the metric takes it.
    rankings: The rankings, if the metric takes `ranking`. Random ties are not allowed.
    n: The number of items of a query; at most 6 if `laws` has `"ties"`.
    max_examples: The number of queries, with which each law is tried under each ranking.
    seed: The seed of the queries. A run with the same seed has the same queries.

  Raises:
    AssertionError: if the metric breaks a law, or raises an error.
    ValueError: if `laws` has a name that is not in `LAWS`, or a number is out of range.
    TypeError: if the metric is no function, or an argument is of another kind, such as one name
      for a collection.
  """
  with checks.named("check_metric"):
    checks.function("metric", metric, "a metric of scores and labels")
    chosen = _chosen(laws, LAWS, _departs(metric))
    _check_strategies(scores=scores, labels=labels)
    cutoffs, rankings = _collection("cutoffs", cutoffs), _collection("rankings", rankings)
    n = checks.count("n", n)
    max_examples = checks.count("max_examples", max_examples)
  options = takes(metric)
  cutoffs = list(cutoffs) if "k" in options else [None]
  rankings = list(rankings) if "ranking" in options else [None]
  fields: dict[str, Any] = {
    "scores": scores,
    "labels": labels,
    "where": None if "where" in options else st.just(np.ones(n, bool)),
  }
  subject = sharing.subject(metric, rankings, cutoffs)
  queries = _queries(strategies.cases(n, **fields), max_examples, seed)
  together = _together(subject, queries, rankings, cutoffs)
  for law in chosen:
    for ranking in rankings:
      for k in _cutoffs_of(law, ranking, cutoffs):
        error = None
        if together and law not in _ALONE:
          error = _failure(LAWS[law], subject, queries, k, ranking)
          if error is None:
            continue
        drawn = strategies.cases(n, **fields, cutoffs=(k,), rankings=(ranking,))
        few = sharing.subject(metric, (ranking,), (k,))
        _check(LAWS[law], subject, drawn, max_examples, seed, few, error, cutoffs)


def _cutoffs_of(
  law: str, ranking: Ranking | None, cutoffs: Sequence[int | None]
) -> Sequence[int | None]:
  """The cut-offs at which a law is tried: one if each takes a program, or one query at a time."""
  smooth = not isinstance(ranking, Exact | None)
  if law in _ONE_CUTOFF or (smooth and law == "jit"):
    return [sharing.one_cutoff(ranking, cutoffs, law == "gradients")]
  if law == "jit":
    # An int is known to the compiler: within the list, and perhaps beyond it.
    known = sorted({k for k in cutoffs if k is not None})
    return [*[None] * (None in cutoffs), *known[:1], *known[1:][-1:]]
  return cutoffs


def _queries(drawn: st.SearchStrategy[Case], max_examples: int, seed: int) -> Case:
  """Drawn queries, as one case."""
  found: list[Case] = []
  _run(found.append, drawn, max_examples, seed)
  return stacked(found)


def _together(
  subject: Any,
  queries: Case,
  rankings: Sequence[Ranking | None],
  cutoffs: Sequence[int | None],
) -> bool:
  """Whether each query has in a batch the value that it has alone."""
  run = subject.programs.run["jitted"]
  for ranking in rankings:
    k = sharing.one_cutoff(ranking, cutoffs)
    options = None if k is None else np.int32(k), ranking
    try:
      batch = run(*queries[:3], *options)
      alone = np.stack([run(*queries.at(i)[:3], *options) for i in range(len(queries.scores))])
    except UnansweredError:
      continue
    except Exception:
      return False
    if not _close(batch, alone):
      return False
  return True


def _close(x: np.ndarray, y: np.ndarray) -> bool:
  """Whether values `[Q]` or gradients `[Q, n]` are equal up to rounding."""
  size = np.abs(np.where(np.isfinite(y), y, 0))
  if x.shape != y.shape or not x.shape:
    return False
  with np.errstate(invalid="ignore"):
    same = np.abs(x - y) <= 1e-4 * (1 + np.max(size, axis=tuple(range(1, x.ndim)), keepdims=True))
  return bool(np.all(same | (x == y) | (np.isnan(x) & np.isnan(y))))


def _failure(
  law: Callable[[Metric, Case], int],
  subject: Any,
  queries: Case,
  k: int | None = None,
  ranking: Ranking | None = None,
) -> AssertionError | None:
  """The error of queries that break a law together."""
  try:
    law(subject, queries._replace(k=k, ranking=ranking))
  except AssertionError as error:
    return error
  return None


def check_loss(
  loss: Metric,
  *,
  laws: Iterable[str] | None = None,
  labels: st.SearchStrategy[np.ndarray] | None = None,
  parameters: Iterable[str] | None = None,
  sizes: Iterable[int] = losses.SIZES,
  n: int = 5,
  max_examples: int = 25,
  seed: int = 0,
) -> None:
  """Tests a loss against the laws of losses, and shows the smallest case that breaks one.

  >>> import jax.numpy as jnp
  >>> import jaxrank as jr
  >>> def ndcg_loss(scores, labels, *, where=None):
  ...   ranking = jr.Laplace(1.0)
  ...   return 1 - jr.ndcg(scores, labels, where=where, ranking=ranking)
  >>> check_loss(ndcg_loss, max_examples=5)
  >>> def squares(scores, labels, *, where=None):
  ...   return jnp.mean((scores - labels) ** 2, axis=-1, where=where)
  >>> check_loss(squares, laws=["empty"])
  Traceback (most recent call last):
    ...
  AssertionError: squares breaks the law of empty: all masked is a finite value and gradient 0.
  the value of
  squares(
    jnp.array([0.0], jnp.float32),
    jnp.array([0.0], jnp.float32),
    where=jnp.array([False]),
  )
  is nan.
  Divide by jnp.where(total > 0, total, 1), not by a total that may be 0.

  Args:
    loss: `loss(scores, labels, *, where=None, ...)` of arrays `[..., n]` to values `[...]`. It need
      not have `where`. Other parameters keep their defaults, and `functools.partial` sets them.
      A loss of a teacher takes its scores for labels: `lambda scores, labels, *, where=None:
      jaxrank.losses.kl(scores, teacher=labels, where=where)`.
    laws: The names of the laws, keys of `LOSS_LAWS`; for all but one, `LOSS_LAWS.keys() -
      {"alive"}`. None is all, without those in the attribute `departs` of the loss, a dict with the
      reason why it differs from a law on purpose, by the name of the law.
    labels: A strategy of labels `[n]`; None is `jaxrank.testing.labels(n)`. Losses of binary labels
      take `jaxrank.testing.labels(n, values=(0, 1))`.
    parameters: The names of the numeric parameters in which derivatives are tested too; None is
      all whose default is a number or a ranking, and `weights`, without ints named `k` or whose
      annotation allows no float. They are tested at .8 and .45 of their defaults, and at .2 and
      .55 if the default is 0.
    sizes: The lengths of the lists with tied scores at which there is a gradient; they may be
      shorter than the lists of a loss that is known to vanish on long ones: `(10,)`.
    n: The number of items of a query in the other laws.
    max_examples: The number of cases for each law; a fifth of it for `alive`.
    seed: The seed of the cases. A run with the same seed has the same cases.

  Raises:
    AssertionError: if the loss breaks a law, or raises an error. The message says what to do.
    ValueError: if `laws` has a name that is not in `LOSS_LAWS`, or a number is out of range.
    TypeError: if the loss is no function, or needs a parameter that has no default, or an argument
      is of another kind, such as one name for a collection.
  """
  with checks.named("check_loss"):
    checks.function("loss", loss, "a loss of scores and labels")
    chosen = _chosen(laws, LOSS_LAWS, _departs_of_loss(loss))
    n = checks.count("n", n)
    max_examples = checks.count("max_examples", max_examples)
    _check_strategies(labels=labels)
    sizes = [checks.count("sizes", size) for size in _collection("sizes", sizes)]
    _check_signature(loss)
    parameters = None if parameters is None else _collection("parameters", parameters)
    _check_parameters(loss, parameters or ())
  drawn = strategies.cases(
    n, labels=labels, where=None if "where" in takes(loss) else st.just(np.ones(n, bool))
  )
  relevant = drawn.filter(lambda case: bool(np.any(case.valid & (case.labels > 0))))
  given: dict[str, Any] = dict.fromkeys(
    ("nan", "empty", "isolation", "derivatives"), {"parameters": parameters}
  )
  given["alive"] = {"sizes": sizes}
  subject = sharing.loss_subject(loss)
  queries = _queries(drawn, max_examples, seed)
  together = _loss_together(subject, queries)
  for law in chosen:
    check = functools.partial(LOSS_LAWS[law], **given.get(law, {}))
    error = None
    if together and law not in (*_ALONE, "alive"):
      error = _failure(check, subject, queries)
      if error is None:
        continue
    some = relevant if law == "alive" else drawn
    _check(check, subject, some, -(-max_examples // _COSTLY.get(law, 1)), seed, subject, error)


def _loss_together(subject: Any, queries: Case) -> bool:
  """Whether each query has in a batch the value and the gradient that it has alone."""
  run = subject.programs.run["jitted"]
  try:
    batch = run(*queries[:3])
    alone = [run(*queries.at(i)[:3]) for i in range(len(queries.scores))]
  except Exception:
    return False
  return all(map(_close, batch, map(np.stack, zip(*alone, strict=True))))


def _check_signature(loss: Metric) -> None:
  """Raises an error if a loss cannot be called with scores and labels, and perhaps `where`."""
  taken = list(inspect.signature(loss).parameters.values())
  free = [p for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
  named = [p for p in taken if p.kind is p.KEYWORD_ONLY]
  needed = [p.name for p in [*named, *free[2:]] if p.default is p.empty and p.name != "where"]
  if needed:
    raise TypeError(
      f"loss needs {needed[0]}, which check_loss does not give; set it: "
      f"functools.partial(loss, {needed[0]}=...)."
    )
  if len(free) < 2 and not any(p.kind is p.VAR_POSITIONAL for p in taken):
    raise TypeError(
      "loss must take scores and labels; write a function that does: "
      "lambda scores, labels, *, where=None: ..."
    )


def _check_parameters(loss: Metric, parameters: Iterable[str]) -> None:
  """Raises an error unless parameters of a loss are numbers."""
  numbers = asking_losses.numbers_of(loss)
  for name in parameters:
    if not numbers:
      raise ValueError(
        f"parameters must name numbers of the loss, got {name!r}, but it has none: give {name} a "
        "default that is a number, in the signature or by functools.partial."
      )
    checks.choice("parameters", name, numbers)


def _collection(name: str, given: Any) -> list[Any]:
  """A collection as a list; raises an error for a string or a single thing."""
  if isinstance(given, str) or not isinstance(given, Iterable):
    raise TypeError(f"{name} must be a collection, such as ({given!r},), got {given!r}.")
  return list(given)


def _check_strategies(**given: Any) -> None:
  """Raises an error for what is neither None nor a strategy of hypothesis."""
  for name, strategy in given.items():
    if not isinstance(strategy, st.SearchStrategy | None):
      raise TypeError(
        f"{name} must be a strategy of hypothesis, such as jaxrank.testing.{name}(5), or "
        f"hypothesis.strategies.just(array) for one array, got a {type(strategy).__name__}."
      )


def _chosen(
  laws: Iterable[str] | None, table: Mapping[str, object], departs: Mapping[str, str]
) -> list[str]:
  """The names of the laws in the order of a table; None is all that nothing departs from."""
  names = table.keys() - departs.keys() if laws is None else _collection("laws", laws)
  for law in names:
    checks.choice("laws", law, table)
  return [law for law in table if law in names]


def _departs(metric: Metric) -> Mapping[str, str]:
  """The laws that the description of a metric departs from."""
  about = description_of(metric)
  departs = {} if about is None else about.departs
  for law in departs:
    checks.choice(f"departs of {name_of(metric)}", law, LAWS)
  return departs


def _departs_of_loss(loss: Metric) -> Mapping[str, str]:
  """The laws that a loss departs from, by its attribute `departs`."""
  inner = loss.func if isinstance(loss, functools.partial) else loss
  departs: Mapping[str, str] = getattr(inner, "departs", {})
  for law in departs:
    checks.choice(f"departs of {name_of(loss)}", law, LOSS_LAWS)
  return departs


def _check(
  law: Callable[[Metric, Case], int],
  metric: Metric,
  drawn: st.SearchStrategy[Case],
  max_examples: int,
  seed: int,
  few: Metric,
  together: AssertionError | None,
  cutoffs: Sequence[int | None] = (),
) -> None:
  """Raises the error of the smallest case that breaks a law; `few` has it with fewer items.

  If no case breaks it alone, raises that of queries that break it `together`.
  """
  failures: list[tuple[Case, AssertionError]] = []

  def holds(case: Case) -> None:
    try:
      law(metric, case)
    except AssertionError as error:
      failures.append((case, error))
      raise

  try:
    _run(holds, drawn, max_examples, seed)
  except Exception:
    # hypothesis runs the smallest case last.
    if not failures:
      raise
  if failures:
    case, error = failures[-1]
    smallest = _with_fewer_items(law, few, case, error, cutoffs)
    raise smallest.with_traceback(None) from smallest.__cause__
  if together is not None:
    raise together.with_traceback(None)


def _run(
  test: Callable[[Case], None], drawn: st.SearchStrategy[Case], max_examples: int, seed: int
) -> None:
  """Calls a function with drawn cases; if it raises an error, with smaller and smaller ones."""
  settings = hypothesis.settings(
    max_examples=max_examples,
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck),
    verbosity=hypothesis.Verbosity.quiet,
  )
  settings(hypothesis.seed(seed)(hypothesis.given(drawn)(lambda case: test(case))))()


def _with_fewer_items(
  law: Callable[[Metric, Case], int],
  metric: Metric,
  case: Case,
  error: AssertionError,
  cutoffs: Sequence[int | None],
) -> AssertionError:
  """The error of the case with the fewest items that break the law, at the least cut-off."""
  n = case.scores.shape[-1]
  cuts = sorted(k for k in cutoffs if k is not None and case.k is not None and k < case.k)
  for size in range(1, n + 1):
    for items in itertools.combinations(range(n), size):
      for k in (*cuts, case.k) if size < n else cuts:
        try:
          law(metric, case.take(np.array(items))._replace(k=k))
        except AssertionError as other:
          return other
  return error
