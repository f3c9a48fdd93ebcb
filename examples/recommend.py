"""Trains a recommender on implicit feedback and ranks the whole catalogue for every user.

The data are synthetic: users and items have hidden factors, and a few items are popular with most
users. One interaction of each user is held out. A matrix factorisation trains with four losses:

* the softmax over the items of the batch, `jr.losses.sampled_softmax`, without `log_q`;
* the same with `log_q`, which corrects that batches contain popular items more often;
* the softmax over the whole catalogue, `jr.corpus.softmax`;
* smooth nDCG over the whole catalogue, `jr.corpus.evaluate(..., ranking=jr.Laplace(t))`, which
  starts from the factors of the softmax.

The evaluation ranks the held-out item among all items that the user has not seen, chunk by chunk
with `jr.corpus.target_ranks`.

Run `python examples/recommend.py`. It prints metrics of each model, and hits@10 as measured among
100 sampled items. With `--items 1000000` the scores of all users and items would not fit in memory.
"""

import argparse
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from tqdm import tqdm

import jaxrank as jr

SIZE, SAMPLED = 32, 100
TEMPERATURE = 0.5

Params = dict[str, Array]


class Feedback(NamedTuple):
  """The training items of each user, `[users, seen]`, and the held-out item, `[users]`."""

  seen: np.ndarray
  held_out: np.ndarray
  items: int

  @property
  def counts(self) -> np.ndarray:
    return np.bincount(self.seen.ravel(), minlength=self.items)


def load(users: int, items: int, each: int, seed: int) -> Feedback:
  """Draws the interactions of each user, by hidden factors and popularity, without repeats."""
  rng = np.random.default_rng(seed)
  tastes, kinds = rng.standard_normal((users, 8)), rng.standard_normal((items, 8))
  popularity = 0.8 * np.log(rng.permutation(items) + 5.0)
  chosen = np.empty((users, each + 1), np.int32)
  for user in range(users):
    score = tastes[user] @ kinds.T - popularity + rng.gumbel(size=items)
    chosen[user] = rng.permutation(np.argpartition(-score, each)[: each + 1])
  return Feedback(chosen[:, :-1], chosen[:, -1], items)


def init(key: Array, users: int, items: int) -> Params:
  keys = jax.random.split(key)
  return {
    "users": jax.random.normal(keys[0], (users, SIZE)) / SIZE**0.5,
    "items": jax.random.normal(keys[1], (items, SIZE)) / SIZE**0.5,
  }


def of_batch(params: Params, user: Array, seen: Array, log_q: Array | None) -> Array:
  """The softmax loss of one item of each user among the items of the batch."""
  item = seen[:, 0]
  losses = jr.losses.sampled_softmax(
    params["users"][user] @ params["items"][item].T,
    jnp.eye(len(item)),
    log_q=None if log_q is None else log_q[item],
    accidental_hits=item[:, None] == item,
    temperature=TEMPERATURE,
  )
  return losses.mean()


def of_catalogue(params: Params, user: Array, seen: Array) -> Array:
  """The softmax loss of all items of each user among all items."""
  users, items = params["users"][user], params["items"]
  return jr.corpus.softmax(users, items, seen, temperature=TEMPERATURE).mean() / seen.shape[1]


def of_ranks(params: Params, user: Array, seen: Array) -> Array:
  """One minus smooth nDCG of all items of each user among all items."""
  users, items = params["users"][user], params["items"]
  values = jr.corpus.evaluate("nDCG", users, items, seen, ranking=jr.Laplace(0.1))
  return 1 - values["nDCG"].mean()


class Way(NamedTuple):
  """A way to train: its loss, the users of a batch, and constants of the optimiser."""

  loss: Callable[..., Array]
  batch: int
  steps: int
  rate: float
  decay: float


