"""`check_metric`, which tests a metric against the laws, and `LAWS`, the table of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import hypothesis
import numpy as np
from hypothesis import strategies as st

from jaxrank._core import checks
from jaxrank._core.ranked import Ranking
from jaxrank.rankings.exact import Exact
from jaxrank.rankings.expected_rank import Laplace
from jaxrank.testing import exact, laws, numbers, strategies
from jaxrank.testing.asking import Metric, takes
from jaxrank.testing.queries import Case

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
    "dtypes": numbers.check_dtypes,
    "order": exact.check_order,
    "ties": exact.check_ties,
    "cutoff": exact.check_cutoff,
    "long_cutoff": exact.check_long_cutoff,
    "limit": exact.check_limit,
    "gradients": numbers.check_gradients,
  }
)

_RANKINGS = (Exact(), Laplace(1.0))


def check_metric(
  metric: Metric,
  *,
  laws: Iterable[str] = tuple(LAWS),
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
    scores: A strategy of scores `[n]`; None is `jaxrank.testing.scores(n)`.
    labels: A strategy of labels `[n]`; None is `jaxrank.testing.labels(n)`. Metrics of binary
      labels take `jaxrank.testing.labels(n, values=(0, 1))`.
    cutoffs: The values of `k`, if the metric takes it.
    rankings: The rankings, if the metric takes `ranking`. Random ties are not allowed.
    n: The number of items of a query; at most 6 if `laws` has `"ties"`.
    max_examples: The number of cases for each law and ranking.
    seed: The seed of the cases. A run with the same seed has the same cases.

  Raises:
    AssertionError: if the metric breaks a law, or raises an error.
    ValueError: if `laws` has a name that is not in `LAWS`, or a number is out of range.
    TypeError: if the metric is no function.
  """
  with checks.named("check_metric"):
    checks.function("metric", metric, "a metric of scores and labels")
    chosen = list(laws)
    for law in chosen:
      checks.choice("laws", law, LAWS)
    n = checks.count("n", n)
    max_examples = checks.count("max_examples", max_examples)
  options = takes(metric)
  for law in (law for law in LAWS if law in chosen):
    for ranking in rankings if "ranking" in options else (None,):
      drawn = strategies.cases(
        n,
        scores=scores,
        labels=labels,
        where=None if "where" in options else st.just(np.ones(n, bool)),
        cutoffs=cutoffs if "k" in options else (None,),
        rankings=(ranking,),
      )
      _check(LAWS[law], metric, drawn, max_examples, seed)


def _check(
  law: Callable[[Metric, Case], int],
  metric: Metric,
  drawn: st.SearchStrategy[Case],
  max_examples: int,
  seed: int,
) -> None:
  """Raises the error of the smallest case that breaks a law."""
  failures: list[tuple[Case, AssertionError]] = []

  def holds(case: Case) -> None:
    try:
      law(metric, case)
    except AssertionError as error:
      failures.append((case, error))
      raise

  test = hypothesis.seed(seed)(hypothesis.given(drawn)(holds))
  settings = hypothesis.settings(
    max_examples=max_examples,
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck),
    verbosity=hypothesis.Verbosity.quiet,
  )
  try:
    settings(test)()
  except Exception:
    # hypothesis runs the smallest case last.
    if not failures:
      raise
  if failures:
    case, error = failures[-1]
    smallest = _with_fewer_items(law, metric, case, error)
    raise smallest.with_traceback(None) from smallest.__cause__


def _with_fewer_items(
  law: Callable[[Metric, Case], int], metric: Metric, case: Case, error: AssertionError
) -> AssertionError:
  """The error of the case without the items that it does not take to break the law."""
  for i in reversed(range(case.scores.shape[-1])):
    fewer = case.take(np.delete(np.arange(case.scores.shape[-1]), i))
    if fewer.scores.size:
      try:
        law(metric, fewer)
      except AssertionError as found:
        case, error = fewer, found
  return error
