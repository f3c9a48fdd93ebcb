"""`python -m tests.benchmarks.derivatives`: derivatives by hand beside JAX's own.

It measures value and gradient with each rule, and with the plain body of the function in its place,
and writes the table of `docs/mathematics.md`.
"""

import argparse
import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import jaxrank as jr
from jaxrank import losses
from jaxrank._core import decays, quadrature, sorting, ties
from jaxrank.losses import _loss

from . import report
from .timing import Contender, race

_TURN = 2e-3

Program = Callable[[Array, Array], Any]


class Rule(NamedTuple):
  """A function with a derivative by hand, and programs that use it.

  Attributes:
    name: Its name in the table.
    swaps: Pairs of the function and of what stands for it without the rule.
    programs: What is measured, by name.
    shapes: Queries and items.
    reason: Why the rule stays, where a ratio of times does not say so.
  """

  name: str
  swaps: tuple[tuple[Any, Any], ...]
  programs: dict[str, Program]
  shapes: tuple[tuple[int, int], ...]
  reason: str = ""


def _by_scores(function: Callable[..., Array]) -> Program:
  return jax.value_and_grad(lambda scores, labels: jnp.sum(function(scores, labels)))


def _by_labels(function: Callable[..., Array]) -> Program:
  return jax.value_and_grad(lambda scores, labels: jnp.sum(function(scores, labels)), argnums=1)


def _plain(*rules: Any) -> tuple[tuple[Any, Any], ...]:
  return tuple((rule, rule.fun) for rule in rules)


def _plain_sums(
  coefficients: np.ndarray, place: Any, temperature: Array, w: Array, **static: Any
) -> Array:
  given = decays._hashable(coefficients)
  return decays.sums_of_powers(w, temperature, *place, coefficients=given, **static)


def _ndcg(ranking: jr.Ranking) -> Program:
  return functools.partial(jr.ndcg, ranking=ranking)


def _weighted(scores: Array, labels: Array) -> Array:
  return losses.list_mle(scores, jax.lax.stop_gradient(labels), weights=labels)


_LONG, _SHORT = ((32, 1000), (1024, 1024)), ((32, 100),)
_ENTROPIES = {name: getattr(losses, name) for name in ("softmax", "poly1", "xe_ndcg")}

RULES = (
  Rule(
    "`cross_entropy`",
    _plain(_loss.cross_entropy),
    {name: _by_scores(loss) for name, loss in _ENTROPIES.items()},
    _SHORT + _LONG,
    "its time on long batches",
  ),
  Rule(
    "`decayed_sums`",
    ((decays._sums, _plain_sums),),
    {
      "ndcg, Laplace": _by_scores(_ndcg(jr.Laplace(1.0))),
      "ndcg, Logistic": _by_scores(_ndcg(jr.Logistic(1.0))),
    },
    ((32, 1000), (8, 10000)),
    "its time with the many terms of `Logistic`, and its rounding: with 10000 items it is within "
    "1e-6 of the gradient in float64",
  ),
  Rule(
    "`normal_tail`",
    _plain(decays.normal_tail),
    {"ndcg, Gaussian": _by_scores(_ndcg(jr.Gaussian(1.0)))},
    _SHORT,
    "that of `erfc` fails under `shard_map` in jax 0.12.0: its polynomial mixes arrays that vary "
    "over devices with constants",
  ),
  Rule(
    "`quadrature.integral`",
    _plain(quadrature.integral, quadrature._swept),
    {"ndcg, Gumbel": _by_scores(_ndcg(jr.Gumbel(1.0)))},
    _SHORT,
    "the number of nodes depends on the scores, and a loop of unknown length has no reverse mode",
  ),
  Rule(
    "`sorting.descending`",
    _plain(sorting.descending),
    {"ndcg by the labels": _by_labels(jr.ndcg)},
    ((32, 1000),),
    "a loop of unknown length finds few distinct values",
  ),
  Rule(
    "`sorting._followed`",
    ((sorting._followed, lambda x, moved, item: [moved]),),
    {"ndcg by the labels": _by_labels(jr.ndcg)},
    ((32, 1000),),
    "labels move inside the sort of the keys, which has no derivative",
  ),
  Rule(
    "`ties.mean`",
    _plain(ties.mean),
    {"list_mle by the weights": _by_labels(_weighted)},
    ((32, 1000),),
    "sums of a whole batch, by an algorithm of its own for each platform",
  ),
  Rule(
    "`ties.met`",
    _plain(ties.met),
    {"err by the labels": _by_labels(functools.partial(jr.err, max_label=4))},
    _SHORT,
    "a loop as long as the longest tie",
  ),
)


