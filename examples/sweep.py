"""Trains 64 rankers at once, each with its own temperature, learning rate and seed.

The data are the handwritten digits of scikit-learn, as image retrieval: every image is a query,
every other image is a candidate, and it is relevant if it shows the same digit. A ranker is a
linear embedding that trains on a softmax over the candidates or, with `--loss ndcg`, on one minus a
smooth nDCG. Temperature, learning rate and seed are traced numbers, so one `vmap` of the training
step, compiled once, trains all rankers. The script compares their exact nDCG@10 on held-out images,
with its standard error.

Run `python examples/sweep.py`. It prints the best settings and draws `sweep.png`. With
`--sequential` it trains the same rankers once more, one after another, and compares the times. It
needs the extra `examples`.
"""

import argparse
import functools
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import tqdm

import jaxrank as jr

SIZE, BATCH, CHUNK = 8, 32, 10
EVALUATOR = jr.Evaluator("nDCG@10")


class Images(NamedTuple):
  pixels: Array
  digits: Array


class Settings(NamedTuple):
  """The settings of a ranker, or arrays of the settings of many."""

  temperature: Array
  rate: Array
  seed: Array


class Ranker(NamedTuple):
  embedding: Array
  state: Any


def load() -> tuple[Images, Images]:
  """Images to train on, and held-out images."""
  pixels, digits = load_digits(return_X_y=True)
  rows = np.random.default_rng(0).permutation(len(digits))
  parts = rows[:400], rows[400:800]
  return tuple(
    Images(jnp.asarray(pixels[part] / 16, jnp.float32), jnp.asarray(digits[part])) for part in parts
  )


def grid(temperatures: int, rates: int, seeds: int) -> Settings:
  """Every combination of settings, arrays `[temperatures * rates * seeds]`."""
  axes = np.geomspace(3e-3, 1, temperatures), np.geomspace(1e-3, 1, rates), np.arange(seeds)
  temperature, rate, seed = (x.ravel() for x in np.meshgrid(*axes, indexing="ij"))
  return Settings(jnp.float32(temperature), jnp.float32(rate), jnp.int32(seed))


def retrieval(embedding: Array, images: Images) -> tuple[Array, Array, Array]:
  """Scores, labels and mask, `[images, images]`, with each image as a query for the others."""
  vectors = images.pixels @ embedding
  vectors = vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
  own = jnp.eye(len(vectors), dtype=bool)
  return vectors @ vectors.T, images.digits[:, None] == images.digits[None, :], ~own


def softmax(scores: Array, labels: Array, where: Array, temperature: Array) -> Array:
  return jr.losses.softmax(scores, labels, where=where, temperature=temperature)


def ndcg(scores: Array, labels: Array, where: Array, temperature: Array) -> Array:
  return 1 - jr.ndcg(scores, labels, where=where, ranking=jr.Laplace(temperature))


LOSSES = {"softmax": softmax, "ndcg": ndcg}


@jax.jit
def init(settings: Settings) -> Ranker:
  embedding = jax.random.normal(jax.random.key(settings.seed), (64, SIZE)) / 8
  return Ranker(embedding, optax.adam(settings.rate).init(embedding))


# Defined once, because `jit` caches programs by function and each `vmap` call makes a new function.
init_all = jax.jit(jax.vmap(init))


def step(
  name: str, ranker: Ranker, settings: Settings, images: Images, i: Array
) -> tuple[Ranker, Array]:
  """The ranker after one step, and its loss on batch `i`, which depends on its seed."""

  def loss(embedding, batch):
    return LOSSES[name](*retrieval(embedding, batch), settings.temperature).mean()

  key = jax.random.fold_in(jax.random.key(settings.seed), i)
  rows = jax.random.randint(key, (BATCH,), 0, len(images.digits))
  batch = jax.tree.map(lambda x: x[rows], images)
  value, grads = jax.value_and_grad(loss)(ranker.embedding, batch)
  updates, state = optax.adam(settings.rate).update(grads, ranker.state)
  return Ranker(optax.apply_updates(ranker.embedding, updates), state), value


@functools.partial(jax.jit, static_argnums=0)
def advance(
  name: str, rankers: Ranker, settings: Settings, images: Images, start: Array
) -> tuple[Ranker, Array]:
  """All rankers after `CHUNK` steps, and their losses."""

  def next_step(rankers, i):
    one = functools.partial(step, name)
    return jax.vmap(one, (0, 0, None, None))(rankers, settings, images, i)

  return jax.lax.scan(next_step, rankers, start + jnp.arange(CHUNK))


@jax.jit
def evaluate(embeddings: Array, images: Images) -> jr.State:
  """The states of the evaluator for all rankers, one after another to save memory."""

  def measure(embedding):
    scores, labels, where = retrieval(embedding, images)
    return EVALUATOR.update(EVALUATOR.init(), scores, labels, where=where)

  return jax.lax.map(measure, embeddings)


