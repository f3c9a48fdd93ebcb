"""`python docs/gallery/lambdarank.py`: the gradient of LambdaRank beside those of smooth nDCG."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import style
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxrank as jr

# A list in the order of its scores, whose best items are not on top.
SCORES = jnp.array([2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5])
LABELS = jnp.array([1, 0, 3, 0, 0, 1, 0, 2])


def lambda_rank(scores: Array, labels: Array, temperature: float = 1.0) -> Array:
  """How LambdaRank moves the scores, minus the gradient of its loss."""
  return -jax.grad(
    lambda s: jr.losses.lambda_rank(s, labels, temperature=temperature).sum()
  )(scores)  # fmt: skip


def smooth(scores: Array, labels: Array, ranking: jr.Ranking) -> Array:
  """The gradient of nDCG under a smooth ranking."""
  return jax.grad(lambda s: jr.ndcg(s, labels, ranking=ranking).sum())(scores)


def unit(x: Array) -> Array:
  """The direction of each gradient."""
  return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def pair(axes: Axes) -> None:
  """Two items of which the first is relevant, as the first passes the second."""
  gap = jnp.linspace(-6, 6, 121)
  scores = jnp.stack([gap / 2, -gap / 2], axis=-1)
  labels = jnp.broadcast_to(jnp.array([1, 0]), scores.shape)
  axes.plot(gap, lambda_rank(scores, labels)[:, 0], color="black")
  axes.plot(gap, smooth(scores, labels, jr.Gumbel(1.0))[:, 0], color=style.RED)
  axes.plot(gap, smooth(scores, labels, jr.Laplace(1.0))[:, 0], color=style.BLUE)
  style.label(axes, -1.7, 0.33, "LambdaRank", "black")
  style.label(axes, -6.2, 0.1, "nDCG, Gumbel(1)", style.RED)
  style.label(axes, 0.4, 0.155, "nDCG, Laplace(1)", style.BLUE)
  axes.set(title="One pair: the pull on the relevant item", ylabel="-d loss / d score",
           xlabel="score of the relevant item minus the other's")  # fmt: skip


def items(axes: Axes) -> None:
  """The direction of each gradient of one list, item by item."""
  rank = np.arange(1, len(SCORES) + 1)
  axes.bar(rank, unit(lambda_rank(SCORES, LABELS)), color="0.85", width=0.9)
  axes.axhline(0, color=style.GREY, linewidth=0.8)
  places = {0.1: (1.9, -0.72), 1.0: (3.0, 0.86), 3.0: (3.3, 0.76)}
  for t, colour, shift in zip((0.1, 1.0, 3.0), style.shades(3), (-0.22, 0, 0.22), strict=True):
    found = unit(smooth(SCORES, LABELS, jr.Gumbel(t)))
    axes.vlines(rank + shift, 0, found, color=colour, linewidth=1)
    axes.plot(rank + shift, found, "o", color=colour, markersize=4.5)
    style.label(axes, *places[t], f"Gumbel({t:g})", colour)
  style.label(axes, 6.4, 0.64, "LambdaRank", style.GREY)
  axes.set(title="One list: directions, of length 1", ylabel="-d loss / d score, in unit norm",
           xlabel="label of the item, in rank order")  # fmt: skip
  axes.set_xticks(rank, [str(int(x)) for x in LABELS])


def agreement(axes: Axes) -> None:
  """The mean cosine of the angle between the gradients over many lists."""
  keys = jax.random.split(jax.random.key(0))
  labels = jax.random.choice(keys[0], 5, (200, 20), p=jnp.array([0.5, 0.2, 0.15, 0.1, 0.05]))
  scores = 0.3 * labels.astype(jnp.float32) + jax.random.normal(keys[1], labels.shape)
  scores = (scores - scores.mean(axis=1, keepdims=True)) / scores.std(axis=1, keepdims=True)
  temperatures = np.geomspace(0.03, 10, 16)

  def cosine(kind: Callable[..., jr.Ranking], same: bool) -> list[float]:
    @jax.jit
    def of(t):
      moved = unit(lambda_rank(scores, labels, t if same else 1.0))
      return jnp.sum(moved * unit(smooth(scores, labels, kind(t))), axis=-1).mean()

    return [float(of(t)) for t in temperatures]

  axes.plot(temperatures, cosine(jr.Gumbel, True), color=style.RED)
  axes.plot(temperatures, cosine(jr.Gumbel, False), "--", color=style.RED)
  axes.plot(temperatures, cosine(jr.Laplace, True), color=style.BLUE)
  axes.plot(temperatures, cosine(jr.Laplace, False), "--", color=style.BLUE)
  style.label(axes, 0.03, 0.9, "nDCG, Gumbel(t)", style.RED)
  style.label(axes, 0.45, 0.42, "nDCG, Laplace(t)", style.BLUE)
  style.label(axes, 0.3, 0.12, "solid: LambdaRank at t\ndashed: LambdaRank at 1", "black")
  axes.set(title="200 lists: cosine with LambdaRank", xlabel="temperature t of the smooth nDCG",
           ylabel="mean cosine", xscale="log", ylim=(0, 1))  # fmt: skip


def draw() -> list[Figure]:
  """A pair, a list, and many lists."""
  return style.panels((3.7, 3.7), pair, items, agreement)


if __name__ == "__main__":
  style.save(draw)
