"""`python docs/gallery/metric_to_loss.py`: one metric, exact and under a smooth ranking."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import style
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxrank as jr

OTHERS, LABELS = jnp.array([1.5, 0.0, -1.5]), jnp.array([3, 0, 1, 0])
MOVED = jnp.linspace(-4, 4, 801)
TEMPERATURES = {0.3: style.BLUE, 1.0: style.RED}


def loss(ranking: jr.Ranking, x: Array) -> Array:
  """One minus nDCG, with the item of label 3 at `x` and the three others where they are."""
  return 1 - jr.ndcg(jnp.concatenate([x[None], OTHERS]), LABELS, ranking=ranking)


def frame(axes: Axes, title: str) -> None:
  """What the two panels share."""
  axes.set(title=title, xlabel="score of the relevant item", ylabel="1 - nDCG", xlim=(-4, 4))
  axes.set(ylim=(-0.02, 0.6), yticks=[0, 0.2, 0.4, 0.6])
  axes.plot(OTHERS, np.zeros(3), "|", color=style.GREY, transform=axes.get_xaxis_transform())


def metric(axes: Axes) -> None:
  """The exact metric: steps, whose slope is 0."""
  axes.plot(MOVED, jax.vmap(functools.partial(loss, jr.Exact()))(MOVED), color="black")
  frame(axes, "The metric: jr.ndcg(scores, labels)")
  style.label(axes, -3.9, 0.56, "the slope is 0 everywhere", "black")


def smooth(axes: Axes) -> None:
  """The same metric under a smooth ranking, with arrows along its slope."""
  exact = jax.vmap(functools.partial(loss, jr.Exact()))(MOVED)
  axes.plot(MOVED, exact, color=style.GREY, linewidth=0.8)
  for t, colour in TEMPERATURES.items():
    value = functools.partial(loss, jr.Laplace(t))
    axes.plot(MOVED, jax.vmap(value)(MOVED), color=colour)
    style.label(axes, 1.9, 0.52 - 0.06 * (t > 0.5), f"jr.Laplace({t:g})", colour)
  for x in (-2.5, -0.5, 1.5):
    value = functools.partial(loss, jr.Laplace(1.0))
    y, slope = jax.value_and_grad(value)(jnp.float32(x))
    axes.annotate("", (x + 0.9, y + 0.9 * slope), (x, y),
                  arrowprops={"arrowstyle": "-|>", "color": style.RED, "lw": 1.8})  # fmt: skip
  frame(axes, "The loss: add ranking=jr.Laplace(1.0)")


def draw() -> list[Figure]:
  """The metric, and the loss that it becomes."""
  return style.panels((4.6, 2.7), metric, smooth)


if __name__ == "__main__":
  style.save(draw)
