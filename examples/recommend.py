"""Trains a recommender on implicit feedback and ranks the whole catalogue for every user.

The data are synthetic: users and items have hidden factors, and a few items are popular with most
users. One interaction of each user is held out. A matrix factorisation trains on `sampled_softmax`,
whose candidates are the other items of the batch. Batches contain popular items more often, which
`log_q` corrects. The evaluation ranks the held-out item among all items that the user has not seen,
chunk by chunk with `jr.corpus.target_ranks`.

Run `python examples/recommend.py`. It prints metrics of each model, and hits@10 as measured among
100 sampled items. With `--items 1000000` the scores of all users and items would not fit in memory.
"""

import argparse
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from tqdm import tqdm

import jaxrank as jr

SIZE, BATCH, SAMPLED = 16, 256, 100
TEMPERATURE = 0.1

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


def loss(params: Params, users: Array, items: Array, log_q: Array | None) -> Array:
  """The softmax loss of each user's item among the items of the batch."""
  scores = params["users"][users] @ params["items"][items].T
  same = items[:, None] == items[None, :]
  own = jnp.eye(len(items))
  losses = jr.losses.sampled_softmax(
    scores, own, log_q=log_q, accidental_hits=same, temperature=TEMPERATURE * SIZE**0.5
  )
  return losses.mean()


def train(feedback: Feedback, steps: int, corrected: bool, seed: int) -> Params:
  """The embeddings after some steps of Adam, with or without the correction for sampling."""
  users, each = feedback.seen.shape
  pairs = jnp.asarray(np.stack([np.repeat(np.arange(users), each), feedback.seen.ravel()]))
  log_q = jnp.log(jnp.asarray(feedback.counts / feedback.seen.size, jnp.float32))
  optimizer = optax.adam(optax.cosine_decay_schedule(0.02, steps))
  params = init(jax.random.key(seed), users, feedback.items)

  @jax.jit
  def step(params: Params, state: Any, key: Array) -> tuple[Params, Any, Array]:
    user, item = pairs[:, jax.random.randint(key, (BATCH,), 0, pairs.shape[1])]
    drawn = log_q[item] if corrected else None
    value, grads = jax.value_and_grad(loss)(params, user, item, drawn)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value

  state = optimizer.init(params)
  with tqdm(total=steps, desc="log_q" if corrected else "no log_q", unit="step") as progress:
    for i, key in enumerate(jax.random.split(jax.random.key(seed + 1), steps)):
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
  parser.add_argument("--steps", type=int, default=3000)
  parser.add_argument("--seed", type=int, default=0)
  args = parser.parse_args()

  feedback = load(args.users, args.items, args.each, args.seed)
  popular = np.ones((args.users, 1), np.float32), feedback.counts[:, None].astype(np.float32)
  models = {"popularity": popular}
  for corrected in (False, True):
    params = train(feedback, args.steps, corrected, args.seed)
    name = "factors, log_q" if corrected else "factors"
    models[name] = params["users"], params["items"]

  rows = {}
  for name, (queries, items) in models.items():
    ranks = rank(jnp.asarray(queries), jnp.asarray(items), feedback)
    rows[name] = measure(ranks) | sample(ranks, args.seed)
  print(f"{args.users} users, {args.items} items; right: hits@10 from {SAMPLED} sampled items")
  print(f"{'':16}" + "".join(f"{name:>11}" for name in rows["popularity"]))
  for name, values in rows.items():
    print(f"{name:16}" + "".join(f"{value:11.4g}" for value in values.values()))


if __name__ == "__main__":
  main()
