"""`python docs/gallery/cost.py`: time by the length of the lists, from `cost.json` beside it."""

import json
from pathlib import Path

import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

MEASURED = Path(__file__).with_name("cost.json")
COLOURS = {
  "jaxrank": style.RED,
  "Laplace": style.RED,
  "Logistic": style.RED,
  "Gumbel": style.RED,
  "rax": style.BLUE,
  "all pairs": style.BLUE,
  "allRank": style.GREEN,
  "torchmetrics": style.GREEN,
  "ranx": style.YELLOW,
  "pytrec_eval": style.GREY,
  "scikit-learn": "#7b4fa3",
}
NAMES = {"Laplace": "Laplace(0.1)", "Logistic": "Logistic(0.1)", "Gumbel": "Gumbel(0.1)"}
# Points by which a name is moved from the end of its line, where it would cover another.
MOVED = {"rax": (4, -5), "torchmetrics": (4, 5), "ranx": (-10, 9), "pytrec_eval": (8, -3),
         "allRank": (-36, 6)}  # fmt: skip


def panel(axes: Axes, lengths: list[int], seconds: dict[str, list[float | None]]) -> None:
  """A line for each side, with its name where it ends, or starts if the end is crowded."""
  for name, times in seconds.items():
    points = [(n, 1e3 * t) for n, t in zip(lengths, times, strict=True) if t is not None]
    colour = COLOURS[name]
    axes.plot(*zip(*points, strict=True), ".-", color=colour, zorder=3 if name == "jaxrank" else 2)
    end = points[0 if name == "pytrec_eval" else -1]
    style.label(axes, *end, NAMES.get(name, name), colour, xytext=MOVED.get(name, (4, 0)))
  axes.set(xscale="log", yscale="log", xlabel="items in a list", xlim=(8, 1.1e6))
  axes.set_xticks([10, 100, 1_000, 10_000, 100_000])


def draw() -> list[Figure]:
  """Exact nDCG, and the gradient of smooth nDCG."""
  measured = json.loads(MEASURED.read_text(encoding="utf-8"))
  lengths, seconds, queries = measured["lengths"], measured["seconds"], measured["queries"]

  def metric(axes: Axes) -> None:
    panel(axes, lengths, seconds["nDCG"])
    axes.set(title=f"nDCG of {queries['nDCG']} lists", ylabel="best time of a call, milliseconds")

  def gradient(axes: Axes) -> None:
    panel(axes, lengths, seconds["gradient"])
    axes.set(title=f"Smooth nDCG of {queries['gradient']} lists and its gradient")

  return style.panels((5.4, 4.4), metric, gradient)


if __name__ == "__main__":
  style.save(draw)
