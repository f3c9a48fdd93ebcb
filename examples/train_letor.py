"""Trains an ensemble of neural rankers on LETOR files, and boosted trees at their best beside it.

  python examples/train_letor.py --train S1.txt S2.txt --valid S3.txt --test S4.txt --lightgbm
  python examples/train_letor.py --folds MQ2008 --lightgbm
  python examples/train_letor.py --lightgbm

The last line makes a set of queries. Files are in svmlight format with `qid:`, or have the sizes of
the queries in `FILE.query`. It needs the extra `examples`, and for `--runs` the extra `trec`.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxrank as jr
from jaxrank.letor import Dataset

MEASURES = jr.parse("ndcg_burges@10 AP ERR@10")  # the gains of nDCG are 2^label - 1
HIDDEN, DROPPED, NOISE, STEPS, RATE = (64, 32), 0.2, 0.3, 8, 0.012
LEAVES, RATES = (4, 7, 15), (0.05, 0.1)
TREES = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "min_data_in_leaf": 50}
BAGGING = {"feature_fraction": 0.5, "bagging_fraction": 0.8, "bagging_freq": 1, "verbose": -1}

Data = list[tuple[Array, Array, Array]]


def generate(queries: int, seed: int) -> jr.letor.Fold:
  """Queries to learn from, and as many for the test, of 40 features as those of search engines.

  A feature follows one of four worths of an item, with noise, a heavy tail, and another scale in
  each query; some are often missing, which is 0. Grades depend on worths alone and together.
  """
  rng = np.random.default_rng(seed)
  ids = np.repeat(np.arange(2 * queries), rng.integers(5, 80, 2 * queries))
  worth = rng.normal(size=(4, len(ids)))
  grade = worth[0] + np.minimum(worth[0], worth[1]) + np.where(worth[3] > 0, worth[2], 0)
  grade += 2 * rng.normal(size=len(ids)) + rng.normal(size=2 * queries)[ids]
  labels = np.digitize(grade, np.quantile(grade, [0.8, 0.95])).astype(np.float32)
  x = rng.uniform(0.3, 3, (40, 1)) * rng.normal(size=(40, len(ids))) + np.tile(worth, (10, 1))
  x = np.exp(0.7 * rng.normal(size=(40, 2 * queries)))[:, ids] * np.sinh(x)
  x = np.where(rng.random(x.shape) < rng.choice([0, 0, 0.2, 0.5], (40, 1)), 0, np.maximum(x, -1))
  parts = np.split(np.arange(len(ids)), np.searchsorted(ids, [int(0.75 * queries), queries]))
  return jr.letor.Fold(*(Dataset(np.float32(x.T[rows]), labels[rows], ids[rows]) for rows in parts))


def cells(data: Dataset) -> np.ndarray:
  """Each feature twice: on a logarithmic scale, and as its rank within the query."""
  raw = np.sign(data.features) * np.log1p(np.abs(data.features))
  return np.concatenate([raw, jr.letor.ranks(data.features, data.query_ids)], axis=1)


def init(key: Array, sizes: list[int]) -> list[tuple[Array, Array]]:
  keys, pairs = jax.random.split(key, len(sizes) - 1), itertools.pairwise(sizes)
  weights = [jax.random.normal(k, p) * (2 / p[0]) ** 0.5 for k, p in zip(keys, pairs, strict=True)]
  return [(w, jnp.zeros(w.shape[1])) for w in weights]


def score(params: Any, x: Array, key: Array | None = None) -> Array:
  """Scores `[..., items]`; with a key, those of training, with noise and dropout."""
  if key is not None:
    x = x + NOISE * jax.random.normal(key, x.shape)
  for i, (weights, shift) in enumerate(params[:-1]):
    x = jax.nn.relu(x @ weights + shift)
    if key is not None:
      kept = jax.random.bernoulli(jax.random.fold_in(key, i), 1 - DROPPED, x.shape)
      x = jnp.where(kept, x / (1 - DROPPED), 0)
  weights, shift = params[-1]
  return (x @ weights + shift)[..., 0]


scored = jax.jit(jax.vmap(score, (0, None)))  # `[seeds, rows]` of `[rows, features]`


@jax.jit
def mean_ndcg(scores: Array, labels: Array, where: Array) -> Array:
  """The mean nDCG@10 of the ensemble of scores `[models, queries, items]`."""
  together = jr.ensemble(scores, where=where)
  return jr.ndcg(together, labels, where=where, k=10, gain=jr.gains.exponential).mean()


def padded(batch: jr.Batch, models: ArrayLike) -> np.ndarray:
  """Scores `[models, queries, items]` of `[models, rows]`."""
  return np.moveaxis(batch.gather(np.asarray(models).T), -1, 0)


def pad(data: Dataset) -> jr.Batch:
  return jr.pad(data.query_ids, np.zeros(len(data.labels)), data.labels)


def epochs(data: Data, args: argparse.Namespace) -> Iterator[tuple[Any, Array]]:
  """The networks of all seeds and their mean losses after each epoch."""
  sizes, total = [len(y) for _, y, _ in data], STEPS * args.epochs
  rate = optax.warmup_cosine_decay_schedule(0, RATE, total // 20, total)
  optimizer = optax.adamw(rate, weight_decay=args.decay)

  def loss(params: Any, rows: tuple[Array, ...], key: Array) -> Array:
    values = []
    for (x, y, w), i, own in zip(data, rows, jax.random.split(key, len(data)), strict=True):
      values.append(args.loss(score(params, x[i], own), y[i], where=w[i]))
    return jnp.concatenate(values).mean()

  def step(carry: Any, drawn: Any) -> Any:
    params, state = carry
    value, slope = jax.value_and_grad(loss)(params, *drawn)
    updates, state = optimizer.update(slope, state, params)
    return (optax.apply_updates(params, updates), state), value

  @jax.jit
  @jax.vmap
  def first(key: Array) -> Any:
    params = init(key, [data[0][0].shape[-1], *HIDDEN, 1])
    return params, optimizer.init(params)

  # The seeds share the queries and the noise of a step: to draw them takes longer than to train.
  @jax.jit
  @partial(jax.vmap, in_axes=(0, None))
  def epoch(carry: Any, key: Array) -> Any:
    drawn = jr.epoch(key, sizes, steps=STEPS), jax.random.split(key, STEPS)
    return jax.lax.scan(step, carry, drawn)

  start, key = time.perf_counter(), jax.random.key(0)
  carry = first(jax.random.split(key, args.seeds))
  compiled = epoch.lower(carry, key).compile()
  tqdm.write(f"compiled in {time.perf_counter() - start:.1f} s")
  for number in range(args.epochs):
    carry, values = compiled(carry, jax.random.fold_in(key, number))
    yield carry[0], values.mean()


def network(
  train: Dataset, valid: Dataset | None, test: Dataset, args: argparse.Namespace
) -> tuple[Array, list[float]]:
  """Scores `[seeds, rows]` of `test` at the best epoch for `valid`, and its nDCG@10 by epoch."""
  rows = [cells(part) for part in (train, test, valid) if part]
  mean, std = rows[0].mean(axis=0), rows[0].std(axis=0) + 1e-6
  x, unseen, *watched = (((part - mean) / std).clip(-8, 8) for part in rows)
  batches = jr.pad_buckets(train.query_ids, x[:, 0], train.labels, buckets=2)
  data = jax.device_put([(b.gather(x), b.labels, b.where) for b in batches])
  # Queries without a relevant item have no gradient.
  data = [tuple(a[jr.has_relevant(y, where=w)] for a in (x, y, w)) for x, y, w in data]
  batch, best, curve = pad(valid or test), None, []
  progress = tqdm(epochs(data, args), "network", args.epochs, unit="epoch")
  for params, loss in progress:
    if valid:
      scores = padded(batch, scored(params, *watched))
      curve.append(float(mean_ndcg(scores, batch.labels, batch.where)))
    best = params if not valid or curve[-1] == max(curve) else best
    progress.set_postfix(loss=f"{loss:.3f}", validation=f"{max(curve, default=0):.4f}")
  return scored(best, unseen), curve


def trees(train: Dataset, valid: Dataset, test: Dataset, args: argparse.Namespace) -> np.ndarray:
  """Scores `[seeds, rows]` of LightGBM, with the best of a few settings for `valid`."""
  import lightgbm

  def dataset(data: Dataset) -> lightgbm.Dataset:
    # LightGBM takes the rows of a query side by side, and their numbers in this order.
    order = np.argsort(data.query_ids, kind="stable")
    sizes = np.unique(data.query_ids, return_counts=True)[1]
    x, labels = cells(data)[order], data.labels[order]
    return lightgbm.Dataset(x, labels, group=sizes, free_raw_data=False)

  rows, held_out, found = dataset(train), dataset(valid), []
  for leaves, rate in tqdm([*itertools.product(LEAVES, RATES)], desc="LightGBM"):
    setting = {**TREES, **BAGGING, "num_leaves": leaves, "learning_rate": rate}
    stop = lightgbm.early_stopping(50, verbose=False)
    forest = lightgbm.train(setting, rows, 1000, [held_out], callbacks=[stop])
    found.append((forest.best_score["valid_0"]["ndcg@10"], forest.best_iteration, setting))
  _, count, setting = max(found, key=lambda x: x[0])
  rows = dataset(jr.letor.concatenate(train, valid)) if args.joined else rows
  forests = [lightgbm.train({**setting, "seed": i}, rows, count) for i in range(args.seeds)]
  unseen = cells(test)
  return np.stack([forest.predict(unseen) for forest in forests])


def plot(path: Path, curve: np.ndarray, apart: np.ndarray, baseline: str) -> None:
  figure = Figure(figsize=(10, 4), layout="constrained")
  left, right = figure.subplots(1, 2)
  left.plot(np.arange(1, len(curve) + 1), curve)
  left.set(title="nDCG@10 of validation", xlabel="epoch")
  right.bar(np.arange(len(apart)), np.sort(apart)[::-1], width=1)
  title = f"nDCG@10 of the network less {baseline}: {apart.mean():+.4f} on average"
  right.set(title=title, xlabel="test queries")
  figure.savefig(path, dpi=110)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  add = parser.add_argument
  for part in ("train", "valid", "test"):
    add(f"--{part}", nargs="+", metavar="FILE")
  add("--folds", help="a folder with the folds of a set")
  add("--queries", type=int, default=500, help="of the set that is made, to learn from")
  add("--seed", type=int, default=0, help="of the set that is made")
  add("--lightgbm", action="store_true", help="train boosted trees as well")
  joined = "train again with the validation queries; the default without --train"
  add("--joined", action=argparse.BooleanOptionalAction, help=joined)
  add("--seeds", type=int, default=8, help="how many networks, and how many forests")
  add("--epochs", type=int, default=30)
  add("--decay", type=float, default=1.5, help="weight decay, times the learning rate")
  losses = "of jaxrank.losses; or ndcg or average_precision, under Laplace"
  add("--loss", default="softmax", help=losses)
  add("--runs", type=Path, help="a folder for run files and judgements")
  add("--out", type=Path, default=Path("train_letor.png"), help="the picture")
  args = parser.parse_args()
  args.joined = not args.train if args.joined is None else args.joined
  if args.loss in ("ndcg", "average_precision"):
    metric = partial(getattr(jr, args.loss), ranking=jr.Laplace(1.0))
    args.loss = lambda scores, labels, where: 1 - metric(scores, labels, where=where)
  else:
    args.loss = getattr(jr.losses, args.loss)
  if args.folds:
    folds = [fold.read() for fold in jr.letor.folds(args.folds)]
  elif args.train:
    folds = [jr.letor.Fold(args.train, args.valid, args.test).read()]
  else:
    folds = [generate(args.queries, args.seed)]

  members, curves = {"network": [], "LightGBM": []}, []
  for train, valid, test in folds:
    scores, curve = network(train, valid, test, args)
    if args.joined:
      scores, _ = network(jr.letor.concatenate(train, valid), None, test, args)
    members["network"].append(scores)
    if args.lightgbm:
      members["LightGBM"].append(trees(train, valid, test, args))
    curves.append(curve)

  batch = pad(jr.letor.concatenate(*(fold.test for fold in folds)))
  labels, where = batch.labels, batch.where
  each = {name: padded(batch, np.hstack(x)) for name, x in members.items() if x}
  scores = {name: jr.ensemble(values, where=where) for name, values in each.items()}
  if args.lightgbm:
    scores["blend"] = jr.ensemble(jnp.stack([*scores.values()]), where=where)
  scores["single-network"] = each["network"][0]
  baseline = "LightGBM" if args.lightgbm else "single-network"
  values_of = jax.vmap(partial(jr.evaluate, MEASURES, labels=labels, where=where))
  values = values_of(jnp.stack([*scores.values()]))
  for name, of_systems in values.items():
    runs = dict(zip(scores, of_systems, strict=True))
    board = jr.stats.compare(runs, baseline=baseline, key=jax.random.key(0), resamples=None)
    print(f"\n{name}\n{board}")
    if name == MEASURES[0].name:
      apart = np.asarray(runs["network"] - runs[baseline])
  plot(args.out, np.mean(curves, axis=0), apart, baseline)
  if args.runs:
    args.runs.mkdir(parents=True, exist_ok=True)
    items = batch.query_ids, batch.rows  # the name of an item is the number of its row
    judged = {
      str(query): dict(zip(map(str, rows[kept]), map(int, grades[kept]), strict=True))
      for query, rows, grades, kept in zip(*items, labels, where, strict=True)
    }
    jr.trec.read_qrels(judged).write(args.runs / "qrels.txt")
    for name, x in scores.items():
      run = jr.trec.Run.from_arrays(*items, x, where=where, name=name)
      run.write(args.runs / f"{name}.run")
    print(f"\njaxrank {args.runs}/qrels.txt {args.runs}/*.run nDCG@10 AP --compare")
  errors = apart.mean() / (apart.std(ddof=1) / len(apart) ** 0.5)
  print(f"\nIn nDCG@10 the network is {errors:+.1f} standard errors of the paired difference from")
  print(f"{baseline}; fewer than 2 do not tell them apart. Picture: {args.out}")


if __name__ == "__main__":
  main()
