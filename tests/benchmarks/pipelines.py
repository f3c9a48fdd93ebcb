"""`python -m tests.benchmarks.pipelines`: Grain against arrays in memory, Ray against one process.

The tables replace what stands between two comments of `docs/pipelines.md`. It needs the extras
`grain` and `ray`. `--lists 100000` makes the part of Ray smaller, and does not write the page.
"""

import argparse
import os
import pathlib
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

import grain
import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import jaxrank as jr
from jaxrank.interop.grain import BatchByLength

from . import report
from .report import Row, at_least, at_most, ratio_row

LISTS, FILES, COUNTRIES, BATCH = 1_000_000, 8, "abcdefgh", 32
MEASURES = "nDCG@10 nDCG AP RR P@1 P@10 R@10 R@100 RBP(p=0.8) Rprec"
TURNS = 3
ONE_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


class Lists:
  """A source of ragged lists, which are views of flat arrays."""

  def __init__(self, sizes: np.ndarray):
    rng = np.random.default_rng(1)
    self.sizes, self.ends = sizes, np.cumsum(sizes)
    self.scores = rng.normal(size=self.ends[-1]).astype(np.float32)
    self.labels = rng.integers(0, 5, self.ends[-1]).astype(np.int32)

  def __len__(self) -> int:
    return len(self.sizes)

  def __getitem__(self, i: int) -> dict[str, np.ndarray]:
    part = slice(self.ends[i] - self.sizes[i], self.ends[i])
    return {"scores": self.scores[part], "labels": self.labels[part]}


def best(*calls: Callable[[], Any]) -> list[float]:
  """The least time of each call, in turns."""
  times = []
  for _ in range(TURNS):
    for call in calls:
      start = time.perf_counter()
      call()
      times.append(time.perf_counter() - start)
  return [min(times[i :: len(calls)]) for i in range(len(calls))]


def grain_rows() -> list[Row]:
  """Batches by length against `jr.batches` over the same lists."""
  rng = np.random.default_rng(0)
  # As long as the lists of web search: at most 1,251 items, 120 in the mean.
  lists = Lists(np.clip(np.exp(rng.normal(4.5, 0.8, 40_000)).astype(int), 1, 1251))
  shuffled = grain.MapDataset.source(lists).seed(0).shuffle().to_iter_dataset(ONE_THREAD)
  batched = shuffled.pipe(BatchByLength(BATCH))
  ids = np.repeat(np.arange(len(lists)), lists.sizes)
  padded = jr.pad_buckets(ids, lists.scores, lists.labels)

  def exhaust(batches: Any) -> Callable[[], Any]:
    return lambda: [None for _ in batches]

  reading, both, loop, with_padding = best(
    exhaust(shuffled),
    exhaust(batched),
    lambda: [None for _ in jr.batches(padded, cells=BATCH * 128)],
    lambda: [
      None for _ in jr.batches(jr.pad_buckets(ids, lists.scores, lists.labels), cells=BATCH * 128)
    ],
  )

  def rate(seconds: float) -> str:
    return f"{len(lists) / seconds:,.0f} lists/s"

  what = f"{len(lists):,} lists of {lists.sizes.mean():.0f} items in the mean"
  rows = [
    ratio_row(
      f"{what}: `BatchByLength({BATCH})`, less {reading:.2f} s of reading",
      rate(both - reading),
      other,
      rate(seconds),
      seconds / (both - reading),
      target,
    )
    for other, seconds, target in (
      ("`jr.pad_buckets` and a loop of `jr.batches`", with_padding, at_least(1)),
      ("the loop of `jr.batches` alone, padded before", loop, None),
    )
  ]
  for name, lengths in (("eight lengths an octave", None), ("powers of two", 2 ** np.arange(12))):
    cells = sum(
      batch["where"].size
      for batch in shuffled.pipe(BatchByLength(BATCH, lengths=lengths))
    )  # fmt: skip
    share = 100 * (1 - lists.sizes.sum() / cells)
    target = at_most(15, "% padding") if lengths is None else None
    rows.append(Row(f"padding, {name}", f"{share:.1f}%", judged=share, target=target))
  return rows


