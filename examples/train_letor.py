"""Trains a neural ranker on LETOR files with a smooth nDCG and evaluates it exactly.

The files are in svmlight format with `qid:`, or with the sizes of the queries in `FILE.query`:

  python examples/train_letor.py --train rank.train --test rank.test

It needs the extra `examples`, and prints metrics of both files before and after training.
"""

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from tqdm import tqdm

import jaxrank as jr

MEASURES = jr.parse("ndcg_burges@5 ndcg_burges@10 ERR@10 AP")

Params = list[dict[str, Array]]


def init(key: Array, sizes: list[int]) -> Params:
  keys = jax.random.split(key, len(sizes) - 1)
  return [
    {"w": jax.random.normal(k, (m, n)) * (2 / m) ** 0.5, "b": jnp.zeros(n)}
    for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
  ]


def score(params: Params, features: Array) -> Array:
  """Scores `[..., items]` of features `[..., items, features]`."""
  for layer in params[:-1]:
    features = jax.nn.relu(features @ layer["w"] + layer["b"])
  return (features @ params[-1]["w"] + params[-1]["b"])[..., 0]


def load(path: str, n_features: int | None = None) -> tuple[jr.Batch, np.ndarray]:
  """The queries of a file, padded to one length, and the features of its rows."""
  data = jr.letor.read(path, n_features=n_features)
  rows = np.sign(data.features) * np.log1p(np.abs(data.features))
  return jr.pad(data.query_ids, np.zeros_like(data.labels), data.labels), rows


def padded(batch: jr.Batch, rows: np.ndarray) -> np.ndarray:
  """Features `[queries, items, features]`, 0 on padding."""
  return np.where(batch.where[..., None], rows[batch.rows], 0).astype(np.float32)


@jax.jit
def evaluate(params: Params, features: Array, labels: Array, where: Array) -> dict[str, Array]:
  values = jr.evaluate(MEASURES, score(params, features), labels, where=where)
  return {name: value.mean() for name, value in values.items()}


def train(params: Params, data: tuple[Array, ...], steps: int, temperature: float) -> Params:
  optimizer = optax.adamw(optax.cosine_decay_schedule(3e-3, steps), weight_decay=0.1)

  def loss(params, features, labels, where):
    smooth = jr.ndcg(
      score(params, features),
      labels,
      where=where,
      gain=jr.gains.exponential,
      ranking=jr.Laplace(temperature),
    )
    return 1 - smooth.mean()

  @jax.jit
  def step(params, state, *batch):
    value, grads = jax.value_and_grad(loss)(params, *batch)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value

  state = optimizer.init(params)
  rng = np.random.default_rng(0)
  print("compiling, some 10 s", file=sys.stderr)
  step(params, state, *(array[: min(64, len(array))] for array in data))
  progress = tqdm(range(steps), desc="training", unit="step")
  for i in progress:
    queries = rng.permutation(len(data[0]))[:64]
    params, state, value = step(params, state, *(array[queries] for array in data))
    if i % 10 == 0:
      progress.set_postfix({"1 - smooth nDCG": f"{value:.4f}"})
  return params


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--train", required=True, help="svmlight file to train on")
  parser.add_argument("--test", required=True, help="svmlight file to test on")
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--temperature", type=float, default=1.0)
  parser.add_argument("--hidden", type=int, default=64)
  args = parser.parse_args()

  batch, rows = load(args.train)
  tests, test_rows = load(args.test, rows.shape[1])
  mean, std = rows.mean(axis=0), rows.std(axis=0) + 1e-6
  parts = {
    "train": (padded(batch, (rows - mean) / std), batch.labels, batch.where),
    "test": (padded(tests, (test_rows - mean) / std), tests.labels, tests.where),
  }
  before = init(jax.random.key(0), [rows.shape[1], args.hidden, args.hidden, 1])
  after = train(before, parts["train"], args.steps, args.temperature)

  print(f"\n{'':14}" + "".join(f"{measure.name:>16}" for measure in MEASURES))
  for part, data in parts.items():
    for moment, params in (("before", before), ("after", after)):
      values = evaluate(params, *data)
      row = "".join(f"{values[measure.name]:16.4f}" for measure in MEASURES)
      print(f"{part + ' ' + moment:14}{row}")
  print("\nThe network trained on one minus a smooth nDCG, and the metrics above are exact.")


if __name__ == "__main__":
  main()
