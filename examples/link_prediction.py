"""Trains ComplEx on a knowledge graph and computes filtered ranks of held-out triples.

The graph is synthetic: entities have hidden factors, and a relation links each entity to the few
that fit best. Each held-out triple gives two queries, one for its tail and one for its head. In
filtered ranks, other known answers are not candidates. `jr.corpus.target_ranks` computes the ranks
and never stores `[triples, entities]`. `jr.ranks.evaluate` computes metrics of the ranks, for
heads, tails and both, with optimistic, realistic and pessimistic ties, and adjusted for chance.

Run `python examples/link_prediction.py`. It needs the extra `examples`.
"""

import argparse
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from tqdm import tqdm

import jaxrank as jr

SIZE, BATCH, ANSWERS = 32, 256, 3
NAMES = (
  "mr mrr hits@1 hits@10 adjusted_arithmetic_mean_rank_index head.mrr tail.mrr optimistic.mrr "
  "pessimistic.mrr"
)

Params = dict[str, Array]


class Graph(NamedTuple):
  """Triples `[n, 3]` of head, relation and tail."""

  train: np.ndarray
  test: np.ndarray
  entities: int
  relations: int

  @property
  def known(self) -> np.ndarray:
    return np.concatenate([self.train, self.test])


def compose(entities: Any, relations: Any, side: int) -> Any:
  """The vector of a query for the tail (`side = 2`) or for the head (`side = 0`).

  The halves of a vector are its real and imaginary parts. The score of ComplEx,
  `Re(sum e r conj(x))`, is then the dot product of this vector and that of the entity `x`.
  """
  a, b = jnp.split(entities, 2, axis=-1)
  c, d = jnp.split(relations, 2, axis=-1)
  d = d if side == 2 else -d
  return jnp.concatenate([a * c - b * d, a * d + b * c], axis=-1)


def load(entities: int, relations: int, seed: int) -> Graph:
  """Triples of every entity with its best few tails of each relation; a tenth is held out."""
  rng = np.random.default_rng(seed)
  factors = rng.standard_normal((entities, 12)).astype(np.float32)
  turns = rng.standard_normal((relations, 12)).astype(np.float32)
  triples = []
  for relation in range(relations):
    scores = np.asarray(compose(factors, turns[relation], 2)) @ factors.T
    tails = np.argsort(-scores, axis=1)[:, :ANSWERS]
    heads = np.repeat(np.arange(entities), ANSWERS)
    triples.append(np.stack([heads, np.full_like(heads, relation), tails.ravel()], axis=1))
  triples = rng.permutation(np.concatenate(triples))
  held_out = len(triples) // 10
  return Graph(triples[held_out:], triples[:held_out], entities, relations)


def answers(asked: np.ndarray, known: np.ndarray, side: int) -> np.ndarray:
  """The known answers to each query, `[asked, most]`, padded with -1."""
  question = [column for column in (0, 1, 2) if column != side]
  _, group = np.unique(np.concatenate([known, asked])[:, question], axis=0, return_inverse=True)
  padded = jr.pad(group[: len(known)], known[:, side], known[:, side])
  rows = np.searchsorted(padded.query_ids, group[len(known) :])
  return np.where(padded.where, padded.labels, -1)[rows]


def loss(params: Params, triples: Array) -> Array:
  """The cross entropy of both queries, each over all entities."""
  total = jnp.zeros(())
  for side in (0, 2):
    queries = compose(
      params["entities"][triples[:, 2 - side]], params["relations"][triples[:, 1]], side
    )
    right = triples[:, side, None] == jnp.arange(len(params["entities"]))
    total += jr.losses.softmax(queries @ params["entities"].T, right).mean()
  return total


def train(graph: Graph, epochs: int, seed: int) -> Params:
  keys = jax.random.split(jax.random.key(seed))
  params = {
    "entities": jax.random.normal(keys[0], (graph.entities, SIZE)) / SIZE**0.5,
    "relations": jax.random.normal(keys[1], (graph.relations, SIZE)),
  }
  optimizer = optax.adam(0.01)
  triples = jnp.asarray(graph.train)

  @jax.jit
  def step(params: Params, state: Any, rows: Array) -> tuple[Params, Any, Array]:
    value, grads = jax.value_and_grad(loss)(params, triples[rows])
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value

  state, rng = optimizer.init(params), np.random.default_rng(seed)
  print("compiling, a few seconds", file=sys.stderr)
  step(params, state, np.arange(BATCH))
  with tqdm(range(epochs), desc="training", unit="epoch") as progress:
    for _ in progress:
      order = rng.permutation(len(triples))
      for rows in order[: len(order) // BATCH * BATCH].reshape(-1, BATCH):
        params, state, value = step(params, state, rows)
      progress.set_postfix(loss=f"{value:.3f}")
  return params


def rank(params: Params, graph: Graph, side: int, filtered: bool) -> jr.ranks.TargetRanks:
  """The rank of the head or tail of each held-out triple, among all entities or filtered."""
  targets = graph.test[:, side]
  queries = compose(
    params["entities"][graph.test[:, 2 - side]], params["relations"][graph.test[:, 1]], side
  )
  known = answers(graph.test, graph.known, side)
  # The known answers include the target, which must stay a candidate.
  others = np.where(known == targets[:, None], -1, known)
  exclude = others if filtered else None
  return jr.corpus.target_ranks(queries, params["entities"], targets, exclude=exclude)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--entities", type=int, default=500)
  parser.add_argument("--relations", type=int, default=8)
  parser.add_argument("--epochs", type=int, default=20)
  parser.add_argument("--seed", type=int, default=0)
  args = parser.parse_args()

  graph = load(args.entities, args.relations, args.seed)
  params = train(graph, args.epochs, args.seed)
  values = {
    name: jr.ranks.evaluate(NAMES, *(rank(params, graph, side, filtered) for side in (0, 2)))
    for name, filtered in (("raw", False), ("filtered", True))
  }
  print(f"{len(graph.test)} held-out triples, {graph.entities} entities")
  print(f"{'':36}" + "".join(f"{name:>10}" for name in values))
  for name in NAMES.split():
    print(f"{name:36}" + "".join(f"{found[name]:10.4f}" for found in values.values()))
  print("\nFiltered ranks leave out other true answers; adjusted indices are 0 for random scores.")


if __name__ == "__main__":
  main()