UNMEASURED = {
  "`all_pairs._at_once`": "accelerators, which store a matrix of pairs without it; not on a CPU",
  "`quadrature.constant`": "a derivative that is not available is refused, rather than 0",
}


@contextlib.contextmanager
def without(rule: Rule) -> Iterator[None]:
  """Puts the plain functions in place of a rule, in every module that has it."""
  modules = [m for name, m in list(sys.modules.items()) if name.startswith("jaxrank")]
  places = [
    (module, name, old, new)
    for old, new in rule.swaps
    for module in modules
    for name, value in list(vars(module).items())
    if value is old
  ]
  try:
    for module, name, _, new in places:
      setattr(module, name, new)
    jax.clear_caches()
    yield
  finally:
    for module, name, old, _ in places:
      setattr(module, name, old)
    jax.clear_caches()


def _data(queries: int, n: int) -> tuple[Array, Array]:
  rng = np.random.default_rng(0)
  scores = np.round(rng.normal(size=(queries, n)), 1)  # with ties
  labels = rng.integers(0, 5, (queries, n))
  return jnp.asarray(scores, jnp.float32), jnp.asarray(labels, jnp.float32)


def _turn(compiled: Callable[..., Any], data: tuple[Array, Array]) -> tuple[Contender, int]:
  """Calls that take a turn together, and their number."""
  start = time.perf_counter()
  jax.block_until_ready(compiled(*data))
  calls = max(1, round(_TURN / (time.perf_counter() - start)))

  def call() -> float:
    for _ in range(calls):
      found = compiled(*data)
    jax.block_until_ready(found)
    return 0.0

  return Contender(call), calls


def measured(rule: Rule, program: Program, queries: int, n: int) -> str:
  """The ratio of JAX's own derivative to that by hand, or why there is none."""
  data = _data(queries, n)
  jax.clear_caches()
  by_hand = jax.jit(program).lower(*data)
  with without(rule):
    try:
      own = jax.jit(program).lower(*data)
    except Exception as error:  # Whatever JAX raises here is the result.
      return f"fails ({type(error).__name__})"
  if own.as_text() == by_hand.as_text():
    raise AssertionError(f"{rule.name} is not in this program")
  sides = [side.compile() for side in (by_hand, own)]
  # The products of the Hessian are pairs too: of a gradient and of its change.
  expected, found = (np.ravel(side(*data)[1]) for side in sides)
  off = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
  if off > 1e-4:
    return f"another gradient, {off:.0e} off"
  turns = [_turn(side, data) for side in sides]
  results = race({"by hand": turns[0][0], "own": turns[1][0]})
  times = [results[name].seconds / calls for name, (_, calls) in zip(results, turns, strict=True)]
  return f"{times[1] / times[0]:.2f}"


def table(rules: tuple[Rule, ...]) -> str:
  """A row for each rule and program."""
  lines = ["| rule | value and gradient of | shape | JAX's own over the rule | it stays for |"]
  lines.append("|---|---|---|---|---|")
  for rule in rules:
    for name, program in rule.programs.items():
      for queries, n in rule.shapes:
        ratio = measured(rule, program, queries, n)
        lines.append(f"| {rule.name} | {name} | `[{queries}, {n}]` | {ratio} | {rule.reason} |")
        print(lines[-1], flush=True)
  lines += [f"| {name} | - | - | not measured | {reason} |" for name, reason in UNMEASURED.items()]
  return "\n".join(lines)


def main() -> None:
  """Measures every rule, and writes the table."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.derivatives")
  parser.add_argument("--only", nargs="+", help="names of rules to print, without writing")
  only = parser.parse_args().only
  rules = tuple(rule for rule in RULES if not only or rule.name.strip("`") in only)
  text = f"{report.machine()}\n\n{table(rules)}"
  if not only:
    report.write("derivatives", text, "mathematics.md")


if __name__ == "__main__":
  main()
