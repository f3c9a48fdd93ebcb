"""Memory, compile time and import time."""

import functools
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

import jaxrank as jr

from . import peers
from .report import Row, Section, at_most, megabytes, milliseconds, ratio_row
from .timing import planned_bytes

_ROOT = pathlib.Path(__file__).parents[2]
_CUT = (
  "precision", "recall", "f_measure", "hit_rate", "reciprocal_rank", "average_precision",
  "fall_out", "dcg", "ndcg", "err", "nerr", "rbp",
)  # fmt: skip
_CONCORDANCE = ("auc", "ordered_pair_accuracy", "kendall_tau", "spearman")


def memory() -> Section:
  """Planned temporary memory over the bytes of the scores, and its growth for gradients."""
  rows = [_largest(name, _variants(name)) for name in (*_CUT, "r_precision", *_CONCORDANCE)]
  rows.append(_largest("precision_recall_curve", {"": jr.precision_recall_curve}))
  twenty = functools.partial(jr.evaluate, jr.parse(peers.TWENTY))
  rows.append(_largest("twenty measures", {"": twenty})._replace(target=None))
  rows += [_gradient(name) for name in ("ndcg", "average_precision", "err")]
  return Section("Temporary memory", _MEMORY_NOTES, rows)


def _metric(name: str) -> Callable[..., Array]:
  """A metric with the parameters that it needs, and the gain of the older figures."""
  own: dict[str, object] = {}
  if name in ("dcg", "ndcg"):
    own = {"gain": jr.gains.exponential}
  if name in ("err", "nerr"):
    own = {"max_label": 4}
  return functools.partial(getattr(jr, name), **own)


def _variants(name: str) -> dict[str, Callable[..., object]]:
  metric = _metric(name)
  return {"": metric} | ({", k=10": functools.partial(metric, k=10)} if name in _CUT else {})


def _largest(name: str, variants: dict[str, Callable[..., object]]) -> Row:
  scores = jax.ShapeDtypeStruct((1000, 1000), jnp.float32)
  sizes = {text: planned_bytes(call, scores, scores) for text, call in variants.items()}
  text, size = max(sizes.items(), key=lambda item: item[1])
  own = 4 * scores.size
  return ratio_row(
    name + text, megabytes(size), "scores (ours / this)", megabytes(own), size / own, at_most(12)
  )


def _gradient(name: str) -> Row:
  def loss(scores: Array, labels: Array) -> Array:
    return 1 - jnp.mean(_metric(name)(scores, labels, ranking=jr.Laplace(0.1)))

  short, long = (
    planned_bytes(jax.value_and_grad(loss), *2 * (jax.ShapeDtypeStruct((8, n), jnp.float32),)) / n
    for n in (10_000, 100_000)
  )
  return ratio_row(
    f"gradient of {name}, Laplace, [8, 100000]", f"{long / 8:.0f} B per candidate",
    "the same at [8, 10000]", f"{short / 8:.0f} B per candidate", long / short, at_most(1.2),
  )  # fmt: skip


def start_up() -> Section:
  """Compile and import times, each in fresh processes."""
  trace, compilation = _medians(_COMPILE.format(measures=peers.TWENTY), runs=3)
  bare, added = _medians(_IMPORT, runs=9)
  rows = [
    Row("compiling the twenty measures, [1000, 1000]", milliseconds(trace + compilation),
        "tracing alone", milliseconds(trace), judged=trace + compilation,
        target=at_most(3, "seconds")),
    ratio_row("import jaxrank after import jax, CPU time", milliseconds(added), "import jax",
              milliseconds(bare), added / bare, at_most(0.083)),
  ]  # fmt: skip
  return Section("Compiling and importing", _START_NOTES, rows)


def _medians(code: str, runs: int) -> list[float]:
  # A persistent compilation cache would hide the compile time; byte code is there after pip.
  environment = {
    **os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONDONTWRITEBYTECODE": ""
  }  # fmt: skip
  command = [sys.executable, "-c", code]
  measured = []
  for _ in range(runs + 1):
    output = subprocess.run(
      command, cwd=_ROOT, env=environment, check=True, capture_output=True, text=True
    )
    measured.append([float(word) for word in output.stdout.split()])
  # The first run may write byte code and read the libraries from the disk.
  return [statistics.median(column) for column in zip(*measured[1:], strict=True)]


_COMPILE = """
import functools, time
import jax, jaxrank as jr
measures = jr.parse({measures!r})
scores = jax.ShapeDtypeStruct((1000, 1000), "float32")
start = time.perf_counter()
lowered = jax.jit(functools.partial(jr.evaluate, measures)).lower(scores, scores)
middle = time.perf_counter()
lowered.compile()
print(middle - start, time.perf_counter() - middle)
"""

_IMPORT = """
import time
start = time.process_time()
import jax
middle = time.process_time()
import jaxrank
print(middle - start, time.process_time() - middle)
"""

_MEMORY_NOTES = """`temp_size_in_bytes` of the compiled program for `[1000, 1000]` float32 scores
and labels, ties averaged. Metrics that take `k` are compiled with and without `k=10`, and the row
shows the larger size. Gradients are of `1 - metric` under `Laplace`; memory is linear in n if the
bytes per candidate do not grow.
"""

_START_NOTES = """Medians over fresh processes, without a persistent compilation cache. Compiling
includes tracing and lowering. Byte code exists before the timing, as after an installation by pip.
"""
