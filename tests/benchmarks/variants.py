"""`python -m tests.benchmarks.variants cpu|tpu|cuda`: what each variant is worth.

Each program is compiled as it is, and once without each variant that it uses, so that the next one
or the reference takes its place. On a CPU the run times are compared; for a TPU the estimated
cycles or the memory, and for a GPU the launches or the memory, whichever is the larger ratio. The
table has the largest ratio of each variant and its program; most variants repeat both in `gain`.
"""

import argparse
import contextlib
import itertools
import math
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# The compilers report at length that there is no device.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jax.numpy as jnp

import jaxrank as jr
from jaxrank._core import platforms, sorting, ties
from jaxrank.corpus._counting import counts_above
from jaxrank.corpus._marks import marked
from tests.helpers import primitives

from .devices import compilers, counting, programs, report, turns

_ROUNDS, _SECONDS = 9, 0.1

_PLATFORMS = {"cpu": "cpu", "tpu": "tpu", "cuda": "gpu"}
_PAGES = {
  "cpu": "times on a CPU",
  "tpu": "cycles or bytes on a TPU",
  "cuda": "launches or bytes on a GPU",
}
_NAMES = (
  "ndcg [1000, 1000]",
  "ndcg, k=10 [32, 1000]",
  "ndcg, k=10 [1000, 1000]",
  "ndcg, k=10 [8, 10000]",
  "average_precision [1000, 1000]",
  "average_precision, k=10 [1000, 1000]",
  "reciprocal_rank [1000, 1000]",
  "precision, k=10 [1000, 1000]",
  "rbp [32, 1000]",
  "twenty measures [1000, 1000]",
  "gradient of ndcg, Laplace [32, 64]",
  "gradient of ndcg, Laplace [32, 1000]",
  "gradient of ndcg, k=10, Laplace [32, 1000]",
  "gradient of ndcg, Logistic [32, 64]",
  "gradient of ndcg, Logistic [32, 1000]",
  "gradient of ndcg, k=10, Logistic [32, 1000]",
  "gradient of ndcg, Gumbel [32, 1000]",
  "gradient of ndcg, k=10, Gumbel [32, 1000]",
  "gradient of ndcg, Gaussian [32, 1000]",
)


def _others() -> Iterator[programs.Program]:
  """Programs that reach the variants of which no headline program knows."""
  slope = programs.gradient(jr.losses.pairwise_logistic)
  intents = programs.metrics()["err_ia"]
  for title, function, shape, inputs in (
    ("kendall_tau", jr.kendall_tau, (100, 100), ("scores", "labels")),
    ("gradient of pairwise_logistic", slope, (128, 200), ("scores", "labels")),
    ("gradient of pairwise_logistic", slope, programs.SHORT, ("scores", "labels")),
    ("means over ties", _means_over_ties, programs.MANY, ("scores", "labels")),
    ("err_ia", intents, programs.SHORT, ("scores", "subtopics")),
    ("counts above 10 thresholds", _standing, (100, 10240), ("scores", "labels")),
    ("marks of 200 columns", _marks, (256, 8192), ("scores", "labels")),
  ):
    yield programs.Program(title, "variants", function, shape, inputs)


def _means_over_ties(scores: Any, labels: Any) -> Any:
  key = sorting.keys(-jnp.sort(-jnp.round(4 * scores)), labels >= 0)
  return ties.mean(labels, *ties.layout(key))


def _standing(scores: Any, labels: Any) -> Any:
  return counts_above(labels[:, :10], scores)


def _marks(scores: Any, labels: Any) -> Any:
  return marked(labels[:, :200].astype(jnp.int32) * 1000, scores)


