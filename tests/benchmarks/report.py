"""Rows of measurements, their targets, and the Markdown tables of `docs/benchmarks.md`."""

import argparse
import datetime
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jaxrank as jr

HEADER = ("measured", "jaxrank", "against", "takes", "ratio", "target", "met")
NONE = "-"

PACKAGES = (
  "jax", "jaxlib", "numpy", "rax", "torchmetrics", "torch", "ranx", "numba", "pytrec_eval-terrier",
  "scikit-learn", "scipy", "lightgbm", "softjax", "pyarrow",
)  # fmt: skip


class Target(NamedTuple):
  """A bound that a measurement should keep, and its text in the table."""

  text: str
  least: float = float("-inf")
  most: float = float("inf")

  def met(self, value: float) -> bool:
    """Whether `value` is within the bounds."""
    return self.least <= value <= self.most


def at_least(value: float, unit: str = "times") -> Target:
  """A lower bound."""
  return Target(f"at least {value:g} {unit}", least=value)


def at_most(value: float, unit: str = "times") -> Target:
  """An upper bound."""
  return Target(f"at most {value:g} {unit}", most=value)


class Row(NamedTuple):
  """One row of a table: what was measured, both sides, and the target.

  `judged` is the number to which the target applies; `ratio` is printed as it is.
  """

  measured: str
  ours: str
  against: str = NONE
  takes: str = NONE
  judged: float | None = None
  ratio: str = NONE
  target: Target | None = None

  def cells(self) -> tuple[str, ...]:
    """The row as text, in the order of `HEADER`."""
    target = self.target.text if self.target else NONE
    verdict = NONE
    if self.target and self.judged is not None:
      verdict = "yes" if self.target.met(self.judged) else "**no**"
    return self.measured, self.ours, self.against, self.takes, self.ratio, target, verdict


class Section(NamedTuple):
  """A titled table with the notes that a reader needs to judge it."""

  title: str
  notes: str
  rows: Sequence[Row]


def ratio_row(
  measured: str, ours: str, against: str, takes: str, ratio: float, target: Target | None = None
) -> Row:
  """A row whose target applies to the ratio."""
  return Row(measured, ours, against, takes, ratio, f"{ratio:.3g}", target)


def milliseconds(seconds: float) -> str:
  """A time as text, in milliseconds or seconds."""
  return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def megabytes(size: float) -> str:
  """A number of bytes as text, in units of 1e6."""
  return f"{size / 1e6:,.1f} MB"


def table(rows: Sequence[Row], *, targets: bool = True) -> str:
  """A Markdown table, padded so that it also reads well in a terminal."""
  cells = [HEADER, *(row.cells() for row in rows)]
  if not targets:
    cells = [row[: HEADER.index("target")] for row in cells]
  widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
  lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
           for row in cells]  # fmt: skip
  return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def arguments(
  command: str, description: str | None, sections: Iterable[str], output: pathlib.Path
) -> argparse.Namespace:
  """The arguments of a command that writes a page: `only` some sections, and where to write."""
  parser = argparse.ArgumentParser(prog=command, description=description)
  parser.add_argument(
    "--only", nargs="+", choices=sections, help="sections to print, without writing the page"
  )
  parser.add_argument("--output", type=pathlib.Path, default=output, help="where to write the page")
  return parser.parse_args()


def machine() -> str:
  """The date, the machine and the installed packages in a sentence, for pages of readers."""
  found = [f"{name} {x}" for name, x in versions().items() if x != "not installed"]
  return (
    f"Measured on {datetime.date.today()}: {_processor()}, {os.cpu_count()} cores; "
    f"Python {platform.python_version()}, {', '.join(found)}."
  )


def conditions() -> str:
  """The date, the machine, its load and the versions of the packages, as a list."""
  load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
  facts = {
    "date": datetime.date.today().isoformat(),
    "processor": f"{_processor()}, {os.cpu_count()} cores",
    "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    "load when the run began": load,
    "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
  }
  return "\n".join(f"* {name}: {value}" for name, value in facts.items())


def versions() -> Mapping[str, str]:
  """The version of every package of the comparison, or "not installed"."""
  found = {"jaxrank": jr.__version__}
  for name in PACKAGES:
    try:
      found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      found[name] = "not installed"
  return found


def write(name: str, text: str, page: str = "scale.md") -> None:
  """Replaces the text between the two marker comments of that name in a page of `docs`."""
  path = pathlib.Path(__file__).parents[2] / "docs" / page
  begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
  before, rest = path.read_text(encoding="utf-8").split(begin)
  after = rest.split(end)[1]
  path.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


def write_rows(name: str, rows: Sequence[Row], page: str) -> None:
  """`write` of the machine and of the rows without targets, as pages of readers have them."""
  write(name, f"{machine()}\n\n{table(rows, targets=False)}", page)


def page(sections: Sequence[Section], facts: str, command: str) -> str:
  """The text of `docs/benchmarks.md`."""
  parts = [_INTRODUCTION.format(command=command, facts=facts)]
  for section in sections:
    parts.append(f"## {section.title}\n\n{section.notes}\n\n{table(section.rows)}\n")
  return "\n".join(parts)


# The widest first: sorts of XLA and of NumPy depend on them.
_VECTORS = ("avx512f", "avx2", "asimd")


def _processor() -> str:
  """The processor and its widest vector instructions."""
  # platform.processor() is empty on many Linux systems.
  info = pathlib.Path("/proc/cpuinfo")
  if not info.exists():
    return platform.processor() or "unknown processor"
  lines = (line.partition(":") for line in info.read_text(encoding="utf-8").splitlines())
  facts = {name.strip(): value.strip() for name, _, value in lines}
  flags = (facts.get("flags") or facts.get("Features", "")).split()
  vectors = next((f" with {name}" for name in _VECTORS if name in flags), "")
  return (facts.get("model name") or platform.machine()) + vectors


_INTRODUCTION = """# Benchmarks

One command writes this page, run from a clone with the `peers` extra installed:

```sh
{command}
```

{facts}

All libraries run in one process on the same arrays. Each library gets them in its own type (JAX
arrays, NumPy arrays, torch tensors, `Qrels` and `Run`, dictionaries); the conversion is not timed.
Compiled functions are compiled and run once before the timing. Times are medians of repetitions in
which all libraries take turns; slow libraries take fewer turns. Every library uses its default
number of threads. If two sides of a row compute the same quantity, the run stops when their mean
values differ by more than 1e-4. The targets are set by this project for two CPU cores. The row of a
library that is not installed says so. [Accelerators](accelerators.md) has times on a GPU,
and [Fusion](fusion.md#what-it-costs) those of tuned weights beside `optimize_fusion` of ranx.
"""
