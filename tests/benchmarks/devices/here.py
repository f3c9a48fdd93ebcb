"""Times programs on the default device, and checks their values against those of the CPU."""

import concurrent.futures
import functools
import math
import multiprocessing
import os
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr

from . import by_hand, programs, report

# A program is timed in turns with the others, at least so often and so long; the best turn counts.
_TURNS, _SECONDS = 3, 0.3
# A turn queues so many seconds of calls, but not more than so many calls, and waits for the last.
_TURN, _MOST_CALLS = 0.005, 100
# A value may be so far from double precision, as a share of itself, and a gradient of the query's
# largest, or so many times as far as it is on the CPU: a gradient that cancels, or that is that of
# the tail of a distribution, has lost digits on every device.
_TOLERANCE, _TIMES = 1e-6, 5
# At most so many calls are profiled, and one if each takes longer than a turn; none that takes more
# than so many seconds, since it has too many kernels.
_PROFILED, _SHORT = 5, 0.04


class Ready(NamedTuple):
  """A program and the others, compiled.

  Attributes:
    calls: The program and the others, by name.
    error: How far its values differ from those in double precision on the CPU.
    error_of_cpu: How far those in single precision on the CPU do.
  """

  calls: Mapping[str, Callable[[], Any]]
  error: float
  error_of_cpu: float


class Times(NamedTuple):
  """Seconds of a call: until the next can start, and of its kernels on a GPU, if they are known."""

  seconds: float
  kernels: float | None

  def __str__(self) -> str:
    return _text(self.seconds) + ("" if self.kernels is None else f" ({_text(self.kernels)})")


def main(chosen: Sequence[programs.Program], output: pathlib.Path | None) -> int:
  """Measures programs, prints the table and writes its section; 1 if values differ."""
  name = jax.devices()[0].device_kind
  print(f"{name}, jax {jax.__version__}", flush=True)
  start = time.perf_counter()
  # Nothing is timed before the last program is compiled, since compilers would take the processors.
  # Tracing is Python, so that threads alone would wait for each other.
  half = math.ceil((os.cpu_count() or 1) / 2)
  spawn = multiprocessing.get_context("spawn")
  with (
    concurrent.futures.ProcessPoolExecutor(half, spawn, _without_device) as processes,
    concurrent.futures.ThreadPoolExecutor(half) as threads,
  ):
    references = [processes.submit(reference, x.name) for x in chosen]
    compiled = list(threads.map(ready, chosen, references))
  print(f"compiled in {time.perf_counter() - start:.0f} s", flush=True)
  body, wrong = [], []
  for program, found in zip(chosen, compiled, strict=True):
    if not found:
      continue
    times = measured(found.calls)
    ours = str(times.pop("jaxrank"))
    others = "; ".join(f"{side} {taken}" for side, taken in times.items())
    errors = [f"{x:.1e}" for x in (found.error, found.error_of_cpu)]
    body.append([program.name, ours, others or "-", *errors])
    wrong += [program.name] if differs(found) else []
    print(" | ".join(body[-1]), flush=True)
  head = ("program", "takes (kernels)", "others take (kernels)", "error", "error of the CPU")
  table = "\n".join(report.lines(head, body))
  print(f"\n{table}")
  if output:
    report.write(output, f"## {name}, measured", f"{report.versions()}\n\n{table}")
    print(f"\nwrote {output}")
  for title in wrong:
    print(f"differs from the CPU: {title}")
  return int(bool(wrong))


def _without_device() -> None:
  jax.config.update("jax_platforms", "cpu")


def reference(name: str) -> tuple[Any, Any]:
  """The values of a program on the CPU, in double and in single precision."""
  program = programs.table()[name]
  data = [np.asarray(x) for x in program.data()]

  def values(floats: Any) -> Any:
    function = jax.jit(program.function)
    types = [floats if jnp.issubdtype(x.dtype, jnp.floating) else None for x in data]
    return jax.tree.map(np.asarray, function(*map(jnp.asarray, data, types)))

  with jax.enable_x64(True):
    exact = values(np.float64)
  return exact, values(None)


def ready(
  program: programs.Program, expected: concurrent.futures.Future[tuple[Any, Any]]
) -> Ready | None:
  """Compiles a program and the others, and compares its values with those of the CPU.

  Another library that fails is left out, and so is a program that the ranking refuses.
  """
  data = [np.asarray(x) for x in program.data()]
  here = [jnp.asarray(x) for x in data]
  function = jax.jit(program.function)
  try:
    value = jax.block_until_ready(function(*here))
  except jr.UnansweredError as error:
    print(error, flush=True)
    return None
  calls: dict[str, Callable[[], Any]] = {"jaxrank": functools.partial(function, *here)}
  for name, call in _others(program, here, data).items():
    try:
      jax.block_until_ready(call())
      calls[name] = call
    except Exception as error:
      print(f"{name} fails: {type(error).__name__}: {error}", flush=True)
  exact, single = expected.result()
  return Ready(calls, difference(value, exact), difference(single, exact))


def differs(found: Ready) -> bool:
  """Whether values are further from those in double precision than rounding explains."""
  return not found.error <= max(_TOLERANCE, _TIMES * found.error_of_cpu)


