"""Trains a two-tower retriever on as many devices as there are, and evaluates it on the catalogue.

The data are the synthetic interactions of `recommend.py`, of which every user holds out five items.
The queries of a batch and the table of items are split over the devices. Every device scores the
users of the whole batch against its own part of the items of the batch, so that the negatives are
those of all devices; `sampled_softmax` corrects for the frequency of the items and leaves out
accidental hits. The evaluation takes the whole catalogue without the items that a user has seen,
each device its own part. The losses do not depend on the number of devices.

Run `python examples/two_tower.py`, or `JAX_NUM_CPU_DEVICES=4 python examples/two_tower.py` for four
devices on a CPU. It prints the loss of each step, and draws recall against steps.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from matplotlib.figure import Figure
from recommend import load
from tqdm import tqdm

import jaxrank as jr

SIZE, BATCH, HELD_OUT = 32, 256, 5
TEMPERATURE = 0.5
EVALUATOR = jr.Evaluator("R@10 R@100 nDCG@10 RR")


class Data(NamedTuple):
  """Items of each user to train on and to hold out, and the log frequency of each item."""

  seen: np.ndarray
  held_out: np.ndarray
  log_q: np.ndarray


Params = dict[str, Array]


def data(users: int, items: int, each: int) -> Data:
  feedback = load(users, items, each, seed=0)
  chosen = np.concatenate([feedback.seen, feedback.held_out[:, None]], axis=1)
  seen, held_out = chosen[:, HELD_OUT:], chosen[:, :HELD_OUT]
  counts = np.bincount(seen.ravel(), minlength=items) + 1
  return Data(seen, held_out, np.log(counts / counts.sum()).astype(np.float32))


def init(key: Array, users: int, items: int) -> Params:
  keys = jax.random.split(key, 3)
  return {
    "users": jax.random.normal(keys[0], (users, SIZE)) / SIZE**0.5,
    "tower": jnp.eye(SIZE) + jax.random.normal(keys[1], (SIZE, SIZE)) / SIZE,
    "items": jax.random.normal(keys[2], (items, SIZE)) / SIZE**0.5,
  }


# The table of items is split by rows, everything else is on every device.
SPECS = {"users": P(), "tower": P(), "items": P("d")}


def of_users(params: Params, users: Array) -> Array:
  """The first tower."""
  return params["users"][users] @ params["tower"]


def of_items(table: Array, ids: Array) -> Array:
  """The second tower: rows of a table that is split over devices, for ids that are split, too."""
  every = lax.all_gather(ids, "d", tiled=True)
  row = every - lax.axis_index("d") * len(table)
  own = (row >= 0) & (row < len(table))
  found = jnp.where(own[:, None], table[jnp.clip(row, 0, len(table) - 1)], 0)
  return lax.psum_scatter(found, "d", tiled=True)


def loss(params: Params, users: Array, items: Array, log_q: Array) -> Array:
  """The mean loss of the users of all devices; the arguments are those of one."""
  queries = lax.all_gather(of_users(params, users), "d", tiled=True)
  targets = lax.all_gather(items, "d", tiled=True)
  place = lax.axis_index("d") * len(items) + jnp.arange(len(items))
  losses = jr.losses.sampled_softmax(
    queries @ of_items(params["items"], items).T,
    jnp.arange(len(targets))[:, None] == place,
    log_q=log_q[items],
    accidental_hits=targets[:, None] == items,
    temperature=TEMPERATURE,
    axis_name="d",
  )
  # All devices have the losses of all users; the mean says so to `shard_map`.
  return lax.pmean(losses.mean(), "d")


class Trainer:
  """The compiled functions of a run on a mesh."""

  def __init__(self, found: Data, items: int, mesh: jax.sharding.Mesh, steps: int):
    self.optimizer = optax.adam(optax.cosine_decay_schedule(0.02, steps))
    self.mesh, self.found = mesh, jax.tree.map(jnp.asarray, found)
    # Ids of no user's item pad the table, so that its rows divide among the devices.
    self.rows = -(-items // mesh.size) * mesh.size
    self.loss = jax.shard_map(loss, mesh=mesh, in_specs=(SPECS, P("d"), P("d"), P()), out_specs=P())
    self.step = jax.jit(self._step)
    self.evaluate = jax.jit(self._evaluate)

  def init(self) -> tuple[Params, Any]:
    users, items = self.found.seen.shape[0], len(self.found.log_q)
    params = init(jax.random.key(0), users, items)
    params["items"] = jnp.pad(params["items"], ((0, self.rows - items), (0, 0)))
    params = {
      name: jax.device_put(value, NamedSharding(self.mesh, SPECS[name]))
      for name, value in params.items()
    }
    return params, self.optimizer.init(params)

  def _step(self, params: Params, state: Any, key: Array) -> tuple[Params, Any, Array]:
    first, second = jax.random.split(key)
    users = jax.random.randint(first, (BATCH,), 0, self.found.seen.shape[0])
    column = jax.random.randint(second, (BATCH,), 0, self.found.seen.shape[1])
    batch = users, self.found.seen[users, column]
    value, grads = jax.value_and_grad(self.loss)(params, *batch, self.found.log_q)
    updates, state = self.optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value

  def _evaluate(self, params: Params) -> jr.State:
    """The state of the evaluator for all users, among all items that they have not seen."""
    users, items = self.found.seen.shape[0], len(self.found.log_q)
    padding = jnp.broadcast_to(jnp.arange(items, self.rows), (users, self.rows - items))
    exclude = jnp.concatenate([self.found.seen, padding], axis=1)
    queries = of_users(params, jnp.arange(users))

    def excluding(queries: Array, items: Array, positives: Array, exclude: Array) -> Any:
      return jr.corpus.evaluate(
        EVALUATOR.measures, queries, items, positives, exclude=exclude, chunk=2048, axis_name="d"
      )

    values = jax.shard_map(
      excluding, mesh=self.mesh, in_specs=(P(), P("d"), P(), P()), out_specs=P()
    )(queries, params["items"], self.found.held_out, exclude)
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
  parser.add_argument("--steps", type=int, default=1500)
  parser.add_argument("--every", type=int, default=125, help="steps between evaluations")
  parser.add_argument("--out", type=Path, default=Path("two_tower.png"), help="the plot")
  args = parser.parse_args()

  devices = jax.devices()
  if BATCH % len(devices):
    parser.error(f"the number of devices must divide {BATCH}, got {len(devices)}")
  mesh = jax.make_mesh((len(devices),), ("d",), axis_types=(AxisType.Auto,))
  print(f"{len(devices)} devices")
  trainer = Trainer(data(args.users, args.items, args.each), args.items, mesh, args.steps)
  params, state = trainer.init()
  steps, history = [0], [EVALUATOR.compute(trainer.evaluate(params))]
  keys = jax.random.split(jax.random.key(1), args.steps)
  for i, key in enumerate(tqdm(keys, desc="training", unit="step"), start=1):
    params, state, value = trainer.step(params, state, key)
    print(f"step {i} loss {value:.8f}")
    if i % args.every == 0 or i == args.steps:
      evaluated = trainer.evaluate(params)
      steps.append(i)
      history.append(EVALUATOR.compute(evaluated))
  errors = EVALUATOR.standard_error(evaluated)
  print(", ".join(f"{name} {mean:.4f} ± {errors[name]:.4f}" for name, mean in history[-1].items()))
  plot(args.out, steps, history)
  print(f"plot: {args.out}")


if __name__ == "__main__":
  main()
