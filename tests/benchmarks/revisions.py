"""`python -m tests.benchmarks.revisions REVISION`: run times beside those of another revision.

Both revisions measure themselves with their own `python -m tests.benchmarks`, in turns, and the
best times of the rows that both have are compared. The status is 1 if a row takes more than a tenth
longer.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from . import report
from .report import Row, at_most, milliseconds, ratio_row

_ROOT = pathlib.Path(__file__).parents[2]
_SECTIONS = ("peers", "ranking", "smooth", "start")
_UNITS = {"ms": 1e-3, "s": 1.0}

# Best times replace medians. A median also depends on whether the system ran both threads of a call
# on one core, which it does in some runs and not in others.
_CODE = """
import statistics
statistics.median = min
from tests.benchmarks.__main__ import main
main()
"""


def main() -> int:
  """Runs the command, and returns its status."""
  parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.revisions", description=__doc__)
  parser.add_argument("revision", help="a revision of git, such as v0.1.0")
  parser.add_argument("--only", nargs="+", choices=_SECTIONS, default=_SECTIONS)
  parser.add_argument("--turns", type=int, default=5, help="how often each revision is measured")
  parser.add_argument("--output", metavar="FILE", type=pathlib.Path, help="a file of Markdown")
  arguments = parser.parse_args()
  facts, name = report.conditions(), _git("rev-parse", "--short", arguments.revision).strip()
  with tempfile.TemporaryDirectory() as folder:
    tree = pathlib.Path(folder, name)
    _git("worktree", "add", "--quiet", "--detach", str(tree), arguments.revision)
    try:
      rows = _compared(tree, arguments.only, arguments.turns)
    finally:
      _git("worktree", "remove", "--force", str(tree))
  table = report.table(rows)
  print(table)
  if arguments.output:
    command = " ".join(["python -m tests.benchmarks.revisions", *sys.argv[1:]])
    title = "# Run times beside those of another revision"
    text = f"{title}\n\n`{command}`\n\n{facts}\n\n{table}\n"
    arguments.output.write_text(text, encoding="utf-8")
  return int(any("**no**" in row.cells() for row in rows))


def _compared(tree: pathlib.Path, sections: Sequence[str], turns: int) -> list[Row]:
  best: dict[pathlib.Path, dict[str, float]] = {_ROOT: {}, tree: {}}
  for turn in range(turns):
    for root, times in best.items():
      for what, seconds in _measured(root, sections):
        times[what] = min(seconds, times.get(what, seconds))
    print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
  now, before = best.values()
  return [
    ratio_row(
      what,
      milliseconds(now[what]),
      tree.name,
      milliseconds(before[what]),
      now[what] / before[what],
      at_most(1.1),
    )
    for what in now
    if what in before
  ]


def _measured(root: pathlib.Path, sections: Sequence[str]) -> Iterator[tuple[str, float]]:
  """Times of jaxrank, and those of what is "this" in a ratio, from the tables of a tree."""
  command = [sys.executable, "-c", _CODE, "--only", *sections]
  done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
  for line in done.stdout.splitlines():
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    if len(cells) != len(report.HEADER):
      continue
    what, ours, against, takes = cells[:4]
    sides = {what: ours}
    if against.endswith("/ this)"):
      sides[f"{what}: {against.partition(' (')[0]}"] = takes
    for name, cell in sides.items():
      if found := re.match(r"([\d.,]+) (ms|s)\b", cell):
        yield name, float(found[1].replace(",", "")) * _UNITS[found[2]]


def _git(*arguments: str) -> str:
  command = ["git", "-C", str(_ROOT), *arguments]
  return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
  sys.exit(main())
