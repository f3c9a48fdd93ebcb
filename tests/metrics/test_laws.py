"""Laws that every public metric obeys: one table of metrics against a list of laws.

Laws of data ask the programs of `table.py`, which compute all metrics at once. Laws that need
programs of their own hold for one metric of each question.
"""

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import testing
from jaxrank.testing import laws
from tests.helpers import cases, oracles
from tests.helpers.suites import quick, thorough
from tests.helpers.traits import (
  CONCORDANCE,
  EXCEPTIONS,
  LEAST_LOGARITHM,
  LOGARITHMS,
  OF_MEAN_CURVES,
  OF_SETS,
  UNRETRIEVED,
)
from tests.metrics import table
from tests.metrics.table import ASKED, METRICS, ONCE, TIED, TIES, N

# One row for each way to look at a ranking, where a law is about what all share.
QUESTIONS = ["ndcg@3", "rr@2", "ap@3/cutoff", "err@3(max=4)", "kendall_tau"]
# Keys are made for whole lists and for the first ranks, and are the same for all metrics.
KEYED = ["ndcg@3", "rr@2", "kendall_tau"]
KINDS = [*QUESTIONS, "r_precision", "curve_recall", "auc(rel=2)", "spearman"]

questions = quick("name", QUESTIONS, ["kendall_tau"])
keyed = quick("name", KEYED, ["ndcg@3"])
kinds = quick("name", KINDS, ["kendall_tau"])
groups = quick("group", ["items", "subtopics"], ["items"])
random = quick("name", ["precision@2", *QUESTIONS[:-1]], ["rr@2"])

QUERIES = 24
LISTS = cases.draw(0, QUERIES, N, most_orders=10**6)
MANY = cases.draw(5, table.QUERIES, N, most_orders=10**6)
ALL_VALID = LISTS._replace(
  scores=np.random.default_rng(1).integers(-4, 5, (QUERIES, N)).astype(np.float32) / 2,
  labels=np.random.default_rng(2).integers(-1, 5, (QUERIES, N)).astype(np.float32),
  where=np.ones((QUERIES, N), bool),
)
VALID = np.ones((QUERIES, N), bool)


@functools.cache
def exact(ties: str) -> Any:
  """The same object for the same tie mode."""
  return jr.Exact(ties=ties)


def eager(name: str) -> Callable[..., Any]:
  """A metric of the table as a function of scores, labels and mask."""
  return lambda scores, labels, where: METRICS[name](scores, labels, where=where)


@functools.cache
def compiled(name: str) -> Callable[..., Any]:
  """A metric of the table, jitted once for all laws that need its own program."""
  return jax.jit(eager(name))


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
  """Frees what was compiled: a process may map only so many pieces of code."""
  yield
  compiled.cache_clear()
  table.forget()
  jax.clear_caches()


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[None]]:
  """The function jitted, and a list that grows by one with every trace."""
  traces: list[None] = []

  def traced(*args):
    traces.append(None)
    return function(*args)

  return jax.jit(traced), traces


def values(names: Iterable[str], drawn: Any, ties: str = "average") -> np.ndarray:
  """Values `[metrics, queries]`, from the program of all metrics."""
  found = table.EXACT[ties](*drawn[:3])
  return np.stack([found[name] for name in names])


def wider(drawn: cases.Cases, columns: int) -> tuple[np.ndarray, cases.Cases]:
  """The places of the old columns, and the queries among hostile padding."""
  rng = np.random.default_rng(columns)
  shape = (len(drawn.scores), columns)
  places = np.sort(rng.permutation(columns)[:N])
  padded = cases.Cases(
    rng.choice(np.float32(cases.HOSTILE_SCORES), shape),
    rng.choice(np.float32(cases.HOSTILE_LABELS), shape),
    np.zeros(shape, bool),
    np.zeros(shape, np.float32),
  )
  for wide, narrow in zip(padded, drawn, strict=True):
    wide[:, places] = narrow
  return places, padded


def moved(drawn: cases.Cases) -> cases.Cases:
  """The queries with their items in other columns, in the same order, among hostile padding."""
  rng = np.random.default_rng(0)
  first = np.arange(N) < drawn.where.sum(-1, keepdims=True)
  items = np.argsort(~drawn.where, axis=-1, kind="stable")
  columns = rng.random(drawn.where.shape).argsort(-1)
  columns = np.sort(np.where(first, columns, N), axis=-1)
  row, _ = np.nonzero(first)
  out = drawn._replace(
    scores=rng.choice(np.float32(cases.HOSTILE_SCORES), drawn.scores.shape),
    labels=rng.choice(np.float32(cases.HOSTILE_LABELS), drawn.labels.shape),
    where=np.zeros_like(drawn.where),
  )
  for new, old in zip(out[:3], drawn[:3], strict=True):
    new[row, columns[first]] = old[row, items[first]]
  return out


def same(actual, expected, rtol=2e-6, atol=2e-6) -> None:
  """Equal to rounding, NaN to NaN."""
  np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=atol)


def agree(names, actual, expected, rtol=2e-6, atol=2e-6) -> None:
  """Rows of values are equal to rounding, NaN to NaN; an error names the metrics of the others."""
  actual, expected = np.broadcast_arrays(np.asarray(actual), np.asarray(expected))
  hold([*names], np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True))


def hold(names, truth) -> None:
  """Something is true of all rows; an error names the metrics of which it is not."""
  axes = tuple(range(1, np.ndim(truth)))
  assert [
    name for name, is_so in zip(names, np.all(truth, axis=axes), strict=True) if not is_so
  ] == []


