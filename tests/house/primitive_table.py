"""The table of primitives in `docs/internals.md`; `python -m tests.house` writes it."""

import inspect
import pathlib

from tests.helpers import primitives
from tests.house import metric_table

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "internals.md"


def page() -> str:
  """The text of the page with a regenerated table."""
  rows = []
  for name, primitive in sorted(primitives.table().items()):
    first = " ".join((inspect.getdoc(primitive.reference) or "").split("\n\n")[0].split())
    variants = [f"{', '.join(x.platforms)}: {x.gain}" for x in primitive.variants]
    rows.append([f"`{name}`", first.rstrip("."), "<br>".join(variants)])
  head = [
    "primitive",
    "what it computes",
    "variants, and what takes how many times as much without",
  ]
  text = PAGE.read_text(encoding="utf-8")
  return metric_table.with_sections(text, {"primitives": metric_table.table(head, rows)})
