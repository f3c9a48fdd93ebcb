"""`python -m tests.benchmarks.picture`: draws `docs/losses.svg`, a metric as one score moves."""

import pathlib

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

import jaxrank as jr

_OUT = pathlib.Path(__file__).parents[2] / "docs" / "losses.svg"
SCORES, LABELS = jnp.array([0.0, 2.0, 1.0, -1.0, 0.5]), jnp.array([3, 0, 1, 0, 2])
KINDS = {
  "Laplace": jr.Laplace,
  "Logistic": jr.Logistic,
  "Gumbel": jr.Gumbel,
  "Gaussian": jr.Gaussian,
}
COLOURS = ("#30638e", "#2a9d4e", "#d1495b", "#edae49")


def main() -> None:
  """Two panels: the four rankings at one temperature, and one ranking at four."""
  moved = jnp.linspace(-3, 4, 281)

  def curve(ranking):
    def value(x):
      scores = SCORES.at[0].set(x)
      return jr.ndcg(scores, LABELS, gain=jr.gains.exponential, ranking=ranking)

    return jax.vmap(value)(moved)

  figure = Figure(figsize=(10, 3.8), layout="constrained")
  left, right = figure.subplots(1, 2, sharey=True)
  for axes in (left, right):
    axes.plot(moved, curve(jr.Exact()), color="black", linewidth=1.6, label="exact")
    axes.set(xlabel="score of the best item; the others stand at -1, 0.5, 1 and 2")
  for (name, kind), colour in zip(KINDS.items(), COLOURS, strict=True):
    left.plot(moved, curve(kind(0.3)), color=colour, label=f"{name}(0.3)")
  for t, colour in zip((0.03, 0.1, 0.3, 1.0), COLOURS, strict=True):
    right.plot(moved, curve(jr.Gumbel(t)), color=colour, label=f"Gumbel({t:g})")
  left.set(ylabel="nDCG", title="Four smooth rankings")
  right.set(title="One of them at four temperatures")
  for axes in (left, right):
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
  figure.savefig(_OUT, metadata={"Date": None})
  print(f"wrote {_OUT}")


if __name__ == "__main__":
  main()