# Infinities and zeros of either sign tie, and the least numbers are numbers.
ODD_SCORES = testing.Case(
  np.float32(
    [[np.inf, np.inf, 0.0, -0.0, 0.0, -1, 5], [1e-45, 1e-44, -1e-45, 0.0, -0.0, 1e-40, -1e-40]]
  ),
  np.float32([[3, 0, 1, 0, 2, 0, 4], [3, 0, 1, 0, 2, 0, 4]]),
)
# All orders of few items are tried.
FEW = cases.draw(5, 4 * QUERIES, 5, most_orders=10**6)
RULES = (None, *map(exact, TIES[1:]))
LAPLACE: Any = jr.Laplace(0.7)
# Cases of which a law makes many others, with the gradients of each.
PART = testing.Case(*MANY.rows(slice(96))[:3], ranking=LAPLACE)
PIECE = testing.Case(*MANY.rows(slice(16))[:3], ranking=LAPLACE)
# Items that stand under a mask, before, behind and between those of narrower arrays.
NARROW = testing.Case(*cases.draw(6, 96, N - 3, most_orders=10**6)[:3], ranking=LAPLACE)


# The ratio of two answers, each of which is averaged over the orders of tied items.
RATIO = "ap@3/retrieved"
# Masked items are zeroed, to the last bit, and slopes are compared in float64.
TOLERANCES = {"mask": 0.0, "gradients": 1e-6}
# Laws that change arrays and no program.
OF_DATA = (
  *("mask", "nan", "padding", "permutation", "empty", "batch", "order", "ties"),
  *("cutoff", "long_cutoff", "range"),
)
# Laws of values and gradients under `Laplace` that do.
OF_SMOOTH_DATA = (
  *("mask", "nan", "padding", "permutation", "empty", "batch", "isolation", "limit"),
)
# Laws about the form and the types of arrays compile programs of their own.
OF_PROGRAMS = ("jit", "vmap", "dtypes")


def law_cases(law: str, name: str) -> list[testing.Case]:
  """The queries with which a metric meets a law, and how it is called on them."""
  row = METRICS[name]
  lists = testing.Case(*(FEW if law == "ties" else MANY)[:3])
  rules = RULES if name in TIED else RULES[:1]
  if law == "order":
    return [lists, ODD_SCORES]
  if law == "range":
    return [lists, lists._replace(scores=-lists.labels)]
  if law == "ties" and (row.about.name in EXCEPTIONS["ties"] or name == RATIO):
    # All rules agree where there is nothing to average.
    order = np.random.default_rng(3).random(lists.scores.shape).argsort(-1)
    return [lists._replace(scores=order.astype(np.float32) - 4)]
  if law in ("cutoff", "jit") and row.takes("k"):
    return [lists._replace(k=k) for k in (2, N + 2)]
  if law == "padding":
    # The masked columns of narrower arrays stand in the same program.
    return [testing.Case(*NARROW[:3])]
  if law == "permutation":
    rules = [rule for rule in rules if rule is None or rule.ties != "stable"]
  elif law != "nan":
    rules = rules[:1]
  return [lists._replace(ranking=rule) for rule in rules]


def applies(law: str, name: str) -> bool:
  """Whether a law says something of a metric."""
  about, row = METRICS[name].about, METRICS[name]
  if law == "long_cutoff" and not row.saturates:
    return False
  if law in ("cutoff", "long_cutoff") and not row.takes("k"):
    return False
  if law == "ties":
    return name in TIED
  if law == "range":
    # A row says itself how far a greedy ideal may be beaten.
    return bool(np.isfinite((row.low, row.high)).any())
  return about.name not in EXCEPTIONS.get(law, ())


def obey(law: str, names: Iterable[str], cases_of: Any) -> None:
  """All rows obey a law; an error names each of the others, and how it breaks the law."""
  wrong = {}
  for name in names:
    tolerance = 0.0 if law == "range" else TOLERANCES.get(law, 2e-6)
    for case in cases_of(name):
      try:
        compared = testing.LAWS[law](ASKED[name], case, tolerance=tolerance)
        assert compared >= len(case.scores) // 2, f"{compared} values were compared"
      except AssertionError as error:
        wrong.setdefault(name, str(error))
  assert not wrong, "\n\n".join(f"{name}: {text}" for name, text in wrong.items())


@pytest.mark.parametrize("law", OF_DATA)
def test_every_metric_obeys_the_laws_of_data(law):
  names = [name for name in METRICS if applies(law, name)]
  assert names
  obey(law, names, lambda name: law_cases(law, name))


@groups
@pytest.mark.parametrize("law", OF_SMOOTH_DATA)
def test_every_metric_obeys_the_laws_of_data_under_laplace(law, group):
  case = {"padding": NARROW, "isolation": PIECE, "batch": PIECE}.get(law, PART)
  obey(law, [name for name in table.smooth(group) if applies(law, name)], lambda name: [case])


def test_values_stay_beside_queries_that_are_not_finite_or_empty():
  """The law of isolation says so of gradients too, which compile for longer."""
  case = testing.Case(*MANY[:3])
  pairs = laws.pairs_of(case, [*laws.spoiled(case, masks=True)])
  beside = values(METRICS, (pairs.scores, pairs.labels, pairs.valid))[:, :, 0]
  agree(METRICS, beside, values(METRICS, MANY)[:, None])


def test_gradients_under_laplace_obey_the_law():
  """In float64, where all programs are compiled anew."""
  obey("gradients", table.ASKING, lambda name: [PART])


@thorough
@pytest.mark.parametrize("law", ["gradients", "isolation"])
def test_gradients_of_exact_metrics_obey_the_laws(law):
  obey(law, table.exact_slopes(), lambda name: [PIECE._replace(ranking=None)])


def test_scores_have_no_slope_under_exact_rankings():
  """Of all metrics, in a direction in which no slopes cancel."""
  scores, labels, where = MANY.rows(slice(table.SLOPES))[:3]

  direction = np.cos(np.arange(scores.size, dtype=np.float32)).reshape(scores.shape)

  @jax.jit
  def slopes(scores, labels, where):
    values = lambda x: table.evaluated(METRICS, x, labels, where, jr.Exact())  # noqa: E731
    return jax.jvp(values, (scores,), (direction,))[1]

  found = slopes(scores, labels, where)
  hold(METRICS, np.stack([found[name] for name in METRICS]) == 0)


