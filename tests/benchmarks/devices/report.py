"""Tables of what programs cost, and their section of a page."""

import datetime
import importlib.metadata
import pathlib
from collections.abc import Mapping, Sequence

from . import budgets, compilers, measuring
from .programs import Program

_COMMON = ("launches", "loops", "conditionals", "sorts", "memory")
_COLUMNS = {"cuda": _COMMON, "tpu": (*_COMMON, "cycles", "times by hand")}
_PACKAGES = (
  "jax",
  "jaxlib",
  "libtpu",
  "jax-cuda12-plugin",
  "nvidia-cuda-nvcc-cu12",
  "jax-cuda13-plugin",
  "rax",
  "torchmetrics",
  "torch",
)


def table(chosen: Sequence[Program], rows: Mapping[str, measuring.Row], platform: str) -> list[str]:
  """Lines of a Markdown table in the order of the programs; bold figures are above the budget."""
  body = [[program.name, *_cells(program, rows, platform)] for program in chosen]
  return lines(["program", *_COLUMNS[platform]], body)


def lines(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
  """The lines of a Markdown table, padded so that it also reads well in a terminal."""
  widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
  text = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
          for row in [head, *body]]  # fmt: skip
  return [text[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *text[1:]]


def _cells(program: Program, rows: Mapping[str, measuring.Row], platform: str) -> list[str]:
  row, count = rows[program.name], len(_COLUMNS[platform])
  if not row.counted:
    reason = "refused by the ranking" if row.refused else f"**fails**: {row.failure[:80]}"
    return [reason] + ["-"] * (count - 1)
  figures = measuring.figures(program, row, rows, platform)
  exceeded = measuring.above(program, row, rows, platform)
  budget = budgets.of(program)

  def cell(name: str, text: str) -> str:
    most = getattr(budget, name) if name in figures else None
    if most is None:
      return text
    return f"**{text}** of {most:g}" if name in exceeded else f"{text} of {most:g}"

  turned = f" ({', '.join(map(str, row.turns.values()))} turns)" if row.turns else ""
  cells = [
    cell("launches", f"{row.cost.launches:,}"),
    cell("loops", f"{row.cost.loops}") + turned,
    cell("conditionals", f"{row.cost.conditionals}"),
    f"{row.cost.sorts}",
    cell("memory", f"{figures['memory']:.1f}"),
  ]
  if platform == "tpu":
    ratio = f"{figures['cycles']:.3g}" if "cycles" in figures else "-"
    cells += [f"{row.cost.cycles:,}", cell("cycles", ratio)]
  return cells


def largest(
  chosen: Sequence[Program], rows: Mapping[str, measuring.Row], platform: str
) -> list[str]:
  """Lines of a table of the largest figure of each kind in each group at each shape."""
  names = [x for x in ("launches", "loops", "conditionals", "memory", "cycles")
           if x != ("cycles" if platform == "cuda" else "launches")]  # fmt: skip
  groups: dict[tuple[str, tuple[int, int]], list[tuple[str, dict[str, float]]]] = {}
  for program in chosen:
    if rows[program.name].counted:
      found = measuring.figures(program, rows[program.name], rows, platform)
      groups.setdefault((program.group, program.shape), []).append((program.title, found))
  body = []
  for (group, shape), members in groups.items():
    cells = []
    for name in names:
      having = [(found[name], title) for title, found in members if name in found]
      value, title = max(having, default=(0, ""))
      cells.append(f"{value:,.3g}: {title}" if value else "0" if having else "-")
    body.append([f"{group} {list(shape)}", *cells])
  return lines(["group", *names], body)


def heading(platform: str) -> str:
  """The heading of the section of a platform."""
  return f"## {compilers.NAMES[platform]}, as compiled"


def versions() -> str:
  """The date, and the versions of the compilers."""
  found = []
  for name in _PACKAGES:
    try:
      found.append(f"{name} {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
      continue
  return f"{datetime.date.today().isoformat()}; {', '.join(found)}."


def write(path: pathlib.Path, title: str, text: str) -> None:
  """Replaces the section of a page under a heading of level 2, or adds it at the end."""
  page = path.read_text(encoding="utf-8") if path.exists() else ""
  before, found, rest = page.partition(f"{title}\n")
  following = rest.find("\n## ")
  after = rest[following:] if found and following >= 0 else ""
  before = before if found else before + ("\n" if before else "")
  path.write_text(f"{before}{title}\n\n{text}\n{after}", encoding="utf-8")
