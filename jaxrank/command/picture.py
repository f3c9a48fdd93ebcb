"""The picture of the command: the means of all runs, with intervals."""

from pathlib import Path

import numpy as np

from jaxrank.command.evaluating import Results
from jaxrank.measures.measure import Measure
from jaxrank.streaming import summary


def draw(results: Results, path: Path) -> None:
  """Draws a panel for each measure: the total of each run and its 95% interval over queries."""
  try:
    from matplotlib.figure import Figure
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError("--plot needs matplotlib: pip install 'jaxrank[plot]'.") from error
  measures, runs = results.measures, results.runs
  size = (1.2 + 2.6 * len(measures), 1.1 + 0.34 * len(runs))
  figure = Figure(figsize=size, layout="constrained")
  panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
  best, intervals = results.best, [_intervals(measures, run.values) for run in runs]
  for j, (measure, axes) in enumerate(zip(measures, panels, strict=True)):
    for i, run in enumerate(runs):
      colour = "C1" if best[j, i] else "C0"
      axes.plot(intervals[i][:, j], [i, i], color=colour, linewidth=2, alpha=0.5)
      axes.plot(run.totals[j], i, "o", color=colour)
    axes.set_title(measure.name)
    axes.grid(True, axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
  panels[0].set_yticks(range(len(runs)), [run.name for run in runs])
  panels[0].set_ylim(len(runs) - 0.5, -0.5)
  figure.savefig(path, dpi=150)


def _intervals(measures: tuple[Measure, ...], values: np.ndarray) -> np.ndarray:
  """The ends, `[2, measures]`, of the intervals of the totals of values `[measures, queries]`."""
  count = values.shape[1]
  values = values.astype(np.float64)
  variance = np.var(values, axis=1, ddof=1) if count > 1 else np.zeros(len(values))
  found = summary.Summary(
    np.full(len(values), count), values.mean(axis=1), variance, np.sqrt(variance / count)
  )
  return np.stack(summary.interval(measures, found, 0.95))
