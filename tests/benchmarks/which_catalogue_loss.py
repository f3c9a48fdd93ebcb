"""`python -m tests.benchmarks.which_catalogue_loss`: compares losses over catalogues.

The table replaces what stands between two comments of `docs/catalogues.md`. The interactions are
those that `examples/recommend.py` draws: each user has 20 to train on, 5 to validate and 5 to test.
All losses train the same factors with Adam and decoupled weight decay. The temperature and the
weight decay of each are those with the best nDCG@10 of the validation items. Nothing was tuned on
the items of the table.
"""

import functools
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import jaxrank as jr
from tests.house.metric_table import table

from .report import machine, write

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import recommend

USERS, TRAIN, VALID, TEST, SEEDS = 1000, 20, 5, 5, 3
CATALOGUES = (1000, 5000)

Params = dict[str, Array]
Loss = Callable[[Params, Array, Array, Array], Array]


class Data(NamedTuple):
  """Items of each user, `[users, items of each]`."""

  train: Array
  valid: Array
  test: Array

  def value(self, params: Params, name: str) -> np.ndarray:
    """nDCG@10 of each user for the items of a part, among those of no part before it."""
    before = self.train if name == "valid" else jnp.concatenate([self.train, self.valid], axis=1)
    found = jr.corpus.evaluate(
      "nDCG@10", params["users"], params["items"], getattr(self, name), exclude=before
    )
    return np.asarray(found["nDCG@10"])


def drawn(items: int, seed: int) -> Data:
  feedback = recommend.load(USERS, items, TRAIN + VALID + TEST - 1, seed)
  chosen = np.concatenate([feedback.seen, feedback.held_out[:, None]], axis=1)
  return Data(*(jnp.asarray(x) for x in np.split(chosen, [TRAIN, TRAIN + VALID], axis=1)))


def of_batch(pairs: int, params: Params, key: Array, train: Array, temperature: Array) -> Array:
  """The softmax over the items of a batch of pairs, corrected for how often each is drawn."""
  first, second = jax.random.split(key)
  user = jax.random.randint(first, (pairs,), 0, USERS)
  item = train[user, jax.random.randint(second, (pairs,), 0, TRAIN)]
  counts = jnp.bincount(train.ravel(), length=len(params["items"]))
  return jr.losses.sampled_softmax(
    params["users"][user] @ params["items"][item].T,
    jnp.eye(pairs),
    log_q=jnp.log(counts / train.size)[item],
    accidental_hits=item[:, None] == item,
    temperature=temperature,
  ).mean()


def of_catalogue(params: Params, key: Array, train: Array, temperature: Array) -> Array:
  """The softmax over all items, for all items of 32 users."""
  user = jax.random.randint(key, (32,), 0, USERS)
  users, items = params["users"][user], params["items"]
  return jr.corpus.softmax(users, items, train[user], temperature=temperature).mean() / TRAIN


def of_ranks(params: Params, key: Array, train: Array, temperature: Array) -> Array:
  """Smooth nDCG over all items, for all items of 32 users."""
  user = jax.random.randint(key, (32,), 0, USERS)
  users, items = params["users"][user], params["items"]
  ranking = jr.Laplace(temperature)
  return 1 - jr.corpus.evaluate("nDCG", users, items, train[user], ranking=ranking)["nDCG"].mean()


class Way(NamedTuple):
  """A way to train: a loss, its steps, and what is tuned."""

  loss: Loss
  steps: int
  rate: float
  temperatures: tuple[float, ...]
  decays: tuple[float, ...]


DECAYS = (0.0, 0.25, 0.5, 1.0, 2.0)
BATCH = Way(functools.partial(of_batch, 256), 2000, 0.02, (0.5, 1.0), DECAYS)
SMALL = Way(functools.partial(of_batch, 32), 2000, 0.02, (0.5, 1.0), DECAYS)
WHOLE = Way(of_catalogue, 1000, 0.02, (0.5, 1.0), DECAYS)
SMOOTH = Way(of_ranks, 500, 0.02, (0.3, 1.0), (0.0, 0.5, 2.0))
AFTER = Way(of_ranks, 200, 0.003, (0.1, 0.3, 1.0), (0.0, 1.0))