def test_every_law_is_asked():
  assert {*OF_DATA, *OF_SMOOTH_DATA, *OF_PROGRAMS, "gradients"} == {*testing.LAWS}
  assert len(table.smooth("items")) > 30
  assert len(table.smooth("subtopics")) > 5


@quick(
  ("name", "law"),
  [(name, law) for name in KINDS for law in OF_PROGRAMS if applies(law, name)],
  [("kendall_tau", "vmap"), ("rr@2", "jit")],
)
def test_one_metric_of_each_kind_obeys_the_laws_of_programs(name, law):
  for case in law_cases(law, name):
    assert testing.LAWS[law](METRICS[name], case, tolerance=2e-6) >= len(case.scores) // 2


# Some lists are long enough for small cut-offs to select instead of sorting.
@quick(
  ("name", "columns"),
  [(name, columns) for name in KINDS for columns in (100, 5000)],
  [("ndcg@3", 100)],
)
def test_longer_padding_is_irrelevant(name, columns):
  case = testing.Case(*LISTS[:3])
  assert testing.check_padding(METRICS[name], case, columns=columns - N, tolerance=2e-6)


def test_precision_divides_by_a_cutoff_past_the_end():
  at = lambda k: jr.precision(*ALL_VALID[:2], k=k)  # noqa: E731
  same(at(N + 2) * (N + 2), at(N) * N)


def test_a_perfect_ranking():
  """The best labels are those of every query, so that each metric reaches the end of its range."""
  labels = np.random.default_rng(0).integers(0, 5, (QUERIES, N)).astype(np.float32)
  labels[:, :5] = [4, 3, 2, 1, 0]
  labels = np.random.default_rng(1).permuted(labels, axis=1)
  tied = np.zeros_like(labels)
  names = [name for name in METRICS if METRICS[name].perfect is not None]
  perfect = np.array([METRICS[name].perfect for name in names])[:, None]
  agree(names, values(names, (2 * labels, labels, VALID)), perfect)
  some = [name in TIED for name in names]
  chosen = np.array(names)[some].tolist()
  agree(chosen, values(chosen, (tied, labels, VALID), "optimistic"), perfect[some])
  pairs = [name for name in names if METRICS[name].about.name in CONCORDANCE]
  low, high = np.array([(METRICS[name].low, METRICS[name].high) for name in pairs]).T[..., None]
  agree(pairs, values(pairs, (tied, labels, VALID)), (low + high) / 2)
  agree(pairs, values(pairs, (-labels, labels, VALID)), low)


UNBRACKETED = (*OF_SETS, *OF_MEAN_CURVES)
BRACKETED = [
  name
  for name in ONCE
  if name in TIED
  and not METRICS[name].about.subtopics
  and METRICS[name].about.name not in UNBRACKETED
]


def test_tie_modes_bracket_the_average():
  average, stable, first, last = (values(BRACKETED, MANY, ties) for ties in TIES)
  better = np.array([METRICS[name].about.higher_is_better for name in BRACKETED])[:, None]
  best, worst = np.where(better, first, last), np.where(better, last, first)
  hold(BRACKETED, worst <= np.minimum(average, stable) + 2e-6)
  hold(BRACKETED, np.maximum(average, stable) <= best + 2e-6)
  hold(BRACKETED, np.any(worst < average - 1e-3, axis=1))
  hold(BRACKETED, np.any(average < best - 1e-3, axis=1))


# The label of every item of a query that holds nothing of what a metric seeks.
SOUGHT = {
  "relevant items": 0,
  "other items": 1,
  "relevant and other items": 0,
  "different labels": 0,
  "any items": None,
}


def without_items(name):
  """The value of a query without items, which is none that is counted."""
  name = METRICS[name].about.name
  return 0 if name == "query_count" else UNRETRIEVED.get(name, 0)


def nothing_found(name):
  """The value of a query that holds nothing of what a metric seeks."""
  return LEAST_LOGARITHM if METRICS[name].about.name in LOGARITHMS else 0


def test_nothing_to_find_is_zero():
  for label in {*SOUGHT.values()} - {None}:
    names = [name for name in METRICS if SOUGHT[METRICS[name].about.seeks] == label]
    labels = np.full_like(LISTS.labels, label)
    least = np.array([nothing_found(name) for name in names])[:, None]
    agree(names, values(names, (ALL_VALID.scores, labels, VALID)), least)
  empty = np.array([without_items(name) for name in METRICS])[:, None]
  for hidden in (LISTS.labels, np.full_like(LISTS.labels, np.nan)):
    agree(METRICS, values(METRICS, (LISTS.scores, hidden, ~VALID)), empty)


def test_nothing_retrieved():
  scores = np.full((QUERIES, N), -np.inf, np.float32)
  expected = np.stack(
    [np.full(QUERIES, UNRETRIEVED.get(m.about.name, 0)) for m in METRICS.values()]
  )
  chance = values(METRICS, (np.zeros_like(scores), ALL_VALID.labels, VALID))
  pairs = [METRICS[name].about.name in CONCORDANCE for name in METRICS]
  expected = np.where(np.array(pairs)[:, None], chance, expected)
  agree(METRICS, values(METRICS, (scores, ALL_VALID.labels, VALID)), expected)


def test_public_functions_have_the_values_of_the_program_of_all():
  """Called directly and not traced; `test_definitions.py` calls all of them."""
  lists = [x[:2] for x in MANY[:3]]
  for name in KINDS:
    same(METRICS[name](*lists[:2], where=lists[2]), values([name], MANY)[0, :2])


def of_average_ties(*lists) -> dict[str, jax.Array]:
  """One row for each metric."""
  return table.evaluated(ONCE, *lists, jr.Exact())


