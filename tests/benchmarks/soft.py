"""`python -m tests.benchmarks.soft`: soft operators beside softjax and their definitions.

It prints the tables and writes them to the end of `docs/soft.md`.
"""

import functools
import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import jaxrank as jr
from jaxrank import soft

from . import report
from .report import Row, Section, at_most, milliseconds, ratio_row
from .timing import Contender, jitted, race

_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "soft.md"
_COMMAND = "python -m tests.benchmarks.soft"
_BEGIN = "<!-- measured: begin -->\n"

Operator = Callable[[Array], Array]

RANKINGS: tuple[Any, ...] = (jr.Laplace(0.1), jr.Logistic(0.1))
OURS: dict[str, Callable[..., Array]] = {
  "rank": soft.rank,
  "top_k": functools.partial(soft.top_k, k=10),
  "sort": soft.sort,
}
# Methods of softjax; its default is the first. The last one takes O(n log n) time, as we do.
METHODS = ("neuralsort", "softsort", "fast_soft_sort")


def peers() -> Section:
  """Value and gradient of `[32, 1000]` scores, against the methods of softjax."""
  scores = _scores(32, 1000)
  rows = []
  for ranking in RANKINGS:
    for name in ("rank", "sort"):
      sides = {"ours": Contender(_gradient(_ours(name, ranking), scores))}
      sides |= {
        method: Contender(_gradient(_theirs(name, method), scores), 7) for method in METHODS
      }
      found = race(sides)
      mine = found.pop("ours").seconds
      for method, result in found.items():
        cells = f"{name}, {_named(ranking)}", milliseconds(mine), f"softjax, {method}"
        if result.failure:
          rows.append(Row(*cells, result.failure.split(":")[0]))
          continue
        ratio = mine / result.seconds
        target = at_most(0.1) if method != "fast_soft_sort" else None
        rows.append(ratio_row(*cells, milliseconds(result.seconds), ratio, target))
  return Section("Beside softjax", _PEER_NOTES, rows)


def definitions() -> Section:
  """The same for `rank` against the definition, which holds all pairs."""
  scores = _scores(32, 1000)
  rows = []
  for ranking in RANKINGS:
    ours, theirs = _ours("rank", ranking), functools.partial(_all_pairs, ranking)
    np.testing.assert_allclose(ours(scores), theirs(scores), rtol=1e-4)
    found = race(
      {
        "ours": Contender(_gradient(ours, scores)),
        "theirs": Contender(_gradient(theirs, scores), 7),
      }
    )
    times = [milliseconds(found[side].seconds) for side in ("ours", "theirs")]
    ratio = found["ours"].seconds / found["theirs"].seconds
    what = f"rank, {_named(ranking)}"
    rows.append(ratio_row(what, times[0], "all pairs", times[1], ratio, at_most(0.1)))
  return Section("Beside the definition", _PAIR_NOTES, rows)


def long_lists() -> Section:
  """Value and gradient of one long list."""
  rows = []
  for n in (100_000, 1_000_000):
    scores = _scores(1, n)
    for name in OURS:
      for ranking in RANKINGS:
        (found,) = race({"": Contender(_gradient(_ours(name, ranking), scores), 5)}).values()
        target = at_most(100, "ms") if name == "rank" and n == 100_000 else None
        cells = f"{name} [1, {n}], {_named(ranking)}", milliseconds(found.seconds)
        rows.append(Row(*cells, judged=1e3 * found.seconds, target=target))
  return Section("Long lists", _LONG_NOTES, rows)


def _named(ranking: Any) -> str:
  return f"{type(ranking).__name__}({ranking.temperature})"


def _scores(queries: int, n: int) -> Array:
  scores = np.random.default_rng(2024).standard_normal((queries, n))
  return jnp.asarray(scores, jnp.float32)


def _ours(name: str, ranking: Any) -> Operator:
  return functools.partial(OURS[name], ranking=ranking)


def _theirs(name: str, method: str) -> Operator:
  if importlib.util.find_spec("softjax") is None:
    return _not_installed
  import softjax

  function = getattr(softjax, name)
  return functools.partial(
    function, axis=-1, descending=True, method=method, softness=0.1, standardize=False
  )


def _not_installed(scores: Array) -> Array:
  raise ImportError("softjax is not installed")


def _all_pairs(ranking: Any, scores: Array) -> Array:
  z = (scores[:, None, :] - scores[:, :, None]) / ranking.temperature
  if isinstance(ranking, jr.Logistic):
    return 0.5 + jnp.sum(jax.nn.sigmoid(z), axis=-1)
  half = jnp.exp(-jnp.abs(z)) / 2
  return 0.5 + jnp.sum(jnp.where(z > 0, 1 - half, half), axis=-1)


def _gradient(operator: Operator, scores: Array) -> Callable[[], Any]:
  """A call that computes the value of a weighed sum, and its gradient; compiled on first use."""
  weights = scores[:, ::-1]
  both = jax.value_and_grad(lambda scores: jnp.sum(operator(scores) * weights))
  compiled: list[Callable[[], Any]] = []

  def call() -> Any:
    if not compiled:
      compiled.append(jitted(both, scores))
    return compiled[0]()[0]

  return call


_SECTIONS = {"peers": peers, "definitions": definitions, "long": long_lists}


def main() -> None:
  """Runs the chosen sections; the page is written only when all of them ran."""
  arguments = report.arguments(_COMMAND, __doc__, _SECTIONS, _PAGE)
  facts = report.machine()
  parts = [_INTRODUCTION.format(facts=facts)]
  for name in arguments.only or _SECTIONS:
    section = _SECTIONS[name]()
    table = report.table(section.rows, targets=False)
    parts.append(f"### {section.title}\n\n{section.notes}\n\n{table}\n")
    print(f"\n{section.title}\n{report.table(section.rows)}", flush=True)
  if not arguments.only:
    before = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)[0]
    arguments.output.write_text(before + _BEGIN + "\n".join(parts), encoding="utf-8")
    print(f"\nwrote {arguments.output}")


_INTRODUCTION = """## Measured

{facts}

Every row is the value of a weighed sum and its gradient, compiled. Times are medians of calls in
which both sides take turns in one process. The ratio is the time of jaxrank over that of the other
side.
"""

_PEER_NOTES = """float32 scores `[32, 1000]`, standard normal. The operators of softjax are other
relaxations with a softness of 0.1: `neuralsort`, its default, and `softsort` hold all pairs of
items; `fast_soft_sort` projects onto the permutahedron in O(n log n) time, and is piecewise linear
rather than smooth."""

_PAIR_NOTES = """The same scores; both sides compute the same ranks."""

_LONG_NOTES = """One list of standard normal scores; `k` is 10."""


if __name__ == "__main__":
  main()
