"""`python -m tests.benchmarks.fusion`: what tuned weights are worth, and what they cost.

It writes the tables of `docs/fusion.md`. Simulated systems score items by their label, times the
quality of the system, plus noise. `--only speed` needs ranx.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank.fusion import fitting, held_out
from tests.house.metric_table import table

from .report import machine, write

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import fuse as example

DATA_SETS, ITEMS, LEVEL = 400, 20, 0.95
# Queries, the qualities of systems, and multiples of weights.
SIMULATED = {
  "two of equal quality": (100, (1.5, 1.5), 20),
  "three of equal quality": (100, (1.5, 1.5, 1.5), 6),
  "two of equal quality, 30 queries": (30, (1.5, 1.5), 20),
  "two, one somewhat better": (100, (1.5, 1.2), 20),
  "three, one somewhat better": (100, (1.5, 1.2, 1.2), 6),
  "two, one twice as good": (100, (2.5, 0.7), 20),
  "three, one twice as good": (100, (2.5, 0.7, 0.7), 6),
  "two, one of little use": (100, (1.5, 0.2), 20),
}
TIMED = {"queries": 100, "depth": 1000, "items": 2700}


def simulated() -> str:
  """How often each recommendation comes, and how often the intervals contain the true gain."""
  rows = []
  for name, (queries, qualities, steps) in SIMULATED.items():
    rows.append([name, *_of_systems(queries, qualities, steps)])
    print(*rows[-1], sep=" | ", flush=True)
  return table(
    [
      "systems", "alone", "equal weights", "gain in the sample", "held out", "true",
      "equal", "single", "tuned", "interval contains the true gain",
    ],
    rows,
  )  # fmt: skip


def _of_systems(queries: int, qualities: Sequence[float], steps: int) -> list[str]:
  keys = jax.random.split(jax.random.key(1), 2)
  shape = (DATA_SETS * queries, ITEMS)
  labels = (jax.random.uniform(keys[0], shape) < 0.15).astype(jnp.float32)
  scores = labels[None] * jnp.asarray(qualities)[:, None, None]
  scores = scores + jax.random.normal(keys[1], scores.shape)
  where = jnp.ones(shape, bool)
  evaluated = fitting._Evaluated(fitting._measure("nDCG@5"), labels, where)
  fuse, (setting,) = fitting._settings("comb_sum", scores, where, "auto", {})
  grid = fitting._grid(len(qualities), steps)
  sets = (-1, DATA_SETS, queries)
  values, alone = evaluated.of(fuse, setting, grid).reshape(sets), evaluated.alone(scores)
  alone, group = alone.reshape(sets), np.arange(queries)
  # All data sets together stand for new queries.
  truth, found = values.mean(axis=(1, 2)), []
  for i in range(DATA_SETS):
    folds = held_out.divided(jax.random.key(i), 5, 10, group)
    held: dict[held_out.Choice, np.ndarray] = {
      "equal": values[0, i],
      "single": held_out.held_out(alone[:, i], folds),
      "tuned": held_out.held_out(values[:, i], folds),
    }
    gains = held_out.gains(held, group, 5, LEVEL)
    best = held_out.best(values[:, i].mean(axis=1))
    gain = gains["tuned", "equal"]
    true = truth[best] - truth[0]
    in_sample = values[best, i].mean() - values[0, i].mean()
    chosen = held_out.recommended(gains, queries, 1 - LEVEL)
    found.append((chosen, in_sample, gain.mean, true, gain.low <= true <= gain.high))
  chosen, *numbers = zip(*found, strict=True)
  in_sample, held_gain, true, inside = (np.mean(x) for x in numbers)
  return [
    ", ".join(f"{x:.3f}" for x in alone.mean(axis=(1, 2))),
    f"{truth[0]:.3f}",
    *(f"{x:+.4f}" for x in (in_sample, held_gain, true)),
    *(f"{100 * chosen.count(x) / DATA_SETS:.1f} %" for x in ("equal", "single", "tuned")),
    f"{100 * inside:.1f} %",
  ]


def digits() -> str:
  """The values of methods on the queries that did not tune."""
  scores, labels = example.retrieve()
  tuning, held = slice(example.QUERIES // 2), slice(example.QUERIES // 2, None)
  fit = fitting.fit(
    "comb_sum", scores[:, tuning], labels[tuning], "AP", key=jax.random.key(0), names=example.NAMES
  )
  print(fit)
  found = example.table(fit, scores[:, held], labels[held])
  rows = [[name, *(f"{x:.4f}" for x in values.values())] for name, values in found.items()]
  return table(["system or method", "AP", "nDCG@10"], rows)


def speed(repeats: int = 2) -> str:
  """The time of a fit of three runs, and that of a weighting beside ranx."""
  rng = np.random.default_rng(0)
  queries, n = TIMED["queries"], TIMED["items"]
  rows = []
  for systems, steps in ((3, 20), (4, 36)):
    labels = (rng.random((queries, n)) < 0.02).astype(np.float32)
    scores = rng.normal(size=(systems, queries, n)).astype(np.float32) + 1.5 * labels
    first = np.argsort(np.argsort(-scores, axis=-1), axis=-1) < TIMED["depth"]
    scores = np.where(first, scores, -np.inf)
    for refine in (False, True):
      times, points = [], 0
      for _ in range(repeats):
        start = time.perf_counter()
        options = {"key": jax.random.key(0), "steps": steps, "refine": refine}
        points = len(fitting.fit("comb_sum", scores, labels, "nDCG@10", **options).grid)
        times.append(time.perf_counter() - start)
      rows.append([
        f"{systems} runs, {points:,} weightings, 10 times 5 folds" + ", refined" * refine,
        f"{times[0]:.1f} s", f"{min(times[1:]):.2f} s", f"{1e3 * min(times[1:]) / points:.1f} ms",
      ])  # fmt: skip
      print(*rows[-1], sep=" | ", flush=True)
    if systems == 3:
      ranx = _ranx(scores, labels)
  rows.append(["ranx, `optimize_fusion`, 3 runs, 15 weightings", *ranx])
  return table(["measured", "first call", "next calls", "of a weighting"], rows)


def _ranx(scores: np.ndarray, labels: np.ndarray) -> list[str]:
  try:
    from ranx import Qrels, Run, optimize_fusion
  except ImportError:
    return ["-", "-", "-"]
  runs = [
    Run({
      f"q{q}": {f"d{i}": float(row[i]) for i in np.flatnonzero(np.isfinite(row))}
      for q, row in enumerate(system)
    })
    for system in scores
  ]  # fmt: skip
  qrels = Qrels({
    f"q{q}": {f"d{i}": 1 for i in np.flatnonzero(row)} for q, row in enumerate(labels)
  })  # fmt: skip
  times = []
  for _ in range(2):
    start = time.perf_counter()
    optimize_fusion(qrels, runs, norm="min-max", method="wsum", metric="ndcg@10", step=0.25)
    times.append(time.perf_counter() - start)
    print("ranx", times[-1], flush=True)
  return [f"{times[0]:.0f} s", f"{times[1]:.0f} s", f"{1e3 * times[1] / 15:.0f} ms"]


def main() -> None:
  """Measures, prints the tables, and writes them."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fusion")
  parser.add_argument("--only", choices=("digits", "simulated", "speed"))
  args = parser.parse_args()
  if args.only in (None, "digits"):
    write("digits", digits(), "fusion.md")
  if args.only in (None, "simulated"):
    write("simulated", simulated(), "fusion.md")
  if args.only in (None, "speed"):
    write("speed", f"{machine()}\n\n{speed()}", "fusion.md")


if __name__ == "__main__":
  main()
