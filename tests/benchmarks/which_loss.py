"""`python -m tests.benchmarks.which_loss`: compares losses on two public sets; writes losses.md.

Both sets come with scikit-learn. In *digits* a query is an image, and the candidates are other
images, of which those of the same digit are relevant. In *diabetes* the candidates are patients,
with grades from 0 to 4 by how far the disease progressed within a year. One network, optimiser and
schedule serve all losses. The learning rate, the weight decay and the number of steps of each loss
and split are those with the best nDCG@10 of validation lists. Nothing was tuned on the lists of the
table. `--no-decay` trains without weight decay, and prints the tables alone.
"""

import argparse
import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from sklearn import datasets

import jaxrank as jr
from tests.house.metric_table import table

from .report import machine, write

SPLITS, LISTS, ITEMS, BATCH, HIDDEN = 5, 300, 50, 32, 64
ROUNDS, STEPS = 8, 100
RATES, DECAYS = (0.003, 0.01), (0.0, 0.1, 0.5, 1.5, 5.0)
# A step under Gumbel takes as long as those of some twenty other losses.
COSTLY = {"`1 - ndcg`, Gumbel(0.3)": (0.0, 0.5)}
Loss = Callable[..., Array]


def smooth(metric: Callable[..., Array], ranking: jr.Ranking, **parameters) -> Loss:
  return lambda s, y, **options: 1 - metric(s, y, ranking=ranking, **parameters, **options)


LOSSES: dict[str, Loss] = {
  "`softmax`": jr.losses.softmax,
  "`1 - ndcg`, Laplace(0.1)": smooth(jr.ndcg, jr.Laplace(0.1)),
  "`1 - ndcg`, Laplace(0.3)": smooth(jr.ndcg, jr.Laplace(0.3)),
  "`1 - ndcg`, Laplace(1)": smooth(jr.ndcg, jr.Laplace(1.0)),
  "`1 - ndcg`, k=10, Laplace(0.3)": smooth(jr.ndcg, jr.Laplace(0.3), k=10),
  "`1 - average_precision`, Laplace(0.3)": smooth(jr.average_precision, jr.Laplace(0.3)),
  "`1 - average_precision`, Laplace(1)": smooth(jr.average_precision, jr.Laplace(1.0)),
  "`1 - err`, k=10, Laplace(0.3)": smooth(jr.err, jr.Laplace(0.3), k=10, max_label=4),
  "`1 - ndcg`, Gumbel(0.3)": smooth(jr.ndcg, jr.Gumbel(0.3)),
  "`lambda_rank`": jr.losses.lambda_rank,
  "`pairwise_logistic`": jr.losses.pairwise_logistic,
  "`list_mle`": jr.losses.list_mle,
}
MEASURES = [
  jr.Measure(jr.ndcg, k=10, name="nDCG@10"),
  jr.Measure(jr.average_precision, name="AP"),
  jr.Measure(jr.err, k=10, max_label=4, name="ERR@10"),
]