@pytest.mark.parametrize("shape", [(0, N), (3, 0)])
def test_no_queries_and_no_items(shape):
  nothing = np.zeros(shape, np.float32)
  found = jax.eval_shape(of_average_ties, nothing, nothing, nothing > 0)
  assert {name: x.shape for name, x in found.items()} == dict.fromkeys(ONCE, shape[:1])


@thorough
def test_values_of_no_items():
  nothing = np.zeros((3, 0), np.float32)
  found = jax.jit(of_average_ties)(nothing, nothing, nothing > 0)
  agree(ONCE, [found[name] for name in ONCE], [[without_items(name)] for name in ONCE])


def test_no_items_to_weigh():
  nothing = np.zeros((3, 0), np.float32)
  same(jr.ndcg(nothing, nothing, weights=nothing), np.zeros(3))


@pytest.mark.parametrize("name", ["dcg(exponential)", "ndcg(geometric)", "err@3(max=4)", "nerr@3"])
def test_gradients_in_the_labels_are_slopes(name):
  rng = np.random.default_rng(0)
  # Far enough apart for the ideal order not to change within a step.
  labels = rng.permuted(np.tile(np.linspace(0.5, 3.5, N, dtype=np.float32), (QUERIES, 1)), axis=1)
  direction = rng.uniform(-1, 1, labels.shape).astype(np.float32)
  step = np.float32(2.0**-7)
  call = lambda labels: compiled(name)(ALL_VALID.scores, labels, VALID)  # noqa: E731
  _, slope = jax.jvp(call, (labels,), (direction,))
  rise = call(labels + step * direction) - call(labels - step * direction)
  same(slope, rise / (2 * step), rtol=2e-3, atol=2e-3)


@quick("name", KEYED, ["ndcg@3"])
def test_dtypes_of_scores(name):
  places = np.tile(np.int32([[3, 0, 2, 5, 4, 1, 6]]), (QUERIES, 1))
  labels = ALL_VALID.labels.astype(np.int32)
  extremes = {
    "int8": [-128, -127, 0, 1, 2, 126, 127],
    "uint8": [0, 1, 2, 127, 128, 254, 255],
    "int32": [-(2**31), -(2**31) + 1, 0, 2**24, 2**24 + 1, 2**31 - 2, 2**31 - 1],
    "uint32": [0, 1, 2**24, 2**24 + 1, 2**31, 2**32 - 2, 2**32 - 1],
    "float16": [-65504, -1, 0, 1, 1 + 2**-10, 65504, np.inf],
    "bfloat16": [-3e38, -1, 0, 1, 1 + 2**-7, 3e38, np.inf],
  }
  expected = compiled(name)(places.astype(np.float32), labels, VALID)
  assert expected.dtype == jnp.float32
  for dtype, levels in extremes.items():
    scores = jnp.asarray(np.array(levels).astype(jnp.dtype(dtype))[places])
    value = compiled(name)(scores, labels, VALID)
    assert value.dtype == jnp.float32, dtype
    same(value, expected)
  signs = compiled(name)(places > 3, labels, VALID)
  same(signs, compiled(name)((places > 3).astype(np.float32), labels, VALID))


@questions
def test_dtypes_of_labels(name):
  for dtype in ("bool", "uint8", "int32", "bfloat16"):
    grades = np.random.default_rng(2).integers(0, 2 if dtype == "bool" else 5, (QUERIES, N))
    value = compiled(name)(ALL_VALID.scores, jnp.asarray(grades).astype(dtype), VALID)
    assert value.dtype == jnp.float32, dtype
    same(value, compiled(name)(ALL_VALID.scores, grades.astype(np.float32), VALID))


@keyed
def test_half_precision_is_its_float32_image(name):
  scores = 2 + np.random.default_rng(4).standard_normal((QUERIES, 40)).astype(np.float32) / 40
  labels = np.random.default_rng(5).integers(0, 3, scores.shape).astype(np.float32)
  where = np.ones_like(scores, bool)
  half = jnp.asarray(scores).astype(jnp.bfloat16)
  image = half.astype(jnp.float32)
  assert len(np.unique(image[0])) < len(np.unique(scores[0])) == 40
  same(compiled(name)(half, labels, where), compiled(name)(image, labels, where))


@quick("columns", [N, 40], [N])
@keyed
def test_float64_scores_are_ordered_exactly_where_jax_has_them(name, columns):
  gaps = np.random.default_rng(6).integers(-3, 4, (QUERIES, columns)).astype(np.float32)
  labels = np.random.default_rng(7).integers(0, 5, gaps.shape).astype(np.float32)
  where = np.ones_like(gaps, bool)
  expected = compiled(name)(gaps, labels, where)
  scores = 1 + gaps.astype(np.float64) * 2.0**-50
  tied = compiled(name)(np.ones_like(gaps), labels, where)
  same(METRICS[name](scores, labels, where=where), tied)
  with jax.enable_x64(True):
    value = METRICS[name](scores, labels.astype(np.float64))
    assert value.dtype == jnp.float64
  same(value, expected)


@pytest.mark.parametrize("name", ["recall@3(rel=2)", "reciprocal_rank", "auc"])
def test_a_threshold_between_the_labels(name):
  scores, labels = ALL_VALID.scores, ALL_VALID.labels.astype(np.int32)
  at = lambda rel: METRICS[name](scores, labels, rel=rel)  # noqa: E731
  swept = jax.jit(jax.vmap(at))(np.float32([0.5, 1.5]))
  one, two, between = jax.jit(lambda: [at(1), at(2), at(1.5)])()
  same(swept, jnp.stack([one, two]))
  same(between, two)


def random_ties(key) -> Any:
  """A ranking that breaks ties at random."""
  return jr.Exact(ties="random", key=key)


