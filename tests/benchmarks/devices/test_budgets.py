"""Every program has a budget, every public metric and loss has programs, and budgets are held."""

import concurrent.futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.benchmarks.devices import budgets, by_hand, here, measuring, programs, report
from tests.benchmarks.devices.counting import Cost
from tests.helpers.suites import thorough
from tests.house import test_docs

pytestmark = pytest.mark.any_platform

TABLE = programs.table()
VALUES = [
  x
  for x in TABLE.values()
  if x.group in ("metrics", "losses") and x.shape == programs.SHORT and x.dtype == "float32"
]
NDCG, HAND = "ndcg [32, 1000]", f"{programs.TWO_SORTS} [32, 1000]"


def test_every_program_has_a_budget():
  held = {(x.group, x.shape) for x in TABLE.values() if x.group != "by hand"}
  assert held == set(budgets.HEADLINE | budgets.GENERAL)
  assert not set(budgets.HEADLINE) & set(budgets.GENERAL)
  headline = {(x.group, x.shape) for x in programs.headline()}
  assert headline == set(budgets.HEADLINE)
  memory = {(x.shape[1] > 256, budgets.of(x).memory) for x in programs.headline()}
  assert memory == {(False, None), (True, 30), (True, 80), (True, 100)}


def test_every_exemption_is_for_a_program_and_has_a_reason():
  for exemption in budgets.EXEMPTIONS:
    assert any(exemption.covers(x) for x in TABLE.values()), exemption
    assert exemption.reason
  assert budgets.of(TABLE["err, masked [32, 1000]"]).loops == 1
  assert budgets.of(TABLE["err, Laplace, masked [32, 1000]"]).loops == 0


def test_formulas_of_budgets_are_counted_at_their_shapes():
  for program in TABLE.values():
    formula = budgets.of(program).formula
    assert not formula or program._replace(title=formula).name in TABLE


def test_every_public_metric_and_loss_has_programs():
  titles = {x.title for x in TABLE.values()}
  public = {name.rsplit(".", 1)[1] for name in test_docs.OF_LISTS if "losses" not in name}
  assert {f"{name}, masked" for name in public} <= titles
  for name in jr.losses.__all__:
    assert {f"{name}, masked", f"gradient of {name}, masked, bfloat16"} <= titles
  for kind in ("Laplace", "Logistic", "Gumbel", "Gaussian"):
    assert {f"ndcg, {kind}, masked", f"gradient of ndcg, {kind}, masked"} <= titles


def test_the_twenty_measures_are_twenty():
  assert len(jr.parse(programs.TWENTY)) == 20


@thorough
@pytest.mark.parametrize("program", VALUES, ids=lambda x: x.name)
def test_programs_can_be_traced(program):
  small = program._replace(shape=(2, 12))
  try:
    value = jax.eval_shape(small.function, *small.arguments)
  except jr.UnansweredError:
    # Only LambdaRank may refuse a metric; docs/metrics.md names those that it refuses.
    assert program.title.startswith("lambda_rank, metric=")
  else:
    assert jax.tree.leaves(value)


def test_formulas_by_hand_are_right():
  scores = jnp.array([0.3, -1.0, 2.0, 0.5, 0.1])
  labels = jnp.array([2.0, 0.0, 1.0, 3.0, 0.0])
  given = {"gain": jr.gains.exponential}
  exact = by_hand.sorted_ndcg(scores, labels)
  np.testing.assert_allclose(exact, jr.ndcg(scores, labels, **given), rtol=1e-6)
  smooth = by_hand.pairwise_ndcg(scores, labels)
  np.testing.assert_allclose(smooth, jr.losses.approx_ndcg(scores, labels, **given), rtol=1e-5)


def rows(**of_ndcg):
  hand = measuring.Row(HAND, Cost(launches=9, cycles=1000))
  return {HAND: hand, NDCG: measuring.Row(NDCG, **of_ndcg)}


