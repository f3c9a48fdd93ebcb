"""`python -m tests.benchmarks.short_lists here|cuda|tpu`: all pairs against the sums of long lists.

It computes gradients of lists around the limits of `decayed_sums` in both ways. They are timed on
this machine, or counted for a described device as `devices` does. The table replaces what stands
between two comments of `docs/mathematics.md`.
"""

import argparse
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

# The compilers report at length that there is no device.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jax.numpy as jnp

import jaxrank as jr
from jaxrank._core import decays

from . import cost, report
from .devices import compilers, counting
from .devices import report as tables
from .devices.programs import gradient
from .timing import Contender, jitted, race

SHAPES = (
  *((32, n) for n in (10, 32, 56, 64, 128, 256)),
  *((128, 56), (1024, 32), (256, 128), (64, 256)),
)
METRICS = {"ndcg": jr.ndcg, "err": functools.partial(jr.err, max_label=4)}
RANKINGS = (jr.Laplace, jr.Logistic)
# The most items and pairs that are summed over all pairs, for each way of adding up.
_WAYS = {"all pairs": 10**9, "sums of long lists": 0}

# A figure, by which the ways are compared, and the text of all figures.
Figure = tuple[float, str]


def body(measure: Callable[..., dict[str, Figure]]) -> Iterator[list[str]]:
  """The rows of the table."""
  for kind, name, shape in itertools.product(RANKINGS, METRICS, SHAPES):
    slope = gradient(functools.partial(METRICS[name], ranking=kind(1.0)))
    found = measure(slope, shape)
    (pairs, _), (sums, _) = found.values()
    texts = (text for _, text in found.values())
    yield [f"{name}, {kind.__name__} {list(shape)}", *texts, f"{pairs / sums:.2f}"]


def seconds(function: Callable[..., Any], shape: tuple[int, int]) -> dict[str, Figure]:
  """The best times on this machine."""
  data = cost.training_data(*shape)
  calls = {}
  for name, most in _WAYS.items():
    with _limits(most):
      calls[name] = Contender(jitted(function, *data), rounds=101, warm_ups=5)
  best = {name: result.best for name, result in race(calls).items()}
  return {name: (x, report.milliseconds(x)) for name, x in best.items()}


def counts(
  platform: str, function: Callable[..., Any], shape: tuple[int, int]
) -> dict[str, Figure]:
  """Launches or cycles for a described device, and the memory in arrays of the shape."""
  arrays = 2 * [jax.ShapeDtypeStruct(shape, jnp.float32)]
  found = {}
  for name, most in _WAYS.items():
    with _limits(most):
      compiled = compilers.traced(function, arrays, compilers.device(platform)).lower().compile()
    counted = counting.cost(compiled.as_text())
    figure = counted.launches if platform == "cuda" else counted.cycles
    memory = compiled.memory_analysis().temp_size_in_bytes / (4 * shape[0] * shape[1])
    found[name] = figure, f"{figure:,}; {memory:.1f}"
  return found


def _limits(most: int) -> Any:
  """Takes all pairs up to so many items and pairs."""
  jax.clear_caches()
  items = {platform: (most, most) for platform in decays._ITEMS}
  pairs = dict.fromkeys(decays._PAIRS, most)
  return mock.patch.multiple(decays, _ITEMS=items, _PAIRS=pairs)


def main() -> None:
  """Measures, prints the table and writes it into the page."""
  parser = argparse.ArgumentParser(
    prog="python -m tests.benchmarks.short_lists", description=__doc__
  )
  parser.add_argument("where", choices=("here", *compilers.NAMES))
  where = parser.parse_args().where
  if where == "here":
    facts, measure = report.machine(), seconds
  else:
    facts, measure = tables.versions(), functools.partial(counts, where)
  table = "\n".join(tables.lines(["gradient of", *_WAYS, "ratio"], list(body(measure))))
  print(table)
  report.write(f"short lists, {where}", f"{facts}\n\n{table}", "mathematics.md")


if __name__ == "__main__":
  main()
