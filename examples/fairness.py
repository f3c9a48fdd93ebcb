"""Trains rankers that trade nDCG for fair exposure, a whole frontier in one `vmap`.

Queries are synthetic: the items of group 1 have lower labels on average, and one feature tells the
groups apart, so that a ranker that maximises nDCG gives the items of group 0 more exposure. Each
ranker is a Plackett-Luce model, which draws an order for each user, and trains on

    1 - E nDCG + weight * log(demographic parity ratio)^2,

both expectations exact under `Gumbel(1.0)`. The weights are traced numbers, so one `vmap` of the
training step trains all rankers. The script compares them on held-out queries.

Run `python examples/fairness.py`. It prints a table and draws `fairness.png`. It needs the extra
`examples`.
"""

import argparse
import functools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxrank as jr

FEATURES, CANDIDATES, BATCH, CHUNK = 8, 16, 16, 10
RANKING = jr.Gumbel(1.0)


class Lists(NamedTuple):
  features: Array
  labels: Array
  groups: Array


class Ranker(NamedTuple):
  weights: Array
  state: Any


def draw(seed: int, queries: int) -> Lists:
  """Queries `[queries, CANDIDATES]` whose labels from 0 to 4 follow the features and the group."""
  rng = np.random.default_rng(seed)
  groups = rng.integers(0, 2, (queries, CANDIDATES))
  groups[:, 0], groups[:, 1] = 0, 1  # Every query has both.
  features = rng.standard_normal((queries, CANDIDATES, FEATURES)).astype(np.float32)
  features[..., 0] = 1 - 2 * groups + 0.5 * features[..., 0]
  worth = features[..., 1:4].sum(-1) / 3**0.5 - groups
  noisy = worth + 0.7 * rng.standard_normal(groups.shape)
  labels = np.clip(np.floor(1.5 + 1.2 * noisy), 0, 4)
  return Lists(*map(jnp.asarray, (features, labels.astype(np.float32), groups)))


def ndcg(scores: Array, lists: Lists) -> Array:
  return jr.ndcg(scores, lists.labels, ranking=RANKING)


def ratio(scores: Array, lists: Lists) -> Array:
  return jr.exposure.demographic_parity(scores, lists.groups, ranking=RANKING)


def init(weight: Array, rate: float) -> Ranker:
  # All scores are equal at the start, where metrics and exposures under noise have a gradient.
  weights = jnp.zeros(FEATURES) + 0 * weight
  return Ranker(weights, optax.adam(rate).init(weights))


def step(ranker: Ranker, weight: Array, lists: Lists, key: Array, rate: float) -> Ranker:
  """The ranker after one step on a random batch."""
  rows = jax.random.randint(key, (BATCH,), 0, lists.labels.shape[0])
  batch = jax.tree.map(lambda x: x[rows], lists)

  def loss(weights):
    scores = batch.features @ weights
    unfair = jr.exposure.squared_log(ratio(scores, batch))
    return jnp.mean(1 - ndcg(scores, batch) + weight * unfair)

  updates, state = optax.adam(rate).update(jax.grad(loss)(ranker.weights), ranker.state)
  return Ranker(optax.apply_updates(ranker.weights, updates), state)


@functools.partial(jax.jit, static_argnames="rate")
def advance(rankers: Ranker, weights: Array, lists: Lists, start: Array, *, rate: float) -> Ranker:
  """All rankers after `CHUNK` steps."""

  def next_step(rankers, i):
    one = functools.partial(step, rate=rate)
    key = jax.random.fold_in(jax.random.key(0), i)
    return jax.vmap(one, (0, 0, None, None))(rankers, weights, lists, key), None

  return jax.lax.scan(next_step, rankers, start + jnp.arange(CHUNK))[0]


