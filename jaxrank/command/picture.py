"""The picture of the command: the means of all runs, with intervals."""

from pathlib import Path

import numpy as np

from jaxrank.command.evaluating import Results

_QUANTILE = 1.96


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
  for j, (measure, axes) in enumerate(zip(measures, panels, strict=True)):
    good = results.goodness[j]
    for i, run in enumerate(runs):
      best = len(runs) > 1 and good[i] == good.max() > good.min()
      colour = "C1" if best else "C0"
      low, high = _interval(measure.description.aggregation, run.values[j])
      axes.plot([low, high], [i, i], color=colour, linewidth=2, alpha=0.5)
      axes.plot(run.totals[j], i, "o", color=colour)
    axes.set_title(measure.name)
    axes.grid(True, axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
  panels[0].set_yticks(range(len(runs)), [run.name for run in runs])
  panels[0].set_ylim(len(runs) - 0.5, -0.5)
  figure.savefig(path, dpi=150)


def _interval(aggregation: str, values: np.ndarray) -> np.ndarray:
  """The ends of the interval of the total of values `[queries]`, by the normal approximation."""
  error = np.std(values, ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
  ends = np.mean(values, dtype=np.float64) + np.array([-_QUANTILE, _QUANTILE]) * error
  if aggregation == "sum":
    return ends * values.size
  return np.exp(ends) if aggregation == "exp_mean" else ends