def measured(calls: Mapping[str, Callable[[], Any]]) -> dict[str, Times]:
  """The least time of each call, and that of its kernels; the calls take turns."""
  counts = {
    name: min(_MOST_CALLS, math.ceil(_TURN / _seconds(call, 1))) for name, call in calls.items()
  }
  times: dict[str, list[float]] = {name: [] for name in calls}
  start = time.perf_counter()
  turns = 0
  while turns < _TURNS or time.perf_counter() - start < _SECONDS:
    turns += 1
    for name, found in times.items():
      # The first calls after those of another side take longer.
      _seconds(calls[name], counts[name] // 2)
      found.append(_seconds(calls[name], counts[name]))
  return {name: Times(min(found), _of_kernels(calls[name], min(found)))
          for name, found in times.items()}  # fmt: skip


def _seconds(call: Callable[[], Any], count: int) -> float:
  """The time of a call, of many that are queued one after the other."""
  value = None
  before = time.perf_counter()
  for _ in range(count):
    value = call()
  jax.block_until_ready(value)
  return (time.perf_counter() - before) / max(count, 1)


def _of_kernels(call: Callable[[], Any], seconds: float) -> float | None:
  """The time of the kernels of a call, from a profile."""
  if seconds > _SHORT:
    return None
  count = min(_PROFILED, math.ceil(_TURN / seconds))
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder):
      _seconds(call, count)
    (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
    planes = jax.profiler.ProfileData.from_file(str(path)).planes
  lines = [x for plane in planes if plane.name.startswith("/device:GPU") for x in plane.lines]
  spent = [x.duration_ns for line in lines if line.name.startswith("Stream") for x in line.events]
  return 1e-9 * sum(spent) / count if spent else None


def difference(value: Any, expected: Any) -> float:
  """The largest difference: relative for values `[q]`, of the query's largest for `[q, n]`."""
  worst = 0.0
  pairs = zip(jax.tree.leaves(value), jax.tree.leaves(expected), strict=True)
  for one, other in pairs:
    x, y = (np.asarray(a, np.float64) for a in (one, other))
    size = np.abs(y).max(axis=-1, keepdims=True) if y.ndim > 1 else np.abs(y)
    apart = np.abs(x - y) / np.where(size > 0, size, 1)
    worst = max(worst, float(np.where(x == y, 0, apart).max(initial=0.0)))
  return worst


def _others(
  program: programs.Program, here: Sequence[Any], data: Sequence[Any]
) -> dict[str, Callable[[], Any]]:
  """What else computes the same or nearly the same, by name."""
  found = {}
  if program.title == "ndcg":
    found["by hand, two sorts"] = functools.partial(jax.jit(by_hand.sorted_ndcg), *here)
  # Noise has another expectation, and the formula has no cut-off.
  if program.title in ("gradient of ndcg, Laplace", "gradient of ndcg, Logistic"):
    slope = jax.jit(programs.gradient(by_hand.pairwise_ndcg))
    found["by hand, all pairs"] = functools.partial(slope, *here)
  for peer in (_rax, _torchmetrics):
    try:
      found |= peer(program.title, here, data)
    except ImportError:
      continue
  return found


def _rax(title: str, here: Sequence[Any], data: Sequence[Any]) -> dict[str, Callable[[], Any]]:
  import rax

  names = {
    "ndcg": rax.ndcg_metric,
    "average_precision": rax.ap_metric,
    "reciprocal_rank": rax.mrr_metric,
    "precision": rax.precision_metric,
    "recall": rax.recall_metric,
  }
  metric, _, cut = title.partition(", k=")
  if metric in names:
    topn = int(cut) if cut else None
    plain = lambda s, y: names[metric](s, y, topn=topn, reduce_fn=None)  # noqa: E731
    return {"rax": functools.partial(jax.jit(plain), *here)}
  if title == "gradient of ndcg, Logistic":
    # `approx_t12n` chooses these ranks, but needs a module that newer versions of jax lack.
    loss = functools.partial(rax.ndcg_metric, rank_fn=rax.utils.approx_ranks, reduce_fn=jnp.sum)
    slope = jax.jit(jax.grad(lambda s, y: -loss(s, y)))
    return {"rax": functools.partial(slope, *here)}
  return {}


def _torchmetrics(
  title: str, here: Sequence[Any], data: Sequence[Any]
) -> dict[str, Callable[[], Any]]:
  import torch
  from torchmetrics import retrieval

  names = {
    "ndcg": retrieval.RetrievalNormalizedDCG,
    "average_precision": retrieval.RetrievalMAP,
    "reciprocal_rank": retrieval.RetrievalMRR,
    "precision": retrieval.RetrievalPrecision,
    "recall": retrieval.RetrievalRecall,
  }
  name, _, cut = title.partition(", k=")
  if name not in names:
    return {}
  on = "cuda" if torch.cuda.is_available() else "cpu"
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    metric = names[name](top_k=int(cut) if cut else None).to(on)
  scores, labels = (torch.from_numpy(np.array(x)).to(on) for x in data)
  target = labels if name == "ndcg" else labels > 0
  queries = torch.arange(len(scores), device=on).repeat_interleave(scores.shape[1])
  flat, labels = scores.flatten(), target.flatten().long()

  def call() -> float:
    metric.reset()
    metric.update(flat, labels, indexes=queries)
    return float(metric.compute())

  return {f"torchmetrics, {on}": call}


def _text(seconds: float) -> str:
  return f"{1e6 * seconds:,.0f} us" if seconds < 1e-3 else f"{1e3 * seconds:,.2f} ms"
