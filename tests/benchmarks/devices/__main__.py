"""Counts what programs cost on a described device, or measures them on the device at hand.

`tpu` and `cuda` compile for a TPU v5e and an H100, which need not be there; the status is 1 if a
program is above its budget (`budgets.py`), and the rows are named. `here` runs the programs on the
default device of jax beside other libraries; the status is 1 if values differ from the CPU's.
"""

import argparse
import os
import pathlib
import re
import sys
import time
from collections.abc import Sequence

# The compilers report at length that there is no device.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from . import compilers, here, measuring, programs, report


def main() -> int:
  """Runs the command, and returns its status."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.devices", description=__doc__)
  parser.add_argument("where", choices=("tpu", "cuda", "here"))
  parser.add_argument("--headline", action="store_true", help="only the headline programs")
  parser.add_argument("--only", metavar="PATTERN", help="part of a name; * is any text")
  parser.add_argument("--processes", type=int, default=2, help="how many compile side by side")
  parser.add_argument("--output", type=pathlib.Path, help="a page whose section is replaced")
  arguments = parser.parse_args()
  table = programs.table(arguments.headline)
  # Budgets of cycles are multiples of the formulas by hand, which are counted at the same shapes.
  pattern = ".*".join(map(re.escape, (arguments.only or "").split("*")))
  chosen = [x for x in table.values() if x.group != "by hand" and re.search(pattern, x.name)]
  if not chosen:
    print(f"no program is named {arguments.only!r}", file=sys.stderr)
    return 2
  if arguments.where == "here":
    return here.main(chosen, arguments.output)
  shapes = {x.shape for x in chosen}
  return _compiled(arguments, [*(x for x in programs.of_hand() if x.shape in shapes), *chosen])


def _compiled(arguments: argparse.Namespace, chosen: Sequence[programs.Program]) -> int:
  """Counts programs for a described device, and holds them to their budgets."""
  platform = arguments.where
  try:
    compilers.device(platform)
  except RuntimeError as error:
    print(error, file=sys.stderr)
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