@random
def test_random_ties_average_out(name):
  drawn = cases.draw(9, 8, N, most_orders=10**6)
  keys = jax.random.split(jax.random.key(0), 4000)
  call = lambda key: METRICS[name](*drawn[:2], where=drawn.where, ranking=random_ties(key))  # noqa: E731
  draws = np.asarray(jax.jit(jax.vmap(call))(keys), np.float64)
  error = 5 * draws.std(0) / math.sqrt(len(keys)) + 1e-5
  assert np.all(np.abs(draws.mean(0) - compiled(name)(*drawn[:3])) <= error)


@random
def test_random_ties_are_reproducible_and_blind_to_padding(name):
  places, padded = wider(LISTS._replace(scores=np.round(LISTS.scores)), 31)
  first = [x[:, : places[-1] + 1] for x in padded[:3]]
  call = jax.jit(
    lambda key, *lists: METRICS[name](*lists[:2], where=lists[2], ranking=random_ties(key))
  )
  for seed in range(3):
    key = jax.random.key(seed)
    value = call(key, *first)
    np.testing.assert_array_equal(call(key, *first), value)
    same(call(key, *padded[:3]), value)


def test_random_ties_differ_between_queries_and_keys():
  labels = np.tile(np.arange(9, dtype=np.float32), (50, 1))
  call = lambda seed: np.asarray(  # noqa: E731
    jr.ndcg(np.zeros_like(labels), labels, ranking=random_ties(jax.random.key(seed)))
  )
  assert len(np.unique(call(0))) > 40
  assert np.mean(call(0) == call(1)) < 0.1


@questions
def test_inside_a_scan(name):
  steps = [x.reshape(4, QUERIES // 4, N) for x in LISTS[:3]]
  _, scanned = jax.lax.scan(lambda carry, lists: (carry, eager(name)(*lists)), 0, steps)
  same(scanned.reshape(-1), compiled(name)(*LISTS[:3]))


@kinds
def test_inside_a_shard_map(name):
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  sharded = jax.shard_map(eager(name), mesh=mesh, in_specs=P("q"), out_specs=P("q"))
  same(jax.jit(sharded)(*LISTS[:3]), compiled(name)(*LISTS[:3]))


@kinds
def test_under_an_explicit_mesh(name):
  expected = compiled(name)(*LISTS[:3])
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    lists = [jax.device_put(x, NamedSharding(mesh, P("q", None))) for x in LISTS[:3]]

    def total(scores, labels):
      value = eager(name)(scores, labels, lists[2])
      return jnp.sum(value), value

    slope, value = jax.jit(jax.grad(total, has_aux=True))(*lists[:2])
    assert jax.typeof(value).sharding.spec == P("q")
    same(value, expected)
    np.testing.assert_array_equal(slope, 0)


@pytest.mark.any_platform
@kinds
def test_exports_for_every_platform(name):
  exported = jax.export.export(jax.jit(eager(name)), platforms=("cpu", "cuda", "tpu"))(*LISTS[:3])
  assert exported.platforms == ("cpu", "cuda", "tpu")
  same(exported.call(*LISTS[:3]), compiled(name)(*LISTS[:3]))


@keyed
def test_one_trace_for_each_shape(name):
  call, traces = counted(eager(name))
  for seed in range(3):
    call(*cases.draw(seed, QUERIES, N)[:3])
  assert len(traces) == 1


@questions
def test_rankings_are_arguments(name):
  call, traces = counted(
    lambda ranking: METRICS[name](*LISTS[:2], where=LISTS.where, ranking=ranking)
  )
  same(call(exact("average")), compiled(name)(*LISTS[:3]))
  if name in TIED:
    for seed in range(3):
      call(random_ties(jax.random.key(seed)))
    assert len(traces) == 2


@pytest.mark.parametrize("name", ONCE)
def test_mistakes_of_shape(name):
  scores, labels, where = ALL_VALID[:3]
  call = METRICS[name]
  with pytest.raises(ValueError, match=r"\(24, 7\).*\(24, 6"):
    call(scores, labels[:, 1:])
  with pytest.raises(ValueError, match=r"\(24, 7\).*\(7,"):
    call(scores, labels[0])
  with pytest.raises(ValueError, match=r"where.*\(24, 6\).*\(24, 7\)"):
    call(scores, labels, where=where[:, 1:])
  with pytest.raises(ValueError, match="scalar"):
    call(np.float32(1.0), np.float32(1.0))


@pytest.mark.parametrize("name", ONCE)
def test_mistakes_of_dtype(name):
  scores, labels, where = ALL_VALID[:3]
  call = METRICS[name]
  for dtype in ("float32", "int32", "uint8"):
    with pytest.raises(TypeError, match=rf"where.*bool.*{dtype}"):
      call(scores, labels, where=where.astype(dtype))
  with pytest.raises(TypeError, match=r"scores.*complex64"):
    call(scores.astype(np.complex64), labels)
  with pytest.raises(TypeError, match=r"labels.*complex64"):
    call(scores, labels.astype(np.complex64))
  with pytest.raises(TypeError, match="scores"):
    call([["high", "low"]], np.ones((1, 2)))
  with pytest.raises(TypeError, match="swapped"):
    call(labels.astype(np.int32), scores)
  with pytest.raises(TypeError, match="swapped"):
    call(labels > 0, scores)


@pytest.mark.parametrize("name", [name for name in ONCE if METRICS[name].takes("k")])
def test_mistakes_of_cutoff(name):
  call = functools.partial(METRICS[name], *ALL_VALID[:2])
  for k in (0, -1, np.int32(0), np.array(-2)):
    with pytest.raises(ValueError, match=rf"\bk\b.*{int(k)}"):
      call(k=k)
  for k in (2.0, True, "3", np.float32(2), np.bool_(True), jnp.float32(2), np.ones(QUERIES, int)):
    with pytest.raises(TypeError, match=r"\bk\b"):
      call(k=k)
  for dtype in ("float32", "bool"):
    with pytest.raises(TypeError, match=dtype):
      jax.jit(lambda k: call(k=k))(np.ones((), dtype))


@pytest.mark.parametrize("max_k", [0, -1, 2.0, True])
def test_mistakes_of_the_depth_of_a_curve(max_k):
  with pytest.raises((ValueError, TypeError), match="max_k"):
    jr.precision_recall_curve(*ALL_VALID[:2], max_k=max_k)


def test_mistakes_of_choice():
  lists = ALL_VALID[:2]
  with pytest.raises(ValueError, match="'mean'"):
    jr.Exact(ties="mean")
  with pytest.raises((ValueError, TypeError), match="key"):
    jr.Exact(ties="random")
  with pytest.raises(ValueError, match="'n'"):
    jr.precision(*lists, divisor="n")
  with pytest.raises(ValueError, match="'r'"):
    jr.average_precision(*lists, normalizer="r")
  with pytest.raises(ValueError, match=r"weights.*\(24, 6\).*\(24, 7\)"):
    jr.ndcg(*lists, weights=lists[0][:, 1:])
  with pytest.raises(TypeError, match="topn"):
    jr.ndcg(*lists, topn=3)


SMOOTH_ORACLES = {
  "ndcg": oracles.smooth_ndcg,
  "ndcg(exponential)": functools.partial(oracles.smooth_ndcg, gains="exponential"),
  "ndcg(geometric)": functools.partial(oracles.smooth_ndcg, discounts=0.8),
  "err": functools.partial(oracles.smooth_err, max_label=4),
  "bpref": oracles.smooth_bpref,
  "gap": functools.partial(oracles.smooth_gap, max_label=4),
  "reciprocal_rank": oracles.smooth_reciprocal_rank,
  "average_precision": oracles.smooth_average_precision,
  "rbp": oracles.smooth_rbp,
}
smooth_questions = quick("name", ["ndcg@3", "err"], ["ndcg@3"])


@functools.cache
def soft(name: str) -> Callable[..., Any]:
  """Value and gradients of a smoothed metric of scores, labels, mask and temperature."""

  def total(scores, labels, where, temperature):
    value = METRICS[name](scores, labels, where=where, ranking=jr.Laplace(temperature))
    return jnp.sum(jnp.where(jnp.isnan(value), 0, value)), value

  def both(*args):
    (_, value), slopes = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(*args)
    return value, *slopes

  return jax.jit(both)


def at_temperature(name: str, temperature) -> Callable[..., Any]:
  """`soft` of the three fields."""
  return lambda *lists: soft(name)(*lists, np.float32(temperature))


def softly(group: str, drawn: Any, temperature: float) -> list[np.ndarray]:
  """Values `[metrics, queries]` of all under `Laplace`, and slopes in scores and labels."""
  scores = drawn[0]
  temperatures = np.full(scores.shape[:-1], temperature, scores.dtype)
  found = table.LAPLACE[group](*drawn[:3], temperatures)
  return [np.stack(x) for x in zip(*(found[name] for name in table.smooth(group)), strict=True)]


HALF = MANY.rows(slice(240))


@groups
@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 0.7, 1e30])
def test_smooth_values_and_gradients_are_finite(temperature, group):
  names = table.smooth(group)
  value, by_score, by_label = softly(group, HALF, temperature)
  for x in (value, by_score, by_label):
    hold(names, np.isfinite(x))
  hold(names, by_score[:, ~HALF.where | (HALF.scores == -np.inf)] == 0)
  hold(names, by_label[:, ~HALF.where] == 0)


