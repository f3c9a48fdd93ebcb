"""Trains from clicks with position bias: as they are, weighted by inverse propensities, and oracle.

A production ranker shows each query to many users, who look at rank `r` with probability
`1 / r ** bias` and click on most of the relevant items that they look at, and on few others. Its
favourite feature is misleading, so that clicks repeat its mistakes. Four rankers train on the
softmax loss and are compared with the labels of held-out queries:

* naive: clicks as labels;
* weighted: clicks as labels, `weights=` the inverse propensities of the ranks that were shown;
* clipped: the same with propensities of at least `--clip`;
* known relevance: the labels that the users had in mind.

Run `python examples/clicks.py`. It prints nDCG@10 with standard errors over seeds, each of which
draws its own data; one `vmap` trains all seeds. It needs the extra `examples`.
"""

import argparse
import functools
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

import jaxrank as jr

FEATURES, CANDIDATES, HIDDEN, BATCH = 10, 20, 16, 50


class Data(NamedTuple):
  """Queries, with clicks on an order that production showed.

  Attributes:
    features: `[queries, candidates, features]`.
    relevance: `[queries, candidates]`, 0 or 1.
    clicks: `[queries, candidates]`, the number of clicks over all sessions.
    propensities: `[queries, candidates]`, the chance that a user looked at the item.
  """

  features: Array
  relevance: Array
  clicks: Array
  propensities: Array


def draw(key: Array, queries: int, sessions: int, bias: float) -> Data:
  """Relevance follows the features but the first; production follows the first most of all."""
  keys = jax.random.split(key, 4)
  features = jax.random.normal(keys[0], (queries, CANDIDATES, FEATURES))
  worth = features[..., 1] + features[..., 2] * features[..., 3] + 0.5 * jnp.abs(features[..., 4])
  chance = jax.nn.sigmoid(3 * (worth - 1.5))
  relevance = jax.random.bernoulli(keys[1], chance)
  production = 1.5 * features[..., 0] + features[..., 1]
  shown = jr.exposure.expected(production, discount=lambda rank: rank**-bias)
  clicked = shown * jnp.where(relevance, 0.9, 0.05)
  clicks = jax.random.binomial(keys[2], sessions, clicked)
  return Data(features, relevance.astype(jnp.float32), clicks, shown)


def init(key: Array) -> list[Array]:
  first, second = jax.random.split(key)
  hidden = jax.random.normal(first, (FEATURES, HIDDEN)) / FEATURES**0.5
  return [hidden, jnp.zeros(HIDDEN), jax.random.normal(second, (HIDDEN,)) / HIDDEN**0.5]


def score(model: list[Array], features: Array) -> Array:
  hidden, shift, out = model
  return jax.nn.relu(features @ hidden + shift) @ out


def loss(name: str, scores: Array, data: Data, clip: float) -> Array:
  """The loss of each query."""
  if name == "known relevance":
    return jr.losses.softmax(scores, data.relevance)
  weights = {
    "naive": jnp.ones_like(data.propensities),
    "weighted": 1 / data.propensities,
    "clipped": 1 / jnp.maximum(data.propensities, clip),
  }[name]
  return jr.losses.softmax(scores, data.clicks, weights=weights)


@functools.partial(jax.jit, static_argnums=0)
def trial(name: str, seed: Array, args: dict[str, Array], sizes: tuple[Array, Array]) -> Array:
  """The nDCG@10 on held-out queries of a ranker of one seed."""
  queries, steps = (x.shape[0] for x in sizes)
  keys = jax.random.split(jax.random.key(seed), 4)
  data = draw(keys[0], queries, args["sessions"], args["bias"])
  held_out = draw(keys[1], queries, args["sessions"], args["bias"])
  optimizer = optax.adamw(0.01, weight_decay=1e-3)

  def step(state, key):
    model, momenta = state
    rows = jax.random.randint(key, (BATCH,), 0, queries)
    batch = jax.tree.map(lambda x: x[rows], data)

    def mean(model):
      total = loss(name, score(model, batch.features), batch, args["clip"])
      return total.mean() / args["sessions"]

    updates, momenta = optimizer.update(jax.grad(mean)(model), momenta, model)
    return (optax.apply_updates(model, updates), momenta), None

  model = init(keys[2])
  start = model, optimizer.init(model)
  (model, _), _ = jax.lax.scan(step, start, jax.random.split(keys[3], steps))
  return jr.ndcg(score(model, held_out.features), held_out.relevance, k=10).mean()


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--seeds", type=int, default=8)
  parser.add_argument("--queries", type=int, default=500)
  parser.add_argument("--steps", type=int, default=400)
  parser.add_argument("--sessions", type=float, default=20, help="users of each query")
  parser.add_argument("--bias", type=float, default=1.0, help="0: users look at all ranks alike")
  parser.add_argument("--clip", type=float, default=0.1, help="the least propensity, if clipped")
  args = parser.parse_args()

  numbers = {name: jnp.float32(getattr(args, name)) for name in ("sessions", "bias", "clip")}
  sizes = jnp.zeros(args.queries), jnp.zeros(args.steps)
  print("compiling and training, some 10 s for each row", file=sys.stderr)
  print(f"{'trained on':<18}{'nDCG@10':>9}{'error':>9}")
  for name in ("naive", "weighted", "clipped", "known relevance"):
    run = jax.vmap(functools.partial(trial, name), (0, None, None))
    values = run(jnp.arange(args.seeds), numbers, sizes)
    error = values.std(ddof=1) / len(values) ** 0.5
    print(f"{name:<18}{values.mean():9.4f}{error:9.4f}")
  print("\nWeights by inverse propensities bring clicks near to what known relevance gives.")


if __name__ == "__main__":
  main()
