"""Plots of curves, of values and of weights, with matplotlib, which the extra `plot` installs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxrank._core import checks

__all__ = [
  "precision_recall",
  "values",
  "weights",
]

# Curves of more cut-offs are drawn without markers.
_MARKED = 30


def precision_recall(
  curves: Sequence[ArrayLike] | Mapping[str, Sequence[ArrayLike]], *, ax: Any = None
) -> tuple[Any, Any]:
  """Plots precision-recall curves, with recall on the horizontal axis.

  Args:
    curves: A result of `precision_recall_curve` or `aggregate_curve`: `(precision, recall, ...)`,
      arrays `[max_k]` for one curve or `[curves, max_k]` for several. Or a mapping of names to
      curves of `[max_k]`, which gives a legend.
    ax: The axes of matplotlib to draw on; None makes a new figure.

  Returns:
    The figure and the axes.

  Raises:
    ModuleNotFoundError: if matplotlib is not installed.
    ValueError: if there is no curve, or shapes do not match.
    TypeError: if `curves` are not curves, or `ax` is not axes.
  """
  with checks.named("plot.precision_recall"):
    named = _named(curves)
    if not named:
      raise ValueError("curves must have at least one curve, got no curve.")
    figure, ax = _figure_and_axes(ax)
  for name, (precision, recall) in named.items():
    marker = "o" if len(precision) <= _MARKED else ""
    ax.plot(recall, precision, marker=marker, markersize=4, label=name or None)
  ax.set(xlabel="Recall", ylabel="Precision", xlim=(-0.02, 1.05), ylim=(-0.02, 1.05))
  ax.grid(True, alpha=0.3)
  if any(named):
    ax.legend()
  return figure, ax


def values(
  values: ArrayLike | Sequence[ArrayLike], *, name: str, ax: Any = None
) -> tuple[Any, Any]:
  """Plots one value of a metric as a point, or its history as a line over steps.

  Args:
    values: A scalar, or `[steps]`.
    name: The label of the vertical axis.
    ax: Axes of matplotlib; None for those of a new figure.

  Returns:
    The figure and the axes.

  Raises:
    ModuleNotFoundError: if matplotlib is not installed.
    ValueError: if `values` has more than one axis.
    TypeError: if `values` are not numbers, or `ax` is not axes.
  """
  with checks.named("plot.values"):
    history = _numbers("values", values)
    if history.ndim > 1:
      raise ValueError(f"values must be a scalar or have shape [steps], got {history.shape}.")
    figure, ax = _figure_and_axes(ax)
  ax.plot(np.atleast_1d(history), marker="o")
  ax.set(ylabel=name, ylim=(-0.1, 1.1))
  ax.grid(True, alpha=0.3)
  if history.ndim:
    ax.set_xlabel("Step")
    ax.xaxis.get_major_locator().set_params(integer=True)
  else:
    ax.xaxis.set_visible(False)
  return figure, ax


def weights(fit: Any, *, ax: Any = None) -> tuple[Any, Any]:
  """Plots a measure over the weights of fused systems: a line for two, a triangle for three.

  Equal weights, the best system alone and the tuned weights are marked, with their values on the
  queries that chose the weights.

  Args:
    fit: A result of `jaxrank.fusion.fit` for two systems or three.
    ax: Axes of matplotlib; None for those of a new figure.

  Returns:
    The figure and the axes.

  Raises:
    ModuleNotFoundError: if matplotlib is not installed.
    ValueError: if there are more than three systems.
    TypeError: if `fit` is no fit, or `ax` is not axes.
  """
  with checks.named("plot.weights"):
    if not hasattr(fit, "grid_values"):
      raise TypeError(f"fit must be a result of jaxrank.fusion.fit, got {checks.told(fit)}.")
    if len(fit.systems) > 3:
      raise ValueError(f"the weights of 2 or 3 systems can be drawn, got {len(fit.systems)}.")
    figure, ax = _figure_and_axes(ax)
  best = fit.systems.index(fit.best_system)
  tuned = " : ".join(f"{weight:.2f}" for weight in fit.weights)
  points = (
    ("s", "w", "equal weights", fit.grid[0], fit.grid_values[0]),
    (
      "D",
      "C1",
      f"{fit.best_system} alone",
      np.eye(len(fit.systems))[best],
      fit.system_values[best],
    ),
    ("*", "C3", f"tuned weights ({tuned})", fit.weights, fit.value),
  )
  if len(fit.systems) == 2:
    first, second = fit.systems
    order = np.argsort(fit.grid[:, 0])
    ax.plot(fit.grid[order, 0], fit.grid_values[order], color="C0", zorder=1)
    ax.set(xlabel=f"weight of {first};\nthe rest is that of {second}", ylabel=fit.measure)
    ax.grid(True, alpha=0.3)
  else:
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    filled = ax.tricontourf(*(fit.grid @ corners).T, fit.grid_values, levels=14, cmap="viridis")
    figure.colorbar(filled, ax=ax, label=fit.measure, shrink=0.8)
    for corner, name, below in zip(corners, fit.systems, (True, True, False), strict=True):
      ax.annotate(
        name,
        corner,
        (0, -9 if below else 9),
        textcoords="offset points",
        ha="center",
        va="top" if below else "bottom",
      )
    ax.set(aspect="equal", xlim=(-0.12, 1.12), ylim=(-0.1, 0.96))
    ax.axis("off")
  for marker, colour, name, of_systems, value in points:
    place = (of_systems[0], value) if len(fit.systems) == 2 else of_systems @ corners
    ax.plot(
      *place,
      marker,
      color=colour,
      markeredgecolor="k",
      markersize=15 if marker == "*" else 8,
      clip_on=False,
      label=f"{name}: {value:.4f}",
    )
  figure.legend(loc="outside lower center", frameon=False)
  ax.set_title(f"{fit.measure} of the {len(fit.values['equal'])} queries that chose the weights")
  return figure, ax


def _named(curves: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
  """Precision and recall of each curve by its name in the legend; one curve has no name."""
  if isinstance(curves, Mapping):
    return {str(name): _points(curve, 1) for name, curve in curves.items()}
  precision, recall = _points(curves, 2)
  if precision.ndim == 1:
    return {"": (precision, recall)}
  return {str(i): pair for i, pair in enumerate(zip(precision, recall, strict=True))}


def _points(curve: Any, max_axes: int) -> tuple[np.ndarray, np.ndarray]:
  if isinstance(curve, str) or not hasattr(curve, "__getitem__") or not hasattr(curve, "__len__"):
    raise TypeError(f"a curve is (precision, recall, ...), got {checks.told(curve)}.")
  if len(curve) < 2:
    raise ValueError(f"a curve is (precision, recall, ...), got {len(curve)} arrays.")
  precision, recall = _numbers("precision", curve[0]), _numbers("recall", curve[1])
  if precision.shape != recall.shape or not 1 <= precision.ndim <= max_axes:
    shape = "[max_k]" if max_axes == 1 else "[max_k] or [curves, max_k]"
    raise ValueError(
      f"precision and recall must both be {shape}, got {precision.shape} and {recall.shape}."
    )
  return precision, recall


def _numbers(name: str, x: Any) -> np.ndarray:
  return checks.on_host(name, x).astype(float)


def _figure_and_axes(ax: Any) -> tuple[Any, Any]:
  if ax is not None:
    if not hasattr(ax, "figure"):
      raise TypeError(f"ax must be the axes of matplotlib, or None, got {checks.told(ax)}.")
    return ax.figure, ax
  try:
    from matplotlib import pyplot
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      "plots need matplotlib, which is not installed: pip install matplotlib."
    ) from error
  return pyplot.subplots(layout="constrained")