@groups
def test_smooth_range_and_empty_queries(group):
  names = table.smooth(group)
  value, by_score, _ = softly(group, HALF, 0.7)
  for name, found, slope in zip(names, value, by_score, strict=True):
    row = METRICS[name]
    assert np.all(found >= row.low - 1e-6), name
    if "k" not in row.own:
      # The smooth steps at a cut-off need not add up to k.
      assert np.all(found <= row.high * (1 + 1e-6)), name
    empty = ~HALF.where.any(-1)
    assert empty.any()
    same(found[empty], without_items(name))
    lacking = ~empty & ~(HALF.where & (HALF.labels > 0)).any(-1)
    assert lacking.any()
    if row.about.seeks in ("relevant items", "relevant and other items"):
      same(found[lacking], nothing_found(name))
      empty |= lacking
    np.testing.assert_array_equal(slope[empty], 0, err_msg=name)


def test_smooth_values_and_slopes_in_float32_are_those_of_float64():
  names, some = table.ASKING, MANY.rows(slice(2 * table.SLOPES))
  chosen = [table.smooth("items").index(name) for name in names]
  single = [x[chosen] for x in softly("items", some, 0.7)]
  with jax.enable_x64(True):
    wide = some._replace(**{x: getattr(some, x).astype(np.float64) for x in ("scores", "labels")})
    double = softly("asking", wide, 0.7)
  agree(names, single[0], double[0], rtol=2e-6, atol=2e-6)
  for slope, right in zip(single[1:], double[1:], strict=True):
    agree(names, slope, right, rtol=1e-4, atol=1e-5)


@groups
def test_smooth_order_of_the_items_is_irrelevant(group):
  order = np.random.default_rng(0).random(HALF.scores.shape).argsort(-1)
  shuffled = cases.Cases(*(np.take_along_axis(x, order, -1) for x in HALF))
  value, slope, _ = softly(group, HALF, 0.7)
  other, moved, _ = softly(group, shuffled, 0.7)
  names = [name for name in table.smooth(group) if applies("permutation", name)]
  chosen = [name in names for name in table.smooth(group)]
  agree(names, other[chosen], value[chosen])
  slope = np.take_along_axis(slope, order[None], -1)
  agree(names, moved[chosen], slope[chosen], rtol=2e-5)


@groups
def test_smooth_where_the_padding_stands_is_irrelevant(group):
  other = moved(HALF)
  value, slope, _ = softly(group, HALF, 0.7)
  moved_value, moved_slope, _ = softly(group, other, 0.7)
  agree(table.smooth(group), moved_value, value)
  agree(table.smooth(group), moved_slope[:, other.where], slope[:, HALF.where])
  hold(table.smooth(group), moved_slope[:, ~other.where] == 0)


