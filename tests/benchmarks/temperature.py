"""`python -m tests.benchmarks.temperature`: measures temperatures, and writes docs/temperature.md.

Scores are standard normal, and labels from 0 to 4 follow them loosely, as in the middle of
training. Temperatures are in units of the spread of the scores of a query, their standard
deviation.
"""

import functools
import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import jaxrank as jr

from .report import machine

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "temperature.md"
RANKINGS = {"Laplace": jr.Laplace, "Logistic": jr.Logistic, "Gumbel": jr.Gumbel}
METRICS = {"nDCG@10": {"k": 10}, "AP": {"rel": 3}}
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS, STEPS = 12, 300


class Effect(NamedTuple):
  """The means over queries.

  Attributes:
    size: The root of the sum of the squares of the gradient, times the spread of the scores.
    reach: The share of the items whose gradient is at least a hundredth of the largest.
    distance: The absolute difference of the smooth and the exact metric.
    gained: What the exact metric gains by a step of a tenth of the spread along the gradient.
  """

  size: Array
  reach: Array
  distance: Array
  gained: Array


def lists(key: Array, queries: int, n: int) -> tuple[Array, Array]:
  """Scores with a spread of 1, and labels of which one in ten is 4, that follow them loosely."""
  keys = jax.random.split(key)
  scores = jax.random.normal(keys[0], (queries, n))
  worth = 0.5 * scores + jax.random.normal(keys[1], (queries, n))
  return scores, jnp.clip(jnp.floor(2 * worth + 1.0), 0, 4)


def value(metric: str, scores: Array, labels: Array, ranking: jr.Ranking) -> Array:
  if metric == "AP":
    return jr.average_precision(scores, labels, ranking=ranking, **METRICS[metric])
  return jr.ndcg(scores, labels, ranking=ranking, **METRICS[metric])


@functools.partial(jax.jit, static_argnums=(0, 1))
def effect(metric: str, ranking: str, scores: Array, labels: Array, t: Array) -> Effect:
  """What a temperature does to the gradient, for one temperature."""

  def total(scores):
    found = value(metric, scores, labels, RANKINGS[ranking](t))
    return jnp.sum(found), found

  (_, smooth), slope = jax.value_and_grad(total, has_aux=True)(scores)
  exact = value(metric, scores, labels, jr.Exact())
  size = jnp.linalg.norm(slope, axis=-1)
  away = 0.1 * scores.shape[-1] ** 0.5 * slope / jnp.maximum(size, 1e-30)[:, None]
  largest = jnp.max(jnp.abs(slope), axis=-1, keepdims=True)
  gained = value(metric, scores + away, labels, jr.Exact()) - exact
  reach = jnp.mean((jnp.abs(slope) >= largest / 100) & (largest > 0), axis=-1)
  return Effect(*(jnp.mean(x) for x in (size, reach, jnp.abs(smooth - exact), gained)))


