"""`python -m tests.benchmarks`: measure, print the tables, write `docs/benchmarks.md`."""

import gc
import pathlib
import sys

import jax

from . import cost, report, resources, speed

_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "benchmarks.md"
_COMMAND = "python -m tests.benchmarks"
_SECTIONS = {
  "peers": speed.against_peers,
  "ranking": cost.one_ranking,
  "smooth": cost.smooth,
  "memory": resources.memory,
  "start": resources.start_up,
}


def main() -> None:
  """Runs the chosen sections; the page is written only when all of them ran."""
  arguments = report.arguments(_COMMAND, __doc__, _SECTIONS, _PAGE)
  chosen = arguments.only or list(_SECTIONS)
  if jax.default_backend() != "cpu":
    print("the targets are for the CPU; set JAX_PLATFORMS=cpu", file=sys.stderr)
  facts = report.conditions()
  print(facts)
  sections = []
  for name in chosen:
    gc.collect()
    sections.append(_SECTIONS[name]())
    print(f"\n{sections[-1].title}\n{report.table(sections[-1].rows)}", flush=True)
  if len(chosen) == len(_SECTIONS):
    arguments.output.write_text(report.page(sections, facts, _COMMAND), encoding="utf-8")
    print(f"\nwrote {arguments.output}")


if __name__ == "__main__":
  main()
