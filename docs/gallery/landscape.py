"""`python docs/gallery/landscape.py`: nDCG over all scores of three items, under each ranking."""

import functools

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import style
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxrank as jr

LABELS = jnp.array([2, 1, 0])
RANKINGS = {
  "Exact()": jr.Exact(),
  "Laplace(1)": jr.Laplace(1.0),
  "Logistic(1)": jr.Logistic(1.0),
  "Gaussian(1)": jr.Gaussian(1.0),
  "Gumbel(1)": jr.Gumbel(1.0),
}
COLOURS = (style.BLACK, style.BLUE, style.GREEN, style.YELLOW, style.RED)
# Where the last panel names them, beside its curves or in their order from above.
NAMES = ((-2.6, 0.98), (1.7, 0.72), (1.7, 0.695), (1.7, 0.77), (1.7, 0.745))
REACH = 5.0
WORST = float(jr.ndcg(jnp.array([0.0, 1.0, 2.0]), LABELS))
# Steps of 0.006, which the eye takes for a gradient and an image stores in little space.
COLOURS_OF_NDCG = mpl.colormaps["viridis"].resampled(64)
LEVELS = np.linspace(WORST, 1, 11)[1:-1]

# A shift of all scores changes nothing, so that the scores of three items are a plane: two
# directions at right angles to (1, 1, 1), of length 1. The orders of the items are six equal
# sectors, and the best order, 2 before 1 before 0, is the one around UP.
ACROSS = jnp.array([1.0, -2.0, 1.0]) / jnp.sqrt(6.0)
UP = jnp.array([1.0, 0.0, -1.0]) / jnp.sqrt(2.0)


def scores(x: Array, y: Array) -> Array:
  """The scores of the items at a point of the plane, `[..., 3]`."""
  return x[..., None] * ACROSS + y[..., None] * UP


def ndcg(ranking: jr.Ranking, x: Array, y: Array) -> Array:
  """The metric at points of the plane."""
  points = scores(x, y)
  return jr.ndcg(points, jnp.broadcast_to(LABELS, points.shape), ranking=ranking)


def grid(count: int) -> tuple[Array, Array]:
  """Points of the plane."""
  line = jnp.linspace(-REACH, REACH, count)
  return jnp.meshgrid(line, line)


def chart(axes: Axes, name: str, ranking: jr.Ranking) -> None:
  """The metric in colours, its contours, and its slope as arrows."""
  x, y = grid(500 if name == "Exact()" else 99)
  values = ndcg(ranking, x, y)
  axes.imshow(
    values,
    cmap=COLOURS_OF_NDCG,
    vmin=WORST,
    vmax=1,
    origin="lower",
    extent=[-REACH, REACH] * 2,
    interpolation="nearest" if name == "Exact()" else "bilinear",
    interpolation_stage="data",
  )
  for angle in np.pi * np.arange(3) / 3:
    ends = np.array([-1.5, 1.5]) * REACH
    axes.plot(ends * np.cos(angle), ends * np.sin(angle), ":", color="white", linewidth=0.8)
  if name != "Exact()":
    axes.contour(
      x[::2, ::2], y[::2, ::2], values[::2, ::2], levels=LEVELS, colors="white", linewidths=0.7
    )
    x, y = (0.84 * z for z in grid(8))
    slope = jax.grad(lambda x, y: ndcg(ranking, x, y).sum(), argnums=(0, 1))
    arrows = np.stack(slope(x, y))
    arrows[:, np.hypot(*arrows) < 0.02] = np.nan
    axes.quiver(x, y, *arrows, color="white", scale=1.8, width=0.007, pivot="mid")
  axes.set(title=name, xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[], yticks=[])
  axes.spines[["left", "bottom"]].set_visible(False)
  if name == "Exact()":
    sectors(axes)


def sectors(axes: Axes) -> None:
  """The orders of the labels, of which each sector of the plane has one."""
  for i, order in enumerate(("2 0 1", "2 1 0", "1 2 0", "1 0 2", "0 1 2", "0 2 1")):
    angle = np.pi * (2 * i + 1) / 6
    colour = "black" if i < 2 else "white"
    axes.text(3.5 * np.cos(angle), 3.5 * np.sin(angle), order, color=colour, ha="center",
              va="center", fontsize=11)  # fmt: skip


def cut(axes: Axes) -> None:
  """The metric along the middle of the maps, beside the scale of their colours."""
  line = jnp.linspace(-REACH, REACH, 200)
  for i, ((name, ranking), colour) in enumerate(zip(RANKINGS.items(), COLOURS, strict=True)):
    values = ndcg(ranking, jnp.zeros(200), line)
    axes.plot(line, values, color=colour, linewidth=1.2 if i == 0 else 1.8)
    style.label(axes, *NAMES[i], name, colour)
  axes.imshow(np.linspace(WORST, 1, 64)[:, None], cmap=COLOURS_OF_NDCG, origin="lower",
              aspect="auto", extent=[-REACH - 1, -REACH - 0.3, WORST, 1])  # fmt: skip
  axes.set(title="From the worst order to the best", xticks=[-4, -2, 0, 2, 4],
           xlim=(-REACH - 1, REACH), ylim=(WORST, 1.005), ylabel="nDCG, and its colour",
           xlabel="upwards through the middle of the maps")  # fmt: skip


def draw() -> list[Figure]:
  """Five maps on one scale of colours, and a cut through them."""
  maps = [
    functools.partial(chart, name=name, ranking=ranking) for name, ranking in RANKINGS.items()
  ]
  return style.panels((3.5, 3.5), *maps, cut)


if __name__ == "__main__":
  style.save(draw)