@smooth_questions
def test_smooth_longer_padding_is_irrelevant(name):
  places, padded = wider(LISTS, 12)
  value, slope, _ = soft(name)(*LISTS[:3], np.float32(0.7))
  wide_value, wide_slope, _ = map(np.asarray, soft(name)(*padded[:3], np.float32(0.7)))
  same(wide_value, value)
  same(wide_slope[:, places], slope)
  np.testing.assert_array_equal(wide_slope[~padded.where], 0)


@groups
def test_smooth_values_shift_and_scale(group):
  names, (scores, labels, where) = table.smooth(group), ALL_VALID[:3]
  value, slope, _ = softly(group, (scores, labels, where), 0.7)
  shifted, shifted_slope, _ = softly(group, (scores + 100, labels, where), 0.7)
  agree(names, shifted, value, rtol=1e-5, atol=1e-5)
  agree(names, shifted_slope, slope, rtol=1e-4, atol=1e-5)
  agree(names, slope.sum(-1), 0, atol=2e-5)
  for c in (2.0**-20, 3.0, 2.0**30):
    scaled, scaled_slope, _ = softly(group, (np.float32(c) * scores, labels, where), c * 0.7)
    agree(names, scaled, value, rtol=1e-5, atol=1e-5)
    agree(names, c * scaled_slope, slope, rtol=1e-4, atol=1e-5)


@groups
def test_smooth_is_exact_when_cold(group):
  for temperature in (1e-30, 1e-2):
    wrong = []
    for name in table.smooth(group):
      try:
        assert testing.check_limit(ASKED[name], PART, temperature=temperature)
      except AssertionError as error:
        wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)


@groups
def test_smooth_not_a_number_poisons_its_own_query(group):
  lists = [x.copy() for x in ALL_VALID[:3]]
  lists[0][2, 3] = lists[1][5, 1] = np.nan
  clean, clean_slope, _ = softly(group, ALL_VALID, 0.7)
  value, slope, _ = softly(group, lists, 0.7)
  clean[:, [2, 5]] = np.nan
  agree(table.smooth(group), value, clean)
  kept = np.delete(np.arange(QUERIES), [2, 5])
  agree(table.smooth(group), slope[:, kept], clean_slope[:, kept])


@groups
def test_smooth_gradients_are_slopes(group):
  """Of all metrics in float32, by differences of fourth order; the law says it in float64.

  `q_measure` is kinked where counts reach a limit, which a few queries cross.
  """
  lists, places = MANY.rows(slice(4 * table.SLOPES)), np.arange(N)
  order = np.random.default_rng(0).random(lists.scores.shape).argsort(-1)
  scores = np.where(
    np.isneginf(lists.scores), lists.scores, 0.75 * order + 0.1 * np.cos(3 * places)
  )
  direction, step = np.cos(1 + 2 * places), 2.0**-6

  def at(x):
    moved = (scores + x * step * direction).astype(np.float32)
    return [found.astype(np.float64) for found in softly(group, (moved, *lists[1:3]), 0.7)]

  value, slope, _ = at(0)
  first, second = (at(x)[0] - at(-x)[0] for x in (1, 2))
  size = np.maximum(1, np.abs(value))
  rise = np.sum(np.where(np.isneginf(scores), 0, slope * direction), axis=-1)
  expected = (8 * first - second) / (12 * step)
  close = np.isclose(rise / size, expected / size, rtol=0, atol=1e-4)
  names = table.smooth(group)
  kinked = np.array([name.startswith("q_measure") for name in names])
  hold(names, np.where(kinked, close.mean(-1) > 0.95, close.all(-1)))


def test_smooth_gradients_at_ties_are_slopes():
  rng = np.random.default_rng(0)
  scores = rng.standard_normal((table.SLOPES, N))
  scores[:, 3] = scores[:, 4]
  scores[:, 5] = -np.inf
  labels = rng.integers(0, 4, scores.shape).astype(np.float64)
  direction = rng.standard_normal(scores.shape)
  where = np.ones(scores.shape, bool)
  with jax.enable_x64(True):
    value, slope, _ = softly("asking", (scores, labels, where), 0.4)
    assert value.dtype == slope.dtype == np.float64
    # The Laplace distribution function has a second derivative that jumps at a tie, so that the
    # error of a difference is of the order of the step.
    above, below = (
      softly("asking", (scores + x * direction, labels, where), 0.4)[0] for x in (1e-8, -1e-8)
    )
  rise = np.sum(slope * np.where(scores > -np.inf, direction, 0), axis=-1)
  agree(table.ASKING, rise, (above - below) / 2e-8, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH_ORACLES)
def test_smooth_agrees_with_its_definition(name):
  place = table.smooth("items").index(name)
  for temperature in (0.05, 0.7, 5.0):
    value = softly("items", HALF, temperature)[0][place]
    expected = [SMOOTH_ORACLES[name](items, temperature) for items in HALF.queries()]
    same(value, expected, rtol=5e-6, atol=2e-6)


@quick("names", [["ndcg"], [name for name in SMOOTH_ORACLES if name != "ndcg"]], [["ndcg"]])
def test_smooth_agrees_with_its_definition_in_longer_lists(names):
  @jax.jit
  def of(scores, labels, where, temperature):
    return table.evaluated(names, scores, labels, where, jr.Laplace(temperature))

  long = cases.draw(2, 100, 50, most_orders=math.inf)
  for temperature in (0.05, 0.7, 5.0):
    values = of(*long[:3], np.float32(temperature))
    for name in names:
      expected = [SMOOTH_ORACLES[name](items, temperature) for items in long.queries()]
      same(values[name], expected, rtol=2e-5, atol=2e-6)


