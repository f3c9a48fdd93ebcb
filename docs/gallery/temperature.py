"""`python docs/gallery/temperature.py`: one item moves past the others at five temperatures."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import style
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxrank as jr

OTHERS, LABELS = jnp.array([2.0, 1.0, 0.0, -1.0, -2.0]), jnp.array([3, 0, 2, 0, 1, 0])
TEMPERATURES = (0.03, 0.1, 0.3, 1.0, 3.0)


def scores(x: Array) -> Array:
  """The item of label 3 at `x`, and the five others where they always are."""
  return jnp.concatenate([jnp.array([x]), OTHERS])


def rank(ranking: jr.Ranking, x: Array) -> Array:
  """The expected rank of the moving item."""
  return jr.soft.rank(scores(x), ranking=ranking)[0]


def loss(ranking: jr.Ranking, x: Array) -> Array:
  """One minus nDCG."""
  return 1 - jr.ndcg(scores(x), LABELS, ranking=ranking)


MOVED = jnp.linspace(-4.5, 4.5, 901)
COLOURS = dict(zip(TEMPERATURES, style.shades(len(TEMPERATURES)), strict=True))


def curves(axes: Axes, quantity: Callable[[jr.Ranking, Array], Array]) -> None:
  """A quantity at each temperature, and exact."""
  for t, colour in COLOURS.items():
    axes.plot(MOVED, jax.vmap(functools.partial(quantity, jr.Gumbel(t)))(MOVED), color=colour)
  exact = jax.vmap(functools.partial(quantity, jr.Exact()))(MOVED)
  axes.plot(MOVED, exact, color="black", linewidth=1.2, zorder=3)
  finish(axes)


def finish(axes: Axes) -> None:
  """The axis that the panels share, with a tick at each of the others."""
  axes.set(xlabel="score of the moving item", xlim=(-4.5, 4.5))
  axes.plot(OTHERS, np.zeros(5), "|", color=style.GREY, transform=axes.get_xaxis_transform())


def ranks(axes: Axes) -> None:
  """The expected rank, from the bottom of the list to its top."""
  curves(axes, rank)
  axes.set(title="Expected rank of the moving item", ylabel="rank")
  axes.invert_yaxis()
  style.label(axes, -0.1, 1.8, "exact", "black")
  for x, y, t in ((2.8, 1.65, 1.0), (3.1, 2.5, 3.0)):
    style.label(axes, x, y, f"t = {t:g}", COLOURS[t], va="top")


def losses(axes: Axes) -> None:
  """The loss."""
  curves(axes, loss)
  axes.set(title="Loss: 1 - nDCG", ylabel="loss")


def slopes(axes: Axes) -> None:
  """The size of the slope of the loss."""
  for t, colour in COLOURS.items():
    slope = jax.vmap(jax.grad(functools.partial(loss, jr.Gumbel(t))))(MOVED)
    axes.plot(MOVED, np.abs(slope), color=colour)
  axes.set(title="Size of the loss's slope", ylabel="|d loss / d score|", yscale="log")
  axes.set_ylim(1e-4, 5)
  # Beside the peak at the best of the others, except where a line is flat.
  places = ((2.1, 2.0), (2.2, 0.6), (2.45, 0.17), (-4.5, 0.0014), (-4.5, 0.016))
  for (x, y), (t, colour) in zip(places, COLOURS.items(), strict=True):
    style.label(axes, x, y, f"t = {t:g}", colour)
  finish(axes)


def draw() -> list[Figure]:
  """The rank, the loss and its slope along the score of one item."""
  return style.panels((3.7, 3.7), ranks, losses, slopes)


if __name__ == "__main__":
  style.save(draw)
