"""`python -m tests.benchmarks.training`: losses beside plain formulas, metrics, and first calls.

It prints the tables and writes them to `docs/training.md`.
"""

import functools
import importlib.util
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxrank import gains, losses

from . import exact_metrics, report, timing
from .devices import by_hand
from .report import Row, Section, at_most, milliseconds, ratio_row
from .timing import raced

_ROOT = pathlib.Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "training.md"
_COMMAND = "python -m tests.benchmarks.training"

Formula = Callable[[Array, Array], Array]

SHAPES = ((1, 10), (32, 100), (128, 200), (32, 1000), (1024, 1024))
# The longest lists of which every pair is computed.
PAIRS_UP_TO = 1000


def _softmax(scores: Array, labels: Array) -> Array:
  total = jax.nn.logsumexp(scores, axis=-1, keepdims=True)
  return jnp.sum(labels * (total - scores), axis=-1)


def _poly1(scores: Array, labels: Array) -> Array:
  log = jax.nn.log_softmax(scores, axis=-1)
  share = labels / jnp.sum(labels, axis=-1, keepdims=True)
  return 1 - jnp.sum(labels * log + share * jnp.exp(log), axis=-1)


def _xe_ndcg(scores: Array, labels: Array) -> Array:
  softened = labels + 0.5
  return _softmax(scores, softened / jnp.sum(softened, axis=-1, keepdims=True))


def _in_label_order(scores: Array, labels: Array) -> tuple[Array, Array]:
  order = jnp.argsort(-labels, axis=-1)
  scores, labels = (jnp.take_along_axis(x, order, axis=-1) for x in (scores, labels))
  return lax.cumlogsumexp(scores, axis=1, reverse=True) - scores, labels


def _list_mle(scores: Array, labels: Array) -> Array:
  return jnp.sum(_in_label_order(scores, labels)[0], axis=-1)


def _unique_softmax(scores: Array, labels: Array) -> Array:
  missed, labels = _in_label_order(scores, labels)
  return jnp.sum(labels * missed, axis=-1)


def _pairwise(link: Callable[[Array], Array], scores: Array, labels: Array) -> Array:
  better = labels[:, :, None] > labels[:, None, :]
  loss = link(scores[:, None, :] - scores[:, :, None])
  count = jnp.maximum(jnp.sum(better, axis=(1, 2)), 1)
  return jnp.sum(jnp.where(better, loss, 0), axis=(1, 2)) / count


def _hinge(x: Array) -> Array:
  return jax.nn.relu(1 + x)


FORMULAS: dict[str, Formula] = {
  "softmax": _softmax,
  "poly1": _poly1,
  "xe_ndcg": _xe_ndcg,
  "list_mle": _list_mle,
  "unique_softmax": _unique_softmax,
  "pairwise_logistic": functools.partial(_pairwise, jax.nn.softplus),
  "pairwise_hinge": functools.partial(_pairwise, _hinge),
  "pairwise_soft_zero_one": functools.partial(_pairwise, jax.nn.sigmoid),
}


def gradients() -> Section:
  """Value and gradient of each loss, against those of its formula."""
  rows = []
  for (name, formula), (queries, n) in itertools.product(FORMULAS.items(), SHAPES):
    if "pairwise" in name and n > PAIRS_UP_TO:
      continue
    data = _data(queries, n)
    ours, theirs = _gradient(getattr(losses, name)), _gradient(formula)
    _check_same(name, ours(*data), theirs(*data))
    rows.append(raced(f"{name} [{queries}, {n}]", ours, "formula", theirs, data, 1.2))
  return Section("Gradients of the classical losses", _GRADIENTS_NOTES, rows)


def lambdas() -> Section:
  """`lambda_rank` against `pairwise_logistic`."""
  ours, theirs = _gradient(losses.lambda_rank), _gradient(losses.pairwise_logistic)
  rows = [
    raced(f"lambda_rank [{q}, {n}]", ours, "pairwise_logistic", theirs, _data(q, n), 2)
    for q, n in SHAPES
    if n <= PAIRS_UP_TO
  ]
  return Section("LambdaRank", _LAMBDA_NOTES, rows)


def approx_ndcg() -> Section:
  """`approx_ndcg` against its formula over all pairs, which holds them in memory."""
  ours = functools.partial(losses.approx_ndcg, gain=gains.exponential)
  sides = _gradient(ours), _gradient(by_hand.pairwise_ndcg)
  rows = []
  for queries, n in ((1, 10), (128, 32), (32, 100), (128, 200), (32, 1000)):
    data = _data(queries, n)
    name = f"approx_ndcg [{queries}, {n}]"
    _check_same(name, *(side(*data) for side in sides))
    rows.append(raced(name, sides[0], "formula", sides[1], data, 1.5))
  return Section("ApproxNDCG", _APPROX_NOTES, rows)


