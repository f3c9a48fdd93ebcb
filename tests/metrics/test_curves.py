"""Curves: interpolation, the aggregated curve, recall at fixed precision, and their pictures."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers import cases, oracles

LEVELS = [i / 10 for i in range(11)]
# The example of torchmetrics: two queries of 4 and 3 items.
QUERY = [0, 0, 0, 0, 1, 1, 1]
SCORES = np.float32([0.4, 0.01, 0.5, 0.6, 0.2, 0.3, 0.5])
LABELS = [1, 0, 0, 1, 1, 0, 1]


recall_at = jax.jit(jr.recall_at_fixed_precision)


def same(value, expected):
  np.testing.assert_allclose(value, expected, rtol=2e-6, atol=2e-6)


@pytest.fixture(scope="module")
def drawn():
  return cases.draw(11, 400)


@pytest.fixture(scope="module")
def curves(drawn):
  return jr.precision_recall_curve(drawn.scores, drawn.labels, where=drawn.where)


@pytest.fixture(scope="module")
def agreed(drawn):
  """The curves of the oracle, as lists of pairs."""
  padded = drawn.scores.shape[1]
  found = [oracles.curve(items, max_k=padded)[:2] for items in drawn.queries()]
  return [list(zip(*curve, strict=True)) for curve in found]


def test_levels_sweep(drawn):
  def at(level):
    return jr.interpolated_precision(drawn.scores, drawn.labels, where=drawn.where, level=level)

  value = jax.jit(jax.vmap(at))(jnp.array(LEVELS))
  average = jr.eleven_point_average(drawn.scores, drawn.labels, where=drawn.where)
  same(average, np.mean(value, axis=0))
  queries = drawn.rows(slice(100)).queries()
  for level, found in zip(LEVELS, value, strict=True):
    expected = [oracles.interpolated_precision(items, level=level) for items in queries]
    same(found[:100], expected)


def test_interpolated_precision_of_an_order():
  """A worked example: relevant at ranks 1, 3, 6, 10 of 10, and one not retrieved."""
  scores = np.r_[np.arange(10, 0, -1.0), -np.inf].astype(np.float32)
  labels = np.isin(np.arange(11), [0, 2, 5, 9, 10])
  value = [float(jr.interpolated_precision(scores, labels, level=level)) for level in LEVELS]
  same(value, [1, 1, 1, 2 / 3, 2 / 3, 0.5, 0.5, 0.4, 0.4, 0, 0])


def test_levels_of_recall_are_reached_in_spite_of_rounding():
  """R = 1 ... 40: the level h / R in float32 is reached by the h-th hit."""
  at = jax.jit(functools.partial(jr.interpolated_precision))
  scores = np.arange(80, 0, -1, dtype=np.float32)
  for relevant in (3, 7, 10, 30, 39):
    labels = np.arange(80) % 2 * (np.arange(80) < 2 * relevant)
    for hits in range(1, relevant + 1):
      best = 0.5  # of every hit, at rank 2h
      same(at(scores, labels, level=np.float32(hits / relevant)), best)
  same(at(scores, labels, level=np.float32(1.001)), 0)


def test_interpolation_by_name(drawn):
  names = ["interpolated_precision(level=0.3)", "eleven_point_average"]
  values = jr.evaluate(names, drawn.scores, drawn.labels, where=drawn.where)
  at = jr.interpolated_precision(drawn.scores, drawn.labels, where=drawn.where, level=0.3)
  same(values[names[0]], at)


def test_a_level_needs_an_exact_ranking():
  for metric in (jr.interpolated_precision, jr.eleven_point_average):
    with pytest.raises(jr.UnansweredError, match=f"^{metric.__name__}: .*Laplace"):
      metric(jnp.arange(3.0), jnp.ones(3), ranking=jr.Laplace(1.0))


@pytest.mark.parametrize("min_precision", [0.0, 0.3, 0.5, 2 / 3, 1.0])
def test_recall_at_fixed_precision_agrees_with_its_definition(curves, agreed, min_precision):
  recall, k = recall_at(curves, min_precision)
  assert k.dtype == jnp.int32
  best = [max([0.0, *(r for p, r in x if p >= min_precision - 1e-9)]) for x in agreed]
  same(recall, best)
  for points, at, highest in zip(agreed, np.asarray(k), best, strict=True):
    if not highest:
      assert at == len(points)
      continue
    same(points[at - 1][1], highest)
    assert points[at - 1][0] >= min_precision - 2e-6
    # It is the last such cut-off, unless rounding decides.
    assert not any(p > min_precision + 2e-6 and r > highest - 1e-9 for p, r in points[at:])


def test_the_curve_is_aggregated_cut_off_by_cut_off(curves, drawn):
  kept = np.asarray(jr.has_relevant(drawn.labels, where=drawn.where))
  precision, recall = np.asarray(curves.precision), np.asarray(curves.recall)
  for how, reduce in {"mean": np.mean, "median": np.median, "max": np.max}.items():
    found = jr.aggregate_curve(curves, where=kept, how=how)
    same(found.precision, reduce(precision[kept], axis=0))
    same(found.recall, reduce(recall[kept], axis=0))
  spread = jr.aggregate_curve(curves, how=jnp.std)
  same(spread.precision, precision.std(0))
  nothing = jr.aggregate_curve(curves, where=np.zeros_like(kept))
  same(nothing.precision, 0)
  np.testing.assert_array_equal(nothing.k, np.arange(1, 9))


def test_recall_of_the_aggregated_curve_is_not_the_mean_of_recalls():
  # Two queries of two items: both relevant, and the second alone.
  precision, recall = np.float32([[1, 1], [0, 0.5]]), np.float32([[0.5, 1], [0, 1]])
  curves = jr.Curve(precision, recall, np.int32([[1, 2], [1, 2]]))
  total, k = jr.recall_at_fixed_precision(jr.aggregate_curve(curves), 0.6)
  assert (float(total), int(k)) == (1.0, 2)
  same(jr.recall_at_fixed_precision(curves, 0.6)[0], [1, 0])


def test_the_example_of_the_original():
  batch = jr.pad(QUERY, SCORES, LABELS)
  curves = jr.precision_recall_curve(batch.scores, batch.labels, where=batch.where)
  curve = jr.aggregate_curve(curves)
  same(curve.precision, [1, 0.5, 2 / 3, 0.5])
  same(curve.recall, [0.5, 0.5, 1, 1])
  expected = {0.0: (1, 4), 0.3: (1, 4), 0.5: (1, 4), 0.6: (1, 3), 0.66: (1, 3), 0.8: (0.5, 1)}
  for min_precision, pair in expected.items():
    assert tuple(map(float, jr.recall_at_fixed_precision(curve, min_precision))) == pair


def test_nan_stays_nan():
  curve = jr.precision_recall_curve(jnp.array([1.0, jnp.nan]), jnp.array([1, 0]))
  assert np.isnan(jr.recall_at_fixed_precision(curve, 0.0)[0])
  assert np.isnan(jr.aggregate_curve([x[None] for x in curve]).recall).all()


def test_cut_offs_are_integers_for_wide_scores_too():
  scores = np.array([[3.0, 2.0, 1.0]])
  curve = jr.precision_recall_curve(scores, np.array([[1, 0, 1]]))
  assert isinstance(curve, jr.Curve)
  assert [x.dtype.kind for x in curve] == ["f", "f", "i"]


def test_mistakes_name_what_came():
  with pytest.raises(ValueError, match=r"recall.*\(2,\).*\(3,\)"):
    jr.recall_at_fixed_precision((jnp.ones(3), jnp.ones(2), jnp.ones(3)), 0.5)
  with pytest.raises(ValueError, match="scalars"):
    jr.aggregate_curve((1.0, 1.0, 1))
  with pytest.raises(ValueError, match="'mode'"):
    jr.aggregate_curve((jnp.ones((1, 3)),) * 3, how="mode")
  with pytest.raises(TypeError, match="three arrays, got None"):
    jr.aggregate_curve(None)
  curve = (jnp.ones(3),) * 3
  with pytest.raises(ValueError, match=r"min_precision must be in \[0, 1\], got 2.0"):
    jr.recall_at_fixed_precision(curve, 2.0)
  with pytest.raises(TypeError, match="min_precision must be a number, got None"):
    jr.recall_at_fixed_precision(curve, None)
  with pytest.raises(TypeError, match="level must be a number, got 'a'"):
    jr.interpolated_precision(SCORES, LABELS, level="a")
  with pytest.raises(TypeError, match="adaptive_k must be True or False, got 1"):
    jr.precision_recall_curve(SCORES, LABELS, adaptive_k=1)


class TestPlot:
  @pytest.fixture(autouse=True)
  def pyplot(self):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")

  curve = (np.array([1, 0.5, 2 / 3]), np.array([0.5, 0.5, 1]), np.array([1, 2, 3]))

  def test_recall_runs_across_and_precision_up(self):
    figure, ax = jr.plot.precision_recall(self.curve)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), self.curve[1])
    np.testing.assert_array_equal(line.get_ydata(), self.curve[0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Recall", "Precision")
    assert ax.get_legend() is None
    assert ax.figure is figure

  def test_several_curves_on_given_axes(self, pyplot):
    _, given = pyplot.subplots()
    several = [jnp.asarray(np.stack([x, x / 2])) for x in self.curve]
    figure, ax = jr.plot.precision_recall(several, ax=given)
    assert ax is given
    assert figure is given.figure
    np.testing.assert_allclose(ax.lines[1].get_ydata(), self.curve[0] / 2)
    assert [x.get_text() for x in ax.get_legend().get_texts()] == ["0", "1"]

  def test_named_curves_may_differ_in_length(self):
    shorter = tuple(x[:2] for x in self.curve)
    _, ax = jr.plot.precision_recall({"long": self.curve, "short": shorter})
    assert [len(x.get_xdata()) for x in ax.lines] == [3, 2]
    assert [x.get_text() for x in ax.get_legend().get_texts()] == ["long", "short"]

  def test_values(self):
    _, ax = jr.plot.values(np.float32(0.25), name="MRR")
    assert ax.get_ylabel() == "MRR"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.25])
    _, ax = jr.plot.values([0.25, 0.5], name="MRR")
    assert ax.get_xlabel() == "Step"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.25, 0.5])

  def test_mistakes_name_what_came(self):
    with pytest.raises(ValueError, match=r"\(3,\) and \(2,\)"):
      jr.plot.precision_recall((np.ones(3), np.ones(2)))
    with pytest.raises(ValueError, match=r"\(1, 3\)"):
      jr.plot.precision_recall({"many": (np.ones((1, 3)), np.ones((1, 3)))})
    with pytest.raises(ValueError, match="1 array"):
      jr.plot.precision_recall((np.ones(3),))
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
      jr.plot.values(np.ones((2, 2)), name="MRR")
    for curve in (None, 3, "abc"):
      with pytest.raises(TypeError, match=r"a curve is \(precision, recall, ...\), got"):
        jr.plot.precision_recall(curve)
    with pytest.raises(ValueError, match="no curve"):
      jr.plot.precision_recall({})
    for values in (None, "abc", ["a"]):
      with pytest.raises(TypeError, match="values must be an array of numbers, got"):
        jr.plot.values(values, name="MRR")
    with pytest.raises(TypeError, match="ax must be the axes of matplotlib, or None, got 3"):
      jr.plot.values(1.0, name="MRR", ax=3)


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, "matplotlib", None)
  with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
    jr.plot.precision_recall(TestPlot.curve)