def train(name: str, settings: Settings, images: Images, steps: int, quiet: bool = False) -> Array:
  """The embeddings of all rankers, trained at once."""
  rankers = init_all(settings)
  count = len(settings.seed)
  progress = tqdm(total=steps, desc=f"training {count} rankers", unit="step", disable=quiet)
  for start in range(0, steps, CHUNK):
    rankers, values = advance(name, rankers, settings, images, jnp.int32(start))
    progress.update(CHUNK)
    progress.set_postfix({"median loss": f"{jnp.median(values[-1]):.4f}"})
  progress.close()
  return rankers.embedding


def train_sequentially(
  name: str, settings: Settings, images: Images, steps: int, quiet: bool = False
) -> Array:
  """The embeddings of all rankers, trained one after another with a jitted step."""
  jitted = jax.jit(step, static_argnums=0)
  embeddings = []
  rankers = range(len(settings.seed))
  for i in tqdm(rankers, desc="one after another", unit="ranker", disable=quiet):
    own = jax.tree.map(lambda x, i=i: x[i], settings)
    ranker = init(own)
    for j in range(steps):
      ranker, _ = jitted(name, ranker, own, images, j)
    embeddings.append(ranker.embedding)
  return jnp.stack(embeddings)


def table(
  settings: Settings, values: np.ndarray, errors: np.ndarray, seeds: int, rows: int = 5
) -> str:
  """A table of the best pairs of temperature and learning rate, by the mean over seeds.

  The last column is the standard error over the images, of the worst seed.
  """
  by_pair = values.reshape(-1, seeds)
  lines = [f"{'temperature':>12}{'rate':>10}{'nDCG@10':>10}{'worst seed':>12}{'its error':>11}"]
  for pair in np.argsort(-by_pair.mean(axis=1))[:rows]:
    temperature, rate = (float(x[pair * seeds]) for x in settings[:2])
    mean, worst = by_pair[pair].mean(), by_pair[pair].argmin()
    of_worst = f"{by_pair[pair, worst]:12.4f}{errors[pair * seeds + worst]:11.4f}"
    lines.append(f"{temperature:12.3g}{rate:10.3g}{mean:10.4f}{of_worst}")
  return "\n".join(lines)


def plot(path: Path, settings: Settings, surface: np.ndarray) -> None:
  """Draws nDCG@10 `[temperatures, rates]`."""
  figure = Figure(figsize=(7, 5.2), layout="constrained")
  axes = figure.subplots()
  image = axes.imshow(surface, cmap="viridis", aspect="auto", origin="lower")
  names = [[f"{x:.2g}" for x in np.unique(setting)] for setting in settings[:2]]
  axes.set_yticks(range(surface.shape[0]), names[0])
  axes.set_xticks(range(surface.shape[1]), names[1])
  for (i, j), value in np.ndenumerate(surface):
    bright = value > (surface.min() + surface.max()) / 2
    colour = "black" if bright else "white"
    axes.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=9, color=colour)
  axes.set(xlabel="learning rate", ylabel="temperature of the loss")
  axes.set_title("Exact nDCG@10 of held-out images, mean over seeds")
  figure.colorbar(image)
  figure.savefig(path, dpi=110)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--loss", choices=LOSSES, default="softmax")
  parser.add_argument("--temperatures", type=int, default=8)
  parser.add_argument("--rates", type=int, default=4)
  parser.add_argument("--seeds", type=int, default=2)
  parser.add_argument("--steps", type=int, default=200)
  parser.add_argument("--sequential", action="store_true", help="also train them one by one")
  parser.add_argument("--out", type=Path, default=Path("sweep.png"), help="the plot")
  args = parser.parse_args()

  images, held_out = load()
  settings = grid(args.temperatures, args.rates, args.seeds)
  ways = {"all at once": train} | (
    {"one after another": train_sequentially} if args.sequential else {}
  )
  seconds = {}
  for name, way in ways.items():
    print("compiling, some 10 s", file=sys.stderr)
    way(args.loss, settings, images, CHUNK, quiet=True)
    start = time.perf_counter()
    embeddings = jax.block_until_ready(way(args.loss, settings, images, args.steps))
    seconds[name] = time.perf_counter() - start
    states = evaluate(embeddings, held_out)
    values = EVALUATOR.compute(states)["nDCG@10"]
    print(f"{name}: {seconds[name]:.1f} s, mean nDCG@10 {values.mean():.4f}")
  if args.sequential:
    print(f"{seconds['one after another'] / seconds['all at once']:.1f} times faster at once")
  errors = EVALUATOR.standard_error(states)["nDCG@10"]
  print(table(settings, values, errors, args.seeds))
  shape = args.temperatures, args.rates, args.seeds
  plot(args.out, settings, values.reshape(shape).mean(axis=-1))
  print(f"plot: {args.out}")
  print(
    f"One vmap trained {len(settings.seed)} rankers in {seconds['all at once']:.1f} s: their "
    "settings are traced numbers,\nso that all of them share one program."
  )


if __name__ == "__main__":
  main()
