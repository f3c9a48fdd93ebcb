"""Trains boosted trees with losses of jaxrank and compares them with LightGBM's own lambdarank.

There are five folds over all queries, one set of tree parameters, and the losses below. The data
are LightGBM's own example, `rank.train` and `rank.test` with their `.query` files:

  python examples/boost.py --data DIR

Without `--data` they are random, with the same number of queries and of documents. It needs the
extra `examples`, which has LightGBM.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

# Timings are of one thread, for JAX as well as for LightGBM; JAX reads this when it starts.
if hasattr(os, "sched_setaffinity"):
  os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import lightgbm
import numpy as np
from jax import Array
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxrank as jr
from jaxrank.interop.lightgbm import metrics, objective

FOLDS, REPEATS = 5, 2
SOURCE = "https://github.com/microsoft/LightGBM/tree/master/examples/lambdarank"

# The parameters of `train.conf` in LightGBM's example, on one thread.
TREES = {
  "learning_rate": 0.1,
  "num_leaves": 31,
  "bagging_freq": 1,
  "bagging_fraction": 0.9,
  "min_data_in_leaf": 50,
  "min_sum_hessian_in_leaf": 5.0,
  "num_threads": 1,
  "verbose": -1,
}

# nDCG has exponential gains, as LightGBM's has; labels of at least 2 are relevant to AP.
MEASURES = jr.parse("ndcg_burges@10 AP(rel=2)")
HEADINGS = ("nDCG@10", "AP(rel=2)")
OWN = "LightGBM's lambdarank"


def smooth_ndcg(scores: Array, labels: Array, where: Array) -> Array:
  gain, ranking = jr.gains.exponential, jr.Laplace(1.0)
  return 1 - jr.ndcg(scores, labels, where=where, gain=gain, ranking=ranking)


def smooth_ap(scores: Array, labels: Array, where: Array) -> Array:
  return 1 - jr.average_precision(scores, labels, where=where, rel=2, ranking=jr.Laplace(1.0))


# Two losses for nDCG, and one for AP. They and their curvatures were chosen on random data, before
# the first run on LightGBM's. The last two have the heuristic curvature.
OBJECTIVES: dict[str, Any] = {
  OWN: "lambdarank",
  "`pairwise_logistic`": objective(jr.losses.pairwise_logistic),
  "`unique_softmax`": objective(partial(jr.losses.unique_softmax, gain=jr.gains.exponential)),
  "`lambda_rank` of AP": objective(
    partial(jr.losses.lambda_rank, metric="AP(rel=2)"), curvature="diagonal"
  ),
  "`1 - ndcg`": objective(smooth_ndcg),
  "`1 - average_precision`": objective(smooth_ap),
}


class Data(NamedTuple):
  """Rows in the order of the queries, and the number of rows of each query."""

  features: np.ndarray
  labels: np.ndarray
  sizes: np.ndarray

  def part(self, chosen: np.ndarray) -> "Data":
    rows = np.repeat(chosen, self.sizes)
    return Data(self.features[rows], self.labels[rows], self.sizes[chosen])

  def dataset(self, **arguments: Any) -> lightgbm.Dataset:
    return lightgbm.Dataset(self.features, self.labels, group=self.sizes, **arguments)


class Result(NamedTuple):
  """What one objective reaches.

  Attributes:
    values: `[measures, queries]`, each query held out once.
    curves: `[measures, trees]`, means over held-out queries.
    seconds: To train all folds, the best of the repeats of each fold.
    first: Seconds of the first tree of the first fold, which compiles, beside those of the second.
  """

  values: np.ndarray
  curves: np.ndarray
  seconds: float
  first: float


def load(folder: Path) -> Data:
  """All queries of both files."""
  parts = []
  for name in ("rank.train", "rank.test"):
    for file in (folder / name, folder / f"{name}.query"):
      if not file.exists():
        raise SystemExit(f"{file} does not exist: download the files of {SOURCE} to {folder}.")
    data = jr.letor.read(folder / name, n_features=301)
    parts.append(Data(data.features, data.labels, np.bincount(data.query_ids)))
  return Data(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def generate(queries: int, features: int = 100) -> Data:
  """Sparse features, and labels 0 to 4 by products of some of them."""
  rng = np.random.default_rng(0)
  sizes = rng.integers(4, 28, queries)
  shape = sizes.sum(), features
  x = np.where(rng.random(shape) < 0.35, rng.beta(1.5, 1.0, shape), 0).astype(np.float32)
  weights = rng.normal(size=features) * (rng.random(features) < 0.3)
  worth = x @ weights + 2 * x[:, ::9] @ rng.normal(size=x[:, ::9].shape[1]) * x[:, 0]
  worth = worth / worth.std() + rng.normal(size=shape[0])
  labels = np.searchsorted(np.quantile(worth, [0.25, 0.6, 0.85, 0.96]), worth)
  return Data(x, labels.astype(np.float32), sizes)


@jax.jit
def evaluate(scores: Array, labels: Array, where: Array) -> tuple[Array, ...]:
  return tuple(jr.evaluate(MEASURES, scores, labels, where=where).values())


def values_of(scores: np.ndarray, data: Data) -> np.ndarray:
  """`[measures, queries]` of the scores of all rows."""
  batch = jr.pad(np.repeat(np.arange(data.sizes.size), data.sizes), scores, data.labels)
  return np.stack(evaluate(batch.scores.astype(np.float32), batch.labels, batch.where))


def timed(work: Callable[[], object]) -> float:
  start = time.perf_counter()
  work()
  return time.perf_counter() - start


def compare(data: Data, trees: int, seed: int) -> dict[str, Result]:
  fold = np.random.default_rng(seed).permutation(data.sizes.size) % FOLDS
  held_out = np.repeat(fold, data.sizes)
  scores = {name: np.empty(data.labels.size) for name in OBJECTIVES}
  curves = {name: np.zeros((len(MEASURES), trees)) for name in OBJECTIVES}
  seconds, first = dict.fromkeys(OBJECTIVES, 0.0), dict.fromkeys(OBJECTIVES, 0.0)
  evaluation = metrics(MEASURES)
  print("each loss compiles in its first tree, some seconds in the first fold", file=sys.stderr)
  for i in tqdm(range(FOLDS), desc="folds"):
    train = data.part(fold != i).dataset(free_raw_data=False).construct()
    test = data.part(fold == i).dataset(reference=train)
    own = {name: {**TREES, "objective": x, "seed": seed} for name, x in OBJECTIVES.items()}
    for name, parameters in own.items():
      one, again = (timed(partial(lightgbm.train, parameters, train, 1)) for _ in range(2))
      first[name] += one - again
    # The objectives take turns, so that they share the disturbances of the machine.
    turns = [
      {name: timed(partial(lightgbm.train, own[name], train, trees)) for name in OBJECTIVES}
      for _ in range(REPEATS)
    ]
    for name, parameters in own.items():
      seconds[name] += min(turn[name] for turn in turns)
      record: dict[str, Any] = {}
      watch = [lightgbm.record_evaluation(record)]
      forest = lightgbm.train(
        {**parameters, "metric": "None"}, train, trees, [test], feval=evaluation, callbacks=watch
      )
      scores[name][held_out == i] = forest.predict(data.features[held_out == i])
      curve = np.stack([record["valid_0"][measure.name] for measure in MEASURES])
      curves[name] += curve * np.mean(fold == i)
  return {
    name: Result(values_of(scores[name], data), curves[name], seconds[name], first[name])
    for name in OBJECTIVES
  }


def mean(values: np.ndarray, sign: str = "") -> str:
  """The mean and its standard error."""
  error = values.std(ddof=1) / len(values) ** 0.5
  return f"{values.mean():{sign}.4f} ± {error:.4f}"


def table(results: dict[str, Result]) -> str:
  """Markdown: means, differences to lambdarank query by query, and times."""
  header = ["trained on", *(x for name in HEADINGS for x in (name, "difference"))]
  header += ["seconds", "times lambdarank", "first calls"]
  rows, own = [header, ["---"] * len(header)], results[OWN]
  for name, result in results.items():
    row = [name]
    for ours, theirs in zip(result.values, own.values, strict=True):
      row += [mean(ours), mean(ours - theirs, "+") if result is not own else "-"]
    row += [f"{result.seconds:.2f}", f"{result.seconds / own.seconds:.2f}", f"{result.first:.1f} s"]
    rows.append(row)
  return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(path: Path, results: dict[str, Result]) -> None:
  """Draws the measures of held-out queries by the number of trees."""
  figure = Figure(figsize=(10, 4), layout="constrained")
  for axes, heading, i in zip(figure.subplots(1, 2), HEADINGS, range(len(HEADINGS)), strict=True):
    for name, result in results.items():
      curve = result.curves[i]
      axes.plot(np.arange(1, curve.size + 1), curve, label=name.replace("`", ""))
    axes.set(title=f"{heading} of held-out queries", xlabel="trees")
    axes.grid(alpha=0.3)
  axes.legend(frameon=False)
  figure.savefig(path, dpi=110)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--data", type=Path, help="folder of LightGBM's example")
  parser.add_argument("--queries", type=int, default=251, help="of the random data")
  parser.add_argument("--trees", type=int, default=100)
  parser.add_argument("--seed", type=int, default=0, help="of the folds and the trees")
  parser.add_argument("--out", type=Path, default=Path("boost.png"), help="the plot")
  args = parser.parse_args()

  data = load(args.data) if args.data else generate(args.queries)
  results = compare(data, args.trees, args.seed)
  print(table(results))
  plot(args.out, results)
  print(f"plot: {args.out}")
  print("The rows share folds and parameters of trees, so that only the objective differs.")


if __name__ == "__main__":
  main()