def large_scores() -> Section:
  """Values at scores near the largest float32, against the formulas in float64."""
  rows = []
  for (name, formula), size in itertools.product(FORMULAS.items(), (3e37, 3e38)):
    scores, labels = _data(32, 5)
    scores = size * jnp.clip(scores / 2, -1, 1)
    ours = float(jnp.max(getattr(losses, name)(scores, labels)))
    with jax.enable_x64(True):
      wide = (jnp.asarray(np.asarray(x, np.float64)) for x in (scores, labels))
      expected = min(float(jnp.max(formula(*wide))), float(np.finfo(np.float32).max))
    off = abs(ours / expected - 1)
    target = at_most(1e-5, "relative")
    cells = f"{name}, scores up to {size:.0e}", f"{ours:.4g}", "formula in float64"
    rows.append(Row(*cells, f"{expected:.4g}", off, f"{off:.1e} off", target))
  return Section("Large scores", _LARGE_NOTES, rows)


_GRADIENT = "jax.value_and_grad"
_METRIC = "rax.ndcg_metric"
_LAPLACE = "functools.partial(jaxrank.ndcg, ranking=jaxrank.Laplace(0.1))"

# How many processes of each side make a first call.
_STARTS = 9

# What is called, the transformation, the peer's function, the items of a query, and the target.
_FIRST = {
  **{
    f"gradient of {name}": (f"jaxrank.losses.{name}", _GRADIENT, f"rax.{other}", 100, 2)
    for name, other in {
      "softmax": "softmax_loss",
      "poly1": "poly1_softmax_loss",
      "unique_softmax": "unique_softmax_loss",
      "list_mle": "listmle_loss",
      "pairwise_logistic": "pairwise_logistic_loss",
      "pairwise_hinge": "pairwise_hinge_loss",
    }.items()
  },
  **{
    name + shape: (f"jaxrank.{name}", "", _METRIC, n, 4)
    for shape, n in (("", 100), (" [32, 1000]", 1000))
    for name in ("ndcg", "average_precision", "reciprocal_rank", "precision")
  },
  **{
    f"gradient of {name} [32, {n}]": (function, _GRADIENT, _METRIC, n, most)
    for name, function, most in (
      ("ndcg, Laplace", _LAPLACE, 7.5),
      ("approx_ndcg", "jaxrank.losses.approx_ndcg", 12.5),
    )
    for n in (100, 1000)
  },
}

# A process that is asked for one first call. The backend starts before the clock does, and what the
# imports left behind is collected, which takes 50 ms whenever it happens.
_PROCESS = """
import functools
import gc
import time
import jax, jax.numpy as jnp
import {module}
labels = jnp.tile(jnp.arange(1.0 * {n}) % 5, (32, 1))
scores = jnp.sin(7 * jnp.arange(32.0 * {n})).reshape(32, {n})
function = {function}
call = lambda s, l: jnp.mean(function(s, l))
jax.block_until_ready(jax.jit(jnp.negative)(scores))
gc.collect()
start = time.perf_counter()
jax.block_until_ready(jax.jit({transform}(call))(scores, labels))
print(time.perf_counter() - start)
"""


def first_calls() -> Section:
  """Trace, compilation and first run in a fresh process, against rax."""
  rows = []
  peer = importlib.util.find_spec("rax") is not None
  for name, (function, transform, other, n, most) in _FIRST.items():
    sides = [("jaxrank", function, transform)]
    if peer:
      sides.append(("rax", other, "" if other == _METRIC else transform))
    times = [[_first_call(*side, n) for side in sides] for _ in range(_STARTS)]
    # One lucky call in a second of a machine whose speed drifts would decide the best.
    usual = [statistics.median(side) for side in zip(*times, strict=True)]
    if not peer:
      rows.append(Row(name, milliseconds(usual[0]), other, "is not installed"))
      continue
    ours, theirs = map(milliseconds, usual)
    rows.append(ratio_row(name, ours, other, theirs, usual[0] / usual[1], at_most(most)))
  return Section("The first call", _FIRST_NOTES.format(processes=_STARTS), rows)


