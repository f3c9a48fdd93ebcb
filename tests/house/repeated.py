"""What several pages repeat: counts of metrics and losses, and figures of the benchmarks.

The counts follow from the descriptions, and so does the list of the metrics without a smooth form
in `docs/conventions.md`. The figures of README.md follow from `docs/benchmarks.md`.
`python -m tests.house` writes them.
"""

import functools
import pathlib
import re
import textwrap

from jaxrank import losses
from tests.house import metric_table

ROOT = pathlib.Path(__file__).parents[2]
README, BENCHMARKS = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
CONVENTIONS = ROOT / "docs" / "conventions.md"
PAGES = (
  README,
  *(ROOT / "docs" / f"{name}.md" for name in ("index", "contents", "conventions", "peers")),
)
# What README.md compares, and with what, as named in the benchmarks.
MEASURED = {
  "nDCG of the whole list": "nDCG, whole list, ties averaged",
  "nDCG@10": "nDCG@10, ties averaged",
  "average precision": "average precision, ties averaged",
}
AGAINST = {
  "rax": "rax",
  "torchmetrics": "torchmetrics, class",
  "ranx, sorted before": "ranx, sorted before",
}


def counts() -> dict[str, int]:
  """How many metrics and losses there are, by what pages call them."""
  return {
    "metrics": len(metric_table.described()),
    "losses": len({*losses.__all__} - {"neural_sort", "perturbed", "soft_sort"}),
  }


def ratios() -> dict[tuple[str, str], str]:
  """The ratio of each row of the benchmarks, by what is measured and the other side."""
  rows = re.findall(r"^\| (.*) \|$", BENCHMARKS.read_text(encoding="utf-8"), re.M)
  cells = [[cell.strip() for cell in row.split(" | ")] for row in rows]
  return {(row[0], row[2]): row[4] for row in cells if len(row) == 7}


def figures() -> str:
  """The table of README.md."""
  found = ratios()
  rows = [
    [name, *(f"{float(found[row, side]):.0f} times" for side in AGAINST.values())]
    for name, row in MEASURED.items()
  ]
  return metric_table.table(["metric, ties averaged", *AGAINST], rows)


def exact_only() -> str:
  """The list of `docs/conventions.md`: the metrics that no smooth ranking answers."""
  names = [f"`{name}`" for name in metric_table.exact_only()]
  listed = f"{', '.join(names[:-1])} and {names[-1]}."
  return "\n".join(textwrap.wrap(listed, 140, break_long_words=False, break_on_hyphens=False))


def text(page: pathlib.Path) -> str:
  """A page with the numbers of today."""
  written = page.read_text(encoding="utf-8")
  for name, count in counts().items():
    written = re.sub(rf"\b\d+ ranking {name}\b", f"{count} ranking {name}", written)
    written = re.sub(rf"(?m)^(\| ranking {name} \| )\d+", rf"\g<1>{count}", written)
  smooth = counts()["metrics"] - len(metric_table.exact_only())
  written = re.sub(r"\b\d+ of them take a smooth", f"{smooth} of them take a smooth", written)
  made = {README: ("figures", figures), CONVENTIONS: ("exact only", exact_only)}
  sections = {made[page][0]: made[page][1]()} if page in made else {}
  return metric_table.with_sections(written, sections)


FILES = {page: functools.partial(text, page) for page in PAGES}
