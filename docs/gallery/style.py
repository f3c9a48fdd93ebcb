"""What the scripts of the gallery share: colours, a figure in one style, and how they are run.

The background is white on purpose: the same file is shown by light and dark themes.
"""

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, GREEN, RED, YELLOW = "#30638e", "#2a9d4e", "#d1495b", "#c98a1b"
BLACK, GREY = "#222222", "#8a8a8a"

_SETTINGS = {
  "axes.edgecolor": GREY,
  "axes.labelcolor": BLACK,
  "axes.spines.right": False,
  "axes.spines.top": False,
  "axes.titlelocation": "left",
  "axes.titlesize": 10.5,
  "figure.facecolor": "white",
  "font.size": 9.5,
  "lines.linewidth": 1.8,
  "svg.fonttype": "path",
  "svg.hashsalt": "jaxrank",
  "text.color": BLACK,
  "xtick.color": "#555555",
  "ytick.color": "#555555",
}


def shades(count: int) -> list[tuple[float, ...]]:
  """Colours for a rising quantity, none of them too light for a white page."""
  colours = mpl.colormaps["plasma"]
  return [colours(0.05 + 0.75 * i / max(count - 1, 1)) for i in range(count)]


def label(axes: Axes, x: float, y: float, text: str, colour: object, **options: object) -> None:
  """Writes the name of a line beside it, instead of a legend."""
  given = {"color": colour, "va": "center", "fontsize": 9, "xytext": (4, 0)} | options
  axes.annotate(text, (x, y), textcoords="offset points", **given)


def save(draw: Callable[[], Figure]) -> None:
  """Draws a picture in this style beside its script, or where `--out` says; PNG works too."""
  script = Path(inspect.getfile(draw))
  parser = argparse.ArgumentParser(description=inspect.getdoc(draw))
  parser.add_argument("--out", type=Path, default=script.with_suffix(".svg"), help="the picture")
  arguments = parser.parse_args()
  with mpl.rc_context(_SETTINGS):
    if arguments.out.suffix == ".svg":
      # The resolution of the maps, which are images inside.
      draw().savefig(arguments.out, dpi=64, metadata={"Date": None})
    else:
      draw().savefig(arguments.out, dpi=150)
  print(f"wrote {arguments.out}")