def _first_call(module: str, function: str, transform: str, n: int) -> float:
  """The seconds of one first call, without a compilation cache."""
  code = _PROCESS.format(module=module, function=function, transform=transform, n=n)
  environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
  done = subprocess.run(
    [sys.executable, "-c", code],
    cwd=_ROOT,
    env=environment,
    capture_output=True,
    text=True,
    check=True,
  )
  return float(done.stdout)


def _data(queries: int, n: int) -> tuple[Array, Array]:
  """Normal scores, and a random permutation of distinct labels in (0, 1] for each query."""
  generator = np.random.default_rng(2024)
  scores = generator.standard_normal((queries, n)).astype(np.float32)
  labels = generator.permuted(np.tile(np.arange(1.0, n + 1) / n, (queries, 1)), axis=1)
  return jnp.asarray(scores), jnp.asarray(labels, jnp.float32)


def _gradient(loss: Formula) -> Callable[..., Any]:
  return jax.jit(jax.value_and_grad(lambda scores, labels: jnp.sum(loss(scores, labels))))


def _check_same(name: str, ours: Any, theirs: Any) -> None:
  """Raises if the gradients differ: then the two sides are not the same loss."""
  off = float(jnp.max(jnp.abs(ours[1] - theirs[1])) / jnp.max(jnp.abs(theirs[1])))
  if not off <= 1e-4:
    raise AssertionError(f"{name}: the gradients differ by {off}")


_SECTIONS = {
  "gradients": gradients,
  "lambdas": lambdas,
  "approx": approx_ndcg,
  "large": large_scores,
  "exact": functools.partial(exact_metrics.against_rax, SHAPES, PAIRS_UP_TO),
  "first": first_calls,
}


def main() -> None:
  """Runs the chosen sections; the page is written only when all of them ran."""
  arguments = report.arguments(_COMMAND, __doc__, _SECTIONS, _PAGE)
  facts = report.conditions()
  counts = {"programs": timing.PROGRAMS, "programs_of_short": timing.PROGRAMS_OF_SHORT}
  short = milliseconds(timing.SHORT)
  parts = [_INTRODUCTION.format(command=_COMMAND, facts=facts, short=short, **counts)]
  for name in arguments.only or _SECTIONS:
    section = _SECTIONS[name]()
    parts.append(f"## {section.title}\n\n{section.notes}\n\n{report.table(section.rows)}\n")
    print(f"\n{section.title}\n{report.table(section.rows)}", flush=True)
  if not arguments.only:
    arguments.output.write_text("\n".join(parts), encoding="utf-8")
    print(f"\nwrote {arguments.output}")


_INTRODUCTION = """# Training

One command writes this page, run from a clone; rax is needed for the last two tables only:

```sh
{command}
```

{facts}

Times are the best of many calls in which both sides take turns in one process, which compiles each
of them {programs} times, or {programs_of_short} times if a call takes less than {short}. A row
above its target is timed once more, and the best times of both sides count. The ratio is the time
of jaxrank over that of the other side. The targets are set by this project for two CPU cores;
[Benchmarks](benchmarks.md) has the other measurements, and
[Mathematics](mathematics.md#derivatives-by-hand) those of the derivatives that are written by hand.
"""

_GRADIENTS_NOTES = """Value and gradient of the sum of a loss, against the formula that one would
write with `jax.numpy`, which knows no padding, items that are not retrieved, infinities, NaN or
ties of labels. The labels of a query are distinct. The formulas of `list_mle` and `unique_softmax`
sort, and those of the pairwise losses hold all pairs."""

_LAMBDA_NOTES = """Value and gradient of the sum of `lambda_rank` for nDCG, which sorts the items
and weighs each pair, against those of `pairwise_logistic`."""

_APPROX_NOTES = """Value and gradient of the sum of `approx_ndcg` with the exponential gain, against
the formula over all pairs of items, which knows no padding, infinities, NaN or cut-off."""

_LARGE_NOTES = """The largest value of 32 queries of 5 items whose scores are near the largest
float32, 3.4e38. A value that float32 cannot hold is expected to be the largest float32."""

_FIRST_NOTES = """Trace, compilation and first run in a fresh process without a compilation cache,
the median of {processes} processes of each side, which take turns; starting Python, JAX and its
backend, importing what is called, and collecting what the imports left behind is not counted.
[Scale](scale.md#the-first-call) says how to keep compiled programs. The shape is `[32, 100]` where
none is given. Losses are compared with the same loss of rax, and the others with its nDCG. The
targets of the gradients under smooth rankings are those of 1.5 and 2.5 seconds where the nDCG of
rax takes 0.2."""


if __name__ == "__main__":
  main()
