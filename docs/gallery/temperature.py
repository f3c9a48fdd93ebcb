"""`python docs/gallery/temperature.py`: one item moves past the others at five temperatures."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import style
from jax import Array
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


def draw() -> Figure:
  """The rank, the loss and its slope along the score of one item."""
  moved = jnp.linspace(-4.5, 4.5, 901)
  figure = Figure(figsize=(11, 3.9), layout="constrained")
  ranks, losses, slopes = figure.subplots(1, 3)
  for axes, quantity in ((ranks, rank), (losses, loss)):
    for t, colour in zip(TEMPERATURES, style.shades(5), strict=True):
      axes.plot(moved, jax.vmap(functools.partial(quantity, jr.Gumbel(t)))(moved), color=colour)
    exact = jax.vmap(functools.partial(quantity, jr.Exact()))(moved)
    axes.plot(moved, exact, color="black", linewidth=1.2, zorder=3)
  for t, colour in zip(TEMPERATURES, style.shades(5), strict=True):
    slope = jax.vmap(jax.grad(functools.partial(loss, jr.Gumbel(t))))(moved)
    slopes.plot(moved, np.abs(slope), color=colour)
  ranks.set(title="Expected rank of the moving item", ylabel="rank")
  ranks.invert_yaxis()
  losses.set(title="Loss: 1 - nDCG", ylabel="loss")
  slopes.set(title="Size of the loss's slope", ylabel="|d loss / d score|", yscale="log")
  slopes.set_ylim(1e-4, 5)
  style.label(ranks, -0.1, 1.8, "exact", "black")
  # Beside the peak at the best of the others, except where a line is flat.
  places = ((2.1, 2.0), (2.2, 0.6), (2.45, 0.17), (-4.5, 0.0014), (-4.5, 0.016))
  for (x, y), t, colour in zip(places, TEMPERATURES, style.shades(5), strict=True):
    style.label(slopes, x, y, f"t = {t:g}", colour)
  for x, y, t in ((2.8, 1.65, 3), (3.1, 2.5, 4)):
    style.label(ranks, x, y, f"t = {TEMPERATURES[t]:g}", style.shades(5)[t], va="top")
  for axes in (ranks, losses, slopes):
    axes.set(xlabel="score of the moving item", xlim=(-4.5, 4.5))
    axes.plot(OTHERS, np.zeros(5), "|", color=style.GREY, transform=axes.get_xaxis_transform())
  return figure


if __name__ == "__main__":
  style.save(draw)