def digits(rng: np.random.Generator, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Lists of images beside an image: features `[lists, items, 128]` and labels."""
  pixels, classes = datasets.load_digits(return_X_y=True)
  chosen = rng.choice(rows, (LISTS, ITEMS + 1))
  x = pixels[chosen] / 16
  query, items = x[:, :1], x[:, 1:]
  labels = classes[chosen[:, 1:]] == classes[chosen[:, :1]]
  return np.concatenate([np.abs(items - query), items * query], axis=-1), 4 * labels


def diabetes(rng: np.random.Generator, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Lists of patients: features `[lists, items, 10]` and grades."""
  features, progress = datasets.load_diabetes(return_X_y=True)
  chosen = rng.choice(rows, (LISTS, ITEMS))
  bounds = np.quantile(progress, [0.5, 0.7, 0.85, 0.95])
  return features[chosen] * len(features) ** 0.5, np.digitize(progress[chosen], bounds)


SETS = {"digits": (digits, 1797), "diabetes": (diabetes, 442)}


def drawn(name: str, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
  """Lists for training, validation and test, of different rows."""
  draw, size = SETS[name]
  rng = np.random.default_rng(seed)
  parts = np.split(rng.permutation(size), [size // 2, 3 * size // 4])
  return [tuple(np.float32(x) for x in draw(rng, rows)) for rows in parts]


def score(model: dict[str, Array], x: Array) -> Array:
  return jax.nn.relu(x @ model["in"] + model["shift"]) @ model["out"]


def trained(
  loss: Loss, x: Array, y: Array, rate: Array, decay: Array, seed: Array
) -> dict[str, Array]:
  """The networks after each round, with the usual initialisation."""
  first, second, order = jax.random.split(jax.random.key(seed), 3)
  model = {
    "in": jax.random.normal(first, (x.shape[-1], HIDDEN)) * (2 / x.shape[-1]) ** 0.5,
    "shift": jnp.zeros(HIDDEN),
    "out": jax.random.normal(second, (HIDDEN,)) / HIDDEN**0.5,
  }
  optimizer = optax.scale_by_adam()

  def step(state, rows):
    model, momenta = state
    slope = jax.grad(lambda m: loss(score(m, x[rows]), y[rows]).mean())(model)
    updates, momenta = optimizer.update(slope, momenta)
    return (jax.tree.map(lambda p, u: p - rate * (u + decay * p), model, updates), momenta), None

  def round_(state, rows):
    state, _ = jax.lax.scan(step, state, rows)
    return state, state[0]

  rows = jax.random.randint(order, (ROUNDS, STEPS, BATCH), 0, len(x))
  return jax.lax.scan(round_, (model, optimizer.init(model)), rows)[1]


def values(model: dict[str, Array], x: Array, y: Array) -> dict[str, Array]:
  """The means of the exact metrics."""
  found = jr.evaluate(MEASURES, score(model, x), y)
  return {name: value.mean() for name, value in found.items()}


def measured(
  loss: Loss, parts: list[list[Array]], decays: tuple[float, ...]
) -> tuple[dict[str, np.ndarray], float]:
  """The test values of each split with its `decay`, and the seconds of a setting's training."""
  (x, y), valid, test = parts
  rates, decays = (a.ravel() for a in jnp.meshgrid(jnp.array(RATES), jnp.array(decays)))

  @jax.jit
  def train(x, y, rates, decays, seeds):
    by_setting = jax.vmap(functools.partial(trained, loss), (None, None, 0, 0, None))
    return jax.vmap(by_setting, (0, 0, None, None, 0))(x, y, rates, decays, seeds)

  given = x, y, rates, decays, jnp.arange(SPLITS)
  run = train.lower(*given).compile()
  # Processor seconds do not depend on what else runs on the machine.
  start = time.process_time()
  models = jax.block_until_ready(run(*given))
  seconds = (time.process_time() - start) / len(rates)
  # `[splits, settings, rounds]`.
  each = jax.vmap(jax.vmap(values, (0, None, None)), (0, None, None))
  at = jax.jit(jax.vmap(each, (0, 0, 0)))
  chosen = np.asarray(at(models, *valid)["nDCG@10"]).reshape(SPLITS, -1).argmax(1)
  found = at(models, *test)
  pick = np.arange(SPLITS)
  best = {k: np.asarray(v).reshape(SPLITS, -1)[pick, chosen] for k, v in found.items()}
  return best | {"decay": np.asarray(decays)[chosen // ROUNDS]}, seconds


def main() -> None:
  """Trains with all losses, prints the tables, and writes them."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.which_loss")
  parser.add_argument("--no-decay", action="store_true", help="train without weight decay")
  decays = DECAYS[:1] if parser.parse_args().no_decay else DECAYS
  text = [machine()]
  for name in SETS:
    splits = [drawn(name, seed) for seed in range(SPLITS)]
    parts = [
      [jnp.asarray(np.stack(x)) for x in zip(*part, strict=True)]
      for part in zip(*splits, strict=True)
    ]
    change = "nDCG@10 minus that of `softmax`"
    head = ["trained on", *(str(m) for m in MEASURES), change, "decay", "time"]
    print(name, *head, sep=" | ", flush=True)
    reference, rows = None, []
    for title, loss in LOSSES.items():
      tried = COSTLY.get(title, decays) if len(decays) > 1 else decays
      found, seconds = measured(loss, parts, tried)
      reference = reference or (found, seconds)
      apart = found["nDCG@10"] - reference[0]["nDCG@10"]
      error = apart.std(ddof=1) / SPLITS**0.5
      means = (f"{found[str(measure)].mean():.4f}" for measure in MEASURES)
      change, time = f"{apart.mean():+.4f} ± {error:.4f}", f"{seconds / reference[1]:.1f}"
      decay = f"{np.median(found['decay']):g}"
      rows.append([title, *means, change, decay, time])
      print(*rows[-1], sep=" | ", flush=True)
    text.append(f"### {name}\n\n{table(head, rows)}")
  if decays == DECAYS:
    write("which loss", "\n\n".join(text), "losses.md")


if __name__ == "__main__":
  main()