def effects() -> str:
  """A table for each metric."""
  parts = []
  for metric in METRICS:
    rows = []
    for n, ranking in ((10, "Laplace"), (100, "Laplace"), (1000, "Laplace"), (100, "Logistic"),
                       (100, "Gumbel")):  # fmt: skip
      data = lists(jax.random.key(n), max(4000 // n, 16), n)
      for t in TEMPERATURES:
        found = effect(metric, ranking, *data, jnp.float32(t))
        rows.append((ranking, n, t, found))
    parts.append(f"### {metric}\n\n" + tables(rows))
  return "\n\n".join(parts)


def tables(rows: list[tuple[str, int, float, Effect]]) -> str:
  """One line for each ranking and length, one column for each temperature."""
  out = []
  shown = {"size": "gradient's size", "reach": "items reached", "distance": "distance from exact",
           "gained": "gain of a step"}  # fmt: skip
  head = "| ranking | n | " + " | ".join(f"{t:.3g}" for t in TEMPERATURES) + " |"
  for field, title in shown.items():
    lines = [head, "|" + " --- |" * (2 + len(TEMPERATURES))]
    for ranking, n in dict.fromkeys((r, n) for r, n, _, _ in rows):
      cells = [getattr(e, field) for r, m, _, e in rows if (r, m) == (ranking, n)]
      lines.append(f"| {ranking} | {n} | " + " | ".join(f"{x:.3g}" for x in cells) + " |")
    out.append(f"{title}:\n\n" + "\n".join(lines))
  return "\n\n".join(out)


class Schedule(NamedTuple):
  """A temperature that goes from one to another, evenly in its logarithm.

  Attributes:
    first: The temperature at the first step.
    last: The temperature at the last step.
    relative: 1 if they are in units of the spread of the scores at each step, otherwise 0.
  """

  first: float
  last: float
  relative: float = 0.0

  def __str__(self) -> str:
    unit = " of the spread" if self.relative else ""
    both = f"{self.first:g}" if self.first == self.last else f"{self.first:g} to {self.last:g}"
    return both + unit


SCHEDULES = (
  *(Schedule(t, t) for t in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)),
  *(Schedule(*ends) for ends in ((1.0, 0.1), (3.0, 0.1), (1.0, 0.01), (0.3, 0.03))),
  *(Schedule(t, t, 1.0) for t in (0.01, 0.03, 0.1, 0.3, 1.0)),
  *(Schedule(*ends, 1.0) for ends in ((1.0, 0.1), (0.3, 0.03))),
)


def trained(schedule: Schedule, seed: Array) -> Array:
  """The exact nDCG@10 on held-out queries of a network that trained on a smooth nDCG@10."""
  keys = jax.random.split(jax.random.key(seed), 4)

  def draw(key):
    features = jax.random.normal(key, (400, 40, 10))
    worth = features[..., 0] + features[..., 1] * features[..., 2] + jnp.abs(features[..., 3])
    noise = jax.random.normal(jax.random.fold_in(key, 1), worth.shape)
    return features, jnp.clip(jnp.floor(worth + 0.5 * noise), 0, 4)

  (features, labels), held_out = draw(keys[0]), draw(keys[1])
  optimizer = optax.adam(0.01)

  def score(model, features):
    return jax.nn.relu(features @ model["in"] + model["shift"]) @ model["out"]

  def step(state, given):
    model, momenta = state
    done, key = given
    rows = jax.random.randint(key, (32,), 0, 400)

    def loss(model):
      scores = score(model, features[rows])
      spread = jnp.mean(jnp.std(jax.lax.stop_gradient(scores), axis=-1))
      t = schedule.first * (schedule.last / schedule.first) ** done * spread**schedule.relative
      return 1 - jnp.mean(value("nDCG@10", scores, labels[rows], jr.Laplace(t)))

    updates, momenta = optimizer.update(jax.grad(loss)(model), momenta)
    return (optax.apply_updates(model, updates), momenta), None

  first, second = jax.random.split(keys[2])
  model = {
    "in": jax.random.normal(first, (10, 16)) / 10**0.5,
    "shift": jnp.zeros(16),
    "out": jax.random.normal(second, (16,)) / 4,
  }
  done = jnp.linspace(0, 1, STEPS)
  start = model, optimizer.init(model)
  (model, _), _ = jax.lax.scan(step, start, (done, jax.random.split(keys[3], STEPS)))
  return jr.ndcg(score(model, held_out[0]), held_out[1], k=10).mean()


def schedules() -> str:
  """A table of the results of training at constant temperatures and on schedules."""
  table = Schedule(*map(jnp.float32, zip(*SCHEDULES, strict=True)))
  every = jax.jit(jax.vmap(jax.vmap(trained, (None, 0)), (0, None)))
  found = np.asarray(every(table, jnp.arange(SEEDS)))
  best = found[found.mean(axis=1).argmax()]
  lines = ["| temperature | nDCG@10 | minus the best |", "| --- | --- | --- |"]
  for schedule, values in zip(SCHEDULES, found, strict=True):
    apart = values - best
    error, paired = (x.std(ddof=1) / SEEDS**0.5 for x in (values, apart))
    lines.append(
      f"| {schedule} | {values.mean():.4f} ± {error:.4f} | {apart.mean():+.4f} ± {paired:.4f} |"
    )
  return "\n".join(lines)


def main() -> None:
  """Writes the measured parts of the page."""
  text = PAGE.read_text(encoding="utf-8")
  for name, content in (("effects", effects()), ("schedules", schedules())):
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    text = f"{before}{begin}{content}\n{end}{rest.split(end)[1]}"
  PAGE.write_text(text, encoding="utf-8")
  print(machine())


if __name__ == "__main__":
  main()
