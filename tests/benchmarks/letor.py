"""`python -m tests.benchmarks.letor`: networks beside LightGBM on features; writes ranker.md.

Both are trained by `examples/train_letor.py`, on sets that it makes, and on LightGBM's own example
for `lambdarank` with `--data DIR`. A row may take processor minutes.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import jaxrank as jr
from tests.house.metric_table import table

from .report import machine, write
from .which_loss import smooth

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import train_letor as example

SIZES, OF_VARIANTS, FOLDS = (300, 600, 1200, 2000), 1000, 5
DECAYS = (0.0, 0.1, 0.5, 1.5, 5.0)
DEFAULTS = {"seeds": 8, "epochs": 30, "decay": 1.5, "loss": jr.losses.softmax, "joined": True}


def without_ranks(data: jr.letor.Dataset, cells: Callable[..., Any] = example.cells) -> np.ndarray:
  """The first half of the features of the recipe."""
  return cells(data)[:, : data.features.shape[1]]


# What is changed of the recipe: options of the example, and its names.
VARIANTS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
  "the recipe": ({}, {}),
  "one network in place of eight": ({"seeds": 1}, {}),
  "features without their ranks": ({}, {"cells": without_ranks}),
  "weight decay 0": ({"decay": 0.0}, {}),
  "weight decay .1": ({"decay": 0.1}, {}),
  "weight decay 5": ({"decay": 5.0}, {}),
  "no noise on features": ({}, {"NOISE": 0.0}),
  "a linear model": ({}, {"HIDDEN": ()}),
  "`1 - ndcg`, Laplace(1)": ({"loss": smooth(jr.ndcg, jr.Laplace(1.0))}, {}),
  "`1 - average_precision`, Laplace(1)": (
    {"loss": smooth(jr.average_precision, jr.Laplace(1.0))},
    {},
  ),
  "`unique_softmax`": ({"loss": jr.losses.unique_softmax}, {}),
}


def network(fold: jr.letor.Fold, **options: Any) -> np.ndarray:
  """Scores `[seeds, rows]` of the test part, trained on the two others."""
  args = argparse.Namespace(**{**DEFAULTS, **options})
  both = jr.letor.concatenate(fold.train, fold.valid)
  return np.asarray(example.network(both, None, fold.test, args)[0])


def trees(fold: jr.letor.Fold) -> np.ndarray:
  """The same of LightGBM."""
  return example.trees(*fold, argparse.Namespace(**DEFAULTS))


def timed(work: Callable[..., Any], *given: Any, **options: Any) -> tuple[Any, float]:
  """The result, and processor seconds, which do not depend on what else runs on the machine."""
  start = time.process_time()
  return work(*given, **options), time.process_time() - start


def values(batch: jr.Batch, scores: np.ndarray) -> np.ndarray:
  """The nDCG@10 of each query under the mean of scores `[models, rows]`."""
  mean = jr.ensemble(example.padded(batch, scores), where=batch.where)
  options = {"k": 10, "gain": jr.gains.exponential}
  return np.asarray(jr.ndcg(mean, batch.labels, where=batch.where, **options))


def blended(batch: jr.Batch, *systems: np.ndarray) -> np.ndarray:
  """The scores of systems, each the mean of its models, as `[systems, rows]`."""
  means = [jr.ensemble(example.padded(batch, x), where=batch.where) for x in systems]
  return np.stack([jr.unpad(batch, x) for x in means])


def apart(ours: np.ndarray, theirs: np.ndarray) -> str:
  """The mean difference and its paired standard error."""
  x = ours - theirs
  return f"{x.mean():+.4f} ± {x.std(ddof=1) / len(x) ** 0.5:.4f}"


def compared(fold: jr.letor.Fold) -> tuple[list[str], list[np.ndarray]]:
  """A row of a table, and the values of the test queries of each system."""
  (net, ours), (forest, theirs) = timed(network, fold), timed(trees, fold)
  batch = example.pad(fold.test)
  found = [values(batch, x) for x in (forest, net, blended(batch, net, forest))]
  differences = [apart(x, found[0]) for x in found[1:]]
  return [
    *(f"{x.mean():.4f}" for x in found),
    *differences,
    f"{ours:.0f} s",
    f"{theirs:.0f} s",
  ], found


def sizes() -> str:
  rows = []
  for queries in SIZES:
    row, _ = compared(example.generate(queries, 0))
    rows.append([f"{queries:,}", *row])
    print(*rows[-1], sep=" | ", flush=True)
  systems = ("LightGBM", "network", "blend", "network less LightGBM", "blend less LightGBM")
  return table(["queries", *systems, "time, network", "time, LightGBM"], rows)


def variants() -> str:
  fold, rows, first = example.generate(OF_VARIANTS, 0), [], None
  batch = example.pad(fold.test)
  for name, (options, names) in VARIANTS.items():
    kept = {key: getattr(example, key) for key in names}
    vars(example).update(names)
    scores, seconds = timed(network, fold, **options)
    vars(example).update(kept)
    found = values(batch, scores)
    first = found if first is None else first
    rows.append([name, f"{found.mean():.4f}", apart(found, first), f"{seconds:.0f} s"])
    print(*rows[-1], sep=" | ", flush=True)
  return table(["trained with", "nDCG@10", "less the recipe", "processor time"], rows)


def folds_of(folder: pathlib.Path) -> list[jr.letor.Fold]:
  """LightGBM's example in folds, so that each query is once in a test part."""
  parts = [jr.letor.read(folder / name, n_features=301) for name in ("rank.train", "rank.test")]
  parts[1] = parts[1]._replace(query_ids=parts[1].query_ids + 1000)
  data = jr.letor.concatenate(*parts)
  ids = np.unique(data.query_ids)
  fold = np.random.default_rng(0).permutation(len(ids)) % FOLDS
  of_row = fold[np.searchsorted(ids, data.query_ids)]
  found = []
  for i in range(FOLDS):
    chosen = of_row == i, of_row == (i + 1) % FOLDS
    rows = ~(chosen[0] | chosen[1]), chosen[1], chosen[0]
    found.append(jr.letor.Fold(*(example.Dataset(*(x[r] for x in data[:3])) for r in rows)))
  return found