@functools.partial(jax.jit, static_argnums=0)
def run(way: Way, params: Params, train: Array, temperature: Array, decay: Array) -> Params:
  """The factors at the end of a training."""
  optimizer = optax.chain(
    optax.scale_by_adam(),
    optax.add_decayed_weights(decay),
    optax.scale_by_schedule(optax.cosine_decay_schedule(-way.rate, way.steps)),
  )

  def step(carry: tuple[Params, Any], key: Array) -> tuple[tuple[Params, Any], None]:
    params, state = carry
    slopes = jax.grad(way.loss)(params, key, train, temperature)
    updates, state = optimizer.update(slopes, state, params)
    return (optax.apply_updates(params, updates), state), None

  keys = jax.random.split(jax.random.key(1), way.steps)
  return jax.lax.scan(step, (params, optimizer.init(params)), keys)[0][0]


class Trained(NamedTuple):
  """A model of each seed, with what its validation items chose, and the seconds of a training."""

  models: list[Params]
  chosen: list[tuple[float, float]]
  seconds: float


def tuned(way: Way, sets: list[Data], starts: list[Params]) -> Trained:
  models, chosen, seconds = [], [], []
  for data, start in zip(sets, starts, strict=True):
    found = {}
    for setting in itertools.product(way.temperatures, way.decays):
      begin = time.perf_counter()
      model = jax.block_until_ready(run(way, start, data.train, *setting))
      seconds.append(time.perf_counter() - begin)
      found[data.value(model, "valid").mean(), setting] = model
    best = max(found, key=lambda of: of[0])
    models.append(found[best])
    chosen.append(best[1])
  return Trained(models, chosen, min(seconds))


def row(title: str, values: np.ndarray, reference: np.ndarray, way: Trained | None) -> list[str]:
  apart = (values - reference).ravel()
  error = apart.std(ddof=1) / apart.size**0.5
  cells = [title, f"{values.mean():.4f}", f"{apart.mean():+.4f} ± {error:.4f}", "", ""]
  if way is not None:
    chosen = dict.fromkeys(way.chosen)
    cells[3:] = ", ".join(f"{t:g} and {d:g}" for t, d in chosen), f"{way.seconds:.1f} s"
  print(*cells, sep=" | ", flush=True)
  return cells


def compare(items: int) -> str:
  """The table of a catalogue."""
  sets = [drawn(items, seed) for seed in range(SEEDS)]
  starts = [recommend.init(jax.random.key(seed), USERS, items) for seed in range(SEEDS)]
  head = ["trained on", "nDCG@10", "minus `sampled_softmax`", "temperature and decay", "training"]
  rows = []

  def test(models: list[Params]) -> np.ndarray:
    return np.stack([data.value(model, "test") for data, model in zip(sets, models, strict=True)])

  def add(title: str, way: Trained) -> Trained:
    rows.append(row(title, test(way.models), reference, way))
    return way

  batch = tuned(BATCH, sets, starts)
  reference = test(batch.models)
  popular = [
    {
      "users": jnp.ones((USERS, 1)),
      "items": jnp.bincount(data.train.ravel(), length=items)[:, None].astype(float),
    }
    for data in sets
  ]
  rows.append(row("nothing: the most popular items", test(popular), reference, None))
  add("`losses.sampled_softmax`, 256 pairs", batch)
  add("`losses.sampled_softmax`, 32 pairs", tuned(SMALL, sets, starts))
  whole = add("`corpus.softmax`, 32 users", tuned(WHOLE, sets, starts))
  plain = add(
    "`corpus.softmax` without weight decay", tuned(WHOLE._replace(decays=(0.0,)), sets, starts)
  )
  add("smooth nDCG, 32 users, from random weights", tuned(SMOOTH, sets, starts))
  add("smooth nDCG after `corpus.softmax` without weight decay", tuned(AFTER, sets, plain.models))
  add("smooth nDCG after `corpus.softmax`", tuned(AFTER, sets, whole.models))
  add("smooth nDCG after `sampled_softmax`", tuned(AFTER, sets, batch.models))
  return f"{items:,} items\n\n{table(head, rows)}"


def main() -> None:
  """Trains with all losses, prints the tables, and writes them."""
  text = [machine(), *(compare(items) for items in CATALOGUES)]
  write("which catalogue loss", "\n\n".join(text), "catalogues.md")


if __name__ == "__main__":
  main()