@thorough
@pytest.mark.parametrize("name", ["ndcg@3", "err"])
def test_smooth_temperatures_and_cutoffs_sweep(name):
  temperatures = np.float32([0.1, 0.7, 3.0])
  at = lambda ranking, **k: METRICS[name](*LISTS[:2], where=LISTS.where, ranking=ranking, **k)  # noqa: E731
  call, traces = counted(at)
  one_by_one = jnp.stack([call(jr.Laplace(t)) for t in temperatures])
  assert len(traces) == 1
  same(jax.jit(jax.vmap(lambda t: at(jr.Laplace(t))))(temperatures), one_by_one)
  same(jax.jit(jax.vmap(at))(jr.Laplace(temperatures)), one_by_one)
  ks = np.int32([1, N + 3])
  swept = jax.jit(jax.vmap(lambda k: at(jr.Laplace(0.7), k=k)))(ks)
  static = jax.jit(lambda: [at(jr.Laplace(0.7), k=int(k)) for k in ks])()
  same(swept, jnp.stack(static))


@pytest.mark.any_platform
@thorough
@pytest.mark.parametrize("name", ["err"])
def test_smooth_metrics_train_anywhere(name):
  value, slope, _ = soft(name)(*LISTS[:3], np.float32(0.7))
  each = at_temperature(name, 0.7)
  alone = each(*(x[0] for x in LISTS[:3]))
  same(alone[0], value[0])
  same(alone[1], slope[0], rtol=2e-5)
  steps = [x.reshape(4, QUERIES // 4, N) for x in LISTS[:3]]
  _, scanned = jax.lax.scan(lambda carry, lists: (carry, each(*lists)), 0, steps)
  same(scanned[0].reshape(-1), value)
  same(scanned[1].reshape(slope.shape), slope, rtol=2e-5)
  exported = jax.export.export(soft(name), platforms=("cpu", "cuda", "tpu"))(*LISTS[:3], 0.7)
  same(exported.call(*LISTS[:3], 0.7)[1], slope, rtol=2e-5)


@thorough
@pytest.mark.parametrize("name", ["ndcg@3"])
def test_smooth_metrics_train_on_many_devices(name):
  value, slope, _ = soft(name)(*LISTS[:3], np.float32(0.7))
  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  each = at_temperature(name, 0.7)
  sharded = jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("q"), out_specs=P("q")))
  same(sharded(*LISTS[:3])[1], slope, rtol=2e-5)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    lists = [jax.device_put(x, NamedSharding(mesh, P("q", None))) for x in LISTS[:3]]
    spread, spread_slope, _ = soft(name)(*lists, 0.7)
    assert jax.typeof(spread_slope).sharding.spec == P("q", None)
    same(spread, value)
    same(spread_slope, slope, rtol=2e-5)


@quick("name", ["ndcg@3", "err", "rbp"], ["rbp"])
def test_smooth_half_precision(name):
  half = jnp.asarray(ALL_VALID.scores).astype(jnp.bfloat16)
  value, slope, _ = soft(name)(half, *ALL_VALID[1:3], np.float32(0.7))
  expected, wide, _ = soft(name)(half.astype(jnp.float32), *ALL_VALID[1:3], np.float32(0.7))
  assert value.dtype == jnp.float32
  assert slope.dtype == half.dtype
  same(value, expected)
  same(slope.astype(jnp.float32), wide, rtol=2e-2, atol=1e-3)


@thorough
@pytest.mark.parametrize(
  ("name", "kind"), [("ndcg@3", "Gumbel"), ("err", "Gumbel"), ("ndcg", "Logistic")]
)
def test_other_rankings_obey_the_laws(name, kind):
  """Finite, 0 under the mask, and the same for another order, other padding, shifts and scales."""

  @jax.jit
  def both(scores, labels, where, temperature):
    ranking = getattr(jr, kind)(temperature)

    def total(scores):
      value = METRICS[name](scores, labels, where=where, ranking=ranking)
      return jnp.sum(value), value

    (_, value), slope = jax.value_and_grad(total, has_aux=True)(scores)
    return value, slope

  places, padded = wider(LISTS, 12)
  value, slope = both(*padded[:3], np.float32(0.7))
  slope = np.asarray(slope)
  assert np.all(np.isfinite(value))
  assert np.all(np.isfinite(slope))
  np.testing.assert_array_equal(slope[~padded.where], 0)
  first, whole = (
    [np.pad(x, ((0, 0), (0, 12 - N))) for x in lists[:3]] for lists in (LISTS, ALL_VALID)
  )
  first_value, first_slope = both(*first, np.float32(0.7))
  same(first_value, value)
  same(first_slope[:, :N], slope[:, places])
  back = [x[:, ::-1] for x in first]
  other, other_slope = both(*back, np.float32(0.7))
  same(other, value)
  same(other_slope[:, ::-1], first_slope)
  scores, *others = whole
  value, slope = both(scores, *others, np.float32(0.7))
  for move, c in ((100, 1), (0, 3), (0, 2**30)):
    moved = np.float32(c) * (scores + np.float32(move))
    other, other_slope = both(moved, *others, np.float32(0.7 * c))
    same(other, value, rtol=1e-5, atol=1e-5)
    same(c * other_slope, slope, rtol=1e-3, atol=1e-5)


def test_mistakes_of_smoothing():
  lists = ALL_VALID[:2]
  for temperature in (0.0, -1.0):
    with pytest.raises(ValueError, match=f"temperature.*{temperature}"):
      jr.ndcg(*lists, ranking=jr.Laplace(temperature))
  with pytest.raises(jr.UnansweredError, match=r"^average_precision: .*Laplace.*retrieved"):
    jr.average_precision(*lists, normalizer="retrieved", ranking=jr.Laplace(1.0))
  for metric in (jr.ordered_pair_accuracy, jr.kendall_tau):
    with pytest.raises(jr.UnansweredError, match=f"^{metric.__name__}: .*Laplace.*pairs"):
      metric(*lists, ranking=jr.Laplace(1.0))