def lightgbm_example(folder: pathlib.Path) -> tuple[str, str]:
  """The table beside LightGBM, and that of weight decays."""
  folds = folds_of(folder)
  found = [compared(fold)[1] for fold in folds]
  systems = [np.concatenate(x) for x in zip(*found, strict=True)]
  names = ("LightGBM, small trees, searched", "network", "blend of both")
  rows = [
    [name, f"{x.mean():.4f}", apart(x, systems[0])] for name, x in zip(names, systems, strict=True)
  ]
  return table(["ranker", "nDCG@10", "less LightGBM"], rows), of_decays(folds)


def of_decays(folds: list[jr.letor.Fold]) -> str:
  found = {}
  for decay in DECAYS:
    each = [values(example.pad(f.test), network(f, decay=decay)) for f in folds]
    found[decay] = np.concatenate(each)
    print(decay, f"{found[decay].mean():.4f}", flush=True)
  rows = [
    [f"{decay:g}", f"{x.mean():.4f}", apart(x, found[DEFAULTS["decay"]])]
    for decay, x in found.items()
  ]
  return table(["weight decay", "nDCG@10", f"less that of {DEFAULTS['decay']}"], rows)


def main() -> None:
  """Trains, prints the tables, and writes them."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.letor")
  parser.add_argument("--data", type=pathlib.Path, help="folder of LightGBM's example")
  parser.add_argument("--only", choices=("sizes", "variants", "data"))
  args = parser.parse_args()
  if args.only in (None, "variants"):
    write("variants", f"{machine()}\n\n{variants()}", "ranker.md")
  if args.only in (None, "sizes"):
    write("sizes", f"{machine()}\n\n{sizes()}", "ranker.md")
  if args.data and args.only in (None, "data"):
    beside, decays = lightgbm_example(args.data)
    write("lightgbm example", f"{machine()}\n\n{beside}", "ranker.md")
    write("decays", decays, "ranker.md")


if __name__ == "__main__":
  main()
