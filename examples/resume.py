"""Trains and evaluates a ranker in a job that may be killed at any step and started again.

A checkpoint holds everything that the rest of the run depends on: the model, the optimizer, the
place of the data pipeline and the state of the evaluator. A job that is killed and started again
with the same folder reads the last checkpoint, says at which step it resumes, and ends with the
same numbers, to the bit, as a job that was never killed.

The lists are ragged: 5 to 120 candidates with 16 features, and labels that depend on the features
in a way that the network has to learn. Grain shuffles them and batches them by length, orbax writes
the checkpoints. Each batch is evaluated before the step that trains on it, so that the evaluator's
mean is over queries that the model has not seen.

Run `python examples/resume.py --folder run`, stop it with Ctrl-C or `kill -9`, and run it again. It
needs the extras `examples` and `pipelines`.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax import Array
from tqdm import tqdm

import jaxrank as jr
from jaxrank.interop.grain import BatchByLength

FEATURES, WIDTH, BATCH = 16, 32, 32
EVALUATOR = jr.Evaluator("nDCG@10 AP(rel=2) RR")
OPTIMIZER = optax.adam(3e-3)


class Run(NamedTuple):
  """What a step changes, except for the place in the data."""

  model: Any
  optimizer: Any
  evaluated: jr.State


class Lists:
  """A source of lists, each made from its number when it is read."""

  def __init__(self, count: int):
    self.count = count

  def __len__(self) -> int:
    return self.count

  def __getitem__(self, i: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([7, i])
    features = rng.normal(size=(rng.integers(5, 121), FEATURES)).astype(np.float32)
    worth = features @ np.cos(np.arange(FEATURES)) + 2 * np.tanh(features[:, 0] * features[:, 1])
    labels = np.digitize(worth + rng.normal(size=len(worth)), [3.0, 5.0])
    return {"features": features, "labels": labels.astype(np.int32)}


def pipeline(count: int) -> grain.IterDataset:
  """Batches of lists, epoch after epoch."""
  lists = grain.MapDataset.source(Lists(count)).seed(0).shuffle().repeat()
  # Five lengths, because the step is compiled for each of them.
  by_length = BatchByLength(BATCH, lengths=[24, 48, 72, 96, 120], buffer=512)
  return lists.to_iter_dataset().pipe(by_length)


def init(key: Array) -> Run:
  first, second = jax.random.split(key)
  model = {
    "hidden": jax.random.normal(first, (FEATURES, WIDTH)) / FEATURES**0.5,
    "out": jax.random.normal(second, (WIDTH,)) / WIDTH**0.5,
  }
  return Run(model, OPTIMIZER.init(model), EVALUATOR.init())


def score(model: Any, features: Array) -> Array:
  return jnp.tanh(features @ model["hidden"]) @ model["out"]


@jax.jit
def step(run: Run, batch: dict[str, Array]) -> Run:
  """Evaluates a batch, then trains on it."""
  labels, where = batch["labels"], batch["where"]

  def loss(model):
    scores = score(model, batch["features"])
    return jr.losses.softmax(scores, labels, where=where).mean(), scores

  grads, scores = jax.grad(loss, has_aux=True)(run.model)
  evaluated = EVALUATOR.update(run.evaluated, scores, labels, where=where)
  updates, optimizer = OPTIMIZER.update(grads, run.optimizer)
  return Run(optax.apply_updates(run.model, updates), optimizer, evaluated)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--folder", type=Path, default=Path("resume"), help="keeps the checkpoints")
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--every", type=int, default=25, help="steps between checkpoints")
  parser.add_argument("--lists", type=int, default=2000)
  args = parser.parse_args()

  run, batches, start = init(jax.random.key(0)), iter(pipeline(args.lists)), 0
  options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
  with ocp.CheckpointManager(args.folder.absolute(), options=options) as checkpoints:
    if checkpoints.latest_step() is not None:
      start = checkpoints.latest_step()
      restored = checkpoints.restore(
        start,
        args=ocp.args.Composite(
          run=ocp.args.StandardRestore(run), data=grain.checkpoint.CheckpointRestore(batches)
        ),
      )
      run = restored["run"]
      print(f"resuming at step {start}", flush=True)
    print("compiling, some 10 s for each length of lists", file=sys.stderr)
    for i in tqdm(range(start, args.steps), initial=start, total=args.steps, unit="step"):
      run = step(run, next(batches))
      if (i + 1) % args.every == 0:
        checkpoints.save(
          i + 1,
          args=ocp.args.Composite(
            run=ocp.args.StandardSave(run), data=grain.checkpoint.CheckpointSave(batches)
          ),
        )
  means, errors = EVALUATOR.compute(run.evaluated), EVALUATOR.standard_error(run.evaluated)
  numbers = ", ".join(f"{name} {means[name]:.8f} ± {errors[name]:.8f}" for name in means)
  total = sum(float(jnp.abs(x).sum()) for x in jax.tree.leaves(run.model))
  print("A run that was stopped and resumed ends with the same digits as one that was not:")
  print(f"{args.steps} steps: {numbers}, sum of weights {total:.8f}")


if __name__ == "__main__":
  main()