def train(name: str, way: Way, feedback: Feedback, params: Params, seed: int) -> Params:
  """The embeddings after some steps of Adam with weight decay."""
  schedule = optax.cosine_decay_schedule(way.rate, way.steps)
  optimizer = optax.adamw(schedule, weight_decay=way.decay)
  seen = jnp.asarray(feedback.seen)

  @jax.jit
  def step(params: Params, state: Any, key: Array) -> tuple[Params, Any, Array]:
    first, second = jax.random.split(key)
    user = jax.random.randint(first, (way.batch,), 0, len(seen))
    items = jax.random.permutation(second, seen[user], axis=1, independent=True)
    value, grads = jax.value_and_grad(way.loss)(params, user, items)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value

  state = optimizer.init(params)
  with tqdm(total=way.steps, desc=name, unit="step") as progress:
    for i, key in enumerate(jax.random.split(jax.random.key(seed + 1), way.steps)):
      params, state, value = step(params, state, key)
      progress.update()
      if i % 100 == 0:
        progress.set_postfix(loss=f"{value:.3f}")
  return params


def rank(queries: Array, items: Array, feedback: Feedback) -> jr.ranks.TargetRanks:
  """The rank of each held-out item among all items that its user has not seen."""
  with tqdm(desc="ranking", unit="item", unit_scale=True) as bar:

    def progress(done: int, total: int) -> None:
      bar.total = total
      bar.update(done - bar.n)

    return jr.corpus.target_ranks(
      queries, items, feedback.held_out, exclude=feedback.seen, progress=progress
    )


def measure(ranks: jr.ranks.TargetRanks) -> dict[str, Array]:
  """Metrics of the whole catalogue, which depend on the rank of the one relevant item."""
  ndcg = jnp.where(ranks.realistic <= 10, 1 / jnp.log2(1 + ranks.realistic), 0)
  values = jr.ranks.evaluate("hits@10 mrr mr", ranks)
  return {"hits@10": values["hits@10"], "nDCG@10": ndcg.mean(), "MRR": values["mrr"]} | {
    "mean rank": values["mr"]
  }


def sample(ranks: jr.ranks.TargetRanks, seed: int) -> dict[str, Array | float]:
  """Hits@10 as measured among a sample of items, and corrected for the sampling."""
  rank, candidates = np.asarray(ranks.realistic), int(ranks.candidates[0])
  drawn = np.random.default_rng(seed).binomial(SAMPLED, (rank - 1) / (candidates - 1))
  table = jr.corpus.unsampled_metric(lambda r: r <= 10, SAMPLED, candidates)
  return {"sampled": (drawn < 10).mean(), "corrected": table[drawn].mean()}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--users", type=int, default=1000)
  parser.add_argument("--items", type=int, default=5000)
  parser.add_argument("--each", type=int, default=30, help="interactions of each user")
  parser.add_argument("--steps", type=int, default=2000, help="steps of the softmax of a batch")
  parser.add_argument("--seed", type=int, default=0)
  args = parser.parse_args()

  feedback = load(args.users, args.items, args.each, args.seed)
  popular = np.ones((args.users, 1), np.float32), feedback.counts[:, None].astype(np.float32)
  models = {"popularity": popular}
  log_q = jnp.log(jnp.asarray(feedback.counts / feedback.seen.size, jnp.float32))
  ways = {
    "batch, no log_q": Way(functools.partial(of_batch, log_q=None), 256, args.steps, 0.02, 0.75),
    "batch": Way(functools.partial(of_batch, log_q=log_q), 256, args.steps, 0.02, 0.75),
    "catalogue": Way(of_catalogue, 32, args.steps // 2, 0.02, 1.0),
    "then nDCG": Way(of_ranks, 32, args.steps // 10, 0.003, 0.0),
  }
  start = params = init(jax.random.key(args.seed), args.users, args.items)
  for name, way in ways.items():
    params = train(name, way, feedback, params if name == "then nDCG" else start, args.seed)
    models[name] = params["users"], params["items"]

  rows = {}
  for name, (queries, items) in models.items():
    ranks = rank(jnp.asarray(queries), jnp.asarray(items), feedback)
    rows[name] = measure(ranks) | sample(ranks, args.seed)
  print(f"{args.users} users, {args.items} items; right: hits@10 from {SAMPLED} sampled items")
  print(f"{'':16}" + "".join(f"{name:>11}" for name in rows["popularity"]))
  for name, values in rows.items():
    print(f"{name:16}" + "".join(f"{value:11.4g}" for value in values.values()))
  best = max(rows, key=lambda name: float(rows[name]["nDCG@10"]))
  print(f"The best nDCG@10 among all items is that of {best!r}.")


if __name__ == "__main__":
  main()