def train(weights: Array, lists: Lists, steps: int, rate: float) -> Array:
  """The weights of the features `[rankers, FEATURES]`, trained at once."""
  rankers = jax.vmap(functools.partial(init, rate=rate))(weights)
  print("compiling, some 10 s", file=sys.stderr)
  advance(rankers, weights, lists, jnp.int32(0), rate=rate)
  progress = tqdm(total=steps, desc=f"training {len(weights)} rankers", unit="step")
  for start in range(0, steps, CHUNK):
    rankers = advance(rankers, weights, lists, jnp.int32(start), rate=rate)
    progress.update(CHUNK)
  progress.close()
  return rankers.weights


@jax.jit
def evaluate(trained: Array, lists: Lists) -> dict[str, Array]:
  """The means over queries for each ranker, and the standard error of nDCG."""
  goal = jr.exposure.target(lists.labels)
  shares = jnp.stack([jnp.sum(lists.groups == g, axis=-1) for g in (0, 1)], axis=-1)

  def measure(weights):
    scores = lists.features @ weights
    values = ndcg(scores, lists)
    own = {"ranking": RANKING}
    return {
      "nDCG": values.mean(),
      "error": values.std() / values.size**0.5,
      # The geometric mean, because a ratio of 2 is as far from 1 as a ratio of 1/2.
      "ratio": jnp.exp(jnp.log(ratio(scores, lists)).mean()),
      "EE-L": jr.exposure.ee_l(scores, goal, **own).mean(),
      "AWRF": jr.exposure.awrf(scores, lists.groups, shares, n_groups=2, **own).mean(),
    }

  return jax.lax.map(measure, trained)


def plot(path: Path, weights: Array, values: dict[str, Array]) -> None:
  """Draws the frontier: nDCG against the ratio of exposure per utility."""
  figure = Figure(figsize=(7, 4.6), layout="constrained")
  axes = figure.subplots()
  x, y = np.asarray(values["ratio"]), np.asarray(values["nDCG"])
  axes.errorbar(x, y, np.asarray(values["error"]), fmt="none", ecolor="0.8", zorder=1)
  axes.plot(x, y, color="0.6", zorder=2)
  points = axes.scatter(x, y, c=np.log10(np.maximum(weights, 0.01)), cmap="viridis", zorder=3)
  axes.axvline(1, color="0.4", linestyle=":")
  axes.annotate("equal exposure", (1, y.min()), xytext=(4, 0),
                textcoords="offset points", rotation=90, va="bottom", fontsize=9)  # fmt: skip
  axes.set(xlabel="mean exposure of group 0 over that of group 1", ylabel="expected nDCG")
  axes.set_title("Held-out queries: relevance against fair exposure")
  figure.colorbar(points, label="log10 of the weight of the fairness term")
  figure.savefig(path, dpi=110)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--rankers", type=int, default=10)
  parser.add_argument("--queries", type=int, default=300)
  parser.add_argument("--steps", type=int, default=200)
  parser.add_argument("--rate", type=float, default=0.1)
  parser.add_argument("--out", type=Path, default=Path("fairness.png"), help="the plot")
  args = parser.parse_args()

  weights = jnp.float32(np.concatenate([[0], np.geomspace(0.03, 2, args.rankers - 1)]))
  trained = train(weights, draw(0, args.queries), args.steps, args.rate)
  values = evaluate(trained, draw(1, args.queries))
  columns = ("nDCG", "error", "ratio", "EE-L", "AWRF")
  print(f"{'weight':>9}" + "".join(f"{name:>9}" for name in columns))
  for i, weight in enumerate(weights):
    print(f"{weight:9.4f}" + "".join(f"{values[name][i]:9.4f}" for name in columns))
  plot(args.out, weights, values)
  print(f"plot: {args.out}")
  print(
    f"From the first weight to the last, the ratio of the exposures of the two groups goes from\n"
    f"{values['ratio'][0]:.2f} to {values['ratio'][-1]:.2f} (1 is fair), and nDCG from "
    f"{values['nDCG'][0]:.3f} to {values['nDCG'][-1]:.3f}."
  )


if __name__ == "__main__":
  main()
