"""What the scripts of the gallery share: colours, figures in one style, and how they are run.

Every panel is a file of its own, so that a page shows them side by side, and a phone one below the
other. `docs/figures.py` gives them the colours of dark mode as well.
"""

import argparse
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

import figures  # noqa: E402

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


def panels(size: tuple[float, float], *draw: Callable[[Axes], None]) -> list[Figure]:
  """A figure of one panel for each function."""
  figures = [Figure(figsize=size, layout="constrained") for _ in draw]
  for figure, panel in zip(figures, draw, strict=True):
    panel(figure.subplots())
  return figures


def save(draw: Callable[[], list[Figure]]) -> None:
  """Draws pictures in this style beside their script, or where `--out` says; PNG works too."""
  script = Path(inspect.getfile(draw))
  parser = argparse.ArgumentParser(description=inspect.getdoc(draw))
  parser.add_argument(
    "--out",
    type=Path,
    default=script.with_suffix(".svg"),
    help="the picture; the panels of x.svg are x-1.svg, x-2.svg and so on",
  )
  out = parser.parse_args().out
  # The resolution of an SVG is that of the maps, which are images inside.
  options = {"dpi": 64, "metadata": {"Date": None}} if out.suffix == ".svg" else {"dpi": 150}
  with mpl.rc_context(_SETTINGS):
    for number, figure in enumerate(draw(), 1):
      path = out.with_stem(f"{out.stem}-{number}")
      figure.savefig(path, **options)
      if out.suffix == ".svg":
        path.write_text(figures.in_both_modes(path.read_text(encoding="utf-8")), encoding="utf-8")
      print(f"wrote {path}")
