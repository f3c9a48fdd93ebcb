"""`python -m tests.benchmarks.significance`: random flips against their bare product; its picture.

The table replaces what stands between two comments of `docs/comparison.md`, and the picture of that
page is drawn anew. The product is that of numpy, of signs that are there already with the same
differences: `[flips, queries] @ [queries, pairs]`, in parts of 1 GB at most.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.figure import Figure

from jaxrank import stats

from . import report
from .report import Row, at_most, megabytes, milliseconds, ratio_row
from .timing import Contender, jitted, planned_bytes, race

FLIPS, QUERIES, PAIRS, PART, ROUNDS = 1_000_000, 250, 10, 100_000, 7

_PICTURE = pathlib.Path(__file__).parents[2] / "docs" / "comparison.svg"


def data() -> tuple[Array, Array, Array]:
  """The values of each pair of systems, and a key."""
  rng = np.random.default_rng(0)
  x = rng.random((PAIRS, QUERIES), np.float32)
  y = x + rng.normal(size=x.shape).astype(np.float32) / 10
  return jnp.asarray(x), jnp.asarray(y), jax.random.key(0)


def product(signs: np.ndarray, differences: np.ndarray) -> None:
  """The sums of all flips; `signs` are those of a part."""
  for _ in range(FLIPS // PART):
    signs @ differences


def rows() -> list[Row]:
  """Time and memory of a test of ten pairs, and of the same against the product."""
  x, y, key = data()
  signs = np.random.default_rng(1).choice(np.float32([-1, 1]), (PART, QUERIES))
  flipped = functools.partial(stats.randomization_test, flips=FLIPS)
  ours = jitted(lambda x, y, key: flipped(x, y, key=key).p_value, x, y, key)
  bare = functools.partial(product, signs, np.asarray(x - y).T)
  found = race(
    {"ours": Contender(ours, ROUNDS), "bare": Contender(lambda: bare() or np.nan, ROUNDS)}
  )
  seconds = {name: result.seconds for name, result in found.items()}
  memory = planned_bytes(lambda x, y, key: flipped(x, y, key=key), x, y, key)
  return [
    ratio_row(
      f"randomization_test, {FLIPS:,} flips, {QUERIES} queries, {PAIRS} pairs",
      f"{milliseconds(seconds['ours'])}, {megabytes(memory)}",
      "the bare product",
      milliseconds(seconds["bare"]),
      seconds["ours"] / seconds["bare"],
      at_most(2.5),
    )
  ]


def picture() -> None:
  """What a claim rests on: the differences of queries, and the means that chance gives."""
  rng = np.random.default_rng(3)
  x = rng.beta(2, 3, 60)
  y = np.clip(x + rng.normal(0.01, 0.1, 60), 0, 1)
  difference = np.sort(y - x)
  flips = rng.choice([-1, 1], (20_000, 60)) @ difference / 60
  p_value = float(stats.randomization_test(y, x, key=jax.random.key(0)).p_value)
  low, _, high = stats.bootstrap_interval(
    jnp.mean, difference, key=jax.random.key(0), resamples=10_000, method="bca"
  )
  figure = Figure(figsize=(10, 3.4), layout="constrained")
  left, right = figure.subplots(1, 2)
  colours = np.where(difference > 0, "#30638e", "#d1495b")
  left.bar(np.arange(60), difference, color=colours, width=0.8)
  left.axhline(difference.mean(), color="black", linewidth=1, label="mean")
  left.axhspan(float(low), float(high), color="black", alpha=0.15, label="95 % interval, BCa")
  left.set(title="Differences of 60 queries", xlabel="query, sorted", ylabel="new - old")
  right.hist(flips, bins=60, color="#b8c4ce")
  for value in (-difference.mean(), difference.mean()):
    right.axvline(value, color="black", linewidth=1)
  right.set(
    title=f"Means with random signs; p = {p_value:.3f} beyond the lines",
    xlabel="mean difference",
    yticks=[],
  )
  left.legend(frameon=False, fontsize=8)
  for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
  figure.savefig(_PICTURE, metadata={"Date": None})


def main() -> None:
  """Measures, prints the table, writes it into the page and draws the picture."""
  found = rows()
  print(report.table(found))
  report.write_rows("significance", found, "comparison.md")
  picture()


if __name__ == "__main__":
  main()
