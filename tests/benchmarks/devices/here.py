"""Times programs on the default device, and checks their values against those of the CPU."""

import pathlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr

from . import by_hand, programs, report

# A program is timed at least so often and so long; the best time is shown.
_ROUNDS, _SECONDS = 10, 1.0
# Values may differ from the CPU's by this share of the value, gradients of the query's largest.
_TOLERANCE = {"float32": 1e-6, "bfloat16": 1e-2}


class Measurement(NamedTuple):
  """The best time of a program and of each other side, and the largest difference from the CPU."""

  seconds: float
  others: Mapping[str, float]
  error: float


def main(chosen: Sequence[programs.Program], output: pathlib.Path | None) -> int:
  """Measures programs, prints the table and writes its section; 1 if values differ."""
  name = jax.devices()[0].device_kind
  print(f"{name}, jax {jax.__version__}", flush=True)
  body, wrong = [], []
  for program in chosen:
    try:
      found = measured(program)
    except jr.UnansweredError as error:
      print(error, flush=True)
      continue
    sides = "; ".join(f"{side} {_text(seconds)}" for side, seconds in found.others.items())
    body.append([program.name, _text(found.seconds), sides or "-", f"{found.error:.1e}"])
    wrong += [] if found.error <= _TOLERANCE[program.dtype] else [program.name]
    print(" | ".join(body[-1]), flush=True)
  head = ("program", "takes", "others take", "largest difference from the CPU")
  table = "\n".join(report.lines(head, body))
  print(f"\n{table}")
  if output:
    report.write(output, f"## {name}, measured", f"{report.versions()}\n\n{table}")
    print(f"\nwrote {output}")
  for title in wrong:
    print(f"differs from the CPU: {title}")
  return int(bool(wrong))


def measured(program: programs.Program) -> Measurement:
  """Times a program and the others in turn, and compares its values with those on the CPU."""
  data = [np.asarray(x) for x in program.data()]
  here = [jnp.asarray(x) for x in data]
  calls = {"jaxrank": _call(jax.jit(program.function), here), **_others(program, here, data)}
  times = best(calls)
  value = jax.jit(program.function)(*here)
  with jax.default_device(jax.local_devices(backend="cpu")[0]):
    expected = jax.jit(program.function)(*map(jnp.asarray, data))
  return Measurement(times.pop("jaxrank"), times, difference(value, expected))


def best(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
  """The least time of each call; the calls take turns, after one call that is not timed.

  Another library that fails has no time. The first call is ours, whose errors are raised.
  """
  ours, *_ = calls
  times: dict[str, list[float]] = {}
  for name, call in calls.items():
    try:
      call()
      times[name] = []
    except Exception as error:
      if name == ours:
        raise
      print(f"{name} fails: {type(error).__name__}: {error}", flush=True)
  start = time.perf_counter()
  while len(times[ours]) < _ROUNDS or time.perf_counter() - start < _SECONDS:
    for name, found in times.items():
      before = time.perf_counter()
      calls[name]()
      found.append(time.perf_counter() - before)
  return {name: min(found) for name, found in times.items()}


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


def _call(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], Any]:
  return lambda: jax.block_until_ready(function(*arguments))


def _others(
  program: programs.Program, here: Sequence[Any], data: Sequence[Any]
) -> dict[str, Callable[[], Any]]:
  """What else computes the same or nearly the same, by name."""
  found = {}
  if program.title == "ndcg":
    found["by hand, two sorts"] = _call(jax.jit(by_hand.sorted_ndcg), here)
  if program.title.startswith("gradient of ndcg"):
    slope = jax.jit(programs.gradient(by_hand.pairwise_ndcg))
    found["by hand, all pairs"] = _call(slope, here)
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
    return {"rax": _call(jax.jit(plain), here)}
  if title == "gradient of ndcg, Logistic":
    loss = rax.approx_t12n(rax.ndcg_metric)
    return {"rax": _call(jax.jit(jax.grad(lambda s, y: -jnp.sum(loss(s, y)))), here)}
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
