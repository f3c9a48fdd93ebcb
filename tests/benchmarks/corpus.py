"""`python -m tests.benchmarks.corpus`: whole corpora, against the bare product of their chunks.

The table replaces what stands between two comments of `docs/catalogues.md`. The product is that of
the same queries and chunks in the same loop; its scores are written, and a column of them is read.
"""

import functools
import pathlib
import subprocess
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank import corpus, ranks

from . import report
from .report import Row, at_most, megabytes, milliseconds, ratio_row
from .timing import Contender, jitted, planned_bytes, race

_ROOT = pathlib.Path(__file__).parents[2]

QUERIES, SIZE, EXCLUDED, CHUNK, ROUNDS = 1000, 64, 100, 8192, 5
ITEMS = (100_000, 1_000_000)

# How much longer than the product each call may take.
TARGETS = {
  "target_ranks": 1.3,
  "evaluate, 1 positive": 1.5,
  "evaluate, 5 positives": None,
  "evaluate, 20 positives": 3.0,
}
MEASURES = "nDCG AP RR R@10 P@10 Rprec Success@10"

# A product of columns that are no multiple of 64 may take another path, which rounds otherwise.
_WHOLE = 1 << 16


def data(items: int) -> tuple[Array, Array, Array, Array]:
  """Queries, items, targets and what is excluded."""
  keys = jax.random.split(jax.random.key(0), 4)
  shapes = (QUERIES,), (QUERIES, EXCLUDED)
  ids = (jax.random.randint(key, s, 0, items) for key, s in zip(keys[:2], shapes, strict=True))
  vectors = ((QUERIES, SIZE), (items, SIZE))
  return *(jax.random.normal(key, s) for key, s in zip(keys[2:], vectors, strict=True)), *ids


def product(queries: Array, items: Array, chunk: int = CHUNK) -> Array:
  """What cannot be spared: the scores of every chunk."""

  def body(i: Array, total: Array) -> Array:
    start = jnp.minimum(i * chunk, items.shape[0] - chunk)
    part = lax.dynamic_slice_in_dim(items, start, chunk)
    block = jnp.matmul(queries, part.T, precision="highest")
    return total + lax.optimization_barrier(block)[:, 0]

  return lax.fori_loop(0, -(-items.shape[0] // chunk), body, jnp.zeros_like(queries[:, 0]))


def calls() -> dict[str, Callable[..., object]]:
  """What is measured, each a function of queries, items, targets and what is excluded."""
  best = functools.partial(corpus.top_items, k=10, chunk=CHUNK)
  counts = functools.partial(corpus.target_ranks, chunk=CHUNK)
  return {
    "the bare product": lambda queries, items, *_: product(queries, items),
    "target_ranks": lambda queries, items, targets, _: counts(queries, items, targets),
    "target_ranks, 100 excluded": lambda queries, items, targets, out: counts(
      queries, items, targets, exclude=out
    ),
    "top_items, k=10": lambda queries, items, *_: best(queries, items),
    "evaluate, 1 positive": functools.partial(evaluate, 1),
    "evaluate, 5 positives": functools.partial(evaluate, 5),
    "evaluate, 20 positives": functools.partial(evaluate, 20),
    "evaluate, 20 positives, 100 excluded": lambda queries, items, targets, out: evaluate(
      20, queries, items, targets, out, exclude=out
    ),
  }


def evaluate(
  count: int, queries: Array, items: Array, targets: Array, out: Array, exclude: Array | None = None
) -> object:
  """Seven measures of some positives of each query, which are not among the excluded items."""
  # Items that follow the target; those that are excluded make a query NaN, in the same time.
  positives = (targets[:, None] + jnp.arange(count)[None]) % items.shape[0]
  return corpus.evaluate(MEASURES, queries, items, positives, exclude=exclude, chunk=CHUNK)


def rows(items: int) -> list[Row]:
  """Times and memory of each call, and of the same against the product."""
  given = data(items)
  contenders = {
    name: Contender(functools.partial(_first, jitted(call, *given)), ROUNDS)
    for name, call in calls().items()
  }
  seconds = {name: result.seconds for name, result in race(contenders).items()}
  bare, *ours = contenders
  found = []
  for name in ours:
    memory = megabytes(planned_bytes(calls()[name], *given))
    limit = TARGETS.get(name)
    target = None if limit is None else at_most(limit)
    ratio = seconds[name] / seconds[bare]
    text = f"{milliseconds(seconds[name])}, {memory}, peak {megabytes(peak(name, items))}"
    found.append(
      ratio_row(f"{name}, {items:,} items", text, bare, milliseconds(seconds[bare]), ratio, target)
    )
  return found


def _first(call: Callable[[], object]) -> Array:
  return jax.tree.leaves(call())[0]


def peak(name: str, items: int) -> int:
  """How far a call raises the memory of a fresh process above that of its arguments."""
  command = [sys.executable, "-m", "tests.benchmarks.corpus", "--peak", name, str(items)]
  return int(subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout)


def _peak(name: str, items: int) -> int:
  given = jax.block_until_ready(data(items))
  call = jax.jit(calls()[name]).lower(*given).compile()
  # Forgets the peak of making the arguments (Linux).
  pathlib.Path("/proc/self/clear_refs").write_text("5")
  before = _status("VmRSS")
  jax.block_until_ready(call(*given))
  return _status("VmHWM") - before


def _status(field: str) -> int:
  text = pathlib.Path("/proc/self/status").read_text()
  return 1024 * int(text.split(f"{field}:")[1].split()[0])


def check_whole() -> None:
  """Raises unless the ranks are those of a whole product."""
  queries, items, targets, _ = data(_WHOLE)
  whole = jax.jit(ranks.from_scores)(jnp.matmul(queries, items.T, precision="highest"), targets)
  found = corpus.target_ranks(queries, items, targets, chunk=CHUNK)
  for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(found), strict=True):
    np.testing.assert_array_equal(one, other)


def main() -> None:
  """Measures, prints the table and writes it into the page."""
  if sys.argv[1:2] == ["--peak"]:
    print(_peak(sys.argv[2], int(sys.argv[3])))
    return
  check_whole()
  found = [row for items in ITEMS for row in rows(items)]
  print(report.table(found))
  report.write_rows("corpus", found, "catalogues.md")


if __name__ == "__main__":
  main()