@pytest.mark.parametrize(
  ("platform", "found", "expected"),
  [
    ("cuda", {"cost": Cost(launches=16)}, set()),
    ("cuda", {"cost": Cost(launches=17, cycles=9999)}, {"launches"}),
    ("tpu", {"cost": Cost(launches=17, cycles=3000)}, set()),
    ("tpu", {"cost": Cost(cycles=3001)}, {"cycles"}),
    ("cuda", {"cost": Cost(loops=1, conditionals=1)}, {"loops", "conditionals"}),
    ("cuda", {"memory": 4 * 30 * 32000}, set()),
    ("tpu", {"memory": 4 * 30 * 32000 + 1}, {"memory"}),
    ("tpu", {"failure": "XlaRuntimeError: no"}, {"compiles"}),
    ("tpu", {"refused": "ndcg: no"}, set()),
  ],
)
def test_what_is_above_its_budget_is_named(platform, found, expected):
  measured = rows(**found)
  assert set(measuring.above(TABLE[NDCG], measured[NDCG], measured, platform)) == expected


def test_a_program_that_cannot_be_compared_is_above_its_budget():
  measured = rows()
  measured[HAND] = measuring.Row(HAND, failure="it does not compile")
  assert set(measuring.above(TABLE[NDCG], measured[NDCG], measured, "tpu")) == {"cycles"}


def test_tables_show_budgets_and_what_is_above_them():
  measured = rows(cost=Cost(launches=17, loops=0, cycles=2000), memory=128000)
  head, _, _, row = report.table([TABLE[HAND], TABLE[NDCG]], measured, "tpu")
  assert "times by hand" in head
  assert "2,000" in row
  assert "2 of 3" in row
  (_, _, _, row) = report.table([TABLE[HAND], TABLE[NDCG]], measured, "cuda")
  assert "**17** of 16" in row
  assert "1.0 of 30" in row
  summary = report.largest([TABLE[NDCG]], measured, "cuda")
  assert "17: ndcg" in summary[-1]


def test_a_section_of_a_page_is_replaced(tmp_path):
  path = tmp_path / "page.md"
  report.write(path, "## B", "old")
  path.write_text(f"# Page\n\n## A\n\na\n\n{path.read_text()}\n## C\n\nc\n")
  report.write(path, "## B", "new")
  report.write(path, "## D", "d")
  assert path.read_text() == "# Page\n\n## A\n\na\n\n## B\n\nnew\n\n## C\n\nc\n\n## D\n\nd\n"


def test_differences_are_relative_to_the_value_or_to_the_largest_of_the_query():
  assert here.difference({"a": jnp.array([2.0, 0.0])}, {"a": jnp.array([1.0, 0.0])}) == 1
  slopes = jnp.array([[4.0, 0.0], [1.0, 0.5]])
  assert here.difference(slopes + jnp.array([[0.0, 1.0], [0.0, 0.0]]), slopes) == 0.25


def test_each_side_has_a_time_and_failing_libraries_have_none(monkeypatch):
  def fails():
    raise RuntimeError("no")

  monkeypatch.setattr(here, "_SECONDS", 0.0)
  monkeypatch.setattr(here, "_others", lambda *_: {"other": lambda: 2, "broken": fails})
  expected = concurrent.futures.Future()
  expected.set_result(here.reference(NDCG))
  found = here.ready(TABLE[NDCG], expected)
  assert 0 < found.error == found.error_of_cpu < 1e-6
  assert not here.differs(found)
  assert here.differs(found._replace(error=2e-6))
  assert here.differs(found._replace(error=float("nan")))
  assert not here.differs(found._replace(error=4e-6, error_of_cpu=1e-6))
  times = here.measured(found.calls)
  assert set(times) == {"jaxrank", "other"}
  assert times["jaxrank"].seconds > times["other"].seconds > 0
  assert times["jaxrank"].kernels is None


def test_kernels_have_a_time_of_their_own():
  assert str(here.Times(2e-5, 1e-5)) == "20 us (10 us)"
  assert str(here.Times(2e-3, None)) == "2.00 ms"


def test_errors_of_a_program_are_raised_and_refusals_are_not():
  def refuses(scores, labels):
    raise jr.UnansweredError("no")

  never = concurrent.futures.Future()
  assert here.ready(TABLE[NDCG]._replace(function=refuses), never) is None
  with pytest.raises(ZeroDivisionError):
    here.ready(TABLE[NDCG]._replace(function=lambda scores, labels: 1 / 0), never)
