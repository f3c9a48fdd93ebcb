"""Counts what programs cost on a described device, or measures them on the device at hand.

`tpu` and `cuda` compile for a TPU v5e and an H100, which need not be there; the status is 1 if a
program is above its budget (`budgets.py`), and the rows are named. `here` runs the headline
programs on the default device of jax.
"""

import argparse
import os
import pathlib
import re
import sys
import time


def main() -> int:
  """Runs the command, and returns its status."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.devices", description=__doc__)
  parser.add_argument("where", choices=("tpu", "cuda", "here"))
  parser.add_argument("--headline", action="store_true", help="only the headline programs")
  parser.add_argument("--only", metavar="PATTERN", help="part of a name; * is any text")
  parser.add_argument("--processes", type=int, default=2, help="how many compile side by side")
  parser.add_argument("--output", type=pathlib.Path, help="a page whose section is replaced")
  arguments = parser.parse_args()
  if arguments.where == "here":
    from . import here

    return here.main(arguments.only, arguments.output)
  return _compiled(arguments)


def _compiled(arguments: argparse.Namespace) -> int:
  platform = arguments.where
  os.environ["JAX_PLATFORMS"] = "cpu"
  from . import compilers, measuring, programs, report

  try:
    compilers.device(platform)
  except RuntimeError as error:
    print(error, file=sys.stderr)
    return 2
  table = programs.table(arguments.headline)
  pattern = ".*".join(map(re.escape, (arguments.only or "").split("*")))
  chosen = [x for x in table.values() if re.search(pattern, x.name)]
  # Budgets of cycles are multiples of the formulas by hand.
  by_hand = {x.name for x in programs.of_hand() if x.shape in {y.shape for y in chosen}}
  chosen = [x for x in table.values() if x in chosen or x.name in by_hand]
  if not chosen:
    print(f"no program is named {arguments.only!r}", file=sys.stderr)
    return 2
  start = time.perf_counter()
  rows: dict[str, measuring.Row] = {}
  names = [x.name for x in chosen]
  for row in measuring.measure(platform, names, arguments.headline, arguments.processes):
    rows[row.name] = row
    shown = row.failure or row.refused or f"{row.seconds:.1f} s, {row.cost}"
    print(f"{len(rows)} of {len(chosen)}: {row.name}: {shown}", file=sys.stderr, flush=True)
  text = report.table(chosen, rows, platform)
  print("\n".join(["", *text, "", *report.largest(chosen, rows, platform)]))
  if arguments.output:
    body = "\n".join([report.versions(), "", *text])
    report.write(arguments.output, report.heading(platform), body)
    print(f"\nwrote {arguments.output}")
  failing = 0
  for program in chosen:
    exceeded = measuring.above(program, rows[program.name], rows, platform)
    failing += bool(exceeded)
    if exceeded:
      print(f"above budget: {program.name}: {'; '.join(exceeded.values())}")
  seconds = time.perf_counter() - start
  print(f"{failing} of {len(chosen)} programs above their budgets; {seconds:.0f} s")
  return int(failing > 0)


if __name__ == "__main__":
  sys.exit(main())
