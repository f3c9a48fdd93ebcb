"""Trains a two-tower retriever against the whole catalogue, on as many devices as there are.

The data are the synthetic interactions of `recommend.py`, of which every user holds out five items.
The rows of the table of items are split over the devices of an Explicit mesh, and everything else
is on every device. `jr.corpus.softmax` is the cross entropy of all items of a user and the softmax
over the whole catalogue: every device sums over its own items, and no device ever holds the scores
of all items. The evaluation ranks the held-out items among all items that a user has not seen, by
`jr.corpus.evaluate` on the same table. The losses do not depend on the number of devices.

Run `python examples/two_tower.py`, or `JAX_NUM_CPU_DEVICES=4 python examples/two_tower.py` for four
devices on a CPU. It prints the loss and the metrics every hundred steps, and draws the metrics
against the steps.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import PartitionSpec as P
from matplotlib.figure import Figure
from recommend import load
from tqdm import tqdm

import jaxrank as jr

SIZE, BATCH, HELD_OUT = 32, 256, 5
TEMPERATURE, WEIGHT_DECAY = 0.5, 2.0
EVALUATOR = jr.Evaluator("R@10 R@100 nDCG@10 RR")


class Data(NamedTuple):
  """Items of each user to train on and to hold out, and rows of the table that are no items."""

  seen: Array
  held_out: Array
  padding: Array


Params = dict[str, Array]


def data(users: int, items: int, each: int, devices: int) -> Data:
  """The interactions; the rows of the table, with its padding, divide among the devices."""
  feedback = load(users, items, each, seed=0)
  chosen = np.concatenate([feedback.seen, feedback.held_out[:, None]], axis=1)
  padding = np.arange(items, -(-items // devices) * devices)
  return Data(
    jnp.asarray(chosen[:, HELD_OUT:]), jnp.asarray(chosen[:, :HELD_OUT]), jnp.asarray(padding)
  )


def init(key: Array, users: int, items: int, rows: int) -> Params:
  """Embeddings and a tower; the rows of the table beyond the items are 0."""
  keys = jax.random.split(key, 3)
  table = jax.random.normal(keys[2], (items, SIZE)) / SIZE**0.5
  params = {
    "users": jax.random.normal(keys[0], (users, SIZE)) / SIZE**0.5,
    "tower": jnp.eye(SIZE) + jax.random.normal(keys[1], (SIZE, SIZE)) / SIZE,
    "items": jnp.pad(table, ((0, rows - items), (0, 0))),
  }
  return {name: jax.device_put(value, SPECS[name]) for name, value in params.items()}


# The table of items is split by rows over the axis "d" of the mesh; everything else is copied.
SPECS = {"users": P(), "tower": P(), "items": P("d")}


def encode(params: Params, users: Array) -> Array:
  """The tower of the users; that of the items is their table."""
  return params["users"][users] @ params["tower"]


def loss(params: Params, users: Array, data: Data) -> Array:
  """The mean over all items of some users of the cross entropy with the whole catalogue."""
  losses = jr.corpus.softmax(
    encode(params, users),
    params["items"],
    data.seen[users],
    exclude=jnp.broadcast_to(data.padding, (len(users), len(data.padding))),
    temperature=TEMPERATURE,
  )
  return losses.mean() / data.seen.shape[1]


@jax.jit
def evaluate(params: Params, data: Data) -> jr.State:
  """The state of the evaluator for all users, among all items that they have not seen."""
  users = len(data.seen)
  padding = jnp.broadcast_to(data.padding, (users, len(data.padding)))
  values = jr.corpus.evaluate(
    EVALUATOR.measures,
    encode(params, jnp.arange(users)),
    params["items"],
    data.held_out,
    exclude=jnp.concatenate([data.seen, padding], axis=1),
  )
  return EVALUATOR.add(EVALUATOR.init(), values)


def plot(path: Path, steps: list[int], history: list[dict[str, float]]) -> None:
  figure = Figure(figsize=(6.4, 4.2), layout="constrained")
  axes = figure.subplots()
  for name in history[0]:
    axes.plot(steps, [means[name] for means in history], marker="o", markersize=4, label=name)
  axes.set(xlabel="step", ylabel="mean over users", title="Held-out items among all items", ylim=0)
  axes.grid(True, alpha=0.3)
  axes.legend()
  figure.savefig(path, dpi=110)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--users", type=int, default=1000)
  parser.add_argument("--items", type=int, default=5000)
  parser.add_argument("--each", type=int, default=30, help="interactions of each user")
  parser.add_argument("--steps", type=int, default=500)
  parser.add_argument("--every", type=int, default=100, help="steps between evaluations")
  parser.add_argument("--out", type=Path, default=Path("two_tower.png"), help="the plot")
  args = parser.parse_args()

  devices = jax.device_count()
  jax.set_mesh(jax.make_mesh((devices,), ("d",)))
  print(f"{devices} devices")
  known = data(args.users, args.items, args.each, devices)
  params = init(jax.random.key(0), args.users, args.items, args.items + len(known.padding))
  schedule = optax.cosine_decay_schedule(0.02, args.steps)
  optimizer = optax.adamw(schedule, weight_decay=WEIGHT_DECAY)
  state = optimizer.init(params)

  @jax.jit
  def step(params: Params, state: Any, key: Array, data: Data) -> tuple[Params, Any, Array]:
    users = jax.random.randint(key, (BATCH,), 0, args.users)
    value, grads = jax.value_and_grad(loss)(params, users, data)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value

  steps, history = [0], [EVALUATOR.compute(evaluate(params, known))]
  keys = jax.random.split(jax.random.key(1), args.steps)
  for i, key in enumerate(progress := tqdm(keys, desc="training", unit="step"), start=1):
    params, state, value = step(params, state, key, known)
    # Each step ends before the next starts: the devices of a CPU share its threads, and steps that
    # wait for each other's sums could take them all.
    progress.set_postfix(loss=f"{value:.3f}")
    if i % args.every == 0 or i == args.steps:
      evaluated = evaluate(params, known)
      steps.append(i)
      history.append(EVALUATOR.compute(evaluated))
      means = ", ".join(f"{name} {mean:.4f}" for name, mean in history[-1].items())
      tqdm.write(f"step {i}, loss {value:.6f}, {means}")
  errors = EVALUATOR.standard_error(evaluated)
  print(f"{args.users} users, the held-out items of each among all {args.items}:")
  print(", ".join(f"{name} {mean:.4f} ± {errors[name]:.4f}" for name, mean in history[-1].items()))
  plot(args.out, steps, history)
  print(f"plot: {args.out}")


if __name__ == "__main__":
  main()