def make(folder: pathlib.Path, count: int) -> None:
  """Parquet files of lists of 10 to 100 candidates, a tenth of them relevant."""
  rng = np.random.default_rng(0)
  for i in range(FILES):
    sizes = rng.integers(10, 101, count // FILES)
    ends = np.append(0, np.cumsum(sizes)).astype(np.int32)
    table = {
      "scores": pa.ListArray.from_arrays(ends, rng.normal(size=ends[-1]).astype(np.float32)),
      "labels": pa.ListArray.from_arrays(ends, (rng.random(ends[-1]) < 0.1).astype(np.int8)),
      "country": pa.array(rng.choice(list(COUNTRIES), sizes.size)),
    }
    pq.write_table(pa.table(table), folder / f"{i}.parquet")


def alone(folder: pathlib.Path) -> Callable[[], pd.DataFrame]:
  """One process that reads the files, pads with `jr.pad_buckets` and updates an `Evaluator`."""
  evaluator = jr.Evaluator(MEASURES, groups=len(COUNTRIES))

  @jax.jit
  def update(state: Any, scores: Any, labels: Any, where: Any, groups: Any) -> Any:
    return evaluator.update(state, scores, labels, where=where, groups=groups)

  def run() -> pd.DataFrame:
    state = evaluator.init()
    for path in sorted(folder.iterdir()):
      table = pq.read_table(path).combine_chunks()
      lists = table["scores"].combine_chunks()
      ids = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
      flat = [table[name].combine_chunks().flatten().to_numpy() for name in ("scores", "labels")]
      countries = table["country"].combine_chunks().dictionary_encode()
      order = np.argsort(np.argsort(countries.dictionary.to_pylist()))
      groups = order[countries.indices.to_numpy()].astype(np.int32)
      for batch in jr.batches(jr.pad_buckets(ids, *flat), cells=1 << 17):
        state = update(state, *batch[:3], groups[batch.query_ids])
    rows = []
    for g, country in enumerate(COUNTRIES):
      part = evaluator.group(state, g)
      means = evaluator.compute(part)
      rows += [
        {"by": country, "measure": name, "mean": means[name], "queries": int(count)}
        for name, count in zip(evaluator.names, part.count, strict=True)
      ]
    return pd.DataFrame(rows)

  return run


def ray_rows(count: int) -> list[Row]:
  """`interop.ray.evaluate` against one process; both run once before they are timed."""
  import ray

  from jaxrank.interop.ray import evaluate

  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    make(folder, count)
    root = str(pathlib.Path(__file__).parents[2])
    ray.init(
      num_cpus=2,
      include_dashboard=False,
      log_to_driver=False,
      logging_level="error",
      runtime_env={"env_vars": {"JAX_PLATFORMS": "cpu", "PYTHONPATH": root}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False

    def spread() -> pd.DataFrame:
      return evaluate(ray.data.read_parquet(name), MEASURES, by="country")

    whole = alone(folder)
    frame, expected = spread(), whole()
    np.testing.assert_allclose(frame["mean"], expected["mean"], rtol=1e-6)
    np.testing.assert_array_equal(frame["queries"], expected["queries"])
    assert [*frame["by"]] == [*expected["by"]]
    ours, theirs = best(spread, whole)
    ray.shutdown()
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
  what = f"{count:,} lists of 10 to 100, ten measures, eight countries"
  takes = f"{theirs:.1f} s"
  return [
    ratio_row(
      what, f"{ours:.1f} s", "one process", takes, ours / theirs, at_most(2, "times")
    ),
    Row("peak memory of this process, which holds a file at a time for the other side",
        report.megabytes(peak)),
  ]  # fmt: skip


def main() -> None:
  """Measures, prints the tables and writes them into the page."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--lists", type=int, default=LISTS)
  count = parser.parse_args().lists
  os.environ["JAX_PLATFORMS"] = "cpu"
  found = [*grain_rows(), *ray_rows(count)]
  print(report.table(found))
  if count == LISTS:
    report.write_rows("pipelines", found, "pipelines.md")


if __name__ == "__main__":
  main()
