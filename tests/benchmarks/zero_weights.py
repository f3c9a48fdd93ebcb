"""`python -m tests.benchmarks.zero_weights`: a ranker from zero weights; writes docs/losses.md.

The ranker of the quickstart starts where all its scores are equal. It trains on one minus a smooth
metric at a cut-off of 10, and beside it, in the same way, on `losses.softmax` of the relevance that
the metric sees. The table has what each reaches in the exact metric on the same queries.
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import jaxrank as jr

from .report import machine, write

LENGTHS = (20, 100, 200, 500, 1000)
QUERIES, FEATURES, STEPS, RATE, CUTOFF = 120, 5, 100, 0.05, 10
# The least share of what softmax reaches, by temperature.
TARGETS = {1.0: 0.8, 0.1: 0.9}
RANKINGS = {"Laplace": jr.Laplace, "Logistic": jr.Logistic}
# Binary metrics count the best of the grades 0 to 3, one item in twenty.
METRICS = {
  "nDCG": jr.ndcg,
  "precision": functools.partial(jr.precision, rel=3),
  "recall": functools.partial(jr.recall, rel=3),
  "AP": functools.partial(jr.average_precision, rel=3),
  "RR": functools.partial(jr.reciprocal_rank, rel=3),
  "hit rate": functools.partial(jr.hit_rate, rel=3),
  "ERR": functools.partial(jr.err, max_label=3),
}
GRADED = ("nDCG", "ERR")


def data(n: int) -> tuple[Array, Array]:
  """Features `[queries, n, features]`, and grades that follow a linear function of them loosely."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=(QUERIES, n, FEATURES))
  truth = rng.normal(size=FEATURES)
  worth = x @ truth / np.linalg.norm(truth) + 0.5 * rng.normal(size=(QUERIES, n))
  grades = sum(worth > np.quantile(worth, q, axis=1, keepdims=True) for q in (0.7, 0.85, 0.95))
  return jnp.asarray(x, jnp.float32), jnp.asarray(grades, jnp.float32)


def trained(loss, x: Array) -> Array:
  """The scores after training from zero weights, on a loss of the scores of all queries."""
  optimizer = optax.adam(RATE)

  def step(state, _):
    weights, momenta = state
    slope = jax.grad(lambda w: loss(x @ w))(weights)
    updates, momenta = optimizer.update(slope, momenta)
    return (optax.apply_updates(weights, updates), momenta), None

  weights = jnp.zeros(FEATURES)
  (weights, _), _ = jax.lax.scan(step, (weights, optimizer.init(weights)), length=STEPS)
  return x @ weights


@functools.partial(jax.jit, static_argnums=(0, 1))
def smooth(name: str, ranking: str, x: Array, labels: Array, t: Array) -> Array:
  """The mean of the exact metric after training on the smooth one."""
  metric = functools.partial(METRICS[name], labels=labels, k=CUTOFF)
  scores = trained(lambda s: 1 - metric(s, ranking=RANKINGS[ranking](t)).mean(), x)
  return metric(scores).mean()


@functools.partial(jax.jit, static_argnums=0)
def softmax(name: str, x: Array, labels: Array) -> tuple[Array, Array]:
  """The mean of the exact metric before training, and after training on softmax."""
  metric = functools.partial(METRICS[name], labels=labels, k=CUTOFF)
  seen = labels if name in GRADED else (labels >= 3).astype(labels.dtype)
  scores = trained(lambda s: jr.losses.softmax(s, seen).mean(), x)
  return metric(jnp.zeros_like(scores)).mean(), metric(scores).mean()


def main() -> int:
  """Prints the table and writes it; the status is 1 if a row is below its target."""
  argparse.ArgumentParser(prog="python -m tests.benchmarks.zero_weights").parse_args()
  columns = [(ranking, t) for ranking in RANKINGS for t in TARGETS]
  head = [f"{ranking}({t:g})" for ranking, t in columns]
  lines = ["| metric at 10 | n | equal scores | softmax | " + " | ".join(head) + " |"]
  lines.append("|" + " --- |" * (4 + len(head)))
  missed = []
  for name in METRICS:
    for n in LENGTHS:
      x, labels = data(n)
      before, reference = map(float, softmax(name, x, labels))
      cells = []
      for ranking, t in columns:
        found = float(smooth(name, ranking, x, labels, jnp.float32(t)))
        met = found > TARGETS[t] * reference
        cells.append(f"{found:.3f}" if met else f"**{found:.3f}**")
        if not met:
          missed.append(f"{name}@{CUTOFF}, n = {n}, {ranking}({t:g}): {found / reference:.2f}")
      row = f"| {name} | {n} | {before:.3f} | {reference:.3f} | {' | '.join(cells)} |"
      print(row, flush=True)
      lines.append(row)
  for row in missed:
    print("below the target:", row)
  write("zero weights", f"{machine()}\n\n" + "\n".join(lines), "losses.md")
  return int(bool(missed))


if __name__ == "__main__":
  raise SystemExit(main())