def main() -> None:
  """Runs the command."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.variants", description=__doc__)
  parser.add_argument("where", choices=[*_PLATFORMS])
  parser.add_argument("--only", default="", help="part of the name of a variant")
  parser.add_argument("--programs", default="", help="part of the name of a program")
  parser.add_argument("--output", type=pathlib.Path, help="a page whose section is replaced")
  arguments = parser.parse_args()
  primitives.table()
  on = _PLATFORMS[arguments.where]
  target = None if on == "cpu" else compilers.device(arguments.where)
  if target is not None:
    turns.label_loops()
  best: dict[str, tuple[float, str]] = {}
  table = programs.table(True)
  for program in itertools.chain((table[name] for name in _NAMES), _others()):
    if arguments.programs not in program.name:
      continue
    for name, ratio in _ratios(program, on, target, arguments.only):
      print(f"{program.name}: {name}: {ratio:.2f}", flush=True)
      best[name] = max(best.get(name, (0.0, "")), (ratio, program.name))
  rows = [(name, f"{ratio:.2g}", row) for name, (ratio, row) in sorted(best.items())]
  text = report.lines(("variant", "times as much without it", "program"), rows)
  print("\n".join(text))
  if arguments.output:
    body = "\n".join([report.versions(), "", *text])
    report.write(arguments.output, f"## Without a variant: {_PAGES[arguments.where]}", body)


def _ratios(
  program: programs.Program, on: str, target: Any, only: str
) -> Iterator[tuple[str, float]]:
  used: dict[str, tuple[platforms.Primitive[..., Any], platforms.Variant[..., Any]]] = {}
  with _noted(used):
    base = _compiled(program, on, target)
  for name, (primitive, variant) in used.items():
    if only in name and on in variant.platforms:
      kept = list(primitive.variants)
      primitive.variants[:] = [
        x if x is not variant else x._replace(platforms=(*({*x.platforms} - {on}),)) for x in kept
      ]
      try:
        yield name, _ratio(base, _compiled(program, on, target), program, target)
      finally:
        primitive.variants[:] = kept


@contextlib.contextmanager
def _noted(used: dict[str, Any]) -> Iterator[None]:
  """Notes which variants are traced."""

  def noting(name: str, primitive: Any, variant: Any) -> Callable[..., Any]:
    def function(*args: Any, **static: Any) -> Any:
      used[name] = primitive, variant
      return variant.function(*args, **static)

    return function

  kept = {key: list(x.variants) for key, x in platforms.TABLE.items()}
  for key, primitive in platforms.TABLE.items():
    primitive.variants[:] = [
      x._replace(function=noting(f"{key}: {x.function.__name__}", primitive, x)) for x in kept[key]
    ]
  try:
    yield
  finally:
    for key, primitive in platforms.TABLE.items():
      primitive.variants[:] = kept[key]


def _compiled(program: programs.Program, on: str, target: Any) -> Any:
  jax.clear_caches()
  with platforms.forced(on):
    if target is None:
      return jax.jit(program.function).lower(*program.arguments).compile()
    traced = compilers.traced(program.function, program.arguments, target)
    compiled = traced.lower().compile()
    text, measured = compiled.as_text(), {}
    if program.ranking:
      # Now, because the names of loops are those of these traces.
      measured = turns.count(traced.jaxpr, target.platform, program.data())
      measured = {name: count for name, count in measured.items() if re.search(rf"{name}\b", text)}
  cost = counting.cost(text, measured)
  counted = cost.cycles if target.platform == "tpu" else cost.launches
  # A program may hold all in the fast memory of a TPU, of which no byte is counted.
  scores = 4 * math.prod(program.shape)
  return counted, max(compiled.memory_analysis().temp_size_in_bytes, scores)


def _ratio(base: Any, other: Any, program: programs.Program, target: Any) -> float:
  if target is None:
    return _seconds_ratio([base, other], program.data())
  return max(x / y for x, y in zip(other, base, strict=True))


def _seconds_ratio(sides: Sequence[Any], data: Sequence[Any]) -> float:
  best = [float("inf")] * len(sides)
  for _ in range(_ROUNDS):
    for i, call in enumerate(sides):
      end = time.perf_counter() + _SECONDS
      while True:
        start = time.perf_counter()
        jax.block_until_ready(call(*data))
        best[i] = min(best[i], time.perf_counter() - start)
        if time.perf_counter() > end:
          break
  return best[1] / best[0]


if __name__ == "__main__":
  main()
