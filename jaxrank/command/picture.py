"""The pictures of the command: means of runs with intervals, and a measure over weights."""

from pathlib import Path
from typing import Any

import numpy as np

from jaxrank import plot
from jaxrank.command.comparing import Compared
from jaxrank.command.evaluating import Results
from jaxrank.fusion import Fit
from jaxrank.measures.measure import Measure
from jaxrank.streaming import summary


def draw(results: Results, compared: Compared | None, path: Path) -> None:
  """Draws the total of each run by each measure with its 95% interval over queries.

  If there are ranks, those that each run may have stand below, in a colour for each tier.
  """
  measures, runs = results.measures, results.runs
  ranks = None if compared is None else compared.ranks
  rows = 1 if ranks is None else 2
  size = (1.2 + 2.6 * len(measures), rows * (1.1 + 0.34 * len(runs)))
  figure = _figure(*size)
  panels = figure.subplots(rows, len(measures), sharey=True, squeeze=False)
  best, intervals = results.best, [_intervals(measures, run.values) for run in runs]
  for j, (measure, axes) in enumerate(zip(measures, panels[0], strict=True)):
    for i, run in enumerate(runs):
      colour = "C1" if best[j, i] else "C0"
      axes.plot(intervals[i][:, j], [i, i], color=colour, linewidth=2, alpha=0.5)
      axes.plot(run.totals[j], i, "o", color=colour)
    axes.set_title(measure.name)
  # Without ranks there is one row of panels.
  for axes, of_measure in zip(panels[1:].flat, () if ranks is None else ranks, strict=True):
    for i, (lowest, highest, tier) in enumerate(of_measure):
      axes.plot([lowest, highest], [i, i], "o-", color=f"C{tier % 10}", linewidth=2)
    axes.set_title("Ranks")
    axes.set_xlim(0.5, len(runs) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
  for axes in panels.flat:
    axes.grid(True, axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
  for axes in panels[:, 0]:
    axes.set_yticks(range(len(runs)), [run.name for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
  _save(figure, path)


def draw_weights(fit: Fit, path: Path) -> None:
  """Draws the measure over the weights of two runs, as a line, or of three, as a triangle."""
  figure = _figure(6.4, 5.4)
  plot.weights(fit, ax=figure.subplots())
  _save(figure, path)


def _figure(width: float, height: float) -> Any:
  try:
    from matplotlib.figure import Figure
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError("--plot needs matplotlib: pip install 'jaxrank[plot]'.") from error
  return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
  try:
    figure.savefig(path, dpi=150)
  except ValueError as error:
    raise ValueError(
      f"--plot: {error}; pass the name of a file such as {path.with_suffix('.png')}."
    ) from error


def _intervals(measures: tuple[Measure, ...], values: np.ndarray) -> np.ndarray:
  """The ends, `[2, measures]`, of the intervals of the totals of values `[measures, queries]`."""
  count = values.shape[1]
  values = values.astype(np.float64)
  variance = np.var(values, axis=1, ddof=1) if count > 1 else np.zeros(len(values))
  summarised = summary.Summary(
    np.full(len(values), count), values.mean(axis=1), variance, np.sqrt(variance / count)
  )
  return np.stack(summary.interval(measures, summarised, 0.95))
